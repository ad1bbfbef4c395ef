//! What a web server needs to be told to serve the tree: rules for nginx, Apache and lighttpd.
//!
//! A file is sent for GET and HEAD of a target without query, if host and path are spelled as the tree spells them, and
//! the request has neither credentials nor a cookie that may change the page. Everything else goes on as if the rules
//! were not there. The coded file counts only beside the plain one, which comes last and goes first.
//!
//! Invariant: what the rules look up for a target is where [`Layout`] puts its page.

mod apache;
mod cookies;
mod lighttpd;
mod nginx;

use crate::Layout;
use crate::path::PUNCTUATION;
use profiles::Policy;
use std::path::Path;

/// A web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// nginx 1.18 or newer.
    Nginx,
    /// Apache 2.4.
    Apache,
    /// lighttpd 1.4.60 or newer, with its module magnet.
    Lighttpd,
}

/// What the rules depend on.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    layout: Layout,
    directory: &'a str,
    policy: &'a Policy,
}

/// A directory that cannot stand in a server's configuration as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory must be an absolute path of letters, digits, `/`, `.`, `_` and `-`")]
pub struct BadDirectory;

impl Server {
    /// All servers.
    pub const ALL: [Self; 3] = [Self::Nginx, Self::Apache, Self::Lighttpd];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Lighttpd => "lighttpd",
        }
    }
}

impl<'a> Rules<'a> {
    /// Rules for a tree in `directory`; the policy says which cookies may change a page.
    ///
    /// # Errors
    /// [`BadDirectory`].
    pub fn new(layout: Layout, directory: &'a Path, policy: &'a Policy) -> Result<Self, BadDirectory> {
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"/._-".contains(&octet);
        let text = directory.to_str().filter(|text| text.starts_with('/') && text.bytes().all(is_plain));
        let directory = text.map(|text| text.trim_end_matches('/')).filter(|text| !text.is_empty());
        Ok(Self { layout, directory: directory.ok_or(BadDirectory)?, policy })
    }

    /// The rules of a server.
    pub fn text(&self, server: Server) -> String {
        match server {
            Server::Nginx => nginx::text(self),
            Server::Apache => apache::text(self),
            Server::Lighttpd => lighttpd::text(self),
        }
    }

    /// Whether only targets that end with a slash are pages.
    const fn wants_slash(&self) -> bool {
        matches!(self.layout, Layout::WpSuperCache | Layout::CacheEnabler)
    }

    /// A regular expression for targets as visitors send them, without anchors.
    fn target_regex(&self) -> String {
        let segment = format!("/(?![.])(?:[A-Za-z0-9{PUNCTUATION}]|%[89A-Fa-f][0-9A-Fa-f])+");
        format!("(?:{segment})*/{}", if self.wants_slash() { "" } else { "?" })
    }
}

/// A regular expression for hosts, in lower case and without port.
const HOST_REGEX: &str = "[a-z0-9_-]+(?:[.][a-z0-9_-]+)*";

/// A regular expression for an `Accept-Encoding` that takes a coding, in any case.
fn accepts_regex(coding: &str) -> String {
    format!("(?:^|,)[ \\t]*{coding}[ \\t]*(?:;[ \\t]*q=(?:1[.0]*|0?[.][0-9]*[1-9][0-9]*)[ \\t]*)?(?:,|$)")
}

/// What the answers say beside type and coding: each use is to be validated, for nobody tells a browser of a purge.
const CACHE_CONTROL: &str = "no-cache";

#[cfg(test)]
mod tests {
    use super::{BadDirectory, Rules, Server};
    use crate::Layout;
    use profiles::Policy;
    use std::path::Path;

    #[test]
    fn directories_are_printed_as_they_are_or_not_at_all() {
        let policy = Policy::default_profile();
        let rules = |directory| Rules::new(Layout::Typo3, Path::new(directory), &policy);
        for bad in ["tree", "/", "/a b", "/a\"b", "/a$b", "/a\nb", ""] {
            assert_eq!(rules(bad).unwrap_err(), BadDirectory, "{bad}");
        }
        for server in Server::ALL {
            let text = rules("/srv/tree/").unwrap().text(server);
            assert!(text.contains("/srv/tree") && !text.contains("/srv/tree//"), "{text}");
        }
    }
}
