//! Cookies of frameworks and languages, which any application written with them may set.
//!
//! Invariant: exact names come before families. The widest family, names that end in `_session`, is
//! last.

use super::CookiePurpose::{FormToken, Session};
use super::{KnownCookie, row};

/// Frameworks and languages.
pub(super) const ROWS: &[KnownCookie] = &[
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
        "It contains a message for the next page. Nothing to do unless every page sets it.",
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
];
