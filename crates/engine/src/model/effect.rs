//! What a step's effect is, and so what a crash in the middle of it means.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::StepKind;

/// How the engine keeps an effect from happening twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// It may run again, always under one key.
    Idempotent,
    /// A claim is committed before it runs; after a crash it is in doubt and not run again.
    Claimed,
    /// It commits together with its record.
    Transactional,
}

impl EffectClass {
    /// Every class.
    pub const ALL: [EffectClass; 3] =
        [EffectClass::Idempotent, EffectClass::Claimed, EffectClass::Transactional];

    /// The class as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            EffectClass::Idempotent => "idempotent",
            EffectClass::Claimed => "claimed",
            EffectClass::Transactional => "transactional",
        }
    }
}

impl fmt::Display for EffectClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StepKind {
    /// The class of the effect, if the step has one.
    pub const fn effect_class(self) -> Option<EffectClass> {
        match self {
            StepKind::Effect | StepKind::Undo => Some(EffectClass::Idempotent),
            StepKind::Claimed => Some(EffectClass::Claimed),
            StepKind::Transaction => Some(EffectClass::Transactional),
            StepKind::Sleep
            | StepKind::Promise
            | StepKind::Signal
            | StepKind::Child
            | StepKind::Value
            | StepKind::Select
            | StepKind::AfterEffect => None,
        }
    }
}
