//! This test binary again, as a process of its own: told by its environment what to do and by lines when to do it, it answers with lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;

use serde_json::Value;
use tokio::sync::watch;

pub struct Process {
    child: Child,
    told: ChildStdin,
}

impl Process {
    /// Starts the test `name` with this in its environment; what it says goes to `heard`.
    pub fn spawn(name: &str, environment: &[(&str, &str)], heard: Sender<Value>) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test runner prints lines of its own, also before this program's output.
                let Some(at) = line.find('{') else { continue };
                let Ok(said) = serde_json::from_str(&line[at..]) else { continue };
                if heard.send(said).is_err() {
                    return;
                }
            }
        });
        let told = child.stdin.take().unwrap();
        Process { child, told }
    }

    /// Says a word to it.
    pub fn tell(&mut self, word: &str) {
        writeln!(self.told, "{word}").unwrap();
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for it to end well.
    pub fn ends_well(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Within such a process: says something to who started it, in one write, so that lines do not mix.
pub fn say(said: &Value) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{said}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Within such a process: the last word that it received.
pub fn lines() -> watch::Receiver<String> {
    let (tell, told) = watch::channel(String::new());
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            tell.send_replace(line);
        }
        // The parent process is gone.
        std::process::exit(1);
    });
    told
}
