//! Detects the shipped profile for a site from its responses.
//!
//! Signs have authors. The application writes response fields and the cookies that it sets. It also
//! writes the document, unless the document is an upload or a raw view, which one visitor has
//! written completely. The start page is neither: the operator writes its template. Visitors write
//! only titles, descriptions and the body, and [`DocumentHead`] has none of these.
//!
//! Invariant: a profile is chosen by a field that only its system sends, or by two signs that no
//! single visitor can write. These are a sign of the document and a cookie in the same response,
//! or, on the start page, the generator and an asset.
//!
//! Only responses to requests that no visitor can have crafted count: GET, 200, HTML, without a
//! query. A sign within the request's target may be reflected and does not count.

use crate::software::{SIGNS, Sign, contains_ignoring_case};
use crate::{DocumentHead, Profile};
use message::{Fields, Method, Status, names};

/// A response, as far as it may show the system that a site runs on.
#[derive(Clone, Copy, Debug)]
pub struct ResponseEvidence<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// The request's target in origin-form, as the origin received it.
    pub target: &'a [u8],
    /// The response's status.
    pub status: Status,
    /// The response's fields.
    pub fields: &'a Fields,
    /// The head of the document. `None` while only the fields have arrived, and for unreadable
    /// documents.
    pub head: Option<&'a DocumentHead>,
    /// Whether this is the site's start page, requested without any data of a visitor.
    pub is_start: bool,
}

/// A detected profile, and the signs of its system.
#[derive(Clone, Debug)]
pub struct RecognisedProfile {
    /// The profile.
    pub profile: &'static Profile,
    /// The system's name.
    pub software: &'static str,
    /// The signs that were found: one field, or two signs by different authors.
    pub signs: Vec<String>,
}

impl ResponseEvidence<'_> {
    /// Whether the request and the response allow signs to count.
    pub fn counts(&self) -> bool {
        *self.method == Method::Get
            && self.status == Status::OK
            && !self.target.contains(&b'?')
            && is_html(self.fields)
    }

    /// The profile for the origin of this response; `None` if the signs prove no system.
    pub fn recognised(&self) -> Option<RecognisedProfile> {
        if !self.counts() {
            return None;
        }
        Profile::all().iter().find_map(|profile| {
            let mut systems = profile.file.software.iter();
            systems.find_map(|software| {
                let (name, signs) = self.proof(software)?;
                Some(RecognisedProfile { profile, software: name, signs })
            })
        })
    }

    /// The signs that together prove the system; `None` if they do not suffice.
    fn proof(&self, software: &str) -> Option<(&'static str, Vec<String>)> {
        let mut name = None;
        let (mut field, mut generator, mut asset, mut cookie) = (None, None, None, None);
        let nothing = DocumentHead::default();
        let target = decoded(self.target);
        for (system, sign) in SIGNS.iter().filter(|(system, _)| *system == software) {
            name = Some(*system);
            let found = match sign {
                Sign::Field(..) | Sign::Relation(_) => &mut field,
                Sign::Generator(_) => &mut generator,
                Sign::Asset(_) => &mut asset,
                Sign::Sets(_) => &mut cookie,
                Sign::Hint(..) | Sign::Content(_) | Sign::Cookie => continue,
            };
            if found.is_none() && !sign.is_reflected(&target) {
                *found = sign.evidence(system, self.fields, self.head.unwrap_or(&nothing));
            }
        }
        let signs = match (field, generator, asset, cookie) {
            (Some(field), ..) => vec![field],
            (_, Some(generator), Some(asset), _) if self.is_start => vec![generator, asset],
            (_, Some(of_document), _, Some(cookie)) | (_, None, Some(of_document), Some(cookie)) => {
                vec![of_document, cookie]
            }
            _ => return None,
        };
        Some((name?, signs))
    }
}

impl Sign {
    /// Whether the sign is part of the request's target, so that the origin may only repeat it.
    fn is_reflected(self, target: &[u8]) -> bool {
        let parts: &[&str] = match &self {
            Self::Field(_, part) | Self::Relation(part) | Self::Generator(part) | Self::Sets(part) => {
                &[*part]
            }
            Self::Asset(parts) => parts,
            Self::Hint(..) | Self::Content(_) | Self::Cookie => &[],
        };
        parts.iter().any(|part| !part.is_empty() && contains_ignoring_case(target, part.as_bytes()))
    }
}

impl Profile {
    /// Whether the profile is for the system of this name.
    pub fn is_for(&self, software: &str) -> bool {
        self.file.software.iter().any(|own| own == software)
    }

    /// Whether the profile can be chosen by detection.
    pub fn is_recognisable(&self) -> bool {
        !self.file.software.is_empty()
    }
}

fn is_html(fields: &Fields) -> bool {
    let Some(value) = fields.only(names::CONTENT_TYPE) else { return false };
    let media_type = value.split(|&byte| byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
}

/// A target after one percent-decoding, because an application may reflect it decoded.
fn decoded(target: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let mut decoded = Vec::with_capacity(target.len());
    let mut rest = target;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let pair = if byte == b'%' { digit(after.first()).zip(digit(after.get(1))) } else { None };
        match pair.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(resolved) => {
                decoded.push(resolved);
                rest = after.get(2..).unwrap_or_default();
            }
            None => decoded.push(byte),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::ResponseEvidence;
    use crate::software::SIGNS;
    use crate::{DocumentHead, Profile};
    use message::{Fields, Method, Status};

    const HTML: (&str, &str) = ("Content-Type", "text/html; charset=UTF-8");
    const API: (&str, &str) = ("Link", "<http://a/wp-json/>; rel=\"https://api.w.org/\"");

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        [HTML].iter().chain(lines).copied().collect()
    }

    fn head(generator: &str, assets: &[&str]) -> DocumentHead {
        let generators =
            [generator].iter().filter(|text| !text.is_empty()).map(|&text| text.to_owned()).collect();
        DocumentHead { generators, assets: assets.iter().map(|&asset| asset.to_owned()).collect() }
    }

    fn start<'a>(fields: &'a Fields, head: &'a DocumentHead) -> ResponseEvidence<'a> {
        ResponseEvidence {
            method: &Method::Get,
            target: b"/",
            status: Status::OK,
            fields,
            head: Some(head),
            is_start: true,
        }
    }

    fn name(shown: ResponseEvidence<'_>) -> Option<&'static str> {
        shown.recognised().map(|recognised| &recognised.profile.name[..])
    }

    #[test]
    fn field_of_the_system_chooses_its_profile() {
        for (line, expected) in [
            (API, "wordpress"),
            (("X-Redirect-By", "WordPress"), "wordpress"),
            (("X-Generator", "Drupal 10 (https://www.drupal.org)"), "drupal"),
            (("X-Drupal-Cache", "MISS"), "drupal"),
            (("X-Generator", "Backdrop CMS 1 (https://backdropcms.org)"), "drupal"),
            (("X-Backdrop-Cache", "HIT"), "drupal"),
            (("X-TYPO3-Parsetime", "0ms"), "typo3"),
            (("X-Magento-Tags", "cat_p_1"), "magento"),
            (("X-Cache-Rule", "plone.content.itemView"), "plone"),
            (
                (
                    "Content-Security-Policy-Report-Only",
                    "default-src 'self'; script-src 'self'; report-uri /+cspreport/log;",
                ),
                "moinmoin",
            ),
        ] {
            let (fields, head) = (fields(&[line]), DocumentHead::default());
            let shown = ResponseEvidence { target: b"/a", is_start: false, ..start(&fields, &head) };
            assert_eq!(name(shown), Some(expected), "{line:?}");
        }
    }

    #[test]
    fn generator_and_asset_of_the_start_page_choose_a_profile() {
        for (generator, asset, expected) in [
            ("MediaWiki 1.39.17", "/load.php?lang=en&modules=startup", "mediawiki"),
            ("WordPress 6.1.9", "/wp-includes/css/dist/block-library/style.css?ver=6.1", "wordpress"),
            ("WooCommerce 8.1", "/wp-content/plugins/woocommerce/assets/a.css", "wordpress"),
            ("Joomla! - Open Source Content Management", "/media/system/js/core.js", "joomla"),
            ("Ghost 5.130", "/public/cards.min.css?v=2", "ghost"),
            ("TYPO3 CMS", "/typo3temp/assets/a.css", "typo3"),
            ("Drupal 7 (http://drupal.org)", "/misc/drupal.js?v=7.9", "drupal"),
            ("Backdrop CMS 1 (https://backdropcms.org)", "/core/misc/backdrop.js?v=1.28.2", "drupal"),
            ("Plone - https://plone.org/", "/++plone++static/a.css", "plone"),
        ] {
            let (fields, head) = (fields(&[]), head(generator, &[asset]));
            let shown = start(&fields, &head);
            assert_eq!(name(shown), Some(expected));
            assert_eq!(shown.recognised().map(|recognised| recognised.signs.len()), Some(2));
            assert_eq!(
                name(ResponseEvidence { is_start: false, ..shown }),
                None,
                "{generator} may be an upload"
            );
        }
    }

    #[test]
    fn document_and_cookie_of_one_response_choose_a_profile() {
        for (generator, asset, cookie, expected) in [
            ("", "/static/wagtailadmin/css/core.css", "csrftoken=1; Path=/", "wagtail"),
            ("", "/wp-includes/css/a.css", "wordpress_test_cookie=1", "wordpress"),
            ("TYPO3 CMS", "", "fe_typo_user=1", "typo3"),
        ] {
            let (with, head) = (fields(&[("Set-Cookie", cookie)]), head(generator, &[asset]));
            let shown = ResponseEvidence { target: b"/login/", is_start: false, ..start(&with, &head) };
            assert_eq!(name(shown), Some(expected));
            assert_eq!(
                name(ResponseEvidence { fields: &fields(&[]), ..shown }),
                None,
                "{expected}: document alone"
            );
            assert_eq!(name(ResponseEvidence { head: None, ..shown }), None, "{expected}: cookie alone");
        }
    }

    #[test]
    fn responses_to_crafted_requests_do_not_count() {
        let (with, head) = (fields(&[API]), head("WordPress 6", &["/wp-includes/a.css"]));
        let shown = start(&with, &head);
        assert_eq!(name(shown), Some("wordpress"));
        for other in [
            ResponseEvidence { method: &Method::Post, ..shown },
            ResponseEvidence { method: &Method::Head, ..shown },
            ResponseEvidence { target: b"/?a", ..shown },
            ResponseEvidence { status: Status::NOT_FOUND, ..shown },
            ResponseEvidence { target: b"/x;rel=https:%2f/api.W.org/", head: None, ..shown },
            ResponseEvidence { fields: &[API].into_iter().collect(), ..shown },
            ResponseEvidence { fields: &[API, ("Content-Type", "image/png")].into_iter().collect(), ..shown },
            ResponseEvidence { fields: &[API, HTML, HTML].into_iter().collect(), ..shown },
        ] {
            assert_eq!(name(other), None, "{other:?}");
        }
    }

    #[test]
    fn single_signs_of_the_document_or_cookies_choose_nothing() {
        for (generator, assets, cookie) in [
            ("WordPress 6", &[][..], "a=1"),
            ("", &["/wp-includes/a.css", "/wp-content/a.css"][..], "a=1"),
            ("WordPress 6", &["/typo3temp/a.css"][..], "SESS1=1"),
            ("Drupal 9", &[][..], "SESS0a1b=1"),
            ("", &[][..], "wordpress_test_cookie=1"),
        ] {
            let (fields, head) = (fields(&[("Set-Cookie", cookie)]), head(generator, assets));
            assert_eq!(name(start(&fields, &head)), None, "{generator} {assets:?} {cookie}");
        }
        let hints = fields(&[("X-Pingback", "http://a/xmlrpc.php"), ("X-Powered-By", "PHP/8.2")]);
        assert_eq!(name(start(&hints, &DocumentHead::default())), None);
    }

    #[test]
    fn profiles_are_for_systems_that_have_signs() {
        for profile in Profile::all() {
            for software in &profile.file.software {
                assert!(SIGNS.iter().any(|(name, _)| name == software), "{software}");
            }
        }
    }
}
