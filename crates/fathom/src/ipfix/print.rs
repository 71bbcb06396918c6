//! Records of any exporter as lines.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use fathom_ipfix::Collected;
use fathom_ipfix::wire::DataValue;

/// Appends a line for people: when and from whom the message came, then names and values.
pub(super) fn text(record: &Collected<'_>, line: &mut String) {
    let header = record.header;
    let kind = if record.is_options() { " options" } else { "" };
    // Writing into a string cannot fail.
    let _ = write!(
        line,
        "{} {} domain {} template {}{kind} ",
        rfc3339(Duration::from_secs(header.export_time.into())),
        record.session.exporter,
        header.domain,
        record.record.template.id,
    );
    for field in record.fields() {
        let value = field.value;
        let _ = match field.value {
            DataValue::Text(text) if text.is_empty() || text.contains(' ') => {
                write!(line, " {}=\"{value}\"", field.name.escape_debug())
            }
            _ => write!(line, " {}={value}", field.name.escape_debug()),
        };
    }
    line.push('\n');
}

/// Appends a JSON object: of the header the kind, `time`, `exporter`, `domain` and `template`, then
/// the fields by their names. A name that there is already gets a number: `interfaceName_2`.
pub(super) fn json(record: &Collected<'_>, line: &mut String) {
    let header = record.header;
    let kind = if record.is_options() {
        "ipfix_options"
    } else {
        "ipfix"
    };
    let _ = write!(
        line,
        r#"{{"kind":"{kind}","time":"{}","exporter":"{}","domain":{},"template":{}"#,
        rfc3339(Duration::from_secs(header.export_time.into())),
        record.session.exporter,
        header.domain,
        record.record.template.id,
    );
    let mut names: Vec<Cow<'_, str>> = ["kind", "time", "exporter", "domain", "template"]
        .map(Cow::Borrowed)
        .into();
    for field in record.fields() {
        let mut name = field.name.clone();
        let mut number = 1;
        while names.contains(&name) {
            number += 1;
            name = format!("{}_{number}", field.name).into();
        }
        line.push(',');
        put_string(line, &name);
        line.push(':');
        names.push(name);
        put_value(line, field.value);
    }
    line.push_str("}\n");
}

fn put_value(line: &mut String, value: DataValue<'_>) {
    let _ = match value {
        DataValue::Unsigned(number) => write!(line, "{number}"),
        DataValue::Signed(number) => write!(line, "{number}"),
        DataValue::Float(number) if number.is_finite() => write!(line, "{number}"),
        DataValue::Float(_) => write!(line, "null"),
        DataValue::Boolean(answer) => write!(line, "{answer}"),
        DataValue::Text(text) => {
            put_string(line, text);
            Ok(())
        }
        // Nothing in them needs an escape.
        value => write!(line, "\"{value}\""),
    };
}

fn put_string(line: &mut String, text: &str) {
    line.push('"');
    for character in text.chars() {
        let _ = match character {
            '"' | '\\' => write!(line, "\\{character}"),
            '\n' => write!(line, "\\n"),
            '\t' => write!(line, "\\t"),
            character if character.is_control() => write!(line, "\\u{:04x}", character as u32),
            character => write!(line, "{character}"),
        };
    }
    line.push('"');
}

fn rfc3339(since_epoch: Duration) -> impl fmt::Display {
    humantime::format_rfc3339(SystemTime::UNIX_EPOCH + since_epoch)
}

#[cfg(test)]
mod tests {
    use fathom_ipfix::wire::{
        FieldSpecifier, MessageWriter, Template, VARIABLE_LENGTH, write_text,
    };
    use fathom_ipfix::{Collector, Limits, Session};

    use super::*;

    /// A record of text, an address, twice the same name and an unknown element, as `show` shows
    /// it.
    fn shown(show: fn(&Collected<'_>, &mut String)) -> String {
        let field = |enterprise, element, length| FieldSpecifier {
            enterprise,
            element,
            length,
        };
        let fields = vec![
            field(None, 82, VARIABLE_LENGTH),
            field(None, 82, VARIABLE_LENGTH),
            field(None, 8, 4),
            field(None, 325, 8),
            field(Some(9), 7, 2),
        ];
        let mut writer = MessageWriter::new(5, 1232);
        writer.template(&Template {
            id: 300,
            scope_fields: 0,
            fields,
        });
        let mut values = Vec::new();
        write_text(&mut values, b"a \"b\"\x1b");
        write_text(&mut values, b"eth0");
        values.extend([10, 0, 0, 1, 0x83, 0xaa, 0x7e, 0x80, 0, 0, 0, 0, 1, 255]);
        writer.record(300, &values);
        let mut message = writer.finish().unwrap();
        message.stamp(0, 0);
        let session = Session {
            exporter: "192.0.2.1:9".parse().unwrap(),
            connection: 0,
        };
        let mut line = String::new();
        let mut collector = Collector::new(Limits::default());
        let read = collector.messages(session, &message.bytes, &mut |record| {
            show(&record, &mut line);
        });
        read.unwrap();
        line
    }

    #[test]
    fn text_is_harmless() {
        assert_eq!(
            shown(text),
            "1970-01-01T00:00:00Z 192.0.2.1:9 domain 5 template 300  interfaceName=\"a \\\"b\\\"\\u{1b}\" \
             interfaceName=eth0 sourceIPv4Address=10.0.0.1 observationTimeNanoseconds=1970-01-01T00:00:00.000000000Z e9id7=0x01ff\n"
        );
    }

    #[test]
    fn json_is_json() {
        let object: serde_json::Value = serde_json::from_str(&shown(json)).unwrap();
        let expected = serde_json::json!({
            "kind": "ipfix",
            "time": "1970-01-01T00:00:00Z",
            "exporter": "192.0.2.1:9",
            "domain": 5,
            "template": 300,
            "interfaceName": "a \"b\"\u{1b}",
            "interfaceName_2": "eth0",
            "sourceIPv4Address": "10.0.0.1",
            "observationTimeNanoseconds": "1970-01-01T00:00:00.000000000Z",
            "e9id7": "0x01ff",
        });
        assert_eq!(object, expected);
    }
}
