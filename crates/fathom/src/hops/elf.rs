//! Probes in the fifteen columns of ELF, for the scripts that read them, and a sixteenth where the
//! user's function fills it.

use std::io::Write as _;

use fathom_measure::hops::HopProbe;
use fathom_record::Record;

use crate::output::Formatter;

const COLUMNS: &str = "recvcpu,seq,origseq,latency,sendtime,recvtime,dest,responder,outttl,recvttl,sport,dport,protocol,outipid,inipid";

/// Writes the columns' names first.
#[derive(Debug, Default)]
pub(super) struct ElfWriter {
    has_begun: bool,
    /// There is a sixteenth column.
    has_extracted: bool,
}

impl ElfWriter {
    pub(super) fn new(has_extracted: bool) -> Self {
        Self {
            has_extracted,
            ..Self::default()
        }
    }

    fn put_probe(&mut self, probe: &HopProbe, text: &mut Vec<u8>) {
        // Writing to memory does not fail.
        if !self.has_begun {
            self.has_begun = true;
            let sixteenth = if self.has_extracted { ",extracted" } else { "" };
            let _ = writeln!(text, "{COLUMNS}{sixteenth}");
        }
        let responder = probe.responder.map(|address| address.to_string());
        // IPv6 has no identification. ELF tells the one that was quoted, too, and here no other is
        // taken for an answer.
        let identification = if probe.flow.source.is_ipv4() {
            i64::from(probe.probe & 0xffff)
        } else {
            0
        };
        let quoted = responder.as_ref().map_or(-1, |_| identification);
        let _ = write!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            probe.cpu.unwrap_or_default(),
            probe.probe,
            probe.sequence.unwrap_or_default(),
            probe.rtt_ns.map_or(-1, |rtt| rtt.0.cast_signed()),
            probe.time.0,
            probe.answer_time.map_or(-1, |time| time.0.cast_signed()),
            probe.flow.destination,
            responder.unwrap_or_default(),
            probe.ttl,
            probe.reply_ttl.map_or(-1, i16::from),
            probe.flow.source_port,
            probe.flow.destination_port,
            probe.flow.protocol.0,
            identification,
            quoted,
        );
        if self.has_extracted {
            let _ = write!(text, ",{}", probe.extracted.as_deref().unwrap_or_default());
        }
        text.push(b'\n');
    }
}

impl Formatter for ElfWriter {
    fn put(&mut self, record: &dyn Record, text: &mut Vec<u8>) {
        if let Some(probe) = record.downcast_ref() {
            self.put_probe(probe, text);
        }
    }
}
