//! What a session changed in its working copy of a skill.

use std::collections::BTreeMap;

use skillbox_fs::{ConfinedDir, EntryKind, FileKind, Sha256, Tree};
use skillbox_types::MaterializeMethod;

use crate::EngineError;
use crate::load::LoadedSkill;
use crate::workspace::{SKILL_LINKS, SessionDirs};

/// Some of the paths of a working copy that differ from what was loaded.
pub(crate) fn local_changes(dirs: &SessionDirs, skill: &LoadedSkill) -> Result<Vec<String>, EngineError> {
    let name = skill.usage.name.as_str();
    let mut changes = Vec::new();
    if skill.usage.method == MaterializeMethod::Overlay {
        let upper = ConfinedDir::open(&dirs.upper(name, skill.usage.digest.hex()))?;
        for entry in upper.list("")? {
            let entry = entry.display();
            if !is_ours(&entry, &upper) {
                changes.push(entry);
            }
        }
    } else {
        let copy = ConfinedDir::open(&dirs.workspace())?.open_dir("skills")?.open_dir(name)?;
        changes = changes_of_copy(&copy, &skill.tree)?;
    }
    changes.truncate(5);
    Ok(changes)
}

/// Whether an entry of a skill's folder is one of the links that we made.
fn is_ours(path: &str, folder: &ConfinedDir) -> bool {
    SKILL_LINKS.iter().any(|(link, target)| {
        *link == path && folder.read_link(*link).is_ok_and(|found| found == target.as_bytes())
    })
}

/// The paths at which a copy differs from its stored tree: content, execute bits, what is gone and what is new.
fn changes_of_copy(copy: &ConfinedDir, tree: &Tree) -> Result<Vec<String>, EngineError> {
    let mut missing: BTreeMap<Vec<u8>, EntryKind> =
        tree.entries()?.into_iter().map(|entry| (entry.path, entry.kind)).collect();
    let mut changes = Vec::new();
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        for name in copy.list(&folder)? {
            let path = if folder.is_empty() {
                name.as_bytes().to_vec()
            } else {
                [folder.as_slice(), b"/", name.as_bytes()].concat()
            };
            let metadata = copy.metadata(&path)?;
            let same = match (missing.remove(&path), metadata.kind) {
                (Some(EntryKind::Directory), FileKind::Directory) => true,
                (Some(EntryKind::Symlink { target }), FileKind::Symlink) => {
                    copy.read_link(&path).is_ok_and(|found| found == target)
                }
                (Some(EntryKind::File { size, sha256, executable }), FileKind::Regular) => {
                    size == metadata.size
                        && executable == (metadata.mode & 0o100 != 0)
                        && copy.read(&path, size).is_ok_and(|content| Sha256::of(&content) == sha256)
                }
                _ => is_ours(&name.display(), copy) && folder.is_empty(),
            };
            if metadata.kind == FileKind::Directory {
                folders.push(path.clone());
            }
            if !same {
                changes.push(String::from_utf8_lossy(&path).into_owned());
            }
        }
    }
    // What a skill shipped under the names of our links gave way to them.
    let covered = |path: &[u8]| {
        SKILL_LINKS.iter().any(|(link, _)| {
            path.strip_prefix(link.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        })
    };
    changes.extend(
        missing.keys().filter(|path| !covered(path)).map(|path| String::from_utf8_lossy(path).into_owned()),
    );
    changes.sort();
    Ok(changes)
}
