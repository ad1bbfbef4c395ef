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

use crate::control::counters::Metric;
use crate::memory::sync::{Mutex, PoisonError};
use crate::request::lookup::Wanted;
use crate::request::pipeline::Visit;
use crate::shared::Shared;
use crate::sites::Site;
use clock::Monotonic;
use message::Fields;
use std::time::Duration;
use store::Key;

/// A foreign port for which nothing was fetched for this long is no longer admitted.
const IDLE: Duration = Duration::from_secs(3600);

/// The field in which proxies write the port that their client connected to.
const X_FORWARDED_PORT: &str = "X-Forwarded-Port";

/// The admitted foreign ports of a site.
#[derive(Debug, Default)]
pub(crate) struct ForeignPorts {
    admitted: Mutex<Vec<Admitted>>,
}

#[derive(Debug)]
struct Admitted {
    port: u16,
    used: Monotonic,
}

/// A foreign port. `None` if its digits are not in canonical form, which no ordinary client sends.
type Foreign = Option<u16>;

impl ForeignPorts {
    /// Whether pages of the port may be stored. Restarts the idle time of an admitted port.
    fn is_admitted(&self, port: Foreign, ports_max: usize, now: Monotonic) -> bool {
        let Some(port) = port else { return false };
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        admitted.retain(|other| now.since(other.used) < IDLE);
        let known = admitted.iter_mut().find(|other| other.port == port).map(|other| other.used = now);
        known.is_some() || admitted.len() < ports_max
    }

    /// Admits the port if there is room; returns whether its pages may be fetched to be stored.
    fn admit(&self, port: Foreign, ports_max: usize, now: Monotonic) -> bool {
        let Some(port) = port else { return false };
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        admitted.retain(|other| now.since(other.used) < IDLE);
        if let Some(known) = admitted.iter_mut().find(|other| other.port == port) {
            known.used = now;
            return true;
        }
        let is_room = admitted.len() < ports_max;
        if is_room {
            admitted.push(Admitted { port, used: now });
        }
        is_room
    }
}

impl Shared {
    /// Whether the page's host has no port, the port of `listen`, one of the site's `ports`, or
    /// that of its public name.
    pub(crate) fn is_own_port(&self, site: &Site, key: &Key) -> bool {
        let (_, Some(port)) = h1::split_port(key.host()) else { return true };
        let public = site.plan.public_host.as_deref().and_then(|host| h1::split_port(host.as_bytes()).1);
        let mut own = site.plan.ports.iter().copied().chain(self.plan.listen.port());
        public == Some(port) || own.any(|own| own.to_string().as_bytes() == port)
    }

    /// Whether a request would pass because of the port in its `Host`. For `why`: admits no port
    /// and counts nothing.
    pub(crate) fn is_beyond_foreign_ports(
        &self,
        wanted: &Wanted<'_>,
        fields: &Fields,
        now: Monotonic,
    ) -> bool {
        let ports = &wanted.subject.site.foreign_ports;
        let foreign = self.foreign_port(wanted, fields);
        foreign.is_some_and(|port| !ports.is_admitted(port, self.limits.foreign_ports_max, now))
    }

    fn foreign_port(&self, wanted: &Wanted<'_>, fields: &Fields) -> Option<Foreign> {
        let (_, Some(port)) = h1::split_port(wanted.key.host()) else { return None };
        let claim = fields.list(X_FORWARDED_PORT).last().filter(|_| wanted.subject.trusted);
        let is_own = claim == Some(port) || self.is_own_port(wanted.subject.site, &wanted.key);
        let number = || std::str::from_utf8(port).ok()?.parse::<u16>().ok();
        (!is_own).then(|| number().filter(|number| number.to_string().as_bytes() == port))
    }
}

impl<'a> Visit<'a> {
    /// Whether a request that needs a fetch must pass because of the port in its `Host`.
    pub(crate) fn is_beyond_foreign_ports(&self, wanted: &Wanted<'a>) -> bool {
        let Some(port) = self.shared.foreign_port(wanted, &self.request.head.fields) else { return false };
        let (site, ports_max) = (wanted.subject.site, self.shared.limits.foreign_ports_max);
        let passes = !site.foreign_ports.admit(port, ports_max, self.begun.monotonic);
        if passes {
            self.cells().count(Metric::ForeignPorts);
        }
        passes
    }
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
