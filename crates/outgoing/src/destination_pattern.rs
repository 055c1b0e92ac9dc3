//! A place in an allow or deny list: a host by name, a host and port, an address, or a block of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A destination that a request may or may not reach. Written `api.example.com`, `*.example.com` (every name below it),
/// `api.example.com:8443`, `10.1.2.3`, `10.1.2.3:8080`, `[fd00::1]:8080` or `10.0.0.0/8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationPattern {
    pub(crate) area: HostPattern,
    /// Any port, if none is given.
    pub(crate) port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPattern {
    /// Lower case, without a trailing dot.
    Name(String),
    /// Every name that ends in a dot and this text.
    Below(String),
    Block(IpNet),
}

/// A place that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a valid destination: {why}. Write a host (`api.example.com`, `*.example.com`), a host and port \
     (`api.example.com:8443`), an address (`10.1.2.3`, `[fd00::1]:8080`) or a block (`10.0.0.0/8`)"
)]
pub struct BadPlace {
    text: String,
    why: &'static str,
}

impl DestinationPattern {
    /// Returns whether it covers a host of this name (already normalised) at this port.
    pub(crate) fn has_name(&self, name: &str, port: u16) -> bool {
        let named = match &self.area {
            HostPattern::Name(own) => own == name,
            HostPattern::Below(parent) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            HostPattern::Block(_) => false,
        };
        named && self.has_port(port)
    }

    /// Returns whether it covers this address at this port.
    pub(crate) fn has_address(&self, address: IpAddr, port: u16) -> bool {
        matches!(&self.area, HostPattern::Block(block) if block.contains(&address)) && self.has_port(port)
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

/// A name in the form that rules compare: lower case, without a trailing dot.
pub(crate) fn normalise(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

impl FromStr for DestinationPattern {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let bad = |why| BadPlace { text: text.to_owned(), why };
        if let Ok(block) = text.parse::<IpNet>() {
            return Ok(DestinationPattern { area: HostPattern::Block(block.trunc()), port: None });
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(DestinationPattern { area: HostPattern::Block(address.into()), port: None });
        }
        if text.contains('/') {
            return Err(bad("a scheme, a path or a block that is not one"));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => {
                let port = port
                    .parse::<u16>()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or(bad("the port is not 1 to 65535"))?;
                (host, Some(port))
            }
            None => (text, None),
        };
        if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address =
                inner.parse::<std::net::Ipv6Addr>().map_err(|_| bad("not an IPv6 address in brackets"))?;
            return Ok(DestinationPattern { area: HostPattern::Block(IpAddr::from(address).into()), port });
        }
        let (below, host) = match host.strip_prefix("*.") {
            Some(parent) => (true, parent),
            None => (false, host),
        };
        match url::Host::parse(host) {
            Ok(url::Host::Domain(name)) if below => {
                Ok(DestinationPattern { area: HostPattern::Below(normalise(&name)), port })
            }
            Ok(url::Host::Domain(name)) if !name.contains('*') => {
                Ok(DestinationPattern { area: HostPattern::Name(normalise(&name)), port })
            }
            Ok(url::Host::Ipv4(address)) if !below => {
                Ok(DestinationPattern { area: HostPattern::Block(IpAddr::from(address).into()), port })
            }
            _ => Err(bad("not a host name")),
        }
    }
}

impl fmt::Display for DestinationPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.area {
            HostPattern::Name(name) => f.write_str(name)?,
            HostPattern::Below(parent) => write!(f, "*.{parent}")?,
            HostPattern::Block(block) => {
                match (block.prefix_len() == block.max_prefix_len(), block.addr(), self.port) {
                    (true, IpAddr::V6(address), Some(_)) => write!(f, "[{address}]")?,
                    (true, address, _) => write!(f, "{address}")?,
                    (false, _, _) => write!(f, "{block}")?,
                }
            }
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written_alike() {
        for text in [
            "api.example.com",
            "*.example.com",
            "api.example.com:8443",
            "*.example.com:443",
            "10.1.2.3",
            "10.1.2.3:8080",
            "[fd00::1]:8080",
            "fd00::1",
            "10.0.0.0/8",
            "fd00::/8",
        ] {
            assert_eq!(text.parse::<DestinationPattern>().unwrap().to_string(), text);
        }
        assert_eq!("API.Example.com.".parse::<DestinationPattern>().unwrap().to_string(), "api.example.com");
        assert_eq!("10.1.2.3/8".parse::<DestinationPattern>().unwrap().to_string(), "10.0.0.0/8");
    }

    #[test]
    fn what_is_no_place_is_refused_with_the_forms_that_are() {
        for text in [
            "",
            "https://example.com",
            "example.com/path",
            "example.com:0",
            "example.com:65536",
            "example.com:http",
            "10.0.0.0/33",
            "[fd00::1",
            "[10.0.0.1]:80",
            "*.10.0.0.1",
            "*",
            "a.*.example",
            "user@example.com",
            "a b",
        ] {
            let problem = text.parse::<DestinationPattern>().expect_err(text).to_string();
            assert!(problem.contains("Write a host"), "{problem}");
        }
    }

    #[test]
    fn a_wildcard_covers_what_is_below_and_not_what_only_ends_alike() {
        let place: DestinationPattern = "*.example.com".parse().unwrap();
        assert!(place.has_name("a.example.com", 443));
        assert!(place.has_name("a.b.example.com", 443));
        assert!(!place.has_name("example.com", 443));
        assert!(!place.has_name("badexample.com", 443));
    }
}
