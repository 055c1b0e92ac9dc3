//! A request of a signed-in caller.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::Response;
use hapax_api::{Problem, Role};
use http::request::Parts;
use http::{Extensions, HeaderValue, Method};
use maud::Markup;
use serde::de::DeserializeOwned;

use crate::api::{Answer, Api};
use crate::failure::Failure;
use crate::flash::Flash;
use crate::layout::{self, Frame, Theme};
use crate::ops::Op;
use crate::session::{self, read_cookie};
use crate::{Console, Session};

/// A request of a signed-in caller, with access to the API on their behalf.
pub(crate) struct Visit {
    pub(crate) console: Arc<Console>,
    pub(crate) session: Arc<Session>,
    /// Value of the session cookie.
    pub(crate) token: String,
    /// Address that the request came from.
    pub(crate) address: Option<IpAddr>,
    api: Api,
    pub(crate) frame: Frame,
    /// The time now, in milliseconds.
    pub(crate) now_ms: i64,
}

impl Visit {
    /// May the caller use this operation? Show no button if not.
    pub(crate) fn may(&self, op: &Op) -> bool {
        self.console.host.may(&self.session, &op.method, op.path)
    }

    /// Reads from the API: `arguments` fill the braces of the path, in their order.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<T, Failure> {
        self.api.read(op, arguments, query).await.map_err(|problem| self.refuse(problem))
    }

    /// Reads, and gives the body as it is.
    pub(crate) async fn ask(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<Answer, Failure> {
        self.api.ask(op, arguments, query).await.map_err(|problem| self.refuse(problem))
    }

    /// Reads for a part of a page that can be left out, with a query.
    pub(crate) async fn look_up<T: DeserializeOwned>(
        &self,
        op: &Op,
        query: &[(&str, Option<&str>)],
    ) -> Result<Option<T>, Failure> {
        self.look_up_at(op, &[], query).await
    }

    /// The same for an operation with arguments in its path.
    pub(crate) async fn look_up_at<T: DeserializeOwned>(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<Option<T>, Failure> {
        match self.api.read(op, arguments, query).await {
            Ok(found) => Ok(Some(found)),
            Err(problem) if problem.status == 404 => Ok(None),
            Err(problem) => Err(self.refuse(problem)),
        }
    }

    /// Is the caller a manager, who may make irreversible decisions?
    pub(crate) fn is_manager(&self) -> bool {
        matches!(self.session.role, Role::Manager | Role::Admin)
    }

    /// Reads for a part of a page that can be left out: `None` if there is no such thing, or if the caller may not read it.
    pub(crate) async fn find<T: DeserializeOwned>(
        &self,
        op: &Op,
        arguments: &[&str],
    ) -> Result<Option<T>, Failure> {
        if !self.may(op) {
            return Ok(None);
        }
        self.api.find(op, arguments).await.map_err(|problem| self.refuse(problem))
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// The refusal as a page.
    pub(crate) fn refuse(&self, problem: Problem) -> Failure {
        Failure::in_frame(problem, &self.frame)
    }

    /// The page. `title` is for the tab; the content brings its own heading.
    pub(crate) fn page(&self, title: &str, content: Markup) -> Response {
        layout::page(&self.frame, title, content)
    }
}

impl FromRequestParts<Arc<Console>> for Visit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, console: &Arc<Console>) -> Result<Self, Failure> {
        let here = parts.uri.path_and_query().map_or("/console", |it| it.as_str()).to_owned();
        let is_read = parts.method == Method::GET;
        let comes_from = parts.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let signed_out = || match comes_from {
            Some(b"cross-site") if is_read => Failure::FromElsewhere { here: here.clone() },
            _ => Failure::SignedOut { next: if is_read { here.clone() } else { String::new() } },
        };
        let host = &console.host;
        let is_encrypted = session::is_encrypted(console, &parts.extensions, &parts.headers);
        let token = session::token_in(&parts.headers, is_encrypted).ok_or_else(signed_out)?;
        let address = host.address(&parts.extensions);
        let session = host.find_session(&token, address).await?.ok_or_else(signed_out)?;
        let mut marks = Extensions::new();
        host.carry(&parts.extensions, &mut marks);
        marks.extend(session.marks.clone());
        let api = Api { routes: console.api.clone(), marks };
        let nav = layout::Nav::of(&|op: &Op| host.may(&session, &op.method, op.path));
        let frame = Frame {
            session: session.clone(),
            nav,
            path: parts.uri.path().to_owned(),
            here,
            theme: Theme::of(read_cookie(&parts.headers, layout::THEME_COOKIE)),
            flash: Flash::of(read_cookie(&parts.headers, crate::flash::COOKIE)),
            search: String::new(),
            back: None,
            live: None,
            refresh: false,
        };
        let now_ms = host.now_ms();
        Ok(Visit { console: console.clone(), session, token, address, api, frame, now_ms })
    }
}
