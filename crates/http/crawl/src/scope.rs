//! The visited site, and the normal form of its URLs.
//!
//! Invariant: two URLs with equal normal forms name the same page for every server that follows
//! RFC 3986, or differ only in parameters that track where a visitor came from. The normal form of
//! a normal form is itself.

use profiles::Policy;
use semantics::{canonical_target, keyed_target};
use url::{Position, Url};

/// Longest URL to visit, in bytes, as in the protocol of sitemaps.
pub const URL_BYTES_MAX: usize = 2_048;

/// The site: scheme, host and port.
#[derive(Clone, Debug)]
pub struct Scope {
    start: Url,
    accepts_www: bool,
    policy: Policy,
}

/// Why a URL has no normal form on the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfScope {
    /// Another scheme, host or port, or a URL with a user name.
    Foreign,
    /// Longer than [`URL_BYTES_MAX`].
    TooLong,
    /// Not an http or https URL.
    Malformed,
}

impl Scope {
    /// The site of `start`.
    ///
    /// With `accepts_www`, the same host with or without a leading `www.` is the same site, and
    /// URLs with it get the host of `start`.
    pub fn new(start: &Url, accepts_www: bool) -> Self {
        Self { start: start.clone(), accepts_www, policy: Policy::default_profile() }
    }

    /// The normal form of `start`, which is where a visit begins.
    ///
    /// # Errors
    /// [`OutOfScope`] if the URL is too long or not http.
    pub fn start(&self) -> Result<Url, OutOfScope> {
        self.normal(&self.start)
    }

    /// The URL of `path` on the site, such as `/robots.txt`; `None` if `path` is not a path.
    pub fn on_site(&self, path: &str) -> Option<Url> {
        self.start.join(path).ok().filter(|url| self.normal(url).is_ok())
    }

    /// The normal form of a URL as a document, sitemap or file has it. A relative URL is resolved
    /// against the site's root.
    ///
    /// # Errors
    /// [`OutOfScope`].
    pub fn parse(&self, text: &str) -> Result<Url, OutOfScope> {
        let text = text.trim();
        if text.len() > URL_BYTES_MAX {
            return Err(OutOfScope::TooLong);
        }
        let root = self.start.join("/").map_err(|_| OutOfScope::Malformed)?;
        self.normal(&root.join(text).map_err(|_| OutOfScope::Malformed)?)
    }

    /// The normal form of a URL: without fragment, tracking parameters and an empty query, with
    /// percent-encodings in their canonical spelling.
    ///
    /// # Errors
    /// [`OutOfScope`].
    pub fn normal(&self, url: &Url) -> Result<Url, OutOfScope> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(OutOfScope::Malformed);
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        let is_here = url.scheme() == self.start.scheme()
            && url.port_or_known_default() == self.start.port_or_known_default()
            && self.is_host(url.host_str().unwrap_or_default());
        if has_user || !is_here {
            return Err(OutOfScope::Foreign);
        }
        let target = url[Position::BeforePath..Position::AfterQuery].as_bytes().to_vec();
        if target.len() > URL_BYTES_MAX {
            return Err(OutOfScope::TooLong);
        }
        let target = keyed_target(&target.into(), &self.policy);
        let target = canonical_target(&target);
        let target = str::from_utf8(&target).map_err(|_| OutOfScope::Malformed)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut normal = self.start.clone();
        normal.set_fragment(None);
        normal.set_path(path);
        normal.set_query(Some(query).filter(|query| !query.is_empty()));
        if normal.as_str().len() > URL_BYTES_MAX { Err(OutOfScope::TooLong) } else { Ok(normal) }
    }

    fn is_host(&self, host: &str) -> bool {
        let own = self.start.host_str().unwrap_or_default();
        let bare = |name: &str| name.strip_prefix("www.").unwrap_or(name).to_owned();
        host == own || self.accepts_www && bare(host) == bare(own)
    }
}

/// The text for comparing two URLs: the normal form with its parameters sorted by name.
///
/// Parameters of one name keep their order, because applications read them as a list. A server that
/// distinguishes the order of different names has one page less visited, and no page twice.
pub(crate) fn identity(normal: &Url) -> String {
    let mut parameters: Vec<&str> = normal.query().unwrap_or_default().split('&').collect();
    parameters.sort_by_key(|parameter| parameter.split('=').next().unwrap_or_default().to_owned());
    format!("{}?{}", &normal[..Position::AfterPath], parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::{OutOfScope, Scope, URL_BYTES_MAX, identity};
    use proptest::prelude::{Strategy, any, proptest};
    use url::Url;

    fn scope(accepts_www: bool) -> Scope {
        Scope::new(&Url::parse("http://site.test/start").unwrap(), accepts_www)
    }

    fn normal(text: &str) -> String {
        let found = scope(false).parse(text);
        found.map_or_else(|error| format!("{error:?}"), |url| url.as_str().replace("http://site.test", ""))
    }

    #[test]
    fn equivalent_urls_have_one_normal_form() {
        for (text, expected) in [
            ("http://SITE.test:80/a#b", "/a"),
            ("/a/../b/./c?", "/b/c"),
            ("/%7Euser/%c3%bc", "/~user/%C3%BC"),
            ("/ü", "/%C3%BC"),
            ("/a?utm_source=x&b=1&fbclid=2", "/a?b=1"),
            ("/a?gclid=1", "/a"),
            ("", "/"),
            ("?p=1", "/?p=1"),
            ("/a//b/", "/a//b/"),
            ("/a?b=c%2fd", "/a?b=c%2Fd"),
        ] {
            assert_eq!(normal(text), expected, "{text}");
        }
    }

    #[test]
    fn other_sites_users_and_schemes_are_out_of_scope() {
        for text in [
            "https://site.test/",
            "http://site.test:8080/",
            "http://www.site.test/",
            "//other.test/",
            "http://a:b@site.test/",
            "http://site.test.evil.test/",
        ] {
            assert_eq!(normal(text), "Foreign", "{text}");
        }
        for text in ["mailto:a@b", "javascript:x()", "data:,x", "http://", "http://[::1"] {
            assert_eq!(normal(text), "Malformed", "{text}");
        }
        assert_eq!(normal(&format!("/{}", "a".repeat(URL_BYTES_MAX))), "TooLong");
        // The encoded form of these characters is three times as long.
        assert_eq!(normal(&format!("/{}", "\u{e4}".repeat(URL_BYTES_MAX / 3))), "TooLong");
    }

    #[test]
    fn www_is_the_same_host_only_if_told() {
        let url = Url::parse("http://www.site.test/a").unwrap();
        assert_eq!(scope(false).normal(&url), Err(OutOfScope::Foreign));
        assert_eq!(scope(true).normal(&url).unwrap().as_str(), "http://site.test/a");
        let shop = Url::parse("http://shop.site.test/a").unwrap();
        assert_eq!(scope(true).normal(&shop), Err(OutOfScope::Foreign));
    }

    #[test]
    fn identity_ignores_the_order_of_names_only() {
        let of = |text: &str| identity(&scope(false).parse(text).unwrap());
        assert_eq!(of("/a?b=1&a=2"), of("/a?a=2&b=1"));
        assert_ne!(of("/a?b[]=1&b[]=2"), of("/a?b[]=2&b[]=1"));
        assert_ne!(of("/a?a=1"), of("/a?a=2"));
        assert_ne!(of("/a"), of("/a/"));
    }

    proptest! {
        #[test]
        fn normal_form_of_a_normal_form_is_itself(text in "[/a-c%2?&=.#üA-F0-9+;*$!'()~-]{0,30}") {
            if let Ok(once) = scope(true).parse(&format!("/{text}")) {
                assert_eq!(scope(true).normal(&once).unwrap(), once);
            }
        }

        #[test]
        fn no_text_panics(bytes in any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())) {
            if let Ok(url) = scope(true).parse(&bytes) {
                assert_eq!(url.host_str(), Some("site.test"));
            }
        }
    }
}
