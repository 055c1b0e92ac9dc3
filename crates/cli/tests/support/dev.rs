//! `hapax dev` as a process of its own, and calls to it.

#![allow(dead_code, reason = "not every test file needs all of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest time that anything in these tests may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command, without what the environment may say to it.
pub fn hapax() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// The server that the README's first command starts.
pub struct Dev {
    process: Child,
    /// Taken by whoever waits for its end.
    output: Option<BufReader<ChildStdout>>,
    ready: Value,
    folder: Rc<tempfile::TempDir>,
}

/// How a server ended.
pub struct Ended {
    pub status: ExitStatus,
    /// What it wrote to standard output after the first line.
    pub output: String,
}

impl Dev {
    /// Starts with nothing there.
    pub fn start() -> Self {
        Dev::start_in(Rc::new(tempfile::tempdir().unwrap()))
    }

    /// Starts with what an earlier one left, and waits until it is ready.
    pub fn start_in(folder: Rc<tempfile::TempDir>) -> Self {
        Dev::start_with(folder, &[])
    }

    /// The same, with more arguments.
    pub fn start_with(folder: Rc<tempfile::TempDir>, arguments: &[&str]) -> Self {
        Dev::launch(folder, arguments, &[])
    }

    /// The same, with secrets in its environment.
    pub fn start_knowing(folder: Rc<tempfile::TempDir>, variables: &[(&str, &str)]) -> Self {
        Dev::launch(folder, &[], variables)
    }

    fn launch(folder: Rc<tempfile::TempDir>, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut process = hapax()
            .args(["dev", "--listen", "127.0.0.1:0", "--json", "--data"])
            .arg(folder.path().join("data"))
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).expect("one JSON line");
        Dev { process, output: Some(output), ready, folder }
    }

    /// What the first line told.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// A text of the first line.
    pub fn told(&self, name: &str) -> String {
        self.ready[name].as_str().unwrap_or_else(|| panic!("{name} in {}", self.ready)).to_owned()
    }

    /// The folder of its data.
    pub fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    /// Runs a command against the server, and waits for its end.
    pub fn hapax(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = hapax();
        command
            .args(arguments)
            .env("HAPAX_SERVER", self.told("url"))
            .env("HAPAX_API_KEY", self.told("apiKey"));
        command.output().expect("it can be run")
    }

    /// Runs a script of bash that finds the server in URL, KEY and DEF; gives back all that it wrote.
    pub fn run(&self, script: &str) -> String {
        let output = Command::new("bash")
            .args(["-c", script])
            .env("URL", self.told("url"))
            .env("KEY", self.told("apiKey"))
            .env("DEF", self.told("sampleDefinition"))
            .env("TMP", self.folder.path())
            .output()
            .expect("bash and curl are there");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// Calls a path of the API with the key and these arguments of curl, and reads the JSON that comes back.
    pub fn call(&self, path: &str, arguments: &str) -> Value {
        let answer = self.run(&format!(
            r#"curl -s --max-time {} "$URL{path}" -H "Authorization: Bearer $KEY" {arguments}"#,
            PATIENCE.as_secs()
        ));
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
    }

    /// Sends JSON to a path of the API with the key, and reads the JSON that comes back.
    pub fn post(&self, path: &str, body: &str) -> Value {
        self.call(path, &format!("-H 'Content-Type: application/json' -d '{body}'"))
    }

    /// Megabytes of memory that the process has now.
    pub fn resident_megabytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is in there");
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
    }

    /// Creates a run of the sample.
    pub fn create_run(&self, key: &str, delay_ms: u64) -> Value {
        let definition = self.told("sampleDefinition");
        let body = format!(
            r#"{{"definitionId":"{definition}","input":{{"order":1}},"idempotencyKey":"{key}","delay":"{delay_ms}ms"}}"#
        );
        self.call("/api/v1/workflow-runs", &format!("-H 'Content-Type: application/json' -d '{body}'"))
    }

    /// Waits for the end of a run.
    pub fn result_of(&self, run: &str) -> Value {
        self.call(&format!("/api/v1/workflow-runs/{run}/result"), "-H 'Prefer: wait=60'")
    }

    /// Ends it as `kill -9` does, and gives back its folder.
    pub fn kill(self) -> Rc<tempfile::TempDir> {
        self.folder.clone()
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(mut self, signal: Signal) -> Ended {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, signal).unwrap();
        // Its output ends when it does; a server that hangs must not hang the test.
        let (tell, told) = mpsc::channel();
        let mut stdout = self.output.take().unwrap();
        std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = stdout.read_to_string(&mut rest);
            let _ = tell.send(rest);
        });
        let output = told.recv_timeout(PATIENCE).expect("it stops in bounded time");
        Ended { status: self.process.wait().unwrap(), output }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
