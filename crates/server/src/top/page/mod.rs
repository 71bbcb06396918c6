//! One flow: what happened to it on one axis of time, and the path it takes.

pub(super) mod draw;
mod ladder;

use fathom_terminal::{Reaction, Table};
use ratatui::crossterm::event::Event;

use crate::lists::flow::FlowAnswer;
use ladder::Ladder;

/// The page of a flow.
pub(super) struct Page {
    pub(super) community_id: String,
    pub(super) host: String,
    /// The flow as a text.
    name: String,
    /// What the user chose of the routers.
    pub(super) table: Table,
    answer: Option<Box<FlowAnswer>>,
    ladder: Ladder,
    /// Has the store told anything yet?
    is_told: bool,
}

impl Page {
    /// Nothing is known of it yet.
    pub(super) fn new(community_id: &str, host: &str, name: String) -> Self {
        Self {
            community_id: community_id.to_owned(),
            host: host.to_owned(),
            name,
            table: Table::scrolling(),
            answer: None,
            ladder: Ladder::default(),
            is_told: false,
        }
    }

    /// What the store told; `None`: it has no records of the flow in the range.
    pub(super) fn take(&mut self, answer: Option<Box<FlowAnswer>>) {
        let hops = answer.as_ref().map(|answer| answer.hops.clone());
        self.ladder = Ladder::new(hops.unwrap_or_default());
        self.answer = answer;
        self.is_told = true;
    }

    /// Follows a key or the mouse.
    pub(super) fn on_event(&mut self, event: &Event) -> Reaction {
        self.table.on_event(event, &self.ladder)
    }
}
