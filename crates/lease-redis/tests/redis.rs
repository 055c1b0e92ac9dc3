//! Leases in a real Redis, and an engine that uses them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hapax_engine::clock::SystemClock;
use hapax_engine::lease::{Lease, LeaseToken};
use hapax_engine::memory::MemoryStore;
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use hapax_lease_redis::{ConnectError, RedisLease};
use tempfile::TempDir;
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(30);

/// A private Redis without persistence, on its own socket.
struct Redis {
    folder: TempDir,
    server: Child,
}

impl Redis {
    async fn start() -> Redis {
        let folder = tempfile::tempdir().unwrap();
        let server = Self::spawn(&folder.path().join("socket"));
        let redis = Redis { folder, server };
        redis.until_it_answers().await;
        redis
    }

    fn spawn(socket: &std::path::Path) -> Child {
        Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed: apt-get install redis-server")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    async fn until_it_answers(&self) {
        let socket = self.socket();
        eventually("Redis answers", async || std::os::unix::net::UnixStream::connect(&socket).is_ok()).await;
    }

    async fn lease(&self) -> RedisLease {
        RedisLease::connect(&format!("redis+unix://{}", self.socket().display())).await.unwrap()
    }

    fn stop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Restarts it without its data.
    async fn start_again(&mut self) {
        self.server = Self::spawn(&self.socket());
        self.until_it_answers().await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "{what}: never happened");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// S3.14: `SET NX PX` admits one holder.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_gets_it() {
    let redis = Redis::start().await;
    let mut asking = JoinSet::new();
    for _ in 0..40 {
        let lease = redis.lease().await;
        asking.spawn(async move { lease.acquire("run", &LeaseToken::fresh(), LONG).await.unwrap() });
    }
    assert_eq!(asking.join_all().await.into_iter().filter(|got| *got).count(), 1);
}

#[tokio::test]
async fn only_the_holder_prolongs_and_gives_back() {
    let redis = Redis::start().await;
    let lease = redis.lease().await;
    let (holder, other) = (LeaseToken::fresh(), LeaseToken::fresh());
    assert!(lease.acquire("run", &holder, LONG).await.unwrap());
    assert!(
        lease.acquire("run", &holder, LONG).await.unwrap(),
        "a request sent again is answered as the first"
    );
    assert!(!lease.acquire("run", &other, LONG).await.unwrap());
    assert!(!lease.renew("run", &other, LONG).await.unwrap());
    lease.release("run", &other).await.unwrap();
    assert!(lease.renew("run", &holder, LONG).await.unwrap(), "another cannot free it");
    assert!(lease.acquire("another run", &other, LONG).await.unwrap());
    assert!(lease.clone().prefix("elsewhere:").acquire("run", &other, LONG).await.unwrap());
    lease.release("run", &holder).await.unwrap();
    assert!(!lease.renew("run", &holder, LONG).await.unwrap(), "what was given back is not held");
    assert!(lease.acquire("run", &other, LONG).await.unwrap());
}

#[tokio::test]
async fn a_lease_ends_by_itself_and_renewal_puts_that_off() {
    let redis = Redis::start().await;
    let lease = redis.lease().await;
    let (holder, other) = (LeaseToken::fresh(), LeaseToken::fresh());
    assert!(lease.acquire("short", &holder, Duration::from_millis(50)).await.unwrap());
    assert!(lease.acquire("kept", &holder, Duration::from_secs(5)).await.unwrap());
    assert!(lease.renew("kept", &holder, LONG).await.unwrap());
    eventually("the end of a short lease", async || lease.acquire("short", &other, LONG).await.unwrap())
        .await;
    assert!(!lease.renew("short", &holder, LONG).await.unwrap());
    assert!(!lease.acquire("kept", &other, LONG).await.unwrap());
}

/// The limitations that the documentation states.
#[tokio::test]
async fn a_redis_that_loses_data_admits_another_holder_and_the_first_learns_of_it() {
    let mut redis = Redis::start().await;
    let lease = redis.lease().await;
    let (holder, other) = (LeaseToken::fresh(), LeaseToken::fresh());
    assert!(lease.acquire("run", &holder, LONG).await.unwrap());
    redis.stop();
    assert!(lease.renew("run", &holder, LONG).await.is_err(), "neither yes nor no");
    redis.start_again().await;
    eventually("the connection is made anew", async || lease.renew("run", &holder, LONG).await.is_ok()).await;
    assert!(!lease.renew("run", &holder, LONG).await.unwrap());
    assert!(lease.acquire("run", &other, LONG).await.unwrap());
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_the_password() {
    for url in ["redis://ann:canary@127.0.0.1:1/", "canary://x", "redis://:canary@host:port/"] {
        let error = RedisLease::connect(url).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        let is_bad_url = matches!(error, ConnectError::BadUrl);
        assert_eq!(is_bad_url, !url.contains("127.0.0.1"), "{error}");
    }
}

/// Two engines share one store and one Redis: each run is driven by one engine. While Redis is down, both stop.
#[tokio::test(flavor = "multi_thread")]
async fn runs_wait_for_redis_and_are_driven_once_each() {
    const RUNS: usize = 40;
    let mut redis = Redis::start().await;
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let effects = Arc::new(AtomicUsize::new(0));
    let mut engines = Vec::new();
    for _ in 0..2 {
        let options = EngineOptions {
            lease: Some(Arc::new(redis.lease().await)),
            poll_every: Duration::from_millis(50),
            ..EngineOptions::default()
        };
        let engine = Engine::launch(store.clone(), clock.clone(), options).unwrap();
        let effects = effects.clone();
        let code = move |ctx: Ctx, number: usize| {
            let effects = effects.clone();
            async move {
                ctx.step("charge", |_| {
                    effects.fetch_add(1, Ordering::SeqCst);
                    async { Ok::<_, Failure>(()) }
                })
                .await?;
                Ok::<_, Failure>(number)
            }
        };
        engine.register("order", code).unwrap();
        engines.push(engine);
    }
    let run_all = async |from: usize| {
        let mut runs = Vec::new();
        for number in from..from + RUNS {
            runs.push((number, engines[number % 2].start("order", &number).await.unwrap()));
        }
        runs
    };
    for (number, run) in run_all(0).await {
        assert_eq!(run.result::<usize>().await.unwrap(), number);
    }
    assert_eq!(effects.load(Ordering::SeqCst), RUNS);

    redis.stop();
    let waiting = run_all(RUNS).await;
    let stats = || engines.iter().map(|engine| engine.active_runs()).sum::<usize>();
    eventually("all runs are granted", async || stats() == RUNS).await;
    assert_eq!(effects.load(Ordering::SeqCst), RUNS, "nothing is driven while Redis cannot be asked");
    redis.start_again().await;
    for (number, run) in waiting {
        let result = tokio::time::timeout(PATIENCE, run.result::<usize>()).await;
        assert_eq!(result.expect("they go on by themselves").unwrap(), number);
    }
    assert_eq!(effects.load(Ordering::SeqCst), 2 * RUNS);
}
