//! The routes of the site: which requests get other settings, or an answer that needs no origin.
//!
//! Invariant: this is the obvious reading of docs/routes.md. The text of the configuration and the
//! expectation of the oracle follow from the same plan, and nothing of the edge's code decides.

use crate::content::NONE;
use crate::exchange::Ask;
use crate::site::{SitePlan, split_host};
use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;
use world::Random;

/// The field in which a route tells the origin whose pages it wants.
pub const REALM_FIELD: &str = "X-Sim-Realm";

/// The field by which a response names its route or site.
const TOLD_FIELD: &str = "X-Sim-Route";

/// A field that some routes add.
const ADDED_FIELD: &str = "X-Sim-Added";

/// A field of the origin's responses that some routes remove.
pub(crate) const HIDDEN_FIELD: &str = "X-Sim-Hidden";

/// What the other origin adds to the realm of its pages.
pub(crate) const SECOND: &str = "@second";

/// The file with the page of a site under maintenance.
pub const MAINTENANCE_FILE: &str = "maintenance.html";
/// The page.
pub const MAINTENANCE_PAGE: &str = "<p>The site is being maintained.\n";

/// The address of clients that use the site during maintenance.
pub const MAINTAINER: &str = "198.51.100.7";

/// Where some routes redirect to.
const MOVED: &str = "https://moved.test";

/// What some routes tell browsers about storing. It does not apply to errors.
const STORING: &str = "max-age=7, immutable";

/// Largest number of routes.
const ROUTES_MAX: u64 = 4;

/// The longest lifetime of a route's own, in seconds.
const LIFETIME_SECS_MAX: u64 = 90;

/// The statuses of answers of the configuration, and of redirections.
const FIXED: [u16; 5] = [200, 403, 404, 410, 503];
const REDIRECTIONS: [u16; 5] = [301, 302, 303, 307, 308];

/// The reasons of answers that need no origin.
const OWN_REASONS: [&str; 3] = ["redirected", "fixed-answer", "maintenance"];

/// How the requests of the site are divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// The routes. The first one that is for a request applies.
    pub routes: Vec<SiteRoute>,
    /// Whether the responses of the site name it, unless their route has rules of its own.
    pub is_told: bool,
    /// Whether the site is under maintenance.
    pub is_maintained: bool,
}

/// The requests that a route is for, and what happens to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRoute {
    /// Its number.
    pub number: u64,
    /// The only host that has it, if the hosts are sites of their own: whether it is the other one.
    pub only_other: Option<bool>,
    /// The path, or its beginning and `*`.
    pub path: Option<String>,
    /// The method.
    pub method: Option<&'static str>,
    /// Whether it is for requests with the cookie that changes nothing.
    pub is_for_noise: bool,
    /// The value of `Accept-Language`.
    pub language: Option<&'static str>,
    /// Whether its responses name it.
    pub is_told: bool,
    /// Whether it tells browsers how long they may store.
    pub is_stored: bool,
    /// Whether it adds a field.
    pub adds: bool,
    /// The answer.
    pub answer: RouteAnswer,
}

/// The answer to the requests of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteAnswer {
    /// Pages.
    Pages(RoutePages),
    /// A redirection with this status.
    Redirect(u16),
    /// A response of the configuration with this status.
    Fixed(u16),
}

/// The pages of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutePages {
    /// Whether they are others than those of the site.
    pub is_own: bool,
    /// Whether another origin has them.
    pub is_elsewhere: bool,
    /// Their lifetime if they state none.
    pub lifetime_secs: Option<u64>,
    /// Whether they follow the rules of a site of which nothing is known.
    pub has_default_profile: bool,
    /// Their own limit of concurrent fetches.
    pub fetches_max: Option<u64>,
    /// Whether responses lose a field of the origin.
    pub hides: bool,
}

/// What the response to a request must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) answer: ExpectedAnswer,
    /// The value of each field that routes change; `None` if there is no such field.
    pub(crate) fields: Vec<(&'static str, Option<String>)>,
    /// The value of `Cache-Control`, unless the response is an error.
    pub(crate) storing: Option<&'static str>,
    /// The names that `Vary` must have, because they have decided on the route.
    pub(crate) vary: BTreeSet<&'static str>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedAnswer {
    /// A page of this realm.
    Page(String),
    Redirect(u16, String),
    Fixed(u16, String),
    Maintenance,
}

impl Routing {
    /// Routes by chance, for the pages of a site. `has_two_sites`: its hosts are sites of their
    /// own.
    pub fn random(random: &mut Random, site: &SitePlan, has_two_sites: bool) -> Self {
        let seed = random.number();
        let count = random.between(1, ROUTES_MAX);
        let mut routes: Vec<SiteRoute> = Vec::new();
        for number in 0..count {
            let mut own = Random::fork(seed, "route", number);
            let route = SiteRoute::random(&mut own, number, site, has_two_sites);
            // Petasos refuses two routes for the same requests.
            if routes.iter().all(|other| other.matchers() != route.matchers()) {
                routes.push(route);
            }
        }
        Self { routes, is_told: random.percent(50), is_maintained: false }
    }

    /// The lines of a site's table, and the tables of its routes. `is_other`: it is that of the
    /// other host; `second_origin` is the URL of the other origin, `first` the tables of routes
    /// that come first.
    pub fn configuration(&self, is_other: bool, second_origin: &str, first: &str) -> String {
        // Writing to a String cannot fail.
        let mut text = format!("request.remove = [\"{REALM_FIELD}\"]\n");
        if self.is_told {
            let _ = writeln!(text, "response.set = [\"{TOLD_FIELD}: site\"]");
        }
        if self.is_maintained {
            let _ = writeln!(text, "maintenance = \"{MAINTENANCE_FILE}\"");
            let _ = writeln!(text, "maintenance_peers = [\"{MAINTAINER}\"]");
        }
        text.push_str(first);
        for route in self.routes.iter().filter(|route| route.is_at(is_other)) {
            text.push_str(&route.configuration(second_origin));
        }
        text
    }

    /// The lifetimes of pages that state none, for realms that have their own.
    pub fn lifetimes(&self) -> impl Iterator<Item = (String, Duration)> {
        self.routes.iter().filter_map(|route| {
            let RouteAnswer::Pages(pages) = &route.answer else { return None };
            Some((route.realm(pages), Duration::from_secs(pages.lifetime_secs?)))
        })
    }

    /// The realms of pages that have another profile than the site. Petasos does not know them as
    /// pages of the site's application.
    pub(crate) fn realms_of_other_profiles(&self) -> impl Iterator<Item = String> {
        self.routes.iter().filter_map(|route| match &route.answer {
            RouteAnswer::Pages(pages) if pages.has_default_profile => Some(route.realm(pages)),
            _ => None,
        })
    }

    /// The largest numbers of fetches of the origins of routes that have limits of their own.
    /// `usual` is that of a route that states none.
    pub fn fetches_max(&self, usual: usize) -> impl Iterator<Item = usize> {
        self.routes.iter().filter_map(move |route| match &route.answer {
            RouteAnswer::Pages(pages) if pages.is_elsewhere || pages.fetches_max.is_some() => {
                Some(pages.fetches_max.map_or(usual, |fetches| fetches as usize))
            }
            _ => None,
        })
    }

    /// The answer to a request.
    pub(crate) fn expected(&self, ask: &Ask) -> Expected {
        let (host, target) = split_host(&ask.target);
        let path = target.split('?').next().unwrap_or_default();
        let mut vary = BTreeSet::new();
        let mut found = None;
        for route in self.routes.iter().filter(|route| route.is_at(!host.is_empty())) {
            if route.has_path(path) {
                vary.extend(route.is_for_noise.then_some("cookie"));
                vary.extend(route.language.map(|_| "accept-language"));
            }
            if route.is_for(ask, path) {
                found = Some(route);
                break;
            }
        }
        let own = found.and_then(SiteRoute::set_fields);
        let of_site = || vec![(TOLD_FIELD, "site".to_owned())].into_iter().filter(|_| self.is_told).collect();
        let set: Vec<(&'static str, String)> = own.unwrap_or_else(of_site);
        let value = |name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.clone());
        let added = found.filter(|route| route.adds).map(SiteRoute::name);
        let fields = vec![(TOLD_FIELD, value(TOLD_FIELD)), (ADDED_FIELD, added)];
        let storing = value("Cache-Control").map(|_| STORING);
        let answer = match found {
            _ if self.is_maintained && !ask.is_maintainer => ExpectedAnswer::Maintenance,
            Some(route) => route.expected(target),
            None => ExpectedAnswer::Page(NONE.to_owned()),
        };
        let mut expected = Expected { answer, fields, storing, vary };
        if found.is_some_and(SiteRoute::hides) {
            expected.fields.push((HIDDEN_FIELD, None));
        }
        expected
    }
}

impl Expected {
    /// Whether a response with this reason, and with content of this realm, may be the expected
    /// one.
    pub(crate) fn fits(&self, reason: &str, realm: Option<&str>) -> bool {
        match &self.answer {
            ExpectedAnswer::Page(own) => !is_own_reason(reason) && realm.is_none_or(|realm| realm == own),
            ExpectedAnswer::Redirect(..) => reason == "redirected",
            ExpectedAnswer::Fixed(..) => reason == "fixed-answer",
            ExpectedAnswer::Maintenance => reason == "maintenance",
        }
    }
}

/// Whether this is the reason of an answer that needs no origin.
pub(crate) fn is_own_reason(reason: &str) -> bool {
    OWN_REASONS.contains(&reason)
}

/// The realm of the pages that an origin has: that of the request, and whether it is the other one.
pub fn realm(asked: Option<&str>, is_second: bool) -> String {
    format!("{}{}", asked.unwrap_or(NONE), if is_second { SECOND } else { "" })
}

impl SiteRoute {
    fn random(random: &mut Random, number: u64, site: &SitePlan, has_two_sites: bool) -> Self {
        let only_other = (has_two_sites && random.percent(50)).then(|| random.percent(50));
        let section = format!("/s{}/*", random.below(3));
        let page = random.choice(&site.pages).map(|page| page.path.clone());
        let path = match random.below(10) {
            0..6 => Some(section.clone()),
            6..8 => page,
            _ => None,
        };
        let method = *random
            .choice(&[None, None, None, None, Some("GET"), Some("GET"), Some("POST")])
            .unwrap_or(&None);
        let is_for_noise = random.percent(20);
        let language = *random.choice(&[None, None, None, None, Some("de"), Some("en")]).unwrap_or(&None);
        let is_by_path = path.is_some();
        let path = if is_for_noise || language.is_some() { path } else { path.or(Some(section)) };
        let answer = RouteAnswer::random(random, is_by_path);
        let (is_told, is_stored) = (random.percent(60), random.percent(15));
        let adds = random.percent(15);
        Self { number, only_other, path, method, is_for_noise, language, is_told, is_stored, adds, answer }
    }

    fn name(&self) -> String {
        format!("r{}", self.number)
    }

    /// What decides which requests it is for.
    fn matchers(&self) -> impl PartialEq {
        (self.path.clone(), self.method, self.is_for_noise, self.language)
    }

    fn is_at(&self, is_other: bool) -> bool {
        self.only_other.is_none_or(|only_other| only_other == is_other)
    }

    fn has_path(&self, path: &str) -> bool {
        self.path.as_deref().is_none_or(|own| match own.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => path == own,
        })
    }

    fn is_for(&self, ask: &Ask, path: &str) -> bool {
        let has_method = |method| ask.method == method || method == "GET" && ask.method == "HEAD";
        self.has_path(path)
            && self.method.is_none_or(has_method)
            && (!self.is_for_noise || ask.has_noise)
            && self.language.is_none_or(|language| ask.language.as_deref() == Some(language))
    }

    /// The fields that it sets in place of those of the site; `None` if it states none.
    fn set_fields(&self) -> Option<Vec<(&'static str, String)>> {
        let told = self.is_told.then(|| (TOLD_FIELD, self.name()));
        let stored = self.is_stored.then(|| ("Cache-Control", STORING.to_owned()));
        let all: Vec<_> = told.into_iter().chain(stored).collect();
        (!all.is_empty()).then_some(all)
    }

    fn hides(&self) -> bool {
        matches!(&self.answer, RouteAnswer::Pages(pages) if pages.hides)
    }

    /// The realm of its pages.
    fn realm(&self, pages: &RoutePages) -> String {
        realm(Some(&self.name()).filter(|_| pages.is_own).map(String::as_str), pages.is_elsewhere)
    }

    fn expected(&self, target: &str) -> ExpectedAnswer {
        match &self.answer {
            RouteAnswer::Pages(pages) => ExpectedAnswer::Page(self.realm(pages)),
            RouteAnswer::Redirect(status) => ExpectedAnswer::Redirect(*status, format!("{MOVED}{target}")),
            RouteAnswer::Fixed(status) => ExpectedAnswer::Fixed(*status, self.content()),
        }
    }

    fn content(&self) -> String {
        format!("the answer of {}", self.name())
    }

    fn configuration(&self, second_origin: &str) -> String {
        let mut text = "[[site.route]]\n".to_owned();
        let mut list = |key: &str, entry: Option<String>| {
            if let Some(entry) = entry {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{key} = [\"{entry}\"]");
            }
        };
        list("path", self.path.clone());
        list("methods", self.method.map(str::to_owned));
        list("cookies", self.is_for_noise.then(|| "_ga".to_owned()));
        list("fields", self.language.map(|language| format!("Accept-Language: {language}")));
        let set = self.set_fields().map(|fields| {
            let lines: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            lines.join("\", \"")
        });
        list("response.set", set);
        list("response.add", self.adds.then(|| format!("{ADDED_FIELD}: {}", self.name())));
        match &self.answer {
            RouteAnswer::Pages(pages) => {
                list("request.set", pages.is_own.then(|| format!("{REALM_FIELD}: {}", self.name())));
                list("response.remove", pages.hides.then(|| HIDDEN_FIELD.to_owned()));
                text.push_str(&pages.configuration(second_origin));
            }
            RouteAnswer::Redirect(status) => {
                let _ = writeln!(text, "redirect = \"{MOVED}{{uri}}\"\nredirect_status = {status}");
            }
            RouteAnswer::Fixed(status) => {
                let _ = writeln!(text, "answer.status = {status}\nanswer.content = \"{}\"", self.content());
            }
        }
        text
    }
}

impl RouteAnswer {
    /// An answer by chance. Only a route with a path may answer by itself, because tunnels and
    /// editors need the site.
    fn random(random: &mut Random, is_by_path: bool) -> Self {
        let kind = random.below(100);
        let redirection = *random.choice(&REDIRECTIONS).unwrap_or(&308);
        let fixed = *random.choice(&FIXED).unwrap_or(&410);
        let pages = RoutePages::random(random);
        match kind {
            0..12 if is_by_path => Self::Redirect(redirection),
            12..24 if is_by_path => Self::Fixed(fixed),
            _ => Self::Pages(pages),
        }
    }
}

impl RoutePages {
    fn random(random: &mut Random) -> Self {
        let is_own = random.percent(75);
        let is_elsewhere = random.percent(35) && is_own;
        let lifetime_secs = random.between(2, LIFETIME_SECS_MAX);
        Self {
            is_own,
            is_elsewhere,
            lifetime_secs: (random.percent(35) && is_own).then_some(lifetime_secs),
            has_default_profile: random.percent(25) && is_own,
            fetches_max: (random.percent(25) && is_own).then(|| random.between(2, 12)),
            hides: random.percent(25),
        }
    }

    fn configuration(&self, second_origin: &str) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{key} = {value}");
            }
        };
        line("request.remove", self.is_own.then(|| "[]".to_owned()));
        line("origin", self.is_elsewhere.then(|| format!("\"{second_origin}\"")));
        line("ttl", self.lifetime_secs.map(|secs| format!("\"{secs}s\"")));
        line("profile", self.has_default_profile.then(|| "\"default\"".to_owned()));
        line("limits.fetches_max", self.fetches_max.map(|fetches| fetches.to_string()));
        text
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "{} routes, named {}, maintained {}",
            self.routes.len(),
            self.is_told,
            self.is_maintained
        )?;
        self.routes.iter().try_for_each(|route| write!(to, "\n  {route:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{ExpectedAnswer, RouteAnswer, Routing, realm};
    use crate::exchange::Ask;
    use crate::site::SitePlan;
    use std::collections::BTreeSet;
    use world::Random;

    #[test]
    fn routes_by_chance_have_all_matchers_and_answers() {
        let site = SitePlan::random(&mut Random::new(5), "a.test");
        let mut met = BTreeSet::new();
        for seed in 0..300 {
            for route in Routing::random(&mut Random::new(seed), &site, true).routes {
                met.insert(format!("{:?}", route.answer).split('(').next().unwrap_or_default().to_owned());
                let by = [
                    ("path", route.path.is_some()),
                    ("method", route.method.is_some()),
                    ("cookie", route.is_for_noise),
                    ("field", route.language.is_some()),
                    ("host", route.only_other.is_some()),
                ];
                met.extend(by.iter().filter(|(_, is_by)| *is_by).map(|(name, _)| (*name).to_owned()));
                // Editors and tunnels need the site.
                assert!(route.path.is_some() || matches!(route.answer, RouteAnswer::Pages(_)));
            }
        }
        assert_eq!(met.len(), 8, "{met:?}");
    }

    #[test]
    fn first_matching_route_decides() {
        let site = SitePlan::random(&mut Random::new(5), "a.test");
        let mut routing = Routing::random(&mut Random::new(1), &site, false);
        routing.routes.truncate(1);
        let mut first = routing.routes.remove(0);
        first.path = Some("/s1/*".to_owned());
        (first.method, first.is_for_noise, first.language) = (Some("GET"), false, None);
        first.answer = RouteAnswer::Fixed(410);
        let mut second = first.clone();
        (second.number, second.method) = (1, None);
        second.answer = RouteAnswer::Redirect(301);
        routing.routes = vec![first, second];
        let answer = |method: &str, target: &str| {
            let ask = Ask { method: method.to_owned(), target: target.to_owned(), ..Ask::default() };
            routing.expected(&ask).answer
        };
        for method in ["GET", "HEAD"] {
            assert!(matches!(answer(method, "//b.test/s1/p4/?page=1"), ExpectedAnswer::Fixed(410, _)));
        }
        let moved = ExpectedAnswer::Redirect(301, "https://moved.test/s1/p4/?page=1".to_owned());
        assert_eq!(answer("POST", "//b.test/s1/p4/?page=1"), moved);
        assert_eq!(answer("GET", "/s2/p5/"), ExpectedAnswer::Page(realm(None, false)));
    }
}
