//! The wrapped service: requests with a key follow the contract, all others pass through.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::BoxError;
use crate::admission::{Admitted, EarlyAnswer, Keyed, admit};
use crate::answer::AnswerBody;
use crate::fresh_key;
use crate::keyed_request::{beginning, read_body, read_head};
use crate::operation;
use crate::shared::LayerState;

/// A service under the contract of `Idempotency-Key`. [`IdempotencyLayer`](crate::IdempotencyLayer) creates it.
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    shared: Arc<LayerState>,
}

impl<S> Idempotency<S> {
    pub(crate) fn new(inner: S, shared: Arc<LayerState>) -> Self {
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
                let begin = Arc::new(beginning(&shared, &keyed, &parts, &body));
                let keyed = Keyed { body_bytes: body.len(), ..keyed };
                let may_be_fresh = shared.is_in_one_write && !shared.is_confidential;
                Ok((admit(&shared, &keyed, begin.clone(), may_be_fresh).await?, keyed, begin, body))
            };
            let tell = |told, extensions: &_| match told {
                EarlyAnswer::Answer(response) => response.map(AnswerBody::whole),
                EarlyAnswer::Problem(problem) => shared.write(&problem, extensions).map(AnswerBody::whole),
            };
            let (admitted, keyed, begin, body) = match admitted.await {
                Ok(admitted) => admitted,
                Err(told) => return Ok(tell(told, &parts.extensions)),
            };
            let request = || Request::from_parts(parts.clone(), Q::from(body.clone()));
            let hold = match admitted {
                Admitted::Held(hold) => hold,
                Admitted::Fresh(fresh) => {
                    let mut again = ready.clone();
                    if let Some(response) = fresh_key::run(shared.clone(), fresh, ready, request()).await {
                        return Ok(response);
                    }
                    poll_fn(|context| again.poll_ready(context)).await?;
                    ready = again;
                    match admit(&shared, &keyed, begin, false).await {
                        Ok(Admitted::Held(hold)) => hold,
                        Ok(Admitted::Fresh(_)) => unreachable!("it may not be fresh"),
                        Err(told) => return Ok(tell(told, &parts.extensions)),
                    }
                }
            };
            Ok(operation::run(shared, hold, ready, request()).await)
        })
    }
}
