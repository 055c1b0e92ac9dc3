//! A request under a key that is free: nothing is stored while the service runs, because the service stores the key, its
//! effect and its answer in one write.
//!
//! If the process dies, either all three are there or none is, so there is no hold for others to wait for. If the service
//! cannot do it in one write, the layer holds the key and calls it again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use hapax_engine::model::{BeginRequest, StoredAnswer};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use tower_service::Service;
use tracing::Instrument;

use crate::BoxError;
use crate::answer::{self, AnswerBody, Outcome};
use crate::in_flight::InFlightRequest;
use crate::observe::Event;
use crate::operation::OperationId;
use crate::policy::{Keep, Policy};
use crate::shared::LayerState;

/// Request extension behind [`IdempotencyLayer::in_one_write`](crate::IdempotencyLayer::in_one_write): the key was free a
/// moment ago, and nothing is stored under it.
///
/// The service writes the key, its effect and its answer together, for example by
/// [`RequestKeyStore::start_keyed_run`](hapax_engine::store::RequestKeyStore::start_keyed_run), and marks its response
/// [`Outcome::Stored`]. If it cannot, it does nothing and marks its response [`Outcome::Hold`].
#[derive(Debug, Clone)]
pub struct FreshKey {
    begin: Arc<BeginRequest>,
    policy: Arc<Policy>,
    keep: Option<Keep>,
}

impl FreshKey {
    /// The request, as the store would begin it.
    pub fn request(&self) -> &BeginRequest {
        &self.begin
    }

    /// How long the answer is kept.
    pub fn keep_for(&self) -> Duration {
        self.policy.keep_for(self.keep)
    }

    /// How long the key is refused after that.
    pub fn grace(&self) -> Duration {
        self.policy.grace
    }

    /// Largest body of an answer that may be stored in one write. For a larger one, use [`Outcome::Hold`].
    pub fn max_answer(&self) -> usize {
        self.policy.max_stored_answer
    }

    /// The stored form of an answer.
    pub fn to_stored(&self, answer: &Response<Bytes>) -> StoredAnswer {
        answer::to_stored(answer.status(), answer.headers(), &self.policy.keep_headers, Some(answer.body()))
    }

    /// The response of the service whose write stored this answer.
    pub fn answer(stored: StoredAnswer) -> Response<Bytes> {
        let mut response = Response::new(stored.body.map(Bytes::from_owner).unwrap_or_default());
        *response.status_mut() =
            StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in &stored.headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name.as_str()), HeaderValue::from_bytes(value.as_bytes()))
            {
                response.headers_mut().append(name, value);
            }
        }
        response.extensions_mut().insert(Outcome::Stored);
        response
    }
}

/// A request that was admitted without a hold.
pub(crate) struct UnheldRequest {
    pub(crate) begin: Arc<BeginRequest>,
    pub(crate) keep: Option<Keep>,
    pub(crate) flight: InFlightRequest,
}

/// Calls the service without a hold, in a task of its own, so that a caller that disconnects stops nothing. `None` if
/// the request must be held: then nothing was done, or what was done is found under the key.
pub(crate) async fn run<S, Q, B>(
    shared: Arc<LayerState>,
    fresh: UnheldRequest,
    mut service: S,
    mut request: Request<Q>,
) -> Option<Response<AnswerBody<B>>>
where
    S: Service<Request<Q>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    Q: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    let UnheldRequest { begin, keep, flight } = fresh;
    let id = begin.id;
    request.extensions_mut().insert(OperationId(id));
    request.extensions_mut().insert(begin.key.clone());
    let policy = shared.policy.clone();
    request.extensions_mut().insert(FreshKey { begin: begin.clone(), policy, keep });
    let span = tracing::info_span!("operation", %id, key = %begin.key);
    let work = async move {
        // The waiters wake when the write has been made, or will not be made.
        let _flight = flight;
        let called = AssertUnwindSafe(async { service.call(request).await.map_err(Into::<BoxError>::into) });
        let response = match called.catch_unwind().await {
            Ok(Ok(response)) => response,
            // The service may have failed before its write or after it. Under the hold that shows.
            Ok(Err(_)) | Err(_) => return None,
        };
        let outcome = Outcome::of(&response);
        let ended = match outcome {
            Outcome::Stored => Some(Event::Stored),
            Outcome::Release => Some(Event::Released),
            Outcome::Unknown => None,
            Outcome::Store | Outcome::Hold => return None,
        };
        shared.saw(&begin.scope, Event::Began);
        ended.into_iter().for_each(|event| shared.saw(&begin.scope, event));
        Some(response.map(AnswerBody::passed))
    };
    // Without an answer only if the process shuts down.
    tokio::spawn(work.instrument(span)).await.unwrap_or_default()
}
