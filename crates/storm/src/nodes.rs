//! Nodes: `hapax serve` as processes that are killed, paused, stopped and started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::http::{self, Request};
use crate::limits::{CLAIM_STALE_AFTER, CLIENT_TIMEOUT, DRAIN, LEASE, START_WITHIN, STOP_MARGIN};

/// Name of the module that owns the business objects of the storm.
pub const MODULE: &str = "storm";

/// Starts a node as this very process. A watcher reads from a pipe that only the storm holds: when
/// the storm ends in any way, the watcher kills the node, even a stopped one. It compares the name
/// because another process may have got the number.
const WATCHED: &str = r#"
exec 3<&0 </dev/null
( cat <&3; [ "$(cat "/proc/$$/comm")" = hapax ] && kill -KILL $$ ) >/dev/null 2>&1 &
exec "$@" 3<&-
"#;

/// How nodes are started.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    pub program: PathBuf,
    /// Where logs go.
    pub folder: PathBuf,
    pub provider: SocketAddr,
    /// The secret that webhooks are signed with.
    pub webhook_secret: String,
}

/// One node. It keeps its place and its database link over all of its processes.
#[derive(Debug)]
pub struct Node {
    pub index: usize,
    store: String,
    options: NodeOptions,
    process: Mutex<Option<Process>>,
    url: watch::Sender<Option<String>>,
    told: Arc<NodeLog>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    pid: Pid,
}

/// Logs of a node's processes.
#[derive(Debug, Default)]
struct NodeLog {
    first_key: Mutex<Option<String>>,
    panics: Mutex<Vec<String>>,
}

impl Node {
    pub fn new(index: usize, store: String, options: NodeOptions) -> Node {
        let url = watch::Sender::new(None);
        Node { index, store, options, process: Mutex::default(), url, told: Arc::default() }
    }

    /// Starts a process; it is ready later.
    pub fn start(&self) -> Result<()> {
        let seconds = |duration: Duration| format!("{}s", duration.as_secs());
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCHED, "sh"])
            .arg(&self.options.program)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--lease",
                &seconds(LEASE),
                "--drain",
                &seconds(DRAIN),
            ])
            .args(["--allow", &self.options.provider.to_string()])
            .args(["--modules", &format!("{MODULE}:1s:{}", seconds(CLAIM_STALE_AFTER))])
            .args(["--log", "info", "--log-format", "json"])
            .env("HAPAX_STORE", &self.store)
            .env("HAPAX_SECRET_STORM__HOOK", &self.options.webhook_secret)
            .current_dir(&self.options.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", self.options.program.display()))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process has an id")?;
        let stderr = child.stderr.take().context("its errors cannot be read")?;
        let stdout = child.stdout.take().context("its output cannot be read")?;
        let log = self.options.folder.join(format!("node-{}.log", self.index));
        let log = File::options().create(true).append(true).open(log).context("no log can be written")?;
        let (url, told) = (self.url.clone(), self.told.clone());
        std::thread::spawn(move || follow_errors(BufReader::new(stderr), log, &url, &told));
        let told = self.told.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.starts_with("hpx_") {
                    *told.first_key.lock().expect("nobody panics here") = Some(line);
                }
            }
        });
        *self.lock() = Some(Process { child, pid });
        Ok(())
    }

    /// Where it listens, if it does.
    pub fn url(&self) -> Option<String> {
        self.url.borrow().clone()
    }

    /// The key that the first start of an installation shows.
    pub fn first_key(&self) -> Option<String> {
        self.told.first_key.lock().expect("nobody panics here").clone()
    }

    /// Panics seen in its logs.
    pub fn panics(&self) -> Vec<String> {
        self.told.panics.lock().expect("nobody panics here").clone()
    }

    /// Waits until it says that it is ready.
    pub async fn until_ready(&self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < START_WITHIN {
            if let Some(url) = self.url()
                && let Ok(answer) = http::send(&url, &Request::get("/readyz"), CLIENT_TIMEOUT).await
                && answer.is_success()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("node {} was not ready within {START_WITHIN:?}", self.index)
    }

    /// Returns whether a process runs.
    pub fn is_started(&self) -> bool {
        self.lock().is_some()
    }

    /// Sends a signal; whether there is a process to get it.
    pub fn signal(&self, signal: Signal) -> bool {
        self.lock().as_ref().is_some_and(|process| kill_process(process.pid, signal).is_ok())
    }

    /// Kills it at once and waits for its end.
    pub fn kill(&self) {
        let process = self.lock().take();
        self.url.send_replace(None);
        if let Some(mut process) = process {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }

    /// Asks it to stop, and waits. Tells how long it took and what it exited with.
    pub async fn stop(&self) -> Result<(Duration, ExitStatus)> {
        let Some(mut process) = self.lock().take() else { bail!("node {} does not run", self.index) };
        self.url.send_replace(None);
        let began = Instant::now();
        kill_process(process.pid, Signal::TERM).context("the node cannot be asked to stop")?;
        loop {
            if let Some(status) = process.child.try_wait()? {
                return Ok((began.elapsed(), status));
            }
            if began.elapsed() > DRAIN + STOP_MARGIN {
                let _ = process.child.kill();
                let _ = process.child.wait();
                bail!("node {} did not stop within {:?}", self.index, DRAIN + STOP_MARGIN);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How it ended, if it did so by itself.
    pub fn find_exit(&self) -> Option<ExitStatus> {
        let mut process = self.lock();
        let status = process.as_mut()?.child.try_wait().ok().flatten()?;
        *process = None;
        self.url.send_replace(None);
        Some(status)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().expect("nobody panics while holding a process")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Copies what a process says to its log, and takes its address and its panics from it.
fn follow_errors(errors: impl BufRead, mut log: File, url: &watch::Sender<Option<String>>, told: &NodeLog) {
    for line in errors.lines().map_while(Result::ok) {
        let _ = writeln!(log, "{line}");
        if line.starts_with("hapax: serving")
            && let Some((_, address)) = line.rsplit_once("http://")
        {
            url.send_replace(Some(format!("http://{address}")));
        }
        if line.contains("panicked at") {
            told.panics.lock().expect("nobody panics here").push(line);
        }
    }
}

/// Runs `hapax admin fsck` on the store.
pub fn fsck(program: &Path, store: &str) -> Result<()> {
    let checked = Command::new(program).args(["admin", "fsck", "--json"]).env("HAPAX_STORE", store).output();
    let checked = checked.context("`hapax admin fsck` cannot be started")?;
    let said = || {
        format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr))
    };
    ensure!(checked.status.success(), "hapax admin fsck: {}", said());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_node_ends_when_its_storm_is_gone() {
        let folder = std::env::temp_dir().join(format!("hapax-storm-node-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("hapax");
        std::fs::write(&program, "#!/bin/sh\nwhile :; do sleep 0.1; done\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let provider = SocketAddr::from(([127, 0, 0, 1], 1));
        let options =
            NodeOptions { program, folder: folder.clone(), provider, webhook_secret: String::new() };
        let node = Node::new(0, String::new(), options);
        node.start().unwrap();
        let mut process = node.lock().take().unwrap();
        let name = format!("/proc/{}/comm", process.child.id());
        while std::fs::read_to_string(&name).unwrap().trim() != "hapax" {
            std::thread::yield_now();
        }
        // A node that is stopped can do nothing about it itself.
        kill_process(process.pid, Signal::STOP).unwrap();
        drop(process.child.stdin.take());
        assert_eq!(process.child.wait().unwrap().signal(), Some(9));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
