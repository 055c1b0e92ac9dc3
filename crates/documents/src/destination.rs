//! Destinations of a secret: the operator binds it to hosts and paths.

use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_DESTINATIONS;
use crate::template::has_dot_segment;

/// One destination: a scheme, a host with its port, and a path prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    scheme: String,
    host: String,
    port: u16,
    /// Empty, or a path without a trailing slash.
    path: String,
}

/// Reason why a text is not a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDestination(String);

impl fmt::Display for BadDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a destination; write https://host/path or *.example.com", self.0)
    }
}

impl std::error::Error for BadDestination {}

/// Parses `api.example.com`, `*.example.com` or `https://api.example.com:8443/v1`; the default scheme is https.
impl FromStr for Destination {
    type Err = BadDestination;

    fn from_str(text: &str) -> Result<Self, BadDestination> {
        let bad = || BadDestination(text.chars().take(200).collect());
        let whole = match text.contains("://") {
            true => text.to_string(),
            false => format!("https://{text}"),
        };
        let called = RequestedUrl::of(&whole).ok_or_else(bad)?;
        let plain = called.host.strip_prefix("*.").unwrap_or(&called.host);
        let is_host =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'[' | b']' | b':');
        let is_plain = !whole.contains(['?', '#', '\\', ' ']) && !has_dot_segment(&whole);
        if plain.is_empty() || !plain.bytes().all(is_host) || !is_plain {
            return Err(bad());
        }
        let RequestedUrl { scheme, host, port, path } = called;
        Ok(Destination { scheme, host, port, path: path.trim_end_matches('/').to_string() })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}{}", self.scheme, self.host, self.port, self.path)
    }
}

impl Destination {
    /// Returns true if a request to `url` matches. Paths are compared by whole segments.
    pub fn covers(&self, url: &str) -> bool {
        let Some(called) = RequestedUrl::of(url).filter(|_| !has_dot_segment(url)) else { return false };
        let same_host = match self.host.strip_prefix('*') {
            Some(domain) => called.host.len() > domain.len() && called.host.ends_with(domain),
            None => called.host == self.host,
        };
        let below = called.path.strip_prefix(self.path.as_str());
        let same_path = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        called.scheme == self.scheme && same_host && called.port == self.port && same_path
    }
}

/// Parses a list of destinations, separated by lines or commas; `#` begins a comment.
pub fn parse_destinations(text: &str) -> Result<Vec<Destination>, BadDestination> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.flat_map(|line| line.split([',', ' ', '\t'])).filter(|word| !word.is_empty());
    let destinations: Vec<Destination> = words.map(str::parse).collect::<Result<_, _>>()?;
    match destinations.len() <= MAX_DESTINATIONS {
        true => Ok(destinations),
        false => Err(BadDestination(format!("a list of more than {MAX_DESTINATIONS}"))),
    }
}

struct RequestedUrl {
    scheme: String,
    host: String,
    port: u16,
    path: String,
}

impl RequestedUrl {
    fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let path = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
        // A colon inside brackets belongs to an IPv6 address.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (authority, usual),
        };
        if host.is_empty() || host.contains('@') {
            return None;
        }
        Some(RequestedUrl { scheme, host: host.to_ascii_lowercase(), port, path: path.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_covers_its_host_and_whole_segments_below_its_path() {
        for (destination, url, covers) in [
            ("api.example.com", "https://api.example.com/any?x=1", true),
            ("api.example.com", "https://API.example.com:443", true),
            ("api.example.com", "http://api.example.com/any", false),
            ("api.example.com", "https://api.example.com:8443/", false),
            ("api.example.com", "https://evil.example.com/", false),
            ("api.example.com", "https://api.example.com.evil.net/", false),
            ("api.example.com", "https://api.example.com@evil.net/", false),
            ("api.example.com", "https://evil.net/api.example.com", false),
            ("api.example.com", "https://evil.net\\@api.example.com", false),
            ("*.example.com", "https://a.example.com/", true),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://evilexample.com/", false),
            ("http://api.example.com:8080", "http://api.example.com:8080/x", true),
            ("https://api.example.com/v1/", "https://api.example.com/v1", true),
            ("https://api.example.com/v1", "https://api.example.com/v1/charges", true),
            ("https://api.example.com/v1", "https://api.example.com/v10", false),
            ("https://api.example.com/v1", "https://api.example.com/v1/../admin", false),
            ("https://api.example.com/v1", "https://api.example.com/v1/%2e%2e/admin", false),
            ("https://api.example.com/v1", "https://api.example.com/v1/..%2fadmin", false),
            ("[::1]:8443", "https://[::1]:8443/", true),
        ] {
            let parsed: Destination = destination.parse().unwrap();
            assert_eq!(parsed.covers(url), covers, "{destination} {url}");
        }
    }

    #[test]
    fn a_list_is_read_by_line_and_what_is_none_is_refused() {
        let read =
            parse_destinations("# the bank\nhttps://bank/v1, mail.example.com\n\n*.shop # all\n").unwrap();
        let shown: Vec<String> = read.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["https://bank:443/v1", "https://mail.example.com:443", "https://*.shop:443"]);
        assert_eq!(parse_destinations("").unwrap(), [], "bound to nothing");
        for bad in ["ftp://x", "https://", "*", "a@b", "https://x/../y", "x?y", "x:port", "*.*", "a_b/c"] {
            assert!(parse_destinations(bad).is_err(), "{bad}");
        }
        assert!(parse_destinations(&"x\n".repeat(MAX_DESTINATIONS + 1)).is_err());
    }
}
