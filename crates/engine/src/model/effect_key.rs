//! The key that an effect sends to the outside world.

use std::fmt;
use std::sync::Arc;

use super::{AnnouncementKind, Generation, Name, OperationId, RunId, StepId, Timestamp};

/// `runId:stepId`. It is the same for all attempts, crashes and takeovers, so a provider that honours keys
/// sees one effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectKey(Arc<str>);

impl EffectKey {
    /// Key of `step` in `run`. From the second generation on the key contains the generation, because step
    /// ids start again.
    pub fn new(run: RunId, generation: Generation, step: &StepId) -> Self {
        match generation.get() {
            0 => EffectKey(format!("{run}:{step}").into()),
            n => EffectKey(format!("{run}.{n}:{step}").into()),
        }
    }

    /// Key of the announcement to `target` of an event at `at`. User-chosen step names cannot contain `~`.
    pub fn for_announcement(
        run: RunId,
        generation: Generation,
        what: AnnouncementKind,
        step: Option<(&StepId, u32)>,
        at: Timestamp,
        target: &Name,
    ) -> Self {
        let step = step.map(|(step, attempt)| format!("{step}~{attempt}")).unwrap_or_default();
        let step = StepId::from_stored(&format!("{step}~{}~{}~{target}", what.as_str(), at.as_millis()));
        EffectKey::new(run, generation, &step)
    }

    /// Kind and time of the announced event, if this is the key of an announcement.
    pub fn announced(&self) -> Option<(AnnouncementKind, Timestamp)> {
        let mut parts = self.0.split_once(':')?.1.rsplitn(4, '~');
        let (_target, at, what, _step) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some((AnnouncementKind::from_name(what)?, Timestamp::from_millis(at.parse().ok()?)))
    }

    /// Key of an effect of an operation, the same for all its attempts. `what` is the step, or names one of
    /// its after-effects.
    pub fn for_operation(operation: OperationId, what: &str) -> Self {
        EffectKey(format!("{operation}:{what}").into())
    }

    /// A key that sorts before all keys of the operation, and one that sorts after them.
    pub fn bounds_of_operation(operation: OperationId) -> (Self, Self) {
        // `;` is the character after `:`.
        (EffectKey::for_operation(operation, ""), EffectKey(format!("{operation};").into()))
    }

    /// A key that sorts before every key of the run.
    pub fn before(run: RunId) -> Self {
        EffectKey(run.to_string().into())
    }

    /// A key read from a store or sent by a caller. It is not checked.
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
