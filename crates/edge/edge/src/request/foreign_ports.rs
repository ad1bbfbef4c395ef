//! Lets a request pass whose `Host` has a port beyond those for which pages are stored.
//!
//! Invariant: only a request that needs a fetch uses up one of the site's foreign ports. The ports
//! themselves are counted in `memory`.

use crate::control::counters::Metric;
use crate::memory::foreign_ports::{Foreign, is_own_port};
use crate::request::lookup::Wanted;
use crate::request::visit::Visit;
use crate::shared::Shared;
use clock::Monotonic;
use message::Fields;

/// The field in which proxies write the port that their client connected to.
const X_FORWARDED_PORT: &str = "X-Forwarded-Port";

/// Whether a request would pass because of the port in its `Host`. For `why`: admits no port
/// and counts nothing.
pub(crate) fn is_beyond_foreign_ports(
    shared: &Shared,
    wanted: &Wanted<'_>,
    fields: &Fields,
    now: Monotonic,
) -> bool {
    let ports = &wanted.subject.site.foreign_ports;
    let foreign = foreign_port(shared, wanted, fields);
    foreign.is_some_and(|port| !ports.is_admitted(port, shared.limits.foreign_ports_max, now))
}

fn foreign_port(shared: &Shared, wanted: &Wanted<'_>, fields: &Fields) -> Option<Foreign> {
    let (_, Some(port)) = h1::split_port(wanted.key.host()) else { return None };
    let claim = fields.list(X_FORWARDED_PORT).last().filter(|_| wanted.subject.trusted);
    let is_own = claim == Some(port) || is_own_port(&shared.plan, &wanted.subject.site.plan, &wanted.key);
    let number = || std::str::from_utf8(port).ok()?.parse::<u16>().ok();
    (!is_own).then(|| number().filter(|number| number.to_string().as_bytes() == port))
}

impl<'a> Visit<'a> {
    /// Whether a request that needs a fetch must pass because of the port in its `Host`.
    pub(crate) fn is_beyond_foreign_ports(&self, wanted: &Wanted<'a>) -> bool {
        let Some(port) = foreign_port(self.shared, wanted, &self.request.head.fields) else { return false };
        let (site, ports_max) = (wanted.subject.site, self.shared.limits.foreign_ports_max);
        let passes = !site.foreign_ports.admit(port, ports_max, self.begun.monotonic);
        if passes {
            self.cells().count(Metric::ForeignPorts);
        }
        passes
    }
}
