//! A configuration file: checked against the declarations, then their defaults.

use std::path::Path;

use anyhow::Context;
use clap::{Arg, Command};
use toml::{Table, Value};

use super::{command_of, configurable, is_flag, tables};
use crate::failure::WrongUsage;

/// Makes the values of the file the defaults of the options that they name; if there is an `only`
/// table to look at, of that.
pub(super) fn apply(command: Command, path: &Path, only: Option<&str>) -> anyhow::Result<Command> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
    with_defaults(command, &text, only).map_err(|problem| {
        WrongUsage::error(format!(
            "in the configuration file {}: {problem}",
            path.display()
        ))
    })
}

/// As [`apply`], of the text of a file.
pub(super) fn with_defaults(
    mut command: Command,
    text: &str,
    only: Option<&str>,
) -> Result<Command, String> {
    let file: Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let of_interest = file
        .into_iter()
        .filter(|(table, _)| only.is_none_or(|only| only == table));
    for (table, keys) in of_interest {
        command = with_table(command, &table, keys)?;
    }
    Ok(command)
}

/// With what a table says, and those in it that belong to commands below.
fn with_table(mut command: Command, table: &str, value: Value) -> Result<Command, String> {
    for (key, value) in keys_of(&command, table, value)? {
        let below = format!("{table}.{key}");
        let is_table = tables(&command).iter().any(|(name, _)| *name == below);
        command = if is_table {
            with_table(command, &below, value)?
        } else {
            with_default(command, table, &key, &value)?
        };
    }
    Ok(command)
}

fn keys_of(command: &Command, table: &str, value: Value) -> Result<Table, String> {
    let tables = tables(command);
    let known: Vec<_> = tables.iter().map(|(name, _)| format!("[{name}]")).collect();
    let known = known.join(", ");
    let is_above = |name: &str| {
        name.strip_prefix(table)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match value {
        Value::Table(keys) if tables.iter().any(|(name, _)| is_above(name)) => Ok(keys),
        Value::Table(_) => Err(format!("there is no table [{table}]: there may be {known}")),
        _ => Err(format!(
            "`{table}` stands in no table: it belongs under {known}"
        )),
    }
}

fn with_default(
    command: Command,
    table: &str,
    key: &str,
    value: &Value,
) -> Result<Command, String> {
    let declared = command_of(&command, table)
        .and_then(|command| configurable(command).find(|(name, _)| *name == key));
    let Some((_, argument)) = declared else {
        return Err(format!(
            "[{table}] has no key `{key}`: there may be {}",
            known_keys(&command, table)
        ));
    };
    let wrong = |why: String| format!("[{table}] {key}: {why}");
    let id = argument.get_id().clone();
    let values = if is_flag(argument) {
        let is_set = value
            .as_bool()
            .ok_or_else(|| wrong("it is true or false".to_owned()))?;
        vec![is_set.to_string()]
    } else {
        match value {
            Value::Table(pairs) if takes_pairs(argument) => texts_of_pairs(pairs),
            value => texts_of(value),
        }
        .map_err(wrong)?
    };
    if !is_flag(argument) {
        check(&command, table, key, &values).map_err(wrong)?;
    }
    let path: Vec<_> = table.split('.').collect();
    Ok(below(command, &path, |command| {
        command.mut_arg(id, |argument| argument.default_values(values))
    }))
}

/// With a change to the command that the names lead to.
fn below(command: Command, path: &[&str], change: impl FnOnce(Command) -> Command) -> Command {
    let Some((first, rest)) = path.split_first() else {
        return change(command);
    };
    // As a value: each level would be a type of its own otherwise.
    let change: Box<dyn FnOnce(Command) -> Command + '_> = Box::new(change);
    command.mut_subcommand(first, |command| below(command, rest, change))
}

fn known_keys(command: &Command, table: &str) -> String {
    let names = command_of(command, table)
        .into_iter()
        .flat_map(configurable)
        .map(|(name, _)| name);
    names.collect::<Vec<_>>().join(", ")
}

/// The value as it would be written on the command line.
fn texts_of(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Boolean(answer) => Ok(vec![answer.to_string()]),
        Value::Array(values) => {
            let texts: Result<Vec<_>, _> = values.iter().map(texts_of).collect();
            Ok(texts?.concat())
        }
        Value::Datetime(_) | Value::Table(_) => Err(format!("it cannot be a {}", value.type_str())),
    }
}

/// Is it an option of names and values, such as `--label site=ber1`?
fn takes_pairs(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| name == "NAME=VALUE")
}

fn texts_of_pairs(pairs: &Table) -> Result<Vec<String>, String> {
    let texts = pairs.iter().map(|(name, value)| {
        let texts = texts_of(value)?;
        Ok(format!("{name}={}", texts.join(",")))
    });
    texts.collect()
}

/// Would the command line take these values? A default that it would not take is a bug to clap.
fn check(command: &Command, table: &str, key: &str, values: &[String]) -> Result<(), String> {
    let program = [command.get_name()].into_iter().chain(table.split('.'));
    let options = values.iter().map(|value| format!("--{key}={value}"));
    let parsed = command
        .clone()
        .try_get_matches_from(program.map(str::to_owned).chain(options));
    parsed.map(drop).map_err(|error| {
        let told = error.to_string();
        let first = told
            .split("\n\nFor more information")
            .next()
            .unwrap_or_default();
        first.trim().trim_start_matches("error: ").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::configuration::command;
    use crate::rtt::RttArguments;
    use crate::{Arguments, Command as Chosen};

    fn rtt(text: &str, options: &[&str]) -> Result<RttArguments, String> {
        let line = ["fathom", "rtt"].iter().chain(options);
        let matches = with_defaults(command(), text, None)?.get_matches_from(line);
        match Arguments::from_arg_matches(&matches).unwrap().command {
            Chosen::Rtt(arguments) => Ok(*arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_sets_what_the_command_line_does_not() {
        let text = "[rtt]\ninterface = [\"eth0\", \"eth1\"]\nflows = 1000\nxdp = true\nsample-interval = \"7ms\"\nport = [53, 443]";
        let arguments = rtt(text, &["--flows", "2000"]).unwrap();
        assert_eq!(arguments.source.interface, ["eth0", "eth1"]);
        assert_eq!(arguments.bounds.flows, Some(2000));
        assert_eq!(arguments.selection.ends.port, [53, 443]);
        assert!(arguments.source.xdp);
        let interval = arguments.sampling.sample_interval.unwrap();
        assert_eq!(interval, std::time::Duration::from_millis(7));
    }

    #[test]
    #[cfg(feature = "live")]
    fn names_and_values_may_be_a_table() {
        let labels = |text: &str| -> Result<_, String> {
            let command = with_defaults(command(), text, None)?;
            let matches = command.get_matches_from(["fathom", "agent"]);
            match Arguments::from_arg_matches(&matches).unwrap().command {
                Chosen::Agent(arguments) => Ok(arguments.label),
                other => panic!("{other:?}"),
            }
        };
        let table = labels("[agent.label]\nrack = 7\nsite = \"ber1\"\n");
        assert_eq!(
            table,
            labels("[agent]\nlabel = [\"rack=7\", \"site=ber1\"]\n")
        );
        assert_eq!(table.unwrap().len(), 2);
        let wrong = labels("[agent.label]\n\"a b\" = 1\n").unwrap_err();
        assert!(
            wrong.contains("[agent] label: ") && wrong.contains("`a b`"),
            "{wrong}"
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_known() {
        let wrong = |text: &str| rtt(text, &[]).unwrap_err();
        assert!(wrong("[rtt]\nflow = 1").contains("no key `flow`: there may be interface, xdp"));
        assert!(wrong("[rrt]\n").contains("no table [rrt]: there may be [rtt], "));
        assert!(wrong("flows = 1").contains("`flows` stands in no table"));
        assert!(wrong("[rtt]\nflows = 1").contains("1 is not in 64..=67108864"));
        assert!(wrong("[rtt]\nxdp = 1").contains("it is true or false"));
        assert!(wrong("[rtt]\nby = {}").contains("it cannot be a table"));
        assert!(wrong("[rtt\n").contains("line 1"));
        assert!(wrong("[ipfix.drump]\n").contains("[ipfix] has no key `drump`"));
        assert!(wrong("[ipfix.dump]\nlisten = 7").contains("[ipfix.dump] listen: "));
        assert!(wrong("[rtt]\nconfig = \"x\"").contains("no key `config`"));
    }
}
