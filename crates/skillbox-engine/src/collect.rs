//! Output files by glob.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use skillbox_executor::{CollectOp, CollectSummary, FoundFile, Sandbox};
use skillbox_fs::{ConfinedDir, Sha256, glob::PatternSet, hex, mime, save_file};
use skillbox_types::{Change, FileName, OutputFile, OutputSpec, SkillName, Warning};

use crate::session::SessionState;
use crate::workspace::SKILL_LINKS;
use crate::{EngineError, Session};

/// What a collection found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// The files, sorted by path.
    pub files: Vec<OutputFile>,
    /// Limits that were hit, entries that were passed over, patterns without a match.
    pub warnings: Vec<Warning>,
}

impl Session {
    /// Collects files of the workspace as they are now; without a command to judge against, all count as unchanged.
    pub async fn collect(&self, spec: &OutputSpec) -> Result<Collected, EngineError> {
        PatternSet::parse(&spec.globs)?;
        let sandbox = {
            let mut state = self.inner.state.lock().await;
            self.inner.sandbox(&mut state).await?
        };
        self.collect_since(&sandbox, spec, None).await
    }

    pub(crate) async fn collect_since(
        &self,
        sandbox: &Sandbox,
        spec: &OutputSpec,
        since_slot: Option<u64>,
    ) -> Result<Collected, EngineError> {
        let op = CollectOp {
            patterns: spec.globs.clone(),
            since_slot,
            max_files: spec.max_files,
            max_file_bytes: spec.max_file_bytes,
            max_total_bytes: spec.max_total_bytes,
            changed_only: spec.changed_only,
            inline_binary: spec.inline_binary,
        };
        let mut found = Vec::new();
        let max = usize::try_from(spec.max_files).unwrap_or(usize::MAX);
        let summary = sandbox
            .collect(op, |batch| {
                // What comes from a sandbox is not believed to keep the limit.
                let room = max.saturating_sub(found.len());
                found.extend(batch.into_iter().take(room));
            })
            .await?;
        let mut budget = Budget::new(spec);
        let mut state = self.inner.state.lock().await;
        let files = found.into_iter().map(|file| output_file(&mut state, spec, &mut budget, file)).collect();
        let mut warnings = warnings(spec, &summary);
        warnings.extend(budget.warnings(spec));
        Ok(Collected { files, warnings })
    }

    /// Saves whole copies of collected files into a directory of the host, under the paths that they have in the workspace, and notes where in
    /// [`OutputFile::saved_to`]. Answers a warning for each file that could not be saved; only the directory itself is an error.
    pub async fn save(
        &self,
        files: &mut [OutputFile],
        dir: &std::path::Path,
    ) -> Result<Vec<Warning>, EngineError> {
        let target = ConfinedDir::open(dir)?;
        let sandbox = {
            let mut state = self.inner.state.lock().await;
            self.inner.sandbox(&mut state).await?
        };
        let mut warnings = Vec::new();
        for file in files {
            match save_one(&sandbox, &target, file).await {
                Ok(()) => file.saved_to = Some(dir.join(file.file_name().display()).display().to_string()),
                Err(error) => {
                    warnings
                        .push(Warning::new("not_saved", format!("{:?} was not saved: {error}", file.name)));
                }
            }
        }
        Ok(warnings)
    }
}

async fn save_one(sandbox: &Sandbox, target: &ConfinedDir, file: &OutputFile) -> Result<(), EngineError> {
    let path = file.file_name();
    let mut pieces = Pieces::default();
    let mut hash = Sha256::new();
    // A file that grows while it is read is saved as large as it was found.
    let keep = |piece: &[u8]| {
        hash.update(piece);
        pieces.push(piece)
    };
    sandbox.read(path.as_bytes(), file.size_bytes, keep).await?;
    let digest = hex(&hash.finish());
    if file.sha256.as_ref().is_some_and(|collected| *collected != digest) {
        return Err(EngineError::InvalidRequest("it changed since it was collected".to_owned()));
    }
    save_file(target, path.as_bytes(), &mut pieces.rewound()?)?;
    Ok(())
}

/// The content of a file on its way to the host: in memory while small, else in an unnamed file.
#[derive(Default)]
struct Pieces {
    spool: Option<tempfile::SpooledTempFile>,
}

impl Pieces {
    fn push(&mut self, piece: &[u8]) -> std::io::Result<()> {
        use std::io::Write as _;
        self.spool.get_or_insert_with(|| tempfile::spooled_tempfile(8 << 20)).write_all(piece)
    }

    fn rewound(self) -> Result<Box<dyn Read + Send>, EngineError> {
        use std::io::Seek as _;
        match self.spool {
            None => Ok(Box::new(std::io::empty())),
            Some(mut spool) => {
                spool
                    .rewind()
                    .map_err(|e| EngineError::Task(format!("cannot read a temporary file: {e}")))?;
                Ok(Box::new(spool))
            }
        }
    }
}

/// How many bytes of content may still be returned, and how often that was too little.
struct Budget {
    file: u64,
    total: u64,
    cut_by_file: u64,
    cut_by_total: u64,
}

impl Budget {
    fn new(spec: &OutputSpec) -> Self {
        Self { file: spec.max_file_bytes, total: spec.max_total_bytes, cut_by_file: 0, cut_by_total: 0 }
    }

    /// How much of a file of `size` bytes, of which `there` came, is returned.
    fn take(&mut self, size: u64, there: u64) -> u64 {
        let allowed = self.file.min(self.total).min(there);
        if there == 0 {
            // It was not read, which is told for itself.
        } else if size > self.file {
            self.cut_by_file += 1;
        } else if allowed < size {
            self.cut_by_total += 1;
        }
        self.total -= allowed;
        allowed
    }

    fn warnings(&self, spec: &OutputSpec) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.cut_by_file > 0 {
            let text = format!(
                "the content of {} files was cut off at {} bytes, the limit for one file; save them to have all of it",
                self.cut_by_file, spec.max_file_bytes
            );
            warnings.push(Warning::new("file_bytes_limit", text));
        }
        if self.cut_by_total > 0 {
            let text = format!(
                "the content of {} files was left out or cut off at {} bytes, the limit for all files; save them to have all of it",
                self.cut_by_total, spec.max_total_bytes
            );
            warnings.push(Warning::new("total_bytes_limit", text));
        }
        warnings
    }
}

fn output_file(
    state: &mut SessionState,
    spec: &OutputSpec,
    budget: &mut Budget,
    found: FoundFile,
) -> OutputFile {
    let path = FileName::from_bytes(found.path.into_vec());
    let content = found.content.into_vec();
    let is_text = mime::is_text(path.as_bytes(), &content);
    let mime_type = mime::mime_type(path.as_bytes(), &content).to_owned();
    let change = change(state, path.as_bytes(), found.sha256, found.created, found.touched);
    let wanted = is_text || spec.inline_binary;
    let allowed = if wanted { budget.take(found.size, content.len() as u64) } else { 0 };
    let inline = &content[..usize::try_from(allowed).unwrap_or(content.len())];
    let (text, content_base64) = if is_text {
        (text_of(inline), None)
    } else {
        (String::new(), spec.inline_binary.then(|| STANDARD.encode(inline)))
    };
    let (name, name_base64) = OutputFile::name_fields(&path);
    state.known.insert(path.as_bytes().to_vec(), found.sha256);
    OutputFile {
        name,
        content: text,
        mime_type,
        size_bytes: found.size,
        truncated: allowed < found.size,
        sha256: found.sha256.map(|digest| hex(&digest)),
        change,
        is_text,
        name_base64,
        content_base64,
        saved_to: None,
    }
}

/// Text that was cut off within a character ends before it.
fn text_of(bytes: &[u8]) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    };
    String::from_utf8_lossy(whole).into_owned()
}

/// A file that is younger than the command may still have replaced one of the same path; one that is older may have been moved to its
/// path, where something else was collected before.
fn change(
    state: &mut SessionState,
    path: &[u8],
    sha256: Option<[u8; 32]>,
    created: bool,
    touched: bool,
) -> Change {
    let known = state.known.get(path).copied();
    match (touched, created) {
        (false, _) if known.flatten().is_some_and(|before| sha256.is_some_and(|now| now != before)) => {
            Change::Modified
        }
        (false, _) => Change::Unchanged,
        (true, false) => Change::Modified,
        (true, true) if known.is_some() || is_of_a_skill(state, path) => Change::Modified,
        (true, true) => Change::New,
    }
}

fn is_of_a_skill(state: &mut SessionState, path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(b"skills/") else { return false };
    let Some(slash) = rest.iter().position(|b| *b == b'/') else { return false };
    let name = std::str::from_utf8(&rest[..slash]).ok().and_then(|name| SkillName::new(name).ok());
    name.and_then(|name| state.loaded.get_mut(&name)).is_some_and(|skill| skill.has(&rest[slash + 1..]))
}

/// The links that every skill's folder has are no news to anybody.
fn is_skill_link(path: &[u8]) -> bool {
    let mut parts = path.split(|b| *b == b'/');
    let (folder, _skill, name, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
    folder == Some(b"skills")
        && rest.is_none()
        && SKILL_LINKS.iter().any(|(link, _)| name == Some(link.as_bytes()))
}

fn warnings(spec: &OutputSpec, summary: &CollectSummary) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if summary.more > 0 {
        warnings.push(Warning::new(
            "more_files",
            format!("{} more files match; the limit is {} files", summary.more, spec.max_files),
        ));
    }
    for (pattern, matches) in spec.globs.iter().zip(&summary.matches) {
        if *matches > 0 {
            continue;
        }
        let near = summary.near.iter().find(|(of, _)| of == pattern).map(|(_, near)| near.join(", "));
        let hint = near.map_or_else(String::new, |near| format!("; similar: {near}"));
        warnings.push(Warning::new("no_match", format!("the pattern {pattern:?} matches no file{hint}")));
    }
    for (path, kind) in summary.skipped.iter().filter(|(path, _)| !is_skill_link(path)) {
        let path = String::from_utf8_lossy(path);
        warnings.push(Warning::new("not_collected", format!("{path:?} was not collected: it is {kind}")));
    }
    if summary.unread > 0 {
        let text = format!(
            "{} files have no digest: they cannot be read, are too large, or reading all files took too long",
            summary.unread
        );
        warnings.push(Warning::new("not_read", text));
    }
    if summary.walk_limit_hit {
        warnings.push(Warning::new(
            "too_many_entries",
            "the workspace holds too many files; not all were looked at",
        ));
    }
    warnings
}
