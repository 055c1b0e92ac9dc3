//! A node that is killed and restarts under its identity goes on at once, long before its leases would end.
#![cfg(feature = "postgres")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hapax::{Ctx, EngineOptions, Failure, Hapax, NodeIdentity, Result};
use hapax_postgres_fixture::Database;

/// Far longer than the test may take.
const LEASE: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(30);

/// Says that it began; the first life stays inside.
async fn effect(name: &str, is_first: bool) -> Result<u32, Failure> {
    println!("began {name}");
    if is_first {
        std::future::pending::<()>().await;
    }
    Ok(1)
}

async fn plain(ctx: Ctx, is_first: bool) -> Result<u32> {
    ctx.step("charge", |_| effect("plain", is_first && !is_second_life())).await
}

async fn claimed(ctx: Ctx, is_first: bool) -> Result<u32> {
    ctx.step("charge", |_| effect("claimed", is_first && !is_second_life())).claimed().await
}

fn is_second_life() -> bool {
    std::env::var_os("HAPAX_IDENTITY_SECOND").is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_process() {
    let Ok(url) = std::env::var("HAPAX_IDENTITY_URL") else { return };
    let file = PathBuf::from(std::env::var_os("HAPAX_IDENTITY_FILE").unwrap());
    let identity = NodeIdentity::take(&file).unwrap();
    let options = EngineOptions { lease_for: LEASE, ..EngineOptions::default() };
    let hapax = Hapax::builder(&url).options(options).identity(identity).open().await.unwrap();
    let hapax = hapax.into_engine().unwrap();
    hapax.register("plain", plain).unwrap();
    hapax.register("claimed", claimed).unwrap();
    let claims = hapax.start("claimed", &true).idempotency_key("claimed").await.unwrap();
    let run = hapax.start("plain", &true).idempotency_key("plain").await.unwrap();
    let output: u32 = run.result().await.unwrap();
    // Both were taken over together. The claimed effect is in doubt by now, and does not run again.
    let doubted = loop {
        let log = hapax.get_log(claims.id()).await.unwrap();
        match log.steps.iter().any(|step| step.state.status().as_str() == "IN_DOUBT") {
            true => break true,
            false => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    println!("done {output} {doubted}");
}

struct Node {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Node {
    fn spawn(url: &str, file: &Path, is_second: bool) -> Node {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "identity::node_process", "--nocapture"])
            .env("HAPAX_IDENTITY_URL", url)
            .env("HAPAX_IDENTITY_FILE", file)
            .stdout(Stdio::piped());
        if is_second {
            command.env("HAPAX_IDENTITY_SECOND", "true");
        }
        let mut child = command.spawn().unwrap();
        let (tell, lines) = std::sync::mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(std::io::Result::ok).try_for_each(|line| tell.send(line))
        });
        Node { child, lines }
    }

    /// The lines until each of these has come.
    fn read_until(&self, wanted: &[&str]) -> Vec<String> {
        let mut read: Vec<String> = Vec::new();
        while !wanted.iter().all(|wanted| read.iter().any(|line| line.contains(wanted))) {
            let line = self.lines.recv_timeout(SOON).unwrap_or_else(|_| panic!("no {wanted:?}: {read:?}"));
            read.push(line);
        }
        read
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_that_restarts_goes_on_before_its_leases_end() {
    let prepare = async |url: String| hapax::migrate(&url).await.map(drop).unwrap();
    let database = Database::from_template(prepare).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (url, file) = (database.url(), folder.path().join("node"));
    let first = Node::spawn(&url, &file, false);
    first.read_until(&["began claimed", "began plain"]);
    drop(first);
    let killed_at = Instant::now();
    let second = Node::spawn(&url, &file, true);
    let lines = second.read_until(&["done 1 true"]);
    assert!(killed_at.elapsed() < LEASE / 2, "it waited for its leases");
    let began = |name: &str| lines.iter().filter(|line| line.contains(&format!("began {name}"))).count();
    assert_eq!((began("plain"), began("claimed")), (1, 0), "{lines:?}");
}
