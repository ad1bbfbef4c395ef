//! Expands the `[[site]]` tables of a document, with their routes, into sites and routes.
//!
//! Invariant: two routes of a site whose pages depend on the same settings share these pages.

use super::compression;
use super::context::{ContextPlan, refuse_claims, without_mode};
use super::contradictions::{
    disobedience, leading_address, nameless_tree, passing_esi_cookies, treed_password, treed_routes,
    void_without_esi,
};
use super::fields::{self, FieldRules};
use super::files::{self, FilesPlan, MissingFile, StatedMissing};
use super::limits::{EdgeLimits, SiteLimits};
use super::passwords::PasswordPlan;
use super::route::{self, ActionKind, MaintenancePlan, RouteAction, RouteMatcher, RoutePlan};
use super::site::{SitePlan, page_file, whole_secs};
use super::warm;
use super::{balance, origins};
use crate::ReadFile;
use crate::document::{ConfigDocument, Level, SiteTable};
use crate::levels::SettingLevels;
use crate::rules::chosen;
use crate::sense;
use crate::setting::SettingValue;
use crate::void::void_settings;
use document::{Diagnostic, Place};
use profiles::DEFAULT;
use std::sync::Arc;

/// The sites and routes of a document, and their problems.
#[derive(Default)]
pub(super) struct Expansion {
    pub(super) sites: Vec<SitePlan>,
    pub(super) routes: Vec<RoutePlan>,
    pub(super) problems: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

/// A table of a site or route, with the levels below it.
struct Table<'a> {
    levels: SettingLevels<'a>,
    /// The tables that may say how requests are answered, the strongest first.
    tables: Vec<&'a Level>,
    place: &'a Place,
    matcher: RouteMatcher,
    /// Whether routes may inherit the settings of the table.
    has_heirs: bool,
}

/// Expands all tables.
pub(super) fn expand(document: &ConfigDocument, flags: &Level, read: &ReadFile<'_>) -> Expansion {
    let mut expansion = Expansion::default();
    let lone = [SiteTable { level: Level::new(), place: Place::Default, routes: Vec::new() }];
    let tables = if document.sites.is_empty() { &lone[..] } else { &document.sites };
    for table in tables {
        expansion.expand_site(table, &document.top, flags, read);
    }
    if document.sites.is_empty() {
        expansion.problems.extend(route::contradictions(&document.top, false));
    }
    // Each route repeats the problems of its site.
    let mut told: Vec<Diagnostic> = Vec::new();
    for problem in std::mem::take(&mut expansion.problems) {
        if !told.contains(&problem) {
            told.push(problem);
        }
    }
    expansion.problems = told;
    expansion
}

impl Expansion {
    fn expand_site(&mut self, site: &SiteTable, top: &Level, flags: &Level, read: &ReadFile<'_>) {
        let first_site = self.sites.len();
        let mut matchers = Vec::new();
        self.problems.extend(treed_routes(site, top, flags));
        for (own, place) in &site.routes {
            match route::matcher(own, place, &matchers) {
                Ok(matcher) => matchers.push(matcher),
                Err(problem) => self.problems.push(problem),
            }
            let matcher = matchers.last().cloned().unwrap_or_default();
            let table = Table {
                levels: SettingLevels { levels: vec![flags, own, &site.level, top] },
                tables: vec![own, &site.level, top],
                place,
                matcher,
                has_heirs: false,
            };
            self.problems.extend(route::contradictions(own, false));
            self.expand_table(&table, first_site, top, flags, read);
        }
        let table = Table {
            levels: SettingLevels { levels: vec![flags, &site.level, top] },
            tables: vec![&site.level, top],
            place: &site.place,
            matcher: RouteMatcher::default(),
            has_heirs: !site.routes.is_empty(),
        };
        self.problems.extend(route::contradictions(&site.level, !site.routes.is_empty()));
        self.expand_table(&table, first_site, top, flags, read);
        let sites = self.sites.get(first_site..).unwrap_or_default();
        let own = site.routes.iter().map(|(own, _)| own).chain([&site.level]);
        self.problems.extend(origins::in_vain_of(own.clone(), sites));
        self.problems.extend(void_without_esi(own.clone(), sites));
        self.problems.extend(without_mode(own, sites));
        refuse_claims(self.sites.get_mut(first_site..).unwrap_or_default());
    }

    /// Adds the route of a table, and its pages if none of the site's routes has them yet.
    fn expand_table(
        &mut self,
        table: &Table<'_>,
        first_site: usize,
        top: &Level,
        flags: &Level,
        read: &ReadFile<'_>,
    ) {
        let Table { levels, tables, .. } = table;
        self.problems.extend(fields::problems(levels));
        self.problems.extend(sense::zero_times(levels));
        let password = PasswordPlan::resolve(levels, read, &mut self.problems);
        self.problems.extend(password.as_ref().and_then(|_| treed_password(levels)));
        let password_path = password.as_ref().map(|password| password.path.clone());
        let kind = ActionKind::of(tables);
        let limits = || {
            let limits = SiteLimits::between(
                &EdgeLimits::resolve(levels),
                &EdgeLimits::resolve(&SettingLevels { levels: vec![flags, top] }),
            );
            (limits, password_path.clone())
        };
        let action = match route::answer(kind, levels, read) {
            Ok(Some(action)) => Some(action),
            Ok(None) if kind == ActionKind::Files => {
                self.files(table, first_site, limits, read).map(RouteAction::Files)
            }
            Ok(None) => self.pages(table, first_site, limits(), read).map(RouteAction::Pages),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        };
        let maintenance = MaintenancePlan::resolve(levels, read, &mut self.problems);
        let Some(action) = action else { return };
        let response_fields = FieldRules::resolve(levels, "response");
        let is_plain = password.is_none() && maintenance.is_none() && response_fields.is_empty();
        if table.matcher.is_everything() && is_plain && matches!(action, RouteAction::Pages(_)) {
            // The site itself, without a route in front.
            return;
        }
        self.routes.push(RoutePlan {
            names: names(levels),
            matcher: table.matcher.clone(),
            action,
            response_fields: Arc::new(response_fields),
            hsts_secs: levels.duration("hsts").map(whole_secs),
            password: password.map(Arc::new),
            maintenance,
        });
    }

    /// The files of a table, and its pages if they answer requests without a file.
    fn files(
        &mut self,
        table: &Table<'_>,
        first_site: usize,
        limits: impl Fn() -> (SiteLimits, Option<String>),
        read: &ReadFile<'_>,
    ) -> Option<FilesPlan> {
        let missing = match files::missing(&table.levels) {
            Ok(StatedMissing::Origin) => MissingFile::Pages(self.pages(table, first_site, limits(), read)?),
            Ok(other) => {
                let own = table.tables.first().filter(|_| !table.has_heirs);
                self.problems.extend(own.into_iter().flat_map(|own| route::void_beside("files", own)));
                match other {
                    StatedMissing::File(path) => MissingFile::File(path),
                    StatedMissing::NotFound | StatedMissing::Origin => MissingFile::NotFound,
                }
            }
            Err(problem) => {
                self.problems.push(problem);
                return None;
            }
        };
        FilesPlan::resolve(&table.levels, missing).map_err(|problem| self.problems.push(problem)).ok()
    }

    /// The number of the site that has the pages of a table.
    fn pages(
        &mut self,
        table: &Table<'_>,
        first_site: usize,
        (limits, password_path): (SiteLimits, Option<String>),
        read: &ReadFile<'_>,
    ) -> Option<u32> {
        let Table { levels, place, matcher, .. } = table;
        let Some(origins) = balance::resolve(levels) else {
            let what = if matcher.is_everything() { "site" } else { "route" };
            let text = format!("the {what} has no `origin`, the URL of its application");
            let problem = Diagnostic::new(text, (*place).clone());
            self.problems
                .push(problem.with_help("write origin = \"http://127.0.0.1:PORT\", or use --origin URL"));
            return None;
        };
        self.problems.extend(disobedience(levels));
        self.problems.extend(balance::problems(&origins, levels));
        let profile = levels.text("profile").unwrap_or(DEFAULT);
        self.problems.extend(void_settings(
            profile,
            |key| levels.stated(key).cloned(),
            |key| levels.place(key),
        ));
        self.problems.extend(nameless_tree(levels, place));
        self.problems.extend(compression::problems(levels));
        self.problems.extend(warm::problems(levels));
        let (policy, error_page) = match (chosen(levels, read), page_file(levels, "error_page", read)) {
            (Ok(policy), Ok(error_page)) => (policy, error_page),
            (policy, page) => {
                self.problems.extend(policy.err().into_iter().flatten().chain(page.err()));
                return None;
            }
        };
        let context = ContextPlan::resolve(levels, read, &mut self.problems).map(Arc::new);
        let id = u32::try_from(self.sites.len()).unwrap_or(u32::MAX);
        let site = SitePlan {
            error_page,
            limits,
            password_path,
            context,
            ..SitePlan::resolve(id, origins, policy, levels)
        };
        let of_host = self.sites.get_mut(first_site..).unwrap_or_default();
        if let Some(same) = of_host.iter_mut().find(|other| other.has_same_settings(&site)) {
            if matcher.is_everything() {
                same.route = None;
            }
            return Some(same.id);
        }
        let site = SitePlan { route: (!matcher.is_everything()).then(|| matcher.to_string()), ..site };
        leading_address(&site, levels, place).into_iter().for_each(|warning| self.warn(warning));
        origins::unverified(&site).into_iter().for_each(|warning| self.warn(warning));
        passing_esi_cookies(&site, levels).into_iter().for_each(|warning| self.warn(warning));
        self.sites.push(site);
        Some(id)
    }

    /// Adds a warning. It replaces one with the same place and fix, which is about a route that
    /// inherits the setting: the site itself comes after its routes.
    fn warn(&mut self, new: Diagnostic) {
        self.warnings.retain(|known| (&known.place, &known.help) != (&new.place, &new.help));
        self.warnings.push(new);
    }
}

fn names(levels: &SettingLevels<'_>) -> Vec<String> {
    match levels.value("names") {
        Some(SettingValue::Hosts(names)) => names,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{EdgePlan, FixedAnswer, Machine, Overrides, RouteAction};
    use message::{Method, RequestHead};

    fn load(text: &str) -> Result<EdgePlan, String> {
        let read = |path: &str| match path {
            "./work.html" => Ok("<p>Back soon".to_owned()),
            "./robots.txt" => Ok("User-agent: *\n".to_owned()),
            "./passwords" => Ok("ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n".to_owned()),
            "./bad-passwords" => Ok("# users\nann:secret\nbob:$apr1$a$SECRET\n".to_owned()),
            "./no-passwords" => Ok("# users\n".to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        crate::load("petasos.toml", text, &Overrides::new(), &Machine::of_size(3, 4 << 30), &read)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
    }

    const SITE: &str = "origin = 'http://a'\n[[site]]\nnames = ['a.test']\n";

    fn with_route(route: &str) -> Result<EdgePlan, String> {
        load(&format!("{SITE}[[site.route]]\n{route}\n"))
    }

    fn request(method: &str, fields: &[(&'static str, &'static str)]) -> RequestHead {
        let mut head = RequestHead {
            method: Method::from_token(method.as_bytes()),
            target: "/".into(),
            version: message::Version::Http11,
            fields: message::Fields::new(),
        };
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        head
    }

    #[test]
    fn route_needs_one_entry_of_each_matcher() {
        let plan = with_route(
            "path = ['/a/*', '*.php']\nmethods = ['GET', 'PURGEALL']\nfields = ['X-Beta', 'Accept: *json*']\n\
             cookies = ['plan=gold*', 'vip']",
        )
        .unwrap();
        let matcher = &plan.routes[0].matcher;
        let beta: &[_] = &[("x-beta", "1"), ("Cookie", "x=y; plan=golden")];
        let json: &[_] = &[("Accept", "text/json"), ("Cookie", "vip")];
        for (method, path, fields, expected) in [
            ("GET", "/A/b", beta, true),
            ("HEAD", "/x.php", json, true),
            ("PURGEALL", "/a/", json, true),
            ("POST", "/a/b", beta, false),
            ("GET", "/b", beta, false),
            ("GET", "/a/b", &beta[..1], false),
            ("GET", "/a/b", &beta[1..], false),
            ("GET", "/a/b", &[("Accept", "text/html"), ("Cookie", "vip")][..], false),
        ] {
            let head = request(method, fields);
            assert_eq!(matcher.matches(&head, path.as_bytes()), expected, "{method} {path} {fields:?}");
        }
        assert!(!matcher.is_by_path() && !matcher.is_everything());
    }

    #[test]
    fn route_shares_pages_unless_their_settings_differ() {
        let plan = load(&format!(
            "{SITE}ttl = '1m'\n[[site.route]]\npath = ['/fonts/*']\nresponse.set = ['Access-Control-Allow-Origin: *']\n\
             [[site.route]]\npath = ['/shop/*']\nttl = '5s'\nlimits.fetches_max = 3\n\
             [[site.route]]\npath = ['/api/*']\norigin = 'http://b'\nprofile = 'rfc'\n\
             [[site.route]]\npath = ['/api/v2/*']\norigin = 'http://b'\nprofile = 'rfc'\n"
        ))
        .unwrap();
        let titles: Vec<_> = plan.sites.iter().map(|site| site.route.as_deref()).collect();
        assert_eq!(titles, [None, Some("/shop/*"), Some("/api/*")]);
        let pages: Vec<_> = plan.routes.iter().map(|route| route.action.clone()).collect();
        assert_eq!(pages, [0, 1, 2, 2].map(RouteAction::Pages));
        let shop = &plan.sites[1];
        assert_eq!((shop.names.len(), shop.policy.default_ttl.unwrap().as_secs()), (1, 5));
        assert_eq!(shop.limits.over(&plan.limits).fetches_max, 3);
        assert_eq!(plan.sites[0].limits.over(&plan.limits), plan.limits);
        insta::assert_snapshot!(plan.explain());
    }

    #[test]
    fn site_may_answer_without_an_origin() {
        let text = "[[site]]\nnames = ['www.a.test']\nredirect = 'https://a.test{uri}'\nredirect_status = 301\n\
                    [[site]]\nnames = ['a.test']\norigin = 'http://a'\nmaintenance = './work.html'\n\
                    maintenance_peers = ['10.0.0.0/8']\n\
                    [[site.route]]\npath = ['/robots.txt']\nanswer.status = 200\nanswer.content = '@./robots.txt'\n\
                    [[site.route]]\npath = ['/old/*']\nanswer = { status = 410 }\n";
        let plan = load(text).unwrap();
        assert_eq!((plan.sites.len(), plan.routes.len()), (1, 4));
        assert!(plan.routes[0].matcher.is_everything() && plan.routes[3].matcher.is_everything());
        let fixed = |status, content: Option<&str>| {
            let media_type = "text/plain; charset=utf-8".to_owned();
            RouteAction::Fixed(FixedAnswer { status, content: content.map(Into::into), media_type })
        };
        assert_eq!(plan.routes[1].action, fixed(200, Some("User-agent: *\n")));
        assert_eq!(plan.routes[2].action, fixed(410, None));
        // A route has the settings of its site.
        assert_eq!(plan.routes.iter().filter(|route| route.maintenance.is_some()).count(), 3);
        insta::assert_snapshot!(plan.explain());
    }

    #[test]
    fn pages_with_and_without_a_password_are_separate() {
        let plan = load(&format!(
            "{SITE}basic_auth = './passwords'\n[[site.route]]\npath = ['/hook']\nbasic_auth = 'none'\n\
             [[site.route]]\npath = ['/fast/*']\nresponse.set = ['A: b']\n"
        ))
        .unwrap();
        let paths: Vec<_> = plan.sites.iter().map(|site| site.password_path.as_deref()).collect();
        assert_eq!(paths, [None, Some("./passwords")]);
        let has_password: Vec<_> = plan.routes.iter().map(|route| route.password.is_some()).collect();
        assert_eq!(has_password, [false, true, true]);
        let pages: Vec<_> = plan.routes.iter().map(|route| route.action.clone()).collect();
        assert_eq!(pages, [0, 1, 1].map(RouteAction::Pages));
        assert!(plan.explain().contains("asks for a password of ./passwords (1 user)"), "{}", plan.explain());
        assert!(!format!("{plan:?}{}", plan.explain()).contains("gruCpC7VkOTspMQTTSAR8"));
        let mut changed = plan.clone();
        changed.routes[1].password = None;
        assert!(plan.fixed_changes(&changed).is_empty());
    }

    #[test]
    fn empty_list_of_a_route_replaces_that_of_its_site() {
        let text = "ports = [8080]\norigin = 'http://a'\n[[site]]\nnames = ['a.test']\nports = []\n\
                    response.set = ['X-A: 1']\nrequest.remove = ['X-B']\ntargeted_fields = []\n\
                    [[site.route]]\npath = ['/b']\nresponse.set = []\nrequest.remove = []\n\
                    request.set = ['X-B: 2']\n";
        let plan = load(text).unwrap();
        assert!(plan.routes[0].response_fields.is_empty() && !plan.routes[1].response_fields.is_empty());
        let fields = |index: usize| &plan.sites[index].request_fields;
        assert_eq!((fields(0).set.len(), fields(0).remove.len()), (1, 0));
        assert_eq!((fields(1).set.len(), fields(1).remove.len()), (0, 1));
        assert!(plan.sites.iter().all(|site| site.ports.is_empty()));
    }

    #[test]
    fn routes_that_cannot_work_are_errors() {
        for (route, words) in [
            ("ttl = '1s'", "the route is for all requests"),
            ("path = ['/a']\nnames = ['b.test']", "`names` is not a setting of a [[site.route]]"),
            ("path = ['/a']\nworkers = 2", "`workers` is not a setting of a [[site.route]]"),
            ("path = ['/a']\npaht = ['/b']", "did you mean `path`?"),
            ("path = ['a']", "is not a path"),
            ("path = ['/a']\nredirect = 'http://b'\nanswer.status = 200", "contradict each other"),
            ("path = ['/a']\nredirect = 'http://b'\norigin = 'http://c'", "contradict each other"),
            ("path = ['/a']\nredirect = 'http://b'\nttl = '1s'", "`ttl` has no effect beside `redirect`"),
            ("path = ['/a']\nredirect = '//b'", "neither a URL nor an absolute path"),
            ("path = ['/a']\nredirect = '{uri}'", "neither a URL nor an absolute path"),
            ("path = ['/a']\nredirect = '/{path}'", "could lead to any host"),
            ("path = ['/a']\nredirect = 'https://{uri}'", "could lead to any host"),
            ("path = ['/a b']", "white space"),
            ("path = ['/a']\nredirect = 'http://b/{pth}'", "no placeholder `{pth}`"),
            ("path = ['/a']\nredirect = 'http://b/ c'", "percent-encode it"),
            ("path = ['/a']\nredirect_status = 301", "no effect without `redirect`"),
            ("path = ['/a']\nredirect = 'http://b'\nredirect_status = 200", "not 301 or 302"),
            ("path = ['/a']\nbasic_auth = './no.txt'", "make it with `htpasswd -cB ./no.txt USER`"),
            ("path = ['/a']\nbasic_auth = './bad-passwords'", "./bad-passwords:2: this is no hash of bcrypt"),
            ("path = ['/a']\nbasic_auth = './bad-passwords'", "./bad-passwords:3: hashes of this kind are"),
            ("path = ['/a']\nbasic_auth = './no-passwords'", "has no users"),
            ("path = ['/a']\nbasic_auth_realm = 'x'", "no effect without `basic_auth`"),
            (
                "path = ['/a']\nbasic_auth = './passwords'\nbasic_auth_realm = 'a\"b'",
                "`basic_auth_realm` has only",
            ),
            ("path = ['/a']\nanswer.content = 'x'", "no effect without `answer.status`"),
            ("path = ['/a']\nanswer.status = 700", "answer.status"),
            ("path = ['/a']\nanswer.status = 200\nanswer.content = '@./no'", "cannot read the content"),
            ("path = ['/a']\nmaintenance = './no.html'", "cannot read the maintenance ./no.html"),
            ("path = ['/a']\nmaintenance_peers = ['10.0.0.0/8']", "no effect without `maintenance`"),
            ("path = ['/a']\nresponse.set = ['Content-Length: 3']", "cannot change `Content-Length`"),
            ("path = ['/a']\nresponse.remove = ['vary']", "cannot change `vary`"),
            ("path = ['/a']\nrequest.set = ['Host: b']", "cannot change `Host`"),
            (
                "path = ['/a']\nresponse.set = ['A: b']\nresponse.remove = ['a']",
                "is in `response.remove` and in",
            ),
            ("path = ['/a']\nresponse.set = ['A: b', 'a: c']", "is in `response.set` twice"),
            ("path = ['/a']\nlimits.first_byte_timeout = '0s'", "must be longer than zero"),
            ("path = ['/a']\nlimits.connections_max = 3", "`limits.connections_max` is not a setting of"),
            ("path = ['/a']\n[[site.route]]\npath = ['/A']", "an earlier route of the site"),
            ("path = ['/a']\norigin_insecure = true", "`origin_insecure` has no effect"),
        ] {
            let fault = with_route(route).unwrap_err();
            assert!(fault.contains(words) && fault.contains("petasos.toml:"), "{route}: {fault}");
        }
        assert!(load("origin = 'http://a'\npath = ['/a']").unwrap_err().contains("[[site.route]]"));
        assert!(load("origin = 'http://a'\n[[route]]\npath = ['/a']").unwrap_err().contains("belongs to a"));
        let fault = load("[[site]]\nnames = ['a.test']\n[[site.route]]\npath = ['/a']\n").unwrap_err();
        assert!(fault.contains("the route has no `origin`") && fault.contains("the site has no"), "{fault}");
        assert!(!with_route("path = ['/a']\nbasic_auth = './bad-passwords'").unwrap_err().contains("SECRET"));
        let tree = "static_tree.directory = '/srv/t'\n";
        let fault = load(&format!("{tree}{SITE}[[site.route]]\npath = ['/a']\nbasic_auth = './passwords'"));
        assert!(fault.unwrap_err().contains("does not ask for the password"));
        let fault = load(&format!("{tree}{SITE}[[site.route]]\ncookies = ['a']\nttl = '1s'")).unwrap_err();
        assert!(fault.contains("knows no routes by method, field or cookie"), "{fault}");
        assert!(load(&format!("{tree}origin = 'http://a'\nnames = ['*.a.test']")).is_err());
        let fault = load("origin = 'http://a'\nnames = ['a.test', '*.a.test']").unwrap_err();
        assert!(fault.contains("write a [[site]] for each of the two"), "{fault}");
    }

    #[test]
    fn routes_of_a_static_tree_change_with_a_restart() {
        let tree = "static_tree.directory = '/srv/t'\n";
        let plan = |tree: &str, route: &str| load(&format!("{tree}{SITE}{route}")).unwrap();
        let gone = "[[site.route]]\npath = ['/old/*']\nanswer.status = 410\n";
        let work = "maintenance = './work.html'\n";
        for change in [gone, work] {
            assert_eq!(plan(tree, "").fixed_changes(&plan(tree, change)), ["site.route"], "{change}");
            assert!(plan("", "").fixed_changes(&plan("", change)).is_empty(), "{change}");
            let with_field = format!("response.set = ['A: b']\n{change}");
            assert!(plan(tree, change).fixed_changes(&plan(tree, &with_field)).is_empty(), "{change}");
        }
    }

    #[test]
    fn included_files_add_sites_and_listeners() {
        let load = |text: &str| {
            let read = |path: &str| match path {
                "/etc/petasos/sites/a.toml" => Ok("[[site]]\nnames = ['a.test']\n".to_owned()),
                "/srv/b.toml" => {
                    Ok("[[listener]]\nlisten = ':80'\n[[site]]\nnames = ['b.test']\n".to_owned())
                }
                "/srv/top.toml" => Ok("ttl = '1s'\ninclude = ['x']\n".to_owned()),
                "/srv/bad.toml" => Ok("[[site]]\nnmes = ['c.test']\n".to_owned()),
                _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
            };
            let machine = Machine::of_size(3, 4 << 30);
            crate::load("/etc/petasos/main.toml", text, &Overrides::new(), &machine, &read).map_err(
                |problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect::<String>(),
            )
        };
        let plan = load("origin = 'http://a'\ninclude = ['sites/a.toml', '/srv/b.toml']\n").unwrap();
        assert_eq!(plan.host_names(), ["a.test", "b.test"]);
        assert_eq!(plan.listeners.len(), 1);
        for (file, words) in [
            ("/srv/top.toml", "/srv/top.toml:2:1"),
            ("/srv/top.toml", "`ttl` stands outside of a [[site]]"),
            ("/srv/bad.toml", "did you mean `names`?"),
            ("no.toml", "cannot read the included file /etc/petasos/no.toml"),
        ] {
            let fault = load(&format!("origin = 'http://a'\ninclude = ['{file}']\n")).unwrap_err();
            assert!(fault.contains(words), "{file}: {fault}");
        }
    }

    #[test]
    fn setting_inherited_by_routes_is_told_once() {
        let fault =
            load(&format!("{SITE}noise_fields = ['Origin']\n[[site.route]]\npath = ['/a']\nttl = '1s'"));
        assert_eq!(fault.unwrap_err().matches("has no effect").count(), 1);
    }
}
