//! The console in front of a server that runs elsewhere: only this crate is compiled while you work on a page.
//!
//! ```text
//! cargo run -p hapax-console --example over_http -- http://127.0.0.1:7171 hpx_… 127.0.0.1:7373
//! ```
//!
//! Everybody who opens it acts with the key it was given, as an admin, so it listens on this machine only. Never use it for
//! anything but work on pages.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hapax_api::{Code, Problem, Role};
use hapax_console::{Departure, Host, NewSession, ProviderAnswer, Session, SessionSummary, Visitor};
use http::header::COOKIE;
use http::{Extensions, HeaderValue, Method, StatusCode};

struct Everybody(Arc<Session>);

#[async_trait]
impl Host for Everybody {
    async fn sign_in(&self, _: &str, _: &Visitor) -> Result<NewSession, Problem> {
        Ok(NewSession { token: "everybody".into() })
    }

    async fn sign_in_by_link(&self, _: &str, _: &Visitor) -> Result<NewSession, Problem> {
        Ok(NewSession { token: "everybody".into() })
    }

    async fn find_session(&self, _: &str, _: Option<IpAddr>) -> Result<Option<Arc<Session>>, Problem> {
        Ok(Some(self.0.clone()))
    }

    fn providers(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn leave_for_provider(&self, _: &str, _: &str) -> Result<Departure, Problem> {
        Err(Problem::new(Code::NotFound, "This example has no identity provider."))
    }

    async fn return_from_provider(
        &self,
        _: &ProviderAnswer,
        _: &Visitor,
    ) -> Result<(NewSession, String), Problem> {
        Err(Problem::new(Code::NotFound, "This example has no identity provider."))
    }

    async fn list_sessions(&self, _: &Session) -> Result<Vec<SessionSummary>, Problem> {
        let now = jiff::Timestamp::now().to_string();
        Ok(vec![SessionSummary {
            id: self.0.id.clone(),
            signed_in_at: now.clone(),
            last_seen_at: now.clone(),
            expires_at: now,
            address: Some("127.0.0.1".into()),
            agent: "Example".into(),
        }])
    }

    async fn end_session(&self, _: &Session, _: &str) -> Result<(), Problem> {
        Ok(())
    }

    async fn end_all_sessions(&self, _: &Session) -> Result<(), Problem> {
        Ok(())
    }

    fn may(&self, _: &Session, _: &Method, path: &str) -> bool {
        // Those are for credentials of the installation.
        path != "/metrics" && path != "/api/v1/workspaces"
    }

    fn is_encrypted(&self, _: &Extensions) -> bool {
        false
    }

    fn address(&self, _: &Extensions) -> Option<IpAddr> {
        None
    }

    fn carry(&self, _: &Extensions, _: &mut Extensions) {}

    fn now_ms(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond()
    }
}

async fn forward(client: reqwest::Client, server: String, key: String, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let bytes = axum::body::to_bytes(body, 1 << 24).await.expect("a body of our own");
    let asked = client
        .request(parts.method, format!("{server}{path}"))
        .headers(parts.headers)
        .bearer_auth(key)
        .body(bytes);
    match asked.send().await {
        Ok(answer) => {
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut response = Response::new(Body::from(answer.bytes().await.unwrap_or_default()));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            response
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().unwrap_or_else(|| panic!("give {what}: SERVER KEY LISTEN"));
    let (server, key, listen) = (next("the server"), next("a key"), next("an address"));
    // Built with the whole workspace, the client asks for a TLS provider, though this example speaks plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let api = Router::new()
        .fallback(move |request: Request| forward(client.clone(), server.clone(), key.clone(), request));
    let session = Session {
        id: "one".into(),
        workspace: "dev".into(),
        credential: "cred_dev".into(),
        name: "hapax dev".into(),
        role: Role::Admin,
        is_installation: false,
        csrf: "everybody".into(),
        marks: Extensions::new(),
    };
    let pages = hapax_console::router(Arc::new(Everybody(Arc::new(session))), api);
    // Requests without a session get one.
    let pages =
        pages.layer(axum::middleware::from_fn(async |mut request: Request, next: axum::middleware::Next| {
            let cookies =
                request.headers().get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or("x=y");
            let cookies = format!("hapax_session=everybody; {cookies}");
            request.headers_mut().insert(COOKIE, HeaderValue::try_from(cookies).expect("cookies are plain"));
            next.run(request).await
        }));
    let listener = tokio::net::TcpListener::bind(&listen).await.expect("the address is free");
    assert!(listener.local_addr().expect("it is bound").ip().is_loopback(), "on this machine only");
    println!("http://{listen}/console?");
    axum::serve(listener, pages).await.expect("it serves");
}
