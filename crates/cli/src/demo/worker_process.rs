//! The worker as the demo sees it: a child process to ask, to listen to, and to kill.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::messages::{Report, Request};
use super::world::World;

/// How much of the worker's last words is shown if it ends by itself.
const LAST_LINES: usize = 5;

pub(super) struct WorkerProcess {
    child: Child,
    requests: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl WorkerProcess {
    pub(super) fn start(folder: &Path, world: &World) -> Result<Self> {
        let log = folder.join("worker.log");
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let mut child = Command::new(program)
            .arg("demo-worker")
            .arg("--folder")
            .arg(folder)
            .arg("--providers")
            .arg(world.address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(open_log(&log)?)
            .kill_on_drop(true)
            .spawn()
            .context("the worker process could not be started")?;
        let requests = child.stdin.take().expect("it was piped");
        let reports = BufReader::new(child.stdout.take().expect("it was piped")).lines();
        Ok(WorkerProcess { child, requests, reports, log })
    }

    /// Sends a request. If the worker is gone it goes unanswered, as with any caller.
    pub(super) async fn ask(&mut self, request: &Request) -> Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let _ = self.requests.write_all(&line).await;
        Ok(())
    }

    /// The next report; `None` when the process is gone and everything it said was read.
    pub(super) async fn next_report(&mut self) -> Result<Option<Report>> {
        match self.reports.next_line().await? {
            Some(line) => {
                let report = serde_json::from_str(&line);
                Ok(Some(report.with_context(|| format!("the worker said {line:?}"))?))
            }
            None => Ok(None),
        }
    }

    /// SIGKILL: the process gets no chance to tidy up.
    pub(super) async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("the worker process could not be killed")
    }

    /// Error text for a worker that ended without being killed.
    pub(super) fn last_words(&self) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let mut lines: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
        lines.reverse();
        anyhow!("the worker ended by itself: {}", lines.join(" / "))
    }
}

fn open_log(path: &Path) -> Result<File> {
    let log = OpenOptions::new().create(true).append(true).open(path);
    log.with_context(|| format!("{} cannot be written", path.display()))
}
