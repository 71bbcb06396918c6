//! What leaves fathom: connections of which processes, and how much of their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fathom_record::{Record, Schema, Value, Visitor};

use super::arguments::{Anonymity, ProfileArguments};

/// Bytes of a process's name that the kernel keeps (`TASK_COMM_LEN`, without the zero behind them).
const KEPT_BYTES: usize = 15;

/// Decides about records by the names of their fields.
pub(super) struct Filter {
    processes: Vec<String>,
    anonymity: Option<Anonymity>,
}

impl Filter {
    pub(super) fn new(arguments: &ProfileArguments) -> Self {
        Self {
            processes: arguments.selection.process.clone(),
            anonymity: arguments.output.anonymize,
        }
    }

    /// Is it of a process that is wanted?
    pub(super) fn admits(&self, record: &dyn Record) -> bool {
        if self.processes.is_empty() {
            return true;
        }
        let process = record
            .schema()
            .position("process")
            .map(|index| record.value(index));
        let Some(Value::Text(name)) = process else {
            return false;
        };
        let id = || {
            let index = record.schema().position("pid")?;
            match record.value(index) {
                Value::Unsigned(id) => Some(id),
                _ => None,
            }
        };
        self.processes.iter().any(|wanted| {
            wanted == name
                || (is_start_kept(wanted, name) && id().is_none_or(|id| is_called(id, wanted)))
        })
    }

    /// Hands the record on as it may be seen.
    pub(super) fn hide(&self, record: &dyn Record, mut put: impl FnMut(&dyn Record)) {
        match self.anonymity {
            None => put(record),
            Some(anonymity) => put(&Hidden::new(record, anonymity)),
        }
    }
}

/// Is `name` what the kernel keeps of a name that is longer?
fn is_start_kept(wanted: &str, name: &str) -> bool {
    wanted.len() > KEPT_BYTES && wanted.as_bytes().get(..KEPT_BYTES) == Some(name.as_bytes())
}

/// Is a process whose name starts as `wanted` does called so whole, by the program it runs or the
/// name it was run by? Of one that has ended, or may not be looked at, the start is all that is
/// known, and enough.
fn is_called(id: u64, wanted: &str) -> bool {
    let base = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next() == Some(wanted.as_bytes());
    let program = std::fs::read_link(format!("/proc/{id}/exe"));
    let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    // A script is the second word of its line: the first is what runs it.
    if line.split(|byte| *byte == 0).any(base) {
        return true;
    }
    match program {
        Ok(program) => base(program.as_os_str().as_encoded_bytes()),
        Err(_) => line.is_empty(),
    }
}

/// A record whose addresses are cut.
struct Hidden<'a> {
    record: &'a dyn Record,
    anonymity: Anonymity,
    /// The field that applications fill in, and its text cut: somebody may have asked for the name
    /// of an address.
    name: Option<(usize, String)>,
}

impl<'a> Hidden<'a> {
    fn new(record: &'a dyn Record, anonymity: Anonymity) -> Self {
        let position = record.schema().position("query_name");
        let name = position.and_then(|index| match record.value(index) {
            Value::Text(name) => {
                let cut = anonymity.cut_text(name);
                Some((index, cut.or_else(|| anonymity.cut_reverse(name))?))
            }
            _ => None,
        });
        Self {
            record,
            anonymity,
            name,
        }
    }
}

impl Anonymity {
    /// The network of an address.
    fn cut(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.v4_bits))
                    .unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.v6_bits))
                    .unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }

    /// The network of the address whose name a name asks for (RFC 1035, section 3.5; RFC 3596,
    /// section 2.5); `None` for any other name.
    fn cut_reverse(self, name: &str) -> Option<String> {
        let lower = name.trim_end_matches('.').to_ascii_lowercase();
        let kept = |zone: &str, bits: u8, label_bits: u8| {
            let labels = lower.strip_suffix(zone)?;
            let labels = labels.strip_suffix('.').unwrap_or(labels);
            // Those in front are the last bits of the address.
            let count = usize::from(bits / label_bits);
            let labels: Vec<&str> = labels
                .rsplit('.')
                .filter(|label| !label.is_empty())
                .take(count)
                .collect();
            let labels = labels
                .into_iter()
                .rev()
                .chain([zone.trim_start_matches('.')]);
            Some(labels.collect::<Vec<_>>().join("."))
        };
        kept("in-addr.arpa", self.v4_bits, 8).or_else(|| kept("ip6.arpa", self.v6_bits, 4))
    }

    /// The network of an address that stands in a text, with or without its zone; `None` for any
    /// other text.
    fn cut_text(self, text: &str) -> Option<String> {
        let (address, zone) = text.split_once('%').unwrap_or((text, ""));
        let cut = self.cut(address.parse().ok()?);
        let mark = if zone.is_empty() { "" } else { "%" };
        Some(format!("{cut}{mark}{zone}"))
    }
}

impl Record for Hidden<'_> {
    fn schema(&self) -> &'static Schema {
        self.record.schema()
    }

    fn value(&self, index: usize) -> Value<'_> {
        match (self.record.value(index), &self.name) {
            (Value::Address(address), _) => Value::Address(self.anonymity.cut(address)),
            // The addresses could be found from it.
            (Value::CommunityId(_), _) => Value::Missing,
            (Value::Text(_), Some((position, name))) if *position == index => Value::Text(name),
            (value, _) => value,
        }
    }

    fn visit(&self, visitor: &mut dyn Visitor) {
        for index in 0..self.schema().fields.len() {
            match self.value(index) {
                Value::Missing => {}
                value => visitor.value(index, value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_longer_than_the_kernel_keeps() {
        assert!(is_start_kept("a-very-long-name-indeed", "a-very-long-nam"));
        assert!(!is_start_kept("a-very-long-name-indeed", "a-very-long-na"));
        assert!(!is_start_kept("a-very-long-nam", "a-very-long-nam"));
        let program = std::env::current_exe().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        let own = u64::from(std::process::id());
        assert!(is_called(own, name));
        assert!(!is_called(own, &format!("{name}x")));
        // Nobody has this number.
        assert!(is_called(u64::from(u32::MAX), name));
    }

    #[test]
    fn texts_that_are_addresses_are_cut() {
        let anonymity = Anonymity {
            v4_bits: 24,
            v6_bits: 64,
        };
        let cut = |text: &str| anonymity.cut_text(text);
        assert_eq!(cut("192.0.2.7").as_deref(), Some("192.0.2.0"));
        assert_eq!(cut("2001:db8::1:2").as_deref(), Some("2001:db8::"));
        assert_eq!(cut("fe80::7%eth0").as_deref(), Some("fe80::%eth0"));
        for name in ["", "www.example.com", "192.0.2.7.example", "1.2.3"] {
            assert_eq!(cut(name), None);
            assert_eq!(anonymity.cut_reverse(name), None);
        }
        let cut = |text: &str| anonymity.cut_reverse(text);
        assert_eq!(
            cut("7.2.0.192.In-Addr.arpa").as_deref(),
            Some("2.0.192.in-addr.arpa")
        );
        assert_eq!(
            cut("192.in-addr.arpa.").as_deref(),
            Some("192.in-addr.arpa")
        );
        let host =
            "7.0.".to_owned() + &"0.".repeat(14) + "1.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        assert_eq!(
            cut(&host).as_deref(),
            Some("1.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa")
        );
    }
}
