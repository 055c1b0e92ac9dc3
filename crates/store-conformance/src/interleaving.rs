//! Random interleavings of creation, waiting, settlement and timeout: no wake-up is lost, and each race has one winner.

use std::future::Future;
use std::sync::Arc;

use fastrand::Rng;
use hapax_engine::clock::ManualClock;
use hapax_engine::model::{
    IdempotencyKey, KeyKind, Promise, PromiseId, PromiseKey, PromiseRef, PromiseState, RunHead, RunId,
    RunState, SettleRequest, Settlement, WorkspaceId, WriteToken,
};
use hapax_engine::store::{CommitOutcome, CreateOutcome, CreatePromise, SettleOutcome, SettlePromise};

use crate::Candidate;
use crate::fixture::*;
use crate::must;
use crate::suite::block_on;

/// Number of interleavings.
const INTERLEAVINGS: u64 = 10_000;
/// Number of concurrent interleavings.
const AT_ONCE: u64 = 250;

/// One test that draws random interleavings: `interleaving_suite!(make_store);`.
#[macro_export]
macro_rules! interleaving_suite {
    ($make_store:expr) => {
        mod interleaving {
            #[allow(unused_imports)]
            use super::*;
            /// Invariants 41 and 43; S4.36: of two creations under one key one wins.
            #[test]
            fn no_interleaving_of_making_settling_waiting_and_timing_out_loses_a_wake_up() {
                $crate::run_interleavings($make_store);
            }
        }
    };
}

#[doc(hidden)]
pub fn run_interleavings<F: Future<Output = Candidate>>(make_store: impl FnOnce(Arc<ManualClock>) -> F) {
    block_on(async {
        let clock = Arc::new(ManualClock::default());
        let candidate = make_store(clock.clone()).await;
        let stage = Arc::new(TestStore::new(candidate.store(), clock));
        for batch in 0..INTERLEAVINGS / AT_ONCE {
            let each = (batch * AT_ONCE..(batch + 1) * AT_ONCE).map(|n| interleave(stage.clone(), n));
            at_once(each).await;
        }
        stage.store.close().await.expect("it closes");
    });
}

async fn idle(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

async fn interleave(t: Arc<TestStore>, n: u64) {
    let mut rng = Rng::with_seed(n);
    let run = t.order().granted_to(ANN).start().await;
    let key = IdempotencyKey::new(&format!("k{n}")).unwrap();
    let keep_for = HOUR;
    let promise = Promise {
        key: Some(PromiseKey { key: key.clone(), keep_for }),
        ..Promise::pending(promise_of(&run, "payment"), run.id(), t.now(), Some(t.now().plus(HOUR)))
    };
    match rng.u32(..3) {
        0 => time_out(&t, &run, promise, key, &mut rng).await,
        1 => contend(&t, &run, promise, key, &mut rng).await,
        _ => wait(&t, &run, promise, key, &mut rng).await,
    }
}

fn settlement(by: PromiseRef, granted: bool) -> SettlePromise {
    SettlePromise {
        workspace: WorkspaceId::default(),
        promise: by,
        wish: SettleRequest::new(Settlement::Resolved(json("1"))),
        keep_for: Some(HOUR),
        note: None,
        grant: granted.then(|| grant(BOB)),
    }
}

/// The run opens its promise and parks, in one write or two, while a caller settles it by key, or by id once it exists.
async fn wait(t: &Arc<TestStore>, run: &RunHead, promise: Promise, key: IdempotencyKey, rng: &mut Rng) {
    let in_two = rng.bool();
    let by = if rng.bool() { PromiseRef::Key(key) } else { PromiseRef::Id(promise.id.clone()) };
    let (settler_idles, waiter_idles, granted) = (rng.u32(..6), rng.u32(..6), rng.bool());
    let settler = t.clone();
    let settling = tokio::spawn(async move {
        idle(settler_idles).await;
        loop {
            match settler.store.settle_promise(settlement(by.clone(), granted)).await.unwrap() {
                SettleOutcome::NoSuchPromise => idle(1).await,
                outcome => return outcome,
            }
        }
    });
    idle(waiter_idles).await;
    let until = promise.deadline_at;
    let mut held = run.clone();
    let mut write = t.write(&held).await.waits_for("payment", promise.clone());
    if in_two {
        held = write.done().await;
        idle(waiter_idles).await;
        write = t.write(&held).await;
    }
    // The run has seen no arrival yet.
    let parking = write.parks_until(until).advance();
    let parking =
        hapax_engine::model::RunCommit { head: RunHead { arrivals: 0, ..parking.head.clone() }, ..parking };
    must!(t.store.commit_run(parking).await.unwrap(), CommitOutcome::Committed { .. });
    must!(settling.await.unwrap(), SettleOutcome::Settled { .. } | SettleOutcome::KeptEarly { .. });
    let after = t.head(run).await;
    assert_eq!(after.arrivals, 1, "{after:?}");
    match after.state {
        RunState::Waiting { wake_at: Some(at) } if at <= t.now() => {}
        RunState::Running(_) if granted => {}
        other => panic!("it has what it waits for, and is {other:?}"),
    }
    let promise = t.store.find_promise(&WorkspaceId::default(), &promise.id).await.unwrap().unwrap();
    assert!(matches!(promise.state, PromiseState::Settled { .. }));
}

/// The holder of the run stops waiting while the promise is settled.
async fn time_out(t: &Arc<TestStore>, run: &RunHead, promise: Promise, key: IdempotencyKey, rng: &mut Rng) {
    let held = t.write(run).await.waits_for("payment", promise.clone()).done().await;
    let giving_up = t.write(&held).await.times_out("payment").advance();
    let (settler_idles, idles) = (rng.u32(..6), rng.u32(..6));
    let settler = t.clone();
    let settling = tokio::spawn(async move {
        idle(settler_idles).await;
        settler.store.settle_promise(settlement(PromiseRef::Key(key), false)).await.unwrap()
    });
    idle(idles).await;
    let given_up = t.store.commit_run(giving_up).await.unwrap();
    let settled = settling.await.unwrap();
    let promise = t.store.find_promise(&WorkspaceId::default(), &promise.id).await.unwrap().unwrap();
    match (given_up, settled) {
        (CommitOutcome::Committed { .. }, SettleOutcome::TimedOut { .. }) => {
            assert_eq!(promise.state, PromiseState::TimedOut);
        }
        (CommitOutcome::Stale(_), SettleOutcome::Settled { .. }) => {
            assert!(matches!(promise.state, PromiseState::Settled { .. }));
        }
        both => panic!("not one winner: {both:?}"),
    }
}

/// The run and another caller (a run or an external one) create a promise under the same key, while that key is
/// settled. One gets the key, the other learns which promise holds it, and the settlement applies to that promise.
async fn contend(t: &Arc<TestStore>, run: &RunHead, promise: Promise, key: IdempotencyKey, rng: &mut Rng) {
    let (settler_idles, first_idles, second_idles) = (rng.u32(..6), rng.u32(..6), rng.u32(..6));
    let rival = match rng.bool() {
        true => Some(t.order().granted_to(BOB).start().await),
        false => None,
    };
    let (id, of) = match &rival {
        Some(rival) => (promise_of(rival, "payment"), rival.id()),
        None => (PromiseId::standalone(&format!("rival of {key}")).expect("it is valid"), RunId::NONE),
    };
    let other = Promise { id, run: of, ..promise.clone() };
    let opening = {
        let (t, run, promise) = (t.clone(), run.clone(), promise.clone());
        tokio::spawn(async move {
            idle(first_idles).await;
            open_and_park(&t, &run, promise).await;
        })
    };
    let settling = {
        let (t, by) = (t.clone(), PromiseRef::Key(key.clone()));
        tokio::spawn(async move {
            idle(settler_idles).await;
            t.store.settle_promise(settlement(by, false)).await.unwrap()
        })
    };
    idle(second_idles).await;
    let mut refused_for = None;
    match rival {
        Some(rival) => open_and_park(t, &rival, other.clone()).await,
        None => {
            let workspace = WorkspaceId::default();
            let request = CreatePromise { workspace, promise: other.clone(), token: WriteToken::fresh() };
            let book = t.store.promise_store().expect("it keeps promises by key");
            match book.create_promise(request).await.unwrap() {
                CreateOutcome::Created(_) => {}
                CreateOutcome::KeyConflict { existing } => refused_for = Some(existing),
                CreateOutcome::Exists(there) => panic!("nobody made {there:?}"),
            }
        }
    }
    opening.await.unwrap();
    let settled = settling.await.unwrap();
    let find = async |id: &PromiseId| t.store.find_promise(&WorkspaceId::default(), id).await.unwrap();
    let (first, second) =
        (find(&promise.id).await.expect("a run makes one in any case"), find(&other.id).await);
    let taken_by = |promise: &Promise| match &promise.state {
        PromiseState::KeyTaken { by } => Some(by.clone()),
        PromiseState::Pending | PromiseState::Settled { .. } | PromiseState::TimedOut => None,
    };
    let winner = match (taken_by(&first), second) {
        (Some(by), Some(second)) => {
            assert_eq!((by, refused_for), (second.id.clone(), None));
            second
        }
        (None, Some(second)) => {
            assert_eq!((taken_by(&second), refused_for), (Some(first.id.clone()), None));
            first
        }
        (taken, None) => {
            assert_eq!((taken, refused_for), (None, Some(first.id.clone())));
            first
        }
    };
    assert!(matches!(winner.state, PromiseState::Settled { .. }), "{winner:?}");
    match settled {
        SettleOutcome::Settled { promise, .. } => assert_eq!(promise.id, winner.id),
        other => must!(other, SettleOutcome::KeptEarly { .. }),
    }
    let named = t.store.find_key(&WorkspaceId::default(), KeyKind::Promise, &key).await.unwrap();
    assert_eq!(named.and_then(|record| record.promise().cloned()), Some(winner.id));
}

async fn open_and_park(t: &TestStore, run: &RunHead, promise: Promise) {
    let until = promise.deadline_at;
    let write = t.write(run).await.waits_for("payment", promise).parks_until(until).advance();
    must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { .. });
}
