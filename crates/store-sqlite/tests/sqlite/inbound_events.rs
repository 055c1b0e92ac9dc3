//! Webhooks that came in.

use std::time::Duration;

use hapax_engine::model::{InboundEvent, InboundEventId, InboundEventStatus, Name, Payload, WorkspaceId};
use hapax_engine::store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome, Store,
    WebhookStore,
};
use hapax_store_sqlite::SqliteStore;

use crate::fixture::*;

fn source(name: &str) -> Name {
    Name::new("source", name).unwrap()
}

fn event(name: &str) -> NewInboundEvent {
    let id = InboundEventId { workspace: workspace(), source: source("stripe"), event: name.into() };
    NewInboundEvent { id, headers: Payload::of("headers").unwrap(), body: vec![0, 159, 146, 150] }
}

async fn receive(store: &SqliteStore, hook: NewInboundEvent) -> InboundEvent {
    match store.receive_event(hook).await.unwrap() {
        ReceiveOutcome::New(hook) => hook,
        other => panic!("{other:?}"),
    }
}

fn finish(id: &InboundEventId, attempts: u32, status: InboundEventStatus) -> FinishInboundEvent {
    FinishInboundEvent {
        id: id.clone(),
        attempts,
        status,
        outcome: Some(Payload::of(status.as_str()).unwrap()),
    }
}

#[tokio::test]
async fn an_event_is_taken_in_once_whatever_it_carries_the_second_time() {
    let place = TestFolder::new();
    let store = place.open().await;
    let first = receive(&store, event("evt_1")).await;
    assert_eq!(store.find_inbound_event(&first.id).await.unwrap().as_ref(), Some(&first));
    place.clock.advance(LEASE);
    let again = NewInboundEvent { body: b"forged".to_vec(), ..event("evt_1") };
    let counted = InboundEvent { duplicates: 1, ..first.clone() };
    assert_eq!(store.receive_event(again).await.unwrap(), ReceiveOutcome::Duplicate(counted.clone()));
    assert_eq!(store.find_inbound_event(&first.id).await.unwrap(), Some(counted));
    let elsewhere = InboundEventId { workspace: WorkspaceId::new("elsewhere").unwrap(), ..first.id.clone() };
    assert_eq!(store.find_inbound_event(&elsewhere).await.unwrap(), None);
    assert!(!store.finish_event(finish(&elsewhere, 0, InboundEventStatus::Applied)).await.unwrap());
    let other = receive(&store, NewInboundEvent { id: elsewhere, ..event("evt_1") }).await;
    assert!(other.place > first.place);
    let other_source = InboundEventId { source: source("github"), ..first.id };
    receive(&store, NewInboundEvent { id: other_source, ..event("evt_1") }).await;
}

#[tokio::test]
async fn what_became_of_an_event_is_written_once_per_attempt() {
    let place = TestFolder::new();
    let store = place.open().await;
    let hook = receive(&store, event("evt_1")).await;
    place.clock.advance(LEASE);
    let failed = finish(&hook.id, 0, InboundEventStatus::Failed);
    assert!(store.finish_event(failed.clone()).await.unwrap());
    assert!(!store.finish_event(failed).await.unwrap(), "sent again it changes nothing");
    let found = store.find_inbound_event(&hook.id).await.unwrap().unwrap();
    let outcome = Some(Payload::of("failed").unwrap());
    let changed_at = store.now();
    assert_eq!(
        found,
        InboundEvent { attempts: 1, status: InboundEventStatus::Failed, outcome, changed_at, ..hook.clone() }
    );
    assert!(store.finish_event(finish(&hook.id, 1, InboundEventStatus::Applied)).await.unwrap());
    assert_eq!(
        store.find_inbound_event(&hook.id).await.unwrap().unwrap().status,
        InboundEventStatus::Applied
    );
}

#[tokio::test]
async fn events_are_listed_newest_first_and_forgotten_when_they_are_old_and_done() {
    let place = TestFolder::new();
    let store = place.open().await;
    let mut events = Vec::new();
    for name in ["a", "b", "c", "d"] {
        events.push(receive(&store, event(name)).await);
        place.clock.advance(Duration::from_millis(1));
    }
    let other = InboundEventId { source: source("github"), ..events[0].id.clone() };
    let other = receive(&store, NewInboundEvent { id: other, ..event("a") }).await;
    assert!(store.finish_event(finish(&events[0].id, 0, InboundEventStatus::Applied)).await.unwrap());
    assert!(store.finish_event(finish(&events[2].id, 0, InboundEventStatus::Unmatched)).await.unwrap());
    let list = async |source: Option<&str>, status, before, limit| {
        let source = source.map(crate::inbound_events::source);
        let request = ListInboundEvents { workspace: workspace(), source, status, before, limit };
        let found = store.list_inbound_events(request).await.unwrap();
        found.iter().map(|hook| hook.place).collect::<Vec<_>>()
    };
    let places: Vec<u64> = events.iter().map(|hook| hook.place).collect();
    assert_eq!(list(None, None, None, 2).await, [other.place, places[3]]);
    assert_eq!(list(None, None, Some(places[3]), 9).await, [places[2], places[1], places[0]]);
    assert_eq!(list(Some("github"), None, None, 9).await, [other.place]);
    assert_eq!(
        list(Some("stripe"), Some(InboundEventStatus::Received), None, 9).await,
        [places[3], places[1]]
    );

    let waiting = async |before, limit| {
        let request = ListUnprocessedEvents { before, after: None, limit };
        let found = store.list_unprocessed_events(request).await.unwrap();
        found.iter().map(|hook| hook.place).collect::<Vec<_>>()
    };
    assert_eq!(waiting(store.now(), 9).await, [places[1], places[3]]);
    assert_eq!(waiting(store.now(), 1).await, [places[1]]);
    assert_eq!(waiting(events[3].received_at, 9).await, [places[1]]);
    assert_eq!(store.purge_inbound_events(events[2].received_at, 9).await.unwrap(), 1);
    assert_eq!(
        store.purge_inbound_events(store.now(), 9).await.unwrap(),
        1,
        "what nobody has processed stays"
    );
    assert_eq!(list(None, None, None, 9).await, [other.place, places[3], places[1]]);
    assert!(receive(&store, event("a")).await.place > other.place, "a place is never given twice");
}
