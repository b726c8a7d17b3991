//! Saving collected files to a directory of the caller.

use std::io::Read;

use crate::confined::{ConfinedDir, RelativePath, WriteOptions, validate};
use crate::error::{FsError, show};

/// Saves the bytes of `content` as `path` in `dir`, with the folders above it, and answers how many they were.
///
/// Names come from scripts, so nothing leads out of `dir`: `..` and absolute paths are refused, and a link in the way is an
/// error for a folder and replaced for the file itself. A file that exists is replaced as a whole. Modes are 0644 and 0755.
pub fn save_file<P: RelativePath + ?Sized>(
    dir: &ConfinedDir,
    path: &P,
    content: &mut dyn Read,
) -> Result<u64, FsError> {
    let path = validate(path.relative_bytes())?;
    let slash = path.iter().rposition(|b| *b == b'/');
    let (folder, name) = slash.map_or((None, path), |at| (Some(&path[..at]), &path[at + 1..]));
    let within = |error: FsError| match error {
        // Name the whole path, not only the part that was being worked on.
        FsError::Io { operation, source, .. } => FsError::Io { operation, path: show(path), source },
        other => other,
    };
    let options = WriteOptions::default();
    match folder {
        None => dir.write_file(name, content, &options),
        Some(folder) => {
            let folder = dir.create_dir_all(folder, 0o755, None)?;
            folder.write_file(name, content, &options).map_err(within)
        }
    }
}
