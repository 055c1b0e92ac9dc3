//! Headers of the contract: parsing, and formatting of dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_engine::model::{IdempotencyKey, Timestamp};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::limits::MAX_WAIT;
use crate::problem::{Code, Problem};

/// The key of a request.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Time at which the caller first sent the request, so that a late retry does not run again.
pub const IDEMPOTENCY_FIRST_SENT: HeaderName = HeaderName::from_static("idempotency-first-sent");
/// `true` on a replayed answer.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Expiry of a replayed answer.
pub const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");
/// `false` on an answer that could not be stored: the work was done, but a retry may not find it.
pub const IDEMPOTENCY_STORED: HeaderName = HeaderName::from_static("idempotency-stored");

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The last second that an HTTP date can express: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The key of a request, bare or as a quoted string, or `None`.
pub fn read_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(value) = read_once(headers, &IDEMPOTENCY_KEY, Code::InvalidKey)? else { return Ok(None) };
    let refuse = || {
        let detail = "Idempotency-Key must be 1 to 255 printable ASCII characters, bare or as a quoted string. Send one such \
                      key, best a random UUID, and keep it for retries of the same request.";
        Problem::new(Code::InvalidKey, detail)
    };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| refuse())?;
    let text = text.trim_matches([' ', '\t']);
    let unquoted = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted).ok_or_else(refuse)?,
        None => text.to_owned(),
    };
    IdempotencyKey::new(&unquoted).map(Some).map_err(|_| refuse())
}

/// Parses an RFC 8941 string after its opening quote; `None` if it is malformed.
fn unquote(quoted: &str) -> Option<String> {
    let mut text = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(text),
            '\\' => text.push(chars.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            plain => text.push(plain),
        }
    }
}

/// Time at which the caller says it first sent the request.
pub(crate) fn read_first_sent(headers: &HeaderMap) -> Result<Option<Timestamp>, Problem> {
    let Some(value) = read_once(headers, &IDEMPOTENCY_FIRST_SENT, Code::InvalidFirstSent)? else {
        return Ok(None);
    };
    let date = value.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok());
    let since_epoch = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    let since_epoch = since_epoch.ok_or_else(|| {
        let detail = "Idempotency-First-Sent must be an HTTP date, such as `Sun, 06 Nov 1994 08:49:37 GMT`: the time at which \
                      this request was sent for the first time.";
        Problem::new(Code::InvalidFirstSent, detail)
    })?;
    Ok(Some(Timestamp::EPOCH.plus(since_epoch)))
}

fn read_once<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    code: Code,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => {
            Err(Problem::new(code, format!("The header {name} is given more than once. Send it once.")))
        }
    }
}

/// Wait that the caller prefers (RFC 7240), at most [`MAX_WAIT`]. A malformed preference is ignored.
pub fn read_wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let preferences = values.flat_map(|value| value.split(',')).map(|it| it.split(';').next().unwrap_or(it));
    let seconds = preferences.filter_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        let value = value.trim().trim_matches('"');
        let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        // A number with too many digits is still longer than the longest wait.
        (name.trim().eq_ignore_ascii_case("wait") && is_number).then(|| value.parse().unwrap_or(u64::MAX))
    });
    // By RFC 7240, the first of several counts.
    seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_WAIT)).next()
}

/// Formats an instant as an HTTP date.
pub(crate) fn http_date(at: Timestamp) -> HeaderValue {
    let seconds = u64::try_from(at.as_millis() / 1000).unwrap_or(0).min(LAST_SECOND);
    let date: SystemTime = UNIX_EPOCH + Duration::from_secs(seconds);
    HeaderValue::try_from(httpdate::fmt_http_date(date)).expect("a date is plain ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&[u8]]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_bytes(value).unwrap())).collect()
    }

    fn key(value: &[u8]) -> Option<String> {
        read_key(&headers(IDEMPOTENCY_KEY, &[value])).ok().flatten().map(|key| key.to_string())
    }

    /// S2.7, S2.9: a bare key as Stripe sends it and a quoted key as in the IETF draft are the same key.
    #[test]
    fn a_key_is_read_bare_and_quoted() {
        let long = [b'k'; 255];
        let quoted_long = [&b"\""[..], &long, b"\""].concat();
        let table: &[(&[u8], &str)] = &[
            (b"abc", "abc"),
            (b"\"abc\"", "abc"),
            (br#""a\"b\\c""#, r#"a"b\c"#),
            (br#"a"b\c"#, r#"a"b\c"#),
            (b"with space", "with space"),
            (b"\" padded \"", " padded "),
            (b"8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
            (b"~!,;=", "~!,;="),
            (&long, std::str::from_utf8(&long).unwrap()),
            (&quoted_long, std::str::from_utf8(&long).unwrap()),
        ];
        for (value, expected) in table {
            assert_eq!(key(value).as_deref(), Some(*expected));
        }
    }

    /// S2.9: anything else is refused before the operation begins.
    #[test]
    fn what_is_not_a_key_is_refused() {
        let long = [b'k'; 256];
        let table: &[&[u8]] = &[
            b"",
            b"  ",
            b"\"\"",
            b"\"open",
            b"\"",
            b"\"a\"b",
            b"\"a\", \"b\"",
            br#""bad \escape""#,
            br#""ends in \"#,
            b"tab\there",
            "é".as_bytes(),
            "\"é\"".as_bytes(),
            b"\xff",
            &long,
        ];
        for value in table {
            let refused = read_key(&headers(IDEMPOTENCY_KEY, &[value])).unwrap_err();
            assert_eq!(refused.code, Code::InvalidKey, "{}", String::from_utf8_lossy(value));
        }
        let twice = read_key(&headers(IDEMPOTENCY_KEY, &[b"a", b"a"])).unwrap_err();
        assert_eq!(twice.code, Code::InvalidKey);
        assert_eq!(read_key(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_date_is_read_in_every_form_of_http_and_written_in_one() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            let at = read_first_sent(&headers(IDEMPOTENCY_FIRST_SENT, &[text.as_bytes()])).unwrap().unwrap();
            assert_eq!(at, Timestamp::from_millis(784_111_777_000));
            assert_eq!(http_date(at), "Sun, 06 Nov 1994 08:49:37 GMT");
        }
        for bad in [&b""[..], b"yesterday", b"1994-11-06T08:49:37Z", b"\xff"] {
            let refused = read_first_sent(&headers(IDEMPOTENCY_FIRST_SENT, &[bad])).unwrap_err();
            assert_eq!(refused.code, Code::InvalidFirstSent);
        }
        assert_eq!(http_date(Timestamp::from_millis(i64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(http_date(Timestamp::from_millis(-1)), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn a_preferred_wait_is_bounded_and_what_is_none_is_ignored() {
        let wait = |values: &[&[u8]]| read_wait(&headers(PREFER, values)).map(|wait| wait.as_secs());
        assert_eq!(wait(&[b"wait=0"]), Some(0));
        assert_eq!(wait(&[b"respond-async, WAIT = \"7\"; x=1"]), Some(7));
        assert_eq!(wait(&[b"return=minimal", b"wait=60"]), Some(60));
        assert_eq!(wait(&[b"wait=3, wait=9"]), Some(3));
        assert_eq!(wait(&[b"wait=61"]), Some(60));
        assert_eq!(wait(&[b"wait=99999999999999999999999"]), Some(60));
        for none in [&b"wait"[..], b"wait=", b"wait=-1", b"wait=ten", b"waits=3", b"\xff"] {
            assert_eq!(wait(&[none]), None);
        }
    }
}
