//! One request to a function: it is sent, and what it answers is handed in.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hapax_api as api;
use hapax_api::{DurationText, PushAnswer, PushedTurn, PushedWork, RawJson};
use serde::Deserialize;
use serde_json::json;

use crate::caller::WorkerCaller;
use crate::limits::{FIRST_PUSH_PAUSE, HOLD_MARGIN, MAX_PUSHED_BYTES, PUSH_CLOCK_MARGIN};
use crate::push::{Heard, Pushed, Shared, Told};

/// Work for one request.
pub(crate) struct Errand {
    /// Names the request; the same if it is sent again because nothing was begun.
    pub(crate) id: Option<String>,
    /// Free slots of the function, for the commit.
    pub(crate) free: u32,
    pub(crate) kind: ErrandKind,
}

pub(crate) enum ErrandKind {
    /// Messages about a run.
    Run { run: String, activation: String, turns: Vec<PushedTurn>, messages: Vec<Told> },
    /// A task or an action.
    Call { call: String, message: RawJson },
    /// Nothing is sent: the function is forgotten.
    Evict { run: String, activation: String },
}

impl Errand {
    pub(crate) fn run(
        run: String,
        activation: String,
        turns: Vec<PushedTurn>,
        messages: Vec<Told>,
        id: Option<String>,
    ) -> Self {
        Errand { id, free: 0, kind: ErrandKind::Run { run, activation, turns, messages } }
    }

    pub(crate) fn call(call: String, message: RawJson) -> Self {
        Errand { id: None, free: 0, kind: ErrandKind::Call { call, message } }
    }

    pub(crate) fn evict(run: String, activation: String) -> Self {
        Errand { id: None, free: 0, kind: ErrandKind::Evict { run, activation } }
    }
}

/// Result of an errand.
pub(crate) struct Carried {
    /// The errand: with the new exchange, and with the messages that must be sent again.
    pub(crate) errand: Errand,
    /// Why the request failed, if it did.
    pub(crate) failed: Option<String>,
    /// The request may be sent again as it was.
    pub(crate) not_begun: bool,
    pub(crate) heard: Option<Heard>,
    pub(crate) is_session_over: bool,
}

/// Content of a commit.
#[derive(Default)]
struct HandedIn {
    runs: Vec<api::WorkerRunItems>,
    results: Vec<RawJson>,
}

/// Carries out one errand.
pub(crate) async fn carry(shared: &Shared, mut errand: Errand, held_until: Duration) -> Carried {
    let id = errand.id.clone().unwrap_or_default();
    let (sent, failed) = match &errand.kind {
        ErrandKind::Evict { .. } => (Ok(PushAnswer::default()), None),
        ErrandKind::Run { turns, messages, .. } => {
            let messages: Vec<RawJson> = messages.iter().map(|told| told.json.clone()).collect();
            ask(shared, id, turns, &messages, held_until).await
        }
        ErrandKind::Call { message, .. } => {
            ask(shared, id, &[], std::slice::from_ref(message), held_until).await
        }
    };
    let answered = match sent {
        Ok(answer) => Some(answer),
        Err(NoAnswer::NotBegun) => {
            return Carried { errand, failed, not_begun: true, heard: None, is_session_over: false };
        }
        Err(NoAnswer::Unknown) => None,
    };
    let has_effect = match &errand.kind {
        ErrandKind::Run { messages, .. } => messages.iter().any(|told| told.head.kind == "attempt"),
        ErrandKind::Call { .. } => true,
        ErrandKind::Evict { .. } => false,
    };
    if answered.is_none() && has_effect {
        // Until then the function may still begin an effect. A ruling or a probe would come too early.
        let until = held_until + PUSH_CLOCK_MARGIN + HOLD_MARGIN;
        shared.clock.sleep(until.saturating_sub(shared.clock.monotonic())).await;
    }
    let handed_in = hand_in(&mut errand.kind, answered, failed.as_deref().unwrap_or_default());
    if handed_in.runs.is_empty() && handed_in.results.is_empty() {
        return Carried { errand, failed, not_begun: false, heard: None, is_session_over: false };
    }
    let heard = commit(shared, handed_in, errand.free).await;
    Carried { errand, failed, not_begun: false, is_session_over: heard.is_none(), heard }
}

/// Why there is no answer.
enum NoAnswer {
    NotBegun,
    Unknown,
}

/// Sends a request. The text says why it failed.
async fn ask(
    shared: &Shared,
    id: String,
    turns: &[PushedTurn],
    messages: &[RawJson],
    held_until: Duration,
) -> (Result<PushAnswer, NoAnswer>, Option<String>) {
    let clock = shared.clock.clone();
    let left = held_until.saturating_sub(clock.monotonic());
    let whole_millis = |span: Duration| Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(0));
    let workers = shared.workers.upgrade();
    let Some(now) = workers.map(|workers| workers.engine.store().now()) else {
        return (Err(NoAnswer::NotBegun), Some("the server is shutting down".into()));
    };
    let work = PushedWork {
        hold_for: DurationText(whole_millis(left)),
        not_after: now.plus(left).to_string(),
        turns,
        messages,
    };
    let body = serde_json::to_string(&work).expect("messages are JSON");
    if body.len() > MAX_PUSHED_BYTES {
        let why = format!("its {} bytes are more than the {MAX_PUSHED_BYTES} that are pushed", body.len());
        return (Err(NoAnswer::Unknown), Some(why));
    }
    let may_send = Arc::new(move || clock.monotonic() < held_until);
    match shared.target.function.push(id, body, may_send).await {
        Pushed::Answered(text) => match serde_json::from_str(&text) {
            Ok(answer) => (Ok(answer), None),
            Err(error) => (Err(NoAnswer::Unknown), Some(format!("its response makes no sense: {error}"))),
        },
        Pushed::NotBegun(why) => (Err(NoAnswer::NotBegun), Some(why)),
        Pushed::Unknown(why) => (Err(NoAnswer::Unknown), Some(why)),
    }
}

/// Members of an item that ends an attempt.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Ended {
    outcome: Option<u32>,
    attempt: u32,
    #[serde(rename = "do")]
    what: Option<String>,
}

/// Builds the commit for an answer, or for a missing one. Adds the new exchange to the errand.
fn hand_in(kind: &mut ErrandKind, answered: Option<PushAnswer>, why: &str) -> HandedIn {
    match kind {
        ErrandKind::Evict { run, activation } => {
            let items = vec![json_of(&json!({ "evicted": true }))];
            HandedIn { runs: vec![items_of(run, activation, items)], results: Vec::new() }
        }
        ErrandKind::Call { call, .. } => {
            let results = answered.map(|answer| answer.results).unwrap_or_default();
            let is_it = |result: &RawJson| {
                let named: Option<CallName> = serde_json::from_str(result.text()).ok();
                named.is_some_and(|named| named.call == *call)
            };
            let result = results
                .into_iter()
                .find(is_it)
                .unwrap_or_else(|| json_of(&json!({ "call": call, "failure": unknown(why) })));
            HandedIn { runs: Vec::new(), results: vec![result] }
        }
        ErrandKind::Run { run, activation, turns, messages } => {
            let told = std::mem::take(messages);
            let is_answered = answered.is_some();
            let (said, again): (Vec<Told>, Vec<Told>) = match is_answered {
                true => (told, Vec::new()),
                // The code is played again; only attempts are not.
                false => told.into_iter().partition(|told| told.head.kind == "attempt"),
            };
            let mut items = answered.map(|answer| answer.items).unwrap_or_default();
            let ended: Vec<Ended> =
                items.iter().map(|item| serde_json::from_str(item.text()).unwrap_or_default()).collect();
            for attempt in said.iter().filter(|told| told.head.kind == "attempt") {
                let (op, number) = (attempt.head.op, attempt.head.attempt);
                let is_it = |ended: &Ended| {
                    let what = ended.what.as_deref().unwrap_or("effect");
                    (ended.outcome, ended.attempt, what) == (Some(op), number, attempt.head.what.as_str())
                };
                if !ended.iter().any(is_it) {
                    items.push(outcome_unknown(&attempt.head.what, op, number, why));
                }
            }
            *messages = again;
            if items.is_empty() {
                if is_answered {
                    turns.push(PushedTurn { messages: texts(said), items });
                }
                return HandedIn::default();
            }
            turns.push(PushedTurn { messages: texts(said), items: items.clone() });
            HandedIn { runs: vec![items_of(run, activation, items)], results: Vec::new() }
        }
    }
}

#[derive(Deserialize)]
struct CallName {
    call: String,
}

fn texts(told: Vec<Told>) -> Vec<RawJson> {
    told.into_iter().map(|told| told.json).collect()
}

fn items_of(run: &str, activation: &str, items: Vec<RawJson>) -> api::WorkerRunItems {
    api::WorkerRunItems { run: run.to_owned(), activation: activation.to_owned(), items }
}

fn outcome_unknown(what: &str, op: u32, attempt: u32, why: &str) -> RawJson {
    json_of(&match what {
        "probe" => json!({ "outcome": op, "attempt": attempt, "do": "probe", "answer": "unknown" }),
        "undo" => json!({ "outcome": op, "attempt": attempt, "do": "undo", "failure": unknown(why) }),
        _ => json!({ "outcome": op, "attempt": attempt, "failure": unknown(why) }),
    })
}

fn unknown(why: &str) -> serde_json::Value {
    let why = if why.is_empty() { "the function answered without its outcome" } else { why };
    json!({ "message": why, "class": "unknown", "code": "push_failed" })
}

fn json_of(value: &serde_json::Value) -> RawJson {
    RawJson::from_value(value).expect("it is JSON")
}

/// Hands in until the session has it. `None`: the session is over.
async fn commit(shared: &Shared, handed_in: HandedIn, free: u32) -> Option<Heard> {
    let HandedIn { runs, results } = handed_in;
    let mut asked = api::CommitWorkerSession { sequence: 0, free, runs, results };
    loop {
        let workers = shared.workers.upgrade()?;
        // Commits take their turns in the order of their numbers, and nothing of a refused one was taken in.
        asked.sequence = shared.commits.fetch_add(1, Ordering::Relaxed) + 1;
        let left_at = shared.clock.monotonic();
        let caller = WorkerCaller::unbound(&shared.target.workspace);
        match workers.commit(caller, &shared.session, asked.clone()).await {
            Ok(answer) => return Some(Heard::read(left_at, &answer)),
            Err(problem) if problem.retryable => shared.clock.sleep(FIRST_PUSH_PAUSE).await,
            Err(problem) => {
                tracing::warn!(session = %shared.session, %problem, "what a push worker did could not be handed in");
                return None;
            }
        }
    }
}
