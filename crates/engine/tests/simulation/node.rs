//! One engine's machine as the simulation sees it. It may be dead, frozen, cut off from the store, or have a wrong
//! clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use hapax_engine::clock::{Clock, Sleep, SystemClock};
use hapax_engine::model::{OwnerId, Timestamp};
use tokio::sync::Notify;

#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub slot: usize,
    /// The engine's own id, known from its first request.
    pub owner: OnceLock<OwnerId>,
    standing: Mutex<NodeState>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
struct NodeState {
    dead: bool,
    frozen: bool,
    cut_off: bool,
    hangs: bool,
}

impl Node {
    pub fn new(slot: usize, life: u32) -> Self {
        Node {
            name: format!("n{slot}.{life}"),
            slot,
            owner: OnceLock::new(),
            standing: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut NodeState)) {
        change(&mut self.standing.lock().unwrap());
        self.changed.notify_waiters();
    }

    fn standing(&self) -> NodeState {
        *self.standing.lock().unwrap()
    }

    pub fn die(&self) {
        self.change(|standing| standing.dead = true);
    }

    pub fn freeze(&self, frozen: bool) {
        self.change(|standing| standing.frozen = frozen);
    }

    pub fn cut_off(&self, cut_off: bool) {
        self.change(|standing| standing.cut_off = cut_off);
    }

    /// Notes that one of its requests will never be answered.
    pub fn hang(&self) {
        self.change(|standing| standing.hangs = true);
    }

    pub fn is_dead(&self) -> bool {
        self.standing().dead
    }

    pub fn is_cut_off(&self) -> bool {
        self.standing().cut_off
    }

    pub fn hangs(&self) -> bool {
        self.standing().hangs
    }

    /// Returns at once unless the node is frozen; then it returns when the node thaws or dies.
    pub async fn thawed(&self) {
        self.until(|standing| !standing.frozen || standing.dead).await;
    }

    pub async fn death(&self) {
        self.until(|standing| standing.dead).await;
    }

    async fn until(&self, is_so: impl Fn(NodeState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so(self.standing()) {
                return;
            }
            changed.await;
        }
    }
}

/// The clock of a node. The wall clock may be wrong and may jump. The monotonic clock is correct and keeps running
/// while the node is stopped. Timers of a stopped node fire when it continues.
#[derive(Debug)]
pub struct NodeClock {
    node: Arc<Node>,
    true_time: SystemClock,
    skew_ms: AtomicI64,
}

impl NodeClock {
    pub fn new(node: Arc<Node>, base: Timestamp) -> Self {
        NodeClock { node, true_time: SystemClock::following_tokio(base), skew_ms: AtomicI64::new(0) }
    }

    pub fn set_skew(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.true_time.now().as_millis() + self.skew_ms.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.true_time.monotonic()
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        let skew_ms = self.skew_ms.load(Ordering::Relaxed);
        let sleep = self.true_time.sleep_until(Timestamp::from_millis(at.as_millis() - skew_ms));
        let node = self.node.clone();
        Box::pin(async move {
            sleep.await;
            node.thawed().await;
        })
    }
}
