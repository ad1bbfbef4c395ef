//! Which shipped profile is for a site, as its answers tell.
//!
//! Invariant: only what the application says of itself in a field of its answer, in its page's `generator`, or by an
//! element that only its own pages have, is taken for proof. What a page contains besides may be a visitor's text, and
//! a cookie's name may be anybody's.

use crate::Profile;
use crate::software::{Software, proofs};
use message::Fields;

/// A profile, and what it was recognised by.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// The profile.
    pub profile: &'static Profile,
    /// The system, and the sign of it.
    pub software: Software,
}

/// The profile for the application that gave these fields and whose content, without content coding, begins so.
pub fn recognised(fields: &Fields, beginning: &[u8]) -> Option<Recognised> {
    proofs(fields, beginning).find_map(|software| {
        let profile = Profile::all().iter().find(|profile| profile.is_for(software.name))?;
        Some(Recognised { profile, software })
    })
}

impl Profile {
    /// Whether the profile is for a system of this name.
    pub fn is_for(&self, software: &str) -> bool {
        self.file.software.iter().any(|own| own == software)
    }

    /// Whether a site may be found to need it.
    pub fn is_recognisable(&self) -> bool {
        !self.file.software.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::recognised;
    use crate::Profile;
    use crate::software::SIGNS;
    use message::Fields;

    fn profile(lines: &[(&'static str, &'static str)], content: &str) -> Option<&'static str> {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(*name, *value));
        recognised(&fields, content.as_bytes()).map(|recognised| &recognised.profile.name[..])
    }

    #[test]
    fn systems_that_say_what_they_are_have_their_profile() {
        for (line, expected) in [
            (("Link", "<http://a/wp-json/>; rel=\"https://api.w.org/\""), "wordpress"),
            (("X-Pingback", "http://a/xmlrpc.php"), "wordpress"),
            (("X-Redirect-By", "WordPress"), "wordpress"),
            (("X-Generator", "Drupal 10 (https://www.drupal.org)"), "drupal"),
            (("X-Drupal-Cache", "MISS"), "drupal"),
            (("X-TYPO3-Parsetime", "0ms"), "typo3"),
            (("X-Magento-Tags", "cat_p_1"), "magento"),
            (("X-Cache-Rule", "plone.content.itemView"), "plone"),
        ] {
            assert_eq!(profile(&[line], ""), Some(expected), "{line:?}");
        }
        for (generator, expected) in [
            ("MediaWiki 1.39.17", "mediawiki"),
            ("WordPress 6.1.9", "wordpress"),
            ("Joomla! - Open Source Content Management", "joomla"),
            ("Ghost 5.130", "ghost"),
            ("TYPO3 CMS", "typo3"),
        ] {
            let page = format!("<html><meta name=\"generator\" content=\"{generator}\">");
            assert_eq!(profile(&[], &page), Some(expected));
        }
        let admin = "<body><script id=\"wagtail-config\" type=\"application/json\">{}</script>";
        assert_eq!(profile(&[], admin), Some("wagtail"));
    }

    #[test]
    fn what_anybody_may_say_proves_nothing() {
        let page = "<img src='/wp-content/a.png'> /wp-includes/ csrfmiddlewaretoken text/x-magento-init \
                    /wagtail- &lt;script id=\"wagtail-config\" wagtail-config";
        assert_eq!(profile(&[], page), None);
        for cookie in ["SESSION=1", "trackUserID=2", "sessionid=3", "wordpress_test_cookie=4"] {
            assert_eq!(profile(&[("Set-Cookie", cookie)], ""), None, "{cookie}");
        }
        assert_eq!(profile(&[("X-Powered-By", "PHP/8.2"), ("Server", "nginx")], ""), None);
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
