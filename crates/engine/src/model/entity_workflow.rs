//! Entity workflows: the statuses of a business object and the configured steps that move it between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{EntityStorage, Invalid, Name};

/// An entity workflow. [`super::check_entity_workflow`] validates it before use.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityWorkflow {
    /// Name of the workflow.
    pub name: Name,
    /// Module that owns the workflow. The janitor of the module frees claims that a crash left behind.
    pub module: Name,
    /// Kind of entity that the workflow moves, such as `invoice`.
    pub entity: Name,
    /// Where the entities are stored.
    pub home: EntityStorage,
    /// Every status.
    pub status_types: Vec<Name>,
    /// Initial statuses of an entity. If empty, only the first of `status_types`.
    pub initial: Vec<Name>,
    /// True if claims into one status may revert to different statuses.
    pub revert_rule: RevertRule,
    /// The steps.
    pub steps: Vec<EntityStep>,
}

/// True if all claims into one status must revert to the same status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevertRule {
    /// They must. The row alone then tells where it reverts to.
    #[default]
    OnePerClaim,
    /// They need not. Each claim records its own.
    Recorded,
}

/// One value for all requesters, or one for each.
#[derive(Debug, Clone, PartialEq)]
pub enum PerRequester<T> {
    /// The same for all.
    All(T),
    /// By requester. Other requesters have none.
    By(BTreeMap<Name, T>),
}

impl<T> PerRequester<T> {
    /// The value for `requester`.
    pub fn find(&self, requester: Option<&Name>) -> Option<&T> {
        match self {
            PerRequester::All(value) => Some(value),
            PerRequester::By(values) => values.get(requester?),
        }
    }

    /// Each value with its requester. `None` means all requesters.
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
    /// Numeric id; steps are sorted by it.
    pub id: u32,
    /// Name that callers use.
    pub key: Name,
    /// Statuses the step applies to.
    pub status: PerRequester<Vec<Name>>,
    /// Status after the step.
    pub successful_state: PerRequester<Name>,
    /// Action of the step. If absent, it only changes the status.
    pub action: Option<PerRequester<Action>>,
    /// The claim held while the action runs.
    pub claim: Option<PerRequester<ClaimTo>>,
    /// Policy for a claim whose holder vanished. Default: `hold` if the action is declared
    /// non-idempotent, else `revert`.
    pub recovery: Option<PerRequester<Recovery>>,
    /// True if the step may be repeated once it has happened, or may have. Default: the step is reversible.
    pub irreversible: Option<PerRequester<Irreversible>>,
    /// True if callers must give an idempotency key.
    pub key_required: Option<PerRequester<bool>>,
    /// Answer to a caller who asks for the step again after it was done.
    pub retry: Option<PerRequester<RetryAnswer>>,
    /// Outbox message to send after success.
    pub success_after_effect: Option<PerRequester<Name>>,
    /// Outbox message to send after a failure or rejection.
    pub failure_after_effect: Option<PerRequester<Name>>,
    /// True if running the action twice is harmless, as the author declares it.
    pub idempotent: Option<PerRequester<bool>>,
}

/// Action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Calls the code registered under this name.
    Handler {
        /// Name of the handler.
        name: Name,
        /// True if the writes of the handler share the commit that changes the status.
        transaction: bool,
    },
    /// Runs this workflow. The operation ends when the run ends.
    Workflow(Name),
    /// Something that the host does itself, such as an HTTP call. The name appears in logs.
    Hosted(Name),
}

/// A claim: the transient status it moves the entity into, and the status it reverts to on failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimTo {
    /// The transient status.
    pub into: Name,
    /// The status to revert to.
    pub revert_to: Name,
}

/// Policy for a claim whose holder vanished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
    /// The janitor reverts it. The step may be tried again.
    #[default]
    Revert,
    /// It stays in doubt until a probe or a ruling resolves it.
    Hold,
}

impl Recovery {
    /// Spelling in documents and stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Recovery::Revert => "revert",
            Recovery::Hold => "hold",
        }
    }

    /// The value with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        [Recovery::Revert, Recovery::Hold].into_iter().find(|recovery| recovery.as_str() == text)
    }
}

/// True if an irreversible step may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Irreversible {
    /// The effect of the step can be undone.
    #[default]
    No,
    /// Once per entity. Once it has happened, or may have, only a manager's override repeats it.
    Once,
    /// It may be repeated wherever the status allows it.
    Each,
}

impl Irreversible {
    /// Spelling in documents. `true` means `once`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Irreversible::No => "false",
            Irreversible::Once => "once",
            Irreversible::Each => "each",
        }
    }

    /// Returns true if the effect of the step cannot be undone.
    pub const fn is_irreversible(self) -> bool {
        match self {
            Irreversible::No => false,
            Irreversible::Once | Irreversible::Each => true,
        }
    }
}

/// Answer to a caller who asks for a step that was done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryAnswer {
    /// A refusal: the status does not allow the step.
    #[default]
    Refused,
    /// The recorded result.
    Returns,
}

impl RetryAnswer {
    /// Spelling in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            RetryAnswer::Refused => "refused",
            RetryAnswer::Returns => "returns",
        }
    }

    /// The value with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        [RetryAnswer::Refused, RetryAnswer::Returns].into_iter().find(|answer| answer.as_str() == text)
    }
}

/// A step as one requester sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepView {
    /// Statuses the step applies to.
    pub status: Vec<Name>,
    /// Status after the step.
    pub successful_state: Name,
    /// Action of the step.
    pub action: Option<Action>,
    /// The claim, if the step has one.
    pub claim: Option<ClaimTo>,
    /// Policy for a claim whose holder vanished.
    pub recovery: Recovery,
    /// True if the step may be repeated once it has happened, or may have.
    pub irreversible: Irreversible,
    /// True if the action is declared non-idempotent. It is then never run again automatically.
    pub non_idempotent: bool,
    /// True if callers must give an idempotency key.
    pub key_required: bool,
    /// Answer to a caller who asks for the step again.
    pub retry: RetryAnswer,
    /// Outbox message to send after success.
    pub success_after_effect: Option<Name>,
    /// Outbox message to send after a failure.
    pub failure_after_effect: Option<Name>,
}

impl Action {
    /// Calls the handler registered under this name.
    pub fn handler(name: &str) -> Result<Self, Invalid> {
        Ok(Action::Handler { name: Name::new("action", name)?, transaction: false })
    }

    /// Calls the handler registered under this name. Its writes share the commit that changes the status.
    pub fn in_transaction(name: &str) -> Result<Self, Invalid> {
        Ok(Action::Handler { name: Name::new("action", name)?, transaction: true })
    }
}

impl ClaimTo {
    /// A claim into `into` that reverts to `revert_to`.
    pub fn new(into: &str, revert_to: &str) -> Result<Self, Invalid> {
        Ok(ClaimTo { into: Name::new("status", into)?, revert_to: Name::new("status", revert_to)? })
    }
}

impl EntityStep {
    /// A step for all requesters that leads from any of the statuses `from` to `to` and does nothing else.
    /// Set the public fields for everything else.
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

    /// Sets the action for all requesters.
    pub fn doing(self, action: Action) -> Self {
        EntityStep { action: Some(PerRequester::All(action)), ..self }
    }

    /// Returns true if the action reaches outside the transaction that records its end.
    pub(crate) fn has_effect(view: &StepView) -> bool {
        match &view.action {
            None | Some(Action::Workflow(_)) | Some(Action::Handler { transaction: true, .. }) => false,
            Some(Action::Hosted(_) | Action::Handler { .. }) => true,
        }
    }

    /// Sets the claim for all requesters.
    pub fn claiming(self, claim: ClaimTo) -> Self {
        EntityStep { claim: Some(PerRequester::All(claim)), ..self }
    }

    /// The step as `requester` sees it. `None` if it is not available to them: they need a status that it
    /// applies, a status after it, and, if any requester has an action, an action.
    pub fn view(&self, requester: Option<&Name>) -> Option<StepView> {
        fn of<'a, T>(field: &'a Option<PerRequester<T>>, requester: Option<&Name>) -> Option<&'a T> {
            field.as_ref().and_then(|field| field.find(requester))
        }
        let action = of(&self.action, requester).cloned();
        if self.action.is_some() && action.is_none() {
            return None;
        }
        let non_idempotent = of(&self.idempotent, requester) == Some(&false);
        // The janitor must not guess whether the action happened before the crash.
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

    /// Every requester named in a field of the step.
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

    /// The step as each requester named in a field sees it, and as all others (`None`) see it.
    pub fn views(&self) -> Vec<(Option<&Name>, StepView)> {
        let all = std::iter::once(None).chain(self.requesters().into_iter().map(Some));
        all.filter_map(|requester| Some((requester, self.view(requester)?))).collect()
    }
}

fn statuses(texts: &[&str]) -> Result<Vec<Name>, Invalid> {
    texts.iter().map(|text| Name::new("status", text)).collect()
}

impl EntityWorkflow {
    /// A workflow without steps, for entities of the kind `entity` in the store's own table.
    pub fn new(name: &str, module: &str, entity: &str, status_types: &[&str]) -> Result<Self, Invalid> {
        Ok(EntityWorkflow {
            name: Name::new("entity workflow", name)?,
            module: Name::new("module", module)?,
            entity: Name::new("entity type", entity)?,
            home: EntityStorage::BuiltIn,
            status_types: statuses(status_types)?,
            initial: Vec::new(),
            revert_rule: RevertRule::default(),
            steps: Vec::new(),
        })
    }

    /// The step with this key.
    pub fn find_step(&self, key: &str) -> Option<&EntityStep> {
        self.steps.iter().find(|step| step.key.as_str() == key)
    }

    /// Every claim. The janitor of the module must cover all of them.
    pub fn claims(&self) -> BTreeSet<&ClaimTo> {
        let claims = self.steps.iter().filter_map(|step| step.claim.as_ref());
        claims.flat_map(PerRequester::iter).map(|(_, claim)| claim).collect()
    }

    /// Checks that an entity may be created in this status.
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

    /// Initial statuses of an entity.
    pub fn initial_statuses(&self) -> &[Name] {
        match self.initial.is_empty() {
            true => self.status_types.get(..1).unwrap_or_default(),
            false => &self.initial,
        }
    }

    /// Returns true if only claims lead into the status.
    pub fn is_transient(&self, status: &Name) -> bool {
        self.claims().iter().any(|claim| claim.into == *status)
    }

    /// A claim that no janitor covers, if only `modules` have janitors.
    pub fn find_uncovered(&self, modules: &BTreeSet<Name>) -> Option<UncoveredClaim> {
        if modules.contains(&self.module) {
            return None;
        }
        let claim = self.claims().into_iter().next()?;
        let (workflow, module) = (self.name.clone(), self.module.clone());
        Some(UncoveredClaim { workflow, module, claim_into: claim.into.clone(), is_open: false })
    }
}

/// A claim that would not be freed after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncoveredClaim {
    /// The workflow that declares the claim, or did when an operation took it.
    pub workflow: Name,
    /// The module without a janitor.
    pub module: Name,
    /// The transient status.
    pub claim_into: Name,
    /// True if an operation holds the claim now. Otherwise the workflow only declares it.
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
