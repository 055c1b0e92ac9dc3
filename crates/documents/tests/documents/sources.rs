//! Webhook sources: all problems are reported at once, each with its place.

use std::collections::BTreeSet;

use hapax_documents::limits::{MAX_ACTIONS, MAX_SOURCE_EXPRESSIONS};
use hapax_documents::{
    CheckedSource, DeclaredNames, Format, Problem, check_source, check_source_bytes, source_schema,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn known() -> DeclaredNames {
    let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>());
    DeclaredNames { tasks: None, workflows: names(&["w"]), secrets: names(&["s", "s2"]), addresses: None }
}

fn judge(text: &str) -> Result<CheckedSource, Vec<Problem>> {
    check_source(text, Format::Any, &known())
}

/// All problems as `code at path`.
fn problems(source: &Value) -> Vec<String> {
    let problems = match judge(&source.to_string()) {
        Ok(checked) => checked.warnings().to_vec(),
        Err(problems) => problems,
    };
    problems.iter().map(|problem| format!("{} at {}", problem.code, problem.path)).collect()
}

/// A valid source with these fields replaced; null removes a field.
fn source(more: Value) -> Value {
    let mut source = json!({
        "name": "payments",
        "preset": "stripe",
        "secrets": ["secret://s"],
        "actions": [{ "settle": { "key": "stripe:{{ body.id }}", "value": "{{ body }}" } }],
    });
    let fields = source.as_object_mut().unwrap();
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => drop(fields.remove(name)),
            value => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    source
}

fn with_action(action: Value) -> Value {
    source(json!({ "actions": [action] }))
}

#[test]
fn a_source_in_order_has_no_problems() {
    assert!(problems(&source(json!({}))).is_empty());
}

#[test]
fn all_problems_of_a_source_are_reported_at_once_with_line_and_column() {
    let text = r#"name: my source
colour: red
preset: strip
secrets: [sk_live_canary]
filter: body.type =
actions:
  - settle: { key: "{{ input.id }}", value: 1, keepFor: soon }
  - begin: { workflow: w }
"#;
    let found = judge(text).unwrap_err();
    let told: Vec<String> = found
        .iter()
        .map(|problem| {
            let at = problem.at.unwrap();
            format!("{}:{} {} {}", at.line, at.column, problem.code, problem.path)
        })
        .collect();
    assert_eq!(
        told,
        [
            "1:7 bad_name /name",
            "2:9 unknown_field /colour",
            "3:9 unknown_value /preset",
            "4:11 inline_secret /secrets/0",
            "5:9 bad_expression /filter",
            "7:20 unknown_variable /actions/0/settle/key",
            "7:57 bad_span /actions/0/settle/keepFor",
            "8:5 one_of /actions/1",
            "8:12 unknown_field /actions/1/begin",
        ]
    );
    assert!(!format!("{found:?}").contains("canary"), "a secret is never repeated: {found:?}");
}

/// Issue 6: presets for Stripe, GitHub, Shopify, Slack; explicit fields override the preset.
#[test]
fn presets_stand_for_signature_and_event_id() {
    let shopify = json!({ "scheme": "hmac", "header": "x-shopify-hmac-sha256", "algorithm": "sha256", "encoding": "base64" });
    for (preset, signature, event_id) in [
        ("stripe", json!({ "scheme": "stripe" }), json!({ "pointer": "/id" })),
        ("github", json!({ "scheme": "github" }), json!({ "header": "X-GitHub-Delivery" })),
        ("shopify", shopify, json!({ "header": "X-Shopify-Event-Id" })),
        ("slack", json!({ "scheme": "slack" }), json!({ "pointer": "/event_id" })),
        ("standard-webhooks", json!({ "scheme": "standard-webhooks" }), json!({ "header": "webhook-id" })),
    ] {
        let canonical = |more: Value| judge(&source(more).to_string()).unwrap().canonical().to_string();
        let short = canonical(json!({ "preset": preset }));
        assert_eq!(short, canonical(json!({ "preset": null, "signature": signature, "eventId": event_id })));
        assert_eq!(canonical(serde_json::from_str(&short).unwrap()), short, "{preset} is read back");
        let own = json!({ "preset": preset, "signature": { "scheme": "hmac", "header": "x" } });
        assert!(canonical(own).contains(r#""scheme":"hmac""#), "{preset}");
        let own = json!({ "preset": preset, "eventId": { "pointer": "/mine" } });
        assert!(canonical(own).contains("/mine"), "{preset}");
    }
}

#[test]
fn signatures_and_ids_are_looked_at_closely() {
    let hmac = |more: Value| {
        let mut signature = json!({ "scheme": "hmac", "header": "X-Sig" });
        signature.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "signature": signature })
    };
    for (more, expected) in [
        (json!({ "preset": null }), vec!["missing_field at /signature", "missing_field at /eventId"]),
        (json!({ "signature": { "scheme": "none" }, "secrets": null }), vec!["unsigned at /signature"]),
        (
            json!({ "signature": { "scheme": "none", "allowUnsigned": false }, "secrets": null }),
            vec!["unsigned at /signature"],
        ),
        (
            json!({ "signature": { "scheme": "none", "allowUnsigned": true } }),
            vec!["secrets_not_used at /secrets", "unsigned at /signature"],
        ),
        (json!({ "signature": { "scheme": "magic" } }), vec!["unknown_value at /signature/scheme"]),
        (json!({ "signature": {} }), vec!["missing_field at /signature/scheme"]),
        (
            json!({ "signature": { "scheme": "stripe", "header": "x" } }),
            vec!["unknown_field at /signature/header"],
        ),
        (json!({ "signature": { "scheme": "hmac" } }), vec!["missing_field at /signature/header"]),
        (json!({ "signature": "stripe" }), vec!["wrong_type at /signature"]),
        (hmac(json!({ "header": "a b" })), vec!["bad_header at /signature/header"]),
        (hmac(json!({ "algorithm": "md5" })), vec!["unknown_value at /signature/algorithm"]),
        (hmac(json!({ "encoding": "base32" })), vec!["unknown_value at /signature/encoding"]),
        (hmac(json!({ "prefix": "é" })), vec!["bad_prefix at /signature/prefix"]),
        (hmac(json!({ "prefix": "p".repeat(65) })), vec!["bad_prefix at /signature/prefix"]),
        (hmac(json!({ "allowUnsigned": true })), vec!["unknown_field at /signature/allowUnsigned"]),
        (json!({ "eventId": {} }), vec!["one_of at /eventId"]),
        (json!({ "eventId": { "header": "a", "pointer": "/b" } }), vec!["one_of at /eventId"]),
        (json!({ "eventId": { "header": "" } }), vec!["bad_header at /eventId/header"]),
        (json!({ "eventId": { "pointer": "id" } }), vec!["bad_pointer at /eventId/pointer"]),
        (json!({ "eventId": { "pointer": "" } }), vec!["bad_pointer at /eventId/pointer"]),
        (json!({ "eventId": { "pointer": "/a~2" } }), vec!["bad_pointer at /eventId/pointer"]),
        (
            json!({ "eventId": { "pointer": format!("/{}", "a".repeat(300)) } }),
            vec!["bad_pointer at /eventId/pointer"],
        ),
        (json!({ "name": ".." }), vec!["bad_name at /name"]),
        (json!({ "filter": "true" }), vec!["constant_condition at /filter"]),
        (json!({ "filter": "state.x" }), vec!["unknown_variable at /filter"]),
    ] {
        assert_eq!(problems(&source(more.clone())), expected, "{more}");
    }
    let unsigned = json!({ "signature": { "scheme": "none", "allowUnsigned": true }, "secrets": null });
    assert_eq!(problems(&source(unsigned.clone())), ["unsigned at /signature"]);
    assert!(judge(&source(unsigned).to_string()).is_ok(), "it is a warning");
}

/// Issue 6: secrets by reference, several at once.
#[test]
fn secrets_are_references_and_nothing_else() {
    for (secrets, expected) in [
        (json!(["secret://s", "secret://s2"]), vec![]),
        (json!(["secret://other"]), vec!["unknown_secret at /secrets/0"]),
        (json!(["whsec_plain"]), vec!["inline_secret at /secrets/0"]),
        (json!(["secret://s and more"]), vec!["bad_secret at /secrets/0"]),
        (json!(["secret://"]), vec!["bad_secret at /secrets/0"]),
        (json!(["{{ body.secret }}"]), vec!["inline_secret at /secrets/0"]),
        (json!(["secret://s", "secret://s"]), vec!["duplicate_secret at /secrets/1"]),
        (json!([]), vec!["out_of_range at /secrets"]),
        (json!("secret://s"), vec!["wrong_type at /secrets"]),
        (json!([1]), vec!["wrong_type at /secrets/0"]),
        (Value::Null, vec!["missing_field at /secrets"]),
    ] {
        assert_eq!(problems(&source(json!({ "secrets": secrets }))), expected, "{secrets}");
    }
    let six: Vec<String> = (0..6).map(|n| format!("secret://s-{n}")).collect();
    let told = problems(&source(json!({ "secrets": six })));
    assert!(told.contains(&"out_of_range at /secrets".to_string()), "{told:?}");
}

#[test]
fn actions_are_looked_at_closely() {
    let settle = |more: Value| json!({ "settle": more });
    for (action, expected) in [
        (json!({}), vec!["one_of at /actions/0"]),
        (json!({ "when": "body.x" }), vec!["one_of at /actions/0"]),
        (
            json!({ "start": { "workflow": "w" }, "signal": { "run": "r", "name": "n" } }),
            vec!["one_of at /actions/0"],
        ),
        (settle(json!({ "key": "{{ body.id }}" })), vec!["one_of at /actions/0/settle"]),
        (
            settle(json!({ "key": "{{ body.id }}", "value": 1, "reject": { "message": "m" } })),
            vec!["one_of at /actions/0/settle"],
        ),
        (
            settle(json!({ "key": "{{ body.id }}", "reject": {} })),
            vec!["missing_field at /actions/0/settle/reject/message"],
        ),
        (settle(json!({ "value": 1 })), vec!["missing_field at /actions/0/settle/key"]),
        (settle(json!({ "key": "fixed", "value": 1 })), vec!["constant_key at /actions/0/settle/key"]),
        (settle(json!({ "key": "", "value": 1 })), vec!["empty at /actions/0/settle/key"]),
        (settle(json!({ "key": 7, "value": 1 })), vec!["wrong_type at /actions/0/settle/key"]),
        (
            settle(json!({ "key": "{{ body.id }}", "value": "secret://s" })),
            vec!["secret_not_here at /actions/0/settle/value"],
        ),
        (
            settle(json!({ "key": "{{ body.id }}", "value": 1, "keepFor": "0s" })),
            vec!["bad_span at /actions/0/settle/keepFor"],
        ),
        (json!({ "start": {} }), vec!["missing_field at /actions/0/start/workflow"]),
        (json!({ "start": { "workflow": "other" } }), vec!["unknown_workflow at /actions/0/start/workflow"]),
        (json!({ "start": { "workflow": "w@0" } }), vec!["bad_name at /actions/0/start/workflow"]),
        (
            json!({ "start": { "workflow": "w", "key": "fixed" } }),
            vec!["constant_key at /actions/0/start/key"],
        ),
        (json!({ "start": { "workflow": "w", "input": [1] } }), vec!["wrong_type at /actions/0/start/input"]),
        (
            json!({ "start": { "workflow": "w", "input": "plain" } }),
            vec!["wrong_type at /actions/0/start/input"],
        ),
        (
            json!({ "start": { "workflow": "w", "input": { "a": "{{ bdy }}" } } }),
            vec!["unknown_variable at /actions/0/start/input/a"],
        ),
        (json!({ "signal": { "name": "n" } }), vec!["one_of at /actions/0/signal"]),
        (
            json!({ "signal": { "run": "{{ body.r }}", "key": "{{ body.k }}", "name": "n" } }),
            vec!["one_of at /actions/0/signal"],
        ),
        (json!({ "signal": { "run": "{{ body.r }}" } }), vec!["missing_field at /actions/0/signal/name"]),
        (
            json!({ "signal": { "run": "{{ body.r }}", "name": "a b" } }),
            vec!["bad_name at /actions/0/signal/name"],
        ),
        (
            json!({ "signal": { "run": "{{ body.r }}", "name": "approval.x" } }),
            vec!["reserved_name at /actions/0/signal/name"],
        ),
        (
            json!({ "signal": { "run": "{{ body.r }}", "name": "n", "id": "x" } }),
            vec!["constant_key at /actions/0/signal/id"],
        ),
        (
            json!({ "signal": { "run": "{{ body.r }}", "name": "n", "text": "x" } }),
            vec!["unknown_field at /actions/0/signal/text"],
        ),
        (
            json!({ "start": { "workflow": "w" }, "when": "{{ body.x }}" }),
            vec!["bad_expression at /actions/0/when"],
        ),
    ] {
        assert_eq!(problems(&with_action(action.clone())), expected, "{action}");
    }
    let start = json!({ "start": { "workflow": "w" } });
    assert_eq!(problems(&source(json!({ "actions": [start, start] }))), ["same_key at /actions/1"]);
    assert_eq!(problems(&source(json!({ "actions": [] }))), ["out_of_range at /actions"]);
    assert_eq!(
        problems(&source(json!({ "actions": vec![start; MAX_ACTIONS + 1] }))),
        ["out_of_range at /actions"]
    );
    let fields = |count: usize| {
        let fields: Value = (0..count)
            .map(|n| (format!("f{n}"), json!("{{ body.a }}")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        with_action(json!({ "start": { "workflow": "w", "input": fields } }))
    };
    assert!(problems(&fields(MAX_SOURCE_EXPRESSIONS)).is_empty());
    assert_eq!(problems(&fields(MAX_SOURCE_EXPRESSIONS + 1)), ["too_large at "]);
}

#[test]
fn json_and_yaml_that_mean_the_same_are_the_same() {
    let yaml = "# c\nactions:\n- {when: body.a, signal: {key: 'k{{ body.k }}', name: n}}\nsecrets: ['secret://s']\nname: payments\npreset: slack\n";
    let json = source(json!({
        "preset": "slack",
        "actions": [{ "signal": { "name": "n", "key": "k{{ body.k }}" }, "when": "body.a" }],
    }));
    let (one, other) = (judge(yaml).unwrap(), judge(&json.to_string()).unwrap());
    assert_eq!(one.canonical(), other.canonical());
    assert_eq!(check_source_bytes(b"\xff", Format::Any, &known()).unwrap_err()[0].code, "not_utf8");
    assert_eq!(judge("").unwrap_err()[0].code, "empty");
    assert_eq!(judge("[]").unwrap_err()[0].code, "wrong_type");
}

#[test]
fn the_schema_asks_for_what_the_checks_ask_for() {
    let schema = source_schema();
    assert_eq!(schema["properties"]["secrets"]["maxItems"], 5);
    assert_eq!(schema["properties"]["actions"]["maxItems"], 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_makes_the_checks_stumble(text in "[ -~\n]{0,200}", hole in 0usize..200) {
        let _ = judge(&text);
        let mut broken = source(json!({})).to_string();
        let hole = hole % broken.len();
        broken.replace_range(hole..=hole, &text.chars().take(3).collect::<String>());
        let _ = judge(&broken);
    }
}

/// RELIABILITY, webhooks in: an unsigned event id must not be used as an idempotency key.
#[test]
fn a_key_from_an_unsigned_id_is_a_warning() {
    let start = |key: Value| {
        let mut start = json!({ "workflow": "w" });
        if !key.is_null() {
            start["key"] = key;
        }
        json!({ "start": start })
    };
    let signal = |id: Value| {
        let mut signal = json!({ "key": "{{ body.order }}", "name": "paid" });
        if !id.is_null() {
            signal["id"] = id;
        }
        json!({ "signal": signal })
    };
    let hmac = json!({ "scheme": "hmac", "header": "x-signature" });
    let id = |name: &str| json!({ "header": name });
    let warned = vec!["unsigned_event_id at /actions/0".to_string()];
    for (preset, action, expected) in [
        ("github", start(Value::Null), &warned),
        ("github", start(json!("r:{{ event.id }}")), &warned),
        ("github", start(json!("r:{{ headers['x-github-delivery'] }}")), &warned),
        ("github", start(json!("r:{{ body.id }}")), &vec![]),
        ("shopify", signal(Value::Null), &warned),
        ("shopify", signal(json!("{{ body.id }}")), &vec![]),
        ("stripe", start(Value::Null), &vec![]),
        ("slack", signal(Value::Null), &vec![]),
        ("standard-webhooks", start(Value::Null), &vec![]),
    ] {
        let found = problems(&source(json!({ "preset": preset, "actions": [action] })));
        assert_eq!(found, *expected, "{preset} {action}");
    }
    let plain = |event_id: Value, action: Value| {
        problems(&source(json!({
            "preset": null, "signature": hmac, "eventId": event_id, "actions": [action],
        })))
    };
    assert_eq!(plain(id("x-id"), start(Value::Null)), warned);
    assert!(plain(json!({ "pointer": "/id" }), start(Value::Null)).is_empty());
    let settle = json!({ "settle": { "key": "{{ body.id }}", "value": 1 } });
    assert!(plain(id("x-id"), settle).is_empty(), "a promise is settled once");
}
