//! Servers that die in the middle of an action, and what their janitors make of it.

use crate::support;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::rc::Rc;
use std::time::{Duration, Instant};

use support::dev::Dev;

/// Longest time that a janitor may take in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// An entity workflow whose action asks a bank on this port.
fn document(folder: &Path, port: u16, recovery: &str) -> String {
    let text = format!(
        r#"
name: invoices
kind: entity
module: billing
entity: invoice
status_types: [approved, closing, closed]
initial: approved
steps:
  - step_id: 10
    step_key: close
    status: approved
    claim_state: [closing, approved]
    successful_state: closed
    recovery: {recovery}
    effect: non_idempotent
    action: {{ http: {{ method: POST, url: "http://127.0.0.1:{port}/close", timeout: 10s }} }}
"#
    );
    let path = folder.join("invoices.yaml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn ok(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A server that was killed while the bank was asked, and another in its place whose janitor has little patience.
fn killed_in_the_middle(recovery: &str) -> Dev {
    let folder = Rc::new(tempfile::tempdir().unwrap());
    let bank = TcpListener::bind("127.0.0.1:0").unwrap();
    let modules = ["--modules", "billing:200ms:1s"];
    let dev = Dev::start_with(folder.clone(), &modules);
    let file = document(folder.path(), bank.local_addr().unwrap().port(), recovery);
    ok(dev.hapax(&["apply", &file]));
    ok(dev.hapax(&["entities", "create", "invoice", "INV-1", "--status", "approved"]));
    let begun =
        dev.hapax(&["entities", "step", "invoice", "INV-1", "close", "--wait", "0s", "--key", "close-1"]);
    assert_eq!(begun.status.code(), Some(7), "{begun:?}");
    // The request has come, and nobody will answer it.
    let mut asked = BufReader::new(bank.accept().unwrap().0);
    let mut line = String::new();
    asked.read_line(&mut line).unwrap();
    assert!(line.starts_with("POST /close"), "{line}");
    let shown = ok(dev.hapax(&["entities", "show", "invoice", "INV-1"]));
    assert!(shown.contains("status    closing"), "{shown}");
    drop(dev.kill());
    Dev::start_with(folder, &modules)
}

/// Output of `arguments` as soon as it contains `word`.
fn until(dev: &Dev, arguments: &[&str], word: &str) -> String {
    let began = Instant::now();
    loop {
        let printed = ok(dev.hapax(arguments));
        if printed.contains(word) {
            return printed;
        }
        assert!(began.elapsed() < PATIENCE, "{word} does not come: {printed}");
    }
}

/// S1.34, S1.35, S1.39-S1.41: killed in the action, stuck in `closing`, reverted by the janitor; the history tells it.
#[test]
fn what_a_killed_server_left_claimed_is_given_back_by_the_janitor() {
    let dev = killed_in_the_middle("revert");
    until(&dev, &["entities", "show", "invoice", "INV-1"], "status    approved");
    let listed = ok(dev.hapax(&["entities", "operations", "list", "--key", "close-1", "--json"]));
    let operation: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(operation["status"], "REVERTED");
    let shown = ok(dev.hapax(&["entities", "operations", "show", operation["id"].as_str().unwrap()]));
    assert!(shown.contains("reverted approved (attempt 1); its holder was last heard of at"), "{shown}");
}

/// `recovery: hold`: people are shown it, and decide.
#[test]
fn what_a_killed_server_left_claimed_is_held_for_people() {
    let dev = killed_in_the_middle("hold");
    let doubts = ["entities", "operations", "list", "--status", "in_doubt", "--json"];
    let listed = until(&dev, &doubts, "IN_DOUBT");
    let operation: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let id = operation["id"].as_str().unwrap();
    ok(dev.hapax(&["doubts", "resolve", id, "--seen", "1", "--happened", "--reason", "the bank shows it"]));
    let shown = ok(dev.hapax(&["entities", "show", "invoice", "INV-1"]));
    assert!(shown.contains("status    closed"), "{shown}");
}
