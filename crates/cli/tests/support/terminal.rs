//! Runs a command in a terminal, which `script` provides (every Debian has it).

#![allow(dead_code, reason = "not every test file needs all of it")]

use std::process::{Command, Stdio};

/// Everything that the command sends to its terminal, on either stream. Its input is empty.
pub fn on_a_terminal(words: &[&str], environment: &[(&str, &str)]) -> String {
    let output = command(words, environment).output().expect("script is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same command, not yet started. It exits with the code of the command.
pub fn command(words: &[&str], environment: &[(&str, &str)]) -> Command {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &quoted.join(" "), "/dev/null"]);
    script.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("CI").stdin(Stdio::null());
    script.envs(environment.iter().copied());
    script
}
