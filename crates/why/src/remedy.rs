//! Advice for applications whose responses may not be shared: the part of the software that writes
//! a field, and the way to write it instead.
//!
//! Invariant: advice for a system is given only if the system was detected, or if the field value
//! is specific to it. Otherwise the advice names the field to send. Every row names its source.

use message::{Fields, names};
use profiles::Pattern;
use semantics::Reason;

/// A field value that only one part of one system writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownValue {
    /// The name of the field.
    pub(crate) field: &'static str,
    /// Its value, in which `*` matches any run of characters.
    pub(crate) value: &'static str,
    /// The part that writes the value, and what to do about it.
    pub(crate) remedy: &'static str,
    /// The system.
    pub(crate) software: &'static str,
    /// The source of this knowledge.
    pub(crate) source: &'static str,
}

/// Advice on how to make a system state a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LifetimeAdvice {
    /// The system.
    pub(crate) software: &'static str,
    /// The advice.
    pub(crate) remedy: &'static str,
    /// The source of this knowledge.
    pub(crate) source: &'static str,
}

/// Field values that only one system writes.
pub(crate) const KNOWN_VALUES: &[KnownValue] = &[
    KnownValue {
        field: names::EXPIRES,
        value: "Thu, 19 Nov 1981 08:52:00 GMT",
        remedy: "PHP writes this when session_start() is called. Call it only for visitors who need a session; where it must run, session_cache_limiter('') before it keeps these fields away.",
        software: "PHP",
        source: "php.net/manual: session_cache_limiter",
    },
    KnownValue {
        field: names::EXPIRES,
        value: "Wed, 11 Jan 1984 05:00:00 GMT",
        remedy: "WordPress' nocache_headers() writes this: for visitors who are logged in, for 404, and where a plug-in or theme calls it (WooCommerce does for cart, checkout and account). On an ordinary page, find the code that calls nocache_headers() or defines DONOTCACHEPAGE.",
        software: "WordPress",
        source: "wp-includes/functions.php: wp_get_nocache_headers",
    },
    KnownValue {
        field: names::CACHE_CONTROL,
        value: "must-revalidate, no-cache, private",
        remedy: "Drupal writes this when its page cache is off, or when something on the page may not be cached (X-Drupal-Dynamic-Cache and X-Drupal-Cache say which).",
        software: "Drupal",
        source: "drupal/core: lib/Drupal/Core/EventSubscriber/FinishResponseSubscriber.php",
    },
    KnownValue {
        field: names::CACHE_CONTROL,
        value: "private, no-store",
        remedy: "TYPO3 writes this unless config.sendCacheHeaders = 1 is set, and for pages with uncached parts (USER_INT, COA_INT).",
        software: "TYPO3",
        source: "typo3/cms-frontend: Classes/Http/RequestHandler.php",
    },
    KnownValue {
        field: names::CACHE_CONTROL,
        value: "private, must-revalidate, max-age=0",
        remedy: "MediaWiki writes this without $wgUseCdn = true, and whenever the page sets a cookie or the visitor has a session.",
        software: "MediaWiki",
        source: "mediawiki: includes/OutputPage.php",
    },
    KnownValue {
        field: names::CACHE_CONTROL,
        value: "max-age=0, private, must-revalidate",
        remedy: "Rails writes this when an action says nothing about caching. In the action, call expires_in 5.minutes, public: true.",
        software: "Rails",
        source: "guides.rubyonrails.org: caching",
    },
    KnownValue {
        field: names::CACHE_CONTROL,
        value: "no-cache, private",
        remedy: "Symfony, and thus Laravel, writes this when a response says nothing about caching. In Symfony's controller, call setPublic() and setSharedMaxAge(300); in Laravel, use the middleware cache.headers.",
        software: "Symfony, Laravel",
        source: "symfony/http-foundation: ResponseHeaderBag.php",
    },
];

/// Advice on lifetimes, by system.
pub(crate) const LIFETIME_ADVICE: &[LifetimeAdvice] = &[
    LifetimeAdvice {
        software: "WordPress",
        remedy: "WordPress states no lifetime for pages of anonymous visitors.",
        source: "wp-includes/class-wp.php: send_headers",
    },
    LifetimeAdvice {
        software: "MediaWiki",
        remedy: "Set $wgUseCdn = true; and list Petasos in $wgCdnServers; $wgCdnMaxAge is the lifetime.",
        source: "mediawiki: includes/MainConfigSchema.php",
    },
    LifetimeAdvice {
        software: "Drupal",
        remedy: "Set the maximum age under Configuration, Performance, \"Browser and proxy cache maximum age\".",
        source: "drupal/core: modules/system, system.performance",
    },
    LifetimeAdvice {
        software: "TYPO3",
        remedy: "Set config.sendCacheHeaders = 1, and in newer versions config.sendCacheHeadersForSharedCaches = auto.",
        source: "typo3/cms-frontend: Classes/Http/RequestHandler.php",
    },
    LifetimeAdvice {
        software: "Plone",
        remedy: "In plone.app.caching give views of items and folders \"moderate caching\" with anonymous only.",
        source: "plone/plone.app.caching: profiles",
    },
    LifetimeAdvice {
        software: "Ghost",
        remedy: "Set caching.frontend.maxAge in its configuration; its default is 0.",
        source: "ghost: core/shared/config/defaults.json",
    },
    LifetimeAdvice {
        software: "Wagtail",
        remedy: "Wrap the page views in cache_control(public=True, s_maxage=300).",
        source: "docs.wagtail.org: performance",
    },
    LifetimeAdvice {
        software: "Django",
        remedy: "Decorate the view with cache_control(public=True, s_maxage=300).",
        source: "docs.djangoproject.com: cache_control",
    },
    LifetimeAdvice {
        software: "Laravel",
        remedy: "Give the route the middleware cache.headers:public;s_maxage=300.",
        source: "laravel.com/docs: responses, cache control middleware",
    },
    LifetimeAdvice {
        software: "Rails",
        remedy: "In the action: expires_in 5.minutes, public: true.",
        source: "guides.rubyonrails.org: caching",
    },
];

/// The known value in these fields that explains a refusal for this reason. `None` for reasons that
/// no known value can cause.
pub(crate) fn known_value(reason: Reason, fields: &Fields) -> Option<&'static KnownValue> {
    let concerned = matches!(
        reason,
        Reason::StoreRefusedPrivate
            | Reason::StoreRefusedNoStore
            | Reason::StoreRefusedNoCache
            | Reason::StoreRefusedExpired
            | Reason::MissNoCache
            | Reason::MissNoLifetime
            | Reason::MissExpired
    );
    let matches = |row: &&KnownValue| {
        let pattern = Pattern::new(row.value);
        fields.all(row.field).any(|value| pattern.matches(value))
    };
    if concerned { KNOWN_VALUES.iter().find(matches) } else { None }
}

/// The advice on lifetimes for the first of these systems that has one.
pub(crate) fn lifetime_advice<'a>(
    systems: impl IntoIterator<Item = &'a str>,
) -> Option<&'static LifetimeAdvice> {
    systems.into_iter().find_map(|name| LIFETIME_ADVICE.iter().find(|row| row.software == name))
}

/// Advice for a page with a password field.
pub(crate) const PASSWORD_REMEDY: &str =
    "Nothing: the page asks for a password, and a log-in page is better not shared.";

/// Whether a page has a password field.
pub fn has_password_field(content: &[u8]) -> bool {
    const KIND: &[u8] = b"type=";
    let starts = |at: usize, word: &[u8]| {
        content.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    (0..content.len()).filter(|&at| starts(at, KIND)).any(|at| {
        let value = at + KIND.len();
        starts(value, b"password") || starts(value, b"\"password") || starts(value, b"'password")
    })
}

/// Advice about a reason that applies to any application.
pub(crate) const fn general_remedy(reason: Reason) -> &'static str {
    match reason {
        Reason::StoreRefusedSetCookie => {
            "Find what in the application sets this cookie, and let it do so only for visitors who log in, fill a cart or send a form."
        }
        Reason::StoreRefusedPrivate
        | Reason::StoreRefusedNoStore
        | Reason::StoreRefusedNoCache
        | Reason::MissNoCache
        | Reason::MissNoLifetime
        | Reason::MissExpired
        | Reason::StoreRefusedExpired
        | Reason::StoreRefusedNoFreshness => {
            "If the page is the same for every anonymous visitor, send Cache-Control: s-maxage=300 (seconds) with it."
        }
        Reason::StoreRefusedAuthorization => {
            "Leave the credentials out of the request, or send Cache-Control: public if everybody may see the response."
        }
        Reason::StoreRefusedVaryStar => {
            "Name in Vary the request fields that the page depends on, or send no Vary."
        }
        Reason::StoreRefusedVaryAddress => "Leave the visitor's address out of Vary and out of the page.",
        Reason::StoreRefusedStatus => {
            "Nothing if this status is right; otherwise find out why the page has it."
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN_VALUES, LIFETIME_ADVICE, has_password_field, known_value, lifetime_advice};
    use message::Fields;
    use semantics::Reason;

    #[test]
    fn known_value_names_its_software() {
        let mut fields = Fields::new();
        fields.push("Cache-Control", "no-store, no-cache, must-revalidate");
        fields.push("Expires", "Thu, 19 Nov 1981 08:52:00 GMT");
        assert_eq!(known_value(Reason::StoreRefusedNoStore, &fields).unwrap().software, "PHP");
        assert_eq!(known_value(Reason::StoreRefusedVaryStar, &fields), None);
    }

    #[test]
    fn password_fields_are_found_in_any_spelling() {
        for page in ["<input type=password>", "<INPUT TYPE=\"Password\">", "<input name=a type='password' >"]
        {
            assert!(has_password_field(page.as_bytes()), "{page}");
        }
        for page in ["", "<input type=", "<p>Change your password</p>", "<input type=text value=password>"] {
            assert!(!has_password_field(page.as_bytes()), "{page}");
        }
    }

    #[test]
    fn first_system_with_advice_is_used() {
        assert_eq!(lifetime_advice(["PHP", "Drupal"]).unwrap().software, "Drupal");
        assert_eq!(lifetime_advice(["PHP"]), None);
    }

    #[test]
    fn every_row_ends_with_a_period_and_names_its_source() {
        let values = KNOWN_VALUES.iter().map(|row| (row.remedy, row.source));
        for (remedy, source) in values.chain(LIFETIME_ADVICE.iter().map(|row| (row.remedy, row.source))) {
            assert!(remedy.ends_with('.') && !source.is_empty(), "{remedy}");
        }
    }
}
