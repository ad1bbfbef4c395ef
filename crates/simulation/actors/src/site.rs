//! The site: the planned pages, and their present versions and tags.
//!
//! Invariant: a version of a page is never made twice. A page is edited by [`Site::edit`] only, so
//! its version, the time of the edit and its tags belong together.

use crate::application::Application;
use crate::content::{ContentId, NONE};
use crate::listed::ListedPlan;
use crate::moment::Moment;
use crate::page::PagePlan;
use crate::template::make_templates;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use world::Random;

/// The language of a page for visitors that accept none of [`LANGUAGES`].
pub const DEFAULT_LANGUAGE: &str = "en";

/// The languages of pages that vary by language.
pub const LANGUAGES: [&str; 2] = ["de", "en"];

/// The cookie that names the user.
pub const USER_COOKIE: &str = "session";

/// The cookie with the name by which a careless page greets a visitor.
pub const NICK_COOKIE: &str = "nick";

/// Largest number of pages of a random site.
const PAGES_MAX: u64 = 14;

/// The pages of a heavy site are larger than those of others by this factor.
const HEAVY_SCALE: u64 = 8;

/// The pages of a site. Pages can be removed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitePlan {
    /// The host name.
    pub host: String,
    /// Another name at which the site answers. It has the same paths, and pages of its own there.
    pub other_host: Option<String>,
    /// The pages.
    pub pages: Vec<PagePlan>,
    /// The application that it runs on; `None` if it shows none.
    pub application: Option<Application>,
    /// Whether the origin greets visitors in pages that it does not mark as personal.
    pub greets: bool,
    /// Whether parameters that only measure visitors belong to the edge's key, so that no visitor
    /// sends one: a purge of the page would not reach the response.
    pub keeps_tracking: bool,
    /// Whether visitors send a field by which only the edge chooses among pages.
    pub is_forged: bool,
    /// Whether visitors reach it by other ports too. Its responses order no invalidation of groups
    /// then, which belong to one port.
    pub has_ports: bool,
    /// What it publishes for robots; `None` if nothing.
    pub listed: Option<ListedPlan>,
}

impl SitePlan {
    /// A site by chance. Each page follows from one number of `random` and its own number.
    pub fn random(random: &mut Random, host: &str) -> Self {
        let seed = random.number();
        let count = random.between(2, PAGES_MAX);
        // Some sites are larger than memory and disk of the edge.
        let scale = if random.percent(25) { HEAVY_SCALE } else { 1 };
        let page = |number| PagePlan::random(&mut Random::fork(seed, "page", number), number, scale);
        let pages = (0..count).map(page).collect();
        Self {
            host: host.to_owned(),
            other_host: None,
            pages,
            application: None,
            greets: false,
            keeps_tracking: false,
            has_ports: false,
            is_forged: false,
            listed: None,
        }
    }

    /// This site, with pages that are templates for an edge that assembles pages.
    #[must_use]
    pub fn with_templates(mut self, random: &mut Random) -> Self {
        make_templates(random, &mut self);
        self
    }

    /// Whether pages of the site are templates.
    pub fn has_templates(&self) -> bool {
        self.pages.iter().any(|page| !page.template.is_empty())
    }

    /// The first host name, or the other one if the site has it.
    pub fn host_name(&self, is_other: bool) -> &str {
        self.other_host.as_deref().filter(|_| is_other).unwrap_or(&self.host)
    }

    /// The name of a target at one of the hosts: the target itself at the first host, and `//`,
    /// host and target at the other one.
    pub fn named(&self, is_other: bool, target: &str) -> String {
        match &self.other_host {
            Some(host) if is_other => format!("//{host}{target}"),
            _ => target.to_owned(),
        }
    }

    /// Whether a page greets visitors by the name in their cookie.
    pub const fn is_greeting(&self, page: &PagePlan) -> bool {
        self.greets && page.greets
    }

    /// The page that a target means, at either host.
    pub fn page(&self, target: &str) -> Option<&PagePlan> {
        let path = split_host(path_of(target)).1;
        self.pages.iter().find(|page| page.path == path)
    }

    /// The target that names the content: the requested one without the parameters on which it does
    /// not depend.
    pub fn content_target(&self, target: &str) -> String {
        match self.page(target) {
            Some(page) if page.ignores_query => path_of(target).to_owned(),
            _ => content_target(target),
        }
    }
}

/// Divides the name of a target into host part and target. The host part is empty for the first
/// host.
pub fn split_host(named: &str) -> (&str, &str) {
    let path_at = named.strip_prefix("//").and_then(|rest| rest.find('/'));
    path_at.and_then(|at| named.split_at_checked(at + 2)).unwrap_or(("", named))
}

/// A target without its query.
fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// A target without the parameters that only measure where a visitor came from. The edge removes
/// these from its key too.
pub fn content_target(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let kept: Vec<_> = query.split('&').filter(|parameter| !parameter.starts_with("utm_")).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// The language of a page that varies by language, for this `Accept-Language`.
pub fn chosen_language(accepted: Option<&str>) -> &'static str {
    let accepted = accepted.unwrap_or_default();
    LANGUAGES.into_iter().find(|language| accepted.starts_with(language)).unwrap_or(DEFAULT_LANGUAGE)
}

/// What the origin learns from the cookies of a visitor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recognised<'a> {
    /// The user that it is logged in as.
    pub user: Option<&'a str>,
    /// The name by which careless pages greet it.
    pub nick: Option<&'a str>,
}

/// What the author has made of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageState {
    /// The present version; the first is 1.
    pub version: u64,
    /// The time of the last edit.
    pub edited: Moment,
    /// The present tags.
    pub tags: Vec<String>,
}

/// The site in its present state.
#[derive(Clone, Debug)]
pub struct Site {
    plan: Arc<SitePlan>,
    states: BTreeMap<String, PageState>,
}

/// The site as all actors share it.
pub type SharedSite = Arc<Mutex<Site>>;

impl Site {
    /// A site whose pages all have version 1.
    pub fn new(plan: Arc<SitePlan>) -> Self {
        let state =
            |page: &PagePlan| PageState { version: 1, edited: Moment::default(), tags: page.tags.clone() };
        let named =
            |page: &PagePlan| [false, true].map(|is_other| (plan.named(is_other, &page.path), state(page)));
        let states = plan.pages.iter().flat_map(named).collect();
        Self { plan, states }
    }

    /// The plan.
    pub const fn plan(&self) -> &Arc<SitePlan> {
        &self.plan
    }

    /// The state of the page at `path`.
    pub fn state(&self, path: &str) -> Option<&PageState> {
        self.states.get(path)
    }

    /// Makes a new version of the page at `path`, and replaces its tags if `tags` are given.
    /// Returns the version; `None` if there is no such page.
    pub fn edit(&mut self, path: &str, at: Moment, tags: Option<Vec<String>>) -> Option<u64> {
        let state = self.states.get_mut(path)?;
        state.version += 1;
        state.edited = at;
        if let Some(tags) = tags {
            state.tags = tags;
        }
        Some(state.version)
    }

    /// Replaces the tags of the page at `path` without a new version, so that the origin still
    /// confirms copies of it. Returns whether there is such a page.
    pub fn retag(&mut self, path: &str, tags: Vec<String>) -> bool {
        let state = self.states.get_mut(path);
        state.map(|state| state.tags = tags).is_some()
    }

    /// The content that a request with this target, visitor and `Accept-Language` gets now, with
    /// its page and state. `None` if there is no such page.
    pub fn find(
        &self,
        target: &str,
        visitor: Recognised<'_>,
        accepted: Option<&str>,
    ) -> Option<(&PagePlan, &PageState, ContentId)> {
        let page = self.plan.page(target)?;
        let state = self.states.get(path_of(target))?;
        let (user, language) = (visitor.user.unwrap_or(NONE), chosen_language(accepted));
        let mut id = page.identify(&self.plan.content_target(target), state.version, user, language);
        if let Some(nick) = visitor.nick.filter(|_| self.plan.is_greeting(page)) {
            nick.clone_into(&mut id.user);
        }
        Some((page, state, id))
    }
}

/// Locks state that every operation leaves consistent.
pub fn lock<T>(state: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Recognised, Site, SitePlan, chosen_language, content_target, split_host};
    use crate::moment::Moment;
    use std::sync::Arc;
    use world::Random;

    #[test]
    fn plans_follow_from_their_seed_and_cover_all_kinds() {
        let plan = |seed| SitePlan::random(&mut Random::new(seed), "a.test");
        assert_eq!(plan(3), plan(3));
        let kinds: std::collections::BTreeSet<_> = (0..40)
            .flat_map(|seed| plan(seed).pages)
            .map(|page| format!("{:?} {:?} {:?}", page.kind, page.validator, page.framing))
            .collect();
        assert!(kinds.len() > 50, "{kinds:?}");
    }

    #[test]
    fn edits_count_versions() {
        let plan = Arc::new(SitePlan::random(&mut Random::new(1), "a.test"));
        let path = plan.pages[0].path.clone();
        let mut site = Site::new(plan);
        assert_eq!(site.edit(&path, Moment::from_millis(5), None), Some(2));
        let (_, state, id) = site.find(&format!("{path}?utm_source=x"), Recognised::default(), None).unwrap();
        assert_eq!((state.version, state.edited), (2, Moment::from_millis(5)));
        assert_eq!((id.target, id.version), (path, 2));
        assert_eq!(site.edit("/none", Moment::default(), None), None);
    }

    #[test]
    fn pages_of_two_hosts_are_edited_apart() {
        let other_host = Some("b.test".to_owned());
        let plan = Arc::new(SitePlan { other_host, ..SitePlan::random(&mut Random::new(1), "a.test") });
        let path = plan.pages[0].path.clone();
        let named = plan.named(true, &path);
        assert_eq!(split_host(&named), ("//b.test", path.as_str()));
        assert_eq!(split_host(&path), ("", path.as_str()));
        let mut site = Site::new(Arc::clone(&plan));
        assert_eq!(site.edit(&named, Moment::default(), None), Some(2));
        let version =
            |target: &str| site.find(target, Recognised::default(), None).map(|(_, state, _)| state.version);
        assert_eq!((version(&format!("{named}?a=1")), version(&path)), (Some(2), Some(1)));
        assert_eq!(plan.page(&named), plan.page(&path));
    }

    #[test]
    fn measuring_parameters_do_not_name_content() {
        assert_eq!(content_target("/a"), "/a");
        assert_eq!(content_target("/a?utm_source=b"), "/a");
        assert_eq!(content_target("/a?utm_source=b&page=2"), "/a?page=2");
        assert_eq!(chosen_language(Some("de, en;q=0.5")), "de");
        assert_eq!(chosen_language(Some("fr")), "en");
    }
}
