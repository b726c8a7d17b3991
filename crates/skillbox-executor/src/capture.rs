//! The head and the tail of a stream, in bounded memory.

use skillbox_types::Captured;

/// Keeps the first and the last bytes of a stream, and counts all of them.
///
/// ```
/// use skillbox_executor::Capture;
/// let mut capture = Capture::new(8);
/// capture.push(b"0123456789abcdef");
/// assert_eq!((capture.head(), capture.tail(), capture.total()), (&b"0123"[..], b"cdef".to_vec(), 16));
/// ```
#[derive(Debug, Clone)]
pub struct Capture {
    head: Vec<u8>,
    /// A ring once it is full: the oldest byte is at `start`.
    tail: Vec<u8>,
    start: usize,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `limit` bytes: half from the beginning, half from the end.
    pub fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let head_limit = limit / 2;
        Self {
            head: Vec::new(),
            tail: Vec::new(),
            start: 0,
            head_limit,
            tail_limit: limit - head_limit,
            total: 0,
        }
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let to_head = bytes.len().min(self.head_limit - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        self.push_tail(&bytes[to_head..]);
    }

    fn push_tail(&mut self, bytes: &[u8]) {
        // Only the last bytes can stay.
        let bytes = &bytes[bytes.len().saturating_sub(self.tail_limit)..];
        let to_grow = bytes.len().min(self.tail_limit - self.tail.len());
        self.tail.extend_from_slice(&bytes[..to_grow]);
        let mut rest = &bytes[to_grow..];
        while !rest.is_empty() {
            let run = rest.len().min(self.tail_limit - self.start);
            self.tail[self.start..self.start + run].copy_from_slice(&rest[..run]);
            self.start = (self.start + run) % self.tail_limit;
            rest = &rest[run..];
        }
    }

    /// The first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes, without those that are in the head.
    pub fn tail(&self) -> Vec<u8> {
        [&self.tail[self.start..], &self.tail[..self.start]].concat()
    }

    /// Bytes that came in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// As it stands in a result.
    pub fn to_captured(&self, with_base64: bool) -> Captured {
        Captured::new(&self.head, &self.tail(), self.total, with_base64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_exactly_both_ends(limit in 0u64..40, pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..12)) {
            let mut capture = Capture::new(limit);
            for piece in &pieces {
                capture.push(piece);
            }
            let all = pieces.concat();
            let limit = usize::try_from(limit).unwrap_or(0);
            prop_assert_eq!(capture.total(), all.len() as u64);
            let head = &all[..all.len().min(limit / 2)];
            prop_assert_eq!(capture.head(), head);
            let rest = &all[head.len()..];
            prop_assert_eq!(capture.tail(), &rest[rest.len().saturating_sub(limit - limit / 2)..]);
        }
    }

    #[test]
    fn f090_first_and_last_lines_and_the_exact_omission() {
        let mut capture = Capture::new(1 << 10);
        let mut total = 0;
        for line in 0..200_000 {
            let text = format!("{line}\n");
            total += text.len();
            capture.push(text.as_bytes());
        }
        let captured = capture.to_captured(false);
        assert!(captured.text.starts_with("0\n1\n2\n"));
        assert!(captured.text.ends_with("199998\n199999\n"));
        assert!(captured.text.contains(&format!("[... {} bytes left out ...]", total - (1 << 10))));
    }
}
