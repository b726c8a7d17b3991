//! Taking a skill folder into the store.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillbox_types::{SkillDigest, Warning};

use super::construction::Construction;
use super::fingerprint::{self, Freshness, Key, Known, Remembered};
use super::importer::Importer;
use super::{MANIFEST, Pin, Store, StoreError, TREE, manifest};
use crate::error::{FsError, show};
use crate::sys;

/// Where execute bits come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Modes {
    /// From the source's owner-execute bits. Where no file of the tree has one, the source has lost them, and files that
    /// start with `#!` are made executable, with the warning `execute_bit_restored`.
    #[default]
    Keep,
    /// The source carries no modes, such as an archive made on Windows: exactly the files that start with `#!` are executable.
    FromShebang,
}

/// Limits and choices of [`Store::import`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImportOptions {
    /// The most files, folders and links.
    pub max_files: u64,
    /// The most bytes of all files.
    pub max_bytes: u64,
    /// The deepest nesting of folders; at most 128.
    pub max_depth: usize,
    /// The most bytes of a path within the skill.
    pub max_path_bytes: usize,
    /// Where execute bits come from.
    pub modes: Modes,
    /// Whether scripts whose first line ends in CR LF are stored with LF line ends throughout, with the warning
    /// `crlf_normalised`. Off by default: the source is the author's.
    pub normalise_crlf: bool,
    /// How long a source that this process has found unchanged is taken for unchanged without a look. Zero, the default,
    /// looks each time, at the cost of one `statx` per file of the skill.
    pub trust_for: Duration,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            max_files: 100_000,
            max_bytes: 2 << 30,
            max_depth: 64,
            max_path_bytes: 2048,
            modes: Modes::Keep,
            normalise_crlf: false,
            trust_for: Duration::ZERO,
        }
    }
}

/// The outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The tree's digest.
    pub digest: SkillDigest,
    /// Number of regular files.
    pub files: u64,
    /// Bytes of all regular files.
    pub bytes: u64,
    /// What was skipped or repaired; the same warnings each time.
    pub warnings: Vec<Warning>,
    /// Whether the source was known to be unchanged and was not read.
    pub cached: bool,
}

impl Store {
    /// Stores the skill folder `source` under its digest, or finds that it is stored already.
    ///
    /// Left out are `.git`, `__pycache__`, `*.pyc`, `.DS_Store`, the file `.skillignore`, and what that names (in the
    /// gitignore dialect; never `SKILL.md`). Links stay links where they are relative and stay inside the folder; others,
    /// and FIFOs, sockets and devices, are skipped. Modes become 0644 or 0755. The source is never written to.
    ///
    /// Warning codes: `link_skipped`, `special_file_skipped`, `skill_md_kept`, `skillignore_line_invalid`,
    /// `execute_bit_restored`, `crlf_shebang`, `crlf_normalised`, `warnings_omitted`.
    ///
    /// The source may change meanwhile: what is hashed is what is stored, and a file that changes while it is read is
    /// read again.
    pub fn import(&self, source: &Path, options: &ImportOptions) -> Result<Imported, StoreError> {
        let failed = |error| StoreError::Source { path: show(sys::path_bytes(source)), source: error };
        let key = fingerprint::key(source, options);
        let remembered = self.recall(&key);
        if let Some(Remembered { known, proved: Some(proved) }) = &remembered
            && proved.elapsed() < options.trust_for
            && let Some(imported) = self.answer(known)
        {
            return Ok(imported);
        }
        let root = sys::open_host_dir(source)
            .map_err(|e| failed(FsError::new("open", sys::path_bytes(source), e)))?;
        if let Some(Remembered { known, .. }) = &remembered
            && let Some(imported) = self.check_again(&key, known, root.as_fd())
        {
            return Ok(imported);
        }
        self.import_anew(source, &root, options, key)
    }

    /// Imports and pins in one step, so that no collection comes between.
    pub fn import_pinned(
        &self,
        source: &Path,
        options: &ImportOptions,
        owner: &str,
    ) -> Result<(Imported, Pin), StoreError> {
        loop {
            let imported = self.import(source, options)?;
            match self.pin(&imported.digest, owner) {
                Ok(pin) => return Ok((imported, pin)),
                // Collected in between; import it again.
                Err(StoreError::NotStored { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What is known of a source, if a look at it shows no change and the tree is still stored.
    fn check_again(&self, key: &Key, known: &Arc<Known>, root: BorrowedFd<'_>) -> Option<Imported> {
        let began = Instant::now();
        let answer = self.answer(known)?;
        match known.check(root) {
            Freshness::Same => self.remember(*key, Arc::clone(known), began),
            Freshness::SameSince(taken) => self.refresh(*key, known, taken, began),
            Freshness::Changed => return None,
        }
        Some(answer)
    }

    fn answer(&self, known: &Known) -> Option<Imported> {
        let digest: SkillDigest = known.digest.parse().ok()?;
        self.touch(&digest).then(|| Imported {
            digest,
            files: known.files,
            bytes: known.bytes,
            warnings: known.warnings.clone(),
            cached: true,
        })
    }

    fn import_anew(
        &self,
        source: &Path,
        root: &OwnedFd,
        options: &ImportOptions,
        key: Key,
    ) -> Result<Imported, StoreError> {
        let (taken, began) = (fingerprint::now(), Instant::now());
        let object = Construction::begin(self)?;
        let tree = object.folder(TREE)?;
        let mut importer = Importer::new(self, source, options, root.as_fd())?;
        importer.folder(root, &tree, &mut Vec::new(), 0)?;
        importer.restore_execute_bits(&tree)?;
        let (bytes, totals, digest) = manifest::encode(&mut importer.entries);
        object.write(MANIFEST, &bytes)?;
        object.publish(&digest)?;

        let warnings = importer.warnings();
        let known = Arc::new(Known {
            taken,
            stamps: importer.stamps,
            digest: digest.to_string(),
            files: totals.files,
            bytes: totals.bytes,
            warnings: warnings.clone(),
        });
        if !importer.changed {
            self.persist(&key, &known);
            self.remember(key, known, began);
        }
        Ok(Imported { digest, files: totals.files, bytes: totals.bytes, warnings, cached: false })
    }
}
