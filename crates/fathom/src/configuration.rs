//! Where options come from: the command line, then the environment, then a file, then their
//! defaults. All three derive from the declarations in [`arguments`](crate::arguments), which
//! nothing here repeats.

mod file;
mod sources;
mod template;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::Arguments;
use crate::failure::WrongUsage;
use crate::output::Output;

/// Options that a configuration file or the environment cannot hold: they ask for something once.
const ASKED_FOR_ONCE: [&str; 3] = ["config", "print-config", "help"];

/// The options of this run. Ends the process when the command line is wrong, or asks for help.
///
/// # Errors
/// When the configuration file cannot be read or is wrong.
pub(crate) fn arguments() -> anyhow::Result<Arguments> {
    read().map_err(|error| match error.downcast::<clap::Error>() {
        Ok(of_line) => of_line.exit(),
        Err(other) => other,
    })
}

/// The same, without an end of the process: the configuration file may have changed since it began.
///
/// # Errors
/// When the command line, the environment or the configuration file is wrong.
pub(crate) fn read() -> anyhow::Result<Arguments> {
    let command = command();
    let mut matches = command.clone().try_get_matches()?;
    if let Some(path) = config_of(&matches) {
        let only = matches.subcommand_name().and_then(own_file);
        matches = file::apply(command, &path, only)?.try_get_matches()?;
    }
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Some(name) = matches.subcommand_name() {
        refuse_unknown_variables(&self::command(), name, variables)?;
    }
    let mut arguments = Arguments::from_arg_matches(&matches)?;
    sources::settle(&mut arguments, &matches).map_err(WrongUsage::error)?;
    Ok(arguments)
}

/// The options of commands that run within another: those of the configuration file and the
/// environment.
pub(crate) struct Configured(Command);

impl Configured {
    /// Of this file, if there is one.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong.
    pub(crate) fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let command = command();
        Ok(Self(match path {
            Some(path) => file::apply(command, path, None)?,
            None => command,
        }))
    }

    /// Those of the command of this name.
    ///
    /// # Errors
    /// When the environment holds what an option does not take.
    pub(crate) fn options_of(&self, name: &str) -> anyhow::Result<ArgMatches> {
        let line = [self.0.get_name(), name];
        let matches = self.0.clone().try_get_matches_from(line);
        let mut matches = matches.map_err(|error| WrongUsage::error(error.to_string()))?;
        let own = matches.remove_subcommand().map(|(_, own)| own);
        own.with_context(|| format!("there is no command {name}"))
    }
}

/// Which command was asked for, as far as can be told of a command line that may be wrong.
pub(crate) fn command_asked_for() -> Option<String> {
    let matches = command().ignore_errors(true).try_get_matches().ok()?;
    matches.subcommand_name().map(str::to_owned)
}

/// The only table that is of interest here, for commands with a file of their own: the rest of it
/// is theirs.
fn own_file(command: &str) -> Option<&'static str> {
    (command == "balance").then_some("balance")
}

fn config_of(matches: &ArgMatches) -> Option<PathBuf> {
    let path: Option<&PathBuf> = matches.get_one("config");
    path.cloned()
}

/// The declared command, with an environment variable for every option: `FATHOM_HOPS_TIMEOUT` is
/// `--timeout` of `fathom hops`.
pub(crate) fn command() -> Command {
    with_variables(Arguments::command(), "FATHOM")
}

fn with_variables(command: Command, prefix: &str) -> Command {
    command
        .mut_args(|argument| with_variable(argument, prefix))
        .mut_subcommands(|below| {
            let prefix = format!("{prefix}_{}", below.get_name().to_ascii_uppercase());
            with_variables(below, &prefix)
        })
}

fn with_variable(argument: Arg, prefix: &str) -> Arg {
    let Some(name) = argument.get_long() else {
        return argument;
    };
    if ASKED_FOR_ONCE[1..].contains(&name) {
        return argument;
    }
    let variable = format!("{prefix}_{}", name.to_ascii_uppercase().replace('-', "_"));
    let argument = argument.env(variable).hide_env_values(true);
    if is_flag(&argument) {
        argument.value_parser(BoolishValueParser::new())
    } else {
        argument
    }
}

/// Refuses what the environment says to the command that is run and no option takes.
fn refuse_unknown_variables(
    command: &Command,
    name: &str,
    mut variables: impl Iterator<Item = String>,
) -> anyhow::Result<()> {
    let prefix = format!("FATHOM_{}_", name.to_ascii_uppercase());
    let known = variables_of(command);
    let unknown = variables.find(|it| it.starts_with(&prefix) && !known.contains(it));
    match unknown {
        Some(variable) => Err(WrongUsage::error(format!(
            "the environment has {variable}, which is no option of `fathom {name}`: unset it"
        ))),
        None => Ok(()),
    }
}

/// All there are, of commands below, too.
fn variables_of(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(Arg::get_env);
    let own = own.map(|variable| variable.to_string_lossy().into_owned());
    let below = command.get_subcommands().flat_map(variables_of);
    own.chain(below).collect()
}

fn is_flag(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// What a configuration file may set of a command, by long name.
fn configurable(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    command
        .get_opts()
        .filter_map(|argument| Some((argument.get_long()?, argument)))
        .filter(|(name, _)| !ASKED_FOR_ONCE.contains(name))
}

/// The commands that have a table in a configuration file, by its name: `ipfix.dump` is that of
/// `fathom ipfix dump`.
fn tables(command: &Command) -> Vec<(String, &Command)> {
    let mut tables = Vec::new();
    for command in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        if configurable(command).next().is_some() {
            tables.push((command.get_name().to_owned(), command));
        }
        let below = self::tables(command).into_iter();
        tables.extend(below.map(|(name, below)| (format!("{}.{name}", command.get_name()), below)));
    }
    tables
}

/// The command that has this table.
fn command_of<'a>(command: &'a Command, table: &str) -> Option<&'a Command> {
    let mut tables = tables(command).into_iter();
    tables
        .find(|(name, _)| name == table)
        .map(|(_, command)| command)
}

/// A table with the defaults of one command.
#[cfg(feature = "live")]
pub(crate) fn template_of(table: &str) -> String {
    template::template(&command(), table)
}

/// Prints a configuration file with the defaults of one command.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn print(table: &str) -> anyhow::Result<()> {
    let mut output = Output::text()?;
    output.put_text(&template::template(&command(), table));
    output.finish()
}
