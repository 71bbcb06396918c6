//! What there is to ask for, and the questions of a paper that asked first.

use std::io::{self, Write};

use clap::ValueEnum;

use super::metric::Metric;

/// O. Tilmans and O. Bonaventure, "COP²: Continuously Observing Protocol Performance" (2019),
/// figure 7: what is shown, and what shows it.
pub(super) const PICTURES: [(&str, &str); 6] = [
    (
        "a  How many connections are over which version of IP",
        "--metric connections --by family",
    ),
    (
        "b  How long they take to be established where both versions lead (Happy Eyeballs)",
        "--metric establishment --by family --towards dual-stack",
    ),
    ("c  Jitter", "--metric jitter --by family"),
    (
        "d  How many lose their first SYN",
        "--metric syn-loss --by family",
    ),
    (
        "e  Round trips to large providers",
        "--metric rtt --by asn,family --groups 4",
    ),
    (
        "f  The servers of a network: establishment against DNS replies",
        "--metric establishment,dns --by network",
    ),
];

/// Lists metrics and examples.
///
/// # Errors
/// When they cannot be written.
pub(super) fn list(output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "Metrics, with one value for each session:")?;
    for metric in Metric::value_variants() {
        let value = metric.to_possible_value();
        let about = value.and_then(|value| value.get_help().map(ToString::to_string));
        let about = about.unwrap_or_default();
        writeln!(output, "  {:<14} {about}", metric.name())?;
    }
    writeln!(output, "\nExamples (figure 7 of the paper on COP²):")?;
    for (what, arguments) in PICTURES {
        writeln!(output, "  {what}\n     fathom compare {arguments}")?;
    }
    Ok(())
}
