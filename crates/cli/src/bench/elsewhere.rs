//! Targets that are not on this machine. The user must consent before one is loaded, and the load
//! is then careful.
//!
//! Invariant: an address belongs to this machine only if a socket can be bound to it. Nothing is
//! sent to the target here.

use address::HttpUrl;
use anyhow::bail;
use load::Plan;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};

/// The hosts of a plan that are not on this machine, each once. With a proxy, only the proxy
/// counts. Names are resolved; a name without an address is skipped, because the run reports it.
pub(crate) fn hosts_elsewhere(plan: &Plan) -> Vec<String> {
    let proxy = plan.proxy.as_ref();
    let mut hosts: Vec<(String, u16)> = Vec::new();
    let connected: Vec<_> = match proxy {
        Some(proxy) => vec![proxy],
        None => targets(plan).collect(),
    };
    for target in connected {
        let host = (target.host(), target.port());
        if hosts.contains(&host) {
            continue;
        }
        let mut addresses = host.to_socket_addrs().into_iter().flatten();
        if addresses.any(|address| !is_here(address.ip())) {
            hosts.push(host);
        }
    }
    hosts.into_iter().map(|(host, port)| format!("{host}:{port}")).collect()
}

/// The URLs of a plan that requests are for.
pub(crate) fn targets(plan: &Plan) -> impl Iterator<Item = &HttpUrl> {
    let named = plan.targets.is_empty().then_some(&plan.target);
    plan.targets.iter().map(|of| &of.target).chain(named)
}

/// Whether a target is on the loopback interface. Also true for a name without an address, which
/// the run reports.
pub(crate) fn is_loopback(target: &HttpUrl) -> bool {
    let addresses = (target.host().as_str(), target.port()).to_socket_addrs();
    let addresses: Vec<_> = addresses.map(Iterator::collect).unwrap_or_default();
    addresses.is_empty() || addresses.iter().any(|address| address.ip().is_loopback())
}

/// Asks on the terminal whether these hosts may be loaded.
///
/// # Errors
/// If the answer is not yes, or there is no terminal to ask on. Scripts use `--yes`.
pub(crate) fn ask(hosts: &[String]) -> anyhow::Result<()> {
    let (are, them) = if hosts.len() == 1 { ("is", "it") } else { ("are", "them") };
    let are_elsewhere = format!("{} {are} not on this machine", hosts.join(", "));
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("not loaded: {are_elsewhere}, and there is no terminal to ask on; give --yes to load {them}");
    }
    let mut stderr = io::stderr();
    write!(stderr, "{are_elsewhere}. Load {them}? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("not loaded; --yes answers this question"),
    }
}

fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::hosts_elsewhere;
    use address::HttpUrl;
    use load::{Plan, WeightedTarget};

    fn target(url: &str) -> HttpUrl {
        HttpUrl::parse(url).unwrap()
    }

    #[test]
    fn only_hosts_on_other_machines_are_listed() {
        assert!(hosts_elsewhere(&Plan::new(target("http://127.3.2.1:81/"))).is_empty());
        // An address for documentation (RFC 5737), which no machine has.
        assert_eq!(hosts_elsewhere(&Plan::new(target("http://192.0.2.1/"))), ["192.0.2.1:80"]);
        let behind = |proxy| {
            let proxy = Some(target(proxy));
            hosts_elsewhere(&Plan { proxy, ..Plan::new(target("http://192.0.2.1/")) })
        };
        assert_eq!(behind("http://192.0.2.7:3128/"), ["192.0.2.7:3128"]);
        assert!(behind("http://127.0.0.1:3128/").is_empty());
        let urls = ["http://192.0.2.1:8080/a", "http://[::1]/", "http://192.0.2.1:8080/b"];
        let targets = urls.map(|url| WeightedTarget::new(target(url), 1)).to_vec();
        let plan = Plan { targets, ..Plan::new(target("http://192.0.2.9/")) };
        assert_eq!(hosts_elsewhere(&plan), ["192.0.2.1:8080"]);
    }
}
