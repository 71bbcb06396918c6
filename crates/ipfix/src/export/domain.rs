//! What the observation domain is called: who observed. It is told once to each collector, and
//! again with the templates, so that records need not carry it.

use fathom_record::{Field, Type, Unit, Value};

use super::plan::Plan;
use super::{ExporterCounts, ExporterSettings};
use crate::wire::{Encoded, FIRST_TEMPLATE, FieldSpecifier, MessageWriter, Template};

/// The number of the options template.
pub(super) const DOMAIN_TEMPLATE: u16 = FIRST_TEMPLATE + 1;

/// `observationDomainId`, the scope.
const DOMAIN: FieldSpecifier = FieldSpecifier {
    enterprise: None,
    element: 149,
    length: 4,
};
/// `observationDomainName`.
static NAME: Field = Field::new("host", Type::Text, Unit::None, "Who observed.").ipfix(300);

/// A message with the name, if there is one, and its options template.
pub(super) fn tell(
    settings: &ExporterSettings,
    writer: &mut MessageWriter,
    counts: &mut ExporterCounts,
) -> Option<Encoded> {
    let name = settings.domain_name.as_deref()?;
    let plan = Plan::new(&NAME, settings.enterprise)?.with_texts_of(settings.text_bytes);
    writer.template(&Template {
        id: DOMAIN_TEMPLATE,
        scope_fields: 1,
        fields: vec![DOMAIN, plan.specifier],
    });
    let mut record = settings.domain.to_be_bytes().to_vec();
    plan.write(Value::Text(name), &mut record, counts);
    writer.record(DOMAIN_TEMPLATE, &record);
    writer.finish()
}
