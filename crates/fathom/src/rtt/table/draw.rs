//! Drawing the table into a frame.

use fathom_measure::rtt::Counts;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table as Grid};

use super::Table;
use super::columns::{Column, SPACING, fitting};

/// What stands around the rows.
pub(super) struct Surroundings<'a> {
    pub(super) interfaces: &'a str,
    pub(super) samples_per_second: f64,
    pub(super) counts: &'a Counts,
    pub(super) message: Option<&'a str>,
}

/// Draws all.
pub(super) fn draw(frame: &mut Frame<'_>, table: &Table, surroundings: &Surroundings<'_>) {
    let [head, losses, rows, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(
        Line::raw(headline(table, surroundings)).style(Modifier::BOLD),
        head,
    );
    frame.render_widget(Paragraph::new(counts_text(surroundings.counts)), losses);
    draw_rows(frame, table, rows);
    let keys = "q quit  s sort  arrows, page up and down scroll";
    let foot_text = surroundings.message.unwrap_or(keys);
    frame.render_widget(Line::raw(foot_text).style(Modifier::DIM), foot);
}

fn headline(table: &Table, surroundings: &Surroundings<'_>) -> String {
    let left_out = match table.left_out {
        0 => String::new(),
        count => format!(" ({count} left out)"),
    };
    format!(
        "fathom rtt  {}  {:.0} samples/s  {} rows{left_out}  {} first",
        surroundings.interfaces,
        surroundings.samples_per_second,
        table.rows.len(),
        table.order.name(),
    )
}

fn counts_text(counts: &Counts) -> String {
    let mut texts = vec![format!("{} frames", counts.frames())];
    texts.extend(
        counts
            .named()
            .map(|(name, count)| format!("{name} {count}")),
    );
    texts.join("  ")
}

fn draw_rows(frame: &mut Frame<'_>, table: &Table, area: Rect) {
    let columns = fitting(area.width);
    let room = usize::from(area.height.saturating_sub(1));
    let rows = table.sorted().into_iter().skip(table.offset).take(room);
    let rows: Vec<_> = rows
        .map(|row| Cells::new(columns.iter().map(|column| cell(*column, column.text(row)))))
        .collect();
    let titles = Cells::new(
        columns
            .iter()
            .map(|column| cell(*column, column.title().to_owned())),
    );
    let widths = columns.iter().map(|column| match column {
        Column::Flow => Constraint::Min(column.width()),
        column => Constraint::Length(column.width()),
    });
    let grid = Grid::new(rows, widths)
        .column_spacing(SPACING)
        .header(titles.style(Style::new().add_modifier(Modifier::UNDERLINED)));
    frame.render_widget(grid, area);
}

fn cell(column: Column, text: String) -> Cell<'static> {
    let alignment = if column.is_number() {
        Alignment::Right
    } else {
        Alignment::Left
    };
    Cell::new(Text::raw(text).alignment(alignment))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;

    use fathom_measure::Replay;
    use fathom_measure::rtt::{Engine, Report, RttSample, Settings};
    use fathom_record::Nanoseconds;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// A sample of the flow from this port, as a capture of one echo gives it.
    pub(in crate::table) fn sample(source_port: u16, rtt_ns: u64) -> RttSample {
        static MEASURED: LazyLock<RttSample> = LazyLock::new(measured);
        let mut sample = *MEASURED;
        sample.flow.source_port = source_port;
        sample.rtt_ns = Nanoseconds(rtt_ns);
        sample
    }

    fn measured() -> RttSample {
        let mut found = None;
        let mut engine = Engine::new(&Settings::files(), 1).unwrap();
        let mut replay = Replay::from_reader("eth0", std::io::Cursor::new(echo())).unwrap();
        while replay
            .run(&mut engine, &mut |report| {
                if let Report::Sample(sample, _) = report {
                    found = Some(sample);
                }
            })
            .is_none()
        {}
        found.unwrap()
    }

    fn echo() -> Vec<u8> {
        use etherparse::{Icmpv4Header, PacketBuilder, PacketBuilderStep};
        use fathom_capture::{LinkType, Writer};

        let (client, server) = ([10, 0, 0, 1], [10, 0, 1, 1]);
        let mut writer = Writer::new(Vec::new(), LinkType::IPV4, 0).unwrap();
        let request = PacketBuilder::ipv4(client, server, 64).icmpv4_echo_request(7, 1);
        let reply = PacketBuilder::ipv4(server, client, 64).icmpv4_echo_reply(7, 1);
        let mut write = |time_ns, packet: PacketBuilderStep<Icmpv4Header>| {
            let mut bytes = Vec::new();
            packet.write(&mut bytes, &[0; 8]).unwrap();
            writer.write(time_ns, bytes.len() as u32, &bytes).unwrap();
        };
        write(1_000_000_000, request);
        write(1_020_000_000, reply);
        writer.finish().unwrap()
    }

    fn drawn(width: u16, height: u16, table: &Table, message: Option<&str>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let counts = Counts::default();
        let surroundings = Surroundings {
            interfaces: "eth0, eth1",
            samples_per_second: 12.4,
            counts: &counts,
            message,
        };
        terminal
            .draw(|frame| draw(frame, table, &surroundings))
            .unwrap();
        terminal.backend().to_string()
    }

    fn filled() -> Table {
        let mut table = Table::new();
        for round in 1..=40 {
            table.take(&sample(5000, 20_000_000 + round * 100_000));
            if round % 4 == 0 {
                table.take(&sample(5001, round * 30_000));
            }
        }
        table.take(&sample(5002, 2_500_000_000));
        table
    }

    #[test]
    fn the_table_looks_like_this() {
        insta::assert_snapshot!(drawn(140, 8, &filled(), None));
    }

    #[test]
    fn a_narrow_and_low_terminal_is_made_use_of() {
        let mut table = filled();
        table.scroll(1);
        table.left_out = 3;
        insta::assert_snapshot!(drawn(80, 5, &table, Some("eth1 has disappeared")));
        drawn(1, 1, &table, None);
    }
}
