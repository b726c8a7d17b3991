//! Why the store refused or failed.

use skillbox_types::SkillDigest;

use crate::FsError;

/// An error of the [`Store`](crate::Store); keeps what it was about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The source cannot be opened as a folder.
    #[error("cannot open the skill folder {path:?}: {source}")]
    Source {
        /// The folder.
        path: String,
        /// Why.
        source: FsError,
    },
    /// More entries than [`ImportOptions::max_files`](crate::ImportOptions).
    #[error(
        "skill folder {path:?} has more than {limit} files; leave some out with a .skillignore, or raise the limit"
    )]
    TooManyFiles {
        /// The source.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// More bytes than [`ImportOptions::max_bytes`](crate::ImportOptions).
    #[error(
        "skill folder {path:?} has more than {limit} bytes; leave some out with a .skillignore, or raise the limit"
    )]
    TooManyBytes {
        /// The source.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// Folders nested deeper than [`ImportOptions::max_depth`](crate::ImportOptions).
    #[error("{path:?} in the skill is nested deeper than {limit} folders; flatten it, or raise the limit")]
    TooDeep {
        /// The folder within the skill.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// A path longer than [`ImportOptions::max_path_bytes`](crate::ImportOptions).
    #[error("a path in the skill has more than {limit} bytes: {path:?}; shorten it, or raise the limit")]
    PathTooLong {
        /// The path within the skill.
        path: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A file kept changing while it was read.
    #[error(
        "{path:?} in the skill changed again and again while it was read; stop what writes to it and try again"
    )]
    SourceChanging {
        /// The file within the skill.
        path: String,
    },
    /// No tree with this digest is stored.
    #[error("no skill with digest {digest} is in the store; import its folder again")]
    NotStored {
        /// The digest.
        digest: SkillDigest,
    },
    /// A stored tree is not what its digest says, such as after a power loss.
    #[error("the stored skill {digest} is damaged ({what}); discard it and import its folder again")]
    Corrupt {
        /// The digest.
        digest: SkillDigest,
        /// What differs.
        what: String,
    },
    /// The tree is in use.
    #[error("the stored skill {digest} is in use by {owner:?}; close that session first")]
    Pinned {
        /// The digest.
        digest: SkillDigest,
        /// Who uses it.
        owner: String,
    },
    /// Not a name that a pin can carry.
    #[error(
        "pin owner {owner:?} is not valid; use 1 to 128 letters, digits, '.', '_' or '-', not starting with a dot"
    )]
    InvalidOwner {
        /// The offending name.
        owner: String,
    },
    /// A copy of a tree failed; nothing of it is left.
    #[error("cannot copy the stored skill {digest} into the workspace: {source}")]
    Copy {
        /// The digest.
        digest: SkillDigest,
        /// Why.
        source: FsError,
    },
    /// The store's own folder cannot be read or written.
    #[error("the skill store at {store:?} failed: {source}")]
    Store {
        /// The store's root.
        store: String,
        /// Why.
        source: FsError,
    },
}
