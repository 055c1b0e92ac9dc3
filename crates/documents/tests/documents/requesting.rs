//! Requests as steps: what is sent, how answers are interpreted, and how missing answers are handled.

use crate::support::{Running, World, answer, steps};
use hapax_documents::limits::{DEFAULT_HTTP_TIMEOUT, HTTP_GRACE};
use hapax_documents::{HttpFault, register};
use hapax_engine::limits::{DENIAL_PAUSE, IN_FLIGHT_MARGIN};
use hapax_engine::model::{RunStatus, StepStatus, Version, WorkspaceId};
use hapax_engine::testing::TestEnvironment;
use serde_json::{Value, json};

#[tokio::test]
async fn a_request_carries_the_key_its_secrets_and_what_the_templates_say() {
    let world = World::default();
    let document = steps(json!([{
        "name": "charge", "type": "http", "method": "POST", "url": "https://pay.example/orders/{{ input.id }}/charge",
        "headers": { "Authorization": "Bearer secret://pay", "X-Order": "order {{ input.id }}" },
        "body": { "cents": "{{ input.cents }}" },
        "output": { "id": "{{ response.body.id }}", "status": "{{ response.status }}", "kind": "{{ response.headers['content-type'] }}" },
    }]));
    let running = Running::start(document, world.echo(), json!({ "id": "a/b", "cents": 500 })).await;
    assert_eq!(running.output().await, json!({ "id": "h_1", "status": 200, "kind": "application/json" }));
    let asked = &world.asked()[0];
    assert_eq!(asked.what, "POST https://pay.example/orders/a%2Fb/charge");
    assert_eq!(asked.given, json!({ "cents": 500 }));
    assert_eq!(asked.key, format!("{}:charge", running.run.id()));
    let header = |name: &str| asked.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    assert_eq!(header("Authorization"), Some("Bearer s3cr3t-of-pay"));
    assert_eq!(header("X-Order"), Some("order a/b"));
    assert_eq!(header("Content-Type"), Some("application/json"));
    let log = running.lab.engine().get_log(running.run.id()).await.unwrap();
    assert!(
        !format!("{log:?}{:?}", running.run.view().await.unwrap()).contains("s3cr3t"),
        "secrets are in no record"
    );
    running.check().await;
}

/// RELIABILITY, tenancy: the author of a document decides where its requests go, so it gets only secrets of its own
/// workspace.
#[tokio::test]
async fn steps_probes_and_compensations_are_given_the_secrets_of_their_own_workspace() {
    let headers = json!({ "Authorization": "secret://bank" });
    let document = steps(json!([
        { "name": "book", "type": "http", "method": "POST", "url": "https://bank/bookings", "headers": headers,
          "compensate": { "type": "http", "method": "DELETE", "url": "https://bank/bookings", "headers": headers } },
        { "name": "wire", "type": "http", "method": "POST", "url": "https://bank/wires", "headers": headers, "effect": "claimed",
          "probe": { "method": "GET", "url": "https://bank/wires", "headers": headers, "happened": "true" } },
        { "name": "stop", "type": "http", "method": "GET", "url": "https://bank/stop", "headers": headers },
    ]));
    let lab = TestEnvironment::new();
    let world = World::default();
    let services = world.services(
        |_, _| Ok(Value::Null),
        |call, _| match (call.method.as_str(), call.url.as_str()) {
            ("POST", "https://bank/wires") => Err(HttpFault::Unknown { why: "cut".into() }),
            ("GET", "https://bank/stop") => answer(422, json!({})),
            _ => answer(200, json!({})),
        },
    );
    register(lab.engine(), document, services).unwrap();
    for workspace in ["acme", "globex"] {
        let engine = lab.engine().workspace(WorkspaceId::new(workspace).unwrap());
        let run = engine.start("tried", &json!({})).await.unwrap();
        let before = world.asked().len();
        while !engine.get(run.id()).await.unwrap().head.status().is_closed() {
            lab.advance(std::time::Duration::from_secs(1)).await;
        }
        assert_eq!(engine.get(run.id()).await.unwrap().head.status(), RunStatus::Failed);
        let asked = world.asked().split_off(before);
        let what: Vec<&str> = asked.iter().map(|asked| asked.what.as_str()).collect();
        assert_eq!(
            what,
            [
                "POST https://bank/bookings",
                "POST https://bank/wires",
                "GET https://bank/wires",
                "GET https://bank/stop",
                "DELETE https://bank/bookings"
            ]
        );
        let given = format!("s3cr3t-of-{workspace}-bank");
        for asked in asked {
            assert!(asked.headers.contains(&("Authorization".into(), given.clone())), "{}", asked.what);
        }
    }
}

/// `DELETE …/accounts/{a}/cards/{b}` with `b = ".."` must not delete the account.
#[tokio::test]
async fn a_value_that_would_change_the_path_is_refused_and_nothing_is_sent() {
    for (b, code) in [("..", "bad_path_segment"), (".", "bad_path_segment"), ("", "bad_path_segment")] {
        let world = World::default();
        let document = steps(json!([{
            "name": "a", "type": "http", "method": "DELETE",
            "url": "https://pay.example/v1/accounts/{{ input.a }}/cards/{{ input.b }}",
            "headers": { "Authorization": "secret://pay" }, "effect": "claimed",
            "probe": { "method": "GET", "url": "https://pay.example/v1/{{ input.b }}/cards", "happened": "true" },
        }]));
        let running = Running::start(document, world.echo(), json!({ "a": "acct_1", "b": b })).await;
        assert_eq!(running.failed_with().await, code);
        assert!(world.asked().is_empty(), "{:?}", world.asked());
    }
}

/// A secret that the operator bound is sent nowhere else, whatever a document says.
#[tokio::test]
async fn a_bound_secret_is_sent_to_its_destinations_alone() {
    let step = |url: &str| {
        let headers = json!({ "Authorization": "Bearer secret://bound" });
        steps(json!([{ "name": "a", "type": "http", "method": "GET", "url": url, "headers": headers }]))
    };
    let world = World::default();
    let running = Running::start(step("https://bank.example/v1/x"), world.echo(), json!({})).await;
    running.output().await;
    assert_eq!(world.asked()[0].headers[0].1, "Bearer s3cr3t-of-bound");
    for url in ["https://evil.example/v1/x", "https://bank.example/v2", "http://bank.example/v1/x"] {
        let world = World::default();
        let running = Running::start(step(url), world.echo(), json!({})).await;
        assert_eq!(running.failed_with().await, "secret_not_for_destination", "{url}");
        assert!(world.asked().is_empty(), "{url}");
    }
}

#[tokio::test]
async fn the_reason_a_provider_gives_is_kept_without_secrets() {
    let document = |more: Value| {
        let mut step = json!({
            "name": "a", "type": "http", "method": "POST", "url": "https://pay.example/charges?card={{ input.card }}",
            "headers": { "Authorization": "Bearer secret://pay", "X-Api-Token": "{{ input.token }}" },
        });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        steps(json!([step]))
    };
    let failed = async |more| {
        let body = json!({ "error": "card declined", "seen": "Bearer s3cr3t-of-pay", "token": "t0k3n-9" });
        let world = World::default();
        let services = world.services(|_, _| Ok(Value::Null), move |_, _| answer(402, body.clone()));
        let input = json!({ "card": "4242", "token": "t0k3n-9" });
        let running = Running::start(document(more), services, input).await;
        assert_eq!(running.failed_with().await, "http_402");
        let log = running.lab.engine().get_log(running.run.id()).await.unwrap();
        assert!(!format!("{log:?}").contains("s3cr3t"), "secrets are in no record");
        running.failure().await.unwrap().message().to_string()
    };
    assert_eq!(
        failed(json!({})).await,
        "POST https://pay.example/charges was answered 402: \
         {\"error\":\"card declined\",\"seen\":\"[redacted]\",\"token\":\"[redacted]\"}"
    );
    assert_eq!(
        failed(json!({ "keepResponse": false })).await,
        "POST https://pay.example/charges was answered 402"
    );
}

#[tokio::test]
async fn a_key_goes_where_the_document_says() {
    let world = World::default();
    let document = steps(json!([
        { "name": "a", "type": "http", "method": "PUT", "url": "https://x/", "keyHeader": "X-Request-Id", "body": 1 },
    ]));
    let running = Running::start(document, world.echo(), json!({})).await;
    running.output().await;
    let headers = &world.asked()[0].headers;
    assert!(headers.iter().any(|(name, key)| name == "X-Request-Id" && key.ends_with(":a")));
    assert!(!headers.iter().any(|(name, _)| name == "Idempotency-Key"));
}

#[tokio::test]
async fn only_failures_that_may_succeed_later_are_retried() {
    for (fault, attempts, code) in [
        (Some(HttpFault::NotSent { why: "no route".into() }), 3, "http_not_sent"),
        (Some(HttpFault::Unknown { why: "cut".into() }), 3, "http_no_answer"),
        (Some(HttpFault::Refused { why: "private address".into() }), 1, "http_refused"),
        (Some(HttpFault::TooLarge { limit: 5 }), 1, "http_too_large"),
        (None, 1, "http_422"),
    ] {
        let world = World::default();
        let document = steps(json!([
            { "name": "a", "type": "http", "method": "GET", "url": "https://x/", "retry": { "maxAttempts": 3 } },
        ]));
        let services = world.services(
            |_, _| Ok(Value::Null),
            move |_, _| match &fault {
                Some(fault) => Err(fault.clone()),
                None => answer(422, json!({})),
            },
        );
        let running = Running::start(document, services, json!({})).await;
        assert_eq!(running.failed_with().await, code);
        assert_eq!(world.asked().len(), attempts, "{code}");
        let keys: std::collections::BTreeSet<String> =
            world.asked().into_iter().map(|asked| asked.key).collect();
        assert_eq!(keys.len(), 1, "one effect has one key");
        running.check().await;
    }
    let world = World::default();
    let document = steps(json!([
        { "name": "a", "type": "http", "method": "GET", "url": "https://x/", "retry": { "maxAttempts": 4, "first": "1s" } },
    ]));
    let services = world.services(
        |_, _| Ok(Value::Null),
        |_, nth| answer(if nth < 4 { 503 } else { 200 }, json!({ "n": nth })),
    );
    let running = Running::start(document, services, json!({})).await;
    assert_eq!(running.output().await, json!({ "n": 4 }));
}

#[tokio::test]
async fn a_claimed_request_that_got_no_answer_is_in_doubt_until_its_probe_knows() {
    let wire = |on_doubt: Option<&str>| {
        let mut step = json!({
            "name": "wire", "type": "http", "method": "POST", "url": "https://bank/wires", "body": { "cents": 1 },
            "effect": "claimed", "nonIdempotent": true, "output": { "id": "{{ response.body.id }}" },
            "probe": {
                "method": "GET", "url": "https://bank/wires/{{ key }}", "happened": "response.status == 200",
                "didNotHappen": "response.status == 404", "output": { "id": "{{ response.body.id }}" },
            },
        });
        if let Some(on_doubt) = on_doubt {
            step["onDoubt"] = json!(on_doubt);
        }
        steps(json!([step]))
    };
    // The provider reports that it happened.
    let world = World::default();
    let services = world.services(
        |_, _| Ok(Value::Null),
        |call, _| match call.method.as_str() {
            "POST" => Err(HttpFault::Unknown { why: "cut".into() }),
            _ => answer(200, json!({ "id": "w_1" })),
        },
    );
    let running = Running::start(wire(None), services, json!({})).await;
    assert_eq!(running.output().await, json!({ "id": "w_1" }));
    assert_eq!(world.names().iter().filter(|name| name.starts_with("POST")).count(), 1);
    let id = running.run.id().to_string();
    assert!(
        world.names().iter().any(|name| *name == format!("GET https://bank/wires/{id}%3Awire")),
        "{:?}",
        world.names()
    );
    running.check().await;
    // The provider reports that it did not happen, so it is done now.
    let world = World::default();
    let services = world.services(
        |_, _| Ok(Value::Null),
        |call, nth| match (call.method.as_str(), nth) {
            ("POST", 1) => answer(500, json!({})),
            ("POST", _) => answer(200, json!({ "id": "w_2" })),
            _ => answer(404, json!({})),
        },
    );
    let running = Running::start(wire(None), services, json!({})).await;
    // The probe waits, because the provider may still be at work, and asks twice to be sure.
    assert_eq!(running.settle().await, RunStatus::Waiting);
    let posts = || world.asked().iter().filter(|asked| asked.what.starts_with("POST")).count();
    assert_eq!(posts(), 1);
    running.lab.advance(DEFAULT_HTTP_TIMEOUT + HTTP_GRACE + IN_FLIGHT_MARGIN).await;
    assert_eq!(running.settle().await, RunStatus::Waiting);
    assert_eq!(posts(), 1);
    running.lab.advance(DENIAL_PAUSE).await;
    assert_eq!(running.output().await, json!({ "id": "w_2" }));
    let fence = world.asked().into_iter().find(|asked| asked.what.starts_with("POST")).unwrap();
    let fence = fence.headers.into_iter().find(|(name, _)| name == "Hapax-Fence");
    assert_eq!(fence.map(|(_, fence)| fence), Some("1".to_owned()), "the provider can tell holders apart");
    // The outcome is unknown: people are asked, and the request is never repeated automatically.
    let world = World::default();
    let services = world.services(
        |_, _| Ok(Value::Null),
        |call, _| match call.method.as_str() {
            "POST" => Err(HttpFault::Unknown { why: "cut".into() }),
            _ => answer(500, json!({})),
        },
    );
    let running = Running::start(wire(None), services.clone(), json!({})).await;
    running.settle().await;
    assert_eq!(running.status_of("wire").await, StepStatus::InDoubt);
    assert_eq!(world.count("POST https://bank/wires"), 1);
    // With this policy the step fails instead.
    let running = Running::start(wire(Some("fail")), services, json!({})).await;
    assert_eq!(running.failed_with().await, "in_doubt");
}

#[tokio::test]
async fn an_answer_that_cannot_be_mapped_fails_the_step_or_leaves_a_claimed_one_in_doubt() {
    for (effect, expected) in [("idempotent", StepStatus::Failed), ("claimed", StepStatus::InDoubt)] {
        let world = World::default();
        let document = steps(json!([{
            "name": "a", "type": "http", "method": "POST", "url": "https://x/", "effect": effect,
            "output": { "id": "{{ response.body.missing }}" },
        }]));
        let running = Running::start(document, world.echo(), json!({})).await;
        running.settle().await;
        assert_eq!(running.status_of("a").await, expected);
        assert_eq!(world.asked().len(), 1, "it is not sent again for that");
    }
}

/// An outage of a few minutes does not end an order.
#[tokio::test]
async fn a_step_is_tried_for_a_day_unless_its_document_says_otherwise() {
    let world = World::default();
    let document = steps(json!([{ "name": "a", "type": "http", "method": "GET", "url": "https://x/" }]));
    let services = world.services(
        |_, _| Ok(Value::Null),
        |_, nth| answer(if nth < 20 { 503 } else { 200 }, json!({ "n": nth })),
    );
    let running = Running::start(document, services, json!({})).await;
    assert_eq!(running.output().await, json!({ "n": 20 }));
    running.check().await;
}

#[tokio::test]
async fn a_run_pauses_when_the_tries_of_a_step_are_used_up_and_goes_on_when_it_is_resumed() {
    let world = World::default();
    let document = steps(json!([{
        "name": "a", "type": "http", "method": "GET", "url": "https://x/",
        "retry": { "for": "1m", "maxAttempts": 3 }, "onExhausted": "pause",
    }]));
    let services = world.services(
        |_, _| Ok(Value::Null),
        |_, nth| answer(if nth < 6 { 503 } else { 200 }, json!({ "n": nth })),
    );
    let running = Running::start(document, services, json!({})).await;
    assert_eq!(running.settle().await, RunStatus::Paused);
    assert_eq!(world.asked().len(), 3);
    assert_eq!(running.records().await, [("a".to_string(), StepStatus::Pending)]);
    let events = running.lab.engine().list_events(running.run.id(), Version::default()).await.unwrap();
    let note = events.last().unwrap().note.clone().unwrap_or_default();
    assert!(note.contains("step a has used up its retries") && note.contains("http_503"), "{note}");
    running.run.resume().await.unwrap();
    assert_eq!(running.output().await, json!({ "n": 6 }));
    running.check().await;
}

/// A refused refund waits for people, and is retried as the document says.
#[tokio::test]
async fn a_compensation_is_tried_as_the_document_says_and_then_left_to_people() {
    let world = World::default();
    let document = steps(json!([
        { "name": "charge", "type": "http", "method": "POST", "url": "https://bank/charges",
          "compensate": { "type": "http", "method": "DELETE", "url": "https://bank/charges/1", "retry": { "maxAttempts": 2 } } },
        { "name": "ship", "type": "http", "method": "POST", "url": "https://post/parcels" },
    ]));
    let services = world.services(
        |_, _| Ok(Value::Null),
        |call, _| match (call.method.as_str(), call.url.contains("post")) {
            ("DELETE", _) => answer(503, json!({})),
            (_, true) => answer(422, json!({})),
            _ => answer(200, json!({})),
        },
    );
    let running = Running::start(document, services, json!({})).await;
    assert_eq!(running.settle().await, RunStatus::Waiting);
    let refunds = world.names().iter().filter(|name| name.starts_with("DELETE")).count();
    assert_eq!(refunds, 2);
    let doubts = running.lab.engine().list_doubts(None, 10).await.unwrap().doubts;
    assert_eq!(doubts.len(), 1);
    assert_eq!(doubts[0].step.as_str(), "charge~undo");
    running.check().await;
}
