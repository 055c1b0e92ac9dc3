//! Wire types, the table of errors, and the typed client.
//!
//! Requests reject unknown fields. Responses may gain fields, so clients ignore unknown ones.
//! Users' values ([`RawJson`], [`JsonObject`]) keep their text, so stored values go out byte for
//! byte.

mod action_token;
mod audit;
#[cfg(feature = "client")]
pub mod client;
mod credential;
mod definition;
mod delivery;
mod doubt;
mod durable_promise;
mod duration;
mod entity;
mod entity_workflow;
mod error_table;
mod event;
pub mod grpc;
mod health;
mod json;
mod key;
mod ledger;
mod node;
mod operation;
mod page;
mod policy;
mod problem;
mod promise;
mod push;
mod received_webhook;
mod run;
mod step;
mod subscription;
mod webhook_source;
mod why;
mod worker;
mod workspace;

pub use action_token::{CreateActionToken, IssuedActionToken};
pub use audit::{AddNote, JournalEntry, JournalKind, Occurrence, RevealRun};
pub use credential::{
    CreateCredential, Credential, IssuedCredential, OfferedNames, RevokeCredential, Role, RotateCredential,
};
pub use definition::{
    ChangeDefinition, CreateDefinition, Definition, DefinitionProblem, DefinitionStatus, DefinitionSummary,
    KeyRule,
};
pub use delivery::{DeliveryStatus, DiscardWebhooks, RedeliverWebhook, RedeliverWebhooks, WebhookDelivery};
pub use doubt::{Actor, ConfirmRuling, Doubt, ProposedRuling, Resolution, ResolveDoubt, ResolvedDoubt};
pub use durable_promise::{
    CompleteDurablePromise, CreateDurablePromise, DurableCompletion, DurablePromise, DurableState,
    DurableValue, NO_TIMEOUT,
};
pub use duration::{DurationText, NotADuration};
pub use entity::{
    AddEntityNote, AllowedAction, CreateEntity, CreatedEntity, Entity, EntityDetail, EntityName, Janitor,
    PendingOperation,
};
pub use entity_workflow::{
    ClaimCover, DiagramFormat, EntityWorkflow, EntityWorkflowSummary, PutEntityWorkflow,
};
pub use error_table::{Code, ERRORS, ErrorKind};
pub use event::{EventKind, RunEvent};
pub use health::{Health, HealthStatus, Readiness, ReadinessCheck};
pub use json::{JsonObject, RawJson};
pub use key::{KeyHolder, KeyRecord, KeyScope, KeyStatus, ReleaseKey, StoredRequest};
pub use ledger::{LedgerAttempt, LedgerClass, LedgerEntry, LedgerOutcome, LedgerRuling};
pub use node::{Node, NodeLoop, NodeSetting, RunLease};
pub use operation::{
    Operation, OperationDetail, OperationResolution, OperationStatus, OverrideStep, ResolveOperation,
    TakeStep, TakenStep,
};
pub use page::{DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS, Page};
pub use policy::{BusinessKeyPolicy, IdempotencyPolicy, PromiseKeyPolicy, RequestKeyPolicy};
pub use problem::{PROBLEM_JSON, Problem};
pub use promise::{
    CreatePromise, CreateSettleToken, EarlySettlement, IssuedSettleToken, KeptSettlement, Promise,
    PromiseStatus, RejectPromise, ResolvePromise, SettleByToken, SettledByToken, SettledPromise,
};
pub use push::{CreatePushWorker, IssuedPushWorker, PushAnswer, PushWorker, PushedTurn, PushedWork};
pub use received_webhook::{
    ReceiptStatus, ReceivedStatus, ReceivedWebhook, ReceivedWebhookSummary, ReprocessWebhooks,
    ReprocessedWebhooks, WebhookActionOutcome, WebhookActionStatus, WebhookChallenge, WebhookOutcome,
    WebhookReceipt,
};
pub use run::{
    AnswerApproval, Attention, AttentionReason, BatchItem, CancelRun, CreateRun, CreateRunBatch, CreatedRun,
    CreatedRunBatch, MAX_BATCH_RUNS, ParentRun, PendingRequest, PlannedEffect, Priority, RetryPlan, RetryRun,
    Run, RunDetail, RunResult, RunStatus, SendSignal, SentSignal, SteerRun,
};
pub use step::{Failure, FailureClass, Step, StepKind, StepStatus};
pub use subscription::{
    ActivationStatus, ChangeSubscription, CreateSubscription, IssuedSubscription, RotateSubscription,
    Subscription, SubscriptionStatus, TestedSubscription, WebhookEvent, WebhookSigning,
};
/// Items of a [`Page`] implement this to describe themselves in OpenAPI.
pub use utoipa::ToSchema;
pub use webhook_source::{
    ChangeWebhookSource, PutWebhookSource, SourceStatus, WebhookSource, WebhookSourceSummary,
};
pub use why::{Why, WhyMatch, WhyMatchKind, WhyReason, WhyRun, WhyWait};
pub use worker::{
    AnnounceWorkerSession, AnnouncedWorkerSession, CommitWorkerSession, OpenWorkerSession,
    OpenedWorkerSession, PollWorkerSession, WorkerLimits, WorkerLogPage, WorkerMessages, WorkerRunItems,
    WorkerSession, WorkerVersionStatus, WorkerWorkflow, WorkerWorkflowVersion,
};
pub use workspace::{CreateWorkspace, Workspace};
