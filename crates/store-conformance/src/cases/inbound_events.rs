//! Inbound webhooks: each event is stored once.

use hapax_engine::model::{InboundEventId, InboundEventStatus, WorkspaceId};
use hapax_engine::store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome,
    WebhookStore,
};

use crate::fixture::*;
use crate::must;

fn book(t: &TestStore) -> &dyn WebhookStore {
    t.store.webhook_store().expect("it keeps webhooks")
}

fn event(source: &str, event: &str) -> InboundEventId {
    InboundEventId { workspace: WorkspaceId::default(), source: name(source), event: event.into() }
}

fn arriving(id: InboundEventId) -> NewInboundEvent {
    NewInboundEvent { id, headers: json(r#"{"webhook-id":"e1"}"#), body: b"{\"a\": 1}\n\x00\xff".to_vec() }
}

async fn receive(t: &TestStore, id: InboundEventId) -> ReceiveOutcome {
    book(t).receive_event(arriving(id)).await.unwrap()
}

fn all() -> ListInboundEvents {
    ListInboundEvents {
        workspace: WorkspaceId::default(),
        source: None,
        status: None,
        before: None,
        limit: 10,
    }
}

async fn listed(t: &TestStore, request: ListInboundEvents) -> Vec<String> {
    book(t).list_inbound_events(request).await.unwrap().into_iter().map(|hook| hook.id.event).collect()
}

fn finish(id: InboundEventId, attempts: u32, status: InboundEventStatus) -> FinishInboundEvent {
    FinishInboundEvent { id, attempts, status, outcome: Some(json(r#"{"run":"run_1"}"#)) }
}

/// CONTRACT 9: an event is stored once, byte for byte. A redelivery is counted and changes nothing else.
pub(super) async fn an_event_is_taken_in_once(t: &TestStore) {
    let hook = must!(receive(t, event("stripe", "evt_1")).await, ReceiveOutcome::New(hook) => hook);
    assert_eq!(hook.body, b"{\"a\": 1}\n\x00\xff");
    assert_eq!((hook.received_at, hook.status, hook.attempts), (t.now(), InboundEventStatus::Received, 0));
    t.pass(SECOND);
    let other = NewInboundEvent { body: b"{}".to_vec(), ..arriving(event("stripe", "evt_1")) };
    let again = must!(book(t).receive_event(other).await.unwrap(), ReceiveOutcome::Duplicate(again) => again);
    assert_eq!((again.duplicates, &again.body, again.received_at), (1, &hook.body, hook.received_at));
    assert_eq!(book(t).find_inbound_event(&event("stripe", "evt_1")).await.unwrap(), Some(again));
    must!(receive(t, event("github", "evt_1")).await, ReceiveOutcome::New(_));
    must!(receive(t, event("stripe", "EVT_1")).await, ReceiveOutcome::New(_));
    let elsewhere =
        InboundEventId { workspace: WorkspaceId::new("elsewhere").unwrap(), ..event("stripe", "evt_1") };
    must!(receive(t, elsewhere).await, ReceiveOutcome::New(_));
    assert_eq!(book(t).find_inbound_event(&event("stripe", "evt_2")).await.unwrap(), None);
}

/// Must hold: a hundred concurrent deliveries of one event store one event.
pub(super) async fn of_many_deliveries_at_once_one_is_new(t: &TestStore) {
    let store = t.store.clone();
    let deliveries = (0..100).map(|_| {
        let store = store.clone();
        async move {
            store.webhook_store().unwrap().receive_event(arriving(event("stripe", "evt_1"))).await.unwrap()
        }
    });
    let received = at_once(deliveries).await;
    assert_eq!(received.iter().filter(|received| matches!(received, ReceiveOutcome::New(_))).count(), 1);
    assert_eq!(book(t).find_inbound_event(&event("stripe", "evt_1")).await.unwrap().unwrap().duplicates, 99);
}

/// The outcome of an event is recorded by the node that processed its current state. A late outcome changes nothing.
pub(super) async fn the_outcome_of_an_event_is_recorded_once(t: &TestStore) {
    must!(receive(t, event("stripe", "evt_1")).await, ReceiveOutcome::New(_));
    t.pass(SECOND);
    assert!(
        book(t).finish_event(finish(event("stripe", "evt_1"), 0, InboundEventStatus::Failed)).await.unwrap()
    );
    assert!(
        !book(t)
            .finish_event(finish(event("stripe", "evt_1"), 0, InboundEventStatus::Applied))
            .await
            .unwrap()
    );
    let hook = book(t).find_inbound_event(&event("stripe", "evt_1")).await.unwrap().unwrap();
    assert_eq!((hook.status, hook.attempts, hook.changed_at), (InboundEventStatus::Failed, 1, t.now()));
    assert_eq!(hook.outcome, Some(json(r#"{"run":"run_1"}"#)));
    assert!(
        book(t).finish_event(finish(event("stripe", "evt_1"), 1, InboundEventStatus::Applied)).await.unwrap()
    );
    assert!(
        !book(t)
            .finish_event(finish(event("stripe", "evt_9"), 0, InboundEventStatus::Applied))
            .await
            .unwrap()
    );
    let hook = book(t).find_inbound_event(&event("stripe", "evt_1")).await.unwrap().unwrap();
    assert_eq!((hook.status, hook.attempts), (InboundEventStatus::Applied, 2));
}

/// Lists are ordered newest first, filtered by source and status, page by page.
pub(super) async fn events_are_listed_newest_first(t: &TestStore) {
    for (source, id) in [("stripe", "e1"), ("github", "e2"), ("stripe", "e3"), ("stripe", "e4")] {
        must!(receive(t, event(source, id)).await, ReceiveOutcome::New(_));
    }
    assert!(
        book(t).finish_event(finish(event("stripe", "e3"), 0, InboundEventStatus::Unmatched)).await.unwrap()
    );
    assert_eq!(listed(t, all()).await, ["e4", "e3", "e2", "e1"]);
    assert_eq!(
        listed(t, ListInboundEvents { source: Some(name("stripe")), ..all() }).await,
        ["e4", "e3", "e1"]
    );
    assert_eq!(
        listed(t, ListInboundEvents { status: Some(InboundEventStatus::Unmatched), ..all() }).await,
        ["e3"]
    );
    let first = book(t).list_inbound_events(ListInboundEvents { limit: 2, ..all() }).await.unwrap();
    assert_eq!(first.len(), 2);
    assert_eq!(listed(t, ListInboundEvents { before: Some(first[1].place), ..all() }).await, ["e2", "e1"]);
    let elsewhere = ListInboundEvents { workspace: WorkspaceId::new("elsewhere").unwrap(), ..all() };
    assert!(listed(t, elsewhere).await.is_empty());
}

/// An event whose node crashed is found again. A processed event is purged after its retention.
pub(super) async fn unprocessed_events_are_found_and_old_ones_forgotten(t: &TestStore) {
    must!(receive(t, event("stripe", "e1")).await, ReceiveOutcome::New(_));
    must!(receive(t, event("stripe", "e2")).await, ReceiveOutcome::New(_));
    assert!(
        book(t).finish_event(finish(event("stripe", "e2"), 0, InboundEventStatus::Applied)).await.unwrap()
    );
    t.pass(SECOND);
    must!(receive(t, event("stripe", "e3")).await, ReceiveOutcome::New(_));
    let (before, limit) = (t.now(), 10);
    assert_eq!(unprocessed(t, ListUnprocessedEvents { before, after: None, limit }).await, ["e1"]);
    assert_eq!(
        book(t).purge_inbound_events(t.now(), 10).await.unwrap(),
        1,
        "only the one that was processed"
    );
    assert_eq!(listed(t, all()).await, ["e3", "e1"]);
    must!(receive(t, event("stripe", "e2")).await, ReceiveOutcome::New(_));
}

/// Events that cannot be processed do not block later ones: each page continues after the one before. A postponed event
/// keeps its position, with the reason.
pub(super) async fn unprocessed_events_are_listed_page_by_page(t: &TestStore) {
    for number in 0..5 {
        must!(receive(t, event("stripe", &format!("e{number}"))).await, ReceiveOutcome::New(_));
        if number % 2 == 0 {
            t.pass(SECOND);
        }
    }
    t.pass(SECOND);
    let why = json(r#"{"detail":"the store is broken"}"#);
    let put_off = FinishInboundEvent {
        outcome: Some(why.clone()),
        ..finish(event("stripe", "e1"), 0, InboundEventStatus::Received)
    };
    assert!(book(t).finish_event(put_off).await.unwrap());
    let all = ListUnprocessedEvents { before: t.now(), after: None, limit: 10 };
    assert_eq!(unprocessed(t, all.clone()).await, ["e0", "e1", "e2", "e3", "e4"]);
    let first =
        book(t).list_unprocessed_events(ListUnprocessedEvents { limit: 2, ..all.clone() }).await.unwrap();
    assert_eq!((first[1].attempts, first[1].outcome.as_ref()), (1, Some(&why)));
    let after = Some((first[1].received_at, first[1].place));
    assert_eq!(unprocessed(t, ListUnprocessedEvents { after, ..all.clone() }).await, ["e2", "e3", "e4"]);
    let last = book(t).list_unprocessed_events(all.clone()).await.unwrap().pop().unwrap();
    let after = Some((last.received_at, last.place));
    assert!(unprocessed(t, ListUnprocessedEvents { after, ..all }).await.is_empty());
}

async fn unprocessed(t: &TestStore, request: ListUnprocessedEvents) -> Vec<String> {
    let found = book(t).list_unprocessed_events(request).await.unwrap();
    found.into_iter().map(|hook| hook.id.event).collect()
}
