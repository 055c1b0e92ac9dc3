//! Waits of one run, in sentences. Pure.

use hapax_api as api;
use hapax_api::{WhyReason, WhyWait};
use hapax_documents::Document;
use hapax_documents::model::{Step, StepKind as DocumentStep};
use hapax_engine::model::{
    Actor, Attention, AttentionReason, EffectKey, PendingRequest, Promise, PromiseId, PromiseState, RunId,
    RunResult, RunState, RunningState, StepKind, StepRecord, StepState, Timestamp, step_base_name,
};
use hapax_engine::store::{RunLog, RunView};

use super::sentence::{excerpt, instant, since, until};

/// The state of a run at one moment.
pub(super) struct RunSituation<'a> {
    pub(super) view: &'a RunView,
    pub(super) log: &'a RunLog,
    /// The document that the run follows, if it follows one.
    pub(super) document: Option<&'a Document>,
    /// Problem that needs a person.
    pub(super) attention: Option<&'a Attention>,
    /// The person who paused or cancelled it, with the time and the reason.
    pub(super) commanded_by: Option<(Actor, Timestamp, String)>,
    /// True if workers have its code, and none that has it is connected to this node.
    pub(super) lacks_worker: bool,
    pub(super) now: Timestamp,
}

impl RunSituation<'_> {
    fn run(&self) -> RunId {
        self.view.head.id()
    }

    /// Waits of the run, or its end; the most urgent first.
    pub(super) fn explain(&self) -> Vec<WhyWait> {
        let mut waits = match &self.view.head.state {
            RunState::Pending { due_at } if *due_at > self.now => {
                let sentence = format!("starts at {}", instant(*due_at, self.now));
                vec![WhyWait { until: Some(due_at.to_string()), ..wait(WhyReason::Timer, sentence) }]
            }
            RunState::Pending { due_at } | RunState::Running(RunningState::Ready { due_at }) => {
                vec![self.queued(*due_at)]
            }
            RunState::Running(RunningState::Leased(lease)) => {
                let waits = self.open_steps();
                match waits.is_empty() {
                    true => vec![self.running(&lease.owner.to_string(), lease.until)],
                    false => waits,
                }
            }
            RunState::Waiting { wake_at } => {
                let waits = self.open_steps();
                match (waits.is_empty(), wake_at) {
                    (false, _) => waits,
                    (true, Some(at)) => {
                        let sentence = format!("waits until {}", instant(*at, self.now));
                        vec![WhyWait { until: Some(at.to_string()), ..wait(WhyReason::Timer, sentence) }]
                    }
                    (true, None) => vec![self.queued(self.view.head.changed_at)],
                }
            }
            RunState::Paused => vec![self.paused()],
            RunState::Closed { at, .. } => vec![self.closed(*at)],
        };
        self.add_request(&mut waits);
        waits
    }

    fn queued(&self, due_at: Timestamp) -> WhyWait {
        if self.lacks_worker {
            let workflow = &self.view.head.facts.workflow;
            let sentence = format!(
                "waits for a worker that has {workflow}{}; none is connected to this node",
                since(due_at, self.now)
            );
            return WhyWait { since: Some(due_at.to_string()), ..wait(WhyReason::Queued, sentence) };
        }
        let sentence = format!(
            "is queued for a worker{}; a node that has its workflow takes it up",
            since(due_at, self.now)
        );
        WhyWait { since: Some(due_at.to_string()), ..wait(WhyReason::Queued, sentence) }
    }

    fn running(&self, owner: &str, lease_until: Timestamp) -> WhyWait {
        let step = self.log.steps.iter().rev().find(|step| matches!(step.state, StepState::Running));
        let mut found = match step {
            Some(step) => {
                let (id, attempt) = (&step.id, step.attempts);
                let ago = since(step.started_at, self.now);
                let sentence = format!("runs step `{id}` (attempt {attempt}) on worker {owner}{ago}");
                let found = wait(WhyReason::Running, sentence);
                WhyWait { step_id: Some(id.to_string()), since: Some(step.started_at.to_string()), ..found }
            }
            None => {
                let ago = since(self.view.head.changed_at, self.now);
                wait(WhyReason::Running, format!("runs on worker {owner}{ago}"))
            }
        };
        if lease_until < self.now {
            found.sentence.push_str("; that worker is late, so another one takes over the run");
        }
        found
    }

    /// Every step that waits for something.
    fn open_steps(&self) -> Vec<WhyWait> {
        let mut waits: Vec<WhyWait> = self.log.steps.iter().filter_map(|step| self.open_step(step)).collect();
        waits.sort_by_key(|wait| urgency(wait.reason));
        waits
    }

    fn open_step(&self, step: &StepRecord) -> Option<WhyWait> {
        let (run, now) = (self.run(), self.now);
        let found = match (&step.state, step.kind) {
            (StepState::InDoubt { since: at, failure }, _) => {
                let key = EffectKey::new(run, self.log.head.generation, &step.id).to_string();
                let command =
                    format!("hapax doubts resolve {run}/{} --seen {} …", step.id, self.log.head.version);
                let sentence = format!(
                    "is in doubt about step `{}`{}: {}; ask the provider for `{key}`, then `{command}` decides it",
                    step.id,
                    since(*at, now),
                    excerpt(failure.message())
                );
                WhyWait {
                    since: Some(at.to_string()),
                    key: Some(key),
                    command: Some(command),
                    ..wait(WhyReason::InDoubt, sentence)
                }
            }
            (StepState::Pending { due_at, failure }, _) => {
                let sentence = format!(
                    "retries step `{}` at {} (attempt {}); the last attempt failed: {}",
                    step.id,
                    instant(*due_at, now),
                    step.attempts + 1,
                    excerpt(failure.message())
                );
                WhyWait { until: Some(due_at.to_string()), ..wait(WhyReason::Retry, sentence) }
            }
            (StepState::Waiting { until }, StepKind::Promise) => self.promise(step, *until),
            (StepState::Waiting { until }, StepKind::Signal) => self.signal(step, *until),
            (StepState::Waiting { .. }, StepKind::Child) => {
                let child = step.child.map(|child| child.to_string());
                let sentence = format!(
                    "waits for child run {} of step `{}`{}",
                    child.as_deref().unwrap_or("that is about to start"),
                    step.id,
                    since(step.started_at, now)
                );
                WhyWait { child_run_id: child, ..wait(WhyReason::Child, sentence) }
            }
            (StepState::Waiting { until: Some(at) }, _) => {
                let sentence = format!(
                    "waits in step `{}` until {}{}",
                    step.id,
                    instant(*at, now),
                    since(step.started_at, now)
                );
                WhyWait { until: Some(at.to_string()), ..wait(WhyReason::Timer, sentence) }
            }
            _ => return None,
        };
        let began = found.since.clone().unwrap_or_else(|| step.started_at.to_string());
        Some(WhyWait { step_id: Some(step.id.to_string()), since: Some(began), ..found })
    }

    fn promise(&self, step: &StepRecord, deadline: Option<Timestamp>) -> WhyWait {
        let own = PromiseId::for_step(self.run(), self.log.head.generation, &step.id);
        let is_pending = |promise: &&Promise| promise.state == PromiseState::Pending;
        let promises = || self.log.promises.iter();
        let promise = promises()
            .find(|promise| promise.id == own)
            .or_else(|| promises().filter(is_pending).find(|promise| promise.is_standalone()));
        let deadline = deadline.or_else(|| promise.and_then(|promise| promise.deadline_at));
        let key = promise.and_then(|promise| promise.key.as_ref()).map(|key| key.key.to_string());
        let id = promise.map_or_else(|| own.to_string(), |promise| promise.id.to_string());
        let (what, reference) = match &key {
            Some(key) => (format!("a webhook carrying `{key}`"), format!("key:{key}")),
            None => (format!("the promise `{id}`"), format!("id:{id}")),
        };
        let command = format!("hapax promises resolve {} …", quoted(&reference));
        let sentence = format!(
            "waits for {what}{}{}; `{command}` settles it",
            since(step.started_at, self.now),
            until(deadline, self.now)
        );
        WhyWait {
            until: deadline.map(|at| at.to_string()),
            key: key.or(Some(id)),
            command: Some(command),
            ..wait(WhyReason::Promise, sentence)
        }
    }

    fn signal(&self, step: &StepRecord, deadline: Option<Timestamp>) -> WhyWait {
        let run = self.run();
        let times = format!("{}{}", since(step.started_at, self.now), until(deadline, self.now));
        let found = self.document.and_then(|document| find_step(&document.steps, step.id.as_str()));
        let ends = deadline.map(|at| at.to_string());
        if let Some(DocumentStep::Approval(approval)) = found.map(|step| &step.kind) {
            let by = approval.by.as_ref().map(|by| {
                let roles = by.roles.iter().map(|role| format!("role {role}"));
                roles.chain(by.requesters.iter().cloned()).collect::<Vec<_>>().join(" or ")
            });
            let by = by.filter(|by| !by.is_empty()).unwrap_or_else(|| "anybody".into());
            let command = format!("hapax runs answer {run} {} --approve", quoted(step.id.as_str()));
            let sentence =
                format!("waits for an approval of `{}` by {by}{times}; `{command}` gives it", step.id);
            return WhyWait { until: ends, command: Some(command), ..wait(WhyReason::Approval, sentence) };
        }
        let name = match found.map(|step| &step.kind) {
            Some(DocumentStep::Signal(signal)) => signal.signal.clone(),
            _ => None,
        };
        // A repeated wait has a number after the name of the signal.
        let name = name.unwrap_or_else(|| step_base_name(step.id.as_str()).to_owned());
        let command = format!("hapax runs signal {run} {}", quoted(&name));
        let sentence = format!("waits for the signal `{name}`{times}; `{command}` sends it");
        WhyWait { until: ends, key: Some(name), command: Some(command), ..wait(WhyReason::Signal, sentence) }
    }

    fn paused(&self) -> WhyWait {
        let (run, now) = (self.run(), self.now);
        let command = format!("hapax runs resume {run}");
        let at = self.view.head.changed_at;
        let (reason, sentence) = match (self.attention, &self.commanded_by) {
            (Some(attention), _) => {
                let note = attention.note.as_deref().map(excerpt);
                let note = note.map(|note| format!(": {note}")).unwrap_or_default();
                match attention.reason {
                    AttentionReason::Quarantined => {
                        (WhyReason::Quarantined, format!("is quarantined{}{note}", since(at, now)))
                    }
                    AttentionReason::RetriesExhausted => (
                        WhyReason::RetriesExhausted,
                        format!("is paused because a step used up its retries{}{note}", since(at, now)),
                    ),
                    AttentionReason::InDoubt | AttentionReason::CompensationFailed => {
                        let mut doubts = self.open_steps();
                        doubts.retain(|wait| wait.reason == WhyReason::InDoubt);
                        match doubts.is_empty() {
                            false => return doubts.remove(0),
                            true => (WhyReason::Paused, format!("is paused{}", since(at, now))),
                        }
                    }
                }
            }
            (None, Some((by, at, why))) => {
                let why = if why.is_empty() { String::new() } else { format!(": {}", excerpt(why)) };
                (WhyReason::Paused, format!("was paused by {}{}{why}", excerpt(&by.name), since(*at, now)))
            }
            (None, None) => (WhyReason::Paused, format!("is paused{}", since(at, now))),
        };
        let sentence = format!("{sentence}; `{command}` lets it go on");
        WhyWait { since: Some(at.to_string()), command: Some(command), ..wait(reason, sentence) }
    }

    fn closed(&self, at: Timestamp) -> WhyWait {
        let run = self.run();
        let ago = super::sentence::span(self.now.since(at));
        let (reason, sentence, command) = match &self.view.result {
            Some(RunResult::Completed(output)) => (
                WhyReason::Completed,
                format!("completed {ago} ago with {}", excerpt(output.as_str())),
                format!("hapax runs result {run}"),
            ),
            Some(RunResult::Failed(failure)) => (
                WhyReason::Failed,
                format!(
                    "failed {ago} ago: {}; `hapax runs retry {run}` reopens it",
                    excerpt(failure.message())
                ),
                format!("hapax runs retry {run}"),
            ),
            Some(RunResult::Cancelled(failure)) => (
                WhyReason::Cancelled,
                match &self.commanded_by {
                    Some((by, _, why)) if !why.is_empty() => {
                        format!("was cancelled by {} {ago} ago: {}", excerpt(&by.name), excerpt(why))
                    }
                    Some((by, _, _)) => format!("was cancelled by {} {ago} ago", excerpt(&by.name)),
                    None => format!("was cancelled {ago} ago: {}", excerpt(failure.message())),
                },
                format!("hapax runs history {run}"),
            ),
            None => (
                WhyReason::Completed,
                format!("ended {ago} ago; its result is no longer kept"),
                format!("hapax runs history {run}"),
            ),
        };
        WhyWait { since: Some(at.to_string()), command: Some(command), ..wait(reason, sentence) }
    }

    /// Adds a pending request to pause or cancel.
    fn add_request(&self, waits: &mut [WhyWait]) {
        let Some(first) = waits.first_mut() else { return };
        match self.view.head.asked {
            PendingRequest::Nothing => {}
            PendingRequest::Pause => first.sentence.push_str("; a pause is requested"),
            PendingRequest::Cancel => first.sentence.push_str("; a cancellation is requested"),
        }
    }
}

fn wait(reason: WhyReason, sentence: String) -> WhyWait {
    WhyWait {
        reason,
        sentence,
        step_id: None,
        since: None,
        until: None,
        key: None,
        child_run_id: None,
        command: None,
    }
}

/// Sorts waits: people's work first, automatic waits last.
fn urgency(reason: WhyReason) -> u8 {
    match reason {
        WhyReason::InDoubt => 0,
        WhyReason::Quarantined | WhyReason::RetriesExhausted | WhyReason::Paused => 1,
        WhyReason::Approval => 2,
        WhyReason::Promise | WhyReason::Signal => 3,
        WhyReason::Child => 4,
        WhyReason::Retry => 5,
        WhyReason::Timer => 6,
        WhyReason::Queued | WhyReason::Running => 7,
        WhyReason::Completed | WhyReason::Failed | WhyReason::Cancelled => 8,
    }
}

/// A word of a command line, in quotes where a shell needs them.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.:/@+=,".contains(letter);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The step of a document for a record. Within `for_each`, the name of a record ends with the
/// position of its item.
fn find_step<'a>(steps: &'a [Step], record: &str) -> Option<&'a Step> {
    steps.iter().find_map(|step| {
        if step.name.as_str() == step_base_name(record) || step.name.as_str() == record {
            return Some(step);
        }
        match &step.kind {
            DocumentStep::Condition(condition) => {
                find_step(&condition.then, record).or_else(|| find_step(&condition.otherwise, record))
            }
            DocumentStep::Parallel(parallel) => {
                parallel.branches.iter().find_map(|branch| find_step(branch, record))
            }
            DocumentStep::ForEach(each) => find_step(&each.steps, record),
            DocumentStep::Task(_)
            | DocumentStep::Http(_)
            | DocumentStep::Wait(_)
            | DocumentStep::Promise(_)
            | DocumentStep::Signal(_)
            | DocumentStep::Approval(_)
            | DocumentStep::Child(_) => None,
        }
    })
}

/// Status of a run, as the wire spells it.
pub(super) fn status(view: &RunView) -> api::RunStatus {
    use hapax_engine::model::RunStatus;
    match view.head.status() {
        RunStatus::Pending => api::RunStatus::Pending,
        RunStatus::Running => api::RunStatus::Running,
        RunStatus::Waiting => api::RunStatus::Waiting,
        RunStatus::Paused => api::RunStatus::Paused,
        RunStatus::Completed => api::RunStatus::Completed,
        RunStatus::Failed => api::RunStatus::Failed,
        RunStatus::Cancelled => api::RunStatus::Cancelled,
    }
}
