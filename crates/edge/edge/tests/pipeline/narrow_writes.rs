//! A write invalidates the pages that its response names at once, and refreshes the rest of the
//! site in the background.

use crate::support::{Stage, reason};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Seen, response};

const EDITOR: &str = "Cookie: wordpress_logged_in_0a=1";
const POSTS: usize = 20;

/// A blog whose pages contain the number of writes so far.
#[derive(Clone, Default)]
struct Blog {
    writes: Arc<AtomicUsize>,
    short_links: bool,
}

impl Blog {
    fn stage(self) -> Stage {
        self.stage_with(|_| {})
    }

    fn stage_with(self, change: impl FnOnce(&mut config::EdgePlan)) -> Stage {
        let wordpress = |plan: &mut config::EdgePlan| {
            plan.sites.iter_mut().for_each(|site| site.policy = profiles::Policy::wordpress());
            change(plan);
        };
        Stage::with(wordpress, move |seen| self.answer(seen))
    }

    fn answer(&self, seen: &Seen) -> Vec<Action> {
        let target = seen.target();
        if seen.head.starts_with("GET") && !target.starts_with("/wp-admin/") {
            let state = self.writes.load(Ordering::SeqCst);
            let text = format!("{target} {state}");
            let number = target.strip_prefix("/post-").map(|rest| rest.split('/').next().unwrap_or_default());
            let link = number.map(|number| format!("Link: <http://example.test/?p={number}>; rel=shortlink"));
            let link = link.iter().map(String::as_str).filter(|_| self.short_links);
            let fields: Vec<&str> = link.chain(["Content-Type: text/html"]).collect();
            return response("200 OK", &fields, text.as_bytes());
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        match target {
            "/wp-comments-post.php" => {
                response("302 Found", &["Location: http://example.test/post-3/#comment-9"], b"")
            }
            target if target.starts_with("/wp-admin/post.php") => {
                let saved = "Location: http://example.test/wp-admin/post.php?post=3&action=edit&message=1";
                response("302 Found", &[saved], b"")
            }
            _ => {
                let content = match target.rsplit('/').next() {
                    Some("trash") => {
                        r#"{"id":3,"status":"trash","type":"post","link":"http:\/\/example.test\/?p=3"}"#
                    }
                    _ => {
                        r#"{"id":3,"status":"publish","type":"post","link":"http:\/\/example.test\/post-3\/"}"#
                    }
                };
                let fields = [
                    "Content-Type: application/json; charset=UTF-8",
                    "X-WP-Nonce: 0a1b2c3d4e",
                    "Cache-Control: no-cache, must-revalidate, max-age=0",
                ];
                response("200 OK", &fields, content.as_bytes())
            }
        }
    }
}

fn blog() -> Stage {
    Blog { short_links: true, ..Blog::default() }.stage()
}

fn posts() -> impl Iterator<Item = String> {
    (0..POSTS).map(|number| format!("/post-{number}/"))
}

fn lists() -> [&'static str; 6] {
    ["/", "/feed/", "/news/", "/category/a/", "/2026/11/", "/page/2/"]
}

fn visit(stage: &Stage) {
    posts().for_each(|target| drop(stage.get(&target, &[])));
    lists().iter().for_each(|target| drop(stage.get(target, &[])));
}

fn save(stage: &Stage, target: &str) {
    stage.ask("POST", target, &["Content-Length: 0", EDITOR]);
}

#[test]
fn save_invalidates_its_post_and_lists_and_no_other_post() {
    for request in [
        "/wp-json/wp/v2/posts/3",
        "/wp-json/wp/v2/posts/trash",
        "/wp-admin/post.php",
        "/?rest_route=/wp/v2/posts/3",
    ] {
        let stage = blog();
        visit(&stage);
        stage.get("/post-3/feed/", &[]);
        save(&stage, request);
        let hits = posts().filter(|target| reason(&stage.get(target, &[])) == "hit-fresh").count();
        assert_eq!(hits, POSTS - 1, "{request}");
        for target in ["/post-3/", "/post-3/feed/"].iter().chain(&lists()) {
            assert_eq!(stage.get(target, &[]).text(), format!("{target} 1"), "{request}");
        }
        assert_eq!(stage.metric("petasos_purges_by_writes_total", ""), 1);
    }
}

#[test]
fn other_posts_are_refreshed_in_the_background_after_a_save() {
    let stage = blog();
    visit(&stage);
    save(&stage, "/wp-json/wp/v2/posts/3");
    stage.pass(10);
    for target in posts().filter(|target| target != "/post-3/") {
        let answer = stage.get(&target, &[]);
        assert_eq!((answer.text(), reason(&answer)), (&format!("{target} 0")[..], "stale-while-revalidate"));
    }
    stage.await_quiet();
    for target in posts() {
        assert_eq!(stage.get(&target, &[]).text(), format!("{target} 1"));
    }
}

#[test]
fn save_invalidates_all_pages_without_short_links() {
    let stage = Blog::default().stage();
    visit(&stage);
    save(&stage, "/wp-json/wp/v2/posts/3");
    for target in posts().chain(lists().iter().map(|list| (*list).to_owned())) {
        assert_eq!(stage.get(&target, &[]).text(), format!("{target} 1"));
    }
}

#[test]
fn comment_invalidates_its_page_and_feeds_and_later_lists() {
    for short_links in [true, false] {
        let stage = Blog { short_links, ..Blog::default() }.stage();
        visit(&stage);
        stage.get("/post-3/feed/", &[]);
        stage.ask("POST", "/wp-comments-post.php", &["Content-Length: 0"]);
        for target in ["/post-3/", "/post-3/feed/", "/", "/feed/"] {
            assert_eq!(stage.get(target, &[]).text(), format!("{target} 1"), "{short_links}");
        }
        assert_eq!(reason(&stage.get("/post-4/", &[])), "hit-fresh");
        assert_eq!(reason(&stage.get("/category/a/", &[])), "hit-fresh");
        stage.pass(10);
        assert_eq!(reason(&stage.get("/category/a/", &[])), "stale-while-revalidate");
        stage.await_quiet();
        assert_eq!(stage.get("/category/a/", &[]).text(), "/category/a/ 1");
    }
}

#[test]
fn save_does_not_invalidate_posts_of_another_host() {
    let stage = blog();
    let other = |stage: &Stage, target: &str| {
        let mut client = crate::support::connect(&stage.edge);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: other.test\r\n\r\n"));
        client.read()
    };
    for target in ["/post-3/", "/"] {
        other(&stage, target);
    }
    save(&stage, "/wp-json/wp/v2/posts/3");
    for target in ["/post-3/", "/"] {
        assert_eq!(reason(&other(&stage, target)), "hit-fresh", "{target}");
    }
}

#[test]
fn saves_every_second_do_not_postpone_the_refresh() {
    let stage = blog();
    visit(&stage);
    let mut refreshed = false;
    for _ in 0..25 {
        save(&stage, "/wp-json/wp/v2/posts/3");
        stage.pass(1);
        refreshed |= reason(&stage.get("/post-4/", &[])) == "stale-while-revalidate";
    }
    assert!(refreshed, "a page that is asked for each second was not refreshed within 25 seconds of saves");
}

#[test]
fn save_removes_all_files_of_the_static_tree() {
    let directory = tempfile::tempdir().unwrap();
    let with_tree = |plan: &mut config::EdgePlan| {
        plan.static_tree = Some(config::StaticTreePlan {
            directory: directory.path().to_owned(),
            pages_max: 100,
            bytes_max: 1 << 20,
        });
        plan.sites.iter_mut().for_each(|site| {
            site.names = vec!["example.test".to_owned()];
            site.static_tree_layout = Some("typo3".to_owned());
        });
    };
    let stage = Blog { short_links: true, ..Blog::default() }.stage_with(with_tree);
    stage.get("/post-4/", &[]);
    testkit::eventually("the page is a file", || stage.metric("petasos_static_tree_pages", "") == 1);
    save(&stage, "/wp-json/wp/v2/posts/3");
    assert_eq!(stage.metric("petasos_static_tree_pages", ""), 0);
    assert_eq!(stage.get("/post-4/", &[]).text(), "/post-4/ 1");
}
