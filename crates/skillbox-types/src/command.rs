//! What a caller asks to be run.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LimitsPatch, OutputSpec, SkillName, WorkspacePath, limits::parse_duration};

/// One command: a program with its arguments, or a script for the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// A program and its arguments, passed on as they are; no shell reads them.
    Argv(Vec<String>),
    /// A script for `/bin/sh -c`.
    Shell(String),
}

/// What a command reads from its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// `/dev/null`: every read answers end of file.
    #[default]
    Null,
    /// This text, then end of file.
    Text(String),
    /// These bytes, then end of file; in base64 on the wire.
    Base64(
        #[serde(with = "base64_bytes")]
        #[schemars(with = "String")]
        Vec<u8>,
    ),
}

/// The time limit of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    /// The engine's default.
    #[default]
    Default,
    /// This long, in milliseconds, from the start of the program.
    Ms(u64),
    /// No limit; must be asked for in so many words.
    Unlimited,
}

impl TimeLimit {
    /// Parses `30s`, `250ms`, `2m`, `1h`, a bare number of seconds, or `none`; zero is refused.
    ///
    /// ```
    /// use skillbox_types::TimeLimit;
    /// assert_eq!(TimeLimit::parse("1500ms"), Some(TimeLimit::Ms(1500)));
    /// assert_eq!(TimeLimit::parse("none"), Some(TimeLimit::Unlimited));
    /// assert_eq!(TimeLimit::parse("0"), None);
    /// assert_eq!(TimeLimit::parse("-5s"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::Unlimited);
        }
        let ms = u64::try_from(parse_duration(text)?.as_millis()).ok()?;
        (ms > 0).then_some(Self::Ms(ms))
    }

    /// The limit in force, given the engine's default.
    pub fn resolve(self, default: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Default => default,
            Self::Ms(ms) => Some(Duration::from_millis(ms)),
            Self::Unlimited => None,
        }
    }
}

/// A file to stage before the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Where it is put, relative to the workspace; `work/inputs/<name>` by convention.
    pub path: WorkspacePath,
    /// Its content.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub content: Vec<u8>,
    /// Whether it is made executable.
    #[serde(default)]
    pub executable: bool,
}

/// A request to run one command in a session and to collect what it made.
///
/// ```
/// use skillbox_types::{CommandLine, ExecRequest};
/// let request = ExecRequest::new(CommandLine::Shell("echo hi > $OUTPUT_DIR/hi.txt".into()));
/// assert!(request.skill.is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// What to run.
    pub command: CommandLine,
    /// The loaded skill on whose behalf it runs: its folder becomes the working directory.
    #[serde(default)]
    pub skill: Option<SkillName>,
    /// The working directory: relative to the skill's folder where there is one, else to the workspace; may begin with
    /// `$WORKSPACE_DIR`, `$SKILLS_DIR`, `$WORK_DIR`, `$OUTPUT_DIR` or `$SKILL_DIR`.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Variables added to the fixed environment; a name that the engine sets too is the caller's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What the command reads.
    #[serde(default)]
    pub stdin: Stdin,
    /// How long it may run.
    #[serde(default)]
    pub timeout: TimeLimit,
    /// Limits that differ from the session's.
    #[serde(default)]
    pub limits: LimitsPatch,
    /// Files to stage first.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// Which files to collect afterwards.
    #[serde(default)]
    pub outputs: OutputSpec,
    /// Whether the result holds the kept bytes of stdout and stderr exactly, too, in base64.
    #[serde(default)]
    pub base64_output: bool,
}

impl ExecRequest {
    /// A request for `command` with every default.
    pub fn new(command: CommandLine) -> Self {
        Self {
            command,
            skill: None,
            cwd: None,
            env: BTreeMap::new(),
            stdin: Stdin::Null,
            timeout: TimeLimit::Default,
            limits: LimitsPatch::default(),
            inputs: Vec::new(),
            outputs: OutputSpec::default(),
            base64_output: false,
        }
    }
}

pub(crate) mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
