//! Faults 7 to 10, 17, 20: the server stops, restarts, hangs, or is overloaded. Waits are bounded,
//! errors are honest, and everything recovers by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hapax_engine::fsck::fsck;
use hapax_engine::model::{CommitBuilder, RunHead, RunId, Version, WorkspaceId};
use hapax_engine::store::{CommitOutcome, StartOutcome, Store, StoreError, StoreResult};
use hapax_postgres_fixture::{Server, Shutdown};
use hapax_store_conformance::fixture::{ANN, TestStore, completed, signal_to};
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{complete, database, open, stage, until};
use crate::proxy::{Proxy, ProxyMode};

const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request until it is answered, as the engine does; counts what went wrong on the way.
async fn insist<T, F: Future<Output = StoreResult<T>>>(mut send: impl FnMut() -> F, errors: &AtomicU64) -> T {
    let began = Instant::now();
    loop {
        match send().await {
            Ok(answer) => return answer,
            Err(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_))) => {
                errors.fetch_add(1, Ordering::Relaxed);
                assert!(began.elapsed() < PATIENCE, "the store does not come back: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Drives runs of three steps until told to stop; answers how many.
async fn drive(t: Arc<TestStore>, stop: Arc<AtomicBool>, errors: Arc<AtomicU64>) -> u64 {
    let mut runs = 0;
    while !stop.load(Ordering::Relaxed) {
        let new = t.order().key(&format!("k{}", t.fresh_id())).granted_to(ANN).new_run();
        let started = insist(|| t.store.start_run(new.clone()), &errors).await;
        let StartOutcome::Created(mut run) = started else { panic!("{started:?}") };
        for step in ["reserve", "charge", "ship"] {
            run = write(&t, &run, step, &errors).await;
        }
        runs += 1;
    }
    runs
}

async fn write(t: &TestStore, run: &RunHead, step: &str, errors: &AtomicU64) -> RunHead {
    let mut advancing = CommitBuilder::new(run, t.now());
    complete(&mut advancing, step, t.now());
    if step == "ship" {
        advancing.close(completed("1")).unwrap();
    }
    let advance = advancing.finish();
    let outcome = insist(|| t.store.commit_run(advance.clone()), errors).await;
    // After a lost response, the retry meets the first write, and recognizes it.
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    advance.head
}

/// Fault 7: nothing acknowledged is lost, and nothing hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_under_load_costs_only_time() {
    let server = Server::start().unwrap();
    let t = Arc::new(stage(&server.url("postgres"), PostgresOptions::default()).await);
    let (stop, errors) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let drivers: Vec<_> =
        (0..16).map(|_| tokio::spawn(drive(t.clone(), stop.clone(), errors.clone()))).collect();
    for how in [Shutdown::Immediate, Shutdown::Fast, Shutdown::Immediate] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        tokio::task::block_in_place(|| server.restart(how).unwrap());
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    tokio::task::block_in_place(|| {
        server.kill();
        server.start_again().unwrap();
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    let mut runs = 0;
    for driver in drivers {
        runs += driver.await.unwrap();
    }
    let errors = errors.load(Ordering::Relaxed);
    assert!(errors > 0, "the restarts were felt");
    assert!(runs > 50, "{runs} runs, {errors} errors");
    let report = fsck(&*t.store).await.unwrap();
    assert!(report.is_clean() && report.runs as u64 == runs, "{runs} runs were acknowledged: {report}");
    t.store.close().await.unwrap();
}

/// Fault 9: while the server is down, every kind of call fails at once, and all work again
/// afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_told_at_once() {
    let server = Server::start().unwrap();
    let t = stage(&server.url("postgres"), PostgresOptions::default()).await;
    let run = t.driven().await;
    server.stop(Shutdown::Fast).unwrap();
    let began = Instant::now();
    for _ in 0..20 {
        let here = WorkspaceId::default();
        let error = t.store.find_run(&here, run.id()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        let error = t.store.start_run(t.order().new_run()).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let error = t.store.send_signal(signal_to(&run, "go", None)).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }
    // Sixty calls up to their deadlines would take minutes.
    assert!(began.elapsed() < PATIENCE, "nobody waits for a server that is not there");
    server.start_again().unwrap();
    until("recovery", PATIENCE, async || t.store.find_run(&WorkspaceId::default(), run.id()).await.is_ok())
        .await;
    until("recovery", PATIENCE, async || t.store.start_run(t.order().new_run()).await.is_ok()).await;
    assert!(t.renew(ANN, &[&run]).await.is_empty());
    t.store.close().await.unwrap();
}

/// Faults 10, 11: the server hangs. Each call ends at its deadline, a write as unknown, and the connection goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_given_up_at_the_deadline() {
    let database = database().await;
    let proxy = Proxy::start(&database.tcp_url()).await;
    let options = PostgresOptions::default().deadline(Duration::from_secs(2));
    let t = stage(proxy.url(), options).await;
    let run = t.driven().await;
    let again = t.write(&run).await.does("charge").advance();
    // The connections exist and were used before the server falls silent.
    t.view(&run).await;
    proxy.set(ProxyMode::Hold);
    let here = WorkspaceId::default();
    let (read, write) = tokio::join!(t.store.find_run(&here, run.id()), t.store.commit_run(again.clone()));
    // Its own deadline, not the default one.
    let at_deadline = |why: &str| why.ends_with("did not answer in time (2s)");
    assert!(matches!(&read, Err(StoreError::Unavailable(why)) if at_deadline(why)), "{read:?}");
    assert!(matches!(&write, Err(StoreError::Unknown(why)) if at_deadline(why)), "{write:?}");
    proxy.set(ProxyMode::Pass);
    let errors = AtomicU64::new(0);
    let outcome = insist(|| t.store.commit_run(again.clone()), &errors).await;
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    assert_eq!(t.view(&run).await.head.version, again.head.version);
    t.store.close().await.unwrap();
}

/// Fault 20: waiting reads do not take the connections of renewals and claims, and time out in the
/// end.
#[tokio::test(flavor = "multi_thread")]
async fn exhausted_readers_are_told_and_renewals_go_on() {
    let database = database().await;
    let options = PostgresOptions::default().readers(2).deadline(Duration::from_secs(3));
    let t = Arc::new(stage(&database.url(), options).await);
    let run = t.driven().await;
    let mut admin = database.connect().await.unwrap();
    let blocking = admin.transaction().await.unwrap();
    blocking.batch_execute("LOCK TABLE hapax.run_results IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let began = Instant::now();
    let reads: Vec<_> = (0..50)
        .map(|_| {
            let (t, run) = (t.clone(), run.id());
            tokio::spawn(async move { t.store.find_run(&WorkspaceId::default(), run).await })
        })
        .collect();
    for _ in 0..5 {
        assert!(t.renew(ANN, &[&run]).await.is_empty());
        t.claim(ANN).await;
    }
    assert!(reads.iter().all(|read| !read.is_finished()), "renewals do not wait for reads");
    for read in reads {
        assert!(matches!(read.await.unwrap(), Err(StoreError::Unavailable(_))));
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    blocking.rollback().await.unwrap();
    t.view(&run).await;
    t.store.close().await.unwrap();
}

/// Invariant 20: without a test clock, the server's clock counts, whatever this machine's clock
/// shows.
#[tokio::test]
async fn the_clock_is_that_of_the_server() {
    let database = database().await;
    let store = open(&database.url(), PostgresOptions::default()).await;
    let admin = database.connect().await.unwrap();
    let read = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8";
    let before: i64 = admin.query_one(read, &[]).await.unwrap().get(0);
    let shown = store.now().as_millis();
    let after: i64 = admin.query_one(read, &[]).await.unwrap().get(0);
    assert!((before - 50..=after + 50).contains(&shown), "{before} {shown} {after}");
    assert_eq!(store.clock().now().as_millis() / 1000, store.now().as_millis() / 1000);
    store.close().await.unwrap();
    let here = WorkspaceId::default();
    let closed = store.list_events(&here, RunId::from_u128(1), Version::default()).await;
    assert!(matches!(closed, Err(StoreError::Unavailable(_))), "{closed:?}");
}
