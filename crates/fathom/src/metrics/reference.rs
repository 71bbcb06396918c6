//! The table of all families, for docs/metrics.md.

use std::fmt::Write as _;

use fathom_record::Schema;

use super::family::About;
use super::labels::LabelPlan;

/// Of these kinds of records.
pub(crate) fn table(schemas: impl IntoIterator<Item = &'static Schema>) -> String {
    let mut rows = std::collections::BTreeMap::new();
    for schema in schemas {
        let labels: Vec<_> = LabelPlan::of(schema)
            .names()
            .map(|name| format!("`{name}`"))
            .collect();
        for about in schema.fields.iter().filter_map(|it| About::of(schema, it)) {
            let row = format!(
                "| `{}` | {} | {} | {} |",
                about.name,
                about.kind.name(),
                labels.join(", "),
                about.help.replace('|', "\\|")
            );
            rows.entry(about.name).or_insert(row);
        }
    }
    let mut text = "| family | type | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for row in rows.values() {
        // Writing to memory does not fail.
        let _ = writeln!(text, "{row}");
    }
    text
}
