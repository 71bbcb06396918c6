//! Requests and responses as bytes; all numbers big endian.

use std::time::Duration;

/// Bytes of the head of a request: its whole length, the length of the response, its number and
/// whether the server works on one at a time, 32 bits each; then the service time in ns, 64 bits.
pub(super) const REQUEST_BYTES: usize = 24;
/// Bytes of the head of a response: its whole length and the number of the request, 32 bits each.
pub(super) const RESPONSE_BYTES: usize = 8;

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) length: u32,
    pub(super) response: u32,
    pub(super) number: u32,
    pub(super) is_serial: bool,
    pub(super) service: Duration,
}

impl Request {
    /// The whole request.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length as usize);
        for word in [
            self.length,
            self.response,
            self.number,
            self.is_serial.into(),
        ] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        let service = u64::try_from(self.service.as_nanos()).unwrap_or(u64::MAX);
        bytes.extend_from_slice(&service.to_be_bytes());
        bytes.resize(self.length as usize, 0x5a);
        bytes
    }

    /// Takes a whole request off the front of what has come, if it is there.
    pub(super) fn take(bytes: &mut Vec<u8>) -> Option<Self> {
        let head: [u8; REQUEST_BYTES] = *bytes.first_chunk()?;
        let (words, _) = head.as_chunks::<4>();
        let word = |number: usize| u32::from_be_bytes(words[number]);
        let request = Self {
            length: word(0),
            response: word(1),
            number: word(2),
            is_serial: word(3) != 0,
            service: Duration::from_nanos(u64::from(word(4)) << 32 | u64::from(word(5))),
        };
        let length = (request.length as usize).max(REQUEST_BYTES);
        if bytes.len() < length {
            return None;
        }
        bytes.drain(..length);
        Some(request)
    }
}

/// The whole response to the request of this number.
pub(super) fn response(request: &Request) -> Vec<u8> {
    let length = (request.response as usize).max(RESPONSE_BYTES);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    bytes.extend_from_slice(&request.number.to_be_bytes());
    bytes.resize(length, 0xa5);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let request = Request {
            length: 100,
            response: 5000,
            number: 7,
            is_serial: true,
            service: Duration::from_nanos(0x1_2345_6789),
        };
        let mut bytes = request.to_bytes();
        assert_eq!(bytes.len(), 100);
        bytes.extend_from_slice(&request.to_bytes()[..50]);
        let read = Request::take(&mut bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{request:?}"));
        assert_eq!(bytes.len(), 50);
        assert!(Request::take(&mut bytes).is_none());
    }
}
