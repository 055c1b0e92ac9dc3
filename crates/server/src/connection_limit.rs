//! Connection limits: for the whole listener, and per address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Address group for limits: a whole IPv4 address, or the /64 network of an IPv6 address, because
/// one host usually owns the whole network.
pub(crate) fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Connection slots of one listener.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimit {
    taken: Arc<Mutex<OpenConnections>>,
    max: usize,
    max_per_address: usize,
}

#[derive(Debug, Default)]
struct OpenConnections {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One slot, released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    seats: ConnectionLimit,
    group: Option<IpAddr>,
}

impl ConnectionLimit {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        ConnectionLimit { taken: Arc::default(), max, max_per_address }
    }

    fn taken(&self) -> MutexGuard<'_, OpenConnections> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a connection from `address`. `None` is a proxy, which many clients share
    /// and which has no limit of its own.
    pub(crate) fn find_seat(&self, address: Option<IpAddr>) -> Option<ConnectionPermit> {
        let group = address.map(address_group);
        let mut taken = self.taken();
        if taken.all >= self.max {
            return None;
        }
        if let Some(group) = group {
            let from_here = taken.by_address.get(&group).copied().unwrap_or(0);
            if from_here >= self.max_per_address {
                return None;
            }
            taken.by_address.insert(group, from_here + 1);
        }
        taken.all += 1;
        Some(ConnectionPermit { seats: self.clone(), group })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all -= 1;
        let Some(group) = self.group else { return };
        let from_here = taken.by_address.get(&group).copied().unwrap_or(1);
        match from_here {
            0 | 1 => taken.by_address.remove(&group),
            more => taken.by_address.insert(group, more - 1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_free_again_when_its_connection_ends_and_nothing_is_remembered() {
        let seats = ConnectionLimit::new(3, 2);
        let here = Some("192.0.2.1".parse().unwrap());
        let there = Some("192.0.2.2".parse().unwrap());
        let first = seats.find_seat(here).unwrap();
        let second = seats.find_seat(here).unwrap();
        assert!(seats.find_seat(here).is_none(), "two from one address");
        let third = seats.find_seat(there).unwrap();
        assert!(seats.find_seat(there).is_none(), "three in all");
        drop((first, second, third));
        assert!(seats.taken().by_address.is_empty() && seats.taken().all == 0);
    }

    #[test]
    fn a_proxy_may_take_all_seats_and_no_more() {
        let seats = ConnectionLimit::new(3, 1);
        let taken: Vec<_> = (0..3).map(|_| seats.find_seat(None).unwrap()).collect();
        assert!(seats.find_seat(None).is_none() && seats.taken().by_address.is_empty());
        drop(taken);
        assert_eq!(seats.taken().all, 0);
    }

    #[test]
    fn all_addresses_of_one_ipv6_network_count_together() {
        let group = |text: &str| address_group(text.parse().unwrap());
        assert_eq!(group("2001:db8::1"), group("2001:db8::ffff:2"));
        assert_ne!(group("2001:db8::1"), group("2001:db8:0:1::1"));
        assert_eq!(group("::ffff:192.0.2.1"), group("192.0.2.1"));
    }
}
