//! Promises under business keys: lookup, uniqueness, and early settlements.

use std::time::Duration;

use hapax_engine::model::{
    EventKind, IdempotencyKey, KeyKind, KeyTarget, Promise, PromiseId, PromiseKey, PromiseRef, PromiseState,
    RunHead, RunId, RunStatus, SettleRequest, SettleRule, Settlement, WorkspaceId, WriteToken,
};
use hapax_engine::store::*;

use crate::fixture::*;
use crate::must;

const TTL: Duration = Duration::from_secs(24 * 3600);
const DAY: Duration = TTL;
const KEPT: Duration = Duration::from_secs(4 * 24 * 3600);

pub(super) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

fn keyed(promise: Promise, text: &str) -> Promise {
    Promise { key: Some(PromiseKey { key: key(text), keep_for: TTL }), ..promise }
}

fn book(t: &TestStore) -> &dyn PromiseStore {
    t.store.promise_store().expect("it keeps promises by key")
}

/// A write that makes the run wait for a promise under a key.
async fn opening<'t>(t: &'t TestStore, run: &RunHead, step: &str, text: &str) -> Write<'t> {
    let promise = Promise::pending(promise_of(run, step), run.id(), t.now(), None);
    t.write(run).await.waits_for(step, keyed(promise, text))
}

/// A parked run that waits for a payment under the key.
async fn parked(t: &TestStore, text: &str) -> RunHead {
    let run = t.driven().await;
    opening(t, &run, "payment", text).await.parks().done().await
}

async fn find(t: &TestStore, text: &str) -> Option<Promise> {
    book(t).find_promise_by_key(&WorkspaceId::default(), &key(text)).await.unwrap()
}

pub(super) fn by_key(text: &str, value: &str) -> SettlePromise {
    SettlePromise {
        workspace: WorkspaceId::default(),
        promise: PromiseRef::Key(key(text)),
        wish: SettleRequest::new(Settlement::Resolved(json(value))),
        keep_for: Some(KEPT),
        note: None,
        grant: None,
    }
}

async fn settle(t: &TestStore, text: &str, value: &str) -> SettleOutcome {
    t.store.settle_promise(by_key(text, value)).await.unwrap()
}

pub(super) fn standalone(t: &TestStore, id: &str) -> Promise {
    Promise::pending(PromiseId::standalone(id).unwrap(), RunId::NONE, t.now(), None)
}

pub(in crate::cases) async fn create(t: &TestStore, promise: Promise) -> CreateOutcome {
    let request = CreatePromise { workspace: WorkspaceId::default(), promise, token: WriteToken::fresh() };
    book(t).create_promise(request).await.unwrap()
}

fn value(settled: &PromiseState) -> &Settlement {
    match settled {
        PromiseState::Settled { settlement, .. } => settlement,
        other => panic!("it is {other:?}"),
    }
}

/// S4.5-S4.7, S4.25: a caller finds the promise by its key, and settling it wakes the run.
pub(super) async fn a_promise_is_found_and_settled_by_its_key(t: &TestStore) {
    let run = parked(t, "stripe:ch_1").await;
    let found = find(t, "stripe:ch_1").await.expect("it is there");
    assert_eq!((&found.id, found.run), (&promise_of(&run, "payment"), run.id()));
    assert_eq!(t.log(&run).await.promises, [found]);
    let promise =
        must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::Settled { promise, .. } => promise);
    assert_eq!(*value(&promise.state), Settlement::Resolved(json("1")));
    assert_eq!(t.claim_one(BOB).await.arrivals, 1);
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::AlreadySettled { same: true, .. });
    must!(settle(t, "stripe:ch_1", "2").await, SettleOutcome::AlreadySettled { same: false, .. });
}

/// S4.14: keys are scoped to a workspace and compared byte by byte.
pub(super) async fn a_key_names_a_promise_only_in_its_workspace_and_exactly(t: &TestStore) {
    parked(t, "stripe:ch_1").await;
    let elsewhere = WorkspaceId::new("elsewhere").unwrap();
    assert_eq!(book(t).find_promise_by_key(&elsewhere, &key("stripe:ch_1")).await.unwrap(), None);
    let foreign = SettlePromise { workspace: elsewhere, keep_for: None, ..by_key("stripe:ch_1", "1") };
    must!(t.store.settle_promise(foreign).await.unwrap(), SettleOutcome::NoSuchPromise);
    let other = SettlePromise { keep_for: None, ..by_key("stripe:CH_1", "1") };
    must!(t.store.settle_promise(other).await.unwrap(), SettleOutcome::NoSuchPromise);
    assert_eq!(find(t, "stripe:ch_1").await.unwrap().state, PromiseState::Pending);
}

/// G4.4: the same key may name a run and a promise.
pub(super) async fn a_run_and_a_promise_may_have_the_same_key(t: &TestStore) {
    let started = t.order().key("k").start().await;
    let run = parked(t, "k").await;
    assert_eq!(t.key("k").await.unwrap().run(), Some(started.id()));
    let record =
        t.store.find_key(&WorkspaceId::default(), KeyKind::Promise, &key("k")).await.unwrap().unwrap();
    assert_eq!(record.target, KeyTarget::Promise(promise_of(&run, "payment")));
    assert_eq!(record.expires_at, None, "it lives while the promise can be settled");
    assert_eq!(t.store.list_keys(None).await.unwrap().len(), 2);
}

/// S4.26, G4.5: a key that another promise holds is not reassigned. The run learns which promise holds it, and does not
/// keep waiting.
pub(super) async fn a_run_learns_which_promise_holds_its_key(t: &TestStore) {
    let first = parked(t, "stripe:ch_1").await;
    let second = t.driven().await;
    let write = opening(t, &second, "payment", "stripe:ch_1").await.parks().advance();
    let (woken, opened) = must!(
        t.store.commit_run(write.clone()).await.unwrap(),
        CommitOutcome::Committed { woken, opened } => (woken, opened)
    );
    let by = promise_of(&first, "payment");
    assert_eq!(woken, [second.id()]);
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].state, PromiseState::KeyTaken { by: by.clone() });
    let again =
        must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { opened, .. } => opened);
    assert_eq!(again, opened, "sent again it says the same");
    assert_eq!(t.log(&second).await.promises, opened, "a replay sees it");
    assert_eq!(find(t, "stripe:ch_1").await.unwrap().id, by);
    must!(t.settle(&second, "payment", "1").await, SettleOutcome::NoSuchPromise);
    let held = t.claim_one(BOB).await;
    assert_eq!((held.id(), held.arrivals), (second.id(), 1));
}

/// A promise that lost its key is checked again when it is reopened, for example after a retry.
pub(super) async fn a_promise_that_lost_its_key_is_judged_anew(t: &TestStore) {
    let first = parked(t, "stripe:ch_1").await;
    let second = t.driven().await;
    let second = opening(t, &second, "payment", "stripe:ch_1").await.done().await;
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::Settled { .. });
    t.pass(DAY);
    let held = t.claim(BOB).await.into_iter().find(|head| head.id() == second.id()).expect("it is due");
    let promise = Promise::pending(promise_of(&held, "payment"), held.id(), t.now(), None);
    let mut advance = t.write(&held).await.does("again").advance();
    advance.promises.push(keyed(promise, "stripe:ch_1"));
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { opened, .. } if opened.is_empty());
    assert_eq!(find(t, "stripe:ch_1").await.unwrap().id, promise_of(&held, "payment"));
    assert_ne!(first.id(), held.id());
}

/// S4.27, S4.36: an expired key is free.
pub(super) async fn an_expired_key_is_given_to_the_next_promise(t: &TestStore) {
    let first = parked(t, "stripe:ch_1").await;
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::Settled { .. });
    t.pass(DAY - Duration::from_millis(1));
    assert_eq!(find(t, "stripe:ch_1").await.unwrap().id, promise_of(&first, "payment"));
    t.pass(Duration::from_millis(1));
    assert_eq!(find(t, "stripe:ch_1").await, None);
    let second = parked(t, "stripe:ch_1").await;
    assert_eq!(find(t, "stripe:ch_1").await.unwrap().id, promise_of(&second, "payment"));
    must!(settle(t, "stripe:ch_1", "2").await, SettleOutcome::Settled { .. });
    assert_eq!(*value(&t.log(&first).await.promises[0].state), Settlement::Resolved(json("1")));
}

/// G4.2: the key of an open promise never expires, whatever its time to live.
pub(super) async fn a_key_never_expires_before_its_promise(t: &TestStore) {
    let run = t.driven().await;
    let deadline = t.now().plus(30 * DAY);
    let late = Promise::pending(promise_of(&run, "payment"), run.id(), t.now(), Some(deadline));
    t.write(&run).await.waits_for("payment", keyed(late, "late")).parks_until(Some(deadline)).done().await;
    parked(t, "open").await;
    t.pass(30 * DAY - SECOND);
    assert_eq!(t.purge().await.keys, 0);
    assert!(find(t, "late").await.is_some() && find(t, "open").await.is_some());
    t.pass(SECOND);
    assert_eq!(find(t, "late").await.unwrap().state, PromiseState::TimedOut);
    must!(settle(t, "late", "1").await, SettleOutcome::TimedOut { .. });
    t.pass(DAY);
    assert_eq!(t.purge().await.keys, 1);
    assert_eq!(find(t, "late").await, None);
    must!(settle(t, "open", "1").await, SettleOutcome::Settled { .. });
}

/// G4.1: an early settlement is stored, listed, and applied to its promise.
pub(super) async fn a_settlement_that_comes_first_is_kept_for_its_promise(t: &TestStore) {
    let until = t.now().plus(KEPT);
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::KeptEarly { until: kept } if kept == until);
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::AlreadyKept { same: true, until: kept } if kept == until);
    must!(settle(t, "stripe:ch_1", "2").await, SettleOutcome::AlreadyKept { same: false, .. });
    let record =
        t.store.find_key(&WorkspaceId::default(), KeyKind::Promise, &key("stripe:ch_1")).await.unwrap();
    assert_eq!(record.unwrap().target, KeyTarget::Nothing, "S4.15: claimed for what is to come");
    let listed = early(t).await;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].key, listed[0].early.expires_at), (&key("stripe:ch_1"), until));
    t.pass(SECOND);
    let run = t.driven().await;
    let write = opening(t, &run, "payment", "stripe:ch_1").await.parks().advance();
    let (woken, opened) = must!(
        t.store.commit_run(write).await.unwrap(),
        CommitOutcome::Committed { woken, opened } => (woken, opened)
    );
    assert_eq!((woken, opened.len()), (vec![run.id()], 1));
    assert_eq!(*value(&opened[0].state), Settlement::Resolved(json("1")));
    assert!(early(t).await.is_empty(), "it is used up");
    let held = t.claim_one(BOB).await;
    assert_eq!((held.id(), held.arrivals), (run.id(), 1));
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::AlreadySettled { same: true, .. });
}

async fn early(t: &TestStore) -> Vec<StoredEarlySettlement> {
    let request = ListEarlySettlements { workspace: Some(WorkspaceId::default()), after: None, limit: 10 };
    book(t).list_early_settlements(request).await.unwrap()
}

/// A running run gets an early settlement in the answer to its own write.
pub(super) async fn a_driven_run_gets_an_early_settlement(t: &TestStore) {
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::KeptEarly { .. });
    let run = t.driven().await;
    let write = opening(t, &run, "payment", "stripe:ch_1").await.advance();
    let opened =
        must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { opened, .. } => opened);
    assert_eq!(opened.len(), 1);
    let head = t.head(&run).await;
    assert_eq!((head.arrivals, head.status()), (1, RunStatus::Running));
    t.write(&head).await.gets("payment").done().await;
}

/// An unused early settlement is purged after its retention and counted, and its key is free.
pub(super) async fn an_unused_early_settlement_is_purged(t: &TestStore) {
    must!(settle(t, "stripe:ch_1", "1").await, SettleOutcome::KeptEarly { .. });
    t.pass(KEPT - Duration::from_millis(1));
    assert_eq!((early(t).await.len(), t.purge().await.early), (1, 0));
    t.pass(Duration::from_millis(1));
    assert!(early(t).await.is_empty(), "not shown, though nobody has purged yet");
    let purged = t.purge().await;
    assert_eq!((purged.keys, purged.early), (1, 1));
    parked(t, "stripe:ch_1").await;
    assert_eq!(find(t, "stripe:ch_1").await.unwrap().state, PromiseState::Pending);
    must!(settle(t, "other", "1").await, SettleOutcome::KeptEarly { .. });
    t.pass(KEPT);
    must!(settle(t, "other", "2").await, SettleOutcome::KeptEarly { .. });
}

/// A caller that does not allow early settlement learns that there is no promise.
pub(super) async fn a_settlement_is_kept_only_if_asked_for(t: &TestStore) {
    let request = SettlePromise { keep_for: None, ..by_key("stripe:ch_1", "1") };
    must!(t.store.settle_promise(request).await.unwrap(), SettleOutcome::NoSuchPromise);
    assert!(early(t).await.is_empty());
    assert!(t.store.list_keys(None).await.unwrap().is_empty());
}

/// S4.10: a promise's key is deleted with it, when its run continues as new or is purged.
pub(super) async fn a_key_goes_with_its_promise(t: &TestStore) {
    let run = t.driven().await;
    let run = opening(t, &run, "payment", "first").await.done().await;
    let run = t.write(&run).await.gives_up("payment").continues_with("2").done().await;
    assert_eq!(find(t, "first").await, None);
    let run = opening(t, &run, "payment", "second").await.done().await;
    t.write(&run).await.gives_up("payment").completes("1").done().await;
    assert!(find(t, "second").await.is_some(), "while its run is there");
    t.pass(2 * DAY);
    assert_eq!(t.purge().await.runs, 1);
    assert_eq!(find(t, "second").await, None);
    assert!(t.store.list_keys(None).await.unwrap().is_empty());
}

/// A person may release the key of a settled promise or of a closed run's promise, but not while a run waits for it.
pub(super) async fn a_promise_key_is_freed_by_people(t: &TestStore) {
    let place = |text: &str| KeyRef::Promise { workspace: WorkspaceId::default(), key: key(text) };
    let run = parked(t, "waits").await;
    must!(t.release(place("waits")).await, ReleaseOutcome::InUse { run: Some(held) } if held == run.id());
    must!(settle(t, "waits", "1").await, SettleOutcome::Settled { .. });
    must!(t.release(place("waits")).await, ReleaseOutcome::Released);
    must!(t.release(place("waits")).await, ReleaseOutcome::NoSuchKey);
    assert_eq!(find(t, "waits").await, None);
    must!(settle(t, "early", "1").await, SettleOutcome::KeptEarly { .. });
    must!(t.release(place("early")).await, ReleaseOutcome::Released);
    assert!(early(t).await.is_empty());
    let held = t.driven().await;
    let held = opening(t, &held, "payment", "left").await.done().await;
    t.write(&held).await.gives_up("payment").completes("1").done().await;
    must!(t.release(place("left")).await, ReleaseOutcome::Released);
    parked(t, "left").await;
    let uses = KeyUsageDelta { place: place("left"), uses: KeyUsage { replays: 2, conflicts: 1 } };
    t.book().add_key_usage(vec![uses]).await.unwrap();
    assert_eq!(t.book().find_key_usage(&place("left")).await.unwrap(), KeyUsage { replays: 2, conflicts: 1 });
    must!(settle(t, "left", "1").await, SettleOutcome::Settled { .. });
    assert_eq!(t.book().find_key_usage(&place("left")).await.unwrap(), KeyUsage { replays: 2, conflicts: 1 });
    t.pass(DAY);
    parked(t, "left").await;
    assert_eq!(t.book().find_key_usage(&place("left")).await.unwrap(), KeyUsage::default(), "counted anew");
}

/// A standalone promise is created once, with all its fields, and settled like any other.
pub(super) async fn a_promise_can_be_standalone(t: &TestStore) {
    let promise = Promise {
        create_key: Some(key("maker")),
        about: Some(json(r#"{"param":{"data":"x"},"tags":{"a":"b"}}"#)),
        deadline_at: Some(t.now().plus(HOUR)),
        ..keyed(standalone(t, "approval/7"), "approval:7")
    };
    must!(create(t, promise.clone()).await, CreateOutcome::Created(made) if *made == promise);
    must!(create(t, promise.clone()).await, CreateOutcome::Exists(there) if *there == promise);
    let request = CreatePromise {
        workspace: WorkspaceId::default(),
        promise: standalone(t, "b"),
        token: WriteToken::fresh(),
    };
    for _ in 0..2 {
        must!(book(t).create_promise(request.clone()).await.unwrap(), CreateOutcome::Created(_));
    }
    let taken = must!(create(t, keyed(standalone(t, "c"), "approval:7")).await, CreateOutcome::KeyConflict { existing } => existing);
    assert_eq!(taken, promise.id);
    assert_eq!(
        t.store.find_promise(&WorkspaceId::default(), &PromiseId::from_stored("c")).await.unwrap(),
        None
    );
    let rule = SettleRule::SameKey { key: Some(key("settler")), strict: true };
    let wish = SettleRequest {
        settlement: Settlement::Resolved(json("1")),
        rule,
        said: Some(json(r#"{"data":"1"}"#)),
    };
    let request = SettlePromise { wish, ..by_key("approval:7", "1") };
    let settled = must!(t.store.settle_promise(request.clone()).await.unwrap(), SettleOutcome::Settled { promise, .. } => promise);
    assert_eq!(
        (&settled.complete_key, &settled.said),
        (&Some(key("settler")), &Some(json(r#"{"data":"1"}"#)))
    );
    assert_eq!(find(t, "approval:7").await, Some(*settled));
    must!(t.store.settle_promise(request).await.unwrap(), SettleOutcome::AlreadySettled { same: true, .. });
    must!(settle(t, "approval:7", "2").await, SettleOutcome::AlreadySettled { same: false, .. });
}

/// G4.1 also holds for standalone promises.
pub(super) async fn a_standalone_promise_takes_an_early_settlement(t: &TestStore) {
    must!(settle(t, "approval:7", "1").await, SettleOutcome::KeptEarly { .. });
    let made =
        must!(create(t, keyed(standalone(t, "a"), "approval:7")).await, CreateOutcome::Created(made) => made);
    assert_eq!(*value(&made.state), Settlement::Resolved(json("1")));
    assert!(early(t).await.is_empty());
}

fn waits_for<'t>(t: &TestStore, write: Write<'t>, id: &str) -> Write<'t> {
    write.waits_for("promise", standalone(t, id))
}

/// Settling a standalone promise wakes every run that waits for it, whether a caller or a run created it.
pub(super) async fn many_runs_wait_for_one_promise(t: &TestStore) {
    let first = t.driven().await;
    let first = waits_for(t, t.write(&first).await, "go").parks().done().await;
    let second = t.driven().await;
    let second = waits_for(t, t.write(&second).await, "go").parks().done().await;
    let driven = t.driven().await;
    let driven = waits_for(t, t.write(&driven).await, "go").done().await;
    let request =
        SettlePromise { promise: PromiseRef::Id(PromiseId::from_stored("go")), ..by_key("unused", "1") };
    let mut waiters = must!(t.store.settle_promise(request).await.unwrap(), SettleOutcome::Settled { waiters, granted: None, .. } => waiters);
    waiters.sort();
    let mut expected = vec![first.id(), second.id(), driven.id()];
    expected.sort();
    assert_eq!(waiters, expected);
    for run in [&first, &second, &driven] {
        assert_eq!(t.head(run).await.arrivals, 1);
        assert!(matches!(t.log(run).await.promises[0].state, PromiseState::Settled { .. }));
    }
    assert_eq!(t.claim(BOB).await.len(), 2, "both that were parked are due");
    let late = t.driven().await;
    let write = waits_for(t, t.write(&late).await, "go").parks().advance();
    let opened =
        must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { opened, .. } => opened);
    assert_eq!(opened.len(), 1, "one that comes late is told at once");
    assert_eq!(t.claim_one(BOB).await.id(), late.id());
}

/// A run that starts to wait for a promise with a deadline learns the deadline, so that it can wake then.
pub(super) async fn a_waiting_run_learns_the_deadline(t: &TestStore) {
    let deadline = t.now().plus(HOUR);
    must!(
        create(t, Promise { deadline_at: Some(deadline), ..standalone(t, "go") }).await,
        CreateOutcome::Created(_)
    );
    let run = t.driven().await;
    let write = waits_for(t, t.write(&run).await, "go").parks().advance();
    let opened =
        must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { opened, .. } => opened);
    assert_eq!((opened[0].deadline_at, opened[0].state.clone()), (Some(deadline), PromiseState::Pending));
    assert_eq!(t.claim_one(BOB).await.arrivals, 1);
}

/// Lists show the current state of promises, by run and status, page by page. Promises of doubts are not listed.
pub(super) async fn promises_are_listed_as_they_stand(t: &TestStore) {
    let run = t.driven().await;
    let soon = t.now().plus(SECOND);
    let write = t.write(&run).await.awaits_promise("a", None).awaits_promise("b", Some(soon));
    let run = write.done().await;
    let failure = hapax_engine::model::Failure::unknown("lost");
    t.write(&run).await.loses("wire", failure).asks_people("wire").done().await;
    for id in ["x", "y", "z"] {
        must!(create(t, standalone(t, id)).await, CreateOutcome::Created(_));
    }
    t.pass(SECOND);
    let ask = |run: Option<RunId>, status: Option<&str>, after: Option<&str>, limit: usize| {
        let request = ListPromises {
            workspace: WorkspaceId::default(),
            run,
            status: status.map(|status| hapax_engine::model::PromiseStatus::from_name(status).unwrap()),
            after: after.map(PromiseId::from_stored),
            limit,
        };
        async move {
            let page = book(t).list_promises(request).await.unwrap();
            let last = page.promises.last().map(|last| last.id.clone());
            assert_eq!(
                page.next,
                last.filter(|_| page.promises.len() == limit),
                "it goes on behind a full page"
            );
            page.promises.into_iter().map(|promise| promise.id.as_str().to_string()).collect::<Vec<_>>()
        }
    };
    let own = |step: &str| promise_of(&run, step).as_str().to_string();
    assert_eq!(ask(Some(run.id()), None, None, 10).await, [own("a"), own("b")]);
    assert_eq!(ask(Some(run.id()), Some("timed_out"), None, 10).await, [own("b")]);
    assert_eq!(ask(Some(run.id()), Some("pending"), None, 10).await, [own("a")]);
    assert_eq!(ask(Some(RunId::NONE), None, Some("x"), 1).await, ["y"]);
    assert_eq!(ask(None, None, None, 10).await.len(), 5);
    assert!(ask(None, Some("resolved"), None, 10).await.is_empty());
}

/// A token names one promise, is bound to it, and is deleted with it.
pub(super) async fn a_token_is_for_one_promise(t: &TestStore) {
    must!(create(t, standalone(t, "a")).await, CreateOutcome::Created(_));
    let token = |id: &str, digest: u8| SettleToken {
        digest: [digest; 32],
        workspace: WorkspaceId::default(),
        promise: PromiseId::from_stored(id),
        expires_at: t.now().plus(HOUR),
    };
    let unnoted = |token| PutSettleToken { token, note: None };
    assert!(book(t).put_settle_token(unnoted(token("a", 1))).await.unwrap());
    assert!(!book(t).put_settle_token(unnoted(token("nothing", 2))).await.unwrap());
    assert_eq!(book(t).find_settle_token(&[1; 32]).await.unwrap(), Some(token("a", 1)));
    assert_eq!(book(t).find_settle_token(&[2; 32]).await.unwrap(), None);
    let request =
        SettlePromise { promise: PromiseRef::Id(PromiseId::from_stored("a")), ..by_key("unused", "1") };
    must!(t.store.settle_promise(request).await.unwrap(), SettleOutcome::Settled { .. });
    t.pass(SECOND);
    assert_eq!(book(t).purge_promises(t.now(), 10).await.unwrap(), 1);
    assert_eq!(book(t).find_settle_token(&[1; 32]).await.unwrap(), None);
}

/// A standalone promise is purged some time after it is settled, unless an open run waits for it.
pub(super) async fn settled_standalone_promises_are_purged(t: &TestStore) {
    let run = t.driven().await;
    waits_for(t, t.write(&run).await, "awaited").done().await;
    must!(create(t, keyed(standalone(t, "settled"), "k")).await, CreateOutcome::Created(_));
    must!(create(t, standalone(t, "open")).await, CreateOutcome::Created(_));
    must!(
        create(t, Promise { deadline_at: Some(t.now().plus(SECOND)), ..standalone(t, "late") }).await,
        CreateOutcome::Created(_)
    );
    for id in ["awaited", "settled"] {
        let request =
            SettlePromise { promise: PromiseRef::Id(PromiseId::from_stored(id)), ..by_key("unused", "1") };
        must!(t.store.settle_promise(request).await.unwrap(), SettleOutcome::Settled { .. });
    }
    t.pass(SECOND);
    assert_eq!(book(t).purge_promises(t.now(), 10).await.unwrap(), 1, "the settled one");
    assert_eq!(find(t, "k").await, None);
    t.pass(SECOND);
    assert_eq!(book(t).purge_promises(t.now(), 10).await.unwrap(), 1, "the late one");
    assert_eq!(book(t).purge_promises(t.now(), 10).await.unwrap(), 0);
    let left = ListPromises {
        workspace: WorkspaceId::default(),
        run: Some(RunId::NONE),
        status: None,
        after: None,
        limit: 10,
    };
    let left = book(t).list_promises(left).await.unwrap().promises;
    assert_eq!(left.iter().map(|promise| promise.id.as_str()).collect::<Vec<_>>(), ["awaited", "open"]);
}

/// S4.21, S4.36, must hold: of many concurrent creations under one key one wins, and the others learn which.
pub(super) async fn of_many_makings_under_one_key_one_wins(t: &TestStore) {
    let makings = (0..20).map(|n| {
        let promise = keyed(standalone(t, &format!("p{n}")), "one");
        let request =
            CreatePromise { workspace: WorkspaceId::default(), promise, token: WriteToken::fresh() };
        let store = t.store.clone();
        async move { store.promise_store().unwrap().create_promise(request).await.unwrap() }
    });
    let outcomes = at_once(makings).await;
    let winner = find(t, "one").await.unwrap();
    let made = |outcome: &&CreateOutcome| matches!(outcome, CreateOutcome::Created(_));
    assert_eq!(outcomes.iter().filter(made).count(), 1);
    for outcome in outcomes {
        match outcome {
            CreateOutcome::Created(promise) => assert_eq!(*promise, winner),
            CreateOutcome::KeyConflict { existing } => assert_eq!(existing, winner.id),
            CreateOutcome::Exists(_) => panic!("each has its own id"),
        }
    }
}

/// Invariant 41, must hold: a settlement by key and the start of a wait never miss each other, in any order.
pub(super) async fn settling_by_key_and_waiting_never_miss_each_other(t: &TestStore) {
    for n in 0..20 {
        let text = format!("stripe:{n}");
        let run = t.driven().await;
        let write = opening(t, &run, "payment", &text).await.parks().advance();
        let request = by_key(&text, "1");
        let (one, other) = (t.store.clone(), t.store.clone());
        let settling = tokio::spawn(async move { one.settle_promise(request).await.unwrap() });
        let advancing = tokio::spawn(async move { other.commit_run(write).await.unwrap() });
        must!(advancing.await.unwrap(), CommitOutcome::Committed { .. });
        must!(settling.await.unwrap(), SettleOutcome::Settled { .. } | SettleOutcome::KeptEarly { .. });
        let held = t.claim_one(BOB).await;
        assert_eq!((held.id(), held.arrivals), (run.id(), 1));
        assert!(matches!(t.log(&held).await.promises[0].state, PromiseState::Settled { .. }));
        assert_eq!(t.history(&run).await.last(), Some(&EventKind::Claimed));
    }
    assert!(early(t).await.is_empty());
}
