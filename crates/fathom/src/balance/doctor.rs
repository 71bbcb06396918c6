//! Can packets be balanced? The program is loaded, with small tables, and attached to nothing.

use fathom_balance::Error;
use fathom_balance::config::Config;
use fathom_balance::datapath::{check_directory, check_program};

use crate::doctor::{Checks, REPORT, Verdict, chain};

pub(crate) fn examine(checks: &mut Checks) {
    let pins = Config::default().pins;
    let found = format!("{} can hold what outlives the process", pins.display());
    add(
        checks,
        "forwarding",
        "the kernel takes the program",
        check_program(),
    );
    add(checks, "pins", &found, check_directory(&pins));
}

/// A balancer needs a configuration first, and most machines are none: what it lacks is a note.
fn add(checks: &mut Checks, subject: &str, found: &str, checked: Result<(), Error>) {
    match checked {
        Ok(()) => checks.ok("balance", subject, found),
        Err(Error::Measure(error)) => checks.refused("balance", subject, Verdict::Note, &error),
        Err(Error::Unsupported {
            needs,
            found,
            remedy,
        }) => checks.note(
            "balance",
            subject,
            format!("{needs}, but {found}"),
            format!("if this is to be a balancer: {remedy}"),
        ),
        Err(error) => checks.note("balance", subject, chain(&error), REPORT),
    }
}
