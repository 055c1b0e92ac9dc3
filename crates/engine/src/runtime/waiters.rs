//! Callers in this process that wait for the end of a run.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::model::{RunId, RunResult};

#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Mutex<HashMap<RunId, Vec<oneshot::Sender<RunResult>>>>,
}

impl Waiters {
    pub(crate) fn wait_for(&self, run: RunId) -> oneshot::Receiver<RunResult> {
        let (tell, told) = oneshot::channel();
        let mut waiting = self.waiting.lock().expect("no holder panics");
        let callers = waiting.entry(run).or_default();
        // Those who have given up must not pile up on a run that never ends.
        callers.retain(|caller| !caller.is_closed());
        callers.push(tell);
        told
    }

    pub(crate) fn tell(&self, run: RunId, result: &RunResult) {
        let callers = self.waiting.lock().expect("no holder panics").remove(&run);
        for caller in callers.into_iter().flatten() {
            // A caller that has given up is no loss.
            let _ = caller.send(result.clone());
        }
    }

    /// Forgets the callers of `run` that have given up.
    pub(crate) fn tidy(&self, run: RunId) {
        let mut waiting = self.waiting.lock().expect("no holder panics");
        if let Some(callers) = waiting.get_mut(&run) {
            callers.retain(|caller| !caller.is_closed());
            if callers.is_empty() {
                waiting.remove(&run);
            }
        }
    }
}
