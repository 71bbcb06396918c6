//! What is shown, and what follows from keys and answers: no terminal, no store, no clock.

use std::ops::ControlFlow;

use fathom_terminal::{Reaction, Table};
use jiff::tz::TimeZone;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, MouseButton, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::asker::{Ask, Content, Newest, Reply, What};
use super::explained::Explained;
use super::page::Page;
use super::rows::Listed;
use super::span::{Span, Width};
use super::tabs::{GROUPED, TABS, Tab, place_of};
use crate::explain::Subject;
use crate::lists::groups::Group;
use crate::lists::{List, Range};

/// All that is shown.
pub(crate) struct State {
    /// Position of the tab.
    pub(super) tab: usize,
    /// Of each tab, what the user chose of it and what is known.
    pub(super) tables: Vec<Table>,
    pub(super) lists: Vec<Listed>,
    /// What flows are put together by.
    group: Option<Group>,
    /// The flow that is looked at.
    pub(super) page: Option<Page>,
    /// Whose latency is explained, above all else.
    pub(super) explained: Option<Explained>,
    pub(super) span: Span,
    /// What is shown is of this range.
    pub(super) range: Option<Range>,
    pub(super) newest: Newest,
    /// Why nothing newer is shown.
    pub(crate) error: Option<String>,
    pub(super) now_ns: i64,
    pub(super) zone: TimeZone,
    /// Where the names of tabs were drawn.
    pub(super) tab_places: Vec<Rect>,
}

impl State {
    /// Nothing is known yet; times are shown as of this zone.
    pub(crate) fn new(list: List, width: Width, zone: TimeZone) -> Self {
        Self {
            tab: place_of(list),
            tables: TABS.iter().map(|_| Table::selecting()).collect(),
            lists: TABS.iter().map(Listed::none).collect(),
            group: None,
            page: None,
            explained: None,
            span: Span {
                end_ns: None,
                width,
            },
            range: None,
            newest: Newest::default(),
            error: None,
            now_ns: 0,
            zone,
            tab_places: Vec::new(),
        }
    }

    /// Only rows of this tab that contain a text.
    pub(crate) fn filter(&mut self, text: &str) {
        self.tables[self.tab].set_filter(text);
    }

    /// Ages are told as of this time.
    pub(crate) fn now(&mut self, now_ns: i64) {
        self.now_ns = now_ns;
        self.lists[self.tab].now_ns = now_ns;
    }

    /// What is to be asked.
    pub(super) fn ask(&self) -> Ask {
        let what = match (&self.explained, &self.page) {
            (Some(explained), _) => What::Explanation(explained.subject.clone()),
            (None, Some(page)) => What::Flow {
                community_id: page.community_id.clone(),
                host: page.host.clone(),
            },
            (None, None) => self.what(self.tab),
        };
        Ask {
            span: self.span,
            what,
        }
    }

    fn what(&self, tab: usize) -> What {
        let table = &self.tables[tab];
        What::List {
            list: TABS[tab].list,
            group: self.group_of(tab),
            filter: table.filter().to_owned(),
            sort: Listed::sort_column(self.definition(tab), table.order().0),
        }
    }

    /// What the rows of a tab are put together by.
    pub(super) fn group_of(&self, tab: usize) -> Option<Group> {
        self.group.filter(|_| TABS[tab].list == List::Flows)
    }

    fn definition(&self, tab: usize) -> &'static Tab {
        match self.group_of(tab) {
            Some(_) => &GROUPED,
            None => &TABS[tab],
        }
    }

    /// Puts the flows of this tab together. Its orders are others then.
    fn regroup(&mut self, group: Option<Group>) {
        let filter = self.tables[self.tab].filter().to_owned();
        self.group = group;
        self.tables[self.tab] = Table::selecting();
        self.filter(&filter);
        self.lists[self.tab] = Listed::none(self.definition(self.tab));
    }

    /// Takes what the store told, if it is still wanted.
    pub(super) fn take(&mut self, reply: Reply) {
        if reply.ask != self.ask() {
            return;
        }
        let told = match reply.answer {
            Ok(told) => told,
            Err(error) => {
                self.error = Some(format!("{error:#}"));
                return;
            }
        };
        self.error = None;
        self.newest = told.newest;
        self.range = Some(told.range);
        match told.content {
            Content::Rows(answer) => {
                let tab = self.definition(self.tab);
                let mut listed = Listed::new(tab, answer, self.span.width);
                if self.span.end_ns.is_none() && self.group.is_none() {
                    listed = listed.without_ended(told.newest);
                }
                listed.now_ns = self.now_ns;
                self.lists[self.tab] = listed;
            }
            Content::Flow(answer) => {
                if let Some(page) = &mut self.page {
                    page.take(answer);
                }
            }
            Content::Explanation(explanation) => {
                if let Some(explained) = &mut self.explained {
                    explained.take(explanation.as_deref());
                }
            }
        }
    }

    /// Follows a key or the mouse; `Break`: the user has seen enough.
    pub(crate) fn on_event(&mut self, event: &Event) -> ControlFlow<()> {
        if !self.takes_all_keys() && self.on_own_event(event) {
            return ControlFlow::Continue(());
        }
        let (table, list) = (&mut self.tables[self.tab], &self.lists[self.tab]);
        let reaction = match (&mut self.explained, &mut self.page) {
            (Some(explained), _) => explained.on_event(event),
            (None, Some(page)) => page.on_event(event),
            (None, None) => table.on_event(event, list),
        };
        match reaction {
            Reaction::Quit => return ControlFlow::Break(()),
            Reaction::Back if self.explained.is_some() => self.explained = None,
            Reaction::Back => self.page = None,
            Reaction::Open => self.open(),
            Reaction::Taken | Reaction::Ignored => {}
        }
        ControlFlow::Continue(())
    }

    fn takes_all_keys(&self) -> bool {
        match (&self.explained, &self.page) {
            (Some(_), _) => false,
            (None, Some(page)) => page.table.takes_all_keys(),
            (None, None) => self.tables[self.tab].takes_all_keys(),
        }
    }

    /// What tables know nothing of: tabs and time. Was it that?
    fn on_own_event(&mut self, event: &Event) -> bool {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(key.code),
            Event::Mouse(mouse) if mouse.kind == MouseEventKind::Down(MouseButton::Left) => {
                let place = Position::new(mouse.column, mouse.row);
                let tab = self.tab_places.iter().position(|it| it.contains(place));
                tab.is_some_and(|tab| self.go_to(tab))
            }
            _ => false,
        }
    }

    fn on_key(&mut self, code: KeyCode) -> bool {
        let newest_ns = self.newest.time_ns.unwrap_or(self.now_ns);
        let last = TABS.len() - 1;
        match code {
            KeyCode::Tab => return self.go_to(if self.tab == last { 0 } else { self.tab + 1 }),
            KeyCode::BackTab => {
                return self.go_to(self.tab.checked_sub(1).unwrap_or(last));
            }
            KeyCode::Char(digit @ '1'..='9') => {
                return self.go_to(digit as usize - '1' as usize);
            }
            KeyCode::Char('e') if self.explained.is_none() => {
                self.explained = self.subject().map(Explained::new);
            }
            KeyCode::Char('g') if self.is_of_flows() => self.regroup(Group::after(self.group)),
            KeyCode::Char('[') | KeyCode::Left => self.span = self.span.moved(-1, newest_ns),
            KeyCode::Char(']') | KeyCode::Right => self.span = self.span.moved(1, newest_ns),
            KeyCode::Char('0') => self.span.end_ns = None,
            KeyCode::Char('-') => self.span = self.span.widened(-1),
            KeyCode::Char('+' | '=') => self.span = self.span.widened(1),
            KeyCode::Char('p' | ' ') => {
                self.span.end_ns = match self.span.end_ns {
                    Some(_) => None,
                    None => Some(self.range.map_or(newest_ns, |range| range.to_ns)),
                };
            }
            _ => return false,
        }
        true
    }

    /// Is it the list of flows that is shown?
    fn is_of_flows(&self) -> bool {
        self.page.is_none() && TABS[self.tab].list == List::Flows
    }

    fn go_to(&mut self, tab: usize) -> bool {
        if tab < TABS.len() {
            self.tab = tab;
            self.page = None;
            self.explained = None;
            self.error = None;
        }
        true
    }

    /// Whose latency can be explained: that of the flow of the page, or of the selected row.
    fn subject(&self) -> Option<Subject> {
        if let Some(page) = &self.page {
            return Some(Subject::Id(page.community_id.clone()));
        }
        let list = &self.lists[self.tab];
        let row = list.row(self.tables[self.tab].selected()?)?;
        match (list.tab.list, self.group_of(self.tab)) {
            (List::Flows, None) | (List::Connections, _) => {
                Some(Subject::Id(row.text("community_id").to_owned()))
            }
            (List::Servers, _) => {
                let end = row.endpoint("destination", "destination_port").parse();
                end.ok().map(Subject::Service)
            }
            (List::Hosts, _) => Some(Subject::Host(row.text("host").to_owned())),
            _ => None,
        }
    }

    /// A flow has a page; of other rows, the flows are shown.
    fn open(&mut self) {
        let list = &self.lists[self.tab];
        let selected = self.tables[self.tab].selected();
        let Some(row) = selected.and_then(|key| list.row(key)) else {
            return;
        };
        let filter = match (list.tab.list, self.group_of(self.tab)) {
            (List::Flows, None) | (List::Connections, _) => {
                let community_id = row.text("community_id");
                self.page = Some(Page::new(community_id, row.text("host"), row.flow()));
                return;
            }
            (List::Flows, Some(group)) => of_group(group, row.text("name")),
            (List::Servers, _) => {
                let endpoint = row.endpoint("destination", "destination_port");
                Some(without_brackets(&endpoint))
            }
            (List::Hosts, _) => Some(row.text("host").to_owned()),
            (List::Networks, _) => beginning(row.text("network")),
            (List::Hops | List::Dns, _) => None,
        };
        if let Some(filter) = filter {
            self.go_to(place_of(List::Flows));
            self.regroup(None);
            self.filter(&filter);
        }
    }
}

/// What flows of a group contain; of what is measured of packets, none has the name of a process.
fn of_group(group: Group, name: &str) -> Option<String> {
    match group {
        Group::Server => name.split(' ').nth(1).map(without_brackets),
        Group::Network => beginning(name),
        Group::Host => Some(name.to_owned()),
        Group::Process => None,
    }
}

/// As lists filter: an address and its port are two columns.
fn without_brackets(endpoint: &str) -> String {
    endpoint.replace(['[', ']'], "")
}

/// What addresses of a network begin with: networks end between two parts of an address. A name of
/// a network is no part of one.
fn beginning(network: &str) -> Option<String> {
    let (address, _) = network.split_once('/')?;
    let address = address.trim_end_matches('0').trim_end_matches(':');
    Some(address.to_owned())
}
