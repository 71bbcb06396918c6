//! `fathom profile --probes`: what can be probed here.

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
    output.flush()
}

fn describe(set: &Probes, is_used: bool) -> String {
    let mut text = format!("{}{}\n", set.set, if is_used { " (used)" } else { "" });
    for indicator in Indicator::ALL {
        let why = set
            .missing
            .iter()
            .find(|(missing, _)| *missing == indicator);
        match why {
            None => text.push_str(&format!("  yes  {}\n", indicator.about())),
            Some((_, why)) => text.push_str(&format!("  no   {}: {why}\n", indicator.about())),
        }
    }
    text
}
