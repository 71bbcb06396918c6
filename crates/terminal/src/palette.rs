//! Colours by severity.

use std::env;

use ratatui::style::{Color, Modifier, Style};

/// How bad what a cell says is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Less important than the rest.
    Faint,
    /// As it should be, or not to be judged.
    #[default]
    Normal,
    /// Users may notice.
    Notable,
    /// Users suffer.
    Bad,
}

const MS: u64 = 1_000_000;

impl Severity {
    /// Bad from the second limit on, notable from the first.
    fn of<T: PartialOrd + Copy>(value: T, notable: T, bad: T) -> Self {
        if value >= bad {
            Self::Bad
        } else if value >= notable {
            Self::Notable
        } else {
            Self::Normal
        }
    }

    /// A share of packets that was lost: from 1 % on a connection of 50 ms is slower than 10 Mbit/s
    /// (Mathis et al. 1997), from 5 % on it stalls.
    pub fn of_loss(ratio: Option<f64>) -> Self {
        ratio.map_or(Self::Normal, |ratio| Self::of(ratio, 0.01, 0.05))
    }

    /// What a queue adds to a round trip: from 60 ms on calls get worse, from 200 ms on pages do.
    pub fn of_queue(ns: Option<u64>) -> Self {
        ns.map_or(Self::Normal, |ns| Self::of(ns, 60 * MS, 200 * MS))
    }

    /// What clients wait for an answer: 0.1 s is felt, 1 s interrupts (Miller 1968).
    pub fn of_latency(ns: Option<u64>) -> Self {
        ns.map_or(Self::Normal, |ns| Self::of(ns, 100 * MS, 1000 * MS))
    }
}

/// Which colours there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    has_colours: bool,
}

impl Palette {
    /// The terminal's own sixteen, or none where the user set `NO_COLOR` (no-color.org).
    pub fn of_environment() -> Self {
        let forbidden = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            has_colours: !forbidden,
        }
    }

    /// The terminal's sixteen colours.
    pub const fn coloured() -> Self {
        Self { has_colours: true }
    }

    /// No colours.
    pub const fn plain() -> Self {
        Self { has_colours: false }
    }

    /// How a text of this severity looks.
    pub fn style(self, severity: Severity) -> Style {
        let style = Style::new();
        match (severity, self.has_colours) {
            (Severity::Normal, _) => style,
            (Severity::Faint, _) => style.add_modifier(Modifier::DIM),
            (Severity::Notable, true) => style.fg(Color::Yellow),
            (Severity::Bad, true) => style.fg(Color::LightRed).add_modifier(Modifier::BOLD),
            (Severity::Notable, false) => style.add_modifier(Modifier::BOLD),
            (Severity::Bad, false) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }

    /// The style of one of the lines of a chart.
    pub fn series(self, number: usize) -> Style {
        const COLOURS: [Color; 4] = [Color::Cyan, Color::Magenta, Color::Green, Color::Yellow];
        if self.has_colours {
            Style::new().fg(COLOURS[number % COLOURS.len()])
        } else {
            Style::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_part_of_what_is_worse() {
        let losses = [None, Some(0.0), Some(0.01), Some(0.05)].map(Severity::of_loss);
        let severities = [
            Severity::Normal,
            Severity::Normal,
            Severity::Notable,
            Severity::Bad,
        ];
        assert_eq!(losses, severities);
        assert_eq!(Severity::of_queue(Some(200 * MS)), Severity::Bad);
        assert_eq!(Severity::of_latency(Some(999 * MS)), Severity::Notable);
    }

    #[test]
    fn without_colours_there_are_none() {
        for severity in [
            Severity::Faint,
            Severity::Normal,
            Severity::Notable,
            Severity::Bad,
        ] {
            assert_eq!(Palette::plain().style(severity).fg, None);
        }
        let (bad, notable) = (Severity::Bad, Severity::Notable);
        assert_ne!(Palette::plain().style(bad), Palette::plain().style(notable));
        assert_ne!(Palette::coloured().style(bad).fg, None);
    }
}
