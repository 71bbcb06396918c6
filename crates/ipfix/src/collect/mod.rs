//! Messages from any exporter, read.

mod cache;
mod frames;
mod kinds;
mod names;
mod sequence;

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fathom_record::{Schema, Time, Value};

pub use frames::Frames;
pub use kinds::Table;

use crate::export::own_elements;
use crate::kind::value_of;
use crate::wire::{DataRecord, DataValue, FieldSpecifier, Header, Message, Set};
use crate::{DataType, Error};
use cache::Cache;
use kinds::Placed;
use names::Names;

/// Whose templates and numbers belong together: those of a connection, or of the datagrams from one
/// address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// Where messages come from.
    pub exporter: SocketAddr,
    /// Which connection, counted by the caller; zero for datagrams.
    pub connection: u64,
}

/// Bounds of what a collector keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams and observation domains at the same time; the least recently used goes; by default
    /// 1024.
    pub domains: usize,
    /// Fields in all templates of a stream and domain; by default 65536. A template that is too
    /// much is not taken.
    pub fields: usize,
    /// Templates that came in datagrams go when they were not told again for so long (RFC 7011,
    /// section 8.4), by the time that [`Collector::advance`] tells; by default 1800 s, three times
    /// what exporters usually let pass; zero: never.
    pub template_lifetime: Duration,
    /// Names of elements that exporters tell; by default 16384. What comes later has none.
    pub names: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            domains: 1_024,
            fields: 65_536,
            template_lifetime: Duration::from_secs(1_800),
            names: 16_384,
        }
    }
}

/// What a collector has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectorCounts {
    /// Messages that were messages.
    pub messages: u64,
    /// Messages, and streams, that could not be read, or not to their end.
    pub malformed: u64,
    /// Records of data.
    pub records: u64,
    /// Records of options.
    pub options: u64,
    /// Records that did not arrive, by the numbers of the messages that did.
    pub lost_records: u64,
    /// Sets of data whose template is not known.
    pub unknown_sets: u64,
    /// Templates that were too much.
    pub refused_templates: u64,
    /// Templates that were forgotten because they were not told again.
    pub expired_templates: u64,
}

/// A record, with what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Collected<'a> {
    /// Where it came from.
    pub session: Session,
    /// The header of its message.
    pub header: Header,
    /// The record.
    pub record: DataRecord<'a>,
    names: &'a Names,
    placed: Option<&'a Placed>,
}

/// A field of a record, with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectedField<'a> {
    /// The element's numbers, and its length.
    pub specifier: FieldSpecifier,
    /// The name: IANA's, that of the exporter or of the schemas, or `e<enterprise>id<element>`
    /// (`id<element>` for IANA's unknown).
    pub name: Cow<'a, str>,
    /// The value.
    pub value: DataValue<'a>,
}

impl<'a> Collected<'a> {
    /// Whether the record tells about the exporter rather than about traffic.
    pub fn is_options(&self) -> bool {
        self.record.template.is_options()
    }

    /// The kind of record that it is, if its exporter is one of fathom's, and has told.
    pub fn table(&self) -> Option<&'a Arc<Table>> {
        self.placed.map(|placed| &placed.table)
    }

    /// Its values, each with the column of its table.
    pub fn values(&self) -> impl Iterator<Item = (usize, Value<'a>)> + use<'a> {
        let (names, placed) = (self.names, self.placed);
        let columns = placed.map_or(&[][..], |placed| &placed.table.columns);
        let positions = placed
            .into_iter()
            .flat_map(|placed| placed.positions.iter());
        let fields = self.record.fields().zip(positions);
        fields.filter_map(move |((specifier, bytes), &position)| {
            let position = position?;
            let kind = columns[position].1;
            let data_type = names.type_of(specifier).unwrap_or(DataType::OctetArray);
            Some((position, value_of(kind, specifier, data_type, bytes)))
        })
    }

    /// Its fields in the order of the template.
    pub fn fields(&self) -> impl Iterator<Item = CollectedField<'a>> + use<'a> {
        let names = self.names;
        self.record.fields().map(move |(specifier, bytes)| {
            let element = names.get(specifier);
            let data_type = element.as_ref().map(|element| element.data_type);
            CollectedField {
                specifier: *specifier,
                name: element.map_or_else(|| numbered(specifier).into(), |element| element.name),
                value: DataValue::read(data_type.unwrap_or(DataType::OctetArray), bytes),
            }
        })
    }
}

fn numbered(specifier: &FieldSpecifier) -> String {
    match specifier.enterprise {
        Some(enterprise) => format!("e{enterprise}id{}", specifier.element),
        None => format!("id{}", specifier.element),
    }
}

/// Reads the messages of any number of exporters. It does no I/O and reads no clock.
///
/// Templates of datagrams are kept until they are replaced, their lifetime is over, or the exporter
/// is the one not heard from for longest; those of a connection until [`Collector::forget`].
///
/// ```
/// use fathom_ipfix::wire::{DataValue, FieldSpecifier, MessageWriter, Template};
/// use fathom_ipfix::{Collector, Limits, Session};
///
/// let protocol = FieldSpecifier { enterprise: None, element: 4, length: 1 };
/// let mut writer = MessageWriter::new(1, 1232);
/// writer.template(&Template { id: 256, scope_fields: 0, fields: vec![protocol] });
/// writer.record(256, &[6]);
/// let message = writer.finish().unwrap().bytes;
///
/// let session = Session { exporter: "127.0.0.1:9".parse().unwrap(), connection: 0 };
/// let mut collector = Collector::new(Limits::default());
/// collector
///     .messages(session, &message, &mut |record| {
///         let field = record.fields().next().unwrap();
///         assert_eq!((field.name.as_ref(), field.value), ("protocolIdentifier", DataValue::Unsigned(6)));
///     })
///     .unwrap();
/// assert_eq!(collector.counts().records, 1);
/// ```
#[derive(Debug, Default)]
pub struct Collector {
    limits: Limits,
    cache: Cache,
    names: Names,
    counts: CollectorCounts,
    lost: i64,
    /// By the address of the exporter and observation domain.
    lost_by: HashMap<(IpAddr, u32), i64>,
}

impl Collector {
    /// A collector that knows IANA's elements.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Takes the names and types of own elements from the descriptions of records, as if an
    /// exporter with this enterprise number had told them.
    pub fn know(&mut self, schemas: &[&'static Schema], enterprise: u32) {
        for schema in schemas {
            for (number, element) in own_elements(schema) {
                self.names.know(enterprise, number, element);
            }
        }
    }

    /// Tells the time, by which templates of datagrams age; a collector that is never told forgets
    /// none. Any clock will do that no one sets.
    pub fn advance(&mut self, now: Time) {
        let lifetime_ns = self.limits.template_lifetime.as_nanos();
        let lifetime_ns = u64::try_from(lifetime_ns).unwrap_or(u64::MAX);
        self.counts.expired_templates += self.cache.advance(now, lifetime_ns);
    }

    /// Reads the messages in a datagram, or one taken off a stream, and hands over the records in
    /// their order.
    ///
    /// # Errors
    /// [`Error::Malformed`] where reading had to stop; records before that were handed over.
    pub fn messages(
        &mut self,
        session: Session,
        bytes: &[u8],
        take: &mut dyn FnMut(Collected<'_>),
    ) -> Result<(), Error> {
        let mut rest = bytes;
        loop {
            let read = Message::split(rest).and_then(|(message, after)| {
                self.counts.messages += 1;
                self.message(session, &message, take).map(|()| after)
            });
            match read {
                Ok([]) => return Ok(()),
                Ok(after) => rest = after,
                Err(error) => {
                    self.counts.malformed += 1;
                    return Err(error);
                }
            }
        }
    }

    /// A connection has ended: its templates are void. `is_within_message`: it ended within a
    /// message.
    pub fn forget(&mut self, session: Session, is_within_message: bool) {
        self.counts.malformed += u64::from(is_within_message);
        self.cache.forget(session);
    }

    /// What was seen so far.
    pub fn counts(&self) -> CollectorCounts {
        CollectorCounts {
            lost_records: u64::try_from(self.lost).unwrap_or(0),
            ..self.counts
        }
    }

    /// Records that did not arrive, by the address of the exporter and observation domain; of as
    /// many as there may be domains.
    pub fn losses(&self) -> impl Iterator<Item = (IpAddr, u32, u64)> + '_ {
        let all = self.lost_by.iter();
        all.map(|(&(exporter, domain), &lost)| (exporter, domain, u64::try_from(lost).unwrap_or(0)))
    }

    fn message(
        &mut self,
        session: Session,
        message: &Message<'_>,
        take: &mut dyn FnMut(Collected<'_>),
    ) -> Result<(), Error> {
        let mut records = Some(0);
        let read = self.sets(session, message, &mut records, take);
        if read.is_err() {
            // There may be more than were counted.
            records = None;
        }
        let header = message.header;
        let domain = self.cache.domain(session, header.domain, &self.limits);
        let lost = domain.sequence.message(header.sequence, records);
        self.lost += lost;
        let key = (session.exporter.ip(), header.domain);
        if lost != 0
            && (self.lost_by.len() < self.limits.domains || self.lost_by.contains_key(&key))
        {
            *self.lost_by.entry(key).or_default() += lost;
        }
        read
    }

    /// Reads the sets of a message and counts its records, as long as that can be told.
    fn sets(
        &mut self,
        session: Session,
        message: &Message<'_>,
        records: &mut Option<u32>,
        take: &mut dyn FnMut(Collected<'_>),
    ) -> Result<(), Error> {
        for set in message.sets() {
            let now = self.cache.now();
            let domain = self
                .cache
                .domain(session, message.header.domain, &self.limits);
            match set? {
                Set::Templates(changes) => {
                    for change in changes {
                        let is_taken = domain.change(change, now, self.limits.fields);
                        self.counts.refused_templates += u64::from(!is_taken);
                    }
                }
                Set::Reserved(_) => {}
                Set::Data { template, body } => match domain.template(template) {
                    None => {
                        self.counts.unknown_sets += 1;
                        *records = None;
                    }
                    Some(template) => {
                        let placed = domain.kinds.place(&template);
                        for record in template.records(body) {
                            let record = record?;
                            *records = records.map(|records| records.wrapping_add(1));
                            if template.is_options() {
                                self.counts.options += 1;
                                self.names.learn(&record, self.limits.names);
                                let told = self.names.told(&record);
                                domain.kinds.learn(&told, self.limits.fields);
                            } else {
                                self.counts.records += 1;
                            }
                            take(Collected {
                                session,
                                header: message.header,
                                record,
                                names: &self.names,
                                placed: placed.as_ref(),
                            });
                        }
                    }
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
