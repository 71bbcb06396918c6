//! `fathom profile --probes`: what can be probed here.

use std::fmt::Write as _;

use fathom_measure::profile::{Indicator, Probes, available};

use crate::output::Output;

/// Prints both sets, the one that would be used first.
///
/// # Errors
/// When the kernel does not describe itself, or the output cannot be written.
pub(super) fn print() -> anyhow::Result<()> {
    let mut output = Output::text()?;
    for (number, set) in available()?.iter().enumerate() {
        output.put_text(&describe(set, number == 0));
    }
    output.finish()
}

fn describe(set: &Probes, is_used: bool) -> String {
    let mut text = format!("{}{}\n", set.set, if is_used { " (used)" } else { "" });
    if let Some(why) = &set.refusal {
        let _ = writeln!(text, "  no   {why}");
        return text;
    }
    for indicator in Indicator::ALL {
        let why = set
            .missing
            .iter()
            .find(|(missing, _)| *missing == indicator);
        // Writing to memory does not fail.
        let _ = match why {
            None => writeln!(text, "  yes  {}", indicator.about()),
            Some((_, why)) => writeln!(text, "  no   {}: {why}", indicator.about()),
        };
    }
    for note in set.parts().chain(set.notes.iter().map(String::as_str)) {
        let _ = writeln!(text, "       {note}");
    }
    text
}
