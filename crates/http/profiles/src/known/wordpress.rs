//! Cookies of WordPress and its plug-ins.
//!
//! Invariant: exact names come before families. `known` searches this table first.

use super::CookiePurpose::{Analytics, Preference, Protection, Session};
use super::{KnownCookie, row};

/// WordPress and its plug-ins.
pub(super) const ROWS: &[KnownCookie] = &[
    row(
        "wordpress_logged_in_*",
        "WordPress",
        Session,
        "Set at login. A request with it passes; nothing to do.",
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
        "A plug-in tells caches to pass this visitor's requests. Nothing to do unless every visitor gets it.",
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
        "WPML sets it for every visitor when \"Language filtering for AJAX operations\" is on (WPML, \
         Languages). Switch that off: the language is in the URL.",
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
        "It groups visitors for LiteSpeed's own cache. With another web server the plug-in is useless; \
         remove it.",
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
        "The plug-in uses it for its report of visits and logins, for every visitor. No page depends on it.",
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
];
