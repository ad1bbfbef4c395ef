//! The reach of a purge: the affected sites, and the hosts under which their pages are stored.
//!
//! Clients may name a page by an alias of the site, a name without the visitors' port, or the
//! address of the cache. Keys contain the host as visitors sent it. Therefore the *site* is the
//! scope of a purge: naming a site covers all its names and ports. On the site that answers to any
//! name, each name is a separate scope with all its ports. A host that belongs to no site names the
//! cache itself, and its purge covers all sites. The same holds for IP addresses and for names
//! without a dot.
//!
//! Invariant: a purge covers every page that its client could have meant. It may cover more, but
//! never less.

use crate::shared::Shared;
use crate::sites::{Site, Sites};
use address::HttpUrl;
use bytes::Bytes;
use defects::{Defect, is_planted};
use message::{Fields, Method, RequestHead, Version};
use purge::{ConditionBan, HostPages};
use semantics::keyed_target;
use std::net::IpAddr;
use std::sync::Arc;
use store::{Key, Selector, SiteId};

/// Maximum number of hosts that are invalidated one by one. If a purge covers more hosts, one ban
/// replaces the single invalidations.
const HOSTS_MAX: usize = 64;

/// Maximum number of hosts for which a prefix is invalidated one by one. It is small, because each
/// host takes one place in the store's short list of invalidations.
const PREFIXES_MAX: usize = 4;

/// A site and the hosts of its pages that a purge covers.
pub(crate) struct SiteScope<'a> {
    pub(crate) site: &'a Arc<Site>,
    hosts: Hosts,
    /// The host as the client named it. No page needs to be stored under it: one may be in a fetch
    /// or in another edge's cache.
    named: Bytes,
}

/// The covered hosts of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    All,
    /// Hosts with this lower-case name and any port.
    Named(Bytes),
}

/// The scopes of a purge that names `host`: a name with or without a port, or nothing. Each route
/// of a site with pages of its own has a scope.
pub(crate) fn scopes<'a>(sites: &'a Sites, host: &Bytes) -> Vec<SiteScope<'a>> {
    let mut scopes = scopes_of(sites, host);
    if is_planted(Defect::PurgeSkipsRoutes) {
        scopes.retain(|scope| scope.site.plan.route.is_none());
    }
    scopes
}

fn scopes_of<'a>(sites: &'a Sites, host: &Bytes) -> Vec<SiteScope<'a>> {
    let name = name_of(host);
    let all = |site| SiteScope { site, hosts: Hosts::All, named: host.clone() };
    let under_name = |site| scope_under(site, &name, host);
    if let Some(sites) = sites.named(&name) {
        return sites.into_iter().map(under_name).collect();
    }
    let unnamed = sites.unnamed();
    // Operators name a site by its label, and so do clients that were written for CDNs.
    if unnamed.iter().any(|site| name == site.label()) {
        return unnamed.into_iter().map(all).collect();
    }
    if !unnamed.is_empty() && !is_of_a_machine(&name) {
        return unnamed.into_iter().map(under_name).collect();
    }
    sites.iter().map(all).collect()
}

/// The scope of a purge on a site under one of its names. A name that the site does not list in
/// full is a scope of its own, unless all pages are stored under the public name.
fn scope_under<'a>(site: &'a Arc<Site>, name: &Bytes, named: &Bytes) -> SiteScope<'a> {
    let is_separate = site.plan.has_open_names() && site.plan.public_host.is_none();
    let hosts = if is_separate { Hosts::Named(name.clone()) } else { Hosts::All };
    SiteScope { site, hosts, named: named.clone() }
}

/// The scopes of a purge that an origin orders for `key`; they never leave the key's site, but
/// cover all its routes.
pub(crate) fn own_scopes<'a>(sites: &'a Sites, key: &Key) -> Vec<SiteScope<'a>> {
    let named = Bytes::copy_from_slice(key.host());
    let name = name_of(&named);
    sites.of_host_of(key.site()).map(|site| scope_under(site, &name, &named)).collect()
}

/// The site whose pages a GET for `target` gets, if `host` is one of a site.
pub(crate) fn page_site<'a>(sites: &'a Sites, host: &Bytes, target: &Bytes) -> Option<&'a Arc<Site>> {
    let host = sites.host(Some(host))?;
    let head = RequestHead {
        method: Method::Get,
        target: target.clone(),
        version: Version::Http11,
        fields: Fields::new(),
    };
    match host.route(&head, target).ok()?.route {
        Some(route) => route.site.as_ref(),
        None => host.site(),
    }
}

/// The hosts under which pages of a site are stored or being fetched; `None` if there are more
/// than `hosts_max`.
fn hosts(shared: &Shared, site: SiteId, covered: &Hosts, hosts_max: usize) -> Option<Vec<Bytes>> {
    let is_meant = |host: &[u8]| match covered {
        Hosts::All => true,
        Hosts::Named(name) => name_of(host) == *name,
    };
    // Read the fetches before the store: a fetch that ends between the two reads has stored its
    // page by then.
    let mut known = shared.fetches.hosts(site, is_meant);
    known.extend(shared.store.hosts(site, is_meant, hosts_max)?);
    // A page that was evicted from the store may still have a file in the static tree.
    known.extend(shared.static_tree.hosts(site, is_meant));
    known.sort_unstable();
    known.dedup();
    (known.len() <= hosts_max).then_some(known)
}

impl SiteScope<'_> {
    /// The target in the site's cache keys for a target as a client names it.
    pub(crate) fn keyed(&self, target: &Bytes) -> Bytes {
        keyed_target(target, self.site.policy())
    }

    /// The ban for one page, whose target comes from [`SiteScope::keyed`]. If the hosts can be
    /// listed, they are returned as `Err`. The caller then invalidates the page under each of them.
    pub(crate) fn target(&self, shared: &Shared, target: &Bytes) -> Result<Selector, Vec<Bytes>> {
        match self.listed(shared, HOSTS_MAX) {
            Some(hosts) => Err(hosts),
            None => Ok(self.ban(HostPages::Target(target.clone()))),
        }
    }

    /// The hosts to invalidate one by one; `None` if there are too many, or not all are known yet.
    pub(crate) fn hosts(&self, shared: &Shared) -> Option<Vec<Bytes>> {
        self.listed(shared, HOSTS_MAX)
    }

    /// The keys under which a page is stored, for both schemes. If the hosts cannot be listed, only
    /// the keys of the named host.
    pub(crate) fn stored_keys(&self, shared: &Shared, target: &Bytes) -> Vec<Key> {
        let hosts = self.hosts(shared).unwrap_or_else(|| vec![self.named.clone()]);
        let key = |https, host: &Bytes| Key::new(self.site.id, https, host, target.clone());
        let both = hosts.iter().flat_map(|host| [key(false, host), key(true, host)]);
        both.filter(|key| shared.store.has(key)).collect()
    }

    /// The key that a page would have.
    pub(crate) fn own_key(&self, target: &Bytes) -> Key {
        let own = self.site.plan.public_host.as_ref().map_or(&self.named[..], |public| public.as_bytes());
        Key::new(self.site.id, self.site.plan.public_https, own, target.clone())
    }

    /// The selectors for all pages whose target starts with `prefix`.
    pub(crate) fn prefix(&self, shared: &Shared, prefix: &Bytes) -> Vec<Selector> {
        // Only a ban also matches other query strings that name the same page.
        let hosts = if prefix.contains(&b'?') { None } else { self.listed(shared, PREFIXES_MAX) };
        let Some(hosts) = hosts else { return vec![self.ban(HostPages::Prefix(prefix.clone()))] };
        let site = self.site.id;
        hosts.into_iter().map(|host| Selector::Prefix { site, host, prefix: prefix.clone() }).collect()
    }

    /// The ban that covers `pages` in this scope.
    pub(crate) fn ban(&self, pages: HostPages) -> Selector {
        let host = match &self.hosts {
            Hosts::All => &b""[..],
            Hosts::Named(name) => name,
        };
        Selector::Ban { site: self.site.id, ban: Arc::new(ConditionBan::of_pages(host, pages)) }
    }

    /// Whether the scope has all pages with which the cache is filled.
    pub(crate) fn is_filled_whole(&self) -> bool {
        let Hosts::Named(name) = &self.hosts else { return true };
        let url = self.site.plan.warm.as_ref().and_then(|warm| HttpUrl::parse(&warm.url).ok());
        url.is_some_and(|url| name_of(url.authority().as_bytes()) == *name)
    }

    /// The selectors for all pages in this scope.
    pub(crate) fn everything(&self, shared: &Shared) -> Vec<Selector> {
        let site = self.site.id;
        match (&self.hosts, self.listed(shared, HOSTS_MAX)) {
            (Hosts::All, _) => vec![Selector::Everything { site: Some(site) }],
            (Hosts::Named(_), Some(hosts)) => {
                hosts.into_iter().map(|host| Selector::Host { site, host }).collect()
            }
            (Hosts::Named(name), None) => {
                vec![Selector::Ban { site, ban: Arc::new(ConditionBan::of_host(name)) }]
            }
        }
    }

    /// The covered hosts. `None` if more than `hosts_max` of them are in use, or while the store
    /// still adopts the previous process's objects, or if a process that takes over has pages under
    /// hosts that this one does not know.
    fn listed(&self, shared: &Shared, hosts_max: usize) -> Option<Vec<Bytes>> {
        if shared.persistence.is_released() {
            return None;
        }
        let mut hosts = hosts(shared, self.site.id, &self.hosts, hosts_max)?;
        let own = match &self.site.plan.public_host {
            Some(public) => Bytes::copy_from_slice(public.as_bytes()),
            None => self.named.clone(),
        };
        let own = Bytes::copy_from_slice(Key::new(self.site.id, false, &own, Bytes::new()).host());
        if !hosts.contains(&own) {
            hosts.push(own);
        }
        Some(hosts)
    }
}

/// A host's name in lower case, without port and final dot.
pub(crate) fn name_of(host: &[u8]) -> Bytes {
    let (name, _) = h1::split_port(host);
    Bytes::from(name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase())
}

/// Whether a name denotes a machine rather than a site: an address, or a single label such as
/// `localhost`.
fn is_of_a_machine(name: &[u8]) -> bool {
    let is_address = || {
        let text = std::str::from_utf8(name).unwrap_or_default();
        text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
    };
    !name.contains(&b'.') || is_address()
}

#[cfg(test)]
mod tests {
    use super::{Hosts, is_of_a_machine};
    use crate::shared::Shared;
    use crate::system::System;
    use bytes::Bytes;
    use config::EdgePlan;
    use message::{Fields, ResponseHead, Status};
    use semantics::{Freshness, Moment, VaryRule};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Key, Object, Publication, Selector, SiteId};

    /// An edge with sites of these names.
    fn edge(names: &[&[&str]]) -> Shared {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:1".parse().unwrap());
        let first = plan.sites.remove(0);
        plan.sites = (0..)
            .zip(names)
            .map(|(id, names)| {
                let names = names.iter().map(|name| (*name).to_owned()).collect();
                config::SitePlan { id, names, ..first.clone() }
            })
            .collect();
        Shared::new(plan, None, System::of_machine())
    }

    fn store(shared: &Shared, site: u32, host: &str) {
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let object =
            Object::new(&ResponseHead::new(Status::OK), &Bytes::new(), Body::copy_of(b"x"), freshness);
        let key = Key::new(SiteId(site), false, host.as_bytes(), Bytes::from_static(b"/"));
        let rule = VaryRule::default();
        let variant = rule.key(&Fields::new());
        let (key, object) = (&key, Arc::new(object));
        shared.store.publish(Publication { key, rule, variant, object, tags: &[], begun: 0 });
    }

    fn scopes(shared: &Shared, host: &'static str) -> Vec<(u32, Hosts)> {
        let scopes = super::scopes(&shared.sites, &Bytes::from_static(host.as_bytes()));
        scopes.into_iter().map(|scope| (scope.site.id.0, scope.hosts)).collect()
    }

    #[test]
    fn name_of_a_site_covers_the_whole_site() {
        let shared = edge(&[&["a.test", "www.a.test"], &["b.test"]]);
        for host in ["a.test", "WWW.A.test:8080", "a.test."] {
            assert_eq!(scopes(&shared, host), [(0, Hosts::All)], "{host}");
        }
        let both = [(0, Hosts::All), (1, Hosts::All)];
        for host in ["127.0.0.1:6081", "[::1]", "", "cache", "c.test"] {
            assert_eq!(scopes(&shared, host), both, "{host}");
        }
    }

    #[test]
    fn each_name_of_a_catch_all_site_is_a_separate_scope() {
        let shared = edge(&[&["a.test"], &[]]);
        store(&shared, 1, "c.test:8080");
        store(&shared, 1, "127.0.0.1:6081");
        assert_eq!(scopes(&shared, "a.test"), [(0, Hosts::All)]);
        assert_eq!(scopes(&shared, "C.test"), [(1, Hosts::Named("c.test".into()))]);
        assert_eq!(scopes(&shared, "any"), [(1, Hosts::All)]);
        assert_eq!(scopes(&shared, "d.test"), [(1, Hosts::Named("d.test".into()))]);
        for machine in ["127.0.0.1:6081", "varnish", ""] {
            assert_eq!(scopes(&shared, machine).len(), 2, "{machine}");
        }
    }

    #[test]
    fn hosts_in_use_are_listed_and_too_many_become_a_ban() {
        let shared = edge(&[&["a.test", "www.a.test"]]);
        store(&shared, 0, "www.a.test:8080");
        store(&shared, 0, "a.test:80");
        let page = || {
            let scope = super::scopes(&shared.sites, &Bytes::from_static(b"a.test")).remove(0);
            scope.target(&shared, &Bytes::from_static(b"/x"))
        };
        assert_eq!(page().unwrap_err(), ["a.test", "www.a.test:8080"]);
        (0..super::HOSTS_MAX).for_each(|port| store(&shared, 0, &format!("a.test:{port}")));
        let Ok(Selector::Ban { ban, .. }) = page() else { panic!("no ban") };
        assert_eq!(ban.text(), "req.url == \"/x\"");
    }

    #[test]
    fn prefix_with_a_query_becomes_a_ban() {
        let shared = edge(&[&["a.test"]]);
        let scope = super::scopes(&shared.sites, &Bytes::from_static(b"a.test")).remove(0);
        let told = |prefix: &'static [u8]| scope.prefix(&shared, &Bytes::from_static(prefix)).remove(0);
        assert!(matches!(told(b"/a"), Selector::Prefix { .. }));
        assert!(matches!(told(b"/a?b"), Selector::Ban { .. }));
    }

    #[test]
    fn addresses_and_single_labels_denote_machines() {
        for machine in ["localhost", "", "10.0.0.1", "[fe80::1]", "cache"] {
            assert!(is_of_a_machine(machine.as_bytes()), "{machine}");
        }
        assert!(!is_of_a_machine(b"a.test") && !is_of_a_machine(b"10.0.0.1.test"));
    }
}
