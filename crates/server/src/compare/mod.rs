//! `fathom compare`: which of several groups performs better, and how sure that is.

mod comparison;
mod grouping;
mod metric;
mod pictures;
mod plot;
mod question;
mod rows;
mod sessions;
mod statistics;
mod text;
mod towards;

use std::io::{self, BufWriter, Write};

use anyhow::bail;
use clap::{Args, ValueEnum};
use jiff::Zoned;

use crate::moment::Moment;
use crate::query::{self, Engine, EngineArguments};
use comparison::Comparison;
use grouping::Grouping;
use metric::Metric;
use question::{Question, Role};
use sessions::Sessions;
use towards::Towards;

/// Compare groups of sessions: providers, versions of IP, networks, interfaces, services, hosts.
///
/// A session has one value: a connection its round trip, for instance. Groups with the most
/// sessions are shown with median, spread and distribution, and each is tested against each other:
/// durations by Mann and Whitney's test, with Cliff's delta as effect, and shares by Fisher's exact
/// test, corrected for the number of comparisons (Holm). Without --metric it lists metrics and
/// examples.
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// What is compared; several, such as establishment,dns, stand in one table.
    #[arg(long, value_enum, value_name = "METRIC", value_delimiter = ',')]
    metric: Vec<Metric>,
    /// By what sessions are told apart: asn (of the other end; needs --asn), family (the version of
    /// IP), network (of the other end: by --networks its name, else its /24 or /48), interface,
    /// service, host or label=NAME (of the host); several are told apart together.
    #[arg(
        long,
        value_name = "GROUPING",
        value_delimiter = ',',
        default_value = "family"
    )]
    by: Vec<Grouping>,
    /// Only sessions towards this network, such as 192.0.2.0/24, or `dual-stack`: towards systems
    /// (--asn), or else networks (--networks), to which there are some over IPv4 and over IPv6.
    #[arg(long, value_name = "NETWORK")]
    towards: Option<Towards>,
    /// Whether the host opened the connections or accepted them; the other end is what --by and
    /// --towards mean.
    #[arg(long, value_enum, default_value_t = Role::Client)]
    role: Role,
    /// Sessions that ended since then: a time, the last 12:00, or so long before --until.
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: Moment,
    /// Sessions that ended until then; by default now.
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Show so many groups of each metric, those with the most sessions.
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    groups: usize,
    #[command(flatten)]
    engine: EngineArguments,
    /// How the answer is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for people.
    Text,
    /// A JSON object a line: groups, then comparisons.
    Json,
    /// Comma-separated values: groups, then comparisons.
    Csv,
}

/// What is asked, and what comes of it.
struct Answer<'a> {
    question: &'a Question,
    sessions: &'a Sessions,
    comparisons: Vec<Comparison<'a>>,
}

/// Compares.
///
/// # Errors
/// When there is no store, it has no such sessions, or the answer cannot be written.
pub(crate) fn run(arguments: &CompareArguments) -> anyhow::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    if arguments.metric.is_empty() {
        pictures::list(&mut output)?;
        return Ok(output.flush()?);
    }
    let question = Question::new(arguments, &Zoned::now())?;
    let engine = Engine::open(&arguments.engine)?;
    let asked = sessions::of_store(&engine, &arguments.engine, &question);
    let sessions = query::wait_for(asked)?;
    if sessions.groups.is_empty() {
        bail!("{}", nothing(&question, &sessions));
    }
    let answer = Answer {
        question: &question,
        sessions: &sessions,
        comparisons: comparison::of_groups(&sessions.groups, question.kind()),
    };
    match arguments.format {
        Format::Text => text::write(&answer, &mut output)?,
        Format::Json => rows::json(&answer, &mut output)?,
        Format::Csv => rows::csv(&answer, &mut output)?,
    }
    Ok(output.flush()?)
}

/// Why there is no answer.
fn nothing(question: &Question, sessions: &Sessions) -> String {
    if sessions.without_group > 0 {
        return format!(
            "{} sessions have no {}: choose another --by, or other files",
            sessions.without_group,
            question.by()
        );
    }
    let names: Vec<_> = question.metrics.iter().map(|it| it.title().1).collect();
    format!(
        "the store has no such {} between {:.0} and {:.0}: name another time with --since, another --role or --towards, or look at what there is with `fathom query \"SELECT * FROM hosts\"`",
        names[0], question.since, question.until
    )
}
