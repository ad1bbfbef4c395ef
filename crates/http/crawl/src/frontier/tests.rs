//! Tests of the frontier: visits of simulated sites with pages as the usual systems make them.

use super::{
    Frontier, FrontierError, FrontierLimits, FrontierState, PageHints, PageSource, PlannedPage,
    RESTRICTED_PER_PATH_MAX,
};
use crate::{LinkRule, Robots, Scope, SitemapEntry, SkipCause};
use page::document_links;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use resource::PageLimits;
use std::cell::Cell;
use std::collections::BTreeSet;
use url::Url;

fn frontier_with(robots: &str, limits: FrontierLimits) -> Frontier {
    let scope = Scope::new(&Url::parse("http://h/").unwrap(), false);
    let mut frontier = Frontier::new(scope, Robots::parse(robots.as_bytes(), "petasos"), limits);
    frontier.add_start();
    frontier
}

fn frontier() -> Frontier {
    frontier_with("", FrontierLimits::TRY)
}

fn read(frontier: &mut Frontier, page: &PlannedPage, html: &str) {
    let found = document_links(html.as_bytes(), &page.url, "petasos", &PageLimits::DEFAULT);
    frontier.add_document(page, &found, false);
    frontier.finished(page);
}

/// Visits the whole site; `html` gives the document of a path with query.
fn visited(frontier: &mut Frontier, html: impl Fn(&str) -> String) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(page) = frontier.next_page() {
        let target = page.url.as_str().trim_start_matches("http://h").to_owned();
        read(frontier, &page, &html(&target));
        order.push(target);
    }
    order
}

fn links(targets: &[&str]) -> String {
    targets.iter().map(|target| format!("<a href='{target}'>x</a>")).collect()
}

fn count(frontier: &Frontier, rule: LinkRule) -> u64 {
    frontier.skipped().of(SkipCause::Rule(rule))
}

#[test]
fn each_page_is_visited_once_breadth_first() {
    let mut frontier = frontier();
    let order = visited(&mut frontier, |target| match target {
        "/" => links(&["/b", "/a#x", "/a", "/%61", "/?utm_source=x", "//h/b", "http://H:80/c?"]),
        "/b" => links(&["/deep", "/a", "/"]),
        _ => String::new(),
    });
    assert_eq!(order, ["/", "/a", "/b", "/c", "/deep"], "/a has the most links");
    assert_eq!((frontier.handed(), frontier.waiting()), (5, 0));
}

#[test]
fn wordpress_shop_is_visited_without_its_actions() {
    let front = r#"<html><head><title>Shop</title>
<link rel="canonical" href="http://h/" /><link rel='shortlink' href='http://h/' />
<link rel="alternate" type="application/rss+xml" title="Feed" href="http://h/feed/" />
<link rel="https://api.w.org/" href="http://h/wp-json/" />
<link rel="alternate" title="JSON" type="application/json" href="http://h/wp-json/wp/v2/pages/5" />
<link rel="EditURI" type="application/rsd+xml" title="RSD" href="http://h/xmlrpc.php?rsd" /></head><body>
<nav><a href="http://h/shop/">Shop</a><a href="http://h/hello-world/">Hello</a><a href="http://h/my-account/">A</a></nav>
<a href="?add-to-cart=12" data-quantity="1" class="button add_to_cart_button ajax_add_to_cart" rel="nofollow">Add</a>
<a href="?add-to-cart=13" class="button add_to_cart_button" rel="nofollow">Add</a>
<a href="/?add_to_wishlist=12&_wpnonce=ab">Wish</a>
<a href="http://h/my-account/customer-logout/?_wpnonce=8a">Log out</a>
<a href="http://h/wp-login.php?action=logout&#038;_wpnonce=8a">Log out</a>
<a href="http://h/wp-admin/">Admin</a><a href="http://h/wp-login.php">Log in</a>
<a href="/product-category/shirts/?orderby=price">p</a><a href="/product-category/shirts/?orderby=date">d</a>
<a href="/product-category/shirts/?orderby=rating">r</a><a href="/product-category/shirts/?min_price=5">m</a>
<a rel='nofollow' class='comment-reply-link' href='http://h/hello-world/?replytocom=2#respond'>Reply</a>
<a href="http://h/?share=twitter">Share</a><a href="/wp-content/uploads/a.pdf">PDF</a>
<a href="https://other.test/">Other</a><a href="mailto:a@b">Mail</a></body></html>"#;
    let mut frontier = frontier();
    let order = visited(&mut frontier, |target| if target == "/" { front.to_owned() } else { String::new() });
    let pages: BTreeSet<&str> = order.iter().map(String::as_str).collect();
    let expected = [
        "/",
        "/hello-world/",
        "/my-account/",
        "/product-category/shirts/?orderby=date",
        "/product-category/shirts/?orderby=price",
        "/shop/",
    ];
    assert_eq!(pages.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!((count(&frontier, LinkRule::Cart), count(&frontier, LinkRule::LogOut)), (2, 2));
    assert_eq!((frontier.skipped().of(SkipCause::Sorted), frontier.skipped().of(SkipCause::Foreign)), (2, 1));
    assert_eq!((count(&frontier, LinkRule::Wishlist), count(&frontier, LinkRule::Reply)), (1, 1));
}

#[test]
fn mediawiki_is_visited_without_its_traps() {
    let article = |title: &str| {
        format!(
            r#"<a href="/index.php/A">A</a><a href="/index.php/B">B</a>
<a href="/index.php?title={title}&amp;action=edit">Edit</a><a href="/index.php?title={title}&amp;action=history">H</a>
<a href="/index.php?title={title}&amp;oldid=7">Permanent</a><a href="/index.php/Special:UserLogout">Log out</a>
<a href="/index.php/Special:RecentChanges">Recent</a><a href="/index.php?title=Special:WhatLinksHere/{title}">L</a>
<a href="/index.php?title={title}&amp;printable=yes">Print</a>
<a href="/index.php?title=New&amp;action=edit&amp;redlink=1" class="new">New</a>"#
        )
    };
    let mut frontier = frontier();
    let order = visited(&mut frontier, |target| article(target.rsplit('/').next().unwrap()));
    assert_eq!(order, ["/", "/index.php/A", "/index.php/B"]);
    assert_eq!((count(&frontier, LinkRule::Action), count(&frontier, LinkRule::OldVersion)), (7, 3));
}

#[test]
fn drupal_and_typo3_pages_are_visited_without_actions() {
    let front = r#"<a href="/node/5">5</a><a href="/node/5/edit">E</a><a href="/node/5/delete">D</a>
<a href="/user/logout">L</a><a href="/comment/reply/node/5/comment">R</a><a href="/node/5/revisions">V</a>
<a href="/flag/flag/like/5?destination=node/5&token=x">F</a>
<a href="/index.php?id=7&amp;L=1">7</a><a href="/typo3/">B</a>
<a href="/news?tx_news_pi1%5Baction%5D=detail&amp;tx_news_pi1%5Bnews%5D=3&amp;cHash=ab">N</a>
<a href="/felogin?logintype=logout">out</a><a href="/x" data-method="delete">x</a><a href="/y" onclick="return confirm('y')">y</a>"#;
    let mut frontier = frontier();
    let order = visited(&mut frontier, |_| front.to_owned());
    let expected = [
        "/",
        "/node/5",
        "/news?tx_news_pi1%5Baction%5D=detail&tx_news_pi1%5Bnews%5D=3&cHash=ab",
        "/index.php?id=7&L=1",
    ];
    assert_eq!(order.iter().collect::<BTreeSet<_>>(), expected.map(str::to_owned).iter().collect());
    assert_eq!((count(&frontier, LinkRule::LogOut), frontier.skipped().of(SkipCause::Scripted)), (2, 2));
}

#[test]
fn robots_and_nofollow_are_obeyed() {
    let mut frontier = frontier_with("User-agent: *\nDisallow: /private", FrontierLimits::TRY);
    let order = visited(&mut frontier, |target| match target {
        "/" => links(&["/private/a", "/open", "/closed"]) + "<a rel=nofollow href=/n>",
        "/open" => "<meta name=robots content=nofollow><a href=/hidden>".to_owned(),
        _ => String::new(),
    });
    assert_eq!(order, ["/", "/open", "/closed"]);
    assert_eq!(
        (frontier.skipped().of(SkipCause::Robots), frontier.skipped().of(SkipCause::Nofollow)),
        (1, 2)
    );
    let scope = Scope::new(&Url::parse("http://h/").unwrap(), false);
    let mut closed = Frontier::new(scope, Robots::unreachable(), FrontierLimits::TRY);
    assert_eq!(closed.add_start(), Some(SkipCause::Robots));
    assert_eq!(closed.next_page(), None);
}

#[test]
fn header_field_nofollow_counts_like_the_document() {
    let mut frontier = frontier();
    let page = frontier.next_page().unwrap();
    let found = document_links(b"<a href=/a>", &page.url, "petasos", &PageLimits::DEFAULT);
    frontier.add_document(&page, &found, true);
    assert_eq!(frontier.next_page(), None);
}

#[test]
fn ten_thousand_posts_do_not_hide_the_shop() {
    let posts: String = (0..9_000).map(|number| format!("<a href='/blog/{number}'>x</a>")).collect();
    let mut frontier = frontier();
    let order = visited(&mut frontier, |target| match target {
        "/" => format!("{posts}<a href=/shop/>"),
        "/shop/" => links(&["/shop/a", "/shop/b", "/shop/c"]),
        _ => String::new(),
    });
    assert_eq!(order.len(), 50);
    assert_eq!(order.iter().filter(|target| target.starts_with("/shop")).count(), 4, "{order:?}");
    assert!(frontier.waiting() <= FrontierLimits::TRY.queued_max);
    assert!(frontier.skipped().of(SkipCause::QueueFull) > 3_000);
}

#[test]
fn endless_links_end_at_the_limits() {
    let limits = FrontierLimits { pages_max: 500, queued_max: 100, depth_max: 8 };
    let mut deep = frontier_with("", limits);
    // A relative link that lengthens itself, a calendar and a filter without end.
    let order = visited(&mut deep, |target| {
        let page = target.len() * 7 + target.matches('1').count();
        format!(
            "<a href='more/'><a href='/events/2024-{page:02}'><a href='/list?sort={page}'><a href='/p/{page}x'>"
        )
    });
    assert!(order.len() < 200, "{} {order:?}", order.len());
    let of = |start: &str| order.iter().filter(|target| target.starts_with(start)).count();
    assert_eq!((of("/events/2024"), of("/list")), (2, 2));
    assert!(order.iter().all(|target| target.matches("more/").count() <= 2));
    // Each page has a link to a new one, ever farther from the start.
    let mut far = frontier_with("", limits);
    let next = Cell::new(0);
    let order = visited(&mut far, |_| {
        next.set(next.get() + 1);
        format!("<a href='/x{}'>", next.get())
    });
    assert_eq!((order.len(), far.skipped().of(SkipCause::Depth)), (9, 1));
}

#[test]
fn calendar_pages_are_bounded_for_each_path() {
    let mut frontier = frontier_with("", FrontierLimits { pages_max: 1_000, ..FrontierLimits::TRY });
    let order = visited(&mut frontier, |target| {
        match target {
        "/" => (1..30)
            .map(|day| {
                format!("<a href='/kalender/2024-05-{day:02}/'><a href='/?month={day}'><a href='/2024/{day:02}/post'>")
            })
            .collect(),
        _ => String::new(),
    }
    });
    let of = |start: &str| order.iter().filter(|target| target.starts_with(start)).count();
    let bound = RESTRICTED_PER_PATH_MAX as usize;
    assert_eq!((of("/kalender"), of("/?month"), of("/2024/")), (bound, bound, 29));
    assert_eq!(frontier.skipped().of(SkipCause::Calendar), 2 * (29 - bound as u64));
}

#[test]
fn rules_depend_on_the_source() {
    for (target, operator, sitemap, link) in [
        ("/page", true, true, true),
        ("/user/logout", false, false, false),
        ("/?add-to-cart=1", false, false, false),
        ("/wp-login.php", true, false, false),
        ("/feed/", true, false, false),
        ("/a/b/c/a/b/c/a/b/c", true, true, false),
        ("/search?query=x", true, true, false),
    ] {
        for (source, expected) in
            [(PageSource::Operator, operator), (PageSource::Sitemap, sitemap), (PageSource::Link, link)]
        {
            let refused = frontier().add_text(target, source, PageHints::default());
            assert_eq!(refused.is_none(), expected, "{target} {source:?}");
        }
    }
    let mut frontier = frontier();
    assert_eq!(
        frontier.add_text("https://h/x", PageSource::Operator, PageHints::default()),
        Some(SkipCause::Foreign)
    );
}

#[test]
fn redirect_to_an_action_is_not_followed() {
    let mut frontier = frontier();
    let page = frontier.next_page().unwrap();
    assert_eq!(frontier.add_redirect(&page, "/user/logout"), Some(SkipCause::Rule(LinkRule::LogOut)));
    assert_eq!(frontier.add_redirect(&page, "https://h/"), Some(SkipCause::Foreign));
    assert_eq!(frontier.add_redirect(&page, "http://[::"), Some(SkipCause::Malformed));
    assert_eq!(frontier.add_redirect(&page, "/de/"), None);
    assert_eq!(frontier.add_redirect(&page, "/"), None, "a page that was visited is not visited again");
    assert_eq!(frontier.next_page().unwrap().url.path(), "/de/");
    assert_eq!(frontier.next_page(), None);
}

#[test]
fn sitemap_entries_are_ordered_by_priority() {
    let mut frontier = frontier_with("", FrontierLimits::WARM);
    frontier.next_page();
    for (url, priority_permille) in
        [("/low", Some(100)), ("/plain", None), ("http://h/high", Some(900)), ("http://o/", None)]
    {
        frontier.add_entry(&SitemapEntry { url: url.to_owned(), priority_permille, modified: None }, 0);
    }
    let order: Vec<String> =
        std::iter::from_fn(|| frontier.next_page()).map(|page| page.url.path().to_owned()).collect();
    assert_eq!(order, ["/high", "/plain", "/low"]);
    assert_eq!(frontier.skipped().of(SkipCause::Foreign), 1);
}

fn resumed(state: FrontierState, limits: FrontierLimits) -> Result<Frontier, FrontierError> {
    let scope = Scope::new(&Url::parse("http://h/").unwrap(), false);
    Frontier::resume(scope, Robots::allow_all(), limits, state)
}

#[test]
fn states_of_other_sites_and_formats_are_refused() {
    let state = frontier().state();
    let other = FrontierState { start: "http://o/".to_owned(), ..state.clone() };
    assert!(matches!(resumed(other, FrontierLimits::TRY), Err(FrontierError::OtherSite { .. })));
    let later = FrontierState { format: 9, ..state };
    assert_eq!(resumed(later, FrontierLimits::TRY).unwrap_err(), FrontierError::Format(9));
}

#[test]
fn changed_state_cannot_bring_in_actions() {
    let text = serde_json::to_string(&frontier().state()).unwrap();
    let text = text.replace(
        "\"url\":\"http://h/\",\"depth\":0,\"source\":\"Start\"",
        "\"url\":\"/user/logout\",\"depth\":0,\"source\":\"Link\"",
    );
    assert!(text.contains("logout"));
    let mut frontier = resumed(serde_json::from_str(&text).unwrap(), FrontierLimits::TRY).unwrap();
    assert_eq!(frontier.next_page(), None);
}

/// A site whose pages link to others by arithmetic.
fn arithmetic(target: &str) -> String {
    let seed = target.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    (0..6)
        .map(|link| {
            let number = seed.rotate_left(link * 5) % 40;
            let part = ["", "blog/", "shop/", "2024/"][(number % 4) as usize];
            format!("<a href='/{part}p{number}?{}'>", if number % 7 == 0 { "sort=a" } else { "" })
        })
        .collect()
}

proptest! {
    #[test]
    fn interrupted_visit_goes_on_in_the_same_order(stop_at in 0_usize..30, loses_page in any::<bool>()) {
        let limits = FrontierLimits { pages_max: 40, ..FrontierLimits::TRY };
        let whole = visited(&mut frontier_with("", limits), arithmetic);
        let mut first = frontier_with("", limits);
        let mut order = Vec::new();
        for _ in 0..stop_at {
            let Some(page) = first.next_page() else { break };
            let target = page.url.as_str().trim_start_matches("http://h").to_owned();
            read(&mut first, &page, &arithmetic(&target));
            order.push(target);
        }
        let lost = if loses_page { first.next_page() } else { None };
        let text = serde_json::to_string(&first.state()).unwrap();
        let mut second = resumed(serde_json::from_str(&text).unwrap(), limits).unwrap();
        order.extend(visited(&mut second, arithmetic));
        let pages = |order: &[String]| order.iter().cloned().collect::<BTreeSet<_>>();
        prop_assert_eq!(pages(&order).len(), order.len(), "no page twice");
        if lost.is_none() {
            prop_assert_eq!(&order, &whole);
        }
        prop_assert_eq!(order.len(), whole.len());
    }

    #[test]
    fn any_links_keep_the_limits(
        targets in prop::collection::vec("[a-z0-9/?=&.]{0,12}", 0..60),
        pages_max in 1_usize..20,
        queued_max in 1_usize..20,
    ) {
        let mut frontier = frontier_with("", FrontierLimits { pages_max, queued_max, depth_max: 3 });
        let mut handed = BTreeSet::new();
        while let Some(page) = frontier.next_page() {
            prop_assert!(handed.insert(page.url.clone()), "{} twice", page.url);
            prop_assert!(page.depth <= 3);
            let html: String = targets.iter().map(|target| format!("<a href='{target}'>")).collect();
            read(&mut frontier, &page, &html);
            prop_assert!(frontier.waiting() <= queued_max);
        }
        prop_assert!(handed.len() <= pages_max);
    }
}
