//! The templates and names that exporters told, bounded.

use std::collections::HashMap;
use std::sync::Arc;

use super::sequence::Sequence;
use super::{Limits, Session};
use crate::wire::{Template, TemplateChange};

/// What is kept of each stream and observation domain.
#[derive(Debug, Default)]
pub(super) struct Domain {
    templates: HashMap<u16, Arc<Template>>,
    fields: usize,
    pub(super) sequence: Sequence,
    /// Of the collector's count of messages, when it was last used.
    used: u64,
}

impl Domain {
    pub(super) fn template(&self, id: u16) -> Option<Arc<Template>> {
        self.templates.get(&id).cloned()
    }

    /// Applies a change; false if there are too many fields already.
    pub(super) fn change(&mut self, change: TemplateChange, most_fields: usize) -> bool {
        match change {
            TemplateChange::Defined(template) => {
                self.withdraw(template.id);
                if self.fields + template.fields.len() > most_fields {
                    return false;
                }
                self.fields += template.fields.len();
                self.templates.insert(template.id, Arc::new(template));
            }
            TemplateChange::Withdrawn(id) => self.withdraw(id),
            TemplateChange::AllWithdrawn { is_options } => {
                self.templates
                    .retain(|_, template| template.is_options() != is_options);
                self.fields = self
                    .templates
                    .values()
                    .map(|template| template.fields.len())
                    .sum();
            }
        }
        true
    }

    fn withdraw(&mut self, id: u16) {
        if let Some(template) = self.templates.remove(&id) {
            self.fields -= template.fields.len();
        }
    }
}

/// All streams and domains.
#[derive(Debug, Default)]
pub(super) struct Cache {
    domains: HashMap<(Session, u32), Domain>,
    clock: u64,
}

impl Cache {
    /// What is kept of a domain; of the least recently used one nothing any more if there are too many.
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

    pub(super) fn forget(&mut self, session: Session) {
        self.domains.retain(|(other, _), _| *other != session);
    }
}
