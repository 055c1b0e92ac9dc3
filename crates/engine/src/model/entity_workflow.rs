//! Entity workflows: which statuses a business object knows, and which configured steps move it between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Home, Invalid, Name};

/// An entity workflow, checked by [`super::check_entity_workflow`] before it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityWorkflow {
    /// Its name.
    pub name: Name,
    /// The module that owns it, whose janitor frees what a crash leaves claimed.
    pub module: Name,
    /// What kind of thing it moves, such as `invoice`.
    pub entity: Name,
    /// Where those things live.
    pub home: Home,
    /// Every status there is.
    pub status_types: Vec<Name>,
    /// Statuses in which an entity may be created. If empty, only the first of `status_types`.
    pub initial: Vec<Name>,
    /// Where a claim goes back to.
    pub revert_rule: RevertRule,
    /// The steps.
    pub steps: Vec<EntityStep>,
}

/// Must all claims into one status go back to the same one?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevertRule {
    /// Yes, so that a row alone tells where it belongs.
    #[default]
    OnePerClaim,
    /// No: each claim records its own.
    Recorded,
}

/// A value for all who ask, or one for each kind of requester.
#[derive(Debug, Clone, PartialEq)]
pub enum PerRequester<T> {
    /// The same for all.
    All(T),
    /// By requester: for others there is none.
    By(BTreeMap<Name, T>),
}

impl<T> PerRequester<T> {
    /// What holds for `requester`.
    pub fn find(&self, requester: Option<&Name>) -> Option<&T> {
        match self {
            PerRequester::All(value) => Some(value),
            PerRequester::By(values) => values.get(requester?),
        }
    }

    /// Each value with the requester it is for; `None` is all.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Option<&Name>, &T)> + '_> {
        match self {
            PerRequester::All(value) => Box::new(std::iter::once((None, value))),
            PerRequester::By(values) => Box::new(values.iter().map(|(name, value)| (Some(name), value))),
        }
    }
}

/// One configured step.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityStep {
    /// Its number, by which people sort steps.
    pub id: u32,
    /// What callers name it by.
    pub key: Name,
    /// The statuses where it applies.
    pub status: PerRequester<Vec<Name>>,
    /// The status after it.
    pub successful_state: PerRequester<Name>,
    /// What it does; nothing but the change of status if absent.
    pub action: Option<PerRequester<Action>>,
    /// The status held while it does it, and where that goes back to.
    pub claim: Option<PerRequester<ClaimTo>>,
    /// What becomes of a claim whose holder vanished. Absent: `hold` if the action is declared not to be idempotent, else `revert`.
    pub recovery: Option<PerRequester<Recovery>>,
    /// May it be done again once it is done, or may be? Absent: it is reversible.
    pub irreversible: Option<PerRequester<Irreversible>>,
    /// Must callers name an idempotency key?
    pub key_required: Option<PerRequester<bool>>,
    /// What a caller is told who asks again after it was done.
    pub retry: Option<PerRequester<RetryAnswer>>,
    /// Told by the outbox once it is done.
    pub success_after_effect: Option<PerRequester<Name>>,
    /// Told by the outbox once it failed or was rejected.
    pub failure_after_effect: Option<PerRequester<Name>>,
    /// Is running the action twice harmless? Declared, not known.
    pub idempotent: Option<PerRequester<bool>>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Code that is registered under this name; `transaction` says that its writes share the commit of the change of status.
    Handler {
        /// The name.
        name: Name,
        /// Do its writes share that commit?
        transaction: bool,
    },
    /// A run of this workflow; the operation ends when the run ends.
    Workflow(Name),
    /// Something the host of the workflow does itself, such as a call over HTTP; the name says what in logs.
    Hosted(Name),
}

/// The transient status that a claim flips into, and the one it goes back to on failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimTo {
    /// The transient status.
    pub into: Name,
    /// Where it goes back to.
    pub revert_to: Name,
}

/// What becomes of a claim whose holder vanished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// The janitor reverts it: the step may be tried again.
    #[default]
    Revert,
    /// It is shown to people as in doubt.
    Hold,
}

impl Recovery {
    /// As documents and stores spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Recovery::Revert => "revert",
            Recovery::Hold => "hold",
        }
    }

    /// The one spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        [Recovery::Revert, Recovery::Hold].into_iter().find(|recovery| recovery.as_str() == text)
    }
}

/// Whether a step whose effect cannot be taken back may be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Irreversible {
    /// Its effect can be taken back.
    #[default]
    No,
    /// Once per entity: when it is done, or may be, only a manager's override does it again.
    Once,
    /// It may be done wherever the status allows.
    Each,
}

impl Irreversible {
    /// As documents spell it; `true` means `once`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Irreversible::No => "false",
            Irreversible::Once => "once",
            Irreversible::Each => "each",
        }
    }

    /// Is its effect one that cannot be taken back?
    pub const fn is_irreversible(self) -> bool {
        match self {
            Irreversible::No => false,
            Irreversible::Once | Irreversible::Each => true,
        }
    }
}

/// What a caller is told who asks for a step that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryAnswer {
    /// That the status does not allow it.
    #[default]
    Refused,
    /// The recorded result.
    Returns,
}

impl RetryAnswer {
    /// As documents spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            RetryAnswer::Refused => "refused",
            RetryAnswer::Returns => "returns",
        }
    }

    /// The one spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        [RetryAnswer::Refused, RetryAnswer::Returns].into_iter().find(|answer| answer.as_str() == text)
    }
}

/// A step as one requester sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepView {
    /// The statuses where it applies.
    pub status: Vec<Name>,
    /// The status after it.
    pub successful_state: Name,
    /// What it does.
    pub action: Option<Action>,
    /// How it is claimed, if it is.
    pub claim: Option<ClaimTo>,
    /// What becomes of a claim whose holder vanished.
    pub recovery: Recovery,
    /// May it be done again once it is done, or may be?
    pub irreversible: Irreversible,
    /// Is its action declared not to be idempotent? Then it is never run again by itself.
    pub non_idempotent: bool,
    /// Must callers name an idempotency key?
    pub key_required: bool,
    /// What a caller is told who asks again.
    pub retry: RetryAnswer,
    /// Told once it is done.
    pub success_after_effect: Option<Name>,
    /// Told once it failed.
    pub failure_after_effect: Option<Name>,
}

impl Action {
    /// The code that is registered under this name.
    pub fn handler(name: &str) -> Result<Self, Invalid> {
        Ok(Action::Handler { name: Name::new("action", name)?, transaction: false })
    }

    /// The code that is registered under this name, whose writes share the commit of the change of status.
    pub fn in_transaction(name: &str) -> Result<Self, Invalid> {
        Ok(Action::Handler { name: Name::new("action", name)?, transaction: true })
    }
}

impl ClaimTo {
    /// A claim that flips into `into`, and goes back to `revert_to`.
    pub fn new(into: &str, revert_to: &str) -> Result<Self, Invalid> {
        Ok(ClaimTo { into: Name::new("status", into)?, revert_to: Name::new("status", revert_to)? })
    }
}

impl EntityStep {
    /// A step for all who ask, which leads from any of the statuses `from` to `to` and does nothing else; fields that are public say what else it does.
    pub fn new(id: u32, key: &str, from: &[&str], to: &str) -> Result<Self, Invalid> {
        Ok(EntityStep {
            id,
            key: Name::new("step key", key)?,
            status: PerRequester::All(statuses(from)?),
            successful_state: PerRequester::All(Name::new("status", to)?),
            action: None,
            claim: None,
            recovery: None,
            irreversible: None,
            key_required: None,
            retry: None,
            success_after_effect: None,
            failure_after_effect: None,
            idempotent: None,
        })
    }

    /// The same, doing this, whoever asks.
    pub fn doing(self, action: Action) -> Self {
        EntityStep { action: Some(PerRequester::All(action)), ..self }
    }

    /// Does the action of a view reach outside the transaction that records its end?
    pub(crate) fn has_effect(view: &StepView) -> bool {
        match &view.action {
            None | Some(Action::Workflow(_)) | Some(Action::Handler { transaction: true, .. }) => false,
            Some(Action::Hosted(_) | Action::Handler { .. }) => true,
        }
    }

    /// The same, claimed so, whoever asks.
    pub fn claiming(self, claim: ClaimTo) -> Self {
        EntityStep { claim: Some(PerRequester::All(claim)), ..self }
    }

    /// The step as `requester` sees it; `None` if it is not for them: there must be a status where it applies, one after it, and, if anybody
    /// has an action, an action.
    pub fn view(&self, requester: Option<&Name>) -> Option<StepView> {
        fn of<'a, T>(field: &'a Option<PerRequester<T>>, requester: Option<&Name>) -> Option<&'a T> {
            field.as_ref().and_then(|field| field.find(requester))
        }
        let action = of(&self.action, requester).cloned();
        if self.action.is_some() && action.is_none() {
            return None;
        }
        let non_idempotent = of(&self.idempotent, requester) == Some(&false);
        // Whether it happened before the crash is not for a janitor to guess.
        let recovery = match non_idempotent {
            true => Recovery::Hold,
            false => Recovery::Revert,
        };
        Some(StepView {
            status: self.status.find(requester)?.clone(),
            successful_state: self.successful_state.find(requester)?.clone(),
            action,
            claim: of(&self.claim, requester).cloned(),
            recovery: of(&self.recovery, requester).copied().unwrap_or(recovery),
            irreversible: of(&self.irreversible, requester).copied().unwrap_or_default(),
            non_idempotent,
            key_required: of(&self.key_required, requester).copied().unwrap_or_default(),
            retry: of(&self.retry, requester).copied().unwrap_or_default(),
            success_after_effect: of(&self.success_after_effect, requester).cloned(),
            failure_after_effect: of(&self.failure_after_effect, requester).cloned(),
        })
    }

    /// Every requester that a field of it names.
    pub fn requesters(&self) -> BTreeSet<&Name> {
        fn of<T>(field: Option<&PerRequester<T>>) -> impl Iterator<Item = &Name> {
            field.into_iter().flat_map(PerRequester::iter).filter_map(|(requester, _)| requester)
        }
        of(Some(&self.status))
            .chain(of(Some(&self.successful_state)))
            .chain(of(self.action.as_ref()))
            .chain(of(self.claim.as_ref()))
            .chain(of(self.recovery.as_ref()))
            .chain(of(self.irreversible.as_ref()))
            .chain(of(self.key_required.as_ref()))
            .chain(of(self.retry.as_ref()))
            .chain(of(self.success_after_effect.as_ref()))
            .chain(of(self.failure_after_effect.as_ref()))
            .chain(of(self.idempotent.as_ref()))
            .collect()
    }

    /// The step as each kind of requester sees it: those that a field names, and (`None`) anybody else.
    pub fn views(&self) -> Vec<(Option<&Name>, StepView)> {
        let all = std::iter::once(None).chain(self.requesters().into_iter().map(Some));
        all.filter_map(|requester| Some((requester, self.view(requester)?))).collect()
    }
}

fn statuses(texts: &[&str]) -> Result<Vec<Name>, Invalid> {
    texts.iter().map(|text| Name::new("status", text)).collect()
}

impl EntityWorkflow {
    /// A workflow without steps, for things of the type `entity` that live in the store's own table.
    pub fn new(name: &str, module: &str, entity: &str, status_types: &[&str]) -> Result<Self, Invalid> {
        Ok(EntityWorkflow {
            name: Name::new("entity workflow", name)?,
            module: Name::new("module", module)?,
            entity: Name::new("entity type", entity)?,
            home: Home::Own,
            status_types: statuses(status_types)?,
            initial: Vec::new(),
            revert_rule: RevertRule::default(),
            steps: Vec::new(),
        })
    }

    /// The step with that key.
    pub fn find_step(&self, key: &str) -> Option<&EntityStep> {
        self.steps.iter().find(|step| step.key.as_str() == key)
    }

    /// Every transient status, with where it goes back to: what the janitor of its module must cover.
    pub fn claims(&self) -> BTreeSet<&ClaimTo> {
        let claims = self.steps.iter().filter_map(|step| step.claim.as_ref());
        claims.flat_map(PerRequester::iter).map(|(_, claim)| claim).collect()
    }

    /// May a thing begin in this status? Not in one that nobody would free it from.
    pub fn check_beginning(&self, status: &Name) -> Result<(), String> {
        let listed = |statuses: &[Name]| statuses.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
        if !self.status_types.contains(status) {
            return Err(format!(
                "{status} is not a status of {}; those are {}",
                self.entity,
                listed(&self.status_types)
            ));
        }
        if self.is_transient(status) {
            return Err(format!("nothing begins in {status}: only a claim leads there"));
        }
        let initial = self.initial_statuses();
        if !initial.contains(status) {
            return Err(format!(
                "{} begins in {}, not in {status}; name the statuses it may begin in as `initial`",
                self.entity,
                listed(initial)
            ));
        }
        Ok(())
    }

    /// Statuses in which an entity may be created.
    pub fn initial_statuses(&self) -> &[Name] {
        match self.initial.is_empty() {
            true => self.status_types.get(..1).unwrap_or_default(),
            false => &self.initial,
        }
    }

    /// Is the status one that only claims lead into?
    pub fn is_transient(&self, status: &Name) -> bool {
        self.claims().iter().any(|claim| claim.into == *status)
    }

    /// The transient status that no janitor covers, if the janitors are those of `modules`.
    pub fn find_uncovered(&self, modules: &BTreeSet<Name>) -> Option<UncoveredClaim> {
        if modules.contains(&self.module) {
            return None;
        }
        let claim = self.claims().into_iter().next()?;
        let (workflow, module) = (self.name.clone(), self.module.clone());
        Some(UncoveredClaim { workflow, module, claim_into: claim.into.clone(), is_open: false })
    }
}

/// A transient status that nobody would free after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncoveredClaim {
    /// The workflow that declares it, or declared it when an operation claimed it.
    pub workflow: Name,
    /// The module that has no janitor.
    pub module: Name,
    /// The status.
    pub claim_into: Name,
    /// Does an operation hold it now? Otherwise the workflow only declares it.
    pub is_open: bool,
}

impl std::error::Error for UncoveredClaim {}

impl fmt::Display for UncoveredClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UncoveredClaim { workflow, module, claim_into, is_open } = self;
        match is_open {
            false => write!(
                f,
                "entity workflow {workflow} claims into {claim_into}, but module {module} has no janitor that would free it after a crash: \
                 give the module {module} a janitor, or take the claim out of the workflow"
            ),
            true => write!(
                f,
                "an operation of entity workflow {workflow} holds {claim_into}, but module {module} has no janitor that would free it: \
                 give the module {module} a janitor until the operation is over"
            ),
        }
    }
}
