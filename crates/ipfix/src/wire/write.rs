//! Messages out of templates and records.

use super::{
    HEADER_BYTES, OPTIONS_TEMPLATE_SET, SET_HEADER_BYTES, TEMPLATE_SET, Template, TemplateChange,
    VERSION,
};

/// A message that is whole but for the time and number it leaves with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The message.
    pub bytes: Vec<u8>,
    /// Data records in it, those of options too.
    pub records: u32,
}

impl Encoded {
    /// Writes what is known when the message leaves: the time in seconds since the Unix epoch, and
    /// how many records left before.
    pub fn stamp(&mut self, export_time: u32, sequence: u32) {
        self.bytes[4..8].copy_from_slice(&export_time.to_be_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_be_bytes());
    }
}

/// Puts templates and records together into a message.
///
/// ```
/// use fathom_ipfix::wire::{FieldSpecifier, MessageWriter, Template};
///
/// let protocol = FieldSpecifier { enterprise: None, element: 4, length: 1 };
/// let template = Template { id: 256, scope_fields: 0, fields: vec![protocol] };
/// let mut writer = MessageWriter::new(1, 1232);
/// writer.template(&template);
/// writer.record(256, &[6]);
/// let mut message = writer.finish().unwrap();
/// message.stamp(1_795_000_000, 0);
/// assert_eq!((message.bytes.len(), message.records), (16 + 12 + 5, 1));
/// ```
#[derive(Debug)]
pub struct MessageWriter {
    bytes: Vec<u8>,
    domain: u32,
    limit_bytes: usize,
    /// Number and start of the set that is being filled.
    set: Option<(u16, usize)>,
    records: u32,
}

impl MessageWriter {
    /// A writer of messages of this observation domain, whose `limit_bytes`
    /// [`MessageWriter::has_room`] goes by, 65535 at most.
    pub fn new(domain: u32, limit_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            domain,
            limit_bytes: limit_bytes.min(usize::from(u16::MAX)),
            set: None,
            records: 0,
        }
    }

    /// Changes the limit; what is in the message at hand stays.
    pub fn limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes.min(usize::from(u16::MAX));
    }

    /// Whether nothing was written since the last message.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether `length` more bytes in the set of this number stay within the limit.
    pub fn has_room(&self, set: u16, length: usize) -> bool {
        let header = match self.set {
            Some((current, _)) if current == set => 0,
            _ => SET_HEADER_BYTES,
        };
        self.bytes.len().max(HEADER_BYTES) + header + length <= self.limit_bytes
    }

    /// Whether a template stays within the limit.
    pub fn has_room_for(&self, template: &Template) -> bool {
        self.has_room(
            template_set(template.is_options()),
            template.encoded_bytes(),
        )
    }

    /// Adds a template or an options template.
    pub fn template(&mut self, template: &Template) {
        self.open(template_set(template.is_options()));
        template.write(&mut self.bytes);
    }

    /// Adds the definition or withdrawal of a template; what is withdrawn one by one is of options
    /// if `is_options`.
    pub fn template_change(&mut self, change: &TemplateChange, is_options: bool) {
        let (set, id) = match change {
            TemplateChange::Defined(template) => return self.template(template),
            TemplateChange::Withdrawn(id) => (template_set(is_options), *id),
            TemplateChange::AllWithdrawn { is_options } => {
                (template_set(*is_options), template_set(*is_options))
            }
        };
        self.open(set);
        self.bytes.extend(id.to_be_bytes());
        self.bytes.extend([0, 0]);
    }

    /// Adds a record of the template of this number; `values` are all its fields.
    pub fn record(&mut self, template: u16, values: &[u8]) {
        self.open(template);
        self.bytes.extend(values);
        self.records += 1;
    }

    /// The message that was put together; `None` if nothing was. The writer is empty then.
    pub fn finish(&mut self) -> Option<Encoded> {
        if self.is_empty() {
            return None;
        }
        self.close();
        let length = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        self.bytes[2..4].copy_from_slice(&length.to_be_bytes());
        Some(Encoded {
            bytes: std::mem::take(&mut self.bytes),
            records: std::mem::take(&mut self.records),
        })
    }

    fn open(&mut self, set: u16) {
        if self.is_empty() {
            self.bytes.extend(VERSION.to_be_bytes());
            // Length, time and number are written later.
            self.bytes.extend([0; 10]);
            self.bytes.extend(self.domain.to_be_bytes());
        }
        if self.set.is_some_and(|(current, _)| current == set) {
            return;
        }
        self.close();
        self.set = Some((set, self.bytes.len()));
        self.bytes.extend(set.to_be_bytes());
        self.bytes.extend([0, 0]);
    }

    fn close(&mut self) {
        if let Some((_, start)) = self.set.take() {
            let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
            self.bytes[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

const fn template_set(is_options: bool) -> u16 {
    if is_options {
        OPTIONS_TEMPLATE_SET
    } else {
        TEMPLATE_SET
    }
}

/// Appends a value of variable length with its length before it (section 7); what is longer than
/// 65535 bytes is cut.
pub fn write_text(out: &mut Vec<u8>, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    match u8::try_from(value.len()) {
        Ok(length) if length < u8::MAX => out.push(length),
        _ => {
            out.push(u8::MAX);
            out.extend((value.len() as u16).to_be_bytes());
        }
    }
    out.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, Set};

    #[test]
    fn withdrawals_are_written_as_they_are_read() {
        let mut writer = MessageWriter::new(1, 1232);
        let all = TemplateChange::AllWithdrawn { is_options: true };
        let one = TemplateChange::Withdrawn(300);
        writer.template_change(&one, false);
        writer.template_change(&all, true);
        let bytes = writer.finish().unwrap().bytes;
        let (message, _) = Message::split(&bytes).unwrap();
        let sets: Vec<_> = message.sets().map(Result::unwrap).collect();
        assert_eq!(sets, [Set::Templates(vec![one]), Set::Templates(vec![all])]);
        assert!(writer.finish().is_none());
    }

    #[test]
    fn room_counts_the_headers() {
        let mut writer = MessageWriter::new(1, 16 + 4 + 10);
        assert!(writer.has_room(256, 10));
        assert!(!writer.has_room(256, 11));
        writer.record(256, &[0; 6]);
        assert!(writer.has_room(256, 4));
        assert!(!writer.has_room(257, 1));
    }
}
