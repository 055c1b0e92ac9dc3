//! Tests of the suite with correct services, and with services that break one rule each.

#[path = "support/service.rs"]
mod service;

use std::collections::BTreeSet;

use hapax_http_conformance::{CannotCheck, Config, Outcome, Profile, Suite, list_clauses};
use serde_json::{Value, json};
use service::{Flaw, start};

fn config() -> Value {
    json!({
        "request": {
            "method": "POST",
            "path": "/orders",
            "headers": { "authorization": "Bearer one" },
            "body": { "amount": 100, "currency": "EUR", "ref": "ref-{{unique}}" }
        },
        "otherBody": { "amount": 200 },
        "badBody": { "amount": "much" },
        "otherRequest": {
            "path": "/refunds",
            "headers": { "authorization": "Bearer one" },
            "body": { "amount": 100, "currency": "EUR", "ref": "ref-{{unique}}" }
        },
        "slowRequest": {
            "path": "/slow",
            "headers": { "authorization": "Bearer one" },
            "body": { "ref": "ref-{{unique}}" }
        },
        "failingRequest": {
            "path": "/failing",
            "headers": { "authorization": "Bearer one" },
            "body": { "ref": "ref-{{unique}}" }
        },
        "effects": { "path": "/orders?ref={{unique}}", "pointer": "/items" },
        "keyRequired": true,
        "otherCredential": { "authorization": "Bearer two" },
        "maxWaitMs": 3000
    })
}

fn read(config: Value) -> Config {
    serde_json::from_value(config).unwrap()
}

async fn failures(flaw: Flaw) -> BTreeSet<&'static str> {
    let at = start(flaw).await;
    let report = Suite::new(&format!("http://{at}"), read(config())).unwrap().run().await.unwrap();
    for verdict in &report.clauses {
        assert!(!matches!(verdict.outcome, Outcome::Skipped { .. }), "{verdict:?}");
    }
    report.list_failed().into_iter().collect()
}

/// Checks that a service with this flaw fails exactly these clauses.
async fn breaks(flaw: Flaw, clauses: &[&'static str]) {
    assert_eq!(failures(flaw).await, clauses.iter().copied().collect(), "{flaw:?}");
}

/// S2.31, S2.32: a service that follows the contract passes.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_keeps_the_contract_passes_every_clause() {
    let at = start(Flaw::None).await;
    let mut told = 0;
    let suite = Suite::new(&format!("http://{at}/"), read(config())).unwrap();
    let report = suite.run_telling(|_| told += 1).await.unwrap();
    for verdict in &report.clauses {
        assert_eq!(verdict.outcome, Outcome::Passed, "{}", verdict.id);
    }
    assert!(report.is_passed());
    assert_eq!((told, report.clauses.len()), (list_clauses().len(), list_clauses().len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_draft_asks_for_less() {
    // None of these flaws violates the draft.
    for flaw in
        [Flaw::None, Flaw::ReplaysUnmarked, Flaw::ConflictIsPlain, Flaw::WaitsForNobody, Flaw::TellsNoExpiry]
    {
        let at = start(flaw).await;
        let config = Config { profile: Profile::Ietf, ..read(config()) };
        let report = Suite::new(&format!("http://{at}"), config).unwrap().run().await.unwrap();
        assert_eq!(report.list_failed(), Vec::<&str>::new(), "{flaw:?}");
        assert_eq!(report.clauses.len(), list_clauses().iter().filter(|clause| clause.is_ietf).count());
    }
    let at = start(Flaw::ComparesNothing).await;
    let config = Config { profile: Profile::Ietf, ..read(config()) };
    let report = Suite::new(&format!("http://{at}"), config).unwrap().run().await.unwrap();
    assert_eq!(report.list_failed(), ["other_body_422"]);
}

macro_rules! flaws {
    ($($name:ident: $flaw:ident => [$($clause:literal),* $(,)?];)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            breaks(Flaw::$flaw, &[$($clause),*]).await;
        })*

        /// Some flaw makes each clause fail, so every clause tests something.
        #[test]
        fn every_clause_can_fail() {
            let red: BTreeSet<&str> = [$($($clause),*),*].into();
            // A service that does not work at all is not one of the flaws.
            let all = list_clauses().into_iter().map(|clause| clause.id).filter(|id| *id != "new_key_works");
            assert_eq!(red, all.collect());
        }
    };
}

flaws! {
    storing_nothing_shows: StoresNothing => [
        "replay_same_body", "replay_no_second_effect", "replay_marked", "failure_replayed", "other_body_422",
        "conflict_problem", "conflict_stored_request", "conflict_changes_nothing", "other_target_conflict",
        "json_form_ignored", "quoted_equals_bare", "longest_key_accepted", "concurrent_one_effect",
        "concurrent_same_body", "in_flight_409", "in_flight_retry_after", "other_credential_other_key", "expires_told",
        "cut_mid_request_one_effect", "cut_before_answer_one_effect",
    ];
    comparing_nothing_shows: ComparesNothing => [
        "other_body_422", "conflict_problem", "conflict_stored_request", "other_target_conflict",
    ];
    comparing_bytes_shows: ComparesBytes => ["json_form_ignored"];
    comparing_the_body_alone_shows: ComparesBodyOnly => ["other_target_conflict"];
    replaying_other_bytes_shows: ReplaysOtherBytes => ["replay_same_body", "failure_replayed", "concurrent_same_body"];
    replaying_another_status_shows: ReplaysOtherStatus => ["replay_same_status", "concurrent_same_body"];
    replaying_without_the_mark_shows: ReplaysUnmarked => ["replay_marked", "failure_replayed"];
    marking_the_first_answer_shows: MarksFirst => [
        "replay_marked", "longest_key_accepted", "other_credential_other_key", "get_ignores_key",
        "failed_validation_not_stored",
    ];
    running_replays_again_shows: RunsReplaysAgain => [
        "replay_no_second_effect", "conflict_changes_nothing", "json_form_ignored", "quoted_equals_bare",
        "longest_key_accepted", "concurrent_one_effect", "other_credential_other_key", "cut_mid_request_one_effect",
        "cut_before_answer_one_effect",
    ];
    forgetting_failures_shows: ForgetsFailures => ["failure_replayed"];
    a_conflict_that_is_409_shows: ConflictIs409 => [
        "other_body_422", "conflict_problem", "conflict_stored_request", "other_target_conflict",
    ];
    a_conflict_that_is_plain_shows: ConflictIsPlain => ["conflict_problem"];
    a_conflict_that_tells_nothing_shows: ConflictTellsNothing => ["conflict_stored_request"];
    a_conflict_that_runs_shows: ConflictRuns => ["conflict_changes_nothing"];
    quotes_taken_as_part_of_the_key_show: TakesQuotesAsPart => ["quoted_equals_bare", "empty_key_400"];
    taking_empty_keys_shows: TakesEmptyKeys => ["empty_key_400"];
    taking_long_keys_shows: TakesLongKeys => ["long_key_400"];
    refusing_the_longest_key_shows: RefusesLongestKeys => ["longest_key_accepted"];
    cutting_keys_shows: CutsKeys => [
        "empty_key_400", "long_key_400", "longest_key_accepted", "bad_characters_400",
    ];
    taking_any_character_shows: TakesAnyCharacter => ["bad_characters_400"];
    taking_two_keys_shows: TakesTwoKeys => ["header_twice_400"];
    needing_no_key_shows: NeedsNoKey => ["key_missing_400"];
    running_concurrent_duplicates_twice_shows: RunsConcurrentTwice => [
        "concurrent_one_effect", "concurrent_same_body", "in_flight_409", "in_flight_retry_after",
        "cut_before_answer_one_effect",
    ];
    waiting_for_nobody_shows: WaitsForNobody => ["concurrent_same_body"];
    waiting_against_the_wish_shows: AlwaysWaits => ["in_flight_409", "in_flight_retry_after"];
    a_409_without_retry_after_shows: NoRetryAfter => ["in_flight_retry_after"];
    one_scope_for_all_shows: OneScopeForAll => ["other_credential_other_key"];
    keys_on_get_show: KeysOnGet => ["get_ignores_key"];
    storing_refusals_shows: StoresRefusals => ["failed_validation_not_stored"];
    telling_no_expiry_shows: TellsNoExpiry => ["expires_told"];
    expiring_soon_shows: ExpiresSoon => ["expires_told"];
    running_late_retries_shows: RunsLateRetries => ["late_first_sent_412"];
    acting_on_half_requests_shows: ActsOnHalfRequests => ["cut_mid_request_one_effect"];
    forgetting_those_who_left_shows: ForgetsThoseWhoLeft => ["cut_before_answer_one_effect"];
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_config_does_not_give_is_skipped_and_named() {
    let at = start(Flaw::None).await;
    let least = json!({
        "request": { "path": "/orders", "body": { "amount": 1, "ref": "{{unique}}" } },
        "notApplicable": { "replay_marked": "we do not mark" }
    });
    let report = Suite::new(&format!("http://{at}"), read(least)).unwrap().run().await.unwrap();
    assert!(report.is_passed(), "{:?}", report.list_failed());
    let why = |id: &str| match &report.clauses.iter().find(|verdict| verdict.id == id).unwrap().outcome {
        Outcome::Skipped { why } => why.clone(),
        other => panic!("{id}: {other:?}"),
    };
    assert_eq!(why("replay_marked"), "we do not mark");
    for (id, field) in [
        ("replay_no_second_effect", "effects"),
        ("other_body_422", "otherBody"),
        ("failure_replayed", "failingRequest"),
        ("in_flight_409", "slowRequest"),
        ("other_credential_other_key", "otherCredential"),
        ("other_target_conflict", "otherRequest"),
        ("failed_validation_not_stored", "badBody"),
        ("key_missing_400", "keyRequired"),
    ] {
        assert!(why(id).contains(&format!("`{field}`")), "{id}: {}", why(id));
    }
}

#[tokio::test]
async fn an_unreachable_service_is_reported() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = Suite::new(&format!("http://{free}"), read(config())).unwrap().run().await;
    assert!(matches!(outcome, Err(CannotCheck::NoService { .. })), "{outcome:?}");
}

#[test]
fn configs_that_contradict_themselves_are_refused_with_the_field() {
    for (patch, field) in [
        (json!({ "request": { "method": "GET" } }), "request.method"),
        (json!({ "request": { "method": "no such" } }), "request.method"),
        (json!({ "request": { "path": "orders" } }), "request.path"),
        (json!({ "request": { "headers": { "a b": "c" } } }), "request.headers.a b"),
        (json!({ "request": { "headers": { "Idempotency-Key": "c" } } }), "request.headers.Idempotency-Key"),
        (json!({ "otherBody": { "amount": 100 } }), "otherBody"),
        (json!({ "badBody": { "amount": 100 } }), "badBody"),
        (json!({ "otherRequest": { "path": "/orders" } }), "otherRequest"),
        (json!({ "effects": { "pointer": "items" } }), "effects.pointer"),
        (json!({ "maxWaitMs": 0 }), "maxWaitMs"),
        (json!({ "notApplicable": { "no_such_clause": "" } }), "notApplicable.no_such_clause"),
        (json!({ "otherCredential": { "x": "a\nb" } }), "otherCredential.x"),
    ] {
        let mut config = config();
        merge(&mut config, patch);
        match Suite::new("http://127.0.0.1:1", read(config)) {
            Err(CannotCheck::Config { field: named, .. }) => assert_eq!(named, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    for url in ["", "127.0.0.1:80", "ftp://a", "http://a?b", "http://user@a"] {
        assert!(matches!(Suite::new(url, read(config())), Err(CannotCheck::BaseUrl { .. })), "{url}");
    }
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_json_for_those_who_draw_it() {
    let at = start(Flaw::TakesEmptyKeys).await;
    let report = Suite::new(&format!("http://{at}"), read(config())).unwrap().run().await.unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let failed =
        json["clauses"].as_array().unwrap().iter().find(|verdict| verdict["id"] == "empty_key_400").unwrap();
    assert_eq!(failed["outcome"], "failed");
    assert!(failed["saw"].as_str().unwrap().starts_with("201 "), "{failed}");
    assert!(failed["says"].is_string() && failed["source"].is_string());
}
