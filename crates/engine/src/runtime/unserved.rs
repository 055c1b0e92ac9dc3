//! Runs that were granted here though their workflow is not: they are left to others, for longer each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::active::Active;
use super::change::{Base, Closing, build};
use super::inner::Inner;
use crate::limits::{MAX_UNSERVED, MAX_UNSERVED_RUN_FOR, UNSERVED_RUN_FOR};
use crate::model::{RunHead, WorkflowRef, WorkspaceId};

/// How often in a row runs of a workflow could not be driven here.
#[derive(Default)]
pub(crate) struct Unserved(Mutex<HashMap<(WorkspaceId, WorkflowRef), u32>>);

impl Unserved {
    /// How long to leave its runs to others this time.
    fn next_pause(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> Duration {
        let mut times = self.0.lock().expect("no holder panics");
        if times.len() >= MAX_UNSERVED {
            times.clear();
        }
        let times = times.entry((workspace.clone(), workflow.clone())).or_default();
        let pause = UNSERVED_RUN_FOR.saturating_mul(1 << (*times).min(16)).min(MAX_UNSERVED_RUN_FOR);
        *times = times.saturating_add(1);
        pause
    }

    /// Its workflow is here.
    pub(crate) fn forget(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) {
        let mut times = self.0.lock().expect("no holder panics");
        if !times.is_empty() {
            times.remove(&(workspace.clone(), workflow.clone()));
        }
    }
}

/// Gives the lease of a run back that cannot be driven here. It parks for a moment instead of being due at once: this engine would be
/// granted it again. A lease that is left to run out would count as a stall, and a few of those set the run aside.
pub(crate) async fn give_back(inner: &Arc<Inner>, active: &Active, head: &RunHead) {
    let facts = &head.facts;
    let pause = inner.unserved.next_pause(&facts.workspace, &facts.workflow);
    let now = inner.store.now();
    let closing = Closing::Wait { wake_at: Some(now.plus(pause)), arrivals_seen: head.arrivals };
    let announce = inner.subscribers(&facts.workspace);
    tracing::error!(
        run = %active.run, workflow = %facts.workflow, workspace = %facts.workspace,
        "granted a run whose workflow is not registered here; left to others for {pause:?}"
    );
    let base = Base { head, open: &HashMap::new(), is_hiding: false, heeds_cancel: false };
    let written = match build(&base, &[], &closing, announce, now) {
        Ok(advance) => {
            inner.answer(inner.store.advance_run(advance)).await.map(drop).map_err(|e| e.to_string())
        }
        Err(illegal) => Err(illegal.to_string()),
    };
    if let Err(error) = written {
        tracing::warn!(run = %active.run, %error, "the lease could not be given back; it ends by itself");
    }
    inner.look_by(now.plus(pause));
}
