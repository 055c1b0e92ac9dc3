//! Workflows drawn from the seed. A program is data, and one workflow executes any program.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Program of a run: its operations, over one or more generations.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Program {
    pub generation: u32,
    pub ops: Vec<Op>,
    pub then: GenerationEnd,
}

/// How a generation ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum GenerationEnd {
    Complete,
    Fail,
    Again(Box<Program>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Op {
    /// A step with an effect.
    Step(EffectBehaviour),
    /// A step that is undone if the run fails or is cancelled.
    Book(EffectBehaviour),
    /// A step that may be entered again only if it is known not to have happened.
    Wire {
        effort: EffectBehaviour,
        has_probe: bool,
    },
    /// An after-effect.
    OutboxMessage,
    Sleep {
        ms: u64,
    },
    Promise {
        timeout_ms: Option<u64>,
        /// Key of the promise: 0 is the run's own key, others are shared by many runs.
        key: Option<u8>,
    },
    Signal {
        timeout_ms: Option<u64>,
    },
    Child {
        program: Program,
        /// Does it go on when its parent ends?
        outlives: bool,
    },
    /// A value that must be remembered.
    Remember,
    /// Concurrent branches.
    Both(Vec<Vec<Op>>),
    /// The first of several branches.
    First(Vec<Vec<Op>>),
    /// Runs to its end, even if the run is cancelled.
    Shield(Vec<Op>),
    /// Undone as a whole if it fails; the program continues.
    Scope {
        ops: Vec<Op>,
        fails: bool,
    },
}

impl Op {
    /// Returns true for a race that a booking may lose while the provider still works on it.
    fn may_drop_a_booking(&self) -> bool {
        let is_booking = |op: &Op| matches!(op, Op::Book(_));
        matches!(self, Op::First(branches) if branches.iter().flatten().any(is_booking))
    }
}

/// Behaviour of an effect.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct EffectBehaviour {
    pub ms: u64,
    /// Number of entries that fail before one succeeds.
    pub fails: u32,
    /// True if such a failure is final.
    pub is_final: bool,
    pub attempts: u32,
    pub timeout_ms: Option<u64>,
    /// Delay between the effect and its answer.
    pub late_ms: u64,
    /// True if the effect happens although the provider returns no usable answer.
    pub charges_anyway: bool,
}

/// The provider's answer to one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    Unknown,
    NotNow,
    Never,
}

impl EffectBehaviour {
    fn draw(dice: &mut Rng) -> Self {
        let ms = match dice.u32(0..10) {
            0..=4 => 0,
            5..=8 => dice.u64(1..300),
            // Longer than some leases.
            _ => dice.u64(300..2_500),
        };
        let fails = if dice.u32(0..4) == 0 { dice.u32(1..=2) } else { 0 };
        EffectBehaviour {
            ms,
            fails,
            is_final: fails == 1 && dice.u32(0..4) == 0,
            attempts: *dice.choice(&[1, 3, 6, 6]).expect("not empty"),
            timeout_ms: (dice.u32(0..8) == 0).then(|| dice.u64(20..500)),
            late_ms: if dice.u32(0..6) == 0 { dice.u64(1..400) } else { 0 },
            charges_anyway: dice.bool(),
        }
    }

    /// The provider's answer to the given entry, counted from 1.
    pub fn answer(&self, entry: u32) -> Answer {
        match entry {
            _ if entry > self.fails => Answer::Done,
            _ if self.is_final => Answer::Never,
            _ if entry.is_multiple_of(2) => Answer::NotNow,
            _ => Answer::Unknown,
        }
    }

    pub fn quick() -> Self {
        EffectBehaviour {
            ms: 0,
            fails: 0,
            is_final: false,
            attempts: 10,
            timeout_ms: None,
            late_ms: 0,
            charges_anyway: false,
        }
    }
}

impl Program {
    pub fn draw(dice: &mut Rng) -> Self {
        let generations = if dice.u32(0..5) == 0 { dice.u32(1..=3) } else { 0 };
        Self::draw_generation(dice, 0, generations)
    }

    fn draw_generation(dice: &mut Rng, generation: u32, last: u32) -> Self {
        let count = dice.usize(1..=5);
        let ops: Vec<Op> = (0..count).map(|_| draw_op(dice, 0)).collect();
        let then = match dice.u32(0..6) {
            _ if generation < last => {
                GenerationEnd::Again(Box::new(Self::draw_generation(dice, generation + 1, last)))
            }
            // Only a failing run shows whether an interrupted booking is undone.
            0..=3 if ops.iter().any(Op::may_drop_a_booking) => GenerationEnd::Fail,
            0 => GenerationEnd::Fail,
            _ => GenerationEnd::Complete,
        };
        Program { generation, ops, then }
    }
}

fn draw_op(dice: &mut Rng, depth: usize) -> Op {
    let timeout_ms = |dice: &mut Rng| (dice.u32(0..3) == 0).then(|| dice.u64(1..3_000));
    match dice.u32(0..[18, 11, 10][depth]) {
        0..=2 => Op::Step(EffectBehaviour::draw(dice)),
        3 => Op::Book(EffectBehaviour::draw(dice)),
        4 => Op::Sleep { ms: draw_sleep(dice) },
        5 => Op::Promise { timeout_ms: timeout_ms(dice), key: draw_key(dice) },
        6 => Op::Signal { timeout_ms: timeout_ms(dice) },
        7 => Op::Remember,
        8 => Op::Wire { effort: EffectBehaviour::draw(dice), has_probe: dice.u32(0..3) == 0 },
        9 => Op::OutboxMessage,
        10 if depth > 0 => draw_child(dice),
        10 | 11 => Op::Both((0..dice.usize(2..=4)).map(|_| draw_branch(dice)).collect()),
        12 => Op::First(vec![vec![draw_rival(dice)], vec![Op::Sleep { ms: draw_sleep(dice) }]]),
        13 => Op::First((0..dice.usize(2..=3)).map(|_| draw_branch(dice)).collect()),
        14 => Op::Shield((0..dice.usize(1..=3)).map(|_| draw_op(dice, 1)).collect()),
        15 => {
            Op::Scope { ops: (0..dice.usize(1..=3)).map(|_| draw_op(dice, 1)).collect(), fails: dice.bool() }
        }
        _ => draw_child(dice),
    }
}

fn draw_child(dice: &mut Rng) -> Op {
    // Nested children are rare, so that programs end.
    let depth = if dice.u32(0..4) == 0 { 1 } else { 2 };
    let ops = (0..dice.usize(1..=2)).map(|_| draw_op(dice, depth)).collect();
    let then = if dice.u32(0..6) == 0 { GenerationEnd::Fail } else { GenerationEnd::Complete };
    Op::Child { program: Program { generation: 0, ops, then }, outlives: dice.u32(0..3) == 0 }
}

fn draw_sleep(dice: &mut Rng) -> u64 {
    match dice.u32(0..3) {
        0 => dice.u64(0..20),
        _ => dice.u64(20..3_000),
    }
}

fn draw_branch(dice: &mut Rng) -> Vec<Op> {
    (0..dice.usize(1..=4)).map(|_| draw_op(dice, 1)).collect()
}

fn draw_key(dice: &mut Rng) -> Option<u8> {
    match dice.u32(0..6) {
        0..=2 => None,
        3 | 4 => Some(0),
        _ => Some(dice.u8(1..=3)),
    }
}

/// A key that promises of several runs compete for.
pub fn shared_key(n: u8) -> String {
    format!("shared-{n}")
}

fn draw_rival(dice: &mut Rng) -> Op {
    match dice.u32(0..5) {
        0 => Op::Step(EffectBehaviour::draw(dice)),
        1 => Op::Promise { timeout_ms: None, key: draw_key(dice) },
        2 => Op::Signal { timeout_ms: None },
        // It takes a while, so it is often interrupted.
        _ => Op::Book(EffectBehaviour { ms: dice.u64(20..2_000), ..EffectBehaviour::draw(dice) }),
    }
}
