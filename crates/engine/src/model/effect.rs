//! Effect classes: what a crash in the middle of a step means.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::StepKind;

/// How the engine prevents an effect from happening twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// The effect may run again, always under the same key.
    Idempotent,
    /// A claim is committed before the effect runs. After a crash the effect is in doubt and is not run
    /// again.
    Claimed,
    /// The effect commits together with its record.
    Transactional,
}

impl EffectClass {
    /// Every class.
    pub const ALL: [EffectClass; 3] =
        [EffectClass::Idempotent, EffectClass::Claimed, EffectClass::Transactional];

    /// Name of the class.
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
    /// Effect class of the step. `None` if it has no effect.
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
