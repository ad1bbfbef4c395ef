//! Tests of [`Warming`]: simulated sites whose pages and documents fail, vary and mislead.

use super::{DocumentOutcome, PageOutcome, URLS_BYTES_MAX, WarmEnd, WarmOrder, WarmState, WarmStep, Warming};
use crate::pace::StopCause;
use clock::Monotonic;
use std::collections::BTreeMap;
use std::time::Duration;

const PAGE: Duration = Duration::from_millis(20);

type Answer = Box<dyn Fn(&str, usize) -> PageOutcome>;

/// A site whose documents are known, and whose pages are answered by a function.
struct Site {
    documents: BTreeMap<&'static str, (u16, String)>,
    answer: Answer,
    now: Monotonic,
    /// The paths that were looked at, in their order.
    visited: Vec<String>,
    /// The documents that were requested.
    read: Vec<String>,
    /// The most pages that were in progress at once.
    most: usize,
    visitors: usize,
}

impl Site {
    fn new(documents: &[(&'static str, &str)]) -> Self {
        let documents = documents.iter().map(|(path, text)| (*path, (200, (*text).to_owned()))).collect();
        Self {
            documents,
            answer: Box::new(|_, _| PageOutcome::Warmed(PAGE)),
            now: Monotonic::default(),
            visited: Vec::new(),
            read: Vec::new(),
            most: 0,
            visitors: 0,
        }
    }

    fn answering(self, answer: impl Fn(&str, usize) -> PageOutcome + 'static) -> Self {
        Self { answer: Box::new(answer), ..self }
    }

    fn document(&self, path: &str) -> DocumentOutcome {
        let (status, content) = self.documents.get(path).cloned().unwrap_or((404, String::new()));
        let location = (300..400).contains(&status).then(|| content.clone());
        DocumentOutcome::Response { status, location, content: content.into_bytes(), retry_after: None }
    }

    /// Goes on until the end, or until `pages_max` pages were looked at.
    fn run(&mut self, run: &mut Warming, pages_max: usize) -> Option<WarmEnd> {
        let mut open = Vec::new();
        loop {
            match run.step(self.now, self.visitors) {
                WarmStep::Document(url) => {
                    self.read.push(url.path().to_owned());
                    self.now = self.now.plus(PAGE);
                    run.document_ended(self.now, PAGE, self.document(url.path()));
                }
                WarmStep::Page(page) => {
                    if self.visited.len() >= pages_max {
                        return None;
                    }
                    let path = page.url.path().to_owned();
                    let earlier = self.visited.iter().filter(|visited| **visited == path).count();
                    open.push((page, (self.answer)(&path, earlier)));
                    self.visited.push(path);
                    self.most = self.most.max(open.len());
                }
                WarmStep::Wait(until) if open.is_empty() => self.now = until.expect("something is awaited"),
                WarmStep::Wait(_) => {
                    let (page, outcome) = open.remove(0);
                    self.now = self.now.plus(PAGE);
                    run.page_ended(self.now, page, outcome);
                }
                WarmStep::Done(end) => return Some(end),
            }
        }
    }
}

fn order(sitemaps: Option<Vec<&str>>) -> WarmOrder {
    WarmOrder {
        url: "http://a.test/".to_owned(),
        sitemaps: sitemaps.map(|all| all.into_iter().map(str::to_owned).collect()),
        pages: Vec::new(),
        rate: None,
    }
}

fn found() -> Warming {
    Warming::new(order(Some(Vec::new()))).unwrap()
}

fn urls(paths: impl IntoIterator<Item = String>) -> String {
    let entry = |path| format!("<url><loc>http://a.test{path}</loc></url>");
    format!("<urlset>{}</urlset>", paths.into_iter().map(entry).collect::<String>())
}

fn many(count: usize) -> String {
    urls((0..count).map(|number| format!("/page-{number}")))
}

#[test]
fn sitemaps_of_robots_txt_fill_the_cache_in_full() {
    let index = "<sitemapindex><sitemap><loc>/posts.xml</loc></sitemap><sitemap><loc>/index.xml</loc></sitemap>\
                 <sitemap><loc>http://b.test/x.xml</loc></sitemap></sitemapindex>";
    let feed = "<rss><channel><item><link>http://a.test/news</link></item></channel></rss>";
    let mut site = Site::new(&[
        ("/robots.txt", "User-agent: *\nDisallow: /secret\nSitemap: /index.xml\nSitemap: http://a.test/feed"),
        ("/index.xml", index),
        ("/posts.xml", &urls(["/a", "/a", "/secret/b", "/wp-login.php"].map(str::to_owned))),
        ("/feed", feed),
    ]);
    let mut run = found();
    assert_eq!(site.run(&mut run, usize::MAX), Some(WarmEnd::Complete));
    assert_eq!(site.read, ["/robots.txt", "/index.xml", "/feed", "/posts.xml"], "each is read once");
    site.visited.sort();
    assert_eq!(site.visited, ["/", "/a", "/news"]);
    let counts = run.counts();
    assert_eq!((counts.found, counts.warmed, counts.done()), (3, 3, 3));
    assert_eq!(run.skipped().iter().map(|(_, count)| count).sum::<u64>(), 2);
    assert_eq!(run.notes(), ["sitemaps on another site are not read"]);
}

#[test]
fn usual_places_are_tried_until_one_has_a_sitemap() {
    let mut site = Site::new(&[("/wp-sitemap.xml", &many(2))]);
    let mut run = found();
    site.run(&mut run, usize::MAX);
    assert_eq!(site.read, ["/robots.txt", "/sitemap.xml", "/sitemap_index.xml", "/wp-sitemap.xml"]);
    assert_eq!((run.counts().warmed, run.notes().len()), (3, 0));
    let mut none = found();
    Site::new(&[]).run(&mut none, usize::MAX);
    assert!(none.notes()[0].starts_with("robots.txt names no sitemap"), "{:?}", none.notes());
}

#[test]
fn list_of_pages_needs_no_sitemap() {
    let mut run = Warming::new(WarmOrder {
        pages: ["/a", "http://a.test/?s=x", "/log-out?logout=1", "http://b.test/"].map(str::to_owned).into(),
        ..order(None)
    })
    .unwrap();
    let mut site = Site::new(&[]);
    site.run(&mut run, usize::MAX);
    assert_eq!(site.read, ["/robots.txt"]);
    assert_eq!(site.visited, ["/a", "/"], "a search is the operator's choice, a log-out is none");
}

#[test]
fn unreadable_rules_end_the_run_after_three_tries() {
    let mut site = Site::new(&[]);
    site.documents.insert("/robots.txt", (503, String::new()));
    let mut run = found();
    assert_eq!(site.run(&mut run, usize::MAX), Some(WarmEnd::NoRules));
    assert_eq!((site.read.len(), site.visited.len()), (3, 0));
}

#[test]
fn redirects_of_documents_are_followed_on_the_site_only() {
    let mut site = Site::new(&[("/real.xml", &many(1))]);
    for (path, target) in
        [("/a.xml", "/real.xml"), ("/loop.xml", "/loop.xml"), ("/away.xml", "https://a.test/away.xml")]
    {
        site.documents.insert(path, (301, target.to_owned()));
    }
    let mut run = Warming::new(order(Some(vec!["/a.xml", "/loop.xml", "/away.xml"]))).unwrap();
    assert_eq!(site.run(&mut run, usize::MAX), Some(WarmEnd::Complete));
    assert_eq!(run.counts().warmed, 2);
    let notes = run.notes().join("\n");
    assert!(notes.contains("redirects too often") && notes.contains("to another site"), "{notes}");
}

#[test]
fn failed_page_is_requested_once_more_at_the_end() {
    let mut site = Site::new(&[("/sitemap.xml", &many(30))]).answering(|path, earlier| {
        let fails = path == "/page-3" || path == "/page-5" && earlier == 0;
        let failed = PageOutcome::Failed { took: PAGE, retry_after: None };
        if fails { failed } else { PageOutcome::Warmed(PAGE) }
    });
    let mut run = found();
    assert_eq!(site.run(&mut run, usize::MAX), Some(WarmEnd::Complete));
    assert_eq!((run.counts().warmed, run.counts().failed, run.counts().found), (30, 1, 31));
    assert_eq!(site.visited[31..], ["/page-3", "/page-5"]);
}

#[test]
fn failing_origin_stops_the_run() {
    let failed = || PageOutcome::Failed { took: PAGE, retry_after: Some(Duration::from_secs(7)) };
    let mut site = Site::new(&[("/sitemap.xml", &many(30))]).answering(move |_, _| failed());
    let mut run = found();
    let end = site.run(&mut run, usize::MAX);
    assert_eq!(end, Some(WarmEnd::Stopped(StopCause::FailuresInRow(5))));
    assert!(site.now >= Monotonic::default().plus(Duration::from_secs(28)), "it has waited as it was told");
}

#[test]
fn fresh_and_uncacheable_pages_cost_no_time() {
    let mut site = Site::new(&[("/sitemap.xml", &many(500))]).answering(|path, _| match path {
        "/page-7" => PageOutcome::NotCacheable("pass-path".to_owned(), None),
        _ => PageOutcome::Fresh,
    });
    let mut run = Warming::new(WarmOrder { rate: Some(1), ..order(Some(Vec::new())) }).unwrap();
    site.run(&mut run, usize::MAX);
    // The clock of the simulation moves on by a page's time whenever one ends.
    let most = PAGE * 600 + Duration::from_secs(4);
    assert!(site.now < Monotonic::default().plus(most), "{:?}", site.now);
    assert_eq!((run.counts().fresh, run.counts().uncacheable()), (500, (1, Some("pass-path"))));
}

#[test]
fn rate_bounds_the_pages_of_a_second() {
    let mut site = Site::new(&[("/sitemap.xml", &many(50))]);
    let mut run = Warming::new(WarmOrder { rate: Some(10), ..order(Some(Vec::new())) }).unwrap();
    site.run(&mut run, usize::MAX);
    assert!(site.now >= Monotonic::default().plus(Duration::from_secs(5)), "{:?}", site.now);
}

#[test]
fn visitors_leave_room_for_one_page_at_a_time_with_rests() {
    let filled = |visitors| {
        let mut site = Site { visitors, ..Site::new(&[("/sitemap.xml", &many(400))]) };
        let begun = site.now;
        site.run(&mut found(), usize::MAX);
        (site.most, site.now.since(begun))
    };
    let (calm, beside) = (filled(0), filled(1));
    assert_eq!((calm.0, beside.0), (4, 1));
    assert!(beside.1 >= 400 * 3 * PAGE && calm.1 < beside.1 / 2, "{calm:?} {beside:?}");
}

#[test]
fn postponed_page_is_looked_at_again() {
    let mut site = Site::new(&[("/sitemap.xml", &many(3))]).answering(|_, earlier| match earlier {
        0 => PageOutcome::Postponed,
        _ => PageOutcome::Warmed(PAGE),
    });
    let mut run = found();
    assert_eq!(site.run(&mut run, usize::MAX), Some(WarmEnd::Complete));
    assert_eq!((run.counts().warmed, site.visited.len()), (4, 8));
}

#[test]
fn postponed_page_does_not_hold_up_the_others() {
    let mut site =
        Site::new(&[("/sitemap.xml", &many(3))]).answering(|path, earlier| match (path, earlier) {
            ("/", 0..3) => PageOutcome::Postponed,
            _ => PageOutcome::Warmed(PAGE),
        });
    let mut run = found();
    assert_eq!(site.run(&mut run, usize::MAX), Some(WarmEnd::Complete));
    let visited: Vec<_> = site.visited.iter().map(String::as_str).collect();
    assert_eq!(visited.iter().filter(|path| **path == "/").count(), 4, "{visited:?}");
    assert!(visited.ends_with(&["/", "/", "/"]), "{visited:?}");
}

#[test]
fn run_is_resumed_where_it_was_interrupted() {
    let mut site = Site::new(&[("/sitemap.xml", &many(100))]);
    let mut run = found();
    assert_eq!(site.run(&mut run, 40), None);
    let text = serde_json::to_string(&run.state()).unwrap();
    let state: WarmState = serde_json::from_str(&text).unwrap();
    let mut again = Warming::resume(state.clone()).unwrap();
    assert_eq!(again.state(), state, "an interruption before robots.txt keeps the position");
    site.read.clear();
    assert_eq!(site.run(&mut again, usize::MAX), Some(WarmEnd::Complete));
    assert_eq!(site.read, ["/robots.txt"]);
    let counts = again.counts();
    assert_eq!((counts.found, counts.done()), (101, 101));
    // Pages in progress at the interruption are looked at again.
    assert!((101..=105).contains(&site.visited.len()), "{}", site.visited.len());
    let mut anew = Warming::resume(state.rewound()).unwrap();
    site.visited.clear();
    site.run(&mut anew, usize::MAX);
    assert_eq!((site.visited.len(), anew.counts().warmed), (101, 101));
}

#[test]
fn states_of_other_formats_and_sites_are_refused() {
    let mut site = Site::new(&[("/sitemap.xml", &many(9))]);
    let mut run = found();
    site.run(&mut run, 4);
    let mut document = serde_json::to_value(run.state()).unwrap();
    document["order"]["url"] = "http://b.test/".into();
    let state: WarmState = serde_json::from_value(document.clone()).unwrap();
    assert!(Warming::resume(state).unwrap_err().to_string().contains("a.test"));
    document["format"] = 2.into();
    let state: WarmState = serde_json::from_value(document).unwrap();
    assert!(Warming::resume(state).unwrap_err().to_string().contains("format 2"));
    for url in ["", "a.test", "ftp://a.test/", "http://u:p@a.test/", "mailto:a@b"] {
        assert!(Warming::new(WarmOrder { url: url.to_owned(), ..order(None) }).is_err(), "{url}");
    }
}

#[test]
fn endless_indexes_and_long_lists_are_bounded() {
    let links = |from: usize| {
        let entry = |number| format!("<sitemap><loc>/{number}.xml</loc></sitemap>");
        format!("<sitemapindex>{}</sitemapindex>", (from..from + 3).map(entry).collect::<String>())
    };
    let mut run = Warming::new(order(Some(vec!["/0.xml"]))).unwrap();
    let (mut now, mut read) = (Monotonic::default(), 0);
    loop {
        now = now.plus(PAGE);
        match run.step(now, 0) {
            WarmStep::Document(url) => {
                read += 1;
                let number: usize = url.path()[1..].trim_end_matches(".xml").parse().unwrap_or_default();
                let content = links(3 * number + 1).into_bytes();
                let status = if url.path() == "/robots.txt" { 404 } else { 200 };
                let outcome =
                    DocumentOutcome::Response { status, location: None, content, retry_after: None };
                run.document_ended(now, PAGE, outcome);
            }
            WarmStep::Page(page) => run.page_ended(now, page, PageOutcome::Fresh),
            WarmStep::Wait(until) => now = until.unwrap(),
            WarmStep::Done(end) => break assert_eq!(end, WarmEnd::Complete),
        }
    }
    assert_eq!(read, 1 + 1 + 3 + 9 + 27, "three levels below the first");
    let pages = ["/first", "/second"].map(str::to_owned).into();
    let mut run = Warming::new(WarmOrder { pages, ..order(None) }).unwrap();
    run.urls_bytes = URLS_BYTES_MAX - "/first".len();
    Site::new(&[]).run(&mut run, 10);
    assert_eq!(run.counts().found, 1);
    assert!(run.notes()[0].contains("exceed"), "{:?}", run.notes());
}

#[test]
fn sitemap_line_before_all_groups_counts() {
    let mut site = Site::new(&[
        ("/robots.txt", "Sitemap: /loop.xml\nUser-agent: petasos\nDisallow: /secret\nDisallow: /$\n"),
        (
            "/loop.xml",
            "<sitemapindex><sitemap><loc>/loop.xml</loc></sitemap><sitemap><loc>/b.xml</loc></sitemap></sitemapindex>",
        ),
        (
            "/b.xml",
            "<!DOCTYPE u [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><urlset><url><loc>/&x;</loc></url><url><loc>/good</loc></url></urlset>",
        ),
    ]);
    let mut run = found();
    site.run(&mut run, usize::MAX);
    assert_eq!((site.read.len(), site.visited.len()), (3, 1), "{:?} {:?}", site.read, site.visited);
}
