//! The `input:` schema of a document: checked with the document, and applied to the input of every run before anything
//! is stored.

use crate::support::{World, checked};
use hapax_documents::limits::{
    MAX_INPUT_PROBLEMS, MAX_INPUT_SCHEMA_BYTES, MAX_INPUT_SCHEMA_DEPTH, MAX_INPUT_SCHEMA_SCHEMAS,
};
use hapax_documents::{Checked, DeclaredNames, Format, Problem, check, register};
use hapax_engine::Error;
use hapax_engine::model::{RunStatus, StepStatus};
use hapax_engine::runtime::InputProblem;
use hapax_engine::store::ListRuns;
use hapax_engine::testing::TestEnvironment;
use serde_json::{Value, json};

fn document(version: u32, input: Value) -> String {
    let steps = json!([{ "name": "note", "type": "task", "task": "echo" }]);
    json!({ "name": "order", "version": version, "input": input, "steps": steps }).to_string()
}

fn judge(input: Value) -> Result<Checked, Vec<Problem>> {
    check(&document(1, input), Format::Json, &DeclaredNames::default())
}

/// All problems as `code at path`.
fn problems(input: Value) -> Vec<String> {
    let problems = match judge(input) {
        Ok(checked) => checked.warnings().to_vec(),
        Err(problems) => problems,
    };
    problems.iter().map(|problem| format!("{} at {}", problem.code, problem.path)).collect()
}

fn order_schema() -> Value {
    json!({
        "type": "object",
        "required": ["customer", "lines"],
        "additionalProperties": false,
        "properties": {
            "customer": { "$ref": "#/$defs/customer" },
            "lines": {
                "type": "array",
                "minItems": 1,
                "items": { "type": "object", "properties": { "cents": { "type": "integer", "minimum": 1 } } },
            },
            "note": { "type": ["string", "null"], "maxLength": 5, "pattern": "^[a-z]*$" },
            "speed": { "enum": ["slow", "fast"] },
        },
        "$defs": { "customer": {
            "type": "object",
            "required": ["email"],
            "properties": { "email": { "type": "string", "format": "email" } },
        } },
    })
}

fn all_runs() -> ListRuns {
    ListRuns {
        workspace: None,
        statuses: vec![],
        workflow: None,
        filter: Default::default(),
        before: None,
        limit: 100,
    }
}

async fn started(input: &Value) -> Result<(), Vec<InputProblem>> {
    let lab = TestEnvironment::new();
    register(lab.engine(), checked(&document(1, order_schema())), World::default().echo()).unwrap();
    match lab.engine().start("order", input).idempotency_key("k").await {
        Ok(_) => Ok(()),
        Err(Error::InputRefused { workflow, problems }) => {
            assert_eq!(workflow, "order@1");
            let runs = lab.engine().list(all_runs()).await.unwrap();
            assert!(runs.runs.is_empty(), "a refused start stores no run");
            Err(problems)
        }
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_wrong_input_is_refused_with_a_pointer_to_each_wrong_value() {
    let good = json!({ "customer": { "email": "a@b.example" }, "lines": [{ "cents": 5 }], "note": null });
    assert_eq!(started(&good).await, Ok(()));

    let wrong = json!({
        "customer": { "email": "nobody" },
        "lines": [{ "cents": 5 }, { "cents": 0 }, { "cents": "many" }],
        "note": "MUCH TOO LONG",
        "speed": "warp",
        "a/b": 1,
    });
    let mut found: Vec<String> = started(&wrong)
        .await
        .unwrap_err()
        .into_iter()
        .map(|problem| format!("{} [{}] {}", problem.path, problem.rule, problem.message))
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            "/a~1b [additionalProperties] is not a field of the input schema",
            "/customer/email [format] must be a valid email",
            "/lines/1/cents [minimum] must be at least 1",
            "/lines/2/cents [type] must be a whole number, but is a string",
            "/note [maxLength] must have at most 5 character(s)",
            "/note [pattern] must match the pattern ^[a-z]*$",
            "/speed [enum] must be one of \"slow\", \"fast\"",
        ]
    );

    let missing = started(&json!({ "customer": {} })).await.unwrap_err();
    let mut paths: Vec<&str> = missing.iter().map(|problem| problem.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/customer/email", "/lines"], "a missing value has the pointer it would have");
}

#[tokio::test]
async fn an_input_that_is_no_object_is_refused_even_without_a_schema() {
    let lab = TestEnvironment::new();
    let text =
        json!({ "name": "plain", "version": 1, "steps": [{ "name": "a", "type": "task", "task": "t" }] });
    register(lab.engine(), checked(&text.to_string()), World::default().echo()).unwrap();
    let refused = lab.engine().start("plain", &json!([1, 2])).await.unwrap_err();
    assert!(matches!(refused, Error::InputRefused { .. }), "{refused}");
    assert!(refused.to_string().contains("the input must be an object"), "{refused}");
    lab.engine().start("plain", &json!({})).await.unwrap();
}

/// The key is free after a refusal, and a repeated start finds its run although a newer version would refuse the input.
#[tokio::test]
async fn a_refused_start_takes_no_key_and_a_repeated_one_finds_its_run() {
    let lab = TestEnvironment::new();
    let services = World::default().echo();
    let needs = |field: &str| json!({ "type": "object", "required": [field] });
    register(lab.engine(), checked(&document(1, needs("a"))), services.clone()).unwrap();
    let start = |input: Value| lab.engine().start("order", &input).idempotency_key("k").into_future();

    assert!(matches!(start(json!({})).await, Err(Error::InputRefused { .. })));
    let first = start(json!({ "a": 1 })).await.unwrap();
    assert!(first.created, "the refused start left the key free");

    register(lab.engine(), checked(&document(2, needs("b"))), services).unwrap();
    let again = start(json!({ "a": 1 })).await.unwrap();
    assert_eq!((again.id(), again.created), (first.id(), false));
    assert!(
        matches!(start(json!({ "a": 2 })).await, Err(Error::KeyConflict { run, .. }) if run == first.id())
    );
    let other = lab.engine().start("order", &json!({ "a": 1 })).idempotency_key("other").await;
    assert!(matches!(other, Err(Error::InputRefused { .. })), "a new start is held to the new version");
}

#[tokio::test]
async fn a_child_with_a_wrong_input_fails_its_step_and_starts_nothing() {
    let lab = TestEnvironment::new();
    let services = World::default().echo();
    let parent = json!({ "name": "parent", "version": 1, "steps": [
        { "name": "ship", "type": "child", "workflow": "order", "input": { "lines": [] } },
    ] });
    register(lab.engine(), checked(&document(1, order_schema())), services.clone()).unwrap();
    register(lab.engine(), checked(&parent.to_string()), services).unwrap();
    let run = lab.engine().start("parent", &json!({})).await.unwrap();
    assert_eq!(lab.settle(run.id()).await.unwrap(), RunStatus::Failed);
    let log = lab.engine().get_log(run.id()).await.unwrap();
    assert_eq!(log.steps[0].state.status(), StepStatus::Failed);
    let failure = run.result::<Value>().await.unwrap_err().to_string();
    assert!(failure.contains("/customer is missing"), "{failure}");
    let runs = lab.engine().list(all_runs()).await.unwrap();
    assert_eq!(runs.runs.len(), 1, "only the parent is stored");
}

#[test]
fn a_wrong_schema_is_refused_with_its_place() {
    assert_eq!(problems(json!("object")), ["wrong_type at /input"]);
    assert_eq!(problems(json!({ "type": "string" })), ["bad_schema at /input/type"]);
    assert_eq!(
        problems(json!({ "properties": { "n": { "type": "nubmer" } } })),
        ["bad_schema at /input/properties/n/type"]
    );
    assert_eq!(
        problems(json!({ "properties": { "n": { "minimum": "1" } }, "required": "n" })),
        ["bad_schema at /input/properties/n/minimum", "bad_schema at /input/required"]
    );
    assert_eq!(
        problems(json!({ "properties": { "n": { "minLenght": 1 } } })),
        ["unknown_keyword at /input/properties/n/minLenght"]
    );
    assert_eq!(
        problems(json!({ "properties": { "n": { "format": "colour" } } })),
        ["unknown_format at /input/properties/n/format"]
    );
    assert_eq!(
        problems(json!({ "$schema": "http://json-schema.org/draft-07/schema#" })),
        ["bad_schema at /input/$schema"]
    );
    assert_eq!(problems(json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" })), [""; 0]);
    assert_eq!(problems(json!({ "definitions": {} })), ["bad_schema at /input/definitions"]);
}

#[test]
fn a_pattern_that_cannot_be_matched_in_linear_time_is_refused() {
    for pattern in ["(", "(?=a)b", "(a)\\1", "((a{1000}){1000}){1000}"] {
        let found = problems(json!({ "properties": { "n": { "pattern": pattern } } }));
        assert_eq!(found.len(), 1, "{pattern}: {found:?}");
        assert!(found[0].starts_with("bad_schema at /input"), "{pattern}: {found:?}");
    }
    assert_eq!(problems(json!({ "properties": { "n": { "pattern": "^(a+)+$" } } })), [""; 0]);
    let checked = judge(json!({ "properties": { "n": { "pattern": "^(a+)+$" } } })).unwrap();
    let schema = checked.document().input.as_ref().unwrap();
    assert!(
        schema.check(&json!({ "n": format!("{}!", "a".repeat(100_000)) })).is_err(),
        "and it ends at once"
    );
}

#[test]
fn references_stay_inside_the_schema() {
    for outside in ["https://example.com/a.json", "other.json", "file:///etc/passwd", "urn:x"] {
        assert_eq!(
            problems(json!({ "properties": { "a": { "$ref": outside } } })),
            ["external_ref at /input/properties/a/$ref"]
        );
    }
    assert_eq!(problems(json!({ "$ref": "#/$defs/none" })), ["unknown_ref at /input/$ref"]);
    assert_eq!(problems(json!({ "$ref": "#name" })), ["unknown_ref at /input/$ref"]);
    assert_eq!(
        problems(json!({ "$id": "https://x.example/", "$anchor": "a" })),
        ["bad_schema at /input/$anchor", "bad_schema at /input/$id"]
    );
}

#[test]
fn a_schema_that_could_cost_without_bound_is_refused() {
    assert_eq!(problems(json!({ "$ref": "#" })), ["recursive_schema at /input/$ref"]);
    let tree = json!({ "properties": { "child": { "$ref": "#" } } });
    assert_eq!(problems(tree), ["recursive_schema at /input/properties/child/$ref"]);
    let two = json!({ "$ref": "#/$defs/a", "$defs": {
        "a": { "properties": { "b": { "$ref": "#/$defs/b" } } },
        "b": { "properties": { "a": { "$ref": "#/$defs/a" } } },
    } });
    assert!(problems(two).iter().all(|problem| problem.starts_with("recursive_schema at /input/$defs/")));

    let large = json!({ "description": "x".repeat(MAX_INPUT_SCHEMA_BYTES) });
    assert_eq!(problems(large), ["too_large at /input"]);

    let mut nested = json!({ "type": "string" });
    for _ in 0..MAX_INPUT_SCHEMA_DEPTH {
        nested = json!({ "not": nested });
    }
    assert!(problems(nested)[0].starts_with("too_deep at /input/not/not"));

    // Each definition applies the one before it twice: 2 to the 14 schemas in a few lines.
    let mut defs = serde_json::Map::from_iter([("d0".to_string(), json!({ "type": "object" }))]);
    for n in 1..=14 {
        let before = json!({ "$ref": format!("#/$defs/d{}", n - 1) });
        defs.insert(format!("d{n}"), json!({ "allOf": [before, before] }));
    }
    let doubled = problems(json!({ "$ref": "#/$defs/d14", "$defs": defs }));
    assert_eq!(doubled, ["too_large at /input"], "more than {MAX_INPUT_SCHEMA_SCHEMAS} schemas");
}

#[test]
fn an_input_with_very_many_problems_gets_some_of_them() {
    let checked = judge(json!({ "properties": { "all": { "items": { "type": "string" } } } })).unwrap();
    let many: Vec<u32> = (0..10_000).collect();
    let found = checked.document().input.as_ref().unwrap().check(&json!({ "all": many })).unwrap_err();
    assert_eq!(found.len(), MAX_INPUT_PROBLEMS);
}

/// A problem never repeats the input, which may be large or secret.
#[test]
fn a_problem_does_not_repeat_the_value() {
    let checked =
        judge(json!({ "properties": { "card": { "type": "integer" }, "n": { "const": 1 } } })).unwrap();
    let schema = checked.document().input.as_ref().unwrap();
    let found = schema.check(&json!({ "card": "4242-4242", "n": "hunter2" })).unwrap_err();
    let told = format!("{found:?}");
    assert!(!told.contains("4242") && !told.contains("hunter2"), "{told}");
}

/// The schema is part of the document, so it is part of the comparison of two versions.
#[test]
fn the_schema_is_part_of_the_canonical_document() {
    let checked = judge(order_schema()).unwrap();
    let canonical: Value = serde_json::from_str(checked.canonical()).unwrap();
    assert_eq!(canonical["input"], order_schema());
    assert_ne!(checked.canonical(), judge(json!({})).unwrap().canonical());
}
