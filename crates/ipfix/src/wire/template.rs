//! Templates, options templates and their withdrawal (RFC 7011, sections 3.2, 3.4.1, 3.4.2 and
//! 8.1).

use super::{ENTERPRISE_BIT, FIRST_TEMPLATE, u16_at, u32_at};
use crate::Error;

/// The length of a field whose every value says its own.
pub const VARIABLE_LENGTH: u16 = u16::MAX;

/// One field of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldSpecifier {
    /// The private enterprise number that defines the element, `None` for IANA.
    pub enterprise: Option<u32>,
    /// The number of the element, below 32768.
    pub element: u16,
    /// Bytes of each value, or [`VARIABLE_LENGTH`].
    pub length: u16,
}

/// What the records of a set look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its number, 256 or more.
    pub id: u16,
    /// How many of the first fields say what the others are about; zero for records of data, more
    /// for options.
    pub scope_fields: u16,
    /// The fields in the order of their values.
    pub fields: Vec<FieldSpecifier>,
}

/// What a message does to the templates known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateChange {
    /// From now on this one.
    Defined(Template),
    /// No longer the one of this number.
    Withdrawn(u16),
    /// No longer any template of records, or of options.
    AllWithdrawn {
        /// Whether of options.
        is_options: bool,
    },
}

impl Template {
    /// Whether its records are options: they tell about the exporter and its data.
    pub fn is_options(&self) -> bool {
        self.scope_fields > 0
    }

    /// Bytes of the shortest record.
    pub fn least_record_bytes(&self) -> usize {
        let lengths = self.fields.iter().map(|field| match field.length {
            VARIABLE_LENGTH => 1,
            length => usize::from(length),
        });
        lengths.sum()
    }

    /// Bytes of the template in its set.
    pub(super) fn encoded_bytes(&self) -> usize {
        let header = if self.is_options() { 6 } else { 4 };
        let fields = self.fields.iter();
        header + fields.map(FieldSpecifier::encoded_bytes).sum::<usize>()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_be_bytes());
        out.extend((self.fields.len() as u16).to_be_bytes());
        if self.is_options() {
            out.extend(self.scope_fields.to_be_bytes());
        }
        for field in &self.fields {
            field.write(out);
        }
    }
}

impl FieldSpecifier {
    fn encoded_bytes(&self) -> usize {
        if self.enterprise.is_some() { 8 } else { 4 }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let bit = if self.enterprise.is_some() {
            ENTERPRISE_BIT
        } else {
            0
        };
        out.extend((self.element | bit).to_be_bytes());
        out.extend(self.length.to_be_bytes());
        if let Some(enterprise) = self.enterprise {
            out.extend(enterprise.to_be_bytes());
        }
    }
}

/// Reads the templates of a set; what is left and too short for one is padding.
pub(super) fn read_all(set: &[u8], is_options: bool) -> Result<Vec<TemplateChange>, Error> {
    let mut reader = Reader { set, offset: 0 };
    let mut changes = Vec::new();
    while set.len() - reader.offset >= 4 {
        changes.push(reader.change(is_options)?);
    }
    Ok(changes)
}

struct Reader<'a> {
    set: &'a [u8],
    offset: usize,
}

impl Reader<'_> {
    fn malformed(&self, reason: &'static str) -> Error {
        Error::Malformed {
            part: "template set",
            offset: self.offset,
            reason,
        }
    }

    fn number(&mut self) -> Result<u16, Error> {
        let number = u16_at(self.set, self.offset);
        let number = number.ok_or_else(|| self.malformed("a template ends too early"))?;
        self.offset += 2;
        Ok(number)
    }

    fn change(&mut self, is_options: bool) -> Result<TemplateChange, Error> {
        let (id, count) = (self.number()?, self.number()?);
        if count == 0 {
            return match id {
                FIRST_TEMPLATE.. => Ok(TemplateChange::Withdrawn(id)),
                super::TEMPLATE_SET if !is_options => {
                    Ok(TemplateChange::AllWithdrawn { is_options })
                }
                super::OPTIONS_TEMPLATE_SET if is_options => {
                    Ok(TemplateChange::AllWithdrawn { is_options })
                }
                _ => Err(self.malformed("a withdrawal of no template")),
            };
        }
        if id < FIRST_TEMPLATE {
            return Err(self.malformed("a template has a reserved number"));
        }
        let scope_fields = if is_options { self.number()? } else { 0 };
        if is_options && (scope_fields == 0 || scope_fields > count) {
            return Err(self.malformed("an options template has no scope"));
        }
        let mut fields = Vec::with_capacity(usize::from(count).min(self.set.len() / 4));
        for _ in 0..count {
            fields.push(self.field()?);
        }
        let template = Template {
            id,
            scope_fields,
            fields,
        };
        if template.least_record_bytes() == 0 {
            return Err(self.malformed("the records of a template are empty"));
        }
        Ok(TemplateChange::Defined(template))
    }

    fn field(&mut self) -> Result<FieldSpecifier, Error> {
        let (element, length) = (self.number()?, self.number()?);
        let enterprise = if element & ENTERPRISE_BIT == 0 {
            None
        } else {
            let number = u32_at(self.set, self.offset);
            let number = number.ok_or_else(|| self.malformed("a template ends too early"))?;
            self.offset += 4;
            Some(number)
        };
        Ok(FieldSpecifier {
            enterprise,
            element: element & !ENTERPRISE_BIT,
            length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawals_are_read() {
        let one = [1, 0, 0, 0];
        assert_eq!(
            read_all(&one, false).unwrap(),
            [TemplateChange::Withdrawn(256)]
        );
        let is_options = true;
        assert_eq!(
            read_all(&[0, 3, 0, 0], true).unwrap(),
            [TemplateChange::AllWithdrawn { is_options }]
        );
        assert!(read_all(&[0, 3, 0, 0], false).is_err());
        assert!(read_all(&[0, 9, 0, 0], false).is_err());
    }

    #[test]
    fn absurd_templates_are_refused() {
        let reserved = [0, 255, 0, 1, 0, 4, 0, 1];
        assert!(read_all(&reserved, false).is_err());
        let empty_records = [1, 0, 0, 1, 0, 4, 0, 0];
        assert!(read_all(&empty_records, false).is_err());
        let no_scope = [1, 0, 0, 1, 0, 0, 0, 4, 0, 1];
        assert!(read_all(&no_scope, true).is_err());
        let short = [1, 0, 255, 255, 0, 4, 0, 1];
        assert!(read_all(&short, false).is_err());
    }

    #[test]
    fn padding_is_skipped() {
        let padded = [1, 0, 0, 1, 0, 4, 0, 1, 0, 0, 0];
        assert_eq!(read_all(&padded, false).unwrap().len(), 1);
    }
}
