//! The wrapped service: requests with a key follow the contract, all others pass through.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::BoxError;
use crate::admission::{EarlyAnswer, Keyed, admit};
use crate::answer::AnswerBody;
use crate::keyed_request::{beginning, read_body, read_head};
use crate::operation;
use crate::shared::Shared;

/// A service under the contract of `Idempotency-Key`. [`IdempotencyLayer`](crate::IdempotencyLayer) creates it.
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Idempotency<S> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Idempotency { inner, shared }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, Q, B> Service<Request<Q>> for Idempotency<S>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    Q: Body + From<Bytes> + Send + 'static,
    Q::Data: Send,
    Q::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<AnswerBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // The service that was polled ready does the work, and its clone takes its place.
        let next = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, next);
        let shared = self.shared.clone();
        let (parts, body) = request.into_parts();
        let keyed = match read_head(&shared, &parts) {
            Ok(Some(keyed)) => keyed,
            Ok(None) => {
                let passed = ready.call(Request::from_parts(parts, body));
                return Box::pin(async move { Ok(passed.await?.map(AnswerBody::passed)) });
            }
            Err(problem) => {
                let response = shared.write(&problem, &parts.extensions).map(AnswerBody::whole);
                return Box::pin(async move { Ok(response) });
            }
        };
        Box::pin(async move {
            let admitted = async {
                let body = read_body(&shared, body).await?;
                let begin = beginning(&shared, &keyed, &parts, &body);
                let keyed = Keyed { body_bytes: body.len(), ..keyed };
                Ok((admit(&shared, keyed, begin).await?, body))
            };
            Ok(match admitted.await {
                Ok((hold, body)) => {
                    operation::run(shared, hold, ready, Request::from_parts(parts, Q::from(body))).await
                }
                Err(EarlyAnswer::Answer(response)) => response.map(AnswerBody::whole),
                Err(EarlyAnswer::Problem(problem)) => {
                    shared.write(&problem, &parts.extensions).map(AnswerBody::whole)
                }
            })
        })
    }
}
