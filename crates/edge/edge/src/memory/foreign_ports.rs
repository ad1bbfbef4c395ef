//! Limits the foreign ports in `Host` for which pages are stored: ports that do not belong to the
//! site.
//!
//! The key of a page is its whole URL (RFC 9111 section 2). The port must be in the key, because
//! origins write links from `Host`. But a client can send any port, and each one would get its own
//! copy of every page. The site's own ports are the scheme's default, those of `listen` and of the
//! site's `host`, its `ports`, and one named by a trusted proxy. Behind a port mapping, for example
//! of a container, visitors use another port; therefore a few foreign ports are admitted too.
//!
//! Invariants: within any period of [`IDLE`], pages of at most `limits.foreign_ports_max` foreign
//! ports per site are fetched to be stored. A request for any other port passes. The site's own
//! ports do not count, so foreign ports cannot displace them.

use crate::memory::sync::{Mutex, PoisonError};
use clock::Monotonic;
use config::EdgePlan;
use std::time::Duration;
use store::Key;

/// A foreign port for which nothing was fetched for this long is no longer admitted.
const IDLE: Duration = Duration::from_secs(3600);

/// The admitted foreign ports of a site.
#[derive(Debug, Default)]
pub(crate) struct ForeignPorts {
    admitted: Mutex<Vec<AdmittedPort>>,
}

#[derive(Debug)]
struct AdmittedPort {
    port: u16,
    used: Monotonic,
}

/// A foreign port. `None` if its digits are not in canonical form, which no ordinary client sends.
pub(crate) type ForeignPort = Option<u16>;

impl ForeignPorts {
    /// Whether pages of the port may be stored. Restarts the idle time of an admitted port.
    pub(crate) fn is_admitted(&self, port: ForeignPort, ports_max: usize, now: Monotonic) -> bool {
        let Some(port) = port else { return false };
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        admitted.retain(|other| now.since(other.used) < IDLE);
        let known = admitted.iter_mut().find(|other| other.port == port).map(|other| other.used = now);
        known.is_some() || admitted.len() < ports_max
    }

    /// Admits the port if there is room; returns whether its pages may be fetched to be stored.
    pub(crate) fn admit(&self, port: ForeignPort, ports_max: usize, now: Monotonic) -> bool {
        let Some(port) = port else { return false };
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        admitted.retain(|other| now.since(other.used) < IDLE);
        if let Some(known) = admitted.iter_mut().find(|other| other.port == port) {
            known.used = now;
            return true;
        }
        let is_room = admitted.len() < ports_max;
        if is_room {
            admitted.push(AdmittedPort { port, used: now });
        }
        is_room
    }
}

/// Whether the page's host has no port, the port of a listener, one of the site's `ports`, or
/// that of its public name.
pub(crate) fn is_own_port(plan: &EdgePlan, site: &config::SitePlan, key: &Key) -> bool {
    let (_, Some(port)) = h1::split_port(key.host()) else { return true };
    let public = site.public_host.as_deref().and_then(|host| h1::split_port(host.as_bytes()).1);
    let mut own = site
        .ports
        .iter()
        .copied()
        .chain(plan.listeners.iter().filter_map(|listener| listener.address.port()));
    public == Some(port) || own.any(|own| own.to_string().as_bytes() == port)
}

#[cfg(test)]
mod tests {
    use super::ForeignPorts;
    use clock::Monotonic;

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn port_stays_admitted_while_it_is_used() {
        let ports = ForeignPorts::default();
        assert!(ports.is_admitted(Some(1), 2, at(0)), "there is room");
        assert!(ports.admit(Some(1), 2, at(0)) && ports.admit(Some(2), 2, at(1)));
        assert!(!ports.admit(Some(3), 2, at(2)) && !ports.is_admitted(Some(3), 2, at(2)));
        assert!(ports.is_admitted(Some(1), 2, at(3000)), "all its pages are hits");
        assert!(ports.admit(Some(3), 2, at(3601)), "2 is idle");
        assert!(!ports.admit(Some(2), 2, at(3601)) && ports.admit(Some(1), 2, at(3601)));
    }

    #[test]
    fn unusual_digits_and_a_limit_of_zero_admit_nothing() {
        let ports = ForeignPorts::default();
        assert!(!ports.admit(None, 4, at(0)) && !ports.is_admitted(None, 4, at(0)));
        assert!(!ports.admit(Some(8080), 0, at(0)) && !ports.is_admitted(Some(8080), 0, at(0)));
    }
}
