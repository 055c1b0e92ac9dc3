//! What a crash at every point of a workflow may come to.

use std::fmt;

use crate::model::{EffectClass, RunStatus};

/// What became of one effect, over all crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectReport {
    /// The step.
    pub name: String,
    /// How it is kept from happening twice.
    pub class: EffectClass,
    /// How often its code is entered when nothing goes wrong.
    pub usual: u32,
    /// How often it was entered at most.
    pub most: u32,
    /// Does its code ask for the key?
    pub reads_key: bool,
    /// Can a crash make it happen twice, with nothing outside that would notice?
    pub can_happen_twice: bool,
    /// Can a crash leave it open whether it happened, until somebody says?
    pub can_be_in_doubt: bool,
    /// Can a crash leave it undone in a run that has ended?
    pub can_be_left_undone: bool,
}

/// How a run is expected to stand once nothing more happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpectEnd {
    /// It completed.
    #[default]
    Completed,
    /// It failed or was cancelled.
    Failed,
    /// It is open: it waits for something that the test does not give.
    Waiting,
}

impl ExpectEnd {
    /// Whether a run of this status stands as expected.
    pub fn is_met_by(self, end: RunStatus) -> bool {
        match self {
            ExpectEnd::Completed => end == RunStatus::Completed,
            ExpectEnd::Failed => matches!(end, RunStatus::Failed | RunStatus::Cancelled),
            ExpectEnd::Waiting => !end.is_closed(),
        }
    }
}

/// What may be asked of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Entered at most as often as without crashes; it may be in doubt.
    AtMostOnce,
    /// Entered again after a crash if need be, and never left undone.
    AtLeastOnce,
    /// Neither twice nor left undone nor in doubt.
    ExactlyOnce,
}

/// What one crash came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Where the crash was.
    pub crash: String,
    /// What was wrong afterwards.
    pub outcome: String,
    /// How many effects had been entered before it: the fewer, the shorter the story.
    pub(super) length: u32,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.crash, self.outcome)
    }
}

/// What a crash at every point came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// The effects, in the order in which they begin.
    pub effects: Vec<EffectReport>,
    /// How often the workflow was crashed.
    pub crashes: u32,
    /// How often a worker came back after another had taken over its run.
    pub zombies: u32,
    /// How the run ends when nothing goes wrong.
    pub usual_end: Option<RunStatus>,
    /// What went wrong, the shortest story first.
    pub stories: Vec<Story>,
}

impl CrashReport {
    /// The report on one effect.
    ///
    /// # Panics
    /// If the workflow has no such effect.
    pub fn effect(&self, name: &str) -> &EffectReport {
        let found = self.effects.iter().find(|effect| effect.name == name);
        found.unwrap_or_else(|| panic!("the workflow has no effect {name:?}; it has {self}"))
    }

    /// Fails the test unless the effect is as expected.
    ///
    /// # Panics
    /// If it is not.
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

    /// Fails the test, with the shortest story, if a crash could do harm.
    ///
    /// # Panics
    /// If one could.
    pub fn assert_safe(&self) {
        if let Some(story) = self.stories.first() {
            panic!("{story}\n\n{self}");
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
