//! What the site publishes for robots: robots.txt, sitemaps and feeds, and pages that only these
//! name.
//!
//! Invariants: no visitor requests a URL of this file, so each request for one comes from a run
//! that fills the cache. robots.txt has the same rules whenever it can be read.

use crate::answer::Answer;
use crate::content;
use crate::page::{Framing, PagePlan};
use crate::site::SitePlan;
use message::Fields;
use std::fmt::Write as _;
use world::Random;

/// The beginning of the paths of these pages.
const BELOW: &str = "/listed/";

/// The path of the rules for robots.
pub(crate) const ROBOTS: &str = "/robots.txt";

/// Where Petasos looks for a sitemap that robots.txt does not name.
const USUAL_SITEMAPS: [&str; 4] = ["/sitemap.xml", "/sitemap_index.xml", "/wp-sitemap.xml", "/sitemap.txt"];

/// The path of a sitemap that robots.txt names, or an operator.
const NAMED_SITEMAP: &str = "/listed/map";

/// The beginning of the paths that robots.txt forbids, and another way to write it.
const CLOSED: &str = "/listed/closed/";
const CLOSED_ENCODED: &str = "/listed/%63losed/";

/// The beginning of the paths whose pages would change something.
const EFFECT: &str = "/listed/delete/";

/// The parameter that would change something.
const CART: &str = "add-to-cart=";

/// The most pages of a random plan, and their period: pages whose numbers leave the same remainder
/// are alike.
const PAGES_MAX: u64 = 30;
const ALIKE: u64 = 8;

/// The largest rate of a random plan, in pages a second.
const RATE_MAX: u64 = 8;

/// URLs with an effect in a huge sitemap.
const HUGE_ENTRIES: u64 = 3000;

/// Pages of the site with larger bodies are in no sitemap, because all actors hold them in memory.
const BODY_BYTES_MAX: usize = 100_000;

/// How robots.txt is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsForm {
    /// Rules for all robots, with a delay that Petasos does not obey.
    ForAll,
    /// Rules for Petasos below others that permit everything.
    ForPetasos,
    /// A redirection to the rules.
    Moved,
    /// There is none, so everything is permitted.
    Missing,
    /// At first status 503, so many times, with `Retry-After` in seconds.
    Unready(u64, u64),
}

/// How the sitemap is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitemapForm {
    /// A list of pages.
    Pages,
    /// An index of sitemaps that names itself too.
    Index,
    /// A compressed list.
    Gzip,
    /// A feed in RSS.
    Rss,
    /// A feed in Atom.
    Atom,
    /// A text with a URL in each line.
    Text,
    /// A list with thousands of entries that must be left out before the pages.
    Huge,
    /// XML that is broken behind the pages.
    Faulty,
    /// A compressed list without its end.
    BrokenGzip,
    /// An HTML document.
    Document,
    /// A response that ends before its length.
    Truncated,
    /// A redirection to a list.
    Moved,
    /// There is none.
    Missing,
}

impl SitemapForm {
    const ALL: [Self; 13] = [
        Self::Pages,
        Self::Index,
        Self::Gzip,
        Self::Rss,
        Self::Atom,
        Self::Text,
        Self::Huge,
        Self::Faulty,
        Self::BrokenGzip,
        Self::Document,
        Self::Truncated,
        Self::Moved,
        Self::Missing,
    ];
}

/// What a site publishes for robots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPlan {
    /// How robots.txt is answered.
    pub robots: RobotsForm,
    /// How the sitemap is answered.
    pub sitemap: SitemapForm,
    /// Whether robots.txt names the sitemap. Otherwise it is at a usual place.
    pub is_named: bool,
    /// The number of pages that only the sitemap names.
    pub pages: u64,
    /// The rate of every run in pages a second; `None` without a limit.
    pub rate: Option<u32>,
}

impl ListedPlan {
    /// A plan by chance.
    pub fn random(random: &mut Random) -> Self {
        let robots = match random.below(10) {
            0..4 => RobotsForm::ForAll,
            4..6 => RobotsForm::ForPetasos,
            6 => RobotsForm::Moved,
            7 => RobotsForm::Missing,
            _ => RobotsForm::Unready(random.between(1, 2), *random.choice(&[1, 5, 200]).unwrap_or(&1)),
        };
        let is_usual = random.percent(40);
        let sitemap = random.choice(&SitemapForm::ALL).copied().filter(|_| !is_usual);
        Self {
            robots,
            sitemap: sitemap.unwrap_or(SitemapForm::Pages),
            is_named: random.percent(50) && robots != RobotsForm::Missing,
            pages: random.between(6, PAGES_MAX),
            rate: random.percent(60).then(|| random.between(1, RATE_MAX) as u32),
        }
    }

    /// Whether no document misleads a run, so that it looks at every page.
    pub const fn is_orderly(&self) -> bool {
        !matches!(self.robots, RobotsForm::Unready(..)) && !matches!(self.sitemap, SitemapForm::Truncated)
    }

    /// The path of the sitemap.
    pub const fn sitemap_path(&self) -> &'static str {
        match self.sitemap {
            _ if self.is_named => NAMED_SITEMAP,
            SitemapForm::Text => "/sitemap.txt",
            _ => "/sitemap.xml",
        }
    }

    /// The paths of a list of an operator: pages, and URLs that must be left out.
    pub fn listed(&self) -> Vec<String> {
        let pages = (0..self.pages).map(page_path);
        let left_out = [format!("{CLOSED}1"), format!("{EFFECT}1"), format!("{}?{CART}1", page_path(0))];
        pages.chain(left_out).collect()
    }

    /// Why no run may request this target; `None` if it may. `has_rules`: runs have read robots.txt
    /// of the site.
    pub(crate) fn refusal(&self, target: &str, has_rules: bool) -> Option<&'static str> {
        let is_closed = target.starts_with(CLOSED) || target.starts_with(CLOSED_ENCODED);
        if target.starts_with(EFFECT) || target.contains(CART) {
            Some("it would change something")
        } else if is_closed && has_rules && self.robots != RobotsForm::Missing {
            Some("robots.txt forbids it")
        } else {
            None
        }
    }

    /// Whether only a run requests this target.
    pub(crate) fn is_of(target: &str) -> bool {
        target == ROBOTS || target.starts_with(BELOW) || USUAL_SITEMAPS.contains(&target)
    }

    /// Whether each request for this target begins a look at a page or document. The second variant
    /// of a page is requested without a further look.
    pub(crate) fn is_paced(target: &str) -> bool {
        page_number(target).is_none_or(|number| number % ALIKE != 3)
    }

    /// The answer for a target of this file. `earlier` is the number of requests for it before.
    pub(crate) fn answer(
        &self,
        site: &SitePlan,
        host: &str,
        target: &str,
        accepts_gzip: bool,
        earlier: u64,
    ) -> Option<Answer> {
        if let Some(answer) = self.document(site, host, target, earlier) {
            return Some(answer);
        }
        let number = page_number(target);
        let is_left_out = [CLOSED, CLOSED_ENCODED, EFFECT].iter().any(|path| target.starts_with(path));
        if number.is_none() && !is_left_out && !target.contains(CART) {
            return None;
        }
        let text = format!("the page {target} of {host}\n");
        Some(match number.map(|number| number % ALIKE) {
            Some(1) => answer(200, &[("Cache-Control", "max-age=2"), ("ETag", "\"listed\"")], text),
            Some(2) => answer(200, &[("Cache-Control", "private")], text),
            Some(3) => coded_page(&text, accepts_gzip),
            Some(4) => answer(301, &[("Location", "/listed/p0"), ("Cache-Control", "max-age=600")], text),
            Some(5) if earlier == 0 => answer(503, &[("Retry-After", "1")], "busy\n".to_owned()),
            Some(6) => answer(404, &[], text),
            _ => answer(200, &[("Cache-Control", "max-age=600")], text),
        })
    }

    /// robots.txt, or a sitemap.
    fn document(&self, site: &SitePlan, host: &str, target: &str, earlier: u64) -> Option<Answer> {
        let moved = |place: &str| answer(302, &[("Location", place)], String::new());
        match (target, self.robots) {
            (ROBOTS, RobotsForm::Missing) => return None,
            (ROBOTS, RobotsForm::Moved) => return Some(moved("/listed/robots.txt")),
            (ROBOTS, RobotsForm::Unready(times, seconds)) if earlier < times => {
                return Some(answer(503, &[("Retry-After", &seconds.to_string())], "busy\n".to_owned()));
            }
            (ROBOTS | "/listed/robots.txt", _) => return Some(answer(200, &[], self.rules(host))),
            _ => {}
        }
        let pages = || urlset(&self.locations(site, host));
        let part = |place: usize| {
            let of_part = |(at, _): &(usize, String)| at % 2 == place;
            let all = self.locations(site, host).into_iter().enumerate().filter(of_part);
            urlset(&all.map(|(_, location)| location).collect::<Vec<_>>())
        };
        let body = match target {
            "/listed/part-1.xml" => part(0).into_bytes(),
            "/listed/part-2.xml.gz" => content::gzip(part(1).as_bytes()),
            "/listed/moved.xml" => pages().into_bytes(),
            _ if target != self.sitemap_path() => return None,
            _ => match self.sitemap {
                SitemapForm::Missing => return None,
                SitemapForm::Moved => return Some(moved("/listed/moved.xml")),
                SitemapForm::Truncated => return Some(truncated(pages())),
                form => self.sitemap(form, site, host),
            },
        };
        Some(Answer { body, ..answer(200, &[], String::new()) })
    }

    fn sitemap(&self, form: SitemapForm, site: &SitePlan, host: &str) -> Vec<u8> {
        let locations = self.locations(site, host);
        let pages = urlset(&locations);
        let text = match form {
            SitemapForm::Index => index(&[
                format!("http://{host}/listed/part-1.xml"),
                "/listed/part-2.xml.gz".to_owned(),
                format!("http://{host}{}", self.sitemap_path()),
            ]),
            SitemapForm::Gzip => return content::gzip(pages.as_bytes()),
            SitemapForm::BrokenGzip => {
                let coded = content::gzip(pages.as_bytes());
                return coded.get(..coded.len() / 2).unwrap_or_default().to_vec();
            }
            SitemapForm::Rss => feed("<rss version=\"2.0\"><channel>", &locations, "</channel></rss>"),
            SitemapForm::Atom => {
                let entry = |location| format!("<entry><link href=\"{location}\"/></entry>");
                let entries: String = locations.iter().map(entry).collect();
                format!("<feed xmlns=\"http://www.w3.org/2005/Atom\">{entries}</feed>")
            }
            SitemapForm::Text => locations.join("\n"),
            SitemapForm::Huge => {
                let left_out = (0..HUGE_ENTRIES).map(|number| format!("http://{host}{EFFECT}{number}"));
                urlset(&left_out.chain(locations).collect::<Vec<_>>())
            }
            SitemapForm::Faulty => pages.replace("</urlset>", "<url><loc>/listed/p0</url></urlset>"),
            SitemapForm::Document => "<!DOCTYPE html><html><body>Nothing here</body></html>".to_owned(),
            SitemapForm::Pages | SitemapForm::Moved | SitemapForm::Truncated | SitemapForm::Missing => pages,
        };
        text.into_bytes()
    }

    /// The content of robots.txt.
    fn rules(&self, host: &str) -> String {
        let mut text = match self.robots {
            RobotsForm::ForPetasos => {
                format!("User-agent: *\nDisallow:\n\nUser-agent: Petasos/1.0\nDisallow: {CLOSED}\n")
            }
            _ => format!("# Rules\nUser-agent: *\nDisallow: {CLOSED} # closed\nCrawl-delay: 20\n"),
        };
        if self.is_named {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "Sitemap: http://{host}{NAMED_SITEMAP}");
        }
        text
    }

    /// The URLs of the sitemap: pages, and URLs that must be left out.
    fn locations(&self, site: &SitePlan, host: &str) -> Vec<String> {
        let of_site = site.pages.iter().filter(|page| page.bytes <= BODY_BYTES_MAX);
        let of_site = of_site.map(|page: &PagePlan| page.path.clone());
        let left_out = [
            format!("{CLOSED}1"),
            format!("{CLOSED_ENCODED}2"),
            format!("{EFFECT}1"),
            format!("{}?{CART}3", page_path(0)),
        ];
        let paths = (0..self.pages).map(page_path).chain(left_out).chain(of_site);
        // Petasos also takes paths, which the protocol of sitemaps does not have.
        let location = |(at, path): (usize, String)| {
            if at.is_multiple_of(3) { path } else { format!("http://{host}{path}") }
        };
        let foreign = std::iter::once("http://elsewhere.test/page".to_owned());
        paths.enumerate().map(location).chain(foreign).collect()
    }
}

fn page_path(number: u64) -> String {
    format!("{BELOW}p{number}")
}

fn page_number(target: &str) -> Option<u64> {
    target.strip_prefix("/listed/p")?.parse().ok()
}

fn answer(status: u16, fields: &[(&'static str, &str)], body: String) -> Answer {
    let mut all = Fields::new();
    fields.iter().for_each(|(name, value)| all.push(*name, (*value).to_owned()));
    Answer { status, fields: all, body: body.into_bytes(), framing: Framing::Length, id: None }
}

/// A page that has another form for clients that accept gzip.
fn coded_page(text: &str, accepts_gzip: bool) -> Answer {
    let mut coded = answer(
        200,
        &[("Cache-Control", "max-age=600"), ("Vary", "Accept-Encoding"), ("Content-Type", "text/html")],
        text.to_owned(),
    );
    if accepts_gzip {
        coded.fields.push("Content-Encoding", "gzip");
        coded.body = content::gzip(text.as_bytes());
    }
    coded
}

/// A response whose length is not reached before the connection ends.
fn truncated(text: String) -> Answer {
    let announced = (text.len() + 100).to_string();
    Answer { framing: Framing::Close, ..answer(200, &[("Content-Length", &announced)], text) }
}

fn urlset(locations: &[String]) -> String {
    let entry = |location| {
        format!("<url><loc>{location}</loc><lastmod>2026-01-02</lastmod><priority>0.8</priority></url>\n")
    };
    let entries: String = locations.iter().map(entry).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n{entries}</urlset>\n"
    )
}

fn index(locations: &[String]) -> String {
    let entry = |location| format!("<sitemap><loc>{location}</loc></sitemap>\n");
    let entries: String = locations.iter().map(entry).collect();
    format!(
        "<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n{entries}</sitemapindex>\n"
    )
}

fn feed(begin: &str, locations: &[String], end: &str) -> String {
    let item = |location| format!("<item><title>News</title><link>{location}</link></item>\n");
    let items: String = locations.iter().map(item).collect();
    format!("{begin}<title>News</title>\n{items}{end}\n")
}

#[cfg(test)]
mod tests {
    use super::{CLOSED, CLOSED_ENCODED, EFFECT, ListedPlan, ROBOTS, RobotsForm, SitemapForm};
    use crate::site::SitePlan;
    use world::Random;

    fn plan(robots: RobotsForm, sitemap: SitemapForm) -> ListedPlan {
        ListedPlan { robots, sitemap, is_named: true, pages: 10, rate: None }
    }

    #[test]
    fn closed_pages_are_forbidden_only_by_rules_that_were_read() {
        let ruled = plan(RobotsForm::ForAll, SitemapForm::Pages);
        for path in [format!("{CLOSED}1"), format!("{CLOSED_ENCODED}2")] {
            assert!(ruled.refusal(&path, true).is_some(), "{path}");
            assert_eq!(ruled.refusal(&path, false), None);
            assert_eq!(plan(RobotsForm::Missing, SitemapForm::Pages).refusal(&path, true), None);
        }
        assert!(ruled.refusal(&format!("{EFFECT}1"), false).is_some());
        assert_eq!(ruled.refusal("/listed/p1", true), None);
    }

    #[test]
    fn each_form_of_a_sitemap_has_its_answer() {
        let site = SitePlan::random(&mut Random::new(1), "a.test");
        for form in SitemapForm::ALL {
            let plan = plan(RobotsForm::ForAll, form);
            let found = plan.answer(&site, "a.test", plan.sitemap_path(), false, 0);
            assert_eq!(found.is_none(), form == SitemapForm::Missing, "{form:?}");
        }
        let plan = plan(RobotsForm::Unready(1, 5), SitemapForm::Pages);
        let status = |earlier| plan.answer(&site, "a.test", ROBOTS, false, earlier).map(|found| found.status);
        assert_eq!((status(0), status(1)), (Some(503), Some(200)));
    }
}
