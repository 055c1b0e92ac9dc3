//! Webhooks that came in.

use std::time::Duration;

use hapax_engine::model::{Hook, HookId, HookStatus, Name, Payload, WorkspaceId};
use hapax_engine::store::{
    FinishHook, HookBook, ListHooks, ListUnprocessedHooks, NewHook, ReceivedHook, Store,
};
use hapax_store_sqlite::SqliteStore;

use crate::fixture::*;

fn source(name: &str) -> Name {
    Name::new("source", name).unwrap()
}

fn event(name: &str) -> NewHook {
    let id = HookId { workspace: workspace(), source: source("stripe"), event: name.into() };
    NewHook { id, headers: Payload::of("headers").unwrap(), body: vec![0, 159, 146, 150] }
}

async fn receive(store: &SqliteStore, hook: NewHook) -> Hook {
    match store.receive_hook(hook).await.unwrap() {
        ReceivedHook::New(hook) => hook,
        other => panic!("{other:?}"),
    }
}

fn finish(id: &HookId, attempts: u32, status: HookStatus) -> FinishHook {
    FinishHook { id: id.clone(), attempts, status, outcome: Some(Payload::of(status.as_str()).unwrap()) }
}

#[tokio::test]
async fn an_event_is_taken_in_once_whatever_it_carries_the_second_time() {
    let place = Place::new();
    let store = place.open().await;
    let first = receive(&store, event("evt_1")).await;
    assert_eq!(store.find_hook(&first.id).await.unwrap().as_ref(), Some(&first));
    place.clock.advance(LEASE);
    let again = NewHook { body: b"forged".to_vec(), ..event("evt_1") };
    let counted = Hook { duplicates: 1, ..first.clone() };
    assert_eq!(store.receive_hook(again).await.unwrap(), ReceivedHook::Again(counted.clone()));
    assert_eq!(store.find_hook(&first.id).await.unwrap(), Some(counted));
    let elsewhere = HookId { workspace: WorkspaceId::new("elsewhere").unwrap(), ..first.id.clone() };
    assert_eq!(store.find_hook(&elsewhere).await.unwrap(), None);
    assert!(!store.finish_hook(finish(&elsewhere, 0, HookStatus::Applied)).await.unwrap());
    let other = receive(&store, NewHook { id: elsewhere, ..event("evt_1") }).await;
    assert!(other.place > first.place);
    let other_source = HookId { source: source("github"), ..first.id };
    receive(&store, NewHook { id: other_source, ..event("evt_1") }).await;
}

#[tokio::test]
async fn what_became_of_an_event_is_written_once_per_attempt() {
    let place = Place::new();
    let store = place.open().await;
    let hook = receive(&store, event("evt_1")).await;
    place.clock.advance(LEASE);
    let failed = finish(&hook.id, 0, HookStatus::Failed);
    assert!(store.finish_hook(failed.clone()).await.unwrap());
    assert!(!store.finish_hook(failed).await.unwrap(), "sent again it changes nothing");
    let found = store.find_hook(&hook.id).await.unwrap().unwrap();
    let outcome = Some(Payload::of("failed").unwrap());
    let changed_at = store.now();
    assert_eq!(found, Hook { attempts: 1, status: HookStatus::Failed, outcome, changed_at, ..hook.clone() });
    assert!(store.finish_hook(finish(&hook.id, 1, HookStatus::Applied)).await.unwrap());
    assert_eq!(store.find_hook(&hook.id).await.unwrap().unwrap().status, HookStatus::Applied);
}

#[tokio::test]
async fn events_are_listed_newest_first_and_forgotten_when_they_are_old_and_done() {
    let place = Place::new();
    let store = place.open().await;
    let mut hooks = Vec::new();
    for name in ["a", "b", "c", "d"] {
        hooks.push(receive(&store, event(name)).await);
        place.clock.advance(Duration::from_millis(1));
    }
    let other = HookId { source: source("github"), ..hooks[0].id.clone() };
    let other = receive(&store, NewHook { id: other, ..event("a") }).await;
    assert!(store.finish_hook(finish(&hooks[0].id, 0, HookStatus::Applied)).await.unwrap());
    assert!(store.finish_hook(finish(&hooks[2].id, 0, HookStatus::Unmatched)).await.unwrap());
    let list = async |source: Option<&str>, status, before, limit| {
        let source = source.map(crate::hooks::source);
        let request = ListHooks { workspace: workspace(), source, status, before, limit };
        let found = store.list_hooks(request).await.unwrap();
        found.iter().map(|hook| hook.place).collect::<Vec<_>>()
    };
    let places: Vec<u64> = hooks.iter().map(|hook| hook.place).collect();
    assert_eq!(list(None, None, None, 2).await, [other.place, places[3]]);
    assert_eq!(list(None, None, Some(places[3]), 9).await, [places[2], places[1], places[0]]);
    assert_eq!(list(Some("github"), None, None, 9).await, [other.place]);
    assert_eq!(list(Some("stripe"), Some(HookStatus::Received), None, 9).await, [places[3], places[1]]);

    let waiting = async |before, limit| {
        let request = ListUnprocessedHooks { before, after: None, limit };
        let found = store.list_unprocessed_hooks(request).await.unwrap();
        found.iter().map(|hook| hook.place).collect::<Vec<_>>()
    };
    assert_eq!(waiting(store.now(), 9).await, [places[1], places[3]]);
    assert_eq!(waiting(store.now(), 1).await, [places[1]]);
    assert_eq!(waiting(hooks[3].received_at, 9).await, [places[1]]);
    assert_eq!(store.purge_hooks(hooks[2].received_at, 9).await.unwrap(), 1);
    assert_eq!(store.purge_hooks(store.now(), 9).await.unwrap(), 1, "what nobody has processed stays");
    assert_eq!(list(None, None, None, 9).await, [other.place, places[3], places[1]]);
    assert!(receive(&store, event("a")).await.place > other.place, "a place is never given twice");
}
