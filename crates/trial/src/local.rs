//! Whether a site runs on this machine.
//!
//! Invariant: every address of the host must belong to an interface of this machine. A name that
//! leads to a proxy elsewhere is therefore not local, although the site may run here.

use address::{Address, HttpUrl};
use std::net::{IpAddr, TcpListener};

/// Whether the site of `url` is served at addresses of this machine. A name that cannot be resolved
/// is not local.
pub async fn is_on_this_machine(url: &HttpUrl) -> bool {
    let addresses: Vec<IpAddr> = match url.address() {
        Address::Host { name, port } => match tokio::net::lookup_host((name.as_str(), port)).await {
            Ok(found) => found.map(|address| address.ip()).collect(),
            Err(_) => Vec::new(),
        },
        Address::Ip(address) => vec![address.ip()],
        _ => Vec::new(),
    };
    !addresses.is_empty() && addresses.into_iter().all(is_own)
}

/// Whether an interface has this address: the system lets programs listen at no other.
fn is_own(address: IpAddr) -> bool {
    !address.is_unspecified() && TcpListener::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn only_addresses_of_interfaces_are_own() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        // A block for documentation (RFC 5737), which no interface has.
        assert!(!is_own("192.0.2.7".parse().unwrap()));
        assert!(!is_own("0.0.0.0".parse().unwrap()));
    }
}
