//! One operation on its way through a lane: a request, later its outcome, and its caller.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hapax_engine::model::{
    BeginRequest, IdempotencyKey, JournalEntry, Name, PromiseId, RunId, SignalId, WorkspaceId,
};
use hapax_engine::store::{KeyRef, KeyUsage, StoreError, StoreResult};
use tokio::sync::oneshot;

use crate::entities::EntityNeeds;
use crate::fault::Fault;
use crate::requests::RequestPlace;
use crate::session::Session;

/// Rows that the operations of a transaction need: locked and read for all of them at once, in one
/// order.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Workflows of new runs, each with its workspace: they must have numbers.
    pub(crate) names: Vec<(WorkspaceId, Name)>,
    /// Workspaces of new rows without a run: they must have numbers.
    pub(crate) workspaces: Vec<WorkspaceId>,
    pub(crate) runs: Vec<(WorkspaceId, RunId)>,
    /// Families, by their roots.
    pub(crate) families: Vec<(WorkspaceId, RunId)>,
    /// With the runs that wait for them, and the keys that name them.
    pub(crate) promises: Vec<(WorkspaceId, PromiseId)>,
    /// Keys of promises, with the promises that they name.
    pub(crate) promise_keys: Vec<(WorkspaceId, IdempotencyKey)>,
    pub(crate) signal_ids: Vec<(WorkspaceId, RunId, SignalId)>,
    /// Incoming requests.
    pub(crate) begins: Vec<BeginRequest>,
    /// Other requests to read.
    pub(crate) requests: Vec<RequestPlace>,
    /// Counts to add to the use of keys.
    pub(crate) uses: BTreeMap<KeyRef, KeyUsage>,
    /// Entities and operations.
    pub(crate) entities: EntityNeeds,
}

impl Needs {
    /// Adds the journal entries of a write on a run of the workspace `here`; nearly always of that
    /// workspace.
    pub(crate) fn bring(&mut self, here: &WorkspaceId, notes: &[JournalEntry]) {
        let elsewhere = notes.iter().map(|note| &note.workspace).filter(|workspace| *workspace != here);
        self.workspaces.extend(elsewhere.cloned());
    }
}

/// Arrival time of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EnqueuedAt(Instant);

impl EnqueuedAt {
    pub(crate) fn now() -> Self {
        EnqueuedAt(Instant::now())
    }

    /// Returns true if it has waited too long.
    pub(crate) fn is_over(self, patience: Duration) -> bool {
        self.0.elapsed() > patience
    }

    /// Error for an operation that waited too long. It was not sent, so the caller may retry.
    pub(crate) fn too_long(patience: Duration) -> StoreError {
        StoreError::Unavailable(format!(
            "it waited {patience:?} for its turn; the database is slow, asked too much, or a table is locked"
        ))
    }
}

/// Channel for the outcome.
pub(crate) type Reply<T> = oneshot::Sender<StoreResult<T>>;

/// A request that reads before it writes. It must decide before it writes, so an expected outcome
/// needs no undo.
pub(crate) trait Verb: Send + Sync + 'static {
    /// Outcome of the request.
    type Outcome: Send + 'static;

    /// Declares the rows it needs, as far as known.
    fn foresee(&self, needs: &mut Needs);

    /// Executes it inside the transaction of the session. May be called again after a rollback.
    fn apply(&self, session: &mut Session<'_>) -> impl Future<Output = Result<Self::Outcome, Fault>> + Send;
}

/// A job with its verb's type erased.
pub(crate) trait Task: Send + Sync {
    /// See [`Verb::foresee`].
    fn foresee(&self, needs: &mut Needs);

    /// Arrival time.
    fn entered(&self) -> EnqueuedAt;

    /// Executes it and keeps its outcome for later. An error requests a rollback.
    fn apply<'a>(&'a mut self, session: &'a mut Session<'_>) -> BoxFuture<'a, Result<(), Fault>>;

    /// Sends the outcome; call only once it is durable.
    fn acknowledge(self: Box<Self>);

    /// Sends the error.
    fn fail(self: Box<Self>, error: StoreError);
}

pub(crate) struct Job<V: Verb> {
    request: V,
    outcome: Option<StoreResult<V::Outcome>>,
    reply: Reply<V::Outcome>,
    entered: EnqueuedAt,
}

impl<V: Verb> Job<V>
where
    V::Outcome: Sync,
{
    /// A job that sends its outcome to `reply`.
    pub(crate) fn boxed(request: V, reply: Reply<V::Outcome>, entered: EnqueuedAt) -> Box<dyn Task> {
        Box::new(Job { request, outcome: None, reply, entered })
    }
}

impl<V: Verb> Task for Job<V>
where
    V::Outcome: Sync,
{
    fn foresee(&self, needs: &mut Needs) {
        self.request.foresee(needs);
    }

    fn entered(&self) -> EnqueuedAt {
        self.entered
    }

    fn apply<'a>(&'a mut self, session: &'a mut Session<'_>) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            // A panic is a bug in this store. It must not end the lane or affect the other callers.
            let applied = AssertUnwindSafe(self.request.apply(session)).catch_unwind().await;
            self.outcome = Some(match applied {
                Ok(Ok(outcome)) => Ok(outcome),
                Ok(Err(Fault::Refused(text))) => Err(StoreError::Refused(text)),
                Ok(Err(fault)) => return Err(fault),
                Err(_) => {
                    return Err(Fault::Broken(
                        "the store failed on this request; nothing was written".into(),
                    ));
                }
            });
            Ok(())
        })
    }

    fn acknowledge(self: Box<Self>) {
        let outcome = self.outcome.unwrap_or_else(|| Err(StoreError::Unknown("no outcome was kept".into())));
        // A caller that stopped waiting will ask again.
        let _ = self.reply.send(outcome);
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}
