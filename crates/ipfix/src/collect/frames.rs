//! Messages out of a stream.

use crate::Error;
use crate::wire::Message;

/// Puts the bytes of a stream together into messages. It never holds more than a message and what
/// was last pushed.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Bytes of messages that were taken already.
    taken: usize,
}

impl Frames {
    /// Takes what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend(bytes);
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no message begins where one should: the stream is of no use any
    /// more.
    pub fn message(&mut self) -> Result<Option<&[u8]>, Error> {
        let rest = &self.bytes[self.taken..];
        let Some(message) = Message::length(rest)?.and_then(|length| rest.get(..length)) else {
            return Ok(None);
        };
        self.taken += message.len();
        Ok(Some(message))
    }

    /// Whether bytes are left of a message that is not whole.
    pub fn is_within_message(&self) -> bool {
        self.taken < self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_are_found_however_they_arrive(
            lengths in proptest::collection::vec(16..200_u16, 1..20),
            cut in 1..50_usize,
        ) {
            let mut stream = Vec::new();
            for length in &lengths {
                stream.extend([0, 10]);
                stream.extend(length.to_be_bytes());
                stream.resize(stream.len() + usize::from(*length) - 4, 7);
            }
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(cut) {
                frames.push(bytes);
                while let Some(message) = frames.message().unwrap() {
                    found.push(message.len() as u16);
                }
            }
            prop_assert_eq!(found, lengths);
            prop_assert!(!frames.is_within_message());
        }

        #[test]
        fn any_stream_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut frames = Frames::default();
            frames.push(&bytes);
            while let Ok(Some(_)) = frames.message() {}
        }
    }
}
