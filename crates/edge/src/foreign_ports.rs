//! Ports in `Host` that are no port of the site, and for how many of them pages are fetched into the store.
//!
//! The key of a page is its whole URL (RFC 9111 section 2), and the application makes its links from `Host`, so the
//! port cannot be left out of the key. But a client can name any port, and each would have a copy of every page. A port
//! is the site's own if it is the default of the scheme, that of `listen`, that of the site's `host`, one of its
//! `ports`, or the one that a trusted proxy names. Where a port is mapped, as in front of a container, visitors use
//! another one, so the first few foreign ports are admitted too.
//!
//! Invariant: within any [`IDLE`] time, pages of at most `limits.foreign_ports_max` foreign ports of a site are fetched
//! to be stored; a request for any other port passes. An own port needs no place, so no foreign port takes it away.

use crate::counters::Metric;
use crate::lookup::Wanted;
use crate::pipeline::Visit;
use crate::shared::Shared;
use crate::sites::Site;
use crate::sync::{Mutex, PoisonError};
use message::Fields;
use platform::Monotonic;
use std::time::Duration;
use store::Key;

/// A port for which nothing was fetched for this long gives its place up.
const IDLE: Duration = Duration::from_secs(3600);

/// Where proxies write the port that their client connected to.
const X_FORWARDED_PORT: &str = "X-Forwarded-Port";

/// The foreign ports of a site for which pages are fetched.
#[derive(Debug, Default)]
pub(crate) struct ForeignPorts {
    admitted: Mutex<Vec<Admitted>>,
}

#[derive(Debug)]
struct Admitted {
    port: u16,
    used: Monotonic,
}

/// A port that is not the site's own; `None` where the digits are not in their usual form, which no client sends that
/// was given the port by somebody.
type Foreign = Option<u16>;

impl ForeignPorts {
    /// Whether pages of the port may be stored. A port that has a place keeps it, also if all its pages are hits.
    fn is_admitted(&self, port: Foreign, ports_max: usize, now: Monotonic) -> bool {
        let Some(port) = port else { return false };
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        admitted.retain(|other| now.since(other.used) < IDLE);
        let known = admitted.iter_mut().find(|other| other.port == port).map(|other| other.used = now);
        known.is_some() || admitted.len() < ports_max
    }

    /// Whether a page of the port may be fetched to be stored, which is taken down.
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
    /// Whether the host of a page has no port, that of `listen`, one that the site lists, or that of its public name.
    pub(crate) fn is_own_port(&self, site: &Site, key: &Key) -> bool {
        let (_, Some(port)) = h1::split_port(key.host()) else { return true };
        let public = site.plan.public_host.as_deref().and_then(|host| h1::split_port(host.as_bytes()).1);
        let mut own = site.plan.ports.iter().copied().chain(self.plan.listen.port());
        public == Some(port) || own.any(|own| own.to_string().as_bytes() == port)
    }

    /// Whether a request passes because of the port in its `Host`, if it would be fetched; nothing is taken down.
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
    /// Whether a request that would be fetched passes because of the port in its `Host`.
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
    use platform::Monotonic;

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn port_keeps_its_place_while_it_is_used() {
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
