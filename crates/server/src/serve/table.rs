//! Lists as CSV, which spreadsheets open.

use serde_json::Value;

use crate::lists::Answer;

/// A table with the names of its columns.
///
/// # Errors
/// None, as memory takes all.
pub(super) fn csv_of(answer: &Answer) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(answer.columns.iter().map(|column| column.name))?;
    for row in &answer.rows {
        writer.write_record(row.iter().map(cell))?;
    }
    Ok(writer.into_inner()?)
}

/// A value as a spreadsheet takes it: a text that begins like a formula is none.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => {
            format!("'{text}")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_formulas() {
        assert_eq!(cell(&Value::from("=cmd()")), "'=cmd()");
        assert_eq!(cell(&Value::from("a-b")), "a-b");
        assert_eq!(cell(&Value::from(-3)), "-3");
        assert_eq!(cell(&Value::Null), "");
    }
}
