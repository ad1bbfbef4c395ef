//! One scripted session of an editor and two visitors in Chromium, straight at WordPress and through the edge: both
//! must see the same, and both must leave the same database and the same uploaded files.
//!
//! Needs the WordPress lab (`cargo xtask lab wordpress up`) and Debian's package chromium. The short form has pretty
//! permalinks and no plugin. `PETASOS_ATTACK=long` takes all four forms.
//!
//! Invariant: each session starts from the same content, and the content is put back afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[path = "../wordpress/chromium.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;
mod comments;
mod content;
mod desk;
mod posts;
mod rows;
mod screens;
#[path = "../wordpress/site.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod site;

use content::Content;
use desk::Desk;
use rows::Rows;
use site::Site;
use std::net::SocketAddr;
use testkit::Edge;

/// Rows and columns that a session changes at least: with fewer, equal databases prove nothing.
const CHANGES_MIN: usize = 50;

/// How the site is set up for a session.
#[derive(Clone, Copy)]
struct Form {
    name: &'static str,
    has_pretty_permalinks: bool,
    has_plugin: bool,
}

/// All forms; the first is the short form of the test.
const FORMS: [Form; 4] = [
    Form { name: "pretty permalinks, no plugin", has_pretty_permalinks: true, has_plugin: false },
    Form { name: "pretty permalinks, plugin", has_pretty_permalinks: true, has_plugin: true },
    Form { name: "plain permalinks, plugin", has_pretty_permalinks: false, has_plugin: true },
    Form { name: "plain permalinks, no plugin", has_pretty_permalinks: false, has_plugin: false },
];

impl Form {
    /// The session without Petasos between Chromium and nginx. Returns what it left.
    fn straight(self, site: &Site, content: &Content) -> Rows {
        content.restore(site, self.has_pretty_permalinks);
        // With a plugin that has no edge, nothing is purged and nothing of that is written down.
        site.layers(if self.has_plugin { "plugin=on" } else { "" });
        self.hold(site, site.origin);
        content.rows(site)
    }

    /// The session through an edge with default settings, which detects WordPress by itself. Returns what it left.
    fn through_edge(self, site: &Site, content: &Content) -> Rows {
        content.restore(site, self.has_pretty_permalinks);
        let edge = Edge::start(&format!("http://{}", site.origin), &[]);
        let plugin = format!("plugin=on&admin={}", edge.admin);
        site.layers(if self.has_plugin { &plugin } else { "" });
        Desk::detected(edge.address);
        self.hold(site, edge.address);
        drop(edge);
        content.rows(site)
    }

    fn hold(self, site: &Site, address: SocketAddr) {
        let mut desk = Desk::new(address);
        desk.log_in("admin", site.password());
        let post = desk.write_edit_trash_and_restore();
        desk.upload(site);
        desk.change_widgets();
        desk.change_menu();
        desk.change_and_reset_template(&post);
        desk.comment_and_approve(&post);
        desk.protect_by_password();
        desk.sign_out();
    }
}

#[test]
fn edge_leaves_the_database_as_sessions_without_it_do() {
    let site = Site::with("");
    let is_long = std::env::var("PETASOS_ATTACK").is_ok_and(|form| form == "long");
    let content = Content::keep(&site);
    let before = content.rows(&site);
    for form in FORMS.iter().take(if is_long { FORMS.len() } else { 1 }) {
        let without = form.straight(&site, &content);
        let changes = before.differences(&without).len();
        assert!(changes >= CHANGES_MIN, "the session without the edge left only {changes} changes");
        let through = form.through_edge(&site, &content);
        let differences = without.differences(&through);
        println!("attack: WordPress session, {}: {} differences of at most 0", form.name, differences.len());
        assert!(differences.is_empty(), "{}:\n{}", form.name, differences.join("\n"));
    }
}
