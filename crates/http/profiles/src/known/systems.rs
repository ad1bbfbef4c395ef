//! Cookies of other content management systems, shops and forums.
//!
//! Invariant: exact names come before families. WordPress has its own table, and so have the
//! frameworks and languages that systems are written in.

use super::CookiePurpose::{FormToken, Preference, Protection, Session};
use super::{KnownCookie, row};

/// Systems by name.
pub(super) const ROWS: &[KnownCookie] = &[
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
        "It identifies the user who was logged in. Nothing to do.",
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
        "PrestaShop sets it for every visitor, with the cart and the language. Its pages cannot be shared \
         without a full-page-cache module that fills in these parts by script.",
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
        "Discourse has its own cache for anonymous visitors and sends no lifetimes. A cache in front can \
         share only its assets.",
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
        "It contains a message for the next page. Nothing to do unless every page sets it.",
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
        "Moodle starts a session for every visitor. Its pages cannot be shared; its theme and plug-in files \
         can.",
        "moodle: lib/classes/session/manager.php",
    ),
    row(
        "phpbb*",
        "phpBB",
        Session,
        "The forum starts a session for every visitor and counts it. Its pages cannot be shared; its files \
         can.",
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
        "Nextcloud starts a session for every visitor. Its pages cannot be shared.",
        "nextcloud/server: lib/private/Session/CryptoWrapper.php",
    ),
    row(
        "nc_sameSiteCookie*",
        "Nextcloud",
        Protection,
        "Nextcloud sets it for every visitor. Its pages cannot be shared.",
        "nextcloud/server: lib/base.php",
    ),
];
