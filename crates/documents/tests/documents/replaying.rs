//! Random documents, run once without and once with crashes: both runs end the same way, and no step runs more often
//! than allowed.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Running, World, checked};
use hapax_documents::Checked;
use hapax_engine::model::RunStatus;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Steps that need no external action; they get names later.
fn step() -> BoxedStrategy<Value> {
    let condition = || {
        prop_oneof![
            Just("input.n > 3"),
            Just("size(state) > 2"),
            Just("has(state.a)"),
            Just("input.n == 1 || has(state.b)")
        ]
    };
    let leaf = prop_oneof![
        ("[abc]", any::<bool>()).prop_map(|(key, claimed)| {
            let effect = if claimed { "claimed" } else { "idempotent" };
            json!({ "type": "task", "task": "t", "input": { (key): "{{ size(state) + input.n }}" }, "effect": effect })
        }),
        "[abc]".prop_map(|key| json!({ "type": "http", "method": "POST", "url": "https://x/", "output": { (key): "{{ response.status }}" } })),
        (1u32..5).prop_map(|n| json!({ "type": "wait", "for": format!("{n}s") })),
        ("[abc]", condition()).prop_map(|(key, when)| json!({ "type": "task", "task": "t", "when": when, "input": { (key): 1 } })),
    ];
    leaf.prop_recursive(3, 16, 3, move |inner| {
        let steps = || vec(inner.clone(), 1..4);
        prop_oneof![
            (condition(), steps(), steps()).prop_map(|(condition, then, otherwise)| {
                json!({ "type": "condition", "if": condition, "then": then, "else": otherwise })
            }),
            vec(steps(), 1..4).prop_map(|branches| json!({ "type": "parallel", "branches": branches })),
            (steps(), 1u32..4, 0usize..5).prop_map(|(steps, concurrency, items)| {
                let items: Vec<usize> = (0..items).collect();
                json!({ "type": "for_each", "items": items, "concurrency": concurrency, "steps": steps, "output": { "c": "{{ result }}" } })
            }),
        ]
    })
    .boxed()
}

fn name_steps(value: &mut Value, next: &mut u32) {
    match value {
        Value::Object(fields) => {
            *next += 1;
            fields.insert("name".to_string(), json!(format!("s{next}")));
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

fn document() -> impl Strategy<Value = Arc<Checked>> {
    vec(step(), 1..5).prop_map(|mut steps| {
        steps.iter_mut().fold(0, |mut next, step| {
            name_steps(step, &mut next);
            next
        });
        checked(&json!({ "name": "random", "version": 1, "steps": steps }).to_string())
    })
}

async fn in_peace(document: Arc<Checked>, n: u32) -> (Value, usize) {
    let world = World::default();
    let running = Running::start(document, world.echo(), json!({ "n": n })).await;
    let output = running.output().await;
    running.check().await;
    (output, world.asked().len())
}

async fn with_crashes(document: Arc<Checked>, n: u32, crashes: &[u8]) -> Option<(Value, usize)> {
    let world = World::default();
    let mut running = Running::start(document, world.echo(), json!({ "n": n })).await;
    for turns in crashes {
        for _ in 0..*turns {
            tokio::task::yield_now().await;
        }
        running.lab.advance(Duration::from_millis(700)).await;
        for _ in 0..*turns {
            tokio::task::yield_now().await;
        }
        running.lab.crash();
        hapax_documents::register(running.lab.engine(), running.document.clone(), running.services.clone())
            .unwrap();
    }
    let status = running.settle().await;
    running.check().await;
    if !running.lab.engine().list_doubts(None, 1).await.unwrap().doubts.is_empty() {
        return None;
    }
    assert_eq!(status, RunStatus::Completed, "{:?}", running.failure().await);
    Some((running.run.result().await.unwrap(), world.asked().len()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// S0.35, S0.37, invariant 29: the records lead a replay the same way.
    #[test]
    fn crashes_do_not_change_the_outcome_of_a_document(document in document(), n in 0u32..6, crashes in vec(0u8..40, 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (output, asked) = in_peace(document.clone(), n).await;
            // A step in doubt waits for people.
            if let Some((after, asked_after)) = with_crashes(document, n, &crashes).await {
                assert_eq!(after, output);
                assert!(asked_after >= asked && asked_after <= asked + crashes.len() * 16, "{asked_after} for {asked}");
            }
        });
    }
}
