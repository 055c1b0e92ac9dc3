//! Refused sign-ins in the audit log. Anybody can cause them, so one entry covers all of a minute.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

use hapax_engine::model::{Actor, JournalEntry, JournalEvent, Origin, Role, WorkspaceId};
use hapax_engine::store::Store;
use tokio::sync::Notify;

use crate::identity::INSTALLATION;
use crate::limits::{MAX_REFUSED_SIGN_INS_DESCRIBED, REFUSED_SIGN_INS_EVERY};

/// Counts refused sign-ins until they are written.
#[derive(Debug)]
pub(crate) struct RefusedSignIns {
    store: Arc<dyn Store>,
    waiting: Mutex<Waiting>,
    arrived: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Waiting {
    times: u64,
    examples: Vec<String>,
}

impl RefusedSignIns {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        RefusedSignIns { store, waiting: Mutex::default(), arrived: Arc::default() }
    }

    /// Counts a refused sign-in.
    pub(crate) fn note(&self, address: Option<IpAddr>, why: String) {
        {
            let mut waiting = self.waiting.lock().expect("no holder panics");
            waiting.times = waiting.times.saturating_add(1);
            if waiting.examples.len() < MAX_REFUSED_SIGN_INS_DESCRIBED {
                let from = address.map(|address| format!("{address}: ")).unwrap_or_default();
                waiting.examples.push(format!("{from}{why}"));
            }
        }
        self.arrived.notify_one();
    }

    /// Writes the first one at once, and all that follow within a minute together.
    pub(crate) async fn keep_writing(this: Weak<Self>, pass: impl Fn()) {
        let Some(arrived) = this.upgrade().map(|refused| refused.arrived.clone()) else { return };
        loop {
            // The server may end while nobody is refused.
            let waited = tokio::time::timeout(REFUSED_SIGN_INS_EVERY, arrived.notified()).await;
            let Some(refused) = this.upgrade() else { return };
            pass();
            if waited.is_ok() {
                refused.write().await;
                drop(refused);
                tokio::time::sleep(REFUSED_SIGN_INS_EVERY).await;
            }
        }
    }

    async fn write(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().expect("no holder panics"));
        if waiting.times == 0 {
            return;
        }
        let workspace = WorkspaceId::new(INSTALLATION).expect("a valid literal");
        // The audit log holds what people did, and nobody knows who these were.
        let origin = Origin { credential: "none".into(), role: "none".into(), ..Origin::default() };
        let nobody = Actor { origin: Some(origin), ..Actor::new("nobody", Role::Operator) };
        let what = JournalEvent::SignInsRefused { times: waiting.times, examples: waiting.examples.clone() };
        let entry = JournalEntry::on_workspace(workspace, nobody, self.store.now(), what);
        if let Err(error) = self.store.append_journal(vec![entry]).await {
            tracing::warn!(%error, times = waiting.times, "refused sign-ins were not written to the audit log");
            let mut newer = self.waiting.lock().expect("no holder panics");
            newer.times = newer.times.saturating_add(waiting.times);
            newer.examples.splice(0..0, waiting.examples);
            newer.examples.truncate(MAX_REFUSED_SIGN_INS_DESCRIBED);
            drop(newer);
            self.arrived.notify_one();
        }
    }
}
