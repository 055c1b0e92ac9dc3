//! Tasks and entity actions that a worker carries out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hapax_api::RawJson;
use hapax_engine::Failure;
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::items::WireFailure;
use crate::mailbox::WorkId;

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
pub(crate) struct Calls(Mutex<HashMap<String, (WorkId, oneshot::Sender<CallResult>)>>);

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

/// What a result says.
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
    fn open(&self) -> MutexGuard<'_, HashMap<String, (WorkId, oneshot::Sender<CallResult>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, call: String, work: WorkId) -> oneshot::Receiver<CallResult> {
        let (tell, told) = oneshot::channel();
        self.open().insert(call, (work, tell));
        told
    }

    /// Ends a call. Returns its work, or `None` if nobody waits for it.
    pub(crate) fn end(&self, call: &str, result: CallResult) -> Option<WorkId> {
        let (work, tell) = self.open().remove(call)?;
        tell.send(result).ok().map(|()| work)
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
