//! Report of crashing a workflow at every crash point.

use std::fmt;

use crate::model::{EffectClass, RunStatus};

/// Results for one effect over all crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectReport {
    /// Name of the step.
    pub name: String,
    /// Effect class.
    pub class: EffectClass,
    /// Number of executions without a fault.
    pub usual: u32,
    /// Highest number of executions over all faults.
    pub most: u32,
    /// True if the code reads the idempotency key.
    pub reads_key: bool,
    /// True if a crash can make the effect happen twice without the provider noticing.
    pub can_happen_twice: bool,
    /// True if a crash can leave the effect in doubt.
    pub can_be_in_doubt: bool,
    /// True if a run can end without the effect because of a crash.
    pub can_be_left_undone: bool,
}

/// Expected final state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpectEnd {
    /// The run completes.
    #[default]
    Completed,
    /// The run fails or is cancelled.
    Failed,
    /// The run stays open and waits for an event that the test does not send.
    Waiting,
}

impl ExpectEnd {
    /// Returns whether a run with this status is as expected.
    pub fn is_met_by(self, end: RunStatus) -> bool {
        match self {
            ExpectEnd::Completed => end == RunStatus::Completed,
            ExpectEnd::Failed => matches!(end, RunStatus::Failed | RunStatus::Cancelled),
            ExpectEnd::Waiting => !end.is_closed(),
        }
    }
}

/// Guarantee that a test can require of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Never more executions than without crashes. It may be in doubt.
    AtMostOnce,
    /// It may run again after a crash, but it is never missing.
    AtLeastOnce,
    /// Never twice, never missing and never in doubt.
    ExactlyOnce,
}

/// Finding of one crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashFinding {
    /// Position of the crash.
    pub crash: String,
    /// Problem afterwards.
    pub outcome: String,
    /// Number of effects executed before the crash. A smaller number makes a simpler finding.
    pub(super) length: u32,
}

impl fmt::Display for CrashFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.crash, self.outcome)
    }
}

/// Report of crashing a workflow at every crash point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Effects in the order of their start.
    pub effects: Vec<EffectReport>,
    /// Number of crashes.
    pub crashes: u32,
    /// Number of workers that came back after another had taken over.
    pub zombies: u32,
    /// Final status without a fault.
    pub usual_end: Option<RunStatus>,
    /// Problems, simplest first.
    pub findings: Vec<CrashFinding>,
}

impl CrashReport {
    /// Returns the report on one effect.
    ///
    /// # Panics
    ///
    /// If the workflow has no such effect.
    pub fn effect(&self, name: &str) -> &EffectReport {
        let found = self.effects.iter().find(|effect| effect.name == name);
        found.unwrap_or_else(|| panic!("the workflow has no effect {name:?}; it has {self}"))
    }

    /// Fails the test unless the effect has the expected guarantee.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn assert_effect(&self, name: &str, expect: Expect) {
        let effect = self.effect(name);
        let holds = match expect {
            Expect::AtMostOnce => effect.most <= effect.usual,
            Expect::AtLeastOnce => !effect.can_be_left_undone,
            Expect::ExactlyOnce => {
                effect.most <= effect.usual && !effect.can_be_left_undone && !effect.can_be_in_doubt
            }
        };
        assert!(holds, "effect {name:?} is not {expect:?}: {effect}");
    }

    /// Fails the test with the simplest finding if a crash could do harm.
    ///
    /// # Panics
    ///
    /// If one could.
    pub fn assert_safe(&self) {
        if let Some(finding) = self.findings.first() {
            panic!("{finding}\n\n{self}");
        }
    }
}

impl fmt::Display for EffectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, class, usual, most, .. } = self;
        write!(f, "{name} ({class}): entered {usual} to {most} times")?;
        let key = if self.reads_key { "under its key" } else { "with nothing outside that would notice" };
        if most > usual {
            write!(f, ", {key}")?;
        }
        if self.can_be_in_doubt {
            write!(f, ", may be in doubt")?;
        }
        if self.can_be_left_undone {
            write!(f, ", may be left undone")?;
        }
        Ok(())
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} crashes, {} zombies:", self.crashes, self.zombies)?;
        self.effects.iter().try_for_each(|effect| writeln!(f, "  {effect}"))
    }
}
