//! A command as it runs in somebody's terminal: `script`, which every Debian has, gives it one.

#![allow(dead_code, reason = "not every test file needs all of it")]

use std::process::{Command, Stdio};

/// What a terminal is sent by the command and all that it writes, on either stream; it has nothing to read.
pub fn on_a_terminal(words: &[&str], environment: &[(&str, &str)]) -> String {
    let output = command(words, environment).output().expect("script is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same command, yet to be started; its exit code is that of the command.
pub fn command(words: &[&str], environment: &[(&str, &str)]) -> Command {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &quoted.join(" "), "/dev/null"]);
    script.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("CI").stdin(Stdio::null());
    script.envs(environment.iter().copied());
    script
}
