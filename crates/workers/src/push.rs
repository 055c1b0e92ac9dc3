//! Push workers: functions that cannot poll. The server opens a session for each, and sends its messages as requests.
//!
//! A function may forget everything between two requests. So a request about a run carries every exchange of its
//! activation so far, and the function plays them again before it looks at what is new.

mod carry;
mod conversation;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hapax_api as api;
use hapax_api::{Problem, RawJson};
use hapax_engine::clock::Clock;
use hapax_engine::model::WorkspaceId;
use serde::Deserialize;

use crate::caller::WorkerCaller;
use crate::limits::{
    FIRST_PUSH_PAUSE, MAX_PUSH_PAUSE, MAX_PUSHED_ACTIVATIONS, MIN_PUSH_HOLD, PUSH_FAILURES_TO_REST,
};
use crate::push::carry::{Carried, Errand, ErrandKind, carry};
use crate::push::conversation::Conversation;
use crate::workers::Workers;

/// Result of a request to a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// It answered with this body.
    Answered(String),
    /// It did not begin anything: the request did not leave, or was refused before any code ran.
    NotBegun(String),
    /// It may have done anything.
    Unknown(String),
}

/// Sends requests to one function.
pub trait PushFunction: Send + Sync + 'static {
    /// Sends `body` once. `may_send` is asked right before the first byte leaves. `id` is the same when the same work is
    /// sent again after [`Pushed::NotBegun`].
    fn push(
        &self,
        id: String,
        body: String,
        may_send: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> BoxFuture<'static, Pushed>;
}

/// One function and its names.
pub struct PushTarget {
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Names and limits that its session announces.
    pub facts: api::OpenWorkerSession,
    /// Reaches it.
    pub function: Arc<dyn PushFunction>,
}

/// Sends a function its work for as long as there are workers. `passed` is called after everything that happens.
pub async fn keep_pushing(workers: Weak<Workers>, target: Arc<PushTarget>, passed: impl Fn() + Send + Sync) {
    let mut pause = FIRST_PUSH_PAUSE;
    loop {
        let Some(strong) = workers.upgrade() else { return };
        let clock = strong.engine.clock();
        let opened = strong.open(WorkerCaller::unbound(&target.workspace), target.facts.clone());
        drop(strong);
        match opened {
            Ok(opened) => {
                pause = FIRST_PUSH_PAUSE;
                let mut driver =
                    Driver::new(workers.clone(), target.clone(), clock.clone(), opened.session_id);
                driver.run(&passed).await;
            }
            Err(problem) => {
                let name = target.facts.name.as_str();
                tracing::warn!(push_worker = name, %problem, "no session could be opened; trying again");
                pause = (pause * 2).min(MAX_PUSH_PAUSE);
            }
        }
        clock.sleep(pause).await;
    }
}

/// Ends a session when its driver ends, however it ends.
struct SessionGuard {
    workers: Weak<Workers>,
    workspace: WorkspaceId,
    id: String,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.upgrade() {
            let _ = workers.close(WorkerCaller::unbound(&self.workspace), &self.id);
        }
    }
}

/// State shared by the driver and its requests.
pub(crate) struct Shared {
    pub(crate) workers: Weak<Workers>,
    pub(crate) target: Arc<PushTarget>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) session: String,
    /// Number of commits so far.
    pub(crate) commits: AtomicU64,
}

/// Event that the driver waits for.
enum Event {
    Polled(Option<Result<Heard, Problem>>),
    Carried(Box<Carried>),
    /// A pause is over.
    Woken,
}

/// An answer of the session.
pub(crate) struct Heard {
    /// When the right to begin effects ends, by the clock of this process.
    pub(crate) held_until: Duration,
    pub(crate) messages: Vec<RawJson>,
}

impl Heard {
    /// Reads the answer to a request that left at `left_at`.
    pub(crate) fn read(left_at: Duration, answer: &[u8]) -> Self {
        let answer: api::WorkerMessages =
            serde_json::from_slice(answer).expect("sessions answer with messages");
        Heard { held_until: left_at + answer.hold_for.0, messages: answer.messages }
    }
}

/// Members of a message that the driver looks at.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) run: String,
    #[serde(default)]
    pub(crate) activation: String,
    #[serde(default)]
    pub(crate) call: Option<String>,
    #[serde(default)]
    pub(crate) op: u32,
    #[serde(default)]
    pub(crate) attempt: u32,
    #[serde(default, rename = "do")]
    pub(crate) what: String,
    #[serde(default)]
    pub(crate) log_more: bool,
}

/// A message that waits to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) head: Head,
    pub(crate) json: RawJson,
}

struct Driver {
    shared: Arc<Shared>,
    events: FuturesUnordered<BoxFuture<'static, Event>>,
    runs: HashMap<String, Conversation>,
    calls: VecDeque<Told>,
    /// Requests under way.
    under_way: usize,
    held_until: Duration,
    /// Failed requests in a row.
    failures: u32,
    rest_until: Duration,
    last_number: u64,
    _guard: SessionGuard,
}

impl Driver {
    fn new(workers: Weak<Workers>, target: Arc<PushTarget>, clock: Arc<dyn Clock>, session: String) -> Self {
        let workspace = target.workspace.clone();
        let guard = SessionGuard { workers: workers.clone(), workspace, id: session.clone() };
        Driver {
            shared: Arc::new(Shared { workers, target, clock, session, commits: AtomicU64::new(0) }),
            events: FuturesUnordered::new(),
            runs: HashMap::new(),
            calls: VecDeque::new(),
            under_way: 0,
            held_until: Duration::ZERO,
            failures: 0,
            rest_until: Duration::ZERO,
            last_number: 0,
            _guard: guard,
        }
    }

    /// Carries messages to the function until the session is over.
    async fn run(&mut self, passed: &(impl Fn() + Sync)) {
        self.poll(Duration::ZERO);
        while let Some(event) = self.events.next().await {
            passed();
            match event {
                Event::Polled(Some(Ok(heard))) => {
                    self.hear(heard);
                    self.poll(Duration::ZERO);
                }
                Event::Polled(Some(Err(problem))) if problem.retryable => self.poll(FIRST_PUSH_PAUSE),
                Event::Polled(_) => return,
                Event::Carried(carried) => {
                    self.under_way -= 1;
                    if !self.take_back(*carried) {
                        return;
                    }
                }
                Event::Woken => {}
            }
            self.send_waiting();
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Number of new activations, attempts and calls that the function can begin.
    fn free(&self) -> u32 {
        let most = self.shared.target.facts.concurrency as usize;
        let waiting = self.calls.len() + self.runs.values().filter(|run| run.has_work()).count();
        let room = most.saturating_sub(self.under_way + waiting);
        let room = match () {
            () if self.shared.clock.monotonic() < self.rest_until => 0,
            () if self.failures >= PUSH_FAILURES_TO_REST => room.min(1),
            () => room,
        };
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    fn poll(&mut self, pause: Duration) {
        let asked = api::PollWorkerSession { sequence: self.next_number(), free: self.free() };
        let shared = self.shared.clone();
        self.events.push(Box::pin(async move {
            shared.clock.sleep(pause).await;
            let Some(workers) = shared.workers.upgrade() else { return Event::Polled(None) };
            let left_at = shared.clock.monotonic();
            let caller = WorkerCaller::unbound(&shared.target.workspace);
            let answer = workers.poll(caller, &shared.session, &asked).await;
            Event::Polled(Some(answer.map(|answer| Heard::read(left_at, &answer))))
        }));
    }

    fn wake_after(&mut self, pause: Duration) {
        let clock = self.shared.clock.clone();
        self.events.push(Box::pin(async move {
            clock.sleep(pause).await;
            Event::Woken
        }));
    }

    fn hear(&mut self, heard: Heard) {
        // A later answer never takes back what an earlier one gave.
        self.held_until = self.held_until.max(heard.held_until);
        for json in heard.messages {
            match serde_json::from_str::<Head>(json.text()) {
                Ok(head) => self.sort_in(Told { head, json }),
                Err(error) => tracing::error!(%error, "a message of a session cannot be read"),
            }
        }
    }

    fn sort_in(&mut self, told: Told) {
        let Head { kind, activation, .. } = &told.head;
        match (kind.as_str(), &told.head.call) {
            ("task" | "action", _) => self.calls.push_back(told),
            ("abort", Some(call)) => self.calls.retain(|waiting| waiting.head.call.as_ref() != Some(call)),
            ("activate", _) => {
                let (activation, number) = (activation.clone(), self.next_number());
                let rest = self.read_rest(&told.head);
                self.runs.insert(activation, Conversation::begun(told, rest, number));
                self.make_room();
            }
            ("drop", _) => _ = self.runs.remove(activation),
            _ => {
                if let Some(run) = self.runs.get_mut(activation) {
                    run.hear(told);
                }
            }
        }
    }

    /// Records that `activate` had no room for, as messages of their own.
    fn read_rest(&self, activate: &Head) -> Vec<RawJson> {
        let Some(workers) = self.shared.workers.upgrade().filter(|_| activate.log_more) else {
            return Vec::new();
        };
        let (workspace, session) = (&self.shared.target.workspace, &self.shared.session);
        let mut pages = Vec::new();
        let mut after = 0;
        let caller = WorkerCaller::unbound(workspace);
        while let Ok(page) = workers.read_log(caller, session, &activate.run, &activate.activation, after) {
            after += page.log.len();
            // The first page is in `activate`.
            if !pages.is_empty() || after > page.log.len() {
                let log = serde_json::json!({ "type": "log", "run": activate.run, "activation": activate.activation, "log": page.log });
                pages.extend(RawJson::from_value(&log));
            }
            if !page.log_more || page.log.is_empty() {
                break;
            }
        }
        pages
    }

    /// Forgets the oldest run that waits, if there are too many. It is replayed when there is something for it.
    fn make_room(&mut self) {
        if self.runs.len() <= MAX_PUSHED_ACTIVATIONS {
            return;
        }
        let idle = self.runs.iter().filter(|(_, run)| run.may_be_forgotten());
        let oldest = idle.min_by_key(|(_, run)| run.number).map(|(activation, _)| activation.clone());
        if let Some(activation) = oldest {
            self.forget(&activation);
        }
    }

    fn forget(&mut self, activation: &str) {
        let Some(run) = self.runs.remove(activation) else { return };
        let (run, activation) = (run.run, activation.to_owned());
        self.start(Errand::evict(run, activation));
    }

    /// Sends all work that is ready.
    fn send_waiting(&mut self) {
        let now = self.shared.clock.monotonic();
        // The next answer of the session gives a longer hold.
        if self.held_until < now + MIN_PUSH_HOLD {
            return;
        }
        let most = self.shared.target.facts.concurrency as usize;
        let ready: Vec<String> = self
            .runs
            .iter()
            .filter(|(_, run)| run.is_ready(now))
            .map(|(activation, _)| activation.clone())
            .collect();
        for activation in ready {
            if self.under_way >= most {
                return;
            }
            let run = self.runs.get_mut(&activation).expect("it was found a moment ago");
            let errand = run.send(activation);
            self.start(errand);
        }
        while self.under_way < most && now >= self.rest_until {
            let Some(told) = self.calls.pop_front() else { return };
            let call = told.head.call.clone().unwrap_or_default();
            self.start(Errand::call(call, told.json));
        }
    }

    fn start(&mut self, mut errand: Errand) {
        self.under_way += 1;
        let number = self.next_number();
        errand.id.get_or_insert_with(|| format!("{}_{number}", self.shared.session));
        errand.free = self.free();
        let (shared, held_until) = (self.shared.clone(), self.held_until);
        self.events.push(Box::pin(async move {
            Event::Carried(Box::new(carry(&shared, errand, held_until).await))
        }));
    }

    /// Records the result of a request. Returns false if the session is over.
    fn take_back(&mut self, carried: Carried) -> bool {
        let Carried { errand, failed, heard, not_begun, is_session_over } = carried;
        if is_session_over {
            return false;
        }
        let pause = self.count(failed.as_deref());
        let not_before = self.shared.clock.monotonic() + pause;
        match (errand.kind, errand.id) {
            (ErrandKind::Call { call, message }, _) if not_begun => {
                let head = Head {
                    kind: "task".into(),
                    run: String::new(),
                    activation: String::new(),
                    call: Some(call),
                    op: 0,
                    attempt: 0,
                    what: String::new(),
                    log_more: false,
                };
                self.calls.push_front(Told { head, json: message });
            }
            (ErrandKind::Run { activation, turns, messages, .. }, id) => {
                if let Some(run) = self.runs.get_mut(&activation) {
                    run.take_back(turns, messages, id.filter(|_| not_begun), not_before);
                    let is_too_long = run.is_too_long() && run.may_be_forgotten();
                    if is_too_long {
                        self.forget(&activation);
                    }
                }
            }
            (ErrandKind::Call { .. } | ErrandKind::Evict { .. }, _) => {}
        }
        if !pause.is_zero() {
            self.wake_after(pause);
        }
        if let Some(heard) = heard {
            self.hear(heard);
        }
        true
    }

    /// Counts a request. Returns the pause before the next one about the same work.
    fn count(&mut self, failed: Option<&str>) -> Duration {
        let Some(why) = failed else {
            self.failures = 0;
            return Duration::ZERO;
        };
        self.failures = self.failures.saturating_add(1);
        let doubled = FIRST_PUSH_PAUSE.saturating_mul(1 << self.failures.min(16).saturating_sub(1));
        let pause = doubled.min(MAX_PUSH_PAUSE);
        let name = self.shared.target.facts.name.as_str();
        tracing::warn!(
            push_worker = name,
            failures = self.failures,
            why,
            "a request to a push worker failed"
        );
        self.rest_until = self.shared.clock.monotonic() + pause;
        pause
    }
}
