//! Three node processes over one PostgreSQL, killed, stopped and cut off from it at random.
#![cfg(feature = "postgres")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hapax::clock::SystemClock;
use hapax::fsck::fsck;
use hapax::store::ListRuns;
use hapax::{Ctx, EngineOptions, Failure, Hapax, Result, RunStatus, open_store};
use hapax_postgres_fixture::{Server, Shutdown};
use rustix::process::{Pid, Signal, kill_process};

const STEPS: usize = 5;
const LEASE: Duration = Duration::from_millis(1_500);
const POLL: Duration = Duration::from_millis(200);

/// How many runs, and for how long faults happen; `cargo xtask chaos` sets more.
fn size() -> (usize, Duration) {
    let read =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    (read("HAPAX_CHAOS_RUNS", 3_000) as usize, Duration::from_secs(read("HAPAX_CHAOS_SECONDS", 12)))
}

/// Appends one line; a line is one write, so that lines of several processes do not mix.
fn note(folder: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(folder.join("effects")).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

async fn order(ctx: Ctx, folder: PathBuf) -> Result<u32> {
    let mut done = 0;
    for step in 0..STEPS {
        let folder = &folder;
        done += ctx
            .step(&format!("step-{step}"), |attempt| {
                note(folder, attempt.idempotency_key());
                async {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    Ok::<_, Failure>(1)
                }
            })
            .retry(hapax::RetryPolicy::default().max_attempts(50).max_wait(Duration::from_millis(200)))
            .await?;
    }
    Ok(done)
}

/// A node: starts its share of the runs, drives what it can get, and says now and then what it has seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_process() {
    let Ok(url) = std::env::var("HAPAX_NODE_URL") else { return };
    let folder = PathBuf::from(std::env::var_os("HAPAX_NODE_FOLDER").unwrap());
    let first: usize = std::env::var("HAPAX_NODE_FIRST").unwrap().parse().unwrap();
    let (runs, faults_for) = size();
    let options = EngineOptions { lease_for: LEASE, poll_every: POLL, max_active: 400, ..Default::default() };
    let hapax = loop {
        match Hapax::builder(&url).options(options.clone()).open().await {
            Ok(hapax) => break hapax.into_engine().unwrap(),
            // The server may be on its way back.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    hapax.register("order", order).unwrap();
    let starter = hapax.clone();
    tokio::spawn(async move {
        for n in (first..runs).chain(0..first) {
            loop {
                // Spread over the time of the faults and a little beyond, so that some are open when they end.
                let delay = (faults_for + Duration::from_secs(2)).mul_f64(n as f64 / runs as f64);
                let start =
                    starter.start("order", &folder).idempotency_key(format!("order-{n:06}")).delay(delay);
                match start.await {
                    Ok(_) => break,
                    Err(hapax::Error::Store(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        println!("all started");
    });
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let seen = hapax.stats();
        println!(
            "seen {} {} {}",
            seen.takeovers,
            seen.fenced_writes + seen.self_fenced,
            seen.unknown_resolved
        );
    }
}

/// Reports of the nodes, over all their lives.
#[derive(Default)]
struct Seen {
    takeovers: AtomicU64,
    fenced: AtomicU64,
    unknown: AtomicU64,
}

struct Node {
    child: Child,
    place: usize,
}

impl Node {
    fn spawn(url: &str, folder: &Path, place: usize, seen: Arc<Seen>) -> Node {
        let (runs, _) = size();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "postgres_nodes::node_process", "--nocapture"])
            .env("HAPAX_NODE_URL", url)
            .env("HAPAX_NODE_FOLDER", folder)
            .env("HAPAX_NODE_FIRST", (place * runs / 3).to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            let mut before = [0u64; 3];
            for line in lines.map_while(std::result::Result::ok) {
                let Some(rest) = line.strip_prefix("seen ") else { continue };
                let now: Vec<u64> = rest.split(' ').filter_map(|n| n.parse().ok()).collect();
                for (i, counter) in [&seen.takeovers, &seen.fenced, &seen.unknown].into_iter().enumerate() {
                    counter.fetch_add(now[i] - before[i], Ordering::SeqCst);
                    before[i] = now[i];
                }
            }
        });
        Node { child, place }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Faults 2, 3, 7; invariants 1, 7, 9, 17-21, 31, 33, 64, 67.
#[test]
fn three_nodes_under_faults_lose_nothing_and_record_nothing_twice() {
    let (runs, faults_for) = size();
    let seed: u64 = std::env::var("HAPAX_CHAOS_SEED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("HAPAX_CHAOS_SEED={seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let server = Server::start().unwrap();
    let url = server.tcp_url("postgres");
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Seen::default());
    let mut nodes: Vec<Node> =
        (0..3).map(|place| Node::spawn(&url, folder.path(), place, seen.clone())).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();

    let began = Instant::now();
    let (mut kills, mut stops, mut restarts) = (0, 0, 0);
    for round in chance.u8(0..3).. {
        if began.elapsed() >= faults_for {
            break;
        }
        std::thread::sleep(Duration::from_millis(chance.u64(300..900)));
        let victim = chance.usize(0..3);
        match round % 3 {
            0 => {
                kills += 1;
                let place = nodes[victim].place;
                nodes[victim] = Node::spawn(&url, folder.path(), place, seen.clone());
            }
            1 => {
                stops += 1;
                nodes[victim].signal(Signal::STOP);
                std::thread::sleep(LEASE + POLL * 3);
                nodes[victim].signal(Signal::CONT);
            }
            _ => {
                restarts += 1;
                let how = if chance.bool() { Shutdown::Fast } else { Shutdown::Immediate };
                server.restart(how).unwrap();
            }
        }
    }
    println!("{kills} kills, {stops} stops, {restarts} restarts; healing");
    let healed = Instant::now();
    let open = runtime.block_on(wait_until_done(&url, runs));
    println!("all done {:?} after healing; {open} were open then", healed.elapsed());

    drop(nodes);
    let mut entries: BTreeMap<String, u32> = BTreeMap::new();
    let text = std::fs::read_to_string(folder.path().join("effects")).unwrap();
    text.lines().for_each(|key| *entries.entry(key.to_string()).or_default() += 1);
    assert_eq!(entries.len(), runs * STEPS, "every effect happened, each under one key");
    runtime.block_on(async {
        let store = open_store(&url, Arc::new(SystemClock::new())).await.unwrap();
        let report = fsck(&*store).await.unwrap();
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        assert_eq!(report.runs as usize, runs, "one run for each key");
        store.close().await.unwrap();
    });
    let again: u32 = entries.values().map(|n| n - 1).sum();
    let counts = [&seen.takeovers, &seen.fenced, &seen.unknown].map(|counter| counter.load(Ordering::SeqCst));
    println!("{again} effects were entered again; takeovers, fenced, unknown resolved: {counts:?}");
    assert!(
        kills > 0 && stops > 0 && restarts > 0 && counts[0] > 0 && counts[1] > 0,
        "the test shows nothing"
    );
}

/// Waits until as many runs have completed as there should be; fails if nothing moves for long.
async fn wait_until_done(url: &str, runs: usize) -> usize {
    let mut open_at_first = None;
    let mut last = (0, Instant::now());
    loop {
        let completed = completed(url).await.unwrap_or(last.0);
        open_at_first.get_or_insert(runs - completed.min(runs));
        if completed == runs {
            return open_at_first.unwrap_or(0);
        }
        if completed > last.0 {
            last = (completed, Instant::now());
        }
        // Invariant 64: (lease + rescue + poll) × 2, and some room for a busy machine.
        let bound = (LEASE + POLL * 2) * 2 + Duration::from_secs(20);
        assert!(last.1.elapsed() < bound, "stuck at {completed} of {runs}");
        tokio::time::sleep(POLL).await;
    }
}

async fn completed(url: &str) -> Option<usize> {
    let store = open_store(url, Arc::new(SystemClock::new())).await.ok()?;
    let mut count = 0;
    let mut before = None;
    loop {
        let statuses = vec![RunStatus::Completed];
        let page = ListRuns {
            workspace: None,
            statuses,
            workflow: None,
            filter: Default::default(),
            before,
            limit: 1_000,
        };
        let page = store.list_runs(page).await.ok()?;
        count += page.runs.len();
        before = page.next;
        if before.is_none() {
            return Some(count);
        }
    }
}
