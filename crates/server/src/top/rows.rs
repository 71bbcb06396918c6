//! The rows of a tab, as the table shows them.

use std::cmp::Ordering;
use std::collections::HashMap;

use fathom_terminal::{Cell, Column, Order, Rows};
use serde_json::Value;

use super::asker::Newest;
use super::fields::Fields;
use super::span::Width;
use super::tabs::Tab;
use crate::lists::{Answer, List, Unit};

/// Intervals without a record after which a flow is over.
const OVER_AFTER: i64 = 2;
/// Where no agent tells its interval.
const USUAL_INTERVAL_NS: u64 = 10_000_000_000;

/// An answer about a tab.
pub(super) struct Listed {
    pub(super) tab: &'static Tab,
    columns: Vec<Column>,
    answer: Answer,
    width: Width,
    pub(super) now_ns: i64,
    /// Has the store told anything yet?
    pub(super) is_told: bool,
}

impl Listed {
    /// None yet.
    pub(super) fn none(tab: &'static Tab) -> Self {
        let columns = tab.list.columns().to_vec();
        let answer = Answer {
            columns,
            rows: Vec::new(),
            total: 0,
            sort: "",
        };
        Self {
            is_told: false,
            ..Self::new(tab, answer, Width::Minute)
        }
    }

    /// What the store told of a range of this width.
    pub(super) fn new(tab: &'static Tab, answer: Answer, width: Width) -> Self {
        Self {
            tab,
            columns: tab.columns.iter().map(|shown| shown.column).collect(),
            answer,
            width,
            now_ns: 0,
            is_told: true,
        }
    }

    /// Flows leave that had no packets in the newest intervals of their host.
    pub(super) fn without_ended(mut self, newest: Newest) -> Self {
        if self.tab.list != List::Flows || self.answer.rows.is_empty() {
            return self;
        }
        let length = newest.interval_ns.unwrap_or(USUAL_INTERVAL_NS);
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let mut newest_of = HashMap::new();
        for row in &self.answer.rows {
            let fields = self.fields(row);
            let time_ns = fields.time_ns("last_time").unwrap_or_default();
            let newest = newest_of.entry(fields.text("host").to_owned()).or_default();
            *newest = time_ns.max(*newest);
        }
        let rows = std::mem::take(&mut self.answer.rows);
        let is_there = |row: &Vec<Value>| {
            let fields = self.fields(row);
            let newest = newest_of.get(fields.text("host"));
            let time_ns = fields.time_ns("last_time").unwrap_or_default();
            newest.is_none_or(|newest| time_ns > newest.saturating_sub(OVER_AFTER * length))
        };
        let all = rows.len();
        let rows: Vec<_> = rows.into_iter().filter(is_there).collect();
        self.answer.total -= (all - rows.len()) as u64;
        self.answer.rows = rows;
        self
    }

    /// How many rows there are, and how many the answer has of them.
    pub(super) fn counts(&self) -> (u64, usize) {
        (self.answer.total, self.answer.rows.len())
    }

    /// A row by the names of its columns.
    pub(super) fn fields<'a>(&'a self, row: &'a [Value]) -> Fields<'a> {
        Fields {
            columns: &self.answer.columns,
            values: row,
            seconds: self.width.seconds() as f64,
            now_ns: self.now_ns,
        }
    }

    /// The row with this key.
    pub(super) fn row(&self, key: &str) -> Option<Fields<'_>> {
        let row = self.answer.rows.iter().find(|row| self.key(row) == key);
        row.map(|row| self.fields(row))
    }

    /// Columns that have an order, and that order.
    fn ordered(tab: &Tab) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
        let columns = tab.columns.iter().enumerate();
        let ordered = columns.filter(|(_, shown)| !shown.order.is_empty());
        ordered.map(|(place, shown)| (place, shown.order, shown.of))
    }

    /// The column of the list that an order goes by.
    pub(super) fn sort_column(tab: &Tab, order: usize) -> Option<&'static str> {
        Self::ordered(tab).nth(order).map(|(_, _, of)| of)
    }
}

impl Rows for Listed {
    type Row = Vec<Value>;

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn orders(&self) -> Vec<Order> {
        let order = |(place, name, _)| Order {
            name,
            column: Some(place),
        };
        Self::ordered(self.tab).map(order).collect()
    }

    fn all(&self) -> Vec<&Vec<Value>> {
        self.answer.rows.iter().collect()
    }

    fn sort(&self, rows: &mut [&Vec<Value>], order: usize) {
        let of = Self::sort_column(self.tab, order);
        let mut columns = self.answer.columns.iter();
        let Some(column) = columns.position(|column| Some(column.name) == of) else {
            return;
        };
        rows.sort_by(|one, other| compared(&other[column], &one[column]));
    }

    fn key(&self, row: &Vec<Value>) -> String {
        let fields = self.fields(row);
        let parts = self
            .tab
            .identity
            .iter()
            .map(|name| fields.value(name).to_string());
        parts.collect::<Vec<_>>().join(" ")
    }

    /// As the list itself filters, so that what the store leaves is shown.
    fn contains(&self, row: &Vec<Value>, wanted: &str) -> bool {
        let texts = self.answer.columns.iter().zip(row);
        let texts = texts.filter_map(|(column, value)| match (column.unit, value) {
            (Unit::Text | Unit::Address, Value::String(text)) => Some(text.clone()),
            (Unit::Port, Value::Number(port)) => Some(port.to_string()),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join(":");
        text.to_lowercase().contains(wanted)
    }

    fn lines(&self, row: &Vec<Value>) -> Vec<Vec<Cell>> {
        let fields = self.fields(row);
        let cells = self.tab.columns.iter().map(|shown| shown.cell(&fields));
        vec![cells.collect()]
    }
}

/// Nothing is less than anything.
fn compared(one: &Value, other: &Value) -> Ordering {
    if let (Value::String(one), Value::String(other)) = (one, other) {
        return one.cmp(other);
    }
    let (one, other) = (one.as_f64(), other.as_f64());
    one.partial_cmp(&other).unwrap_or(Ordering::Equal)
}
