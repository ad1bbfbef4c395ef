//! Which links a program must not follow on its own, and why.
//!
//! A GET request should be safe (RFC 9110 section 9.2.1), but many applications log out, delete or
//! buy by a link. The table [`RULES`] lists the forms of such links in the usual systems, and of
//! links that lead to endlessly many pages.
//!
//! Invariant: in doubt a link is refused. A page that is left out costs a figure, and a followed
//! action costs data. The rules look at the URL alone, with percent-encodings decoded and in lower
//! case; they look at whole words of a path, so that an article about deleting is not refused.

use semantics::percent_decoded;
use serde::{Deserialize, Serialize};
use url::Url;

/// Path segments of a page; deeper ones come from links that lengthen themselves.
const SEGMENTS_MAX: usize = 12;

/// How often a segment may occur in one path.
const REPETITIONS_MAX: usize = 2;

/// Parameters of a page; more of them are a combination of filters.
const PARAMETERS_MAX: usize = 6;

/// Words that ask an application to change something, as a whole segment or value.
const VERBS: &[&str] = &[
    "add",
    "approve",
    "ban",
    "cancel",
    "clear",
    "clone",
    "delete",
    "destroy",
    "disable",
    "dislike",
    "downvote",
    "enable",
    "erase",
    "flush",
    "follow",
    "hide",
    "lock",
    "markread",
    "publish",
    "purge",
    "rate",
    "rebuild",
    "reject",
    "remove",
    "reset",
    "restore",
    "revert",
    "rollback",
    "save",
    "spam",
    "submit",
    "subscribe",
    "toggle",
    "trash",
    "unapprove",
    "unfollow",
    "unlock",
    "unpublish",
    "unsubscribe",
    "untrash",
    "update",
    "upvote",
    "vote",
];

/// Values of an action parameter that only show something, such as TYPO3's detail pages.
const READ_ACTIONS: &[&str] = &["", "detail", "display", "index", "list", "read", "show", "view"];

/// Names of MediaWiki's namespace of special pages in the languages of its larger wikis. Each wiki
/// also accepts the English one.
const SPECIAL_NAMESPACES: &[&str] = &[
    "special",
    "spezial",
    "spécial",
    "especial",
    "speciale",
    "speciaal",
    "specjalna",
    "speciální",
    "служебная",
    "спеціальна",
    "特別",
    "特殊",
    "특수",
    "toiminnot",
    "spesial",
    "özel",
    "speciel",
];

/// What a refused link would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleClass {
    /// Following the link may change something.
    Effect,
    /// The link leads to endlessly many pages, or to a page again.
    Trap,
    /// The link leads to something else than a page for every visitor.
    Other,
}

/// A rule that refuses links. Its row in [`RULES`] has its name and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkRule {
    /// Ends the visitor's session.
    LogOut,
    /// Puts something into a cart, or takes it out.
    Cart,
    /// Changes a wish list or a comparison.
    Wishlist,
    /// Has a token that permits a change.
    Token,
    /// Removes or changes something by a word of the path or a parameter.
    Change,
    /// Names an action in a parameter.
    Action,
    /// Starts a job of the system.
    Job,
    /// Leads to the administration or an editor.
    Admin,
    /// Leads to a form for credentials.
    LogIn,
    /// Has the identifier of a session.
    Session,
    /// Is a special page of MediaWiki.
    SpecialPage,
    /// Shows an old version, a difference or a preview.
    OldVersion,
    /// Answers a comment.
    Reply,
    /// Sends the visitor to another place.
    Redirector,
    /// Is the result of a search.
    Search,
    /// Is the page in another form: for printing, or as a file.
    OtherForm,
    /// Is a feed.
    Feed,
    /// Is an interface for programs.
    Interface,
    /// Is a file, not a page.
    Download,
    /// Has a path that repeats itself or is very deep.
    DeepPath,
    /// Has many parameters.
    ManyParameters,
}

/// A row of the table of rules.
#[derive(Debug)]
pub struct RuleRow {
    /// The rule.
    pub rule: LinkRule,
    /// What the link would do.
    pub class: RuleClass,
    /// The name in reports, such as "add-to-cart link".
    pub name: &'static str,
    /// Why such links are not followed: a sentence.
    pub reason: &'static str,
    /// Whole segments of the path without extension, in lower case. A pair with a slash stands for
    /// two segments that follow each other.
    segments: &'static [&'static str],
    /// Texts anywhere in a segment.
    within_segments: &'static [&'static str],
    /// Names of parameters. With a `*` at its beginning or end, a name stands for all that end or
    /// begin with the rest.
    parameters: &'static [&'static str],
    /// Extensions of the last segment.
    extensions: &'static [&'static str],
    /// A form that the names above do not show, for the documentation.
    form: Option<&'static str>,
}

impl RuleRow {
    /// A few forms of such links, for the documentation.
    pub(crate) fn examples(&self) -> Vec<String> {
        let segments = self.segments.iter().chain(self.within_segments).map(|name| format!("/{name}"));
        let parameters = self.parameters.iter().map(|name| format!("?{name}="));
        let extensions = self.extensions.iter().map(|name| format!(".{name}"));
        let named = segments.take(3).chain(parameters.take(3)).chain(extensions.take(3));
        named.chain(self.form.map(str::to_owned)).collect()
    }
}

const ROW: RuleRow = RuleRow {
    rule: LinkRule::LogOut,
    class: RuleClass::Effect,
    name: "",
    reason: "",
    segments: &[],
    within_segments: &[],
    parameters: &[],
    extensions: &[],
    form: None,
};

/// All rules. The first one that matches a URL gives the reason, so actions precede traps.
pub const RULES: &[RuleRow] = &[
    RuleRow {
        name: "log-out link",
        reason: "It ends the session whose cookies are sent.",
        segments: &[
            "logoff",
            "log-off",
            "abmelden",
            "ausloggen",
            "deconnexion",
            "déconnexion",
            "se-deconnecter",
            "cerrar-sesion",
            "salir",
            "sair",
            "esci",
            "disconnetti",
            "uitloggen",
            "afmelden",
            "wyloguj",
            "odhlasit",
            "logga-ut",
            "log-ud",
            "logg-ut",
            "kirjaudu-ulos",
            "çikis",
            "выход",
        ],
        within_segments: &[
            "logout",
            "log-out",
            "log_out",
            "signout",
            "sign-out",
            "sign_out",
            "signoff",
            "userlogout",
        ],
        parameters: &["logout", "*logout", "logoff", "signout", "log_out"],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Cart,
        name: "add-to-cart link",
        reason: "It changes the cart, and starts a session.",
        segments: &[
            "cart/add",
            "cart/delete",
            "cart/remove",
            "basket/add",
            "basket/remove",
            "warenkorb/add",
            "checkout/cart",
            "order-pay",
            "buy-now",
            "place-order",
        ],
        within_segments: &["add-to-cart", "add_to_cart", "addtocart", "add-to-basket", "add_to_basket"],
        parameters: &[
            "*add-to-cart",
            "add-to-cart*",
            "*add_to_cart",
            "add_to_cart*",
            "addtocart",
            "remove_item",
            "removed_item",
            "undo_item",
            "update_cart",
            "empty-cart",
            "empty_cart",
            "apply_coupon",
            "remove_coupon",
            "coupon_code",
            "buy-now",
            "buy_now",
            "add-to-basket",
            "order_again",
            "*pay_for_order",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Wishlist,
        name: "wish-list or comparison link",
        reason: "It changes the visitor's list, and starts a session.",
        segments: &[
            "wishlist/add",
            "wishlist/remove",
            "compare/add",
            "compare/remove",
            "product_compare/add",
        ],
        within_segments: &["add_to_wishlist", "add-to-wishlist", "add-to-compare", "add_to_compare"],
        parameters: &[
            "*wishlist*",
            "add_to_wishlist*",
            "remove_from_wishlist*",
            "*add_to_compare",
            "add-to-compare*",
            "*yith-woocompare*",
            "add_to_favorites",
            "favorite",
            "bookmark",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Token,
        name: "link with a token",
        reason: "A token permits a change. It belongs to one visitor, and each page has a new one.",
        parameters: &[
            "*nonce",
            "*nonce_*",
            "*token",
            "token_*",
            "*csrf*",
            "*xsrf*",
            "sesskey",
            "authenticity_token",
            "form_build_id",
            "form_key",
            "formkey",
            "security_hash",
            "hash_token",
            "activation_key",
            "confirm",
            "confirmation",
            "verify",
            "verification_code",
            "otp",
            "key",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Job,
        name: "link that starts a job",
        reason: "It runs scheduled work, an installation or an update of the system.",
        segments: &[
            "wp-cron",
            "cron",
            "install.php",
            "upgrade.php",
            "update.php",
            "wp-trackback",
            "trackback",
            "wp-comments-post",
            "xmlrpc",
            "run-jobs",
        ],
        parameters: &[
            "doing_wp_cron",
            "cron",
            "cron_key",
            "rebuild",
            "clear_cache",
            "flush_cache",
            "purge_cache",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::SpecialPage,
        name: "special page of a wiki",
        reason: "Special pages log out, send mail, or are computed for each request.",
        form: Some("/wiki/Special:RecentChanges"),
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Action,
        name: "link with an action",
        reason: "Its parameter tells the application to do something, such as edit, delete or watch.",
        parameters: &[
            "action",
            "*[action]",
            "*_action",
            "*-action",
            "actions",
            "do",
            "op",
            "cmd",
            "command",
            "task",
            "method",
            "_method",
            "wc-ajax",
            "ajax",
            "veaction",
            "bulk_action",
            "func",
            "operation",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Change,
        name: "link that changes or deletes",
        reason: "A word of the URL asks for a change, such as delete, vote or unsubscribe.",
        segments: VERBS,
        parameters: &[
            "delete",
            "delete_*",
            "del",
            "remove",
            "remove_*",
            "trash",
            "untrash",
            "trashed",
            "vote",
            "like",
            "like_comment",
            "unlike",
            "rate",
            "rating",
            "follow",
            "unfollow",
            "subscribe",
            "unsubscribe",
            "approve",
            "spam",
            "approved",
            "mark_read",
            "markread",
            "dismiss",
            "activate",
            "deactivate",
            "reset",
            "switch_theme",
            "switch_to",
            "switch_style",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Admin,
        class: RuleClass::Other,
        name: "administration or editor",
        reason: "It is for editors, never shared, and may take a lock on what it edits.",
        segments: &[
            "wp-admin",
            "administrator",
            "admin",
            "typo3",
            "backend",
            "edit",
            "user/edit",
            "controlpanel",
            "control-panel",
            "phpmyadmin",
            "umbraco",
            "sitecore",
            "add-new",
            "post-new",
        ],
        parameters: &[
            "edit",
            "customize_changeset_uuid",
            "elementor-preview",
            "fl_builder",
            "et_fb",
            "vc_editable",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::LogIn,
        class: RuleClass::Other,
        name: "log-in or registration form",
        reason: "It sets cookies, is never shared, and may count as an attempt to break in.",
        segments: &[
            "wp-login",
            "wp-signup",
            "wp-activate",
            "login",
            "log-in",
            "log_in",
            "signin",
            "sign-in",
            "sign_in",
            "signup",
            "sign-up",
            "sign_up",
            "register",
            "registration",
            "lostpassword",
            "lost-password",
            "forgot-password",
            "password_reset",
            "password-reset",
            "resetpassword",
            "user/password",
            "user/register",
            "anmelden",
            "einloggen",
            "connexion",
            "iniciar-sesion",
            "oauth",
            "oauth2",
            "sso",
            "saml",
            "openid",
            "auth",
            "userlogin",
        ],
        parameters: &["login", "register", "lostpassword", "checkemail", "reauth", "interim-login"],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Session,
        class: RuleClass::Trap,
        name: "link with a session identifier",
        reason: "Each visit gets another identifier, so each page would be visited again and again.",
        within_segments: &[";jsessionid=", ";phpsessid=", ";sid=", "(s("],
        parameters: &[
            "phpsessid",
            "jsessionid",
            "sessionid",
            "session_id",
            "sid",
            "oscsid",
            "zenid",
            "cfid",
            "cftoken",
            "aspsessionid*",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Reply,
        class: RuleClass::Trap,
        name: "reply-to-comment link",
        reason: "It is the same page with another form, once for each comment.",
        segments: &["comment/reply"],
        parameters: &["replytocom", "replyto", "reply_to", "parent_comment", "comment_parent", "quote"],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::OldVersion,
        class: RuleClass::Trap,
        name: "old version, difference or preview",
        reason: "There is one for each edit of each page, and visitors rarely read them.",
        segments: &["revisions", "revision", "diff", "compare", "blame", "commits", "preview"],
        parameters: &[
            "oldid",
            "diff",
            "difftype",
            "rcid",
            "curid",
            "rev",
            "rev2*",
            "revision",
            "preview",
            "preview_*",
            "undo",
            "undoafter",
            "stable",
            "offset_history",
            "rvslots",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Redirector,
        class: RuleClass::Trap,
        name: "redirecting or sharing link",
        reason: "It leads elsewhere, or returns to the page it was on: one for each page.",
        segments: &["share", "redirect", "outgoing", "out", "goto", "click"],
        parameters: &[
            "redirect",
            "redirect_to",
            "redirect_url",
            "returnto",
            "returntoquery",
            "return_to",
            "return",
            "return_url",
            "returnurl",
            "destination",
            "next",
            "back",
            "backurl",
            "continue",
            "referer",
            "ref_url",
            "goto",
            "share",
            "nb",
            "url",
            "u",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Search,
        class: RuleClass::Trap,
        name: "search result",
        reason: "There are endlessly many, and each costs the database more than a page.",
        segments: &["search/node", "search/results", "catalogsearch", "page/search", "-search"],
        parameters: &[
            "s",
            "query",
            "search",
            "search_*",
            "keys",
            "keyword",
            "keywords",
            "searchword",
            "term",
            "wd",
            "tx_indexedsearch*",
            "tx_kesearch*",
            "tx_solr*",
            "fulltext",
            "search_query",
            "post_type_search",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::OtherForm,
        class: RuleClass::Trap,
        name: "page for printing or as a file",
        reason: "It is the content of a page again.",
        segments: &["print", "printable", "amp", "pdf", "export", "ical", "ics", "embed", "email-a-friend"],
        parameters: &[
            "print",
            "printable",
            "pdf",
            "format",
            "export",
            "download",
            "attachment",
            "ical",
            "outlook-ical",
            "tmpl",
            "layout_print",
            "amp",
            "mobileaction",
            "noamp",
            "attachment_id",
            "useskin",
            "printpreview",
            "type_num_print",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Feed,
        class: RuleClass::Other,
        name: "feed",
        reason: "It is read by programs, not by visitors.",
        segments: &["feed", "rss", "rss2", "atom", "feeds"],
        parameters: &["feed", "rss"],
        extensions: &["rss", "atom", "rdf"],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Interface,
        class: RuleClass::Other,
        name: "interface for programs",
        reason: "It is no page.",
        segments: &[
            "wp-json",
            "graphql",
            "jsonapi",
            "api",
            "rest",
            "oembed",
            "admin-ajax",
            "load.php",
            "opensearch_desc",
            "rest_v1",
            ".well-known",
            "cdn-cgi",
        ],
        parameters: &["rest_route", "callback", "_format", "_wrapper_format"],
        extensions: &["json", "xml", "txt", "xsl", "yaml", "yml", "wsdl"],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::Download,
        class: RuleClass::Other,
        name: "file",
        reason: "It is no page. A cache stores files as they are, whatever the application does.",
        extensions: &[
            "7z",
            "aac",
            "apk",
            "avi",
            "avif",
            "bin",
            "bmp",
            "bz2",
            "css",
            "csv",
            "deb",
            "dmg",
            "doc",
            "docx",
            "eot",
            "epub",
            "exe",
            "flac",
            "gif",
            "gz",
            "ico",
            "ics",
            "iso",
            "jar",
            "jpeg",
            "jpg",
            "js",
            "m4a",
            "m4v",
            "map",
            "mjs",
            "mkv",
            "mov",
            "mp3",
            "mp4",
            "mpeg",
            "mpg",
            "msi",
            "odp",
            "ods",
            "odt",
            "ogg",
            "ogv",
            "opus",
            "otf",
            "pdf",
            "png",
            "ppt",
            "pptx",
            "ps",
            "rar",
            "rpm",
            "rtf",
            "sql",
            "svg",
            "swf",
            "tar",
            "tgz",
            "tif",
            "tiff",
            "ttf",
            "vcf",
            "wasm",
            "wav",
            "webm",
            "webmanifest",
            "webp",
            "wmv",
            "woff",
            "woff2",
            "xls",
            "xlsx",
            "xz",
            "zip",
            "zst",
        ],
        ..ROW
    },
    RuleRow {
        rule: LinkRule::DeepPath,
        class: RuleClass::Trap,
        name: "very deep or repeating path",
        reason: "Relative links that lengthen themselves lead to endlessly many such paths.",
        form: Some("/a/b/a/b/a/b"),
        ..ROW
    },
    RuleRow {
        rule: LinkRule::ManyParameters,
        class: RuleClass::Trap,
        name: "link with many parameters",
        reason: "It is one of very many combinations of filters.",
        form: Some("seven parameters"),
        ..ROW
    },
];

impl LinkRule {
    /// The row of the rule; every rule has one, as a test shows.
    pub fn row(self) -> &'static RuleRow {
        static NONE: RuleRow = ROW;
        RULES.iter().find(|row| row.rule == self).unwrap_or(&NONE)
    }
}

/// A URL as the rules look at it: decoded and in lower case.
struct Looked {
    segments: Vec<String>,
    parameters: Vec<(String, String)>,
    /// The extension of the last segment. The description of a file in a wiki, such as
    /// `File:Map.png`, is a page.
    extension: Option<String>,
}

impl Looked {
    fn new(url: &Url) -> Self {
        let lower = |bytes: &[u8]| String::from_utf8_lossy(&percent_decoded(bytes)).trim().to_lowercase();
        let segments = url.path().split('/').map(|segment| lower(segment.as_bytes()));
        let mut segments: Vec<String> = segments.filter(|segment| !segment.is_empty()).collect();
        let last = segments.last().filter(|segment| !segment.contains(':'));
        let extension = last.and_then(|segment| segment.rsplit_once('.')).map(|(_, end)| end.to_owned());
        let query = url.query().unwrap_or_default();
        let mut parameters = Vec::new();
        // Some applications separate parameters by `;`.
        for parameter in query.split(['&', ';']).filter(|parameter| !parameter.is_empty()) {
            let parameter = parameter.replace('+', " ");
            let (name, value) = parameter.split_once('=').unwrap_or((parameter.as_str(), ""));
            parameters.push((lower(name.as_bytes()), lower(value.as_bytes())));
        }
        // Several systems have the path of a page in a parameter.
        for (name, value) in &parameters {
            if matches!(
                name.as_str(),
                "title" | "q" | "r" | "route" | "path" | "page" | "p" | "option" | "view"
            ) {
                segments.extend(value.split('/').filter(|part| !part.is_empty()).map(str::to_owned));
            }
        }
        Self { segments, parameters, extension }
    }

    /// The segment without the extension of a program, such as `.php`.
    fn stem(segment: &str) -> &str {
        let programs = [".php", ".html", ".htm", ".aspx", ".asp", ".jsp", ".cgi", ".do", ".pl", ".cfm"];
        programs.iter().find_map(|program| segment.strip_suffix(*program)).unwrap_or(segment)
    }

    fn has_segment(&self, wanted: &str) -> bool {
        match wanted.split_once('/') {
            None => self.segments.iter().any(|segment| segment == wanted || Self::stem(segment) == wanted),
            Some((first, second)) => {
                let mut pairs = self.segments.iter().zip(self.segments.iter().skip(1));
                pairs.any(|(one, two)| one == first && Self::stem(two) == second)
            }
        }
    }

    fn has_parameter(&self, wanted: &str) -> bool {
        self.parameters.iter().any(|(name, _)| is_named(wanted, name))
    }

    fn matches(&self, row: &RuleRow) -> bool {
        if row.rule == LinkRule::Action {
            // `action=view` and its like show a page.
            let acts = |(name, value): &(String, String)| {
                row.parameters.iter().any(|wanted| is_named(wanted, name))
                    && !READ_ACTIONS.contains(&value.as_str())
            };
            return self.parameters.iter().any(acts);
        }
        let by_table = row.segments.iter().any(|wanted| self.has_segment(wanted))
            || row
                .within_segments
                .iter()
                .any(|text| self.segments.iter().any(|segment| segment.contains(text)))
            || row.parameters.iter().any(|wanted| self.has_parameter(wanted))
            || self.extension.as_deref().is_some_and(|extension| row.extensions.contains(&extension));
        by_table || self.matches_form(row.rule)
    }

    /// What a table of names cannot say.
    fn matches_form(&self, rule: LinkRule) -> bool {
        match rule {
            LinkRule::SpecialPage => self.segments.iter().any(|segment| {
                let namespace = segment.split_once(':').map(|(namespace, _)| namespace);
                namespace.is_some_and(|namespace| SPECIAL_NAMESPACES.contains(&namespace))
            }),
            LinkRule::LogOut => self
                .parameters
                .iter()
                .any(|(_, value)| ["logout", "logoff", "signout"].iter().any(|word| value.contains(word))),
            LinkRule::Change => {
                self.parameters.iter().any(|(_, value)| VERBS.contains(&value.as_str()))
                    || self.segments.iter().any(|segment| starts_with_verb(segment))
            }
            // Drupal has the path of a page in this parameter.
            LinkRule::Search => {
                self.parameters.iter().any(|(name, value)| name == "q" && !value.contains('/'))
            }
            LinkRule::DeepPath => {
                let count = |wanted: &String| self.segments.iter().filter(|other| *other == wanted).count();
                self.segments.len() > SEGMENTS_MAX
                    || self.segments.iter().any(|segment| count(segment) > REPETITIONS_MAX)
            }
            LinkRule::ManyParameters => self.parameters.len() > PARAMETERS_MAX,
            _ => false,
        }
    }
}

/// Whether a segment is the program of a change, such as `delete_post.php` or `removeItem.do`.
fn starts_with_verb(segment: &str) -> bool {
    let stem = Looked::stem(segment);
    let verbs = ["delete", "remove", "destroy", "unsubscribe"];
    stem.len() < segment.len()
        && !segment.ends_with(".html")
        && !segment.ends_with(".htm")
        && verbs.iter().any(|verb| stem.starts_with(verb))
}

/// Whether a name of a parameter is one of `wanted`, which may begin or end with `*`.
fn is_named(wanted: &str, name: &str) -> bool {
    match (wanted.strip_prefix('*'), wanted.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(wanted.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == wanted,
    }
}

/// The rule that forbids a program to request `url` on its own; `None` if no rule does.
pub fn link_refusal(url: &Url) -> Option<LinkRule> {
    let looked = Looked::new(url);
    RULES.iter().find(|row| looked.matches(row)).map(|row| row.rule)
}

#[cfg(test)]
mod tests {
    use super::{LinkRule, RULES, link_refusal};
    use proptest::prelude::{any, proptest};
    use std::collections::BTreeSet;
    use url::Url;

    fn refusal(target: &str) -> Option<LinkRule> {
        link_refusal(&Url::parse("http://site.test").unwrap().join(target).unwrap())
    }

    fn assert_rule(rule: LinkRule, targets: &[&str]) {
        for target in targets {
            assert_eq!(refusal(target), Some(rule), "{target}");
        }
    }

    #[test]
    fn every_rule_has_one_row_and_its_name() {
        let rules: BTreeSet<LinkRule> = RULES.iter().map(|row| row.rule).collect();
        let names: BTreeSet<&str> = RULES.iter().map(|row| row.name).collect();
        assert_eq!((rules.len(), names.len()), (RULES.len(), RULES.len()));
        assert_eq!(LinkRule::ManyParameters as usize + 1, RULES.len());
        for row in RULES {
            assert!(row.reason.ends_with('.') && row.rule.row().name == row.name);
            assert!(row.reason.split(' ').count() <= 25, "{}", row.reason);
        }
    }

    #[test]
    fn links_of_wordpress_are_judged() {
        assert_rule(
            LinkRule::LogOut,
            &["/wp-login.php?action=logout&_wpnonce=1", "/my-account/customer-logout/"],
        );
        assert_rule(LinkRule::Token, &["/?p=1&_wpnonce=ab", "/x/?_ajax_nonce=1"]);
        assert_rule(LinkRule::Reply, &["/hello-world/?replytocom=3"]);
        assert_rule(LinkRule::Admin, &["/wp-admin/", "/wp-admin/post.php?post=1"]);
        assert_rule(LinkRule::Action, &["/wp-admin/admin.php?page=x&action=edit"]);
        assert_rule(LinkRule::LogIn, &["/wp-login.php", "/wp-login.php?redirect_to=%2F"]);
        assert_rule(LinkRule::Feed, &["/feed/", "/comments/feed/", "/?feed=rss2", "/hello/feed"]);
        assert_rule(LinkRule::Interface, &["/wp-json/wp/v2/posts/1", "/?rest_route=/wp/v2"]);
        assert_rule(LinkRule::Job, &["/wp-cron.php?doing_wp_cron", "/xmlrpc.php"]);
        assert_rule(LinkRule::OldVersion, &["/?p=1&preview=true"]);
        assert_rule(LinkRule::Search, &["/?s=word", "/?s="]);
        assert_rule(LinkRule::Redirector, &["/hello/?share=facebook&nb=1"]);
        assert_rule(LinkRule::Download, &["/wp-content/uploads/2024/01/a.PDF", "/a.jpg?x=1"]);
        for page in
            ["/", "/?p=5", "/?page_id=2", "/2024/05/hello/", "/category/news/page/2/", "/?cat=3", "/?paged=2"]
        {
            assert_eq!(refusal(page), None, "{page}");
        }
    }

    #[test]
    fn links_of_woocommerce_are_judged() {
        assert_rule(
            LinkRule::Cart,
            &[
                "/shop/?add-to-cart=12",
                "/cart/?remove_item=ab&_wpnonce=1",
                "/?ADD-to-cart=1",
                "/cart/?undo_item=1",
                "/?%61dd-to-cart=5",
            ],
        );
        assert_rule(LinkRule::Wishlist, &["/product/x/?add_to_wishlist=7", "/wishlist/add/3"]);
        assert_rule(LinkRule::Action, &["/?wc-ajax=get_refreshed_fragments"]);
        assert_rule(LinkRule::Token, &["/checkout/order-received/12/?key=wc_order_a"]);
        for page in [
            "/shop/",
            "/product/blue-shirt/",
            "/product-category/shirts/?orderby=price",
            "/cart/",
            "/checkout/",
        ] {
            assert_eq!(refusal(page), None, "{page}");
        }
    }

    #[test]
    fn links_of_mediawiki_are_judged() {
        assert_rule(
            LinkRule::LogOut,
            &[
                "/wiki/Special:UserLogout",
                "/index.php?title=Special:UserLogout&returnto=X",
                "/index.php?title=Spezial%3AUserLogout",
            ],
        );
        assert_rule(
            LinkRule::SpecialPage,
            &["/wiki/Special:RecentChanges", "/wiki/Spezial:Abmelden", "/index.php?title=Sp%C3%A9cial:Pages"],
        );
        assert_rule(
            LinkRule::Action,
            &[
                "/index.php?title=X&action=edit",
                "/index.php?title=X&action=purge",
                "/w/index.php?title=X&action=edit&redlink=1",
                "/index.php?title=X&veaction=edit",
            ],
        );
        assert_rule(
            LinkRule::OldVersion,
            &[
                "/index.php?title=X&oldid=5",
                "/index.php?title=X&diff=prev&oldid=5",
                "/index.php?title=X&diff=7",
            ],
        );
        assert_rule(LinkRule::OtherForm, &["/index.php?title=X&printable=yes"]);
        for page in [
            "/wiki/Main_Page",
            "/index.php/Main_Page",
            "/index.php?title=Help:Contents",
            "/wiki/Deletion",
            "/wiki/User:Ann",
        ] {
            assert_eq!(refusal(page), None, "{page}");
        }
    }

    #[test]
    fn links_of_drupal_typo3_and_others_are_judged() {
        assert_rule(
            LinkRule::LogOut,
            &[
                "/user/logout",
                "/?q=user/logout",
                "/users/sign_out",
                "/account/logout.php",
                "/a?next=/logout",
                "/auth?do=logout",
            ],
        );
        assert_rule(
            LinkRule::Change,
            &[
                "/node/5/delete",
                "/posts/3/vote",
                "/delete_post.php?id=4",
                "/a?mode=delete",
                "/newsletter/unsubscribe",
            ],
        );
        assert_rule(
            LinkRule::Admin,
            &["/node/5/edit", "/typo3/index.php", "/administrator/", "/admin/config"],
        );
        assert_rule(
            LinkRule::Token,
            &["/flag/x/5?token=ab", "/lib/a.php?sesskey=x", "/a?csrf_token=1", "/a?authenticity_token=1"],
        );
        assert_rule(LinkRule::Reply, &["/comment/reply/node/5/comment"]);
        assert_rule(LinkRule::OldVersion, &["/node/5/revisions", "/start?rev=123"]);
        assert_rule(
            LinkRule::Action,
            &[
                "/a?tx_x_pi1[action]=create",
                "/start?do=edit",
                "/index.php?option=com_x&task=user.out",
                "/a?tx_x%5Baction%5D=new",
            ],
        );
        assert_rule(
            LinkRule::Session,
            &["/a;jsessionid=AB?x=1", "/a?PHPSESSID=1", "/viewtopic.php?f=1&sid=ab"],
        );
        assert_rule(LinkRule::OtherForm, &["/print/5", "/node/5?format=pdf"]);
        for page in [
            "/node/5",
            "/taxonomy/term/3?page=2",
            "/news/detail?tx_news_pi1[action]=detail&tx_news_pi1[controller]=News&cHash=ab",
            "/index.php?id=5&L=1",
            "/index.php?option=com_content&view=article&id=5",
            "/how-to-delete-a-file/",
            "/blog/remove-stains.html",
            "/viewtopic.php?f=1&t=5",
        ] {
            assert_eq!(refusal(page), None, "{page}");
        }
    }

    #[test]
    fn hidden_spellings_of_actions_are_found() {
        assert_rule(
            LinkRule::LogOut,
            &["/user/%6Cogout", "/USER/LOGOUT/", "/user/logout;x", "/a?x=1;logout=1"],
        );
        assert_rule(LinkRule::Cart, &["/x?a=1;add-to-cart=5", "/x?a=1&%20add-to-cart=5"]);
    }

    #[test]
    fn endless_paths_and_combinations_are_refused() {
        assert_rule(
            LinkRule::DeepPath,
            &["/a/b/a/b/a/b", &format!("/{}", ["x/y"; 8].join("/")), "/1/2/3/4/5/6/7/8/9/10/11/12/13"],
        );
        assert_rule(LinkRule::ManyParameters, &["/a?b=1&c=2&d=3&e=4&f=5&g=6&h=7"]);
        assert_eq!(refusal("/de/shop/de"), None);
    }

    proptest! {
        #[test]
        fn any_target_is_judged(text in any::<String>()) {
            if let Ok(url) = Url::parse("http://h/").unwrap().join(&text) {
                let _ = link_refusal(&url);
            }
        }

        #[test]
        fn log_out_is_refused_whatever_surrounds_it(before in "[a-z0-9]{1,8}", after in "[a-z0-9&=]{0,8}") {
            assert_eq!(refusal(&format!("/{before}/logout?{after}")), Some(LinkRule::LogOut));
        }
    }
}
