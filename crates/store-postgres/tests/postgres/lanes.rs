//! A failure of one batch does not affect the next ones, and the worker continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hapax_engine::clock::{Clock, ManualClock, Sleep};
use hapax_engine::model::Timestamp;
use hapax_engine::store::{CommitOutcome, SignalOutcome, StartOutcome, StoreError, StoreResult};
use hapax_store_conformance::fixture::{TestStore, signal_to};
use hapax_store_conformance::must;
use hapax_store_postgres::{PostgresOptions, PostgresStore};

use crate::fixture::{database, stage};

const PATIENCE: Duration = Duration::from_secs(10);

/// Fault 19: each write alone would wait for the lock in turn, for minutes in total.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_holds_nobody_up_for_longer_than_the_deadline() {
    let database = database().await;
    let deadline = Duration::from_secs(2);
    let options = PostgresOptions::default().committers(1).deadline(deadline);
    let t = Arc::new(stage(&database.url(), options).await);
    let mut admin = database.connect().await.unwrap();
    let blocking = admin.transaction().await.unwrap();
    let (mut writes, mut signals) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let run = t.driven().await;
        writes.push(t.write(&run).await.does("charge").advance());
        signals.push(signal_to(&run, "go", None));
    }
    let lock = "LOCK TABLE hapax.steps, hapax.signals IN ACCESS EXCLUSIVE MODE";
    blocking.batch_execute(lock).await.unwrap();
    let began = Instant::now();
    let writing: Vec<_> = writes
        .iter()
        .map(|write| {
            let (t, write) = (t.clone(), write.clone());
            tokio::spawn(async move { t.store.commit_run(write).await.err() })
        })
        .collect();
    let signalling: Vec<_> = signals
        .iter()
        .map(|signal| {
            let (t, signal) = (t.clone(), signal.clone());
            tokio::spawn(async move { t.store.send_signal(signal).await.err() })
        })
        .collect();
    for told in writing.into_iter().chain(signalling) {
        let told = told.await.unwrap();
        assert!(matches!(told, Some(StoreError::Unavailable(_))), "{told:?}");
    }
    assert!(began.elapsed() < 10 * deadline, "{:?}", began.elapsed());
    blocking.rollback().await.unwrap();
    for (write, signal) in writes.into_iter().zip(signals) {
        must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { .. });
        must!(t.store.send_signal(signal).await.unwrap(), SignalOutcome::Stored { seq: 1, .. });
    }
    t.store.close().await.unwrap();
}

/// A clock that fails once, on demand.
#[derive(Debug)]
struct FailingClock {
    clock: Arc<ManualClock>,
    fails: AtomicBool,
}

impl Clock for FailingClock {
    fn now(&self) -> Timestamp {
        assert!(!self.fails.swap(false, Ordering::SeqCst), "the clock is told to fail");
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.clock.sleep_until(at)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_batch_does_not_end_its_worker() {
    let database = database().await;
    let (manual, fails) = (Arc::new(ManualClock::default()), AtomicBool::new(false));
    let clock = Arc::new(FailingClock { clock: manual.clone(), fails });
    let options = PostgresOptions::default().committers(1).clock(clock.clone());
    let store = PostgresStore::open(&database.url(), options).await.unwrap();
    let t = TestStore::new(Arc::new(store), manual);
    let run = t.driven().await;
    for _ in 0..2 {
        let new = t.order().new_run();
        clock.fails.store(true, Ordering::SeqCst);
        let told = in_time(t.store.start_run(new.clone())).await;
        assert!(matches!(told, Err(StoreError::Unknown(_))), "{told:?}");
        must!(in_time(t.store.start_run(new)).await.unwrap(), StartOutcome::Created(_));
        let signal = signal_to(&run, "go", None);
        clock.fails.store(true, Ordering::SeqCst);
        let told = in_time(t.store.send_signal(signal.clone())).await;
        assert!(matches!(told, Err(StoreError::Unknown(_))), "{told:?}");
        must!(in_time(t.store.send_signal(signal)).await.unwrap(), SignalOutcome::Stored { .. });
    }
    t.store.close().await.unwrap();
}

/// Every call is answered.
async fn in_time<T>(told: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    tokio::time::timeout(PATIENCE, told).await.expect("an answer")
}
