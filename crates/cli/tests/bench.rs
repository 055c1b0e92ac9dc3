//! Every workload runs, counts exactly and reports its figures. How fast is not asked here.

use std::path::Path;
use std::process::Command;

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
fn a_run_of_one_step_has_a_ceiling_too() {
    let report = bench(&["steps", "--runs", "20", "--steps", "1", "--concurrency", "4", "--keys", "random"]);
    is_positive(&report, &["ceiling_ratio"]);
}

#[test]
fn latency_is_told_in_commits() {
    let report = bench(&["latency", "--runs", "20"]);
    is_positive(&report, &["p50_ms", "commit_p50_ms", "commits_per_step"]);
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
fn all_is_one_object_with_every_workload() {
    let report = bench(&["all", "--store", "memory:", "--runs", "100", "--steps", "4", "--concurrency", "4"]);
    let names: Vec<&str> =
        report["workloads"].as_array().unwrap().iter().map(|it| it["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["steps", "latency", "starts", "waiting", "long"]);
}
