//! Heartbeats and janitors beside running operations: an engine's own heartbeats never count against it, and
//! nothing polls more often than its interval.

use std::sync::Arc;
use std::time::Duration;

use crate::support::Bench;
use crate::support::cut_off::CutOff;
use hapax_engine::model::{Action, ClaimTo, EntityStep, EntityWorkflow, Payload};
use hapax_engine::runtime::{ActionAnswer, CodeOnlyHost, TransitionOutcome};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use serde_json::json;
use tokio::sync::Semaphore;

const EVERY: Duration = Duration::from_secs(30);
const STALE_AFTER: Duration = Duration::from_secs(20);
/// Interval of the heartbeats: a few times within the janitor's timeout.
const HEARD_EVERY: Duration = Duration::from_secs(4);

/// Engine on a counting store, with an approved invoice that can be closed in two ways, and the gate that one
/// of them waits at.
struct Fixture {
    bench: Bench,
    line: Arc<CutOff>,
    engine: Engine,
    door: Arc<Semaphore>,
}

impl Fixture {
    async fn new() -> Fixture {
        let bench = Bench::new();
        let line = CutOff::new(bench.store.clone());
        let engine = Engine::launch(line.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
        let door = Arc::new(Semaphore::new(0));
        let waits = door.clone();
        let wait_at_the_door = move |_| {
            let door = waits.clone();
            async move {
                door.acquire().await.unwrap().forget();
                ActionAnswer::done("closed")
            }
        };
        engine.register_action("wait", wait_at_the_door).unwrap();
        let work = || Payload::of(&ActionAnswer::done("closed").unwrap()).unwrap();
        engine.register_transaction_action("write", move |_| Box::new(work())).unwrap();
        let claim = || ClaimTo::new("closing", "approved").unwrap();
        let step = |id, key| EntityStep::new(id, key, &["approved"], "closed").unwrap().claiming(claim());
        let steps = vec![
            step(10, "close").doing(Action::handler("wait").unwrap()),
            step(20, "close_in_transaction").doing(Action::in_transaction("write").unwrap()),
        ];
        let statuses = ["approved", "closing", "closed"];
        let workflow = EntityWorkflow::new("invoices", "billing", "invoice", &statuses).unwrap();
        let workflow = EntityWorkflow { steps, ..workflow };
        engine.register_entity_workflow(workflow, Arc::new(CodeOnlyHost)).await.unwrap();
        engine.module("billing").janitor(EVERY, STALE_AFTER).unwrap();
        let _ = engine.create_entity("invoice", "INV-7", "approved", &json!({})).await.unwrap();
        let desk = Fixture { bench, line, engine, door };
        desk.until("the first look", || desk.line.operations.looked() == 1).await;
        desk
    }

    /// Waits without moving the clock.
    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if holds() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("never happened: {what}");
    }

    /// Gives woken tasks their turns.
    async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Takes a step whose end is committed, and sends a heartbeat before that commit is acknowledged.
    async fn hears_while_it_ends(&self, step: &str) {
        self.line.operations.hold_ends(true);
        self.door.add_permits(1);
        let call = tokio::spawn(self.engine.transition("invoice", "INV-7", step).into_future());
        self.line.operations.ended().await;
        let heard = self.line.operations.heard();
        self.bench.clock.advance(HEARD_EVERY);
        self.until("a heartbeat", || self.line.operations.heard() > heard).await;
        self.settle().await;
        assert!(!call.is_finished(), "it was not answered yet");
        self.line.operations.hold_ends(false);
        let outcome = call.await.unwrap().unwrap();
        let TransitionOutcome::Done { entity, recorded, .. } = outcome else { panic!("{outcome:?}") };
        // The step's own write is not reported as another request's result.
        assert_eq!((entity.unwrap().status.as_str(), recorded), ("closed", false));
        let notes = self.engine.list_entity_journal("invoice", "INV-7", None, 0, 10).await.unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(self.engine.stats().fenced_writes, 0);
    }
}

/// An operation whose end was just committed is no longer pending. A heartbeat that learns this must not
/// treat it as lost.
#[tokio::test]
async fn a_heartbeat_while_the_end_is_written_does_not_count_it_as_lost() {
    Fixture::new().await.hears_while_it_ends("close").await;
}

/// Like the test above, for an action that commits its end in its own transaction.
#[tokio::test]
async fn a_heartbeat_while_a_transaction_is_answered_does_not_count_it_as_lost() {
    Fixture::new().await.hears_while_it_ends("close_in_transaction").await;
}

/// Runs come and go all the time. Heartbeats and janitors follow the clock only.
#[tokio::test]
async fn heartbeats_and_janitors_go_by_the_clock_and_not_by_what_else_changes() {
    let desk = Fixture::new().await;
    let call = tokio::spawn(desk.engine.transition("invoice", "INV-7", "close").into_future());
    desk.engine.register("noop", |_: Ctx, (): ()| async { Ok::<_, Failure>(()) }).unwrap();
    let counts = || (desk.line.operations.heard(), desk.line.operations.looked());
    desk.settle().await;
    let before = counts();
    for _ in 0..50 {
        desk.engine.start("noop", &()).await.unwrap().result::<()>().await.unwrap();
        desk.settle().await;
    }
    assert_eq!(counts(), before, "no time has passed");

    desk.bench.clock.advance(HEARD_EVERY);
    desk.until("a heartbeat", || counts().0 > before.0).await;
    desk.settle().await;
    assert_eq!(counts(), (before.0 + 1, before.1), "one heartbeat, and no look");
    let mut beats = 1;
    while counts().1 == before.1 {
        desk.bench.clock.advance(HEARD_EVERY);
        desk.settle().await;
        beats += 1;
    }
    // The janitor sends a heartbeat for local operations before its pass.
    assert_eq!(counts(), (before.0 + beats + 1, before.1 + 1));
    assert_eq!(u128::try_from(beats).unwrap(), EVERY.as_millis().div_ceil(HEARD_EVERY.as_millis()));
    desk.door.add_permits(1);
    assert!(matches!(call.await.unwrap().unwrap(), TransitionOutcome::Done { .. }));
}

/// A shutdown waits for many operations, and each end wakes the waiters. That must not cause heartbeats for
/// the others.
#[tokio::test]
async fn operations_that_end_one_by_one_cause_no_heartbeats() {
    let desk = Fixture::new().await;
    let ids: Vec<String> = (0..20).map(|n| format!("INV-{n}")).collect();
    let mut calls = Vec::new();
    for id in &ids {
        let _ = desk.engine.create_entity("invoice", id, "approved", &json!({})).await.unwrap();
        calls.push(tokio::spawn(desk.engine.transition("invoice", id, "close").into_future()));
    }
    desk.settle().await;
    let stopping = desk.engine.clone();
    let stopped = tokio::spawn(async move { stopping.shutdown(STALE_AFTER).await });
    desk.settle().await;
    assert!(!stopped.is_finished(), "it waits for what is under way");
    for call in calls {
        desk.door.add_permits(1);
        assert!(matches!(call.await.unwrap().unwrap(), TransitionOutcome::Done { .. }));
        desk.settle().await;
    }
    stopped.await.unwrap().unwrap();
    assert_eq!(desk.line.operations.heard(), 0, "no time has passed");
}

/// S1.39: the interval is measured between the starts of two passes. A slow pass does not delay the next.
#[tokio::test]
async fn a_janitor_whose_time_came_while_it_looked_looks_again() {
    let desk = Fixture::new().await;
    desk.line.operations.hold_looks(true);
    desk.bench.clock.advance(EVERY);
    desk.until("the second look", || desk.line.operations.looked() == 2).await;
    desk.bench.clock.advance(EVERY);
    desk.line.operations.hold_looks(false);
    desk.until("the third look", || desk.line.operations.looked() == 3).await;
}

/// G1.3: a killed engine is silent, even if a heartbeat was due in the same moment.
#[tokio::test]
async fn a_killed_engine_sends_no_heartbeats() {
    let desk = Fixture::new().await;
    let call = tokio::spawn(desk.engine.transition("invoice", "INV-7", "close").into_future());
    desk.settle().await;
    desk.engine.kill();
    desk.bench.clock.advance(HEARD_EVERY);
    desk.settle().await;
    assert_eq!(desk.line.operations.heard(), 0);
    assert!(call.await.unwrap().is_err());
}

/// An engine without operations sends no heartbeats.
#[tokio::test]
async fn an_engine_without_operations_sends_no_heartbeats() {
    let desk = Fixture::new().await;
    for _ in 0..20 {
        desk.bench.clock.advance(HEARD_EVERY);
        desk.settle().await;
    }
    assert_eq!(desk.line.operations.heard(), 0);
    assert!(desk.line.operations.looked() > 1);
}
