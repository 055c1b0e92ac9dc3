//! Every workload runs, counts exactly and reports its figures. How fast is not asked here.

use std::path::Path;
use std::process::Command;

use hapax_postgres_fixture::Database;
use serde_json::Value;

const COMMON: [&str; 9] = [
    "workload",
    "store",
    "runs_per_second",
    "steps_per_second",
    "p50_ms",
    "p99_ms",
    "ceiling_steps_per_second",
    "ceiling_ratio",
    "rss_bytes",
];

/// Runs a workload and gives its JSON object.
fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .arg("bench")
        .args(arguments)
        .args(["--json", "--rounds", "1"])
        .output()
        .expect("it can be run");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    assert_eq!(report["workload"], arguments[0]);
    if arguments[0] != "all" {
        for name in COMMON {
            assert!(report.get(name).is_some(), "{name} is missing from {report}");
        }
    }
    report
}

fn url(folder: &Path) -> String {
    format!("sqlite:{}/bench.db", folder.display())
}

fn is_positive(report: &Value, names: &[&str]) {
    for name in names {
        assert!(report[name].as_f64().is_some_and(|value| value > 0.0), "{name} in {report}");
    }
}

#[test]
fn steps_are_compared_with_bare_sql_on_sqlite_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = url(folder.path());
    let report = bench(&["steps", "--store", &store, "--runs", "50", "--steps", "3", "--concurrency", "8"]);
    assert_eq!(report["store"], store.as_str());
    assert_eq!(
        (&report["runs"], &report["steps"], &report["concurrency"]),
        (&50.into(), &3.into(), &8.into())
    );
    is_positive(
        &report,
        &["steps_per_second", "p50_ms", "p99_ms", "ceiling_steps_per_second", "ceiling_ratio"],
    );
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.iter().all(|file| !file.to_string_lossy().contains("ceiling")), "{files:?}");

    let report = bench(&["steps", "--store", "memory:", "--runs", "50"]);
    assert!(report["ceiling_steps_per_second"].is_null() && report["ceiling_ratio"].is_null(), "{report}");
    is_positive(&report, &["steps_per_second"]);
}

#[test]
fn figures_come_as_yaml_and_as_a_table_too() {
    for (shape, line) in [("yaml", "\nworkload: steps\n"), ("table", "steps on memory:\n")] {
        let output = Command::new(env!("CARGO_BIN_EXE_hapax"))
            .args(["bench", "steps", "--store", "memory:", "--runs", "10", "--rounds", "1", "-o", shape])
            .output()
            .expect("it can be run");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains(line), "{shape}: {told}");
    }
}

#[test]
fn a_run_of_one_step_has_a_ceiling_too() {
    let report = bench(&["steps", "--runs", "20", "--steps", "1", "--concurrency", "4", "--keys", "random"]);
    is_positive(&report, &["ceiling_ratio"]);
}

#[test]
fn latency_is_told_in_commits() {
    let report = bench(&["latency", "--runs", "20"]);
    is_positive(&report, &["p50_ms", "commit_p50_ms", "bare_run_p50_ms", "commits_per_step"]);
}

#[test]
fn five_thousand_starts_over_five_hundred_keys_make_five_hundred_runs() {
    let report = bench(&["starts"]);
    assert_eq!((&report["starts"], &report["keys"]), (&5_000.into(), &500.into()));
    assert_eq!((&report["runs_created"], &report["runs_created_at_once"]), (&500.into(), &500.into()));
    is_positive(&report, &["new_start_us", "duplicate_start_us"]);
}

#[test]
fn waiting_runs_are_woken_among_few_and_among_many() {
    let report = bench(&["waiting", "--runs", "400"]);
    is_positive(&report, &["wake_p50_ms", "wake_p50_ms_among_few", "wake_ratio"]);
    assert!(report["rss_bytes_per_waiting_run"].is_number(), "{report}");
}

#[test]
fn a_long_run_is_replayed_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    for store in ["memory:".to_string(), url(folder.path())] {
        let report = bench(&["long", "--steps", "100", "--store", &store]);
        is_positive(&report, &["last_to_first_ratio", "replay_ms"]);
    }
}

#[test]
fn an_aged_database_is_compared_with_an_empty_one() {
    let report = bench(&["aged", "--finished", "200", "--runs", "40", "--concurrency", "8"]);
    assert_eq!(report["finished_runs"], 200);
    is_positive(&report, &["aged_ratio", "database_bytes"]);
}

#[test]
fn promises_are_settled_by_key_and_looked_up_among_many() {
    let report = bench(&["promises", "--runs", "1200", "--concurrency", "16"]);
    assert_eq!(report["promises"], 1200);
    is_positive(
        &report,
        &["settlements_per_second", "commits_from_settlement_to_step", "lookup_ratio", "p50_ms"],
    );
}

#[test]
fn all_is_one_object_with_every_workload() {
    let report = bench(&["all", "--store", "memory:", "--runs", "100", "--steps", "4", "--concurrency", "4"]);
    let names: Vec<&str> =
        report["workloads"].as_array().unwrap().iter().map(|it| it["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["steps", "latency", "starts", "waiting", "promises", "long", "effects", "entities"]);
}

#[test]
fn a_killed_worker_repeats_at_most_one_step_of_each_run() {
    let report = bench(&["workers", "--runs", "60", "--concurrency", "8"]);
    is_positive(&report, &["steps_per_second", "p50_ms", "steps_per_second_in_process", "alone_p50_ms"]);
    is_positive(&report, &["settled_to_step_p50_ms", "step_10_us", "step_1000_us", "killed_resumed_ms"]);
    assert!(report["steps_run_again_per_run"].as_f64().is_some_and(|most| most <= 1.0), "{report}");
}

#[test]
fn a_worker_command_that_ends_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .args(["bench", "workers", "--runs", "10", "--worker", "false"])
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("ended before it opened a session"), "{said}");
}

#[test]
fn a_killed_process_repeats_at_most_one_step_of_each_run() {
    let report = bench(&["recovery", "--concurrency", "20", "--steps", "12"]);
    is_positive(&report, &["resumed_ms", "completed_ms"]);
    assert_eq!(report["runs_in_flight"], 20);
    assert!(report["steps_run_again"].as_u64().is_some_and(|again| again <= 20), "{report}");
    assert!(report["steps_run_again_per_run"].as_f64().is_some_and(|most| most <= 1.0), "{report}");
}

#[test]
fn a_claim_costs_one_write_and_a_crash_everywhere_is_timed() {
    let folder = tempfile::tempdir().unwrap();
    for store in ["memory:".to_string(), url(folder.path())] {
        let report = bench(&["effects", "--store", &store, "--runs", "50", "--concurrency", "8"]);
        is_positive(&report, &["ledger_ratio", "ledger_ratio_with_failures", "steps_per_second"]);
        is_positive(
            &report,
            &["idempotent_p50_ms", "claimed_p50_ms", "claimed_ratio", "crash_everywhere_ms"],
        );
        assert_eq!(report["writes_for_one_claim"], 1.0, "{report}");
        assert!(report["crash_everywhere_lives"].as_u64().is_some_and(|lives| lives > 100), "{report}");
    }
}

/// Issue 7: transitions are compared, per commit, with steps.
#[test]
fn transitions_take_two_commits_each_wherever_the_entities_live() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(&["entities", "--store", &url(folder.path()), "--runs", "60", "--concurrency", "8"]);
    assert_eq!((&report["transitions"], &report["callers"]), (&60.into(), &8.into()));
    is_positive(
        &report,
        &["steps_per_second", "transitions_per_second", "p50_ms", "p99_ms", "transition_ratio"],
    );
    is_positive(
        &report,
        &["own_table_transitions_per_second", "own_table_p99_ms", "own_table_transition_ratio"],
    );
    for commits in ["commits_per_transition", "own_table_commits_per_transition"] {
        assert_eq!(report[commits], 2.0, "{report}");
    }
    let report = bench(&["entities", "--store", "memory:", "--runs", "60"]);
    assert_eq!(report["commits_per_transition"], 2.0, "{report}");
    assert!(report["own_table_transitions_per_second"].is_null(), "memory has no tables: {report}");
}

#[tokio::test]
async fn transitions_on_postgres_move_rows_of_the_user() {
    let database = Database::empty().await.unwrap();
    let report = bench(&["entities", "--store", &database.tcp_url(), "--runs", "40", "--concurrency", "8"]);
    is_positive(&report, &["transition_ratio", "own_table_transition_ratio"]);
    assert_eq!(report["own_table_commits_per_transition"], 2.0, "{report}");
    let admin = database.connect().await.unwrap();
    let left = admin.query("SELECT 1 FROM pg_class WHERE relname = 'bench_bills'", &[]).await.unwrap();
    assert!(left.is_empty(), "the table is dropped");
}

#[test]
fn creating_over_http_is_compared_with_a_bare_handler_and_with_starts_without_http() {
    let folder = tempfile::tempdir().unwrap();
    let report = bench(&["http", "--store", &url(folder.path()), "--runs", "60", "--concurrency", "4"]);
    assert_eq!((&report["runs"], &report["connections"]), (&60.into(), &4.into()));
    is_positive(
        &report,
        &["runs_per_second", "p50_ms", "p99_ms", "bare_handler_per_second", "embedded_starts_per_second"],
    );
    is_positive(&report, &["new_keys_per_second", "new_key_p99_ms", "replays_per_second", "replay_p99_ms"]);
    is_positive(&report, &["create_ratio", "replay_ratio", "rss_before_bytes", "rss_bytes"]);
}

#[tokio::test]
async fn steps_on_postgres_are_compared_with_a_commit_for_each_step() {
    let database = Database::empty().await.unwrap();
    let report = bench(&["steps", "--store", &database.tcp_url(), "--runs", "40", "--steps", "3"]);
    is_positive(&report, &["steps_per_second", "baseline_steps_per_second", "baseline_ratio"]);
    let admin = database.connect().await.unwrap();
    let left = admin.query("SELECT 1 FROM pg_namespace WHERE nspname LIKE '%baseline%'", &[]).await.unwrap();
    assert!(left.is_empty(), "the baseline leaves nothing behind");
    let runs: i64 = admin.query_one("SELECT count(*) FROM hapax.runs", &[]).await.unwrap().get(0);
    assert!(runs >= 40, "and the measured runs are in the store's own tables");
}

#[tokio::test]
async fn two_nodes_are_compared_with_one() {
    let database = Database::empty().await.unwrap();
    let store = database.tcp_url();
    let report = bench(&["nodes", "--nodes", "2", "--store", &store, "--runs", "40", "--steps", "2"]);
    assert_eq!(report["nodes"], 2);
    is_positive(&report, &["steps_per_second", "one_node_steps_per_second", "nodes_ratio"]);
}

#[tokio::test]
async fn three_nodes_that_start_the_same_keys_make_one_run_of_each() {
    let database = Database::empty().await.unwrap();
    let report = bench(&["starts", "--nodes", "3", "--store", &database.tcp_url(), "--runs", "1000"]);
    assert_eq!((&report["nodes"], &report["keys"]), (&3.into(), &100.into()));
    assert_eq!(report["runs_created_by_nodes"], 100);
}

#[tokio::test]
async fn waiting_on_postgres_is_compared_with_few_in_the_same_database() {
    let database = Database::empty().await.unwrap();
    let report = bench(&["waiting", "--store", &database.tcp_url(), "--runs", "300"]);
    is_positive(&report, &["wake_p50_ms", "wake_p50_ms_among_few", "wake_ratio"]);
}
