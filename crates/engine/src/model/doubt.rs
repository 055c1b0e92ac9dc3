//! Doubts: effects with an unknown outcome, and the rulings that resolve them.

use serde::{Deserialize, Serialize};

use super::{
    Failure, Generation, HumanText, Invalid, Promise, PromiseId, RunId, RunStatus, StepId, Timestamp,
    Version, check_actor_and_reason,
};

/// Policy for a claimed effect whose outcome is lost and that no probe could resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDoubt {
    /// Wait for a ruling.
    #[default]
    Hold,
    /// Run it again under the same key. It may happen twice.
    Retry,
    /// Fail the step with the code `in_doubt`. The effect may have happened. A step with a compensation is
    /// held for a ruling instead, because it can be undone only once it is known whether it happened.
    Fail,
}

/// Answer of a probe that asked the provider about an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeAnswer<T> {
    /// The effect happened, with this output.
    Happened(T),
    /// The effect did not happen and may be run.
    DidNotHappen,
    /// The provider cannot tell.
    Unknown,
}

/// A person's decision about a doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resolution", rename_all = "snake_case")]
pub enum Resolution {
    /// The effect happened. The run continues with this output.
    Happened {
        /// The output to use for the effect.
        output: serde_json::Value,
    },
    /// The effect did not happen. It is run.
    DidNotHappen,
    /// The compensation of the step undoes the effect, using this output. The step then counts as failed.
    Compensate {
        /// The output to use for the effect.
        output: serde_json::Value,
    },
    /// The outcome will never be known. The step counts as failed.
    Abandon,
}

impl Resolution {
    /// Name of the decision.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Resolution::Happened { .. } => "happened",
            Resolution::DidNotHappen => "did_not_happen",
            Resolution::Compensate { .. } => "compensate",
            Resolution::Abandon => "abandon",
        }
    }

    /// Returns true if the decision cannot be reversed: it makes an effect run, or gives one up for good.
    pub const fn is_irreversible(&self) -> bool {
        match self {
            Resolution::Happened { .. } => false,
            Resolution::DidNotHappen | Resolution::Compensate { .. } | Resolution::Abandon => true,
        }
    }
}

/// A person as recorded in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Name of the person.
    pub name: String,
    /// Authority of the person.
    pub role: Role,
    /// Where the request came from, if the person acted through a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl Actor {
    /// An actor with no known origin.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Actor { name: name.into(), role, origin: None }
    }

    /// The person who acted: the person named by the credential, or else the name of the actor. The audit log
    /// can be filtered by it.
    pub fn person(&self) -> &str {
        self.origin.as_ref().and_then(|origin| origin.person.as_deref()).unwrap_or(&self.name)
    }

    /// Id of the credential, if the person acted through a server.
    pub fn credential(&self) -> Option<&str> {
        self.origin.as_ref().map(|origin| origin.credential.as_str())
    }
}

/// Origin of an action that came through a server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Id of the credential. Its name may change, and two credentials may have the same name.
    pub credential: String,
    /// Role of the credential, as the server names it.
    pub role: String,
    /// The person that the credential acted for, as the caller named them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The identity provider that vouches for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The person at that provider. Two people may have the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Trace id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Authority of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May take reversible decisions alone, and all others together with a second person.
    Operator,
    /// May take every decision alone.
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

    /// The role with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        [Role::Operator, Role::Manager].into_iter().find(|role| role.as_str() == text)
    }
}

/// A decision about a doubt, with the people and the reason behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// The decision.
    pub resolution: Resolution,
    /// Who decides.
    pub by: Actor,
    /// A second person who agrees, where one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Actor>,
    /// The reason.
    pub reason: String,
}

/// A decision that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedDecision {
    /// Who decided.
    pub by: Actor,
    /// Name of the decision.
    pub decision: String,
    /// When it was taken.
    pub at: Timestamp,
}

impl std::fmt::Display for RecordedDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} decided {} at {}", self.by.name, self.decision, self.at)
    }
}

/// Why a ruling is refused before the store is called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulingError {
    /// No actor is named.
    #[error("a decision needs the name of who decides")]
    NoActor,
    /// No reason is given.
    #[error("a decision needs a reason; say how you know")]
    NoReason,
    /// The decision cannot be reversed, and neither a manager nor a second person supports it.
    #[error("{0} cannot be taken back: it needs the role manager, or a second person who agrees")]
    NeedsManager(&'static str),
    /// The same person proposed the ruling and confirms it.
    #[error("a second person must agree, and you proposed it yourself")]
    SamePerson,
    /// Nobody proposed this for the doubt as it is now.
    #[error("nobody proposed this for the doubt as it is now; look at the doubt again")]
    NoSuchProposal,
    /// The decision takes two people, and only one stands behind it.
    #[error("{0} takes two people: propose it, and have somebody else confirm it")]
    NeedsSecondPerson(&'static str),
    /// A text is too long or cannot be stored.
    #[error(transparent)]
    HumanText(#[from] Invalid),
    /// An operation on an entity cannot be compensated or abandoned.
    #[error("an operation on an entity happened or did not happen; nothing else can be decided about it")]
    NotForOperations,
}

/// Checks that the people behind a ruling have the authority for it.
///
/// Names are taken as given. A caller that cannot verify who a person is (a server) must not let them state
/// the second name. There, only the role counts.
pub fn check_ruling(ruling: &Ruling) -> Result<(), RulingError> {
    let irreversible = ruling.resolution.is_irreversible().then(|| ruling.resolution.as_str());
    check_authority(&ruling.by, ruling.seconded_by.as_ref(), &ruling.reason, irreversible)
}

/// Checks that two people made an irreversible ruling, where that is the rule.
pub fn check_two_people(ruling: &Ruling) -> Result<(), RulingError> {
    let second = ruling.seconded_by.as_ref().filter(|second| !second.is_same_person(&ruling.by));
    match ruling.resolution.is_irreversible() && second.is_none() {
        true => Err(RulingError::NeedsSecondPerson(ruling.resolution.as_str())),
        false => Ok(()),
    }
}

/// Checks who decides and why. An `irreversible` decision needs a manager or two people.
pub(super) fn check_authority(
    by: &Actor,
    seconded_by: Option<&Actor>,
    reason: &str,
    irreversible: Option<&'static str>,
) -> Result<(), RulingError> {
    check_actor_and_reason(by, reason)?;
    if let Some(second) = seconded_by {
        HumanText::Person.check(&second.name)?;
    }
    let second = seconded_by.filter(|second| !second.is_same_person(by));
    match irreversible {
        Some(what) if by.role != Role::Manager && second.is_none() => Err(RulingError::NeedsManager(what)),
        Some(_) | None => Ok(()),
    }
}

/// Returns true if the run can carry out the decision. Running or undoing an effect needs code that waits for the
/// ruling. There is none if the run has ended for good (a failed run may be retried), or if the branch that
/// took the step was dropped; `failure` says so.
pub fn can_be_carried_out(resolution: &Resolution, run: RunStatus, failure: &Failure) -> bool {
    match resolution {
        Resolution::Happened { .. } | Resolution::Abandon => true,
        Resolution::DidNotHappen | Resolution::Compensate { .. } => match run {
            RunStatus::Failed => true,
            status => !status.is_closed() && failure.code() != Some("cut_off"),
        },
    }
}

/// Part of the id of every promise that resolves a doubt. User-chosen names cannot contain `~`.
const OF_DOUBT: &str = "~doubt-";

/// The promises that resolve a doubt about one attempt of a claimed effect. There is one per round: a new
/// round begins if a ruling could not be used, or if the step was retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtedAttempt(String);

impl DoubtedAttempt {
    /// The attempt of `step`.
    pub fn new(run: RunId, generation: Generation, step: &StepId, attempt: u32) -> Self {
        DoubtedAttempt(format!("{}{OF_DOUBT}{attempt}-", PromiseId::for_step(run, generation, step)))
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
    pub fn is_doubt_promise(&self) -> bool {
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
    fn an_irreversible_resolution_needs_a_manager_or_two_people() {
        let happened = Resolution::Happened { output: serde_json::Value::Null };
        assert_eq!(check_ruling(&ruling(happened, Role::Operator)), Ok(()));
        let abandon = ruling(Resolution::Abandon, Role::Operator);
        assert_eq!(check_ruling(&abandon), Err(RulingError::NeedsManager("abandon")));
        assert_eq!(check_ruling(&ruling(Resolution::Abandon, Role::Manager)), Ok(()));
        let other = Some(Actor::new("grace", Role::Operator));
        assert_eq!(check_ruling(&Ruling { seconded_by: other, ..abandon.clone() }), Ok(()));
        let herself = Some(Actor::new(" Ada", Role::Manager));
        assert!(check_ruling(&Ruling { seconded_by: herself, ..abandon }).is_err());
    }

    #[test]
    fn a_resolution_needs_a_run_that_can_carry_it_out() {
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
        assert_eq!(check_ruling(&Ruling { reason: " ".into(), ..sound.clone() }), Err(RulingError::NoReason));
        let nobody = Actor::new(String::new(), Role::Manager);
        assert_eq!(check_ruling(&Ruling { by: nobody, ..sound.clone() }), Err(RulingError::NoActor));
        let endless = Ruling { reason: "x".repeat(HumanText::Reason.max_chars() + 1), ..sound.clone() };
        assert_eq!(check_ruling(&endless), Err(Invalid::HumanText(HumanText::Reason).into()));
        let blank = Some(Actor::new(" ", Role::Operator));
        assert_eq!(
            check_ruling(&Ruling { seconded_by: blank, ..sound }),
            Err(Invalid::HumanText(HumanText::Person).into())
        );
    }
}
