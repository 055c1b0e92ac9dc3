//! Tasks and entity actions that a worker carries out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_api::RawJson;
use hapax_engine::model::{Name, RunId, WorkspaceId};
use hapax_engine::runtime::{ActionAnswer, StepCall};
use hapax_engine::{Failure, Hold};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::items::WireFailure;
use crate::limits::HOLD_MARGIN;
use crate::mailbox::{Envelope, WorkId};
use crate::messages::{AbortCall, CallAction, CallTask, EntityMessage, text_of, trace_of};
use crate::session::Session;
use crate::workers::Workers;

/// One call of a task.
#[derive(Debug, Clone)]
pub struct RemoteTask {
    /// Name of the task.
    pub name: String,
    /// Its input.
    pub input: RawJson,
    /// The key of the effect.
    pub key: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// Fence of the lease that it is called under.
    pub fence: u64,
    /// The right to begin it.
    pub hold: Hold,
    /// True if it must not happen twice: its worker must be past its hold before anybody acts on its end.
    pub is_claimed: bool,
}

/// Result of a task or an action.
#[derive(Debug)]
pub(crate) enum CallResult {
    Output(RawJson),
    Failed(Failure),
    /// The action decided not to act.
    Rejected(String),
    /// The session is over. If the worker was given the call, it may have happened.
    Vanished,
}

/// Calls of one session that are under way.
#[derive(Default)]
pub(crate) struct Calls(Mutex<BTreeMap<String, (WorkId, oneshot::Sender<CallResult>)>>);

/// A result as it is on the wire: of a call, or late.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireResult {
    call: Option<String>,
    #[serde(default, deserialize_with = "present")]
    output: Option<RawJson>,
    failure: Option<WireFailure>,
    rejected: Option<String>,
    late: Option<LateResult>,
}

/// A late outcome, handed in by a worker that lost its session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LateResult {
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) output: RawJson,
}

/// Result that a worker handed in.
pub(crate) enum ReadResult {
    Call(String, CallResult),
    Late(LateResult),
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

/// Reads a result. The error says what is wrong with it.
pub(crate) fn read_result(text: &str) -> Result<ReadResult, String> {
    let WireResult { call, output, failure, rejected, late } =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    match (call, output, failure, rejected, late) {
        (Some(call), Some(output), None, None, None) => {
            Ok(ReadResult::Call(call, CallResult::Output(output)))
        }
        (Some(call), None, Some(failure), None, None) => {
            Ok(ReadResult::Call(call, CallResult::Failed(failure.into())))
        }
        (Some(call), None, None, Some(why), None) => Ok(ReadResult::Call(call, CallResult::Rejected(why))),
        (None, None, None, None, Some(late)) => Ok(ReadResult::Late(late)),
        _ => Err("a result has `call` with one of output, failure and rejected, or it has `late`".into()),
    }
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, BTreeMap<String, (WorkId, oneshot::Sender<CallResult>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, call: String, work: WorkId) -> oneshot::Receiver<CallResult> {
        let (tell, told) = oneshot::channel();
        self.open().insert(call, (work, tell));
        told
    }

    /// Takes a call that has ended. Returns `None` if nobody waits for it.
    pub(crate) fn take(&self, call: &str) -> Option<(WorkId, oneshot::Sender<CallResult>)> {
        self.open().remove(call)
    }

    pub(crate) fn forget(&self, call: &str) {
        self.open().remove(call);
    }

    pub(crate) fn sever(&self) {
        let open = std::mem::take(&mut *self.open());
        for (_, tell) in open.into_values() {
            let _ = tell.send(CallResult::Vanished);
        }
    }
}

impl Workers {
    /// Has a worker of the workspace run a task.
    pub async fn call_task(&self, workspace: &WorkspaceId, task: &RemoteTask) -> Result<RawJson, Failure> {
        let session = self.choose_soon(workspace, |session| session.facts.tasks.contains(&task.name)).await;
        let session = session.ok_or_else(|| no_worker("task", &task.name))?;
        let RemoteTask { name, input, key, attempt, fence, hold, is_claimed } = task;
        let message = |call: &str| {
            let trace = run_of(key).map(|run| trace_of(run, *fence));
            text_of(&CallTask {
                kind: "task",
                call,
                name,
                input,
                key,
                attempt: *attempt,
                fence: *fence,
                trace,
            })
        };
        match call(&session, hold, *is_claimed, message).await? {
            CallResult::Output(output) => Ok(output),
            CallResult::Failed(failure) => Err(failure),
            CallResult::Rejected(_) => {
                Err(Failure::unknown("the worker rejected a task; only actions can be rejected"))
            }
            CallResult::Vanished => Err(vanished()),
        }
    }

    /// Has a worker of the workspace run an action of an entity workflow.
    pub async fn call_action(&self, name: &Name, step: &StepCall) -> Result<ActionAnswer, Failure> {
        let offers = |session: &Session| session.facts.actions.iter().any(|offered| offered == name.as_str());
        let session = self.choose_soon(&step.workspace, offers).await;
        let session = session.ok_or_else(|| no_worker("action", name.as_str()))?;
        let unreadable = |error: serde_json::Error| Failure::permanent(format!("it cannot be sent: {error}"));
        let data: RawJson = step.entity.data.to().map_err(unreadable)?;
        let input: RawJson = step.input.to().map_err(unreadable)?;
        let message = |call: &str| {
            let entity = EntityMessage {
                kind: step.entity.entity.kind.as_str(),
                id: step.entity.entity.id.as_str(),
                status: step.entity.status.as_str(),
                data: &data,
            };
            text_of(&CallAction {
                kind: "action",
                call,
                name: name.as_str(),
                entity,
                step: step.step.as_str(),
                requester: step.requester.as_ref().map(Name::as_str),
                input: &input,
                key: step.effect_key.as_str(),
                attempt: step.attempt,
                fence: step.fence,
            })
        };
        // Nobody says of an action that it may be repeated.
        match call(&session, &step.hold, true, message).await? {
            CallResult::Output(output) => {
                let result = serde_json::from_str(output.text()).map_err(unreadable)?;
                Ok(ActionAnswer::Done { result, data: None })
            }
            CallResult::Failed(failure) => Err(failure),
            CallResult::Rejected(why) => Ok(ActionAnswer::rejected(why)),
            CallResult::Vanished => Err(vanished()),
        }
    }
}

/// The run of an effect key.
fn run_of(key: &str) -> Option<RunId> {
    key.split([':', '.']).next()?.parse().ok()
}

/// Hands out a call and waits for its result.
async fn call(
    session: &Arc<Session>,
    hold: &Hold,
    is_claimed: bool,
    message: impl FnOnce(&str) -> String,
) -> Result<CallResult, Failure> {
    hold.ensure_still_held()?;
    let work = session.next_work();
    let id = format!("c{work}");
    let told = session.calls.begin(id.clone(), work);
    if session.has_ended().is_some() {
        session.calls.forget(&id);
        return Err(nothing_sent());
    }
    let under_way = CallUnderWay { session, id: &id, work };
    session.hand_out(work, hold.clone(), Envelope::new(message(&id)));
    let result = told.await.unwrap_or(CallResult::Vanished);
    if !matches!(result, CallResult::Vanished) {
        return Ok(result);
    }
    if !session.was_delivered(work) {
        return Err(nothing_sent());
    }
    if is_claimed {
        // The worker may begin the effect until its hold ends, even if an abort is on its way.
        let until = session.promised_until() + HOLD_MARGIN;
        session.clock().sleep(until.saturating_sub(session.clock().monotonic())).await;
    }
    drop(under_way);
    Ok(CallResult::Vanished)
}

/// A call that a worker carries out. If no caller waits for it any more, the worker gets an `abort`.
struct CallUnderWay<'a> {
    session: &'a Arc<Session>,
    id: &'a str,
    work: WorkId,
}

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        self.session.calls.forget(self.id);
        let abort = AbortCall { kind: "abort", call: self.id, why: "not_awaited" };
        // Ended work is not withdrawn.
        self.session.take_back(self.work, Envelope::new(text_of(&abort)));
    }
}

fn no_worker(what: &str, name: &str) -> Failure {
    Failure::retryable(format!("no worker that offers the {what} {name:?} is connected to this server"))
        .with_code("no_worker")
}

fn nothing_sent() -> Failure {
    Failure::retryable("its worker was gone before it began, so nothing was sent")
        .with_code("no_worker")
        .retry_after(Duration::ZERO)
}

fn vanished() -> Failure {
    Failure::unknown("its worker vanished in the middle of it")
        .with_code("crashed")
        .retry_after(Duration::ZERO)
}
