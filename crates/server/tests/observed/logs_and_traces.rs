//! Logs and traces of a request and of the run it starts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::RunStatus;
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
use hapax_server::limits::MAX_LOG_LINE_BYTES;
use hapax_server::logging::{Lines, LogFormat, LogOptions};
use hapax_server::otlp::{Exporter, OtlpSettings};
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::collector::Collector;
use crate::support::TestServer;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// S2.37: every effect is in the log under its key. A request is one line, without secrets. Both are spans: the request in the
/// caller's trace, the run and its effects in one of the run's own. One test, because a process has one log.
#[tokio::test]
async fn a_request_and_its_run_are_told_in_logs_and_traces() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint.clone();
    let settings =
        OtlpSettings::read(|name| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone()));
    let exporter = Exporter::start(settings.unwrap().unwrap()).unwrap();
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    let options = LogOptions { format: LogFormat::Json, ..LogOptions::default() };
    let log = Lines::new(&options, move |line| {
        kept.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap())
    });
    tracing_subscriber::registry()
        .with(log.with_filter(LevelFilter::INFO))
        .with(exporter.layer().with_filter(Exporter::filter()))
        .init();

    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    let fail =
        json!({"name": "fail", "version": 1, "steps": [{ "name": "try", "type": "task", "task": "fail" }]});
    let fail = server.upload(&fail).await;
    let body = json!({"definitionId": echo, "input": {"card": "canary-payload"}, "idempotencyKey": "canary-run-key"});
    let traced = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", traced.as_str()), ("idempotency-key", "\"canary-request-key\"")];
    let created = server.post("/api/v1/workflow-runs?dry=canary-query", &body, &headers).await;
    let unsampled = format!("00-{}-{PARENT}-00", "a".repeat(32));
    server.post("/api/v1/workflow-runs", &body, &[("traceparent", unsampled.as_str())]).await;
    let created = match created.status {
        201 => created,
        // Unknown parameters are refused.
        _ => server.post("/api/v1/workflow-runs", &body, &headers).await,
    };
    let run = created.json()["run"]["id"].as_str().unwrap().to_owned();
    server.end(&run).await;
    let failed = server.start(&fail, json!({})).await;
    server.end(&failed).await;
    exporter.flush().await;

    let lines: Vec<String> = lines.lock().unwrap().clone();
    let told: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().all(|line| line.len() <= MAX_LOG_LINE_BYTES && line.ends_with('\n')));
    let secret = server.admin.rsplit('_').next().unwrap();
    for canary in ["canary-payload", "canary-run-key", "canary-request-key", "canary-query", secret] {
        assert!(!lines.iter().any(|line| line.contains(canary)), "{canary} in the log");
    }
    let is_request = |line: &&Value| line["message"] == "request" && line["trace_id"] == TRACE;
    let request = told.iter().rfind(is_request).expect("a line for the request");
    assert_eq!((&request["method"], &request["route"]), (&json!("POST"), &json!("/api/v1/workflow-runs")));
    assert_eq!((&request["status"], &request["workspace"]), (&json!(201), &json!("acme")));
    assert!(
        request["ms"].is_u64() && request["credential"].as_str().unwrap().starts_with("cred_"),
        "{request}"
    );
    let of_effects: Vec<&Value> = told.iter().filter(|line| line["message"] == "effect ended").collect();
    for (run, outcome) in [(&run, "completed"), (&failed, "failed")] {
        let effects: Vec<&&Value> = of_effects.iter().filter(|line| line["run"] == **run).collect();
        let [effect] = effects.as_slice() else { panic!("{effects:?}") };
        assert!(effect["key"].as_str().unwrap().starts_with(&format!("{run}:")), "{effect}");
        assert_eq!((&effect["outcome"], &effect["attempt"]), (&json!(outcome), &json!(1)));
    }
    let about_effects =
        ["effect ended", "step failed", "attempt failed; it will be tried again", "effect in doubt"];
    for line in told.iter().filter(|line| about_effects.contains(&line["message"].as_str().unwrap())) {
        assert!(line["key"].is_string(), "{line}");
    }

    let spans = collector.received().await;
    let request =
        spans.iter().rfind(|span| span.trace_id == TRACE).expect("the request is in the caller's trace");
    assert_eq!((request.name.as_str(), request.kind), ("POST /api/v1/workflow-runs", 2));
    assert_eq!(request.parent_span_id, PARENT);
    assert_eq!(request.attribute("http.response.status_code"), Some("201"));
    assert_eq!(request.attribute("hapax.workspace"), Some("acme"));
    assert!(
        !spans.iter().any(|span| span.trace_id == "a".repeat(32)),
        "a caller that does not record is heeded"
    );
    for (run, has_failed) in [(&run, false), (&failed, true)] {
        let own = run.strip_prefix("run_").unwrap();
        let span_of_run = |name: &str| spans.iter().find(|span| span.trace_id == own && span.name == name);
        let drive = span_of_run("drive").expect("the trace of a run has the run's id");
        let effect = span_of_run("effect").expect("effects are in it");
        assert_eq!((&effect.parent_span_id, effect.has_failed), (&drive.span_id, has_failed));
        assert!(effect.attribute("key").unwrap().starts_with(run.as_str()));
    }
    assert!(!format!("{spans:?}").contains("canary"));
}

/// S0.36, S0.37: the log names a recorded step, and the run continues after it.
#[tokio::test]
async fn a_step_that_is_done_is_told_and_not_run_again() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    let options = LogOptions { format: LogFormat::Json, ..LogOptions::default() };
    let log = Lines::new(&options, move |line| {
        kept.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap())
    });
    let _told = tracing_subscriber::registry().with(log.with_filter(LevelFilter::DEBUG)).set_default();
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let packed = Arc::new(AtomicU32::new(0));
    let engine = || {
        let engine = Engine::launch(store.clone(), clock.clone(), EngineOptions::default()).unwrap();
        let packed = packed.clone();
        let ship = move |ctx: Ctx, (): ()| {
            let packed = packed.clone();
            async move {
                ctx.step("pack", |_| async { Ok::<_, Failure>(packed.fetch_add(1, Ordering::Relaxed)) })
                    .await?;
                ctx.create_promise::<()>("paid").await
            }
        };
        engine.register("ship", ship).unwrap();
        engine
    };
    let first = engine();
    let run = first.start("ship", &()).await.unwrap();
    while run.view().await.unwrap().head.status() != RunStatus::Waiting {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.kill();
    let second = engine();
    second.resolve_promise(&format!("{}:paid", run.id()), &()).await.unwrap();
    second.run(run.id()).await.unwrap().result::<()>().await.unwrap();
    assert_eq!(packed.load(Ordering::Relaxed), 1);
    let told: Vec<Value> =
        lines.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let done: Vec<&Value> =
        told.iter().filter(|line| line["message"] == "step already done, advancing").collect();
    let [done] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!((&done["step"], &done["status"]), (&json!("pack"), &json!("COMPLETED")));
    assert_eq!(done["run"], json!(run.id().to_string()));
}
