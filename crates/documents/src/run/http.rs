//! Requests: sending them, and what their answers mean for the effect.

use std::collections::BTreeMap;
use std::time::Duration;

use hapax_engine::ctx::Attempt;
use hapax_engine::hold::NO_LONGER_HELD;
use hapax_engine::model::ProbeAnswer;
use hapax_engine::{Failure, Hold};
use serde_json::{Map, Value, json};

use super::Runner;
use super::effect::{is_kept, mapped};
use super::excerpt::{AnswerExcerpt, NOT_KEPT};
use crate::decode::{KEY_HEADER, is_telling};
use crate::evaluation_slots::evaluate_fairly;
use crate::expression::Failed;
use crate::host_services::{HttpAnswer, HttpCall, HttpFault, WorkspaceServices};
use crate::limits::{DEFAULT_HTTP_TIMEOUT, HTTP_GRACE, MAX_RESPONSE_BYTES, MAX_RESPONSE_HEADER_BYTES};
use crate::model::{Http, Probe, Request, Status, Step};
use crate::scope::Scope;
use crate::span::Span;

const SUCCESS: &[Status] = &[Status::Class(2)];
/// Statuses after which a retry may succeed. The key prevents a second effect.
const RETRYABLE: &[Status] =
    &[Status::Exactly(408), Status::Exactly(425), Status::Exactly(429), Status::Class(5)];
/// Statuses that prove that nothing was done. After any other status the provider may have done it anyway.
const CERTAINLY_NOT_DONE: &[Status] = &[Status::Exactly(425), Status::Exactly(429)];

impl Runner<'_> {
    pub(super) async fn http(self, step: &Step, http: &Http, scope: &Scope) -> Result<Value, Failure> {
        let name = scope.name(&step.name);
        let services = self.own_services();
        // An effect with a compensation must not be lost: if its response leaves the outcome open, it is retried or
        // goes to people.
        let is_kept = is_kept(&http.effect);
        let timeout = http.effect.timeout;
        let code = |attempt: Attempt| async move {
            let response = ask(services, &http.request, scope, &attempt, timeout, is_kept).await?;
            let body = response.get("body").cloned().unwrap_or(Value::Null);
            let results = [("result", body), ("response", response)];
            evaluate_fairly(self.ctx.workspace(), || mapped(step, scope, &results, is_kept)).await
        };
        let taken = self.ctx.step(&name, code).timeout(span_of(timeout) + HTTP_GRACE);
        self.arranged(taken, step, &http.effect, scope).await
    }

    /// The provider's report about an effect.
    pub(super) async fn probe(self, probe: &Probe, key: String, scope: &Scope) -> ProbeAnswer<Value> {
        ask_probe(self.own_services(), probe, &key, scope, self.ctx.hold()).await
    }
}

/// Asks the provider about the effect with this key. If it cannot be asked or understood, the outcome is unknown.
pub(crate) async fn ask_probe(
    services: WorkspaceServices<'_>,
    probe: &Probe,
    key: &str,
    scope: &Scope,
    hold: Hold,
) -> ProbeAnswer<Value> {
    let scope = scope.with("key", Value::String(key.to_owned()));
    let call = match prepare(services, &probe.request, &scope, key, probe.timeout).await {
        Ok(call) => call,
        Err(_) => return ProbeAnswer::Unknown,
    };
    let Ok(answer) = services.send(HttpCall { hold, ..call }).await else { return ProbeAnswer::Unknown };
    let response = response_of(&answer);
    let scope = scope.with("response", response.clone());
    let judge = || {
        if probe.happened.holds(&scope) == Ok(true) {
            let output = match &probe.output {
                Some(output) => output.render(&scope).ok(),
                None => response.get("body").cloned(),
            };
            return output.map_or(ProbeAnswer::Unknown, ProbeAnswer::Happened);
        }
        match probe.did_not_happen.as_ref().map(|did_not| did_not.holds(&scope)) {
            Some(Ok(true)) => ProbeAnswer::DidNotHappen,
            _ => ProbeAnswer::Unknown,
        }
    };
    evaluate_fairly(services.workspace(), judge).await
}

pub(crate) fn span_of(timeout: Option<Span>) -> Duration {
    timeout.map_or(DEFAULT_HTTP_TIMEOUT, Span::get)
}

/// Sends a request and interprets its answer.
pub(super) async fn ask(
    services: WorkspaceServices<'_>,
    request: &Request,
    scope: &Scope,
    attempt: &Attempt,
    timeout: Option<Span>,
    is_claimed: bool,
) -> Result<Value, Failure> {
    let call = prepare(services, request, scope, attempt.idempotency_key(), timeout).await?;
    let excerpt = call.excerpt.clone();
    match services.send(call.held_by(attempt.hold().clone(), attempt.fence())).await {
        Ok(answer) => judge(request, &excerpt, &answer, is_claimed),
        Err(fault) => Err(failure_of(fault, &excerpt, is_claimed)),
    }
}

/// Failure for a request without a response.
pub(crate) fn failure_of(fault: HttpFault, excerpt: &AnswerExcerpt, is_claimed: bool) -> Failure {
    let told = |why: &str| excerpt.describe_fault(&why.chars().take(300).collect::<String>());
    match fault {
        HttpFault::Refused { why } => Failure::permanent(told(&why)).with_code("http_refused"),
        HttpFault::NotSent { why } => Failure::retryable(told(&why)).with_code("http_not_sent"),
        HttpFault::NoLongerHeld => {
            Failure::retryable("this process no longer holds the right to it, so it was not sent")
                .with_code(NO_LONGER_HELD)
        }
        HttpFault::Unknown { why } => Failure::unknown(told(&why)).with_code("http_no_answer"),
        HttpFault::TooLarge { limit } => {
            let text = told(&format!("the answer is larger than {limit} bytes"));
            let failure =
                if is_claimed { Failure::unknown(text).finally() } else { Failure::permanent(text) };
            failure.with_code("http_too_large")
        }
    }
}

/// Fills in the templates of a request. After any error here, nothing was sent.
pub(crate) async fn prepare(
    services: WorkspaceServices<'_>,
    request: &Request,
    scope: &Scope,
    key: &str,
    timeout: Option<Span>,
) -> Result<HttpCall, Failure> {
    let workspace = services.workspace();
    let render = || request.url.render_url(scope, request.host_from_data.as_ref());
    let url = evaluate_fairly(workspace, render).await?;
    let mut secrets: BTreeMap<&str, String> = BTreeMap::new();
    for name in request.headers.values().flat_map(|value| value.secrets()) {
        if !secrets.contains_key(name) {
            secrets.insert(name, services.get_secret(name).await?.for_url(name, &url)?);
        }
    }
    let render = || {
        let mut headers = Vec::with_capacity(request.headers.len() + 2);
        for (name, value) in &request.headers {
            let known =
                |name: &str| secrets.get(name).cloned().ok_or_else(|| Failed(format!("no secret {name:?}")));
            let value = value.render_secret(scope, known)?;
            if value.chars().any(|c| c.is_control()) {
                let text = format!("the header {name} would hold a line break or another control character");
                return Err(Failure::permanent(text).with_code("bad_header"));
            }
            headers.push((name.clone(), value));
        }
        let body = request.body.as_ref().map(|body| body.render(scope)).transpose()?;
        Ok::<_, Failure>((headers, body))
    };
    let (mut headers, body) = evaluate_fairly(workspace, render).await?;
    let confidential = headers.iter().filter(|(name, _)| is_telling(name)).map(|(_, value)| value.clone());
    let excerpt = AnswerExcerpt::new(request, &url, secrets.into_values().chain(confidential));
    headers.push((request.key_header.clone().unwrap_or_else(|| KEY_HEADER.to_string()), key.to_string()));
    let body = body.map(|body| body_of(body, &mut headers));
    Ok(HttpCall {
        method: request.method.clone(),
        url,
        headers,
        body,
        timeout: span_of(timeout),
        max_response_bytes: MAX_RESPONSE_BYTES,
        hold: Hold::unlimited(),
        excerpt,
    })
}

/// JSON, unless a header declares another type and the body is a string.
fn body_of(body: Value, headers: &mut Vec<(String, String)>) -> Vec<u8> {
    let kind = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let is_json = kind.is_none_or(|(_, kind)| kind.contains("json"));
    if kind.is_none() {
        headers.push(("Content-Type".to_string(), "application/json".to_string()));
    }
    match body {
        Value::String(text) if !is_json => text.into_bytes(),
        body => body.to_string().into_bytes(),
    }
}

/// Decides from the response whether the effect succeeded.
pub(crate) fn judge(
    request: &Request,
    excerpt: &AnswerExcerpt,
    answer: &HttpAnswer,
    is_claimed: bool,
) -> Result<Value, Failure> {
    let covers = |statuses: &[Status]| statuses.iter().any(|status| status.covers(answer.status));
    if covers(request.success.as_deref().unwrap_or(SUCCESS)) {
        return Ok(response_of(answer));
    }
    let text = excerpt.describe(answer);
    let failure = match &request.retryable {
        // The document's author knows the meaning of these statuses.
        Some(statuses) if covers(statuses) => Failure::retryable(text),
        None if covers(RETRYABLE) && !is_claimed => Failure::retryable(text),
        None if covers(CERTAINLY_NOT_DONE) => Failure::retryable(text),
        _ if is_claimed && (answer.status >= 500 || answer.status == 408) => Failure::unknown(text),
        _ => Failure::permanent(text),
    };
    // A provider may execute the request and still answer with any of these. Whether to retry is decided separately.
    let failure = match answer.status >= 500 || answer.status == 408 {
        true => failure.that_may_have_happened(),
        false => failure,
    };
    let failure = failure.with_code(&format!("http_{}", answer.status));
    Err(match requested_wait(answer) {
        Some(wait) => failure.retry_after(wait),
        None => failure,
    })
}

/// Parses `Retry-After`: seconds, or a date relative to the answer's own `Date` header.
fn requested_wait(answer: &HttpAnswer) -> Option<Duration> {
    let header = |wanted: &str| {
        let found = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim())
    };
    let asked = header("retry-after")?;
    if let Ok(seconds) = asked.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp());
    let wait = date(asked)?.as_second() - date(header("date")?)?.as_second();
    u64::try_from(wait).ok().map(Duration::from_secs)
}

/// The answer as mappings see it.
fn response_of(answer: &HttpAnswer) -> Value {
    let (mut headers, mut left) = (Map::new(), MAX_RESPONSE_HEADER_BYTES);
    for (name, value) in &answer.headers {
        let name = name.to_ascii_lowercase();
        let size = name.len() + value.len();
        if NOT_KEPT.contains(&name.as_str()) || size > left || value.contains('\0') {
            continue;
        }
        left -= size;
        headers.entry(name).or_insert_with(|| Value::String(value.clone()));
    }
    let kind = headers.get("content-type").and_then(Value::as_str).unwrap_or_default();
    let may_be_json = kind.is_empty() || kind.contains("json");
    let parsed = may_be_json.then(|| serde_json::from_slice(&answer.body).ok()).flatten();
    let body = match parsed {
        Some(body) => body,
        None if answer.body.is_empty() => Value::Null,
        None => std::str::from_utf8(&answer.body).map_or(Value::Null, |text| Value::String(text.to_string())),
    };
    json!({ "status": answer.status, "headers": headers, "body": body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;
    use hapax_engine::model::FailureClass;

    fn request(retryable: Option<Vec<Status>>) -> Request {
        let url = Template::compile(json!("https://x"), &[], false).ok().unwrap();
        let method = "POST".to_string();
        Request {
            method,
            url,
            headers: BTreeMap::new(),
            body: None,
            key_header: None,
            success: None,
            retryable,
            host_from_data: None,
            keep_response: None,
        }
    }

    fn answer(status: u16, headers: &[(&str, &str)]) -> HttpAnswer {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        HttpAnswer { status, headers, body: Vec::new() }
    }

    #[test]
    fn statuses_tell_what_became_of_the_effect() {
        let class = |status, claimed| {
            judge(&request(None), &AnswerExcerpt::default(), &answer(status, &[]), claimed)
                .map_err(|f| f.class())
        };
        for claimed in [false, true] {
            assert!(class(200, claimed).is_ok() && class(204, claimed).is_ok());
            for status in [301, 400, 402, 404, 409, 422] {
                assert_eq!(class(status, claimed).unwrap_err(), FailureClass::Permanent, "{status}");
            }
            for status in [425, 429] {
                assert_eq!(class(status, claimed).unwrap_err(), FailureClass::Retryable, "{status}");
            }
        }
        for status in [408, 500, 502, 503, 504] {
            assert_eq!(class(status, false).unwrap_err(), FailureClass::Retryable, "{status}");
            assert_eq!(
                class(status, true).unwrap_err(),
                FailureClass::Unknown,
                "a claimed effect may have happened: {status}"
            );
        }
        let known = request(Some(vec![Status::Exactly(503)]));
        assert_eq!(
            judge(&known, &AnswerExcerpt::default(), &answer(503, &[]), true).unwrap_err().class(),
            FailureClass::Retryable
        );
        assert_eq!(
            judge(&known, &AnswerExcerpt::default(), &answer(429, &[]), false).unwrap_err().class(),
            FailureClass::Permanent
        );
        assert_eq!(
            judge(&known, &AnswerExcerpt::default(), &answer(500, &[]), true).unwrap_err().code(),
            Some("http_500")
        );
        let none = AnswerExcerpt::default();
        for (status, may_have) in [(500, true), (503, true), (408, true), (429, false), (404, false)] {
            for claimed in [true, false] {
                let failure = judge(&request(None), &none, &answer(status, &[]), claimed).unwrap_err();
                assert_eq!(failure.may_have_happened(), may_have, "{status}, claimed: {claimed}");
            }
            let failure = judge(&known, &none, &answer(status, &[]), true).unwrap_err();
            assert_eq!(failure.may_have_happened(), may_have, "{status}, whatever the document says of it");
        }
    }

    #[test]
    fn retry_after_is_passed_on() {
        let wait = |headers: &[(&str, &str)]| {
            judge(&request(None), &AnswerExcerpt::default(), &answer(429, headers), false)
                .unwrap_err()
                .requested_wait()
        };
        assert_eq!(wait(&[("Retry-After", "7")]), Some(Duration::from_secs(7)));
        let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(
            wait(&[date, ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")]),
            Some(Duration::from_secs(30))
        );
        assert_eq!(wait(&[date, ("retry-after", "Wed, 21 Oct 2015 07:27:30 GMT")]), None);
        assert_eq!(wait(&[("retry-after", "soon")]), None);
    }

    #[test]
    fn an_answer_is_read_by_its_type_and_without_what_is_not_to_be_kept() {
        let mut plain = answer(200, &[("Content-Type", "text/plain"), ("Set-Cookie", "session=1")]);
        plain.body = b"{\"a\":1}".to_vec();
        assert_eq!(response_of(&plain)["body"], json!("{\"a\":1}"));
        assert!(response_of(&plain)["headers"].get("set-cookie").is_none());
        let mut json = answer(200, &[("content-type", "application/problem+json")]);
        json.body = b"{\"a\":1}".to_vec();
        assert_eq!(response_of(&json)["body"]["a"], 1);
        json.body = b"{broken".to_vec();
        assert_eq!(response_of(&json)["body"], json!("{broken"));
        json.body = vec![0xff];
        assert_eq!(response_of(&json)["body"], Value::Null);
        assert_eq!(response_of(&answer(204, &[]))["body"], Value::Null);
    }
}
