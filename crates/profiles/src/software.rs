//! What a site runs on, as far as its answers say so.
//!
//! Invariant: each guess names what it was made from. A guess leads to advice only; a profile is chosen by what the
//! application says of itself ([`Sign::is_proof`]).

use crate::known::known_cookie;
use difference::text_of;
use message::{Fields, names};
use serde::Serialize;

/// A recognised system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Software {
    /// Its name.
    pub name: &'static str,
    /// What gave it away.
    pub evidence: String,
}

/// Where a sign of a system is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// A response field with a value that contains this, in any case; empty: any value.
    Field(&'static str, &'static str),
    /// The content's `<meta name="generator">` starts with this, in any case.
    Generator(&'static str),
    /// The content contains this, which only the system's own pages have in their head.
    Element(&'static str),
    /// The content contains this.
    Content(&'static str),
    /// The response sets a cookie that the table of cookies gives to this software.
    Cookie,
}

/// Octets of the content that are searched: a page's head is at its beginning.
const SEARCHED_BYTES_MAX: usize = 256 * 1024;

/// Systems and their signs, the most telling first. Of each system the first sign that is found counts.
pub(crate) const SIGNS: &[(&str, Sign)] = &[
    ("WordPress", Sign::Field("Link", "https://api.w.org/")),
    ("WordPress", Sign::Generator("WordPress")),
    ("WordPress", Sign::Content("/wp-content/")),
    ("WordPress", Sign::Content("/wp-includes/")),
    ("WordPress", Sign::Field("X-Redirect-By", "WordPress")),
    ("WordPress", Sign::Field("X-Pingback", "xmlrpc.php")),
    ("WordPress", Sign::Cookie),
    ("WooCommerce", Sign::Generator("WooCommerce")),
    ("WooCommerce", Sign::Content("/plugins/woocommerce/")),
    ("WooCommerce", Sign::Cookie),
    ("WPML", Sign::Generator("WPML")),
    ("WPML", Sign::Cookie),
    ("Polylang", Sign::Cookie),
    ("MediaWiki", Sign::Generator("MediaWiki")),
    ("Drupal", Sign::Field("X-Generator", "Drupal")),
    ("Drupal", Sign::Field("X-Drupal-Cache", "")),
    ("Drupal", Sign::Field("X-Drupal-Dynamic-Cache", "")),
    ("Drupal", Sign::Generator("Drupal")),
    ("Drupal", Sign::Cookie),
    ("TYPO3", Sign::Field("X-TYPO3-Parsetime", "")),
    ("TYPO3", Sign::Generator("TYPO3")),
    ("TYPO3", Sign::Cookie),
    ("Joomla", Sign::Generator("Joomla")),
    ("Joomla", Sign::Field("X-Content-Encoded-By", "Joomla")),
    ("PrestaShop", Sign::Generator("PrestaShop")),
    ("PrestaShop", Sign::Cookie),
    ("Magento 2", Sign::Field("X-Magento-Tags", "")),
    ("Magento 2", Sign::Field("X-Magento-Cache-Debug", "")),
    ("Magento 2", Sign::Content("text/x-magento-init")),
    ("Magento 2", Sign::Cookie),
    ("OpenCart", Sign::Cookie),
    ("Shopware 6", Sign::Cookie),
    ("Ghost", Sign::Generator("Ghost")),
    ("Plone", Sign::Generator("Plone")),
    ("Plone", Sign::Field("X-Cache-Rule", "plone.")),
    ("Plone", Sign::Field("X-Cache-Operation", "plone.")),
    ("Discourse", Sign::Generator("Discourse")),
    ("Discourse", Sign::Field("X-Discourse-Route", "")),
    ("Contao", Sign::Generator("Contao")),
    ("Contao", Sign::Cookie),
    ("Moodle", Sign::Cookie),
    ("phpBB", Sign::Cookie),
    ("Nextcloud", Sign::Cookie),
    ("Wagtail", Sign::Element("<script id=\"wagtail-config\"")),
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

/// The systems that these fields and this content (without content coding) speak of, in the table's order.
pub fn recognise(fields: &Fields, content: &[u8]) -> Vec<Software> {
    let head = content.get(..SEARCHED_BYTES_MAX).unwrap_or(content);
    let generators = generators(head);
    let mut found: Vec<Software> = Vec::new();
    for (name, sign) in SIGNS {
        if found.iter().any(|software| software.name == *name) {
            continue;
        }
        if let Some(evidence) = sign.evidence(name, fields, head, &generators) {
            found.push(Software { name, evidence });
        }
    }
    found
}

/// The systems that these fields and this content prove, in the table's order.
pub(crate) fn proofs<'a>(fields: &'a Fields, content: &'a [u8]) -> impl Iterator<Item = Software> + 'a {
    let head = content.get(..SEARCHED_BYTES_MAX).unwrap_or(content);
    let generators = generators(head);
    SIGNS.iter().filter(|(_, sign)| sign.is_proof()).filter_map(move |(name, sign)| {
        let evidence = sign.evidence(name, fields, head, &generators)?;
        Some(Software { name, evidence })
    })
}

/// The names of the cookies that a response sets, in order, each once.
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
    /// Whether the sign is the application's own word about itself.
    const fn is_proof(self) -> bool {
        matches!(self, Self::Field(..) | Self::Generator(_) | Self::Element(_))
    }

    fn evidence(
        self,
        software: &str,
        fields: &Fields,
        content: &[u8],
        generators: &[String],
    ) -> Option<String> {
        match self {
            Self::Field(name, part) => fields
                .all(name)
                .find(|value| contains_ignoring_case(value, part.as_bytes()))
                .map(|value| format!("{name}: {}", text_of(value))),
            Self::Generator(start) => {
                let starts = |generator: &&String| {
                    generator.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
                };
                generators.iter().find(starts).map(|generator| format!("generator: {generator}"))
            }
            Self::Element(part) | Self::Content(part) => {
                contains(content, part.as_bytes()).then(|| format!("content: {part}"))
            }
            Self::Cookie => cookies_set(fields)
                .into_iter()
                .find(|cookie| known_cookie(cookie.as_bytes()).is_some_and(|row| row.software == software))
                .map(|cookie| format!("cookie: {cookie}")),
        }
    }
}

/// What the `<meta name="generator">` elements of a page say.
fn generators(content: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = content;
    while let Some(place) = find_ignoring_case(rest, b"<meta") {
        rest = rest.get(place + 5..).unwrap_or_default();
        let end = rest.iter().position(|&octet| octet == b'>').unwrap_or(rest.len());
        let element = rest.get(..end).unwrap_or_default();
        let is_generator =
            attribute(element, b"name").is_some_and(|name| name.eq_ignore_ascii_case(b"generator"));
        if let (true, Some(value)) = (is_generator, attribute(element, b"content")) {
            found.push(text_of(value).chars().take(60).collect());
        }
    }
    found
}

/// The value of an attribute in the text of an element, quoted either way.
fn attribute<'a>(element: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = element;
    while let Some(place) = find_ignoring_case(rest, name) {
        let whole = place == 0 || rest.get(place - 1).is_some_and(u8::is_ascii_whitespace);
        rest = rest.get(place + name.len()..)?;
        if let (true, Some(value)) = (whole, rest.trim_ascii_start().strip_prefix(b"=")) {
            let value = value.trim_ascii_start();
            let quote = *value.first().filter(|octet| matches!(octet, b'"' | b'\''))?;
            return value.get(1..)?.split(|&octet| octet == quote).next();
        }
    }
    None
}

fn contains(octets: &[u8], part: &[u8]) -> bool {
    octets.windows(part.len().max(1)).any(|window| window == part)
}

fn contains_ignoring_case(octets: &[u8], part: &[u8]) -> bool {
    part.is_empty() || find_ignoring_case(octets, part).is_some()
}

fn find_ignoring_case(octets: &[u8], part: &[u8]) -> Option<usize> {
    octets.windows(part.len().max(1)).position(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::{SIGNS, Sign, cookies_set, recognise};
    use crate::known::KNOWN_COOKIES;
    use message::Fields;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(*name, *value));
        fields
    }

    fn found(lines: &[(&'static str, &'static str)], content: &str) -> Vec<(&'static str, String)> {
        let found = recognise(&fields(lines), content.as_bytes());
        found.into_iter().map(|software| (software.name, software.evidence)).collect()
    }

    #[test]
    fn systems_are_found_by_what_they_say_of_themselves() {
        let link = ("Link", "<http://a/wp-json/>; rel=\"https://api.w.org/\"");
        assert_eq!(
            found(&[link, ("X-Powered-By", "PHP/8.2.1")], "<a href='/wp-content/x'>"),
            [
                ("WordPress", "Link: <http://a/wp-json/>; rel=\"https://api.w.org/\"".to_owned()),
                ("PHP", "X-Powered-By: PHP/8.2.1".to_owned())
            ]
        );
        let generator = "<META content='MediaWiki 1.39.17' name=\"Generator\" />";
        assert_eq!(found(&[], generator), [("MediaWiki", "generator: MediaWiki 1.39.17".to_owned())]);
        assert_eq!(
            found(&[("Set-Cookie", "SSESS0a1b=x; path=/")], ""),
            [("Drupal", "cookie: SSESS0a1b".to_owned())]
        );
        assert_eq!(found(&[("Server", "nginx")], "<meta name=generator content=\"WordPress\">"), []);
        assert_eq!(found(&[], "<meta name=\"description\" content=\"WordPress\">"), []);
    }

    #[test]
    fn cookies_are_named_once_in_their_order() {
        let set = fields(&[("Set-Cookie", "b=1; path=/"), ("Set-Cookie", "a"), ("set-cookie", " b =2")]);
        assert_eq!(cookies_set(&set), ["b", "a"]);
    }

    #[test]
    fn signs_by_cookie_have_a_cookie() {
        for (name, sign) in SIGNS {
            if matches!(sign, Sign::Cookie) {
                assert!(KNOWN_COOKIES.iter().any(|row| row.software == *name), "{name}");
            }
        }
    }
}
