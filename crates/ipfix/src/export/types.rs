//! What own elements are called and how they are read, told to any collector (RFC 5610).

use std::collections::HashSet;

use fathom_record::{Field, Schema};

use super::derived::own_plans;
use super::kinds;
use super::plan::{Plan, own_semantics, own_units, start_of};
use crate::wire::{
    Encoded, FIRST_TEMPLATE, FieldSpecifier, MessageWriter, Template, VARIABLE_LENGTH, write_text,
};

/// The number of the options template.
const TYPE_TEMPLATE: u16 = FIRST_TEMPLATE;
/// The longest description that is sent.
const LONGEST_DESCRIPTION_BYTES: usize = 300;

/// `privateEnterpriseNumber`, `informationElementId` (the scope), `informationElementDataType`,
/// `-Semantics`, `-Units`, `-Name`, `-Description`.
const FIELDS: [(u16, u16); 7] = [
    (346, 4),
    (303, 2),
    (339, 1),
    (344, 1),
    (345, 2),
    (341, VARIABLE_LENGTH),
    (340, VARIABLE_LENGTH),
];

/// The options template of type records.
pub(super) fn type_template() -> Template {
    let fields = FIELDS.iter().map(|&(element, length)| FieldSpecifier {
        enterprise: None,
        element,
        length,
    });
    Template {
        id: TYPE_TEMPLATE,
        scope_fields: 2,
        fields: fields.collect(),
    }
}

/// The own elements that were told about.
#[derive(Debug, Default)]
pub(super) struct Types {
    told: HashSet<u16>,
}

impl Types {
    /// Messages that tell about the elements of a kind of record which were not told about yet. The
    /// name of an element is that of its field, as in JSON.
    pub(super) fn tell(
        &mut self,
        schema: &'static Schema,
        enterprise: u32,
        writer: &mut MessageWriter,
    ) -> Vec<Encoded> {
        let mut messages = Vec::new();
        let kinds = kinds::FIELDS.iter();
        let kinds = kinds.filter_map(|field| Some((field, Plan::new(field, enterprise)?)));
        for (field, plan) in own_plans(schema, enterprise).chain(kinds) {
            if self.told.is_empty() {
                writer.template(&type_template());
            }
            if !self.told.insert(plan.specifier.element) {
                continue;
            }
            let record = type_record(field, &plan, enterprise);
            if !writer.has_room(TYPE_TEMPLATE, record.len()) {
                messages.extend(writer.finish());
            }
            writer.record(TYPE_TEMPLATE, &record);
        }
        messages.extend(writer.finish());
        messages
    }
}

fn type_record(field: &Field, plan: &Plan, enterprise: u32) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(enterprise.to_be_bytes());
    record.extend(plan.specifier.element.to_be_bytes());
    record.push(plan.data_type as u8);
    record.push(own_semantics(field) as u8);
    record.extend((own_units(field) as u16).to_be_bytes());
    write_text(&mut record, field.name.as_bytes());
    let about = start_of(field.about, LONGEST_DESCRIPTION_BYTES);
    write_text(&mut record, about.as_bytes());
    record
}
