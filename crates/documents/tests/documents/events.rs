//! Webhooks of checked sources: planned actions, and malformed bodies.

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use hapax_documents::limits::MAX_EVENT_BYTES;
use hapax_documents::source::{
    Event, Filtered, Outcome, Planned, PlannedSettlement, PlannedTarget, Reading, Unreadable, visible_headers,
};
use hapax_documents::{DeclaredNames, Format, Source, check_source};
use hapax_webhooks::Verifier;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

fn example(name: &str) -> Source {
    let path = format!("{}/examples/sources/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let checked = check_source(&text, Format::Any, &DeclaredNames::default())
        .unwrap_or_else(|found| panic!("{name}: {found:#?}"));
    assert!(checked.warnings().is_empty(), "{name}: {:#?}", checked.warnings());
    let again = check_source(checked.canonical(), Format::Json, &DeclaredNames::default()).unwrap();
    assert_eq!(again.canonical(), checked.canonical(), "{name}");
    checked.source().clone()
}

fn source(more: Value) -> Source {
    let mut source = json!({
        "name": "src",
        "signature": { "scheme": "github" },
        "secrets": ["secret://s"],
        "eventId": { "pointer": "/id" },
        "actions": [{ "start": { "workflow": "w", "input": { "b": "{{ body }}" } } }],
    });
    source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    check_source(&source.to_string(), Format::Json, &DeclaredNames::default()).unwrap().source().clone()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers
            .append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn read(source: &Source, given: &[(&str, &str)], body: &Value) -> Event {
    match source.read(&headers(given), body.to_string().as_bytes()).unwrap() {
        Reading::Event(event) => event,
        Reading::Challenge(challenge) => panic!("a challenge: {challenge}"),
    }
}

/// The planned actions; panics if one failed.
fn done(event: &Event) -> Vec<Planned> {
    assert_eq!(event.filtered, Filtered::Passed);
    let done = event.actions.iter().filter_map(|action| match &action.outcome {
        Outcome::Do(planned) => Some(planned.clone()),
        Outcome::Skipped => None,
        Outcome::Failed { why } => panic!("{} {}: {why}", action.index, action.kind),
    });
    done.collect()
}

/// The reason why the only action failed.
fn failure(source: &Source, body: &Value) -> String {
    match &read(source, &[], body).actions[0].outcome {
        Outcome::Failed { why } => why.clone(),
        other => panic!("{other:?}"),
    }
}

/// S4.32: the handler filters on `charge.succeeded`, and settles by the provider's own id (S4.6, S4.7).
#[test]
fn a_charge_of_stripe_settles_the_promise_of_its_id() {
    let source = example("stripe");
    let charge = json!({ "id": "ch_abc123", "amount": 2000 });
    let event = json!({ "id": "evt_1", "type": "charge.succeeded", "data": { "object": charge } });
    let found = read(&source, &[], &event);
    assert_eq!(found.id, "evt_1");
    let settle =
        |settlement, keep_for| Planned::Settle { key: "stripe:ch_abc123".into(), settlement, keep_for };
    let four_days = Some(Duration::from_secs(4 * 24 * 3600));
    assert_eq!(done(&found), [settle(PlannedSettlement::Resolve(charge), four_days)]);
    let failed = json!({ "id": "evt_2", "type": "charge.failed", "data": { "object": { "id": "ch_abc123", "failure_code": "card_declined" } } });
    let reject =
        PlannedSettlement::Reject { message: "the charge failed".into(), code: Some("card_declined".into()) };
    assert_eq!(done(&read(&source, &[], &failed)), [settle(reject, None)]);
    let other = read(&source, &[], &json!({ "id": "evt_3", "type": "customer.created" }));
    assert_eq!((other.filtered, other.actions.len()), (Filtered::Rejected, 0));
    let odd = read(&source, &[], &json!({ "id": "evt_4" }));
    assert!(matches!(&odd.filtered, Filtered::Failed { why } if why.contains("\"type\"")), "{odd:?}");
}

#[test]
fn the_other_examples_do_what_they_say() {
    let body = json!({ "action": "published", "repository": { "full_name": "a/b" }, "release": { "tag_name": "v1" } });
    let given = [("X-GitHub-Delivery", "72d3162e"), ("X-GitHub-Event", "release")];
    let event = read(&example("github"), &given, &body);
    assert_eq!(event.id, "72d3162e");
    let input = json!({ "repository": "a/b", "tag": "v1" });
    let start =
        Planned::Start { workflow: "roll-out".into(), version: None, key: "release:a/b:v1".into(), input };
    assert_eq!(done(&event), [start]);

    let order = json!({ "id": 820982911946154508u64, "financial_status": "paid", "cancelled_at": null, "line_items": [{ "sku": "x" }, { "sku": "y" }] });
    let given = |topic| {
        [("X-Shopify-Event-Id", "98880550"), ("X-Shopify-Topic", topic), ("X-Shopify-Webhook-Id", "other")]
    };
    let event = read(&example("shopify"), &given("orders/paid"), &order);
    assert_eq!(event.id, "98880550");
    let key = "shopify:820982911946154508";
    let input = json!({ "order": 820982911946154508u64, "lines": ["x", "y"] });
    let start = Planned::Start { workflow: "ship-order".into(), version: Some(2), key: key.into(), input };
    assert_eq!(done(&event), [start]);
    let changed = read(&example("shopify"), &given("orders/cancelled"), &order);
    assert_eq!(done(&changed), done(&event), "what is not signed decides nothing");
    let mut order = order;
    order["cancelled_at"] = json!("2026-01-02T03:04:05Z");
    order["cancel_reason"] = json!("customer");
    let event = read(&example("shopify"), &given("orders/cancelled"), &order);
    let signal = Planned::Signal {
        target: PlannedTarget::Key(key.into()),
        name: "cancelled".into(),
        id: "shopify-orders:cancelled:820982911946154508".into(),
        payload: json!({ "reason": "customer" }),
    };
    assert_eq!(done(&event), [signal]);

    let body = json!({ "type": "event_callback", "event_id": "Ev1", "event": { "type": "app_mention", "channel": "C1", "text": "hi" } });
    let event = read(&example("slack"), &[], &body);
    let input = json!({ "channel": "C1", "text": "hi", "event": "Ev1" });
    let key = "slack-mentions:answer-mention:Ev1".into();
    assert_eq!(
        done(&event),
        [Planned::Start { workflow: "answer-mention".into(), version: None, key, input }]
    );

    let moved = json!({ "id": "e7", "to": "Graz" });
    let event = read(&example("hmac"), &[], &json!({ "reference": "r_1", "event": moved }));
    let target = PlannedTarget::Run("r_1".into());
    let signal = Planned::Signal {
        target,
        name: "parcel-moved".into(),
        id: "carrier:parcel-moved:e7".into(),
        payload: moved,
    };
    assert_eq!(done(&event), [signal]);
}

#[test]
fn every_example_is_looked_at_here() {
    let folder = format!("{}/examples/sources", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["github.yaml", "hmac.yaml", "shopify.yaml", "slack.yaml", "stripe.yaml"]);
}

/// RELIABILITY, webhooks in: the signature is checked on the bytes before anything is parsed.
#[test]
fn a_signed_webhook_goes_from_its_bytes_to_what_is_to_be_done() {
    let source = example("stripe");
    let secrets = ["whsec_new", "whsec_test_secret"];
    assert_eq!(source.secrets.len(), secrets.len());
    let verifier = Verifier::new(source.signature.clone(), &secrets).unwrap();
    let body = br#"{"id":"evt_1","type":"charge.succeeded","data":{"object":{"id":"ch_1"}}}"#;
    let signature = "t=1492774577,v1=1ab0643a824e31d19a842b9b703d7e3a0fd44e5edb3cb388a4470f74928a2409";
    let given = headers(&[("stripe-signature", signature)]);
    let now = UNIX_EPOCH + Duration::from_secs(1_492_774_600);
    verifier.verify(&given, body, now).unwrap();
    let Ok(Reading::Event(event)) = source.read(&given, body) else { panic!("it is an event") };
    let [Planned::Settle { key, .. }] = &done(&event)[..] else { panic!("{event:?}") };
    assert_eq!(key, "stripe:ch_1");
    let later = now + Duration::from_secs(24 * 3600);
    assert_eq!(verifier.verify(&given, body, later).unwrap_err().code(), "stale");
}

/// Slack verifies a new URL with a challenge.
#[test]
fn the_challenge_of_slack_is_not_an_event() {
    let ask = json!({ "type": "url_verification", "challenge": "3eZbrw1aB10FEMAGAZd4FyFQ" }).to_string();
    let told = example("slack").read(&HeaderMap::new(), ask.as_bytes()).unwrap();
    assert_eq!(told, Reading::Challenge("3eZbrw1aB10FEMAGAZd4FyFQ".into()));
    let other = source(json!({})).read(&HeaderMap::new(), ask.as_bytes());
    assert_eq!(other.unwrap_err().code(), "bad_event_id", "only Slack asks like that");
}

#[test]
fn an_action_that_cannot_be_worked_out_does_not_touch_the_others() {
    let source = source(json!({ "actions": [
        { "settle": { "key": "{{ body.missing }}", "value": 1 } },
        { "when": "body.n > 'a'", "start": { "workflow": "w" } },
        { "when": "body.n == 2", "start": { "workflow": "w" } },
        { "start": { "workflow": "w", "input": { "n": "{{ body.n }}" } } },
    ] }));
    let event = read(&source, &[], &json!({ "id": "e", "n": 1 }));
    let kinds: Vec<(usize, &str)> = event.actions.iter().map(|action| (action.index, action.kind)).collect();
    assert_eq!(kinds, [(0, "settle"), (1, "start"), (2, "start"), (3, "start")]);
    assert!(
        matches!(&event.actions[0].outcome, Outcome::Failed { why } if why.contains("missing")),
        "{event:?}"
    );
    assert!(matches!(&event.actions[1].outcome, Outcome::Failed { .. }), "{event:?}");
    assert_eq!(event.actions[2].outcome, Outcome::Skipped);
    let input = json!({ "n": 1 });
    let start = Planned::Start { workflow: "w".into(), version: None, key: "src:w:e".into(), input };
    assert_eq!(event.actions[3].outcome, Outcome::Do(start));
}

#[test]
fn what_comes_out_wrong_is_a_failure_with_its_reason() {
    let settle = |key: &str| source(json!({ "actions": [{ "settle": { "key": key, "value": 1 } }] }));
    let key = "{{ body.key }}";
    for (body, part) in [
        (json!({ "id": "e" }), "\"key\""),
        (json!({ "id": "e", "key": "" }), "1 to 255"),
        (json!({ "id": "e", "key": "k".repeat(256) }), "1 to 255"),
        (json!({ "id": "e", "key": "ключ" }), "1 to 255"),
        (json!({ "id": "e", "key": "a\nb" }), "1 to 255"),
        (json!({ "id": "e", "key": null }), "a text or a whole number"),
        (json!({ "id": "e", "key": [] }), "a text or a whole number"),
        (json!({ "id": "e", "key": 1.5 }), "a text or a whole number"),
    ] {
        let why = failure(&settle(key), &body);
        assert!(why.contains(part), "{body}: {why}");
    }
    let start = source(json!({ "actions": [{ "start": { "workflow": "w", "input": "{{ body.list }}" } }] }));
    assert!(failure(&start, &json!({ "id": "e", "list": [1] })).contains("an object"));
    let signal =
        |name: &str| source(json!({ "actions": [{ "signal": { "run": "r{{ body.id }}", "name": name } }] }));
    let named = |name: &str| failure(&signal("{{ body.name }}"), &json!({ "id": "e", "name": name }));
    assert!(named("a b").contains("signal name"), "{}", named("a b"));
    assert!(named("approval.manager").contains("answers of people"));
    let busy = "{{ body.list.all(n, body.text.contains('y') || n >= 0) }}";
    let busy = source(json!({ "actions": [{ "start": { "workflow": "w", "input": { "n": busy } } }] }));
    let list: Vec<u32> = (0..1_000).collect();
    assert!(
        failure(&busy, &json!({ "id": "e", "list": list, "text": "x".repeat(100_000) })).contains("too much")
    );
}

#[test]
fn what_all_actions_hold_together_is_limited() {
    let start =
        json!({ "start": { "workflow": "w", "key": "{{ body.id }}", "input": { "b": "{{ body }}" } } });
    let source = source(json!({ "actions": vec![start; 6] }));
    let body = json!({ "id": "e", "x": "x".repeat(900_000) });
    let event = read(&source, &[], &body);
    let done = event.actions.iter().filter(|action| matches!(action.outcome, Outcome::Do(_))).count();
    assert_eq!(done, 4);
    assert!(matches!(&event.actions[5].outcome, Outcome::Failed { why } if why.contains("together")));
}

/// RELIABILITY, webhooks in: the id is bounded and printable, so that it can be stored and compared.
#[test]
fn an_event_without_a_usable_id_is_refused() {
    let code = |source: &Source, given: &[(&str, &str)], body: Value| {
        source.read(&headers(given), body.to_string().as_bytes()).map(|_| ()).map_err(|why| why.code())
    };
    let pointed = source(json!({}));
    for id in [
        json!(null),
        json!(""),
        json!("a b"),
        json!("a\t"),
        json!("é"),
        json!("a\u{a0}"),
        json!("x".repeat(256)),
        json!(1.5),
        json!({}),
        json!(true),
    ] {
        assert_eq!(code(&pointed, &[], json!({ "id": id })), Err("bad_event_id"), "{id}");
    }
    for id in [json!("x".repeat(255)), json!("evt_1.2:3"), json!(7), json!(-7), json!(u64::MAX)] {
        assert_eq!(code(&pointed, &[], json!({ "id": id })), Ok(()), "{id}");
    }
    assert_eq!(code(&pointed, &[], json!({})), Err("bad_event_id"));
    let in_header = source(json!({ "eventId": { "header": "X-Id" } }));
    assert_eq!(code(&in_header, &[("x-id", "1")], json!({})), Ok(()));
    for given in [
        vec![],
        vec![("x-id", "1"), ("x-id", "2")],
        vec![("x-id", "")],
        vec![("x-id", "a b")],
        vec![("x-id", "é")],
    ] {
        assert_eq!(code(&in_header, &given, json!({})), Err("bad_event_id"), "{given:?}");
    }
}

/// RELIABILITY, JSON: duplicate keys, NUL, excessive depth and size, numbers that would lose precision.
#[test]
fn bodies_that_are_not_plain_json_are_refused() {
    let source = source(json!({}));
    let code = |body: &[u8]| source.read(&HeaderMap::new(), body).map(|_| ()).map_err(|why| why.code());
    let deep = format!("{{\"id\":1,\"d\":{}1{}}}", "[".repeat(70), "]".repeat(70));
    let many = format!("{{\"id\":1,\"m\":[{}1]}}", "1,".repeat(60_000));
    for body in [
        "",
        " ",
        "{",
        "{\"id\":1",
        "{\"id\":1}x",
        "{'id':1}",
        "{\"id\":1,\"id\":2}",
        "{\"id\":1,\"a\":{\"b\":1,\"b\":1}}",
        "{\"id\":\"a\\u0000\"}",
        "{\"id\":1,\"\\u0000\":1}",
        "{\"id\":1,\"a\":\"\\ud800\"}",
        "{\"id\":1,\"a\":1e999}",
        "{\"id\":1,\"a\":18446744073709551616}",
        "{\"id\":1,\"a\":NaN}",
        "\u{feff}{\"id\":1}",
        &deep,
        &many,
    ] {
        assert_eq!(code(body.as_bytes()), Err("bad_body"), "{}", body.chars().take(60).collect::<String>());
    }
    assert_eq!(code(b"{\"id\":\"\xff\"}"), Err("bad_body"));
    assert_eq!(code(b"{\"id\":18446744073709551615,\"a\":-9223372036854775808,\"z\":-0}"), Ok(()));
    assert_eq!(code(&vec![b' '; MAX_EVENT_BYTES + 1]), Err("too_large"));
    let gzip = headers(&[("content-encoding", "gzip")]);
    assert_eq!(source.read(&gzip, b"{\"id\":1}"), Err(Unreadable::Compressed));
    let large = headers(&[("x-a", &"a".repeat(70_000))]);
    assert_eq!(source.read(&large, b"{\"id\":1}"), Err(Unreadable::HeadersTooLarge));
}

#[test]
fn a_form_is_an_object_of_texts_and_a_payload_is_json() {
    let form = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
    let slash = source(json!({
        "signature": { "scheme": "slack" },
        "eventId": { "pointer": "/trigger_id" },
        "actions": [{ "start": { "workflow": "w", "input": "{{ body }}" } }],
    }));
    let told = slash.read(
        &headers(&form),
        b"command=%2Fdeploy&text=to+production%21&trigger_id=13345224609.7&empty=&bare",
    );
    let Ok(Reading::Event(event)) = told else { panic!("{told:?}") };
    let [Planned::Start { input, .. }] = &done(&event)[..] else { panic!("{event:?}") };
    let expected = json!({ "command": "/deploy", "text": "to production!", "trigger_id": "13345224609.7", "empty": "", "bare": "" });
    assert_eq!((input, event.id.as_str()), (&expected, "13345224609.7"));

    let button = source(json!({ "eventId": { "pointer": "/payload/trigger_id" } }));
    let pressed = "payload=%7B%22trigger_id%22%3A%22t1%22%2C%22actions%22%3A%5B%5D%7D";
    let told = button.read(&headers(&form), pressed.as_bytes());
    let Ok(Reading::Event(event)) = told else { panic!("{told:?}") };
    assert_eq!(event.id, "t1");
    for bad in [
        "a=1&a=2",
        "a=%00",
        "a=%ff",
        "payload=%7Bbroken",
        "payload=%7B%22a%22%3A1%2C%22a%22%3A1%7D",
        &(0..1_001).map(|n| format!("f{n}=&")).collect::<String>(),
    ] {
        let told = button.read(&headers(&form), bad.as_bytes());
        assert_eq!(told.unwrap_err().code(), "bad_body", "{bad}");
    }
}

/// Values that expressions see are stored, so they contain no credentials.
#[test]
fn expressions_see_headers_but_nothing_that_proves_who_somebody_is() {
    let source = source(json!({ "actions": [{ "start": { "workflow": "w", "input": "{{ headers }}" } }] }));
    let given = [
        ("X-Topic", "a"),
        ("x-topic", "b"),
        ("Authorization", "canary"),
        ("Cookie", "canary"),
        ("X-Hub-Signature-256", "canary"),
        ("X-Shopify-Hmac-Sha256", "canary"),
        ("X-Gitlab-Token", "canary"),
        ("X-Api-Key", "canary"),
        ("X-Odd", "é"),
    ];
    let event = read(&source, &given, &json!({ "id": "e" }));
    let [Planned::Start { input, .. }] = &done(&event)[..] else { panic!("{event:?}") };
    assert_eq!(input, &json!({ "x-topic": "a, b" }));
}

/// A stored event is parsed unchanged, by the current source, and keeps its id.
#[test]
fn an_event_is_read_again_from_what_is_kept_of_it_and_keeps_its_id() {
    let mended = |workflow: &str| {
        source(json!({
            "eventId": { "header": "x-token-id" },
            "filter": "headers[\"x-topic\"] == \"paid\"",
            "actions": [{ "start": { "workflow": workflow, "input": { "b": "{{ body.b }}" } } }],
        }))
    };
    let given = headers(&[
        ("x-token-id", "e-1"),
        ("x-topic", "paid"),
        ("content-type", "application/x-www-form-urlencoded"),
    ]);
    let Reading::Event(first) = mended("w").read(&given, b"b=1").unwrap() else { panic!("an event") };
    let kept = visible_headers(&given).unwrap();
    assert!(!kept.contains_key("x-token-id"), "what looks like a secret is not kept");
    let again = mended("v").read_again(&first.id, &kept, b"b=1").unwrap();
    assert_eq!((again.id.as_str(), &again.filtered), ("e-1", &first.filtered));
    let expected = |workflow: &str| Planned::Start {
        workflow: workflow.into(),
        version: None,
        key: format!("src:{workflow}:e-1"),
        input: json!({ "b": "1" }),
    };
    assert_eq!((done(&first), done(&again)), (vec![expected("w")], vec![expected("v")]));
}

#[test]
fn keys_that_would_get_too_long_are_hashed_and_stay_the_same() {
    let (name, id) = ("n".repeat(128), "e".repeat(255));
    let source = source(json!({ "name": name, "actions": [{ "start": { "workflow": "w" } }] }));
    let key = |id: &str| match &done(&read(&source, &[], &json!({ "id": id })))[..] {
        [Planned::Start { key, .. }] => key.clone(),
        other => panic!("{other:?}"),
    };
    assert!(key(&id).starts_with("sha256:") && key(&id).len() == 71);
    assert_eq!(key(&id), key(&id));
    assert_ne!(key(&id), key(&"e".repeat(254)));
    assert_eq!(key("e"), format!("{name}:w:e"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_body_makes_a_source_stumble(body in prop::collection::vec(any::<u8>(), 0..200), text in "[{}\\[\\]\":,a-z0-9&=%+]{0,80}") {
        static SOURCE: LazyLock<Source> = LazyLock::new(|| example("hmac"));
        let source = &*SOURCE;
        for given in ["application/json", "application/x-www-form-urlencoded"] {
            let given = headers(&[("content-type", given)]);
            let _ = source.read(&given, &body);
            let _ = source.read(&given, text.as_bytes());
        }
    }
}
