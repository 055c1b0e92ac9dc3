//! Rules of families of runs: their limits, and that a cancelled family ends as a whole.

use std::collections::{BTreeMap, BTreeSet};

use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{PendingRequest, RunHead, RunId};
use hapax_engine::store::Store;

use super::watch::at_once;
use super::world::FamilyLimits;

/// Families as the writes so far made them.
#[derive(Default)]
pub struct Families {
    /// Roots whose families were cancelled.
    cancelled: BTreeSet<RunId>,
    /// Families that were not swept at the last check.
    unswept: BTreeSet<RunId>,
    /// Descendants of each root that were born since it began or last continued as new.
    born: BTreeMap<RunId, u64>,
    limits: Option<FamilyLimits>,
}

impl Families {
    pub fn keep_to(&mut self, limits: FamilyLimits) {
        self.limits = Some(limits);
    }

    /// The cancellation of a family took effect at the store.
    pub fn note_cancelled(&mut self, root: RunId) {
        self.cancelled.insert(root);
        self.unswept.insert(root);
    }

    /// Looks at all runs after a write; `known` are those before it. Returns what is broken, in words.
    pub fn look<'a>(
        &mut self,
        store: &MemoryStore,
        runs: impl Iterator<Item = &'a RunHead> + Clone,
        known: &BTreeMap<RunId, RunHead>,
    ) -> Result<(), String> {
        for head in runs.clone() {
            if known.get(&head.id()).is_some_and(|before| before.generation < head.generation) {
                self.born.remove(&head.id());
            }
        }
        for head in runs.clone().filter(|head| !known.contains_key(&head.id())) {
            self.note_birth(head)?;
        }
        self.check_swept(store, runs)
    }

    fn note_birth(&mut self, head: &RunHead) -> Result<(), String> {
        let facts = &head.facts;
        if facts.parent.is_none() {
            return Ok(());
        }
        let (run, root) = (head.id(), facts.root());
        if self.cancelled.contains(&root) {
            return Err(format!("{run} was born into the cancelled family of {root}"));
        }
        let born = self.born.entry(root).or_default();
        *born += 1;
        let Some(limits) = self.limits else { return Ok(()) };
        if *born > limits.descendants {
            return Err(format!("{root} has {born} descendants, and {} is the limit", limits.descendants));
        }
        match facts.depth() > limits.depth {
            true => {
                Err(format!("{run} is {} below {root}, and {} is the limit", facts.depth(), limits.depth))
            }
            false => Ok(()),
        }
    }

    /// A family that has just been swept has no open member that nobody asked to cancel.
    fn check_swept<'a>(
        &mut self,
        store: &MemoryStore,
        runs: impl Iterator<Item = &'a RunHead> + Clone,
    ) -> Result<(), String> {
        if self.unswept.is_empty() {
            return Ok(());
        }
        let left = list_unswept(store);
        let swept: Vec<RunId> = self.unswept.difference(&left).copied().collect();
        self.unswept = left;
        for root in swept {
            let forgotten = runs.clone().find(|head| {
                head.facts.root() == root
                    && !head.status().is_closed()
                    && head.asked != PendingRequest::Cancel
            });
            if let Some(head) = forgotten {
                return Err(format!(
                    "the family of {root} is swept, and {} was not asked to cancel",
                    head.id()
                ));
            }
        }
        Ok(())
    }
}

/// Roots of cancelled families that are not swept.
pub fn list_unswept(store: &MemoryStore) -> BTreeSet<RunId> {
    let families = store.family_store().expect("the memory store keeps families");
    at_once(families.list_unswept_families(usize::MAX)).into_iter().map(|(_, root)| root).collect()
}
