//! Chooses free loopback ports for a ladder's services, and recognises loopback addresses.

use address::HttpUrl;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Whether an address, as `HOST` or `HOST:PORT`, is one of this machine's loopback.
pub(crate) fn is_here(address: &str) -> bool {
    HttpUrl::parse(&format!("http://{address}/")).is_ok_and(|url| url.address().is_loopback())
}

/// Chooses a free port for each name, preferably the one in `wanted`. Another process may take a
/// port before the service binds it; the service then fails to start with its own error.
pub(crate) fn choose(names: &[String], wanted: &BTreeMap<String, u16>) -> io::Result<BTreeMap<String, u16>> {
    // All listeners stay open until the end, so that no port is chosen twice.
    let mut held = Vec::new();
    let mut chosen = BTreeMap::new();
    for name in names {
        let again = wanted.get(name).and_then(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).ok());
        let listener = again.map_or_else(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)), Ok)?;
        chosen.insert(name.clone(), listener.local_addr()?.port());
        held.push(listener);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::{choose, is_here};
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::TcpListener;

    #[test]
    fn loopback_addresses_are_here_with_or_without_port() {
        for here in ["localhost", "LocalHost:8080", "127.0.0.2:80", "[::1]:80", "[::1]"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["", "a.test:80", "192.0.2.1:80", "[::2]:80"] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn ports_are_distinct_and_taken_ones_are_replaced() {
        let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
        let first = choose(&names, &BTreeMap::new()).unwrap();
        assert_eq!(first.values().collect::<BTreeSet<_>>().len(), 20);
        let taken = TcpListener::bind(("127.0.0.1", first["p3"])).unwrap();
        let again = choose(&names[..4], &first).unwrap();
        assert_ne!(again["p3"], taken.local_addr().unwrap().port());
    }
}
