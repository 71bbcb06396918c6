//! Runs a command until it has done what its reader expects, ends it as Ctrl-C does, and says what
//! is wrong.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fathom_lab::{Process, wait_until};
use fathom_tests::Terminal;
use nix::sys::signal::Signal;

use crate::commands::Documented;
use crate::scene::{PATIENCE, Scene};

/// How long a command runs from which nothing is seen before its end.
const UNSEEN: Duration = Duration::from_secs(8);

/// What a command does that others of its document rely on, for as long as these run.
const SERVICES: [&str; 4] = ["agent", "collect", "serve", "balance"];

/// When a command has done its work.
enum Done {
    /// It has printed a line, or has ended.
    Printed,
    /// It has written into a file.
    Written(PathBuf),
    /// It is known at its end only.
    Later(PathBuf),
    /// It waits for others, and says so with these words, so many times.
    Listens(&'static str, usize),
    /// Another command reaches it.
    Reached(&'static str),
}

/// A command that has been started.
pub(crate) struct Running {
    pub(crate) command: Documented,
    /// What others rely on, if it is that. Two of the same cannot run at the same time.
    pub(crate) service: Option<String>,
    process: Process,
    started: Instant,
    output: PathBuf,
    errors: PathBuf,
    done: Done,
}

/// The words behind `fathom`; none where another program is run.
fn words(text: &str) -> Vec<&str> {
    let mut words = text.split_whitespace().skip_while(|word| *word == "sudo");
    let is_ours = words.next() == Some("fathom");
    words.filter(|_| is_ours).collect()
}

/// Whether a command has an end, without Ctrl-C.
fn ends_by_itself(text: &str) -> bool {
    const GO_ON: [&str; 6] = ["rtt", "response", "traffic", "hops", "profile", "ipfix"];
    let words = words(text);
    // What reads a capture may be at its end already when it is to be interrupted.
    let has_end = words
        .iter()
        .any(|word| ["--probes", "--print-config"].contains(word) || word.contains(".pcap"));
    let goes_on = words.first().is_some_and(|word| GO_ON.contains(word))
        || words.starts_with(&["agent", "capture"])
        || text.starts_with("tcpdump ");
    has_end || !goes_on && service(text).is_none()
}

/// What a command asks a service for; `None` for one that asks none.
fn asked<'a>(words: &[&'a str]) -> Option<&'a str> {
    const ASKS: [&str; 8] = [
        "--check",
        "status",
        "reload",
        "capture",
        "drain",
        "weight",
        "stop",
        "--print-config",
    ];
    words.iter().copied().find(|word| ASKS.contains(word))
}

/// Which service a command is, and where; `None` for all that others do not rely on.
pub(crate) fn service(text: &str) -> Option<String> {
    let words = words(text);
    let name = words.first().filter(|word| SERVICES.contains(word))?;
    let address = value(text, "--listen").unwrap_or_default();
    asked(&words).is_none().then(|| format!("{name} {address}"))
}

/// The service that a command needs, as a command.
pub(crate) fn needed(text: &str) -> Option<&'static str> {
    let words = words(text);
    match words.first() {
        Some(&"agent") if asked(&words) != Some("--print-config") => {
            Some("fathom agent --config /etc/fathom/fathom.toml")
        }
        Some(&"balance") if asked(&words) != Some("--print-config") => {
            Some("fathom balance --config lb.toml")
        }
        _ if text.contains("http://127.0.0.1:8080/") => Some("fathom serve"),
        _ => None,
    }
}

/// Behind an option.
fn value<'a>(text: &'a str, option: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == option)?;
    words.next()
}

/// The file behind `>`, which in quotes is none of the shell's.
fn redirected(text: &str) -> Option<&str> {
    let (_, behind) = text.rsplit_once(" > ")?;
    let name = behind.split_whitespace().next();
    name.filter(|_| !behind.contains(['"', '\'']))
}

impl Done {
    fn of(text: &str, service: Option<&str>, scene: &Scene) -> Self {
        let file = |name: &str| scene.work().join(name);
        match service.and_then(|service| service.split(' ').next()) {
            Some("collect") => {
                return Self::Listens("listening at", text.matches("--listen").count());
            }
            Some("serve") => return Self::Listens("http", 1),
            // What is asked of the collector's store next is about connections that have ended.
            Some("agent") if text.contains(" --export ") => {
                return Self::Reached("fathom compare --store /var/lib/fathom-all --metric rtt");
            }
            Some("agent") => return Self::Reached("fathom agent status"),
            Some("balance") => return Self::Reached("fathom balance --config lb.toml status"),
            _ => {}
        }
        if let Some(name) = value(text, "--output").or_else(|| redirected(text)) {
            return Self::Written(file(name));
        }
        if text.contains(" --export ipfix+tls") {
            return Self::Written(scene.dump());
        }
        // It goes through another program, which writes at its end.
        value(text, "-o").map_or(Self::Printed, |name| Self::Later(file(name)))
    }
}

fn is_filled(path: &PathBuf) -> bool {
    fs::metadata(path).is_ok_and(|it| it.len() > 0)
}

impl Running {
    /// Starts a command.
    pub(crate) fn start(scene: &Scene, command: &Documented) -> Result<Self, String> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = |what: &str| scene.work().join(format!("../{number}.{what}"));
        let (output, errors) = (path("out"), path("err"));
        let file = |path: &PathBuf| File::create(path).map_err(|error| error.to_string());
        let mut shell = scene.command(&command.text);
        shell.stdout(file(&output)?).stderr(file(&errors)?);
        let service = service(&command.text);
        let done = Done::of(&command.text, service.as_deref(), scene);
        if let Done::Written(path) = &done {
            // What another has written there counts for nothing.
            File::create(path).map_err(|error| error.to_string())?;
        }
        let process = Process::start(&mut shell).map_err(|error| error.to_string())?;
        Ok(Self {
            command: command.clone(),
            service,
            process,
            started: Instant::now(),
            output,
            errors,
            done,
        })
    }

    /// Whether it is a service of this kind, wherever.
    pub(crate) fn is_like(&self, kind: Option<&str>) -> bool {
        let name = |service: &str| service.split(' ').next().map(str::to_owned);
        self.service.as_deref().and_then(name) == kind.and_then(name)
    }

    fn is_done(&self, scene: &Scene) -> bool {
        match &self.done {
            Done::Printed => is_filled(&self.output),
            Done::Written(path) => is_filled(path),
            Done::Later(_) => self.started.elapsed() >= UNSEEN,
            Done::Listens(words, count) => self.said().matches(words).count() >= *count,
            Done::Reached(ask) => scene.run(ask).is_ok(),
        }
    }

    /// Waits until it has done its work, or has ended.
    pub(crate) fn work(&mut self, scene: &Scene) -> Result<(), String> {
        let mut has_ended = false;
        let waited = wait_until(PATIENCE, "the work of a command", || {
            has_ended = !matches!(self.process.status(), Ok(None));
            has_ended || self.is_done(scene)
        });
        match waited {
            Ok(()) if has_ended && self.service.is_some() => Err(self.told("has ended at once")),
            Ok(()) => Ok(()),
            Err(_) => Err(self.told("has done nothing in a minute")),
        }
    }

    /// Ends it if it has not ended, and looks at what it left.
    pub(crate) fn end(mut self) -> Result<(), String> {
        // With all that its shell has started, as a terminal does it.
        if !ends_by_itself(&self.command.text) && matches!(self.process.status(), Ok(None)) {
            let _ = self.process.signal_group(Signal::SIGINT);
        }
        match self.process.wait_with_deadline(PATIENCE) {
            Ok(status) if !status.success() => return Err(self.told(&format!("ended: {status}"))),
            Err(error) => return Err(self.told(&error.to_string())),
            Ok(_) => {}
        }
        let is_there = match &self.done {
            Done::Printed => is_filled(&self.output) || ends_by_itself(&self.command.text),
            Done::Written(path) | Done::Later(path) => is_filled(path),
            Done::Listens(..) | Done::Reached(_) => true,
        };
        if !is_there {
            return Err(self.told("left nothing"));
        }
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    fn told(&self, what: &str) -> String {
        let output = fs::read_to_string(&self.output).unwrap_or_default();
        let first: String = output.chars().take(400).collect();
        format!("{} {what}\n{first}{}", self.command, self.said())
    }
}

/// Whether a command needs a terminal: it has keys.
pub(crate) fn needs_terminal(text: &str) -> bool {
    words(text).first() == Some(&"top") && !text.contains("--once")
}

/// Runs one on a terminal, until it shows rows, and presses the key that ends it.
pub(crate) fn on_terminal(scene: &Scene, command: &Documented) -> Result<(), String> {
    let look = || -> anyhow::Result<()> {
        // Others run beside it.
        let name = format!("documents-{}", command.line);
        let terminal = Terminal::open(&name, 130, 30, &scene.in_terminal(&command.text))?;
        terminal.shows(&["1 flows", "tcp "])?;
        terminal.press(&["q"])?;
        terminal.shows(&["ended with 0"]).map(drop)
    };
    look().map_err(|error| format!("{command}: {error:#}"))
}
