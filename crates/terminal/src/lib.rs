//! Tables on a terminal: columns that a narrow terminal leaves out, colours by severity, and keys
//! for sorting, filtering, pausing and help. The tables of single commands and `fathom top` are
//! this one. It knows no measurement, and asks for nothing: rows come through [`Rows`].
//!
//! ```
//! use fathom_terminal::{Column, Palette, Rows, Table};
//! use ratatui::{Terminal, backend::TestBackend};
//!
//! struct Hosts(Vec<&'static str>);
//!
//! impl Rows for Hosts {
//!     type Row = &'static str;
//!
//!     fn columns(&self) -> &[Column] {
//!         const { &[Column::wide("host", 8, 0)] }
//!     }
//!
//!     fn all(&self) -> Vec<&&'static str> {
//!         self.0.iter().collect()
//!     }
//!
//!     fn lines(&self, row: &&'static str) -> Vec<Vec<fathom_terminal::Cell>> {
//!         vec![vec![row.to_string().into()]]
//!     }
//! }
//!
//! let mut table = Table::scrolling();
//! let mut terminal = Terminal::new(TestBackend::new(10, 3)).unwrap();
//! let hosts = Hosts(vec!["web1", "web2"]);
//! terminal
//!     .draw(|frame| table.draw(frame, frame.area(), &hosts, Palette::plain()))
//!     .unwrap();
//! assert!(terminal.backend().to_string().contains("web2"));
//! ```

mod bars;
mod column;
mod help;
mod keys;
mod palette;
mod screen;
mod table;

pub use bars::{AXIS, BARS, bars, bars_of};
pub use column::{Cell, Column, duration, percent, scaled};
pub use help::{Key, draw_help};
pub use keys::Reaction;
pub use palette::{Palette, Severity};
pub use screen::{Screen, is_looked_at};
pub use table::{Order, Rows, Table};
