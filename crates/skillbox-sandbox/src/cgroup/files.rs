//! Reading and writing the kernel's small files.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use super::CgroupError;

/// Writes `text` in one system call. Never creates a file: what the kernel does not offer is an error.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CgroupError> {
    try_write(path, text).map_err(|source| CgroupError::io(format!("write {text:?} to"), path, source))
}

pub(super) fn try_write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

pub(super) fn read(path: &Path) -> Result<String, CgroupError> {
    fs::read_to_string(path).map_err(|source| CgroupError::io("read", path, source))
}

/// The content of an open file, from its beginning.
pub(super) fn reread(file: &File) -> io::Result<String> {
    let mut buffer = vec![0; 4096];
    let mut filled = 0;
    loop {
        let read = file.read_at(buffer.get_mut(filled..).unwrap_or_default(), filled as u64)?;
        filled += read;
        if read == 0 {
            buffer.truncate(filled);
            return String::from_utf8(buffer)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        }
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
    }
}

/// The value of `key` in a file of lines `key value`.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The process numbers of a `cgroup.procs` file. Those of processes that this process namespace cannot see (0) are left out.
pub(super) fn parse_pids(text: &str) -> Vec<i32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect()
}

pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    #[cfg(test)]
    super::tests::fake::populate(path);
    Ok(())
}

/// Removes an empty cgroup; one that is gone already is no error.
pub(super) fn remove_dir(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    super::tests::fake::empty(path);
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
