//! A proxy that passes on connections with a header that states their client (the PROXY protocol).
//!
//! Invariant: the edge treats a client behind it like one that connects itself.

use crate::settings::BALANCER;
use net::Connection as _;
use proxy_protocol::{Header, Version, write};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use world::{Pipe, Random};

/// How often a client connects through it.
const BALANCED_PERCENT: u64 = 15;

/// How often it does not name an ordinary client, or says that the connection is its own.
const NAMELESS_PERCENT: u64 = 10;

/// How often it writes to a connection that lets others go first.
const WRITES_MAX: usize = 10_000;

/// The address that the client connected to.
const EDGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);

/// What a connection through the proxy begins with.
pub(crate) struct Balanced(Vec<u8>);

impl Balanced {
    /// The address of the proxy.
    pub(crate) fn address() -> IpAddr {
        BALANCER.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The header for a client at this address, if it comes through the proxy. `is_named`: the edge
    /// depends on its address.
    pub(crate) fn by_chance(random: &mut Random, client: SocketAddr, is_named: bool) -> Option<Self> {
        if !random.percent(BALANCED_PERCENT) || client.ip() == Self::address() {
            return None;
        }
        let is_secured = random.percent(50).then_some(false);
        let header = match random.percent(NAMELESS_PERCENT) && !is_named {
            true if random.percent(50) => Header::Unknown,
            true => Header::Local,
            false => Header::Client { address: client, is_secured },
        };
        let version = if random.percent(50) { Version::Text } else { Version::Binary };
        Some(Self(write(version, header, EDGE)))
    }

    /// Writes the header. The connection was just made, so its buffer has room.
    pub(crate) fn begin(&self, pipe: &Pipe) {
        let mut rest = &self.0[..];
        for _ in 0..WRITES_MAX {
            if rest.is_empty() {
                return;
            }
            let written = pipe.try_write_vectored(&[IoSlice::new(rest)]).unwrap_or(0);
            rest = rest.get(written..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Balanced;
    use proxy_protocol::{Header, Parsed, parse};
    use world::Random;

    #[test]
    fn headers_name_the_client_where_the_edge_needs_it() {
        let client = "203.0.0.1:50000".parse().unwrap();
        let mut met = [0; 3];
        for seed in 0..2000 {
            for is_named in [false, true] {
                let balanced = Balanced::by_chance(&mut Random::new(seed), client, is_named);
                let Some(Balanced(octets)) = balanced else { continue };
                match parse(&octets) {
                    Ok(Parsed::Header(Header::Client { address, .. })) => {
                        assert_eq!(address, client);
                        met[0] += 1;
                    }
                    Ok(Parsed::Header(Header::Unknown)) if !is_named => met[1] += 1,
                    Ok(Parsed::Header(Header::Local)) if !is_named => met[2] += 1,
                    parsed => panic!("{parsed:?}"),
                }
            }
        }
        assert!(met.iter().all(|count| *count > 0), "{met:?}");
    }
}
