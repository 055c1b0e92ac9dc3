//! The database goes away as a whole: a standby takes its place, or it comes back after a long silence.
#![cfg(feature = "postgres")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax::clock::SystemClock;
use hapax::fsck::fsck;
use hapax::model::RunId;
use hapax::postgres::{self, PostgresOptions, PostgresStore};
use hapax::store::StoreError;
use hapax::{Ctx, Engine, EngineOptions, Error, Failure, Hapax, OpenError, Result, RunStatus};
use hapax_postgres_fixture::Server;
use tokio::sync::watch;
use tokio::task::JoinSet;

const STEPS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(90);

/// Which steps were entered, run by run, in order.
#[derive(Debug, Clone, Default)]
struct Ledger(Arc<Mutex<HashMap<usize, Vec<usize>>>>);

impl Ledger {
    fn enter(&self, run: usize, step: usize) {
        self.0.lock().unwrap().entry(run).or_default().push(step);
    }

    /// A step begins only when the one before it is on record; so once a later one has begun, none before it begins again.
    fn assert_nothing_recorded_was_lost(&self, runs: usize) {
        let entered = self.0.lock().unwrap();
        assert_eq!(entered.len(), runs);
        for (run, steps) in &*entered {
            assert!(steps.is_sorted(), "run {run} lost the record of a step: entered {steps:?}");
        }
    }
}

async fn order(ctx: Ctx, number: usize, ledger: Ledger) -> Result<usize> {
    for step in 0..STEPS {
        let ledger = &ledger;
        ctx.step(&format!("step-{step}"), move |_| async move {
            ledger.enter(number, step);
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, Failure>(())
        })
        .await?;
    }
    Ok(number)
}

fn options() -> EngineOptions {
    let (lease_for, poll_every) = (Duration::from_secs(2), Duration::from_millis(200));
    EngineOptions { lease_for, poll_every, ..EngineOptions::default() }
}

/// Starts a run, again and again until it is acknowledged; answers what went wrong on the way.
async fn insist(engine: &Engine, number: usize) -> (RunId, Vec<StoreError>) {
    let began = Instant::now();
    let mut errors = Vec::new();
    loop {
        match engine.start("order", &number).idempotency_key(format!("order-{number}")).await {
            Ok(run) => return (run.id(), errors),
            Err(Error::Store(error)) if error.is_retryable() => {
                assert!(began.elapsed() < PATIENCE, "the store does not come back: {error}");
                errors.push(error);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until every run has completed with its own output. On a busy machine the store can still refuse a read for a while.
async fn all_complete(engine: &Engine, runs: &[(usize, RunId)]) {
    for (number, run) in runs {
        let result = patiently(async || engine.run(*run).await?.result::<usize>().await);
        let output = tokio::time::timeout(PATIENCE, result).await;
        assert_eq!(output.expect("every run completes"), *number);
        let run = patiently(async || engine.get(*run).await).await;
        assert_eq!(run.head.state.status(), RunStatus::Completed);
    }
}

/// Repeats a call that the store refuses for the time being.
async fn patiently<T>(call: impl AsyncFn() -> Result<T, Error>) -> T {
    let began = Instant::now();
    loop {
        match call().await {
            Ok(value) => return value,
            Err(Error::Store(error)) if error.is_retryable() => {
                assert!(began.elapsed() < PATIENCE, "the store does not come back: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The same database, at whichever of the two servers takes writes.
fn either(one: &str, other: &str) -> String {
    let (access, place) = one.split_once('@').unwrap();
    let (first, database) = place.split_once('/').unwrap();
    let (second, _) = other.split_once('@').unwrap().1.split_once('/').unwrap();
    format!("{access}@{first},{second}/{database}")
}

/// Fault 8: the primary dies with its disk, a synchronous standby takes over, and a node that knows both addresses goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_takes_over_has_everything_that_was_acknowledged() {
    const RUNS: usize = 600;
    const CALLERS: usize = 12;
    let primary = Server::start().unwrap();
    let standby = tokio::task::block_in_place(|| primary.standby()).unwrap();
    let hapax = Hapax::builder(&either(&primary.tcp_url("postgres"), &standby.tcp_url("postgres")))
        .options(options());
    let hapax = hapax.open().await.unwrap().into_engine().unwrap();
    let refused = Hapax::open(&standby.tcp_url("postgres")).await.unwrap_err();
    assert!(matches!(refused, OpenError::Postgres(postgres::OpenError::ReadOnly { .. })), "{refused}");

    let ledger = Ledger::default();
    let steps = ledger.clone();
    hapax.register("order", move |ctx, number| order(ctx, number, steps.clone())).unwrap();
    let acknowledged = Arc::new(watch::Sender::new(0));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (hapax, acknowledged) = (hapax.clone(), acknowledged.clone());
        callers.spawn(async move {
            let (mut runs, mut errors) = (Vec::new(), 0);
            for number in (caller..RUNS).step_by(CALLERS) {
                let (run, failed) = insist(&hapax, number).await;
                errors += failed.len();
                runs.push((number, run));
                acknowledged.send_modify(|count| *count += 1);
            }
            (runs, errors)
        });
    }
    acknowledged.subscribe().wait_for(|count| *count > RUNS / 3).await.unwrap();
    // For a moment the standby takes nothing, so that what the primary acknowledged without it would be lost.
    standby.freeze();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = *acknowledged.borrow();
    tokio::task::block_in_place(|| {
        primary.kill();
        // Data on its way to the standby is lost as well; only its disk counts.
        standby.kill();
        standby.start_again().unwrap();
        standby.promote().unwrap();
    });
    let (mut runs, mut errors) = (Vec::new(), 0);
    while let Some(done) = callers.join_next().await {
        let (of_one, failed) = done.unwrap();
        runs.extend(of_one);
        errors += failed;
    }
    assert!(before < RUNS && errors > 0, "{before} runs before, {errors} errors: the failover was not felt");
    all_complete(&hapax, &runs).await;
    ledger.assert_nothing_recorded_was_lost(RUNS);
    let report = fsck(&*hapax.store()).await.unwrap();
    assert!(report.is_clean() && report.runs == RUNS, "{report}");
    hapax.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// Fault 9, 10: a server that is there and says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_falls_silent_costs_bounded_waiting_and_no_memory() {
    fall_silent_for(Duration::from_secs(8)).await;
}

/// The same for a whole minute: `cargo test -p hapax --features postgres --test postgres_outages -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes more than a minute"]
async fn a_database_that_is_silent_for_a_minute_costs_bounded_waiting_and_no_memory() {
    fall_silent_for(Duration::from_secs(60)).await;
}

async fn fall_silent_for(silence: Duration) {
    const CALLERS: usize = 64;
    /// More than any call may take: a few tries, each waiting for a connection, for it to be made, and for its answer.
    const LONGEST_CALL: Duration = Duration::from_secs(60);
    let server = Server::start().unwrap();
    let store = PostgresOptions::default().deadline(Duration::from_millis(500));
    let store = PostgresStore::open(&server.tcp_url("postgres"), store).await.unwrap();
    let engine = Engine::launch(Arc::new(store), Arc::new(SystemClock::new()), options()).unwrap();
    let ledger = Ledger::default();
    let steps = ledger.clone();
    engine.register("order", move |ctx, number| order(ctx, number, steps.clone())).unwrap();

    let next = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(watch::Sender::new(false));
    let started = Arc::new(watch::Sender::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (engine, next, started) = (engine.clone(), next.clone(), started.clone());
        let stop = stop.subscribe();
        callers.spawn(async move {
            let (mut runs, mut errors) = (Vec::new(), Vec::new());
            while !*stop.borrow() {
                let number = next.fetch_add(1, Ordering::Relaxed) as usize;
                let starting = tokio::time::timeout(LONGEST_CALL, start_once(&engine, number));
                match starting.await.expect("no call waits for ever") {
                    Ok(run) => {
                        runs.push((number, run));
                        started.send_modify(|count| *count += 1);
                    }
                    Err(error) => errors.push((number, error)),
                }
                // Callers pause between orders, since the test does not measure speed; while the
                // database is silent they get errors at once.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            (runs, errors)
        });
    }
    started.subscribe().wait_for(|count| *count > 200).await.unwrap();
    server.freeze();
    let before = resident_bytes();
    tokio::time::sleep(silence).await;
    let grown = resident_bytes().saturating_sub(before);
    let open = engine.active_runs();
    stop.send_replace(true);
    server.thaw();
    let (mut runs, mut errors) = (Vec::new(), Vec::new());
    while let Some(done) = callers.join_next().await {
        let (of_one, failed) = done.unwrap();
        runs.extend(of_one);
        errors.extend(failed);
    }
    assert!(errors.len() >= CALLERS / 2, "only {} calls were told of the silence", errors.len());
    for (_, error) in &errors {
        let text = error.to_string();
        assert!(error.is_retryable(), "{text}");
        let is_clear = ["did not answer in time", "no connection to", "connection closed", "for its turn"];
        assert!(is_clear.iter().any(|words| text.contains(words)), "{text}");
    }
    // Runs that were open at the time are, and nothing else.
    assert!(open <= runs.len(), "{open} runs are held for {} that were started", runs.len());
    assert!(grown < 48 * 1024 * 1024, "{} KiB more are held than before the silence", grown / 1024);
    // Rejected orders are requested again, each under its own key, whatever the outcome of the
    // first try.
    let mut refused = errors.iter().map(|(number, _)| *number);
    let mut asking = JoinSet::new();
    loop {
        for number in refused.by_ref().take(CALLERS - asking.len()) {
            let engine = engine.clone();
            asking.spawn(async move { (number, insist(&engine, number).await.0) });
        }
        let Some(asked) = asking.join_next().await else { break };
        runs.push(asked.unwrap());
    }
    all_complete(&engine, &runs).await;
    ledger.assert_nothing_recorded_was_lost(runs.len());
    let report = fsck(&*engine.store()).await.unwrap();
    assert!(report.is_clean() && report.runs == runs.len(), "{} runs: {report}", runs.len());
    engine.shutdown(Duration::from_secs(5)).await.unwrap();
}

async fn start_once(engine: &Engine, number: usize) -> std::result::Result<RunId, StoreError> {
    match engine.start("order", &number).idempotency_key(format!("order-{number}")).await {
        Ok(run) => Ok(run.id()),
        Err(Error::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}
