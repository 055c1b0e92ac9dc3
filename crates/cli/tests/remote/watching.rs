//! Starting runs, looking at them, watching them.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::remote::support::{ECHO, FAIL, LISTEN, TestServer};

/// Longest time that anything here may take to be seen.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_applied_once_listed_and_shown() {
    let server = TestServer::start().await;
    let file = server.file("echo.json", ECHO);
    let first = server.hapax(&["apply", &file]).await.ok();
    assert!(first.out == "workflow echo@1 created\n", "{}", first.out);
    let again = server.hapax(&["apply", &file]).await.ok();
    assert!(again.out == "workflow echo@1 unchanged\n", "{}", again.out);
    let other = server.file(
        "other.yaml",
        "name: echo\nversion: 1\nsteps:\n  - name: other\n    type: task\n    task: echo\n",
    );
    let refused = server.hapax(&["apply", &other]).await.exits(6);
    assert!(
        refused.out.is_empty()
            && refused.err.contains("definition_exists")
            && refused.err.contains("other.yaml"),
        "{}",
        refused.err
    );
    let wrong = server.file("wrong.yaml", "name: echo\nversion: 2\nsteps:\n  - name: x\n    type: dance\n");
    let refused = server.hapax(&["apply", &wrong]).await.exits(6);
    assert!(
        refused.err.contains("definition_invalid") && refused.err.contains("/steps/0"),
        "{}",
        refused.err
    );

    let listed = server.hapax(&["workflows", "list", "--json"]).await.ok().json();
    let id = listed["id"].as_str().unwrap().to_owned();
    assert_eq!((&listed["name"], &listed["version"]), (&json!("echo"), &json!(1)));
    let table = server.hapax(&["workflows", "list"]).await.ok().out;
    assert!(table.contains(&id) && table.contains("echo"), "{table}");
    let yaml = server.hapax(&["workflows", "show", "echo", "-o", "yaml"]).await.ok().out;
    assert!(yaml.contains("name: echo") && yaml.contains("task: echo"), "{yaml}");
    server.hapax(&["workflows", "show", "echo@2"]).await.exits(5);
    let sheet = server.hapax(&["workflows", "show", "echo@1"]).await.ok().out;
    assert!(sheet.starts_with(&format!("id        {id}\n")) && sheet.contains("\"steps\""), "{sheet}");
}

/// S0.12-S0.14 from the command line: one run per key, and the paths that differ.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_started_once_per_key() {
    let server = TestServer::start().await;
    let echo = server.upload(ECHO).await;
    let start = ["start", &echo, "--input", "{\"order\":789}", "--key", "order-789", "--json"];
    let first = server.hapax(&start).await.ok().json();
    let again = server.hapax(&start).await.ok().json();
    assert_eq!((&first["created"], &again["created"]), (&json!(true), &json!(false)));
    assert_eq!(first["run"]["id"], again["run"]["id"]);
    let refused =
        server.hapax(&["start", &echo, "--input", "{\"order\":790}", "--key", "order-789"]).await.exits(6);
    assert!(
        refused.err.contains("idempotency_key_conflict") && refused.err.contains("differs at /order"),
        "{}",
        refused.err
    );

    let run = first["run"]["id"].as_str().unwrap();
    let result = server.hapax(&["runs", "result", run, "--wait", "30s"]).await.ok();
    assert_eq!(result.json(), json!({"said": {"order": 789}}));
    let listed = server.hapax(&["runs", "list", "--status", "completed", "--json"]).await.ok().json();
    assert_eq!((&listed["id"], &listed["idempotencyKey"]), (&json!(run), &json!("order-789")));
    let nothing = server.hapax(&["runs", "list", "--status", "FAILED"]).await.ok();
    assert_eq!(nothing.out, "there are no such runs\n");
    let sheet = server.hapax(&["runs", "show", run]).await.ok().out;
    for part in [run, "status    COMPLETED", "workflow  echo@1", "key       order-789", "✔ say", "█"] {
        assert!(sheet.contains(part), "{part} is missing:\n{sheet}");
    }

    let key = server.hapax(&["keys", "show", "run", "order-789", "--json"]).await.ok().json();
    assert_eq!((&key["holder"]["id"], &key["status"]), (&json!(run), &json!("live")));
    let asked = ["keys", "release", "run", "order-789", "--reason", "it was a test"];
    let refused = server.hapax(&asked).await.exits(2);
    assert!(refused.err.contains("--yes"), "{}", refused.err);
    server.hapax(&[&asked[..], &["--yes"]].concat()).await.ok();
    let freed = server.hapax(&["keys", "show", "run", "order-789"]).await.ok().out;
    assert!(freed.contains("status      expired"), "{freed}");
    assert_eq!(server.hapax(&start).await.ok().json()["created"], true, "it is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_may_come_from_a_file_or_from_standard_input() {
    let server = TestServer::start().await;
    let echo = server.upload(ECHO).await;
    let file = server.file("input.json", "{\"from\":\"file\"}\n");
    let run = server.hapax(&["start", &echo, "--input-file", &file, "--json"]).await.ok().json();
    assert_eq!(run["run"]["input"], json!({"from": "file"}));
    let mut command = server.command_as(&server.admin, &["start", &echo, "--input-file", "-", "--json"]);
    let file = std::fs::File::open(&file).unwrap();
    command.stdin(file);
    assert_eq!(
        crate::remote::support::run(command).await.ok().json()["run"]["input"],
        json!({"from": "file"})
    );
    let closed = server.hapax(&["start", &echo, "--input-file", "-"]).await.exits(1);
    assert!(closed.err.contains("JSON"), "{}", closed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_run_is_told_line_by_line_and_its_end_is_the_exit_code() {
    let server = TestServer::start().await;
    let echo = server.upload(ECHO).await;
    let watched = server.hapax(&["start", &echo, "--watch"]).await.ok();
    let lines: Vec<&str> = watched.out.lines().collect();
    assert!(lines.iter().any(|line| line.contains("  run   started")), "{}", watched.out);
    assert!(lines.iter().any(|line| line.contains("  step  say  COMPLETED  attempt 1")), "{}", watched.out);
    assert!(lines.iter().any(|line| line.contains("echo@1  COMPLETED")), "{}", watched.out);
    assert!(lines.last().unwrap().starts_with("  ✔ say  COMPLETED  ×1"), "{}", watched.out);

    let run = server.begin(FAIL, "{}").await;
    let failed = server.hapax(&["runs", "watch", &run]).await.exits(1);
    assert!(failed.err.contains(&format!("{run} ended FAILED")), "{}", failed.err);
    assert!(failed.out.contains("✘ try"), "{}", failed.out);
    // RELIABILITY, CLI: escapes from workflow data.
    assert!(!failed.out.contains('\u{1b}') && !failed.err.contains('\u{1b}'), "{failed:?}");
    let shown = server.hapax(&["runs", "show", &run]).await.ok();
    assert!(shown.out.contains("it always fails") && !shown.out.contains('\u{1b}'), "{}", shown.out);
    let refused = server.hapax(&["runs", "result", &run]).await.exits(1);
    assert!(refused.err.contains("it is FAILED") && !refused.err.contains('\u{1b}'), "{}", refused.err);

    let told = server.hapax(&["runs", "watch", &run, "--json"]).await.exits(1);
    let told: Vec<Value> = told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.last().unwrap()["end"]["status"], "FAILED");
    assert!(
        told.iter().any(|it| it["step"]["id"] == "try")
            && told.iter().any(|it| it["event"]["kind"] == "failed")
    );
}

/// RELIABILITY, CLI: SIGINT. The run goes on; only the watching ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_watching_and_not_the_run() {
    use rustix::process::{Pid, Signal, kill_process};
    let server = TestServer::start().await;
    let run = server.begin(LISTEN, "{}").await;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut command = server.command_as(&server.admin, &["runs", "watch", &run]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next_line().await.unwrap().is_some(), "it is watching");
        kill_process(Pid::from_raw(child.id().unwrap() as i32).unwrap(), signal).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(code));
    }
    let open = server.hapax(&["runs", "result", &run]).await.exits(7);
    assert!(open.err.contains("has not ended"), "{}", open.err);
    server.hapax(&["runs", "signal", &run, "go", "--value", "{\"now\":true}", "--id", "s-1"]).await.ok();
    let again = server.hapax(&["runs", "signal", &run, "go", "--id", "s-1"]).await;
    assert!(again.out.contains("was sent before") || again.code == 6, "{again:?}");
    server.hapax(&["runs", "watch", &run]).await.ok();
}

/// RELIABILITY, CLI: SIGINT twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_watching_as_the_first_does() {
    use rustix::process::{Pid, Signal, kill_process};
    let server = TestServer::start().await;
    let run = server.begin(LISTEN, "{}").await;
    let mut command = server.command_as(&server.admin, &["runs", "watch", &run]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("it tells something");
    assert!(first.unwrap().is_some(), "it is watching");
    let id = Pid::from_raw(child.id().unwrap() as i32).unwrap();
    for _ in 0..2 {
        kill_process(id, Signal::INT).unwrap();
    }
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    let open = server.hapax(&["runs", "result", &run]).await.exits(7);
    assert!(open.err.contains("has not ended"), "{}", open.err);
}

/// On a terminal the steps are drawn along their time, over and over in the same place, and stand there whole at the end.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_the_steps_are_drawn_in_place() {
    let server = TestServer::start().await;
    let run = server.begin(LISTEN, "{}").await;
    let words = [env!("CARGO_BIN_EXE_hapax"), "runs", "watch", &run];
    let environment = [("HAPAX_SERVER", server.url.as_str()), ("HAPAX_API_KEY", server.admin.as_str())];
    let mut script = tokio::process::Command::from(crate::remote::terminal::command(&words, &environment));
    let mut child = script.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    // It waits for a word, and is drawn so; then the word comes.
    let drawing = async {
        while !String::from_utf8_lossy(&seen).contains("… word") {
            assert_ne!(screen.read_buf(&mut seen).await.unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
        }
    };
    tokio::time::timeout(PATIENCE, drawing).await.expect("it is drawn");
    server.hapax(&["runs", "signal", &run, "go"]).await.ok();
    screen.read_to_end(&mut seen).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("WAITING") && seen.contains('█'), "{seen:?}");
    assert!(seen.contains("\u{1b}[2K") || seen.contains("\u{1b}[1A"), "it is drawn over itself: {seen:?}");
    let last = seen.rsplit("listen v1").next().unwrap();
    assert!(last.contains("COMPLETED") && last.contains("✔ word"), "{seen:?}");
    assert!(!seen.contains("  run   started"), "events are not told one by one: {seen:?}");
}

/// RELIABILITY, CLI: stdout closed.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_reading_is_no_failure() {
    let server = TestServer::start().await;
    let run = server.begin(ECHO, "{}").await;
    for arguments in
        [&["runs", "watch", &run][..], &["runs", "list", "--json"], &["runs", "show", &run], &["ledger"]]
    {
        let mut command = server.command_as(&server.admin, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
