//! Rules for outgoing requests: destinations and limits.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::address::{Kind, find_kind, find_wrapped};
use crate::destination_pattern::DestinationPattern;
use crate::fault::Refusal;
use crate::limits;
use crate::target::{Host, Target};

/// Destinations and limits of outgoing requests. By default the whole public internet is open, and nothing else.
///
/// `denied_addresses` and `deny` come first. A place in `allow` is open, with its port if it names one. Otherwise the
/// port must be in `ports` and the address must be public.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Places that are open although they are not public. A host name opens the loopback and private addresses that it
    /// resolves to. Link-local addresses (metadata services) and reserved ones must be listed as addresses.
    pub allow: Vec<DestinationPattern>,
    /// Places that are closed although they are public or allowed.
    pub deny: Vec<DestinationPattern>,
    /// Allows only the places in `allow`.
    pub only_allowed: bool,
    /// Allows requests to this machine, for development.
    pub allow_loopback: bool,
    /// Ports that may be called.
    pub ports: Ports,
    /// Our own addresses (admin, metrics, database), always closed. An unspecified address (`0.0.0.0:9090`) closes that
    /// port on every address of this machine.
    pub denied_addresses: Vec<SocketAddr>,
    /// Default time from the call to the last byte of the answer.
    pub total_timeout: Duration,
    /// Maximum that a request may ask for instead.
    pub longest_timeout: Duration,
    /// Time for name lookup, connection and TLS handshake together.
    pub connect_timeout: Duration,
    /// Maximum size of an answer's body in bytes.
    pub max_response_bytes: usize,
    /// Maximum number of an answer's header fields; [`limits::MAX_RESPONSE_HEAD_BYTES`] bounds their size.
    pub max_response_headers: usize,
    /// Default `User-Agent`. A request may set its own.
    pub user_agent: String,
    /// Trusted root certificates in addition to the machine's, as DER.
    pub extra_roots: Vec<Vec<u8>>,
}

/// Ports that may be called. A place in the allow list that names its port is always open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All except these.
    Except(Vec<u16>),
    /// Only these.
    Only(Vec<u16>),
}

/// Ports of protocols that would execute lines smuggled in an HTTP request, or whose servers are never meant for a
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
    /// Checks a target before its name is resolved.
    pub(crate) fn judge_target(&self, target: &Target) -> Result<(), Refusal> {
        let host = || target.host.to_string();
        if let Host::Name(name) = &target.host
            && self.deny.iter().any(|place| place.has_name(name, target.port))
        {
            return Err(Refusal::Denied { host: host() });
        }
        let allowed_port = self.allow.iter().any(|place| place.port == Some(target.port));
        // Once the address is known, a second check decides whether the allowed place names the port.
        match self.ports.has(target.port) || allowed_port {
            true => Ok(()),
            false => Err(Refusal::Port { host: host(), port: target.port }),
        }
    }

    /// Checks whether the target may be reached at this address. This is the final check, on the exact address that is
    /// then connected to.
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
        let opened: Vec<&DestinationPattern> = by_address.chain(by_name).collect();
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

    /// Returns true if an address and port are one of our own. An unspecified address stands for this machine. Its
    /// loopback addresses are known beforehand; its other addresses are known only once connected
    /// ([`Rules::is_own_port`]).
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
