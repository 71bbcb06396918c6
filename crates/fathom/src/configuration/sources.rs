//! What options mean together: what is read, and which of them contradict each other.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::arguments::{Arguments, Command, RttArguments};
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
        _ => Ok(()),
    }
}

fn settle_rtt(options: &mut RttArguments, is_typed: impl Fn(&str) -> bool) -> Result<(), String> {
    if options.files.is_empty() {
        if options.interface.is_empty() {
            return Err(
                "nothing to measure: name capture files, or an interface with -i".to_owned(),
            );
        }
    } else {
        if is_typed("interface") {
            return Err(
                "capture files and interfaces cannot be measured together: name one or the other"
                    .to_owned(),
            );
        }
        if let Some(option) = ["xdp", "duration", "near_side"]
            .into_iter()
            .find(|option| is_typed(option))
        {
            let option = option.replace('_', "-");
            return Err(format!(
                "--{option} is for live interfaces: leave it out with capture files"
            ));
        }
        // Those of the environment or the configuration file stand back behind files that were typed.
        options.interface.clear();
    }
    if options.output.format == Some(OutputFormat::Ppviz) && options.aggregation.aggregate.is_some()
    {
        return Err(
            "ppviz shows single samples: leave --aggregate or --format ppviz out".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::configuration::command;

    fn settled(options: &[&str]) -> Result<(), String> {
        let matches = command().get_matches_from(["fathom", "rtt"].iter().chain(options));
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
        assert!(settled(&["a.pcap", "--format", "ppviz", "--aggregate", "5s"]).is_err());
    }
}
