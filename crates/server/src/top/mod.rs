//! `fathom top`: what happens, on a terminal.

mod asker;
mod chart;
mod clock;
mod columns;
mod draw;
mod explained;
mod fields;
mod page;
mod rows;
mod span;
mod state;
mod tabs;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use fathom_terminal::{Palette, Screen, is_looked_at};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use signal_hook::consts::SIGTERM;
use signal_hook::flag::register;

use asker::Asker;
use span::Width;
use state::State;

use crate::lists::List;
use crate::query::{Engine, EngineArguments};

/// How long keys are waited for.
const WAIT: Duration = Duration::from_millis(50);
/// Between two drawings in which nothing happened: ages are told in seconds.
const REDRAW: Duration = Duration::from_secs(1);
/// The size of what `--once` prints.
const PAGE: (u16, u16) = (160, 50);

/// Show flows, hops, servers and connections of a store on the terminal, as they change.
///
/// It follows the newest records, such as those of this machine's agent, and goes back in time.
/// `?` lists the keys.
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    engine: EngineArguments,
    /// What is shown first.
    #[arg(long, value_enum, default_value_t = List::Flows)]
    tab: List,
    /// Over how long.
    #[arg(long, value_enum, default_value_t = Width::Minute)]
    range: Width,
    /// Only rows that contain this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Print one page as text, and end.
    #[arg(long)]
    once: bool,
}

/// Shows.
///
/// # Errors
/// When there is no store, or no terminal.
pub(crate) fn run(arguments: &TopArguments) -> anyhow::Result<()> {
    let mut state = State::new(arguments.tab, arguments.range, TimeZone::system());
    state.filter(&arguments.filter);
    let asker = Asker::start(Engine::open(&arguments.engine)?)?;
    asker.look()?;
    if arguments.once {
        return print(&asker, &mut state);
    }
    anyhow::ensure!(
        is_looked_at(),
        "this is no terminal: `fathom top --once` prints a page as text, and `fathom query` answers in JSON and CSV"
    );
    let should_stop = Arc::new(AtomicBool::new(false));
    register(SIGTERM, should_stop.clone()).context("cannot listen to SIGTERM")?;
    let mut screen = Screen::open().context("cannot show tables on this terminal")?;
    let palette = Palette::of_environment();
    let mut drawn = None;
    while !should_stop.load(Ordering::Relaxed) {
        asker.ask(state.ask());
        let mut has_changed = drawn.is_none_or(|drawn: Instant| drawn.elapsed() >= REDRAW);
        while let Some(reply) = asker.reply() {
            state.take(reply);
            has_changed = true;
        }
        if has_changed {
            state.now(now_ns());
            let draw = |frame: &mut ratatui::Frame<'_>| draw::draw(frame, &mut state, palette);
            screen.draw(draw).context("cannot write to the terminal")?;
            drawn = Some(Instant::now());
        }
        if let Some(event) = screen.event(WAIT).context("cannot read the terminal")? {
            if state.on_event(&event).is_break() {
                break;
            }
            drawn = None;
        }
    }
    asker.end();
    Ok(())
}

/// Prints a page.
fn print(asker: &Asker, state: &mut State) -> anyhow::Result<()> {
    state.now(now_ns());
    state.take(asker.answer(state.ask()));
    if let Some(error) = &state.error {
        anyhow::bail!("{error}");
    }
    let mut terminal = Terminal::new(TestBackend::new(PAGE.0, PAGE.1))?;
    terminal.draw(|frame| draw::draw(frame, state, Palette::plain()))?;
    let text = terminal.backend().to_string();
    let lines = text.lines().map(|line| line.trim_matches('"').trim_end());
    let mut lines: Vec<_> = lines.collect();
    // The last line tells the keys.
    lines.pop();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let mut text = lines.join("\n");
    text.push('\n');
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

fn now_ns() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
