//! Confined directories, the content store, tree copies, globs and media types.
//!
//! The only crate of skillbox that works on files through [`std::fs`] and its like. Everything here is synchronous; an
//! asynchronous caller uses a blocking thread. Nothing follows a link that a script or a skill's author could have placed.
//!
//! - [`Store`]: skill trees under their digests; import, pins, garbage collection.
//! - [`copy_tree`], [`remove_tree`]: a stored tree into a workspace, and whole trees away.
//! - [`ConfinedDir`]: opening, writing and listing by relative paths that nothing leads out of.
//! - [`glob`], [`collect_walk`], [`mime`], [`save_file`]: finding, naming and saving output files.

mod confined;
mod copy;
mod error;
pub mod glob;
mod hash;
mod metadata;
pub mod mime;
mod remove;
mod saved;
mod store;
mod sys;
mod walk;

pub use confined::{ConfinedDir, Owner, RelativePath, WriteOptions};
pub use copy::{CopyReport, copy_tree};
pub use error::FsError;
pub use hash::{Sha256, hex};
pub use metadata::{FileKind, FileTime, Metadata};
pub use remove::{RemoveReport, remove_tree};
pub use saved::save_file;
pub use store::{Entry, EntryKind, GcReport, ImportOptions, Imported, Modes, Pin, Store, StoreError, Tree};
pub use walk::{Found, SkipReason, Skipped, WalkOptions, WalkReport, collect_walk};
