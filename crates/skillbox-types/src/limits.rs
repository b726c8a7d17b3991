//! Limits on what a command and its session may use.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits in force. Every one of them is enforced; [`crate::Isolation`] says by what.
///
/// Memory, processes and the sizes of the memory filesystems belong to the session's sandbox as a whole; the others
/// to each process or command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Wall time of a command; `None` only where the caller asked for no limit.
    #[serde(rename = "wall_time_ms", with = "opt_ms")]
    #[schemars(with = "Option<u64>")]
    pub wall_time: Option<Duration>,
    /// CPU time of each process, in whole seconds (`RLIMIT_CPU` counts in seconds).
    #[serde(rename = "cpu_time_ms", with = "opt_ms")]
    #[schemars(with = "Option<u64>")]
    pub cpu_time: Option<Duration>,
    /// Memory of the whole session, including files in `/tmp` and `/dev/shm`.
    pub memory_bytes: u64,
    /// Processes and threads at one time.
    pub pids: u64,
    /// The largest file that a process may write.
    pub file_size_bytes: u64,
    /// Open file descriptors of each process.
    pub open_files: u64,
    /// Size of the private `/tmp`.
    pub tmp_bytes: u64,
    /// Size of the private `/dev/shm`.
    pub shm_bytes: u64,
    /// Bytes of stdout and of stderr that are kept, half of them from the beginning and half from the end.
    pub output_bytes: u64,
    /// Ends the command when stdout and stderr together pass this; `None` drains and counts the rest.
    pub output_kill_bytes: Option<u64>,
}

const MIB: u64 = 1 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_time: Some(Duration::from_secs(30)),
            cpu_time: Some(Duration::from_secs(30)),
            memory_bytes: 512 * MIB,
            pids: 64,
            file_size_bytes: 64 * MIB,
            open_files: 256,
            tmp_bytes: 64 * MIB,
            shm_bytes: 32 * MIB,
            output_bytes: MIB,
            output_kill_bytes: None,
        }
    }
}

/// Changes to [`Limits`], by name; what is not set stays as it was.
///
/// ```
/// use skillbox_types::{Limits, LimitsPatch};
/// let mut patch = LimitsPatch::default();
/// patch.set("memory=256MiB")?;
/// patch.set("wall_time=2m")?;
/// let limits = patch.apply(&Limits::default());
/// assert_eq!(limits.memory_bytes, 256 << 20);
/// # Ok::<(), skillbox_types::LimitError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsPatch {
    /// CPU time of each process, in milliseconds; rounded up to whole seconds.
    pub cpu_time_ms: Option<u64>,
    /// See [`Limits::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// See [`Limits::pids`].
    pub pids: Option<u64>,
    /// See [`Limits::file_size_bytes`].
    pub file_size_bytes: Option<u64>,
    /// See [`Limits::open_files`].
    pub open_files: Option<u64>,
    /// See [`Limits::tmp_bytes`].
    pub tmp_bytes: Option<u64>,
    /// See [`Limits::shm_bytes`].
    pub shm_bytes: Option<u64>,
    /// See [`Limits::output_bytes`].
    pub output_bytes: Option<u64>,
    /// See [`Limits::output_kill_bytes`].
    pub output_kill_bytes: Option<u64>,
    /// Wall time in milliseconds.
    pub wall_time_ms: Option<u64>,
}

/// Why a limit was refused; keeps the offending input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// No limit has this name.
    #[error("there is no limit named {0:?}; the names are {names}", names = LimitsPatch::NAMES.join(", "))]
    UnknownName(String),
    /// Not of the form `NAME=VALUE`.
    #[error("{0:?} is not of the form NAME=VALUE, such as memory=256MiB")]
    Form(String),
    /// The value is not a number, size or duration.
    #[error("limit {name}: {value:?} is not a {expected}")]
    Value {
        /// The limit.
        name: String,
        /// What was given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
}

impl LimitsPatch {
    /// The names that [`LimitsPatch::set`] takes.
    pub const NAMES: [&'static str; 10] = [
        "wall_time",
        "cpu_time",
        "memory",
        "pids",
        "file_size",
        "open_files",
        "tmp",
        "shm",
        "output",
        "output_kill",
    ];

    /// Sets one limit from `NAME=VALUE`; sizes take the suffixes `KiB MiB GiB TiB` (or `K M G T`), durations `ms s m h`.
    pub fn set(&mut self, text: &str) -> Result<(), LimitError> {
        let (name, value) = text.split_once('=').ok_or_else(|| LimitError::Form(text.to_owned()))?;
        let bad = |expected| LimitError::Value { name: name.to_owned(), value: value.to_owned(), expected };
        let size = || {
            parse_size(value)
                .ok_or_else(|| bad("size above zero in bytes, KiB, MiB, GiB or TiB, such as 64MiB"))
        };
        let count = || value.parse().ok().filter(|n| *n > 0).ok_or_else(|| bad("whole number of at least 1"));
        let time = || {
            parse_duration(value)
                .filter(|d| !d.is_zero())
                .and_then(|d| u64::try_from(d.as_millis()).ok())
                .ok_or_else(|| bad("duration above zero, a whole number of ms, s, m or h, such as 30s"))
        };
        match name.trim_end_matches("_bytes").trim_end_matches("_ms") {
            "wall_time" => self.wall_time_ms = Some(time()?),
            "cpu_time" => self.cpu_time_ms = Some(time()?),
            "memory" => self.memory_bytes = Some(size()?),
            "pids" => self.pids = Some(count()?),
            "file_size" => self.file_size_bytes = Some(size()?),
            "open_files" => self.open_files = Some(count()?),
            "tmp" => self.tmp_bytes = Some(size()?),
            "shm" => self.shm_bytes = Some(size()?),
            "output" => self.output_bytes = Some(size()?),
            "output_kill" => self.output_kill_bytes = Some(size()?),
            _ => return Err(LimitError::UnknownName(name.to_owned())),
        }
        Ok(())
    }

    /// The limits that result from this patch over `base`.
    pub fn apply(&self, base: &Limits) -> Limits {
        Limits {
            wall_time: self.wall_time_ms.map(Duration::from_millis).or(base.wall_time),
            cpu_time: self
                .cpu_time_ms
                .map(|ms| Duration::from_secs(ms.div_ceil(1000).max(1)))
                .or(base.cpu_time),
            memory_bytes: self.memory_bytes.unwrap_or(base.memory_bytes),
            pids: self.pids.unwrap_or(base.pids),
            file_size_bytes: self.file_size_bytes.unwrap_or(base.file_size_bytes),
            open_files: self.open_files.unwrap_or(base.open_files),
            tmp_bytes: self.tmp_bytes.unwrap_or(base.tmp_bytes),
            shm_bytes: self.shm_bytes.unwrap_or(base.shm_bytes),
            output_bytes: self.output_bytes.unwrap_or(base.output_bytes),
            output_kill_bytes: self.output_kill_bytes.or(base.output_kill_bytes),
        }
    }
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text.trim())?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => MIB,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor).filter(|n| *n > 0)
}

/// Parses `250ms`, `30s`, `2m`, `1h`, or a bare number of seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_number(text.trim())?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => Some(Duration::from_secs(number)),
        "m" | "min" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

mod opt_ms {
    use super::Duration;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "serde's `with` passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
