//! All problems of a document are reported at once, each with its place.

use std::collections::BTreeSet;

use hapax_documents::limits::{MAX_DOCUMENT_BYTES, MAX_STEP_NESTING, MAX_STEPS};
use hapax_documents::{Checked, DeclaredNames, Format, JudgeAddress, Problem, Severity, check, check_bytes};
use serde_json::{Value, json};

fn known() -> DeclaredNames {
    let names = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>());
    DeclaredNames { tasks: names(&["t"]), workflows: names(&["w"]), secrets: names(&["s"]), addresses: None }
}

fn judge(text: &str) -> Result<Checked, Vec<Problem>> {
    check(text, Format::Any, &known())
}

/// All problems as `code at path`.
fn problems(text: &str) -> Vec<String> {
    let problems = match judge(text) {
        Ok(checked) => checked.warnings().to_vec(),
        Err(problems) => problems,
    };
    problems.iter().map(|problem| format!("{} at {}", problem.code, problem.path)).collect()
}

fn with_steps(steps: Value) -> String {
    json!({ "name": "d", "version": 1, "steps": steps }).to_string()
}

fn with_step(step: Value) -> String {
    with_steps(json!([step]))
}

fn task(name: &str) -> Value {
    json!({ "name": name, "type": "task", "task": "t" })
}

fn extended(mut step: Value, more: Value) -> Value {
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

fn http(more: Value) -> Value {
    extended(json!({ "name": "a", "type": "http", "method": "POST", "url": "https://x/" }), more)
}

#[test]
fn all_problems_are_reported_at_once_with_path_line_and_column() {
    let text = r#"name: my workflow
version: 0
colour: red
steps:
  - name: a
    type: task
    task: unheard-of
    retry: { maxAttempts: 0, first: 5 }
  - name: a
    type: tusk
  - type: wait
    for: 0s
"#;
    let problems = judge(text).unwrap_err();
    let told: Vec<_> =
        problems.iter().map(|p| (p.code, p.path.as_str(), p.at.map(|at| (at.line, at.column)))).collect();
    assert_eq!(
        told,
        [
            ("bad_name", "/name", Some((1, 7))),
            ("out_of_range", "/version", Some((2, 10))),
            ("unknown_field", "/colour", Some((3, 9))),
            ("unknown_task", "/steps/0/task", Some((7, 11))),
            ("out_of_range", "/steps/0/retry/maxAttempts", Some((8, 27))),
            ("wrong_type", "/steps/0/retry/first", Some((8, 37))),
            ("duplicate_name", "/steps/1/name", Some((9, 11))),
            ("unknown_step_type", "/steps/1/type", Some((10, 11))),
            ("missing_field", "/steps/2/name", Some((11, 5))),
            ("bad_span", "/steps/2/for", Some((12, 10))),
        ]
    );
    let json = "{\n  \"name\": \"d\",\n  \"version\": \"1\",\n  \"steps\": [{\"name\": \"ä\", \"tpye\": \"task\"}]\n}";
    let problems = judge(json).unwrap_err();
    let told: Vec<_> =
        problems.iter().map(|p| (p.code, p.path.as_str(), p.at.map(|at| (at.line, at.column)))).collect();
    assert_eq!(
        told,
        [
            ("wrong_type", "/version", Some((3, 14))),
            ("missing_field", "/steps/0/type", Some((4, 13))),
            ("bad_name", "/steps/0/name", Some((4, 22))),
        ]
    );
    let first = judge(text).unwrap_err()[2].to_string();
    assert!(
        first.starts_with("error at 3:9 in /colour: a document has no \"colour\"; it has: name, version"),
        "{first}"
    );
}

/// RELIABILITY, definitions: unknown key, typo, wrong type, duplicate key.
#[test]
fn unknown_wrong_and_duplicate_fields_are_refused() {
    assert_eq!(
        problems(r#"{"name":"d","name":"e","version":1,"steps":[{"name":"a","type":"task","task":"t"}]}"#),
        ["duplicate_key at /name"]
    );
    assert_eq!(problems("name: d\nversion: 1\nname: e\nsteps: []"), ["duplicate_key at "]);
    let at = judge("name: d\nversion: 1\nname: e\nsteps: []").unwrap_err()[0].at.unwrap();
    assert_eq!((at.line, at.column), (3, 1));
    for (text, expected) in [
        (with_step(extended(task("a"), json!({ "retires": {} }))), "unknown_field at /steps/0/retires"),
        (with_step(extended(task("a"), json!({ "url": "x" }))), "unknown_field at /steps/0/url"),
        (
            with_step(extended(task("a"), json!({ "effect": "transactional" }))),
            "unknown_value at /steps/0/effect",
        ),
        (with_step(extended(task("a"), json!({ "retry": [] }))), "wrong_type at /steps/0/retry"),
        (
            with_step(extended(task("a"), json!({ "retry": { "max": 3 } }))),
            "unknown_field at /steps/0/retry/max",
        ),
        (
            with_step(extended(task("a"), json!({ "nonIdempotent": "yes" }))),
            "wrong_type at /steps/0/nonIdempotent",
        ),
        (
            with_step(extended(task("a"), json!({ "description": null }))),
            "wrong_type at /steps/0/description",
        ),
        (with_step(json!("a")), "wrong_type at /steps/0"),
        (with_steps(json!({})), "wrong_type at /steps"),
        ("[]".into(), "wrong_type at "),
        ("7".into(), "wrong_type at "),
        (
            json!({ "name": "d", "version": 1, "steps": [task("a")], "idempotency": "sometimes" })
                .to_string(),
            "unknown_value at /idempotency",
        ),
        (
            json!({ "name": "d", "version": 1.5, "steps": [task("a")] }).to_string(),
            "out_of_range at /version",
        ),
        (
            json!({ "name": "d", "version": 4294967296u64, "steps": [task("a")] }).to_string(),
            "out_of_range at /version",
        ),
        (
            json!({ "name": "d", "version": 1, "steps": [task("a")], "fingerprint": { "ignore": ["at"] } })
                .to_string(),
            "bad_pointer at /fingerprint/ignore",
        ),
    ] {
        assert_eq!(problems(&text), [expected], "{text}");
    }
}

/// RELIABILITY, definitions: cycles cannot be written; missing steps, self-dependency, unreachable steps, 100,000 steps, duplicate names.
#[test]
fn steps_that_cannot_be_are_found() {
    let reads = |step: &str| {
        extended(task("a"), json!({ "input": { "x": format!("{{{{ steps.{step}.output }}}}") } }))
    };
    assert_eq!(problems(&with_step(reads("ghost"))), ["unknown_step at /steps/0/input"]);
    assert_eq!(problems(&with_step(reads("a"))), ["step_not_yet_run at /steps/0/input"]);
    assert_eq!(problems(&with_steps(json!([reads("b"), task("b")]))), ["step_not_yet_run at /steps/0/input"]);
    assert!(problems(&with_steps(json!([task("b"), reads("b")]))).is_empty());
    let branches = json!([{ "name": "p", "type": "parallel", "branches": [[task("b")], [reads("b")]] }]);
    assert_eq!(problems(&with_steps(branches)), ["step_not_yet_run at /steps/0/branches/1/0/input"]);
    let after =
        json!([{ "name": "p", "type": "parallel", "branches": [[task("b")], [task("c")]] }, reads("b")]);
    assert!(problems(&with_steps(after)).is_empty());
    let inside = json!([{ "name": "f", "type": "for_each", "items": [1], "steps": [task("b")] }, reads("b")]);
    assert_eq!(problems(&with_steps(inside)), ["step_not_yet_run at /steps/1/input"]);
    let constant = extended(task("a"), json!({ "when": "1 > 2" }));
    assert_eq!(problems(&with_step(constant)), ["constant_condition at /steps/0/when"]);
    assert_eq!(problems(&with_steps(json!([]))), ["no_steps at /steps"]);
    assert_eq!(
        problems(&with_steps(json!([task("a"), task("b"), task("a")]))),
        ["duplicate_name at /steps/2/name"]
    );
    let many: Vec<Value> = (0..10_000).map(|n| task(&format!("s{n}"))).collect();
    assert_eq!(problems(&with_steps(json!(many))), [format!("too_many_steps at /steps/{MAX_STEPS}")]);
    let mut nested = task("leaf");
    for n in 0..MAX_STEP_NESTING {
        nested = json!({ "name": format!("n{n}"), "type": "parallel", "branches": [[nested]] });
    }
    assert!(problems(&with_step(nested))[0].starts_with("too_deep at "));
    let clash = json!([{ "name": "f", "type": "for_each", "items": [1], "steps": [task("b")] }, task("b.0"), task("b.x")]);
    assert_eq!(problems(&with_steps(clash)), ["ambiguous_name at /steps/1/name"]);
    let itself = json!({ "name": "a", "type": "child", "workflow": "d" });
    assert_eq!(problems(&with_step(itself)), ["self_child at /steps/0/workflow"]);
}

/// RELIABILITY, JSON: names are plain, whatever they look like.
#[test]
fn names_are_plain_and_bounded() {
    for name in ["", " ", "a b", "a/b", "é", "а", "a\u{200b}", &"n".repeat(129)] {
        assert_eq!(problems(&with_step(task(name))), ["bad_name at /steps/0/name"], "{name:?}");
    }
    for name in ["__proto__", "constructor", &"n".repeat(128)] {
        assert!(problems(&with_step(task(name))).is_empty(), "{name}");
    }
    let long = json!({ "name": "f", "type": "for_each", "items": [1], "steps": [task(&"n".repeat(128))] });
    assert_eq!(problems(&with_step(long)), ["bad_name at /steps/0/steps/0/name"]);
}

/// RELIABILITY, definitions: negative, zero and overflowing spans.
#[test]
fn spans_and_numbers_out_of_bounds_are_refused_with_the_reason() {
    for span in ["0s", "-5s", "99999999999999999999d", "5", "soon", "1.5h"] {
        let step = json!({ "name": "a", "type": "wait", "for": span });
        assert_eq!(problems(&with_step(step)), ["bad_span at /steps/0/for"], "{span}");
    }
    assert_eq!(
        problems(&with_step(json!({ "name": "a", "type": "wait", "for": 5 }))),
        ["wrong_type at /steps/0/for"]
    );
    for (more, expected) in [
        (json!({ "timeout": "0s" }), "bad_span at /steps/0/timeout"),
        (json!({ "retry": { "maxAttempts": 1001 } }), "out_of_range at /steps/0/retry/maxAttempts"),
        (json!({ "retry": { "maxAttempts": -1 } }), "out_of_range at /steps/0/retry/maxAttempts"),
        (json!({ "retry": { "factor": 0.5 } }), "out_of_range at /steps/0/retry/factor"),
        (json!({ "retry": { "first": "2m", "cap": "1m" } }), "out_of_range at /steps/0/retry/first"),
    ] {
        assert_eq!(problems(&with_step(extended(task("a"), more))), [expected]);
    }
    assert_eq!(problems(&with_step(http(json!({ "timeout": "1h" })))), ["out_of_range at /steps/0/timeout"]);
    let retention = json!({ "name": "d", "version": 1, "retention": "0d", "steps": [task("a")] }).to_string();
    assert_eq!(problems(&retention), ["bad_span at /retention"]);
}

#[test]
fn effects_that_nothing_protects_are_refused() {
    for (more, expected) in [
        (json!({ "nonIdempotent": true }), "unprotected_effect at /steps/0/nonIdempotent"),
        (json!({ "onDoubt": "fail" }), "not_claimed at /steps/0/onDoubt"),
        (
            json!({ "probe": { "method": "GET", "url": "https://x/", "happened": "response.status == 200" } }),
            "not_claimed at /steps/0/probe",
        ),
    ] {
        assert_eq!(problems(&with_step(extended(task("a"), more.clone()))), [expected]);
        let claimed = extended(extended(task("a"), more), json!({ "effect": "claimed" }));
        assert!(problems(&with_step(claimed)).is_empty());
    }
}

/// RELIABILITY, definitions: secrets inline.
#[test]
fn secrets_are_named_and_never_written_down() {
    for (headers, expected) in [
        (json!({ "Authorization": "Bearer abc" }), Some("inline_secret at /steps/0/headers/Authorization")),
        (json!({ "x-api-key": "abc" }), Some("inline_secret at /steps/0/headers/x-api-key")),
        (json!({ "Cookie": "a=b" }), Some("inline_secret at /steps/0/headers/Cookie")),
        (
            json!({ "Authorization": "Bearer {{ input.token }}" }),
            Some("secret_in_data at /steps/0/headers/Authorization"),
        ),
        (json!({ "Authorization": "Bearer secret://s" }), None),
        (
            json!({ "Authorization": "Bearer secret://other" }),
            Some("unknown_secret at /steps/0/headers/Authorization"),
        ),
        (
            json!({ "Authorization": "Bearer secret://" }),
            Some("bad_secret at /steps/0/headers/Authorization"),
        ),
        (json!({ "X-Kind": "plain" }), None),
    ] {
        let told = problems(&with_step(http(json!({ "headers": headers }))));
        assert_eq!(told, expected.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(
        problems(&with_step(http(json!({ "url": "https://user:pass@x/" })))),
        ["inline_secret at /steps/0/url"]
    );
    assert_eq!(
        problems(&with_step(http(json!({ "body": { "a": "secret://s" } })))),
        ["secret_not_here at /steps/0/body/a"]
    );
    assert_eq!(
        problems(&with_step(http(json!({ "body": { "user": { "password": "hunter2" } } })))),
        ["inline_secret at /steps/0/body/user/password"]
    );
    let warnings = judge(&with_step(http(json!({ "body": { "password": "hunter2" } })))).unwrap();
    assert_eq!(warnings.warnings()[0].severity, Severity::Warning);
    let told = format!(
        "{:?}",
        judge(&with_step(http(json!({ "headers": { "Authorization": "hunter2" } })))).unwrap_err()
    );
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn requests_are_looked_at_closely() {
    for (more, expected) in [
        (json!({ "url": "ftp://x/" }), "bad_url at /steps/0/url"),
        (json!({ "url": "/orders" }), "bad_url at /steps/0/url"),
        (json!({ "url": "" }), "bad_url at /steps/0/url"),
        (json!({ "url": "https://" }), "bad_url at /steps/0/url"),
        (json!({ "method": "post" }), "unknown_value at /steps/0/method"),
        (json!({ "method": "GET", "body": 1 }), "body_not_sent at /steps/0/body"),
        (json!({ "headers": { "Host": "x" } }), "reserved_header at /steps/0/headers/Host"),
        (
            json!({ "headers": { "Idempotency-Key": "x" } }),
            "reserved_header at /steps/0/headers/Idempotency-Key",
        ),
        (json!({ "headers": { "a b": "x" } }), "bad_header at /steps/0/headers/a b"),
        (json!({ "headers": { "a": "x\ny" } }), "bad_header at /steps/0/headers/a"),
        (json!({ "keyHeader": "" }), "bad_header at /steps/0/keyHeader"),
        (json!({ "success": ["2xx", 700] }), "unknown_value at /steps/0/success/1"),
        (json!({ "retryable": ["6xx"] }), "unknown_value at /steps/0/retryable/0"),
        (json!({ "compensate": { "type": "wait" } }), "unknown_value at /steps/0/compensate/type"),
        (
            json!({ "compensate": { "type": "task", "task": "ghost" } }),
            "unknown_task at /steps/0/compensate/task",
        ),
        (
            json!({ "compensate": { "type": "task", "task": "t", "url": "x" } }),
            "unknown_field at /steps/0/compensate/url",
        ),
        (json!({ "output": "{{ respnse.body }}" }), "unknown_variable at /steps/0/output"),
    ] {
        assert_eq!(problems(&with_step(http(more.clone()))), [expected], "{more}");
    }
}

/// Data fills a path segment or a query value. It chooses the host only where the document says so.
#[test]
fn a_host_that_data_would_choose_is_refused_unless_the_document_allows_it() {
    let told = |more: Value| problems(&with_step(http(more)));
    let secret = json!({ "Authorization": "Bearer secret://s" });
    for url in [
        "{{ input.base }}/x",
        "{{ input.url }}",
        "https://{{ input.host }}/x",
        "https://api.example.com{{ input.rest }}",
        "https://api.example.com:{{ input.port }}/x",
        "https://api{{ input.n }}.example.com/",
    ] {
        assert_eq!(told(json!({ "url": url })), ["host_from_data at /steps/0/url"], "{url}");
        assert!(told(json!({ "url": url, "hostFromData": true })).is_empty(), "{url}");
        let listed = json!(["api.example.com", "*.Example.com"]);
        assert!(told(json!({ "url": url, "hostFromData": listed, "headers": secret })).is_empty(), "{url}");
        assert_eq!(
            told(json!({ "url": url, "hostFromData": true, "headers": secret })),
            ["secret_to_any_host at /steps/0/hostFromData"],
            "{url}"
        );
    }
    for url in ["https://x/{{ input.a }}", "https://x?q={{ input.a }}", "https://x/a.{{ input.a }}..b"] {
        assert!(told(json!({ "url": url })).is_empty(), "{url}");
        assert_eq!(
            told(json!({ "url": url, "hostFromData": true })),
            ["host_is_fixed at /steps/0/url"],
            "{url}"
        );
    }
    for url in
        ["https://x/../y", "https://x/{{ input.a }}/./y", "https://x/%2E%2e/y", "https://x\\{{ input.a }}/y"]
    {
        assert!(told(json!({ "url": url })).contains(&"bad_url at /steps/0/url".to_string()), "{url}");
    }
    for (given, expected) in [
        (json!(false), "unknown_value at /steps/0/hostFromData"),
        (json!([]), "out_of_range at /steps/0/hostFromData"),
        (json!(["https://x/"]), "bad_host at /steps/0/hostFromData/0"),
        (json!(["*"]), "bad_host at /steps/0/hostFromData/0"),
        (json!("x"), "wrong_type at /steps/0/hostFromData"),
    ] {
        assert_eq!(told(json!({ "url": "{{ input.a }}", "hostFromData": given })), [expected]);
    }
    for (kept, expected) in [
        (json!(2001), &["out_of_range at /steps/0/keepResponse"][..]),
        (json!("all"), &["wrong_type at /steps/0/keepResponse"]),
        (json!(true), &[]),
        (json!(false), &[]),
        (json!(100), &[]),
    ] {
        assert_eq!(told(json!({ "keepResponse": kept })), expected, "{kept}");
    }
}

/// RELIABILITY, expressions: the check of a document reports each wrong one with its place.
#[test]
fn expressions_are_compiled_when_a_document_is_checked() {
    for (more, expected) in [
        (json!({ "when": "input.n >" }), "bad_expression at /steps/0/when"),
        (json!({ "when": "{{ input.n > 1 }}" }), "bad_expression at /steps/0/when"),
        (json!({ "when": "result.n > 1" }), "unknown_variable at /steps/0/when"),
        (json!({ "when": "item == 1" }), "unknown_variable at /steps/0/when"),
        (
            json!({ "when": format!("{}input.n{}", "(".repeat(100), ")".repeat(100)) }),
            "expression_too_deep at /steps/0/when",
        ),
        (
            json!({ "when": format!("input.n == '{}'", "x".repeat(5000)) }),
            "expression_too_large at /steps/0/when",
        ),
        (json!({ "input": { "deep": ["ok", "{{ input.n"] } }), "unclosed_template at /steps/0/input/deep/1"),
        (json!({ "input": { "{{ input.n }}": 1 } }), "template_in_key at /steps/0/input/{{ input.n }}"),
        (json!({ "output": "{{ now() }}" }), "unknown_function at /steps/0/output"),
    ] {
        assert_eq!(problems(&with_step(extended(task("a"), more.clone()))), [expected], "{more}");
    }
}

#[test]
fn waits_for_others_without_a_timeout_are_pointed_out() {
    for kind in ["signal", "approval", "promise"] {
        assert_eq!(problems(&with_step(json!({ "name": "a", "type": kind }))), ["no_timeout at /steps/0"]);
        assert!(problems(&with_step(json!({ "name": "a", "type": kind, "timeout": "1d" }))).is_empty());
    }
    for (step, expected) in [
        (
            json!({ "name": "a", "type": "approval", "timeout": "1d", "by": {} }),
            "nobody_may_decide at /steps/0/by",
        ),
        (
            json!({ "name": "a", "type": "approval", "timeout": "1d", "decisions": [] }),
            "nobody_may_decide at /steps/0/decisions",
        ),
        (
            json!({ "name": "a", "type": "approval", "timeout": "1d", "decisions": ["maybe"] }),
            "unknown_value at /steps/0/decisions/0",
        ),
        (
            json!({ "name": "a", "type": "approval", "timeout": "1d", "fields": ["x"] }),
            "fields_without_edit at /steps/0/fields",
        ),
        (
            json!({ "name": "a", "type": "signal", "timeout": "1d", "signal": "approval.b" }),
            "reserved_name at /steps/0",
        ),
        (
            json!({ "name": "a", "type": "promise", "timeout": "1d", "keyTtl": "1d" }),
            "key_not_used at /steps/0/keyTtl",
        ),
        (json!({ "name": "a", "type": "wait" }), "missing_field at /steps/0"),
        (
            json!({ "name": "a", "type": "wait", "for": "1s", "until": "{{ input.at }}" }),
            "for_and_until at /steps/0/until",
        ),
        (
            json!({ "name": "a", "type": "wait", "until": "2030-02-31T00:00:00Z" }),
            "bad_time at /steps/0/until",
        ),
        (
            json!({ "name": "a", "type": "child", "workflow": "ghost" }),
            "unknown_workflow at /steps/0/workflow",
        ),
        (json!({ "name": "a", "type": "parallel", "branches": [] }), "out_of_range at /steps/0/branches"),
        (json!({ "name": "a", "type": "parallel", "branches": [[]] }), "no_steps at /steps/0/branches/0"),
        (
            json!({ "name": "a", "type": "for_each", "items": 7, "steps": [task("b")] }),
            "wrong_type at /steps/0/items",
        ),
        (
            json!({ "name": "a", "type": "for_each", "items": [], "steps": [task("b")], "concurrency": 65 }),
            "out_of_range at /steps/0/concurrency",
        ),
        (
            json!({ "name": "a", "type": "for_each", "items": [], "steps": [task("b")], "maxItems": 0 }),
            "out_of_range at /steps/0/maxItems",
        ),
    ] {
        assert_eq!(problems(&with_step(step.clone())), [expected], "{step}");
    }
}

/// RELIABILITY, definitions: CRLF and BOM are fine; empty, not UTF-8, too large, too deep, bombs and several documents are not.
#[test]
fn texts_that_are_no_document_are_refused_clearly() {
    let good = with_step(task("a"));
    assert!(judge(&format!("\u{feff}{good}")).is_ok());
    assert!(
        judge("name: d\r\nversion: 1\r\nsteps:\r\n  - name: a\r\n    type: task\r\n    task: t\r\n").is_ok()
    );
    let code = |text: &str| judge(text).unwrap_err()[0].code;
    assert_eq!(code(""), "empty");
    assert_eq!(code(" \n "), "empty");
    assert_eq!(check_bytes(b"{\"name\": \"\xff\"}", Format::Any, &known()).unwrap_err()[0].code, "not_utf8");
    assert_eq!(code(&format!("{{\"x\": \"{}\"}}", "x".repeat(MAX_DOCUMENT_BYTES))), "too_large");
    assert_eq!(code(&format!("{{\"x\": {}1{}}}", "[".repeat(100), "]".repeat(100))), "too_deep");
    assert_eq!(code(&format!("{{\"x\": {}", "[".repeat(100_000))), "syntax");
    assert!(["too_large", "syntax"].contains(&code(&format!("x: {}1{}", "[".repeat(100), "]".repeat(100)))));
    assert!(["too_large", "syntax"].contains(&code(&format!("x: {}", "[".repeat(100_000)))));
    assert_eq!(code(&format!("{{\"x\": [{}1]}}", "1,".repeat(60_000))), "too_large");
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
    }
    assert!(["too_large", "syntax"].contains(&code(&bomb)));
    assert_eq!(code("{\"name\": 1,}"), "syntax");
    assert_eq!(code("{\"name\": 1} trailing"), "syntax");
    assert_eq!(code("{\"name\": 1e999}"), "number");
    for nul in ["{\"name\": \"a\\u0000b\"}", "name: \"a\\0b\""] {
        assert!(
            judge(nul).unwrap_err().iter().any(|problem| problem.code == "nul" && problem.path == "/name"),
            "{nul}"
        );
    }
    assert_eq!(code("name: d\n--- \nname: e\n"), "syntax");
    assert_eq!(code("name: .nan"), "syntax");
    assert_eq!(code("name: !!python/object x"), "syntax");
    assert_eq!(code("base: &b {a: 1}\nname:\n  <<: *b\n"), "syntax");
    assert_eq!(code("name: [unclosed"), "syntax");
    let at = judge("name: d\nversion: [1\n").unwrap_err()[0].at;
    assert!(at.is_some(), "a syntax error has its place");
}

#[test]
fn thousands_of_problems_are_counted_and_not_listed() {
    let fields: serde_json::Map<String, Value> = (0..5_000).map(|n| (format!("f{n}"), json!(1))).collect();
    let problems = judge(&Value::Object(fields).to_string()).unwrap_err();
    assert_eq!(problems.len(), 201);
    assert_eq!(problems.last().unwrap().code, "too_many_problems");
}

/// RELIABILITY, definitions: the canonical text shows whether two documents of one name and version differ in content
/// or only in form.
#[test]
fn documents_with_the_same_meaning_are_equal_in_any_form() {
    let json = r#"{"version":1,"name":"d","steps":[{"type":"task","name":"a","task":"t","timeout":"90s","retry":{"factor":2.0}}],"idempotency":"optional"}"#;
    let yaml = "# a comment\nname: d\nversion: 1\nsteps:\n- {name: a, task: t, type: task, retry: {factor: 2}, timeout: 1m30s, effect: idempotent}\n";
    let (one, other) = (judge(json).unwrap(), judge(yaml).unwrap());
    assert_eq!(one.canonical(), other.canonical());
    assert_ne!(one.canonical(), judge(&json.replace("90s", "91s")).unwrap().canonical());
    assert_eq!(judge(one.canonical()).unwrap().canonical(), one.canonical());
}

/// RELIABILITY, SSRF: fixed addresses are checked with the document, and computed addresses when the request is sent.
#[test]
fn a_forbidden_address_is_reported_wherever_it_is() {
    let judge = JudgeAddress::new(|url| match url.contains("inside") {
        true => Err(format!("{url} is ours")),
        false => Ok(()),
    });
    let known = DeclaredNames { addresses: Some(judge), ..known() };
    let told = |text: &str| match check(text, Format::Any, &known) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|found| format!("{} at {}", found.code, found.path)).collect(),
    };
    for (open, more) in [
        ("https://x/", json!({})),
        ("https://x/{{ input.inside }}", json!({})),
        ("https://inside{{ input.a }}/", json!({ "hostFromData": true })),
        ("{{ input.inside }}", json!({ "hostFromData": true })),
    ] {
        let step = extended(http(json!({ "url": open })), more);
        assert_eq!(told(&with_step(step)), Vec::<String>::new(), "{open}");
    }
    for closed in [
        "https://inside",
        "http://inside/a",
        "https://inside/{{ input.a }}",
        "https://inside?a={{ input.a }}",
    ] {
        let problems = told(&with_step(http(json!({ "url": closed }))));
        assert_eq!(problems, ["address_not_allowed at /steps/0/url"], "{closed}");
    }
    let request = json!({ "method": "GET", "url": "https://inside/" });
    let deep = http(json!({
        "effect": "claimed", "probe": extended(request.clone(), json!({ "happened": "true" })),
        "compensate": extended(request, json!({ "type": "http" })),
    }));
    let nested = json!([{ "name": "p", "type": "parallel", "branches": [[deep]] }]);
    assert_eq!(
        told(&with_steps(nested)),
        [
            "address_not_allowed at /steps/0/branches/0/0/compensate/url",
            "address_not_allowed at /steps/0/branches/0/0/probe/url"
        ]
    );
}

#[test]
fn problems_are_written_as_json_for_those_who_show_them() {
    let problems = judge("name: d\nversion: 0\nsteps: []").unwrap_err();
    assert_eq!(
        serde_json::to_value(&problems[0]).unwrap(),
        json!({ "severity": "error", "path": "/version", "code": "out_of_range", "line": 2, "column": 10,
            "message": "it must be a whole number from 1 to 4294967295" })
    );
}
