//! Messages to a run and items from it, as the worker protocol has them.

use std::time::Duration;

use crate::model::{
    ClosePolicy, EffectKey, Failure, Fence, OnDoubt, Payload, ProbeAnswer, RetryPolicy, RunId, StepStatus,
    Timestamp, WorkflowRef, WorkspaceId,
};

/// Call of a workflow's function, from the top.
#[derive(Debug, Clone)]
pub struct RemoteActivation {
    /// The run.
    pub run: RunId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The workflow that it is pinned to.
    pub workflow: WorkflowRef,
    /// Fence of its lease.
    pub fence: Fence,
    /// Beginning of its effect keys and promise ids.
    pub key_prefix: String,
    /// Its input.
    pub input: Payload,
    /// Its records, ordered by when their outcomes reached the code.
    pub log: Vec<Record>,
}

/// A record of a run.
#[derive(Debug, Clone)]
pub struct Record {
    /// Id of the step.
    pub id: String,
    /// The requested operation.
    pub kind: RecordKind,
    /// Its status.
    pub status: StepStatus,
    /// The outcome, if the status has one.
    pub outcome: Option<Result<Payload, Failure>>,
}

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// A step, of whatever effect class.
    Step,
    /// A timer.
    Sleep,
    /// A promise of the run, or a wait for one without a run.
    Promise,
    /// A signal.
    Signal,
    /// A child run.
    Child,
    /// An after-effect.
    AfterEffect,
    /// A value that the code made for itself.
    Value,
    /// The choice of a select. Only code inside a server records one.
    Select,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: [RecordKind; 8] = [
        RecordKind::Step,
        RecordKind::Sleep,
        RecordKind::Promise,
        RecordKind::Signal,
        RecordKind::Child,
        RecordKind::AfterEffect,
        RecordKind::Value,
        RecordKind::Select,
    ];

    /// The kind on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            RecordKind::Step => "step",
            RecordKind::Sleep => "sleep",
            RecordKind::Promise => "promise",
            RecordKind::Signal => "signal",
            RecordKind::Child => "child",
            RecordKind::AfterEffect => "afterEffect",
            RecordKind::Value => "value",
            RecordKind::Select => "select",
        }
    }

    /// The kind with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        RecordKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Kind of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptKind {
    /// Makes the effect.
    Effect,
    /// Asks the provider whether the effect happened.
    Probe,
    /// Undoes the effect.
    Undo,
}

/// Order to begin an attempt.
#[derive(Debug, Clone)]
pub struct AttemptOrder {
    /// The operation.
    pub op: u32,
    /// Kind of the attempt.
    pub kind: AttemptKind,
    /// Number of the attempt.
    pub number: u32,
    /// Key of the effect.
    pub key: EffectKey,
    /// Fence of the lease that it is made under.
    pub fence: Fence,
    /// Output of the effect that is undone.
    pub output: Option<Payload>,
}

/// A message to a run.
#[derive(Debug, Clone)]
pub enum RunMessage {
    /// Begin an attempt.
    Attempt(AttemptOrder),
    /// An operation has an outcome.
    Resolved {
        /// The operation.
        op: u32,
        /// Its outcome.
        outcome: Result<Payload, Failure>,
    },
    /// Stop an attempt. Its outcome no longer counts.
    Abort {
        /// The operation.
        op: u32,
        /// Number of the attempt.
        attempt: u32,
    },
    /// The code goes on only when the server says so.
    Stop,
    /// Forget the function.
    Drop,
    /// The right to send effects was renewed after it had passed.
    HoldRenewed,
}

/// An action of the code of a run.
#[derive(Debug, Clone)]
pub enum Item {
    /// It asks for an operation.
    Asks {
        /// Number of the operation, from 1 in the order of asking.
        op: u32,
        /// Scope or shield that it is asked for in.
        scope: Option<u32>,
        /// The operation.
        what: Box<OperationBody>,
    },
    /// It received the outcome of an operation, and went on.
    Took(u32),
    /// An attempt ended.
    Outcome {
        /// The operation.
        op: u32,
        /// Kind of the attempt. Effects and compensations count their attempts each for themselves.
        kind: AttemptKind,
        /// Number of the attempt.
        attempt: u32,
        /// Its outcome.
        outcome: AttemptOutcome,
        /// Evidence from the outcome, if it no longer counts on the server.
        evidence: Option<Box<Evidence>>,
    },
    /// It no longer waits for an operation.
    Abandons(u32),
    /// The body of a scope or a shield ended, perhaps with a failure.
    ClosesScope(u32, Option<Failure>),
    /// The function returned.
    Returns(Payload),
    /// The function failed.
    Throws(Failure),
    /// The run begins anew with this input.
    ContinuesAsNew(Payload),
    /// The function was forgotten, because others need its place.
    Evicted,
    /// The code does not fit the log.
    Violation(String),
}

/// Evidence from the outcome of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Key of the effect.
    pub key: EffectKey,
    /// Fence that its attempt was made under.
    pub fence: Fence,
}

/// Outcome of an attempt.
#[derive(Debug, Clone)]
pub enum AttemptOutcome {
    /// The effect happened, or was undone.
    Output(Payload),
    /// It failed.
    Failed(Failure),
    /// Answer of a probe.
    Answered(ProbeAnswer<Payload>),
}

/// An operation that the code asks for.
#[derive(Debug, Clone)]
pub enum OperationBody {
    /// A step.
    Step(StepRequest),
    /// A promise of the run.
    Promise {
        /// Its name.
        name: String,
        /// Its business key.
        key: Option<String>,
        /// How long the key finds it after its end, if not as long as usual.
        key_ttl: Option<Duration>,
        /// Limit of the wait.
        timeout: Option<Duration>,
    },
    /// A promise that belongs to no run.
    AwaitPromise {
        /// Its id.
        id: String,
        /// Limit of the wait.
        timeout: Option<Duration>,
    },
    /// A signal.
    Signal {
        /// Its name.
        name: String,
        /// Name of the step, if it is another.
        recorded_as: Option<String>,
        /// Limit of the wait.
        timeout: Option<Duration>,
    },
    /// A timer.
    Sleep {
        /// Name of the step, if it is not the usual one.
        name: Option<String>,
        /// Its end.
        until: SleepEnd,
    },
    /// A child run.
    Child {
        /// The workflow, perhaps with a version.
        workflow: String,
        /// Its input.
        input: Payload,
        /// Name of the step, unless it is the name of the workflow.
        recorded_as: Option<String>,
        /// Treatment of the child if the run ends first.
        on_close: ClosePolicy,
    },
    /// An after-effect.
    AfterEffect {
        /// Its receiver.
        target: String,
        /// Its body.
        body: Payload,
    },
    /// A value that the code made for itself.
    Value {
        /// Its name.
        name: String,
        /// The value.
        value: Payload,
    },
    /// A scope.
    Scope,
    /// A shield.
    Shield,
}

/// End of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepEnd {
    /// After a span.
    After(Duration),
    /// At an instant.
    At(Timestamp),
}

/// A step that the code asks for.
#[derive(Debug, Clone, Default)]
pub struct StepRequest {
    /// Its name.
    pub name: String,
    /// How failed attempts are repeated, if not as usual.
    pub retry: Option<RetryPolicy>,
    /// Limit of one attempt.
    pub timeout: Option<Duration>,
    /// Claim, if its effect must not happen twice.
    pub claim: Option<ClaimRequest>,
    /// True if each execution has a new effect.
    pub non_idempotent: bool,
    /// True if it can be undone.
    pub compensates: bool,
    /// How failed compensations are repeated, if not as usual.
    pub compensate_retry: Option<RetryPolicy>,
}

/// Policy of a claimed step.
#[derive(Debug, Clone, Default)]
pub struct ClaimRequest {
    /// True if its provider can be asked.
    pub has_probe: bool,
    /// Limit of one question.
    pub probe_timeout: Option<Duration>,
    /// How long a denial does not count.
    pub probe_settle: Option<Duration>,
    /// Treatment of a doubt that no probe resolved.
    pub on_doubt: OnDoubt,
    /// True if its provider rejects requests of earlier holders.
    pub rejects_stale_fences: bool,
}
