//! `cargo xtask fuzz-api`: requests that schemathesis generates from the API description, sent to a
//! private server.

mod hints;
mod seeds;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command_line::CommandLine;

/// Pinned, so that a new finding comes from a change in this project.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// No 5xx, and no status, type or body that the description does not list. The project's own tests
/// cover the form of errors: a body that breaks the description may still be accepted (an unknown
/// header, say), and a valid one may be rejected (an unknown run).
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Streams do not end, and a credential that revokes or rotates itself cannot send another request.
const LEFT_OUT: &str = "/(stream|revoke|rotate)$";
/// Header with the id of each request of schemathesis, and of each request of this program.
const CASE_HEADER: &str = "X-Schemathesis-TestCaseId";
static CASES: AtomicU32 = AtomicU32::new(0);
/// Its janitor soon treats a silent holder as dead.
const MODULE: &str = "fuzzed:200ms:200ms";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long to run, in minutes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Seed of the generated requests; the same seed gives the same requests
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let build = CommandLine::new("cargo build -p hapax-cli --locked");
    println!("==> the server: {build}");
    ensure!(build.run()?.success(), "`{build}` failed");
    let built = std::env::current_exe().context("where this command lies cannot be told")?;
    let profile = built.parent().context("this command lies in no folder")?;
    let folder = profile.parent().context("the target folder is not where it should be")?.join("fuzz-api");

    println!("==> schemathesis");
    let schemathesis = install(&folder.join("venv"))?;
    let data = folder.join("data");
    if data.exists() {
        std::fs::remove_dir_all(&data).context("what the last time left cannot be removed")?;
    }
    let program = profile.join("hapax");
    let left = seeds::leave_steps_behind(Server::start(&program, &data)?)?;
    let server = Server::start(&program, &data)?;
    let seeds = seeds::sow(&server, left)?;
    let config = folder.join("schemathesis.toml");
    std::fs::write(&config, hints::of(&seeds)).context("the hints cannot be written")?;

    println!("==> {} minutes of requests to {}", options.minutes, server.url);
    let status = Command::new(schemathesis)
        .arg("--config-file")
        .arg(&config)
        .args(["run", &format!("{}/openapi.json", server.url)])
        .args(["--header", &format!("Authorization: Bearer {}", server.key)])
        .args(["--checks", CHECKS, "--exclude-path-regex", LEFT_OUT, "--continue-on-failure"])
        .args(["--max-time", &(options.minutes * 60).to_string(), "--seed", &options.seed.to_string()])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .status()
        .context("schemathesis cannot be started")?;
    let is_alive = request(&server.url, &server.key, "GET", "/healthz", "").is_ok();
    ensure!(is_alive, "the server does not answer any more; its log is {}", data.join("log").display());
    ensure!(
        status.success(),
        "there are findings ({status}); the same again: cargo xtask fuzz-api {options}"
    );
    Ok(())
}

impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--minutes {} --seed {}", self.minutes, self.seed)
    }
}

/// The program, in a virtual environment that is created if missing.
fn install(venv: &Path) -> Result<PathBuf> {
    let python = venv.join("bin/python");
    let has_it = |python: &Path| {
        let listed = Command::new(python).args(["-m", "pip", "freeze"]).output();
        listed.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).lines().any(|line| line == SCHEMATHESIS))
    };
    if !has_it(&python) {
        let made = Command::new("python3").args(["-m", "venv"]).arg(venv).status();
        let made = made.context("python3 cannot be started; install it, with its venv module")?;
        ensure!(made.success(), "no virtual environment could be made in {}", venv.display());
        let installed =
            Command::new(&python).args(["-m", "pip", "install", "--quiet", SCHEMATHESIS]).status();
        ensure!(installed.is_ok_and(|status| status.success()), "pip could not install {SCHEMATHESIS}");
    }
    Ok(venv.join("bin/schemathesis"))
}

/// `hapax dev` in a folder of its own; stops when dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) workspace: String,
    pub(crate) sample: String,
}

impl Server {
    fn start(program: &Path, data: &Path) -> Result<Self> {
        std::fs::create_dir_all(data)?;
        let mut process = Command::new(program)
            .args(["dev", "--listen", "127.0.0.1:0", "--json", "--modules", MODULE, "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::options().create(true).append(true).open(data.join("log"))?)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("its output cannot be read")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("the server did not say that it is ready")?;
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        let (url, key) = (text("url"), text("apiKey"));
        Ok(Server { process, url, key, workspace: text("workspace"), sample: text("sampleDefinition") })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        request(&self.url, &self.key, "GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        request(&self.url, &self.key, "POST", path, &body.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One request on a connection of its own. It never waits for a step, which continues in the
/// server.
fn request(url: &str, key: &str, method: &str, path: &str, body: &str) -> Result<Value> {
    let address = url.strip_prefix("http://").context("the server speaks plain HTTP")?;
    let mut stream = TcpStream::connect(address).context("the server cannot be reached")?;
    let (length, case) = (body.len(), CASES.fetch_add(1, Ordering::Relaxed));
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         {CASE_HEADER}: case-{case}\r\nPrefer: wait=0\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    ensure!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
    serde_json::from_str(body).with_context(|| format!("{method} {path}: {body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_told_so() {
        let error = request("http://127.0.0.1:1", "", "GET", "/", "").unwrap_err();
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
}
