//! The server around the console: who is signed in, and what they may do.

mod links;
mod sessions;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use hapax_api::{Code, Problem};
use hapax_console::{Departure, Host, NewSession, ProviderAnswer, Session, SessionSummary, Visitor};
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap, HeaderValue, Method};

use crate::access::Access;
use crate::app::App;
use crate::connection::Peer;
use crate::credentials::key::ApiKey;
use crate::identity::{Acting, Identity};
use crate::people::{Begun, People, Returned};
use crate::routes::list_routes;
use crate::trace::TraceId;

pub(crate) use sessions::KeptSession;

use links::Links;
use sessions::{Proof, Sessions};

/// Who a request inside this process speaks for. It cannot come from the network, so the guard asks for no key.
#[derive(Clone)]
pub(crate) struct SignedIn(pub(crate) Arc<Identity>);

/// The server, as the console sees it.
pub(crate) struct ConsoleHost {
    app: Arc<App>,
    sessions: Sessions,
    links: Links,
    /// Permission for each route, from the table that guards them.
    access: HashMap<(Method, &'static str), Access>,
}

impl ConsoleHost {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let access = list_routes().into_iter().map(|(method, path, access)| ((method, path), access));
        ConsoleHost {
            sessions: Sessions::new(app.directory.clone(), app.people.clone()),
            links: Links::default(),
            access: access.collect(),
            app,
        }
    }

    /// Path and query of a link that signs in once.
    pub(crate) fn link(&self, key: &ApiKey) -> Result<String, Problem> {
        let token = self.links.make(key)?;
        Ok(format!("/console/sign-in/link?token={token}"))
    }

    async fn begin(&self, key: &ApiKey, visitor: &Visitor) -> Result<NewSession, Problem> {
        let now = self.app.store.now();
        let found = self.app.directory.find_credential_of(key).await?;
        let credential = found.filter(|credential| credential.admits(key, now)).ok_or_else(unknown_key)?;
        self.begin_as(credential.identity(), Proof::Key(key), visitor).await
    }

    async fn begin_as(
        &self,
        identity: Identity,
        proof: Proof<'_>,
        visitor: &Visitor,
    ) -> Result<NewSession, Problem> {
        let acting = acting(identity, visitor.address);
        self.sessions.begin(&acting.identity, proof, visitor, acting.actor(None), self.app.store.now()).await
    }

    fn people(&self) -> Result<&People, Problem> {
        let absent =
            || Problem::new(Code::NotFound, "This server has no identity provider. Sign in with an API key.");
        self.app.people.as_deref().ok_or_else(absent)
    }
}

fn unknown_key() -> Problem {
    Problem::new(
        Code::Unauthorized,
        "No credential has this key. It may be mistyped, expired, rotated or revoked.",
    )
}

fn identity_of(session: &Session) -> Result<Arc<Identity>, Problem> {
    let marked = session.marks.get::<SignedIn>().map(|SignedIn(identity)| identity.clone());
    marked.ok_or_else(|| Problem::new(Code::Unauthorized, "Sign in again."))
}

/// The caller at an address.
fn acting(identity: Identity, address: Option<IpAddr>) -> Acting {
    Acting { identity: Arc::new(identity), address, trace_id: TraceId::current() }
}

#[async_trait]
impl Host for ConsoleHost {
    async fn sign_in(&self, key: &str, visitor: &Visitor) -> Result<NewSession, Problem> {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::try_from(format!("Bearer {key}")) {
            headers.insert(AUTHORIZATION, value);
        }
        // Uses the path of every other caller, so wrong keys count together with wrong keys of the API.
        self.app.authenticator.identify(&headers, visitor.address, self.app.store.now()).await?;
        let key = ApiKey::parse(key).map_err(|_| unknown_key())?;
        self.begin(&key, visitor).await
    }

    async fn sign_in_by_link(&self, token: &str, visitor: &Visitor) -> Result<NewSession, Problem> {
        let used = || {
            Problem::new(
                Code::Unauthorized,
                "The link was used, or is too old. Start the server again for another one, or sign in with a key.",
            )
        };
        let key = self.links.take(token).ok_or_else(used)?;
        self.begin(&key, visitor).await
    }

    fn providers(&self) -> Vec<(String, String)> {
        self.app.people.as_ref().map(|people| people.list()).unwrap_or_default()
    }

    async fn leave_for_provider(&self, provider: &str, next: &str) -> Result<Departure, Problem> {
        let Begun { url, cookie } = self.people()?.begin(provider, next, self.app.store.now()).await?;
        Ok(Departure { url, cookie })
    }

    async fn return_from_provider(
        &self,
        answer: &ProviderAnswer,
        visitor: &Visitor,
    ) -> Result<(NewSession, String), Problem> {
        let returned = Returned {
            cookie: &answer.cookie,
            state: &answer.state,
            code: &answer.code,
            error: &answer.error,
            issuer: &answer.issuer,
        };
        let finished = self.people()?.finish(&returned, self.app.store.now()).await;
        let (person, identity, next) =
            finished.map_err(|refusal| self.app.authenticator.refuse_person(visitor.address, refusal))?;
        Ok((self.begin_as(identity, Proof::Person(person), visitor).await?, next))
    }

    async fn find_session(
        &self,
        token: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<Arc<Session>>, Problem> {
        self.sessions.find(token, address, self.app.store.now()).await
    }

    async fn list_sessions(&self, session: &Session) -> Result<Vec<SessionSummary>, Problem> {
        self.sessions.list(&*identity_of(session)?, self.app.store.now()).await
    }

    async fn end_session(&self, session: &Session, id: &str) -> Result<(), Problem> {
        self.sessions.end(&*identity_of(session)?, Some(id), self.app.store.now()).await
    }

    async fn end_all_sessions(&self, session: &Session) -> Result<(), Problem> {
        self.sessions.end(&*identity_of(session)?, None, self.app.store.now()).await
    }

    fn may(&self, session: &Session, method: &Method, path: &str) -> bool {
        let found = self.access.iter().find(|((of, template), _)| of == method && *template == path);
        debug_assert!(found.is_some(), "there is no route {method} {path}");
        found.is_some_and(|(_, access)| access.allows(session.role, session.is_installation))
    }

    fn is_encrypted(&self, request: &Extensions) -> bool {
        request.get::<Peer>().is_some_and(|peer| peer.is_tls)
    }

    fn address(&self, request: &Extensions) -> Option<IpAddr> {
        request.get::<Peer>().map(|peer| peer.address.ip())
    }

    fn carry(&self, from: &Extensions, to: &mut Extensions) {
        if let Some(peer) = from.get::<Peer>() {
            to.insert(*peer);
        }
        if let Some(trace_id) = from.get::<TraceId>() {
            to.insert(*trace_id);
        }
    }

    fn now_ms(&self) -> i64 {
        self.app.store.now().as_millis()
    }
}

/// Random text that nobody guesses.
fn secret() -> Result<String, Problem> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the operating system gives no random bytes");
        Problem::new(Code::Internal, "No secret could be made. Report `traceId` to the operator.")
    })?;
    Ok(crate::base62::encode(&bytes, crate::credentials::key::SECRET_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_console_is_a_route_of_the_api() {
        let routes = list_routes();
        for op in hapax_console::ops::ALL {
            let is_there = routes.iter().any(|(method, path, _)| *method == op.method && *path == op.path);
            assert!(is_there, "{} {}", op.method, op.path);
        }
    }
}
