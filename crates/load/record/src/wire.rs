//! How requests travel: HTTP version, TLS, and the local addresses that connections are made from.
//!
//! Invariant: these types are plain data in a plan; nothing is opened or read here.

use message::Version;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;
use tls_terms::TlsTerms;

/// The HTTP version of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0, as `ab` uses it.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2.
    H2,
}

impl Protocol {
    /// The name of the version; for HTTP/1 as in a request line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::H2 => "HTTP/2",
        }
    }
}

impl From<Version> for Protocol {
    fn from(version: Version) -> Self {
        match version {
            Version::Http10 => Self::Http10,
            Version::Http11 => Self::Http11,
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    /// Parses `1.0`, `1.1` or `2`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1.0" => Ok(Self::Http10),
            "1.1" => Ok(Self::Http11),
            "2" => Ok(Self::H2),
            _ => Err(format!("{text:?} is none of the protocols 1.0, 1.1 and 2")),
        }
    }
}

/// How a connection is closed after its last response, if the server has closed its side first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Close {
    /// With a FIN, as clients do.
    #[default]
    Fin,
    /// On loopback with a reset, so that the socket can be used for the next connection. Real
    /// clients do not do this. It saves both ends work, so figures are better than visitors would
    /// see.
    Rst,
}

impl Close {
    /// The name used on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::Rst => "rst",
        }
    }
}

impl FromStr for Close {
    type Err = String;

    /// Parses `fin` or `rst`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fin" => Ok(Self::Fin),
            "rst" => Ok(Self::Rst),
            _ => Err(format!("{text:?} is neither fin nor rst")),
        }
    }
}

/// Options of TLS connections; connections without TLS ignore them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Whether the certificate must be valid for the target's name.
    pub is_verified: bool,
    /// PEM file with the certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the target's name is sent in the handshake (SNI).
    pub server_name: bool,
    /// The name sent as SNI and used for verification, instead of the target's.
    pub name: Option<String>,
    /// Whether a connection resumes an earlier TLS session, as browsers do.
    pub is_resumed: bool,
    /// TLS version, cipher suites and the client's certificate.
    pub terms: TlsTerms,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            is_verified: true,
            ca_file: None,
            server_name: true,
            name: None,
            is_resumed: true,
            terms: TlsTerms::default(),
        }
    }
}

/// A range of local addresses that connections use in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceNet {
    /// The first address of the range: the network itself.
    base: IpAddr,
    /// Number of leading bits that all addresses share.
    prefix: u8,
}

/// A text with an invalid range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address such as 127.0.0.1 nor a range such as 127.0.0.0/8")]
pub struct SourceNetError(String);

impl SourceNet {
    /// The address for connection number `index`. The network address and, in IPv4, the broadcast
    /// address are skipped if the range has others.
    pub fn address(&self, index: u64) -> IpAddr {
        match self.base {
            IpAddr::V4(base) => {
                let hosts = 1_u64 << (32 - self.prefix);
                let offset = if hosts > 2 { 1 + index % (hosts - 2) } else { index % hosts };
                IpAddr::V4(Ipv4Addr::from_bits(base.to_bits().wrapping_add(offset as u32)))
            }
            IpAddr::V6(base) => {
                let bits = u32::from(128 - self.prefix).min(63);
                let hosts = 1_u64 << bits;
                let offset = if hosts > 1 { 1 + index % (hosts - 1) } else { 0 };
                IpAddr::V6(Ipv6Addr::from_bits(base.to_bits().wrapping_add(u128::from(offset))))
            }
        }
    }

    /// Whether its addresses have the same family as `other`.
    pub fn is_family_of(&self, other: IpAddr) -> bool {
        self.base.is_ipv4() == other.is_ipv4()
    }
}

impl FromStr for SourceNet {
    type Err = SourceNetError;

    /// Parses `ADDRESS` or `ADDRESS/BITS`; address bits after the prefix are ignored.
    fn from_str(text: &str) -> Result<Self, SourceNetError> {
        let bad = || SourceNetError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        if prefix > bits || prefix == 0 {
            return Err(bad());
        }
        let base = match address {
            IpAddr::V4(address) => {
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (32 - prefix))))
            }
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - prefix))))
            }
        };
        Ok(Self { base, prefix })
    }
}

impl fmt::Display for SourceNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::{Protocol, SourceNet};
    use std::collections::BTreeSet;

    fn net(text: &str) -> SourceNet {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_rotate_without_network_and_broadcast() {
        let all = |text: &str, count| -> Vec<String> {
            (0..count).map(|index| net(text).address(index).to_string()).collect()
        };
        assert_eq!(all("127.0.0.9/8", 2), ["127.0.0.1", "127.0.0.2"]);
        assert_eq!(all("10.1.2.0/30", 3), ["10.1.2.1", "10.1.2.2", "10.1.2.1"]);
        assert_eq!(all("10.1.2.8/31", 3), ["10.1.2.8", "10.1.2.9", "10.1.2.8"]);
        assert_eq!(all("10.1.2.3", 2), ["10.1.2.3", "10.1.2.3"]);
        assert_eq!(all("fd00::/64", 2), ["fd00::1", "fd00::2"]);
        assert_eq!(all("::1", 2), ["::1", "::1"]);
        let many: BTreeSet<_> = (0..1000).map(|index| net("127.0.0.0/8").address(index)).collect();
        assert_eq!(many.len(), 1000);
    }

    #[test]
    fn text_that_is_no_range_is_refused() {
        for text in ["", "localhost", "127.0.0.1/33", "127.0.0.1/", "::/129", "1.2.3/8", "0.0.0.0/0"] {
            assert!(text.parse::<SourceNet>().is_err(), "{text:?} was accepted");
        }
        assert_eq!(net("127.1.2.3/8").to_string(), "127.0.0.0/8");
    }

    #[test]
    fn protocols_are_parsed_and_named() {
        let names = ["1.0", "1.1", "2"].map(|text| text.parse::<Protocol>().unwrap().name());
        assert_eq!(names, ["HTTP/1.0", "HTTP/1.1", "HTTP/2"]);
        assert!("3".parse::<Protocol>().is_err());
    }
}
