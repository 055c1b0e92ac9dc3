//! Which addresses are not the public internet, and why.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// Kind of an address that is not public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Loopback: this machine.
    Loopback,
    /// Private networks: 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7.
    Private,
    /// Link-local addresses. Cloud metadata services use them.
    LinkLocal,
    /// Wraps an IPv4 address (v4-mapped, NAT64, 6to4), and could hide any of the others.
    Wrapped,
    /// Reserved: unspecified, multicast, documentation, benchmarks, never assigned.
    Reserved,
}

impl Kind {
    /// Returns true if allowing a host by name also allows such an address. Other addresses must be allowed as
    /// addresses: a user who trusts `billing.internal` did not mean the metadata service.
    pub(crate) fn is_opened_by_name(self) -> bool {
        match self {
            Kind::Loopback | Kind::Private => true,
            Kind::LinkLocal | Kind::Wrapped | Kind::Reserved => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Loopback => "loopback",
            Kind::Private => "private",
            Kind::LinkLocal => "link-local",
            Kind::Wrapped => "wrapped IPv4",
            Kind::Reserved => "reserved",
        })
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(segments: [u16; 8], length: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)
}

/// The IPv4 blocks that are not public (IANA special-purpose registry), none within another.
pub(crate) const V4: &[(Ipv4Net, Kind)] = &[
    (v4(0, 0, 0, 0, 8), Kind::Reserved),
    (v4(10, 0, 0, 0, 8), Kind::Private),
    (v4(100, 64, 0, 0, 10), Kind::Private),
    (v4(127, 0, 0, 0, 8), Kind::Loopback),
    (v4(169, 254, 0, 0, 16), Kind::LinkLocal),
    (v4(172, 16, 0, 0, 12), Kind::Private),
    (v4(192, 0, 0, 0, 24), Kind::Reserved),
    (v4(192, 0, 2, 0, 24), Kind::Reserved),
    (v4(192, 88, 99, 0, 24), Kind::Reserved),
    (v4(192, 168, 0, 0, 16), Kind::Private),
    (v4(198, 18, 0, 0, 15), Kind::Reserved),
    (v4(198, 51, 100, 0, 24), Kind::Reserved),
    (v4(203, 0, 113, 0, 24), Kind::Reserved),
    (v4(224, 0, 0, 0, 4), Kind::Reserved),
    (v4(240, 0, 0, 0, 4), Kind::Reserved),
];

/// The IPv6 blocks listed separately, the narrower first. Everything outside [`GLOBAL`] is reserved.
pub(crate) const V6: &[(Ipv6Net, Kind)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Kind::Reserved),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Kind::Loopback),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), Kind::Wrapped),
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Kind::Wrapped),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), Kind::Wrapped),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Kind::Wrapped),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Kind::Wrapped),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Kind::Reserved),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Kind::Reserved),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Kind::Reserved),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Kind::Wrapped),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Kind::Reserved),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), Kind::Reserved),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Kind::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Kind::LinkLocal),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Kind::Private),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Kind::Reserved),
];

/// All blocks that IANA has opened for global unicast.
pub(crate) const GLOBAL: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Kind of an address; `None` for the public internet.
pub(crate) fn find_kind(address: IpAddr) -> Option<Kind> {
    match address {
        IpAddr::V4(address) => V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, kind)| *kind),
        IpAddr::V6(address) => match V6.iter().find(|(net, _)| net.contains(&address)) {
            Some((_, kind)) => Some(*kind),
            None => (!GLOBAL.contains(&address)).then_some(Kind::Reserved),
        },
    }
}

/// The IPv4 address inside a wrapped one. It is checked as well: allowing a block of wrapped addresses (NAT64 on a
/// network without IPv4) does not allow every address wrapped in it.
pub(crate) fn find_wrapped(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let bytes = address.octets();
    match find_kind(IpAddr::V6(address))? {
        Kind::Wrapped if bytes[..2] == [0x20, 0x02] => {
            Some(Ipv4Addr::new(bytes[2], bytes[3], bytes[4], bytes[5]))
        }
        Kind::Wrapped => Some(Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15])),
        Kind::Loopback | Kind::Private | Kind::LinkLocal | Kind::Reserved => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4_neighbours(net: &Ipv4Net) -> Vec<Ipv4Addr> {
        let before = u32::from(net.network()).checked_sub(1).map(Ipv4Addr::from);
        let after = u32::from(net.broadcast()).checked_add(1).map(Ipv4Addr::from);
        before.into_iter().chain(after).collect()
    }

    fn v6_neighbours(net: &Ipv6Net) -> Vec<Ipv6Addr> {
        let before = u128::from(net.network()).checked_sub(1).map(Ipv6Addr::from);
        let after = u128::from(net.broadcast()).checked_add(1).map(Ipv6Addr::from);
        before.into_iter().chain(after).collect()
    }

    /// The blocks of the security list, as it spells them.
    const LISTED: &[&str] = &[
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
        "ff00::/8",
        "::ffff:0:0/96",
        "64:ff9b::/96",
        "2002::/16",
    ];

    #[test]
    fn every_block_of_the_security_list_is_refused_from_its_first_address_to_its_last() {
        for block in LISTED {
            let net: ipnet::IpNet = block.parse().unwrap();
            assert!(find_kind(net.network()).is_some(), "{block} first");
            assert!(find_kind(net.broadcast()).is_some(), "{block} last");
        }
    }

    #[test]
    fn each_block_has_its_kind_at_both_ends_and_its_neighbours_are_judged_by_themselves() {
        for (net, kind) in V4 {
            assert_eq!(find_kind(net.network().into()), Some(*kind), "{net}");
            assert_eq!(find_kind(net.broadcast().into()), Some(*kind), "{net}");
            for neighbour in v4_neighbours(net) {
                let own = V4.iter().find(|(other, _)| other.contains(&neighbour)).map(|(_, kind)| *kind);
                assert_eq!(find_kind(neighbour.into()), own, "{neighbour} beside {net}");
            }
        }
        for (net, kind) in V6 {
            // `::` and `::1`, the first addresses of the deprecated v4-compatible block, have their own kinds.
            if net.prefix_len() != 96 || u128::from(net.network()) != 0 {
                assert_eq!(find_kind(net.network().into()), Some(*kind), "{net}");
            }
            assert_eq!(find_kind(net.broadcast().into()), Some(*kind), "{net}");
            for neighbour in v6_neighbours(net) {
                let public =
                    GLOBAL.contains(&neighbour) && !V6.iter().any(|(other, _)| other.contains(&neighbour));
                assert_eq!(find_kind(neighbour.into()).is_none(), public, "{neighbour} beside {net}");
            }
        }
    }

    #[test]
    fn the_neighbours_that_are_public_stay_open() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "8.8.8.8",
            "2606:4700::1111",
            "2001:200::",
            "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db9::",
            "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2003::",
            "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert_eq!(find_kind(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn what_is_wrapped_comes_out_again() {
        for (outer, inner) in [
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("64:ff9b::a9fe:a9fe", "169.254.169.254"),
            ("2002:7f00:1::", "127.0.0.1"),
            ("::10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(find_wrapped(outer.parse().unwrap()), Some(inner.parse().unwrap()), "{outer}");
        }
        assert_eq!(find_wrapped("::1".parse().unwrap()), None);
        assert_eq!(find_wrapped("2606:4700::1111".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn any_address_inside_a_block_is_refused(which in 0..V4.len(), offset: u32) {
            let (net, kind) = V4[which];
            let inside = u32::from(net.network()) | (offset & u32::from(net.hostmask()));
            prop_assert_eq!(find_kind(Ipv4Addr::from(inside).into()), Some(kind));
        }

        #[test]
        fn any_ipv6_address_inside_a_block_is_refused(which in 0..V6.len(), offset: u128) {
            let (net, _) = V6[which];
            let inside = u128::from(net.network()) | (offset & u128::from(net.hostmask()));
            prop_assert!(find_kind(Ipv6Addr::from(inside).into()).is_some());
        }

        #[test]
        fn nothing_outside_global_unicast_is_public(bits: u128) {
            let address = Ipv6Addr::from(bits);
            prop_assert!(GLOBAL.contains(&address) || find_kind(address.into()).is_some());
        }
    }
}
