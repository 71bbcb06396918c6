//! Templates made from the description of records.

use std::collections::HashMap;

use fathom_record::{Fold, Record, Registry, Schema, Value, Visitor};

use super::domain::DOMAIN_TEMPLATE;
use super::kinds::COLUMN_TEMPLATE;
use super::plan::{Plan, Written};
use super::{Body, ExporterCounts, ExporterSettings, Needs};
use crate::wire::{FieldSpecifier, Template};

/// The most fields of a record that are carried.
const MOST_FIELDS: usize = 128;
/// flowStartMilliseconds and flowEndMilliseconds, which collectors of flows go by. Records of an
/// interval have them besides their own fields, whose times are exact.
pub(super) const INTERVAL: [FieldSpecifier; 2] = [milliseconds(152), milliseconds(153)];

const fn milliseconds(element: u16) -> FieldSpecifier {
    FieldSpecifier {
        enterprise: None,
        element,
        length: 8,
    }
}

/// All kinds of records that were met, with their templates.
#[derive(Debug)]
pub(super) struct Derived {
    enterprise: u32,
    text_bytes: Option<u16>,
    most_variants: usize,
    kinds: Vec<Kind>,
    next_template: u16,
}

#[derive(Debug)]
struct Kind {
    schema: &'static Schema,
    /// By field of the schema.
    plans: Vec<Option<Plan>>,
    /// Of an interval: the fields with its end and its length.
    interval: Option<[usize; 2]>,
    templates: HashMap<Variant, u16>,
}

/// Which fields a record has: a bit for each field of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Variant {
    present: u128,
    /// Those whose address is an IPv6 one.
    ipv6: u128,
}

impl Variant {
    fn is_within(self, other: Self) -> bool {
        self.present & !other.present == 0 && self.ipv6 == other.ipv6 & self.present
    }
}

impl Derived {
    /// Templates get numbers from 258 on: those before are of options.
    pub(super) fn new(settings: &ExporterSettings) -> Self {
        Self {
            enterprise: settings.enterprise,
            text_bytes: settings.text_bytes,
            most_variants: settings.most_variants,
            kinds: Vec::new(),
            next_template: DOMAIN_TEMPLATE + 1,
        }
    }

    /// Writes a record into `body` and says what must be sent before; `None` for a record that no
    /// template can carry.
    pub(super) fn encode(
        &mut self,
        record: &dyn Record,
        body: &mut Body,
        counts: &mut ExporterCounts,
    ) -> Option<Needs> {
        let mut needs = Needs::default();
        let schema = record.schema();
        let is_same = |kind: &Kind| std::ptr::eq(kind.schema, schema);
        let index = self.kinds.iter().position(is_same).unwrap_or_else(|| {
            needs.new_kind = Some(schema);
            self.kinds
                .push(Kind::new(schema, self.enterprise, self.text_bytes));
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[index];
        let variant = kind.write(record, u128::MAX, &mut body.values, counts);
        if variant.present == 0 {
            return None;
        }
        body.template = match kind.templates.get(&variant) {
            Some(&template) => template,
            None if kind.templates.len() < self.most_variants
                && self.next_template < COLUMN_TEMPLATE =>
            {
                let id = self.next_template;
                self.next_template += 1;
                kind.templates.insert(variant, id);
                needs.new_template = Some(kind.template(variant, id));
                id
            }
            None => {
                let (fewer, id) = kind.nearest(variant)?;
                let omitted = (variant.present & !fewer.present).count_ones();
                counts.omitted_values += u64::from(omitted);
                // Its texts were counted the first time.
                let mut ignored = ExporterCounts::default();
                kind.write(record, fewer.present, &mut body.values, &mut ignored);
                id
            }
        };
        Some(needs)
    }
}

impl Kind {
    fn new(schema: &'static Schema, enterprise: u32, text_bytes: Option<u16>) -> Self {
        let fields = schema.scalars().iter().take(MOST_FIELDS);
        let plan = |field| Some(Plan::new(field, enterprise)?.with_texts_of(text_bytes));
        Self {
            schema,
            plans: fields.map(plan).collect(),
            interval: interval_of(schema),
            templates: HashMap::new(),
        }
    }

    /// Writes the fields of a record that are in `wanted`, and says which those were.
    fn write(
        &self,
        record: &dyn Record,
        wanted: u128,
        values: &mut Vec<u8>,
        counts: &mut ExporterCounts,
    ) -> Variant {
        values.clear();
        let mut writer = Writer {
            plans: &self.plans,
            wanted,
            variant: Variant::default(),
            values,
            counts,
        };
        record.visit(&mut writer);
        let variant = writer.variant;
        if let Some(fields) = self.interval {
            let [end, length] = fields.map(|field| match record.value(field) {
                Value::Time(ns) | Value::Duration(ns) => ns,
                _ => 0,
            });
            for ns in [end.saturating_sub(length), end] {
                values.extend((ns / 1_000_000).to_be_bytes());
            }
        }
        variant
    }

    fn template(&self, variant: Variant, id: u16) -> Template {
        let plans = self.plans.iter().enumerate();
        let present = plans.filter(|(index, _)| variant.present >> index & 1 == 1);
        let fields = present.filter_map(|(index, plan)| {
            let plan = plan.as_ref()?;
            let is_ipv6 = variant.ipv6 >> index & 1 == 1;
            Some(plan.ipv6.filter(|_| is_ipv6).unwrap_or(plan.specifier))
        });
        let interval = self.interval.map(|_| INTERVAL);
        Template {
            id,
            scope_fields: 0,
            fields: fields.chain(interval.into_iter().flatten()).collect(),
        }
    }

    /// The template with the most fields, among those whose fields the record has.
    fn nearest(&self, variant: Variant) -> Option<(Variant, u16)> {
        let usable = self.templates.iter();
        usable
            .filter(|(other, _)| other.is_within(variant))
            .max_by_key(|(other, id)| (other.present.count_ones(), **id))
            .map(|(other, id)| (*other, *id))
    }
}

struct Writer<'a> {
    plans: &'a [Option<Plan>],
    wanted: u128,
    variant: Variant,
    values: &'a mut Vec<u8>,
    counts: &'a mut ExporterCounts,
}

impl Visitor for Writer<'_> {
    fn value(&mut self, index: usize, value: Value<'_>) {
        let Some(Some(plan)) = self.plans.get(index) else {
            return;
        };
        let bit = 1 << index;
        if self.wanted & bit == 0 {
            return;
        }
        match plan.write(value, self.values, self.counts) {
            Written::Nothing => return,
            Written::Plain => {}
            Written::Ipv6 => self.variant.ipv6 |= bit,
        }
        self.variant.present |= bit;
    }
}

/// The fields with the end and the length of the interval that a record is of.
pub(super) fn interval_of(schema: &Schema) -> Option<[usize; 2]> {
    let fields = schema.scalars();
    let with = |fold| fields.iter().position(|field| field.fold == Some(fold));
    Some([with(Fold::End)?, with(Fold::Length)?])
}

/// The fields of a schema that elements carry.
pub(super) fn plans(
    schema: &'static Schema,
    enterprise: u32,
) -> impl Iterator<Item = (&'static fathom_record::Field, Plan)> {
    let fields = schema.scalars().iter().take(MOST_FIELDS);
    fields.filter_map(move |field| Some((field, Plan::new(field, enterprise)?)))
}

/// Those that own elements carry.
pub(super) fn own_plans(
    schema: &'static Schema,
    enterprise: u32,
) -> impl Iterator<Item = (&'static fathom_record::Field, Plan)> {
    let is_own = |field: &fathom_record::Field| {
        field
            .ipfix
            .is_some_and(|ipfix| ipfix.registry == Registry::Own)
    };
    plans(schema, enterprise).filter(move |(field, _)| is_own(field))
}
