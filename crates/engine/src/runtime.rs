//! Drives runs: starts them, holds their leases, runs their steps, and writes down what happened.

mod activation;
mod announcer;
mod approvals;
mod attention;
pub(crate) mod change;
mod child_pace;
mod doubts;
pub(crate) mod drive;
mod engine;
mod entities;
mod error;
mod families;
mod granted;
mod housekeeping;
mod inner;
mod input_check;
mod late;
mod ledger;
mod options;
mod outbox;
mod outside_lease;
mod point;
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
mod targets;
pub(crate) mod transact;
mod waiters;
pub(crate) mod waits;

pub use activation::Computing;
pub use announcer::Announcer;
pub use approvals::ApprovalAnswer;
pub use attention::AttentionPage;
pub use doubts::{AuditEntry, Doubt, DoubtPage};
pub use engine::Engine;
pub use entities::{
    Answer, CHANGED_MEANWHILE, CodeOnly, EntityHost, EntityView, Freed, LoadEntityWorkflow, Module, Outcome,
    StepCall, Transition,
};
pub use error::Error;
pub use input_check::{InputCheck, InputProblem};
pub use ledger::{LedgerPage, LedgerPlace};
pub use options::EngineOptions;
pub use point::{Point, PointWatcher};
pub use promises::{Made, NewPromise, Settling};
pub use registry::{KeyNeed, WorkflowOptions};
pub use run_handle::RunHandle;
pub use start::{PreparedStart, Start};
pub use stats::Stats;
pub use targets::{Delivery, TargetOptions};

pub(crate) use activation::Activation;
pub(crate) use inner::Inner;
