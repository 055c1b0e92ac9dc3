//! Excerpt of a request and its response for a failure: method, URL without query, status, and a bounded part of the body without secrets.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::host_services::HttpAnswer;
use crate::limits::{DEFAULT_KEPT_RESPONSE_CHARS, MAX_SHOWN_URL_CHARS};
use crate::model::Request;

/// Headers of answers that are never stored.
pub(crate) const NOT_KEPT: &[&str] =
    &["set-cookie", "www-authenticate", "proxy-authenticate", "authorization"];

const REDACTED: &str = "[redacted]";

/// Describes one request and its answer for failures, ledger and log.
#[derive(Clone, PartialEq, Default)]
pub(crate) struct AnswerExcerpt {
    /// Method and URL without query.
    request: String,
    /// Values to redact, in every form that a provider may repeat.
    hidden: Vec<String>,
    /// Maximum length of a body excerpt, in characters.
    limit: usize,
}

impl AnswerExcerpt {
    /// `secrets` are the values of secrets and of confidential headers that the request carries.
    pub(crate) fn new(request: &Request, url: &str, secrets: impl IntoIterator<Item = String>) -> Self {
        let plain = url.split(['?', '#']).next().unwrap_or_default();
        let hidden: Vec<String> = secrets.into_iter().collect();
        let shown: String = redact(plain, &forms(&hidden)).chars().take(MAX_SHOWN_URL_CHARS).collect();
        AnswerExcerpt {
            request: format!("{} {shown}", request.method),
            hidden,
            limit: request.keep_response.map_or(DEFAULT_KEPT_RESPONSE_CHARS, |keep| keep.0),
        }
    }

    /// Describes the reason for a missing answer.
    pub(crate) fn describe_fault(&self, why: &str) -> String {
        format!("{}: {}", self.request, redact(why, &forms(&self.hidden)))
    }

    /// Describes the response.
    pub(crate) fn describe(&self, answer: &HttpAnswer) -> String {
        let told = format!("{} was answered {}", self.request, answer.status);
        match self.body(answer, self.limit) {
            Some(body) => format!("{told}: {body}"),
            None => told,
        }
    }

    /// The beginning of the body on one line, if it is text and the document allows storing it.
    fn body(&self, answer: &HttpAnswer, limit: usize) -> Option<String> {
        let text = std::str::from_utf8(&answer.body).ok().map(str::trim).filter(|text| !text.is_empty())?;
        if limit == 0 {
            return None;
        }
        let kept = self.clean(text, answer);
        let mut shown: String = kept.chars().take(limit).collect();
        if shown.len() < kept.len() {
            shown.push('…');
        }
        Some(shown)
    }

    /// The text without secrets and control characters. It is redacted before it is truncated, because half a secret is
    /// still confidential.
    pub(crate) fn clean(&self, text: &str, answer: &HttpAnswer) -> String {
        let is_not_kept = |name: &str| NOT_KEPT.iter().any(|not| name.eq_ignore_ascii_case(not));
        let given =
            answer.headers.iter().filter(|(name, _)| is_not_kept(name)).map(|(_, value)| value.clone());
        let hidden: Vec<String> = self.hidden.iter().cloned().chain(given).collect();
        let text = redact(text, &forms(&hidden));
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

/// Each value as plain text, as JSON and in URL encoding; longest first, so that no value hides part of another.
fn forms(hidden: &[String]) -> Vec<String> {
    let mut forms: Vec<String> = Vec::new();
    for value in hidden.iter().filter(|value| !value.trim().is_empty()) {
        let json = serde_json::Value::String(value.clone()).to_string();
        forms.push(json.trim_matches('"').to_string());
        forms.push(utf8_percent_encode(value, NON_ALPHANUMERIC).to_string());
        forms.push(value.clone());
    }
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms
}

fn redact(text: &str, forms: &[String]) -> String {
    forms.iter().fold(text.to_string(), |text, form| text.replace(form.as_str(), REDACTED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::KeepResponse;
    use crate::template::Template;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn excerpt(keep: Option<usize>, url: &str, secrets: &[&str]) -> AnswerExcerpt {
        let request = Request {
            method: "POST".into(),
            url: Template::compile(json!("https://x"), &[], false).ok().unwrap(),
            host_from_data: None,
            headers: BTreeMap::new(),
            body: None,
            key_header: None,
            success: None,
            retryable: None,
            keep_response: keep.map(KeepResponse),
        };
        AnswerExcerpt::new(&request, url, secrets.iter().map(ToString::to_string))
    }

    fn answer(headers: &[(&str, &str)], body: &str) -> HttpAnswer {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        HttpAnswer { status: 402, headers, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn the_reason_is_kept_with_method_and_url_without_query() {
        let excerpt = excerpt(None, "https://pay/v1/charges?card=4242#x", &[]);
        assert_eq!(
            excerpt.describe(&answer(&[], "{\"error\":\n\"card declined\"}")),
            "POST https://pay/v1/charges was answered 402: {\"error\": \"card declined\"}"
        );
        assert_eq!(excerpt.describe(&answer(&[], " ")), "POST https://pay/v1/charges was answered 402");
        assert_eq!(excerpt.describe_fault("no route"), "POST https://pay/v1/charges: no route");
    }

    #[test]
    fn no_form_of_a_secret_is_kept_not_even_half_of_one() {
        let secret = "s3cr\"t/of pay";
        let excerpt = excerpt(Some(12), "https://x/", &[secret, "Bearer s3cr\"t/of pay"]);
        let told = |headers: &[(&str, &str)], body: &str| excerpt.describe(&answer(headers, body));
        for body in [
            secret.to_string(),
            format!("1234567 {secret}"),
            json!({ "a": secret }).to_string(),
            format!("x={}", utf8_percent_encode(secret, NON_ALPHANUMERIC)),
            format!("Authorization: Bearer {secret}"),
        ] {
            let told = told(&[], &body);
            assert!(!told.contains("s3cr"), "{told}");
        }
        let told = told(&[("Set-Cookie", "session=99")], "you are session=99");
        assert!(!told.contains("=99"), "{told}");
        assert!(!excerpt.describe_fault(&format!("cut at {secret}")).contains("s3cr"));
    }

    #[test]
    fn a_document_may_keep_less_or_nothing() {
        let body = answer(&[], &"é".repeat(5_000));
        let kept = |keep| excerpt(keep, "https://x/", &[]).describe(&body).matches('é').count();
        assert_eq!((kept(None), kept(Some(3)), kept(Some(0))), (DEFAULT_KEPT_RESPONSE_CHARS, 3, 0));
        let binary = HttpAnswer { status: 500, headers: Vec::new(), body: vec![0xff, 0xfe] };
        assert_eq!(excerpt(None, "https://x/", &[]).describe(&binary), "POST https://x/ was answered 500");
    }
}
