//! Names in `ops/` and the documents match the server's metrics.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::scrape::{Scrape, family_of};
use crate::support::TestServer;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The metrics that a text names, without crate names, which look alike.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("hapax_"));
    words.filter(|word| !["hapax_engine", "hapax_server"].contains(word)).map(ToOwned::to_owned).collect()
}

/// S2.42, issue: a test compares them with the metric names.
#[tokio::test]
async fn every_metric_that_is_named_is_told_and_every_one_told_is_explained() {
    let server = TestServer::sqlite().await;
    server.get("/api/v1/workflow-runs").await;
    let scrape = Scrape::of(&server).await;
    for path in
        ["ops/grafana/hapax.json", "ops/prometheus/alerts.yaml", "ops/README.md", "docs/operations.md"]
    {
        for name in names_in(&text_of(path)) {
            assert!(
                family_of(&name, &scrape.families).is_some(),
                "{path} names {name}, which no server tells"
            );
        }
    }
    let explained = names_in(&text_of("docs/operations.md"));
    for family in scrape.families.keys() {
        assert!(explained.contains(family), "docs/operations.md does not explain {family}");
    }
}

/// Metrics without a panel, and the reason.
const ON_NO_PANEL: [(&str, &str); 6] = [
    ("hapax_build_info", "never changes; the dashboard chooses jobs and instances by it"),
    ("hapax_process_start_time_seconds", "a date, for queries about restarts"),
    ("hapax_definitions", "how many are set up, which no hour changes"),
    ("hapax_entity_workflows", "the same"),
    ("hapax_quota_limit", "a setting; what is refused is shown"),
    ("hapax_trace_spans_exported_total", "goes well; those dropped are shown"),
];

/// Every query of the dashboard, one a line.
fn queries() -> String {
    let dashboard: Value = serde_json::from_str(&text_of("ops/grafana/hapax.json")).unwrap();
    let mut asked = String::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels {}", panel["id"]);
        assert!(
            !panel["title"].as_str().unwrap().is_empty()
                && !panel["description"].as_str().unwrap().is_empty()
        );
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            assert_eq!(query.matches('(').count(), query.matches(')').count(), "{query}");
            asked.push_str(query);
            asked.push('\n');
        }
    }
    asked
}

/// S2.42: replay count, conflict count, duplicate effects, key retention age, outbox depth.
#[test]
fn the_dashboard_shows_what_the_contract_asks_for() {
    let asked = queries();
    for wanted in [
        "event=\"replayed\"",
        "event=\"conflicted\"",
        "hapax_effects_happened_twice",
        "hapax_effects_may_have_happened_twice",
        "hapax_oldest_request_key_age_seconds",
        "hapax_outbox_depth",
        "hapax_outbox_oldest_age_seconds",
    ] {
        assert!(asked.contains(wanted), "no panel asks for {wanted}");
    }
}

/// S2.42, CONTRACT §11: a new metric has a panel, or is listed as having none.
#[tokio::test]
async fn every_metric_that_is_told_is_on_a_panel() {
    let server = TestServer::sqlite().await;
    let scrape = Scrape::of(&server).await;
    let named = names_in(&queries());
    let asked: BTreeSet<&str> = named.iter().filter_map(|name| family_of(name, &scrape.families)).collect();
    for family in scrape.families.keys() {
        let is_exempt = ON_NO_PANEL.iter().any(|(name, _)| name == family);
        assert_ne!(
            asked.contains(family.as_str()),
            is_exempt,
            "{family}: on a panel, or on none and said to be"
        );
    }
    for (name, _) in ON_NO_PANEL {
        assert!(scrape.families.contains_key(name), "{name} is told no more");
    }
}

/// S2.38: an alert on unusual replay rates per client, and the other alerts. Each says what to do.
#[test]
fn every_alert_says_what_it_means() {
    let rules: Value = serde_saphyr::from_str(&text_of("ops/prometheus/alerts.yaml")).unwrap();
    let mut names = Vec::new();
    let explained = text_of("docs/operations.md");
    for group in rules["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            let name = rule["alert"].as_str().unwrap();
            let query = rule["expr"].as_str().unwrap();
            assert!(
                !names_in(query).is_empty() && query.matches('(').count() == query.matches(')').count(),
                "{name}"
            );
            assert!(
                ["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()),
                "{name}"
            );
            assert!(
                rule["annotations"]["summary"].is_string() && rule["annotations"]["description"].is_string()
            );
            assert!(explained.contains(name), "docs/operations.md does not explain {name}");
            names.push(name.to_owned());
        }
    }
    for wanted in [
        "HapaxUnusualReplayRate",
        "HapaxKeyConflicts",
        "HapaxEffectHappenedTwice",
        "HapaxEffectMayHaveHappenedTwice",
        "HapaxDoubtWaits",
        "HapaxOperationInDoubt",
        "HapaxJanitorReleases",
        "HapaxOutboxLate",
        "HapaxOutboxDead",
        "HapaxWebhooksFail",
        "HapaxWebhooksUnmatched",
        "HapaxWebhooksRefused",
        "HapaxWebhooksWait",
        "HapaxEarlySettlementsExpired",
        "HapaxRunsNotTaken",
        "HapaxStuckLeases",
        "HapaxStoreUnavailable",
    ] {
        assert!(names.iter().any(|name| name == wanted), "no alert {wanted}");
    }
}
