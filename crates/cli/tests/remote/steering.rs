//! Steering runs, deciding doubts, and what is on record afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use crate::remote::support::{FAIL, LISTEN, TestServer};

const LOSE: &str = r#"{"name":"lose","version":1,"steps":[{"name":"wire","type":"task","task":"lose","effect":"claimed","nonIdempotent":true}]}"#;

const FAX: &str = r#"{"name":"office","version":1,"steps":[{"name":"fax","type":"task","task":"echo","effect":"claimed"},{"name":"try","type":"task","task":"fail"}]}"#;

/// Looks until the run has this status.
async fn comes_to(server: &TestServer, run: &str, status: &str) {
    let looking = async {
        while server.hapax(&["runs", "show", run, "--json"]).await.ok().json()["run"]["status"] != status {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking)
        .await
        .unwrap_or_else(|_| panic!("{run} does not come to {status}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_resumed_and_cancelled() {
    let server = TestServer::start().await;
    let run = server.begin(LISTEN, "{}").await;
    comes_to(&server, &run, "WAITING").await;
    server.hapax(&["runs", "pause", &run, "--reason", "to look"]).await.ok();
    comes_to(&server, &run, "PAUSED").await;
    let version =
        server.hapax(&["runs", "show", &run, "--json"]).await.ok().json()["run"]["version"].to_string();
    let stale = server.hapax(&["runs", "resume", &run, "--if-version", "1"]).await.exits(6);
    assert!(stale.err.contains("CONCURRENCY_ERROR"), "{}", stale.err);
    server.hapax(&["runs", "resume", &run, "--if-version", &version]).await.ok();
    // RELIABILITY, CLI: a destructive command without --yes.
    let refused = server.hapax(&["runs", "cancel", &run]).await.exits(2);
    assert!(refused.err.contains("give --yes") && refused.out.is_empty(), "{}", refused.err);
    assert_ne!(
        server.hapax(&["runs", "show", &run, "--json"]).await.ok().json()["run"]["pendingRequest"],
        "cancel"
    );
    server.hapax(&["runs", "cancel", &run, "--yes", "--reason", "the customer withdrew"]).await.ok();
    comes_to(&server, &run, "CANCELLED").await;
    let ended = server.hapax(&["runs", "result", &run]).await.exits(1);
    assert!(ended.err.contains("it is CANCELLED"), "{}", ended.err);

    let failed = server.begin(FAIL, "{}").await;
    comes_to(&server, &failed, "FAILED").await;
    server.hapax(&["runs", "retry", &failed, "--reason", "once more"]).await.ok();
    server.hapax(&["runs", "resume", &failed]).await.exits(6);
    comes_to(&server, &failed, "FAILED").await;
    let shown = || async { server.hapax(&["runs", "show", &failed, "--json"]).await.ok().json() };
    let before = shown().await["run"]["version"].clone();
    let refused = server.hapax(&["runs", "retry", &failed, "--from", "try"]).await.exits(2);
    assert!(refused.err.contains("forget try of run_") && refused.err.contains("--yes"), "{}", refused.err);
    assert_eq!(shown().await["run"]["version"], before, "nothing was done");
    server.hapax(&["runs", "retry", &failed, "--from", "try", "--yes"]).await.ok();

    let audit = server.hapax(&["audit"]).await.ok().out;
    for word in ["steered (cancel)", "the customer withdrew", "admin", &run] {
        assert!(audit.contains(word), "{word} is missing:\n{audit}");
    }
}

/// A retry plan shows the effects that would happen again. The retry needs each of them by name.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_shows_what_it_would_do_and_repeats_only_what_is_named() {
    let server = TestServer::start().await;
    let run = server.begin(FAX, "{}").await;
    comes_to(&server, &run, "FAILED").await;
    let shown = server.hapax(&["runs", "retry", &run, "--from", "fax", "--dry-run"]).await.ok().out;
    for line in
        ["HAPPENS AGAIN  fax (claimed, COMPLETED)", "runs again     try", "--repeat-effect fax --reason"]
    {
        assert!(shown.contains(line), "{line} is missing:\n{shown}");
    }
    let plan =
        server.hapax(&["runs", "retry", &run, "--from", "fax", "--dry-run", "--json"]).await.ok().json();
    assert_eq!(plan["repeatEffects"], json!(["fax"]), "{plan}");
    let refused = server.hapax(&["runs", "retry", &run, "--from", "fax", "--yes"]).await.exits(6);
    assert!(refused.err.contains("effects_would_repeat") && refused.err.contains("fax"), "{}", refused.err);
    server.hapax(&["runs", "retry", &run, "--from", "fax", "--repeat-effect", "fax", "--yes"]).await.exits(2);
    let allowed = ["--repeat-effect", "fax", "--reason", "the paper was empty", "--yes"];
    server.hapax(&[&["runs", "retry", &run, "--from", "fax"][..], &allowed].concat()).await.ok();
    comes_to(&server, &run, "FAILED").await;
    let audit = server.hapax(&["audit"]).await.ok().out;
    assert!(audit.contains("repeat_allowed") && audit.contains("the paper was empty"), "{audit}");
}

/// The same key gets the same response: a repeated request has no second effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_key_makes_a_second_command_the_first() {
    let server = TestServer::start().await;
    let run = server.begin(LISTEN, "{}").await;
    let signal = ["runs", "signal", &run, "other", "--request-key", "signal-1", "--json"];
    let first = server.hapax(&signal).await.ok();
    let again = server.hapax(&signal).await.ok();
    assert_eq!(first.out, again.out);
    assert_eq!(first.json()["stored"], true);
    let key = server.hapax(&["keys", "show", "request", "signal-1", "--json"]).await.ok().json();
    assert_eq!((&key["answerStatus"], &key["status"]), (&json!(200), &json!("live")), "{key}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_is_decided_through_the_server_and_on_record() {
    let server = TestServer::start().await;
    let run = server.begin(LOSE, "{}").await;
    let looking = async {
        loop {
            let found = server.hapax(&["doubts", "list", "--json"]).await.ok();
            if !found.out.is_empty() {
                return found.json();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let doubt = tokio::time::timeout(Duration::from_secs(60), looking).await.expect("a doubt");
    assert_eq!(doubt["runId"], json!(run));
    let (step, seen) = (doubt["stepId"].as_str().unwrap(), doubt["seen"].to_string());
    let id = format!("{run}/{step}");
    assert_eq!(doubt["id"], json!(id));
    let table = server.hapax(&["doubts", "list"]).await.ok().out;
    assert!(table.contains(&run) && table.contains("the answer was lost"), "{table}");

    let operator = server.key("acme", hapax_api::Role::Operator).await;
    let who = ["--by", "ada", "--reason", "the bank shows it", "--json"];
    let decide = |seen: &str, how: &[&str]| -> Vec<String> {
        let all = [&["doubts", "resolve", &id, "--seen", seen], how, &who].concat();
        all.into_iter().map(String::from).collect()
    };
    let strs = |all: &[String]| all.iter().map(|it| it.to_string()).collect::<Vec<_>>();
    let abandon = strs(&decide(&seen, &["--abandon"]));
    let abandon: Vec<&str> = abandon.iter().map(String::as_str).collect();
    let unasked = server.hapax_as(&operator, &abandon).await.exits(2);
    assert!(unasked.err.contains("count wire of run_") && unasked.err.contains("--yes"), "{}", unasked.err);
    let abandon = [&abandon[..], &["--yes"]].concat();
    let refused = server.hapax_as(&operator, &abandon).await.exits(4);
    assert!(refused.err.contains("needs_manager"), "{}", refused.err);
    let seconded = [&abandon[..], &["--seconded-by", "grace"]].concat();
    let refused = server.hapax_as(&operator, &seconded).await.exits(2);
    assert!(refused.err.contains("--store"), "{}", refused.err);
    let happened = strs(&decide(&seen, &["--happened", "--result", "{\"tx\":41}"]));
    let happened: Vec<&str> = happened.iter().map(String::as_str).collect();
    let decided = server.hapax_as(&operator, &happened).await.ok().json();
    assert_eq!(decided["resolution"], "happened");
    // The name in the request, and the credential behind it.
    assert_eq!(decided["by"]["name"], "ada (operator)");
    server.hapax_as(&operator, &happened).await.exits(6);
    assert_eq!(server.hapax(&["doubts", "list"]).await.ok().out, "no effect is in doubt\n");
    server.hapax(&["runs", "watch", &run]).await.ok();

    let ledger = server.hapax(&["ledger"]).await.ok();
    let effects: Vec<Value> = ledger.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        effects.iter().any(
            |it| it["stepId"] == doubt["stepId"] && it["rulings"][0]["actor"]["name"] == "ada (operator)"
        ),
        "{effects:?}"
    );
    assert_eq!(server.hapax(&["ledger", "--run", &run]).await.ok().out, ledger.out);
    let table = server.hapax(&["ledger", "-o", "table"]).await.ok().out;
    assert!(table.contains("may have happened twice") && table.contains(&format!("{run}:wire")), "{table}");
    let counts = server.hapax(&["ledger", "--summary", "--json"]).await.ok().json();
    assert_eq!(
        (&counts["claimed"]["effects"], &counts["claimed"]["happenedTwice"]),
        (&json!(1), &json!(0)),
        "{counts}"
    );
    let audit = server.hapax(&["audit"]).await.ok().out;
    assert!(audit.contains("resolved (happened)") && audit.contains("ada"), "{audit}");

    // The same store, looked at beside the server.
    let store = format!("sqlite:{}/hapax.db", server.folder.path().display());
    let checked = server.hapax(&["admin", "fsck", "--store", &store, "--json"]).await.ok().json();
    assert_eq!((&checked["violations"], &checked["runs"]), (&json!([]), &json!(1)), "{checked}");
    let text = server.hapax(&["admin", "fsck", "--store", &store]).await.ok().out;
    assert!(text.starts_with("1 runs, "), "{text}");
}
