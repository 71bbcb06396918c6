//! `fathom balance`: a balancer is run, or one that runs is spoken to.

mod arguments;
mod control;
pub(crate) mod doctor;
mod metrics;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use fathom_balance::balancer::{Balancer, CommandResult, Event};
use fathom_balance::config::{Config, EXAMPLE};
use fathom_balance::datapath;
use fathom_balance::record::{BalanceHealth, BalanceServer, BalanceService, BalanceWeight};
use fathom_record::format::Format;
use fathom_record::{Count, Record, Schema, Time};

use crate::configuration;
use crate::control::Control;
use crate::failure::{WrongUsage, say};
use crate::metrics::Metrics;
use crate::output::{Backlog, LineOptions, Output};
use crate::signals::Signals;
use crate::summary;
use crate::zone;
use arguments::BalanceAction;
pub(crate) use arguments::BalanceArguments;
use control::{ControlRequest, ask, read_weight};
use metrics::publish;

/// The kinds of its records.
pub(crate) const KINDS: &[&Schema] = &[
    BalanceWeight::SCHEMA,
    BalanceHealth::SCHEMA,
    BalanceService::SCHEMA,
    BalanceServer::SCHEMA,
];

/// The longest wait for epochs: as long may a question or a signal wait.
const POLL: Duration = Duration::from_millis(50);
/// Figures for Prometheus are as old as this, at most.
const PAGE: Duration = Duration::from_secs(1);

/// Does what was asked for.
///
/// # Errors
/// When the configuration is wrong, the system does not allow it, or nothing can be written.
pub(crate) fn run(arguments: &BalanceArguments, file: Option<&Path>) -> anyhow::Result<()> {
    if arguments.print_config {
        return print_config();
    }
    let config = match file {
        Some(file) => read(file)?,
        None => Config::default(),
    };
    match &arguments.action {
        None if arguments.check => {
            demand_whole(file, &config)?;
            say!(
                "the configuration is sound: {} services, {} servers",
                config.services.len(),
                config.servers.len()
            );
            Ok(())
        }
        None => balance(arguments, file, &config),
        Some(BalanceAction::Stop) => stop(&config),
        Some(BalanceAction::Status { format }) => {
            print(&put(&config, &ControlRequest::Status(*format))?)
        }
        Some(BalanceAction::Drain {
            server,
            undo,
            format,
        }) => {
            let request = ControlRequest::Drain {
                server: server.clone(),
                undo: *undo,
                format: *format,
            };
            print(&put(&config, &request)?)
        }
        Some(BalanceAction::Weight {
            server,
            weight,
            format,
        }) => {
            let weight = read_weight(weight).map_err(WrongUsage::error)?;
            let request = ControlRequest::Weight {
                server: server.clone(),
                weight,
                format: *format,
            };
            print(&put(&config, &request)?)
        }
    }
}

fn print_config() -> anyhow::Result<()> {
    print(&format!(
        "{EXAMPLE}\n{}",
        configuration::template_of("balance")
    ))
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut output = Output::text()?;
    output.put_text(text);
    output.finish()
}

fn read(file: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the configuration file {}", file.display()))?;
    Config::parse(&text).map_err(|problem| {
        WrongUsage::error(format!(
            "in the configuration file {}: {problem}",
            file.display()
        ))
    })
}

/// A configuration that forwards nothing is none, though each of its tables may be in order.
fn demand_whole(file: Option<&Path>, config: &Config) -> anyhow::Result<()> {
    let mut lacks = Vec::new();
    if config.interfaces.is_empty() {
        lacks.push("`interfaces`, where packets of clients arrive, as in interfaces = [\"eth0\"]");
    }
    if config.services.is_empty() {
        lacks.push("a [[service]] with a name and an address, which clients talk to");
    }
    if config.servers.is_empty() {
        lacks.push("a [[server]] with a name and an address, which answers");
    }
    if lacks.is_empty() {
        return Ok(());
    }
    let advice = match file {
        Some(file) => format!("add to {}", file.display()),
        None => "name a file with --config that has".to_owned(),
    };
    Err(WrongUsage::error(format!(
        "nothing to balance: {advice} {}; `fathom balance --print-config` prints an example",
        lacks.join(", and ")
    )))
}

/// Asks the balancer that runs with this configuration.
fn put(config: &Config, request: &ControlRequest) -> anyhow::Result<String> {
    ask(&config.socket, request)?.with_context(|| {
        format!(
            "no balancer runs that listens at {}: start one with `fathom balance --config FILE`, or name its file with --config",
            config.socket.display()
        )
    })
}

fn stop(config: &Config) -> anyhow::Result<()> {
    if ask(&config.socket, &ControlRequest::Stop)?.is_some() {
        say!("the balancer has ended, and nothing is forwarded any more");
    } else if datapath::remove(&config.pins)? {
        say!("nothing is forwarded any more");
    } else {
        say!(
            "nothing was forwarded: there is no {}",
            config.pins.display()
        );
    }
    Ok(())
}

fn balance(
    arguments: &BalanceArguments,
    file: Option<&Path>,
    config: &Config,
) -> anyhow::Result<()> {
    demand_whole(file, config)?;
    let signals = Signals::listen(arguments.target.output.is_some())?;
    signals.listen_to_reload()?;
    let balancer = Balancer::start(config, arguments.interval)?;
    let control = Control::open(&balancer.config().socket)?;
    // Those that are served are of the balancer itself, not of its records.
    let mut export = arguments.export.clone();
    let metrics = Metrics::open(&export.metrics, || arguments.target.host())?;
    export.metrics.leave_out();
    let lines = LineOptions {
        target: &arguments.target,
        export: &export,
        format: arguments.format,
        formatter: None,
        main: BalanceWeight::SCHEMA,
    };
    let output = lines.open(Backlog::Long, &signals)?;
    if balancer.has_taken_over() {
        say!("fathom: forwarding was under way, and goes on");
    }
    for problem in balancer.problems() {
        say!("fathom: {problem}");
    }
    let mut run = Run {
        balancer,
        control,
        metrics,
        output,
        signals,
        host: arguments.target.host()?,
        page_due: Instant::now(),
    };
    let begun = Instant::now();
    let end = arguments
        .duration
        .and_then(|length| begun.checked_add(length));
    let reason = run.until(end, file)?;
    run.finish(reason, begun.elapsed())
}

/// A balancer, and all that it talks to.
struct Run {
    balancer: Balancer,
    control: Control,
    metrics: Option<Metrics>,
    output: Output,
    signals: Signals,
    host: String,
    page_due: Instant,
}

/// Why the balancer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    /// The process was told to end; forwarding goes on.
    ProcessEnds,
    /// `stop` was requested: forwarding ends, too.
    ForwardingEnds,
}

impl Run {
    fn until(&mut self, end: Option<Instant>, file: Option<&Path>) -> anyhow::Result<StopReason> {
        while !self.signals.should_stop() && end.is_none_or(|end| Instant::now() < end) {
            let output = &mut self.output;
            self.balancer.poll(POLL, &mut |event| match event {
                Event::Weight(record) => output.put(&record),
                Event::Health(record) => output.put(&record),
                Event::Message(text) => say!("fathom: {text}"),
            })?;
            if self.signals.take_reload()
                && let Some(file) = file
            {
                self.reload(file);
            }
            if self.answer() == Some(StopReason::ForwardingEnds) {
                return Ok(StopReason::ForwardingEnds);
            }
            self.publish()?;
            self.output.reopen_if_asked()?;
            self.output.flush()?;
        }
        Ok(StopReason::ProcessEnds)
    }

    /// A configuration that is wrong changes nothing.
    fn reload(&mut self, file: &Path) {
        let reloaded = read(file).and_then(|config| {
            demand_whole(Some(file), &config)?;
            Ok(self.balancer.reload(&config)?)
        });
        match reloaded {
            Ok(()) => say!("fathom: {} has been read again", file.display()),
            Err(error) => say!("fathom: {error:#}; all stays as it was"),
        }
    }

    fn answer(&mut self) -> Option<StopReason> {
        let mut reason = None;
        let (balancer, host) = (&mut self.balancer, &self.host);
        control::answer(&self.control, |request| {
            let (done, server, format) = match request {
                ControlRequest::Status(format) => {
                    return balancer
                        .status()
                        .map(|records| render(&records, format, host))
                        .map_err(|error| error.to_string());
                }
                ControlRequest::Stop => {
                    reason = Some(StopReason::ForwardingEnds);
                    return Ok(Vec::new());
                }
                ControlRequest::Drain {
                    server,
                    undo,
                    format,
                } => (balancer.drain(&server, !undo), server, format),
                ControlRequest::Weight {
                    server,
                    weight,
                    format,
                } => (balancer.set_weight(&server, weight), server, format),
            };
            match done {
                Ok(Some(done)) => Ok(confirm(done, format, host)),
                Ok(None) => Err(format!("there is no server \"{server}\"")),
                Err(error) => Err(error.to_string()),
            }
        });
        reason
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        let Some(metrics) = &self.metrics else {
            return Ok(());
        };
        if Instant::now() < self.page_due {
            return Ok(());
        }
        self.page_due = Instant::now() + PAGE;
        publish(&self.balancer, &mut metrics.registry())
    }

    fn finish(mut self, reason: StopReason, elapsed: Duration) -> anyhow::Result<()> {
        for record in self.balancer.last_lines() {
            self.output.put(&record);
        }
        let counts = self.balancer.counts()?;
        for (name, count) in &counts {
            let count = Count::new(Time::now(), "balance", name, *count);
            self.output.put_count(&count);
        }
        self.output.finish()?;
        if let Some(mut metrics) = self.metrics.take() {
            metrics.finish()?;
        }
        let seconds = elapsed.as_secs_f64();
        let headline = match reason {
            StopReason::ProcessEnds => format!(
                "ended after {seconds:.1} s; packets are forwarded by the last weights until `fathom balance stop`"
            ),
            StopReason::ForwardingEnds => {
                format!("ended after {seconds:.1} s, and nothing is forwarded any more")
            }
        };
        if reason == StopReason::ForwardingEnds {
            self.balancer.remove()?;
        }
        say!("{}", summary::text(&headline, &counts));
        Ok(())
    }
}

/// What was done: for people a sentence, for programs how the server stands.
fn confirm(done: CommandResult, format: Format, host: &str) -> Vec<u8> {
    if format == Format::Text {
        format!("{}\n", done.sentence).into_bytes()
    } else {
        render(&[Box::new(done.server)], format, host)
    }
}

fn render(records: &[Box<dyn Record>], format: Format, host: &str) -> Vec<u8> {
    let mut sink = format.sink_of(host, zone::offset_at);
    let mut text = Vec::new();
    for record in records {
        sink.write(&**record, &mut text);
    }
    text
}
