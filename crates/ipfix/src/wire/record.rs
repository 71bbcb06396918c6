//! Records of data, cut by their template (RFC 7011, sections 3.4.3 and 7).

use super::{FieldSpecifier, Template, VARIABLE_LENGTH, u16_at};
use crate::Error;

/// A record: the values of its template's fields.
#[derive(Debug, Clone, Copy)]
pub struct DataRecord<'a> {
    /// What the record looks like.
    pub template: &'a Template,
    /// All its values; whole, as [`DataRecords`] has seen to.
    bytes: &'a [u8],
}

impl<'a> DataRecord<'a> {
    /// The fields with the bytes of their values, without those that say the length.
    pub fn fields(&self) -> impl Iterator<Item = (&'a FieldSpecifier, &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        self.template.fields.iter().map_while(move |field| {
            let (value, after) = split_value(rest, field.length)?;
            rest = after;
            Some((field, value))
        })
    }
}

/// Takes a value off the front; `None` when it is not all there.
fn split_value(bytes: &[u8], length: u16) -> Option<(&[u8], &[u8])> {
    let (length, bytes) = match (length, *bytes.first().unwrap_or(&0)) {
        // Lengths of 255 and more, and shorter ones if the exporter likes, follow in two bytes.
        (VARIABLE_LENGTH, u8::MAX) => (u16_at(bytes, 1)?, &bytes[3..]),
        (VARIABLE_LENGTH, length) => (u16::from(length), bytes.get(1..)?),
        (length, _) => (length, bytes),
    };
    bytes.split_at_checked(usize::from(length))
}

/// The records of a set; see [`Template::records`].
#[derive(Debug, Clone)]
pub struct DataRecords<'a> {
    template: &'a Template,
    least_bytes: usize,
    set: &'a [u8],
    offset: usize,
}

impl Template {
    /// The records of a set of this template, up to the first that is not whole; fewer bytes than a
    /// record needs are padding.
    pub fn records<'a>(&'a self, set: &'a [u8]) -> DataRecords<'a> {
        DataRecords {
            template: self,
            // Records without any byte could not be told apart: there are none.
            least_bytes: self.least_record_bytes().max(1),
            set,
            offset: 0,
        }
    }
}

impl<'a> Iterator for DataRecords<'a> {
    type Item = Result<DataRecord<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = &self.set[self.offset..];
        if bytes.len() < self.least_bytes {
            return None;
        }
        let mut rest = bytes;
        for field in &self.template.fields {
            let Some((_, after)) = split_value(rest, field.length) else {
                let offset = std::mem::replace(&mut self.offset, self.set.len());
                return Some(Err(Error::Malformed {
                    part: "data set",
                    offset,
                    reason: "a record ends too early",
                }));
            };
            rest = after;
        }
        let length = bytes.len() - rest.len();
        self.offset += length;
        if length == 0 {
            return None;
        }
        Some(Ok(DataRecord {
            template: self.template,
            bytes: &bytes[..length],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(lengths: &[u16]) -> Template {
        let fields = lengths.iter().map(|&length| FieldSpecifier {
            enterprise: None,
            element: 1,
            length,
        });
        Template {
            id: 256,
            scope_fields: 0,
            fields: fields.collect(),
        }
    }

    fn values(template: &Template, set: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let records = template.records(set).map(Result::unwrap);
        records
            .map(|record| record.fields().map(|(_, value)| value.to_vec()).collect())
            .collect()
    }

    #[test]
    fn both_forms_of_a_length_are_read() {
        let template = template(&[VARIABLE_LENGTH, 1]);
        let set = [2, 7, 8, 9, 255, 0, 1, 5, 6, 0, 3];
        let expected = vec![
            vec![vec![7, 8], vec![9]],
            vec![vec![5], vec![6]],
            vec![vec![], vec![3]],
        ];
        assert_eq!(values(&template, &set), expected);
    }

    #[test]
    fn what_is_too_short_is_padding_or_an_error() {
        assert_eq!(values(&template(&[4]), &[0, 0, 0, 1, 0, 0, 0]).len(), 1);
        let variable = template(&[VARIABLE_LENGTH]);
        let mut records = variable.records(&[9, 1, 2]);
        assert!(records.next().unwrap().is_err());
        assert!(records.next().is_none());
        assert!(template(&[]).records(&[1, 2, 3]).next().is_none());
    }
}
