//! The layouts: where the file of a page lies in the tree.
//!
//! Invariant: a place is a relative path of safe segments, so it never leaves the tree. The place
//! of a page is the same path that the rules for web servers look up for a request for the page.

use crate::TreeRefusal;
use crate::path::{SafePath, host, spellings};
use bytes::Bytes;
use std::sync::Arc;
use store::Key;

/// A file's path below the tree's directory, without the suffix of a content coding.
pub(crate) type FilePath = Arc<str>;

/// Greatest depth of a page in Boost's layout, in path segments.
const BOOST_SEGMENTS_MAX: usize = 10;

/// Naming scheme of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// TYPO3's static file cache: `http_example.org_80/path/index`.
    Typo3,
    /// WP Super Cache: `example.org/path/index.html`, `index-https.html`.
    WpSuperCache,
    /// Cache Enabler: `example.org/path/http-index.html`, `https-index.html`.
    CacheEnabler,
    /// Drupal's Boost: `example.org/path_.html`; http only.
    Boost,
}

impl Layout {
    /// All layouts, the default first.
    pub const ALL: [Self; 4] = [Self::Typo3, Self::WpSuperCache, Self::CacheEnabler, Self::Boost];

    /// The name in settings and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Typo3 => "typo3",
            Self::WpSuperCache => "wp-super-cache",
            Self::CacheEnabler => "cache-enabler",
            Self::Boost => "boost",
        }
    }

    /// The layout with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// The profile of the systems that use this layout.
    pub const fn profile(self) -> &'static str {
        match self {
            Self::Typo3 => "typo3",
            Self::WpSuperCache | Self::CacheEnabler => "wordpress",
            Self::Boost => "drupal",
        }
    }

    /// The place of the page's file. An error if the layout has no safe name for the page.
    pub(crate) fn place(self, key: &Key) -> Result<FilePath, TreeRefusal> {
        let (name, port) = host(key.host())?;
        let path = SafePath::of(key.target())?;
        if path.segments.iter().any(|segment| self.is_reserved(segment)) {
            return Err(TreeRefusal::Path);
        }
        // In the other layouts, the file name has no port, so the web server would send the file
        // for the default port. A page of another port may contain links with that port.
        if port.is_some() && self != Self::Typo3 {
            return Err(TreeRefusal::Path);
        }
        let https = key.is_https();
        let directory = path.segments.iter().fold(String::new(), |joined, segment| joined + "/" + segment);
        let place = match self {
            Self::Typo3 => {
                let (scheme, default_port) = if https { ("https", "443") } else { ("http", "80") };
                format!("{scheme}_{name}_{}{directory}/index", port.unwrap_or(default_port))
            }
            Self::WpSuperCache if path.is_directory => {
                format!("{name}{directory}/index{}.html", if https { "-https" } else { "" })
            }
            Self::CacheEnabler if path.is_directory => {
                format!("{name}{directory}/http{}-index.html", if https { "s" } else { "" })
            }
            Self::Boost if !https && path.is_ascii() && path.segments.len() <= BOOST_SEGMENTS_MAX => {
                let slash = if path.is_directory { "/" } else { "" };
                format!("{name}{directory}{slash}_.html")
            }
            _ => return Err(TreeRefusal::Path),
        };
        Ok(place.into())
    }

    /// The keys of all requests that a web server answers with the page's file.
    pub(crate) fn keys(self, key: &Key) -> Vec<Key> {
        let with = |target: Vec<u8>| Key::new(key.site(), key.is_https(), key.host(), Bytes::from(target));
        let targets = spellings(key.target());
        let twins: Vec<_> = match self {
            Self::Typo3 => targets.iter().filter_map(|target| twin(target)).collect(),
            Self::WpSuperCache | Self::CacheEnabler | Self::Boost => Vec::new(),
        };
        targets.into_iter().chain(twins).map(with).collect()
    }

    /// Whether a directory of this name could take the path of a file.
    fn is_reserved(self, segment: &str) -> bool {
        let plain =
            [".gz", ".br"].iter().fold(segment, |name, coding| name.strip_suffix(coding).unwrap_or(name));
        match self {
            Self::Typo3 => plain == "index",
            Self::WpSuperCache => matches!(plain, "index.html" | "index-https.html"),
            Self::CacheEnabler => matches!(plain, "http-index.html" | "https-index.html"),
            Self::Boost => plain.ends_with("_.html"),
        }
    }
}

/// The target with a final slash added or removed. `None` for the root.
fn twin(target: &[u8]) -> Option<Vec<u8>> {
    match target.strip_suffix(b"/") {
        Some(b"") => None,
        Some(without) => Some(without.to_vec()),
        None => Some([target, b"/"].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;
    use bytes::Bytes;
    use proptest::prelude::*;
    use std::path::{Component, Path};
    use store::{Key, SiteId};

    fn key(https: bool, host: &str, target: &str) -> Key {
        Key::new(SiteId(0), https, host.as_bytes(), Bytes::copy_from_slice(target.as_bytes()))
    }

    fn place(layout: Layout, https: bool, host: &str, target: &str) -> Option<String> {
        layout.place(&key(https, host, target)).ok().map(|place| place.to_string())
    }

    #[test]
    fn typo3_names_scheme_host_and_port() {
        let place = |https, host, target| place(Layout::Typo3, https, host, target).unwrap();
        assert_eq!(place(false, "A.test", "/"), "http_a.test_80/index");
        assert_eq!(place(true, "a.test:443", "/a/b"), "https_a.test_443/a/b/index");
        assert_eq!(place(true, "a.test:80", "/a/b/"), "https_a.test_80/a/b/index");
        assert_eq!(place(false, "a.test", "/caf%c3%a9"), "http_a.test_80/café/index");
    }

    #[test]
    fn wordpress_layouts_name_pages_that_end_with_a_slash() {
        for (layout, http, https) in [
            (Layout::WpSuperCache, "a.test/b/index.html", "a.test/b/index-https.html"),
            (Layout::CacheEnabler, "a.test/b/http-index.html", "a.test/b/https-index.html"),
        ] {
            assert_eq!(place(layout, false, "a.test", "/b/").unwrap(), http);
            assert_eq!(place(layout, true, "a.test:443", "/b/").unwrap(), https);
            assert_eq!(place(layout, false, "a.test", "/b"), None);
            // Otherwise a visitor could request the page by another port, and all visitors would
            // receive that version.
            assert_eq!(place(layout, false, "a.test:8080", "/b/"), None);
        }
    }

    #[test]
    fn boost_has_one_file_for_each_path() {
        let place = |https, target| place(Layout::Boost, https, "a.test", target);
        assert_eq!(place(false, "/").unwrap(), "a.test/_.html");
        assert_eq!(place(false, "/a/b").unwrap(), "a.test/a/b_.html");
        assert_eq!(place(false, "/a/").unwrap(), "a.test/a/_.html");
        assert_eq!(
            (place(true, "/"), place(false, "/caf%C3%A9"), place(false, &"/a".repeat(11))),
            (None, None, None)
        );
        assert!(Layout::Boost.place(&key(false, "a.test:8080", "/")).is_err());
    }

    #[test]
    fn file_names_are_refused_as_directory_names() {
        for (layout, target) in [
            (Layout::Typo3, "/a/index"),
            (Layout::Typo3, "/index.gz/"),
            (Layout::WpSuperCache, "/index.html/"),
            (Layout::CacheEnabler, "/https-index.html.br/a/"),
            (Layout::Boost, "/a_.html/b"),
            (Layout::Boost, "/a_.html.gz"),
        ] {
            assert_eq!(place(layout, false, "a.test", target), None, "{target}");
        }
    }

    #[test]
    fn file_answers_to_every_spelling() {
        let keys = |layout: Layout, target| layout.keys(&key(false, "a.test", target)).len();
        assert_eq!(
            (keys(Layout::Typo3, "/"), keys(Layout::Typo3, "/a"), keys(Layout::Typo3, "/%c3%a9/")),
            (1, 2, 6)
        );
        assert_eq!((keys(Layout::WpSuperCache, "/a/"), keys(Layout::Boost, "/a")), (1, 1));
        assert!(Layout::Typo3.keys(&key(false, "a.test", "/a/")).contains(&key(false, "a.test", "/a")));
    }

    proptest! {
        /// For any request, the place is inside the tree, in a directory of the host, and not
        /// hidden.
        #[test]
        fn place_is_always_inside_the_tree(
            https: bool,
            host in r"[a-z0-9./:_%\\-]{0,12}|[ -~]{0,8}",
            target in r"/([a-z./_%~]|%2[ef]|\.\.|%[cC]3%[aA]9|index|_\.html){0,12}|/[ -~]{0,24}",
        ) {
            for layout in Layout::ALL {
                let Some(place) = place(layout, https, &host, &target) else { continue };
                let path = Path::new(&place);
                prop_assert!(path.components().count() >= 2, "{place}");
                for component in path.components() {
                    let Component::Normal(name) = component else { return Err(TestCaseError::fail(place)) };
                    let name = name.to_str().unwrap();
                    prop_assert!(!name.starts_with('.') && name.len() <= 255, "{place}");
                }
                prop_assert!(!place.contains("//") && !place.contains(char::is_control), "{place}");
            }
        }

        /// Two pages share a file only if their targets are spellings of each other. No file lies
        /// where the directory of another page must be.
        #[test]
        fn different_pages_have_different_places(
            one in r"/([ab_./]|index|\.html){0,8}",
            other in r"/([ab_./]|index|\.html){0,8}",
        ) {
            for layout in Layout::ALL {
                let one = key(false, "a.test", &one);
                let other = key(false, "a.test", &other);
                let (Ok(here), Ok(there)) = (layout.place(&one), layout.place(&other)) else { continue };
                prop_assert_eq!(here == there, layout.keys(&one).contains(&other));
                for ending in ["", ".gz", ".br"] {
                    let file = format!("{here}{ending}/");
                    prop_assert!(!there.starts_with(&file), "{} {}", here, there);
                }
            }
        }
    }
}
