//! The canonical list of a tree's entries, whose SHA-256 is the tree's digest.
//!
//! ```text
//! "skillbox tree 1\n"
//! files: u64   bytes: u64   entries: u64          totals, derived from what follows
//! entry*                                          sorted by path bytes
//!   kind: u8                                      d folder, f file (0644), x executable file (0755), l link
//!   path length: u32, path bytes
//!   f, x: size: u64, SHA-256 of the content: 32 bytes
//!   l: target length: u32, target bytes
//! ```
//! Numbers are little-endian. Every part has a length or a fixed size, so two different trees never share an encoding.

use skillbox_types::SkillDigest;

use crate::hash::Sha256;

pub(crate) const MAGIC: &[u8; 16] = b"skillbox tree 1\n";
/// Magic and totals.
pub(crate) const HEADER_LEN: usize = 16 + 3 * 8;

/// What an entry of a stored tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder, mode 0755.
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// SHA-256 of the content.
        sha256: [u8; 32],
        /// Mode 0755 if true, else 0644.
        executable: bool,
    },
    /// A relative symbolic link that stays inside the tree.
    Symlink {
        /// Its text.
        target: Vec<u8>,
    },
}

/// An entry of a stored tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the tree, any bytes but NUL, `/` between components.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
}

/// Totals of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Encodes the entries, sorting them.
pub(crate) fn encode(entries: &mut [Entry]) -> (Vec<u8>, Totals, SkillDigest) {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut totals = Totals { entries: entries.len() as u64, ..Totals::default() };
    let mut out = Vec::with_capacity(HEADER_LEN + entries.len() * 80);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; HEADER_LEN - MAGIC.len()]);
    for entry in &*entries {
        let kind = match &entry.kind {
            EntryKind::Directory => b'd',
            EntryKind::File { executable: false, .. } => b'f',
            EntryKind::File { executable: true, .. } => b'x',
            EntryKind::Symlink { .. } => b'l',
        };
        out.push(kind);
        put_bytes(&mut out, &entry.path);
        match &entry.kind {
            EntryKind::Directory => {}
            EntryKind::File { size, sha256, .. } => {
                totals.files += 1;
                totals.bytes += size;
                out.extend_from_slice(&size.to_le_bytes());
                out.extend_from_slice(sha256);
            }
            EntryKind::Symlink { target } => put_bytes(&mut out, target),
        }
    }
    for (slot, number) in [totals.files, totals.bytes, totals.entries].into_iter().enumerate() {
        let at = MAGIC.len() + slot * 8;
        out[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    let digest = SkillDigest::from_sha256(&Sha256::of(&out));
    (out, totals, digest)
}

/// Paths and link texts are limited by the kernel to 4096 bytes, far below the length field.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The totals of a manifest's first [`HEADER_LEN`] bytes.
pub(crate) fn decode_header(bytes: &[u8]) -> Option<Totals> {
    let mut reader = Reader { rest: bytes };
    (reader.take(MAGIC.len())? == MAGIC).then_some(())?;
    Some(Totals { files: reader.u64()?, bytes: reader.u64()?, entries: reader.u64()? })
}

/// All entries of a manifest; `None` where it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Entry>> {
    let totals = decode_header(bytes)?;
    let mut reader = Reader { rest: &bytes[HEADER_LEN..] };
    let mut entries = Vec::new();
    while !reader.rest.is_empty() {
        let kind = reader.take(1)?[0];
        let path = reader.sized()?.to_vec();
        let kind = match kind {
            b'd' => EntryKind::Directory,
            b'f' | b'x' => EntryKind::File {
                size: reader.u64()?,
                sha256: reader.take(32)?.try_into().ok()?,
                executable: kind == b'x',
            },
            b'l' => EntryKind::Symlink { target: reader.sized()?.to_vec() },
            _ => return None,
        };
        entries.push(Entry { path, kind });
    }
    (entries.len() as u64 == totals.entries).then_some(entries)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let count = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(count).ok()?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn any_entry() -> impl Strategy<Value = Entry> {
        let kind = prop_oneof![
            Just(EntryKind::Directory),
            (0..99_u64, any::<[u8; 32]>(), any::<bool>())
                .prop_map(|(size, sha256, executable)| EntryKind::File { size, sha256, executable }),
            prop::collection::vec(1..=255_u8, 1..9).prop_map(|target| EntryKind::Symlink { target }),
        ];
        (prop::collection::vec(1..=255_u8, 1..9), kind).prop_map(|(path, kind)| Entry { path, kind })
    }

    fn any_tree() -> impl Strategy<Value = Vec<Entry>> {
        prop::collection::vec(any_entry(), 0..6).prop_map(|mut entries| {
            entries.sort_by(|a, b| a.path.cmp(&b.path));
            entries.dedup_by(|a, b| a.path == b.path);
            entries
        })
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(entries in any_tree()) {
            let (bytes, totals, _) = encode(&mut entries.clone());
            prop_assert_eq!(decode(&bytes), Some(entries));
            prop_assert_eq!(decode_header(&bytes), Some(totals));
        }

        #[test]
        fn digests_are_equal_exactly_for_equal_trees(a in any_tree(), b in any_tree()) {
            let same = encode(&mut a.clone()).2 == encode(&mut b.clone()).2;
            prop_assert_eq!(same, a == b);
            let mut reversed = a.clone();
            reversed.reverse();
            prop_assert_eq!(encode(&mut a.clone()).2, encode(&mut reversed).2);
        }

        #[test]
        fn damage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..200_usize) {
            let _ = decode(&bytes);
            let mut whole = MAGIC.to_vec();
            whole.extend_from_slice(&bytes);
            let _ = decode(&whole[..cut.min(whole.len())]);
        }
    }
}
