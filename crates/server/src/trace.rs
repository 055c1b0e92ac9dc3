//! An id for each request that links a response, its log lines and the caller's trace.

use std::fmt;
use std::future::Future;

use http::HeaderMap;

tokio::task_local! {
    static CURRENT: TraceId;
}

/// 32 lower-case hex digits, as in W3C `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Content of `traceparent` beside the trace id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parent {
    /// 16 hex digits.
    pub(crate) span_id: String,
    /// Does the caller record its trace?
    pub(crate) is_sampled: bool,
}

impl TraceId {
    /// A new random id. It is not secret and finds nothing, so it need not be hard to guess.
    pub fn random() -> Self {
        TraceId(fastrand::u128(1..).to_be_bytes())
    }

    /// The caller's id, if `traceparent` is given once and well-formed; else a new one.
    pub fn from_request(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all("traceparent").iter();
        match (given.next(), given.next()) {
            (Some(value), None) => {
                value.to_str().ok().and_then(parse_traceparent).unwrap_or_else(Self::random)
            }
            _ => Self::random(),
        }
    }

    /// The caller's span that this request belongs to and whether it is recorded, if `traceparent` is given once and well-formed.
    pub(crate) fn find_parent(headers: &HeaderMap) -> Option<Parent> {
        let mut given = headers.get_all("traceparent").iter();
        let (Some(value), None) = (given.next(), given.next()) else { return None };
        let text = value.to_str().ok()?;
        parse_traceparent(text)?;
        let mut parts = text.split('-').skip(2);
        let (parent, flags) = (parts.next()?, parts.next()?);
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Parent { span_id: parent.to_owned(), is_sampled })
    }

    /// The id of the request that this task works on.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|id| *id).ok()
    }

    /// Runs `work` as part of this request. Work that is spawned onto another task must be wrapped
    /// again.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads `00-<32 hex>-<16 hex>-<2 hex>`; later versions may append fields.
fn parse_traceparent(text: &str) -> Option<TraceId> {
    let is_hex = |part: &str, chars| {
        part.len() == chars && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let mut parts = text.splitn(5, '-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let has_right_shape = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    if !has_right_shape || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let id = u128::from_str_radix(trace, 16).ok()?;
    (id != 0).then(|| TraceId(id.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("traceparent", value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_trace_of_the_caller_is_kept() {
        let headers = headers(&[&format!("00-{GIVEN}-00f067aa0ba902b7-01")]);
        assert_eq!(TraceId::from_request(&headers).to_string(), GIVEN);
    }

    #[test]
    fn a_malformed_trace_is_replaced_by_a_new_one() {
        for bad in [
            "",
            "00-xyz-00f067aa0ba902b7-01",
            &format!("00-{}-00f067aa0ba902b7-01", GIVEN.to_uppercase()),
            &format!("00-{GIVEN}-00f067aa0ba902b7-01-more"),
            &format!("ff-{GIVEN}-00f067aa0ba902b7-01"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        ] {
            let id = TraceId::from_request(&headers(&[bad])).to_string();
            assert!(id != GIVEN && id.len() == 32, "{bad}: {id}");
        }
        let twice = format!("00-{GIVEN}-00f067aa0ba902b7-01");
        assert_ne!(TraceId::from_request(&headers(&[&twice, &twice])).to_string(), GIVEN);
    }

    #[test]
    fn two_requests_have_two_names() {
        assert_ne!(TraceId::random(), TraceId::random());
    }
}
