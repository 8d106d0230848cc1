//! Sets of networks as sorted ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network without host bits. An IPv4-mapped network is an IPv4 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// First and last address.
    V4(u32, u32),
    /// First and last address.
    V6(u128, u128),
}

/// How entries are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// An IPv6 address without a prefix length is that address; a length that does not fit an IPv4-mapped address is an error.
    Native,
    /// compat(1.3): an IPv6 address without a prefix length is a network of 32 bits, as for IPv4, and a network of IPv4-mapped addresses with
    /// less than 96 bits one of IPv6, which has no IPv4 address; pinned by the golden cases of the list adapter.
    Istio,
}

/// Bits before the IPv4 address of an IPv4-mapped one.
const MAPPED: u32 = 96;

impl Network {
    /// Parses `address/length`; an IPv4 address alone means `/32`.
    ///
    /// Errors: `invalid CIDR address: ` and the entry, with `/32` appended if it has no length.
    pub(super) fn parse(entry: &str, dialect: Dialect) -> Result<Self, String> {
        let (address, length) = match entry.split_once('/') {
            Some(network) => network,
            None if dialect == Dialect::Native && entry.parse::<Ipv6Addr>().is_ok() => (entry, "128"),
            None => (entry, "32"),
        };
        let invalid = || format!("invalid CIDR address: {address}/{length}");
        let digits = (1..=3).contains(&length.len()) && length.bytes().all(|b| b.is_ascii_digit());
        let bits: u32 = if digits { length.parse().map_err(|_| invalid())? } else { return Err(invalid()) };
        match address.parse().map_err(|_| invalid())? {
            IpAddr::V4(ip) if bits <= 32 => Ok(Self::v4(u32::from(ip), bits)),
            IpAddr::V6(ip) if bits <= 128 => match ip.to_ipv4_mapped() {
                Some(ip) if bits >= MAPPED => Ok(Self::v4(u32::from(ip), bits - MAPPED)),
                Some(mapped) if dialect == Dialect::Native => {
                    Err(format!("{}: {}", invalid(), short_of_ipv4(mapped, bits)))
                }
                _ => Ok(Self::v6(u128::from(ip), bits)),
            },
            _ => Err(invalid()),
        }
    }

    /// How to write an entry that is none.
    pub(super) fn cure(entry: &str) -> String {
        let (address, length) = entry.split_once('/').unwrap_or((entry, ""));
        match address.parse() {
            Ok(IpAddr::V4(_)) if !length.is_empty() => {
                format!(
                    "the length of an IPv4 network is a number from 0 to 32: `{address}/32` is the address alone"
                )
            }
            Ok(IpAddr::V6(_)) if !length.is_empty() => {
                format!(
                    "the length of an IPv6 network is a number from 0 to 128: `{address}/128` is the address alone"
                )
            }
            _ => "an entry is an address or a network: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`".to_owned(),
        }
    }

    fn v6(ip: u128, length: u32) -> Self {
        let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
        Self::V6(ip & !hosts, ip | hosts)
    }

    fn v4(ip: u32, length: u32) -> Self {
        let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
        Self::V4(ip & !hosts, ip | hosts)
    }
}

/// Why a length does not fit an IPv4-mapped address, and what was probably meant.
fn short_of_ipv4(ip: Ipv4Addr, length: u32) -> String {
    let cure = match length {
        0..=32 => format!("write {ip}/{length}, or ::ffff:{ip}/{}", MAPPED + length),
        _ => format!("write {ip} with a length from 0 to 32"),
    };
    format!("an IPv4-mapped network has a length from 96 to 128, with less it has no IPv4 address: {cure}")
}

/// A set of networks. A look-up is a binary search.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Addresses {
    /// What they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.v4.capacity() * size_of::<(u32, u32)>() + self.v6.capacity() * size_of::<(u128, u128)>()
    }

    pub(super) fn new(networks: impl IntoIterator<Item = Network>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match network {
                Network::V4(first, last) => v4.push((first, last)),
                Network::V6(first, last) => v6.push((first, last)),
            }
        }
        Self { v4: merged(v4), v6: merged(v6) }
    }

    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        match ip.to_canonical() {
            IpAddr::V4(ip) => within(&self.v4, u32::from(ip)),
            IpAddr::V6(ip) => within(&self.v6, u128::from(ip)),
        }
    }
}

/// Sorts ranges and merges those that overlap.
fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let overlaps = next.0 <= kept.1;
        if overlaps {
            kept.1 = kept.1.max(next.1);
        }
        overlaps
    });
    ranges
}

fn within<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= value);
    after.checked_sub(1).and_then(|i| ranges.get(i)).is_some_and(|(_, last)| value <= *last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(networks: &[&str], ip: &str) -> bool {
        contains_as(Dialect::Native, networks, ip)
    }

    fn contains_as(dialect: Dialect, networks: &[&str], ip: &str) -> bool {
        let networks = networks.iter().map(|n| Network::parse(n, dialect).unwrap());
        Addresses::new(networks).contains(ip.parse().unwrap())
    }

    #[test]
    fn an_ipv6_address_is_no_network_unless_it_is_istios() {
        let (one, other) = ("2001:db8::1", "2001:db8:ffff::5");
        for (dialect, is_network) in [(Dialect::Native, false), (Dialect::Istio, true)] {
            assert!(contains_as(dialect, &[one], one), "{dialect:?}");
            assert_eq!(contains_as(dialect, &[one], other), is_network, "{dialect:?}");
        }
    }

    #[test]
    fn a_mapped_network_with_a_length_of_ipv4_is_no_network_unless_it_is_istios() {
        for (entry, cure) in [
            ("::ffff:10.1.0.0/16", "write 10.1.0.0/16, or ::ffff:10.1.0.0/112"),
            ("::ffff:10.1.0.0/0", "write 10.1.0.0/0, or ::ffff:10.1.0.0/96"),
            ("::ffff:a01:0/95", "write 10.1.0.0 with a length from 0 to 32"),
        ] {
            let text = "an IPv4-mapped network has a length from 96 to 128, with less it has no IPv4 address";
            let error = format!("invalid CIDR address: {entry}: {text}: {cure}");
            assert_eq!(Network::parse(entry, Dialect::Native), Err(error));
            assert!(!contains_as(Dialect::Istio, &[entry], "10.1.2.3"), "{entry}");
        }
        assert!(contains_as(Dialect::Istio, &["::ffff:10.1.0.0/16"], "::2"), "the network ::/16");
        assert!(contains(&["::ffff:10.1.0.0/112"], "10.1.2.3"));
        assert!(contains(&["::/16"], "::2"));
    }

    #[test]
    fn membership() {
        let rows = [
            ("inside", &["10.57.3.4/16"][..], "10.57.255.255", true),
            ("outside", &["10.57.3.4/16"], "10.58.0.0", false),
            ("no length means 32", &["192.168.1.7"], "192.168.1.7", true),
            ("no length means one address, IPv6 too", &["2001:db8::1"], "2001:db8::2", false),
            ("mapped address without length", &["::ffff:10.1.2.3"], "10.1.2.3", true),
            ("beside a mapped address", &["::ffff:10.1.2.3"], "10.1.2.4", false),
            ("beside it", &["2001:db8::1/32"], "2001:db9::", false),
            ("mapped address, IPv4 network", &["10.57.0.0/16"], "::ffff:10.57.9.9", true),
            ("IPv4 address, IPv6 network", &["::/0"], "10.0.0.1", false),
            ("mapped address, IPv6 network", &["::/0"], "::ffff:10.0.0.1", false),
            ("mapped network", &["::ffff:10.0.0.0/104"], "10.200.0.1", true),
            ("everything", &["1.2.3.4/0"], "255.255.255.255", true),
            ("nested networks", &["10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"], "10.200.0.1", true),
            ("last of several", &["1.0.0.0/8", "3.0.0.0/8", "9.9.9.9/32"], "9.9.9.9", true),
            ("between several", &["1.0.0.0/8", "3.0.0.0/8"], "2.0.0.0", false),
            ("no networks", &[], "1.1.1.1", false),
            ("one IPv6 address", &["::1/128"], "::1", true),
        ];
        for (name, networks, ip, wanted) in rows {
            assert_eq!(contains(networks, ip), wanted, "{name}");
        }
    }

    #[test]
    fn errors_show_the_entry_with_its_length() {
        for (entry, shown) in [
            ("x", "x/32"),
            ("10.0.0.0/33", "10.0.0.0/33"),
            ("", "/32"),
            ("::/129", "::/129"),
            ("1.1.1.1/", "1.1.1.1/"),
            ("1.1.1.1/+8", "1.1.1.1/+8"),
            ("1.1.1.1/8/8", "1.1.1.1/8/8"),
        ] {
            assert_eq!(Network::parse(entry, Dialect::Istio), Err(format!("invalid CIDR address: {shown}")));
        }
    }
}
