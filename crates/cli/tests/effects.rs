//! `hapax doubts`, `ledger`, `audit` and `outbox`, through the command itself.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::model::OutboxStatus;
use hapax::{Ctx, Delivery, Engine, Failure, Hapax, RunId};
use hapax_postgres_fixture::Database;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const SAYS_WHO: [&str; 4] = ["--by", "ada", "--reason", "the bank shows it"];

fn hapax(arguments: &[&str], store: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(arguments).args(["--store", store]).output().expect("it can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Output of a command that succeeded.
fn printed(arguments: &[&str], store: &str) -> String {
    let output = hapax(arguments, store);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The JSON objects it printed, one a line.
fn objects(arguments: &[&str], store: &str) -> Vec<Value> {
    printed(arguments, store).lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Error text of a command that needs confirmation (exit code 2).
fn unasked(arguments: &[&str], store: &str) -> String {
    let output = hapax(arguments, store);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

/// Error text of a command that failed (exit code 1).
fn refused(arguments: &[&str], store: &str) -> String {
    let output = hapax(arguments, store);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Sells something: an idempotent step, an after-effect, and a claimed step whose answer is lost.
async fn sell(ctx: Ctx, (): ()) -> Result<u32, Failure> {
    ctx.step("reserve", |_| async { Ok::<_, Failure>(1) }).await?;
    ctx.after_effect("mail", "sold").await?;
    let wire = ctx.step("wire", |attempt| async move {
        match attempt.number() {
            1 => Err(Failure::unknown("connection reset\n\u{1b}[2J")),
            number => Ok(number),
        }
    });
    wire.claimed().await
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// A run whose wire is in doubt, and whose mail was given up.
async fn prepare(program: &Engine) -> RunId {
    let refuse = |_: Delivery, _: String| async { Err(Failure::permanent("no such address")) };
    program.register_target("mail", refuse).unwrap();
    program.register("sell", sell).unwrap();
    let run = program.start("sell", &()).await.unwrap().id();
    eventually("a doubt", async || program.list_doubts(None, 10).await.unwrap().doubts.len() == 1).await;
    eventually("a dead mail", async || {
        program.list_after_effects(Some(OutboxStatus::Dead), None, 10).await.unwrap().len() == 1
    })
    .await;
    run
}

/// The arguments that decide about `wire` as it was `seen`.
fn decide<'a>(run: &str, seen: &'a str, decision: &[&'a str]) -> Vec<&'a str> {
    let id: &'static str = format!("{run}/wire").leak();
    let mut arguments = vec!["doubts", "resolve", id, "--seen", seen];
    arguments.extend(decision);
    arguments.extend(SAYS_WHO);
    arguments
}

/// A doubt is seen, refused what does not count, decided once, and on record.
async fn walk(store: &str) {
    let program = Hapax::open(store).await.unwrap().into_engine().unwrap();
    let run_id = prepare(&program).await;
    let owner = program.owner().to_string();
    program.shutdown(PATIENCE).await.unwrap();
    let run = run_id.to_string();

    let doubts = objects(&["doubts", "list", "--json"], store);
    assert_eq!(doubts.len(), 1);
    let doubt = &doubts[0];
    assert_eq!((&doubt["runId"], &doubt["stepId"]), (&json!(run), &json!("wire")));
    assert_eq!((&doubt["effectKey"], &doubt["attempts"]), (&json!(format!("{run}:wire")), &json!(1)));
    assert_eq!((&doubt["owner"], &doubt["workspace"]), (&json!(owner), &json!("default")));
    assert!(doubt["ageMs"].is_u64() && doubt["why"].as_str().unwrap().contains("connection reset"));
    let seen = doubt["seen"].to_string();
    let table = printed(&["doubts", "list"], store);
    for word in [&run, "wire", &seen, &owner, "connection reset", " s "] {
        assert!(table.contains(word), "{word} is missing:\n{table}");
    }
    assert!(!table.contains('\u{1b}') && table.lines().count() == 5, "one line for each:\n{table}");
    assert_eq!(printed(&["doubts", "list", "--workspace", "other"], store), "no effect is in doubt\n");

    let another = RunId::new(hapax::Timestamp::EPOCH).to_string();
    for (arguments, remedy) in [
        (decide(&run, &seen, &["--abandon", "--yes"]), "--role manager"),
        (decide(&run, &seen, &["--did-not-happen", "--seconded-by", "ada", "-y"]), "--seconded-by another"),
        (decide(&run, "1", &["--happened", "--result", "5"]), "hapax doubts list"),
        (decide(&another, &seen, &["--happened", "--result", "5"]), "--workspace"),
        (decide(&run, &seen, &["--happened", "--result", "5", "--workspace", "other"]), "--workspace"),
    ] {
        let said = refused(&arguments, store);
        assert!(said.contains(remedy), "{arguments:?}: {said}");
    }
    let entry = &objects(&["ledger", "--run", &run], store)[1];
    assert_eq!(
        (&entry["step"], &entry["status"], entry.get("rulings")),
        (&json!("wire"), &json!("IN_DOUBT"), None)
    );
    assert!(printed(&["audit"], store).contains("no entries"), "what is refused is not done");

    let told = printed(&decide(&run, &seen, &["--happened", "--result", "5"]), store);
    assert!(told.contains("happened") && told.contains(&run), "{told}");
    let said = refused(&decide(&run, &seen, &["--happened", "--result", "6"]), store);
    assert!(said.contains("hapax audit"), "{said}");
    assert!(objects(&["doubts", "list", "--json"], store).is_empty());

    redeliver(store, &run).await;

    let program = Hapax::open(store).await.unwrap().into_engine().unwrap();
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = received.clone();
    let receive = move |delivery: Delivery, _: String| {
        kept.lock().unwrap().push(delivery.id().to_string());
        async { Ok::<_, Failure>(()) }
    };
    program.register_target("mail", receive).unwrap();
    program.register("sell", sell).unwrap();
    assert_eq!(program.run(run_id).await.unwrap().result::<u32>().await.unwrap(), 5);
    eventually("the mail is delivered", async || {
        program.list_after_effects(Some(OutboxStatus::Delivered), None, 10).await.unwrap().len() == 1
    })
    .await;
    program.shutdown(PATIENCE).await.unwrap();
    assert_eq!(*received.lock().unwrap(), [format!("{run}:mail")]);
    on_record(store, &run);
}

async fn redeliver(store: &str, run: &str) {
    let id = format!("{run}:mail");
    let dead = objects(&["admin", "outbox", "list", "--status", "dead", "--json"], store);
    assert_eq!((dead.len(), &dead[0]["id"], &dead[0]["attempts"]), (1, &json!(id), &json!(1)));
    assert_eq!((&dead[0]["payload"], &dead[0]["target"]), (&json!("sold"), &json!("mail")));
    let table = printed(&["admin", "outbox", "list"], store);
    assert!(table.contains(&id) && table.contains("no such address"), "{table}");
    let again = |id: &str| -> Vec<String> {
        let who = ["--by", "grace", "--reason", "the address is there now"];
        ["admin", "outbox", "redeliver", id].into_iter().chain(who).map(String::from).collect()
    };
    let arguments = again(&id);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert!(printed(&arguments, store).contains("due again for mail"));
    assert!(refused(&arguments, store).contains("still on its way"));
    for nothing in [format!("{run}:post"), "post".into()] {
        let arguments = again(&nothing);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert!(refused(&arguments, store).contains("hapax admin outbox list"));
    }
    assert_eq!(objects(&["admin", "outbox", "list", "--status", "due", "-o", "json"], store).len(), 1);
    let yaml = printed(&["admin", "outbox", "list", "--status", "due", "-o", "yaml"], store);
    assert!(yaml.starts_with("---\n") && yaml.contains("target: mail\n"), "{yaml}");
    assert!(objects(&["admin", "outbox", "list", "--status", "dead", "--json"], store).is_empty());
}

/// Records that an auditor finds afterwards.
fn on_record(store: &str, run: &str) {
    let effects = objects(&["ledger"], store);
    let steps: Vec<&str> = effects.iter().map(|effect| effect["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["reserve", "wire"]);
    let wire = &effects[1];
    assert_eq!((&wire["class"], &wire["status"]), (&json!("claimed"), &json!("COMPLETED")));
    assert_eq!((&wire["happenedTwice"], &wire["rulings"][0]["by"]["name"]), (&json!(0), &json!("ada")));
    assert_eq!(objects(&["ledger", "--run", run], store), effects);
    for which in [&["ledger", "--summary", "--json"][..], &["ledger", "--summary", "--json", "--run", run]] {
        let counts: Value = serde_json::from_str(&printed(which, store)).unwrap();
        let claimed = json!({"effects": 1, "entries": 1, "happenedTwice": 0, "mayHaveHappenedTwice": 0, "inDoubt": 0, "refusedWrites": 0});
        assert_eq!(counts["claimed"], claimed);
        assert_eq!(counts["transactional"]["effects"], 0);
    }
    assert_eq!(objects(&["ledger", "-o", "json"], store), effects);
    let table = printed(&["ledger", "-o", "table"], store);
    assert_eq!(table.lines().count(), 6, "one line for each effect:\n{table}");
    assert!(table.contains(&format!("{run}:wire")) && table.contains("claimed"), "{table}");
    let yaml = printed(&["ledger", "--run", run, "-o", "yaml"], store);
    assert!(yaml.matches("---\n").count() == 2 && yaml.contains("step: wire\n"), "{yaml}");
    let yaml = printed(&["ledger", "--summary", "-o", "yaml"], store);
    assert!(yaml.contains("claimed:\n  effects: 1\n  entries: 1\n  happenedTwice: 0\n"), "{yaml}");
    let table = printed(&["ledger", "--summary"], store);
    for word in [
        "idempotent",
        "claimed",
        "transactional",
        "happened twice",
        "may have happened twice",
        "refused writes",
    ] {
        assert!(table.contains(word), "{word} is missing:\n{table}");
    }

    let entries = objects(&["audit", "--json"], store);
    let told: Vec<(&Value, &Value, &Value)> =
        entries.iter().map(|entry| (&entry["by"]["name"], &entry["what"], &entry["run"])).collect();
    let (ada, grace, run) = (json!("ada"), json!("grace"), json!(run));
    assert_eq!(told, [(&ada, &json!("resolved"), &run), (&grace, &json!("redelivered"), &run)]);
    let table = printed(&["audit"], store);
    for word in ["ada", "operator", "happened", "wire", "the bank shows it", "redelivered"] {
        assert!(table.contains(word), "{word} is missing:\n{table}");
    }
}

fn url(folder: &Path) -> String {
    format!("sqlite:{}/orders.db", folder.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_in_a_sqlite_file_is_decided_once_and_on_record() {
    let folder = tempfile::tempdir().unwrap();
    walk(&url(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_in_postgres_is_decided_once_and_on_record() {
    let database = Database::empty().await.unwrap();
    walk(&database.tcp_url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_person_or_a_manager_decides_what_cannot_be_taken_back() {
    for further in
        [&["--did-not-happen", "--seconded-by", "grace"][..], &["--did-not-happen", "--role", "manager"]]
    {
        let folder = tempfile::tempdir().unwrap();
        let store = url(folder.path());
        let program = Hapax::open(&store).await.unwrap().into_engine().unwrap();
        let run = prepare(&program).await;
        program.shutdown(PATIENCE).await.unwrap();
        let seen = objects(&["doubts", "list", "--json"], &store)[0]["seen"].to_string();
        let run_id = run.to_string();
        let arguments = decide(&run_id, &seen, further);
        let said = unasked(&arguments, &store);
        assert!(said.contains("run wire of") && said.contains("Nothing was done"), "{said}");
        printed(&[&arguments[..], &["--yes"]].concat(), &store);
        let program = Hapax::open(&store).await.unwrap().into_engine().unwrap();
        program.register("sell", sell).unwrap();
        assert_eq!(program.run(run).await.unwrap().result::<u32>().await.unwrap(), 2, "it is run");
        program.shutdown(PATIENCE).await.unwrap();
        let counts: Value =
            serde_json::from_str(&printed(&["ledger", "--summary", "--json"], &store)).unwrap();
        assert_eq!(
            (&counts["claimed"]["entries"], &counts["claimed"]["happenedTwice"]),
            (&json!(2), &json!(0))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_process_owns_the_file_it_can_be_read_and_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = url(folder.path());
    let program = Hapax::open(&store).await.unwrap().into_engine().unwrap();
    let run = prepare(&program).await.to_string();
    let seen = objects(&["doubts", "list", "--json"], &store)[0]["seen"].to_string();
    for reading in [&["ledger"][..], &["ledger", "--summary"], &["audit"], &["admin", "outbox", "list"]] {
        assert!(!printed(reading, &store).is_empty());
    }
    let owner = format!("in use by process {}", std::process::id());
    let id = format!("{run}:mail");
    let again = ["admin", "outbox", "redeliver", &id].into_iter().chain(SAYS_WHO).collect();
    for writing in [decide(&run, &seen, &["--happened", "--result", "5"]), again] {
        let said = refused(&writing, &store);
        assert!(said.contains("nothing was changed") && said.contains(&owner), "{said}");
    }
    assert_eq!(program.list_doubts(None, 10).await.unwrap().doubts.len(), 1);
    program.shutdown(PATIENCE).await.unwrap();
}

/// Several processes that share a file leave room for the command, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_file_is_written_while_a_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("{}?shared=true", url(folder.path()));
    let program = Hapax::open(&store).await.unwrap().into_engine().unwrap();
    let run = prepare(&program).await;
    let seen = objects(&["doubts", "list", "--json"], &store)[0]["seen"].to_string();
    printed(&decide(&run.to_string(), &seen, &["--happened", "--result", "5"]), &store);
    let handle = program.run(run).await.unwrap();
    let output = tokio::time::timeout(PATIENCE, handle.result::<u32>()).await.expect("it learns of it");
    assert_eq!(output.unwrap(), 5);
    program.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_cut_to_their_limit_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = url(folder.path());
    let program = Hapax::open(&store).await.unwrap().into_engine().unwrap();
    program.register("sell", sell).unwrap();
    for _ in 0..3 {
        program.start("sell", &()).await.unwrap();
    }
    eventually("three doubts", async || program.list_doubts(None, 10).await.unwrap().doubts.len() == 3).await;
    program.shutdown(PATIENCE).await.unwrap();
    let ages =
        |doubts: Vec<Value>| -> Vec<String> { doubts.iter().map(|it| it["since"].to_string()).collect() };
    assert!(ages(objects(&["doubts", "list", "--json"], &store)).is_sorted(), "the oldest first");
    for list in [&["doubts"][..], &["admin", "outbox"]] {
        for (limit, says_more) in [("2", true), ("3", false)] {
            let output = hapax(&[list, &["list", "--json", "--limit", limit]].concat(), &store);
            assert_eq!(text(&output.stdout).lines().count().to_string(), limit);
            assert_eq!(text(&output.stderr).contains("there are more"), says_more, "{list:?} {limit}");
        }
    }
}

#[test]
fn a_decision_that_is_not_one_is_not_understood() {
    let run = RunId::new(hapax::Timestamp::EPOCH).to_string();
    for wrong in [
        &[][..],
        &["--abandon", "--did-not-happen", "--yes"],
        &["--happened", "--result", "tx-41"],
        &["--abandon", "--role", "janitor", "--yes"],
        &["--abandon", "--seconded-by", "", "--yes"],
    ] {
        let output = hapax(&decide(&run, "1", wrong), "sqlite:/no/such/folder/x.db");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", text(&output.stderr));
    }
}

/// RELIABILITY, CLI: a destructive command without --yes. `happened` needs no confirmation.
#[test]
fn a_decision_that_cannot_be_taken_back_asks_first() {
    let run = RunId::new(hapax::Timestamp::EPOCH).to_string();
    let store = "postgres://u:canary@127.0.0.1:1/d";
    for (decision, told) in [
        (&["--did-not-happen"][..], "run wire of run_"),
        (&["--compensate", "--result", "5"], "undo wire of run_"),
        (&["--abandon"], "count wire of run_"),
    ] {
        let said = unasked(&decide(&run, "1", decision), store);
        assert!(said.contains(told) && said.contains("--yes") && !said.contains("canary"), "{said}");
    }
    refused(&decide(&run, "1", &["--happened", "--result", "5"]), store);
}

#[test]
fn a_store_that_is_not_there_is_not_made_and_shows_no_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = url(folder.path());
    let run = RunId::new(hapax::Timestamp::EPOCH).to_string();
    for store in [&file, "memory:", "mysql://u:canary@h/d", "postgres://u:canary@127.0.0.1:1/d"] {
        for command in [
            vec!["doubts", "list"],
            vec!["ledger"],
            vec!["audit"],
            vec!["admin", "outbox", "list"],
            decide(&run, "1", &["--happened", "--result", "5"]),
        ] {
            let said = refused(&command, store);
            assert!(!said.contains("canary"), "{said}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
