//! What a request answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{End, Isolation, Limits, OutputFile, SkillDigest, SkillName, Warning};

/// What a command wrote to one stream: the beginning and the end of it, and how much it was in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Captured {
    /// The kept bytes as text. Where something was left out, a line between head and tail says how much.
    pub text: String,
    /// Bytes written in all.
    pub total_bytes: u64,
    /// Whether bytes were left out.
    pub truncated: bool,
    /// Whether bytes that are not UTF-8 were replaced in `text`.
    pub lossy: bool,
    /// The kept bytes exactly (head, then tail), where asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub base64: Option<String>,
}

impl Captured {
    /// From the kept head and tail of a stream of `total_bytes`.
    ///
    /// ```
    /// use skillbox_types::Captured;
    /// let captured = Captured::new(b"first\n", b"last\n", 111, false);
    /// assert_eq!(captured.text, "first\n[... 100 bytes left out ...]\nlast\n");
    /// assert!(captured.truncated);
    /// ```
    pub fn new(head: &[u8], tail: &[u8], total_bytes: u64, with_base64: bool) -> Self {
        let omitted = total_bytes.saturating_sub((head.len() + tail.len()) as u64);
        let kept = [head, tail].concat();
        let base64 = with_base64.then(|| STANDARD.encode(&kept));
        let (text, lossy) = if omitted == 0 {
            lossy_text(&kept)
        } else {
            // Cuts in the middle of a character are ours, not the program's: drop the halves instead of replacing them.
            let (head_text, head_lossy) = lossy_text(trim_partial_end(head));
            let (tail_text, tail_lossy) = lossy_text(trim_partial_start(tail));
            let newline = if head_text.is_empty() || head_text.ends_with('\n') { "" } else { "\n" };
            let text = format!("{head_text}{newline}[... {omitted} bytes left out ...]\n{tail_text}");
            (text, head_lossy || tail_lossy)
        };
        Self { text, total_bytes, truncated: omitted > 0, lossy, base64 }
    }
}

fn lossy_text(bytes: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes);
    let lossy = matches!(text, std::borrow::Cow::Owned(_));
    (text.into_owned(), lossy)
}

fn trim_partial_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        // `error_len` is None exactly when the input ends within a character.
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

fn trim_partial_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes.iter().take(3).take_while(|b| (**b & 0xC0) == 0x80).count();
    &bytes[continuation..]
}

/// How a skill was placed in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaterializeMethod {
    /// A writable overlay over the stored tree; independent of the skill's size.
    Overlay,
    /// Copies that share their blocks with the store.
    Reflink,
    /// Plain copies.
    Copy,
}

/// The skill that a command ran for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillUse {
    /// Its name.
    pub name: SkillName,
    /// Digest of the stored tree.
    pub digest: SkillDigest,
    /// How it was materialized.
    pub method: MaterializeMethod,
}

/// What a command used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// From the program's start to its end.
    pub wall_ms: u64,
    /// User and system time of the whole tree where a cgroup counts it, else of the processes that were waited for.
    pub cpu_ms: u64,
    /// The most memory at one time: of the whole tree where a cgroup counts it, else of the largest process.
    pub peak_memory_bytes: Option<u64>,
}

/// Where the time of a request went, by stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// Opening or finding the session's sandbox.
    pub open: u64,
    /// Materializing skills and staging inputs.
    pub materialize: u64,
    /// The command itself, including the start of its process.
    pub execute: u64,
    /// Collecting output files.
    pub collect: u64,
    /// All of it.
    pub total: u64,
}

/// The answer to an [`ExecRequest`](crate::ExecRequest): the same from the library, the command line and the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecResult {
    /// How the command ended.
    pub end: End,
    /// What it wrote to stdout.
    pub stdout: Captured,
    /// What it wrote to stderr.
    pub stderr: Captured,
    /// The collected files, sorted by path.
    pub output_files: Vec<OutputFile>,
    /// The skill it ran for.
    pub skill: Option<SkillUse>,
    /// What was enforced.
    pub isolation: Isolation,
    /// The limits that were in force.
    pub limits: Limits,
    /// What it used.
    pub usage: Usage,
    /// Milliseconds by stage.
    pub timing_ms: Timing,
    /// Everything that went less than perfectly.
    pub warnings: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_within_a_character_is_not_lossy() {
        let text = "ä".repeat(10).into_bytes();
        let captured = Captured::new(&text[..3], &text[17..], 20, false);
        assert_eq!(captured.text, "ä\n[... 14 bytes left out ...]\nä");
        assert!(!captured.lossy);
    }

    #[test]
    fn bytes_that_are_not_text_are_marked() {
        let captured = Captured::new(b"a\xffb", b"", 3, true);
        assert_eq!((captured.text.as_str(), captured.lossy, captured.truncated), ("a\u{fffd}b", true, false));
        assert_eq!(captured.base64.as_deref(), Some("Yf9i"));
    }
}
