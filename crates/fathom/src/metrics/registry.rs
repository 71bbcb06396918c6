//! Series that grow with the records that come. They are bounded: by network and service, never by
//! flow, and by number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use fathom_record::format::ValueText;
use fathom_record::{Histogram, Metric, NetworkNames, Record, Schema, Time, Value};
use rustc_hash::FxHashMap;

use super::family::{About, Family, FamilyKind, Figure, Labels, Series, subject_of};
use super::labels::LabelPlan;

/// Sets of labels that records of a subject may have. Those of new networks beyond go to the
/// network `other`, and when these are as many, to a set in which everything is `other`.
const SETS: usize = 1_000;
const SETS_OF_OTHERS: usize = 1_100;
/// What nothing was added to for so long is forgotten. It begins at 0 if it comes again.
const IDLE: Duration = Duration::from_secs(3_600);

/// All series.
#[derive(Default)]
pub(crate) struct Registry {
    /// By kind of record; `None`: it has none.
    plans: FxHashMap<&'static str, Option<Plan>>,
    /// By subject.
    subjects: FxHashMap<&'static str, Subject>,
    /// What others keep themselves.
    given: Vec<Family>,
    /// What networks are called.
    names: NetworkNames,
    /// Labels of all that is told.
    target: Vec<(String, String)>,
    text: ValueText,
    key: String,
}

/// What a kind of record adds to.
struct Plan {
    labels: LabelPlan,
    /// Of a field its position, what it is, and the position of its family in the subject.
    fields: Vec<(usize, Metric, usize)>,
    /// Where the numbers are that a mean is of.
    weights: HashMap<usize, usize>,
    /// Where the labels of all that is told are.
    target: Option<usize>,
}

/// What records of one or two kinds tell of.
#[derive(Default)]
struct Subject {
    families: Vec<About>,
    sets: HashMap<String, Set>,
    /// Records that went to `other`.
    others: u64,
    swept: Option<Instant>,
    has_aggregates: bool,
}

/// The series that have the same labels: one of each family in which there was something.
struct Set {
    labels: Labels,
    figures: Vec<Option<Figure>>,
    since: u64,
    touched: Instant,
}

impl Registry {
    /// Calls networks by these names from now on.
    pub(super) fn call(&mut self, names: NetworkNames) {
        self.names = names;
    }

    /// Adds what a record says.
    pub(crate) fn put(&mut self, record: &dyn Record) {
        let schema = record.schema();
        let subject = self.subjects.entry(subject_of(schema)).or_default();
        let is_sample = schema.kind == subject_of(schema);
        if is_sample && subject.has_aggregates {
            // Samples that were asked for beside: the aggregates have them, too.
            return;
        }
        subject.has_aggregates |= !is_sample;
        let plan = self.plans.entry(schema.kind);
        let Some(plan) = plan.or_insert_with(|| subject.plan(schema)) else {
            return;
        };
        if let Some(Value::Text(labels)) = plan.target.map(|index| record.value(index)) {
            let pairs = labels.split(',').filter_map(|label| label.split_once('='));
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            self.target = pairs.map(owned).collect();
        }
        if plan.fields.is_empty() {
            return;
        }
        plan.labels
            .write(record, &self.names, &mut self.text, &mut self.key);
        let Some(set) = subject.set(&plan.labels, &self.key) else {
            return;
        };
        for &(index, role, family) in &plan.fields {
            let value = match (role, record.value(index)) {
                (_, Value::Missing) => continue,
                (Metric::Mean(_), Value::Duration(ns)) => {
                    let weight = plan.weights.get(&index).map(|&at| record.value(at));
                    let Some(Value::Unsigned(count)) = weight else {
                        continue;
                    };
                    Addition::Samples(ns, count)
                }
                (Metric::Sample, Value::Duration(ns)) => Addition::Samples(ns, 1),
                (Metric::Distribution, Value::Histogram(histogram)) => {
                    Addition::Histogram(histogram)
                }
                (Metric::Outcome, _) => Addition::Increase(1.0),
                (Metric::Increase, value) => Addition::Increase(number(value)),
                (_, value) => Addition::Number(number(value)),
            };
            value.add_to(&mut set.figures[family]);
        }
    }

    /// Puts these in place of all that records of their kind have said.
    #[cfg(feature = "live")]
    pub(crate) fn replace<R: Record>(&mut self, records: &[R]) {
        let Some(schema) = records.first().map(Record::schema) else {
            return;
        };
        if let Some(subject) = self.subjects.get_mut(subject_of(schema)) {
            subject.sets.clear();
        }
        for record in records {
            self.put(record);
        }
    }

    /// Puts families in place of those that were given before.
    #[cfg(feature = "live")]
    pub(crate) fn give(&mut self, families: Vec<Family>) {
        self.given = families;
    }

    /// Labels of all that is told, by name.
    pub(super) fn target(&self) -> &[(String, String)] {
        &self.target
    }

    /// The same as a family, as Prometheus has them (`OpenMetrics`, "Supporting target metadata").
    pub(super) fn target_info(&self) -> Option<Family> {
        let labels = self.target.iter();
        let labels = labels.map(|(name, value)| (name.clone().into(), value.clone()));
        let info = own_family(
            "target_info",
            FamilyKind::Gauge,
            "1: labels of this host.",
            [(labels.collect(), 1.0)],
        );
        (!self.target.is_empty()).then_some(info)
    }

    /// Where all stand, in the order of their names.
    pub(crate) fn families(&mut self) -> Vec<Family> {
        let now = Instant::now();
        let mut families = self.given.clone();
        families.push(build_info());
        families.push(others(&self.subjects));
        for subject in self.subjects.values_mut() {
            subject.forget_idle(now);
            families.extend(subject.families());
        }
        families.retain(|family| !family.series.is_empty());
        families.sort_by(|one, other| one.about.name.cmp(&other.about.name));
        families
    }
}

impl Subject {
    fn plan(&mut self, schema: &'static Schema) -> Option<Plan> {
        let mut fields = Vec::new();
        let mut weights = HashMap::new();
        for (index, field) in schema.fields.iter().enumerate() {
            let (Some(role), Some(about)) = (field.metric, About::of(schema, field)) else {
                continue;
            };
            let known = self.families.iter().position(|it| it.name == about.name);
            let family = known.unwrap_or_else(|| {
                self.families.push(about);
                self.families.len() - 1
            });
            fields.push((index, role, family));
            if let Metric::Mean(of) = role
                && let Some(position) = schema.position(of)
            {
                weights.insert(index, position);
            }
        }
        // Another kind may have been first, and have had fewer.
        for set in self.sets.values_mut() {
            set.figures.resize(self.families.len(), None);
        }
        let mut target = schema.fields.iter();
        let target = target.position(|field| field.metric == Some(Metric::Target));
        (!fields.is_empty() || target.is_some()).then(|| Plan {
            labels: LabelPlan::of(schema),
            fields,
            weights,
            target,
        })
    }

    /// The set of these labels, or the one that stands for those that have no room.
    fn set(&mut self, labels: &LabelPlan, key: &str) -> Option<&mut Set> {
        let now = Instant::now();
        let key = if self.sets.contains_key(key) {
            Cow::Borrowed(key)
        } else {
            self.open(labels, key, now)
        };
        let set = self.sets.get_mut(&*key)?;
        set.touched = now;
        Some(set)
    }

    /// Makes the set of new labels. Returns the labels of the one that is there for them.
    fn open<'a>(&mut self, labels: &LabelPlan, key: &'a str, now: Instant) -> Cow<'a, str> {
        if self.sets.len() >= SETS {
            self.forget_idle(now);
        }
        let mut key = Cow::Borrowed(key);
        if self.sets.len() >= SETS {
            self.others += 1;
            let mut other = labels.other(&key, |name| name != "network");
            if self.sets.len() >= SETS_OF_OTHERS && !self.sets.contains_key(&other) {
                other = labels.other(&key, |_| false);
            }
            key = Cow::Owned(other);
        }
        // `entry` would make a text of each key.
        if !self.sets.contains_key(&*key) {
            let set = Set {
                labels: labels.read(&key),
                figures: vec![None; self.families.len()],
                since: Time::now().0,
                touched: now,
            };
            self.sets.insert(key.clone().into_owned(), set);
        }
        key
    }

    /// At most once a minute: with many sets it takes long.
    fn forget_idle(&mut self, now: Instant) {
        const PAUSE: Duration = Duration::from_secs(60);
        if self
            .swept
            .is_some_and(|swept| now.duration_since(swept) < PAUSE)
        {
            return;
        }
        self.swept = Some(now);
        self.sets
            .retain(|_, set| now.duration_since(set.touched) < IDLE);
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        self.families.iter().enumerate().map(|(index, about)| {
            let series = self.sets.values().filter_map(|set| {
                Some(Series {
                    labels: set.labels.clone(),
                    since: set.since,
                    figure: set.figures[index].clone()?,
                })
            });
            let mut series: Vec<_> = series.collect();
            series.sort_by(|one, other| one.labels.cmp(&other.labels));
            Family {
                about: about.clone(),
                series,
            }
        })
    }
}

/// What a value does to a figure.
enum Addition<'a> {
    Increase(f64),
    Number(f64),
    Samples(u64, u64),
    Histogram(&'a Histogram),
}

impl Addition<'_> {
    fn add_to(self, figure: &mut Option<Figure>) {
        match (self, figure) {
            (Self::Increase(more), Some(Figure::Number(number))) => *number += more,
            (Self::Increase(number) | Self::Number(number), figure) => {
                *figure = Some(Figure::Number(number));
            }
            (addition, figure) => {
                let none = || Figure::Durations(Histogram::new());
                let Figure::Durations(durations) = figure.get_or_insert_with(none) else {
                    return;
                };
                match addition {
                    Self::Samples(ns, count) => durations.record_many(ns, count),
                    Self::Histogram(more) => durations.merge(more),
                    Self::Increase(_) | Self::Number(_) => {}
                }
            }
        }
    }
}

/// In the unit of the family: seconds, where it is a duration.
fn number(value: Value<'_>) -> f64 {
    match value {
        Value::Unsigned(number) => number as f64,
        Value::Float(number) => number,
        Value::Duration(ns) => ns as f64 / 1e9,
        Value::Boolean(answer) => f64::from(u8::from(answer)),
        _ => 0.0,
    }
}

/// A family of numbers that no record says.
pub(crate) fn own_family(
    name: &str,
    kind: FamilyKind,
    help: &str,
    numbers: impl IntoIterator<Item = (Vec<(Cow<'static, str>, String)>, f64)>,
) -> Family {
    let series = numbers.into_iter().map(|(labels, number)| Series {
        labels: labels.into(),
        since: 0,
        figure: Figure::Number(number),
    });
    Family {
        about: About {
            name: name.to_owned(),
            kind,
            unit: "",
            help: help.to_owned(),
        },
        series: series.collect(),
    }
}

fn build_info() -> Family {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    own_family(
        "fathom_build_info",
        FamilyKind::Gauge,
        "1: of this version.",
        [(vec![("version".into(), version)], 1.0)],
    )
}

fn others(subjects: &FxHashMap<&'static str, Subject>) -> Family {
    let numbers = subjects.iter().filter(|(_, it)| !it.families.is_empty());
    own_family(
        "fathom_metrics_other_total",
        FamilyKind::Counter,
        "Records whose labels had no room: they are in series of `other`.",
        numbers.map(|(&subject, it)| (vec![("kind".into(), subject.to_owned())], it.others as f64)),
    )
}
