//! The configuration file that equals the defaults, written from the declarations.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use super::{command_of, configurable, is_flag};

/// A configuration file for one command: what has a default with it, what has none commented out.
pub(super) fn template(command: &Command, table: &str) -> String {
    let mut text = format!(
        "# Options of `fathom {}`. Those on the command line and in the environment (FATHOM_{}_*) come before these.\n\n[{table}]\n",
        table.replace('.', " "),
        table.replace('.', "_").to_ascii_uppercase(),
    );
    let declared = command_of(command, table)
        .into_iter()
        .flat_map(configurable);
    for (name, argument) in declared {
        text.push('\n');
        let about = argument
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        for line in wrapped(&about, 96) {
            // Writing to memory does not fail.
            let _ = writeln!(text, "# {line}");
        }
        let choices: Vec<_> = argument
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        if !choices.is_empty() && !is_flag(argument) {
            let _ = writeln!(text, "# One of {}.", choices.join(", "));
        }
        let _ = match default_of(argument) {
            Some(value) => writeln!(text, "{name} = {value}"),
            None => writeln!(text, "#{name} = {}", example_of(argument)),
        };
    }
    text
}

/// As TOML.
fn default_of(argument: &Arg) -> Option<String> {
    if is_flag(argument) {
        return Some("false".to_owned());
    }
    let values = argument.get_default_values().iter();
    let values: Option<Vec<_>> = values.map(|value| value.to_str().map(literal)).collect();
    match &values?[..] {
        [] => None,
        [value] => Some(value.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn literal(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("{value:?}"),
    }
}

fn example_of(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let name = names.first().map_or("VALUE", |name| name.as_str());
    match argument.get_action() {
        ArgAction::Append => format!("[\"{name}\"]"),
        _ => format!("\"{name}\""),
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use clap::{ArgMatches, FromArgMatches};

    use super::*;
    use crate::Arguments;
    use crate::configuration::command;
    use crate::configuration::file::with_defaults;

    fn parsed(command: Command, words: &str) -> String {
        let words = ["fathom"].into_iter().chain(words.split(' '));
        let matches: ArgMatches = command.get_matches_from(words);
        format!("{:?}", Arguments::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn the_template_equals_the_defaults() {
        for words in ["rtt", "agent", "ipfix dump"] {
            let template = template(&command(), &words.replace(' ', "."));
            let with_file = with_defaults(command(), &template, None).unwrap();
            assert_eq!(parsed(with_file, words), parsed(command(), words));
        }
    }

    #[test]
    fn a_command_below_another_has_a_table() {
        let template = template(&command(), "ipfix.dump");
        assert!(template.contains("`fathom ipfix dump`"), "{template}");
        assert!(template.contains("\n[ipfix.dump]\n"), "{template}");
    }

    #[test]
    fn the_template_names_every_option() {
        let template = template(&command(), "rtt");
        let uncommented: String = template
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .map(|(key, _)| key.trim_start_matches('#').to_owned() + "\n")
            .collect();
        for key in [
            "interface",
            "sample-interval",
            "by",
            "prefix-v4",
            "max-memory",
            "no-tunnels",
            "format",
        ] {
            assert!(uncommented.lines().any(|line| line == key), "{key}");
        }
    }

    #[test]
    fn long_texts_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }
}
