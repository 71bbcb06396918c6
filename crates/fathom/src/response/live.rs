//! Measuring on interfaces, until the user has seen enough.

use std::time::{Duration, Instant};

use fathom_measure::response::{Live, Options, ResponseCounts};

use super::arguments::ResponseArguments;
use super::summary::say_summary;
use super::view::View;
use crate::failure::say;
use crate::signals::Signals;

/// The longest wait for epochs: as long may a line wait before it is written.
const POLL: Duration = Duration::from_millis(50);

/// Measures on the interfaces that were named.
///
/// # Errors
/// When the kernel refuses, an interface does not exist, or the output cannot be written.
pub(super) fn run(arguments: &ResponseArguments, signals: &Signals) -> anyhow::Result<()> {
    let mut live = Live::start(&Options {
        interfaces: arguments.source.interface.clone(),
        has_xdp: arguments.source.xdp,
        settings: arguments.settings_for_interfaces(),
    })?;
    // To load the programs takes its time, in which nothing is measured.
    let begin = Instant::now();
    if arguments.verbose {
        for line in live.describe() {
            say!("{line}");
        }
    }
    let mut view = View::open(arguments, signals)?;
    let end = arguments
        .source
        .duration
        .and_then(|length| begin.checked_add(length));
    let measured = measure(&mut live, &mut view, arguments, end, signals);
    let counts = measured.and_then(|()| finish(&mut live, &mut view));
    // Gives the terminal back before anything is said.
    drop(view);
    say_summary(&counts?, begin.elapsed());
    Ok(())
}

fn measure(
    live: &mut Live,
    view: &mut View,
    arguments: &ResponseArguments,
    end: Option<Instant>,
    signals: &Signals,
) -> anyhow::Result<()> {
    let (epoch, waiting) = (arguments.estimation.epoch, arguments.estimation.waiting);
    let mut sweep = Instant::now() + epoch;
    let mut look = Instant::now();
    let longest = waiting.map_or(POLL, |waiting| POLL.min(waiting / 4));
    follow(live, view)?;
    while !signals.should_stop() {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        let wait = end.map_or(longest, |end| {
            end.saturating_duration_since(now).min(longest)
        });
        live.poll(wait, &mut |epoch| view.take(&epoch))?;
        if let Some(waiting) = waiting
            && Instant::now() >= look
        {
            live.look_for_waits(waiting, &mut |wait| view.tell(&wait))?;
            look = Instant::now() + waiting / 4;
        }
        if Instant::now() >= sweep {
            live.sweep(&mut |epoch| view.take(&epoch))?;
            sweep = Instant::now() + epoch;
        }
        follow(live, view)?;
        if !view.refresh()? {
            break;
        }
    }
    Ok(())
}

/// Interfaces go and come.
fn follow(live: &mut Live, view: &mut View) -> anyhow::Result<()> {
    for told in live.follow()? {
        view.say(told);
    }
    Ok(())
}

/// The epochs that are under way, and the last counts.
fn finish(live: &mut Live, view: &mut View) -> anyhow::Result<ResponseCounts> {
    live.finish(&mut |epoch| view.take(&epoch))?;
    let counts = live.counts()?;
    view.finish(&counts)?;
    Ok(counts)
}
