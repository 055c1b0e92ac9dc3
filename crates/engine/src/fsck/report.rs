//! What a check came to.

use std::fmt;

use crate::limits::MAX_VIOLATIONS;
use crate::model::RunId;

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the reliability document.
    pub invariant: u8,
    /// Where.
    pub run: Option<RunId>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}: ", self.invariant)?;
        if let Some(run) = self.run {
            write!(f, "{run}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// What was looked at and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs that were judged.
    pub runs: usize,
    /// Their step records.
    pub steps: usize,
    /// The entries of their histories.
    pub events: usize,
    /// Keys.
    pub keys: usize,
    /// After-effects.
    pub posts: usize,
    /// Promises that can still be settled.
    pub promises: usize,
    /// Operations on entities that have not ended.
    pub operations: usize,
    /// Operations that ended while they were looked at, so that they were not judged.
    pub moving_operations: usize,
    /// Runs that changed each time they were read, so that they were not judged.
    pub moving: usize,
    /// What is wrong, at most [`MAX_VIOLATIONS`].
    pub violations: Vec<Violation>,
    /// Further violations that found no place.
    pub left_off: usize,
}

impl Report {
    /// Is nothing wrong?
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn add(&mut self, violation: Violation) {
        match self.violations.len() < MAX_VIOLATIONS {
            true => self.violations.push(violation),
            false => self.left_off += 1,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            runs, steps, events, keys, posts, promises, operations, moving, moving_operations, ..
        } = self;
        write!(f, "{runs} runs, {steps} steps, {events} events, {keys} keys, {posts} after-effects")?;
        write!(f, ", {promises} open promises, {operations} open operations")?;
        if *moving > 0 {
            write!(f, ", {moving} runs moving")?;
        }
        if *moving_operations > 0 {
            write!(f, ", {moving_operations} operations moving")?;
        }
        for violation in &self.violations {
            write!(f, "\n{violation}")?;
        }
        match self.left_off {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
