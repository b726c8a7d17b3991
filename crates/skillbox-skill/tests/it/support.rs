//! Folders with skills.

use std::fs;
use std::path::{Path, PathBuf};

use skillbox_skill::{Code, Diagnostic, Manifest, ReadOptions, Repository, Root, ScanOptions, read_text};

/// A root with skills in a temporary folder.
pub(crate) struct Skills {
    pub(crate) folder: tempfile::TempDir,
}

impl Skills {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `SKILL.md` in `folder` (relative, made if absent); gives the folder's path.
    pub(crate) fn skill(&self, folder: &str, text: impl AsRef<[u8]>) -> PathBuf {
        self.file(&format!("{folder}/SKILL.md"), text);
        self.path().join(folder)
    }

    pub(crate) fn good(&self, folder: &str, name: &str) -> PathBuf {
        self.skill(folder, good(name))
    }

    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn scan(&self) -> Repository {
        Repository::scan(&[Root::new(self.path())], &ScanOptions::default())
    }
}

/// A text that keeps every rule.
pub(crate) fn good(name: &str) -> String {
    format!("---\nname: {name}\ndescription: A test skill.\n---\n# Body\n")
}

/// A text with the name `s` and a field more.
pub(crate) fn with(field: &str) -> String {
    format!("---\nname: s\ndescription: A test skill.\n{field}\n---\n# Body\n")
}

/// Reads a text as the SKILL.md of the folder `s`.
pub(crate) fn read(text: impl AsRef<[u8]>) -> (Option<Manifest>, Vec<Diagnostic>) {
    read_with(text, ReadOptions::default())
}

pub(crate) fn read_with(text: impl AsRef<[u8]>, options: ReadOptions) -> (Option<Manifest>, Vec<Diagnostic>) {
    let report = read_text(Path::new("s/SKILL.md"), text.as_ref(), options);
    (report.manifest, report.diagnostics)
}

/// The text must load.
pub(crate) fn load(text: impl AsRef<[u8]>) -> (Manifest, Vec<Diagnostic>) {
    let (manifest, diagnostics) = read(text);
    (manifest.unwrap_or_else(|| panic!("does not load: {diagnostics:?}")), diagnostics)
}

/// The text must not load; the code of its fault.
pub(crate) fn fault(text: impl AsRef<[u8]>) -> Code {
    let (manifest, diagnostics) = read(text);
    assert_eq!(manifest, None);
    diagnostics.iter().find(|d| d.severity == skillbox_skill::Severity::Error).unwrap().code
}

pub(crate) fn codes(diagnostics: &[Diagnostic]) -> Vec<Code> {
    diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

/// The codes that break the specification.
pub(crate) fn strict_codes(diagnostics: &[Diagnostic]) -> Vec<Code> {
    diagnostics.iter().filter(|diagnostic| diagnostic.strict).map(|diagnostic| diagnostic.code).collect()
}
