//! One workspace floods the server with expensive expressions, and the others continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_documents::{evaluate_fairly, register};
use hapax_engine::Engine;
use hapax_engine::clock::SystemClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{RunStatus, WorkspaceId};
use serde_json::{Value, json};

use crate::support::{Running, World, checked, steps};

/// A nested loop, close to the limit of one expression.
const EXPENSIVE: &str = "{{ size(input.list.map(x, size(input.list.map(y, x + y)))) }}";

fn workspace(name: &str) -> WorkspaceId {
    WorkspaceId::new(name).unwrap()
}

fn list(items: usize) -> Value {
    json!({ "list": (0..items).collect::<Vec<_>>() })
}

/// With one worker thread, an evaluation on it stops everything else. The cheap run is started last and ends while the
/// expensive ones are still running.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cheap_run_ends_while_another_workspace_floods_the_evaluator() {
    const FLOOD: usize = 40;
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let engine = Engine::launch(store, Arc::new(SystemClock::new()), Default::default()).unwrap();
    let world = World::default();
    let flood = checked(
        &json!({ "name": "flood", "version": 1, "steps": [
            { "name": "a", "type": "task", "task": "t", "input": { "n": EXPENSIVE } },
        ] })
        .to_string(),
    );
    let cheap = checked(
        &json!({ "name": "cheap", "version": 1, "steps": [
            { "name": "a", "type": "task", "task": "t", "input": { "n": "{{ input.n + 1 }}" } },
        ] })
        .to_string(),
    );
    register(&engine, flood, world.echo()).unwrap();
    register(&engine, cheap, world.echo()).unwrap();
    let (loud, quiet) = (engine.workspace(workspace("loud")), engine.workspace(workspace("quiet")));
    let input = list(150);
    let mut flooding = Vec::new();
    for _ in 0..FLOOD {
        flooding.push(loud.start("flood", &input).await.unwrap());
    }
    let ended: Arc<AtomicUsize> = Arc::default();
    let mut waiting = Vec::new();
    for run in flooding {
        let ended = ended.clone();
        waiting.push(tokio::spawn(async move {
            let outcome = run.result::<Value>().await;
            ended.fetch_add(1, Ordering::SeqCst);
            outcome
        }));
    }
    let run = quiet.start("cheap", &json!({ "n": 1 })).await.unwrap();
    assert_eq!(run.result::<Value>().await.unwrap(), json!({ "n": 2 }));
    let before = ended.load(Ordering::SeqCst);
    assert!(before < FLOOD / 2, "{before} of {FLOOD} expensive runs went first");
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().unwrap(), json!({ "n": 150 }), "each of them ends in its turn");
    }
}

/// An evaluation that waits for its turn replays the same way, even next to branches that wait for signals or timers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expensive_expressions_of_a_workflow_replay_as_they_went() {
    let world = World::default();
    let condition = EXPENSIVE.trim_matches(['{', '}', ' ']);
    let document = steps(json!([
        { "name": "p", "type": "parallel", "branches": [
            [{ "name": "if", "type": "condition", "if": format!("{condition} == 100"),
               "then": [{ "name": "a", "type": "task", "task": "t", "when": format!("{condition} > 1"), "input": { "a": EXPENSIVE } }] }],
            [{ "name": "w", "type": "wait", "for": "1s" }, { "name": "b", "type": "task", "task": "t", "input": { "b": 1 } }],
            [{ "name": "s", "type": "task", "task": "t", "input": { "c": EXPENSIVE } }],
        ] },
        { "name": "each", "type": "for_each", "items": "{{ input.list.filter(x, x < 3) }}", "concurrency": 2,
          "steps": [{ "name": "one", "type": "task", "task": "t", "input": { "d": EXPENSIVE } }] },
    ]));
    let running = Running::start(document, world.echo(), list(100)).await;
    // Evaluations take real time, so the clock of the lab advances in small steps: no lease expires.
    while !running.run.view().await.unwrap().head.status().is_closed() {
        running.lab.advance(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(running.settle().await, RunStatus::Completed, "{:?}", running.failure().await);
    running.check().await;
}

/// The work of all expressions in a template is bounded, and the bound is the same everywhere.
#[tokio::test]
async fn a_template_that_does_too_much_in_all_fails() {
    let world = World::default();
    let many: Vec<&str> = vec![EXPENSIVE; 60];
    let step = json!({ "name": "a", "type": "task", "task": "t", "input": { "all": many } });
    let running = Running::start(steps(json!([step])), world.echo(), list(600)).await;
    assert_eq!(running.failed_with().await, "expression_failed");
    assert!(running.failure().await.unwrap().message().contains("does too much"));
}

#[tokio::test]
async fn a_cheap_expression_is_evaluated_in_place_and_once() {
    let evaluated = AtomicUsize::new(0);
    let count = || evaluated.fetch_add(1, Ordering::SeqCst);
    let value = evaluate_fairly(&workspace("a"), count).await;
    assert_eq!((value, evaluated.load(Ordering::SeqCst)), (0, 1));
}
