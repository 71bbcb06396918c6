//! A chart over time, in dots of a terminal's cells.

use fathom_terminal::Palette;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::canvas::{Canvas, Context, Line as Stroke, Points};

use crate::lists::Range;

/// Cells at the left of every chart, for what its heights mean, so that all have one axis of time.
pub(super) const GUTTER: u16 = 10;

/// A course over time.
pub(super) struct Series {
    pub(super) name: &'static str,
    /// Times since the Unix epoch, and values; `None` where there is none.
    pub(super) points: Vec<(i64, Option<f64>)>,
}

impl Series {
    fn highest(&self) -> f64 {
        let values = self.points.iter().filter_map(|(_, value)| *value);
        values.fold(0.0, f64::max)
    }

    /// Is there anything to be drawn?
    pub(super) fn has_values(&self) -> bool {
        self.points.iter().any(|(_, value)| value.is_some())
    }
}

/// Courses of one unit.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) series: Vec<Series>,
    /// What a height means.
    pub(super) shown: fn(f64) -> String,
    /// What the chart's height stands for at least.
    pub(super) least: f64,
}

impl Chart {
    /// Draws title, legend and courses. Values further apart than a step are not connected.
    pub(super) fn draw(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        range: Range,
        step_ns: i64,
        palette: Palette,
    ) {
        let [head, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
        frame.render_widget(self.legend(palette), head);
        let [gutter, canvas] =
            Layout::horizontal([Constraint::Length(GUTTER), Constraint::Min(0)]).areas(body);
        let highest = self
            .series
            .iter()
            .map(Series::highest)
            .fold(self.least, f64::max);
        let top = rounded_up(highest);
        self.draw_heights(frame, gutter, top);
        let width = (range.to_ns - range.from_ns) as f64;
        let drawn = Canvas::default()
            .marker(Marker::Braille)
            .x_bounds([0.0, width])
            .y_bounds([0.0, top])
            .paint(|context| {
                // The first lies above the others.
                for (number, series) in self.series.iter().enumerate().rev() {
                    stroke(context, series, number, range, step_ns, palette);
                }
            });
        frame.render_widget(drawn, canvas);
    }

    fn draw_heights(&self, frame: &mut Frame<'_>, gutter: Rect, top: f64) {
        let width = usize::from(GUTTER) - 2;
        let dim = Style::new().add_modifier(Modifier::DIM);
        let label = |height| Line::raw(format!("{:>width$}", (self.shown)(height))).style(dim);
        let line = |row| Rect {
            y: gutter.y + row,
            height: 1,
            ..gutter
        };
        if gutter.height > 0 {
            frame.render_widget(label(top), line(0));
        }
        if gutter.height > 4 {
            frame.render_widget(label(top / 2.0), line(gutter.height / 2));
        }
        if gutter.height > 1 {
            frame.render_widget(label(0.0), line(gutter.height - 1));
        }
    }

    fn legend(&self, palette: Palette) -> Line<'static> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut spans = vec![Span::styled(self.title, bold)];
        for (number, series) in self.series.iter().enumerate() {
            let sign = if is_dotted(number) {
                "┅┅ "
            } else {
                "━━ "
            };
            let style = palette.series(number);
            spans.extend([
                Span::raw("   "),
                Span::styled(sign, style),
                Span::raw(series.name),
            ]);
        }
        Line::from(spans)
    }
}

/// Courses differ without colours, too.
fn is_dotted(number: usize) -> bool {
    number % 2 == 1
}

fn stroke(
    context: &mut Context<'_>,
    series: &Series,
    number: usize,
    range: Range,
    step_ns: i64,
    palette: Palette,
) {
    let color = palette.series(number).fg.unwrap_or_default();
    let values = series
        .points
        .iter()
        .filter_map(|&(time_ns, value)| Some((time_ns, value?)));
    let values: Vec<_> = values.collect();
    let place = |time_ns: i64| (time_ns - range.from_ns) as f64;
    let coords: Vec<_> = values
        .iter()
        .map(|&(time_ns, value)| (place(time_ns), value))
        .collect();
    context.draw(&Points {
        coords: &coords,
        color,
    });
    if is_dotted(number) {
        return;
    }
    for (times, ends) in values.windows(2).zip(coords.windows(2)) {
        // Intervals may be two steps apart where they are not a multiple of steps.
        if times[1].0 - times[0].0 <= 2 * step_ns {
            let ((x1, y1), (x2, y2)) = (ends[0], ends[1]);
            context.draw(&Stroke::new(x1, y1, x2, y2, color));
        }
    }
}

/// The next of 1, 2 and 5 and their multiples by ten.
fn rounded_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * decade >= value);
    factor.unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_round() {
        for (value, round) in [
            (0.9, 1.0),
            (1.0, 1.0),
            (1.1, 2.0),
            (3.0, 5.0),
            (51.0, 100.0),
        ] {
            assert!((rounded_up(value) - round).abs() < 1e-9, "{value}");
        }
    }
}
