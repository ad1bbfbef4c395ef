//! Where the URLs of a run lead: which URLs share a host, which hosts share an address, and how
//! often each URL is requested.
//!
//! Invariant: names are resolved only here and only once; all later lookups are indices into lists.

use crate::LoadError;
use crate::slots::Route;
use address::HttpUrl;
use record::{Plan, PlanError, SourceNet, WeightedTarget};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

/// How long to try each address of a name that has several.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// The URLs of a run.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) urls: Vec<WeightedTarget>,
    by_url: Vec<Route>,
    addresses: Vec<SocketAddr>,
    hosts: usize,
    /// Cumulative sums of the URLs' weights.
    weights: Vec<u64>,
}

impl Routes {
    /// Resolves the hosts of a plan. Asks the system's resolver, which may take seconds.
    pub(crate) fn find(plan: &Plan) -> Result<Self, LoadError> {
        let urls = match &plan.targets[..] {
            [] => vec![WeightedTarget::new(plan.target.clone(), 1)],
            targets => targets.to_vec(),
        };
        if let Some(source) = plan.source {
            check_source(source.address(0))?;
        }
        let (mut hosts, mut addresses) = (HashMap::new(), Vec::new());
        let mut by_url = Vec::with_capacity(urls.len());
        for WeightedTarget { target, .. } in &urls {
            let name = (target.is_https(), target.host(), target.port());
            let route = match hosts.get(&name) {
                Some(&route) => route,
                None => {
                    let address = find_address(plan.proxy.as_ref().unwrap_or(target), plan.source)?;
                    if plan.source.is_some_and(|source| !source.is_family_of(address.ip())) {
                        return Err(LoadError::Plan(PlanError::Contradiction(
                            "the local addresses and the target's differ in family; use IPv4 or IPv6 for both",
                        )));
                    }
                    let place = addresses.iter().position(|&known| known == address).unwrap_or_else(|| {
                        addresses.push(address);
                        addresses.len() - 1
                    });
                    let route = Route { host: hosts.len() as u32, address: place as u32 };
                    hosts.insert(name, route);
                    route
                }
            };
            by_url.push(route);
        }
        let weights = urls.iter().scan(0, |sum, url| {
            *sum += u64::from(url.weight);
            Some(*sum)
        });
        Ok(Self { by_url, addresses, hosts: hosts.len(), weights: weights.collect(), urls })
    }

    /// Where requests for this URL go.
    pub(crate) fn route(&self, url: u32) -> Route {
        self.by_url.get(url as usize).copied().unwrap_or_default()
    }

    /// The address with this index.
    pub(crate) fn address(&self, place: u32) -> SocketAddr {
        const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
        self.addresses.get(place as usize).copied().unwrap_or(NOWHERE)
    }

    pub(crate) fn hosts(&self) -> usize {
        self.hosts
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The URL that 64 random bits select.
    pub(crate) fn choose(&self, random: u64) -> u32 {
        if self.urls.len() <= 1 {
            return 0;
        }
        let sum = self.weights.last().copied().unwrap_or(1);
        let lot = ((u128::from(random) * u128::from(sum)) >> 64) as u64;
        self.weights.partition_point(|&weight| weight <= lot) as u32
    }
}

/// Checks that connections can be made from a local address. Otherwise the error of each connection
/// would look like a lack of ports.
fn check_source(address: IpAddr) -> Result<(), LoadError> {
    match UdpSocket::bind((address, 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Err(LoadError::System {
            call: "cannot connect from the source address",
            reason: format!("this machine does not have the address {address}"),
        }),
        _ => Ok(()),
    }
}

/// The address to use for a target, out of those that the resolver returns.
fn find_address(target: &HttpUrl, source: Option<SourceNet>) -> Result<SocketAddr, LoadError> {
    let resolve_error = |reason: String| LoadError::Resolve { host: target.host(), reason };
    let found = (target.host(), target.port()).to_socket_addrs();
    let addresses = found.map_err(|error| resolve_error(error.to_string()))?.collect();
    first_that_answers(addresses, source).ok_or_else(|| resolve_error("the name has no address".to_owned()))
}

/// The first address that accepts a connection, otherwise the first one. Addresses of the local
/// addresses' family are preferred. A single address is not tried.
fn first_that_answers(mut addresses: Vec<SocketAddr>, source: Option<SourceNet>) -> Option<SocketAddr> {
    addresses.dedup();
    let is_of_family = |address: &SocketAddr| source.is_none_or(|source| source.is_family_of(address.ip()));
    if addresses.iter().any(is_of_family) {
        addresses.retain(is_of_family);
    }
    if let [only] = addresses[..] {
        return Some(only);
    }
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_MAX).is_ok();
    addresses.iter().find(answers).or_else(|| addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::{Routes, first_that_answers};
    use address::HttpUrl;
    use record::{Plan, WeightedTarget};
    use std::net::{SocketAddr, TcpListener};

    fn routes(urls: &[(&str, u32)]) -> Routes {
        let target = |text: &str| HttpUrl::parse(text).unwrap();
        let targets = urls.iter().map(|&(url, weight)| WeightedTarget::new(target(url), weight)).collect();
        Routes::find(&Plan { targets, ..Plan::new(target("http://127.0.0.1:1/")) }).unwrap()
    }

    #[test]
    fn urls_share_hosts_and_hosts_share_addresses() {
        let routes = routes(&[
            ("http://127.0.0.1:81/a", 1),
            ("http://127.0.0.1:81/b", 1),
            ("http://127.0.0.2:81/", 1),
            ("http://[::ffff:127.0.0.1]:81/", 1),
        ]);
        let hosts: Vec<u32> = (0..4).map(|url| routes.route(url).host).collect();
        assert_eq!((hosts, routes.hosts(), routes.addresses().len()), (vec![0, 0, 1, 2], 3, 3));
        assert_eq!(routes.address(routes.route(2).address), "127.0.0.2:81".parse().unwrap());
    }

    #[test]
    fn unusable_local_addresses_are_refused() {
        let from = |source: &str| {
            let source = Some(source.parse().unwrap());
            Routes::find(&Plan { source, ..Plan::new(HttpUrl::parse("http://127.0.0.1:1/").unwrap()) })
        };
        assert!(from("127.0.0.0/8").is_ok());
        // A documentation address (RFC 5737) is assigned to no machine.
        let error = from("192.0.2.1").unwrap_err().to_string();
        assert!(error.contains("this machine does not have the address 192.0.2.1"), "{error}");
        assert!(from("::1").is_err());
    }

    #[test]
    fn first_address_that_accepts_a_connection_is_taken() {
        // Two IPv4 addresses, because a machine need not have IPv6. The attempt does not depend on
        // the family.
        let listeners = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| TcpListener::bind(address).unwrap());
        let [open, other] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        // The discard port (RFC 863) has no server on a test machine, with or without IPv6.
        let refused4: SocketAddr = "127.0.0.9:9".parse().unwrap();
        let refused6: SocketAddr = "[::1]:9".parse().unwrap();
        let first = |addresses: &[SocketAddr]| first_that_answers(addresses.to_vec(), None).unwrap();
        assert_eq!(first(&[refused6, refused4, open, other]), open, "IPv6 refused, IPv4 taken");
        assert_eq!(first(&[refused4, refused6, other]), other, "the last address accepts");
        assert_eq!(first(&[other, open]), other, "the resolver's order is kept");
        assert_eq!(first(&[refused6, refused4]), refused6, "all addresses refuse, so the first one is used");
        assert_eq!(first(&[refused4, refused4]), refused4);
        assert_eq!(first_that_answers(Vec::new(), None), None);
    }

    #[test]
    fn addresses_of_the_source_family_are_preferred() {
        let (of6, of4): (SocketAddr, SocketAddr) =
            ("[::1]:9".parse().unwrap(), "127.0.0.9:9".parse().unwrap());
        let first = |addresses: &[SocketAddr], source: &str| {
            first_that_answers(addresses.to_vec(), Some(source.parse().unwrap()))
        };
        assert_eq!(first(&[of6, of4], "127.0.0.0/8"), Some(of4));
        assert_eq!(first(&[of4, of6], "::1"), Some(of6));
        assert_eq!(first(&[of6], "127.0.0.0/8"), Some(of6), "no address has the family of the source");
    }

    #[test]
    fn proxy_receives_the_requests_of_all_urls() {
        let mut plan = Plan::new(HttpUrl::parse("http://site.invalid/").unwrap());
        plan.proxy = Some(HttpUrl::parse("http://127.0.0.1:3128/").unwrap());
        assert_eq!(Routes::find(&plan).unwrap().addresses(), ["127.0.0.1:3128".parse().unwrap()]);
    }

    #[test]
    fn urls_are_chosen_in_proportion_to_their_weights() {
        let routes =
            routes(&[("http://127.0.0.1/a", 1), ("http://127.0.0.1/b", 3), ("http://127.0.0.1/c", 6)]);
        let mut random = stats::Random::from_seed(1);
        let mut counts = [0; 3];
        (0..10_000).for_each(|_| counts[routes.choose(random.next_u64()) as usize] += 1);
        assert!((900..1_100).contains(&counts[0]) && (2_850..3_150).contains(&counts[1]), "{counts:?}");
        assert_eq!((routes.choose(0), routes.choose(u64::MAX)), (0, 2));
    }
}
