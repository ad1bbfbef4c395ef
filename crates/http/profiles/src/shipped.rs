//! The profiles that are shipped with the program.
//!
//! Invariant: a test proves that each can be read, so every listed name has its profile.

use crate::Profile;
use std::sync::LazyLock;

/// The profile name in the configuration that selects the detected profile; [`DEFAULT`] until
/// detection.
pub const AUTO: &str = "auto";

/// The profile for an unknown site.
pub const DEFAULT: &str = "default";

/// The profile that never breaks a prohibition of a response.
pub const LETTER: &str = "rfc";

/// Names and texts, in the order of the documentation. A profile comes after the one that it
/// extends.
const FILES: &[(&str, &str)] = &[
    (DEFAULT, include_str!("../data/default.toml")),
    (LETTER, include_str!("../data/rfc.toml")),
    ("wordpress", include_str!("../data/wordpress.toml")),
    ("mediawiki", include_str!("../data/mediawiki.toml")),
    ("drupal", include_str!("../data/drupal.toml")),
    ("typo3", include_str!("../data/typo3.toml")),
    ("django", include_str!("../data/django.toml")),
    ("flask", include_str!("../data/flask.toml")),
    ("moinmoin", include_str!("../data/moinmoin.toml")),
    ("wagtail", include_str!("../data/wagtail.toml")),
    ("plone", include_str!("../data/plone.toml")),
    ("magento", include_str!("../data/magento.toml")),
    ("ghost", include_str!("../data/ghost.toml")),
    ("joomla", include_str!("../data/joomla.toml")),
];

static SHIPPED: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let mut read: Vec<Profile> = Vec::with_capacity(FILES.len());
    for (name, text) in FILES {
        #[expect(clippy::expect_used, reason = "a test reads every shipped profile")]
        let profile = Profile::parse(name, text, &read).expect("shipped profiles can be read");
        read.push(profile);
    }
    read
});

impl Profile {
    /// The shipped profiles, in the order of the documentation.
    pub fn all() -> &'static [Self] {
        &SHIPPED
    }

    /// The names of the shipped profiles.
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|(name, _)| *name).collect()
    }

    /// The shipped profile called `name`; `None` if there is none.
    pub fn shipped(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|profile| profile.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::FILES;
    use crate::Profile;

    #[test]
    fn shipped_profiles_are_readable_and_found_by_name() {
        let mut read = Vec::new();
        for (name, text) in FILES {
            let profile = Profile::parse(name, text, &read).unwrap_or_else(|problems| panic!("{problems:?}"));
            read.push(profile);
            assert_eq!(Profile::shipped(name).unwrap().policy.name, *name);
        }
        assert!(Profile::shipped("rails").is_none());
    }
}
