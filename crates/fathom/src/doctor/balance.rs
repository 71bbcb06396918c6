//! Can packets be balanced? The program is loaded, with small tables, and attached to nothing.

use fathom_balance::Error;
use fathom_balance::config::Config;
use fathom_balance::live::{check_place, check_program};

use super::{Checks, Verdict, chain, refused};

pub(super) fn examine(checks: &mut Checks) {
    let pins = Config::default().pins;
    let found = format!("{} can hold what outlives the process", pins.display());
    add(
        checks,
        "forwarding",
        "the kernel takes the program",
        check_program(),
    );
    add(checks, "pins", &found, check_place(&pins));
}

fn add(checks: &mut Checks, subject: &str, found: &str, checked: Result<(), Error>) {
    match checked {
        Ok(()) => {
            checks.add("balance", subject, Verdict::Ok, found);
        }
        Err(Error::Measure(error)) => refused(checks, "balance", subject, &error),
        Err(Error::Unsupported {
            needs,
            found,
            remedy,
        }) => {
            let found = format!("{needs}, but {found}");
            checks
                .add("balance", subject, Verdict::No, found)
                .remedy(remedy);
        }
        Err(error) => {
            checks
                .add("balance", subject, Verdict::No, chain(&error))
                .remedy("see what the machine lacks, above");
        }
    }
}
