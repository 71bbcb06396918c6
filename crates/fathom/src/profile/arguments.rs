//! Options of `fathom profile`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fathom_measure::profile::{Options, ProbeSet};
use fathom_record::format::Format;

use crate::arguments::{
    Choice, Ends, ExportArguments, IsTyped, Measures, OutputTarget, duration, one_of,
    positive_duration, typed,
};
use crate::output::FORMATS;

/// Options of `fathom profile`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags")]
pub(crate) struct ProfileArguments {
    /// Say which probes this kernel has, which figures profiles get from them, and why the others
    /// are missing; then exit.
    #[arg(long)]
    pub(crate) probes: bool,
    /// The probes to use; by default the set that can do more on this kernel.
    #[arg(long, value_name = "SET", value_parser = one_of(&PROBE_SETS))]
    pub(crate) probe_set: Option<ProbeSet>,
    /// Stop after this time, such as 15s or 2m; by default at Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Report a connection that had no profile for this time; 0 for never.
    #[arg(long, value_name = "TIME", default_value = typed(Options::default().active_timeout), value_parser = duration)]
    pub(crate) active_timeout: Duration,
    /// Report a connection that ends within 200 ms after it was established once, from its
    /// beginning to its end, unless its SYN was sent again. An agent does so.
    #[arg(long)]
    pub(crate) coalesce: bool,
    /// Look for existing connections in all network namespaces, not only in fathom's own; needs
    /// `CAP_SYS_ADMIN`.
    #[arg(long)]
    pub(crate) all_namespaces: bool,
    /// Also report the host's DNS exchanges, and how long its applications wait for names. This
    /// looks at every packet of the host's sockets, which costs a percent of a processor at full
    /// load.
    #[arg(long)]
    pub(crate) dns: bool,
    /// With --dns, leave out the names that are looked up.
    #[arg(long)]
    pub(crate) no_names: bool,
    /// With --dns, give up a DNS query that has no answer for this time since it was last sent.
    #[arg(long, value_name = "TIME", default_value = typed(Options::default().dns_timeout), value_parser = positive_duration)]
    pub(crate) dns_timeout: Duration,
    /// Print a configuration file with the defaults, then exit.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Say on standard error which probes are used.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) selection: ProfileSelection,
    #[command(flatten)]
    pub(crate) output: ProfileOutput,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
}

const PROBE_SETS: [Choice<ProbeSet>; 2] = [
    (
        ProbeSet::Tracepoint,
        ProbeSet::Tracepoint.name(),
        "Tracepoints and control groups",
    ),
    (
        ProbeSet::Fentry,
        ProbeSet::Fentry.name(),
        "Entry and exit of functions of the stack",
    ),
];

/// Which connections are profiled.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct ProfileSelection {
    #[command(flatten)]
    pub(crate) ends: Ends,
    /// Only sockets in this control group or below it: a folder of the version 2 hierarchy; by
    /// default all.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cgroup: Option<PathBuf>,
    /// Only connections of processes with one of these names, as `ps -o comm` shows them. A longer
    /// name is that of the program, or of the first argument. By default all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) process: Vec<String>,
}

/// Where profiles go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ProfileOutput {
    /// The output format; by default text, or no output with --export.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&FORMATS))]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
    /// Keep only this many bits of addresses, such as v4=24,v6=64; by default all. With --dns,
    /// names stay, unless they are addresses or look up the name of an address: see --no-names.
    #[arg(long, value_name = "BITS", value_parser = anonymity)]
    pub(crate) anonymize: Option<Anonymity>,
}

/// Bits of addresses that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anonymity {
    pub(crate) v4_bits: u8,
    pub(crate) v6_bits: u8,
}

/// Reads `v4=24,v6=64`; a family that is not named keeps all its bits.
fn anonymity(text: &str) -> Result<Anonymity, String> {
    const FORM: &str = "write it as in v4=24,v6=64";
    let mut anonymity = Anonymity {
        v4_bits: 32,
        v6_bits: 128,
    };
    for part in text.split(',') {
        let (family, bits) = part.split_once('=').ok_or(FORM)?;
        let bits: u8 = bits.parse().map_err(|_| FORM)?;
        match family {
            "v4" if bits <= 32 => anonymity.v4_bits = bits,
            "v6" if bits <= 128 => anonymity.v6_bits = bits,
            "v4" | "v6" => return Err(format!("an address has no {bits} bits; {FORM}")),
            _ => return Err(FORM.to_owned()),
        }
    }
    Ok(anonymity)
}

impl Measures for ProfileArguments {
    fn name(&self) -> &'static str {
        super::MEASUREMENT.name
    }

    fn prints_config(&self) -> bool {
        self.print_config
    }

    fn settle(&mut self, _: &IsTyped<'_>) -> Result<(), String> {
        let is_csv = self.output.format == Some(Format::Csv);
        let beside = self.dns.then_some("dns");
        self.output.target.settle_table(is_csv, beside)
    }

    fn run(&self) -> anyhow::Result<()> {
        super::run(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_addresses() {
        let bits = |v4_bits, v6_bits| Anonymity { v4_bits, v6_bits };
        assert_eq!(anonymity("v4=24,v6=64"), Ok(bits(24, 64)));
        assert_eq!(anonymity("v6=48"), Ok(bits(32, 48)));
        for wrong in ["", "24", "v4=33", "v6=129", "v4=x", "ipv4=3", "v4=24,"] {
            assert!(anonymity(wrong).is_err(), "{wrong}");
        }
    }
}
