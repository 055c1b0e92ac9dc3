//! One process owns the file, or several share it.

use std::time::Duration;

use hapax_engine::model::{Name, OutboxMessage, OutboxState, OwnerId};
use hapax_engine::store::{ClaimOutbox, ListDoubts, Store, StoreError};
use hapax_store_sqlite::{OpenError, SqliteStore};

use crate::fixture::*;

/// Fault 30: a second server on the same file is refused, and told who has it.
#[tokio::test]
async fn a_second_opener_is_told_who_has_the_file() {
    let place = TestFolder::new();
    let _store = place.open().await;
    let error = SqliteStore::open(place.file(), place.options()).await.unwrap_err();
    let OpenError::Owned { who, .. } = &error else { panic!("{error:?}") };
    assert_eq!((who.pid, who.shared), (Some(std::process::id()), false));
    assert!(who.since.starts_with("2026-01-01"), "{who}");
    let text = error.to_string();
    assert!(text.contains(&std::process::id().to_string()) && text.contains("stop that process"), "{text}");
}

#[tokio::test]
async fn a_link_to_the_file_is_the_same_file() {
    let place = TestFolder::new();
    let _store = place.open().await;
    let link = place.folder.path().join("link.db");
    std::os::unix::fs::symlink(place.file(), &link).unwrap();
    let error = SqliteStore::open(link, place.options()).await.unwrap_err();
    assert!(matches!(error, OpenError::Owned { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_is_free_again_once_it_is_closed_or_dropped() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, new_run(facts(1))).await;
    store.close().await.unwrap();
    let second = place.open().await;
    start(&second, new_run(facts(2))).await;
    drop(second);
    let third = place.open().await;
    assert_eq!(third.claim_runs(claim(1)).await.unwrap().runs.len(), 2);
}

#[tokio::test]
async fn a_closed_store_says_so_and_can_be_closed_again() {
    let place = TestFolder::new();
    let store = place.open().await;
    store.close().await.unwrap();
    store.close().await.unwrap();
    let write = store.start_run(new_run(facts(1))).await.unwrap_err();
    let read = store.find_run(&workspace(), new_run(facts(1)).facts.id).await.unwrap_err();
    for error in [write, read] {
        assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("closed")), "{error:?}");
    }
    assert!(!place.folder.path().join("orders.db-wal").exists(), "the log was copied into the file");
}

#[tokio::test]
async fn looking_on_works_meanwhile_and_writes_nothing() {
    let place = TestFolder::new();
    let store = place.open().await;
    let run = start(&store, granted(facts(1))).await;
    let look = SqliteStore::open(place.file(), place.options().read_only(true)).await.unwrap();
    let seen = || async { look.find_run(&workspace(), run.id()).await.unwrap().unwrap().head };
    assert_eq!(seen().await, run);
    let after = advance(&store, one_step(&store, &run, "a")).await;
    assert_eq!(seen().await, after, "it sees every write");
    let error = look.start_run(new_run(facts(2))).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    let error = look.append_journal(Vec::new()).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    let error = look.claim_outbox(claim_outbox(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    let doubts = ListDoubts { workspace: None, after: None, limit: 1 };
    assert!(look.list_doubts(doubts).await.unwrap().is_empty());
    look.close().await.unwrap();
    drop(look);
    advance(&store, one_step(&store, &after, "b")).await;
}

#[tokio::test]
async fn an_owner_knows_that_every_lease_before_it_is_dead() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let parked = start(&store, granted(facts(2))).await;
    let mut park = hapax_engine::model::CommitBuilder::new(&parked, store.now());
    park.wait(Some(store.now().plus(Duration::from_secs(7))), 0).unwrap();
    advance(&store, park.finish()).await;
    drop(store);

    let store = place.open().await;
    let view = store.find_run(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!(view.head.state.lease().unwrap().until, store.now(), "it is due, and takes no version");
    assert_eq!((view.head.version, view.head.fence), (held.version, held.fence));
    let claimed = store.claim_runs(claim(2)).await.unwrap().runs;
    assert_eq!(claimed.len(), 1, "the parked one sleeps on");
    assert_eq!((claimed[0].id(), claimed[0].stalls), (held.id(), 1));
}

/// An after-effect that `owner` delivers.
async fn claimed_post(store: &SqliteStore, owner: u128) -> OutboxMessage {
    let claimed = store.claim_outbox(claim_outbox(owner)).await.unwrap().posts;
    assert_eq!(claimed.len(), 1, "one is due: {claimed:?}");
    claimed[0].clone()
}

fn claim_outbox(owner: u128) -> ClaimOutbox {
    let room = vec![(Name::new("target", "mail").unwrap(), 9)];
    ClaimOutbox { owner: OwnerId::from_u128(owner), lease_for: LEASE, room }
}

#[tokio::test]
async fn an_owner_knows_that_every_delivery_before_it_is_dead() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let later =
        OutboxMessage { state: OutboxState::Due { at: store.now().plus(LEASE) }, ..post(&held, "later") };
    let mut write = one_step(&store, &held, "notify");
    write.posts = vec![post(&held, "notify"), later.clone()];
    advance(&store, write).await;
    let before = claimed_post(&store, 1).await;
    drop(store);

    let store = place.open().await;
    let after = claimed_post(&store, 2).await;
    assert_eq!((&after.id, after.attempts), (&before.id, 2), "it is due at once, and what is not due stays");
    drop(store);
    let shared = SqliteStore::open(place.file(), place.options().shared(true)).await.unwrap();
    let none = shared.claim_outbox(claim_outbox(3)).await.unwrap().posts;
    assert!(none.is_empty(), "others may live, so the claim may, too");
}

#[tokio::test]
async fn several_may_share_and_leases_keep_them_apart() {
    let place = TestFolder::new();
    let shared = || SqliteStore::open(place.file(), place.options().shared(true));
    let (one, other) = (shared().await.unwrap(), shared().await.unwrap());
    let held = start(&one, granted(facts(1))).await;
    assert!(other.claim_runs(claim(2)).await.unwrap().runs.is_empty());
    drop(one);
    let one = shared().await.unwrap();
    assert!(one.claim_runs(claim(3)).await.unwrap().runs.is_empty(), "others live, so the lease may, too");
    place.clock.advance(LEASE);
    let taken = other.claim_runs(claim(2)).await.unwrap().runs;
    assert_eq!(taken[0].fence, held.fence.next());
    // Names that one of them numbered are known to the other.
    let new = hapax_engine::model::RunFacts {
        workspace: hapax_engine::model::WorkspaceId::new("second").unwrap(),
        ..facts(2)
    };
    let made = start(&one, new_run(new.clone())).await;
    assert_eq!(start(&other, new_run(new)).await, made);
}

#[tokio::test]
async fn owning_and_sharing_exclude_each_other() {
    let place = TestFolder::new();
    let owner = place.open().await;
    let error = SqliteStore::open(place.file(), place.options().shared(true)).await.unwrap_err();
    assert!(matches!(&error, OpenError::Owned { who, .. } if !who.shared), "{error:?}");
    drop(owner);
    let _sharer = SqliteStore::open(place.file(), place.options().shared(true)).await.unwrap();
    let error = SqliteStore::open(place.file(), place.options()).await.unwrap_err();
    assert!(matches!(&error, OpenError::Owned { who, .. } if who.shared), "{error:?}");
}

/// Fault 30: SQLite alone would go on writing into a file that nobody can find.
#[tokio::test]
async fn a_file_that_was_removed_or_replaced_takes_no_more_writes() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, new_run(facts(1))).await;
    let aside = place.folder.path().join("aside.db");
    std::fs::rename(place.file(), &aside).unwrap();
    let gone = store.start_run(new_run(facts(2))).await.unwrap_err();
    assert!(matches!(&gone, StoreError::Broken(why) if why.contains("moved or deleted")), "{gone:?}");
    std::fs::write(place.file(), "another").unwrap();
    let replaced = store.start_run(new_run(facts(2))).await.unwrap_err();
    assert!(matches!(&replaced, StoreError::Broken(why) if why.contains("replaced")), "{replaced:?}");
    std::fs::rename(aside, place.file()).unwrap();
    start(&store, new_run(facts(2))).await;
}
