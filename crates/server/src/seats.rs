//! Room for connections: so many in all, so many from one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What counts as one address: all of IPv4, the network part of IPv6, since whoever has one address of a /64 has all.
pub(crate) fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// The seats of one listener.
#[derive(Debug, Clone)]
pub(crate) struct Seats {
    taken: Arc<Mutex<Taken>>,
    max: usize,
    max_per_address: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One seat, free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    group: IpAddr,
}

impl Seats {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        Seats { taken: Arc::default(), max, max_per_address }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a connection from `address`, if there is one.
    pub(crate) fn find_seat(&self, address: IpAddr) -> Option<Seat> {
        let group = address_group(address);
        let mut taken = self.taken();
        let from_here = taken.by_address.get(&group).copied().unwrap_or(0);
        if taken.all >= self.max || from_here >= self.max_per_address {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(group, from_here + 1);
        Some(Seat { seats: self.clone(), group })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all -= 1;
        let from_here = taken.by_address.get(&self.group).copied().unwrap_or(1);
        match from_here {
            0 | 1 => taken.by_address.remove(&self.group),
            more => taken.by_address.insert(self.group, more - 1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_free_again_when_its_connection_ends_and_nothing_is_remembered() {
        let seats = Seats::new(3, 2);
        let here: IpAddr = "192.0.2.1".parse().unwrap();
        let there: IpAddr = "192.0.2.2".parse().unwrap();
        let first = seats.find_seat(here).unwrap();
        let second = seats.find_seat(here).unwrap();
        assert!(seats.find_seat(here).is_none(), "two from one address");
        let third = seats.find_seat(there).unwrap();
        assert!(seats.find_seat(there).is_none(), "three in all");
        drop((first, second, third));
        assert!(seats.taken().by_address.is_empty() && seats.taken().all == 0);
    }

    #[test]
    fn all_addresses_of_one_ipv6_network_count_together() {
        let group = |text: &str| address_group(text.parse().unwrap());
        assert_eq!(group("2001:db8::1"), group("2001:db8::ffff:2"));
        assert_ne!(group("2001:db8::1"), group("2001:db8:0:1::1"));
        assert_eq!(group("::ffff:192.0.2.1"), group("192.0.2.1"));
    }
}
