//! Cookies by name: who sets them, what they are for, and what to do when one keeps a page from being shared.
//!
//! Invariant: a row stands here only with the source that says so, and the first row that matches counts, so exact
//! names stand before families. The table says what a cookie most probably is; nothing is decided by it: whether a
//! page may be shared decides `semantics`, by the profile.

use crate::Pattern;
use std::sync::LazyLock;

/// What a cookie is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Who the visitor is, or what is remembered of the visit.
    Session,
    /// A token against forged forms.
    FormToken,
    /// A language, a currency, a display setting.
    Preference,
    /// Which server of several answers.
    Balancing,
    /// Protection against robots.
    Protection,
    /// Audience measurement.
    Analytics,
    /// Whether the visitor agreed to cookies.
    Consent,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCookie {
    /// The name, with `*` for any run of characters.
    pub name: &'static str,
    /// Whose it is.
    pub software: &'static str,
    /// What it is for.
    pub purpose: Use,
    /// What makes the application set it, and what to do about that: one or two sentences.
    pub remedy: &'static str,
    /// Where that is written.
    pub source: &'static str,
}

/// The row for the cookie called `name`; cookies' names are told apart by case.
pub fn known_cookie(name: &[u8]) -> Option<&'static KnownCookie> {
    static PATTERNS: LazyLock<Vec<Pattern>> =
        LazyLock::new(|| KNOWN_COOKIES.iter().map(|row| Pattern::new(row.name)).collect());
    let rows = PATTERNS.iter().zip(KNOWN_COOKIES);
    rows.filter(|(pattern, row)| pattern.matches(name) && row.is_spelled(name)).map(|(_, row)| row).next()
}

impl KnownCookie {
    /// Whether the letters of the row stand in `name` in the same case: `SESS0a1b` is Drupal's, `session` is not.
    fn is_spelled(&self, name: &[u8]) -> bool {
        let mut parts = self.name.split('*').filter(|part| !part.is_empty());
        parts.all(|part| name.windows(part.len()).any(|window| window == part.as_bytes()))
    }
}

impl Use {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::FormToken => "form token",
            Self::Preference => "preference",
            Self::Balancing => "load balancing",
            Self::Protection => "protection",
            Self::Analytics => "analytics",
            Self::Consent => "consent",
        }
    }
}

const fn row(
    name: &'static str,
    software: &'static str,
    purpose: Use,
    remedy: &'static str,
    source: &'static str,
) -> KnownCookie {
    KnownCookie { name, software, purpose, remedy, source }
}

use Use::{Analytics, Balancing, Consent, FormToken, Preference, Protection, Session};

const ANALYTICS: &str =
    "A script in the browser sets it and no page depends on it. A server that sets it needs not to.";
const BANNER: &str =
    "The consent banner should be shown and hidden by its script, so that the page stays one for all.";
const BALANCER: &str =
    "The load balancer sets it. Let it do so only behind a login, or balance without stickiness.";
const ROBOTS: &str = "The protection in front of the site sets it; it is not the application's.";

/// The table.
pub const KNOWN_COOKIES: &[KnownCookie] = &[
    // WordPress and what is put into it.
    row(
        "wordpress_logged_in_*",
        "WordPress",
        Session,
        "Set at login. A request with it is answered for that visitor alone; nothing to do.",
        "wp-includes/default-constants.php: LOGGED_IN_COOKIE",
    ),
    row(
        "wordpress_test_cookie",
        "WordPress",
        Preference,
        "The login page sets it to see whether cookies work. A theme or plug-in that shows the login form on every page sets it there too.",
        "wp-includes/default-constants.php: TEST_COOKIE",
    ),
    row(
        "wordpress_sec_*",
        "WordPress",
        Session,
        "Set at login, for the administration. Nothing to do.",
        "wp-includes/default-constants.php: SECURE_AUTH_COOKIE",
    ),
    row(
        "wordpress_no_cache",
        "WordPress plug-in",
        Session,
        "A plug-in asks caches to let this visitor through. Nothing to do unless everybody gets it.",
        "easyengine.io: WordPress cache rules",
    ),
    row(
        "wordpress_*",
        "WordPress",
        Session,
        "Set at login. Nothing to do.",
        "wp-includes/default-constants.php: AUTH_COOKIE",
    ),
    row(
        "wp-postpass_*",
        "WordPress",
        Session,
        "Set when a visitor gives a post's password. Nothing to do.",
        "wp-login.php: postpass",
    ),
    row(
        "comment_author_*",
        "WordPress",
        Session,
        "Set when a visitor comments and agrees to be remembered. Nothing to do.",
        "wp-includes/comment.php: wp_set_comment_cookies",
    ),
    row(
        "wp-settings-*",
        "WordPress",
        Preference,
        "Screen settings of the administration. Nothing to do.",
        "wp-includes/option.php: wp_user_settings",
    ),
    row(
        "wp_lang",
        "WordPress",
        Preference,
        "Set on the login page by its language menu. Nothing to do.",
        "wp-login.php",
    ),
    row(
        "woocommerce_items_in_cart",
        "WooCommerce",
        Session,
        "Set while there is something in the cart. If every visitor gets it, a plug-in or theme fills or recalculates the cart on every page.",
        "woocommerce.com: configuring caching plugins",
    ),
    row(
        "woocommerce_cart_hash",
        "WooCommerce",
        Session,
        "Set while there is something in the cart. If every visitor gets it, a plug-in or theme fills or recalculates the cart on every page.",
        "woocommerce.com: configuring caching plugins",
    ),
    row(
        "wp_woocommerce_session_*",
        "WooCommerce",
        Session,
        "Set with the first product in the cart. If every visitor gets it, a theme or plug-in calls WC()->session->set_customer_session_cookie(true) or writes to the session on every page; find it and stop it.",
        "woocommerce: includes/class-wc-session-handler.php",
    ),
    row(
        "woocommerce_recently_viewed",
        "WooCommerce",
        Preference,
        "The widget \"recently viewed products\" sets it on product pages. Remove the widget, or let a script keep the list.",
        "woocommerce: includes/wc-product-functions.php",
    ),
    row(
        "edd_*",
        "Easy Digital Downloads",
        Session,
        "Its sessions can start on every page. Let them start with the cart: filter edd_start_session.",
        "easy-digital-downloads: includes/class-edd-session.php",
    ),
    row(
        "wp-wpml_current_language",
        "WPML",
        Preference,
        "WPML sets it for everybody when \"Language filtering for AJAX operations\" is on (WPML, Languages). Switch that off: the language is in the URL.",
        "wpml.org/documentation/support/browser-cookies-stored-wpml",
    ),
    row(
        "_icl_current_language",
        "WPML (before 4)",
        Preference,
        "Update WPML: newer versions set no cookie for visitors who are not logged in, unless told to.",
        "wpml.org/documentation/support/browser-cookies-stored-wpml",
    ),
    row(
        "_icl_visitor_lang_js",
        "WPML",
        Preference,
        "The script of WPML's \"browser language redirect\" sets it. The page itself does not need it.",
        "wpml.org/documentation/support/browser-cookies-stored-wpml",
    ),
    row(
        "wcml_client_currency*",
        "WCML (WooCommerce Multilingual)",
        Preference,
        "Several currencies under one URL make several pages under one URL. Give each currency its own URL or language.",
        "wpml.org: WCML cookies",
    ),
    row(
        "client_currency*",
        "WCML (WooCommerce Multilingual)",
        Preference,
        "Several currencies under one URL make several pages under one URL. Give each currency its own URL or language.",
        "wpml.org/documentation/support/browser-cookies-stored-wpml",
    ),
    row(
        "pll_language",
        "Polylang",
        Preference,
        "Polylang sets it on every page. With the language in the URL it is not needed: define( 'PLL_COOKIE', false ); in wp-config.php.",
        "polylang.pro/doc/is-polylang-compatible-with-the-eu-cookie-law",
    ),
    row(
        "qtrans_front_language",
        "qTranslate",
        Preference,
        "Switch off the language cookie in its settings; the language is in the URL.",
        "qtranslate-xt: docs",
    ),
    row(
        "_lscache_vary",
        "LiteSpeed Cache",
        Preference,
        "It groups visitors for LiteSpeed's own cache. In front of another server the plug-in does no good; remove it.",
        "litespeedtech/lscache_wp: src/vary.cls.php",
    ),
    row(
        "wfvt_*",
        "Wordfence (old)",
        Protection,
        "Older versions mark every visitor. Update Wordfence.",
        "wordfence.com: cookies set by the plug-in",
    ),
    row(
        "pmpro_visit",
        "Paid Memberships Pro",
        Analytics,
        "Its report of visits and logins counts with it, for everybody. No page depends on it.",
        "paid-memberships-pro: adminpages/reports",
    ),
    row(
        "tinv_wishlistkey",
        "TI WooCommerce Wishlist",
        Preference,
        "Set when a visitor uses a wish list. If every visitor gets it, set it only on adding to the list.",
        "ti-woocommerce-wishlist",
    ),
    row(
        "yith_wcwl_session_*",
        "YITH WooCommerce Wishlist",
        Preference,
        "Set when a visitor uses a wish list. If every visitor gets it, load the list by its script (its Ajax setting).",
        "yith-woocommerce-wishlist",
    ),
    // Other systems.
    row(
        "SSESS*",
        "Drupal",
        Session,
        "Drupal starts a session when something is put into it. A module that writes to $_SESSION or the session service for anonymous visitors is the cause.",
        "drupal/core: lib/Drupal/Core/Session/SessionConfiguration.php",
    ),
    row(
        "SESS*",
        "Drupal",
        Session,
        "Drupal starts a session when something is put into it. A module that writes to $_SESSION or the session service for anonymous visitors is the cause.",
        "drupal/core: lib/Drupal/Core/Session/SessionConfiguration.php",
    ),
    row(
        "NO_CACHE",
        "Drupal, Pressflow",
        Session,
        "Set for some minutes after a form was sent, so that its sender sees the result. Nothing to do.",
        "pressflow/6: modules/cookie_cache_bypass",
    ),
    row(
        "big_pipe_nojs",
        "Drupal BigPipe",
        Preference,
        "Set for browsers without JavaScript. Nothing to do.",
        "drupal/core: modules/big_pipe",
    ),
    row(
        "fe_typo_user",
        "TYPO3",
        Session,
        "Set when an extension stores something for a visitor, or when FE.dontSetCookie is off in old versions. Find the extension; show its plug-in only where it is needed.",
        "typo3/cms-frontend: Classes/Authentication/FrontendUserAuthentication.php",
    ),
    row(
        "be_typo_user",
        "TYPO3",
        Session,
        "Set when an editor logs in. Nothing to do.",
        "typo3/cms-core: Classes/Authentication/BackendUserAuthentication.php",
    ),
    row(
        "staticfilecache",
        "TYPO3 StaticFileCache",
        Session,
        "Marks visitors who are logged in. Nothing to do.",
        "lochmueller/staticfilecache: Documentation",
    ),
    row(
        "UseCDNCache",
        "MediaWiki",
        Session,
        "Set after an edit, so that its author sees it. Nothing to do.",
        "mediawiki: includes/MediaWiki.php",
    ),
    row(
        "*UserID",
        "MediaWiki",
        Session,
        "Remembers who was logged in. Nothing to do.",
        "mediawiki: includes/session/CookieSessionProvider.php",
    ),
    row(
        "*LoggedOut",
        "MediaWiki",
        Session,
        "Set at logout. Nothing to do.",
        "mediawiki: includes/session/CookieSessionProvider.php",
    ),
    row(
        "PrestaShop-*",
        "PrestaShop",
        Session,
        "PrestaShop sets it for every visitor, and keeps cart and language in it. Its pages cannot be shared without a full-page-cache module that fills these parts by script.",
        "PrestaShop: classes/Cookie.php",
    ),
    row(
        "OCSESSID",
        "OpenCart",
        Session,
        "OpenCart starts a session for every visitor. Its pages cannot be shared without an extension that starts it later.",
        "opencart: system/framework.php, session_name",
    ),
    row(
        "X-Magento-Vary",
        "Magento 2",
        Preference,
        "The group of the visitor (currency, customer group). Pages are per group; nothing to do for the common group.",
        "magento/magento2: lib/internal/Magento/Framework/App/Response/Http.php",
    ),
    row(
        "form_key",
        "Magento 2",
        FormToken,
        "Magento's own page cache sets it by script. If the server sets it, the page is not marked cacheable in its layout: look for cacheable=\"false\".",
        "magento/magento2: PageCache",
    ),
    row(
        "private_content_version",
        "Magento 2",
        Preference,
        "Set when cart or customer data change. Nothing to do unless every page sets it.",
        "magento/magento2: PageCache",
    ),
    row(
        "frontend",
        "Magento 1",
        Session,
        "Magento 1 starts a session for every visitor. A full-page-cache extension is needed.",
        "openmage: Mage_Core_Model_Session_Abstract_Varien",
    ),
    row(
        "sw-*",
        "Shopware 6",
        Preference,
        "Shopware's own marks for its HTTP cache. Nothing to do.",
        "shopware: HTTP cache",
    ),
    row(
        "session-",
        "Shopware 6",
        Session,
        "Set with the cart or the login. If every visitor gets it, an extension writes to the session on every page.",
        "shopware: framework.session.name",
    ),
    row(
        "ghost-members-ssr",
        "Ghost",
        Session,
        "Set when a member signs in. Nothing to do.",
        "ghost: core/server/services/members",
    ),
    row(
        "_t",
        "Discourse",
        Session,
        "Set at login. Nothing to do.",
        "discourse: lib/auth/default_current_user_provider.rb",
    ),
    row(
        "_forum_session",
        "Discourse",
        Session,
        "Discourse keeps an anonymous cache of its own and sends no lifetimes; only its assets are for a cache in front.",
        "discourse: config/initializers",
    ),
    row(
        "__ac",
        "Plone",
        Session,
        "Set at login. Nothing to do.",
        "plone: Products.PluggableAuthService cookie",
    ),
    row(
        "statusmessages",
        "Plone",
        Session,
        "A message that the next page shows. Nothing to do unless every page sets it.",
        "plone: Products.statusmessages",
    ),
    row(
        "_ZopeId",
        "Zope",
        Session,
        "An add-on uses Zope's sessions on this page. Find it.",
        "zope: browser id manager",
    ),
    row(
        "MoodleSession*",
        "Moodle",
        Session,
        "Moodle starts a session for every visitor. Its pages are not for sharing; its theme and plug-in files are.",
        "moodle: lib/classes/session/manager.php",
    ),
    row(
        "phpbb*",
        "phpBB",
        Session,
        "The forum starts a session for every visitor and counts it. Its pages are not for sharing; its files are.",
        "phpbb: phpbb/session.php",
    ),
    row(
        "xf_session",
        "XenForo",
        Session,
        "Set when the forum has something to remember. Guests should get none; look for add-ons.",
        "xenforo.com: cookie usage",
    ),
    row(
        "xf_csrf",
        "XenForo",
        FormToken,
        "XenForo sets it for every visitor. Use its guest page caching.",
        "xenforo.com: cookie usage",
    ),
    row(
        "csrf_contao_csrf_token",
        "Contao",
        FormToken,
        "Set on pages with a form, for visitors who have another cookie. Find which cookie comes first.",
        "docs.contao.org: caching, CSRF",
    ),
    row(
        "csrf_https-contao_csrf_token",
        "Contao",
        FormToken,
        "Set on pages with a form, for visitors who have another cookie. Find which cookie comes first.",
        "docs.contao.org: caching, CSRF",
    ),
    row(
        "oc_sessionPassphrase",
        "Nextcloud",
        Session,
        "Nextcloud starts a session for every visitor. Its pages are not for sharing.",
        "nextcloud/server: lib/private/Session/CryptoWrapper.php",
    ),
    row(
        "nc_sameSiteCookie*",
        "Nextcloud",
        Protection,
        "Nextcloud sets it for every visitor. Its pages are not for sharing.",
        "nextcloud/server: lib/base.php",
    ),
    // Frameworks and languages.
    row(
        "PHPSESSID",
        "PHP",
        Session,
        "PHP's session_start() sets it. The application, or one of its plug-ins or its theme, calls it for visitors without a session: search for session_start, and let it run only behind a login, a cart or a form.",
        "php.net/manual: session.name",
    ),
    row(
        "laravel_session",
        "Laravel",
        Session,
        "The middleware StartSession sets it on every route of the group \"web\". Move public pages to routes without it.",
        "laravel/laravel: config/session.php",
    ),
    row(
        "XSRF-TOKEN",
        "Laravel, Angular",
        FormToken,
        "The middleware that checks forms sets it on every route of the group \"web\". Move public pages to routes without it, or fetch the token by script.",
        "laravel/framework: VerifyCsrfToken",
    ),
    row(
        "ci_session",
        "CodeIgniter",
        Session,
        "The session library is loaded on every page. Load it only where it is needed.",
        "codeigniter.com: sessions",
    ),
    row(
        "CAKEPHP",
        "CakePHP",
        Session,
        "Something reads or writes the session on this page. Move it behind the login.",
        "book.cakephp.org: sessions",
    ),
    row(
        "csrftoken",
        "Django",
        FormToken,
        "A template of this page uses {% csrf_token %}, or a view calls get_token(). Load the form by script, or leave it out of pages that are to be shared.",
        "docs.djangoproject.com: CSRF_COOKIE_NAME",
    ),
    row(
        "sessionid",
        "Django",
        Session,
        "A view or middleware writes to request.session, or SESSION_SAVE_EVERY_REQUEST is on.",
        "docs.djangoproject.com: SESSION_COOKIE_NAME",
    ),
    row(
        "messages",
        "Django",
        Session,
        "A message that the next page shows. Nothing to do unless every page sets it.",
        "docs.djangoproject.com: messages framework",
    ),
    row(
        "JSESSIONID*",
        "Java servlets",
        Session,
        "The application calls getSession(), as a JSP does on every page unless told not to: <%@ page session=\"false\" %>.",
        "Jakarta Servlet specification, 7.1.1",
    ),
    row(
        "ASP.NET_SessionId",
        "ASP.NET",
        Session,
        "Something writes to Session on this page; EnableSessionState=\"False\" in its @Page directive shows what.",
        "learn.microsoft.com: ASP.NET session state",
    ),
    row(
        ".AspNetCore.Session",
        "ASP.NET Core",
        Session,
        "Something writes to HttpContext.Session on this page. Move it behind the login.",
        "learn.microsoft.com: session in ASP.NET Core",
    ),
    row(
        ".AspNetCore.Antiforgery.*",
        "ASP.NET Core",
        FormToken,
        "A form on this page carries an antiforgery token. Load the form by script, or leave it out of pages that are to be shared.",
        "learn.microsoft.com: antiforgery in ASP.NET Core",
    ),
    row(
        "connect.sid",
        "Express",
        Session,
        "The middleware express-session saves every new session. Set saveUninitialized: false.",
        "expressjs/session: README",
    ),
    row(
        "_csrf",
        "Express csurf, Yii",
        FormToken,
        "The page asks for a form token. Load the form by script, or leave it out of pages that are to be shared.",
        "yiiframework.com: yii\\web\\Request csrfParam",
    ),
    row(
        "*_session",
        "Rails, MediaWiki and others",
        Session,
        "The application starts a session. Something on this page (a form token, a flash message, a counter) writes to it: move it behind the login.",
        "guides.rubyonrails.org: session; mediawiki: $wgSessionName",
    ),
    // What stands in front.
    row("AWSALB*", "AWS load balancer", Balancing, BALANCER, "docs.aws.amazon.com: sticky sessions"),
    row("AWSELB*", "AWS load balancer", Balancing, BALANCER, "docs.aws.amazon.com: sticky sessions"),
    row("ARRAffinity*", "Azure App Service", Balancing, BALANCER, "learn.microsoft.com: ARR affinity"),
    row(
        "ApplicationGatewayAffinity*",
        "Azure Application Gateway",
        Balancing,
        BALANCER,
        "learn.microsoft.com",
    ),
    row("GCLB", "Google Cloud load balancer", Balancing, BALANCER, "cloud.google.com: session affinity"),
    row("BIGipServer*", "F5 BIG-IP", Balancing, BALANCER, "my.f5.com: cookie persistence"),
    row("SERVERID*", "HAProxy", Balancing, BALANCER, "docs.haproxy.org: cookie"),
    row("__cfduid", "Cloudflare (until 2021)", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("__cf_bm", "Cloudflare", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("_cfuvid", "Cloudflare", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("cf_clearance", "Cloudflare", Protection, ROBOTS, "developers.cloudflare.com: cookies"),
    row("incap_ses_*", "Imperva", Protection, ROBOTS, "docs.imperva.com: cookies"),
    row("visid_incap_*", "Imperva", Protection, ROBOTS, "docs.imperva.com: cookies"),
    row("nlbi_*", "Imperva", Balancing, ROBOTS, "docs.imperva.com: cookies"),
    row("ak_bmsc", "Akamai", Protection, ROBOTS, "techdocs.akamai.com: bot manager"),
    row("bm_sv", "Akamai", Protection, ROBOTS, "techdocs.akamai.com: bot manager"),
    row("datadome", "DataDome", Protection, ROBOTS, "docs.datadome.co"),
    // Measurement and consent.
    row("_ga", "Google Analytics", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_ga_*", "Google Analytics", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_gid", "Google Analytics", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_gcl_*", "Google Ads", Analytics, ANALYTICS, "developers.google.com: cookie usage"),
    row("_fbp", "Meta Pixel", Analytics, ANALYTICS, "developers.facebook.com: fbp and fbc"),
    row("_fbc", "Meta Pixel", Analytics, ANALYTICS, "developers.facebook.com: fbp and fbc"),
    row("_pk_*", "Matomo", Analytics, ANALYTICS, "matomo.org: cookies"),
    row("_hj*", "Hotjar", Analytics, ANALYTICS, "hotjar.com: cookies"),
    row("hubspotutk", "HubSpot", Analytics, ANALYTICS, "hubspot.com: cookies"),
    row("CookieConsent", "Cookiebot", Consent, BANNER, "cookiebot.com"),
    row("cookieyes-consent", "CookieYes", Consent, BANNER, "cookieyes.com"),
    row("cookielawinfo-*", "CookieYes (GDPR Cookie Consent)", Consent, BANNER, "cookieyes.com"),
    row("cmplz_*", "Complianz", Consent, BANNER, "complianz.io"),
    row("borlabs-cookie", "Borlabs Cookie", Consent, BANNER, "borlabs.io"),
    row("OptanonConsent", "OneTrust", Consent, BANNER, "onetrust.com"),
    row("cookie_notice_accepted", "Cookie Notice", Consent, BANNER, "wordpress.org: cookie-notice"),
    row("cookieconsent_status", "Cookie Consent", Consent, BANNER, "cookieconsent.osano.com"),
];

#[cfg(test)]
mod tests {
    use super::{KNOWN_COOKIES, known_cookie};

    fn software(name: &str) -> Option<&'static str> {
        known_cookie(name.as_bytes()).map(|row| row.software)
    }

    #[test]
    fn cookies_are_found_by_name_or_family() {
        for (name, expected) in [
            ("PHPSESSID", Some("PHP")),
            ("wordpress_logged_in_0a1b", Some("WordPress")),
            ("wp_woocommerce_session_0a1b", Some("WooCommerce")),
            ("woocommerce_cart_hash", Some("WooCommerce")),
            ("wp-wpml_current_language", Some("WPML")),
            ("_icl_current_language", Some("WPML (before 4)")),
            ("pll_language", Some("Polylang")),
            ("PrestaShop-0a1b2c", Some("PrestaShop")),
            ("fe_typo_user", Some("TYPO3")),
            ("SSESS0a1b", Some("Drupal")),
            ("SESS0a1b", Some("Drupal")),
            ("sessionid", Some("Django")),
            ("laravel_session", Some("Laravel")),
            ("wiki_session", Some("Rails, MediaWiki and others")),
            ("csrftoken", Some("Django")),
            ("__cfduid", Some("Cloudflare (until 2021)")),
            ("session", None),
            ("phpsessid", None),
            ("theme", None),
        ] {
            assert_eq!(software(name), expected, "{name}");
        }
    }

    #[test]
    fn no_row_hides_behind_an_earlier_one() {
        for row in KNOWN_COOKIES {
            let found = known_cookie(row.name.replace('*', "0").as_bytes()).unwrap();
            assert_eq!(found.name, row.name);
        }
    }

    #[test]
    fn every_row_says_what_to_do_in_sentences_and_where_it_is_from() {
        for row in KNOWN_COOKIES {
            assert!(row.remedy.ends_with('.') && row.remedy.starts_with(char::is_uppercase), "{}", row.name);
            assert!(!row.source.is_empty() && !row.software.is_empty(), "{}", row.name);
        }
    }
}
