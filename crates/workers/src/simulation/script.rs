//! Scripts: what a run of a worker does, drawn from the seed.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::program::EffectBehaviour;

/// One operation after another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    pub acts: Vec<Act>,
    /// True if the code fails at the end, so that its bookings are undone.
    pub fails: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Act {
    /// A step whose provider honours its key.
    Step(EffectBehaviour),
    /// A step that must not happen twice, and whose provider ignores keys.
    Wire {
        effort: EffectBehaviour,
        has_probe: bool,
    },
    /// A step that is undone if the run fails.
    Book(EffectBehaviour),
    Sleep {
        ms: u64,
    },
}

impl Script {
    pub fn draw(dice: &mut Rng) -> Self {
        let count = dice.usize(1..=5);
        let acts = (0..count).map(|_| Act::draw(dice)).collect();
        Script { acts, fails: dice.u32(0..5) == 0 }
    }
}

impl Act {
    fn draw(dice: &mut Rng) -> Self {
        let effort = |dice: &mut Rng| EffectBehaviour {
            ms: if dice.bool() { 0 } else { dice.u64(1..1_500) },
            fails: if dice.u32(0..4) == 0 { dice.u32(1..=2) } else { 0 },
            is_final: false,
            attempts: 1_000,
            timeout_ms: (dice.u32(0..8) == 0).then(|| dice.u64(20..500)),
            late_ms: if dice.u32(0..6) == 0 { dice.u64(1..400) } else { 0 },
            charges_anyway: dice.bool(),
        };
        match dice.u32(0..8) {
            0..=2 => Act::Step(effort(dice)),
            3 | 4 => Act::Wire { effort: effort(dice), has_probe: dice.u32(0..3) == 0 },
            5 | 6 => Act::Book(EffectBehaviour { timeout_ms: None, ..effort(dice) }),
            _ => Act::Sleep { ms: dice.u64(1..1_500) },
        }
    }

    pub fn effort(&self) -> Option<EffectBehaviour> {
        match self {
            Act::Step(effort) | Act::Wire { effort, .. } | Act::Book(effort) => Some(*effort),
            Act::Sleep { .. } => None,
        }
    }

    pub fn is_wire(&self) -> bool {
        matches!(self, Act::Wire { .. })
    }

    /// Id of its step, as operation `op`.
    pub fn step(&self, op: u32) -> String {
        match self {
            Act::Step(_) => format!("step-{op}"),
            Act::Wire { .. } => format!("wire-{op}"),
            Act::Book(_) => format!("book-{op}"),
            Act::Sleep { .. } => format!("rest-{op}"),
        }
    }

    /// The item that asks for it.
    pub fn asked(&self, op: u32) -> Value {
        let name = self.step(op);
        let retry = json!({ "maxAttempts": 1_000, "first": "100ms", "cap": "1s", "for": "1h" });
        let mut item = match self {
            Act::Step(_) => json!({ "op": op, "do": "step", "name": name, "retry": retry }),
            Act::Wire { has_probe, .. } => json!({
                "op": op, "do": "step", "name": name, "retry": retry, "claimed": true, "probe": has_probe, "probeSettle": "4s",
            }),
            Act::Book(_) => json!({
                "op": op, "do": "step", "name": name, "retry": retry, "compensate": true, "compensateRetry": retry,
            }),
            Act::Sleep { ms } => json!({ "op": op, "do": "sleep", "name": name, "for": format!("{ms}ms") }),
        };
        if let Some(ms) = self.effort().and_then(|effort| effort.timeout_ms) {
            item["timeout"] = json!(format!("{ms}ms"));
        }
        item
    }
}
