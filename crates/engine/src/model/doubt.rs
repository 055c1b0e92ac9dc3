//! Effects of which nobody knows whether they happened, and what people may say about them.

use serde::{Deserialize, Serialize};

use super::{
    Failure, Generation, HumanText, Invalid, Promise, PromiseId, RunId, RunStatus, StepId, Timestamp,
    Version, check_actor_and_reason,
};

/// What is to be done with a claimed effect whose outcome is lost and that no probe could settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDoubt {
    /// Show it to people and wait for what they say.
    #[default]
    Hold,
    /// Run it again under the same key: it may happen twice.
    Retry,
    /// Fail the step, with the code `in_doubt`: it may have happened. A step that can be undone is held for people instead: only when it is
    /// known whether it happened can it be undone.
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
    /// With which authority.
    pub role: Role,
    /// Whence they acted, if they did so through a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl Actor {
    /// A person of whom nothing else is known.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Actor { name: name.into(), role, origin: None }
    }

    /// The person who acted: whom the credential spoke for, or else the actor's own name. The audit log is filtered by it.
    pub fn person(&self) -> &str {
        self.origin.as_ref().and_then(|origin| origin.person.as_deref()).unwrap_or(&self.name)
    }

    /// Id of the credential used, if a server knows one.
    pub fn credential(&self) -> Option<&str> {
        self.origin.as_ref().map(|origin| origin.credential.as_str())
    }
}

/// Whence a person acted through a server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The id of the credential. Its name may change, and two may be named alike.
    pub credential: String,
    /// The role of the credential, as the server names it.
    pub role: String,
    /// The person for whom the credential spoke, as it named them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The trace of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
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

/// A decision that counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Who decided.
    pub by: Actor,
    /// What, in one word.
    pub decision: String,
    /// When.
    pub at: Timestamp,
}

impl std::fmt::Display for Decided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} decided {} at {}", self.by.name, self.decision, self.at)
    }
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
    /// What is said about it is too long, or cannot be kept.
    #[error(transparent)]
    HumanText(#[from] Invalid),
    /// An operation on an entity has nothing that could be undone or given up.
    #[error("an operation on an entity happened or did not happen; nothing else can be decided about it")]
    NotForOperations,
}

/// Checks who decides what.
///
/// Names are taken as they are given. Whoever cannot tell people apart by more than what they write (a server) must not let them write
/// the second name: to such a one only the role counts.
pub fn check_ruling(ruling: &Ruling) -> Result<(), RulingRefused> {
    let irreversible = ruling.resolution.is_irreversible().then(|| ruling.resolution.as_str());
    check_authority(&ruling.by, ruling.seconded_by.as_ref(), &ruling.reason, irreversible)
}

/// Checks who decides, and why. What is `irreversible` needs a manager, or two people.
pub(super) fn check_authority(
    by: &Actor,
    seconded_by: Option<&Actor>,
    reason: &str,
    irreversible: Option<&'static str>,
) -> Result<(), RulingRefused> {
    check_actor_and_reason(by, reason)?;
    if let Some(second) = seconded_by {
        HumanText::Person.check(&second.name)?;
    }
    let name = |actor: &Actor| actor.name.trim().to_lowercase();
    let second = seconded_by.filter(|second| name(second) != name(by));
    match irreversible {
        Some(what) if by.role != Role::Manager && second.is_none() => Err(RulingRefused::NeedsManager(what)),
        Some(_) | None => Ok(()),
    }
}

/// Can the run do what is decided? To run or undo an effect takes code that waits for the ruling: there is none if the run has ended
/// for good (a failed one may be retried), nor if the branch that took the step was dropped, which `failure` tells.
pub fn can_be_carried_out(resolution: &Resolution, run: RunStatus, failure: &Failure) -> bool {
    match resolution {
        Resolution::Happened { .. } | Resolution::Abandon => true,
        Resolution::DidNotHappen | Resolution::Compensate { .. } => match run {
            RunStatus::Failed => true,
            status => !status.is_closed() && failure.code() != Some("cut_off"),
        },
    }
}

/// What stands in the id of every promise by which a doubt is settled; `~` cannot occur in a user's name.
const OF_DOUBT: &str = "~doubt-";

/// One attempt of a claimed effect, as a doubt about it is settled: by a promise, and by another one if what people said was of
/// no use, or if the step was retried as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtedAttempt(String);

impl DoubtedAttempt {
    /// The attempt of `step`.
    pub fn new(run: RunId, generation: Generation, step: &StepId, attempt: u32) -> Self {
        DoubtedAttempt(format!("{}{OF_DOUBT}{attempt}-", PromiseId::of_run(run, generation, step)))
    }

    /// The promise of this round.
    pub fn round(&self, round: u64) -> PromiseId {
        PromiseId::from_stored(&format!("{}{round}", self.0))
    }

    /// The promise of the round after `last`.
    pub fn next(&self, last: Option<&Promise>) -> PromiseId {
        let last = last.and_then(|promise| self.round_of(&promise.id));
        self.round(last.map_or(1, |round| round + 1))
    }

    /// The last of them: the one that counts.
    pub fn last_of<'a>(&self, promises: impl IntoIterator<Item = &'a Promise>) -> Option<&'a Promise> {
        promises
            .into_iter()
            .filter_map(|promise| Some((self.round_of(&promise.id)?, promise)))
            .max_by_key(|(round, _)| *round)
            .map(|(_, promise)| promise)
    }

    fn round_of(&self, id: &PromiseId) -> Option<u64> {
        id.as_str().strip_prefix(&self.0)?.parse().ok()
    }
}

impl PromiseId {
    /// Is it one that only a ruling may settle?
    pub fn is_of_doubt(&self) -> bool {
        self.as_str().contains(OF_DOUBT)
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
        let by = Actor::new("ada", role);
        Ruling { resolution, by, seconded_by: None, reason: "the bank says so".into() }
    }

    #[test]
    fn what_cannot_be_taken_back_needs_a_manager_or_two_people() {
        let happened = Resolution::Happened { output: serde_json::Value::Null };
        assert_eq!(check_ruling(&ruling(happened, Role::Operator)), Ok(()));
        let abandon = ruling(Resolution::Abandon, Role::Operator);
        assert_eq!(check_ruling(&abandon), Err(RulingRefused::NeedsManager("abandon")));
        assert_eq!(check_ruling(&ruling(Resolution::Abandon, Role::Manager)), Ok(()));
        let other = Some(Actor::new("grace", Role::Operator));
        assert_eq!(check_ruling(&Ruling { seconded_by: other, ..abandon.clone() }), Ok(()));
        let herself = Some(Actor::new(" Ada", Role::Manager));
        assert!(check_ruling(&Ruling { seconded_by: herself, ..abandon }).is_err());
    }

    #[test]
    fn what_nobody_waits_for_can_only_be_noted() {
        let (lost, dropped) = (Failure::unknown("lost"), Failure::unknown("dropped").with_code("cut_off"));
        assert!(can_be_carried_out(&Resolution::DidNotHappen, RunStatus::Waiting, &lost));
        assert!(!can_be_carried_out(&Resolution::DidNotHappen, RunStatus::Waiting, &dropped));
        assert!(!can_be_carried_out(&Resolution::DidNotHappen, RunStatus::Completed, &lost));
        assert!(can_be_carried_out(&Resolution::DidNotHappen, RunStatus::Failed, &dropped));
        assert!(can_be_carried_out(&Resolution::Abandon, RunStatus::Completed, &dropped));
    }

    #[test]
    fn a_ruling_names_somebody_and_a_reason() {
        let sound = ruling(Resolution::DidNotHappen, Role::Manager);
        assert_eq!(
            check_ruling(&Ruling { reason: " ".into(), ..sound.clone() }),
            Err(RulingRefused::NoReason)
        );
        let nobody = Actor::new(String::new(), Role::Manager);
        assert_eq!(check_ruling(&Ruling { by: nobody, ..sound.clone() }), Err(RulingRefused::Nobody));
        let endless = Ruling { reason: "x".repeat(HumanText::Reason.max_chars() + 1), ..sound.clone() };
        assert_eq!(check_ruling(&endless), Err(Invalid::HumanText(HumanText::Reason).into()));
        let blank = Some(Actor::new(" ", Role::Operator));
        assert_eq!(
            check_ruling(&Ruling { seconded_by: blank, ..sound }),
            Err(Invalid::HumanText(HumanText::Person).into())
        );
    }
}
