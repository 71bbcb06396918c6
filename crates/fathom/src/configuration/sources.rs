//! What options mean together: what is read, and which of them contradict each other.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::arguments::{Arguments, Command, Place, PrintFormat, RttArguments, Source};
use crate::output::OutputFormat;

/// Decides between interfaces and files, and refuses what cannot be meant.
///
/// # Errors
/// A sentence for the user.
pub(super) fn settle(arguments: &mut Arguments, matches: &ArgMatches) -> Result<(), String> {
    let Some((_, matches)) = matches.subcommand() else {
        return Ok(());
    };
    let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match &mut arguments.command {
        Command::Rtt(options) if !options.print_config => settle_rtt(options, is_typed),
        Command::Response(options) if !options.print_config => {
            let live_only = ["xdp", "duration", "waiting"];
            let is_csv = options.output.format == Some(PrintFormat::Csv);
            let beside = options.estimation.waiting.is_some().then_some("waiting");
            settle_table(is_csv, &options.output.place, beside)?;
            settle_source(&mut options.source, &live_only, &["compare"], is_typed)
        }
        #[cfg(feature = "live")]
        Command::Hops(options) if !options.print_config && options.interface.is_empty() => {
            Err("nothing to probe: name an interface with -i".to_owned())
        }
        #[cfg(feature = "live")]
        Command::Profile(options) if !options.print_config => {
            let is_csv = options.output.format == Some(PrintFormat::Csv);
            settle_table(is_csv, &options.output.place, options.dns.then_some("dns"))
        }
        _ => Ok(()),
    }
}

fn settle_rtt(options: &mut RttArguments, is_typed: impl Fn(&str) -> bool) -> Result<(), String> {
    let live_only = ["xdp", "duration", "near_side"];
    settle_source(&mut options.source, &live_only, &[], is_typed)?;
    if options.output.format == Some(OutputFormat::Ppviz) && options.aggregation.interval.is_some()
    {
        return Err(
            "ppviz shows single samples: leave --interval or --format ppviz out".to_owned(),
        );
    }
    let is_csv = options.output.format == Some(OutputFormat::Csv);
    let beside = options.output.events.then_some("events");
    settle_table(is_csv, &options.output.place, beside)
}

/// A table on standard output has no place for the other kinds of records that an option asks for.
fn settle_table(is_csv: bool, place: &Place, beside: Option<&str>) -> Result<(), String> {
    match beside {
        Some(option) if is_csv && place.output.is_none() => Err(format!(
            "CSV is a table of one kind of record, and --{option} asks for another: name a file with --output, beside which it gets one of its own, or take --format json"
        )),
        _ => Ok(()),
    }
}

/// Decides between capture files and interfaces.
fn settle_source(
    source: &mut Source,
    live_only: &[&'static str],
    files_only: &[&'static str],
    is_typed: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let named = |option: &&str| option.replace('_', "-");
    let find = |options: &[&'static str]| options.iter().find(|option| is_typed(option)).map(named);
    if source.files.is_empty() {
        if source.interface.is_empty() {
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
    // Those of the environment or the configuration file stand back behind files that were typed.
    source.interface.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::configuration::command;

    fn settled(options: &[&str]) -> Result<(), String> {
        settled_of("rtt", options)
    }

    fn settled_of(name: &str, options: &[&str]) -> Result<(), String> {
        let matches = command().get_matches_from(["fathom", name].iter().chain(options));
        let mut arguments = Arguments::from_arg_matches(&matches).unwrap();
        settle(&mut arguments, &matches)
    }

    #[test]
    fn there_is_one_kind_of_source() {
        assert!(settled(&["a.pcap", "-"]).is_ok());
        assert!(settled(&["-i", "eth0", "--xdp"]).is_ok());
        assert!(settled(&["--print-config"]).is_ok());
        assert!(settled(&[]).unwrap_err().contains("nothing to measure"));
        assert!(
            settled(&["-i", "eth0", "a.pcap"])
                .unwrap_err()
                .contains("together")
        );
        assert!(
            settled(&["a.pcap", "--near-side"])
                .unwrap_err()
                .contains("--near-side is for live")
        );
        assert!(settled(&["a.pcap", "--format", "ppviz", "--interval", "5s"]).is_err());
        assert!(settled(&["a.pcap", "--events", "--format", "csv"]).is_err());
        assert!(settled(&["a.pcap", "--events", "--format", "csv", "--output", "a.csv"]).is_ok());
        let live = ["-i", "eth0", "--compare"];
        let told = settled_of("response", &live).unwrap_err();
        assert!(told.contains("--compare is for capture files"));
    }

    #[test]
    #[cfg(feature = "live")]
    fn hops_are_those_behind_an_interface() {
        assert!(settled_of("hops", &["-i", "eth0"]).is_ok());
        assert!(settled_of("hops", &["--print-config"]).is_ok());
        assert!(
            settled_of("hops", &["--", "true"])
                .unwrap_err()
                .contains("nothing to probe")
        );
    }
}
