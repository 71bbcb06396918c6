//! The agent as a service: it answers requests, reads its configuration again, and tells systemd
//! that it lives.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fathom_measure::{Counts, Measurement, Scope, Selection};
use fathom_record::format::Format;
use fathom_record::{Count, Time};

use super::arguments::{AgentArguments, SOCKET};
use super::capture::{Capture, End};
use super::record::AgentRecord;
use super::requests::Request;
use super::systemd::Manager;
use super::{Wanted, begin, needs_admin, open_view, privileges};
use crate::Command;
use crate::configuration;
use crate::control::{Asked, Control};
use crate::failure::say;
use crate::session::{Emptying, Session};
use crate::signals::Signals;
use crate::{summary, zone};

/// Captures at the same time: each has programs and tables of its own.
const MOST_CAPTURES: usize = 4;
/// Who asks waits so long, at most, before it is seen: each look costs a system call.
const ASKED: Duration = Duration::from_millis(100);
/// Records of the agent that are older may have gone: it is told of again.
const TELL_AGAIN: Duration = Duration::from_secs(3_600);
/// Room in the tables of a capture of hosts; of networks there is as much as the agent has.
const CAPTURED_FLOWS: u32 = 1_024;

/// What the agent does besides measuring.
pub(super) struct Service<'a> {
    /// The options that hold now; `None`: those of the start.
    reloaded: Option<Box<AgentArguments>>,
    started: &'a AgentArguments,
    config: Option<&'a Path>,
    /// What is measured now.
    wanted: Wanted,
    signals: &'a Signals,
    control: Option<Control>,
    /// When it was last seen whether somebody asks.
    looked: Instant,
    captures: Vec<Capture>,
    /// What is told of this agent, and when it was.
    about: AgentRecord,
    told: Instant,
}

impl<'a> Service<'a> {
    /// Opens the socket. Without it, an agent that was not asked for one measures all the same.
    ///
    /// # Errors
    /// When the socket that was asked for cannot be had, there is no interface, or options are
    /// wrong.
    pub(super) fn open(
        arguments: &'a AgentArguments,
        config: Option<&'a Path>,
        signals: &'a Signals,
    ) -> anyhow::Result<Self> {
        let about = AgentRecord::of(arguments)?;
        let path = &arguments.socket;
        let is_default = path == Path::new(SOCKET);
        if let (true, Some(directory)) = (is_default, path.parent()) {
            // If it cannot be made, the socket says why.
            let _ = std::fs::create_dir(directory);
        }
        let control = match Control::open(path) {
            Err(error) if is_default => {
                say!("fathom: {error:#}; `fathom agent status` does not reach this agent");
                None
            }
            control => Some(control?),
        };
        Ok(Self {
            reloaded: None,
            started: arguments,
            config,
            wanted: Wanted::named(arguments, config)?,
            signals,
            control,
            looked: Instant::now(),
            captures: Vec::new(),
            about,
            told: Instant::now(),
        })
    }

    /// Begins what is to be measured. `emptying` has the rings from then on.
    ///
    /// # Errors
    /// When a measurement cannot begin.
    pub(super) fn begin(&self, emptying: &Emptying) -> anyhow::Result<Vec<Box<dyn Measurement>>> {
        begin(&self.wanted, None, emptying)
    }

    /// Measures until told to stop.
    ///
    /// # Errors
    /// When a measurement fails, or records cannot be written.
    pub(super) fn attend(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let mut manager = Manager::ready();
        self.tell(session);
        while !self.signals.should_stop() && session.turn()? {
            if self.signals.take_reload() {
                let reloaded = Manager::reloading(|| self.reload(session))?;
                say_reloaded(&reloaded);
            }
            if self.looked.elapsed() >= ASKED {
                self.looked = Instant::now();
                while let Some(asked) = self.control.as_ref().and_then(Control::next) {
                    self.answer(asked, session)?;
                }
            }
            self.poll_captures(session)?;
            if self.told.elapsed() >= TELL_AGAIN {
                self.tell(session);
            }
            manager.is_alive();
        }
        Ok(())
    }

    fn tell(&mut self, session: &mut Session) {
        (self.about.time, self.told) = (Time::now(), Instant::now());
        session.view.take(&self.about);
    }

    fn arguments(&self) -> &AgentArguments {
        self.reloaded.as_deref().unwrap_or(self.started)
    }

    fn answer(&mut self, asked: Asked, session: &mut Session) -> anyhow::Result<()> {
        match Request::parse(&asked.line) {
            Err(why) => asked.answer(Err(why)),
            Ok(Request::Status(format)) => {
                let status = self.status(session, format);
                asked.answer(status.map_err(|error| format!("{error:#}")));
            }
            Ok(Request::Reload) => {
                let reloaded = Manager::reloading(|| self.reload(session))?;
                say_reloaded(&reloaded);
                let done = || b"the configuration was read again\n".to_vec();
                asked.answer(reloaded.map(|()| done()).map_err(|error| one_line(&error)));
            }
            Ok(Request::Capture {
                ends,
                duration,
                format,
            }) => self.capture(session, asked, ends, (duration, format)),
        }
        Ok(())
    }

    /// Reads the configuration again. Where it asks for the same, what runs goes on; else what it
    /// says is begun before what runs ends, so that no packet passes unseen. The inner result is
    /// that of the configuration: where it is wrong, nothing changes.
    ///
    /// # Errors
    /// When what runs fails, or records cannot be written.
    fn reload(&mut self, session: &mut Session) -> anyhow::Result<anyhow::Result<()>> {
        let emptying = self.emptying(session);
        let start_anew = || match configuration::read()?.command {
            Command::Agent(arguments) => {
                let about = AgentRecord::of(&arguments)?;
                needs_admin(&arguments).map_or(Ok(()), privileges::require_admin)?;
                let wanted = Wanted::named(&arguments, self.config)?;
                let is_other = wanted != self.wanted;
                let begun = is_other.then(|| begin(&wanted, None, &emptying));
                Ok((arguments, about, wanted, begun.transpose()?))
            }
            _ => bail!("the command is another one"),
        };
        let (arguments, about, wanted, begun) = match start_anew() {
            Ok(anew) => anew,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(measurements) = begun {
            session.replace(measurements, wanted.interval)?;
        }
        self.wanted = wanted;
        let outcome = self.redirect(session, &arguments)?;
        self.reloaded = Some(arguments);
        self.about = about;
        self.tell(session);
        Ok(outcome)
    }

    /// Has records go where these options say. The inner result is why they do not.
    ///
    /// # Errors
    /// When records cannot be written where they went before.
    fn redirect(
        &self,
        session: &mut Session,
        arguments: &AgentArguments,
    ) -> anyhow::Result<anyhow::Result<()>> {
        let (now, export) = (self.arguments(), arguments.export());
        // Names of networks may have changed in their file.
        let is_same = arguments.output == now.output && export == now.export();
        if is_same && export.networks.is_none() {
            return Ok(Ok(()));
        }
        session.view.finish()?;
        match open_view(arguments, self.signals) {
            Ok(view) => session.view = view,
            Err(error) => {
                session.view = open_view(now, self.signals)?;
                return Ok(Err(error.context("records go where they went before")));
            }
        }
        Ok(Ok(()))
    }

    /// While this lives, nothing need be polled.
    fn emptying(&self, session: &Session) -> Emptying {
        let emptying = Emptying::start();
        emptying.add(session.rings());
        emptying.add(self.captures.iter().flat_map(Capture::rings));
        emptying
    }

    fn status(&self, session: &Session, format: Format) -> anyhow::Result<Vec<u8>> {
        let measured = session.measurements.iter();
        let counted: Result<Vec<_>, _> = measured
            .map(|one| one.counts().map(|counts| (one.name(), counts)))
            .collect();
        let mut counted = counted?;
        counted.extend(session.view.sinks());
        match format {
            Format::Text => Ok(self.text(session, &counted).into_bytes()),
            format => {
                let host = self.arguments().output.target.host()?;
                Ok(records(&counted, format, &host))
            }
        }
    }

    fn text(&self, session: &Session, counted: &[(&str, Counts)]) -> String {
        let seconds = Duration::from_secs(session.begin.elapsed().as_secs());
        let running = humantime::format_duration(seconds);
        let mut text = format!("process {}, running for {running}\n", std::process::id());
        // Those that share their programs are attached in the same way.
        let mut attached: Vec<_> = session
            .measurements
            .iter()
            .flat_map(|one| one.describe())
            .collect();
        attached.sort_unstable();
        attached.dedup();
        for line in attached {
            // Writing to memory does not fail.
            let _ = writeln!(text, "{line}");
        }
        for (name, counts) in counted {
            let headline = format!("{name}: {}", counts.headline());
            let _ = writeln!(text, "{}", summary::text(&headline, &counts.named));
        }
        if !self.captures.is_empty() {
            let _ = writeln!(text, "captures: {}", self.captures.len());
        }
        text
    }

    fn capture(
        &mut self,
        session: &Session,
        asked: Asked,
        ends: Vec<End>,
        (duration, format): (Duration, Format),
    ) {
        if self.captures.len() >= MOST_CAPTURES {
            return asked.answer(Err(format!("{MOST_CAPTURES} captures run already")));
        }
        let scope = scope_of(&ends);
        let emptying = self.emptying(session);
        let begun = Wanted::samples(self.arguments(), self.config)
            .and_then(|wanted| begin(&wanted, Some(&scope), &emptying))
            .and_then(|measurements| Ok((measurements, self.arguments().output.target.host()?)));
        let (measurements, host) = match begun {
            Ok(begun) => begun,
            Err(error) => return asked.answer(Err(one_line(&error))),
        };
        let client = asked.accept();
        let capture = client.and_then(|stream| {
            Capture::start(ends, measurements, duration, (stream, format, &host))
        });
        // Else the client has gone away.
        self.captures.extend(capture);
    }

    fn poll_captures(&mut self, session: &mut Session) -> anyhow::Result<()> {
        for mut capture in std::mem::take(&mut self.captures) {
            let polled = capture.poll(&mut session.view);
            if polled.context("a capture has failed")? {
                self.captures.push(capture);
            } else {
                let lost = capture.end();
                if lost > 0 {
                    say!("fathom: {lost} lines of a capture were lost: their reader is too slow");
                }
            }
        }
        Ok(())
    }
}

fn say_reloaded(reloaded: &anyhow::Result<()>) {
    match reloaded {
        Ok(()) => say!("fathom: the configuration was read again"),
        Err(error) => say!("fathom: the configuration was not taken: {error:#}"),
    }
}

/// As the answer to a request has it.
fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}

/// By which the kernel passes over most other flows.
fn scope_of(ends: &[End]) -> Scope {
    // A flow with one of these ports may have another end that has none.
    let ports: Option<_> = ends.iter().map(|end| end.port).collect();
    let everything = Scope::live();
    Scope {
        selection: Selection {
            networks: ends.iter().map(|end| end.network).collect(),
            ports: ports.unwrap_or_default(),
            ..Selection::default()
        },
        flows: if ends.iter().any(End::is_wide) {
            everything.flows
        } else {
            CAPTURED_FLOWS
        },
        ..everything
    }
}

/// All counts as records, a line each.
fn records(counted: &[(&'static str, Counts)], format: Format, host: &str) -> Vec<u8> {
    let mut sink = format.sink_of(host, zone::offset_at);
    let (now, mut lines) = (Time::now(), Vec::new());
    for (measurement, counts) in counted {
        for &(name, count) in counts.measured.iter().chain(&counts.named) {
            sink.write(&Count::new(now, measurement, name, count), &mut lines);
        }
    }
    lines
}
