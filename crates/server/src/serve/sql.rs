//! Statements of people, each answered by a process of its own.
//!
//! Such a process changes nothing, has little memory, and ends when it takes too long, says too
//! much, or nobody waits for it any more. Whatever a statement does to it, the page goes on.

use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::Shared;
use super::problem::Problem;
use super::questions::{MOST_TIME, took_too_long};

/// Rows of an answer at most.
const MOST_ROWS: usize = 1_000;
/// Bytes of an answer at most.
const MOST_BYTES: u64 = 4 << 20;
/// Bytes of a statement at most.
const MOST_STATEMENT_BYTES: usize = 64 << 10;
/// All memory of the process, which the system keeps it to.
const MOST_MEMORY_MIB: &str = "4096";

/// A statement.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct StatementAsked {
    /// SQL, as `fathom query` takes it.
    #[schema(min_length = 1, max_length = 65536)]
    pub(super) statement: String,
}

/// Its answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StatementAnswer {
    /// The names of the columns.
    columns: Vec<String>,
    /// The values, as texts; empty where there is none.
    rows: Vec<Vec<String>>,
    /// Whether there are more rows than these.
    is_cut: bool,
}

/// Answers.
///
/// # Errors
/// When the statement is wrong, or takes too much.
pub(super) async fn answer(
    shared: &Shared,
    asked: &StatementAsked,
) -> Result<StatementAnswer, Problem> {
    if asked.statement.trim().is_empty() {
        return Err(Problem::wrong("there is no statement"));
    }
    if asked.statement.len() > MOST_STATEMENT_BYTES || asked.statement.contains('\0') {
        return Err(Problem::wrong("a statement has 64 KiB of text at most"));
    }
    let turn = shared.statements.try_acquire().map_err(|_| {
        let words = "another statement is being answered: ask again when it is done";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, words)
    })?;
    let answer = timeout(MOST_TIME, ask(shared, &asked.statement)).await;
    drop(turn);
    answer.unwrap_or_else(|_| Err(took_too_long()))
}

async fn ask(shared: &Shared, statement: &str) -> Result<StatementAnswer, Problem> {
    let mut process = Answering::start(shared, statement)?;
    let output = read(process.stdout(), MOST_BYTES);
    let errors = read(process.stderr(), 64 << 10);
    let (output, errors) = tokio::try_join!(output, errors)?;
    let is_whole = (output.len() as u64) < MOST_BYTES;
    if is_whole {
        let status = process.wait().await?;
        if !status.success() {
            return Err(failed(&errors));
        }
    }
    // The process ends with this value.
    drop(process);
    table(&output, is_whole)
}

/// A process that answers. It is ended with this value.
struct Answering(Option<Child>);

impl Answering {
    fn start(shared: &Shared, statement: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program is gone")?;
        let process = Command::new(program)
            .arg("query")
            .args(&shared.asking)
            .args(["--format", "csv", "--most-memory", MOST_MEMORY_MIB, "--"])
            .arg(statement)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a process")?;
        Ok(Self(Some(process)))
    }

    fn stdout(&mut self) -> Option<ChildStdout> {
        self.0.as_mut()?.stdout.take()
    }

    fn stderr(&mut self) -> Option<ChildStderr> {
        self.0.as_mut()?.stderr.take()
    }

    async fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let process = self.0.as_mut().context("the process is gone")?;
        Ok(process.wait().await?)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let (Some(mut process), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        let _ = process.start_kill();
        // So that the system forgets it, too.
        runtime.spawn(async move { process.wait().await });
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// What the process said, without its name.
fn failed(errors: &[u8]) -> Problem {
    let errors = String::from_utf8_lossy(errors);
    let said = errors.trim();
    let said = said.strip_prefix("fathom-server: ").unwrap_or(said);
    let said: String = said.chars().take(2_000).collect();
    if said.is_empty() || said.contains("memory allocation of") {
        return Problem::wrong("the statement needs more memory than it may have");
    }
    Problem::wrong(said)
}

fn table(output: &[u8], is_whole: bool) -> Result<StatementAnswer, Problem> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(output);
    let headers = reader.headers().map_err(anyhow::Error::from)?;
    let columns = headers.iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    let mut is_cut = !is_whole;
    for record in reader.records() {
        if rows.len() == MOST_ROWS {
            is_cut = true;
            break;
        }
        match record {
            Ok(record) => rows.push(record.iter().map(str::to_owned).collect()),
            // The last one was cut in the middle.
            Err(_) if !is_whole => break,
            Err(error) => return Err(anyhow::Error::from(error).into()),
        }
    }
    if !is_whole {
        rows.pop();
    }
    Ok(StatementAnswer {
        columns,
        rows,
        is_cut,
    })
}
