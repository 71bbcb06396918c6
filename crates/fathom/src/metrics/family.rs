//! Families of metrics: what records say, for systems that watch figures.

use std::borrow::Cow;
use std::sync::Arc;

use fathom_record::{Field, Histogram, Metric, Schema, Unit};

/// What the series of a family hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FamilyKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How durations are distributed.
    Histogram,
}

impl FamilyKind {
    /// That of a field of this role; `None`: it is none, or names series.
    pub(super) fn of(role: Metric) -> Option<Self> {
        match role {
            Metric::Label | Metric::Network | Metric::Service | Metric::Target => None,
            Metric::Outcome | Metric::Counter | Metric::Increase => Some(Self::Counter),
            Metric::Gauge => Some(Self::Gauge),
            Metric::Sample | Metric::Mean(_) | Metric::Distribution => Some(Self::Histogram),
        }
    }

    /// As both Prometheus and the reference call it.
    #[cfg(feature = "live")]
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a family is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) kind: FamilyKind,
    /// As UCUM has it; empty where a number has none.
    pub(crate) unit: &'static str,
    pub(crate) help: String,
}

impl About {
    /// The family of a field; `None`: it has none.
    pub(super) fn of(schema: &Schema, field: &Field) -> Option<Self> {
        let role = field.metric?;
        let kind = FamilyKind::of(role)?;
        let is_outcome = role == Metric::Outcome;
        Some(Self {
            name: name_of(schema, field, kind, is_outcome),
            kind,
            unit: unit_of(field, kind),
            help: if is_outcome {
                format!("Records, each of which is: {}", schema.about)
            } else {
                field.about.to_owned()
            },
        })
    }
}

/// The series of a family.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Family {
    pub(crate) about: About,
    pub(crate) series: Vec<Series>,
}

/// What names a series: names and values.
pub(crate) type Labels = Arc<[(Cow<'static, str>, String)]>;

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) labels: Labels,
    /// Since when it counts, in nanoseconds since 1970.
    pub(crate) since: u64,
    pub(crate) figure: Figure,
}

/// Where a series stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Figure {
    Number(f64),
    Durations(Histogram),
}

/// The kind of record whose series those of this kind are, too: an aggregate has the same as what
/// it puts together.
pub(super) fn subject_of(schema: &Schema) -> &'static str {
    let kind = schema.kind;
    kind.strip_suffix("_aggregate").unwrap_or(kind)
}

/// `fathom`, the kind of record unless the field says it, and the field, in seconds where that is
/// in nanoseconds.
fn name_of(schema: &Schema, field: &Field, kind: FamilyKind, is_outcome: bool) -> String {
    let subject = subject_of(schema);
    let field = if is_outcome { "records" } else { field.name };
    let stem = field.strip_suffix("_ns");
    let name = match stem.or_else(|| field.strip_suffix("_histogram")) {
        Some(stem) => format!("{stem}_seconds"),
        None => field.to_owned(),
    };
    let end = if kind == FamilyKind::Counter {
        "_total"
    } else {
        ""
    };
    match name.strip_prefix(subject) {
        Some(rest) if rest.is_empty() || rest.starts_with('_') => format!("fathom_{name}{end}"),
        _ => format!("fathom_{subject}_{name}{end}"),
    }
}

fn unit_of(field: &Field, kind: FamilyKind) -> &'static str {
    match field.unit {
        _ if kind == FamilyKind::Histogram => "s",
        Unit::Nanoseconds => "s",
        Unit::Bytes => "By",
        Unit::Packets => "{packet}",
        Unit::None | Unit::Count => "",
    }
}
