//! Which settings a running edge can change.
//!
//! Invariant: a setting that cannot change while the edge runs is named, never ignored.

use super::{EdgeLimits, EdgePlan, ListenerPlan, RouteAction, RoutePlan, SitePlan, TlsPlan, TracePlan};
use address::Address;

/// The limits that parts of the edge take at their start.
macro_rules! fixed_limits {
    ($($field:ident),+ $(,)?) => {
        /// The fixed limits that differ.
        fn changed_limits(old: &EdgeLimits, new: &EdgeLimits) -> Vec<&'static str> {
            let mut changed = Vec::new();
            $(if old.$field != new.$field {
                changed.push(concat!("limits.", stringify!($field)));
            })+
            changed
        }
    };
}

fixed_limits!(
    request_buffer_bytes_max,
    response_buffer_bytes_max,
    buffer_memory_percent,
    failure_pause,
    hit_for_miss,
    hit_for_miss_entries_max,
    leak_guard_every,
    object_bytes_max,
    disk_fill_percent,
    disk_timeout,
    disk_verify_rate,
    access_log_lines_max,
    admin_connections_max,
);

impl EdgePlan {
    /// The settings that differ from those of `new` and that a running edge cannot change. Their
    /// change needs a restart.
    pub fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        let differs = [
            ("listen", !has_same_sockets(&self.listeners, &new.listeners)),
            ("tls", !has_same_tls(&self.listeners, &new.listeners)),
            ("admin", !is_same_address(&self.admin, &new.admin)),
            ("admin_certificate", self.admin_tls.is_some() != new.admin_tls.is_some()),
            ("workers", self.workers != new.workers),
            ("memory", self.memory_bytes != new.memory_bytes),
            ("disk", self.disk != new.disk),
            // The values of each minute and the certificates are in it.
            ("state_directory", self.state_directory != new.state_directory),
            ("access_log", self.access_log != new.access_log),
            ("trace_export", !has_same_traces(self.traces.as_ref(), new.traces.as_ref())),
            ("log_level", self.log_level != new.log_level),
            ("spool_directory", self.spool != new.spool),
            ("refill.pages_max", self.refill.pages_max != new.refill.pages_max),
            ("static_tree.directory", self.static_tree != new.static_tree),
            // A web server would go on serving files of pages that a new route answers. A start
            // empties the tree.
            ("site.route", self.static_tree.is_some() && !has_same_routes(&self.routes, &new.routes)),
        ];
        let named = differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key);
        named.chain(changed_limits(&self.limits, &new.limits)).collect()
    }
}

impl SitePlan {
    /// Whether every setting is the same.
    pub fn is_same(&self, other: &Self) -> bool {
        Self { id: other.id, ..self.clone() } == *other
    }
}

impl ListenerPlan {
    /// Whether connections are secured in the same way.
    pub fn has_same_tls(&self, other: &Self) -> bool {
        // Destructured in full, so that a new setting cannot be forgotten.
        let of = |listener: &Self| {
            let tls = listener.tls.as_ref().map(|tls| {
                let TlsPlan { certificates, acme_names, is_internal, is_at_least_1_3, place: _ } = tls;
                (certificates.clone(), acme_names.clone(), *is_internal, *is_at_least_1_3)
            });
            (tls, listener.http2)
        };
        of(self) == of(other)
    }
}

/// Whether spans go to the same collector, or nowhere.
fn has_same_traces(old: Option<&TracePlan>, new: Option<&TracePlan>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.is_same_destination(new),
        (old, new) => old.is_none() && new.is_none(),
    }
}

fn has_same_sockets(old: &[ListenerPlan], new: &[ListenerPlan]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|(old, new)| is_same_address(&old.address, &new.address))
}

/// Whether the same requests get pages, and the others the same answers.
fn has_same_routes(old: &[RoutePlan], new: &[RoutePlan]) -> bool {
    let answers = |route: &RoutePlan| match &route.action {
        // The numbers of sites follow from their order in the file.
        RouteAction::Pages(_) => None,
        other => Some(other.clone()),
    };
    let is_same = |(old, new): (&RoutePlan, &RoutePlan)| {
        (&old.names, &old.matcher, &old.maintenance) == (&new.names, &new.matcher, &new.maintenance)
            && answers(old) == answers(new)
    };
    // A site that only changes fields answers as one without a route does.
    let is_answer = |route: &&RoutePlan| {
        let is_plain = route.matcher.is_everything() && route.maintenance.is_none();
        !is_plain || answers(route).is_some()
    };
    let old: Vec<_> = old.iter().filter(is_answer).collect();
    let new: Vec<_> = new.iter().filter(is_answer).collect();
    old.len() == new.len() && old.into_iter().zip(new).all(is_same)
}

/// Whether the same listeners have TLS, if they are the same.
fn has_same_tls(old: &[ListenerPlan], new: &[ListenerPlan]) -> bool {
    old.iter().zip(new).all(|(old, new)| old.tls.is_some() == new.tls.is_some())
}

/// Whether a bound address is the one that a plan states. With port 0 the system has chosen the
/// port.
fn is_same_address(bound: &Address, stated: &Address) -> bool {
    match (bound, stated) {
        (Address::Ip(bound), Address::Ip(stated)) => {
            // Every address of the machine may be of either family, as the machine permits.
            let is_everywhere = bound.ip().is_unspecified() && stated.ip().is_unspecified();
            (bound.ip() == stated.ip() || is_everywhere)
                && (stated.port() == 0 || bound.port() == stated.port())
        }
        // The name was resolved when the address was bound.
        (Address::Ip(bound), Address::Host { port, .. }) => *port == 0 || bound.port() == *port,
        _ => bound == stated,
    }
}

#[cfg(test)]
mod tests {
    use super::EdgePlan;

    fn plan() -> EdgePlan {
        EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap())
    }

    #[test]
    fn fixed_settings_are_named_and_others_may_change() {
        let mut new = plan();
        new.sites[0].hsts_secs = Some(5);
        new.limits.idle_timeout *= 2;
        new.purge_partial_status = 202;
        new.limits.client_traces_max = 7;
        assert!(plan().fixed_changes(&new).is_empty());
        new.workers += 1;
        new.memory_bytes += 1;
        new.limits.hit_for_miss *= 2;
        new.listeners[0].address = "127.0.0.1:81".parse().unwrap();
        assert_eq!(plan().fixed_changes(&new), ["listen", "workers", "memory", "limits.hit_for_miss"]);
    }

    #[test]
    fn chosen_port_is_the_stated_one() {
        let (mut bound, mut stated) = (plan(), plan());
        bound.listeners[0].address = "127.0.0.1:4711".parse().unwrap();
        stated.listeners[0].address = "127.0.0.1:0".parse().unwrap();
        assert!(bound.fixed_changes(&stated).is_empty());
        stated.listeners[0].address = "0.0.0.0:0".parse().unwrap();
        assert_eq!(bound.fixed_changes(&stated), ["listen"]);
        bound.listeners[0].address = "0.0.0.0:443".parse().unwrap();
        stated.listeners[0].address = ":443".parse().unwrap();
        assert!(bound.fixed_changes(&stated).is_empty());
    }

    #[test]
    fn same_site_may_have_another_number() {
        let (old, mut new) = (plan().sites.remove(0), plan().sites.remove(0));
        new.id = 7;
        assert!(old.is_same(&new));
        new.error_page = Some("x".into());
        assert!(!old.is_same(&new));
    }
}
