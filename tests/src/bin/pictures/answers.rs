//! What an operator asks, and whether the answers name what went wrong.

use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use fathom_tests::binary;
use humantime::{Rfc3339Timestamp, format_rfc3339_seconds};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::page::Block;
use crate::scene::{BEHIND_NARROW, BERLIN, Fault, HAMBURG, NORTH, NORTH_DELAY, SOUTH_DELAY};

/// Longer lines are cut: statements are.
const COLUMNS: usize = 118;
/// What is looked at before a fault begins, and after it has ended.
const BEFORE: Duration = Duration::from_secs(14);
const AFTER: Duration = Duration::from_secs(2);
/// Of the packets that a link lost, those that were sent again, at least.
const COUNTED: f64 = 0.85;

/// Two of the networks.
const BERLIN_AND_HAMBURG: [&str; 2] = ["10.78.1.0/24", "10.80.1.0/24"];
const NETWORKS: &str = "prefix,name
10.78.1.0/24,Berlin
10.80.1.0/24,Hamburg
198.51.100.0/24,North
203.0.113.0/24,South
";

/// What went wrong.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Faults {
    pub(crate) slow_server: Fault,
    pub(crate) full_link: Fault,
    pub(crate) full_access: Fault,
    pub(crate) lossy_access: Fault,
    /// How many packets were lost.
    pub(crate) lost: u64,
}

/// What was said.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) blocks: Vec<Block>,
    /// The views of the page, by the names of their pictures.
    pub(crate) views: Value,
    wrong: Vec<String>,
}

/// A store that is asked.
struct Store {
    path: PathBuf,
    networks: tempfile::NamedTempFile,
}

/// The time around a fault.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: SystemTime,
    begin: SystemTime,
    to: SystemTime,
}

impl Span {
    fn around(fault: &Fault) -> Self {
        Self {
            from: fault.from - BEFORE,
            begin: fault.from,
            to: fault.to + AFTER,
        }
    }

    /// As options of `fathom explain`.
    fn options(self) -> String {
        let length = self.to.duration_since(self.from).unwrap_or_default();
        format!("--since {}s --until {}", length.as_secs(), moment(self.to))
    }

    /// As parameters of the page.
    fn parameters(self) -> String {
        format!("from={}&to={}", moment(self.from), moment(self.to))
    }
}

impl Answers {
    /// Asks all.
    pub(crate) fn get(store: &Path, faults: &Faults) -> Result<Self> {
        let networks = tempfile::NamedTempFile::new()?;
        std::fs::write(networks.path(), NETWORKS)?;
        let path = store.to_owned();
        let store = Store { path, networks };
        let mut answers = Self {
            blocks: vec![("faults", table(faults))],
            views: Value::Null,
            wrong: Vec::new(),
        };
        answers.slow_for_a_network(&store, &faults.full_access)?;
        answers.network_or_server(&store, &faults.slow_server)?;
        answers.full_link(&store, &faults.full_link)?;
        answers.providers(&store, &faults.slow_server, &faults.full_link)?;
        answers.loss(&store, &faults.lossy_access, faults.lost)?;
        answers.views = views(&store, faults)?;
        Ok(answers)
    }

    /// # Errors
    /// When something else was named than what went wrong.
    pub(crate) fn judged(&self) -> Result<()> {
        ensure!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        Ok(())
    }

    fn block(&mut self, name: &'static str, store: &Store, commands: &[String]) -> Result<()> {
        let mut text = "```\n".to_owned();
        for command in commands {
            let answer = store.ask(command)?;
            writeln!(text, "$ {command}\n{}", trimmed(&answer))?;
        }
        text.push_str("```\n");
        self.blocks.push((name, text));
        Ok(())
    }

    /// Asks for the cause, too, and holds it against the truth.
    fn expect(&mut self, store: &Store, command: &str, cause: Option<&str>) -> Result<Value> {
        let text = store.ask(&format!("{command} --format json"))?;
        let explanation: Value = serde_json::from_str(&text)?;
        let named = explanation["verdict"]["cause"].as_str();
        if named != cause {
            let told = &explanation["verdict"]["text"];
            self.wrong
                .push(format!("{command}: {told}, but it is {cause:?}"));
        }
        Ok(explanation)
    }

    fn slow_for_a_network(&mut self, store: &Store, fault: &Fault) -> Result<()> {
        let span = Span::around(fault);
        let networks = format!(
            "fathom query \"SELECT network_name(source) AS network, time > TIMESTAMP '{}' AS later, \
             round(quantile(merge(latency_histogram), 0.5) / 1e6, 1) AS median_ms, \
             round(quantile(merge(latency_histogram), 0.95) / 1e6, 1) AS p95_ms \
             FROM response_aggregate WHERE destination = '{NORTH}' \
             AND time BETWEEN TIMESTAMP '{}' AND TIMESTAMP '{}' GROUP BY 1, 2 ORDER BY 1, 2\"",
            moment(span.begin),
            moment(span.from),
            moment(span.to)
        );
        let [berlin, hamburg] = BERLIN_AND_HAMBURG.map(|clients| of_flows(clients, span));
        let brief = format!("{hamburg} | head -n 4");
        self.block("slow-network", store, &[networks, berlin.clone(), brief])?;
        self.expect(store, &berlin, Some("client_side"))?;
        self.expect(store, &hamburg, None)?;
        Ok(())
    }

    fn network_or_server(&mut self, store: &Store, fault: &Fault) -> Result<()> {
        let options = Span::around(fault).options();
        let command = format!("fathom explain --service {NORTH}:443 {options}");
        self.block("network-or-server", store, std::slice::from_ref(&command))?;
        self.expect(store, &command, Some("server_response"))?;
        Ok(())
    }

    fn full_link(&mut self, store: &Store, fault: &Fault) -> Result<()> {
        let span = Span::around(fault);
        let explain = of_flows(HAMBURG, span);
        let times = format!(
            "BETWEEN TIMESTAMP '{}' AND TIMESTAMP '{}'",
            moment(span.begin),
            moment(span.to)
        );
        let sharing = format!(
            "fathom query \"SELECT source, source_port, destination_port, \
             round(sum(bytes) * 8 / 1e6 / {}, 2) AS mbit_per_second FROM traffic WHERE time {times} \
             AND community_id IN (SELECT community_id FROM congestion WHERE far = '{BEHIND_NARROW}' \
             AND time {times}) GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 4\"",
            span.to
                .duration_since(span.begin)
                .unwrap_or_default()
                .as_secs()
        );
        self.block("full-link", store, &[explain.clone(), sharing])?;
        let explanation = self.expect(store, &explain, Some("hop_queue"))?;
        let place = explanation["findings"][0]["place"].as_str();
        if place != Some(BEHIND_NARROW) {
            self.wrong.push(format!("{explain}: it is at {place:?}"));
        }
        Ok(())
    }

    fn providers(&mut self, store: &Store, slow: &Fault, full: &Fault) -> Result<()> {
        // What clients waited for before has been told by then.
        let from = slow.to + 3 * AFTER;
        let options = format!("--since {} --until {}", moment(from), moment(full.from));
        let command = format!("fathom compare --metric response --by network {options}");
        self.block("providers", store, std::slice::from_ref(&command))?;
        let rows = store.rows(&format!("{command} --format json"))?;
        let median_ns = |name: &str| {
            let mut groups = rows.iter().filter(|row| row["kind"] == "group");
            groups.find(|row| row["group"] == name)?["median_ns"].as_f64()
        };
        let (north, south) = (median_ns("North"), median_ns("South"));
        let more = 2.0 * SOUTH_DELAY.abs_diff(NORTH_DELAY).as_nanos() as f64;
        let is_right = north
            .zip(south)
            .is_some_and(|(north, south)| (0.6..1.4).contains(&((south - north) / more)));
        if !is_right {
            self.wrong.push(format!(
                "{command}: {north:?} and {south:?} ns, {more} apart"
            ));
        }
        Ok(())
    }

    fn loss(&mut self, store: &Store, fault: &Fault, lost: u64) -> Result<()> {
        let span = Span::around(fault);
        let statement = format!(
            "SELECT network_name(source) AS network, sum(packets) AS packets, \
             sum(packets_lost_before) AS lost_before, sum(packets_lost_after) AS lost_after, \
             sum(reverse_packets) AS back, sum(reverse_packets_lost_before) AS back_lost_before, \
             sum(reverse_packets_lost_after) AS back_lost_after FROM traffic \
             WHERE time BETWEEN TIMESTAMP '{}' AND TIMESTAMP '{}' GROUP BY 1 ORDER BY 1",
            moment(span.from),
            moment(span.to)
        );
        let query = format!("fathom query \"{statement}\"");
        self.block("loss", store, std::slice::from_ref(&query))?;
        let mut rows = store.rows(&format!("{query} --format json"))?.into_iter();
        let hamburg = rows
            .find(|row| row["network"] == "Hamburg")
            .context("Hamburg sent nothing")?;
        let counted = hamburg["back_lost_after"].as_f64().unwrap_or_default();
        if !(COUNTED..=2.0 - COUNTED).contains(&(counted / lost as f64)) {
            self.wrong
                .push(format!("{lost} packets were lost behind it: {hamburg}"));
        }
        Ok(())
    }
}

/// What was made, when.
fn table(faults: &Faults) -> String {
    let mut rows = "| from | until | what was made |\n|---|---|---|\n".to_owned();
    for fault in [
        &faults.slow_server,
        &faults.full_link,
        &faults.full_access,
        &faults.lossy_access,
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(
            rows,
            "| {} | {} | {} |",
            time_of_day(fault.from),
            time_of_day(fault.to),
            fault.what
        );
    }
    rows
}

/// The time of day.
fn time_of_day(moment: SystemTime) -> String {
    let text = format_rfc3339_seconds(moment).to_string();
    text.trim_end_matches('Z')
        .split_once('T')
        .map(|(_, time)| time.to_owned())
        .unwrap_or_default()
}

/// A moment, as statements and options have it.
fn moment(time: SystemTime) -> Rfc3339Timestamp {
    format_rfc3339_seconds(time)
}

/// The question for all flows of a client with North.
fn of_flows(clients: impl Display, span: Span) -> String {
    format!(
        "fathom explain --flow {clients}-{NORTH}:443 {}",
        span.options()
    )
}

/// What the page is to show.
fn views(store: &Store, faults: &Faults) -> Result<Value> {
    let (access, link) = (
        Span::around(&faults.full_access),
        Span::around(&faults.full_link),
    );
    let all = Span {
        from: faults.slow_server.from - BEFORE,
        to: faults.lossy_access.to + AFTER,
        ..link
    };
    let flow = format!(
        "fathom query --format csv \"SELECT community_id FROM hop WHERE source = '{HAMBURG}' \
         AND destination = '{NORTH}' AND time BETWEEN TIMESTAMP '{}' AND TIMESTAMP '{}' \
         GROUP BY 1 ORDER BY count(*) DESC LIMIT 1\"",
        moment(link.begin),
        moment(link.to)
    );
    let flow = store.ask(&flow)?;
    let flow = flow.lines().last().unwrap_or_default();
    let flow = flow.replace('+', "%2B").replace('=', "%3D");
    Ok(json!({
        "page-overview": format!("overview?{}", all.parameters()),
        "page-flow": format!("flow?community_id={flow}&{}", link.parameters()),
        "page-explained":
            format!("explain?flow={BERLIN}-{NORTH}%3A443&{}", access.parameters()),
        "page-phone": format!("flows?{}", all.parameters()),
    }))
}

/// Without what is longer than a line.
fn trimmed(answer: &str) -> String {
    let mut text = String::new();
    for line in answer.lines() {
        let cut: String = line.chars().take(COLUMNS).collect();
        text.push_str(&cut);
        if line.chars().count() > COLUMNS {
            text.push('…');
        }
        text.push('\n');
    }
    text
}

impl Store {
    /// What a command of the shell prints.
    fn ask(&self, command: &str) -> Result<String> {
        let program = binary()?;
        let folder = program.parent().context("the binary is in no directory")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-o", "pipefail", "-c", command])
            .env("PATH", format!("{}:{path}", folder.display()))
            .env("FATHOM_STORE", &self.path)
            .env("FATHOM_NETWORKS", self.networks.path())
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "{command}: {}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The objects that it prints.
    fn rows(&self, command: &str) -> Result<Vec<Value>> {
        let text = self.ask(command)?;
        let rows = text.lines().map(serde_json::from_str);
        rows.collect::<Result<_, _>>().context("it is no JSON")
    }
}
