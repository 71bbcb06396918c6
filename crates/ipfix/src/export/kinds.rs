//! Which kind of record each template is of, and which field of it each element is: told to
//! collectors that make tables. For others these are options that they may leave aside.

use fathom_record::{Field, Schema, Type, Unit};

use super::derived::{INTERVAL, interval_of, plans};
use crate::kind::{COLUMN, COLUMN_TYPE, RECORD_KIND, name_of};
use crate::wire::{Encoded, FieldSpecifier, MessageWriter, Template, VARIABLE_LENGTH, write_text};

/// The number of the options template that says of which kind a template is. Those of data count
/// from below.
const KIND_TEMPLATE: u16 = u16::MAX;
/// Of the one that says which field an element is.
pub(super) const COLUMN_TEMPLATE: u16 = u16::MAX - 1;
/// `templateId`, `privateEnterpriseNumber`, `informationElementId`.
const TEMPLATE_ID: (u16, u16) = (145, 2);
const ENTERPRISE: (u16, u16) = (346, 4);
const ELEMENT: (u16, u16) = (303, 2);

/// The elements that carry this.
pub(super) static FIELDS: [Field; 3] = [
    Field::new(
        RECORD_KIND,
        Type::Text,
        Unit::None,
        "The kind of record that a template is of.",
    )
    .own_ipfix(32_001),
    Field::new(
        COLUMN,
        Type::Text,
        Unit::None,
        "The name of the field that an element is, in records of a kind; empty: it is none.",
    )
    .own_ipfix(32_002),
    Field::new(
        COLUMN_TYPE,
        Type::Text,
        Unit::None,
        "What values that field has.",
    )
    .own_ipfix(32_003),
];

fn own(index: usize, enterprise: u32) -> FieldSpecifier {
    let element = FIELDS[index].ipfix.map_or(0, |ipfix| ipfix.element);
    FieldSpecifier {
        enterprise: Some(enterprise),
        element,
        length: VARIABLE_LENGTH,
    }
}

fn iana((element, length): (u16, u16)) -> FieldSpecifier {
    FieldSpecifier {
        enterprise: None,
        element,
        length,
    }
}

/// Messages that say which field of a kind each element is.
pub(super) fn tell_columns(
    schema: &'static Schema,
    enterprise: u32,
    writer: &mut MessageWriter,
) -> Vec<Encoded> {
    writer.template(&Template {
        id: COLUMN_TEMPLATE,
        scope_fields: 3,
        fields: vec![
            own(0, enterprise),
            iana(ENTERPRISE),
            iana(ELEMENT),
            own(1, enterprise),
            own(2, enterprise),
        ],
    });
    let mut messages = Vec::new();
    let fields = plans(schema, enterprise).flat_map(|(field, plan)| {
        let specifiers = [Some(plan.specifier), plan.ipv6].into_iter().flatten();
        specifiers.map(|specifier| (specifier, field.name, field.kind))
    });
    let interval = interval_of(schema).map(|_| INTERVAL).into_iter().flatten();
    let besides = interval.map(|specifier| (specifier, "", Type::Time));
    for (specifier, name, kind) in fields.chain(besides) {
        let mut record = Vec::new();
        write_text(&mut record, schema.kind.as_bytes());
        record.extend(specifier.enterprise.unwrap_or(0).to_be_bytes());
        record.extend(specifier.element.to_be_bytes());
        write_text(&mut record, name.as_bytes());
        write_text(&mut record, name_of(kind).as_bytes());
        if !writer.has_room(COLUMN_TEMPLATE, record.len()) {
            messages.extend(writer.finish());
        }
        writer.record(COLUMN_TEMPLATE, &record);
    }
    messages.extend(writer.finish());
    messages
}

/// A message that says of which kind a template is.
pub(super) fn tell_kind(
    kind: &str,
    template: u16,
    enterprise: u32,
    writer: &mut MessageWriter,
) -> Option<Encoded> {
    writer.template(&Template {
        id: KIND_TEMPLATE,
        scope_fields: 1,
        fields: vec![iana(TEMPLATE_ID), own(0, enterprise)],
    });
    let mut record = template.to_be_bytes().to_vec();
    write_text(&mut record, kind.as_bytes());
    writer.record(KIND_TEMPLATE, &record);
    writer.finish()
}
