//! Lets a request pass whose `Host` has a port beyond those for which pages are stored.
//!
//! Invariant: only a request that needs a fetch uses up one of the site's foreign ports. The ports
//! themselves are counted in `memory`.

use crate::control::counters::Metric;
use crate::memory::foreign_ports::{ForeignPort, is_own_port};
use crate::request::lookup::PageRequest;
use crate::request::visit::Visit;
use crate::shared::Shared;
use clock::Monotonic;
use message::Fields;

/// The field in which proxies write the port that their client connected to.
pub(crate) const X_FORWARDED_PORT: &str = "X-Forwarded-Port";

/// Whether a request would pass because of the port in its `Host`. For `why`: admits no port
/// and counts nothing.
pub(crate) fn is_beyond_foreign_ports(
    shared: &Shared,
    page_request: &PageRequest<'_>,
    fields: &Fields,
    now: Monotonic,
) -> bool {
    let ports = &page_request.subject.site.foreign_ports;
    let foreign = foreign_port(shared, page_request, fields);
    foreign.is_some_and(|port| !ports.is_admitted(port, shared.limits.foreign_ports_max, now))
}

fn foreign_port(shared: &Shared, page_request: &PageRequest<'_>, fields: &Fields) -> Option<ForeignPort> {
    let (_, Some(port)) = h1::split_port(page_request.key.host()) else { return None };
    let claim = fields.list(X_FORWARDED_PORT).last().filter(|_| page_request.subject.trusted);
    let is_own =
        claim == Some(port) || is_own_port(&shared.plan, &page_request.subject.site.plan, &page_request.key);
    let number = || std::str::from_utf8(port).ok()?.parse::<u16>().ok();
    (!is_own).then(|| number().filter(|number| number.to_string().as_bytes() == port))
}

impl<'a> Visit<'a> {
    /// Whether a request that needs a fetch must pass because of the port in its `Host`.
    pub(crate) fn is_beyond_foreign_ports(&self, page_request: &PageRequest<'a>) -> bool {
        let Some(port) = foreign_port(self.shared, page_request, &self.request.head.fields) else {
            return false;
        };
        let (site, ports_max) = (page_request.subject.site, self.shared.limits.foreign_ports_max);
        let passes = !site.foreign_ports.admit(port, ports_max, self.begun.monotonic);
        if passes {
            self.cells().count(Metric::ForeignPorts);
        }
        passes
    }
}
