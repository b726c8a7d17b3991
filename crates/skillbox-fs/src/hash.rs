//! SHA-256, as used for digests of trees and files.

use sha2::Digest as _;

/// A running SHA-256.
#[derive(Clone, Default)]
pub struct Sha256(sha2::Sha256);

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}

impl Sha256 {
    /// Begins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Ends.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The digest of `bytes`.
    ///
    /// ```
    /// let empty = skillbox_fs::hex(&skillbox_fs::Sha256::of(b""));
    /// assert!(empty.starts_with("e3b0c44298fc1c14"));
    /// ```
    pub fn of(bytes: &[u8]) -> [u8; 32] {
        sha2::Sha256::digest(bytes).into()
    }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}
