//! The seam to the server: sessions and permissions.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use hapax_api::{Problem, Role};
use http::{Extensions, Method};

/// The browser that signs in.
#[derive(Debug, Clone, Default)]
pub struct Visitor {
    /// Address that the request came from.
    pub address: Option<IpAddr>,
    /// User agent of the browser.
    pub agent: String,
}

/// A signed-in caller.
#[derive(Clone)]
pub struct Session {
    /// Id among the sessions of the credential.
    pub id: String,
    /// The workspace: nothing outside it can be seen.
    pub workspace: String,
    /// Id of the credential that signed in.
    pub credential: String,
    /// Name of the credential.
    pub name: String,
    /// Role of the credential.
    pub role: Role,
    /// Belongs to the installation itself.
    pub is_installation: bool,
    /// Token that forms of this session contain, so that no other site can send one.
    pub csrf: String,
    /// Extensions that identify the caller to the host. The console adds them to every request to the API.
    pub marks: Extensions,
}

/// A session as its owner sees it.
#[derive(Debug, Clone)]
pub struct SessionSummary {
    /// Id among the sessions of the credential.
    pub id: String,
    /// When it began.
    pub signed_in_at: String,
    /// When it was last used, to the minute.
    pub last_seen_at: String,
    /// When it ends at the latest.
    pub expires_at: String,
    /// Where it began.
    pub address: Option<String>,
    /// User agent of the browser.
    pub agent: String,
}

/// A session that has just begun.
#[derive(Debug)]
pub struct NewSession {
    /// Value of the cookie. Only its hash is stored.
    pub token: String,
}

/// A browser that leaves for an identity provider.
#[derive(Debug)]
pub struct Departure {
    /// Where it goes.
    pub url: String,
    /// Value of the cookie that it brings back.
    pub cookie: String,
}

/// Query of the redirect that comes back from an identity provider.
#[derive(Debug, Default)]
pub struct ProviderAnswer {
    /// Value of the cookie of its departure.
    pub cookie: String,
    /// State of the sign-in.
    pub state: String,
    /// Code to exchange for tokens.
    pub code: String,
    /// Error, if nobody was let in.
    pub error: String,
    /// The issuer that answers, if it says so.
    pub issuer: String,
}

/// The server around the console.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Begins a session for an API key.
    async fn sign_in(&self, key: &str, visitor: &Visitor) -> Result<NewSession, Problem>;

    /// Begins a session for a sign-in link. A link works once.
    async fn sign_in_by_link(&self, token: &str, visitor: &Visitor) -> Result<NewSession, Problem>;

    /// Names and labels of the identity providers that people can sign in with.
    fn providers(&self) -> Vec<(String, String)>;

    /// Begins a sign-in at a provider that leads to `next` in the end.
    async fn leave_for_provider(&self, provider: &str, next: &str) -> Result<Departure, Problem>;

    /// Finishes it: begins a session, and says where to go.
    async fn return_from_provider(
        &self,
        answer: &ProviderAnswer,
        visitor: &Visitor,
    ) -> Result<(NewSession, String), Problem>;

    /// Finds the session of a cookie for a request from this address; `None` if it ended, expired, or its credential no longer
    /// counts there.
    async fn find_session(
        &self,
        token: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<Arc<Session>>, Problem>;

    /// Lists the sessions of the caller's credential.
    async fn list_sessions(&self, session: &Session) -> Result<Vec<SessionSummary>, Problem>;

    /// Ends one session of the caller's credential.
    async fn end_session(&self, session: &Session, id: &str) -> Result<(), Problem>;

    /// Ends all sessions of the caller's credential.
    async fn end_all_sessions(&self, session: &Session) -> Result<(), Problem>;

    /// Is the caller allowed to use this route of the API? `path` is its template.
    fn may(&self, session: &Session, method: &Method, path: &str) -> bool;

    /// Was the request, or the connection to the proxy before it, encrypted?
    fn is_encrypted(&self, request: &Extensions) -> bool;

    /// Address that a request came from.
    fn address(&self, request: &Extensions) -> Option<IpAddr>;

    /// Carries what the API must know of the request of a browser over to a request that a page makes.
    fn carry(&self, from: &Extensions, to: &mut Extensions);

    /// The time, in milliseconds since 1970, by the clock of the store.
    fn now_ms(&self) -> i64;
}
