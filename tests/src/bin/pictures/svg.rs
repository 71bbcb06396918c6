//! What a terminal shows, as SVG.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

/// A cell, in the units of the picture.
const WIDTH: f64 = 8.0;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 12.0;
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d5d8de";
/// The sixteen colours of terminals, calm.
const COLOURS: [&str; 16] = [
    "#3b4048", "#e0676f", "#8fbf7f", "#e0b65c", "#6ea3e0", "#c28be0", "#5fbfc4", "#d5d8de",
    "#6b727d", "#ff7a83", "#a9d99a", "#f2cc7a", "#8fbdf5", "#d9a8f2", "#80d8dc", "#ffffff",
];

#[derive(Debug, Clone, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a cell of a terminal has each or has it not"
)]
struct Look {
    colour: Option<&'static str>,
    is_bold: bool,
    is_dim: bool,
    is_underlined: bool,
    is_reversed: bool,
}

/// Writes a picture of lines with sequences of escapes.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let mut look = Look::default();
    let mut body = String::new();
    let mut columns = 0;
    let lines: Vec<&str> = text.lines().collect();
    for (row, line) in lines.iter().enumerate() {
        let mut column = 0;
        for (part, next) in parts(line) {
            draw(&mut body, row, column, part, &look)?;
            column += part.chars().count();
            if let Some(codes) = next {
                look.follow(codes);
            }
        }
        columns = columns.max(column);
    }
    let width = columns as f64 * WIDTH + 2.0 * MARGIN;
    let height = lines.len() as f64 * HEIGHT + 2.0 * MARGIN;
    let picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"13\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n{body}</svg>\n"
    );
    std::fs::write(path, picture).with_context(|| format!("cannot write {}", path.display()))
}

/// Texts, and the codes that follow each.
fn parts(line: &str) -> Vec<(&str, Option<&str>)> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some((text, after)) = rest.split_once("\x1b[") {
        let (codes, after) = after.split_once('m').unwrap_or((after, ""));
        parts.push((text, Some(codes)));
        rest = after;
    }
    parts.push((rest, None));
    parts
}

/// Draws a text with its background; runs of blanks are cut out, as they show nothing.
fn draw(body: &mut String, row: usize, column: usize, text: &str, look: &Look) -> Result<()> {
    let top = MARGIN + row as f64 * HEIGHT;
    let left = |column: usize| MARGIN + column as f64 * WIDTH;
    let length = text.chars().count();
    let colour = look.colour.unwrap_or(FOREGROUND);
    if look.is_reversed && length > 0 {
        let (x, width) = (left(column), length as f64 * WIDTH);
        writeln!(
            body,
            "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{colour}\"/>"
        )?;
    }
    if look.is_underlined && length > 0 {
        let (x, width, y) = (left(column), length as f64 * WIDTH, top + HEIGHT - 2.0);
        writeln!(
            body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"1\" fill=\"{colour}\"/>"
        )?;
    }
    let fill = if look.is_reversed { BACKGROUND } else { colour };
    let mut more = String::new();
    if look.is_bold {
        more.push_str(" font-weight=\"bold\"");
    }
    if look.is_dim {
        more.push_str(" opacity=\"0.6\"");
    }
    for (start, word) in words(text) {
        let (x, y) = (left(column + start), top + HEIGHT - 5.0);
        let width = word.chars().count() as f64 * WIDTH;
        let word = word.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(
            body,
            "<text x=\"{x}\" y=\"{y}\" fill=\"{fill}\" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\"{more}>{word}</text>"
        )?;
    }
    Ok(())
}

/// What stands between two blanks or more, and where it begins.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut blanks = 2;
    for (place, character) in text.chars().enumerate() {
        if character == ' ' {
            blanks += 1;
            continue;
        }
        match words.last_mut() {
            Some((_, word)) if blanks < 2 => {
                word.push_str(&" ".repeat(blanks));
                word.push(character);
            }
            _ => words.push((place, character.to_string())),
        }
        blanks = 0;
    }
    words
}

impl Look {
    /// Follows the codes of a sequence that selects a look (ECMA-48, SGR).
    fn follow(&mut self, codes: &str) {
        let mut codes = codes
            .split([';', ':'])
            .map(|code| code.parse().unwrap_or(0_usize));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                4 => self.is_underlined = true,
                7 => self.is_reversed = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                24 => self.is_underlined = false,
                27 => self.is_reversed = false,
                30..=37 => self.colour = Some(COLOURS[code - 30]),
                38 if codes.next() == Some(5) => {
                    self.colour = codes.next().and_then(|code| COLOURS.get(code).copied());
                }
                39 => self.colour = None,
                90..=97 => self.colour = Some(COLOURS[code - 90 + 8]),
                _ => {}
            }
        }
    }
}
