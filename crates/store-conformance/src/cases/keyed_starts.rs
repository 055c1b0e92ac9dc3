//! Requests that start a run: the key, the run and the answer are one write.

use hapax_engine::model::{
    BeginOutcome, KeyedStart, KeyedStartOutcome, RequestState, RunStatus, StoredAnswer,
};
use hapax_engine::store::{KeyUsageDelta, StoreError};

use crate::fixture::*;
use crate::must;

async fn send(t: &TestStore, start: KeyedStart) -> KeyedStartOutcome {
    t.book().start_keyed_run(start).await.unwrap()
}

fn answer_of(ask: &Ask<'_>) -> StoredAnswer {
    answer(format!("{} 1", ask.id().as_run()).as_bytes())
}

/// The run is there and leased, and the next request under the key gets the answer byte for byte.
pub(super) async fn the_key_the_run_and_the_answer_are_one_write(t: &TestStore) {
    let ask = t.ask("k");
    let start = ask.start_of(t.order().key("order-1").subject("s").granted_to(ANN).new_run());
    let (head, given) = must!(send(t, start.clone()).await,
        KeyedStartOutcome::Started { head, answer } => (head, answer));
    assert_eq!(given, answer_of(&ask));
    assert_eq!(head.facts, start.new.facts);
    assert_eq!(head.state.lease().map(|lease| lease.owner), Some(ANN));
    assert_eq!(t.head(&head).await, head);
    assert_eq!(t.key("order-1").await.and_then(|key| key.run()), Some(head.id()));
    let record = replayed(ask.again().send().await);
    assert_eq!((record.id, record.first_seen_at), (ask.id(), t.now()));
    assert_eq!((record.fingerprint, &record.summary), (ask.request().fingerprint, &ask.request().summary));
    let (at, expires_at) = (t.now(), t.now().plus(KEEP));
    let free_at = expires_at.plus(GRACE);
    assert_eq!(record.state, RequestState::Answered { answer: given, at, expires_at, free_at });
    must!(ask.again().amount(2).send().await, BeginOutcome::Conflict(_));
}

/// A caller whose acknowledgement was lost sends it again and finds its own run, wherever that is by now.
pub(super) async fn sent_again_it_finds_its_own_run_and_answer(t: &TestStore) {
    let ask = t.ask("k");
    let start = ask.start_of(t.order().key("order-1").subject("s").granted_to(ANN).new_run());
    let first = send(t, start.clone()).await;
    t.pass(SECOND);
    assert_eq!(send(t, start.clone()).await, first);
    let head = must!(first, KeyedStartOutcome::Started { head, .. } => head);
    t.write(&head).await.completes("1").done().await;
    let (head, given) =
        must!(send(t, start).await, KeyedStartOutcome::Started { head, answer } => (head, answer));
    assert_eq!((head.status(), given), (RunStatus::Completed, answer_of(&ask)));
    assert_eq!(t.list(10, None).await.runs.len(), 1);
}

/// A key that is held, answered or in its grace period is left as it is, and no run is made.
pub(super) async fn a_request_key_in_use_is_left_as_it_is(t: &TestStore) {
    let held = t.ask("held").begin().await;
    let record = held.record().await;
    assert_eq!(send(t, held.again().start()).await, KeyedStartOutcome::NotFree);
    assert_eq!(send(t, held.start()).await, KeyedStartOutcome::NotFree, "whoever holds it");
    assert_eq!(held.record().await, record);
    let answered = t.answered("answered").await;
    let record = answered.record().await;
    assert_eq!(send(t, answered.again().start()).await, KeyedStartOutcome::NotFree);
    assert_eq!(send(t, answered.again().amount(2).start()).await, KeyedStartOutcome::NotFree);
    t.pass(KEEP);
    assert_eq!(send(t, answered.again().start()).await, KeyedStartOutcome::NotFree, "in the grace period");
    assert_eq!(answered.record().await, record);
    assert!(t.list(10, None).await.runs.is_empty());
}

/// A run key or a subject that is taken keeps the request out altogether: its key stays free.
pub(super) async fn a_run_that_may_not_start_leaves_the_request_key_free(t: &TestStore) {
    let first = t.order().key("order-1").subject("s").start().await;
    let orders = [t.order().key("order-1"), t.order().key("order-1").input("[2]"), t.order().subject("s")];
    for (n, order) in orders.into_iter().enumerate() {
        let ask = t.ask(&format!("k{n}"));
        assert_eq!(send(t, ask.start_of(order.new_run())).await, KeyedStartOutcome::NotFree);
        assert_eq!(ask.find().await, None);
    }
    let runs = t.list(10, None).await.runs;
    assert_eq!(runs.iter().map(|run| &run.head).collect::<Vec<_>>(), [&first]);
}

/// A key that is free again is another request's, with counts of its own.
pub(super) async fn a_free_key_starts_a_new_run(t: &TestStore) {
    let first = t.ask("k");
    must!(send(t, first.start()).await, KeyedStartOutcome::Started { .. });
    t.count(&first.place(), uses(3, 1)).await;
    t.pass(KEEP + GRACE);
    let second = first.again().amount(2);
    must!(send(t, second.start()).await, KeyedStartOutcome::Started { .. });
    let record = replayed(second.again().send().await);
    assert_eq!((record.id, record.first_seen_at), (second.id(), t.now()));
    assert_eq!(t.uses(&second.place()).await, uses(0, 0));
    assert_eq!(send(t, first.start()).await, KeyedStartOutcome::NotFree, "its key is another request's");
    assert_eq!(t.list(10, None).await.runs.len(), 2);
}

/// Of many identical requests one starts its run, also against callers that hold the key first.
pub(super) async fn of_many_at_once_one_starts(t: &TestStore) {
    for key in ["k", "l"] {
        let first = t.ask(key);
        let sent = at_once((0..32).map(|n| {
            let (store, ask) = (t.store.clone(), first.again());
            let (start, begin) = (ask.start(), ask.request());
            async move {
                let book = store.request_key_store().unwrap();
                match n % 4 {
                    3 => matches!(book.begin_request(begin).await.unwrap(), BeginOutcome::Acquired { .. }),
                    _ => {
                        let outcome = book.start_keyed_run(start).await.unwrap();
                        matches!(outcome, KeyedStartOutcome::Started { .. })
                    }
                }
            }
        }));
        assert_eq!(sent.await.into_iter().filter(|won| *won).count(), 1);
        let winner = first.record().await;
        let run = t.store.find_run(&winner.scope.workspace, winner.id.as_run()).await.unwrap();
        assert_eq!(run.is_some(), matches!(winner.state, RequestState::Answered { .. }));
    }
}

/// Different requests for one run key at once: one starts it, and the others find their request keys free.
pub(super) async fn of_many_for_one_run_key_one_starts(t: &TestStore) {
    let asks: Vec<_> = (0..16).map(|n| t.ask(&format!("k{n}"))).collect();
    let sent = at_once(asks.iter().map(|ask| {
        let (store, start) = (t.store.clone(), ask.start_of(t.order().key("order-1").new_run()));
        async move { store.request_key_store().unwrap().start_keyed_run(start).await.unwrap() }
    }));
    let sent = sent.await;
    assert_eq!(sent.iter().filter(|sent| **sent != KeyedStartOutcome::NotFree).count(), 1);
    for (ask, sent) in asks.iter().zip(&sent) {
        assert_eq!(ask.find().await.is_some(), *sent != KeyedStartOutcome::NotFree);
    }
    assert_eq!(t.list(100, None).await.runs.len(), 1);
}

/// The run has the id and the workspace of the request.
pub(super) async fn a_run_of_another_request_is_refused(t: &TestStore) {
    let (one, other) = (t.ask("k"), t.ask("l").workspace("abroad"));
    for start in [
        KeyedStart { new: other.again().start().new, ..one.start() },
        KeyedStart { new: one.again().start().new, ..one.start() },
    ] {
        must!(t.book().start_keyed_run(start).await, Err(StoreError::Refused(_)));
    }
    assert_eq!(one.find().await, None);
    t.book().add_key_usage(vec![KeyUsageDelta { place: one.place(), uses: uses(1, 0) }]).await.unwrap();
    assert!(t.list(10, None).await.runs.is_empty());
}
