//! Probes in the fifteen columns of ELF, for the scripts that read them, and a sixteenth where the user's function fills it.

use std::fmt::Write as _;

use fathom_measure::hops::HopProbe;

use crate::output::Output;

const COLUMNS: &str = "recvcpu,seq,origseq,latency,sendtime,recvtime,dest,responder,outttl,recvttl,sport,dport,protocol,outipid,inipid";

/// Writes the columns' names first.
#[derive(Debug, Default)]
pub(super) struct ElfWriter {
    has_begun: bool,
    /// There is a sixteenth column.
    has_extracted: bool,
    line: String,
}

impl ElfWriter {
    pub(super) fn new(has_extracted: bool) -> Self {
        Self {
            has_extracted,
            ..Self::default()
        }
    }

    /// Takes a probe.
    pub(super) fn put(&mut self, probe: &HopProbe, output: &mut Output) {
        self.line.clear();
        if !self.has_begun {
            self.has_begun = true;
            self.line.push_str(COLUMNS);
            self.line.push_str(if self.has_extracted {
                ",extracted\n"
            } else {
                "\n"
            });
        }
        let responder = probe.responder.map(|address| address.to_string());
        // IPv6 has no identification. ELF tells the one that was quoted, too, and here no other is taken for an answer.
        let identification = if probe.flow.source.is_ipv4() {
            i64::from(probe.probe & 0xffff)
        } else {
            0
        };
        let quoted = responder.as_ref().map_or(-1, |_| identification);
        // Writing to a string cannot fail.
        let _ = write!(
            self.line,
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
            self.line.push(',');
            self.line
                .push_str(probe.extracted.as_deref().unwrap_or_default());
        }
        self.line.push('\n');
        output.put_text(&self.line);
    }
}
