//! Runs whose records are on a server: their code runs here, and the server applies every rule.
//!
//! [`RemoteRun`] is one activation of a run: the workflow's function, what it waits for, and the log it is replayed
//! from. Messages of the server go in, items for the server come out. It has no network, no timer and no task of its
//! own; `docs/worker-protocol.md` says what messages and items mean. The same fixtures (`sdk/fixtures`) judge it and the
//! SDKs of other languages.

mod items;
mod machine;
mod operation;
mod replay_log;
mod run;
mod undoing;
mod workflow;

pub use items::{
    AttemptKind, AttemptOrder, AttemptOutcome, ClaimRequest, Evidence, Item, OperationBody, Record,
    RecordKind, RemoteActivation, RunMessage, SleepEnd, StepRequest,
};
pub use run::{RemoteRun, Turn};
pub use workflow::RemoteWorkflow;

pub(crate) use machine::{OperationRequest, ScopeKind, WorkerCtx};
pub(crate) use operation::Operation;
