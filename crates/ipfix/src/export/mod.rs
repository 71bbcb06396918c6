//! From records to messages: which templates, when a message is whole.

mod derived;
mod domain;
mod flowcorder;
mod kinds;
mod plan;
mod types;

use std::borrow::Cow;
use std::time::Duration;

use fathom_record::{Record, Schema, Time};

pub use plan::{conflicting_elements, fields_without_element};

use crate::Element;
use crate::wire::{Encoded, HEADER_BYTES, MessageWriter, SET_HEADER_BYTES, Template};
use derived::Derived;
use flowcorder::Flowcorder;
use types::Types;

/// The longest values of a record: what a message can hold.
const LONGEST_RECORD_BYTES: usize = u16::MAX as usize - HEADER_BYTES - SET_HEADER_BYTES;

/// Which templates records are sent by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TemplateSet {
    /// Made from the description of the records.
    #[default]
    Derived,
    /// Those of Flowcorder 0.8: numbers 47561 to 47567, 19 elements of enterprise 65534. Only kinds
    /// `profile`, `profile_mptcp` and `profile_dns` have templates in them.
    Flowcorder,
}

/// What an exporter needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterSettings {
    /// Which templates.
    pub templates: TemplateSet,
    /// The observation domain; by default the number of the process, for Flowcorder's templates
    /// 56423. Collectors that tell exporters apart by address and domain, as nfcapd does, would
    /// take the templates of one process for those of another.
    pub domain: u32,
    /// What the observation domain is called, as a rule the host that observes; by default nothing
    /// is said of it. Flowcorder's templates have no element for it.
    pub domain_name: Option<String>,
    /// The private enterprise number of own elements; by default 32473, which RFC 5612 reserves for
    /// examples: no collector knows it for anything else. Flowcorder's templates keep their own.
    pub enterprise: u32,
    /// Bytes of a message at most, unless a single record needs more; at most 65535.
    pub message_bytes: usize,
    /// How long a record may wait for others to share its message; by default 1 s.
    pub flush: Duration,
    /// Send texts in so many bytes, filled up with zeros and cut where they are longer, 1 to 1024;
    /// by default, `None`, as long as they are. It takes room, and is for collectors that cannot
    /// read own elements of variable length. Flowcorder's templates keep their own.
    pub text_bytes: Option<u16>,
    /// Templates for each kind of record at most; by default 64. A record that would need one more
    /// is sent by the one that leaves out fewest of its values.
    pub most_variants: usize,
}

impl ExporterSettings {
    /// The defaults for these templates.
    pub fn new(templates: TemplateSet) -> Self {
        Self {
            templates,
            domain: match templates {
                TemplateSet::Derived => std::process::id(),
                TemplateSet::Flowcorder => flowcorder::DOMAIN,
            },
            domain_name: None,
            enterprise: 32_473,
            message_bytes: 1_232,
            flush: Duration::from_secs(1),
            text_bytes: None,
            most_variants: 64,
        }
    }
}

impl Default for ExporterSettings {
    fn default() -> Self {
        Self::new(TemplateSet::Derived)
    }
}

/// What happened to records on their way into messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExporterCounts {
    /// Records that were put into messages.
    pub records: u64,
    /// Records that no template could carry.
    pub refused_records: u64,
    /// Values left out because there were too many templates already.
    pub omitted_values: u64,
    /// Numbers greater than their element can say, sent as the greatest it can.
    pub saturated_values: u64,
    /// Texts that were cut: at 1024 bytes, or where the settings say.
    pub shortened_texts: u64,
}

/// A message for the collector, and whether it must reach it again whenever it may have forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// Templates, what own elements are and what the observation domain is called: needed before
    /// the data, and again at each connection.
    Announcement(Encoded),
    /// Records.
    Data(Encoded),
}

/// What a record needs to be sent.
#[derive(Debug, Default)]
struct Needs {
    /// The kind of record was not met before: its elements are to be told about.
    new_kind: Option<&'static Schema>,
    /// A template that was not used before.
    new_template: Option<Template>,
}

/// The values of a record, and by which template.
#[derive(Debug, Default)]
struct Body {
    template: u16,
    values: Vec<u8>,
}

/// Turns records into messages. It does no I/O and reads no clock.
///
/// IPFIX has no missing value, so every set of fields that records of a kind really have gets a
/// template of its own, as does either family of addresses.
///
/// ```
/// use fathom_ipfix::{Exporter, ExporterSettings, Outgoing};
/// use fathom_record::{Time, record};
///
/// record! {
///     /// A connection.
///     #[record = "connection"]
///     pub struct Connection {
///         /// When it ended.
///         #[field(ipfix = 157)]
///         pub time: Time,
///         /// How often it stalled.
///         #[field(own_ipfix = 1)]
///         pub stalls: u64,
///     }
/// }
///
/// let mut exporter = Exporter::new(&ExporterSettings::default());
/// let now = Time(1_795_176_000_000_000_000);
/// exporter.record(&Connection { time: now, stalls: 2 }, now);
/// exporter.flush();
/// let messages: Vec<_> = exporter.outgoing().collect();
/// assert!(matches!(messages[..], [Outgoing::Announcement(_), .., Outgoing::Data(_)]));
/// ```
#[derive(Debug)]
pub struct Exporter {
    encoder: Encoder,
    /// What goes before all else.
    introduction: Option<Encoded>,
    flush_ns: u64,
    /// Where announcements are put together.
    announcements: MessageWriter,
    data: MessageWriter,
    /// When the first record of the message at hand came.
    waiting_since: Option<Time>,
    body: Body,
    outgoing: Vec<Outgoing>,
    counts: ExporterCounts,
}

#[derive(Debug)]
enum Encoder {
    Derived {
        derived: Derived,
        types: Types,
        enterprise: u32,
    },
    Flowcorder(Flowcorder),
}

impl Exporter {
    /// An exporter that knows no record yet.
    pub fn new(settings: &ExporterSettings) -> Self {
        let writer = || MessageWriter::new(settings.domain, settings.message_bytes);
        let mut counts = ExporterCounts::default();
        let introduction = match settings.templates {
            TemplateSet::Derived => domain::tell(settings, &mut writer(), &mut counts),
            TemplateSet::Flowcorder => None,
        };
        Self {
            introduction,
            encoder: match settings.templates {
                TemplateSet::Derived => Encoder::Derived {
                    derived: Derived::new(settings),
                    types: Types::default(),
                    enterprise: settings.enterprise,
                },
                TemplateSet::Flowcorder => Encoder::Flowcorder(Flowcorder::default()),
            },
            flush_ns: u64::try_from(settings.flush.as_nanos()).unwrap_or(u64::MAX),
            announcements: writer(),
            data: writer(),
            waiting_since: None,
            body: Body::default(),
            outgoing: Vec::new(),
            counts,
        }
    }

    /// Takes a record, and ends the message at hand if it has no room for it or has waited long
    /// enough.
    pub fn record(&mut self, record: &dyn Record, now: Time) {
        self.tick(now);
        let introduction = self.introduction.take();
        self.outgoing
            .extend(introduction.map(Outgoing::Announcement));
        if !self.encode(record) || self.body.values.len() > LONGEST_RECORD_BYTES {
            self.counts.refused_records += 1;
            return;
        }
        let Body { template, values } = &self.body;
        if !self.data.has_room(*template, values.len()) {
            self.flush();
        }
        self.data.record(self.body.template, &self.body.values);
        self.counts.records += 1;
        self.waiting_since.get_or_insert(now);
    }

    /// Ends the message at hand if its first record has waited long enough, or if the clock was set
    /// back.
    pub fn tick(&mut self, now: Time) {
        let is_due = |since: Time| {
            now.0
                .checked_sub(since.0)
                .is_none_or(|ns| ns >= self.flush_ns)
        };
        if self.waiting_since.is_some_and(is_due) {
            self.flush();
        }
    }

    /// When [`Exporter::tick`] has something to do; `None` if no record waits.
    pub fn due(&self) -> Option<Time> {
        self.waiting_since
            .map(|since| Time(since.0.saturating_add(self.flush_ns)))
    }

    /// Ends the message at hand, if there is one.
    pub fn flush(&mut self) {
        self.waiting_since = None;
        self.outgoing.extend(self.data.finish().map(Outgoing::Data));
    }

    /// Messages that begin from now on are so long at most, unless a single record needs more.
    pub fn limit_messages(&mut self, message_bytes: usize) {
        self.data.limit(message_bytes);
        self.announcements.limit(message_bytes);
    }

    /// How many messages are whole.
    pub fn outgoing_len(&self) -> usize {
        self.outgoing.len()
    }

    /// Takes the messages that are whole, in the order they must leave in.
    pub fn outgoing(&mut self) -> impl Iterator<Item = Outgoing> + '_ {
        self.outgoing.drain(..)
    }

    /// What happened so far.
    pub fn counts(&self) -> ExporterCounts {
        self.counts
    }

    /// Writes the record into `body` and announces what it needs; false if no template can carry
    /// it.
    fn encode(&mut self, record: &dyn Record) -> bool {
        let (body, counts) = (&mut self.body, &mut self.counts);
        let needs = match &mut self.encoder {
            Encoder::Derived {
                derived,
                types,
                enterprise,
            } => {
                let needs = derived.encode(record, body, counts);
                if let Some(schema) = needs.as_ref().and_then(|needs| needs.new_kind) {
                    let mut told = types.tell(schema, *enterprise, &mut self.announcements);
                    told.extend(kinds::tell_columns(
                        schema,
                        *enterprise,
                        &mut self.announcements,
                    ));
                    self.outgoing
                        .extend(told.into_iter().map(Outgoing::Announcement));
                }
                needs
            }
            Encoder::Flowcorder(flowcorder) => flowcorder.encode(record, body, counts),
        };
        let Some(needs) = needs else {
            return false;
        };
        if let Some(template) = needs.new_template {
            self.announce(&template);
            self.announce_kind(record.schema().kind, template.id);
        }
        true
    }

    fn announce_kind(&mut self, kind: &str, template: u16) {
        let Encoder::Derived { enterprise, .. } = &self.encoder else {
            return;
        };
        let told = kinds::tell_kind(kind, template, *enterprise, &mut self.announcements);
        self.outgoing.extend(told.map(Outgoing::Announcement));
    }

    fn announce(&mut self, template: &Template) {
        self.announcements.template(template);
        self.outgoing
            .extend(self.announcements.finish().map(Outgoing::Announcement));
    }
}

/// The own elements of a kind of record, with their numbers.
pub(crate) fn own_elements(schema: &'static Schema) -> impl Iterator<Item = (u16, Element)> {
    derived::own_plans(schema, 0).map(|(field, plan)| {
        let element = Element {
            name: Cow::Borrowed(field.name),
            data_type: plan.data_type,
        };
        (plan.specifier.element, element)
    })
}

#[cfg(test)]
pub(crate) mod tests;
