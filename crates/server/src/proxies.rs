//! Client addresses behind proxies. The other end of the connection is then a proxy, and its
//! headers name the client.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::FORWARDED;
use ipnet::IpNet;

/// Trusted proxies in front of a listener. Headers of other peers are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proxies {
    /// None: the peer is the client.
    #[default]
    None,
    /// One proxy: every peer is the proxy, and the last address in its header is the client.
    WhoeverConnects,
    /// Proxies with these addresses; there may be several in a row.
    Within(Vec<IpNet>),
}

/// Text that is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network such as 10.0.0.0/8")]
pub struct NotANetwork(String);

impl Proxies {
    /// Proxies at these addresses or in these networks.
    pub fn within(texts: &[impl AsRef<str>]) -> Result<Self, NotANetwork> {
        let read = |text: &str| {
            let address = || text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical()));
            text.parse().or_else(|_| address()).map_err(|_| NotANetwork(text.into()))
        };
        Ok(Proxies::Within(texts.iter().map(|text| read(text.as_ref().trim())).collect::<Result<_, _>>()?))
    }

    /// Returns true if the peer is a proxy. Many callers share its connection.
    pub(crate) fn has_sent(&self, peer: IpAddr) -> bool {
        match self {
            Proxies::None => false,
            Proxies::WhoeverConnects => true,
            Proxies::Within(_) => self.passes_on(peer),
        }
    }

    /// Address of the client behind a connection from `peer`.
    ///
    /// Each proxy appends the address of its caller; earlier entries may be forged. So the
    /// addresses are read from the end, up to the first that is not a trusted proxy. A proxy that
    /// writes one of the two headers passes the other through unchanged: if both are present and
    /// name different clients, neither is trusted.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.has_sent(peer) {
            return peer;
        }
        let plain = self.first_outside(peer, hops(headers, "x-forwarded-for", |hop| Some(hop)));
        let standard = self.first_outside(peer, hops(headers, FORWARDED.as_str(), for_of));
        match (plain, standard) {
            (Some(client), None) | (None, Some(client)) => client,
            (Some(plain), Some(standard)) if plain == standard => plain,
            _ => peer,
        }
    }

    /// The first address from the end that is not a trusted proxy. An unreadable entry ends the
    /// search at the proxy that wrote it.
    fn first_outside(&self, peer: IpAddr, hops: Vec<Option<IpAddr>>) -> Option<IpAddr> {
        let mut client = None;
        for hop in hops.into_iter().rev() {
            let Some(hop) = hop else { return client.or(Some(peer)) };
            client = Some(hop);
            if !self.passes_on(hop) {
                break;
            }
        }
        client
    }

    fn passes_on(&self, address: IpAddr) -> bool {
        match self {
            Proxies::None | Proxies::WhoeverConnects => false,
            Proxies::Within(networks) => {
                networks.iter().any(|network| network.contains(&address.to_canonical()))
            }
        }
    }
}

/// Entries of the header with this name, in order; `None` for an entry that is not an address.
fn hops(headers: &HeaderMap, name: &str, part: fn(&str) -> Option<&str>) -> Vec<Option<IpAddr>> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',')).map(|hop| address_in(part(hop)?)).collect()
}

/// The parameter `for` of one element of `Forwarded`.
fn for_of(element: &str) -> Option<&str> {
    element.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value)
    })
}

/// An address, with or without a port, brackets and quotes.
fn address_in(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "10.0.0.1";

    fn client(proxies: &Proxies, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &map).to_string()
    }

    #[test]
    fn without_a_proxy_forwarding_headers_are_ignored() {
        let said = [("x-forwarded-for", "192.0.2.7"), ("forwarded", "for=192.0.2.7")];
        assert_eq!(client(&Proxies::None, PEER, &said), PEER);
        let elsewhere = Proxies::within(&["10.1.0.0/16"]).unwrap();
        assert_eq!(client(&elsewhere, PEER, &said), PEER, "it is none of ours");
    }

    #[test]
    fn the_last_address_that_no_proxy_of_ours_has_is_who_asks() {
        let one = Proxies::WhoeverConnects;
        assert_eq!(client(&one, PEER, &[("x-forwarded-for", "198.51.100.1, 192.0.2.7")]), "192.0.2.7");
        assert_eq!(client(&one, PEER, &[("x-forwarded-for", "192.0.2.7, 10.0.0.9")]), "10.0.0.9");
        let two_lines = [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-for", "192.0.2.8:4711")];
        assert_eq!(client(&one, PEER, &two_lines), "192.0.2.8");
        let forwarded = "for=198.51.100.1, proto=https; For=\"[2001:db8::17]:4711\"";
        assert_eq!(client(&one, PEER, &[("forwarded", forwarded)]), "2001:db8::17");
        let ours = Proxies::within(&["203.0.113.1", "10.0.0.0/8"]).unwrap();
        let chain = [("x-forwarded-for", "198.51.100.1, 192.0.2.7, 10.0.0.9, ::ffff:10.0.0.8")];
        assert_eq!(client(&ours, PEER, &chain), "192.0.2.7");
        assert_eq!(client(&ours, PEER, &[("x-forwarded-for", "10.0.0.9")]), "10.0.0.9", "it asks for itself");
        assert_eq!(client(&ours, "203.0.113.5", &chain), "203.0.113.5", "it did not come through one");
    }

    #[test]
    fn proxies_are_named_by_address_or_network() {
        assert!(Proxies::within(&["10.0.0.1", "2001:db8::/32", " 10.0.0.0/8"]).is_ok());
        for odd in ["", "proxy.internal", "10.0.0.0/33", "10.0.0.1:80"] {
            assert!(Proxies::within(&[odd]).is_err(), "{odd}");
        }
    }

    #[test]
    fn malformed_or_contradictory_forwarding_headers_are_ignored() {
        let one = Proxies::WhoeverConnects;
        assert_eq!(client(&one, PEER, &[]), PEER);
        for odd in ["", "unknown", "192.0.2.7, _hidden", "192.0.2.7,", "for=192.0.2.7"] {
            assert_eq!(client(&one, PEER, &[("x-forwarded-for", odd)]), PEER, "{odd}");
        }
        let ours = Proxies::within(&["203.0.113.1", "10.0.0.0/8"]).unwrap();
        assert_eq!(client(&ours, PEER, &[("x-forwarded-for", "192.0.2.7, ?, 10.0.0.9")]), "10.0.0.9");
        let both = |standard| [("x-forwarded-for", "192.0.2.7"), ("forwarded", standard)];
        assert_eq!(client(&one, PEER, &both("for=192.0.2.7")), "192.0.2.7");
        assert_eq!(client(&one, PEER, &both("for=198.51.100.1")), PEER);
    }
}
