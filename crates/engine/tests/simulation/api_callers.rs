//! Callers that send requests with idempotency keys, send webhooks, or change the catalog, each through any reachable
//! node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::Error;
use hapax_engine::model::{
    BeginOutcome, BeginRequest, CatalogKind, Fingerprint, FinishRequest, IdempotencyKey, InboundEvent,
    InboundEventId, InboundEventStatus, LeafDigests, Name, Payload, RequestEnd, RequestId, RequestScope,
    RequestSummary, RunHead, RunId, StoredAnswer, WorkspaceId, WriteToken,
};
use hapax_engine::runtime::AnsweredRequest;
use hapax_engine::store::{
    Catalog, FinishInboundEvent, ListUnprocessedEvents, NewInboundEvent, PutCatalogItem, PutOutcome,
    ReceiveOutcome, RequestKeyStore, Store, StoreError, WebhookStore,
};
use tokio::time::{sleep, timeout};

use super::fleet::{Fleet, SimulatedNode};
use super::program::{EffectBehaviour, GenerationEnd, Op, Program};
use super::program_workflow::WORKFLOW;
use super::watch::at_once;
use super::world::World;

const DAY: Duration = Duration::from_secs(86_400);
const KEYS: usize = 2;
const EVENTS: usize = 3;

pub struct ApiCallers {
    world: Arc<World>,
    fleet: Arc<Fleet>,
    /// Callers still at work.
    callers: AtomicUsize,
    known: Mutex<KnownAnswers>,
}

#[derive(Default)]
struct KnownAnswers {
    /// The operation under each request key.
    requests: BTreeMap<String, RequestId>,
    /// The answer returned under each request key.
    answers: BTreeMap<String, Vec<u8>>,
    /// Events that a node confirmed, with the run that each one started or reached.
    confirmed: BTreeMap<String, Option<RunId>>,
    /// Confirmed changes of the counter in the catalog, and changes with an unknown outcome.
    changes: u64,
    unknown_changes: u64,
}

impl ApiCallers {
    pub fn launch(world: &Arc<World>, fleet: &Arc<Fleet>) -> Arc<Self> {
        let desk = Arc::new(ApiCallers {
            world: world.clone(),
            fleet: fleet.clone(),
            callers: AtomicUsize::new(0),
            known: Mutex::default(),
        });
        for number in 0..KEYS {
            let callers = world.roll(|dice| dice.usize(1..=3));
            (0..callers).for_each(|_| desk.spawn(|desk| desk.request(format!("request-{number}"))));
        }
        for number in 0..EVENTS {
            desk.spawn(|desk| desk.send_event(format!("event-{number}")));
        }
        (0..2).for_each(|_| desk.spawn(ApiCallers::change_catalog));
        desk
    }

    fn spawn<F, Fut>(self: &Arc<Self>, visit: F)
    where
        F: FnOnce(Arc<Self>) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.callers.fetch_add(1, Ordering::Relaxed);
        let (desk, visit) = (self.clone(), visit(self.clone()));
        tokio::spawn(async move {
            visit.await;
            desk.callers.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Number of unfinished callers and events.
    pub fn open(&self) -> usize {
        let known = self.known.lock().unwrap();
        let open =
            known.confirmed.keys().filter(|event| self.status(event) != Some(InboundEventStatus::Applied));
        self.callers.load(Ordering::Relaxed) + open.count()
    }

    fn status(&self, event: &str) -> Option<InboundEventStatus> {
        at_once(WebhookStore::find_inbound_event(&self.world.store, &event_id(event))).map(|hook| hook.status)
    }

    /// Any reachable node, after a delay, with the caller's timeout.
    async fn next_node(&self) -> (SimulatedNode, Duration) {
        loop {
            sleep(self.world.span(Duration::from_millis(400))).await;
            if let Some(member) = self.fleet.any() {
                return (member, self.world.span(self.world.settings.lease_for * 3));
            }
        }
    }

    /// Repeats a call through one node after another until it reports that it is done.
    async fn insist<Fut>(&self, call: impl Fn(SimulatedNode) -> Fut)
    where
        Fut: Future<Output = Result<bool, Error>>,
    {
        sleep(self.world.span(self.world.settings.storm / 2)).await;
        loop {
            let (member, impatience) = self.next_node().await;
            let node = member.node.clone();
            let outcome = tokio::select! {
                biased;
                () = node.death() => continue,
                outcome = timeout(impatience, call(member)) => outcome,
            };
            match outcome {
                Ok(Ok(true)) => return,
                Err(_) | Ok(Ok(false) | Err(Error::ShuttingDown)) => {}
                Ok(Err(Error::Store(error))) if error.is_retryable() => {}
                Ok(Err(error)) => return self.world.break_off(format!("at the front desk: {error}")),
            }
        }
    }

    async fn request(self: Arc<Self>, key: String) {
        self.insist(|member| self.request_once(member, &key)).await;
    }

    /// One request under a key, as a server handles it: one caller begins, the others get its answer byte for byte.
    async fn request_once(&self, member: SimulatedNode, key: &str) -> Result<bool, Error> {
        let (world, store) = (&self.world, member.store.clone());
        let caller = Name::new("caller", "till")?;
        let scope = RequestScope { workspace: WorkspaceId::default(), caller };
        let (stored_key, token) = (IdempotencyKey::new(key)?, WriteToken::fresh());
        let is_other = world.chance(8);
        let body: &[u8] = if is_other { b"{\"other\":1}" } else { b"{}" };
        let request = BeginRequest {
            scope: scope.clone(),
            key: stored_key.clone(),
            id: RequestId::new(world.store.now()),
            fingerprint: Fingerprint::for_request("POST", "/runs", body),
            summary: RequestSummary {
                method: "POST".into(),
                path: "/runs".into(),
                outline: LeafDigests::default(),
            },
            token,
            hold_for: world.settings.lease_for,
        };
        // Send a different request only if the key is in use.
        if is_other && !self.known.lock().unwrap().requests.contains_key(key) {
            return Ok(false);
        }
        if !is_other && world.chance(2) {
            return self.start_in_one_write(member, key, request).await;
        }
        let id = match RequestKeyStore::begin_request(&*store, request).await? {
            BeginOutcome::Conflict(_) if is_other => {
                world.count(|tally| tally.request_conflicts += 1);
                return Ok(false);
            }
            begun if is_other => {
                world.break_off(format!("{key} was begun with another body: {begun:?}"));
                return Ok(true);
            }
            BeginOutcome::Acquired { id, .. } => id,
            BeginOutcome::Answered(record) => {
                world.count(|tally| tally.requests_replayed += 1);
                self.learn_answer(key, &record.state);
                return Ok(true);
            }
            BeginOutcome::InFlight { .. } => return Ok(false),
            unexpected @ (BeginOutcome::Conflict(_) | BeginOutcome::Expired { .. }) => {
                world.break_off(format!("{key}: {unexpected:?}"));
                return Ok(true);
            }
        };
        let first = *self.known.lock().unwrap().requests.entry(key.to_string()).or_insert(id);
        if first != id {
            world.break_off(format!("{key} is operation {first}, and was begun again as {id}"));
        }
        let run = member.engine.start(WORKFLOW, &quick_program()).run_id(id.as_run()).await?;
        world.may_pause(&member.node).await;
        let answer = format!("{} by {} at {}", run.id(), member.node.name, world.elapsed().as_millis());
        let answer = StoredAnswer { status: 201, headers: vec![], body: Some(answer.into_bytes().into()) };
        let end = RequestEnd::Answered { answer, keep_for: DAY, grace: Duration::ZERO };
        RequestKeyStore::finish_request(&*store, FinishRequest { scope, key: stored_key, token, end })
            .await?;
        // The next attempt shows whether it was in time.
        Ok(false)
    }

    /// The key, the run and the answer in one write. If the key is in use, the next attempt learns how.
    async fn start_in_one_write(
        &self,
        member: SimulatedNode,
        key: &str,
        request: BeginRequest,
    ) -> Result<bool, Error> {
        let world = &self.world;
        let id = request.id;
        let (name, at) = (member.node.name.clone(), world.elapsed().as_millis());
        let answer = move |head: &RunHead| {
            let answer = format!("{} by {name} at {at}", head.id());
            StoredAnswer { status: 201, headers: vec![], body: Some(answer.into_bytes().into()) }
        };
        let answered =
            AnsweredRequest { request, answer: Arc::new(answer), keep_for: DAY, grace: Duration::ZERO };
        world.may_pause(&member.node).await;
        let started = member.engine.start(WORKFLOW, &quick_program()).answering(answered).await?;
        let Some((run, answer)) = started else { return Ok(false) };
        world.count(|tally| tally.requests_in_one_write += 1);
        let first = *self.known.lock().unwrap().requests.entry(key.to_string()).or_insert(id);
        if first != id || run.id() != id.as_run() {
            world.break_off(format!("{key} is operation {first}, and was started again as {id}"));
        }
        self.learn_body(key, &answer);
        Ok(world.chance(2))
    }

    fn learn_answer(&self, key: &str, state: &hapax_engine::model::RequestState) {
        let hapax_engine::model::RequestState::Answered { answer, .. } = state else { return };
        self.learn_body(key, answer);
    }

    fn learn_body(&self, key: &str, answer: &StoredAnswer) {
        let body = answer.body.as_deref().unwrap_or_default().to_vec();
        let first = self.known.lock().unwrap().answers.entry(key.to_string()).or_insert(body.clone()).clone();
        if first != body {
            self.world.break_off(format!("{key} was answered in two ways"));
        }
    }

    async fn send_event(self: Arc<Self>, event: String) {
        self.insist(|member| self.send_event_once(member, &event)).await;
        // The sweep may find nothing, because another node may have swept first.
        self.insist(|member| self.sweep(member)).await;
    }

    async fn send_event_once(&self, member: SimulatedNode, event: &str) -> Result<bool, Error> {
        let new = NewInboundEvent {
            id: event_id(event),
            headers: Payload::null(),
            body: event.as_bytes().to_vec(),
        };
        let hook = match WebhookStore::receive_event(&*member.store, new).await? {
            ReceiveOutcome::New(hook) => hook,
            ReceiveOutcome::Duplicate(hook) => {
                self.world.count(|tally| tally.events_repeated += 1);
                hook
            }
        };
        self.known.lock().unwrap().confirmed.entry(event.to_string()).or_default();
        // The sender already has its answer. Processing happens afterwards.
        if let Err(error) = self.process(&member, &hook).await
            && !matches!(error, Error::Store(_) | Error::ShuttingDown)
        {
            return Err(error);
        }
        Ok(self.world.chance(2))
    }

    /// Processes events that no node has processed.
    async fn sweep(&self, member: SimulatedNode) -> Result<bool, Error> {
        let before = self.world.store.now();
        let request = ListUnprocessedEvents { before, after: None, limit: 10 };
        let left = WebhookStore::list_unprocessed_events(&*member.store, request).await?;
        for hook in &left {
            self.process(&member, hook).await?;
        }
        Ok(left.is_empty())
    }

    async fn process(&self, member: &SimulatedNode, hook: &InboundEvent) -> Result<(), Error> {
        if hook.status != InboundEventStatus::Received {
            return Ok(());
        }
        let event = &hook.id.event;
        let start = member.engine.start(WORKFLOW, &quick_program()).idempotency_key(format!("hook-{event}"));
        let run = start.await?.id();
        let first =
            *self.known.lock().unwrap().confirmed.entry(event.clone()).or_default().get_or_insert(run);
        if first != run {
            self.world.break_off(format!("{event} came to two runs"));
        }
        self.world.may_pause(&member.node).await;
        let finish = FinishInboundEvent {
            id: hook.id.clone(),
            attempts: hook.attempts,
            status: InboundEventStatus::Applied,
            outcome: None,
        };
        WebhookStore::finish_event(&*member.store, finish).await?;
        Ok(())
    }

    /// Increments a counter in the catalog, each time over the version last read.
    async fn change_catalog(self: Arc<Self>) {
        self.insist(|member| self.change_once(member)).await;
    }

    async fn change_once(&self, member: SimulatedNode) -> Result<bool, Error> {
        let id = Name::new("item", "counter")?;
        let found = Catalog::find_item(&*member.store, CatalogKind::Setting, &id).await?;
        let count: u64 = found.as_ref().map_or(Ok(0), |item| item.body.to()).unwrap_or_default();
        let put = PutCatalogItem {
            workspace: WorkspaceId::default(),
            kind: CatalogKind::Setting,
            id,
            name: "counter".into(),
            body: Payload::of(&(count + 1))?,
            expected: found.map(|item| item.version),
            note: None,
        };
        self.world.may_pause(&member.node).await;
        // Count it first: a caller that times out gets no answer.
        self.known.lock().unwrap().unknown_changes += 1;
        let outcome = Catalog::put_item(&*member.store, put).await;
        let mut known = self.known.lock().unwrap();
        match outcome {
            Ok(PutOutcome::Put(_)) => {
                known.unknown_changes -= 1;
                known.changes += 1;
            }
            Err(StoreError::Unavailable(_)) => known.unknown_changes -= 1,
            // If the request arrived twice, the second answer refers to the first.
            Ok(PutOutcome::Stale(_) | PutOutcome::Exists(_)) | Err(_) => {}
            Ok(unexpected) => self.world.break_off(format!("the counter: {unexpected:?}")),
        }
        Ok(known.changes >= 5)
    }

    pub fn check(&self) -> Result<(), String> {
        let known = self.known.lock().unwrap();
        for (event, run) in &known.confirmed {
            let hook = at_once(WebhookStore::find_inbound_event(&self.world.store, &event_id(event)));
            if run.is_none() || hook.is_none_or(|hook| hook.status != InboundEventStatus::Applied) {
                return Err(format!("{event} was confirmed, and came to {run:?}"));
            }
        }
        for (key, id) in &known.requests {
            if at_once(self.world.store.find_run(&WorkspaceId::default(), id.as_run())).is_none() {
                return Err(format!("{key} was answered, and its run is not there"));
            }
        }
        let id = Name::new("item", "counter").expect("a sound name");
        let item = at_once(Catalog::find_item(&self.world.store, CatalogKind::Setting, &id));
        let count: u64 = item.map_or(Ok(0), |item| item.body.to()).map_err(|error| error.to_string())?;
        match (known.changes..=known.changes + known.unknown_changes).contains(&count) {
            true => Ok(()),
            false => Err(format!(
                "the counter is {count} after {} confirmed changes and {} of which nobody knows",
                known.changes, known.unknown_changes
            )),
        }
    }
}

fn event_id(event: &str) -> InboundEventId {
    let source = Name::new("source", "bank").expect("a sound name");
    InboundEventId { workspace: WorkspaceId::default(), source, event: event.into() }
}

fn quick_program() -> Program {
    Program { generation: 0, ops: vec![Op::Step(EffectBehaviour::quick())], then: GenerationEnd::Complete }
}
