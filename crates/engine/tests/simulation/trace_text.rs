//! Requests to the store and its answers as short lines of the trace.

use hapax_engine::model::{
    BeginOperationOutcome, BeginOutcome, CatalogItem, Entity, EntityId, FinishOperationOutcome, InboundEvent,
    KeyedStartOutcome, Operation, OperationId, Promise, RequestRecord, RunCommit, RunHead, RunId, RunState,
    StepStatus, WorkspaceId,
};
use hapax_engine::store::{
    CancelFamilyOutcome, ClaimedOutbox, ClaimedRuns, CommitOutcome, CreateEntityOutcome, CreateOutcome,
    KeyUsage, LatestOperations, OpenClaim, PurgeOperationsOutcome, PurgeOutcome, PutOutcome, ReceiveOutcome,
    RedeliverOutcome, ReleaseOutcome, RunCommandOutcome, RunLog, RunView, SettleOutcome, SignalOutcome,
    StartOutcome, SweepFamilyOutcome,
};

use super::world::World;

pub trait TraceText {
    fn shown(&self, world: &World) -> String;
}

pub fn head(head: &RunHead, world: &World) -> String {
    let at = |at: hapax_engine::model::Timestamp| at.as_millis() - super::world::NOON.as_millis();
    let state = match head.state {
        RunState::Running(hapax_engine::model::RunningState::Leased(lease)) => {
            format!("leased to {}", at(lease.until))
        }
        RunState::Running(hapax_engine::model::RunningState::Ready { due_at }) => {
            format!("ready {}", at(due_at))
        }
        RunState::Waiting { wake_at } => format!("waiting {:?}", wake_at.map(at)),
        RunState::Pending { due_at } => format!("pending {}", at(due_at)),
        RunState::Paused => "paused".into(),
        RunState::Closed { ending, .. } => format!("{ending:?}"),
    };
    let RunHead { version, fence, arrivals, stalls, asked, .. } = head;
    format!("{} v{version} f{fence} a{arrivals} s{stalls} {asked:?} {state}", world.name(head.id()))
}

pub fn advance(advance: &RunCommit, world: &World) -> String {
    let steps: Vec<String> = advance
        .steps
        .iter()
        .map(|step| format!("{}:{}", step.id, &step.state.status().as_str().to_lowercase()))
        .collect();
    let events: Vec<&str> = advance.events.iter().map(|event| event.kind.as_str()).collect();
    let (run, from, to) = (world.name(advance.run()), advance.expected, advance.head.version);
    format!("advance {run} f{} v{from}-{to} {} {}", advance.fence, steps.join(" "), events.join(" "))
}

impl TraceText for StartOutcome {
    fn shown(&self, world: &World) -> String {
        match self {
            StartOutcome::Created(run) => format!("created {}", head(run, world)),
            StartOutcome::Existing(run) => format!("existing {}", head(run, world)),
            StartOutcome::Spent { run } => format!("spent {}", world.name(*run)),
            StartOutcome::KeyConflict { run, .. } => format!("conflict with {}", world.name(*run)),
            StartOutcome::SubjectBusy { run } => format!("busy {}", world.name(*run)),
        }
    }
}

impl TraceText for KeyedStartOutcome {
    fn shown(&self, world: &World) -> String {
        match self {
            KeyedStartOutcome::Started { head, .. } => format!("started as {}", self::head(head, world)),
            KeyedStartOutcome::NotFree => "not free".into(),
        }
    }
}

impl TraceText for ClaimedRuns {
    fn shown(&self, world: &World) -> String {
        match self.runs.is_empty() {
            true => "nothing".into(),
            false => self.runs.iter().map(|run| head(run, world)).collect::<Vec<_>>().join("; "),
        }
    }
}

impl TraceText for CancelFamilyOutcome {
    fn shown(&self, world: &World) -> String {
        match self {
            CancelFamilyOutcome::Cancelled(root) => format!("cancelled {}", head(root, world)),
            CancelFamilyOutcome::NotRoot(root) => format!("the root is {}", world.name(*root)),
            CancelFamilyOutcome::Stale(version) => format!("stale {version}"),
            CancelFamilyOutcome::NoSuchRun => "no such run".into(),
        }
    }
}

impl TraceText for SweepFamilyOutcome {
    fn shown(&self, world: &World) -> String {
        let steered: Vec<String> = self.steered.iter().map(|run| head(run, world)).collect();
        let next = self.next.map(|run| world.name(run));
        format!("steered {}; next {next:?}", steered.join("; "))
    }
}

impl TraceText for Vec<(WorkspaceId, RunId)> {
    fn shown(&self, world: &World) -> String {
        format!("{:?}", self.iter().map(|(_, run)| world.name(*run)).collect::<Vec<_>>())
    }
}

impl TraceText for Vec<RunId> {
    fn shown(&self, world: &World) -> String {
        format!("lost {:?}", self.iter().map(|run| world.name(*run)).collect::<Vec<_>>())
    }
}

impl TraceText for CommitOutcome {
    fn shown(&self, world: &World) -> String {
        match self {
            CommitOutcome::Committed { woken, .. } if woken.is_empty() => "advanced".into(),
            CommitOutcome::Committed { woken, .. } => format!("advanced, woken: {}", woken.shown(world)),
            CommitOutcome::Stale(run) => format!("stale {}", head(run, world)),
            CommitOutcome::ChildrenRefused(refused) => format!("children refused: {refused}"),
            CommitOutcome::LeaseLost => "lease lost".into(),
        }
    }
}

impl TraceText for RunCommandOutcome {
    fn shown(&self, world: &World) -> String {
        match self {
            RunCommandOutcome::Accepted(run) => format!("steered {}", head(run, world)),
            RunCommandOutcome::Refused(refusal, _) => format!("refused: {refusal}"),
            RunCommandOutcome::NoSuchRun => "no such run".into(),
        }
    }
}

impl TraceText for SignalOutcome {
    fn shown(&self, world: &World) -> String {
        match self {
            SignalOutcome::Stored { seq, granted: Some(run) } => {
                format!("stored {seq}, granted {}", head(run, world))
            }
            SignalOutcome::Stored { seq, granted: None } => format!("stored {seq}"),
            SignalOutcome::Duplicate => "duplicate".into(),
            SignalOutcome::Ended(status) => format!("ended {}", status.as_str()),
            SignalOutcome::TooMany => "too many".into(),
            SignalOutcome::NoSuchRun => "no such run".into(),
        }
    }
}

impl TraceText for SettleOutcome {
    fn shown(&self, world: &World) -> String {
        match self {
            SettleOutcome::Settled { granted: Some(run), .. } => {
                format!("settled, granted {}", head(run, world))
            }
            SettleOutcome::Settled { granted: None, .. } => "settled".into(),
            SettleOutcome::AlreadySettled { same, .. } => format!("settled before, same: {same}"),
            SettleOutcome::TimedOut { .. } => "timed out".into(),
            SettleOutcome::KeptEarly { .. } => "kept".into(),
            SettleOutcome::AlreadyKept { same, .. } => format!("kept before, same: {same}"),
            SettleOutcome::NoSuchPromise => "no such promise".into(),
        }
    }
}

impl TraceText for PurgeOutcome {
    fn shown(&self, _: &World) -> String {
        format!("{} keys, {} runs", self.keys, self.runs)
    }
}

impl TraceText for Option<RunView> {
    fn shown(&self, world: &World) -> String {
        self.as_ref().map_or("nothing".into(), |view| head(&view.head, world))
    }
}

impl TraceText for Option<RunLog> {
    fn shown(&self, world: &World) -> String {
        let Some(log) = self else { return "nothing".into() };
        let open = log.steps.iter().filter(|step| step.state.status() != StepStatus::Completed);
        let open: Vec<String> =
            open.map(|step| format!("{}:{}", step.id, step.state.status().as_str().to_lowercase())).collect();
        format!(
            "{} with {} steps, not completed: {}",
            head(&log.head, world),
            log.steps.len(),
            open.join(" ")
        )
    }
}

/// Shows answers in their debug form, cut to fit on a line.
macro_rules! shown_plainly {
    ($($answer:ty),* $(,)?) => {
        $(impl TraceText for $answer {
            fn shown(&self, _: &World) -> String {
                format!("{self:?}").chars().take(120).collect()
            }
        })*
    };
}

shown_plainly!(
    BeginOutcome,
    CreateOutcome,
    CreateEntityOutcome,
    FinishOperationOutcome,
    Option<Entity>,
    Option<InboundEvent>,
    Option<CatalogItem>,
    Option<Operation>,
    Option<Promise>,
    Option<RequestRecord>,
    BeginOperationOutcome,
    PurgeOperationsOutcome,
    LatestOperations,
    Vec<OpenClaim>,
    PutOutcome,
    ReceiveOutcome,
    ReleaseOutcome,
    KeyUsage,
    usize,
    Vec<Entity>,
    Vec<EntityId>,
    Vec<InboundEvent>,
    Vec<CatalogItem>,
    Vec<Operation>,
    Vec<OperationId>,
);

impl TraceText for () {
    fn shown(&self, _: &World) -> String {
        "done".into()
    }
}

impl TraceText for bool {
    fn shown(&self, _: &World) -> String {
        self.to_string()
    }
}

impl TraceText for ClaimedOutbox {
    fn shown(&self, _: &World) -> String {
        format!("{} posts", self.posts.len())
    }
}

impl TraceText for RedeliverOutcome {
    fn shown(&self, _: &World) -> String {
        match self {
            RedeliverOutcome::Due(_) => "due".into(),
            RedeliverOutcome::Discarded(_) => "forgotten".into(),
            RedeliverOutcome::UnderWay(_) => "under way".into(),
            RedeliverOutcome::NoSuchMessage => "no such post".into(),
        }
    }
}
