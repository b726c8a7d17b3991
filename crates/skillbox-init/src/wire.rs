//! Frames: a length and a postcard value.

use serde::{Serialize, de::DeserializeOwned};

use crate::protocol::MAX_FRAME;

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum WireError {
    /// The announced length passes [`MAX_FRAME`].
    #[error("a frame of {0} bytes was announced; {MAX_FRAME} are allowed")]
    TooLong(usize),
    /// The content is not a message.
    #[error("a frame does not hold a message: {0}")]
    Content(#[from] postcard::Error),
}

/// The bytes of a frame.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let mut bytes = postcard::to_extend(message, vec![0; 4])?;
    let length = bytes.len() - 4;
    let header =
        u32::try_from(length).ok().filter(|_| length <= MAX_FRAME).ok_or(WireError::TooLong(length))?;
    bytes[..4].copy_from_slice(&header.to_le_bytes());
    Ok(bytes)
}

/// Collects bytes as they arrive and cuts frames off.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl FrameBuffer {
    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > 1 << 20 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, decoded.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireError> {
        let rest = &self.bytes[self.start..];
        let Some(header) = rest.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*header) as usize;
        if length > MAX_FRAME {
            return Err(WireError::TooLong(length));
        }
        let Some(payload) = rest.get(4..4 + length) else { return Ok(None) };
        let message = postcard::from_bytes(payload)?;
        self.start += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::protocol::{ExecSpec, ToInit};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_never_grow(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut buffer = FrameBuffer::default();
            buffer.push(&bytes);
            while let Ok(Some(_)) = buffer.next::<crate::protocol::FromInit>() {}
            while let Ok(Some(_)) = buffer.next::<ToInit>() {}
        }

        #[test]
        fn frames_survive_any_cut(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..5), cut in 1usize..40) {
            let spec = ExecSpec { args: args.into_iter().map(serde_bytes::ByteBuf::from).collect(), ..ExecSpec::default() };
            let frame = encode(&ToInit::Exec { slot: 7, spec: spec.clone(), park_next: Some((8, serde_bytes::ByteBuf::new())) }).unwrap();
            let mut buffer = FrameBuffer::default();
            let mut seen = 0;
            for piece in [frame.clone(), frame].concat().chunks(cut) {
                buffer.push(piece);
                while let Some(message) = buffer.next::<ToInit>().unwrap() {
                    seen += 1;
                    let ToInit::Exec { slot: 7, spec: got, park_next: Some((8, _)) } = message else { panic!("{message:?}") };
                    prop_assert_eq!(&got, &spec);
                }
            }
            prop_assert_eq!(seen, 2);
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
        let mut buffer = FrameBuffer::default();
        buffer.push(&u32::MAX.to_le_bytes());
        assert!(matches!(buffer.next::<ToInit>(), Err(WireError::TooLong(_))));
    }
}
