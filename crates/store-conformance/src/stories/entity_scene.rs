//! An engine on the store under test, with invoices.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::clock::{Clock, ManualClock};
use hapax_engine::model::{
    Action, Actor, ClaimTo, EntityStep, EntityStorage, EntityWorkflow, Irreversible, JournalEntry,
    JournalEvent, Name, Operation, PerRequester, Recovery, RetryAnswer, RevertRule, Role, TableRef,
    Timestamp,
};
use hapax_engine::runtime::{ActionAnswer, EntityHost, Error, StepCall, Transition, TransitionOutcome};
use hapax_engine::store::ListOperations;
use hapax_engine::{Engine, EngineOptions, Failure};
use tokio::sync::{Notify, Semaphore};

use crate::{Candidate, UserRow};

pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const EVERY: Duration = Duration::from_secs(120);
pub(super) const STALE_AFTER: Duration = Duration::from_secs(300);
/// Much shorter than the timeout for an answer of the store, and not much shorter than a poll interval.
const MOMENT: Duration = Duration::from_millis(100);
/// Minimum length of a moment in real time. On a store that answers at once, a busy machine could otherwise let minutes
/// of test time pass before any heartbeat is sent, and live holders would be declared dead.
const BREATH: Duration = Duration::from_millis(5);
const TABLE: &str = "invoices";

/// Kind of table where the invoices live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    Own,
    Users,
}

impl TableKind {
    pub(super) const ALL: [TableKind; 2] = [TableKind::Own, TableKind::Users];
}

/// An engine, its store, and a gate that actions stop at.
pub(super) struct EntityScene {
    pub(super) engine: Engine,
    pub(super) clock: Arc<ManualClock>,
    pub(super) home: TableKind,
    pub(super) candidate: Candidate,
    /// Number of times an action began.
    pub(super) entered: Arc<AtomicU32>,
    /// Effect key of each action, in order.
    pub(super) keys: Arc<Mutex<Vec<String>>>,
    /// Notified each time an action begins.
    pub(super) entering: Arc<Notify>,
    /// Gate: an action continues when it gets a permit from here.
    pub(super) door: Arc<Semaphore>,
}

pub(super) fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

pub(super) fn manager() -> Actor {
    Actor::new("mia", Role::Manager)
}

pub(super) fn all<T>(value: T) -> PerRequester<T> {
    PerRequester::All(value)
}

/// A step with nothing but its start and end status.
pub(super) fn step(id: u32, key: &str, from: &[&str], to: &str) -> EntityStep {
    EntityStep {
        id,
        key: name(key),
        status: all(from.iter().map(|status| name(status)).collect()),
        successful_state: all(name(to)),
        action: None,
        claim: None,
        recovery: None,
        irreversible: None,
        key_required: None,
        retry: None,
        success_after_effect: None,
        failure_after_effect: None,
        idempotent: None,
    }
}

pub(super) fn handler(action: &str) -> Option<PerRequester<Action>> {
    Some(all(Action::Handler { name: name(action), transaction: false }))
}

pub(super) fn claim(into: &str, revert_to: &str) -> ClaimTo {
    ClaimTo { into: name(into), revert_to: name(revert_to) }
}

/// Host whose validation rejects an input with `"refuse": true`.
struct Host;

#[async_trait]
impl EntityHost for Host {
    async fn check(&self, call: &StepCall) -> Result<(), Failure> {
        match call.input::<serde_json::Value>()?.get("refuse") {
            Some(_) => Err(Failure::permanent("it is to be refused").with_code("refused")),
            None => Ok(()),
        }
    }
}

impl EntityScene {
    /// `None` if the invoices are to live in a user's table and the store supports none.
    pub(super) async fn set(
        candidate: Candidate,
        clock: Arc<ManualClock>,
        home: TableKind,
    ) -> Option<EntityScene> {
        if home == TableKind::Users {
            candidate.tables.as_ref()?.create_table(TABLE).await;
        }
        let engine = Engine::launch(candidate.store(), clock.clone(), EngineOptions::default()).unwrap();
        let scene = EntityScene {
            engine,
            clock,
            home,
            candidate,
            entered: Arc::default(),
            keys: Arc::default(),
            entering: Arc::default(),
            door: Arc::new(Semaphore::new(0)),
        };
        scene.equip(&scene.engine).await;
        scene.engine.module("billing").janitor(EVERY, STALE_AFTER).unwrap();
        Some(scene)
    }

    /// Another engine on the same store, as after a crash.
    pub(super) async fn restart(&self) -> Engine {
        let engine =
            Engine::launch(self.candidate.store(), self.clock.clone(), EngineOptions::default()).unwrap();
        self.equip(&engine).await;
        engine.module("billing").janitor(EVERY, STALE_AFTER).unwrap();
        engine
    }

    async fn equip(&self, engine: &Engine) {
        self.register(engine, self.workflow()).await;
        self.equip_actions(engine);
    }

    /// Registers the actions of the stories.
    pub(super) fn equip_actions(&self, engine: &Engine) {
        let (entered, entering, door) = (self.entered.clone(), self.entering.clone(), self.door.clone());
        let keys = self.keys.clone();
        let body = move |call: StepCall| {
            let (entered, entering, door) = (entered.clone(), entering.clone(), door.clone());
            keys.lock().unwrap().push(call.idempotency_key().as_str().to_owned());
            async move {
                let nth = entered.fetch_add(1, Ordering::SeqCst) + 1;
                entering.notify_one();
                door.acquire().await.unwrap().forget();
                match call.input::<serde_json::Value>()?.get("how").and_then(|how| how.as_str()) {
                    Some("fail") => Err(Failure::permanent("no").with_code("declined")),
                    Some("unknown") => Err(Failure::unknown("no answer")),
                    Some("unknown twice") if nth < 3 => Err(Failure::unknown("no answer")),
                    Some("reject") => Ok(ActionAnswer::rejected("not this one")),
                    Some("panic") => panic!("out of paper"),
                    _ => ActionAnswer::done(
                        serde_json::json!({ "nth": nth, "key": call.idempotency_key().as_str() }),
                    ),
                }
            }
        };
        engine.register_action("act", body).unwrap();
    }

    pub(super) async fn register(&self, engine: &Engine, workflow: EntityWorkflow) {
        engine.register_entity_workflow(workflow, Arc::new(Host)).await.unwrap();
    }

    /// The workflow of an invoice, as far as the stories need it.
    pub(super) fn workflow(&self) -> EntityWorkflow {
        let statuses =
            ["draft", "approved", "closing", "closed", "paying", "paid", "overdue", "refunding", "refunded"];
        let by_admin = |claim: ClaimTo| PerRequester::By(BTreeMap::from([(name("admin"), claim)]));
        EntityWorkflow {
            name: name("invoice-billing"),
            module: name("billing"),
            entity: name("invoice"),
            home: match self.home {
                TableKind::Own => EntityStorage::BuiltIn,
                TableKind::Users => EntityStorage::UserTable(TableRef {
                    data: vec!["total".into()],
                    ..TableRef::new(TABLE).unwrap()
                }),
            },
            status_types: statuses.map(name).to_vec(),
            initial: ["draft", "approved", "closed", "paid"].map(name).to_vec(),
            revert_rule: RevertRule::OnePerClaim,
            steps: vec![
                step(10, "approve", &["draft"], "approved"),
                EntityStep {
                    action: handler("act"),
                    claim: Some(by_admin(claim("closing", "approved"))),
                    success_after_effect: Some(all(name("mail"))),
                    failure_after_effect: Some(all(name("alarm"))),
                    ..step(20, "close", &["approved"], "closed")
                },
                EntityStep {
                    action: handler("act"),
                    claim: Some(all(claim("paying", "closed"))),
                    recovery: Some(all(Recovery::Hold)),
                    retry: Some(all(RetryAnswer::Returns)),
                    ..step(30, "pay", &["closed"], "paid")
                },
                EntityStep { action: handler("act"), ..step(40, "mark_as_overdue", &["closed"], "overdue") },
                EntityStep {
                    action: handler("act"),
                    claim: Some(all(claim("refunding", "paid"))),
                    irreversible: Some(all(Irreversible::Once)),
                    ..step(50, "refund", &["paid"], "refunded")
                },
            ],
        }
    }

    /// Creates an invoice.
    pub(super) async fn invoice(&self, id: &str, status: &str) {
        match self.home {
            TableKind::Own => {
                let _ = self
                    .engine
                    .create_entity("invoice", id, status, &serde_json::json!({ "total": 7 }))
                    .await
                    .unwrap();
            }
            TableKind::Users => {
                let row = UserRow {
                    id: id.into(),
                    status: status.into(),
                    version: 1,
                    updated_at: self.clock.now(),
                    total: 7,
                };
                self.candidate.tables.as_ref().unwrap().put_row(TABLE, row).await;
            }
        }
    }

    pub(super) async fn status(&self, id: &str) -> String {
        self.engine.get_entity("invoice", id, None).await.unwrap().entity.status.to_string()
    }

    /// Starts a step, and advances the clock until it has ended.
    pub(super) async fn drive(&self, call: Transition) -> Result<TransitionOutcome, Error> {
        let call = tokio::spawn(call.into_future());
        self.until(async || call.is_finished()).await;
        call.await.unwrap()
    }

    /// The effect keys of all actions so far, in order.
    pub(super) fn effect_keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }

    /// Lets actions continue.
    pub(super) fn open(&self) {
        self.door.add_permits(10_000);
    }

    pub(super) fn times_entered(&self) -> u32 {
        self.entered.load(Ordering::SeqCst)
    }

    pub(super) async fn operations(&self, id: &str) -> Vec<Operation> {
        let request = ListOperations {
            workspace: Default::default(),
            kind: Some(name("invoice")),
            entity: Some(hapax_engine::model::EntityId::new(id).unwrap()),
            step: None,
            status: None,
            before: None,
            limit: 100,
        };
        self.engine.list_operations(request).await.unwrap()
    }

    /// The notes about an invoice, as text.
    pub(super) async fn notes(&self, id: &str) -> Vec<String> {
        let notes = self.engine.list_entity_journal("invoice", id, None, 0, 100).await.unwrap();
        let word = |what: &hapax_engine::model::JournalEvent| {
            serde_json::to_value(what).unwrap()["what"].as_str().unwrap().to_owned()
        };
        notes.iter().map(|placed| word(&placed.note.what)).collect()
    }

    pub(super) fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Advances the clock by a moment, so that pollers look again, and makes the store commit once more after all
    /// earlier requests.
    pub(super) async fn turn(&self) {
        self.pass(MOMENT);
        let nobody = Actor::new("time", Role::Operator);
        let nothing = JournalEvent::Remarked { text: "time passes".into() };
        let note = JournalEntry {
            by: None,
            ..JournalEntry::on_workspace(Default::default(), nobody, self.now(), nothing)
        };
        self.candidate.store().append_journal(vec![note]).await.unwrap();
        tokio::time::sleep(BREATH).await;
    }

    /// Waits until the condition holds. However fast the store is, an answer would have to be overtaken by hundreds of
    /// commits, and be seconds late, before the wait gives up.
    pub(super) async fn until(&self, has_come: impl AsyncFn() -> bool) {
        while !has_come().await {
            self.turn().await;
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
