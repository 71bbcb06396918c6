//! The commands that documents have.
//!
//! A block of `sh` is commands, and one of `console` has them behind `$`, with what they print
//! between them. Blocks of `promql` and `yaml` are for Prometheus, whose `promtool` looks at them.
//! In rows of tables, what stands between backquotes is a command if it has options or arguments.

use std::fmt;

/// A command, as a document has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Documented {
    pub(crate) document: String,
    /// Where it begins.
    pub(crate) line: usize,
    /// What a shell is given.
    pub(crate) text: String,
}

impl fmt::Display for Documented {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.document, self.line, self.text)
    }
}

/// What stands between two fences, and where.
struct Block<'a> {
    label: &'a str,
    lines: Vec<(usize, &'a str)>,
}

/// All commands of a document, in its order, and lines that look like commands in blocks that are
/// none.
pub(crate) fn commands(document: &str, text: &str) -> (Vec<Documented>, Vec<String>) {
    let (blocks, outside) = blocks(text);
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut unlabelled = Vec::new();
    for Block { label, lines } in &blocks {
        match *label {
            "sh" => found.extend(whole(lines.iter().copied())),
            "console" => found.extend(prompted(lines)),
            "promql" => found.extend(lines.iter().map(|(line, text)| (*line, rule(text)))),
            "yaml" => found.push((lines[0].0, configuration(lines))),
            "" => {
                let suspicious = lines.iter().filter(|(_, text)| looks_like_command(text));
                unlabelled
                    .extend(suspicious.map(|(line, text)| format!("{document}:{line}: {text}")));
            }
            _ => {}
        }
    }
    for (line, text) in outside.iter().filter(|(_, text)| text.starts_with('|')) {
        let spans = text.split('`').skip(1).step_by(2);
        let spans = spans.filter(|span| span.starts_with("fathom ") && !span.contains('…'));
        let with_more = spans.filter(|span| span.split(' ').count() > 2);
        found.extend(with_more.map(|span| (*line, span.to_owned())));
    }
    found.sort();
    let commands = found.into_iter().map(|(line, text)| Documented {
        document: document.to_owned(),
        line,
        text,
    });
    (commands.collect(), unlabelled)
}

/// The blocks of a document, and the lines that are in none.
fn blocks(text: &str) -> (Vec<Block<'_>>, Vec<(usize, &str)>) {
    let (mut blocks, mut outside) = (Vec::new(), Vec::new());
    let mut open: Option<Block<'_>> = None;
    let mut is_written = false;
    for (number, line) in text.lines().enumerate() {
        // Who writes such a part runs the commands in it, too.
        is_written = match line.strip_prefix("<!-- ") {
            Some(words) => words.contains("written by make"),
            None => is_written,
        };
        if is_written {
            continue;
        }
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(label), None) => {
                let lines = Vec::new();
                open = Some(Block { label, lines });
            }
            (None, Some(block)) => block.lines.push((number + 1, line)),
            (None, None) => outside.push((number + 1, line)),
        }
    }
    (blocks, outside)
}

fn looks_like_command(line: &str) -> bool {
    let programs = ["$ ", "fathom ", "sudo ", "curl ", "apt "];
    programs.iter().any(|program| line.starts_with(program))
}

/// Lines that a shell takes together, without those that are empty or comments alone.
fn whole<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in lines {
        match commands.last_mut() {
            Some((_, command)) if is_open => {
                command.push('\n');
                command.push_str(line);
            }
            _ if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
            _ => commands.push((number, line.to_owned())),
        }
        is_open = commands
            .last()
            .is_some_and(|(_, command)| !is_complete(command));
    }
    commands
}

/// What was typed behind prompts.
fn prompted(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
    let starts = (0..lines.len()).filter(|&place| lines[place].1.starts_with("$ "));
    let commands = starts.map(|place| {
        let first = (lines[place].0, &lines[place].1[2..]);
        let rest = lines[place + 1..].iter().copied();
        whole(std::iter::once(first).chain(rest)).swap_remove(0)
    });
    commands.collect()
}

/// Whether a shell would run this, and not wait for another line.
fn is_complete(text: &str) -> bool {
    let mut quote = None;
    let mut is_comment = false;
    let mut before = '\n';
    for it in text.chars() {
        match quote {
            Some(open) if it == open => quote = None,
            None if is_comment => is_comment = it != '\n',
            None if it == '#' && before.is_whitespace() => is_comment = true,
            None if it == '\'' || it == '"' => quote = Some(it),
            _ => {}
        }
        before = it;
    }
    quote.is_none() && (is_comment || !text.trim_end().ends_with(['\\', '|']))
}

/// `promtool` says whether an expression is one.
fn rule(expression: &str) -> String {
    let expression = serde_json::Value::from(expression);
    let rule = format!("groups: [{{name: one, rules: [{{record: it, expr: {expression}}}]}}]");
    format!("promtool check rules /dev/stdin <<'END'\n{rule}\nEND")
}

/// `promtool` says whether a configuration is one.
fn configuration(lines: &[(usize, &str)]) -> String {
    let lines: Vec<_> = lines.iter().map(|(_, text)| *text).collect();
    let lines = lines.join("\n");
    format!("promtool check config /dev/stdin <<'END'\n{lines}\nEND")
}

#[test]
fn commands_are_found_with_their_lines() {
    let text = "Of `fathom rtt`:\n\n```sh\n# all\nfathom rtt -i eth0 # it's live\n\nfathom query \"\n  SELECT 1\"\n\
        fathom hops \\\n  a | cat\n```\n```console\n$ cat x\nit is\n$ fathom top |\n  cat\nmore\n```\n\
        | `fathom doctor` | `fathom agent status` | `fathom hops … it` |\n```\n$ fathom\n```\n\
        <!-- written by make pictures -->\n```sh\nfathom explain\n```\n<!-- end -->\n```sh\nfathom x\n```\n";
    let (commands, unlabelled) = commands("a.md", text);
    let found: Vec<_> = commands
        .iter()
        .map(|it| (it.line, it.text.as_str()))
        .collect();
    let expected = [
        (5, "fathom rtt -i eth0 # it's live"),
        (7, "fathom query \"\n  SELECT 1\""),
        (9, "fathom hops \\\n  a | cat"),
        (13, "cat x"),
        (15, "fathom top |\n  cat"),
        (19, "fathom agent status"),
        (29, "fathom x"),
    ];
    assert_eq!(found, expected);
    assert_eq!(unlabelled, ["a.md:21: $ fathom"]);
}
