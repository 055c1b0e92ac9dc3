//! Every call in docs/http-contract.md, run as it is written against `hapax dev`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The server that the README's first command starts.
struct Dev {
    process: Child,
    ready: Value,
    folder: tempfile::TempDir,
}

impl Dev {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_hapax"))
            .args(["dev", "--listen", "127.0.0.1:0", "--json", "--data"])
            .arg(folder.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Dev { process, ready: serde_json::from_str(&line).expect("one JSON line"), folder }
    }

    fn run(&self, script: &str) -> String {
        let text = |name: &str| self.ready[name].as_str().unwrap().to_owned();
        let output = Command::new("bash")
            .args(["-c", script])
            .env("URL", text("url"))
            .env("KEY", text("apiKey"))
            .env("DEF", text("sampleDefinition"))
            .env("TMP", self.folder.path())
            .output()
            .expect("bash and curl are there");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// S2.31, S2.32, S0.4-S0.14 and the rest of the contract, as a caller would try them.
#[test]
fn every_call_of_the_contract_answers_as_the_page_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-contract.md");
    let page = std::fs::read_to_string(page).unwrap();
    let dev = Dev::start();
    let (mut helpers, mut pending, mut tried) = (String::new(), None, 0);
    for (fence, body) in blocks(&page) {
        match fence {
            "sh" if body.contains("() {") => helpers = body,
            "sh" => pending = Some(body),
            "answers" => {
                let script = pending.take().expect("a call stands before its answers");
                let answer = dev.run(&format!("{helpers}\n{script}"));
                // In order, so that two calls of one block cannot trade places.
                let mut rest = answer.as_str();
                for expected in body.lines() {
                    match rest.find(expected) {
                        Some(at) => rest = &rest[at + expected.len()..],
                        None => panic!("{expected:?} is not in what came of\n{script}\n---\n{answer}"),
                    }
                }
                tried += 1;
            }
            _ => {}
        }
    }
    assert!(tried >= 18, "only {tried} calls were found on the page");
}

fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(fence) = line.strip_prefix("```").filter(|fence| !fence.is_empty()) {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((fence, body.join("\n")));
        }
    }
    found
}
