//! Which IP addresses are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an IP address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// Any host on the internet.
    Public,
    /// This machine, its network, or an address with a special purpose.
    Private,
    /// The service by which a cloud gives a machine its credentials.
    Metadata,
}

/// Addresses of the metadata services of clouds, also those that look public.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Networks of IPv4 that are not public, with the length of their prefix.
const PRIVATE_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];
/// The only network of IPv6 with public addresses.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// Networks in it that are not public: special purposes with Teredo, documentation, 6to4.
const PRIVATE_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    SIX_TO_FOUR,
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];
/// The network whose addresses end with an address of IPv4 that a gateway translates to.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// The network whose addresses have an address of IPv4 behind the prefix, to whose host a relay
/// sends them. Relays are gone from the internet, so none of it is public.
const SIX_TO_FOUR: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);

/// Returns what an address is for. An address of IPv6 that stands for one of IPv4 is judged as
/// that one.
#[must_use]
pub fn address_kind(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> AddressKind {
    let is_in = |(network, bits): &(Ipv4Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *bits
    };
    if METADATA_V4.contains(&address) {
        AddressKind::Metadata
    } else if PRIVATE_V4.iter().any(is_in) {
        AddressKind::Private
    } else {
        AddressKind::Public
    }
}

fn kind_v6(address: Ipv6Addr) -> AddressKind {
    let is_in = |(network, bits): &(Ipv6Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *bits
    };
    if METADATA_V6.contains(&address) {
        return AddressKind::Metadata;
    }
    if let Some(address) = address.to_ipv4_mapped() {
        return kind_v4(address);
    }
    if is_in(&NAT64) {
        let [.., a, b, c, d] = address.octets();
        return kind_v4(Ipv4Addr::new(a, b, c, d));
    }
    let [_, _, a, b, c, d, ..] = address.octets();
    if is_in(&SIX_TO_FOUR) && METADATA_V4.contains(&Ipv4Addr::new(a, b, c, d)) {
        return AddressKind::Metadata;
    }
    if is_in(&GLOBAL_V6) && !PRIVATE_V6.iter().any(is_in) {
        AddressKind::Public
    } else {
        AddressKind::Private
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_private_and_metadata_addresses_are_distinguished() {
        let rows = include_str!("../tests/addresses.txt").lines();
        let rows = rows.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut count = 0;
        for row in rows {
            let (address, kind) = row.split_once(' ').unwrap();
            let found = format!("{:?}", address_kind(address.parse().unwrap()));
            assert_eq!(found.to_lowercase(), kind.trim(), "{address}");
            count += 1;
        }
        println!("{count} addresses");
        assert!(count > 80, "{count}");
    }

    proptest::proptest! {
        /// However an address of IPv4 is written down, it is the same.
        #[test]
        fn a_mapped_or_translated_address_is_the_one_it_stands_for(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            let kind = address_kind(plain.into());
            proptest::prop_assert_eq!(address_kind(plain.to_ipv6_mapped().into()), kind);
            let [a, b, c, d] = plain.octets();
            let pair = |a: u8, b: u8| u16::from_be_bytes([a, b]);
            let translated = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, pair(a, b), pair(c, d));
            proptest::prop_assert_eq!(address_kind(translated.into()), kind);
        }
    }
}
