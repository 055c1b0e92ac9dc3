//! Runs workflows: starts runs, holds their leases, executes their steps, and commits the results.

mod activation;
mod announcer;
mod approvals;
mod attention;
mod background;
mod child_rate_limit;
mod crash_point;
mod doubts;
pub(crate) mod drive;
mod engine;
mod entities;
mod error;
mod external_lease;
mod families;
mod inner;
mod input_check;
mod late_outcomes;
mod ledger;
mod maintenance;
mod options;
mod outbox;
pub(crate) mod pending_change;
mod promises;
mod refused_children;
mod registry;
mod renewal;
pub(crate) mod replay_state;
mod run_handle;
mod run_slot;
mod scheduler;
mod start;
pub(crate) mod stats;
mod supervisor;
mod targets;
pub(crate) mod transact;
mod waiters;
pub(crate) mod waits;

pub use activation::ComputationGuard;
pub use announcer::Announcer;
pub use approvals::ApprovalAnswer;
pub use attention::AttentionPage;
pub use background::{BackgroundLoop, BackgroundLoops, LoopReporter};
pub use crash_point::{CrashPoint, CrashPointWatcher};
pub use doubts::{AuditEntry, Doubt, DoubtPage, fresh_request};
pub use engine::Engine;
pub use entities::{
    ActionAnswer, ActionsElsewhere, CONCURRENCY_ERROR, CodeOnlyHost, EntityHost, EntityView, JanitorReport,
    LoadEntityWorkflow, Module, StepCall, Transition, TransitionOutcome,
};
pub use error::Error;
pub use input_check::{InputCheck, InputProblem};
pub use ledger::{LedgerPage, LedgerPlace};
pub use options::EngineOptions;
pub use promises::{CreatePromiseOutcome, NewPromise, SettlePromiseOutcome};
pub use registry::{KeyRequirement, WorkflowOptions};
pub use run_handle::RunHandle;
pub use start::{AnsweredRequest, PreparedStart, Start};
pub use stats::Stats;
pub use targets::{Delivery, TargetOptions};

pub(crate) use activation::Activation;
pub(crate) use drive::UserCode;
pub(crate) use inner::Inner;
pub(crate) use registry::{Declared, Workflow};
