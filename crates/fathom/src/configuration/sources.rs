//! What options mean together: what is read, and which of them contradict each other.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::Arguments;

/// Decides between interfaces and files, and refuses what cannot be meant.
///
/// # Errors
/// A sentence for the user.
pub(super) fn settle(arguments: &mut Arguments, matches: &ArgMatches) -> Result<(), String> {
    let Some((_, matches)) = matches.subcommand() else {
        return Ok(());
    };
    let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match arguments.command.measurement() {
        Some(options) if !options.prints_config() => options.settle(&is_typed),
        _ => Ok(()),
    }
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
        assert!(settled_of("hops", &["example.org"]).is_ok());
        assert!(
            settled_of("hops", &["example.org", "--port", "1"])
                .unwrap_err()
                .contains("selects the flow")
        );
        assert!(
            settled_of("hops", &["--", "true"])
                .unwrap_err()
                .contains("nothing to probe")
        );
    }
}
