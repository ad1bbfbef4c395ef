//! Systems, and their signs in responses.
//!
//! Invariant: each guess names its evidence. [`recognise`] guesses, for advice only.
//! [`crate::recognition`] decides which signs, and how many of them, choose a profile.

use crate::DocumentHead;
use crate::known::known_cookie;
use difference::text_of;
use message::{Fields, names};
use serde::Serialize;

/// A system that was guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Software {
    /// The system's name.
    pub name: &'static str,
    /// The evidence for it.
    pub evidence: String,
}

/// The kinds of signs of a system.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// A response field that only the system sends. The value contains this text in any letter
    /// case; an empty text means any value.
    Field(&'static str, &'static str),
    /// A `Link` field with exactly this relation, which only the system sends.
    Relation(&'static str),
    /// A response field that other systems send too, with this text in its value.
    Hint(&'static str, &'static str),
    /// The content of `<meta name="generator">` in the document's head starts with this text, in
    /// any case.
    Generator(&'static str),
    /// The document's head loads a script or stylesheet of the site, whose path and query contain
    /// all of these.
    Asset(&'static [&'static str]),
    /// The response sets the cookie of this name, which the system's own code sets.
    Sets(&'static str),
    /// The content contains this text anywhere.
    Content(&'static str),
    /// The response sets a cookie that the table of known cookies assigns to this system.
    Cookie,
}

/// Bytes of the content that are searched. A page's head is at its beginning.
const SEARCHED_BYTES_MAX: usize = 256 * 1024;

/// Longest evidence in characters.
const EVIDENCE_CHARS_MAX: usize = 80;

/// Systems and their signs, the clearest sign of each system first.
pub(crate) const SIGNS: &[(&str, Sign)] = &[
    ("WordPress", Sign::Relation("https://api.w.org/")),
    ("WordPress", Sign::Generator("WordPress")),
    ("WordPress", Sign::Asset(&["/wp-includes/"])),
    ("WordPress", Sign::Asset(&["/wp-content/"])),
    ("WordPress", Sign::Content("/wp-content/")),
    ("WordPress", Sign::Content("/wp-includes/")),
    ("WordPress", Sign::Field("X-Redirect-By", "WordPress")),
    ("WordPress", Sign::Hint("X-Pingback", "xmlrpc.php")),
    ("WordPress", Sign::Sets("wordpress_test_cookie")),
    ("WordPress", Sign::Cookie),
    ("WooCommerce", Sign::Generator("WooCommerce")),
    ("WooCommerce", Sign::Asset(&["/plugins/woocommerce/"])),
    ("WooCommerce", Sign::Content("/plugins/woocommerce/")),
    ("WooCommerce", Sign::Cookie),
    ("WPML", Sign::Generator("WPML")),
    ("WPML", Sign::Cookie),
    ("Polylang", Sign::Cookie),
    ("MediaWiki", Sign::Generator("MediaWiki")),
    ("MediaWiki", Sign::Asset(&["/load.php?", "modules="])),
    ("Drupal", Sign::Field("X-Generator", "Drupal")),
    ("Drupal", Sign::Field("X-Drupal-Cache", "")),
    ("Drupal", Sign::Field("X-Drupal-Dynamic-Cache", "")),
    ("Drupal", Sign::Generator("Drupal")),
    ("Drupal", Sign::Asset(&["/core/misc/"])),
    ("Drupal", Sign::Asset(&["/core/themes/"])),
    ("Drupal", Sign::Asset(&["/misc/drupal.js"])),
    ("Drupal", Sign::Asset(&["/files/css/css_"])),
    ("Drupal", Sign::Cookie),
    ("Backdrop", Sign::Field("X-Generator", "Backdrop CMS")),
    ("Backdrop", Sign::Field("X-Backdrop-Cache", "")),
    ("Backdrop", Sign::Generator("Backdrop CMS")),
    ("Backdrop", Sign::Asset(&["/core/misc/backdrop.js"])),
    ("TYPO3", Sign::Field("X-TYPO3-Parsetime", "")),
    ("TYPO3", Sign::Generator("TYPO3")),
    ("TYPO3", Sign::Asset(&["/typo3temp/"])),
    ("TYPO3", Sign::Asset(&["/typo3conf/"])),
    ("TYPO3", Sign::Asset(&["/_assets/"])),
    ("TYPO3", Sign::Sets("fe_typo_user")),
    ("TYPO3", Sign::Cookie),
    ("Joomla", Sign::Generator("Joomla")),
    ("Joomla", Sign::Asset(&["/media/system/"])),
    ("Joomla", Sign::Asset(&["/media/jui/"])),
    ("Joomla", Sign::Asset(&["/media/vendor/"])),
    ("Joomla", Sign::Asset(&["/media/templates/"])),
    ("Joomla", Sign::Field("X-Content-Encoded-By", "Joomla")),
    ("PrestaShop", Sign::Generator("PrestaShop")),
    ("PrestaShop", Sign::Cookie),
    ("Magento 2", Sign::Field("X-Magento-Tags", "")),
    ("Magento 2", Sign::Field("X-Magento-Cache-Debug", "")),
    ("Magento 2", Sign::Asset(&["/static/version", "/frontend/"])),
    ("Magento 2", Sign::Sets("X-Magento-Vary")),
    ("Magento 2", Sign::Content("text/x-magento-init")),
    ("Magento 2", Sign::Cookie),
    ("OpenCart", Sign::Cookie),
    ("Shopware 6", Sign::Cookie),
    ("MoinMoin", Sign::Field("Content-Security-Policy-Report-Only", "report-uri /+cspreport/log")),
    ("Ghost", Sign::Generator("Ghost")),
    ("Ghost", Sign::Asset(&["/public/cards.min."])),
    ("Plone", Sign::Generator("Plone")),
    ("Plone", Sign::Asset(&["++plone++"])),
    ("Plone", Sign::Asset(&["++theme++"])),
    ("Plone", Sign::Asset(&["++resource++"])),
    ("Plone", Sign::Field("X-Cache-Rule", "plone.")),
    ("Plone", Sign::Field("X-Cache-Operation", "plone.")),
    ("Discourse", Sign::Generator("Discourse")),
    ("Discourse", Sign::Field("X-Discourse-Route", "")),
    ("Contao", Sign::Generator("Contao")),
    ("Contao", Sign::Cookie),
    ("Moodle", Sign::Cookie),
    ("phpBB", Sign::Cookie),
    ("Nextcloud", Sign::Cookie),
    ("Wagtail", Sign::Asset(&["/wagtailadmin/"])),
    // Django's own cookie. Each page of Wagtail's admin has a form token and therefore sets it.
    ("Wagtail", Sign::Sets("csrftoken")),
    ("Wagtail", Sign::Content("<script id=\"wagtail-config\"")),
    ("Wagtail", Sign::Content("/wagtail-")),
    ("Django", Sign::Content("csrfmiddlewaretoken")),
    ("Django", Sign::Cookie),
    ("Laravel", Sign::Cookie),
    ("Rails", Sign::Content("name=\"csrf-param\"")),
    ("ASP.NET Core", Sign::Cookie),
    ("ASP.NET", Sign::Field("X-AspNet-Version", "")),
    ("ASP.NET", Sign::Field("X-Powered-By", "ASP.NET")),
    ("Next.js", Sign::Field("X-Powered-By", "Next.js")),
    ("Express", Sign::Field("X-Powered-By", "Express")),
    ("PHP", Sign::Field("X-Powered-By", "PHP")),
    ("PHP", Sign::Cookie),
];

/// Guesses the systems behind a response, in the order of the table.
///
/// `content` is the content without content coding. For each system the first found sign is the
/// evidence.
pub fn recognise(fields: &Fields, head: &DocumentHead, content: &[u8]) -> Vec<Software> {
    let content = content.get(..SEARCHED_BYTES_MAX).unwrap_or(content);
    let mut found: Vec<Software> = Vec::new();
    for (name, sign) in SIGNS {
        // A cookie that other systems set too proves nothing alone.
        if matches!(sign, Sign::Sets(_)) || found.iter().any(|software| software.name == *name) {
            continue;
        }
        let evidence = match sign {
            Sign::Content(part) => contains(content, part.as_bytes()).then(|| format!("content: {part}")),
            _ => sign.evidence(name, fields, head),
        };
        if let Some(evidence) = evidence {
            found.push(Software { name, evidence });
        }
    }
    found
}

/// The names of the cookies that a response sets, in order and without duplicates.
pub fn cookies_set(fields: &Fields) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in fields.all(names::SET_COOKIE) {
        let pair = line.split(|&octet| octet == b';').next().unwrap_or_default();
        let name = pair.split(|&octet| octet == b'=').next().unwrap_or_default().trim_ascii();
        let name = text_of(name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Sign {
    /// The part of the response with this sign of `software`. `None` if there is none, and for
    /// [`Sign::Content`].
    pub(crate) fn evidence(self, software: &str, fields: &Fields, head: &DocumentHead) -> Option<String> {
        let evidence = match self {
            Self::Field(name, part) | Self::Hint(name, part) => fields
                .all(name)
                .find(|value| contains_ignoring_case(value, part.as_bytes()))
                .map(|value| format!("{name}: {}", text_of(value))),
            Self::Relation(relation) => fields
                .list("Link")
                .find(|link| has_relation(link, relation.as_bytes()))
                .map(|link| format!("Link: {}", text_of(link))),
            Self::Generator(start) => {
                let starts = |generator: &&String| {
                    generator.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
                };
                head.generators.iter().find(starts).map(|generator| format!("generator: {generator}"))
            }
            Self::Asset(parts) => head
                .assets
                .iter()
                .find(|asset| parts.iter().all(|part| asset.contains(part)))
                .map(|asset| format!("asset: {asset}")),
            Self::Sets(name) => cookies_set(fields)
                .into_iter()
                .find(|cookie| cookie == name)
                .map(|cookie| format!("cookie: {cookie}")),
            Self::Cookie => cookies_set(fields)
                .into_iter()
                .find(|cookie| known_cookie(cookie.as_bytes()).is_some_and(|row| row.software == software))
                .map(|cookie| format!("cookie: {cookie}")),
            Self::Content(_) => None,
        };
        evidence.map(|evidence| evidence.chars().take(EVIDENCE_CHARS_MAX).collect())
    }
}

/// Whether a member of a `Link` field has this relation among its parameters. Its target does not
/// count.
fn has_relation(link: &[u8], relation: &[u8]) -> bool {
    let Some(target) = link.strip_prefix(b"<") else { return false };
    let Some(end) = target.iter().position(|&byte| byte == b'>') else { return false };
    let parameters = target.get(end + 1..).unwrap_or_default();
    parameters.split(|&byte| byte == b';').any(|parameter| {
        let mut parts = parameter.splitn(2, |&byte| byte == b'=').map(<[u8]>::trim_ascii);
        let is_rel = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"rel"));
        let value = parts.next().unwrap_or_default();
        // Quotes are required: without them the text may be inside another quoted parameter, such
        // as a title.
        let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        is_rel && value == Some(relation)
    })
}

fn contains(octets: &[u8], part: &[u8]) -> bool {
    octets.windows(part.len().max(1)).any(|window| window == part)
}

pub(crate) fn contains_ignoring_case(octets: &[u8], part: &[u8]) -> bool {
    part.is_empty() || octets.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::{SIGNS, Sign, cookies_set, has_relation, recognise};
    use crate::DocumentHead;
    use crate::known::KNOWN_COOKIES;
    use message::Fields;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(*name, *value));
        fields
    }

    fn found(lines: &[(&'static str, &'static str)], content: &str) -> Vec<(&'static str, String)> {
        found_in(lines, &DocumentHead::default(), content)
    }

    fn found_in(
        lines: &[(&'static str, &'static str)],
        head: &DocumentHead,
        content: &str,
    ) -> Vec<(&'static str, String)> {
        let found = recognise(&fields(lines), head, content.as_bytes());
        found.into_iter().map(|software| (software.name, software.evidence)).collect()
    }

    #[test]
    fn systems_are_found_by_fields_generator_and_cookies() {
        let link = ("Link", "<http://a/wp-json/>; rel=\"https://api.w.org/\"");
        assert_eq!(
            found(&[link, ("X-Powered-By", "PHP/8.2.1")], "<a href='/wp-content/x'>"),
            [
                ("WordPress", "Link: <http://a/wp-json/>; rel=\"https://api.w.org/\"".to_owned()),
                ("PHP", "X-Powered-By: PHP/8.2.1".to_owned())
            ]
        );
        let generators = vec!["mediawiki 1.39.17".to_owned()];
        let head = DocumentHead { generators, ..DocumentHead::default() };
        assert_eq!(found_in(&[], &head, ""), [("MediaWiki", "generator: mediawiki 1.39.17".to_owned())]);
        assert_eq!(
            found(&[("Set-Cookie", "SSESS0a1b=x; path=/")], ""),
            [("Drupal", "cookie: SSESS0a1b".to_owned())]
        );
        assert_eq!(found(&[("Server", "nginx")], "<meta name=\"generator\" content=\"WordPress\">"), []);
    }

    #[test]
    fn relation_counts_as_parameter_not_in_target() {
        let relation = b"https://api.w.org/";
        for (link, expected) in [
            (&b"<http://a/wp-json/>; rel=\"https://api.w.org/\""[..], true),
            (b"<http://a/>;title=x; REL = \"https://api.w.org/\"", true),
            (b"<http://a/>; title=\"x; rel=https://api.w.org/; y\"", false),
            (b"<http://a/>; title=\"x; rel=\\\"https://api.w.org/\\\"; y\"", false),
            (b"<http://a/;rel=https://api.w.org/>; rel=canonical", false),
            (b"<http://a/;rel=https://api.w.org/", false),
            (b"http://a/; rel=\"https://api.w.org/\"", false),
            (b"<http://a/>; rel=\"https://api.w.org/x\"", false),
            (b"<http://a/>; title=\"https://api.w.org/\"", false),
        ] {
            assert_eq!(has_relation(link, relation), expected, "{}", String::from_utf8_lossy(link));
        }
    }

    #[test]
    fn set_cookies_are_listed_once_in_order() {
        let set = fields(&[("Set-Cookie", "b=1; path=/"), ("Set-Cookie", "a"), ("set-cookie", " b =2")]);
        assert_eq!(cookies_set(&set), ["b", "a"]);
    }

    #[test]
    fn systems_with_a_cookie_sign_have_a_known_cookie() {
        for (name, sign) in SIGNS {
            if matches!(sign, Sign::Cookie) {
                assert!(KNOWN_COOKIES.iter().any(|row| row.software == *name), "{name}");
            }
        }
    }
}
