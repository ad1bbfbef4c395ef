//! The same scripted session of an editor and two visitors in Chromium, directly at WordPress and
//! through the edge. Both runs must show the same pages and leave the same database and uploaded
//! files.
//!
//! Needs the WordPress lab (`cargo xtask lab wordpress up`) and Debian's package chromium. The
//! short form has pretty permalinks and no plugin. `PETASOS_ATTACK=long` runs all four forms.
//!
//! Invariant: each session starts from the same content, and the content is restored afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the figures are a result of the test")]

#[path = "../wordpress/chromium.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;
mod comments;
mod content;
mod posts;
mod rows;
mod screens;
mod session_browser;
#[path = "../wordpress/site.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod site;

use content::SavedContent;
use rows::DatabaseRows;
use session_browser::SessionBrowser;
use site::WordPressLab;
use std::net::SocketAddr;
use testkit::Edge;

/// Smallest number of rows and columns that a session must change. With fewer changes, equal
/// databases prove nothing.
const CHANGES_MIN: usize = 50;

/// The site's setup for a session.
#[derive(Clone, Copy)]
struct SiteSetup {
    name: &'static str,
    has_pretty_permalinks: bool,
    has_plugin: bool,
}

/// All forms. The first one is the short form of the test.
const FORMS: [SiteSetup; 4] = [
    SiteSetup { name: "pretty permalinks, no plugin", has_pretty_permalinks: true, has_plugin: false },
    SiteSetup { name: "pretty permalinks, plugin", has_pretty_permalinks: true, has_plugin: true },
    SiteSetup { name: "plain permalinks, plugin", has_pretty_permalinks: false, has_plugin: true },
    SiteSetup { name: "plain permalinks, no plugin", has_pretty_permalinks: false, has_plugin: false },
];

impl SiteSetup {
    /// Runs the session without Petasos between Chromium and nginx. Returns the resulting content.
    fn straight(self, site: &WordPressLab, content: &SavedContent) -> DatabaseRows {
        content.restore(site, self.has_pretty_permalinks);
        // A plugin without a configured edge sends no purges and records none as failed.
        site.layers(if self.has_plugin { "plugin=on" } else { "" });
        self.hold(site, site.origin);
        content.rows(site)
    }

    /// Runs the session through an edge with default settings, which must detect WordPress. Returns
    /// the resulting content.
    fn through_edge(self, site: &WordPressLab, content: &SavedContent) -> DatabaseRows {
        content.restore(site, self.has_pretty_permalinks);
        let edge = Edge::start(&format!("http://{}", site.origin), &[]);
        let plugin = format!("plugin=on&admin={}", edge.admin);
        site.layers(if self.has_plugin { &plugin } else { "" });
        SessionBrowser::detected(edge.address);
        self.hold(site, edge.address);
        drop(edge);
        content.rows(site)
    }

    fn hold(self, site: &WordPressLab, address: SocketAddr) {
        let mut desk = SessionBrowser::new(address);
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
    let site = WordPressLab::with("");
    let is_long = std::env::var("PETASOS_ATTACK").is_ok_and(|form| form == "long");
    let content = SavedContent::keep(&site);
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
