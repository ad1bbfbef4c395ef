//! Finds the site and the route of a request.
//!
//! Invariant: a name belongs to at most one site. The most exact name counts: the name itself, then
//! the longest `*.` above it, then the site that answers to any name.

use crate::memory::served_directory::{DirectoryBounds, ServedDirectory};
use crate::sites::Site;
use config::{FilesPlan, RouteAction, RoutePlan};
use message::RequestHead;
use platform::HashMap;
use semantics::route_paths;
use std::sync::Arc;

/// Maximum length of a host name (RFC 1035 section 2.3.4). A longer one belongs to no named site.
const HOST_BYTES_MAX: usize = 255;

/// A route and the pages that it leads to.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) plan: RoutePlan,
    /// The site with its pages; `None` for a route that answers by itself.
    pub(crate) site: Option<Arc<Site>>,
    /// The directory whose files answer.
    pub(crate) directory: Option<Arc<ServedDirectory>>,
}

/// The sites by their names.
#[derive(Debug, Default)]
pub(crate) struct HostTable {
    all: Vec<Host>,
    /// Indices in `all` by name.
    by_name: HashMap<Box<[u8]>, usize>,
    /// Indices in `all` of sites with all names below a name, by that name.
    below: HashMap<Box<[u8]>, usize>,
    /// The site that answers to any name.
    any: Option<usize>,
}

/// A site as clients address it.
#[derive(Debug)]
pub(crate) struct Host {
    names: Vec<String>,
    /// Its routes in the order of the plan.
    routes: Vec<Arc<Route>>,
    /// The pages of requests that match no route. `None`: a route matches every request.
    site: Option<Arc<Site>>,
}

/// The route of a request.
pub(crate) struct RouteChoice<'a> {
    /// `None`: the site itself.
    pub(crate) route: Option<&'a Arc<Route>>,
    /// The value of `Vary`, if fields of the request decided on the route. Other caches must not
    /// mix the responses of two routes.
    pub(crate) vary: Option<String>,
}

/// Readings of a path belong to different routes.
#[derive(Debug)]
pub(crate) struct AmbiguousPath;

impl HostTable {
    /// The table of these sites and routes, which are those of one plan. Directories with the same
    /// rules as in this table go on.
    pub(crate) fn followed_by(
        &self,
        sites: &[Arc<Site>],
        numbers: &[u32],
        routes: &[RoutePlan],
        bounds: &DirectoryBounds,
    ) -> Self {
        let mut table = Self::default();
        let directories = routes.iter().filter(|route| matches!(route.action, RouteAction::Files(_))).count();
        for route in routes {
            let index = route.action.pages().and_then(|number| numbers.iter().position(|own| *own == number));
            let site = index.and_then(|index| sites.get(index)).cloned();
            let directory = match &route.action {
                RouteAction::Files(plan) => Some(
                    self.directory(&route.names, plan)
                        .unwrap_or_else(|| ServedDirectory::new(plan.clone(), bounds, directories)),
                ),
                _ => None,
            };
            let route = Arc::new(Route { plan: route.clone(), site, directory });
            let host = table.host_of(&route.plan.names);
            host.routes.push(route);
        }
        for site in sites.iter().filter(|site| site.plan.route.is_none()) {
            table.host_of(&site.plan.names).site = Some(Arc::clone(site));
        }
        table
    }

    /// The directories of all routes; one may come several times.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Arc<ServedDirectory>> {
        self.all.iter().flat_map(|host| &host.routes).filter_map(|route| route.directory.as_ref())
    }

    /// The directory that a site of these names has under the same plan.
    fn directory(&self, names: &[String], plan: &FilesPlan) -> Option<Arc<ServedDirectory>> {
        let host = self.all.iter().find(|host| host.names == names)?;
        let mut directories = host.routes.iter().filter_map(|route| route.directory.as_ref());
        directories.find(|directory| directory.plan == *plan).cloned()
    }

    /// The host with these names, which is added if it is new.
    fn host_of(&mut self, names: &[String]) -> &mut Host {
        let known = self.all.iter().position(|host| host.names == names);
        let index = known.unwrap_or_else(|| {
            let index = self.all.len();
            for name in names {
                match name.strip_prefix("*.") {
                    Some(parent) => self.below.insert(parent.as_bytes().into(), index),
                    None => self.by_name.insert(name.as_bytes().into(), index),
                };
            }
            if names.is_empty() {
                self.any = Some(index);
            }
            self.all.push(Host { names: names.to_vec(), routes: Vec::new(), site: None });
            index
        });
        #[expect(clippy::indexing_slicing, reason = "the index was found in `all`, or added to it")]
        &mut self.all[index]
    }

    /// The host for `authority`, a name in any case with or without port.
    pub(crate) fn find(&self, authority: Option<&[u8]>) -> Option<&Host> {
        let named = authority.and_then(|authority| self.index_of(h1::split_port(authority).0));
        self.all.get(named.or(self.any)?)
    }

    /// The host with this name. `name` is in any case and without port.
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Host> {
        self.all.get(self.index_of(name)?)
    }

    fn index_of(&self, host: &[u8]) -> Option<usize> {
        if self.by_name.is_empty() && self.below.is_empty() {
            return None;
        }
        // A final dot names the same host (RFC 3986 section 3.2.2).
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut lower = [0; HOST_BYTES_MAX];
        let lower = lower.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).or_else(|| self.above(lower)).copied()
    }

    /// The site with all names below a name that is above `host`.
    fn above(&self, host: &[u8]) -> Option<&usize> {
        if self.below.is_empty() || host.starts_with(b".") {
            return None;
        }
        let mut rest = host;
        while let Some(dot) = rest.iter().position(|byte| *byte == b'.') {
            rest = rest.get(dot + 1..).unwrap_or_default();
            if let Some(found) = self.below.get(rest) {
                return Some(found);
            }
        }
        None
    }
}

impl Host {
    /// The names of the site; empty for the one that answers to any name.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The pages of the site itself.
    pub(crate) fn site(&self) -> Option<&Arc<Site>> {
        self.site.as_ref()
    }

    /// The route that is for a request; `target` is in origin-form, or `*`.
    ///
    /// # Errors
    /// If readings of the path belong to different routes. The request could then be answered by
    /// one and read by its application as one of another.
    pub(crate) fn route(&self, head: &RequestHead, target: &[u8]) -> Result<RouteChoice<'_>, AmbiguousPath> {
        if self.routes.is_empty() {
            return Ok(RouteChoice { route: None, vary: None });
        }
        let mut choices = route_paths(target).into_iter().map(|path| self.choice(head, &path));
        let first = choices.next().unwrap_or(RouteChoice { route: None, vary: None });
        let is_same = |other: &RouteChoice<'_>| match (first.route, other.route) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if choices.all(|other| is_same(&other)) { Ok(first) } else { Err(AmbiguousPath) }
    }

    /// The first route that is for a request with this path.
    fn choice(&self, head: &RequestHead, path: &[u8]) -> RouteChoice<'_> {
        let (mut selecting, mut found) = (Vec::new(), None);
        for route in &self.routes {
            let matcher = &route.plan.matcher;
            selecting.extend(matcher.selecting_fields(path));
            if matcher.matches(head, path) {
                found = Some(route);
                break;
            }
        }
        selecting.sort_unstable();
        selecting.dedup();
        RouteChoice { route: found, vary: (!selecting.is_empty()).then(|| selecting.join(", ")) }
    }
}
