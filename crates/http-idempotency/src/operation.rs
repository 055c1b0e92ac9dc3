//! An operation that began. The service runs in its own task, so a caller that disconnects stops nothing, and its
//! answer is stored before it is sent.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use hapax_engine::model::{RequestEnd, RequestId, StoredAnswer};
use http::{Extensions, HeaderValue, Request, Response};
use http_body::Body;
use tokio::sync::oneshot;
use tower_service::Service;
use tracing::Instrument;

use crate::BoxError;
use crate::admission::in_progress;
use crate::answer::{self, AnswerBody, BodyRead, Outcome};
use crate::header::IDEMPOTENCY_STORED;
use crate::hold::{Finished, Hold};
use crate::observe::Event;
use crate::policy::Keep;
use crate::problem::{Code, Problem};
use crate::shared::LayerState;

/// Request extension with the id of the operation. A takeover after a crash has the same id, so effects made under it
/// happen once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperationId(pub RequestId);

/// Request extension: another process began the operation and crashed. Its effect may have happened already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takeover;

/// Outcome of calling the service.
struct Answered<B> {
    response: Response<AnswerBody<B>>,
    /// Response to store, unless nothing began or the outcome is unknown.
    answer: Option<StoredAnswer>,
    outcome: Outcome,
    keep: Option<Keep>,
}

/// Calls the service under a hold, and waits for the answer as long as the caller does.
pub(crate) async fn run<S, Q, B>(
    shared: Arc<LayerState>,
    hold: Hold,
    service: S,
    mut request: Request<Q>,
) -> Response<AnswerBody<B>>
where
    S: Service<Request<Q>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    Q: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let extensions = request.extensions().clone();
    let since = shared.store.now();
    let id = hold.begin.id;
    request.extensions_mut().insert(OperationId(id));
    request.extensions_mut().insert(hold.begin.key.clone());
    let event = match hold.is_taken_over {
        true => {
            request.extensions_mut().insert(Takeover);
            Event::TakenOver
        }
        false => Event::Began,
    };
    shared.saw(&hold.begin.scope, event);
    let span = tracing::info_span!("operation", %id, key = %hold.begin.key, taken_over = hold.is_taken_over);
    let flight = shared.flights.take_off(hold.place());
    let (tell, told) = oneshot::channel();
    let work = {
        let (shared, extensions) = (shared.clone(), extensions.clone());
        async move {
            // Wake the waiters once everything is written, or the attempts have ended.
            let _flight = flight;
            carry_out(&shared, &hold, service, request, &extensions, tell).await;
        }
    };
    tokio::spawn(work.instrument(span));
    match told.await {
        Ok(response) => response,
        // Only if the process shuts down during the operation.
        Err(_) => shared.write(&in_progress(since), &extensions).map(AnswerBody::whole),
    }
}

async fn carry_out<S, Q, B>(
    shared: &LayerState,
    hold: &Hold,
    service: S,
    request: Request<Q>,
    extensions: &Extensions,
    tell: oneshot::Sender<Response<AnswerBody<B>>>,
) where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let keep_alive = hold.keep_alive();
    let called = AssertUnwindSafe(call(shared, service, request)).catch_unwind().await;
    keep_alive.stop().await;
    let answered = match called {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) => failed(shared, hold, extensions, &error.to_string()),
        Err(_) => failed(shared, hold, extensions, "it panicked"),
    };
    let Answered { mut response, answer, outcome, keep } = answered;
    let Some(answer) = answer else {
        match outcome {
            // A released key begins anew under another id. That must not happen while the first operation may have
            // taken effect.
            Outcome::Unknown => hold.let_go().await,
            Outcome::Release | Outcome::Store | Outcome::Stored | Outcome::Hold => {
                shared.saw(&hold.begin.scope, Event::Released);
                hold.give_back().await;
            }
        }
        // The caller may be gone; the task continues for that case.
        let _ = tell.send(response);
        return;
    };
    let keep_for = shared.policy.keep_for(keep.or(hold.keep));
    let end = RequestEnd::Answered { answer: answer.clone(), keep_for, grace: shared.policy.grace };
    match hold.finish(&end).await {
        Finished::Written => shared.saw(&hold.begin.scope, Event::Stored),
        Finished::Stands(standing, _) if standing == answer => shared.saw(&hold.begin.scope, Event::Stored),
        Finished::Stands(standing, expires_at) => {
            // Another process took over and committed first; all callers get its response.
            shared.saw(&hold.begin.scope, Event::Unsaved);
            shared.uses.count_replay(hold.key_place());
            match answer::replay(&standing, expires_at) {
                Some(again) => response = again.map(AnswerBody::whole),
                None => mark_unsaved(&mut response),
            }
        }
        Finished::Lost => {
            shared.saw(&hold.begin.scope, Event::Unsaved);
            mark_unsaved(&mut response);
        }
        Finished::Unsaved => {
            shared.saw(&hold.begin.scope, Event::Unsaved);
            mark_unsaved(&mut response);
            let _ = tell.send(response);
            hold.finish_later(&end).await;
            return;
        }
    }
    let _ = tell.send(response);
}

async fn call<S, Q, B>(
    shared: &LayerState,
    mut service: S,
    request: Request<Q>,
) -> Result<Answered<B>, BoxError>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let response = service.call(request).await.map_err(Into::into)?;
    let keep = response.extensions().get().copied();
    let outcome = Outcome::of(&response);
    if matches!(outcome, Outcome::Release | Outcome::Unknown) {
        return Ok(Answered { response: response.map(AnswerBody::passed), answer: None, outcome, keep });
    }
    let (parts, body) = response.into_parts();
    let policy = &shared.policy;
    let (kept, body) = match shared.is_confidential && parts.status.is_success() {
        true => (None, AnswerBody::passed(body)),
        false => match answer::read(body, policy.max_stored_answer).await.map_err(Into::into)? {
            BodyRead::Whole(bytes) => (Some(bytes.clone()), AnswerBody::whole(bytes)),
            BodyRead::Long(body) => (None, body),
        },
    };
    let answer = answer::to_stored(parts.status, &parts.headers, &policy.keep_headers, kept.as_ref());
    Ok(Answered { response: Response::from_parts(parts, body), answer: Some(answer), outcome, keep })
}

fn mark_unsaved<B>(response: &mut Response<B>) {
    response.headers_mut().insert(IDEMPOTENCY_STORED, HeaderValue::from_static("false"));
}

/// The service failed after it may have begun, so the failure counts as its answer.
fn failed<B>(shared: &LayerState, hold: &Hold, extensions: &Extensions, how: &str) -> Answered<B> {
    shared.saw(&hold.begin.scope, Event::Failed);
    let id = hold.begin.id;
    tracing::error!(%id, key = %hold.begin.key, how, "the service failed while it processed a request with a key");
    let detail = format!(
        "The service failed while it worked on this request, and part of it may have been done. The same request under this \
         key is not tried again. Find out what came of operation {id} before you send it with a new key."
    );
    let problem = Problem::new(Code::HandlerFailed, detail).with("operationId", id.to_string());
    let (parts, bytes) = shared.write(&problem, extensions).into_parts();
    let answer = answer::to_stored(parts.status, &parts.headers, &shared.policy.keep_headers, Some(&bytes));
    let response = Response::from_parts(parts, AnswerBody::whole(bytes));
    Answered { response, answer: Some(answer), outcome: Outcome::Store, keep: None }
}
