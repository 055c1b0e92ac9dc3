//! The key an effect carries to the outside world.

use std::fmt;
use std::sync::Arc;

use super::{Announced, Generation, Name, OperationId, RunId, StepId, Timestamp};

/// `runId:stepId`: the same over attempts, crashes and takeovers, so that a provider that honours keys sees one effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectKey(Arc<str>);

impl EffectKey {
    /// The key of `step` in `run`; a later generation is named, since its step ids begin afresh.
    pub fn new(run: RunId, generation: Generation, step: &StepId) -> Self {
        match generation.get() {
            0 => EffectKey(format!("{run}:{step}").into()),
            n => EffectKey(format!("{run}.{n}:{step}").into()),
        }
    }

    /// The key of what tells `target` that something happened at `at`; `~` cannot occur in a step of a user's.
    pub fn of_announcement(
        run: RunId,
        generation: Generation,
        what: Announced,
        step: Option<(&StepId, u32)>,
        at: Timestamp,
        target: &Name,
    ) -> Self {
        let step = step.map(|(step, attempt)| format!("{step}~{attempt}")).unwrap_or_default();
        let step = StepId::from_stored(&format!("{step}~{}~{}~{target}", what.as_str(), at.as_millis()));
        EffectKey::new(run, generation, &step)
    }

    /// What it tells, and of when, if it is the key of an announcement.
    pub fn announced(&self) -> Option<(Announced, Timestamp)> {
        let mut parts = self.0.split_once(':')?.1.rsplitn(4, '~');
        let (_target, at, what, _step) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some((Announced::from_name(what)?, Timestamp::from_millis(at.parse().ok()?)))
    }

    /// The key of what an operation does, the same over its attempts; `what` is the step, or which of its after-effects.
    pub fn of_operation(operation: OperationId, what: &str) -> Self {
        EffectKey(format!("{operation}:{what}").into())
    }

    /// One that sorts before all keys of an operation, and one that sorts after all of them.
    pub fn bounds_of_operation(operation: OperationId) -> (Self, Self) {
        // What follows the colon among characters.
        (EffectKey::of_operation(operation, ""), EffectKey(format!("{operation};").into()))
    }

    /// Sorts before every key of the run.
    pub fn before(run: RunId) -> Self {
        EffectKey(run.to_string().into())
    }

    /// The key a store kept or a caller sent.
    pub fn from_stored(text: &str) -> Self {
        EffectKey(text.into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
