//! The headers that carry tags, and the limits of tags.
//!
//! Invariant: a header has one row, whichever client or application sends it.

/// Largest number of tags of a response, and in one header of a request.
pub const TAGS_MAX: usize = 4096;

/// Longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 1024;

/// The syntax of a header with several tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Words, separated by spaces and commas.
    Words,
    /// Words, separated by spaces, commas and `|`. In requests also a regular expression over the
    /// joined tags.
    Expression,
}

/// The messages in which a header carries tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagMessages {
    /// Purge requests and responses.
    Both,
    /// Purge requests only.
    Request,
    /// Responses only.
    Response,
}

/// A header that carries tags.
#[derive(Clone, Copy, Debug)]
pub struct TagHeader {
    /// The header's name.
    pub name: &'static str,
    /// The messages in which it carries tags.
    pub side: TagMessages,
    /// The syntax of its value.
    pub syntax: Syntax,
    /// The prefix that turns each value into a tag.
    pub prefix: &'static str,
    /// Whether a request with this header marks responses stale instead of removing them.
    pub soft: bool,
    /// The clients or applications that send it.
    pub who: &'static str,
}

/// The prefix that makes a TYPO3 page number a tag.
pub(crate) const TYPO3_PAGE: &str = "typo3-pid:";

/// The prefix that makes the name of a TYPO3 installation a tag.
pub(crate) const TYPO3_SITE: &str = "typo3-sitename:";

const fn row(name: &'static str, side: TagMessages, syntax: Syntax, who: &'static str) -> TagHeader {
    TagHeader { name, side, syntax, prefix: "", soft: false, who }
}

impl TagHeader {
    const fn prefixed(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    const fn soft(mut self) -> Self {
        self.soft = true;
        self
    }

    /// Whether it carries tags in a purge request.
    pub const fn is_asked(&self) -> bool {
        matches!(self.side, TagMessages::Both | TagMessages::Request)
    }

    /// Whether it carries tags in a response.
    pub const fn is_stated(&self) -> bool {
        matches!(self.side, TagMessages::Both | TagMessages::Response)
    }
}

/// All headers that carry tags.
pub const TAG_HEADERS: &[TagHeader] = &[
    row("Cache-Tags", TagMessages::Both, Syntax::Expression, "Drupal (varnish_purge)"),
    row("Purge-Cache-Tags", TagMessages::Both, Syntax::Expression, "Drupal (purge)"),
    row("X-Drupal-Cache-Tags", TagMessages::Both, Syntax::Expression, "Drupal core, when debugging"),
    row("X-Acquia-Purge-Tags", TagMessages::Both, Syntax::Expression, "Drupal (acquia_purge)"),
    row(
        "X-Cache-Tags",
        TagMessages::Both,
        Syntax::Expression,
        "FOSHttpCache, Symfony, TYPO3, Proxy Cache Purge",
    ),
    row("X-Cache-Tags-Pattern", TagMessages::Request, Syntax::Expression, "Proxy Cache Purge for WordPress"),
    row("X-Magento-Tags", TagMessages::Response, Syntax::Words, "Magento"),
    row("X-Magento-Tags-Pattern", TagMessages::Request, Syntax::Expression, "Magento"),
    row("Cache-Tag", TagMessages::Both, Syntax::Words, "Cloudflare's clients"),
    row("Edge-Cache-Tag", TagMessages::Both, Syntax::Words, "Akamai's clients"),
    row("Surrogate-Key", TagMessages::Both, Syntax::Words, "Fastly's clients, Souin's clients"),
    row("xkey", TagMessages::Both, Syntax::Words, "Varnish's xkey, FOSHttpCache"),
    row("xkey-purge", TagMessages::Request, Syntax::Words, "FOSHttpCache"),
    row("xkey-softpurge", TagMessages::Request, Syntax::Words, "FOSHttpCache").soft(),
    row("X-LiteSpeed-Tag", TagMessages::Response, Syntax::Words, "LiteSpeed's plugins"),
    row("TYPO3-Pid", TagMessages::Response, Syntax::Words, "TYPO3 (varnish)").prefixed(TYPO3_PAGE),
    row("TYPO3-Sitename", TagMessages::Response, Syntax::Words, "TYPO3 (varnish)").prefixed(TYPO3_SITE),
    row("X-TYPO3-Sitename", TagMessages::Response, Syntax::Words, "TYPO3 (mkvarnish)").prefixed(TYPO3_SITE),
    row("Varnish-Ban-TYPO3-Pid", TagMessages::Request, Syntax::Words, "TYPO3 (varnish)").prefixed(TYPO3_PAGE),
    row("Varnish-Ban-TYPO3-Tag", TagMessages::Request, Syntax::Words, "TYPO3 (varnish)"),
];
