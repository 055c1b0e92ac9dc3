//! Real processes killed at every point in the middle of effects of every class: what is claimed happens at most once and is in doubt
//! where nobody knows, what shares the store's transaction happens exactly once, and the rest at least once under one key.
//!
//! The worker is this test binary again, told by its environment what to do. What it does to the outside world is a line appended to a
//! file, which survives it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hapax::clock::SystemClock;
use hapax::fsck::fsck;
use hapax::model::{Actor, EffectClass, Resolution, Role, Ruling};
use hapax::store::ListRuns;
use hapax::{
    CrashPoint, CrashPointWatcher, Ctx, Engine, EngineOptions, Failure, Hapax, Result, RunStatus, open_store,
};
use rustix::process::{Signal, kill_process};

const RUNS: usize = 8;
const LEASE: Duration = Duration::from_millis(700);

/// Appends one line; a line is one write, so that lines of several processes do not mix.
fn note(folder: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(folder.join("effects")).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// How often each effect was entered, by its key.
fn entries(folder: &Path) -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    let mut entries = BTreeMap::new();
    text.lines().for_each(|key| *entries.entry(key.to_string()).or_default() += 1);
    entries
}

async fn keyed(ctx: &Ctx, folder: &Path, name: &str) -> Result<u32> {
    let step = ctx.step(name, |attempt| {
        note(folder, attempt.idempotency_key());
        async { Ok::<_, Failure>(1) }
    });
    step.await
}

async fn wire(ctx: &Ctx, folder: &Path) -> Result<u32> {
    let step = ctx.step("wire", |attempt| {
        note(folder, attempt.idempotency_key());
        async { Ok::<_, Failure>(1) }
    });
    // The killed process sends nothing more, so a retry need not wait until its requests must be over. That others wait is tested by the
    // clock of the engine's tests (`after_a_takeover_nothing_is_run_again_while_a_request_may_be_on_its_way`): here it would be 35 s for each.
    step.claimed().provider_rejects_stale_fences().await
}

async fn order_on_sqlite(ctx: Ctx, folder: PathBuf) -> Result<u32> {
    use hapax::sqlite::TransactionStep;
    keyed(&ctx, &folder, "reserve").await?;
    wire(&ctx, &folder).await?;
    let run = ctx.run_id().to_string();
    ctx.transaction("book", move |connection| {
        connection.execute("INSERT INTO ledger (run) VALUES (?1)", [&run])?;
        Ok(())
    })
    .await?;
    keyed(&ctx, &folder, "mail").await
}

#[cfg(feature = "postgres")]
async fn order_on_postgres(ctx: Ctx, folder: PathBuf) -> Result<u32> {
    use hapax::postgres::TransactionStep;
    keyed(&ctx, &folder, "reserve").await?;
    wire(&ctx, &folder).await?;
    let run = ctx.run_id().to_string();
    ctx.transaction("book", move |tx| {
        let run = run.clone();
        Box::pin(async move {
            tx.execute("INSERT INTO ledger (run) VALUES ($1)", &[&run]).await?;
            Ok(())
        })
    })
    .await?;
    keyed(&ctx, &folder, "mail").await
}

/// Kills this very process when `point` is reached for the `nth` time.
fn kill_at(point: String, nth: u32) -> CrashPointWatcher {
    let reached = AtomicU32::new(0);
    CrashPointWatcher::new(move |at: &CrashPoint| {
        if at.name() == point && reached.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
            std::thread::park();
        }
    })
}

async fn open(url: &str, watcher: Option<CrashPointWatcher>) -> Engine {
    let poll_every = Duration::from_millis(50);
    let options = EngineOptions { watcher, lease_for: LEASE, poll_every, ..EngineOptions::default() };
    let hapax = Hapax::builder(url).options(options).open().await.unwrap().into_engine().unwrap();
    match url.starts_with("sqlite:") {
        true => hapax.register("order", order_on_sqlite).unwrap(),
        #[cfg(feature = "postgres")]
        false => hapax.register("order", order_on_postgres).unwrap(),
        #[cfg(not(feature = "postgres"))]
        false => unreachable!(),
    }
    hapax
}

/// The worker's side; without its environment it is no test of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Ok(url) = std::env::var("HAPAX_TEST_URL") else { return };
    let folder = PathBuf::from(std::env::var_os("HAPAX_TEST_FOLDER").unwrap());
    let (point, nth) = (std::env::var("HAPAX_TEST_POINT").unwrap(), std::env::var("HAPAX_TEST_NTH").unwrap());
    let hapax = open(&url, Some(kill_at(point, nth.parse().unwrap()))).await;
    for n in 0..RUNS {
        // Delayed, so that it is claimed, and with it the points around a claim are reached: longer than a start takes on a slow
        // machine, since one that is due when it is written is granted to its starter.
        let start = hapax.start("order", &folder).idempotency_key(format!("order-{n}"));
        start.delay(Duration::from_millis(50)).await.unwrap();
    }
    // It should be killed; the parent reports a point that is never reached.
    tokio::time::sleep(Duration::from_secs(20)).await;
}

/// Where the rows of the transactional effect are, besides the store.
trait Ledger {
    async fn rows(&self) -> Vec<String>;
}

async fn kill_and_recover(url: &str, point: &str, nth: u32, folder: &Path, ledger: &impl Ledger) -> u32 {
    let what = format!("{point} {nth}");
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker
        .args(["--exact", "killed_effects::worker_process", "--nocapture"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    worker.env("HAPAX_TEST_URL", url).env("HAPAX_TEST_FOLDER", folder);
    worker.env("HAPAX_TEST_POINT", point).env("HAPAX_TEST_NTH", nth.to_string());
    let died = worker.spawn().unwrap().wait().unwrap();
    assert_eq!(died.signal(), Some(9), "{what}: the worker was to be killed");

    let hapax = open(url, None).await;
    let mut runs = Vec::new();
    for n in 0..RUNS {
        let start = hapax.start("order", &folder).idempotency_key(format!("order-{n}"));
        runs.push(start.await.unwrap().id());
    }
    let doubts = until_all_stand_still(&hapax, &runs).await;
    let seen = entries(folder);
    let mut in_doubt = 0;
    for run in &runs {
        let wired = seen.get(&format!("{run}:wire")).copied().unwrap_or(0);
        assert!(wired <= 1, "{what}: the wire was entered {wired} times");
        let completed = hapax.get(*run).await.unwrap().head.status() == RunStatus::Completed;
        let is_in_doubt = doubts.iter().any(|doubt| doubt.run == *run);
        assert!(completed != is_in_doubt, "{what}: a run that does not end is in doubt, and no other");
        in_doubt += u32::from(is_in_doubt);
    }
    for doubt in doubts {
        let happened = seen.contains_key(doubt.key.as_str());
        let resolution = match happened {
            true => Resolution::Happened { output: 1.into() },
            false => Resolution::DidNotHappen,
        };
        let by = Actor::new("ada", Role::Manager);
        let ruling = Ruling { resolution, by, seconded_by: None, reason: "the bank's statement".into() };
        hapax.resolve_doubt(&doubt.as_seen(), ruling).await.unwrap();
    }
    let still = until_all_stand_still(&hapax, &runs).await;
    assert!(still.is_empty(), "{what}");
    let seen = entries(folder);
    let rows = ledger.rows().await;
    for run in &runs {
        assert_eq!(seen[&format!("{run}:wire")], 1, "{what}: claimed, and ruled by what the bank knows");
        assert!(seen[&format!("{run}:reserve")] >= 1 && seen[&format!("{run}:mail")] >= 1, "{what}");
        let booked = rows.iter().filter(|row| **row == run.to_string()).count();
        assert_eq!(booked, 1, "{what}: what shares the transaction happens once");
    }
    assert_eq!(seen.len(), RUNS * 3, "{what}: each effect has one key");
    let counts = hapax.count_effects().await.unwrap();
    for class in [EffectClass::Claimed, EffectClass::Transactional] {
        let count = counts[&class];
        assert_eq!((count.happened_twice, count.may_have_happened_twice), (0, 0), "{class}, {what}");
    }
    hapax.shutdown(Duration::from_secs(10)).await.unwrap();
    drop(hapax);
    let store = open_store(url, std::sync::Arc::new(SystemClock::new())).await.unwrap();
    let report = fsck(&*store).await.unwrap();
    assert!(report.violations.is_empty(), "{what}: {:#?}", report.violations);
    assert_eq!(report.runs, RUNS, "{what}");
    store.close().await.unwrap();
    in_doubt
}

/// Waits until every run has ended or is in doubt; answers with the doubts.
async fn until_all_stand_still(hapax: &Engine, runs: &[hapax::RunId]) -> Vec<hapax::Doubt> {
    for _ in 0..2_000 {
        let doubts = hapax.list_doubts(None, 100).await.unwrap().doubts;
        let list = ListRuns {
            workspace: None,
            statuses: vec![],
            workflow: None,
            filter: Default::default(),
            before: None,
            limit: 100,
        };
        let open = hapax.list(list).await.unwrap().runs;
        let open = open.iter().filter(|view| !view.head.status().is_closed()).map(|view| view.head.id());
        let moving = open.filter(|run| !doubts.iter().any(|doubt| doubt.run == *run)).count();
        if moving == 0 {
            return doubts;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} runs do not come to rest", runs.len());
}

struct File(PathBuf);

impl Ledger for File {
    async fn rows(&self) -> Vec<String> {
        let connection = hapax::sqlite::rusqlite::Connection::open(&self.0).unwrap();
        let mut rows = connection.prepare("SELECT run FROM ledger").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(|row| row.unwrap()).collect()
    }
}

/// G0.4, S3.15, S3.21: a lease and a version cannot undo every effect; the effect key identifies
/// the rest, or they are in doubt for people to see.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_point_on_sqlite() {
    let mut doubts = 0;
    for point in CrashPoint::NAMES {
        let late = if point == "before_claim" { 2 } else { 11 };
        for nth in [1, late] {
            // A claim takes all runs at once, and each of them ends once.
            let most = match point {
                "before_claim" | "after_claim" | "before_completion" | "after_completion" => nth.min(2),
                _ => nth,
            };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("orders.db");
            let url = format!("sqlite:{}", path.display());
            let first = Hapax::open(&url).await.unwrap().into_engine().unwrap();
            first.shutdown(Duration::from_secs(1)).await.unwrap();
            drop(first);
            let connection = hapax::sqlite::rusqlite::Connection::open(&path).unwrap();
            connection.execute_batch("CREATE TABLE ledger (run TEXT NOT NULL)").unwrap();
            drop(connection);
            doubts += kill_and_recover(&url, point, most, folder.path(), &File(path)).await;
        }
    }
    assert!(doubts > 0, "nothing was ever in doubt: the test shows nothing");
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use super::*;
    use hapax::postgres::tokio_postgres::Client;
    use hapax_postgres_fixture::Database;

    struct Table(Client);

    impl Ledger for Table {
        async fn rows(&self) -> Vec<String> {
            self.0.query("SELECT run FROM ledger", &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn killed_at_every_point_on_postgres() {
        let mut doubts = 0;
        for point in CrashPoint::NAMES {
            let nth = if point.contains("claim") || point.contains("completion") { 1 } else { 9 };
            let folder = tempfile::tempdir().unwrap();
            let database = Database::empty().await.unwrap();
            let admin = database.connect().await.unwrap();
            admin.batch_execute("CREATE TABLE ledger (run text NOT NULL)").await.unwrap();
            doubts += kill_and_recover(&database.url(), point, nth, folder.path(), &Table(admin)).await;
        }
        assert!(doubts > 0, "nothing was ever in doubt: the test shows nothing");
    }
}
