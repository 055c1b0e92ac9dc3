//! Expensive evaluations take turns: a few at a time, off the async workers, and round-robin among workspaces.
//!
//! An evaluation of up to about a millisecond runs in place. A more expensive one starts again when it gets a turn, on
//! a thread that the runtime has released as a worker. Fuel decides between the two, so it is the same in every replay.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex};

use hapax_engine::model::WorkspaceId;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::expression::within_fuel;
use crate::limits::{CORES_PER_EVALUATION, INLINE_FUEL, MAX_TOGETHER_FUEL};

/// The turns of this process.
static TURNS: LazyLock<EvaluationSlots> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    EvaluationSlots::new((cores / CORES_PER_EVALUATION).max(1))
});

/// Evaluates expressions of a workspace: in place if they are cheap, otherwise in the workspace's turn.
pub async fn evaluate_fairly<T>(workspace: &WorkspaceId, evaluate: impl Fn() -> T) -> T {
    evaluate_guarded(workspace, || (), evaluate).await
}

/// Like [`evaluate_fairly`]; `guard` creates a value to hold while an expensive evaluation waits and runs.
pub(crate) async fn evaluate_guarded<T, G>(
    workspace: &WorkspaceId,
    guard: impl FnOnce() -> G,
    evaluate: impl Fn() -> T,
) -> T {
    if let (value, true) = within_fuel(INLINE_FUEL, &evaluate) {
        return value;
    }
    let _guard = guard();
    let _turn = TURNS.take(workspace).await;
    let work = || within_fuel(MAX_TOGETHER_FUEL, &evaluate).0;
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Hands out a number of turns, round-robin among the waiting workspaces.
#[derive(Clone)]
struct EvaluationSlots(Arc<Mutex<Waiting>>);

struct Waiting {
    free: usize,
    /// Workspaces in the order of their next turn.
    order: VecDeque<WorkspaceId>,
    queues: BTreeMap<WorkspaceId, VecDeque<oneshot::Sender<EvaluationSlot>>>,
}

/// The right to evaluate; dropping it returns the turn.
struct EvaluationSlot(Option<EvaluationSlots>);

impl EvaluationSlots {
    fn new(free: usize) -> Self {
        EvaluationSlots(Arc::new(Mutex::new(Waiting {
            free,
            order: VecDeque::new(),
            queues: BTreeMap::new(),
        })))
    }

    async fn take(&self, workspace: &WorkspaceId) -> EvaluationSlot {
        let told = {
            let mut waiting = self.0.lock().expect("no holder panics");
            if waiting.free > 0 {
                waiting.free -= 1;
                return EvaluationSlot(Some(self.clone()));
            }
            let (tell, told) = oneshot::channel();
            let queue = waiting.queues.entry(workspace.clone()).or_default();
            // Removes waiters that were dropped, so that the queue holds only live ones.
            queue.retain(|one| !one.is_closed());
            let is_new = queue.is_empty();
            queue.push_back(tell);
            if is_new && !waiting.order.contains(workspace) {
                waiting.order.push_back(workspace.clone());
            }
            told
        };
        // The sender is dropped only with the turns themselves, which are static.
        told.await.unwrap_or(EvaluationSlot(None))
    }

    fn give_back(&self) {
        let mut turn = EvaluationSlot(Some(self.clone()));
        loop {
            let next = {
                let mut waiting = self.0.lock().expect("no holder panics");
                match waiting.next() {
                    Some(next) => next,
                    None => {
                        waiting.free += 1;
                        turn.0 = None;
                        return;
                    }
                }
            };
            match next.send(turn) {
                Ok(()) => return,
                // The waiter was dropped.
                Err(returned) => turn = returned,
            }
        }
    }
}

impl Waiting {
    fn next(&mut self) -> Option<oneshot::Sender<EvaluationSlot>> {
        while let Some(workspace) = self.order.pop_front() {
            let Some(queue) = self.queues.get_mut(&workspace) else { continue };
            let next = queue.pop_front();
            match queue.is_empty() {
                true => drop(self.queues.remove(&workspace)),
                false => self.order.push_back(workspace),
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl Drop for EvaluationSlot {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn workspace(name: &str) -> WorkspaceId {
        WorkspaceId::new(name).unwrap()
    }

    #[tokio::test]
    async fn workspaces_take_turns_whoever_asks_more() {
        let turns = EvaluationSlots::new(1);
        let held = turns.take(&workspace("a")).await;
        let served: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut waiters = Vec::new();
        for name in ["a", "a", "a", "a", "b", "c", "b"] {
            let (turns, served) = (turns.clone(), served.clone());
            waiters.push(tokio::spawn(async move {
                let _turn = turns.take(&workspace(name)).await;
                served.lock().unwrap().push(name.to_string());
            }));
            tokio::task::yield_now().await;
        }
        drop(held);
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert_eq!(*served.lock().unwrap(), ["a", "b", "c", "a", "b", "a", "a"]);
        assert_eq!(turns.0.lock().unwrap().free, 1);
        assert!(turns.0.lock().unwrap().queues.is_empty());
    }

    #[tokio::test]
    async fn a_turn_is_lost_to_nobody_who_stopped_waiting() {
        let turns = EvaluationSlots::new(1);
        let held = turns.take(&workspace("a")).await;
        let mut context = Context::from_waker(Waker::noop());
        {
            let (a, b) = (workspace("a"), workspace("b"));
            let mut told = pin!(turns.take(&a));
            assert!(told.as_mut().poll(&mut context).is_pending());
            let mut untold = pin!(turns.take(&b));
            assert!(untold.as_mut().poll(&mut context).is_pending());
            // One waiter gets the turn and is dropped before it learns of it; the other is dropped before.
            drop(held);
        }
        let held = turns.take(&workspace("c")).await;
        let mut gone = Box::pin({
            let turns = turns.clone();
            async move { drop(turns.take(&workspace("d")).await) }
        });
        assert!(matches!(gone.as_mut().poll(&mut context), Poll::Pending));
        drop(gone);
        drop(held);
        assert_eq!(turns.0.lock().unwrap().free, 1);
    }
}
