//! Real processes, really killed: at every point of a run's life, and stopped past their lease.
//!
//! The worker is this test binary again, told by its environment what to do. What it does to the outside world is a
//! line appended to a file, which survives it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hapax::clock::SystemClock;
use hapax::fsck::fsck;
use hapax::store::ListRuns;
use hapax::{
    CrashPoint, CrashPointWatcher, Ctx, EngineOptions, Failure, Hapax, Result, RunStatus, open_store,
};
use rustix::process::{Pid, Signal, kill_process};

const RUNS: usize = 24;
const STEPS: [&str; 4] = ["reserve", "charge", "ship", "mail"];

/// Appends one line; a line is one write, so that lines of several processes do not mix.
fn note(folder: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(folder.join("effects")).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn noted(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

async fn order(ctx: Ctx, folder: PathBuf) -> Result<u32> {
    let mut done = 0;
    for step in STEPS {
        let folder = &folder;
        done += ctx
            .step(step, |attempt| {
                note(folder, attempt.idempotency_key());
                async { Ok::<_, Failure>(1) }
            })
            .await?;
        if step == "charge" {
            // Parks the run, so that it is claimed again later.
            ctx.sleep(Duration::from_millis(1)).await?;
        }
    }
    Ok(done)
}

/// Kills this very process, as `kill -9` from outside would, when `point` is reached for the `nth` time.
fn kill_at(point: String, nth: u32) -> CrashPointWatcher {
    let reached = AtomicU32::new(0);
    CrashPointWatcher::new(move |at: &CrashPoint| {
        if at.name() == point && reached.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
            std::thread::park();
        }
    })
}

async fn work(folder: &Path, watcher: Option<CrashPointWatcher>) {
    let options = EngineOptions { watcher, ..EngineOptions::default() };
    let url = format!("sqlite:{}/orders.db", folder.display());
    let hapax = Hapax::builder(&url).options(options).open().await.unwrap().into_engine().unwrap();
    hapax.register("order", order).unwrap();
    let starts = (0..RUNS).map(|n| {
        let hapax = hapax.clone();
        let input = folder.to_path_buf();
        tokio::spawn(async move {
            let run = hapax.start("order", &input).idempotency_key(format!("order-{n}")).await.unwrap();
            assert_eq!(run.result::<u32>().await.unwrap(), STEPS.len() as u32);
        })
    });
    for start in starts.collect::<Vec<_>>() {
        start.await.unwrap();
    }
    let stats = hapax.stats();
    println!("takeovers {} replays {}", stats.takeovers, stats.replays);
    hapax.shutdown(Duration::from_secs(10)).await.unwrap();
}

/// The worker's side; without its environment it is no test of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    let Some(folder) = std::env::var_os("HAPAX_TEST_FOLDER") else { return };
    let folder = PathBuf::from(folder);
    match std::env::var("HAPAX_TEST_ROLE").unwrap().as_str() {
        "order" => {
            let watcher = std::env::var("HAPAX_TEST_KILL_AT").ok().map(|text| {
                let (point, nth) = text.split_once(' ').unwrap();
                kill_at(point.to_string(), nth.parse().unwrap())
            });
            work(&folder, watcher).await;
        }
        role => share(&folder, role.to_string()).await,
    }
}

fn spawn(folder: &Path, role: &str, kill_at: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed::worker_process", "--nocapture"]);
    command.env("HAPAX_TEST_FOLDER", folder).env("HAPAX_TEST_ROLE", role);
    if let Some(kill_at) = kill_at {
        command.env("HAPAX_TEST_KILL_AT", kill_at);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// Fault 1: the process dies at every commit boundary, early and late; another goes on.
/// Invariants 1, 7, 9, 31, 33 (and 67: it shows that it did something).
#[test]
fn killed_at_every_point_nothing_is_lost_and_nothing_recorded_runs_again() {
    let mut taken_over = 0;
    for point in CrashPoint::NAMES {
        // Claims take many runs at once, so there are few of them.
        let late = if point == "before_claim" { 2 } else { 17 };
        for nth in [1, late] {
            let folder = tempfile::tempdir().unwrap();
            let kill_at = format!("{point} {nth}");
            let died = spawn(folder.path(), "order", Some(&kill_at)).wait().unwrap();
            assert_eq!(died.signal(), Some(9), "{kill_at}: the worker was to be killed");
            let before = noted(folder.path()).len();

            let second = spawn(folder.path(), "order", None).wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&second.stdout).to_string();
            assert!(second.status.success(), "{kill_at}: {said}");
            let takeovers = said.split("takeovers ").nth(1).and_then(|rest| rest.split(' ').next());
            taken_over += takeovers.and_then(|n| n.trim().parse::<u32>().ok()).unwrap_or(0);

            let mut entries: BTreeMap<String, u32> = BTreeMap::new();
            noted(folder.path()).into_iter().for_each(|key| *entries.entry(key).or_default() += 1);
            assert_eq!(
                entries.len(),
                RUNS * STEPS.len(),
                "{kill_at}: every effect happened, each under one key"
            );
            let again: u32 = entries.values().map(|n| n - 1).sum();
            assert!(again as usize <= RUNS, "{kill_at}: {again} ran again, of {before}; at most one a run");
            assert!(entries.values().all(|n| *n <= 2), "{kill_at}: an effect ran more than twice");
            check(folder.path(), RUNS);
        }
    }
    assert!(taken_over > 0, "no run was ever taken over: the test shows nothing");
}

/// fsck is clean, and the runs are as many as they should be, all completed.
fn check(folder: &Path, runs: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite:{}/orders.db?mode=ro", folder.display());
        let store = open_store(&url, std::sync::Arc::new(SystemClock::new())).await.unwrap();
        let report = fsck(&*store).await.unwrap();
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        let all = ListRuns {
            workspace: None,
            statuses: vec![],
            workflow: None,
            filter: Default::default(),
            before: None,
            limit: 1000,
        };
        let found = store.list_runs(all).await.unwrap().runs;
        assert_eq!(found.len(), runs);
        assert!(found.iter().all(|run| run.head.status() == RunStatus::Completed));
    });
}

/// One of two processes on one file: reports its work, and finishes it on command.
async fn share(folder: &Path, name: String) {
    let options = EngineOptions {
        lease_for: Duration::from_millis(600),
        poll_every: Duration::from_millis(50),
        ..EngineOptions::default()
    };
    let url = format!("sqlite:{}/orders.db?shared=true", folder.display());
    let hapax = Hapax::builder(&url).options(options).open().await.unwrap().into_engine().unwrap();
    let (tell, told) = tokio::sync::watch::channel(false);
    let (who, place) = (name.clone(), folder.to_path_buf());
    hapax
        .register("pay", move |ctx: Ctx, (): ()| {
            let (who, place, told) = (who.clone(), place.clone(), told.clone());
            async move {
                for step in ["wire", "mail"] {
                    ctx.step(step, |_| {
                        note(&place, &format!("{who} {step}"));
                        println!("entered {step}");
                        let (mut told, waits) = (told.clone(), who == "late");
                        async move {
                            if waits {
                                told.wait_for(|go| *go).await?;
                            }
                            Ok::<_, Failure>(())
                        }
                    })
                    .await?;
                }
                Ok::<_, Failure>(who)
            }
        })
        .unwrap();
    if name == "late" {
        hapax.start("pay", &()).idempotency_key("pay-1").await.unwrap();
        // The next line on stdin comes after the long stop.
        let go = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next());
        let _ = go.await;
        tell.send_replace(true);
        while hapax.active_runs() > 0 {
            tokio::task::yield_now().await;
        }
        let stats = hapax.stats();
        println!("let go {}", stats.fenced_writes + stats.self_fenced);
    } else {
        let run = hapax.start("pay", &()).idempotency_key("pay-1").await.unwrap();
        println!("result {}", run.result::<String>().await.unwrap());
    }
}

fn wait_for_line(lines: &mut impl Iterator<Item = std::io::Result<String>>, wanted: &str) -> String {
    for line in lines {
        let line = line.unwrap();
        if let Some(place) = line.find(wanted) {
            return line[place..].to_string();
        }
    }
    panic!("the process ended without saying {wanted:?}");
}

/// Fault 3: stopped past its lease and continued, the late process writes nothing and starts nothing.
#[test]
fn a_process_stopped_past_its_lease_writes_nothing_when_it_wakes() {
    let folder = tempfile::tempdir().unwrap();
    let mut late = spawn(folder.path(), "late", None);
    let mut late_says = BufReader::new(late.stdout.take().unwrap()).lines();
    wait_for_line(&mut late_says, "entered wire");
    let pid = Pid::from_raw(i32::try_from(late.id()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();

    let mut next = spawn(folder.path(), "next", None);
    let mut next_says = BufReader::new(next.stdout.take().unwrap()).lines();
    assert_eq!(wait_for_line(&mut next_says, "result"), "result next");
    assert!(next.wait().unwrap().success());

    kill_process(pid, Signal::CONT).unwrap();
    late.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let let_go = wait_for_line(&mut late_says, "let go");
    assert_ne!(let_go, "let go 0", "it was refused or gave up, it did not just end");
    late.wait().unwrap();
    assert_eq!(noted(folder.path()), ["late wire", "next wire", "next mail"]);
    check(folder.path(), 1);
}
