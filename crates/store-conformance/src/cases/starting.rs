//! Starting runs.

use hapax_engine::model::{
    EventKind, Fence, Parent, Priority, RunState, RunStatus, StepId, Version, WorkspaceId,
};
use hapax_engine::store::{RunCommandOutcome, SettleOutcome, SignalOutcome, StartOutcome, StoreError};

use crate::fixture::*;
use crate::must;

/// S0.14, S0.41: a run started without an offer is PENDING at version 1, and its history records the start.
pub(super) async fn a_new_run_waits_to_be_claimed(t: &TestStore) {
    let run = t.order().input(r#"{"item":7}"#).start().await;
    assert_eq!(run.state, RunState::Pending { due_at: t.now() });
    assert_eq!((run.version, run.fence, run.arrivals), (Version::new(1), Fence::default(), 0));
    assert_eq!(run.started_at, None);
    let view = t.view(&run).await;
    assert_eq!((&view.head, view.input, view.result), (&run, json(r#"{"item":7}"#), None));
    let events = t.events(&run).await;
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind, events[0].version, events[0].at), (EventKind::Started, run.version, t.now()));
}

/// S0.24: the start and the first lease are one write.
pub(super) async fn a_run_offered_to_its_starter_is_born_leased(t: &TestStore) {
    let run = t.order().granted_to(ANN).start().await;
    let lease = run.state.lease().expect("it is leased");
    assert_eq!((lease.owner, lease.until), (ANN, t.now().plus(LEASE)));
    assert_eq!((run.version, run.fence, run.started_at), (Version::new(1), Fence::new(1), Some(t.now())));
    assert_eq!(t.head(&run).await, run);
    assert!(t.claim(BOB).await.is_empty());
}

/// A process is not granted a run that it has no code for.
pub(super) async fn an_offer_for_other_workflows_is_not_taken(t: &TestStore) {
    let offer = grant_for(ANN, [workflow("order", 2), workflow("refund", 1)]);
    let run = t.order().offered(offer).start().await;
    assert_eq!(run.status(), RunStatus::Pending);
}

/// Invariant 47: a timer never fires early.
pub(super) async fn a_delayed_run_is_not_granted_early(t: &TestStore) {
    let run = t.order().due_in(HOUR).granted_to(ANN).start().await;
    assert_eq!(run.state, RunState::Pending { due_at: t.now().plus(HOUR) });
    assert!(t.claim(ANN).await.is_empty());
}

/// S0.42: every fact about a run reads back unchanged.
pub(super) async fn the_facts_of_a_run_are_kept_as_given(t: &TestStore) {
    let parent = t.pending().await;
    let (run, root, step) = (parent.id(), t.pending().await.id(), StepId::from_stored("ship#2"));
    let parent = Parent { run, step, on_close: Default::default(), root, depth: 7 };
    let order = t
        .order()
        .key("a key with ~ and \" in it")
        .subject("customer:7/'x'")
        .workflow("refund.v-2_x", 3)
        .priority(Priority::High)
        .keep_key_for(HOUR)
        .release_key_on_failure()
        .parent(parent);
    let mut new = order.new_run();
    std::sync::Arc::make_mut(&mut new.facts).deadline_at = Some(t.now().plus(HOUR));
    let run = must!(t.store.start_run(new.clone()).await.unwrap(), StartOutcome::Created(run) => run);
    assert_eq!(run.facts, new.facts);
    let view = t.view(&run).await;
    assert_eq!(view.head, run);
    let plain = t.pending().await;
    assert_eq!(t.head(&plain).await.facts, plain.facts);
}

/// RELIABILITY "JSON": the input is stored byte for byte.
pub(super) async fn inputs_are_kept_byte_for_byte(t: &TestStore) {
    let long = format!("\"{}\"", "ü".repeat(500_000));
    for input in
        [r#"{"b":1.0,"a":[1e400,-0,9007199254740993],"":"'\"\\\n%_"}"#, r#"{ "a" : "🦀\u001f" }"#, &long]
    {
        let run = t.order().input(input).start().await;
        assert_eq!(t.view(&run).await.input.as_str(), input);
        assert_eq!(t.log(&run).await.input.as_str(), input);
    }
}

/// S0.9, invariant 55, CONTRACT 10: a run in another workspace is not found.
pub(super) async fn a_run_is_seen_only_in_its_workspace(t: &TestStore) {
    let run = t.driven().await;
    let run = t.write(&run).await.awaits_promise("payment", None).parks().done().await;
    let abroad = WorkspaceId::new("abroad").unwrap();
    assert!(t.store.find_run(&abroad, run.id()).await.unwrap().is_none());
    assert!(t.store.find_log(&abroad, run.id()).await.unwrap().is_none());
    assert!(t.store.list_events(&abroad, run.id(), Version::default()).await.unwrap().is_empty());
    assert!(t.store.find_promise(&abroad, &promise_of(&run, "payment")).await.unwrap().is_none());
    let mut signal = signal_to(&run, "go", None);
    signal.workspace = abroad.clone();
    must!(t.store.send_signal(signal).await.unwrap(), SignalOutcome::NoSuchRun);
    let mut settlement = settlement_of(&run, "payment", "1");
    settlement.workspace = abroad.clone();
    must!(t.store.settle_promise(settlement).await.unwrap(), SettleOutcome::NoSuchPromise);
    let mut elsewhere = run.clone();
    std::sync::Arc::make_mut(&mut elsewhere.facts).workspace = abroad;
    must!(t.steer(&elsewhere, cancel()).await, RunCommandOutcome::NoSuchRun);
    assert_eq!(t.head(&run).await, run);
}

/// The engine generates ids, so an id in use by another workspace is a fault and never an answer.
pub(super) async fn an_id_of_another_workspace_is_refused(t: &TestStore) {
    let run = t.pending().await;
    let stranger = t.order().id(run.id()).workspace("abroad").key("k").new_run();
    must!(t.store.start_run(stranger).await, Err(StoreError::Refused(_)));
    assert_eq!(t.head(&run).await, run);
    assert!(t.key("k").await.is_none());
}

/// A run that does not exist is reported as missing.
pub(super) async fn a_missing_run_is_not_found(t: &TestStore) {
    let run = t.pending().await;
    let mut ghost = run.clone();
    std::sync::Arc::make_mut(&mut ghost.facts).id = t.fresh_id();
    assert!(t.find(&ghost).await.is_none());
    assert!(t.events(&ghost).await.is_empty());
    assert!(t.key("k").await.is_none());
    must!(t.signal(&ghost, "go").await, SignalOutcome::NoSuchRun);
    must!(t.settle(&ghost, "payment", "1").await, SettleOutcome::NoSuchPromise);
    must!(t.steer(&ghost, cancel()).await, RunCommandOutcome::NoSuchRun);
    assert_eq!(t.renew(ANN, &[&ghost]).await, [ghost.id()]);
}
