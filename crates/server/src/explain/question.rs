//! Statements over the rows of a subject, which a user can ask, too.

use datafusion::scalar::ScalarValue;
use serde::de::DeserializeOwned;

use super::explanation::moment;
use super::subject::Subject;
use crate::lists::Range;
use crate::query::Engine;

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub(super) struct Question {
    sql: String,
    values: Vec<ScalarValue>,
}

impl Question {
    /// `sql` has `{subject}` where its rows must belong to the subject, and `$1` and `$2` for the
    /// range.
    pub(super) fn of(sql: &str, subject: &Subject, range: Range) -> Self {
        let (condition, more) = subject.condition();
        let mut values = range.parameters();
        values.extend(more);
        Self {
            sql: sql.replace("{subject}", &condition),
            values,
        }
    }

    /// Puts a value where `name` is in the statement.
    pub(super) fn with(mut self, name: &str, value: impl Into<ScalarValue>) -> Self {
        self.values.push(value.into());
        self.sql = self.sql.replace(name, &format!("${}", self.values.len()));
        self
    }

    /// # Errors
    /// When there is no store, or the statement fails.
    pub(super) async fn ask<T: DeserializeOwned>(&self, engine: &Engine) -> anyhow::Result<Vec<T>> {
        // What is not in the statement must not be given.
        engine.ask(&self.sql, &self.values).await
    }

    /// The statement as a user can ask it: on one line, with its parameters in it.
    pub(super) fn text(&self) -> String {
        let mut text = self.sql.split_whitespace().collect::<Vec<_>>().join(" ");
        for (number, value) in self.values.iter().enumerate().rev() {
            text = text.replace(&format!("${}", number + 1), &literal(value));
        }
        text
    }
}

fn literal(value: &ScalarValue) -> String {
    match value {
        ScalarValue::TimestampNanosecond(Some(ns), _) => format!("TIMESTAMP '{}'", moment(*ns)),
        ScalarValue::Utf8(Some(text)) => format!("'{}'", text.replace('\'', "''")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_sees_values_in_place_of_parameters() {
        let range = Range {
            from_ns: 0,
            to_ns: 1_000_000_000,
        };
        let subject = Subject::Host("o'hara".to_owned());
        let question = Question::of(
            "SELECT 1\n WHERE time > $1 AND {subject} AND far = FAR",
            &subject,
            range,
        );
        assert_eq!(
            question.with("FAR", "192.0.2.1").text(),
            "SELECT 1 WHERE time > TIMESTAMP '1970-01-01T00:00:00.000Z' AND host = 'o''hara' AND far = '192.0.2.1'"
        );
    }
}
