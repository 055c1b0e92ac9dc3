//! Guard of a route: authenticates and authorizes callers.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use hapax_api::{Code, Role};
use hapax_engine::model::{Name, RequestScope, Timestamp};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, IF_MATCH};
use http::{HeaderMap, HeaderValue};
use tower_layer::Layer;
use tower_service::Service;

use crate::access::Access;
use crate::action_token::{BadToken, token_in};
use crate::answer::Refused;
use crate::app::App;
use crate::body_budget::BodyCharge;
use crate::connection::Peer;
use crate::console::SignedIn;
use crate::identity::Identity;
use crate::limits::MAX_MASKED_BYTES;
use crate::mask::{HiddenValues, Unmasked};
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
    /// Does it take action tokens of the entity in its path?
    pub(crate) takes_action_tokens: bool,
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
            let entity = match guard.takes_action_tokens && token_in(request.headers()).is_some() {
                true => {
                    let entity = entity_in_path(request).await;
                    request = entity.0;
                    entity.1
                }
                false => None,
            };
            let identity = match guard.admit(request.headers(), address, signed_in, entity).await {
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
            let hidden = guard.hides_from(&request, &caller);
            let mut response = ready.call(request).await?;
            if let Some(hidden) = hidden {
                response = mask_body(response, &hidden).await;
            }
            response.extensions_mut().insert(CallerScope(caller));
            Ok(response)
        })
    }
}

/// Masks a JSON response. Streams mask their own events. Problems hold no payloads.
async fn mask_body(response: Response, hidden: &HiddenValues) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_json = kind.is_some_and(|kind| kind.starts_with(b"application/json"));
    if !is_json || response.extensions().get::<Unmasked>().is_some() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let masked = match to_bytes(body, MAX_MASKED_BYTES).await {
        Ok(bytes) => hidden.mask().apply(&bytes),
        Err(_) => None,
    };
    let Some(masked) = masked else {
        tracing::error!("a response could not be masked, so it is not sent");
        return Refused::new(
            Code::Internal,
            "The response could not be masked. Report `traceId` to the operator.",
        )
        .into_response();
    };
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(masked))
}

impl Guard {
    /// What responses of this route must not show this caller. Workers get what they work on.
    fn hides_from(&self, request: &Request, caller: &RequestScope) -> Option<HiddenValues> {
        if self.access == Access::Work {
            return None;
        }
        let identity = request.extensions().get::<Arc<Identity>>()?;
        if !identity.sees_payloads {
            return Some(HiddenValues::Payloads);
        }
        self.app.definitions.sensitive_names(&caller.workspace).map(HiddenValues::Fields)
    }

    /// Admits the caller; an open route has no identity.
    async fn admit(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
        signed_in: Option<Arc<Identity>>,
        entity: Option<(String, String)>,
    ) -> Result<Option<Arc<Identity>>, Refused> {
        if self.answers_json {
            check_json_accepted(headers)?;
        }
        if self.access == Access::Open {
            return Ok(None);
        }
        let now = self.app.store.now();
        let identity = match (signed_in, token_in(headers).zip(entity)) {
            (Some(identity), _) => identity,
            (None, Some((token, entity))) => self.admit_token(token, &entity, address, now).await?,
            (None, None) => self.app.authenticator.identify(headers, address, now).await?,
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

    /// Admits the holder of an action token of this entity, with the credential that created the token.
    async fn admit_token(
        &self,
        token: &str,
        (kind, id): &(String, String),
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Arc<Identity>, Refused> {
        let over =
            || Refused::new(Code::Unauthorized, "The action token is over. Ask your server for another one.");
        let grant = match self.app.action_tokens.open(token, now) {
            Ok(grant) => grant,
            Err(BadToken::Expired) => return Err(over()),
            Err(BadToken::Unknown) => return Err(self.app.authenticator.refuse(address, None).into()),
        };
        if (&grant.kind, &grant.id) != (kind, id) {
            let detail =
                format!("The action token is for {}/{}, and for nothing else.", grant.kind, grant.id);
            return Err(Refused::new(Code::Forbidden, detail));
        }
        let credential = Name::new("credential", &grant.credential).map_err(|_| over())?;
        let own = self.app.authenticator.find_identity(&credential, now).await?.ok_or_else(over)?;
        // The credential may have lost its requester or its role since.
        let is_manager = matches!(own.role, Role::Manager | Role::Admin);
        if own.requester.is_some() && own.requester != grant.requester
            || grant.role == Role::Manager && !is_manager
            || !Access::Operate.allows(own.role, false)
        {
            return Err(over());
        }
        Ok(Arc::new(Identity {
            role: grant.role,
            requester: grant.requester,
            acts_for: grant.person,
            ..(*own).clone()
        }))
    }
}

/// Type and id of the entity in the path of a request.
async fn entity_in_path(request: Request) -> (Request, Option<(String, String)>) {
    let (mut parts, body) = request.into_parts();
    let found = RawPathParams::from_request_parts(&mut parts, &()).await.ok().and_then(|path| {
        let part = |name| path.iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_owned());
        part("type").zip(part("id"))
    });
    (Request::from_parts(parts, body), found)
}
