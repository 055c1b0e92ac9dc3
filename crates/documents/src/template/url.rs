//! URLs from templates. A value is one path segment or one query value. It chooses the host only where the document allows that.

use hapax_engine::Failure;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::expression::Failed;
use crate::limits::MAX_URL_BYTES;
use crate::model::HostFromData;
use crate::problem::excerpt;

/// Characters of a value that stay as they are; all others are percent-encoded.
const URL_SAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Reason why a template gives no usable URL. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadUrl {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl BadUrl {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        BadUrl { code, message: message.into() }
    }
}

impl From<Failed> for BadUrl {
    fn from(failed: Failed) -> Self {
        BadUrl::new("expression_failed", failed.0)
    }
}

impl From<BadUrl> for Failure {
    fn from(bad: BadUrl) -> Self {
        Failure::permanent(bad.message).with_code(bad.code)
    }
}

/// The part that the end of a URL belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Start,
    Authority,
    Path,
    Query,
}

/// A URL split at its first `://`, `/` and `?`; nothing is decoded.
struct Parts<'a> {
    scheme: &'a str,
    authority: &'a str,
    path: &'a str,
    place: UrlPart,
}

fn parts(url: &str) -> Parts<'_> {
    let Some((scheme, rest)) = url.split_once("://") else {
        let place = if url.is_empty() { UrlPart::Start } else { UrlPart::Authority };
        return Parts { scheme: "", authority: url, path: "", place };
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let place = match () {
        () if end < rest.len() => UrlPart::Query,
        () if rest.is_empty() => UrlPart::Authority,
        () => UrlPart::Path,
    };
    Parts { scheme, authority, path: &rest[..end], place }
}

/// The host of a URL in lower case, without its port.
pub(crate) fn host_of(url: &str) -> String {
    let authority = parts(url).authority;
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.to_ascii_lowercase()
}

/// Returns true if a path segment is `.` or `..`, also for a server that decodes the path before it splits it.
pub(crate) fn has_dot_segment(url: &str) -> bool {
    parts(url).path.split('/').any(is_dotted)
}

fn is_dotted(segment: &str) -> bool {
    let decoded = percent_decode_str(segment).decode_utf8_lossy();
    decoded.split(['/', '\\', ';']).any(|part| part == "." || part == "..")
}

/// Builds a URL piece by piece and rejects values that would change its meaning.
pub(super) struct UrlBuilder<'a> {
    url: String,
    from_data: Option<&'a HostFromData>,
    /// Segments of the path that contain a value, by index, with the expression.
    filled: Vec<(usize, String)>,
}

impl<'a> UrlBuilder<'a> {
    pub(super) fn new(from_data: Option<&'a HostFromData>) -> Self {
        UrlBuilder { url: String::new(), from_data, filled: Vec::new() }
    }

    pub(super) fn push_fixed(&mut self, text: &str) {
        self.url.push_str(text);
    }

    /// Appends the value of the expression `source`.
    pub(super) fn push_value(&mut self, source: &str, value: &str, is_last: bool) -> Result<(), BadUrl> {
        let Parts { path, place, .. } = parts(&self.url);
        let shown = excerpt(source);
        match place {
            UrlPart::Start | UrlPart::Authority if self.from_data.is_none() => {
                let message = format!("`{shown}` would choose the host; allow that with \"hostFromData\"");
                return Err(BadUrl::new("host_from_data", message));
            }
            UrlPart::Start => {
                if !is_last && value.contains(['?', '#']) {
                    let message = format!("`{shown}` gave an address with a query, and more follows it");
                    return Err(BadUrl::new("bad_url", message));
                }
                self.url.push_str(value);
            }
            UrlPart::Authority => {
                let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
                if value.is_empty() || !value.bytes().all(is_host) {
                    let message = format!("`{shown}` gave no part of a host name: letters, digits, - and .");
                    return Err(BadUrl::new("bad_url", message));
                }
                self.url.push_str(value);
            }
            UrlPart::Path => {
                self.filled.push((path.matches('/').count(), shown.to_string()));
                self.url.extend(utf8_percent_encode(value, URL_SAFE));
            }
            UrlPart::Query => self.url.extend(utf8_percent_encode(value, URL_SAFE)),
        }
        Ok(())
    }

    /// Checks the whole URL.
    pub(super) fn finish(self) -> Result<String, BadUrl> {
        let UrlBuilder { url, from_data, filled } = self;
        let Parts { scheme, authority, path, .. } = parts(&url);
        let is_one_line = !url.chars().any(|c| c.is_control() || c == ' ' || c == '\\');
        let is_web = matches!(scheme, "http" | "https") && !authority.is_empty() && !authority.contains('@');
        if !is_web || !is_one_line || url.len() > MAX_URL_BYTES {
            let shown = excerpt(url.split(['?', '@']).next().unwrap_or_default());
            return Err(BadUrl::new("bad_url", format!("{shown:?} is not a URL that can be called")));
        }
        let segments: Vec<&str> = path.split('/').collect();
        for (number, source) in &filled {
            let segment = segments.get(*number).copied().unwrap_or_default();
            if segment.is_empty() {
                let message = format!("`{source}` is empty, which leaves a path segment empty");
                return Err(BadUrl::new("bad_path_segment", message));
            }
            if is_dotted(segment) {
                let message = format!(
                    "`{source}` gave \".\" or \"..\", which would change the path around it; a value is one path segment"
                );
                return Err(BadUrl::new("bad_path_segment", message));
            }
        }
        if segments.iter().any(|segment| is_dotted(segment)) {
            return Err(BadUrl::new("bad_path_segment", "a path segment of the URL is \".\" or \"..\""));
        }
        match from_data {
            Some(allowed) if !allowed.allows(&host_of(&url)) => {
                let message = format!("the host {:?} is not in \"hostFromData\"", excerpt(&host_of(&url)));
                Err(BadUrl::new("host_not_allowed", message))
            }
            _ => Ok(url),
        }
    }
}
