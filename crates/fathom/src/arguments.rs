//! Options that commands share. Every option is declared once: flags, environment, configuration
//! file, help, manual and completions derive from it.

mod collector;
mod export;
mod metrics;
mod store;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fathom_measure::Selection;
use fathom_record::format::Format;
use fathom_record::{Network, Protocol};

use crate::output::FORMATS;
pub(crate) use collector::{CollectorUrl, ExportTarget};
pub(crate) use export::ExportArguments;
pub(crate) use metrics::{MetricsArguments, MetricsPlace};
pub(crate) use store::StoreArguments;

/// Was this option typed?
pub(crate) type IsTyped<'a> = dyn Fn(&str) -> bool + 'a;

/// Options of a command that measures.
pub(crate) trait Measures {
    /// The name of the command.
    fn name(&self) -> &'static str;

    /// Is it only to print a configuration?
    fn prints_config(&self) -> bool;

    /// Decides what options mean together, and refuses what cannot be meant.
    ///
    /// # Errors
    /// A sentence for the user.
    fn settle(&mut self, is_typed: &IsTyped<'_>) -> Result<(), String>;

    /// Measures until there is nothing more, or until it is told to stop.
    ///
    /// # Errors
    /// When the measurement cannot begin or fails, or the output cannot be written.
    fn run(&self) -> anyhow::Result<()>;
}

/// What a command of `fathom-server` takes.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Options and arguments of the command: `--help` lists them.
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}

/// Options of `fathom doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// The output format.
    #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&FORMATS))]
    pub(crate) format: Format,
}

/// Where packets come from, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Capture files: pcap or pcapng, also compressed by gzip or zstd; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Measure on this interface: a name, a pattern such as 'veth*', or `any`; can be repeated.
    ///
    /// An interface that disappears is measured again when it is back, and a pattern also takes
    /// interfaces that come later. `any` takes all that carry Ethernet or IP, including the
    /// loopback interface. It leaves out those whose packets others show anyway: a bridge (its
    /// ports are taken), ports of a bond, VLANs, MACVLANs and IFBs.
    #[arg(short, long, value_name = "INTERFACE", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// Measure arriving packets at XDP, before receive offload merges them; live only.
    #[arg(long)]
    pub(crate) xdp: bool,
    /// Stop after this time, such as 15s or 2m; by default at Ctrl-C; live only.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
}

impl Source {
    /// Decides between capture files and interfaces.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn settle(
        &mut self,
        live_only: &[&'static str],
        files_only: &[&'static str],
        is_typed: &IsTyped<'_>,
    ) -> Result<(), String> {
        let named = |option: &&str| option.replace('_', "-");
        let find =
            |options: &[&'static str]| options.iter().find(|option| is_typed(option)).map(named);
        if self.files.is_empty() {
            if self.interface.is_empty() {
                return Err(
                    "nothing to measure: name capture files, or an interface with -i".to_owned(),
                );
            }
            return match find(files_only) {
                Some(option) => Err(format!(
                    "--{option} is for capture files: leave it out with interfaces"
                )),
                None => Ok(()),
            };
        }
        if is_typed("interface") {
            return Err(
                "capture files and interfaces cannot be measured together: name one or the other"
                    .to_owned(),
            );
        }
        if let Some(option) = find(live_only) {
            return Err(format!(
                "--{option} is for live interfaces: leave it out with capture files"
            ));
        }
        // Those of the environment or the configuration file stand back behind files that were
        // typed.
        self.interface.clear();
        Ok(())
    }
}

/// Which ends traffic has that is measured.
#[derive(Debug, Args)]
pub(crate) struct Ends {
    /// Only traffic with an end in one of these networks, such as 10.0.0.0/8; at most 16; by
    /// default all.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) net: Vec<Network>,
    /// No traffic with an end in any of these networks; at most 16; by default none.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) not_net: Vec<Network>,
    /// Only traffic with one of these ports at an end; at most 16; by default all.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,
}

impl Ends {
    /// What the measurement takes.
    pub(crate) fn selection(&self, protocols: &[Protocol]) -> Selection {
        Selection {
            networks: self.net.clone(),
            excluded: self.not_net.clone(),
            ports: self.port.clone(),
            protocols: protocols.to_vec(),
        }
    }
}

/// How large networks are that are put together.
#[derive(Debug, Args)]
pub(crate) struct Prefixes {
    /// Bits of an IPv4 network with --by network, 0 to 32.
    #[arg(long, value_name = "BITS", default_value_t = 24, value_parser = clap::value_parser!(u8).range(0..=32))]
    pub(crate) prefix_v4: u8,
    /// Bits of an IPv6 network with --by network, 0 to 128.
    #[arg(long, value_name = "BITS", default_value_t = 48, value_parser = clap::value_parser!(u8).range(0..=128))]
    pub(crate) prefix_v6: u8,
}

/// Where records go, and who observed what they tell.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub(crate) struct OutputTarget {
    /// Append to this file instead of standard output; SIGHUP reopens it. With --format csv,
    /// records of other kinds go to their own files beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The name of this host in records; by default its host name.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) host: Option<String>,
}

impl OutputTarget {
    /// A CSV table on standard output cannot hold the other kinds of records that an option asks
    /// for.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn settle_table(&self, is_csv: bool, beside: Option<&str>) -> Result<(), String> {
        match beside {
            Some(option) if is_csv && self.output.is_none() => Err(format!(
                "CSV is a table of one kind of record, and --{option} asks for another: name a file with --output, beside which it gets one of its own, or take --format json"
            )),
            _ => Ok(()),
        }
    }
}

/// A value of an option, its name, and what it is.
pub(crate) type Choice<T> = (T, &'static str, &'static str);

/// Reads the name of one of these, which help lists.
pub(crate) fn one_of<T: Copy + Send + Sync>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let listed = |&(_, name, about): &Choice<T>| PossibleValue::new(name).help(about);
    PossibleValuesParser::new(choices.iter().map(listed)).try_map(move |typed| {
        let mut all = choices.iter();
        let found = all.find(|(_, name, _)| *name == typed);
        found.map(|(value, ..)| *value).ok_or("it has no value")
    })
}

/// As it is typed, for help.
pub(crate) fn typed(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Reads `100ms`, `5s`, `1m 30s`, or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it as in 100ms, 5s or 2m"))
}

pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be more than 0".to_owned()),
        time => Ok(time),
    }
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(10);
    match duration(text)? {
        time if time < LEAST => Err("it must be at least 10ms".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("5").is_err());
        assert!(positive_duration("0s").is_err());
        assert!(interval("1ms").is_err());
    }
}
