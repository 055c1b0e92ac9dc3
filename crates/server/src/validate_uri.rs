//! Checks of a request before routing: its address, its host, and how it says where its body ends.

use std::borrow::Cow;

use hapax_api::Code;
use http::header::{HOST, TRANSFER_ENCODING};
use http::{Method, Version, request::Parts};

use crate::answer::Refused;

/// Checks the head of a request. Paths that another program could read differently are rejected, so
/// that a proxy in front and this server never disagree about the route.
pub fn validate_uri(head: &Parts, max_uri_bytes: usize, max_headers: usize) -> Result<(), Refused> {
    // HTTP/1 is cut off while the head is read; HTTP/2 bounds only the bytes, and a tiny header
    // costs far more memory than its bytes.
    if head.headers.len() > max_headers {
        let detail = format!("A request may have {max_headers} headers.");
        return Err(Refused::new(Code::HeadersTooLarge, detail).with("maxHeaders", max_headers));
    }
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    if target.len() > max_uri_bytes {
        let detail = format!("Path and query may have {max_uri_bytes} bytes; put data into the body.");
        return Err(Refused::new(Code::UriTooLong, detail).with("maxBytes", max_uri_bytes));
    }
    if head.method == Method::CONNECT {
        return Err(Refused::new(Code::MethodNotAllowed, "This is not a proxy; CONNECT is not supported."));
    }
    check_path(head.uri.path())?;
    check_transfer_encoding(head)?;
    check_host(head)
}

/// Only `chunked`, once: a coding that is not taken off here would be read as part of the body, and
/// programs in front may disagree about its end.
fn check_transfer_encoding(head: &Parts) -> Result<(), Refused> {
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, None) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(invalid(
            "The only transfer coding is `chunked`, and it is given once; send the body as it is.",
        )),
    }
}

fn invalid(detail: &str) -> Refused {
    Refused::new(Code::InvalidRequest, detail)
}

fn check_path(path: &str) -> Result<(), Refused> {
    for segment in path.split('/') {
        let decoded = decode_segment(segment).ok_or_else(|| {
            invalid("The path has a % that is not followed by two hex digits, or is not UTF-8 once decoded; encode it again.")
        })?;
        if matches!(&*decoded, b"." | b"..") {
            return Err(invalid("The path has a segment . or ..; send the path you mean."));
        }
        if decoded.contains(&0) {
            return Err(invalid("The path has a NUL character; no id or name has one."));
        }
    }
    Ok(())
}

/// The bytes of a segment, percent-decoded once; `None` if that cannot be done.
fn decode_segment(segment: &str) -> Option<Cow<'_, [u8]>> {
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment.as_bytes()));
    }
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    std::str::from_utf8(&decoded).is_ok().then_some(Cow::Owned(decoded))
}

/// HTTP/1.1 has exactly one `Host`; HTTP/2 names it in the address, and must not name a different
/// one beside it.
fn check_host(head: &Parts) -> Result<(), Refused> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(invalid("The header Host is given twice; send it once."));
    }
    if first.is_some_and(|host| !is_host(host.as_bytes())) {
        return Err(invalid("The header Host is not a host name with an optional port."));
    }
    match head.version {
        Version::HTTP_2 | Version::HTTP_3 => match (first, head.uri.authority()) {
            (Some(host), Some(authority))
                if !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) =>
            {
                Err(invalid("The header Host and :authority name two hosts; send one."))
            }
            _ => Ok(()),
        },
        Version::HTTP_11 if first.is_none() => {
            Err(invalid("The header Host is missing; HTTP/1.1 requires it."))
        }
        _ => Ok(()),
    }
}

fn is_host(host: &[u8]) -> bool {
    let is_allowed = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']' | b'%')
    };
    !host.is_empty() && host.iter().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn judge(path: &str) -> Result<(), Refused> {
        let head =
            Request::builder().uri(path).header("host", "localhost:1").body(()).unwrap().into_parts().0;
        validate_uri(&head, 100, 100)
    }

    /// RELIABILITY, HTTP: path `//`, `/../`, `%00`, `%2e%2e`, invalid percent.
    #[test]
    fn paths_that_could_be_read_two_ways_are_refused() {
        for path in ["/a/../b", "/a/%2e%2E/b", "/./a", "/a%00b", "/a%zz", "/a%2", "/a%", "/%ff", "/%c0%ae"] {
            assert_eq!(judge(path).unwrap_err().problem().status, 400, "{path}");
        }
        for path in ["/a/b", "/a//b", "/key:a%2Fb%3A1", "/%C3%A9", "/a?x=%zz", "/..a/b.."] {
            assert_eq!(judge(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_long_address_is_too_long_and_the_limit_itself_is_not() {
        assert_eq!(judge(&format!("/{}", "a".repeat(99))), Ok(()));
        assert_eq!(judge(&format!("/{}", "a".repeat(100))).unwrap_err().problem().status, 414);
    }

    /// RELIABILITY, HTTP: Host missing / twice.
    #[test]
    fn a_host_is_named_once() {
        let head = |hosts: &[&str], version, uri: &str| {
            let mut request = Request::builder().uri(uri).version(version);
            for host in hosts {
                request = request.header("host", *host);
            }
            validate_uri(&request.body(()).unwrap().into_parts().0, 100, 100)
        };
        assert!(head(&["a"], Version::HTTP_11, "/").is_ok());
        assert!(head(&[], Version::HTTP_11, "/").is_err());
        assert!(head(&[], Version::HTTP_10, "/").is_ok());
        assert!(head(&["a", "a"], Version::HTTP_11, "/").is_err());
        assert!(head(&["a b"], Version::HTTP_11, "/").is_err());
        assert!(head(&[""], Version::HTTP_11, "/").is_err());
        assert!(head(&["b"], Version::HTTP_2, "http://a/").is_err());
        assert!(head(&["A"], Version::HTTP_2, "http://a/").is_ok());
    }

    #[test]
    fn a_body_is_chunked_or_has_a_length() {
        let judge = |codings: &[&str]| {
            let mut request = Request::builder().uri("/").header("host", "a");
            for coding in codings {
                request = request.header("transfer-encoding", *coding);
            }
            validate_uri(&request.body(()).unwrap().into_parts().0, 100, 100)
        };
        assert!(judge(&[]).is_ok() && judge(&["chunked"]).is_ok() && judge(&["Chunked"]).is_ok());
        for bad in
            [&["gzip, chunked"][..], &["gzip", "chunked"], &["chunked", "chunked"], &["chunked;x=1"], &[""]]
        {
            assert_eq!(judge(bad).unwrap_err().problem().status, 400, "{bad:?}");
        }
    }
}
