//! The demo, as a person runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hapax")).arg("demo").args(arguments).output().expect("it can be run")
}

#[test]
fn every_card_is_charged_once_however_often_the_worker_is_killed() {
    let output = demo(&["--json", "--orders", "8", "--crashes", "3"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let tally: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    let figure = |name: &str| tally[name].as_u64().unwrap_or_else(|| panic!("{name} in {tally}"));
    assert_eq!(figure("orders"), 8);
    assert_eq!(figure("charges"), figure("orders"));
    assert_eq!(figure("runs_created"), figure("orders"));
    assert_eq!(figure("runs_completed"), figure("orders"));
    assert_eq!(figure("effects"), 4 * figure("orders"));
    assert_eq!((figure("duplicates"), figure("lost")), (0, 0));
    assert!(figure("starts_fired") >= 5 * figure("orders"));
    // It really did something: the worker was killed, runs went on, and something was asked for twice.
    assert!(figure("crashes") >= 1, "{tally}");
    assert!(figure("recovered") >= 1, "{tally}");
    assert!(figure("retried_under_same_key") >= 1, "{tally}");
}

#[test]
fn a_database_that_is_there_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orders.db"), "mine").unwrap();
    let output = demo(&["--data", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("already exists"));
    assert_eq!(std::fs::read(folder.path().join("orders.db")).unwrap(), b"mine");
}

#[test]
fn the_table_ends_with_what_was_proven() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("kept");
    let output = demo(&["--orders", "2", "--crashes", "1", "--data", data.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("Proven: ") && text.contains("bench steps"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours outside a terminal: {text:?}");
    assert!(data.join("orders.db").exists());
}
