//! `hapax serve` as a process of its own, to be stopped.

#![allow(dead_code, reason = "not every test file needs all of it")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Longest time that anything in these tests may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and what it says on standard error.
pub struct Serve {
    process: Child,
    said: Receiver<String>,
}

impl Serve {
    pub fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Serve { process, said }
    }

    /// Waits until it says something with these words in it; gives back the line.
    pub fn until_said(&self, words: &str) -> String {
        loop {
            let line = self.said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{words:?} was not said"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The address that it serves on.
    pub fn address(&self) -> String {
        let line = self.until_said("hapax: serving");
        line.rsplit_once("http://").expect("an address").1.to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Waits for its end; gives back what it exits with, and what it said last.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        loop {
            // Nothing more can be said once it has ended.
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) => rest.push_str(&line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end: {rest}"),
            }
        }
        (self.process.wait().unwrap().code(), rest)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
