//! What exporters of fathom's tell of their records: the kind of a template, and the field that an
//! element is.

use std::collections::HashMap;
use std::sync::Arc;

use fathom_record::Type;

use crate::kind::type_of;
use crate::wire::{FieldSpecifier, Template};

/// A kind of record, with its fields as columns of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    /// The name of the kind.
    pub kind: String,
    /// Its fields that IPFIX carries.
    pub columns: Vec<(String, Type)>,
}

/// The table of a template, and the columns of its fields in their order; `None`: the field says
/// what others say.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) table: Arc<Table>,
    pub(super) positions: Arc<[Option<usize>]>,
}

/// What an observation domain has told.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    templates: HashMap<u16, String>,
    fields: HashMap<String, Fields>,
    /// By template, as long as nothing new is told.
    placed: HashMap<u16, Option<Placed>>,
    told: usize,
}

#[derive(Debug, Default)]
struct Fields {
    columns: Vec<(String, Type)>,
    positions: HashMap<(u32, u16), Option<usize>>,
    table: Option<Arc<Table>>,
}

/// What a record of options tells, as far as it does.
#[derive(Debug, Default)]
pub(super) struct Told<'a> {
    pub(super) template: Option<u16>,
    pub(super) enterprise: Option<u32>,
    pub(super) element: Option<u16>,
    pub(super) kind: Option<&'a str>,
    pub(super) column: Option<&'a str>,
    pub(super) column_type: Option<&'a str>,
}

impl Kinds {
    /// Takes what is told, unless there is too much already.
    pub(super) fn learn(&mut self, told: &Told<'_>, most: usize) {
        let Some(kind) = told.kind else { return };
        match told {
            Told {
                template: Some(template),
                ..
            } => {
                let known = self.templates.get(template);
                if known.is_none_or(|known| known != kind) && self.told < most {
                    self.told += 1;
                    self.templates.insert(*template, kind.to_owned());
                    self.placed.clear();
                }
            }
            Told {
                enterprise: Some(enterprise),
                element: Some(element),
                column: Some(column),
                column_type: Some(column_type),
                ..
            } => {
                let Some(column_type) = type_of(column_type) else {
                    return;
                };
                let element = (*enterprise, *element);
                self.learn_column(kind, element, column, column_type, most);
            }
            _ => {}
        }
    }

    fn learn_column(
        &mut self,
        kind: &str,
        element: (u32, u16),
        column: &str,
        column_type: Type,
        most: usize,
    ) {
        let is_known = self.fields.get(kind).is_some_and(|columns| {
            let position = columns.positions.get(&element);
            let known = position.map(|at| at.map_or("", |at| &columns.columns[at].0));
            known == Some(column)
        });
        if is_known || self.told >= most {
            return;
        }
        self.told += 1;
        let columns = self.fields.entry(kind.to_owned()).or_default();
        let position = columns.columns.iter().position(|(name, _)| name == column);
        let position = (!column.is_empty()).then(|| {
            position.unwrap_or_else(|| {
                columns.columns.push((column.to_owned(), column_type));
                columns.columns.len() - 1
            })
        });
        columns.positions.insert(element, position);
        columns.table = None;
        self.placed.clear();
    }

    /// The table of a template, if all of its elements are known.
    pub(super) fn place(&mut self, template: &Template) -> Option<Placed> {
        if let Some(placed) = self.placed.get(&template.id) {
            return placed.clone();
        }
        let placed = self.find(template);
        self.placed.insert(template.id, placed.clone());
        placed
    }

    /// A template has changed.
    pub(super) fn forget(&mut self, template: u16) {
        self.placed.remove(&template);
    }

    fn find(&mut self, template: &Template) -> Option<Placed> {
        let kind = self.templates.get(&template.id)?;
        let columns = self.fields.get_mut(kind)?;
        let position = |specifier: &FieldSpecifier| {
            let element = (specifier.enterprise.unwrap_or(0), specifier.element);
            columns.positions.get(&element).copied()
        };
        let positions = template.fields.iter().map(position);
        let positions = positions.collect::<Option<_>>()?;
        let table = columns.table.get_or_insert_with(|| {
            Arc::new(Table {
                kind: kind.clone(),
                columns: columns.columns.clone(),
            })
        });
        Some(Placed {
            table: table.clone(),
            positions,
        })
    }
}
