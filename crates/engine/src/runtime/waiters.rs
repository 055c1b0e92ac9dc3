//! Callers in this process that wait for the end of a run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::model::{RunId, RunResult};

/// Registry of waiters. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Waiters(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    next: u64,
    by_run: HashMap<RunId, BTreeMap<u64, oneshot::Sender<RunResult>>>,
}

/// One waiting caller. Dropping it removes it from the registry.
pub(crate) struct Waiter {
    waiters: Waiters,
    run: RunId,
    place: u64,
    result_rx: oneshot::Receiver<RunResult>,
}

impl Waiters {
    pub(crate) fn wait_for(&self, run: RunId) -> Waiter {
        let (result_tx, result_rx) = oneshot::channel();
        let mut waiting = self.0.lock().expect("no holder panics");
        let place = waiting.next;
        waiting.next += 1;
        waiting.by_run.entry(run).or_default().insert(place, result_tx);
        Waiter { waiters: self.clone(), run, place, result_rx }
    }

    pub(crate) fn notify(&self, run: RunId, result: &RunResult) {
        let callers = self.0.lock().expect("no holder panics").by_run.remove(&run);
        for caller in callers.into_iter().flat_map(BTreeMap::into_values) {
            // The caller may have stopped waiting.
            let _ = caller.send(result.clone());
        }
    }

    /// Number of runs with waiters.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("no holder panics").by_run.len()
    }
}

impl Waiter {
    /// Waits for the result; `None` if it will not come this way any more.
    pub(crate) async fn result(&mut self) -> Option<RunResult> {
        (&mut self.result_rx).await.ok()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.waiters.0.lock().expect("no holder panics");
        if let Some(callers) = waiting.by_run.get_mut(&self.run) {
            callers.remove(&self.place);
            if callers.is_empty() {
                waiting.by_run.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Payload, Timestamp};

    #[tokio::test]
    async fn a_waiter_is_forgotten_however_it_ends() {
        let waiters = Waiters::default();
        let run = RunId::new(Timestamp::from_millis(0));
        let (first, mut second) = (waiters.wait_for(run), waiters.wait_for(run));
        drop(first);
        assert_eq!(waiters.len(), 1);
        let result = RunResult::Completed(Payload::of(&7).unwrap());
        waiters.notify(run, &result);
        assert_eq!(second.result().await, Some(result));
        assert_eq!(waiters.len(), 0);
        let third = waiters.wait_for(run);
        drop(second);
        assert_eq!(waiters.len(), 1, "another one that waits is not forgotten with it");
        drop(third);
        assert_eq!(waiters.len(), 0);
    }
}
