//! One operation on its way through a lane: a request, later its outcome, and who waits for it.

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

/// What the operations of a transaction will look at: locked and read for all of them at once, in one order.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Workflows that runs are started of, each with its workspace: they must have numbers.
    pub(crate) names: Vec<(WorkspaceId, Name)>,
    /// Workspaces that rows are written of, though no run of theirs is looked at: they must have numbers.
    pub(crate) workspaces: Vec<WorkspaceId>,
    pub(crate) runs: Vec<(WorkspaceId, RunId)>,
    /// Families, by their roots.
    pub(crate) families: Vec<(WorkspaceId, RunId)>,
    /// With the runs that wait for them, and the keys that name them.
    pub(crate) promises: Vec<(WorkspaceId, PromiseId)>,
    /// Keys of promises, with the promises that they name.
    pub(crate) promise_keys: Vec<(WorkspaceId, IdempotencyKey)>,
    pub(crate) signal_ids: Vec<(WorkspaceId, RunId, SignalId)>,
    /// Requests that come in.
    pub(crate) begins: Vec<BeginRequest>,
    /// Other requests that are looked at.
    pub(crate) requests: Vec<RequestPlace>,
    /// What is to be added to the counts of keys.
    pub(crate) uses: BTreeMap<KeyRef, KeyUsage>,
    /// Entities and operations.
    pub(crate) entities: EntityNeeds,
}

impl Needs {
    /// Entries of the journal that a write on a run of the workspace `here` brings; nearly always of that workspace.
    pub(crate) fn bring(&mut self, here: &WorkspaceId, notes: &[JournalEntry]) {
        let elsewhere = notes.iter().map(|note| &note.workspace).filter(|workspace| *workspace != here);
        self.workspaces.extend(elsewhere.cloned());
    }
}

/// When an operation came to the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entered(Instant);

impl Entered {
    pub(crate) fn now() -> Self {
        Entered(Instant::now())
    }

    /// Has it been waiting longer than it may?
    pub(crate) fn is_over(self, patience: Duration) -> bool {
        self.0.elapsed() > patience
    }

    /// What a caller is told whose operation waited that long. It was not sent, so it is free to come again.
    pub(crate) fn too_long(patience: Duration) -> StoreError {
        StoreError::Unavailable(format!(
            "it waited {patience:?} for its turn; the database is slow, asked too much, or a table is locked"
        ))
    }
}

/// Where an outcome is told.
pub(crate) type Reply<T> = oneshot::Sender<StoreResult<T>>;

/// A request that reads before it writes. It must decide before it writes, so that an expected outcome leaves nothing to undo.
pub(crate) trait Verb: Send + Sync + 'static {
    /// What it comes to.
    type Outcome: Send + 'static;

    /// Says what it will look at, as far as that is known.
    fn foresee(&self, needs: &mut Needs);

    /// Carries it out inside the transaction of the session. May be called again after a rollback.
    fn apply(&self, session: &mut Session<'_>) -> impl Future<Output = Result<Self::Outcome, Fault>> + Send;
}

/// A job whose verb is not known any more.
pub(crate) trait Task: Send + Sync {
    /// See [`Verb::foresee`].
    fn foresee(&self, needs: &mut Needs);

    /// When it came.
    fn entered(&self) -> Entered;

    /// Carries it out and keeps its outcome for later. An error asks for a rollback.
    fn apply<'a>(&'a mut self, session: &'a mut Session<'_>) -> BoxFuture<'a, Result<(), Fault>>;

    /// Tells the outcome; only to be called once it is durable.
    fn acknowledge(self: Box<Self>);

    /// Tells that there is none.
    fn fail(self: Box<Self>, error: StoreError);
}

pub(crate) struct Job<V: Verb> {
    request: V,
    outcome: Option<StoreResult<V::Outcome>>,
    reply: Reply<V::Outcome>,
    entered: Entered,
}

impl<V: Verb> Job<V>
where
    V::Outcome: Sync,
{
    /// A job whose outcome is told to `reply`.
    pub(crate) fn boxed(request: V, reply: Reply<V::Outcome>, entered: Entered) -> Box<dyn Task> {
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

    fn entered(&self) -> Entered {
        self.entered
    }

    fn apply<'a>(&'a mut self, session: &'a mut Session<'_>) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            // A panic is a fault of this store; it must not take the lane and the other callers with it.
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
        // A caller that no longer waits will ask again.
        let _ = self.reply.send(outcome);
    }

    fn fail(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}
