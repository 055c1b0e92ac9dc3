//! `hapax admin migrate`, through the command itself.

use std::process::{Command, Output};

use hapax_postgres_fixture::Database;
use serde_json::Value;

const FIRST: &str = "0001_runs_steps_keys";

fn migrate(store: &str, further: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(["admin", "migrate", "--store", store]).args(further).output().expect("it can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr)))
}

/// Pending migrations are listed, applied once, and not found again.
fn walk(store: &str, is_untouched: impl Fn() -> bool) {
    let checked = migrate(store, &["--check", "--json"]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stderr));
    let told = object(&checked);
    assert_eq!((&told["found_version"], &told["pending"][0]), (&Value::from(0), &Value::from(FIRST)));
    assert!(text(&checked.stderr).contains("pending"), "{}", text(&checked.stderr));
    assert!(is_untouched(), "--check changes nothing");

    let applied = migrate(store, &[]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let lines = text(&applied.stdout);
    assert!(lines.contains("found    no tables") && lines.contains(&format!("applied  {FIRST}")), "{lines}");
    assert!(!is_untouched(), "it is applied");

    for further in [&["--check"][..], &[]] {
        let again = migrate(store, further);
        assert!(again.status.success() && text(&again.stdout).ends_with("up to date\n"), "{further:?}");
    }
    let yaml = text(&migrate(store, &["-o", "yaml"]).stdout);
    assert!(yaml.contains("pending: []\n"), "{yaml}");
    let told = object(&migrate(store, &["-o", "json"]));
    assert_eq!(told["found_version"], told["known_version"]);
    assert_eq!((&told["applied"], &told["pending"]), (&Value::Array(vec![]), &Value::Array(vec![])));
}

#[test]
fn a_sqlite_file_is_looked_at_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.db");
    walk(&format!("sqlite:{}", file.display()), || !file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_database_is_looked_at_and_brought_up_to_date() {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    let runtime = tokio::runtime::Handle::current();
    let has_tables = || {
        let asked = admin.query_one("SELECT to_regclass('hapax.runs') IS NOT NULL", &[]);
        tokio::task::block_in_place(|| runtime.block_on(asked)).unwrap().get::<_, bool>(0)
    };
    walk(&database.tcp_url(), || !has_tables());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_newer_program_are_left_alone() {
    let database = Database::empty().await.unwrap();
    assert!(migrate(&database.url(), &[]).status.success());
    let admin = database.connect().await.unwrap();
    admin
        .batch_execute("INSERT INTO hapax.schema_versions (version, oldest_program) VALUES (4711, 4711)")
        .await
        .unwrap();
    for further in [&["--check"][..], &[]] {
        let refused = migrate(&database.url(), further);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("use the newer program"), "{}", text(&refused.stderr));
    }
}

#[test]
fn what_cannot_be_migrated_says_so_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.db");
    std::fs::write(&foreign, "not a database at all, but long enough to look like one".repeat(20)).unwrap();
    let foreign = format!("sqlite:{}", foreign.display());
    for store in ["memory:", "mysql://u:canary@h/d", "postgres://u:canary@127.0.0.1:1/d", &foreign] {
        let refused = migrate(store, &[]);
        assert_eq!(refused.status.code(), Some(1), "{store}");
        assert!(refused.stdout.is_empty() && !refused.stderr.is_empty(), "{store}");
        assert!(!text(&refused.stderr).contains("canary"), "{}", text(&refused.stderr));
    }
}
