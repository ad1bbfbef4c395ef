//! Configuration with which nginx, Apache and lighttpd serve the tree.
//!
//! The server sends a file for GET and HEAD of a target without query, under two conditions. Host
//! and path are spelled as in the tree. The request has neither credentials nor a cookie that may
//! change the page. All other requests are handled as without the rules. A coded file is used only
//! if the plain file exists, because the plain file is created last and removed first.
//!
//! Invariant: the path that the rules look up for a target is the place where [`Layout`] puts its
//! page.

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
pub enum ServerProgram {
    /// nginx 1.18 or newer.
    Nginx,
    /// Apache 2.4.
    Apache,
    /// lighttpd 1.4.60 or newer, with its module magnet.
    Lighttpd,
}

/// The inputs of the rules.
#[derive(Clone, Copy, Debug)]
pub struct RuleInputs<'a> {
    layout: Layout,
    directory: &'a str,
    policy: &'a Policy,
}

/// A directory whose name would need quoting in a server's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory must be an absolute path of letters, digits, `/`, `.`, `_` and `-`")]
pub struct BadDirectory;

impl ServerProgram {
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

impl<'a> RuleInputs<'a> {
    /// Rules for a tree in `directory`. `policy` determines which cookies may change a page.
    ///
    /// # Errors
    /// [`BadDirectory`] unless the directory is an absolute path of letters, digits, `/`, `.`, `_`
    /// and `-`.
    pub fn new(layout: Layout, directory: &'a Path, policy: &'a Policy) -> Result<Self, BadDirectory> {
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"/._-".contains(&octet);
        let text = directory.to_str().filter(|text| text.starts_with('/') && text.bytes().all(is_plain));
        let directory = text.map(|text| text.trim_end_matches('/')).filter(|text| !text.is_empty());
        Ok(Self { layout, directory: directory.ok_or(BadDirectory)?, policy })
    }

    /// The configuration text for one server.
    pub fn text(&self, server: ServerProgram) -> String {
        match server {
            ServerProgram::Nginx => nginx::text(self),
            ServerProgram::Apache => apache::text(self),
            ServerProgram::Lighttpd => lighttpd::text(self),
        }
    }

    /// Whether only targets with a final slash are pages.
    const fn wants_slash(&self) -> bool {
        matches!(self.layout, Layout::WpSuperCache | Layout::CacheEnabler)
    }

    /// A regular expression without anchors that matches targets as visitors send them.
    fn target_regex(&self) -> String {
        let segment = format!("/(?![.])(?:[A-Za-z0-9{PUNCTUATION}]|%[89A-Fa-f][0-9A-Fa-f])+");
        format!("(?:{segment})*/{}", if self.wants_slash() { "" } else { "?" })
    }
}

/// A regular expression that matches hosts in lower case, without port.
const HOST_REGEX: &str = "[a-z0-9_-]+(?:[.][a-z0-9_-]+)*";

/// A regular expression, to be matched without case, for values of `Accept-Encoding` that accept
/// `coding`.
fn accepts_regex(coding: &str) -> String {
    format!("(?:^|,)[ \\t]*{coding}[ \\t]*(?:;[ \\t]*q=(?:1[.0]*|0?[.][0-9]*[1-9][0-9]*)[ \\t]*)?(?:,|$)")
}

/// Cache-Control of the served files. Each use is validated, because a purge does not reach
/// browsers' caches.
const CACHE_CONTROL: &str = "no-cache";

#[cfg(test)]
mod tests {
    use super::{BadDirectory, RuleInputs, ServerProgram};
    use crate::Layout;
    use profiles::Policy;
    use std::path::Path;

    #[test]
    fn directories_that_need_quoting_are_refused() {
        let policy = Policy::default_profile();
        let rules = |directory| RuleInputs::new(Layout::Typo3, Path::new(directory), &policy);
        for bad in ["tree", "/", "/a b", "/a\"b", "/a$b", "/a\nb", ""] {
            assert_eq!(rules(bad).unwrap_err(), BadDirectory, "{bad}");
        }
        for server in ServerProgram::ALL {
            let text = rules("/srv/tree/").unwrap().text(server);
            assert!(text.contains("/srv/tree") && !text.contains("/srv/tree//"), "{text}");
        }
    }
}
