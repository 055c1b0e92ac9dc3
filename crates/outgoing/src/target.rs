//! The destination of a URL, parsed once for all later checks.

use std::fmt;
use std::net::IpAddr;

use url::Url;

use crate::destination_pattern::normalise;
use crate::fault::Refusal;
use crate::limits::MAX_URL_BYTES;

/// Destination of a request.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    /// The `Host` field, as the URL has it.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) path: String,
}

/// A host, by name or by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Lower case, without a trailing dot.
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Address(address) => write!(f, "{address}"),
        }
    }
}

impl Target {
    /// Parses a URL. The `url` crate follows the WHATWG standard, so `0x7f.1`, `127.1`, `2130706433` and `127.0.0.1.`
    /// are addresses here and not names, and the parsed address is the one that is connected to.
    pub(crate) fn read(text: &str) -> Result<Target, Refusal> {
        if text.len() > MAX_URL_BYTES {
            return Err(Refusal::TooLarge { what: "URL", limit: MAX_URL_BYTES });
        }
        let url = Url::parse(text).map_err(|error| Refusal::BadUrl { detail: error.to_string() })?;
        let is_tls = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(Refusal::Scheme { scheme: other.to_owned() }),
        };
        // Parsing drops an empty user (`http://@host`), so check the original text.
        let authority = text.split(['/', '\\']).nth(2).unwrap_or_default();
        let authority = authority.split(['?', '#']).next().unwrap_or_default();
        if !url.username().is_empty() || url.password().is_some() || authority.contains('@') {
            return Err(Refusal::Credentials);
        }
        let no_host = || Refusal::BadUrl { detail: "no host".to_owned() };
        let host = match url.host().ok_or_else(no_host)? {
            url::Host::Domain(name) => match normalise(name) {
                name if name.is_empty() || name.len() > 253 => return Err(no_host()),
                name => Host::Name(name),
            },
            url::Host::Ipv4(address) => Host::Address(address.into()),
            url::Host::Ipv6(address) => Host::Address(address.into()),
        };
        let port = url.port_or_known_default().filter(|port| *port > 0);
        let port = port.ok_or_else(|| Refusal::BadUrl { detail: "port 0".to_owned() })?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let path = url[url::Position::BeforePath..url::Position::AfterQuery].to_owned();
        Ok(Target { host, port, is_tls, authority, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_address_is_read_as_that_address() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://017700000001/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://127.1./",
            "http:127.0.0.1",
            "http:\\\\127.0.0.1\\",
            "http://%31%32%37.0.0.1/",
            "http://１２７.0.0.1/",
            "http://127。0。0。1/",
            "HTTP://0X7F.0x0.0.01",
            " http://127.0.0.1 ",
            "http://127.0.\t0.1/",
        ] {
            let target = Target::read(url).unwrap_or_else(|refusal| panic!("{url}: {refusal}"));
            assert_eq!(target.host, Host::Address("127.0.0.1".parse().unwrap()), "{url}");
        }
        for (url, address) in [
            ("http://[::ffff:127.0.0.1]/", "::ffff:7f00:1"),
            ("http://[0:0:0:0:0:ffff:7f00:1]/", "::ffff:7f00:1"),
            ("http://[64:ff9b::7f00:1]/", "64:ff9b::7f00:1"),
            ("http://[2002:7f00:1::]/", "2002:7f00:1::"),
            ("http://[::]/", "::"),
            ("http://0/", "0.0.0.0"),
        ] {
            assert_eq!(Target::read(url).unwrap().host, Host::Address(address.parse().unwrap()), "{url}");
        }
    }

    #[test]
    fn what_is_no_web_address_is_refused() {
        for url in [
            "",
            "/path",
            "example.com/path",
            "http://",
            "http://?x",
            "http://[fe80::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://example.com:0/",
            "http://example.com:65536/",
            "http://256.1.1.1/",
            "http://1.2.3.4.5/",
            "http://0x7f.0.0.1.2/",
            "http://a b/",
            "http://./",
            "http://exa%00mple/",
        ] {
            assert!(
                matches!(Target::read(url), Err(Refusal::BadUrl { .. })),
                "{url}: {:?}",
                Target::read(url)
            );
        }
        for url in
            ["ftp://example.com/", "file:///etc/passwd", "gopher://127.0.0.1:6379/_INFO", "data:text/plain,x"]
        {
            assert!(matches!(Target::read(url), Err(Refusal::Scheme { .. })), "{url}");
        }
        for url in [
            "http://user@example.com/",
            "http://user:secret@example.com/",
            "http://:secret@example.com/",
            "http://@example.com/",
            "http:\\\\user@example.com",
        ] {
            assert_eq!(Target::read(url).unwrap_err(), Refusal::Credentials, "{url}");
        }
        let long = format!("http://example.com/{}", "a".repeat(MAX_URL_BYTES));
        assert!(matches!(Target::read(&long), Err(Refusal::TooLarge { .. })));
    }

    #[test]
    fn names_lose_their_last_dot_and_their_capitals_and_paths_keep_their_queries() {
        let target = Target::read("https://API.Example.com.:8443/a%20b?q=a@b#part").unwrap();
        assert_eq!(target.host, Host::Name("api.example.com".into()));
        assert_eq!((target.port, target.is_tls), (8443, true));
        assert_eq!(target.authority, "api.example.com:8443");
        assert_eq!(target.path, "/a%20b?q=a@b");
        assert_eq!(Target::read("http://example.com").unwrap().path, "/");
    }
}
