//! Effects of which nobody knows whether they happened, and what people may say about them.

use serde::{Deserialize, Serialize};

use super::{Generation, PromiseId, RunId, StepId, Version};

/// What is to be done with a claimed effect whose outcome is lost and that no probe could settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDoubt {
    /// Show it to people and wait for what they say.
    #[default]
    Hold,
    /// Run it again under the same key: it may happen twice.
    Retry,
    /// Fail the step, with the code `in_doubt`: it may have happened.
    Fail,
}

/// What a probe found out by asking the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed<T> {
    /// The effect happened, with this output.
    Happened(T),
    /// It did not; it may be run.
    DidNotHappen,
    /// The provider cannot tell.
    Unknown,
}

/// What people decide about a doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resolution", rename_all = "snake_case")]
pub enum Resolution {
    /// It happened; the run goes on with this output.
    Happened {
        /// What the effect would have given.
        output: serde_json::Value,
    },
    /// It did not happen; it is run.
    DidNotHappen,
    /// It is undone, by the compensation of the step, which is given this output; the step then counts as failed.
    Compensate {
        /// What the effect would have given.
        output: serde_json::Value,
    },
    /// Nobody will ever know; the step counts as failed.
    Abandon,
}

impl Resolution {
    /// The decision in one word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Resolution::Happened { .. } => "happened",
            Resolution::DidNotHappen => "did_not_happen",
            Resolution::Compensate { .. } => "compensate",
            Resolution::Abandon => "abandon",
        }
    }

    /// Can it be taken back? What makes an effect run, or gives one up for good, cannot.
    pub const fn is_irreversible(&self) -> bool {
        match self {
            Resolution::Happened { .. } => false,
            Resolution::DidNotHappen | Resolution::Compensate { .. } | Resolution::Abandon => true,
        }
    }
}

/// A person, as the audit log names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Who.
    pub name: String,
    /// In which role.
    pub role: Role,
}

/// What a person may decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May decide what can be taken back, and anything together with a second person.
    Operator,
    /// May decide alone.
    Manager,
}

impl Role {
    /// The role as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Operator => "operator",
            Role::Manager => "manager",
        }
    }

    /// The role spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        [Role::Operator, Role::Manager].into_iter().find(|role| role.as_str() == text)
    }
}

/// A decision about a doubt, with all it needs to be accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// What is decided.
    pub resolution: Resolution,
    /// Who decides.
    pub by: Actor,
    /// A second person who agrees, where one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Actor>,
    /// Why.
    pub reason: String,
}

/// Why a ruling is refused before anything is asked of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulingRefused {
    /// Nobody is named.
    #[error("a decision needs the name of who decides")]
    Nobody,
    /// No reason is given.
    #[error("a decision needs a reason; say how you know")]
    NoReason,
    /// It cannot be taken back, and nobody of sufficient rank or number stands for it.
    #[error("{0} cannot be taken back: it needs the role manager, or a second person who agrees")]
    NeedsManager(&'static str),
}

/// Checks who decides what.
pub fn check_ruling(ruling: &Ruling) -> Result<(), RulingRefused> {
    let is_named = |actor: &Actor| !actor.name.trim().is_empty();
    if !is_named(&ruling.by) {
        return Err(RulingRefused::Nobody);
    }
    if ruling.reason.trim().is_empty() {
        return Err(RulingRefused::NoReason);
    }
    let second =
        ruling.seconded_by.as_ref().filter(|second| is_named(second) && second.name != ruling.by.name);
    let is_manager = ruling.by.role == Role::Manager;
    match ruling.resolution.is_irreversible() && !is_manager && second.is_none() {
        true => Err(RulingRefused::NeedsManager(ruling.resolution.as_str())),
        false => Ok(()),
    }
}

impl PromiseId {
    /// The promise by which people settle the doubt about one attempt of a step: the `round`-th, for what they said before may
    /// not have been of use. `~` cannot occur in a user's name.
    pub fn of_doubt(run: RunId, generation: Generation, step: &StepId, attempt: u32, round: u32) -> Self {
        PromiseId::from_stored(&format!(
            "{}~doubt-{attempt}-{round}",
            PromiseId::of_run(run, generation, step)
        ))
    }

    /// Is it one that only a ruling may settle?
    pub fn is_of_doubt(&self) -> bool {
        self.as_str().contains("~doubt-")
    }
}

/// Which doubt a person has seen: if the step changed since, the ruling is not about what it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtRef {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// The version at which it came into doubt.
    pub seen: Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruling(resolution: Resolution, role: Role) -> Ruling {
        let by = Actor { name: "ada".into(), role };
        Ruling { resolution, by, seconded_by: None, reason: "the bank says so".into() }
    }

    #[test]
    fn what_cannot_be_taken_back_needs_a_manager_or_two_people() {
        let happened = Resolution::Happened { output: serde_json::Value::Null };
        assert_eq!(check_ruling(&ruling(happened, Role::Operator)), Ok(()));
        let abandon = ruling(Resolution::Abandon, Role::Operator);
        assert_eq!(check_ruling(&abandon), Err(RulingRefused::NeedsManager("abandon")));
        assert_eq!(check_ruling(&ruling(Resolution::Abandon, Role::Manager)), Ok(()));
        let other = Some(Actor { name: "grace".into(), role: Role::Operator });
        assert_eq!(check_ruling(&Ruling { seconded_by: other, ..abandon.clone() }), Ok(()));
        let herself = Some(abandon.by.clone());
        assert!(check_ruling(&Ruling { seconded_by: herself, ..abandon }).is_err());
    }

    #[test]
    fn a_ruling_names_somebody_and_a_reason() {
        let sound = ruling(Resolution::DidNotHappen, Role::Manager);
        assert_eq!(
            check_ruling(&Ruling { reason: " ".into(), ..sound.clone() }),
            Err(RulingRefused::NoReason)
        );
        let nobody = Actor { name: String::new(), role: Role::Manager };
        assert_eq!(check_ruling(&Ruling { by: nobody, ..sound }), Err(RulingRefused::Nobody));
    }
}
