//! Finds every URL of a lab's site, as a search engine's robot and browsers do. It follows links,
//! files that pages load, feeds, and the sitemap.
//!
//! Invariant: it obeys `robots.txt`, `nofollow` and `noindex`, so private and endless pages are
//! left out. Only responses with status 200 count, each URL once.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use testkit::{Client, Response};
use url::Url;

/// Number of concurrent requests.
const ROBOTS: usize = 4;

/// The targets of a site that can be found from `start`, at most `most`. Targets that begin with
/// one of `disallowed` are skipped. These are lines of `robots.txt` that the system's manual
/// recommends and the lab lacks.
pub(crate) fn crawl(
    address: SocketAddr,
    host: &str,
    start: &str,
    disallowed: &[&str],
    most: usize,
) -> Vec<String> {
    let mut rules = RobotsRules::read(address, host);
    rules.disallowed.extend(disallowed.iter().map(|prefix| (*prefix).to_owned()));
    let base = Url::parse(&format!("http://{host}/")).unwrap();
    let mut seen = BTreeSet::new();
    let mut found: Vec<String> = Vec::new();
    let mut next: Vec<String> = [start, "/robots.txt", "/favicon.ico"].map(str::to_owned).to_vec();
    next.extend(rules.maps.iter().filter_map(|map| target_of(&base, map)));
    next.retain(|target| seen.insert(target.clone()));
    while !next.is_empty() && found.len() < most {
        let mut level = std::mem::take(&mut next);
        level.truncate(most - found.len());
        for (target, answer) in level.iter().zip(ask_all(address, host, &level)) {
            let Some(links) = links_of(&answer) else { continue };
            found.push(target.clone());
            let page = base.join(target).unwrap();
            let links = links.iter().filter_map(|link| target_of(&page, link));
            next.extend(links.filter(|link| rules.allow(link) && seen.insert(link.clone())));
        }
    }
    found
}

/// The site's rules for robots, from `robots.txt`.
struct RobotsRules {
    disallowed: Vec<String>,
    maps: Vec<String>,
}

impl RobotsRules {
    fn read(address: SocketAddr, host: &str) -> Self {
        let answer = ask(&mut Client::connect(address), host, "/robots.txt");
        let text = if answer.status == 200 { answer.text() } else { "" };
        let lines = |name: &str| -> Vec<String> {
            let values = text.lines().filter_map(|line| line.split_once(':'));
            values.filter(|(known, _)| *known == name).map(|(_, value)| value.trim().to_owned()).collect()
        };
        Self { disallowed: lines("Disallow"), maps: lines("Sitemap") }
    }

    fn allow(&self, target: &str) -> bool {
        !self.disallowed.iter().any(|prefix| !prefix.is_empty() && target.starts_with(prefix))
    }
}

/// The responses for these targets, in the same order.
fn ask_all(address: SocketAddr, host: &str, targets: &[String]) -> Vec<Response> {
    let share = targets.len().div_ceil(ROBOTS);
    std::thread::scope(|scope| {
        let mut robots = Vec::new();
        for targets in targets.chunks(share) {
            robots.push(scope.spawn(move || {
                let answer = |target: &String| ask(&mut Client::connect(address), host, target);
                targets.iter().map(answer).collect::<Vec<_>>()
            }));
        }
        robots.into_iter().flat_map(|robot| robot.join().unwrap()).collect()
    })
}

fn ask(client: &mut Client, host: &str, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    client.read()
}

/// The target of a link on a page; `None` if it leads to another site.
fn target_of(page: &Url, link: &str) -> Option<String> {
    let url = page.join(&link.replace("&#038;", "&").replace("&amp;", "&")).ok()?;
    let is_same = url.scheme() == "http" && url.host_str() == page.host_str();
    is_same.then(|| url[url::Position::BeforePath..url::Position::AfterQuery].to_owned())
}

/// The links in a response; `None` if the response does not count.
fn links_of(answer: &Response) -> Option<Vec<String>> {
    if answer.status != 200 {
        return None;
    }
    let text = String::from_utf8_lossy(&answer.body);
    let media_type = answer.field("Content-Type").and_then(|value| value.split(';').next());
    match media_type.unwrap_or_default() {
        "text/html" => links_of_page(&text),
        "text/xml" | "application/xml" => Some(between_all(&text, "<loc>", "</loc>")),
        "text/css" => {
            let trimmed = |url: String| url.trim_matches(['"', '\'']).to_owned();
            Some(between_all(&text, "url(", ")").into_iter().map(trimmed).collect())
        }
        _ => Some(Vec::new()),
    }
}

fn links_of_page(text: &str) -> Option<Vec<String>> {
    let mut links = Vec::new();
    for tag in text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        let (element, _) = tag.split_once([' ', '\n']).unwrap_or((tag, ""));
        let value = |name: &str| attribute(tag, name);
        let rel = value("rel").unwrap_or_default();
        let is_rel = |word: &str| rel.split(' ').any(|known| known == word);
        match element {
            "meta"
                if value("name") == Some("robots")
                    && value("content").is_some_and(|content| content.contains("noindex")) =>
            {
                return None;
            }
            "a" if !is_rel("nofollow") => links.extend(value("href")),
            "link" => {
                let media_type = value("type").unwrap_or_default();
                // The crawl ignores the feeds of comments on single pages, which have practically
                // no subscribers.
                let is_comments = value("title").is_some_and(|title| title.contains("Comments Feed"));
                let is_feed = is_rel("alternate")
                    && !is_comments
                    && (media_type.contains("rss") || media_type.contains("atom"));
                let is_loaded = is_rel("stylesheet") || is_rel("icon");
                if is_loaded || is_feed {
                    links.extend(value("href"));
                }
            }
            "img" | "script" | "source" => {
                links.extend(value("src"));
                let listed = value("srcset").unwrap_or_default().split(',');
                links.extend(listed.filter_map(|entry| entry.split_whitespace().next()));
            }
            _ => {}
        }
    }
    Some(links.into_iter().map(str::to_owned).collect())
}

/// The value of an attribute of a tag, quoted either way.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}="))?;
    let quote = value.chars().next().filter(|sign| matches!(sign, '"' | '\''))?;
    value.get(1..)?.split(quote).next()
}

fn between_all(text: &str, from: &str, to: &str) -> Vec<String> {
    let found = text.split(from).skip(1).filter_map(|rest| rest.split_once(to));
    found.map(|(found, _)| found.to_owned()).filter(|found| !found.starts_with("data:")).collect()
}
