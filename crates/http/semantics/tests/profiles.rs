//! The shipped profiles against the cookies and paths of their real systems: which requests pass,
//! and which are anonymous.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

use message::{Fields, Method, RequestHead, Version};
use petasos_semantics::{Reason, RequestClass, classify_request};
use profiles::{Policy, Profile};

fn policy(profile: &str) -> &'static Policy {
    &Profile::shipped(profile).unwrap().policy
}

/// Why a GET passes under a profile; `None` if it is looked up.
fn passes(profile: &str, target: &str, cookie: &str) -> Option<Reason> {
    let mut fields = Fields::new();
    if !cookie.is_empty() {
        fields.push("Cookie", cookie.to_owned());
    }
    let target = target.to_owned().into();
    let request = RequestHead { method: Method::Get, target, version: Version::Http11, fields };
    match classify_request(&request, false, policy(profile)) {
        RequestClass::LookupStatic { otherwise: reason, .. } | RequestClass::Pass(reason) => Some(reason),
        RequestClass::Lookup(_) => None,
    }
}

/// Cookies of visitors who are not anonymous.
const SESSIONS: &[(&str, &[&str])] = &[
    (
        "wordpress",
        &[
            "wordpress_logged_in_0a",
            "wp-postpass_0a",
            "comment_author_0a",
            "woocommerce_cart_hash",
            "aelia_cs_selected_currency",
            "tinv_wishlistkey",
            "PHPSESSID",
            "edd_x",
        ],
    ),
    (
        "mediawiki",
        &["wiki_session", "wikiToken", "wikiLoggedOut", "forceHTTPS", "mf_useformat", "UseCDNCache"],
    ),
    ("drupal", &["SESS0a", "SSESS0a", "NO_CACHE", "big_pipe_nojs", "laravel_session", "SimpleSAMLAuthToken"]),
    ("typo3", &["fe_typo_user", "be_typo_user", "staticfilecache", "ADMCMD_prev"]),
    ("django", &["sessionid", "csrftoken", "messages", "django_language"]),
    ("wagtail", &["sessionid", "csrftoken", "wagtail_sidebar"]),
    ("flask", &["session", "remember_token"]),
    ("moinmoin", &["session"]),
    ("plone", &["__ac", "__ac_name", "_ZopeId", "statusmessages", "I18N_LANGUAGE"]),
    ("magento", &["PHPSESSID", "persistent_shopping_cart"]),
    (
        "ghost",
        &["ghost-members-ssr", "ghost-members-ssr.sig", "ghost-admin-api-session", "ghost-access-hmac"],
    ),
    ("joomla", &["joomla_user_state", "joomla_remember_me_0a"]),
];

/// Cookies that do not affect responses.
const NOISE: &[(&str, &[&str])] = &[
    (
        "wordpress",
        &[
            "wordpress_test_cookie",
            "wp-settings-time-1",
            "pll_language",
            "wp-wpml_current_language",
            "cmplz_stats",
        ],
    ),
    ("mediawiki", &["wikiUserName", "wikiUserID", "theme"]),
    ("drupal", &["has_js", "Drupal.toolbar.collapsed", "theme"]),
    ("magento", &["form_key", "private_content_version", "mage-cache-sessid", "mage-messages"]),
];

/// Paths that are never shared, and paths that are.
const PATHS: &[(&str, &[&str], &[&str])] = &[
    ("wordpress", &["/wp-admin/", "/wc-api/x", "/shop/checkout/pay"], &["/", "/2026/cartography/"]),
    (
        "mediawiki",
        &["/index.php/Special:Log", "/wiki/Special:Search?search=x", "/w/api.php?action=x"],
        &["/wiki/Specials", "/index.php?title=A"],
    ),
    (
        "drupal",
        &["/user", "/user/1", "/admin/content", "/node/1/edit", "/node/add/page", "/system/ajax/x"],
        &["/node/1", "/users-guide", "/"],
    ),
    ("typo3", &["/typo3/", "/typo3", "/?eID=x", "/a?ADMCMD_view=1"], &["/typo3conf/ext/a.css", "/"]),
    (
        "wagtail",
        &["/admin/pages/1/", "/cms/", "/_util/x", "/accounts/login/"],
        &["/", "/blog/", "/administration/"],
    ),
    ("moinmoin", &["/+login", "/+modify/Home", "/users/+usersettings"], &["/Home", "/help-en/Home"]),
    (
        "plone",
        &["/login", "/site/require_login?x=1", "/a/acl_users/x", "/manage_main"],
        &["/news", "/@@images/a.png"],
    ),
    ("magento", &["/checkout/cart/", "/customer/account/", "/de/customer/section/load/?x"], &["/shoes.html"]),
    ("ghost", &["/ghost/", "/members/api/member/", "/p/0a/"], &["/welcome/"]),
    ("joomla", &["/administrator/index.php", "/index.php?option=a&task=b"], &["/index.php/about"]),
];

#[test]
fn request_with_session_cookie_passes() {
    for (profile, cookies) in SESSIONS {
        for cookie in *cookies {
            assert_eq!(
                passes(profile, "/", &format!("_ga=1; {cookie}=x")),
                Some(Reason::PassCookie),
                "{profile} {cookie}"
            );
        }
    }
}

#[test]
fn noise_cookies_leave_visitors_anonymous() {
    for (profile, cookies) in NOISE {
        let all: Vec<_> = cookies.iter().map(|cookie| format!("{cookie}=x")).collect();
        assert_eq!(passes(profile, "/", &all.join("; ")), None, "{profile}");
    }
    for profile in Profile::all() {
        assert_eq!(passes(&profile.name, "/", "_ga=1; _fbp=2; OptanonConsent=x"), None, "{}", profile.name);
    }
}

#[test]
fn unknown_cookie_passes_unless_the_profile_ignores_it() {
    for profile in Profile::all() {
        let expected = match &profile.name[..] {
            "rfc" | "wordpress" | "mediawiki" | "drupal" | "wagtail" | "plone" => None,
            _ => Some(Reason::PassUnknownCookie),
        };
        assert_eq!(passes(&profile.name, "/", "theme=dark"), expected, "{}", profile.name);
    }
}

#[test]
fn listed_paths_and_parameters_pass() {
    for (profile, passing, shared) in PATHS {
        for target in *passing {
            let reason = passes(profile, target, "");
            assert!(
                matches!(reason, Some(Reason::PassPath | Reason::PassParameter)),
                "{profile} {target} {reason:?}"
            );
        }
        for target in *shared {
            assert_eq!(passes(profile, target, ""), None, "{profile} {target}");
        }
    }
}
