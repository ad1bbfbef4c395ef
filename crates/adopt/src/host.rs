//! The virtual hosts of a web server, in the terms that nginx and Apache share, and the fate of
//! each when all of them move behind one loopback address.
//!
//! Invariant: no two hosts that stay answer for one name, because only the name tells them apart at
//! the loopback address. A configuration with such hosts is refused.

use crate::source::{Position, Refusal, Sources};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// An address where visitors connect to the web server today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Public {
    pub(crate) ip: Ip,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// The addresses of the machine that a listener covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ip {
    /// All of IPv4.
    V4,
    /// All of IPv6.
    V6,
    /// Both.
    All,
    /// One address.
    One(IpAddr),
}

/// A virtual host.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) position: Position,
    pub(crate) publics: Vec<Public>,
    /// Lower-case names, exact or `*.NAME`. Empty for all names.
    pub(crate) names: BTreeSet<String>,
    /// Whether it also answers to names that no host has.
    pub(crate) any_name: bool,
    /// Files with certificate and key.
    pub(crate) certificates: Vec<(String, String)>,
    /// It does nothing but send visitors to https and their own host.
    pub(crate) redirects: bool,
    pub(crate) root: Option<String>,
    /// Its directives apart from names, addresses, TLS and logs.
    pub(crate) content: Vec<String>,
}

impl Host {
    fn has_tls(&self) -> bool {
        self.publics.iter().any(|public| public.tls)
    }

    fn has_plain(&self) -> bool {
        self.publics.iter().any(|public| !public.tls)
    }

    fn covers(&self, other: &Self) -> bool {
        self.any_name && other.any_name || !other.any_name && other.names.is_subset(&self.names)
    }

    /// The host as operators call it.
    pub(crate) fn title(&self) -> String {
        self.names.first().cloned().unwrap_or_else(|| "the site for all names".to_owned())
    }
}

/// The fate of a host after the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It moves to the loopback address.
    Moves,
    /// It moves, and itself redirects requests that arrived without TLS.
    MovesWithRedirect,
    /// Petasos sends its redirects, or another host has the same contents.
    Goes,
}

/// A listener of Petasos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// The outcome for all hosts.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// One for each host.
    pub(crate) fates: Vec<Fate>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) redirect_to_https: bool,
    pub(crate) notes: Vec<(Option<Position>, String)>,
}

/// Decides for all hosts.
pub(crate) fn decide(hosts: &[Host], sources: &Sources) -> Result<Decision, Refusal> {
    let mut notes = Vec::new();
    let mut fates = vec![Fate::Moves; hosts.len()];
    let mut redirected = Vec::new();
    for (host, fate) in hosts.iter().zip(&mut fates) {
        if host.has_tls() || !host.has_plain() {
            continue;
        }
        let over_tls: Vec<&Host> = hosts.iter().filter(|other| other.has_tls()).collect();
        if host.redirects {
            let is_covered = if host.any_name {
                !over_tls.is_empty()
            } else {
                host.names
                    .iter()
                    .all(|name| over_tls.iter().any(|other| other.any_name || other.names.contains(name)))
            };
            if is_covered {
                *fate = Fate::Goes;
                redirected.push(host);
            }
            continue;
        }
        let twin = over_tls.iter().find(|other| !other.has_plain() && other.covers(host));
        if let Some(twin) = twin {
            if twin.content != host.content {
                let problem = format!(
                    "{} has other settings here, without TLS, than at {}",
                    host.title(),
                    sources.place(twin.position)
                );
                let fix = "give both the same settings, or let the one without TLS redirect to https: at one \
                           loopback address, the web server cannot tell them apart";
                return Err(sources.refusal(host.position, problem, fix));
            }
            *fate = Fate::Goes;
            let note = "has the same settings as the host with TLS, which now answers with and without TLS"
                .to_owned();
            notes.push((Some(host.position), note));
        }
    }
    refuse_shared_names(hosts, &fates, sources)?;
    let serves_plain = hosts.iter().zip(&fates).any(|(host, fate)| *fate != Fate::Goes && host.has_plain())
        || hosts.iter().zip(&fates).any(|(host, fate)| *fate == Fate::Goes && !host.redirects);
    let redirect_to_https = !redirected.is_empty() && !serves_plain;
    if !redirected.is_empty() && serves_plain {
        for (host, fate) in hosts.iter().zip(&mut fates) {
            let is_redirected =
                redirected.iter().any(|from| from.any_name || !from.names.is_disjoint(&host.names));
            if host.has_tls() && !host.has_plain() && is_redirected {
                *fate = Fate::MovesWithRedirect;
            }
        }
    }
    let listeners = listeners(hosts, sources, &mut notes)?;
    Ok(Decision { fates, listeners, redirect_to_https, notes })
}

fn refuse_shared_names(hosts: &[Host], fates: &[Fate], sources: &Sources) -> Result<(), Refusal> {
    let mut owners: BTreeMap<&str, &Host> = BTreeMap::new();
    for (host, fate) in hosts.iter().zip(fates) {
        if *fate == Fate::Goes {
            continue;
        }
        let names = host.names.iter().map(String::as_str).chain(host.any_name.then_some(""));
        for name in names {
            if let Some(first) = owners.insert(name, host) {
                let name = if name.is_empty() { "every other name" } else { name };
                let problem =
                    format!("{name} is also served by the host at {}", sources.place(first.position));
                let fix = "give each name to one host: at one loopback address, the web server cannot tell \
                           them apart by port or address";
                return Err(sources.refusal(host.position, problem, fix));
            }
        }
    }
    Ok(())
}

/// The listeners that take over all public addresses.
fn listeners(
    hosts: &[Host],
    sources: &Sources,
    notes: &mut Vec<(Option<Position>, String)>,
) -> Result<Vec<Listener>, Refusal> {
    let mut ports: BTreeMap<u16, (bool, BTreeSet<Ip>)> = BTreeMap::new();
    for host in hosts {
        for public in &host.publics {
            let (tls, addresses) = ports.entry(public.port).or_insert((public.tls, BTreeSet::new()));
            if *tls != public.tls {
                let problem = format!("port {} is used with TLS here and without it elsewhere", public.port);
                return Err(sources.refusal(host.position, problem, "use two ports"));
            }
            addresses.insert(public.ip);
        }
    }
    let mut listeners = Vec::new();
    for (port, (tls, addresses)) in ports {
        let v4 = addresses.contains(&Ip::V4) || addresses.contains(&Ip::All);
        let v6 = addresses.contains(&Ip::V6) || addresses.contains(&Ip::All);
        let mut listen = |address: String| listeners.push(Listener { address, port, tls });
        match (v4, v6) {
            (true, true) => listen(format!(":{port}")),
            (true, false) => listen(format!("0.0.0.0:{port}")),
            (false, true) => listen(format!("[::]:{port}")),
            (false, false) => {}
        }
        for ip in &addresses {
            let Ip::One(ip) = ip else { continue };
            let is_covered = if ip.is_ipv4() { v4 } else { v6 };
            if is_covered {
                notes.push((None, format!("{ip} has no listener of its own, because another one has all addresses of port {port}")));
            } else if ip.is_ipv4() {
                listen(format!("{ip}:{port}"));
            } else {
                listen(format!("[{ip}]:{port}"));
            }
        }
    }
    Ok(listeners)
}

/// Checks a name of a host. Returns its form for Petasos.
///
/// # Errors
/// The problem and its fix.
pub(crate) fn checked_name(name: &str) -> Result<Vec<String>, (String, String)> {
    let name = name.to_ascii_lowercase();
    let fault = |problem: &str, fix: &str| Err((format!("the name `{name}` {problem}"), fix.to_owned()));
    if name.starts_with('~') {
        return fault(
            "is a regular expression",
            "list the names, or use `*.example.org`, as Petasos needs them",
        );
    }
    if name.contains('$') {
        return fault("is a variable", "write the name itself");
    }
    let (both, rest) = match name.strip_prefix('.') {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix("*.").unwrap_or(&name)),
    };
    if rest.contains(['*', '?']) {
        return fault("has a wildcard at another place than its beginning", "list the names");
    }
    let is_good = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    if rest.is_empty() || !rest.chars().all(is_good) {
        return fault("is no host name", "write it in ASCII, with `xn--` for other letters");
    }
    Ok(if both { vec![rest.to_owned(), format!("*.{rest}")] } else { vec![name.clone()] })
}

/// Whether this is an IP address, or one with the length of a prefix.
pub(crate) fn is_address(text: &str) -> bool {
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    let bits = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= bits)
}

#[cfg(test)]
mod tests {
    use super::{checked_name, is_address};

    #[test]
    fn addresses_may_have_a_prefix() {
        assert!(["192.0.2.1", "10.0.0.0/8", "::1", "2001:db8::/32"].into_iter().all(is_address));
        assert!(!["proxy.example", "10.0.0.0/33", "10.0.0.0/", "", "@FILE"].into_iter().any(is_address));
    }

    #[test]
    fn names_are_mapped_or_refused() {
        assert_eq!(checked_name("WWW.Example.org"), Ok(vec!["www.example.org".to_owned()]));
        assert_eq!(checked_name(".a.b"), Ok(vec!["a.b".to_owned(), "*.a.b".to_owned()]));
        assert_eq!(checked_name("*.a.b"), Ok(vec!["*.a.b".to_owned()]));
        for name in ["~^www", "www.*", "a$b", "bücher.example", "a b", "*", "."] {
            assert!(checked_name(name).is_err(), "{name}");
        }
    }
}
