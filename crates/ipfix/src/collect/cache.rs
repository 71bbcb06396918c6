//! The templates and names that exporters told, bounded.

use std::collections::HashMap;
use std::sync::Arc;

use fathom_record::Time;

use super::kinds::Kinds;
use super::sequence::Sequence;
use super::{Limits, Session};
use crate::wire::{Template, TemplateChange};

/// A template, and when it was last told.
#[derive(Debug)]
struct Known {
    template: Arc<Template>,
    told: Time,
}

/// What is kept of each stream and observation domain.
#[derive(Debug, Default)]
pub(super) struct Domain {
    templates: HashMap<u16, Known>,
    fields: usize,
    pub(super) sequence: Sequence,
    pub(super) kinds: Kinds,
    /// When it was last used, by the collector's count of messages.
    used: u64,
}

impl Domain {
    pub(super) fn template(&self, id: u16) -> Option<Arc<Template>> {
        let known = self.templates.get(&id)?;
        Some(Arc::clone(&known.template))
    }

    /// Applies a change; false if there are too many fields already.
    pub(super) fn change(&mut self, change: TemplateChange, now: Time, most_fields: usize) -> bool {
        match change {
            TemplateChange::Defined(template) => {
                self.withdraw(template.id);
                self.kinds.forget(template.id);
                if self.fields + template.fields.len() > most_fields {
                    return false;
                }
                self.fields += template.fields.len();
                let id = template.id;
                let template = Arc::new(template);
                self.templates.insert(
                    id,
                    Known {
                        template,
                        told: now,
                    },
                );
            }
            TemplateChange::Withdrawn(id) => self.withdraw(id),
            TemplateChange::AllWithdrawn { is_options } => {
                self.keep(|known| known.template.is_options() != is_options);
            }
        }
        true
    }

    /// Keeps these templates only; how many went.
    fn keep(&mut self, is_wanted: impl Fn(&Known) -> bool) -> u64 {
        let before = self.templates.len();
        self.templates.retain(|_, known| is_wanted(known));
        let left = self.templates.values();
        self.fields = left.map(|known| known.template.fields.len()).sum();
        (before - self.templates.len()) as u64
    }

    fn withdraw(&mut self, id: u16) {
        if let Some(known) = self.templates.remove(&id) {
            self.fields -= known.template.fields.len();
        }
    }
}

/// All streams and domains.
#[derive(Debug, Default)]
pub(super) struct Cache {
    domains: HashMap<(Session, u32), Domain>,
    clock: u64,
    /// The time as it was last told; 0: never.
    now: Time,
}

impl Cache {
    /// What is kept of a domain; of the least recently used one nothing any more if there are too
    /// many.
    pub(super) fn domain(&mut self, session: Session, domain: u32, limits: &Limits) -> &mut Domain {
        self.clock += 1;
        let key = (session, domain);
        if !self.domains.contains_key(&key) && self.domains.len() >= limits.domains.max(1) {
            let oldest = self.domains.iter().min_by_key(|(_, domain)| domain.used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.domains.remove(&oldest);
            }
        }
        let domain = self.domains.entry(key).or_default();
        domain.used = self.clock;
        domain
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Forgets what came in datagrams and was not told for so long; how many templates that were.
    pub(super) fn advance(&mut self, now: Time, lifetime_ns: u64) -> u64 {
        self.now = now;
        if lifetime_ns == 0 {
            return 0;
        }
        let is_young = |known: &Known| now.0.saturating_sub(known.told.0) < lifetime_ns;
        let datagrams = self.domains.iter_mut();
        datagrams
            .filter(|((session, _), _)| session.connection == 0)
            .map(|(_, domain)| domain.keep(is_young))
            .sum()
    }

    pub(super) fn forget(&mut self, session: Session) {
        self.domains.retain(|(other, _), _| *other != session);
    }
}
