//! What a kept session remembers between engines: which skills are in its workspace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skillbox_fs::{ConfinedDir, FsError, WriteOptions};
use skillbox_types::{SkillName, SkillUse};

/// The file in the session's folder, outside the workspace: a script can neither read nor forge it.
const FILE: &str = "session.json";
/// Far more than any session's record.
const MAX_BYTES: u64 = 16 << 20;
/// The version that this engine writes; it reads no other.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    skills: Vec<SkillUse>,
}

/// Reads the record; a session without one has no skills.
pub(crate) fn read(dir: &ConfinedDir) -> Result<BTreeMap<SkillName, SkillUse>, FsError> {
    let bytes = match dir.read(FILE, MAX_BYTES) {
        Err(FsError::NotFound { .. }) => return Ok(BTreeMap::new()),
        other => other?,
    };
    let invalid = |why: String| FsError::Io {
        operation: "understand",
        path: FILE.to_owned(),
        source: std::io::Error::other(why),
    };
    let record: Record = serde_json::from_slice(&bytes).map_err(|e| invalid(e.to_string()))?;
    if record.version != VERSION {
        return Err(invalid(format!(
            "it is of version {}; this engine reads version {VERSION}",
            record.version
        )));
    }
    Ok(record.skills.into_iter().map(|skill| (skill.name.clone(), skill)).collect())
}

/// Replaces the record.
pub(crate) fn write<'a>(
    dir: &ConfinedDir,
    skills: impl Iterator<Item = &'a SkillUse>,
) -> Result<(), FsError> {
    let record = Record { version: VERSION, skills: skills.cloned().collect() };
    let bytes = serde_json::to_vec(&record).unwrap_or_default();
    let options = WriteOptions { mode: 0o600, ..WriteOptions::default() };
    dir.write_file(FILE, &mut bytes.as_slice(), &options).map(|_| ())
}
