//! Clients: start runs, settle promises, send webhooks and commands, and retry under the same keys until they get a response.

mod invoices;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::plan::{PlannedCommand, SettledBy, WorkItem, WorkKind};
use crate::webhook;
use crate::world::World;

pub use invoices::InvoiceDone;

/// Requests and responses of a client.
#[derive(Debug, Clone)]
pub struct WorkDone {
    pub work: WorkItem,
    /// The run that was acknowledged.
    pub run: Option<String>,
    /// A request under a request key with its first answer; asked again, it must be the same byte for byte.
    pub kept_answers: Vec<(Request, Answer)>,
    /// Settlements that were acknowledged, by value.
    pub settled: Vec<Value>,
    /// Webhooks that were acknowledged, by event id.
    pub events: Vec<String>,
    pub steered: Vec<CommandRecord>,
    pub invoice: Option<InvoiceDone>,
}

/// A command and the answer to it.
#[derive(Debug, Clone)]
pub struct CommandRecord {
    pub command: &'static str,
    pub request: Request,
    pub answer: Answer,
}

/// The workflow of a kind of work; none for business objects.
pub fn workflow_of(kind: WorkKind) -> Option<&'static str> {
    match kind {
        WorkKind::Pay => Some("pay"),
        WorkKind::Order { .. } => Some("order"),
        WorkKind::Wire | WorkKind::Hook => Some("wire"),
        WorkKind::Fax => Some("fax"),
        WorkKind::Declined => Some("declined"),
        WorkKind::Flaky => Some("flaky"),
        WorkKind::Redo => Some("redo"),
        WorkKind::Stamped => Some("stamped"),
        WorkKind::Invoice | WorkKind::Replace => None,
    }
}

/// The key that names the run of an operation.
pub fn run_key(op: &str) -> String {
    format!("run:{op}")
}

/// Does one piece of work to its end.
pub async fn work(world: Arc<World>, work: WorkItem) -> Result<WorkDone> {
    let mut done = WorkDone {
        work: work.clone(),
        run: None,
        kept_answers: Vec::new(),
        settled: Vec::new(),
        events: Vec::new(),
        steered: Vec::new(),
        invoice: None,
    };
    match work.kind {
        WorkKind::Invoice => done.invoice = Some(invoices::pay_and_close(&world, &work).await?),
        WorkKind::Replace => done.invoice = invoices::replace_and_pay(&world, &work).await?,
        WorkKind::Hook => start_by_webhook(&world, &mut done).await?,
        _ => start(&world, &mut done).await?,
    }
    if let Some(run) = done.run.clone() {
        let steering = steer(&world, &work, &run);
        let settling = settle(&world, &work);
        let (steered, settled) = futures_util::future::join(steering, settling).await;
        done.steered = steered?;
        // A command that was acknowledged under a key has an answer of its own that stays.
        let kept = done.steered.iter().filter(|it| it.answer.is_success() && it.answer.is_kept());
        done.kept_answers.extend(kept.map(|it| (it.request.clone(), it.answer.clone())));
        let (values, events) = settled?;
        done.settled = values;
        done.events.extend(events);
    }
    Ok(done)
}

/// Starts a run, and once more as a second click would: both must name one run.
async fn start(world: &World, done: &mut WorkDone) -> Result<()> {
    let work = done.work.clone();
    let workflow = workflow_of(work.kind).context("runs have a workflow")?;
    let body = json!({
        "definitionId": world.definitions[workflow],
        "input": { "op": work.op },
        "idempotencyKey": run_key(&work.op),
    });
    let mut request = Request::post("/api/v1/workflow-runs", &body).about(&work.op);
    if work.has_request_key {
        request = request.header("Idempotency-Key", format!("start:{}", work.op));
    }
    let first = world.ask(work.node, &request).await?;
    let run = run_of(world, &work.op, &first);
    if run.is_some() && work.has_request_key && first.is_kept() {
        done.kept_answers.push((request.clone(), first));
    }
    let again = world.ask(work.node + 1, &request).await?;
    let second = run_of(world, &work.op, &again);
    if run != second {
        let what = format!("one key names two runs: {run:?} and {second:?}");
        world.report("one run per key", Some(&work.op), what);
    }
    done.run = run;
    Ok(())
}

fn run_of(world: &World, op: &str, answer: &Answer) -> Option<String> {
    let run = answer.json()["run"]["id"].as_str().map(str::to_owned);
    if !answer.is_success() || run.is_none() {
        world.report("starts are taken", Some(op), format!("a start was answered with {}", answer.text()));
        return None;
    }
    run
}

/// Sends a webhook until it is taken, twice more as providers do, and finds the run that it started.
async fn start_by_webhook(world: &World, done: &mut WorkDone) -> Result<()> {
    let op = done.work.op.clone();
    let event = format!("evt-wire-{op}");
    deliver(world, done.work.node, &op, &event, &json!({ "type": "wire", "op": op })).await?;
    done.events.push(event);
    let path = format!("/api/v1/keys/run/{}", run_key(&op));
    let is_there = |answer: &Answer| answer.is_success();
    let request = Request::get(path).about(&op);
    let record = world.ask_until(done.work.node, &request, is_there).await?.json();
    done.run = find_run_id(&record);
    if done.run.is_none() {
        world.report("webhooks start runs", Some(&op), format!("the key of the run says: {record}"));
    }
    Ok(())
}

/// The first thing in a key's record that looks like a run.
fn find_run_id(record: &Value) -> Option<String> {
    match record {
        Value::String(text) => text.starts_with("run_").then(|| text.clone()),
        Value::Array(values) => values.iter().find_map(find_run_id),
        Value::Object(fields) => fields.values().find_map(find_run_id),
        _ => None,
    }
}

/// Sends an event three times. Each is signed anew, under one id.
async fn deliver(world: &World, node: usize, op: &str, event: &str, body: &Value) -> Result<()> {
    for again in 0..3 {
        let request = || webhook::signed(&world.source, &world.webhook_secret, event, body).about(op);
        let answer = world.ask(node + again, &request()).await?;
        if !answer.is_success() {
            let what = format!("event {event} was answered with {}", answer.text());
            world.report("signed webhooks are taken", Some(op), what);
        }
    }
    Ok(())
}

/// Settles the promise of an order; the values that were acknowledged, and the events.
async fn settle(world: &World, work: &WorkItem) -> Result<(Vec<Value>, Vec<String>)> {
    let WorkKind::Order { settled_by } = work.kind else { return Ok((Vec::new(), Vec::new())) };
    let value = |who: &str| json!({ "by": who, "op": work.op });
    match settled_by {
        SettledBy::Client => {
            let settled = resolve(world, work, &value("client")).await?;
            Ok((settled.into_iter().collect(), Vec::new()))
        }
        SettledBy::Rivals => {
            let (one, two) = (value("one"), value("two"));
            let both =
                futures_util::future::join(resolve(world, work, &one), resolve(world, work, &two)).await;
            Ok((both.0?.into_iter().chain(both.1?).collect(), Vec::new()))
        }
        SettledBy::Webhook => {
            let event = format!("evt-paid-{}", work.op);
            let body = json!({ "type": "paid", "op": work.op, "value": value("webhook") });
            deliver(world, work.node, &work.op, &event, &body).await?;
            Ok((vec![value("webhook")], vec![event]))
        }
    }
}

/// Resolves by key; the value if it was acknowledged.
async fn resolve(world: &World, work: &WorkItem, value: &Value) -> Result<Option<Value>> {
    let path = format!("/api/v1/promises/key:pay:{}/resolve", work.op);
    let request = Request::post(path, &json!({ "value": value })).about(&work.op);
    let answer = world.ask(work.node, &request).await?;
    if answer.is_success() {
        return Ok(Some(value.clone()));
    }
    // The other one was first, or the run ended before it was paid.
    if answer.status != 409 {
        world.report(
            "promises are settled",
            Some(&work.op),
            format!("a settlement was answered with {}", answer.text()),
        );
    }
    Ok(None)
}

/// Does to the run what the plan says.
async fn steer(world: &World, work: &WorkItem, run: &str) -> Result<Vec<CommandRecord>> {
    let mut steered = Vec::new();
    match work.steering {
        PlannedCommand::Nothing if work.kind.is_retried() => {
            retry_until_it_works(world, work, run, &mut steered).await?;
        }
        PlannedCommand::Nothing => {}
        PlannedCommand::Cancel { after } => {
            tokio::time::sleep(after).await;
            steered.push(command(world, work, run, "cancel").await?);
        }
        PlannedCommand::PauseAndResume { after, resumed_after } => {
            tokio::time::sleep(after).await;
            steered.push(command(world, work, run, "pause").await?);
            tokio::time::sleep(resumed_after).await;
            check_pause(world, work, run, &steered).await?;
            steered.push(command(world, work, run, "resume").await?);
        }
        PlannedCommand::PauseAndCancel { after, cancelled_after } => {
            tokio::time::sleep(after).await;
            steered.push(command(world, work, run, "pause").await?);
            tokio::time::sleep(cancelled_after).await;
            check_pause(world, work, run, &steered).await?;
            steered.push(command(world, work, run, "cancel").await?);
        }
    }
    Ok(steered)
}

/// Gives a command, again under the same key until it is answered.
async fn command(world: &World, work: &WorkItem, run: &str, command: &'static str) -> Result<CommandRecord> {
    give(world, work, run, command, command, &json!({ "reason": "the storm" })).await
}

async fn give(
    world: &World,
    work: &WorkItem,
    run: &str,
    command: &'static str,
    key: &str,
    body: &Value,
) -> Result<CommandRecord> {
    let path = format!("/api/v1/workflow-runs/{run}/{command}");
    let request =
        Request::post(path, body).header("Idempotency-Key", format!("{key}:{}", work.op)).about(&work.op);
    let answer = world.ask(work.node, &request).await?;
    let is_refused = [403, 409, 422].contains(&answer.status);
    if !answer.is_success() && !is_refused {
        let what = format!("{command} was answered with {}", answer.text());
        world.report("commands are taken", Some(&work.op), what);
    }
    Ok(CommandRecord { command, request, answer })
}

/// An acknowledged pause holds until the run is resumed.
async fn check_pause(world: &World, work: &WorkItem, run: &str, steered: &[CommandRecord]) -> Result<()> {
    if !steered.last().is_some_and(|last| last.answer.is_success()) {
        return Ok(());
    }
    let answer = world.ask(work.node + 1, &Request::get(format!("/api/v1/workflow-runs/{run}"))).await?;
    let seen = answer.json()["run"].clone();
    let status = seen["status"].as_str().unwrap_or_default();
    let is_ended = ["COMPLETED", "FAILED", "CANCELLED"].contains(&status);
    if status != "PAUSED" && !is_ended && seen["pendingRequest"].is_null() {
        let what = format!("a pause was acknowledged, nobody lifted it, and the run is {status}");
        world.report("pauses hold", Some(&work.op), what);
    }
    Ok(())
}

/// Waits until the run has failed and retries it; until it has completed.
async fn retry_until_it_works(
    world: &World,
    work: &WorkItem,
    run: &str,
    steered: &mut Vec<CommandRecord>,
) -> Result<()> {
    for round in 0..10 {
        let has_ended = |answer: &Answer| {
            let status = answer.json()["run"]["status"].clone();
            ["COMPLETED", "FAILED", "CANCELLED"].iter().any(|ended| status == *ended)
        };
        let path = format!("/api/v1/workflow-runs/{run}");
        let answer = world.ask_until(work.node, &Request::get(path), has_ended).await?;
        if answer.json()["run"]["status"] != "FAILED" {
            return Ok(());
        }
        let retry = async |key: &str, from: Option<&str>| {
            let mut body = json!({ "reason": "the storm" });
            if let Some(from) = from {
                body["fromStep"] = json!(from);
            }
            give(world, work, run, "retry", &format!("{key}-{round}"), &body).await
        };
        match work.kind {
            WorkKind::Redo => steered.push(retry("redo", Some("note")).await?),
            WorkKind::Stamped => {
                let careless = retry("careless", Some("stamp")).await?;
                if careless.answer.is_success() {
                    let what = "a retry from a claimed step that is COMPLETED was taken without a ruling";
                    world.report("retries repeat no known effect", Some(&work.op), what);
                    steered.push(careless);
                } else {
                    steered.push(retry("retry", None).await?);
                }
            }
            _ => steered.push(retry("retry", None).await?),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
