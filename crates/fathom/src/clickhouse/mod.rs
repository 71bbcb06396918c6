//! Records in ClickHouse, beyond one machine: its tables, its views, and records on their way.

mod client;
mod rollup;
mod rows;
mod schema;
mod sink;
mod url;
mod views;

use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::arguments::positive_duration;
use crate::failure::say;
use crate::output::Output;
use crate::reference;
use client::Client;
use schema::{Dialect, Found, Layout};
pub(crate) use sink::open;
pub(crate) use url::ServerUrl;

/// What is done with a store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Make the tables and views in ClickHouse that records are kept in.
    Init(InitArguments),
}

/// Options of `fathom store init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// The server: `http://HOST:8123`, or `http://USER:PASSWORD@HOST:8123/DATABASE`; of a cluster,
    /// repeated for each server.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    clickhouse: Vec<ServerUrl>,
    /// A cluster of the servers' configuration, over whose shards records are spread by their host.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Have servers remove what is older; from 20.1 on.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = positive_duration)]
    store_age: Duration,
    /// The same of the tables whose rows are a minute or an hour each; from 24.10 on.
    #[arg(long, value_name = "TIME", default_value = "2years", value_parser = positive_duration)]
    rollup_age: Duration,
    /// Print the statements for the first server, and change nothing.
    #[arg(long)]
    print: bool,
}

/// Makes tables and views, or prints what would.
///
/// # Errors
/// When a server does not answer, or refuses.
pub(crate) fn init(arguments: &InitArguments) -> anyhow::Result<()> {
    let schemas = reference::kept();
    for url in &arguments.clickhouse {
        let client = Client::new(url)?;
        let version = client.run("SELECT version()")?;
        let layout = Layout {
            database: client.database(),
            cluster: arguments.cluster.as_deref(),
            age: arguments.store_age,
            rollup_age: arguments.rollup_age,
        };
        let dialect = Dialect::of(&version);
        let found = found(&client)?;
        let mut statements = schema::statements(&schemas, dialect, &layout, &found);
        statements.extend(rollup::statements(&schemas, dialect, &layout, &found));
        statements.extend(views::statements(client.database(), dialect));
        if arguments.print {
            let mut output = Output::text()?;
            output.put_text(&(statements.join(";\n\n") + ";\n"));
            return output.finish();
        }
        for statement in &statements {
            let line = statement.lines().next().unwrap_or_default();
            let done = client.run(statement);
            done.with_context(|| format!("the server refuses {line}"))?;
        }
        let is_addition = |it: &&String| it.starts_with("ALTER");
        for addition in statements.iter().filter(is_addition) {
            let addition = addition.split_whitespace().collect::<Vec<_>>().join(" ");
            say!("{addition}");
        }
        say!(
            "ClickHouse {}: {} tables and the views are in {}",
            version.trim(),
            schemas.len(),
            client.database()
        );
    }
    Ok(())
}

/// Which columns the tables of the database have.
fn found(client: &Client) -> anyhow::Result<Found> {
    let answer = client.run(&format!(
        "SELECT table, name FROM system.columns WHERE database = '{}'",
        client.database()
    ))?;
    let mut found = Found::new();
    for (table, column) in answer.lines().filter_map(|line| line.split_once('\t')) {
        let columns = found.entry(table.to_owned()).or_default();
        columns.insert(column.to_owned());
    }
    Ok(found)
}
