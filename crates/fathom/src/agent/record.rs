//! What the agent says of itself: so a row of a flow need not carry what holds for its host.

use std::fmt;
use std::str::FromStr;

use fathom_record::{Metric, Nanoseconds, Time, record};

use super::{AgentArguments, interfaces};
use crate::failure::WrongUsage;

record! {
    /// An agent, and how it measures: told when it begins, when it has read its configuration
    /// again, and once an hour.
    #[record = "agent"]
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct AgentRecord {
        /// When it was told.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The version of fathom.
        #[field(own_ipfix = 370)]
        pub version: &'static str,
        /// What it measures, with commas between.
        #[field(own_ipfix = 371)]
        pub measurements: String,
        /// Interfaces on which packets are measured, and patterns of their names, with commas
        /// between.
        #[field(own_ipfix = 372)]
        pub interfaces: String,
        /// How long its intervals are.
        #[field(own_ipfix = 373)]
        pub interval_ns: Nanoseconds,
        /// What its host is called besides, as `rack=7,site=ber1`; empty where there are none.
        #[field(own_ipfix = 374, metric = Metric::Target)]
        pub labels: String,
    }
}

impl AgentRecord {
    /// Of an agent that begins with these.
    ///
    /// # Errors
    /// When it has no interface, or a label twice.
    pub(super) fn of(arguments: &AgentArguments) -> anyhow::Result<Self> {
        Ok(Self {
            time: Time::now(),
            version: env!("CARGO_PKG_VERSION"),
            measurements: arguments.measure.join(","),
            interfaces: interfaces(arguments)?.join(","),
            interval_ns: arguments.interval.into(),
            labels: text_of(&arguments.label)?,
        })
    }
}

/// A name of a host besides its own, and what it is there: `site=ber1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    name: String,
    value: String,
}

/// Prometheus gives these to what it scrapes itself.
const TAKEN: [&str; 2] = ["instance", "job"];
const LONGEST: usize = 100;

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or("write it as NAME=VALUE, such as site=ber1")?;
        let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let begins = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        if !begins || !name.chars().all(is_word) || name.starts_with("__") {
            return Err(format!(
                "`{name}` is no name of a label: it begins with a letter or one underscore, and has letters, digits and underscores"
            ));
        }
        if TAKEN.contains(&name) {
            return Err(format!("Prometheus calls the host's own address `{name}`"));
        }
        if value.is_empty() || value.len() > LONGEST {
            return Err(format!("a value has 1 to {LONGEST} bytes"));
        }
        if value.contains(|it: char| it == ',' || it.is_control()) {
            return Err("a value has neither commas nor control characters".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.name, self.value)
    }
}

/// All of them, by name.
fn text_of(labels: &[Label]) -> anyhow::Result<String> {
    let mut labels = labels.to_vec();
    labels.sort();
    if let Some(twice) = labels.windows(2).find(|two| two[0].name == two[1].name) {
        let name = &twice[0].name;
        return Err(WrongUsage::error(format!(
            "the label `{name}` is there twice: it can have one value"
        )));
    }
    let labels: Vec<_> = labels.iter().map(Label::to_string).collect();
    Ok(labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    #[test]
    fn labels_are_one_text_in_the_order_of_their_names() {
        let labels = ["site=ber1", "_rack=7", "owner=a=b c"].map(label);
        assert_eq!(text_of(&labels).unwrap(), "_rack=7,owner=a=b c,site=ber1");
        assert_eq!(text_of(&[]).unwrap(), "");
        let twice = ["site=a", "rack=7", "site=b"].map(label);
        let told = text_of(&twice).unwrap_err().to_string();
        assert!(told.contains("`site` is there twice"), "{told}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("site", "NAME=VALUE"),
            ("=ber1", "`` is no name"),
            ("7=ber1", "`7` is no name"),
            ("site.name=ber1", "`site.name` is no name"),
            ("__site=ber1", "`__site` is no name"),
            ("job=ber1", "Prometheus"),
            ("site=", "1 to 100 bytes"),
            ("site=a,b", "commas"),
            ("site=a\nb", "control"),
        ] {
            let told = text.parse::<Label>().unwrap_err();
            assert!(told.contains(reason), "{text}: {told}");
        }
        assert!(format!("a={}", "b".repeat(101)).parse::<Label>().is_err());
    }
}
