//! Where requests may go, and what they may cost.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::address::{Kind, find_kind, find_wrapped};
use crate::fault::Refusal;
use crate::limits;
use crate::place::Place;
use crate::target::{Host, Target};

/// Where requests may go, and what they may cost. By default: the whole public internet, nothing else.
///
/// In order: `denied_addresses` and `deny` win over all; a place in `allow` is open, with its port if it names one; else the
/// port must be among `ports` and the address public.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Places that are open though they are not public. A host by name opens loopback and private addresses that the
    /// name stands for; link-local (metadata services) and reserved ones are opened only as addresses.
    pub allow: Vec<Place>,
    /// Places that are closed though they are public or allowed.
    pub deny: Vec<Place>,
    /// Allows only the places in `allow`.
    pub only_allowed: bool,
    /// Allows requests to this machine, for development.
    pub allow_loopback: bool,
    /// Which ports may be called.
    pub ports: Ports,
    /// Our own addresses (admin, metrics, database), always closed. One with an unspecified address (`0.0.0.0:9090`)
    /// closes that port on every address of this machine.
    pub denied_addresses: Vec<SocketAddr>,
    /// From the call to the last byte of the answer, of a request that does not say how long it may take.
    pub total_timeout: Duration,
    /// The most that a request may ask for instead.
    pub longest_timeout: Duration,
    /// For look-up, connection and TLS handshake together.
    pub connect_timeout: Duration,
    /// Bytes of an answer's body.
    pub max_response_bytes: usize,
    /// Header fields of an answer; [`limits::MAX_RESPONSE_HEAD_BYTES`] bounds their size.
    pub max_response_headers: usize,
    /// How we name ourselves. A sender's own `User-Agent` goes before it.
    pub user_agent: String,
    /// Authorities to trust beside those the machine trusts, as DER.
    pub extra_roots: Vec<Vec<u8>>,
}

/// Which ports may be called. A place in the allow list that names its port is open whatever is said here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All but these.
    Except(Vec<u16>),
    /// Only these.
    Only(Vec<u16>),
}

/// Ports of protocols that act on lines an HTTP request can smuggle in, or whose servers are never meant for a
/// workflow: ftp, ssh, telnet, mail, dns, ldap, smb, docker, etcd, zookeeper, databases, queues, kubelet, memcached.
pub const CLOSED_PORTS: &[u16] = &[
    20, 21, 22, 23, 25, 53, 110, 135, 139, 143, 389, 445, 465, 514, 587, 636, 993, 995, 1433, 1521, 2181,
    2375, 2376, 2379, 2380, 3306, 3389, 5432, 5672, 6379, 6380, 9042, 10250, 11211, 27017,
];

impl Ports {
    fn has(&self, port: u16) -> bool {
        match self {
            Ports::Except(closed) => !closed.contains(&port),
            Ports::Only(open) => open.contains(&port),
        }
    }
}

impl Default for Ports {
    fn default() -> Self {
        Ports::Except(CLOSED_PORTS.to_vec())
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            only_allowed: false,
            allow_loopback: false,
            ports: Ports::default(),
            denied_addresses: Vec::new(),
            total_timeout: limits::TOTAL_TIMEOUT,
            longest_timeout: limits::LONGEST_TIMEOUT,
            connect_timeout: limits::CONNECT_TIMEOUT,
            max_response_bytes: limits::MAX_RESPONSE_BYTES,
            max_response_headers: limits::MAX_RESPONSE_HEADERS,
            user_agent: concat!("hapax/", env!("CARGO_PKG_VERSION")).to_owned(),
            extra_roots: Vec::new(),
        }
    }
}

impl Rules {
    /// Checks whether a target may be looked up, before its address is known.
    pub(crate) fn judge_target(&self, target: &Target) -> Result<(), Refusal> {
        let host = || target.host.to_string();
        if let Host::Name(name) = &target.host
            && self.deny.iter().any(|place| place.has_name(name, target.port))
        {
            return Err(Refusal::Denied { host: host() });
        }
        let allowed_port = self.allow.iter().any(|place| place.port == Some(target.port));
        // Whether this place is the one that names the port is decided once the address is known.
        match self.ports.has(target.port) || allowed_port {
            true => Ok(()),
            false => Err(Refusal::Port { host: host(), port: target.port }),
        }
    }

    /// Whether a connection may be made to this address on behalf of the target. The last word: it is asked about the very
    /// address that is then connected to.
    pub(crate) fn judge_address(&self, target: &Target, address: IpAddr) -> Result<(), Refusal> {
        let port = target.port;
        let host = || target.host.to_string();
        let wrapped = find_wrapped(address).map(IpAddr::V4);
        for address in std::iter::once(address).chain(wrapped) {
            if self.is_ours(address, port) || self.deny.iter().any(|place| place.has_address(address, port)) {
                return Err(Refusal::Denied { host: host() });
            }
        }
        self.judge_reach(target, address)?;
        match wrapped {
            Some(inner) => self.judge_reach(target, inner),
            None => Ok(()),
        }
    }

    fn judge_reach(&self, target: &Target, address: IpAddr) -> Result<(), Refusal> {
        let port = target.port;
        let host = || target.host.to_string();
        let kind = find_kind(address);
        let by_address = self.allow.iter().filter(|place| place.has_address(address, port));
        let by_name = self.allow.iter().filter(|place| match &target.host {
            Host::Name(name) => place.has_name(name, port) && kind.is_none_or(Kind::is_opened_by_name),
            Host::Address(_) => false,
        });
        let opened: Vec<&Place> = by_address.chain(by_name).collect();
        let named_port = opened.iter().any(|place| place.port.is_some());
        if !named_port && !self.ports.has(port) {
            return Err(Refusal::Port { host: host(), port });
        }
        let loopback = self.allow_loopback && kind == Some(Kind::Loopback);
        if !opened.is_empty() || loopback {
            return Ok(());
        }
        match kind {
            Some(kind) => Err(Refusal::Address { host: host(), kind }),
            None if self.only_allowed => Err(Refusal::NotAllowed { host: host() }),
            None => Ok(()),
        }
    }

    /// Whether an address and port are one of our own. An unspecified one stands for this machine, of which loopback is
    /// known beforehand; its other addresses show once connected ([`Rules::is_own_port`]).
    fn is_ours(&self, address: IpAddr, port: u16) -> bool {
        self.denied_addresses.iter().any(|own| {
            let ip = own.ip().to_canonical();
            let here = address.is_loopback() || address.is_unspecified();
            own.port() == port && (ip == address || (here && (ip.is_unspecified() || ip.is_loopback())))
        })
    }

    /// Returns whether this server listens at this port on every address of the machine.
    pub(crate) fn is_own_port(&self, port: u16) -> bool {
        self.denied_addresses.iter().any(|own| own.port() == port && own.ip().is_unspecified())
    }
}
