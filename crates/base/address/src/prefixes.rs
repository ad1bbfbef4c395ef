//! Address prefixes in CIDR notation (`10.0.0.0/8`, `2001:db8::/32`), and sets of them.
//!
//! Invariant: an IPv4 address and the same address mapped into IPv6 count as one address. Prefixes
//! and looked-up addresses are therefore made canonical before they are compared. A lookup in a set
//! is a binary search, because every request makes one and the lists of content delivery networks
//! have hundreds of entries.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Length of the prefix `::ffff:0:0/96`, which contains the IPv4 addresses mapped into IPv6.
const MAPPED_BITS: u8 = 96;

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The first address. The bits after the prefix are zero.
    address: IpAddr,
    bits: u8,
}

/// Why a text is not a [`Prefix`]. The message says how to write one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Neither an address nor a prefix.
    #[error("`{0}` is not an IP address or prefix; write for example 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32")]
    Invalid(String),
    /// The text after the slash is not a prefix length for this kind of address.
    #[error("`{text}` has no prefix length from 0 to {most} behind the slash")]
    LengthInvalid {
        /// The whole prefix as given.
        text: String,
        /// The number of bits of the address.
        most: u8,
    },
    /// Bits after the prefix are set, so the text could mean one address or a network.
    #[error(
        "`{text}` has bits behind its prefix; write {network} for the network, or {address} for one address"
    )]
    HostBits {
        /// The whole prefix as given.
        text: String,
        /// The network that the prefix describes.
        network: Prefix,
        /// The address before the slash.
        address: IpAddr,
    },
}

impl Prefix {
    /// The first address.
    pub fn first(&self) -> IpAddr {
        self.address
    }

    /// The prefix of `bits` bits that contains `address`. `bits` is at most the width of the
    /// address.
    fn around(address: IpAddr, bits: u8) -> Self {
        let masked = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(u32::from(32 - bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(u32::from(128 - bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { address: masked, bits }
    }

    /// The first and last address as numbers.
    fn range(&self) -> (u128, u128) {
        let hosts = u32::from(width(self.address) - self.bits);
        let first = number(self.address);
        (first, first | !u128::MAX.checked_shl(hosts).unwrap_or(0))
    }
}

/// The number of bits of an address.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl From<IpAddr> for Prefix {
    /// The prefix of one address.
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: width(address) }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, length) = text.split_once('/').map_or((text, None), |(a, length)| (a, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Invalid(text.to_owned()))?;
        let Some(length) = length else { return Ok(address.into()) };
        let most = width(address);
        let bits = Some(length)
            .filter(|length| length.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|length| length.parse().ok())
            .filter(|bits| *bits <= most)
            .ok_or_else(|| PrefixError::LengthInvalid { text: text.to_owned(), most })?;
        let network = Self::around(address, bits);
        if network.address != address {
            return Err(PrefixError::HostBits { text: text.to_owned(), network, address });
        }
        Ok(match address.to_canonical() {
            // A prefix shorter than 96 bits contains more than mapped addresses, so it stays an
            // IPv6 prefix.
            IpAddr::V4(v4) if address.is_ipv6() && bits >= MAPPED_BITS => {
                Self { address: v4.into(), bits: bits - MAPPED_BITS }
            }
            _ => network,
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, bits } = self;
        if *bits == width(*address) { write!(f, "{address}") } else { write!(f, "{address}/{bits}") }
    }
}

/// A set of addresses, given as prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// The prefixes as given.
    given: Vec<Prefix>,
    /// The IPv4 addresses as ordered ranges that neither overlap nor touch. `v6` has the same for
    /// IPv6.
    v4: Vec<(u128, u128)>,
    v6: Vec<(u128, u128)>,
}

impl Prefixes {
    /// Whether an address lies in one of the prefixes.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let ranges = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let wanted = number(address);
        let after = ranges.partition_point(|(first, _)| *first <= wanted);
        after.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|(_, last)| wanted <= *last)
    }

    /// Whether the set contains no address.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Whether the set contains every IPv4 address or every IPv6 address.
    pub fn is_everybody(&self) -> bool {
        self.v4 == [(0, u128::from(u32::MAX))] || self.v6 == [(0, u128::MAX)]
    }

    /// The prefixes in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Prefix> {
        self.given.iter()
    }
}

impl FromIterator<Prefix> for Prefixes {
    fn from_iter<I: IntoIterator<Item = Prefix>>(prefixes: I) -> Self {
        let given: Vec<_> = prefixes.into_iter().collect();
        let of = |is_v4| {
            merged(
                given.iter().filter(|prefix| prefix.address.is_ipv4() == is_v4).map(Prefix::range).collect(),
            )
        };
        Self { v4: of(true), v6: of(false), given }
    }
}

impl FromIterator<IpAddr> for Prefixes {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        addresses.into_iter().map(Prefix::from).collect()
    }
}

/// The same numbers as ordered ranges that neither overlap nor touch.
fn merged(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::{Prefix, Prefixes};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn set(texts: &[&str]) -> Prefixes {
        texts.iter().map(|text| text.parse::<Prefix>().unwrap()).collect()
    }

    fn has(prefixes: &Prefixes, address: &str) -> bool {
        prefixes.contains(address.parse().unwrap())
    }

    #[test]
    fn prefix_display_and_parsing_round_trip() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::1/128", "::1"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn prefix_errors_say_how_to_write_it() {
        for (text, words) in [
            ("10.0.0.1/8", "write 10.0.0.0/8 for the network, or 10.0.0.1 for one address"),
            ("2001:db8::1/32", "write 2001:db8::/32 for the network"),
            ("::ffff:10.0.0.0/95", "bits behind its prefix"),
            ("10.0.0.0/33", "from 0 to 32"),
            ("10.0.0.0/", "from 0 to 32"),
            ("10.0.0.0/+8", "from 0 to 32"),
            ("10.0.0.0/8/8", "from 0 to 32"),
            ("::/129", "from 0 to 128"),
            ("10.0.0/8", "write for example"),
            ("10.0.0.00/8", "write for example"),
            ("example.org", "write for example"),
            ("", "write for example"),
        ] {
            let message = text.parse::<Prefix>().unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn mapped_addresses_count_as_ipv4() {
        let prefixes = set(&["10.0.0.0/8", "2001:db8::/32"]);
        for inside in ["10.255.255.255", "::ffff:10.1.2.3", "2001:db8:ffff::1"] {
            assert!(has(&prefixes, inside), "{inside}");
        }
        for outside in ["9.255.255.255", "11.0.0.0", "::10.1.2.3", "2001:db9::", "::ffff:11.0.0.1"] {
            assert!(!has(&prefixes, outside), "{outside}");
        }
        assert!(!has(&set(&["::/0"]), "10.0.0.1"), "IPv6 prefixes hold no IPv4 addresses");
        assert!(!has(&set(&[]), "127.0.0.1"));
    }

    #[test]
    fn two_halves_of_all_addresses_are_all_addresses() {
        assert!(set(&["0.0.0.0/0"]).is_everybody() && set(&["::/0"]).is_everybody());
        assert!(set(&["128.0.0.0/1", "10.0.0.0/8", "0.0.0.0/1"]).is_everybody());
        assert!(set(&["::/1", "8000::/1"]).is_everybody());
        assert!(!set(&["0.0.0.0/1", "10.0.0.0/8"]).is_everybody() && !set(&[]).is_everybody());
    }

    /// Compares the lookup in the set with a linear search over its prefixes.
    #[test]
    fn set_contains_the_addresses_of_its_prefixes() {
        let texts =
            ["10.0.0.0/8", "10.1.0.0/16", "10.255.0.0/16", "11.0.0.0/32", "::2/127", "::4", "::ffff:0:0/97"];
        let prefixes = set(&texts);
        let is_in = |address: IpAddr| {
            prefixes.iter().any(|prefix| {
                address.is_ipv4() == prefix.address.is_ipv4()
                    && Prefix::around(address, prefix.bits).address == prefix.address
            })
        };
        let edges = prefixes.iter().flat_map(|prefix| {
            let (first, last) = prefix.range();
            [first.saturating_sub(1), first, last, last.saturating_add(1)]
        });
        for number in edges.chain([0, 1, u128::from(u32::MAX), u128::MAX]) {
            let v6 = IpAddr::V6(Ipv6Addr::from_bits(number));
            let v4 = u32::try_from(number).ok().map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
            for address in [Some(v6), v4].into_iter().flatten().filter(|ip| ip.to_canonical() == *ip) {
                assert_eq!(prefixes.contains(address), is_in(address), "{address}");
            }
        }
    }
}
