//! Sign-in and sign-out. The cookie contains a secret; the store keeps its hash.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use hapax_api::{Code, Problem};
use http::header::{COOKIE, SET_COOKIE, USER_AGENT};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode};
use maud::{Markup, html};
use serde::Deserialize;

use crate::failure::Failure;
use crate::form::{self, Submitted, check_origin, read_fields};
use crate::limits::{MAX_AGENT_CHARS, MAX_NEXT_BYTES, SESSION_LIFETIME, SIGN_IN_AT_PROVIDER};
use crate::visit::Visit;
use crate::{Console, HOME, NewSession, ProviderAnswer, Visitor, layout, ui};

/// The cookie of a session over an encrypted connection. A browser takes this name from this server alone.
const COOKIE_ENCRYPTED: &str = "__Host-hapax_session";
/// The same over plain HTTP, where browsers refuse the name above.
const COOKIE_PLAIN: &str = "hapax_session";

/// The cookie of a sign-in at an identity provider. The provider sends the browser back from another site, so it is `Lax`.
const LEAVING_ENCRYPTED: &str = "__Host-hapax_sign_in";
/// The same over plain HTTP.
const LEAVING_PLAIN: &str = "hapax_sign_in";

pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/sign-in", get(show).post(sign_in))
        .route("/console/sign-in/link", get(show_link).post(sign_in_by_link))
        .route("/console/sign-in/provider", get(leave))
        .route("/console/sign-in/callback", get(come_back))
        .route("/console/sign-out", post(sign_out))
        .route("/console/sessions", get(list))
        .route("/console/sessions/end", post(end))
        .route("/console/sessions/end-all", post(end_all))
        .route("/console/theme", post(set_theme))
}

/// The value of a cookie.
pub(crate) fn read_cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value.to_owned())
}

/// Is the connection encrypted, by this server or by the proxy in front? The answer affects only the cookie of this request.
pub(crate) fn is_encrypted(console: &Console, extensions: &Extensions, headers: &HeaderMap) -> bool {
    let forwarded = headers.get("x-forwarded-proto").map(HeaderValue::as_bytes);
    console.host.is_encrypted(extensions) || forwarded == Some(b"https")
}

/// Value of the session cookie.
pub(crate) fn token_in(headers: &HeaderMap, is_encrypted: bool) -> Option<String> {
    read_cookie(headers, cookie_name(is_encrypted))
}

fn cookie_name(is_encrypted: bool) -> &'static str {
    if is_encrypted { COOKIE_ENCRYPTED } else { COOKIE_PLAIN }
}

fn cookie(is_encrypted: bool, token: &str, seconds: u64) -> HeaderValue {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let name = cookie_name(is_encrypted);
    let value = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::try_from(value).expect("a token is plain text")
}

/// Where to go after signing in: a page of the console, and nowhere else.
fn next_of(given: &str) -> &str {
    let is_page = given == HOME || given.starts_with("/console/") || given.starts_with("/console?");
    let is_plain = given.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_page && is_plain && given.len() <= MAX_NEXT_BYTES { given } else { HOME }
}

#[derive(Debug, Deserialize)]
struct Next {
    #[serde(default)]
    next: String,
}

async fn show(State(console): State<Arc<Console>>, Query(Next { next }): Query<Next>) -> Response {
    layout::bare("", "Sign in", sign_in_form(&console, next_of(&next), None))
}

fn sign_in_form(console: &Console, next: &str, refusal: Option<&Problem>) -> Markup {
    let providers = console.host.providers();
    let tone = if providers.is_empty() { form::Tone::Primary } else { form::Tone::Plain };
    html! {
        section.sign-in {
            p.mark { (ui::logo()) "Hapax" }
            h1 { "Sign in" }
            @if let Some(problem) = refusal {
                p.wrong role="alert" {
                    @match problem.code {
                        Code::Unauthorized => "No credential has this key. It may be mistyped, expired, rotated or revoked.",
                        _ => (problem.detail),
                    }
                }
            }
            @for (name, label) in &providers {
                @let query = crate::text::query(&[("name", Some(name)), ("next", Some(next))]);
                a.button.primary.provider href={ "/console/sign-in/provider" (query) } { "Sign in with " (label) }
            }
            @if !providers.is_empty() { p.or { "or with a key" } }
            form method="post" action="/console/sign-in" {
                input type="hidden" name="next" value=(next);
                label.field {
                    span { "API key" }
                    input type="password" name="api-key" required autofocus[providers.is_empty()] autocomplete="current-password" placeholder="hpx_…" spellcheck="false";
                }
                (form::submit("Sign in", tone))
            }
            p.hint { "You see and do what the role of the key allows, under its name in the audit log. An admin of the workspace makes keys." }
        }
    }
}

async fn sign_in(State(console): State<Arc<Console>>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.headers)?;
    let fields = read_fields(body).await?;
    let field =
        |name: &str| fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.trim());
    let next = next_of(field("next")).to_owned();
    let visitor = visitor(&console, &parts);
    match console.host.sign_in(field("api-key"), &visitor).await {
        Ok(new) => Ok(signed_in(&console, &parts, new, &next)),
        Err(problem) => {
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNAUTHORIZED);
            Ok((status, layout::bare("", "Sign in", sign_in_form(&console, &next, Some(&problem))))
                .into_response())
        }
    }
}

#[derive(Debug, Deserialize)]
struct Link {
    #[serde(default)]
    token: String,
}

/// A link is used by a form, so that what fetches addresses ahead does not use it up.
async fn show_link(Query(Link { token }): Query<Link>) -> Response {
    let content = html! {
        section.sign-in {
            p.mark { (ui::logo()) "Hapax" }
            h1 { "Sign in" }
            p { "This link signs you in once." }
            form method="post" action="/console/sign-in/link" data-submit-at-once {
                input type="hidden" name="token" value=(token);
                (form::submit("Open the console", form::Tone::Primary))
            }
        }
    };
    layout::bare("", "Sign in", content)
}

async fn sign_in_by_link(State(console): State<Arc<Console>>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.headers)?;
    let fields = read_fields(body).await?;
    let token = fields.iter().find(|(field, _)| field == "token").map_or("", |(_, value)| value);
    let new = console.host.sign_in_by_link(token, &visitor(&console, &parts)).await?;
    Ok(signed_in(&console, &parts, new, HOME))
}

#[derive(Debug, Deserialize)]
struct Leaving {
    #[serde(default)]
    name: String,
    #[serde(default)]
    next: String,
}

fn leaving_cookie(is_encrypted: bool, value: &str, seconds: u64) -> HeaderValue {
    let (name, secure) = match is_encrypted {
        true => (LEAVING_ENCRYPTED, "; Secure"),
        false => (LEAVING_PLAIN, ""),
    };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    HeaderValue::try_from(text).expect("it is plain text")
}

/// Sends the browser to an identity provider. A link, because browsers let no form lead to another site.
async fn leave(
    State(console): State<Arc<Console>>,
    Query(Leaving { name, next }): Query<Leaving>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, _) = request.into_parts();
    let departure = console.host.leave_for_provider(&name, next_of(&next)).await?;
    let is_encrypted = is_encrypted(&console, &parts.extensions, &parts.headers);
    let mut response = Redirect::to(&departure.url).into_response();
    let cookie = leaving_cookie(is_encrypted, &departure.cookie, SIGN_IN_AT_PROVIDER.as_secs());
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

#[derive(Debug, Deserialize)]
struct CameBack {
    #[serde(default)]
    state: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    iss: String,
}

/// The browser is back from the provider. The cookie of the departure counts once, whatever comes of it.
async fn come_back(
    State(console): State<Arc<Console>>,
    Query(back): Query<CameBack>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let is_encrypted = is_encrypted(&console, &parts.extensions, &parts.headers);
    let name = if is_encrypted { LEAVING_ENCRYPTED } else { LEAVING_PLAIN };
    let answer = ProviderAnswer {
        cookie: read_cookie(&parts.headers, name).unwrap_or_default(),
        state: back.state,
        code: back.code,
        error: back.error,
        issuer: back.iss,
    };
    let finished = console.host.return_from_provider(&answer, &visitor(&console, &parts)).await;
    let mut response = match finished {
        Ok((new, next)) => {
            // From this page, so that the browser sends the strict cookie along.
            let mut response = layout::again(next_of(&next));
            let cookie = cookie(is_encrypted, &new.token, SESSION_LIFETIME.as_secs());
            response.headers_mut().append(SET_COOKIE, cookie);
            response
        }
        Err(problem) => {
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNAUTHORIZED);
            (status, layout::bare("", "Sign in", not_let_in(&problem))).into_response()
        }
    };
    response.headers_mut().append(SET_COOKIE, leaving_cookie(is_encrypted, "", 0));
    response
}

fn not_let_in(problem: &Problem) -> Markup {
    html! {
        section.sign-in {
            p.mark { (ui::logo()) "Hapax" }
            h1 { "You are not signed in" }
            p.wrong role="alert" { (problem.detail) }
            @if let Some(id) = &problem.trace_id { p.hint { "Trace " code { (id) } } }
            a.button.primary href="/console/sign-in" { "Back to sign-in" }
        }
    }
}

fn visitor(console: &Console, parts: &http::request::Parts) -> Visitor {
    let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = agent.chars().take(MAX_AGENT_CHARS).collect();
    Visitor { address: console.host.address(&parts.extensions), agent }
}

fn signed_in(console: &Console, parts: &http::request::Parts, new: NewSession, next: &str) -> Response {
    let is_encrypted = is_encrypted(console, &parts.extensions, &parts.headers);
    let mut response = Redirect::to(next).into_response();
    let cookie = cookie(is_encrypted, &new.token, SESSION_LIFETIME.as_secs());
    response.headers_mut().append(SET_COOKIE, cookie);
    response
}

async fn sign_out(form: Submitted) -> Result<Response, Failure> {
    let visit = &form.visit;
    let ended = visit.console.host.end_session(&visit.session, &visit.session.id).await;
    ended.map_err(|problem| visit.refuse(problem))?;
    Ok(signed_out())
}

/// Leads to the door, and takes the cookie away, whatever it is called.
fn signed_out() -> Response {
    let mut response = Redirect::to("/console/sign-in").into_response();
    for is_encrypted in [true, false] {
        response.headers_mut().append(SET_COOKIE, cookie(is_encrypted, "", 0));
    }
    response
}

async fn list(visit: Visit) -> Result<Response, Failure> {
    let sessions = visit.console.host.list_sessions(&visit.session).await;
    let sessions = sessions.map_err(|problem| visit.refuse(problem))?;
    let rows = sessions.iter().map(|session| {
        let is_own = session.id == visit.session.id;
        vec![
            html! { (ui::time(&session.signed_in_at)) @if is_own { " " (ui::tag("this one")) } },
            ui::time(&session.last_seen_at),
            ui::time(&session.expires_at),
            html! { @match &session.address { Some(address) => code.nowrap { (address) }, None => (ui::none()) } },
            html! { span.dim { (session.agent) } },
            form::form(
                &visit,
                "/console/sessions/end",
                None,
                html! {
                    input type="hidden" name="id" value=(session.id);
                    (form::submit("End", form::Tone::Plain))
                },
            ),
        ]
    });
    let content = html! {
        (ui::heading("Sessions", html! { "Browsers that are signed in with the credential " b { (visit.session.name) } "." }))
        (ui::table(&["Signed in", "Last seen", "Ends", "Address", "Browser", ""], rows.collect(), "No session."))
        div.actions {
            (form::form(&visit, "/console/sessions/end-all", None, form::submit("Sign out everywhere", form::Tone::Danger)))
        }
    };
    Ok(visit.page("Sessions", content))
}

async fn end(form: Submitted) -> Result<Response, Failure> {
    let visit = &form.visit;
    let id = form.text("id");
    let ended = visit.console.host.end_session(&visit.session, id).await;
    ended.map_err(|problem| visit.refuse(problem))?;
    match id == visit.session.id {
        true => Ok(signed_out()),
        false => Ok(form.done("/console/sessions", "The session has ended.")),
    }
}

async fn end_all(form: Submitted) -> Result<Response, Failure> {
    let visit = &form.visit;
    let ended = visit.console.host.end_all_sessions(&visit.session).await;
    ended.map_err(|problem| visit.refuse(problem))?;
    Ok(signed_out())
}

async fn set_theme(form: Submitted) -> Response {
    let theme = form.text("theme");
    let mut response = Redirect::to(next_of(form.text("next"))).into_response();
    response.headers_mut().append(SET_COOKIE, layout::Theme::of(Some(theme.to_owned())).cookie());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_signing_in_nobody_is_led_out_of_the_console() {
        for bad in [
            "https://evil.example/console/",
            "//evil.example",
            "/console\\@evil",
            "/docs",
            "",
            "/console/\nx",
        ] {
            assert_eq!(next_of(bad), HOME, "{bad:?}");
        }
        assert_eq!(next_of("/console/runs?status=FAILED"), "/console/runs?status=FAILED");
    }

    #[test]
    fn the_cookie_is_for_this_server_alone_and_no_script_reads_it() {
        let cookie = cookie(true, "t", 60);
        let text = cookie.to_str().unwrap();
        assert_eq!(text, "__Host-hapax_session=t; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure");
    }
}
