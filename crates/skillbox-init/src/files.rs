//! File work on the workspace, done inside the sandbox.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::Timespec;
use serde_bytes::ByteBuf;
use skillbox_fs::glob::{DefaultExclusion, PatternSet, SKILLS, STAGED_INPUTS, excluded_by_default};
use skillbox_fs::{
    ConfinedDir, FileTime, Found, FsError, Metadata, Sha256, SkipReason, WalkOptions, WriteOptions, mime,
};

use crate::protocol::{
    CHUNK, CollectOp, CollectSummary, FileOp, FileReply, FoundFile, FromInit, MAX_CONTENT, MIN_HEAD,
};
use crate::sys::FrameSocket;

/// Files of one frame.
const BATCH_FILES: usize = 256;
/// Larger files are not hashed: reading them could take a session's time limit many times over.
const HASH_MAX: u64 = 4 << 30;
/// Files with holes are not hashed beyond this: a terabyte of nothing costs its author nothing.
const SPARSE_HASH_MAX: u64 = 16 << 20;
/// How long one request may read files; what comes later is described without its content and digest.
const READ_TIME: Duration = Duration::from_secs(10);

/// Does `op` and sends the answers; an error means that the host is gone.
pub(crate) fn serve_file_op(
    host: &FrameSocket,
    workspace: &Path,
    request: u64,
    op: FileOp,
    start_of: &dyn Fn(u64) -> Option<Timespec>,
) -> io::Result<()> {
    let answer = |reply| host.send(&FromInit::File { request, reply }, &[]);
    let result = ConfinedDir::open(workspace).map_err(Failure::from).and_then(|root| match op {
        FileOp::Put { path, content, executable } => put(&root, &path, &content, executable),
        FileOp::Collect(op) => collect(&root, &op, start_of, &answer),
        FileOp::Read { path, max_bytes } => read(&root, &path, max_bytes, &answer),
    });
    match result {
        Ok(reply) => answer(reply),
        Err(Failure::Host(error)) => Err(error),
        Err(Failure::Files { errno, message }) => answer(FileReply::Failed { errno, message }),
    }
}

enum Failure {
    /// The host is gone.
    Host(io::Error),
    /// The work cannot be done.
    Files { errno: i32, message: String },
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        let errno = match &error {
            FsError::NoSpace { .. } => libc::ENOSPC,
            FsError::NotFound { .. } => libc::ENOENT,
            FsError::Exists { .. } => libc::EEXIST,
            FsError::Link { .. } => libc::ELOOP,
            FsError::NotADirectory { .. } => libc::ENOTDIR,
            FsError::Permission { .. } => libc::EACCES,
            FsError::Io { source, .. } => source.raw_os_error().unwrap_or(0),
            _ => libc::EINVAL,
        };
        Self::Files { errno, message: error.to_string() }
    }
}

fn put(root: &ConfinedDir, path: &[u8], content: &[u8], executable: bool) -> Result<FileReply, Failure> {
    if let Some(slash) = path.iter().rposition(|b| *b == b'/') {
        root.create_dir_all(&path[..slash], 0o755, None)?;
    }
    let options = WriteOptions { mode: if executable { 0o755 } else { 0o644 }, ..WriteOptions::default() };
    root.write_file(path, &mut &content[..], &options)?;
    Ok(FileReply::Done)
}

fn read(
    root: &ConfinedDir,
    path: &[u8],
    max_bytes: u64,
    answer: &dyn Fn(FileReply) -> io::Result<()>,
) -> Result<FileReply, Failure> {
    let (file, _) = root.open_regular(path)?;
    let mut file = file.take(max_bytes);
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = file.read(&mut buffer).map_err(|e| Failure::Files {
            errno: e.raw_os_error().unwrap_or(0),
            message: format!("reading {:?} failed: {e}", String::from_utf8_lossy(path)),
        })?;
        if count == 0 {
            return Ok(FileReply::Done);
        }
        answer(FileReply::Data(ByteBuf::from(&buffer[..count]))).map_err(Failure::Host)?;
    }
}

fn collect(
    root: &ConfinedDir,
    op: &CollectOp,
    start_of: &dyn Fn(u64) -> Option<Timespec>,
    answer: &dyn Fn(FileReply) -> io::Result<()>,
) -> Result<FileReply, Failure> {
    let patterns = PatternSet::parse(&op.patterns)
        .map_err(|e| Failure::Files { errno: libc::EINVAL, message: e.to_string() })?;
    let since = op
        .since_slot
        .and_then(start_of)
        .map(|at| FileTime { unix_nanos: i128::from(at.tv_sec) * 1_000_000_000 + i128::from(at.tv_nsec) });
    let mut collection = Collection {
        op,
        since,
        inputs_named: patterns.patterns().iter().any(|pattern| pattern.names_folder(STAGED_INPUTS)),
        skills_named: patterns.patterns().iter().any(|pattern| pattern.names_folder(SKILLS)),
        sent: 0,
        more: 0,
        matches: vec![0; patterns.patterns().len()],
        budget: op.max_total_bytes,
        batch: Vec::new(),
        batch_bytes: 0,
        buffer: vec![0; CHUNK],
        read_until: Instant::now() + READ_TIME,
        unread: 0,
        root,
        moved: HashMap::new(),
    };
    let mut host_gone = None;
    let report = skillbox_fs::collect_walk(root.as_fd(), &patterns, &WalkOptions::default(), &mut |found| {
        collection.visit(found);
        match collection.flush_if_full(answer) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                host_gone = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = host_gone {
        return Err(Failure::Host(error));
    }
    collection.flush(answer).map_err(Failure::Host)?;
    let near = op.patterns.iter().zip(report.near_misses).filter(|(_, near)| !near.is_empty());
    Ok(FileReply::CollectEnd(CollectSummary {
        near: near
            .map(|(pattern, near)| {
                (pattern.clone(), near.iter().map(skillbox_types::FileName::display).collect())
            })
            .collect(),
        matches: collection.matches,
        more: collection.more,
        skipped: report
            .skipped
            .into_iter()
            .map(|skipped| (ByteBuf::from(skipped.path.as_bytes()), reason(skipped.reason).to_owned()))
            .collect(),
        walk_limit_hit: report.limit_reached,
        unread: collection.unread,
    }))
}

fn reason(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Symlink => "a symbolic link",
        SkipReason::Special => "a pipe, socket or device",
        SkipReason::Unreadable => "a folder that cannot be listed",
        SkipReason::TooDeep => "a folder that is nested too deeply",
        SkipReason::Mount => "a mount",
        _ => "not a regular file",
    }
}

struct Collection<'a> {
    op: &'a CollectOp,
    since: Option<FileTime>,
    inputs_named: bool,
    skills_named: bool,
    sent: u64,
    more: u64,
    matches: Vec<u64>,
    budget: u64,
    batch: Vec<FoundFile>,
    batch_bytes: usize,
    buffer: Vec<u8>,
    read_until: Instant,
    unread: u64,
    root: &'a ConfinedDir,
    /// Folders, and whether they came to their place since the command began.
    moved: HashMap<Vec<u8>, bool>,
}

impl Collection<'_> {
    fn visit(&mut self, found: &Found<'_>) {
        // The stamp of the file as it is opened decides; this one only avoids opening what is left out.
        let moved = self.is_moved(found.path);
        if self.is_left_out(found.path, moved || self.touched(&found.metadata)) {
            return;
        }
        for pattern in found.patterns {
            self.matches[*pattern] += 1;
        }
        if self.sent == self.op.max_files {
            self.more += 1;
            return;
        }
        self.sent += 1;
        let mut file = match found.open() {
            Ok((file, metadata)) if Instant::now() < self.read_until => {
                self.digest(found.path, file, &metadata)
            }
            // It matched, and is named; that its content was not read is visible from the missing digest.
            _ => {
                self.unread += 1;
                self.describe(found.path, &found.metadata)
            }
        };
        if moved {
            (file.touched, file.created) = (true, true);
        }
        self.batch_bytes += file.content.len() + file.path.len() + 64;
        self.batch.push(file);
    }

    /// Whether a folder above the file was renamed since the command began: the files in it keep their stamps then, and are new
    /// at their place all the same. Renaming changes a folder's own change time, and not when its entries were last written.
    fn is_moved(&mut self, path: &[u8]) -> bool {
        let Some(since) = self.since else { return false };
        let Some(slash) = path.iter().rposition(|b| *b == b'/') else { return false };
        let folder = &path[..slash];
        if let Some(moved) = self.moved.get(folder) {
            return *moved;
        }
        let renamed = self
            .root
            .metadata(folder)
            .is_ok_and(|metadata| metadata.changed >= since && metadata.modified < since);
        let moved = renamed || self.is_moved(folder);
        self.moved.insert(folder.to_vec(), moved);
        moved
    }

    fn touched(&self, metadata: &Metadata) -> bool {
        self.since.is_some_and(|since| metadata.changed >= since)
    }

    fn is_left_out(&self, path: &[u8], touched: bool) -> bool {
        if touched {
            return false;
        }
        self.op.changed_only
            || match excluded_by_default(path) {
                Some(DefaultExclusion::StagedInput) => !self.inputs_named,
                Some(DefaultExclusion::UnchangedSkillFile) => !self.skills_named,
                None => false,
            }
    }

    fn describe(&self, path: &[u8], metadata: &Metadata) -> FoundFile {
        let created = self.since.is_some_and(|since| metadata.born.is_some_and(|born| born >= since));
        FoundFile {
            path: ByteBuf::from(path),
            size: metadata.size,
            mode: metadata.mode,
            sha256: None,
            content: ByteBuf::new(),
            created,
            touched: self.touched(metadata),
        }
    }

    fn digest(&mut self, path: &[u8], mut file: File, metadata: &Metadata) -> FoundFile {
        let mut described = self.describe(path, metadata);
        let sparse = metadata.blocks.saturating_mul(512) < metadata.size / 2;
        let hashed = metadata.size <= if sparse { SPARSE_HASH_MAX } else { HASH_MAX };
        let mut hash = Sha256::new();
        let mut keep = usize::try_from(MIN_HEAD).unwrap_or(usize::MAX);
        let mut total = 0_u64;
        let mut content = Vec::new();
        loop {
            let count = match file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return described,
            };
            if total == 0 {
                let head = self.buffer[..count.min(usize::try_from(MIN_HEAD).unwrap_or(usize::MAX))].to_vec();
                keep = keep.max(self.allowance(path, &head, metadata.size));
            }
            let piece = &self.buffer[..count];
            content.extend_from_slice(&piece[..count.min(keep - content.len())]);
            total += count as u64;
            if hashed {
                hash.update(piece);
            } else if content.len() == keep {
                break;
            }
            if total > HASH_MAX || Instant::now() >= self.read_until {
                // It grows while it is read, or it takes too long.
                self.unread += 1;
                described.content = ByteBuf::from(content);
                return described;
            }
        }
        if hashed {
            described.size = total;
            described.sha256 = Some(hash.finish());
        }
        described.content = ByteBuf::from(content);
        described
    }

    /// How much of a file's content is sent, given its first piece.
    fn allowance(&mut self, path: &[u8], head: &[u8], size: u64) -> usize {
        if !self.op.inline_binary && !mime::is_text(path, head) {
            return 0;
        }
        let allowed = size.min(self.op.max_file_bytes).min(self.budget).min(MAX_CONTENT);
        self.budget -= allowed;
        usize::try_from(allowed).unwrap_or(usize::MAX)
    }

    fn flush_if_full(&mut self, answer: &dyn Fn(FileReply) -> io::Result<()>) -> io::Result<()> {
        if self.batch.len() < BATCH_FILES && self.batch_bytes < CHUNK { Ok(()) } else { self.flush(answer) }
    }

    fn flush(&mut self, answer: &dyn Fn(FileReply) -> io::Result<()>) -> io::Result<()> {
        self.batch_bytes = 0;
        if self.batch.is_empty() { Ok(()) } else { answer(FileReply::Files(std::mem::take(&mut self.batch))) }
    }
}
