//! Skill folders for tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Writes a skill's folder.
///
/// ```
/// use skillbox_testkit::SkillBuilder;
/// let root = tempfile::tempdir()?;
/// let dir = SkillBuilder::new("greeter")
///     .script("scripts/hi.sh", "#!/bin/sh\necho hi\n")
///     .file("references/notes.md", "Be kind.\n")
///     .link("latest", "references/notes.md")
///     .write(root.path());
/// assert!(dir.join("SKILL.md").is_file());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SkillBuilder {
    name: String,
    entries: Vec<(PathBuf, Entry)>,
}

#[derive(Debug, Clone)]
enum Entry {
    File { content: Vec<u8>, mode: u32 },
    Link { target: PathBuf },
}

impl SkillBuilder {
    /// A skill of this name with a correct SKILL.md and nothing else.
    pub fn new(name: &str) -> Self {
        let manifest = format!("---\nname: {name}\ndescription: A skill of a test.\n---\n\n# {name}\n");
        Self { name: name.to_owned(), entries: Vec::new() }.file("SKILL.md", manifest)
    }

    /// Adds a file with mode 0644, or replaces it; `SKILL.md` may be replaced, too.
    #[must_use]
    pub fn file(self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.file_with_mode(path, content, 0o644)
    }

    /// Adds a file with mode 0755.
    #[must_use]
    pub fn script(self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.file_with_mode(path, content, 0o755)
    }

    /// Adds a file with permission bits of its own.
    #[must_use]
    pub fn file_with_mode(
        mut self,
        path: impl Into<PathBuf>,
        content: impl Into<Vec<u8>>,
        mode: u32,
    ) -> Self {
        let path = path.into();
        self.entries.retain(|(present, _)| *present != path);
        self.entries.push((path, Entry::File { content: content.into(), mode }));
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        self.entries.push((path.into(), Entry::Link { target: target.into() }));
        self
    }

    /// Writes the folder below `root`, over what is there, and answers its path.
    pub fn write(&self, root: &Path) -> PathBuf {
        let dir = root.join(&self.name);
        for (path, entry) in &self.entries {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().expect("entries are below the folder")).unwrap();
            match entry {
                Entry::File { content, mode } => {
                    fs::write(&path, content).unwrap();
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                }
                Entry::Link { target } => {
                    let _ = fs::remove_file(&path);
                    symlink(target, &path).unwrap();
                }
            }
        }
        dir
    }
}
