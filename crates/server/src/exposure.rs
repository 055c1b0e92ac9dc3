//! Checks if a listener's exposure is safe.

use std::net::SocketAddr;

/// How a listener is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// Must callers send a key?
    pub has_authentication: bool,
    /// Does this server terminate TLS?
    pub has_tls: bool,
    /// Did the operator allow plain HTTP, because a proxy in front terminates TLS?
    pub allows_plain: bool,
}

/// Why a listener is not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Exposure {
    /// Any caller could do anything.
    #[error(
        "{0} can be reached from other machines, and no authentication is configured; listen on 127.0.0.1, or configure \
         authentication"
    )]
    NoAuthentication(SocketAddr),
    /// Keys could be read on the network.
    #[error(
        "{0} can be reached from other machines, and keys would cross the network in the clear; give a TLS certificate and \
         key, or allow plain HTTP because a proxy in front terminates TLS"
    )]
    NoTls(SocketAddr),
}

/// Rejects a listener that other machines can reach without authentication, or without TLS unless
/// the operator allowed it.
pub fn check_exposure(address: SocketAddr, protection: Protection) -> Result<(), Exposure> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    if !protection.has_authentication {
        return Err(Exposure::NoAuthentication(address));
    }
    match protection.has_tls || protection.allows_plain {
        true => Ok(()),
        false => Err(Exposure::NoTls(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Protection = Protection { has_authentication: false, has_tls: false, allows_plain: false };

    #[test]
    fn this_machine_may_always_be_listened_to() {
        for address in ["127.0.0.1:0", "[::1]:80", "127.8.8.8:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(check_exposure(address.parse().unwrap(), OPEN), Ok(()), "{address}");
        }
    }

    #[test]
    fn other_machines_need_a_key_and_a_safe_way_to_send_it() {
        for address in ["0.0.0.0:80", "[::]:80", "192.168.1.2:80", "203.0.113.1:80"] {
            let address = address.parse().unwrap();
            assert_eq!(check_exposure(address, OPEN), Err(Exposure::NoAuthentication(address)));
            let keyed = Protection { has_authentication: true, ..OPEN };
            assert_eq!(check_exposure(address, keyed), Err(Exposure::NoTls(address)));
            assert_eq!(check_exposure(address, Protection { has_tls: true, ..keyed }), Ok(()));
            assert_eq!(check_exposure(address, Protection { allows_plain: true, ..keyed }), Ok(()));
            let unkeyed = Protection { has_tls: true, allows_plain: true, ..OPEN };
            assert_eq!(check_exposure(address, unkeyed), Err(Exposure::NoAuthentication(address)));
        }
    }
}
