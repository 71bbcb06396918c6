//! Names as they stand in messages, and as people write them.

use std::fmt::Write as _;

/// A name of labels with their lengths before them (RFC 1035, section 3.1), up to a zero:
/// `www.example.org`, the root `.`. What is no letter, digit, hyphen or underscore is written as in
/// files of zones (section 5.1). `None`: it is none.
pub(super) fn text(mut bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    loop {
        let (length, rest) = bytes.split_first()?;
        let (label, behind) = match *length {
            0 if text.is_empty() => return Some(".".to_owned()),
            0 => return Some(text),
            1..64 => rest.split_at_checked(usize::from(*length))?,
            64.. => return None,
        };
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {
                    text.push(char::from(*byte));
                }
                b'!'..=b'~' => {
                    text.push('\\');
                    text.push(char::from(*byte));
                }
                _ => {
                    // Writing to memory does not fail.
                    let _ = write!(text, "\\{byte:03}");
                }
            }
        }
        bytes = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_in_zones() {
        let read = |bytes: &[u8]| text(bytes);
        assert_eq!(
            read(b"\x03wWw\x07example\0\0\0"),
            Some("wWw.example".to_owned())
        );
        assert_eq!(read(b"\0"), Some(".".to_owned()));
        assert_eq!(
            read(b"\x04a.b \x05_dns\xff\0"),
            Some("a\\.b\\032._dns\\255".to_owned())
        );
        for none in [&b""[..], b"\x03ww", b"\xff", b"\x01a"] {
            assert_eq!(read(none), None);
        }
    }
}
