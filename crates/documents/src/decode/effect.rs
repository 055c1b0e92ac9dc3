//! Effect options, requests, probes and compensations.

use std::collections::BTreeMap;
use std::time::Duration;

use hapax_engine::limits::{MAX_ATTEMPTS, MAX_NAME_CHARS};
use hapax_engine::model::{EffectClass, OnDoubt, OnExhausted};

use super::{Decoder, Fields, Located};
use crate::fields;
use crate::host_services::FENCE_HEADER;
use crate::limits::{MAX_HEADERS, MAX_HOSTS, MAX_HTTP_TIMEOUT, MAX_KEPT_RESPONSE_CHARS};
use crate::model::{Effect, HostFromData, KeepResponse, Probe, Request, Retry, Status, Undo};
use crate::node::Kind;
use crate::problem::{below, excerpt};
use crate::span::Span;
use crate::template::{Template, has_dot_segment};

/// Headers that only the HTTP client sets.
const CALLERS_OWN: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "keep-alive",
];
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// Default header for the effect key.
pub(crate) const KEY_HEADER: &str = "Idempotency-Key";

impl Decoder<'_> {
    pub(super) fn effect(&mut self, fields: &mut Fields<'_>, is_http: bool) -> Option<Effect> {
        let classes = [("idempotent", EffectClass::Idempotent), ("claimed", EffectClass::Claimed)];
        let place = fields.take("effect");
        let class = self.choice(place, &classes, EffectClass::Idempotent);
        let is_claimed = class == EffectClass::Claimed;
        let doubts = [("hold", OnDoubt::Hold), ("retry", OnDoubt::Retry), ("fail", OnDoubt::Fail)];
        let place = fields.take("onDoubt");
        if let Some(place) = &place
            && !is_claimed
        {
            let message =
                "only a claimed effect comes into doubt; add \"effect\": \"claimed\", or leave this out";
            self.error(place, "not_claimed", message);
        }
        let on_doubt = self.choice(place, &doubts, OnDoubt::Hold);
        let place = fields.take("nonIdempotent");
        let non_idempotent = self.flag(place.clone());
        if let Some(place) = &place
            && non_idempotent
            && !is_claimed
        {
            let message = "it is not idempotent, and nothing keeps it from happening twice; add \"effect\": \"claimed\"";
            self.error(place, "unprotected_effect", message);
        }
        let place = fields.take("rejectsStaleFences");
        let rejects_stale_fences = self.flag(place.clone());
        if let Some(place) = &place
            && rejects_stale_fences
            && !is_claimed
        {
            let message = "only a claimed effect waits for earlier holders; add \"effect\": \"claimed\", or leave this out";
            self.error(place, "not_claimed", message);
        }
        let retry = fields.take("retry").map(|place| self.retry(&place));
        let endings = [("fail", OnExhausted::Fail), ("pause", OnExhausted::Pause)];
        let place = fields.take("onExhausted");
        let on_exhausted = self.choice(place, &endings, OnExhausted::Fail);
        let place = fields.take("timeout");
        let timeout = if is_http { self.http_timeout(place) } else { self.span(place) };
        let place = fields.take("probe");
        if let Some(place) = &place
            && !is_claimed
        {
            let message = "a probe asks about a claimed effect; add \"effect\": \"claimed\", or leave it out";
            self.error(place, "not_claimed", message);
        }
        let probe = place.map(|place| self.probe(&place));
        let compensate = fields.take("compensate").map(|place| self.undo(&place));
        Some(Effect {
            class,
            on_doubt,
            non_idempotent,
            rejects_stale_fences,
            retry: transpose(retry)?,
            on_exhausted,
            timeout,
            probe: transpose(probe)?.map(Box::new),
            compensate: transpose(compensate)?.map(Box::new),
        })
    }

    fn retry(&mut self, place: &Located<'_>) -> Option<Retry> {
        let mut fields = self.object(place)?;
        let attempts =
            fields.take("maxAttempts").and_then(|place| self.number(&place, 1, MAX_ATTEMPTS.into()));
        let give_up_after = fields.take("for");
        let give_up_after = self.span(give_up_after);
        let first_place = fields.take("first");
        let first = self.span(first_place.clone());
        let factor = fields.take("factor").and_then(|place| match &place.node.kind {
            Kind::Number(number) => {
                let factor = number.as_f64().filter(|factor| (1.0..=100.0).contains(factor));
                if factor.is_none() {
                    self.error(&place, "out_of_range", "it must be a number from 1 to 100");
                }
                factor
            }
            _ => {
                self.wrong_type(&place, "a number");
                None
            }
        });
        let cap = fields.take("cap");
        let cap = self.span(cap);
        self.finish(fields, "retry", &[fields::RETRY]);
        if let (Some(first), Some(cap), Some(place)) = (first, cap, &first_place)
            && first > cap
        {
            self.error(place, "out_of_range", "the first pause is longer than the cap");
        }
        let max_attempts = attempts.and_then(|attempts| u32::try_from(attempts).ok());
        Some(Retry { give_up_after, max_attempts, first, factor, cap })
    }

    pub(super) fn http_timeout(&mut self, place: Option<Located<'_>>) -> Option<Span> {
        self.timeout_up_to(MAX_HTTP_TIMEOUT, place)
    }

    pub(super) fn timeout_up_to(&mut self, most: Duration, place: Option<Located<'_>>) -> Option<Span> {
        let span = self.span(place.clone());
        if let (Some(place), Some(span)) = (place, span)
            && span.get() > most
        {
            let most = most.as_secs();
            self.error(
                &place,
                "out_of_range",
                format!("a request may take {most}s at most; wait for a promise instead"),
            );
        }
        span
    }

    /// The fields that define a request; `more` are the extra variables of its templates.
    pub(super) fn request(&mut self, fields: &mut Fields<'_>, more: &[&'static str]) -> Option<Request> {
        let method = self.need(fields, "method").and_then(|place| {
            let text = self.text(&place)?;
            if !METHODS.contains(&text) {
                let message = format!("{:?} is not one of: {}", excerpt(text), METHODS.join(", "));
                self.error(&place, "unknown_value", message);
            }
            Some(text.to_string())
        });
        let from_data = fields.take("hostFromData");
        let host_from_data = from_data.clone().map(|place| self.host_from_data(&place));
        let allows_hosts = host_from_data.is_some();
        let url = self.need(fields, "url").and_then(|place| self.url(&place, more, allows_hosts));
        let headers = fields.take("headers").map(|place| self.headers(&place, more));
        let sends_secrets =
            headers.iter().flatten().flat_map(BTreeMap::values).any(|value| !value.secrets().is_empty());
        if let (Some(place), Some(Some(HostFromData::Any)), true) =
            (&from_data, &host_from_data, sends_secrets)
        {
            let message = "data would choose where a secret goes; list the hosts: [\"api.example.com\", \"*.example.com\"]";
            self.error(place, "secret_to_any_host", message);
        }
        let body = fields.take("body");
        if let Some(body) = &body {
            self.look_for_secrets(body);
            if matches!(method.as_deref(), Some("GET" | "HEAD")) {
                self.error(body, "body_not_sent", "GET and HEAD have no body");
            }
        }
        let body = self.maybe_template(body, more);
        let key_header = fields.take("keyHeader").and_then(|place| {
            let name = self.text(&place)?;
            self.header_name(&place, name);
            Some(name.to_string())
        });
        let success = fields.take("success").map(|place| self.statuses(&place));
        let retryable = fields.take("retryable").map(|place| self.statuses(&place));
        let keep_response = fields.take("keepResponse").and_then(|place| self.keep_response(&place));
        let (success, retryable) = (transpose(success)?, transpose(retryable)?);
        let host_from_data = transpose(host_from_data)?;
        Some(Request {
            method: method?,
            url: url?,
            host_from_data,
            headers: headers.unwrap_or(Some(BTreeMap::new()))?,
            body,
            key_header,
            success,
            retryable,
            keep_response,
        })
    }

    /// `true`, or a list of hosts that data may choose.
    fn host_from_data(&mut self, place: &Located<'_>) -> Option<HostFromData> {
        if let Kind::Bool(allowed) = &place.node.kind {
            if !allowed {
                let message = "leave it out, or say true or which hosts data may choose";
                self.error(place, "unknown_value", message);
            }
            return allowed.then_some(HostFromData::Any);
        }
        let items = self.list(place)?;
        if items.is_empty() || items.len() > MAX_HOSTS {
            self.error(place, "out_of_range", format!("it lists 1 to {MAX_HOSTS} hosts"));
            return None;
        }
        let hosts: Vec<Option<String>> = items.iter().map(|item| self.host(item)).collect();
        hosts.into_iter().collect::<Option<_>>().map(HostFromData::Listed)
    }

    fn host(&mut self, place: &Located<'_>) -> Option<String> {
        let host = self.text(place)?.to_ascii_lowercase();
        let plain = host.strip_prefix("*.").unwrap_or(&host);
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'[' | b']' | b':');
        if plain.is_empty() || !plain.bytes().all(is_plain) || host.len() > MAX_NAME_CHARS {
            let message = "a host is a name without scheme, port and path, or \"*.\" and a domain";
            self.error(place, "bad_host", message);
            return None;
        }
        Some(host)
    }

    /// `false`, `true`, or a number of characters.
    fn keep_response(&mut self, place: &Located<'_>) -> Option<KeepResponse> {
        match &place.node.kind {
            Kind::Bool(true) => None,
            Kind::Bool(false) => Some(KeepResponse(0)),
            _ => {
                let chars = self.number(place, 0, MAX_KEPT_RESPONSE_CHARS as u64)?;
                usize::try_from(chars).ok().map(KeepResponse)
            }
        }
    }

    /// The URL. Unless `allows_hosts`, its scheme and host are fixed text, and data can only follow them.
    fn url(&mut self, place: &Located<'_>, more: &[&'static str], allows_hosts: bool) -> Option<Template> {
        let text = self.text(place)?;
        let fixed = text.split("{{").next().unwrap_or_default();
        let rest = fixed.strip_prefix("https://").or_else(|| fixed.strip_prefix("http://"));
        let is_fixed = fixed.len() == text.len();
        let host_from_data = match rest {
            None if fixed.is_empty() && !is_fixed => true,
            None => {
                self.error(place, "bad_url", "a URL begins with https:// or http://");
                return None;
            }
            Some(rest) => {
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                if host.contains('@') {
                    let message = "a URL holds no password; send a header with secret://name";
                    self.error(place, "inline_secret", message);
                }
                if host.is_empty() && (is_fixed || host.len() < rest.len()) {
                    self.error(place, "bad_url", "the URL has no host");
                }
                // The host is known once another character has ended it.
                let is_known = is_fixed || host.len() < rest.len();
                if is_known
                    && let Some(Err(why)) = self.known.addresses.as_ref().map(|judge| judge.judge(fixed))
                {
                    self.error(place, "address_not_allowed", format!("nothing may be sent there: {why}"));
                }
                !is_known
            }
        };
        if host_from_data && !allows_hosts {
            let message = "data would choose the host; end the host with / before the first expression, or allow it: \
                           \"hostFromData\": [\"api.example.com\"]";
            self.error(place, "host_from_data", message);
        }
        if !host_from_data && allows_hosts {
            self.warn(
                place,
                "host_is_fixed",
                "no expression is in the host, so \"hostFromData\" does nothing",
            );
        }
        if text.chars().any(|c| c.is_control()) {
            self.error(place, "bad_url", "a URL is one line without control characters");
        }
        let template = self.template(place, more)?;
        let outline = template.outline("x");
        if outline.contains('\\') || has_dot_segment(&outline) {
            let message = "a URL holds no \\\\ and no path segment that is . or ..";
            self.error(place, "bad_url", message);
        }
        Some(template)
    }

    fn headers(&mut self, place: &Located<'_>, more: &[&'static str]) -> Option<BTreeMap<String, Template>> {
        let fields = self.object(place)?;
        if fields.fields.len() > MAX_HEADERS {
            self.error(place, "out_of_range", format!("a request has at most {MAX_HEADERS} headers"));
            return None;
        }
        let (mut headers, mut is_whole) = (BTreeMap::new(), true);
        for (name, node) in fields.fields {
            let place = Located { path: below(&place.path, excerpt(name)), node };
            is_whole &= self.header_name(&place, name);
            if name.eq_ignore_ascii_case(KEY_HEADER) {
                let message = "the key of the effect is sent in this header; give \"keyHeader\" if it belongs in another";
                self.error(&place, "reserved_header", message);
            }
            if name.eq_ignore_ascii_case(FENCE_HEADER) {
                self.error(
                    &place,
                    "reserved_header",
                    "the number of the holder is sent in this header; leave it out",
                );
            }
            if headers.keys().any(|other: &String| other.eq_ignore_ascii_case(name)) {
                self.error(&place, "duplicate_key", "the header is here twice");
            }
            let Some(text) = self.text(&place) else {
                is_whole = false;
                continue;
            };
            if text.chars().any(|c| c.is_control()) {
                self.error(&place, "bad_header", "a header is one line without control characters");
            }
            match self.compile(&place, more, true) {
                Some(value) => {
                    self.check_header(name, &value, &place);
                    headers.insert(name.to_string(), value);
                }
                None => is_whole = false,
            }
        }
        is_whole.then_some(headers)
    }

    fn header_name(&mut self, place: &Located<'_>, name: &str) -> bool {
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || name.len() > 128 || !name.bytes().all(is_token) {
            self.error(place, "bad_header", format!("{:?} is not the name of a header", excerpt(name)));
            return false;
        }
        if CALLERS_OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            self.error(place, "reserved_header", format!("{name} is set by the caller itself"));
            return false;
        }
        true
    }

    fn statuses(&mut self, place: &Located<'_>) -> Option<Vec<Status>> {
        let items = self.list(place)?;
        let statuses: Vec<_> = items.iter().map(|item| self.status(item)).collect();
        statuses.into_iter().collect()
    }

    fn status(&mut self, place: &Located<'_>) -> Option<Status> {
        let status = match &place.node.kind {
            Kind::Number(number) => {
                let status = number.as_u64().filter(|status| (100..=599).contains(status));
                status.and_then(|status| u16::try_from(status).ok()).map(Status::Exactly)
            }
            Kind::Text(text) => match text.as_bytes() {
                [class @ b'1'..=b'5', b'x', b'x'] => Some(Status::Class(u16::from(class - b'0'))),
                _ => None,
            },
            _ => None,
        };
        if status.is_none() {
            self.error(
                place,
                "unknown_value",
                "a status is a number from 100 to 599, or a class such as \"5xx\"",
            );
        }
        status
    }

    pub(super) fn probe(&mut self, place: &Located<'_>) -> Option<Probe> {
        let mut fields = self.object(place)?;
        let request = self.request(&mut fields, &["key"]);
        let timeout = fields.take("timeout");
        let timeout = self.http_timeout(timeout);
        let settle = fields.take("settle");
        let settle = self.span(settle);
        let answer = &["key", "response"];
        let happened = self.need(&mut fields, "happened").and_then(|place| self.expression(&place, answer));
        let did_not = fields.take("didNotHappen").map(|place| self.expression(&place, answer));
        let output = fields.take("output");
        let output = self.maybe_template(output, answer);
        self.finish(fields, "a probe", &[fields::REQUEST, fields::PROBE]);
        let did_not_happen = transpose(did_not)?;
        Some(Probe { request: request?, timeout, settle, happened: happened?, did_not_happen, output })
    }

    fn undo(&mut self, place: &Located<'_>) -> Option<Undo> {
        let mut fields = self.object(place)?;
        let place = self.need(&mut fields, "type")?;
        let is_http = self.choice(Some(place), &[("task", Some(false)), ("http", Some(true))], None)?;
        let undo = match is_http {
            false => {
                let task = self.need(&mut fields, "task").and_then(|place| self.task_name(&place));
                let input = fields.take("input");
                let input = self.maybe_template(input, &["output"]);
                let retry = fields.take("retry").map(|place| self.retry(&place));
                let retry = transpose(retry)?;
                task.map(|task| Undo::Task { task, input, retry })
            }
            true => {
                let request = self.request(&mut fields, &["output"]);
                let timeout = fields.take("timeout");
                let timeout = self.http_timeout(timeout);
                let retry = fields.take("retry").map(|place| self.retry(&place));
                let retry = transpose(retry)?;
                request.map(|request| Undo::Http { request: Box::new(request), timeout, retry })
            }
        };
        let allowed: &[&[&str]] = match is_http {
            true => &[fields::UNDO_HTTP, fields::REQUEST],
            false => &[fields::UNDO_TASK],
        };
        self.finish(fields, "a compensation", allowed);
        undo
    }
}

/// Accepts an absent field and rejects an invalid one.
fn transpose<T>(found: Option<Option<T>>) -> Option<Option<T>> {
    match found {
        None => Some(None),
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
    }
}
