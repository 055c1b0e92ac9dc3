//! Random documents: a checked document, written in canonical form and checked again, is the same document. No text
//! makes the checks panic.

use hapax_documents::{DeclaredNames, Format, check};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn span() -> impl Strategy<Value = Value> {
    (1u32..500, prop_oneof![Just("ms"), Just("s"), Just("m"), Just("h")])
        .prop_map(|(n, unit)| json!(format!("{n}{unit}")))
}

fn template() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9f64..1e9).prop_map(Value::from),
        "[a-zA-Z äöß.:,-]{0,20}".prop_map(Value::from),
        "[a-z]{1,8}".prop_map(|name| json!(format!("{{{{ input.{name}x }}}}"))),
        "[a-z]{1,8}".prop_map(|name| json!(format!("to {{{{ state.?{name}x.orValue('') }}}}!"))),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn condition() -> impl Strategy<Value = Value> {
    ("[a-z]{1,6}", 0u32..9).prop_map(|(name, n)| json!(format!("input.{name}x > {n} || has(state.{name}x)")))
}

/// Optional fields.
fn maybe(
    name: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<Map<String, Value>> {
    option::of(value)
        .prop_map(move |value| value.into_iter().map(|value| (name.to_string(), value)).collect())
        .boxed()
}

fn together(parts: Vec<BoxedStrategy<Map<String, Value>>>) -> BoxedStrategy<Map<String, Value>> {
    parts.prop_map(|maps| maps.into_iter().flatten().collect()).boxed()
}

fn fixed(fields: Value) -> BoxedStrategy<Map<String, Value>> {
    Just(fields.as_object().unwrap().clone()).boxed()
}

fn request() -> BoxedStrategy<Map<String, Value>> {
    together(vec![
        fixed(json!({ "method": "POST", "url": "https://x.example/{{ input.idx }}/y" })),
        maybe("headers", Just(json!({ "Authorization": "Bearer secret://a", "X-B": "b {{ input.bx }}" }))),
        maybe("body", template()),
        maybe("keyHeader", Just(json!("X-Key"))),
        maybe(
            "success",
            vec(prop_oneof![(200u16..300).prop_map(Value::from), Just(json!("3xx"))], 0..3)
                .prop_map(Value::Array),
        ),
        maybe("retryable", Just(json!([429, "5xx"]))),
    ])
}

fn effect() -> BoxedStrategy<Map<String, Value>> {
    let probe = together(vec![
        request(),
        fixed(json!({ "happened": "response.status == 200" })),
        maybe("output", template()),
    ]);
    let undo =
        together(vec![request(), fixed(json!({ "type": "http" })), maybe("timeout", Just(json!("9s")))]);
    let retry = together(vec![
        maybe("for", Just(json!("2h"))),
        maybe("maxAttempts", (1u32..9).prop_map(Value::from)),
        maybe("first", Just(json!("2s"))),
        maybe("factor", (1u32..9).prop_map(Value::from)),
    ]);
    let claimed = together(vec![
        fixed(json!({ "effect": "claimed" })),
        maybe("onDoubt", prop_oneof![Just(json!("hold")), Just(json!("retry")), Just(json!("fail"))]),
        maybe("nonIdempotent", any::<bool>().prop_map(Value::from)),
        maybe("probe", probe.prop_map(Value::Object)),
    ]);
    let class = prop_oneof![fixed(json!({})), fixed(json!({ "effect": "idempotent" })), claimed].boxed();
    together(vec![
        class,
        maybe("retry", retry.prop_map(Value::Object)),
        maybe("onExhausted", prop_oneof![Just(json!("fail")), Just(json!("pause"))]),
        maybe("timeout", Just(json!("90s"))),
        maybe(
            "compensate",
            prop_oneof![undo.prop_map(Value::Object), Just(json!({ "type": "task", "task": "u" }))],
        ),
    ])
}

fn kind() -> BoxedStrategy<Map<String, Value>> {
    let typed = |kind: &str, more: Vec<BoxedStrategy<Map<String, Value>>>| {
        together([fixed(json!({ "type": kind }))].into_iter().chain(more).collect())
    };
    prop_oneof![
        typed("task", vec![fixed(json!({ "task": "t" })), maybe("input", template()), effect()]),
        typed("http", vec![request(), effect()]),
        typed("wait", vec![span().prop_map(|span| Map::from_iter([("for".to_string(), span)])).boxed()]),
        typed("wait", vec![fixed(json!({ "until": "{{ input.at }}" }))]),
        typed(
            "promise",
            vec![
                maybe("timeout", span()),
                maybe("key", Just(json!("stripe:{{ input.id }}"))),
                maybe("keyTtl", span()),
            ],
        ),
        typed("signal", vec![maybe("timeout", span()), maybe("signal", Just(json!("go")))]),
        typed(
            "approval",
            vec![
                maybe("by", Just(json!({ "roles": ["manager"] }))),
                maybe("decisions", Just(json!(["edit", "approve"]))),
                maybe("show", template()),
                maybe("onReject", prop_oneof![Just(json!("fail")), Just(json!("continue"))]),
                maybe("timeout", span()),
            ]
        ),
        typed(
            "child",
            vec![
                fixed(json!({ "workflow": "w" })),
                maybe("input", template()),
                maybe("onClose", Just(json!("abandon")))
            ]
        ),
    ]
    .boxed()
}

/// Nested steps; they get unique names later.
fn step() -> BoxedStrategy<Value> {
    let common = || {
        together(vec![
            maybe("when", condition()),
            maybe("output", template()),
            maybe("description", Just(json!("why"))),
        ])
    };
    let leaf =
        (common(), kind()).prop_map(|(common, kind)| Value::Object(common.into_iter().chain(kind).collect()));
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let steps = || vec(inner.clone(), 1..3);
        prop_oneof![
            (condition(), steps(), option::of(steps())).prop_map(|(condition, then, otherwise)| {
                let mut step = json!({ "type": "condition", "if": condition, "then": then });
                if let Some(otherwise) = otherwise {
                    step["else"] = json!(otherwise);
                }
                step
            }),
            vec(steps(), 1..3).prop_map(|branches| json!({ "type": "parallel", "branches": branches })),
            (steps(), option::of(1u32..64)).prop_map(|(steps, concurrency)| {
                let mut step = json!({ "type": "for_each", "items": "{{ input.items }}", "steps": steps });
                if let Some(concurrency) = concurrency {
                    step["concurrency"] = json!(concurrency);
                }
                step
            }),
        ]
    })
    .boxed()
}

fn name_steps(value: &mut Value, next: &mut u32) {
    match value {
        Value::Object(fields) => {
            let kinds = [
                "task",
                "http",
                "wait",
                "promise",
                "signal",
                "approval",
                "child",
                "condition",
                "parallel",
                "for_each",
            ];
            let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
            if kinds.contains(&kind) {
                *next += 1;
                fields.insert("name".to_string(), json!(format!("step-{next}")));
            }
            for key in ["then", "else", "branches", "steps"] {
                if let Some(inner) = fields.get_mut(key) {
                    name_steps(inner, next);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| name_steps(item, next)),
        _ => {}
    }
}

fn document() -> impl Strategy<Value = Value> {
    let about = together(vec![
        maybe("idempotency", prop_oneof![Just(json!("required")), Just(json!("optional"))]),
        maybe("retention", span()),
        maybe("onFailure", prop_oneof![Just(json!("release")), Just(json!("keep"))]),
        maybe("fingerprint", Just(json!({ "ignore": ["/at"] }))),
        maybe("output", template()),
    ]);
    (about, 1u32..9, vec(step(), 1..5)).prop_map(|(about, version, steps)| {
        let mut document = json!({ "name": "random", "version": version, "steps": steps });
        name_steps(&mut document["steps"], &mut 0);
        document.as_object_mut().unwrap().extend(about);
        document
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_document_is_the_same_in_its_canonical_form(document in document()) {
        let text = document.to_string();
        let first = check(&text, Format::Json, &DeclaredNames::default());
        let first = first.unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"));
        let second = check(first.canonical(), Format::Json, &DeclaredNames::default()).unwrap();
        prop_assert_eq!(first.document(), second.document());
        prop_assert_eq!(first.canonical(), second.canonical());
        // JSON is also YAML.
        let third = check(&text, Format::Yaml, &DeclaredNames::default()).unwrap();
        prop_assert_eq!(first.document(), third.document());
    }

    #[test]
    fn no_text_makes_the_checks_panic(text in "\\PC{0,200}", json in template()) {
        for format in [Format::Any, Format::Json, Format::Yaml] {
            let _ = check(&text, format, &DeclaredNames::default());
            let _ = check(&json.to_string(), format, &DeclaredNames::default());
            let wrapped = json!({ "name": text.clone(), "version": json.clone(), "steps": [json.clone(), { "type": "task", "when": text.clone(), "input": text.clone() }] });
            let _ = check(&wrapped.to_string(), format, &DeclaredNames::default());
        }
    }
}
