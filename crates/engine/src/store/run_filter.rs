//! Conditions for lists of runs, beyond status and workflow. The stores find candidates by their indexes; the
//! rules are here.

use crate::model::{
    IdempotencyKey, PromiseId, RunHead, RunId, RunStatus, StepId, StepKind, StepRecord, Subject, Timestamp,
    current_step, step_base_name,
};
use crate::store::{ListRuns, RunLog, StoreError, StoreResult};

/// Conditions for lists of runs. All must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only this version of the workflow.
    pub version: Option<u32>,
    /// Only runs with this subject.
    pub subject: Option<Subject>,
    /// Only the run that this idempotency key names. A key that expired or was released names none.
    pub key: Option<IdempotencyKey>,
    /// Only runs created at this time or later, by the time in their ids.
    pub since: Option<Timestamp>,
    /// Only runs created before this time, by the time in their ids.
    pub until: Option<Timestamp>,
    /// Only runs whose [`current_step`] has this name; a number after the name counts repetitions.
    pub current_step: Option<String>,
    /// Only open runs that wait for this.
    pub waits_for: Option<WaitsFor>,
}

/// Wait of a run. It is a step that waits, so the steps of the run tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// A promise of the run, or a standalone one.
    Promise(PromiseId),
    /// A signal, by the name of the step that waits; that is the name of the signal unless the step has a name
    /// of its own.
    Signal(String),
    /// A child.
    Child,
    /// The end of a sleep.
    Timer,
}

impl WaitsFor {
    /// Kind of the step that waits.
    pub const fn step_kind(&self) -> StepKind {
        match self {
            WaitsFor::Promise(_) => StepKind::Promise,
            WaitsFor::Signal(_) => StepKind::Signal,
            WaitsFor::Child => StepKind::Child,
            WaitsFor::Timer => StepKind::Sleep,
        }
    }

    /// Returns true if the waiting step `step` of this kind waits for it. The runs that wait for a standalone
    /// promise are registered with the promise; their steps do not name it.
    pub fn is_of_step(&self, head: &RunHead, step: &StepId) -> bool {
        match self {
            WaitsFor::Promise(id) if id.run().is_some() => {
                PromiseId::for_step(head.id(), head.generation, step) == *id
            }
            WaitsFor::Signal(name) => is_named(step, name),
            WaitsFor::Promise(_) | WaitsFor::Child | WaitsFor::Timer => true,
        }
    }
}

impl RunFilter {
    /// Returns true if there are no conditions.
    pub fn is_empty(&self) -> bool {
        *self == RunFilter::default()
    }

    /// Returns true if a condition is about the steps of a run.
    pub const fn needs_steps(&self) -> bool {
        self.current_step.is_some() || self.waits_for.is_some()
    }

    /// Returns true if `step` is the wanted current step, or none is wanted.
    pub fn fits_current_step(&self, step: Option<&StepId>) -> bool {
        self.current_step.as_ref().is_none_or(|name| step.is_some_and(|step| is_named(step, name)))
    }

    /// Returns true if the conditions about steps hold. A run that is registered with a standalone promise is
    /// a waiter of it.
    pub fn fits_steps(&self, head: &RunHead, steps: &[StepRecord], is_waiter: bool) -> bool {
        let waits = |wanted: &WaitsFor| {
            let mut waiting =
                steps.iter().filter(|step| step.is_waiting() && step.kind == wanted.step_kind());
            let is_registered = !matches!(wanted, WaitsFor::Promise(id) if id.run().is_none()) || is_waiter;
            is_registered && waiting.any(|step| wanted.is_of_step(head, &step.id))
        };
        self.fits_current_step(current_step(steps).map(|step| &step.id))
            && self.waits_for.as_ref().is_none_or(waits)
    }
}

impl ListRuns {
    /// Refuses a filter over all workspaces: its indexes are within a workspace.
    pub fn check(&self) -> StoreResult<()> {
        match self.workspace.is_none() && !self.filter.is_empty() {
            true => Err(StoreError::Refused("a filtered list of runs names its workspace".into())),
            false => Ok(()),
        }
    }

    /// Statuses that can fit, in the order of a run's life. `None` means any.
    pub fn wanted_statuses(&self) -> Option<Vec<RunStatus>> {
        let is_wanted = |status: &RunStatus| {
            (self.statuses.is_empty() || self.statuses.contains(status))
                && (self.filter.waits_for.is_none() || !status.is_closed())
        };
        match self.statuses.is_empty() && self.filter.waits_for.is_none() {
            true => None,
            false => Some(RunStatus::ALL.into_iter().filter(is_wanted).collect()),
        }
    }

    /// The first id past the page's end: every run on the page is older.
    pub fn upper_bound(&self) -> Option<RunId> {
        let until = self.filter.until.map(RunId::first_at);
        self.before.into_iter().chain(until).min()
    }

    /// The lowest id that fits.
    pub fn lower_bound(&self) -> RunId {
        self.filter.since.map_or(RunId::NONE, RunId::first_at)
    }

    /// Returns true if everything holds that the head of a run tells.
    pub fn admits(&self, head: &RunHead) -> bool {
        let (facts, filter) = (&head.facts, &self.filter);
        self.workspace.as_ref().is_none_or(|workspace| facts.workspace == *workspace)
            && self.wanted_statuses().is_none_or(|wanted| wanted.contains(&head.status()))
            && self.workflow.as_ref().is_none_or(|workflow| facts.workflow.name == *workflow)
            && filter.version.is_none_or(|version| facts.workflow.version == version)
            && filter.subject.as_ref().is_none_or(|subject| facts.subject.as_ref() == Some(subject))
            && filter.key.as_ref().is_none_or(|key| facts.key.as_ref() == Some(key))
            && head.id() >= self.lower_bound()
            && self.upper_bound().is_none_or(|bound| head.id() < bound)
    }

    /// Returns true if everything holds that a log tells.
    pub fn admits_log(&self, log: &RunLog) -> bool {
        let is_waiter = match &self.filter.waits_for {
            Some(WaitsFor::Promise(id)) => log.promises.iter().any(|promise| promise.id == *id),
            _ => false,
        };
        self.admits(&log.head) && self.filter.fits_steps(&log.head, &log.steps, is_waiter)
    }
}

fn is_named(step: &StepId, name: &str) -> bool {
    step.as_str() == name || step_base_name(step.as_str()) == name
}
