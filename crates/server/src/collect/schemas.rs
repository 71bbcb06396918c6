//! Descriptions of the records that exporters tell of.

use std::collections::HashMap;
use std::sync::Arc;

use fathom_ipfix::Table;
use fathom_record::{Field, Schema, Type, Unit};
use fathom_store::is_kind;

/// So many are made; records of those that come then are not told from other exporters'. A
/// description stays as long as the process.
const MOST: usize = 1_024;

/// Those that were met.
#[derive(Default)]
pub(super) struct Schemas {
    made: HashMap<Arc<Table>, Option<&'static Schema>>,
    /// The same by address, which is faster; the tables stay.
    met: HashMap<usize, (Arc<Table>, Option<&'static Schema>)>,
}

impl Schemas {
    /// The description of a table; `None` for one that the store cannot have.
    pub(super) fn of(&mut self, table: &Arc<Table>) -> Option<&'static Schema> {
        let address = Arc::as_ptr(table) as usize;
        if let Some((_, schema)) = self.met.get(&address) {
            return *schema;
        }
        let known = self.made.get(table).copied();
        let schema = match known {
            Some(schema) => schema,
            None if self.made.len() >= MOST => None,
            None => {
                let made = make(table);
                self.made.insert(table.clone(), made);
                made
            }
        };
        if self.met.len() >= MOST {
            self.met.clear();
        }
        self.met.insert(address, (table.clone(), schema));
        schema
    }
}

fn make(table: &Table) -> Option<&'static Schema> {
    let is_column = |name: &str| is_kind(name) && name != "host";
    let is_good = is_kind(&table.kind) && table.columns.iter().all(|(name, _)| is_column(name));
    let field = |(name, kind): &(String, Type)| {
        let unit = match kind {
            Type::Duration => Unit::Nanoseconds,
            _ => Unit::None,
        };
        Field::new(leak(name), *kind, unit, "")
    };
    is_good.then(|| {
        let fields: Vec<Field> = table.columns.iter().map(field).collect();
        let schema = Schema {
            kind: leak(&table.kind),
            about: "",
            fields: Vec::leak(fields),
        };
        &*Box::leak(Box::new(schema))
    })
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
