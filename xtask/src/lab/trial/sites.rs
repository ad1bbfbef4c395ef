//! The sites for trials, and the expected report about each.
//!
//! Invariant: docs/try.md has the table of [`table`].

use super::super::stack::Stack;
use super::super::{applications, drupal, mediawiki, node, wagtail, wordpress};
use super::traces::Content;
use std::fmt;

/// A site of a lab.
pub(super) struct TrialSite {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// The lab.
    pub(super) stack: &'static Stack,
    /// The name of its address in the lab.
    pub(super) address: &'static str,
    /// The path of the start.
    pub(super) path: &'static str,
    /// The log with its requests, below the lab's directory of logs.
    pub(super) log: &'static str,
    /// The content that must be the same afterwards.
    pub(super) content: Content,
    /// The expected result of the command.
    pub(super) expected: Expected,
}

/// The expected result of the command.
pub(super) enum Expected {
    /// It refuses with these words.
    Refused(&'static str),
    /// It reports.
    Report(Statements<'static>),
}

/// The statements of a report, without measured figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statements<'a> {
    /// The names of the found software, separated by commas.
    pub(super) software: &'a str,
    /// The detected profile.
    pub(super) profile: &'a str,
    /// Number of visited pages.
    pub(super) pages: usize,
    /// Pages from memory that are the same.
    pub(super) memory: usize,
    /// Pages that need a setting of Petasos.
    pub(super) setting: usize,
    /// Pages that need a change of the application.
    pub(super) application: usize,
    /// Pages for one visitor.
    pub(super) personal: usize,
    /// The cookie that every visitor gets, or nothing.
    pub(super) cookie: &'a str,
    /// The outcome of the load. Only `made` may have a factor.
    pub(super) load: &'a str,
}

impl fmt::Display for Statements<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { software, profile, pages, memory, setting, application, personal, cookie, load } = self;
        write!(
            to,
            "software \"{software}\", profile {profile}, {pages} pages: {memory} from memory, {setting} by a \
             setting, {application} by the application, {personal} personal; cookie \"{cookie}\", load {load}"
        )
    }
}

/// The sites, those of a lab in a row.
pub(super) const SITES: &[TrialSite] = &[
    TrialSite {
        name: "WordPress 6.1",
        stack: &wordpress::STACK,
        address: "nginx_opcode",
        path: "/",
        log: "access.log",
        // WordPress keeps its transients among the options.
        content: Content::Tables { database: "wordpress", own: &["wp_options"] },
        expected: Expected::Report(Statements {
            software: "WordPress",
            profile: "wordpress",
            pages: 46,
            memory: 46,
            setting: 0,
            application: 0,
            personal: 0,
            cookie: "",
            load: "made",
        }),
    },
    TrialSite {
        name: "MediaWiki 1.39",
        stack: &mediawiki::STACK,
        address: "nginx_objects",
        path: "/",
        log: "access.log",
        content: Content::Tables { database: "wiki", own: &[] },
        expected: Expected::Report(Statements {
            software: "MediaWiki",
            profile: "default",
            pages: 46,
            memory: 46,
            setting: 0,
            application: 0,
            personal: 0,
            cookie: "",
            load: "made",
        }),
    },
    TrialSite {
        name: "Wagtail 7",
        stack: &wagtail::STACK,
        address: "nginx_templates",
        path: "/",
        log: "access.log",
        content: Content::Files(&["data"]),
        expected: Expected::Report(Statements {
            software: "",
            profile: "default",
            pages: 50,
            memory: 0,
            setting: 49,
            application: 0,
            personal: 1,
            cookie: "",
            load: "not-made",
        }),
    },
    TrialSite {
        name: "Drupal 7",
        stack: &drupal::STACK,
        address: "nginx_pages",
        path: "/",
        log: "access.log",
        content: Content::Tables { database: "drupal", own: &["cache_page"] },
        expected: Expected::Report(Statements {
            software: "Drupal",
            profile: "drupal",
            pages: 50,
            memory: 50,
            setting: 0,
            application: 0,
            personal: 0,
            cookie: "",
            load: "made",
        }),
    },
    TrialSite {
        name: "Express on Node.js",
        stack: &node::STACK,
        address: "node",
        path: "/",
        log: "node.log",
        // The content is in the memory of the server, and its forms are sent with POST.
        content: Content::Files(&[]),
        expected: Expected::Report(Statements {
            software: "Express",
            profile: "default",
            pages: 4,
            memory: 4,
            setting: 0,
            application: 0,
            personal: 0,
            cookie: "",
            load: "made",
        }),
    },
    TrialSite {
        name: "MoinMoin 2.0",
        stack: &applications::STACK,
        address: "moin_front",
        path: "/",
        log: "access.log",
        content: Content::Files(&["data/moin"]),
        expected: Expected::Report(Statements {
            software: "MoinMoin",
            profile: "moinmoin",
            pages: 46,
            memory: 0,
            setting: 46,
            application: 0,
            personal: 0,
            cookie: "",
            load: "not-made",
        }),
    },
    TrialSite {
        name: "Django's admin",
        stack: &applications::STACK,
        address: "django",
        path: "/admin/",
        log: "access.log",
        content: Content::Files(&["data/django.sqlite3"]),
        expected: Expected::Refused("which is not visited (administration or editor)"),
    },
    TrialSite {
        name: "the log-in form of Django's admin",
        stack: &applications::STACK,
        address: "django",
        path: "/admin/login/?next=/admin/",
        log: "access.log",
        content: Content::Files(&["data/django.sqlite3"]),
        expected: Expected::Report(Statements {
            software: "Django",
            profile: "default",
            pages: 1,
            memory: 0,
            setting: 0,
            application: 0,
            personal: 1,
            cookie: "",
            load: "not-made",
        }),
    },
    TrialSite {
        name: "a static directory in nginx",
        stack: &applications::STACK,
        address: "static",
        path: "/",
        log: "access.log",
        content: Content::Files(&["static"]),
        expected: Expected::Report(Statements {
            software: "",
            profile: "default",
            pages: 4,
            memory: 0,
            setting: 4,
            application: 0,
            personal: 0,
            cookie: "",
            load: "not-made",
        }),
    },
    TrialSite {
        name: "Flask with a session for everybody",
        stack: &applications::STACK,
        address: "flask",
        path: "/",
        log: "gunicorn-flask.log",
        content: Content::Files(&[]),
        expected: Expected::Report(Statements {
            software: "",
            profile: "default",
            pages: 11,
            memory: 0,
            setting: 0,
            application: 0,
            personal: 11,
            cookie: "session",
            load: "not-made",
        }),
    },
    TrialSite {
        name: "PHP with a session for everybody",
        stack: &applications::STACK,
        address: "php",
        path: "/",
        log: "access.log",
        content: Content::Files(&[]),
        expected: Expected::Report(Statements {
            software: "PHP",
            profile: "default",
            pages: 11,
            memory: 0,
            setting: 0,
            application: 0,
            personal: 11,
            cookie: "PHPSESSID",
            load: "not-made",
        }),
    },
    TrialSite {
        name: "Flask that answers 500 under load",
        stack: &applications::STACK,
        address: "failing",
        path: "/",
        log: "gunicorn-failing.log",
        content: Content::Files(&[]),
        expected: Expected::Report(Statements {
            software: "",
            profile: "default",
            pages: 4,
            memory: 4,
            setting: 0,
            application: 0,
            personal: 0,
            cookie: "",
            load: "gave-in",
        }),
    },
];

/// The table of docs/try.md.
#[cfg(test)]
fn table() -> String {
    let mut lines = vec![
        "| site | software found | pages | from memory | by a setting | by the application | personal | \
         cookie for everybody | load |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    for site in SITES {
        lines.push(match &site.expected {
            Expected::Refused(words) => {
                format!("| {} | refused: the start redirects to a page {words} | | | | | | | |", site.name)
            }
            Expected::Report(of) => format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                site.name,
                or_none(of.software),
                of.pages,
                of.memory,
                of.setting,
                of.application,
                of.personal,
                or_none(of.cookie),
                of.load
            ),
        });
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn document_has_the_table_of_the_sites() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/try.md"));
        let table = table();
        assert!(page.contains(&table), "docs/try.md needs this table:\n{table}");
    }
}
