//! Forms: each carries what makes sending it twice harmless, and what keeps other sites from sending it.
//!
//! `key` is an idempotency key that was made with the form, so a double click and a repeated POST are one action. `version`
//! is the version that was shown. `csrf` belongs to the session.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Redirect, Response};
use hapax_api::{Code, DurationText, Problem, RawJson};
use http::header::{HOST, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderName};
use maud::{Markup, html};
use serde::Serialize;
use subtle::ConstantTimeEq;

use crate::Console;
use crate::api::{Answer, Guards};
use crate::failure::Failure;
use crate::flash::Flash;
use crate::limits::MAX_FORM_BYTES;
use crate::ops::Op;
use crate::visit::Visit;

/// A form that POSTs to `action`, with its hidden fields. `version` is the version of what is shown, if it has one.
pub(crate) fn form(visit: &Visit, action: &str, version: Option<u64>, fields: Markup) -> Markup {
    html! {
        form method="post" action=(action) {
            input type="hidden" name="csrf" value=(visit.session.csrf);
            input type="hidden" name="key" value={ "console-" (uuid::Uuid::new_v4()) };
            @if let Some(version) = version { input type="hidden" name="version" value=(version); }
            (fields)
        }
    }
}

/// A form behind a button that opens it, without scripts: for what needs a reason, or a second look.
pub(crate) fn disclosed(label: &str, tone: Tone, form: Markup) -> Markup {
    html! {
        details.disclosed name="action" {
            summary.button.(tone.class()) { (label) }
            div.sheet { (form) }
        }
    }
}

/// How grave a button is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Primary,
    Danger,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Primary => "primary",
            Tone::Danger => "danger",
        }
    }
}

/// The button that sends a form.
pub(crate) fn submit(label: &str, tone: Tone) -> Markup {
    html! { button.(tone.class()) type="submit" { (label) } }
}

/// A button that cannot be pressed, and why.
pub(crate) fn disabled(label: &str, reason: Markup) -> Markup {
    html! {
        div.withheld {
            button.plain type="button" disabled { (label) }
            p.reason { (reason) }
        }
    }
}

/// A field of one line.
pub(crate) fn text_field(
    name: &str,
    label: &str,
    value: &str,
    hint: Option<&str>,
    is_required: bool,
) -> Markup {
    html! {
        label.field {
            span { (label) @if !is_required { small { " (optional)" } } }
            input type="text" name=(name) value=(value) required[is_required] autocomplete="off";
            @if let Some(hint) = hint { small { (hint) } }
        }
    }
}

/// A field of several lines.
pub(crate) fn area(name: &str, label: &str, value: &str, hint: Option<&str>, is_required: bool) -> Markup {
    html! {
        label.field {
            span { (label) @if !is_required { small { " (optional)" } } }
            textarea name=(name) rows="3" required[is_required] { (value) }
            @if let Some(hint) = hint { small { (hint) } }
        }
    }
}

/// A field for JSON or another text that machines read, as it stands.
pub(crate) fn code_area(name: &str, label: &str, value: &str, hint: Option<&str>, rows: usize) -> Markup {
    html! {
        label.field {
            span { (label) }
            // HTML drops one line break at the beginning.
            textarea.code name=(name) rows=(rows) spellcheck="false" { "\n" (value) }
            @if let Some(hint) = hint { small { (hint) } }
        }
    }
}

/// A choice among a few.
pub(crate) fn choice(name: &str, label: &str, options: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        label.field {
            span { (label) }
            select name=(name) {
                @for (value, text) in options { option value=(value) selected[*value == chosen] { (text) } }
            }
        }
    }
}

/// A form that came in from its own page.
pub(crate) struct Submitted {
    pub(crate) visit: Visit,
    fields: Vec<(String, String)>,
}

impl Submitted {
    /// The field as it was typed, without space around it; empty if absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.trim())
    }

    /// The field, if anything was typed.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    }

    /// All values of a field that may be there several times.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.clone()).collect()
    }

    /// Was the box ticked?
    pub(crate) fn is_ticked(&self, name: &str) -> bool {
        !self.text(name).is_empty()
    }

    /// The field as JSON, byte for byte; `None` if nothing was typed.
    pub(crate) fn json(&self, name: &str) -> Result<Option<RawJson>, Failure> {
        let Some(text) = self.given(name) else { return Ok(None) };
        RawJson::from_text(text).map(Some).map_err(|error| {
            let detail = format!("`{name}` must be one JSON value: {error}. Text is quoted: \"like this\".");
            self.visit.refuse(Problem::new(Code::InvalidJson, detail))
        })
    }

    /// Sends what was decided, under the key of the form and for the version that was shown.
    pub(crate) async fn send<T: Serialize>(
        &self,
        op: &Op,
        arguments: &[&str],
        body: &T,
    ) -> Result<Answer, Failure> {
        self.try_send(op, arguments, body).await.map_err(|problem| self.visit.refuse(problem))
    }

    /// The same for a page that says in its own way why it was refused.
    pub(crate) async fn try_send<T: Serialize>(
        &self,
        op: &Op,
        arguments: &[&str],
        body: &T,
    ) -> Result<Answer, Problem> {
        self.visit.api().send(op, arguments, self.guards(), body).await
    }

    /// The same for an operation that takes a query, or no body.
    pub(crate) async fn send_with<T: Serialize>(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
        body: Option<&T>,
    ) -> Result<Answer, Failure> {
        let sent = self.visit.api().send_with(op, arguments, query, self.guards(), body).await;
        sent.map_err(|problem| self.visit.refuse(problem))
    }

    /// Sends what needs no words.
    pub(crate) async fn send_bare(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<Answer, Failure> {
        self.send_with(op, arguments, query, None::<&()>).await
    }

    fn guards(&self) -> Guards<'_> {
        Guards {
            key: Some(self.text("key")).filter(|key| !key.is_empty()),
            version: Some(self.text("version")).filter(|version| !version.is_empty()),
        }
    }

    /// Reads an answer of the API, in the frame of this page.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, answer: &Answer) -> Result<T, Failure> {
        answer.read().map_err(|problem| self.visit.refuse(problem))
    }

    /// A field that is a span of time; `None` if nothing was typed.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<DurationText>, Failure> {
        let Some(text) = self.given(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let detail = format!("`{name}` is a span of time such as 30m, 24h or 7d.");
            self.visit.refuse(Problem::new(Code::InvalidRequest, detail))
        })
    }

    /// A field that is one of the words of a choice, as the API spells it.
    pub(crate) fn word<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        serde_json::from_value(self.text(name).into()).map_err(|_| {
            let detail = format!("`{name}` is one of the words that the form offers.");
            self.visit.refuse(Problem::new(Code::InvalidRequest, detail))
        })
    }

    /// A field that is a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, Failure> {
        self.text(name).parse().map_err(|_| {
            self.visit.refuse(Problem::new(Code::InvalidRequest, format!("`{name}` is a number.")))
        })
    }

    /// Where a refusal leads back to.
    pub(crate) fn leads_back_to(&mut self, path: &str) {
        self.visit.frame.back = Some(path.to_owned());
    }

    /// Leads to a page that says what was done. After a POST a reload repeats nothing.
    pub(crate) fn done(&self, path: &str, message: &str) -> Response {
        let mut response = Redirect::to(path).into_response();
        response.headers_mut().append(SET_COOKIE, Flash::cookie(message));
        response
    }
}

impl FromRequest<Arc<Console>> for Submitted {
    type Rejection = Failure;

    async fn from_request(request: Request, console: &Arc<Console>) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let mut visit = Visit::from_request_parts(&mut parts, console).await?;
        visit.frame.back = Some(crate::HOME.to_owned());
        check_origin(&parts.headers).map_err(|problem| visit.refuse(problem))?;
        let fields = read_fields(body).await.map_err(|problem| visit.refuse(problem))?;
        let given = fields.iter().find(|(name, _)| name == "csrf").map_or("", |(_, value)| value);
        if !bool::from(given.as_bytes().ct_eq(visit.session.csrf.as_bytes())) {
            let detail = "The form does not belong to this session. Open the page anew and send it again.";
            return Err(visit.refuse(Problem::new(Code::Forbidden, detail)));
        }
        Ok(Submitted { visit, fields })
    }
}

/// The fields of a form, in their order.
pub(crate) async fn read_fields(body: axum::body::Body) -> Result<Vec<(String, String)>, Problem> {
    let bytes = axum::body::to_bytes(body, MAX_FORM_BYTES).await.map_err(|_| {
        let detail = format!("A form has at most {MAX_FORM_BYTES} bytes, and arrives in time.");
        Problem::new(Code::InvalidRequest, detail)
    })?;
    Ok(form_urlencoded::parse(&bytes).into_owned().collect())
}

/// Refuses forms of other sites, as far as the browser tells. `Sec-Fetch-Site` decides where there is one, because a proxy may
/// change `Host`.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let said = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // Pages send no referrer, and browsers then call the origin of their forms `null`.
    let origin = said(ORIGIN).filter(|origin| *origin != "null");
    let is_own = match said(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => matches!(site, "same-origin" | "none"),
        None => origin.is_none_or(|origin| {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.zip(said(HOST)).is_some_and(|(origin, own)| origin.eq_ignore_ascii_case(own))
        }),
    };
    match is_own {
        true => Ok(()),
        false => Err(Problem::new(Code::Forbidden, "Another site sent this form. Nothing was done.")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_form_of_another_site_is_told_by_what_the_browser_says() {
        let check = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            check_origin(&pairs.collect()).is_ok()
        };
        let own = ("host", "hapax.example");
        assert!(check(&[own]), "a program");
        assert!(check(&[own, ("origin", "null"), ("sec-fetch-site", "same-origin")]));
        assert!(check(&[own, ("origin", "https://hapax.example")]));
        assert!(check(&[
            ("host", "backend"),
            ("origin", "https://hapax.example"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!check(&[own, ("origin", "https://evil.example")]));
        assert!(!check(&[own, ("origin", "null"), ("sec-fetch-site", "cross-site")]));
        assert!(!check(&[own, ("sec-fetch-site", "same-site")]));
    }
}
