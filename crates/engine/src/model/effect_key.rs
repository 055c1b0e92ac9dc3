//! The key an effect carries to the outside world.

use std::fmt;
use std::sync::Arc;

use super::{Generation, RunId, StepId};

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
