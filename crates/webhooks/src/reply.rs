//! Decides from the response to a webhook how its delivery continues.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::limits::MAX_RETRY_AFTER;

/// Outcome of one attempt.
#[derive(Debug, Clone)]
pub enum Reply<'a> {
    /// An answer. Its status counts, however much of its body could be read.
    Answered {
        /// Its status.
        status: u16,
        /// Its headers, as far as known.
        headers: Option<&'a HeaderMap>,
    },
    /// No answer: the request was not sent, or no response came back. Either way it may be sent again, under the same
    /// id.
    Silence {
        /// The cause.
        why: &'a str,
    },
    /// Our rules forbid the address. Nothing was sent, and nothing will be until the address or the rules change.
    Forbidden {
        /// The rule.
        why: &'a str,
    },
}

/// Next state of the delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The receiver accepted it.
    Delivered,
    /// Retry by the [schedule](crate::wait_after), and not before the pause `asked` for by the receiver is over.
    Again {
        /// The cause.
        why: String,
        /// The requested pause, at most [`MAX_RETRY_AFTER`].
        asked: Option<Duration>,
    },
    /// No automatic retry: the delivery is dead, and a person may send it again.
    GiveUp {
        /// The cause.
        why: String,
    },
    /// The receiver is permanently gone: this delivery is dead, and no other is sent there.
    Disable {
        /// The response.
        why: String,
    },
}

/// Judges an attempt. `now` is used for a `Retry-After` date if the answer has no `Date` header.
pub fn judge(reply: &Reply<'_>, now: SystemTime) -> Verdict {
    match reply {
        Reply::Answered { status: 200..=299, .. } => Verdict::Delivered,
        Reply::Answered { status: 410, .. } => {
            Verdict::Disable { why: "answered 410: the receiver wants no more".to_string() }
        }
        Reply::Answered { status: status @ 300..=399, .. } => {
            let why = format!("answered {status}, a redirect, which is not followed; give the final address");
            Verdict::Again { why, asked: None }
        }
        Reply::Answered { status, headers } => {
            let asked = match status {
                429 | 503 => headers.and_then(|headers| requested_wait(headers, now)),
                _ => None,
            };
            Verdict::Again { why: format!("answered {status}"), asked }
        }
        Reply::Silence { why } => Verdict::Again { why: why.to_string(), asked: None },
        Reply::Forbidden { why } => Verdict::GiveUp { why: why.to_string() },
    }
}

/// Parses `Retry-After`: seconds, or a date relative to the answer's own `Date` header if it has one.
fn requested_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let text = header(RETRY_AFTER)?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows counts as infinite.
        let wait = text.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs);
        return Some(wait.min(MAX_RETRY_AFTER));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let from = header(DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    until.duration_since(from).ok().map(|wait| wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, headers: &[(&'static str, &'static str)]) -> Verdict {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        judge(&Reply::Answered { status, headers: Some(&headers) }, SystemTime::UNIX_EPOCH)
    }

    fn asked(verdict: Verdict) -> Option<u64> {
        match verdict {
            Verdict::Again { asked, .. } => asked.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        }
    }

    /// RELIABILITY, webhooks out: 2xx only is success; 3xx failure; 410 disables.
    #[test]
    fn a_status_decides_the_next_state_of_the_delivery() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(answered(status, &[]), Verdict::Delivered, "{status}");
        }
        assert!(matches!(answered(410, &[]), Verdict::Disable { .. }));
        for status in
            [100, 300, 301, 302, 304, 307, 400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504]
        {
            assert_eq!(asked(answered(status, &[])), None, "{status}");
        }
        let now = SystemTime::UNIX_EPOCH;
        assert!(matches!(judge(&Reply::Silence { why: "no connection" }, now), Verdict::Again { .. }));
        assert!(matches!(judge(&Reply::Forbidden { why: "a private address" }, now), Verdict::GiveUp { .. }));
        assert_eq!(judge(&Reply::Answered { status: 200, headers: None }, now), Verdict::Delivered);
    }

    #[test]
    fn a_pause_that_is_asked_for_is_granted_up_to_a_day() {
        for status in [429, 503] {
            assert_eq!(asked(answered(status, &[("retry-after", "7")])), Some(7));
            assert_eq!(asked(answered(status, &[("retry-after", "9999999")])), Some(86_400));
            assert_eq!(asked(answered(status, &[("retry-after", "99999999999999999999999")])), Some(86_400));
            let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
            let in_half_a_minute = ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT");
            assert_eq!(asked(answered(status, &[date, in_half_a_minute])), Some(30));
            assert_eq!(
                asked(answered(status, &[in_half_a_minute])),
                Some(86_400),
                "counted from our own time"
            );
            for nonsense in ["soon", "-1", "", "1.5"] {
                assert_eq!(asked(answered(status, &[("retry-after", nonsense)])), None, "{nonsense:?}");
            }
        }
        assert_eq!(asked(answered(500, &[("retry-after", "7")])), None);
    }
}
