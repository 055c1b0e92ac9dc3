//! One operation on its way through the writer: a request, later its outcome, and who waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hapax_engine::store::{StoreError, StoreResult};
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::session::Session;

/// A request that writes. It must decide before it writes, so that an expected outcome leaves nothing to undo.
pub(crate) trait Verb: Send + 'static {
    /// Outcome of the request.
    type Outcome: Send + 'static;
    /// Does it touch only a few rows? Then it may be written on the caller's thread. User work and
    /// table scans are not brief.
    const IS_BRIEF: bool = true;

    /// Carries it out inside the transaction of the session. May be called again after a rollback.
    fn apply(&self, session: &mut Session<'_, '_>) -> Result<Self::Outcome, Fault>;
}

/// A job whose verb is not known any more.
pub(crate) trait Task: Send {
    /// Carries it out and keeps its outcome for later. An error asks for a rollback.
    fn apply(&mut self, session: &mut Session<'_, '_>) -> Result<(), Fault>;

    /// Tells the outcome; only to be called once it is durable.
    fn acknowledge(self: Box<Self>);

    /// Tells that there is none.
    fn fail(self: Box<Self>, error: StoreError);
}

pub(crate) struct Job<V: Verb> {
    request: V,
    outcome: Option<StoreResult<V::Outcome>>,
    reply: oneshot::Sender<StoreResult<V::Outcome>>,
}

impl<V: Verb> Job<V> {
    /// A job and the receiver of its outcome.
    pub(crate) fn with_reply(request: V) -> (Box<dyn Task>, oneshot::Receiver<StoreResult<V::Outcome>>) {
        let (reply, told) = oneshot::channel();
        (Box::new(Job { request, outcome: None, reply }), told)
    }
}

impl<V: Verb> Task for Job<V> {
    fn apply(&mut self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
        // A panic is a fault of this store; it must not take the writer and the other callers with it.
        let applied = catch_unwind(AssertUnwindSafe(|| self.request.apply(session)));
        self.outcome = Some(match applied {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(Fault::Refused(text))) => Err(StoreError::Refused(text)),
            Ok(Err(fault)) => return Err(fault),
            Err(_) => {
                return Err(Fault::Broken("the store failed on this request; nothing was written".into()));
            }
        });
        Ok(())
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
