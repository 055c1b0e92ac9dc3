//! Promises by business key, promises without a run, and early settlements.

use std::collections::BTreeSet;
use std::time::Duration;

use hapax_engine::limits::MAX_PROMISES_SCANNED;
use hapax_engine::model::{
    AnnouncementKind, ClosePolicy, CommitBuilder, Failure, Generation, IdempotencyKey, JournalEntry,
    JournalEvent, KeyKind, KeyRecord, KeyTarget, Name, Payload, PendingRequest, Promise, PromiseId,
    PromiseKey, PromiseRef, PromiseState, PromiseStatus, RunCommand, RunCommit, RunFacts, RunHead, RunId,
    RunState, SettleRequest, Settlement, StepId, Subscriber, Subscribers, WorkspaceId, WriteToken,
};
use hapax_engine::store::{
    CommandRun, CommitOutcome, CreateOutcome, CreatePromise, KeyRef, KeyUsage, KeyUsageDelta,
    ListEarlySettlements, ListOutbox, ListPromises, PromiseStore, Purge, PutSettleToken, ReleaseKey,
    ReleaseOutcome, RequestKeyStore, RunCommandOutcome, SettleOutcome, SettlePromise, SettleToken, Store,
};
use hapax_store_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::fixture::*;

const KEEP: Duration = Duration::from_secs(60);

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

fn run_promise(store: &SqliteStore, run: &RunHead, name: &str) -> Promise {
    let id = PromiseId::for_step(run.id(), run.generation, &StepId::from_stored(name));
    Promise::pending(id, run.id(), store.now(), None)
}

fn keyed(promise: Promise, text: &str) -> Promise {
    Promise { key: Some(PromiseKey { key: key(text), keep_for: KEEP }), ..promise }
}

fn standalone(store: &SqliteStore, id: &str) -> Promise {
    Promise::pending(PromiseId::from_stored(id), RunId::NONE, store.now(), None)
}

/// A write that opens these and parks, having seen all that had arrived before.
fn park(store: &SqliteStore, held: &RunHead, promises: impl IntoIterator<Item = Promise>) -> RunCommit {
    let mut write = CommitBuilder::new(held, store.now());
    promises.into_iter().for_each(|promise| write.open_promise(promise));
    write.wait(None, held.arrivals).unwrap();
    write.finish()
}

async fn parked(store: &SqliteStore, write: RunCommit) -> (Vec<RunId>, Vec<Promise>) {
    match store.commit_run(write).await.unwrap() {
        CommitOutcome::Committed { woken, opened } => (woken, opened),
        other => panic!("{other:?}"),
    }
}

async fn create(store: &SqliteStore, promise: Promise) -> CreateOutcome {
    let request = CreatePromise { workspace: workspace(), promise, token: WriteToken::fresh() };
    store.create_promise(request).await.unwrap()
}

fn by_key(text: &str, value: &str) -> SettlePromise {
    SettlePromise {
        workspace: workspace(),
        promise: PromiseRef::Key(key(text)),
        wish: SettleRequest::new(Settlement::Resolved(Payload::of(value).unwrap())),
        keep_for: Some(KEEP),
        note: None,
        grant: None,
    }
}

fn by_id(id: &PromiseId, value: &str) -> SettlePromise {
    SettlePromise { promise: PromiseRef::Id(id.clone()), ..by_key("unused", value) }
}

async fn settle(store: &SqliteStore, request: SettlePromise) -> SettleOutcome {
    store.settle_promise(request).await.unwrap()
}

/// Makes one that is new.
async fn created(store: &SqliteStore, promise: Promise) {
    let made = create(store, promise).await;
    assert!(matches!(made, CreateOutcome::Created(_)), "{made:?}");
}

/// Settles one that is pending.
async fn settled(store: &SqliteStore, request: SettlePromise) {
    let done = settle(store, request).await;
    assert!(matches!(done, SettleOutcome::Settled { .. }), "{done:?}");
}

/// Settles one that nobody has made.
async fn kept(store: &SqliteStore, request: SettlePromise) {
    let done = settle(store, request).await;
    assert!(matches!(done, SettleOutcome::KeptEarly { .. }), "{done:?}");
}

async fn find(store: &SqliteStore, id: &PromiseId) -> Option<Promise> {
    store.find_promise(&workspace(), id).await.unwrap()
}

async fn named_by(store: &SqliteStore, text: &str) -> Option<PromiseId> {
    store.find_promise_by_key(&workspace(), &key(text)).await.unwrap().map(|promise| promise.id)
}

async fn record(store: &SqliteStore, text: &str) -> Option<KeyRecord> {
    store.find_key(&workspace(), KeyKind::Promise, &key(text)).await.unwrap()
}

async fn purge(store: &SqliteStore) -> hapax_engine::store::PurgeOutcome {
    let request = Purge { runs_closed_before: Some(store.now()), after: None, limit: 10 };
    store.purge(request).await.unwrap()
}

fn resolved(promise: &Promise) -> bool {
    promise.state.status() == PromiseStatus::Resolved
}

fn count(place: &TestFolder, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    Connection::open(place.file()).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap()
}

/// S4.22, S4.25, S4.35: found by its key, settled by its key, for as long as its maker asked.
#[tokio::test]
async fn a_promise_is_found_and_settled_by_its_key() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let promise = keyed(run_promise(&store, &held, "paid"), "stripe:ch_1");
    let (woken, opened) = parked(&store, park(&store, &held, [promise.clone()])).await;
    assert!(woken.is_empty() && opened.is_empty(), "there is nothing to know yet");
    assert_eq!(find(&store, &promise.id).await, Some(promise.clone()));
    assert_eq!(named_by(&store, "stripe:ch_1").await, Some(promise.id.clone()));
    let target = KeyTarget::Promise(promise.id.clone());
    let pending = KeyRecord { target, first_seen_at: store.now(), expires_at: None };
    assert_eq!(record(&store, "stripe:ch_1").await, Some(pending));
    place.clock.advance(10 * KEEP);
    assert_eq!(purge(&store).await.keys, 0, "G4.2: the key of what can be settled lives");

    let offer = SettlePromise { grant: Some(grant(2)), ..by_key("stripe:ch_1", "yes") };
    let SettleOutcome::Settled { promise: settled, granted: Some(granted), waiters } =
        settle(&store, offer).await
    else {
        panic!("whoever settles may drive the run");
    };
    assert!(resolved(&settled) && waiters.is_empty());
    assert_eq!((granted.id(), granted.arrivals), (held.id(), 1));
    for (value, expected) in [("yes", true), ("no", false)] {
        let again = settle(&store, by_key("stripe:ch_1", value)).await;
        assert!(matches!(again, SettleOutcome::AlreadySettled { same, .. } if same == expected));
    }
    assert_eq!(record(&store, "stripe:ch_1").await.unwrap().expires_at, Some(store.now().plus(KEEP)));
    place.clock.advance(KEEP);
    assert_eq!(named_by(&store, "stripe:ch_1").await, None);
    assert_eq!((purge(&store).await.keys, purge(&store).await.keys), (1, 0));
    assert!(find(&store, &promise.id).await.is_some(), "the promise stays with its run");
}

/// S4.26, G4.5: the second gets the holder of the key at once, also if it parks in the same write;
/// S4.27: an expired key is free.
#[tokio::test]
async fn a_key_names_one_promise() {
    let place = TestFolder::new();
    let store = place.open().await;
    let (first, second) = (start(&store, granted(facts(1))).await, start(&store, granted(facts(2))).await);
    let own = keyed(run_promise(&store, &first, "paid"), "k");
    parked(&store, park(&store, &first, [own.clone()])).await;
    let other = keyed(run_promise(&store, &second, "paid"), "k");
    let write = park(&store, &second, [other.clone(), run_promise(&store, &second, "plain")]);
    let (woken, opened) = parked(&store, write.clone()).await;
    let lost = Promise { state: PromiseState::KeyTaken { by: own.id.clone() }, ..other.clone() };
    assert_eq!((woken, &opened), (vec![second.id()], &vec![lost.clone()]));
    assert_eq!(find(&store, &other.id).await, Some(lost));
    let (woken, again) = parked(&store, write).await;
    assert_eq!((woken, again), (vec![], opened), "sent again it tells the same");
    assert_eq!(settle(&store, by_id(&other.id, "yes")).await, SettleOutcome::NoSuchPromise);

    let claimed = store.claim_runs(claim(1)).await.unwrap().runs.remove(0);
    assert_eq!((claimed.id(), claimed.arrivals), (second.id(), 1));
    assert!(matches!(settle(&store, by_key("k", "yes")).await, SettleOutcome::Settled { .. }));
    place.clock.advance(KEEP);
    let (woken, opened) = parked(&store, park(&store, &claimed, [other.clone()])).await;
    assert!(woken.is_empty() && opened.is_empty(), "judged anew, it has its key this time");
    assert_eq!(named_by(&store, "k").await, Some(other.id.clone()));
    assert_eq!(find(&store, &other.id).await, Some(other));
}

/// G4.1: nothing is lost if the settler is faster than the run; kept once, seen while it waits, and forgotten with its key.
#[tokio::test]
async fn a_settlement_that_comes_early_waits_for_its_promise() {
    let place = TestFolder::new();
    let store = place.open().await;
    let until = store.now().plus(KEEP);
    assert_eq!(
        settle(&store, SettlePromise { keep_for: None, ..by_key("k", "yes") }).await,
        SettleOutcome::NoSuchPromise
    );
    assert_eq!(settle(&store, by_key("k", "yes")).await, SettleOutcome::KeptEarly { until });
    for (value, same) in [("yes", true), ("no", false)] {
        let again = settle(&store, by_key("k", value)).await;
        assert_eq!(again, SettleOutcome::AlreadyKept { same, until });
    }
    let target = KeyTarget::Nothing;
    let claimed = KeyRecord { target, first_seen_at: store.now(), expires_at: Some(until) };
    assert_eq!(record(&store, "k").await, Some(claimed));
    let elsewhere = WorkspaceId::new("elsewhere").unwrap();
    let other = SettlePromise { workspace: elsewhere.clone(), ..by_key("j", "yes") };
    assert_eq!(settle(&store, other).await, SettleOutcome::KeptEarly { until });
    let list = |workspace, after| ListEarlySettlements { workspace, after, limit: 10 };
    let all = store.list_early_settlements(list(None, None)).await.unwrap();
    let places: Vec<_> = all.iter().map(|kept| (kept.workspace.as_str(), kept.key.as_str())).collect();
    assert_eq!(places, [("default", "k"), ("elsewhere", "j")]);
    let after = Some((workspace(), key("k")));
    assert_eq!(store.list_early_settlements(list(None, after)).await.unwrap(), all[1..]);
    assert_eq!(store.list_early_settlements(list(Some(workspace()), None)).await.unwrap(), all[..1]);

    let held = start(&store, granted(facts(1))).await;
    let promise = keyed(run_promise(&store, &held, "paid"), "k");
    let (woken, opened) = parked(&store, park(&store, &held, [promise.clone()])).await;
    assert!(resolved(&opened[0]) && opened[0].id == promise.id);
    assert_eq!(woken, [held.id()]);
    assert_eq!(record(&store, "k").await.unwrap().expires_at, Some(store.now().plus(KEEP)));
    let again = settle(&store, by_key("k", "yes")).await;
    assert!(matches!(again, SettleOutcome::AlreadySettled { same: true, .. }));
    assert_eq!(store.list_early_settlements(list(None, None)).await.unwrap(), all[1..], "it is used up");
    place.clock.advance(KEEP);
    assert!(store.list_early_settlements(list(None, None)).await.unwrap().is_empty());
    let purged = purge(&store).await;
    assert_eq!((purged.keys, purged.early), (2, 1));
    assert_eq!(count(&place, "hapax_early_settlements"), 0);
}

/// One that nobody made in time is not given to a promise that is made later.
#[tokio::test]
async fn an_early_settlement_that_expired_settles_nothing() {
    let place = TestFolder::new();
    let store = place.open().await;
    kept(&store, by_key("k", "late")).await;
    place.clock.advance(KEEP);
    let CreateOutcome::Created(promise) = create(&store, keyed(standalone(&store, "a"), "k")).await else {
        panic!("the key is free");
    };
    assert_eq!(promise.state, PromiseState::Pending);
    assert_eq!(count(&place, "hapax_early_settlements"), 0);
    assert_eq!(purge(&store).await.keys, 0);
}

#[tokio::test]
async fn a_promise_that_stands_alone_is_made_once_and_reads_back_whole() {
    let place = TestFolder::new();
    let store = place.open().await;
    let promise = Promise {
        create_key: Some(key("create")),
        about: Some(Payload::of("what for").unwrap()),
        deadline_at: Some(store.now().plus(KEEP)),
        ..keyed(standalone(&store, "order/7"), "k")
    };
    let request =
        CreatePromise { workspace: workspace(), promise: promise.clone(), token: WriteToken::fresh() };
    for _ in 0..2 {
        let created = store.create_promise(request.clone()).await.unwrap();
        assert_eq!(created, CreateOutcome::Created(Box::new(promise.clone())), "also when it is sent again");
    }
    assert_eq!(create(&store, promise.clone()).await, CreateOutcome::Exists(Box::new(promise.clone())));
    let conflict = create(&store, keyed(standalone(&store, "other"), "k")).await;
    assert_eq!(conflict, CreateOutcome::KeyConflict { existing: promise.id.clone() });
    assert!(find(&store, &PromiseId::from_stored("other")).await.is_none());

    let failure = Failure::permanent("nobody wants it");
    let wish = SettleRequest {
        settlement: Settlement::Cancelled(failure),
        rule: hapax_engine::model::SettleRule::SameKey { key: Some(key("complete")), strict: true },
        said: Some(Payload::of("word for word").unwrap()),
    };
    let request = SettlePromise { wish, ..by_key("k", "") };
    let SettleOutcome::Settled { promise: settled, .. } = settle(&store, request.clone()).await else {
        panic!("it was pending");
    };
    assert_eq!(settled.complete_key, Some(key("complete")));
    assert_eq!(find(&store, &promise.id).await, Some((*settled).clone()));
    assert!(matches!(settle(&store, request).await, SettleOutcome::AlreadySettled { same: true, .. }));

    let list = |status, after: Option<&str>| ListPromises {
        workspace: workspace(),
        run: Some(RunId::NONE),
        status,
        after: after.map(PromiseId::from_stored),
        limit: 10,
    };
    let late = Promise { deadline_at: Some(store.now().plus(KEEP)), ..standalone(&store, "late") };
    created(&store, late).await;
    let listed = async |status, after| {
        let found = store.list_promises(list(status, after)).await.unwrap().promises;
        found.iter().map(|promise| promise.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(None, None).await, ["late", "order/7"]);
    assert_eq!(listed(None, Some("late")).await, ["order/7"]);
    assert_eq!(listed(Some(PromiseStatus::Cancelled), None).await, ["order/7"]);
    assert_eq!(listed(Some(PromiseStatus::Pending), None).await, ["late"]);
    place.clock.advance(KEEP);
    assert_eq!(listed(Some(PromiseStatus::TimedOut), None).await, ["late"]);
    assert!(listed(Some(PromiseStatus::Pending), None).await.is_empty());
    let everywhere = ListPromises { run: None, ..list(Some(PromiseStatus::TimedOut), None) };
    assert_eq!(store.list_promises(everywhere).await.unwrap().promises[0].state, PromiseState::TimedOut);
}

/// However many stand otherwise, a page looks at a bounded number: it may be short, and says where to go on.
#[tokio::test]
async fn one_open_promise_among_very_many_is_found_page_by_page() {
    let place = TestFolder::new();
    let store = place.open().await;
    created(&store, standalone(&store, "z-open")).await;
    store.close().await.unwrap();
    let fill = "INSERT INTO hapax_promises (workspace, id, run, created_at, status, settled_at, value)
        WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ?1)
        SELECT 1, printf('done-%06d', n), zeroblob(16), 0, 1, 0, '1' FROM counted";
    let many = 2 * MAX_PROMISES_SCANNED + 1;
    Connection::open(place.file()).unwrap().execute(fill, [many as i64]).unwrap();
    let store = place.open().await;
    for run in [None, Some(RunId::NONE)] {
        let (mut after, mut pages) = (None, Vec::new());
        loop {
            let status = Some(PromiseStatus::Pending);
            let request = ListPromises { workspace: workspace(), run, status, after, limit: 10 };
            let page = store.list_promises(request).await.unwrap();
            pages.push(page.promises.iter().map(|promise| promise.id.to_string()).collect::<Vec<_>>());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages, [vec![], vec![], vec!["z-open".to_owned()]], "{run:?}");
    }
    let settled = ListPromises {
        workspace: workspace(),
        run: None,
        status: Some(PromiseStatus::Resolved),
        after: None,
        limit: 2,
    };
    let page = store.list_promises(settled).await.unwrap();
    assert_eq!((page.promises.len(), page.next), (2, Some(PromiseId::from_stored("done-000002"))));
}

/// Settled before or after they began to wait: no run sleeps through it.
#[tokio::test]
async fn runs_that_wait_for_a_promise_that_stands_alone_are_woken_by_it() {
    let place = TestFolder::new();
    let store = place.open().await;
    let made = standalone(&store, "approval");
    created(&store, made.clone()).await;
    let mut waiting = Vec::new();
    for id in [1, 2] {
        let held = start(&store, granted(facts(id))).await;
        let (woken, opened) = parked(&store, park(&store, &held, [made.clone()])).await;
        assert!(woken.is_empty() && opened.is_empty());
        waiting.push(held.id());
    }
    let log = store.find_log(&workspace(), waiting[0]).await.unwrap().unwrap();
    assert_eq!(log.promises, std::slice::from_ref(&made));
    let SettleOutcome::Settled { granted: None, waiters, .. } =
        settle(&store, SettlePromise { grant: Some(grant(3)), ..by_id(&made.id, "yes") }).await
    else {
        panic!("it was pending");
    };
    assert_eq!(waiters, waiting);
    let claimed = store.claim_runs(claim(1)).await.unwrap().runs;
    assert_eq!(claimed.iter().map(RunHead::id).collect::<Vec<_>>(), waiting);

    let held = start(&store, granted(facts(3))).await;
    let (woken, opened) = parked(&store, park(&store, &held, [made.clone()])).await;
    assert!(resolved(&opened[0]));
    assert_eq!(woken, [held.id()]);

    // A promise that its waiters open, with its own time.
    let held = start(&store, granted(facts(4))).await;
    let timed = Promise { deadline_at: Some(store.now().plus(KEEP)), ..standalone(&store, "unheard-of") };
    let (woken, opened) = parked(&store, park(&store, &held, [timed.clone()])).await;
    assert_eq!((woken, opened), (vec![held.id()], vec![timed]));
}

/// A run that begins anew lets go of its promises, their keys and tokens, and of what it waited for; so does one that is purged.
#[tokio::test]
async fn promises_go_with_their_run_and_nothing_is_left_of_them() {
    let place = TestFolder::new();
    let store = place.open().await;
    let made = standalone(&store, "approval");
    created(&store, made.clone()).await;
    let held = start(&store, granted(facts(1))).await;
    let own = keyed(run_promise(&store, &held, "paid"), "k");
    let mut write = CommitBuilder::new(&held, store.now());
    write.open_promise(own.clone());
    write.open_promise(made.clone());
    step(&mut write, &store, "a");
    let held = advance(&store, write.finish()).await;
    let token = |promise: &Promise, byte| SettleToken {
        digest: [byte; 32],
        workspace: workspace(),
        promise: promise.id.clone(),
        expires_at: store.now().plus(KEEP),
    };
    assert!(store.put_settle_token(PutSettleToken { token: token(&own, 1), note: None }).await.unwrap());
    assert!(store.put_settle_token(PutSettleToken { token: token(&made, 2), note: None }).await.unwrap());
    assert!(
        !store
            .put_settle_token(PutSettleToken { token: token(&standalone(&store, "nobody"), 3), note: None })
            .await
            .unwrap()
    );
    assert_eq!(store.find_settle_token(&[1; 32]).await.unwrap(), Some(token(&own, 1)));
    assert_eq!(store.find_settle_token(&[3; 32]).await.unwrap(), None);

    let mut anew = CommitBuilder::new(&held, store.now());
    anew.continue_as_new(Payload::of("next").unwrap()).unwrap();
    let next = RunHead { generation: anew.generation(), ..held.clone() };
    let second = keyed(run_promise(&store, &next, "paid"), "k");
    anew.open_promise(second.clone());
    let held = advance(&store, anew.finish()).await;
    assert_eq!(find(&store, &own.id).await, None);
    assert_eq!(named_by(&store, "k").await, Some(second.id.clone()), "the key went and was given anew");
    let log = store.find_log(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!(log.promises, [second]);
    assert_eq!(count(&place, "hapax_promise_waiters"), 0);
    assert_eq!(store.find_settle_token(&[1; 32]).await.unwrap(), None);
    assert!(store.find_settle_token(&[2; 32]).await.unwrap().is_some());

    let mut close = CommitBuilder::new(&held, store.now());
    close.open_promise(made.clone());
    close.close(hapax_engine::model::RunResult::Completed(Payload::null())).unwrap();
    advance(&store, close.finish()).await;
    place.clock.advance(KEEP);
    assert_eq!(purge(&store).await.runs, 1);
    for (table, left) in
        [("hapax_promises", 1), ("hapax_keys", 0), ("hapax_promise_waiters", 0), ("hapax_settle_tokens", 1)]
    {
        assert_eq!(count(&place, table), left, "{table}");
    }
}

#[tokio::test]
async fn promises_that_stand_alone_are_purged_when_they_are_over_and_nobody_waits() {
    let place = TestFolder::new();
    let store = place.open().await;
    for (id, text) in [("settled", "s"), ("awaited", "w")] {
        created(&store, keyed(standalone(&store, id), text)).await;
        settled(&store, by_key(text, "yes")).await;
    }
    created(&store, standalone(&store, "pending")).await;
    created(&store, Promise { deadline_at: Some(store.now()), ..standalone(&store, "timed-out") }).await;
    let held = start(&store, granted(facts(1))).await;
    let (_, opened) = parked(&store, park(&store, &held, [standalone(&store, "awaited")])).await;
    assert!(resolved(&opened[0]));
    assert_eq!(store.purge_promises(store.now(), 10).await.unwrap(), 0, "not yet");
    place.clock.advance(Duration::from_millis(1));
    assert_eq!(store.purge_promises(store.now(), 1).await.unwrap(), 1);
    assert_eq!(store.purge_promises(store.now(), 10).await.unwrap(), 1);
    assert_eq!((count(&place, "hapax_promises"), count(&place, "hapax_keys")), (2, 1));
    let claimed = store.claim_runs(claim(1)).await.unwrap().runs.remove(0);
    let mut close = CommitBuilder::new(&claimed, store.now());
    close.close(hapax_engine::model::RunResult::Completed(Payload::null())).unwrap();
    advance(&store, close.finish()).await;
    assert_eq!(store.purge_promises(store.now(), 10).await.unwrap(), 1);
    assert!(find(&store, &PromiseId::from_stored("pending")).await.is_some());
    assert_eq!((count(&place, "hapax_keys"), count(&place, "hapax_promise_waiters")), (0, 0));
}

#[tokio::test]
async fn the_key_of_a_promise_is_released_only_when_nobody_needs_it() {
    let place = TestFolder::new();
    let store = place.open().await;
    let release = async |text: &str| {
        let note = JournalEntry {
            workspace: workspace(),
            run: RunId::NONE,
            generation: Generation::default(),
            step: None,
            at: store.now(),
            fence: Default::default(),
            owner: None,
            by: None,
            what: JournalEvent::Claimed { attempt: 1 },
            evidence: None,
        };
        let place = KeyRef::Promise { workspace: workspace(), key: key(text) };
        store.release_key(ReleaseKey { place, note }).await.unwrap()
    };
    assert_eq!(release("unheard-of").await, ReleaseOutcome::NoSuchKey);
    kept(&store, by_key("early", "yes")).await;
    assert_eq!(release("early").await, ReleaseOutcome::Released);
    assert_eq!(release("early").await, ReleaseOutcome::NoSuchKey);
    assert_eq!(count(&place, "hapax_early_settlements"), 0);
    created(&store, keyed(standalone(&store, "a"), "alone")).await;
    assert_eq!(release("alone").await, ReleaseOutcome::InUse { run: None });
    settled(&store, by_key("alone", "yes")).await;
    assert_eq!(release("alone").await, ReleaseOutcome::Released);

    let held = start(&store, granted(facts(1))).await;
    parked(&store, park(&store, &held, [keyed(run_promise(&store, &held, "paid"), "own")])).await;
    assert_eq!(release("own").await, ReleaseOutcome::InUse { run: Some(held.id()) });
    steered(&store, cancel(held.id(), Subscribers::default())).await;
    let claimed = store.claim_runs(claim(1)).await.unwrap().runs;
    for run in claimed {
        let mut close = CommitBuilder::new(&run, store.now());
        close.close(hapax_engine::model::RunResult::Cancelled(Failure::permanent("asked"))).unwrap();
        advance(&store, close.finish()).await;
    }
    assert_eq!(release("own").await, ReleaseOutcome::Released);
    assert_eq!(named_by(&store, "own").await, None);
    assert_eq!(effects(&store).await[&RunId::NONE].0, 3, "each is in the journal");
}

/// G4.4: a run and a promise may have the same text as key; each is counted by itself, and anew when it is given anew.
#[tokio::test]
async fn keys_of_runs_and_promises_do_not_meet() {
    let place = TestFolder::new();
    let store = place.open().await;
    start(&store, with_key(1, "k", "a")).await;
    created(&store, keyed(standalone(&store, "a"), "k")).await;
    let place_of_promise = KeyRef::Promise { workspace: workspace(), key: key("k") };
    let place_of_run = KeyRef::Run { workspace: workspace(), key: key("k") };
    let uses = KeyUsage { replays: 2, conflicts: 1 };
    store.add_key_usage(vec![KeyUsageDelta { place: place_of_promise.clone(), uses }]).await.unwrap();
    assert_eq!(store.find_key_usage(&place_of_promise).await.unwrap(), uses);
    assert_eq!(store.find_key_usage(&place_of_run).await.unwrap(), KeyUsage::default());
    let kinds: Vec<_> = store.list_keys(None).await.unwrap().iter().map(|(place, _)| place.kind).collect();
    assert_eq!(kinds, [KeyKind::Run, KeyKind::Promise]);
    settled(&store, by_key("k", "yes")).await;
    assert_eq!(store.find_key_usage(&place_of_promise).await.unwrap(), uses);
    place.clock.advance(KEEP);
    created(&store, keyed(standalone(&store, "b"), "k")).await;
    assert_eq!(named_by(&store, "k").await, Some(PromiseId::from_stored("b")));
    assert_eq!(store.find_key_usage(&place_of_promise).await.unwrap(), KeyUsage::default());
}

/// S4.36: of many who make a promise under one key at the same time one wins, and an early settlement meets exactly that one.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_makers_of_one_key_one_wins_and_no_settlement_is_lost() {
    let place = TestFolder::new();
    let store = std::sync::Arc::new(place.open().await);
    for round in 0..50 {
        let text = format!("k{round}");
        let makers: Vec<_> = (0..4)
            .map(|n| {
                let (store, text) = (store.clone(), text.clone());
                tokio::spawn(async move {
                    create(&store, keyed(standalone(&store, &format!("{text}-{n}")), &text)).await
                })
            })
            .collect();
        let settling = {
            let (store, text) = (store.clone(), text.clone());
            tokio::spawn(async move { settle(&store, by_key(&text, "yes")).await })
        };
        let mut won = 0;
        for maker in makers {
            won += usize::from(matches!(maker.await.unwrap(), CreateOutcome::Created(_)));
        }
        let settled = settling.await.unwrap();
        assert!(
            matches!(settled, SettleOutcome::KeptEarly { .. } | SettleOutcome::Settled { .. }),
            "{settled:?}"
        );
        let promise = store.find_promise_by_key(&workspace(), &key(&text)).await.unwrap().unwrap();
        assert_eq!((won, resolved(&promise)), (1, true));
    }
}

/// S4.8, S4.34, S4.11, S4.15: the table rejects keys that name two objects, or never name one.
#[tokio::test]
async fn the_table_of_keys_refuses_what_no_key_can_be() {
    let place = TestFolder::new();
    place.open().await.close().await.unwrap();
    let file = Connection::open(place.file()).unwrap();
    let insert = |kind: i64, run: Option<[u8; 16]>, promise: Option<&str>, print: Option<[u8; 32]>, ends| {
        let sql = "INSERT INTO hapax_keys (workspace, kind, key, run, promise, fingerprint, first_seen_at, expires_at)
            VALUES (1, ?1, 'k', ?2, ?3, ?4, 1, ?5)";
        let done = file.execute(sql, rusqlite::params![kind, run, promise, print, ends]);
        file.execute("DELETE FROM hapax_keys", []).unwrap();
        done.is_ok()
    };
    let (run, print, never, some_time) = (Some([1; 16]), Some([1; 32]), None::<i64>, Some(5));
    assert!(insert(0, run, None, print, never));
    assert!(insert(1, None, Some("p"), None, never));
    assert!(insert(1, None, None, None, some_time), "a placeholder");
    assert!(!insert(1, None, None, None, never), "a placeholder for ever");
    assert!(!insert(0, None, None, None, some_time), "a placeholder for a run");
    assert!(!insert(0, run, Some("p"), print, never), "two targets");
    assert!(
        !insert(1, run, None, None, never) && !insert(0, None, Some("p"), print, never),
        "the wrong kind"
    );
    assert!(
        !insert(0, run, None, None, never) && !insert(1, None, Some("p"), print, never),
        "the fingerprint"
    );
}

fn cancel(run: RunId, announce: Subscribers) -> CommandRun {
    let command = RunCommand::Cancel { reason: "asked".into() };
    CommandRun { workspace: workspace(), run, command, expected: None, note: None, announce }
}

async fn steered(store: &SqliteStore, request: CommandRun) {
    let done = store.command_run(request).await.unwrap();
    assert!(matches!(done, RunCommandOutcome::Accepted(_)), "{done:?}");
}

/// Subscribers are notified about runs that the store itself ends.
#[tokio::test]
async fn runs_that_end_by_a_command_are_announced_with_their_children() {
    let place = TestFolder::new();
    let store = place.open().await;
    let parent = start(&store, new_run(facts(1))).await;
    for (id, grants) in [(2, false), (3, true)] {
        let child = RunFacts {
            parent: Some(parent.facts.as_parent(StepId::from_stored("c"), ClosePolicy::Cancel)),
            ..facts(id)
        };
        start(&store, if grants { granted(child) } else { new_run(child) }).await;
    }
    let target = Name::new("target", "webhook").unwrap();
    let wants = BTreeSet::from([AnnouncementKind::RunCancelled]);
    let announce = Subscribers::new(vec![Subscriber { target: target.clone(), wants }]);
    steered(&store, cancel(parent.id(), announce)).await;
    let all = ListOutbox { workspace: None, status: None, target: Some(target), after: None, limit: 10 };
    let mut told: Vec<_> =
        store.list_outbox(all).await.unwrap().iter().map(|post| post.run.as_u128()).collect();
    told.sort_unstable();
    assert_eq!(told, [1, 2], "the third is driven and ends later");
    let third = store.find_run(&workspace(), RunId::from_u128(3)).await.unwrap().unwrap().head;
    assert_eq!(third.asked, PendingRequest::Cancel);
    assert!(matches!(third.state, RunState::Running(_)));
}
