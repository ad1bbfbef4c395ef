//! Which links a program must not follow on its own, and why.
//!
//! A GET request should be safe (RFC 9110 section 9.2.1), but many applications log out, delete or
//! buy by a link. The table [`RULES`] lists the forms of such links in the usual systems, and of
//! links that lead to endlessly many pages.
//!
//! Invariant: in doubt a link is refused. A missing page costs a figure, and a followed action
//! costs data. The rules look at the URL alone, with percent-encodings decoded and in lower case;
//! they look at whole words of a path, so that an article about deleting is not refused.

mod table;

pub use table::RULES;

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

/// The consequence of following a refused link.
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
    /// The consequence of following the link.
    pub class: RuleClass,
    /// The name in reports, such as "add-to-cart link".
    pub name: &'static str,
    /// Why such links are not followed: a sentence.
    pub reason: &'static str,
    /// Whole segments of the path without extension, in lower case. A pair with a slash means two
    /// adjacent segments.
    segments: &'static [&'static str],
    /// Texts anywhere in a segment.
    within_segments: &'static [&'static str],
    /// Names of parameters. A `*` at the beginning or end of a name matches any text there.
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

    /// Whether a rule matches by conditions beyond the table of names.
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
mod tests;
