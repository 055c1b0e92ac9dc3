#![doc = include_str!("../../../README.md")]

mod backend;
mod node_identity;
mod open;
mod run_handle;
mod schema;
mod settled;
mod spans;
mod start;
mod take_step;

pub use backend::CreatedEntity;

/// Handle of an engine's own operations ([`Hapax::engine`]).
pub use hapax_engine::RunHandle as EngineRunHandle;
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
    NewPromise, SettlePromiseOutcome, Stats, StepCall, TargetOptions, Transition, TransitionOutcome,
    WorkflowOptions,
};
pub use hapax_engine::{clock, effects, fsck, lease, limits, memory, model, store, testing};
#[cfg(feature = "remote")]
pub use hapax_remote::TaskCall;
#[cfg(feature = "postgres")]
pub use hapax_store_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use hapax_store_sqlite as sqlite;
pub use node_identity::{EnterError, IdentityError, NodeIdentity};
pub use open::{Hapax, HapaxBuilder, OpenError, open_store};
pub use run_handle::RunHandle;
pub use schema::{find_schema, migrate};
pub use settled::Settled;
pub use spans::{days, hours, minutes, seconds};
pub use start::Start;
pub use take_step::{StepOutcome, TakeStep};

/// What a workflow or a step returns: a value, or the [`Failure`] that any error becomes with `?`.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
