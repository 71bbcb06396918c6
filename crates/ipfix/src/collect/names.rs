//! What exporters tell of their elements, and of their records.

use std::borrow::Cow;
use std::collections::HashMap;

use super::kinds::Told;
use crate::element::{REVERSE_ENTERPRISE, reverse_element, row};
use crate::kind::{COLUMN, COLUMN_TYPE, RECORD_KIND};
use crate::wire::{DataRecord, DataValue, FieldSpecifier};
use crate::{DataType, Element, iana_element};

/// The longest name of an element that is kept.
const LONGEST_NAME_BYTES: usize = 128;

/// Own elements by enterprise and number.
#[derive(Debug, Default)]
pub(super) struct Names {
    elements: HashMap<(u32, u16), Element>,
}

impl Names {
    /// Takes the name and type of an element.
    pub(super) fn know(&mut self, enterprise: u32, number: u16, element: Element) {
        self.elements.insert((enterprise, number), element);
    }

    pub(super) fn get(&self, specifier: &FieldSpecifier) -> Option<Element> {
        match specifier.enterprise {
            None => iana_element(specifier.element),
            Some(REVERSE_ENTERPRISE) => reverse_element(specifier.element),
            Some(enterprise) => self.elements.get(&(enterprise, specifier.element)).cloned(),
        }
    }

    pub(super) fn type_of(&self, specifier: &FieldSpecifier) -> Option<DataType> {
        match specifier.enterprise {
            None | Some(REVERSE_ENTERPRISE) => row(specifier.element).map(|row| row.2),
            Some(enterprise) => {
                let element = self.elements.get(&(enterprise, specifier.element));
                element.map(|element| element.data_type)
            }
        }
    }

    /// What a record of options tells of kinds of records.
    pub(super) fn told<'a>(&self, record: &DataRecord<'a>) -> Told<'a> {
        let mut told = Told::default();
        for (specifier, bytes) in record.fields() {
            let Some(element) = self.get(specifier) else {
                continue;
            };
            match (
                element.name.as_ref(),
                DataValue::read(element.data_type, bytes),
            ) {
                ("templateId", DataValue::Unsigned(id)) => told.template = u16::try_from(id).ok(),
                ("privateEnterpriseNumber", DataValue::Unsigned(number)) => {
                    told.enterprise = u32::try_from(number).ok();
                }
                ("informationElementId", DataValue::Unsigned(number)) => {
                    told.element = u16::try_from(number).ok();
                }
                (RECORD_KIND, DataValue::Text(text)) => told.kind = Some(text),
                (COLUMN, DataValue::Text(text)) => told.column = Some(text),
                (COLUMN_TYPE, DataValue::Text(text)) => told.column_type = Some(text),
                _ => {}
            }
        }
        told
    }

    /// Takes what a record of options tells of an element, if it does (RFC 5610, section 3.9).
    pub(super) fn learn(&mut self, record: &DataRecord<'_>, most_names: usize) {
        let (mut enterprise, mut number, mut name, mut data_type) = (None, None, None, None);
        for (specifier, bytes) in record.fields() {
            let Some(element) = specifier
                .enterprise
                .is_none()
                .then(|| iana_element(specifier.element))
                .flatten()
            else {
                continue;
            };
            match (specifier.element, DataValue::read(element.data_type, bytes)) {
                (346, DataValue::Unsigned(value)) => enterprise = u32::try_from(value).ok(),
                // Some exporters leave the enterprise bit set.
                (303, DataValue::Unsigned(value)) => number = Some((value & 0x7fff) as u16),
                (339, DataValue::Unsigned(value)) => data_type = DataType::from_number(value),
                (341, DataValue::Text(text)) => name = Some(text),
                _ => {}
            }
        }
        let (Some(enterprise), Some(number), Some(name)) = (enterprise, number, name) else {
            return;
        };
        let key = (enterprise, number);
        let is_full = self.elements.len() >= most_names && !self.elements.contains_key(&key);
        if enterprise == 0 || name.is_empty() || name.len() > LONGEST_NAME_BYTES || is_full {
            return;
        }
        let element = Element {
            name: Cow::Owned(name.to_owned()),
            data_type: data_type.unwrap_or(DataType::OctetArray),
        };
        self.elements.insert(key, element);
    }
}
