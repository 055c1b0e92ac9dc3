//! Report of a check.

use std::fmt;

use crate::limits::MAX_VIOLATIONS;
use crate::model::RunId;

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Number of the invariant in the reliability document.
    pub invariant: u8,
    /// The run, if the violation concerns one.
    pub run: Option<RunId>,
    /// Description.
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

/// Counts of checked objects, and the violations found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs checked.
    pub runs: usize,
    /// Step records checked.
    pub steps: usize,
    /// History events checked.
    pub events: usize,
    /// Keys checked.
    pub keys: usize,
    /// Outbox messages checked.
    pub posts: usize,
    /// Pending promises checked.
    pub promises: usize,
    /// Open operations checked.
    pub operations: usize,
    /// Operations not judged because they ended during the check.
    pub moving_operations: usize,
    /// Runs not judged because they changed each time they were read.
    pub moving: usize,
    /// Violations, at most [`MAX_VIOLATIONS`].
    pub violations: Vec<Violation>,
    /// Number of further violations.
    pub left_off: usize,
}

impl Report {
    /// Returns true if there are no violations.
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
