//! Every example is a document without errors that runs to its end, even after a crash at any point.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Running, World, answer};
use hapax_documents::{
    Checked, DeclaredNames, Format, HostServices, TaskCall, approval_signal, check, register,
};
use hapax_engine::model::{RunId, RunStatus};
use hapax_engine::testing::{CrashEverywhere, TestEnvironment};
use hapax_engine::{Engine, Error, Failure};
use serde_json::{Value, json};

fn example(name: &str) -> Arc<Checked> {
    let path = format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let checked = check(&text, Format::Any, &DeclaredNames::default())
        .unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
    assert!(checked.warnings().is_empty(), "{name}: {:#?}", checked.warnings());
    Arc::new(checked)
}

fn services(world: &World) -> Arc<HostServices> {
    let tasks = |call: &TaskCall, _| match call.name.as_str() {
        "find-overdue" => {
            let customers: Vec<Value> = (0..5)
                .map(|n| json!({ "id": n, "mail": format!("{n}@example.com"), "optedOut": n == 3 }))
                .collect();
            Ok(json!({ "customers": customers }))
        }
        "create-account" => Ok(json!({ "accountId": "acc_1" })),
        "book-flight" => Ok(json!({ "id": "fl_1" })),
        "book-car" => Err(Failure::permanent("no cars left").with_code("sold_out")),
        _ => Ok(json!({})),
    };
    world.services(tasks, |call, _| {
        let id = if call.url.contains("bank") { "w_1" } else { "ch_1" };
        answer(200, json!({ "id": id }))
    })
}

fn register_child(engine: &Engine) -> Result<(), Error> {
    engine.register("check-customer", |_, _: Value| async { Ok::<_, Failure>(json!({ "score": 9 })) })
}

/// Actions of people during an example.
async fn help(name: &'static str, engine: Engine, run: RunId) {
    let answer = json!({ "decision": "edit", "by": { "requester": "mia", "roles": ["manager"] }, "value": { "cents": 900 } });
    match name {
        "order.yaml" => {
            let promise = format!("{run}:packed");
            while engine.resolve_promise(&promise, &json!({ "parcel": "p_1" })).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
        "approval.yaml" => drop(engine.signal(run, &approval_signal("manager"), &answer, Some("a")).await),
        "trial.yaml" => drop(engine.signal(run, "plan-chosen", &json!({ "plan": "none" }), Some("c")).await),
        _ => {}
    }
}

fn cases() -> Vec<(&'static str, Value, RunStatus, Value)> {
    let done = RunStatus::Completed;
    vec![
        (
            "order.yaml",
            json!({ "orderId": "o_1", "cents": 1000, "seller": "s_1", "requestedAt": "now" }),
            done,
            json!({ "charge": "ch_1", "parcel": "p_1", "wire": "w_1" }),
        ),
        (
            "approval.yaml",
            json!({ "customer": "c_1", "cents": 20000 }),
            done,
            json!({ "cents": 900, "approvedBy": "mia" }),
        ),
        ("reminders.yaml", json!({}), done, json!({ "sent": 4 })),
        (
            "onboarding.json",
            json!({ "mail": "a@example.com" }),
            done,
            json!({ "account": "acc_1", "score": 9 }),
        ),
        ("trip.yaml", json!({ "from": "A", "to": "B", "nights": 2 }), RunStatus::Failed, Value::Null),
        (
            "trial.yaml",
            json!({ "mail": "a@example.com", "remindAt": TestEnvironment::new().now().plus(Duration::from_secs(3 * 24 * 3600)).to_string() }),
            done,
            json!({ "plan": "none", "way": "else" }),
        ),
    ]
}

#[tokio::test]
async fn every_example_runs_to_its_end() {
    for (name, input, status, output) in cases() {
        let world = World::default();
        let (document, services) = (example(name), services(&world));
        let lab = TestEnvironment::new();
        register_child(lab.engine()).unwrap();
        register(lab.engine(), document.clone(), services.clone()).unwrap();
        let run = lab.engine().start(&document.document().name, &input).idempotency_key("k").await.unwrap();
        let running = Running { lab, run, document, services };
        running.lab.idle().await;
        let helping = tokio::spawn(help(name, running.lab.engine().clone(), running.run.id()));
        running.lab.idle().await;
        assert_eq!(running.settle().await, status, "{name}: {:?}", running.failure().await);
        helping.abort();
        if status == RunStatus::Completed {
            assert_eq!(running.run.result::<Value>().await.unwrap(), output, "{name}");
        }
        if name == "trip.yaml" {
            let names = world.names();
            assert_eq!(
                names[names.len() - 2..],
                ["DELETE https://hotels.example/bookings/ch_1", "cancel-flight"],
                "{names:?}"
            );
            assert_eq!(world.given("cancel-flight"), json!({ "id": "fl_1" }));
        }
        running.check().await;
    }
}

#[tokio::test]
async fn a_crash_anywhere_does_no_harm_to_any_example() {
    for (name, input, status, _) in cases() {
        let world = World::default();
        let (document, services) = (example(name), services(&world));
        let workflow =
            move |ctx, input: Value| hapax_documents::run(ctx, document.clone(), input, services.clone());
        let crashing = CrashEverywhere::new(workflow, &input)
            .also(register_child)
            .outside(move |engine, run| help(name, engine, run));
        let crashing = match status {
            RunStatus::Completed => crashing,
            _ => crashing.expect_failure(),
        };
        let report = crashing.run().await;
        report.assert_safe();
        assert_eq!(report.usual_end, Some(status), "{name}");
        assert!(report.crashes > 5, "{name}: {report}");
    }
}

#[tokio::test]
async fn every_example_file_is_tried() {
    let files = std::fs::read_dir(format!("{}/examples", env!("CARGO_MANIFEST_DIR"))).unwrap();
    // Webhook sources are in a separate folder, and tested in `events.rs`.
    let files = files.map(|file| file.unwrap()).filter(|file| file.file_type().unwrap().is_file());
    let mut files: Vec<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
    let mut tried: Vec<String> = cases().into_iter().map(|(name, ..)| name.to_string()).collect();
    files.sort();
    tried.sort();
    assert_eq!(files, tried);
}
