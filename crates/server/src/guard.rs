//! Guard of a route: authenticates and authorizes callers.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use hapax_api::Code;
use http::HeaderMap;
use http::header::IF_MATCH;
use tower_layer::Layer;
use tower_service::Service;

use crate::access::Access;
use crate::answer::Refused;
use crate::app::App;
use crate::body_budget::BodyCharge;
use crate::connection::Peer;
use crate::console::SignedIn;
use crate::identity::Identity;
use crate::negotiate::check_json_accepted;
use crate::trace_layer::CallerScope;

/// Guard of one route. It is a layer of its own because axum's `from_fn` boxes all inner services
/// for every request.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: Arc<App>,
    pub(crate) access: Access,
    /// Does it reject callers that do not accept JSON?
    pub(crate) answers_json: bool,
    /// Does it reject `If-Match`, because the route would ignore it?
    pub(crate) refuses_versions: bool,
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

#[derive(Clone)]
pub(crate) struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S> Service<Request> for Guarded<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        // The service that was polled ready handles the request; its copy takes its place.
        let next = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, next);
        let guard = self.guard.clone();
        Box::pin(async move {
            let address = request.extensions().get::<Peer>().map(|peer| peer.address.ip());
            // Only the console, in this process, can say who is signed in.
            let signed_in = request.extensions().get::<SignedIn>().map(|SignedIn(identity)| identity.clone());
            let identity = match guard.admit(request.headers(), address, signed_in).await {
                Ok(Some(identity)) => identity,
                Ok(None) => return ready.call(request).await,
                Err(refused) => return Ok(refused.into_response()),
            };
            if let Some(charge) = request.extensions().get::<BodyCharge>() {
                charge.count_for(&identity.workspace);
            }
            let caller = identity.request_scope();
            request.extensions_mut().insert(caller.clone());
            request.extensions_mut().insert(identity);
            let mut response = ready.call(request).await?;
            response.extensions_mut().insert(CallerScope(caller));
            Ok(response)
        })
    }
}

impl Guard {
    /// Admits the caller; an open route has no identity.
    async fn admit(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
        signed_in: Option<Arc<Identity>>,
    ) -> Result<Option<Arc<Identity>>, Refused> {
        if self.answers_json {
            check_json_accepted(headers)?;
        }
        if self.access == Access::Open {
            return Ok(None);
        }
        let now = self.app.store.now();
        let identity = match signed_in {
            Some(identity) => identity,
            None => self.app.authenticator.identify(headers, address, now).await?,
        };
        self.app.request_rate.take(identity.credential.as_str(), Instant::now())?;
        if !self.access.allows(identity.role, identity.is_installation()) {
            let least = self.access.least_role();
            let detail =
                format!("The credential has the role {}; this needs {least}.", identity.role.as_str());
            return Err(Refused::new(Code::Forbidden, detail).with("requiredRole", least));
        }
        if self.refuses_versions && headers.contains_key(IF_MATCH) {
            let detail = "`If-Match` has no effect on this route, so it is rejected; omit it. For doubts and operations, `version` and \
                          `attempt` in the body say which state you saw.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", "header:If-Match"));
        }
        Ok(Some(identity))
    }
}
