#![doc = include_str!("../../../README.md")]

mod node_identity;
mod open;
mod schema;
mod spans;

pub use hapax_engine::ctx::{
    Attempt, Branches, Child, Ctx, OpenPromise, PromiseBuilder, PromiseWait, SignalBuilder, Step, StepFuture,
};
pub use hapax_engine::model::{
    Action, Actor, ClaimTo, ClosePolicy, DoubtRef, EffectClass, EntityStep, EntityStorage, EntityWorkflow,
    Failure, FailureClass, IgnorePaths, OnDoubt, OnExhausted, Operation, OperationId, OperationStatus,
    PerRequester, Priority, ProbeAnswer, Recovery, Resolution, RetryAnswer, RetryPolicy, Role, Ruling, RunId,
    RunResult, RunStatus, StepStatus, TableRef, Timestamp, WorkspaceId,
};
pub use hapax_engine::runtime::{
    ActionAnswer, Announcer, AuditEntry, CodeOnlyHost, CrashPoint, CrashPointWatcher, CreatePromiseOutcome,
    Delivery, Doubt, DoubtPage, Engine, EngineOptions, EntityHost, EntityView, Error, JanitorReport, Module,
    NewPromise, RunHandle, SettlePromiseOutcome, Start, Stats, StepCall, TargetOptions, Transition,
    TransitionOutcome, WorkflowOptions,
};
pub use hapax_engine::{clock, effects, fsck, lease, limits, memory, model, store, testing};
#[cfg(feature = "postgres")]
pub use hapax_store_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use hapax_store_sqlite as sqlite;
pub use node_identity::{EnterError, IdentityError, NodeIdentity};
pub use open::{Hapax, HapaxBuilder, OpenError, open_store};
pub use schema::{find_schema, migrate};
pub use spans::{days, hours, minutes, seconds};

/// What a workflow or a step returns: a value, or the [`Failure`] that any error becomes with `?`.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
