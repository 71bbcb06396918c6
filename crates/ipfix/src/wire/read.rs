//! Messages and sets (RFC 7011, sections 3.1 and 3.3).

use super::{
    FIRST_TEMPLATE, HEADER_BYTES, OPTIONS_TEMPLATE_SET, SET_HEADER_BYTES, TEMPLATE_SET,
    TemplateChange, VERSION, template, u16_at, u32_at,
};
use crate::Error;

/// What stands before the sets of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// When the message left the exporter, in seconds since the Unix epoch.
    pub export_time: u32,
    /// How many data records the exporter sent before in this stream and domain, modulo 2^32.
    pub sequence: u32,
    /// The observation domain.
    pub domain: u32,
}

/// A message, its sets not yet read.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// What stands before the sets.
    pub header: Header,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// How long the message is that begins with `bytes`; `None` while there are too few bytes to
    /// say.
    ///
    /// # Errors
    /// [`Error::Malformed`] when no message begins so: a stream cannot be read on then.
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
        let malformed = |offset, reason| Error::Malformed {
            part: "message",
            offset,
            reason,
        };
        match u16_at(bytes, 0) {
            None => return Ok(None),
            Some(VERSION) => {}
            Some(_) => return Err(malformed(0, "the version is not 10")),
        }
        match u16_at(bytes, 2).map(usize::from) {
            Some(length) if length < HEADER_BYTES => {
                Err(malformed(2, "the length is less than the header's"))
            }
            length => Ok(length),
        }
    }

    /// Takes the message that `bytes` begin with, and what follows it.
    ///
    /// # Errors
    /// [`Error::Malformed`] when no whole message is there.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        let truncated = Error::Malformed {
            part: "message",
            offset: bytes.len(),
            reason: "it ends too early",
        };
        let Some((message, rest)) =
            Self::length(bytes)?.and_then(|length| bytes.split_at_checked(length))
        else {
            return Err(truncated);
        };
        let (Some(export_time), Some(sequence), Some(domain)) =
            (u32_at(message, 4), u32_at(message, 8), u32_at(message, 12))
        else {
            return Err(truncated);
        };
        let header = Header {
            export_time,
            sequence,
            domain,
        };
        let body = &message[HEADER_BYTES..];
        Ok((Self { header, body }, rest))
    }

    /// Its sets in their order, up to the first that cannot be read.
    pub fn sets(&self) -> Sets<'a> {
        Sets {
            rest: self.body,
            offset: HEADER_BYTES,
        }
    }
}

/// A set of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Set<'a> {
    /// Templates or options templates, defined and withdrawn, in their order.
    Templates(Vec<TemplateChange>),
    /// Records of the template of this number, and perhaps padding.
    Data {
        /// The number of the template.
        template: u16,
        /// The records; see [`Template::records`](super::Template::records).
        body: &'a [u8],
    },
    /// A set of a reserved number, to be ignored (section 3.3.2).
    Reserved(u16),
}

/// The sets of a message; see [`Message::sets`].
#[derive(Debug, Clone)]
pub struct Sets<'a> {
    rest: &'a [u8],
    /// The offset of `rest` in the message.
    offset: usize,
}

impl<'a> Sets<'a> {
    fn set(&mut self) -> Result<Set<'a>, Error> {
        let malformed = |reason| Error::Malformed {
            part: "message",
            offset: self.offset,
            reason,
        };
        let (Some(id), Some(length)) = (u16_at(self.rest, 0), u16_at(self.rest, 2)) else {
            return Err(malformed("a set ends within its header"));
        };
        let length = usize::from(length);
        if length < SET_HEADER_BYTES {
            return Err(malformed("a set is shorter than its header"));
        }
        let Some((set, rest)) = self.rest.split_at_checked(length) else {
            return Err(malformed("a set is longer than the message"));
        };
        self.rest = rest;
        self.offset += length;
        let body = &set[SET_HEADER_BYTES..];
        Ok(match id {
            TEMPLATE_SET => Set::Templates(template::read_all(body, false)?),
            OPTIONS_TEMPLATE_SET => Set::Templates(template::read_all(body, true)?),
            FIRST_TEMPLATE.. => Set::Data { template: id, body },
            _ => Set::Reserved(id),
        })
    }
}

impl<'a> Iterator for Sets<'a> {
    type Item = Result<Set<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let set = self.set();
        if set.is_err() {
            self.rest = &[];
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FieldSpecifier, MessageWriter, Template, VARIABLE_LENGTH};
    use proptest::prelude::*;

    fn specifier() -> impl Strategy<Value = FieldSpecifier> {
        let length = prop_oneof![1..64_u16, Just(VARIABLE_LENGTH)];
        (1..0x8000_u16, proptest::option::of(any::<u32>()), length).prop_map(
            |(element, enterprise, length)| FieldSpecifier {
                enterprise,
                element,
                length,
            },
        )
    }

    fn template() -> impl Strategy<Value = Template> {
        let fields = proptest::collection::vec(specifier(), 1..12);
        (FIRST_TEMPLATE.., fields, any::<bool>()).prop_map(|(id, fields, is_options)| Template {
            id,
            scope_fields: u16::from(is_options),
            fields,
        })
    }

    /// The records of a template, as the bytes of each field.
    fn records(template: &Template) -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> + use<> {
        let fields: Vec<_> = template
            .fields
            .iter()
            .map(|field| match field.length {
                VARIABLE_LENGTH => proptest::collection::vec(any::<u8>(), 0..400),
                length => proptest::collection::vec(any::<u8>(), usize::from(length)),
            })
            .collect();
        proptest::collection::vec(fields, 1..5)
    }

    fn encode(template: &Template, records: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut writer = MessageWriter::new(7, usize::from(u16::MAX));
        writer.template(template);
        for record in records {
            let mut body = Vec::new();
            for (field, bytes) in template.fields.iter().zip(record) {
                if field.length == VARIABLE_LENGTH {
                    crate::wire::write_text(&mut body, bytes);
                } else {
                    body.extend(bytes);
                }
            }
            writer.record(template.id, &body);
        }
        let mut encoded = writer.finish().unwrap();
        encoded.stamp(1_795_000_000, 42);
        encoded.bytes
    }

    /// Reads everything there is to read, by `template` where it is named.
    fn read(bytes: &[u8], template: &Template) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (message, after) = Message::split(rest)?;
            for set in message.sets() {
                match set? {
                    Set::Templates(changes) => drop(changes),
                    Set::Data { body, .. } => {
                        for record in template.records(body) {
                            assert!(record?.fields().count() <= template.fields.len());
                        }
                    }
                    Set::Reserved(_) => {}
                }
            }
            rest = after;
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            (template, records) in template().prop_flat_map(|template| (Just(template.clone()), records(&template)))
        ) {
            let bytes = encode(&template, &records);
            let (message, rest) = Message::split(&bytes).unwrap();
            prop_assert!(rest.is_empty());
            let header = Header { export_time: 1_795_000_000, sequence: 42, domain: 7 };
            prop_assert_eq!(message.header, header);
            let sets: Vec<_> = message.sets().collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(&sets[0], &Set::Templates(vec![TemplateChange::Defined(template.clone())]));
            let Set::Data { template: id, body } = &sets[1] else { panic!("data follows") };
            prop_assert_eq!(*id, template.id);
            let decoded: Vec<Vec<Vec<u8>>> = template
                .records(body)
                .map(|record| record.unwrap().fields().map(|(_, bytes)| bytes.to_vec()).collect())
                .collect();
            prop_assert_eq!(decoded, records);
        }

        #[test]
        fn any_bytes_are_survived(template in template(), bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes, &template);
        }

        #[test]
        fn any_damage_is_survived(
            (template, records) in template().prop_flat_map(|template| (Just(template.clone()), records(&template))),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = encode(&template, &records);
            for (index, byte) in damage {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = read(&bytes, &template);
        }
    }

    #[test]
    fn lengths_are_known_early() {
        assert_eq!(Message::length(&[]).unwrap(), None);
        assert_eq!(Message::length(&[0, 10, 0]).unwrap(), None);
        assert_eq!(Message::length(&[0, 10, 1, 0]).unwrap(), Some(256));
        assert!(Message::length(&[0, 9]).is_err());
        assert!(Message::length(&[0, 10, 0, 15]).is_err());
    }
}
