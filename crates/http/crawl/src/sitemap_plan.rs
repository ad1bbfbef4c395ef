//! Which sitemaps are fetched, and in which order: those that the caller and robots.txt name, then
//! those that indexes name.
//!
//! Invariant: each sitemap is fetched once. At most [`SITEMAPS_MAX`] are, all on the site, and an
//! index leads at most [`INDEX_DEPTH_MAX`] levels down.

use crate::scope::{OutOfScope, Scope};
use crate::sitemap::{Sitemap, SitemapError, SitemapKind, read_sitemap};
use std::collections::{BTreeSet, VecDeque};
use url::Url;

/// Sitemaps of one site that are fetched.
pub const SITEMAPS_MAX: usize = 1_000;

/// Levels of indexes below a sitemap that the caller names. The protocol has one level; some sites
/// have an index of indexes.
pub const INDEX_DEPTH_MAX: u32 = 3;

/// Paths at which sites have their sitemap when robots.txt names none, the most usual first.
pub const USUAL_SITEMAPS: [&str; 4] =
    ["/sitemap.xml", "/sitemap_index.xml", "/wp-sitemap.xml", "/sitemap.txt"];

/// The sitemaps of a site that are still to be fetched.
#[derive(Debug)]
pub struct SitemapPlan {
    scope: Scope,
    waiting: VecDeque<(Url, u32)>,
    seen: BTreeSet<String>,
    /// Sitemaps on another site, which are not fetched.
    pub foreign: u64,
    /// Sitemaps that a limit leaves out, or whose URL is none.
    pub dropped: u64,
}

impl SitemapPlan {
    /// A plan without sitemaps.
    pub fn new(scope: Scope) -> Self {
        Self { scope, waiting: VecDeque::new(), seen: BTreeSet::new(), foreign: 0, dropped: 0 }
    }

    /// Adds a sitemap by its URL, which may be relative to the site's root.
    pub fn add(&mut self, text: &str) {
        self.add_at(text, 0);
    }

    /// Takes the next sitemap, with its level below those that were added.
    pub fn next_sitemap(&mut self) -> Option<(Url, u32)> {
        self.waiting.pop_front()
    }

    /// Whether a sitemap is still to be fetched.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reads a sitemap that [`SitemapPlan::next_sitemap`] gave with this level. The sitemaps of an
    /// index are added to the plan; the entries of the result are then none of pages.
    ///
    /// # Errors
    /// [`SitemapError`].
    pub fn read(&mut self, level: u32, content: &[u8]) -> Result<Sitemap, SitemapError> {
        let mut read = read_sitemap(content)?;
        if read.kind == SitemapKind::Index {
            for entry in std::mem::take(&mut read.entries) {
                self.add_at(&entry.url, level + 1);
            }
        }
        Ok(read)
    }

    fn add_at(&mut self, text: &str, level: u32) {
        match self.scope.parse(text) {
            Ok(url) if self.seen.contains(url.as_str()) => {}
            Ok(_) if level > INDEX_DEPTH_MAX || self.seen.len() >= SITEMAPS_MAX => self.dropped += 1,
            Ok(url) => {
                self.seen.insert(url.as_str().to_owned());
                self.waiting.push_back((url, level));
            }
            Err(OutOfScope::Foreign) => self.foreign += 1,
            Err(OutOfScope::TooLong | OutOfScope::Malformed) => self.dropped += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{INDEX_DEPTH_MAX, SITEMAPS_MAX, SitemapPlan};
    use crate::Scope;
    use url::Url;

    fn plan() -> SitemapPlan {
        SitemapPlan::new(Scope::new(&Url::parse("http://h/").unwrap(), false))
    }

    fn index(urls: impl IntoIterator<Item = String>) -> Vec<u8> {
        let maps: String =
            urls.into_iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
        format!("<sitemapindex>{maps}</sitemapindex>").into_bytes()
    }

    #[test]
    fn sitemaps_of_an_index_are_fetched_once_and_on_the_site() {
        let mut plan = plan();
        plan.add("/sitemap.xml");
        let (url, level) = plan.next_sitemap().unwrap();
        assert_eq!((url.as_str(), level), ("http://h/sitemap.xml", 0));
        let urls = ["http://h/a.xml", "/a.xml#x", "/sitemap.xml", "http://other/b.xml", "ftp://h/c"];
        let read = plan.read(level, &index(urls.map(str::to_owned))).unwrap();
        assert!(read.entries.is_empty());
        assert_eq!(plan.next_sitemap().unwrap().0.as_str(), "http://h/a.xml");
        assert_eq!((plan.next_sitemap(), plan.foreign, plan.dropped), (None, 1, 1));
    }

    #[test]
    fn index_of_indexes_ends() {
        let mut plan = plan();
        plan.add("/0");
        let mut fetched = 0;
        while let Some((_, level)) = plan.next_sitemap() {
            fetched += 1;
            let _ = plan.read(level, &index([format!("/{fetched}")]));
        }
        assert_eq!((fetched, plan.dropped), (INDEX_DEPTH_MAX + 1, 1));
        plan.read(0, &index((0..2_000).map(|number| format!("/m{number}")))).unwrap();
        assert_eq!(plan.seen.len(), SITEMAPS_MAX);
    }
}
