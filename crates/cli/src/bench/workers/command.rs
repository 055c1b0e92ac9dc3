//! A worker in another language: a command that serves the workflow of the load.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, ensure};
use hapax_api::client::{Client, Paging};
use secrecy::SecretString;
use tokio::process::{Child, Command};

use super::Server;

/// How long a worker may take to open its session.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The process of a worker. It is killed when it is dropped.
pub(super) struct WorkerCommand(Child);

impl WorkerCommand {
    /// Starts `command` in a shell, with the address and the key of the server in its environment, and waits for its session.
    pub(super) async fn start(command: &str, server: &Server) -> Result<Self> {
        let mut shell = Command::new("sh");
        // The shell becomes the worker, so that the worker is what is killed.
        shell.args(["-c", &format!("exec {command}")]).stdin(Stdio::null()).stdout(Stdio::null());
        shell.env("HAPAX_URL", &server.url).env("HAPAX_API_KEY", &server.key).kill_on_drop(true);
        let mut child = shell.spawn().context("the command of --worker does not start")?;
        let client = Client::new(&server.url, &SecretString::from(server.key.clone()))?;
        let began = Instant::now();
        while client.list_worker_sessions(&Paging::default()).await?.items.is_empty() {
            let ended = child.try_wait()?;
            ensure!(ended.is_none(), "the command of --worker ended before it opened a session: {ended:?}");
            ensure!(began.elapsed() < PATIENCE, "the command of --worker opens no session");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(WorkerCommand(child))
    }

    /// Waits until the process ends by itself. Runs would wait for it for ever.
    pub(super) async fn ended(&mut self) -> Error {
        match self.0.wait().await {
            Ok(status) => anyhow!("the command of --worker ended in the middle of its runs: {status}"),
            Err(error) => error.into(),
        }
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        Ok(self.0.kill().await?)
    }
}
