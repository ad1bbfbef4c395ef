//! Sites and routes whose visitors with the same rights share pages (`logged_in = "context"`).
//!
//! Invariant: nothing prints a key. A plan with a signed cookie always has its key.

use super::site::{LoggedIn, SitePlan};
use crate::ReadFile;
use crate::document::{Level, Located};
use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use document::{Diagnostic, Place};
use semantics::{ContextNames, is_void_declaration};
use std::fmt;
use std::sync::Arc;

/// Shortest key in bytes. An HMAC-SHA-256 with a shorter one is weaker than its hash.
const KEY_BYTES_MIN: usize = 32;

/// How the contexts of visitors are learned, and what their pages depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPlan {
    /// The names of field and media type.
    pub names: ContextNames,
    /// Where a context comes from.
    pub source: ContextSource,
    /// Whether the operator says that responses depend on the context alone.
    pub is_declared: bool,
}

/// Where the context of a visitor comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextSource {
    /// From the origin's answer to a request for this path.
    Answer(String),
    /// From the cookie of this name, which is signed with this key.
    Cookie(String, ContextKey),
}

/// A key for signed cookies.
#[derive(Clone, PartialEq, Eq)]
pub struct ContextKey(Arc<[u8]>);

impl ContextKey {
    /// A key of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ContextKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ContextKey")
    }
}

impl ContextPlan {
    /// The plan of a table; `None` if its mode is another one, or if there are problems.
    pub(super) fn resolve(
        levels: &SettingLevels<'_>,
        read: &ReadFile<'_>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        if levels.text("logged_in") != Some("context") {
            return None;
        }
        let text = |key| levels.text(key).unwrap_or_default().to_owned();
        let mut refuse = |key: &'static str, message: String, help: &str| {
            let place = levels.place(key).or_else(|| levels.place("logged_in")).unwrap_or(Place::Default);
            problems.push(Diagnostic::new(message, place).with_help(help));
        };
        let names = ContextNames { field: text("context_field"), media_type: text("context_media_type") };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !names.field.bytes().all(is_name) || is_void_declaration(&names.field, false) {
            let message = format!("`context_field` cannot be `{}`", names.field);
            refuse("context_field", message, "name a field of your own, as `X-User-Context-Hash`");
        }
        let is_type = |byte: u8| byte.is_ascii_graphic() && !b",;\"".contains(&byte);
        if !names.media_type.contains('/') || !names.media_type.bytes().all(is_type) {
            let message = format!("`context_media_type` is no media type: `{}`", names.media_type);
            refuse("context_media_type", message, "write one as `application/vnd.example.context`");
        }
        let path = text("context_path");
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            let message = format!("`context_path` is no path: `{path}`");
            refuse("context_path", message, "begin it with a slash, and encode other signs");
        }
        let source = match (levels.text("context_cookie"), levels.text("context_key_file")) {
            (None, None) => Some(ContextSource::Answer(path)),
            (Some(cookie), Some(file)) => match read_key(file, read) {
                Ok(key) => Some(ContextSource::Cookie(cookie.to_owned(), key)),
                Err(message) => {
                    refuse("context_key_file", message, "make it with `openssl rand -hex 32`");
                    None
                }
            },
            (Some(_), None) => {
                let message = "`context_cookie` needs the key with which it is signed".to_owned();
                refuse(
                    "context_cookie",
                    message,
                    "write context_key_file = \"/etc/petasos/context.key\" too",
                );
                None
            }
            (None, Some(_)) => {
                let message = "`context_key_file` has no effect without `context_cookie`".to_owned();
                refuse("context_key_file", message, "name the signed cookie, or leave the key out");
                None
            }
        };
        let is_declared = levels.value("context_pages") == Some(SettingValue::Switch(true));
        Some(Self { names, source: source?, is_declared })
    }
}

/// Reads a key: the text of the file without white space at its ends.
fn read_key(path: &str, read: &ReadFile<'_>) -> Result<ContextKey, String> {
    let text =
        read(path).map_err(|error| format!("cannot read the key of the signed cookie {path}: {error}"))?;
    let key = text.trim();
    if key.len() < KEY_BYTES_MIN {
        return Err(format!("the key in {path} is shorter than {KEY_BYTES_MIN} bytes"));
    }
    Ok(ContextKey::new(key.as_bytes()))
}

/// Lets all pages of one host refuse the names of contexts that one of them uses: a route that
/// passes leads to the same application, which would believe them.
pub(super) fn refuse_claims(sites: &mut [SitePlan]) {
    let mut claims: Vec<ContextNames> = Vec::new();
    for plan in sites.iter().filter_map(|site| site.context.as_ref()) {
        if !claims.contains(&plan.names) {
            claims.push(plan.names.clone());
        }
    }
    sites.iter_mut().for_each(|site| site.refused_claims.clone_from(&claims));
}

/// Settings of modes for visitors who are logged in, with the mode that uses them.
const OF_MODES: [(&str, LoggedIn, &str); 7] = [
    ("private_ttl", LoggedIn::Private, "private"),
    ("context_path", LoggedIn::Context, "context"),
    ("context_field", LoggedIn::Context, "context"),
    ("context_media_type", LoggedIn::Context, "context"),
    ("context_cookie", LoggedIn::Context, "context"),
    ("context_key_file", LoggedIn::Context, "context"),
    ("context_pages", LoggedIn::Context, "context"),
];

/// Refuses settings of a mode in tables if none of the `sites` that have them uses the mode.
pub(super) fn without_mode<'a>(
    tables: impl Iterator<Item = &'a Level> + Clone,
    sites: &[SitePlan],
) -> Vec<Diagnostic> {
    // Without a site, a problem was found already.
    if sites.is_empty() {
        return Vec::new();
    }
    let unused = OF_MODES.iter().filter(|(_, mode, _)| sites.iter().all(|site| site.logged_in != *mode));
    let problem = |(key, mode): (&'static str, &'static str), located: &Located| {
        Diagnostic::new(format!("`{key}` has no effect without `logged_in`"), located.place.clone())
            .with_help(format!("add logged_in = \"{mode}\", or leave `{key}` out"))
    };
    unused
        .flat_map(|(key, _, mode)| {
            let stated = tables.clone().filter_map(|level| level.get(key));
            stated.map(|located| problem((*key, *mode), located)).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{ContextKey, ContextSource};
    use crate::{EdgePlan, LoggedIn, Machine, Overrides};

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn load(text: &str) -> Result<EdgePlan, String> {
        let read = |path: &str| match path {
            "./key" => Ok(format!("{KEY}\n")),
            "./short" => Ok("0123".to_owned()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let site = format!("[[site]]\norigin = 'http://127.0.0.1:1'\n{text}");
        crate::load("petasos.toml", &site, &Overrides::new(), &Machine::of_size(3, 4 << 30), &read)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
    }

    #[test]
    fn contexts_come_from_the_origin_or_a_signed_cookie() {
        let plan = load("logged_in = 'context'").unwrap();
        let context = plan.sites[0].context.clone().unwrap();
        assert_eq!(context.source, ContextSource::Answer("/_fos_user_context_hash".to_owned()));
        assert_eq!(context.names.field, "X-User-Context-Hash");
        let cookie = "logged_in = 'context'\ncontext_cookie = 'group'\ncontext_key_file = './key'";
        let plan = load(cookie).unwrap();
        let source = plan.sites[0].context.clone().unwrap().source.clone();
        assert_eq!(source, ContextSource::Cookie("group".to_owned(), ContextKey::new(KEY.as_bytes())));
        assert!(!format!("{plan:?}").contains(KEY), "no print has the key");
    }

    #[test]
    fn route_that_passes_refuses_the_claims_too() {
        let text = "logged_in = 'context'\ncontext_pages = true\nprivate_ttl = '1s'\n[[site.route]]\npath = ['/cart']\n\
                    logged_in = 'pass'\n[[site.route]]\npath = ['/me']\nlogged_in = 'private'";
        let plan = load(text).unwrap();
        assert_eq!(plan.sites.len(), 3);
        for site in &plan.sites {
            assert_eq!(site.context.is_some(), site.logged_in == LoggedIn::Context);
            assert_eq!(site.refused_claims.len(), 1);
        }
        assert!(load("").unwrap().sites[0].refused_claims.is_empty());
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for (text, message) in [
            ("context_pages = true", "`context_pages` has no effect"),
            ("logged_in = 'private'\ncontext_path = '/x'", "`context_path` has no effect"),
            ("logged_in = 'context'\nprivate_ttl = '1s'", "`private_ttl` has no effect"),
            ("logged_in = 'context'\ncontext_path = 'x'", "is no path"),
            ("logged_in = 'context'\ncontext_field = 'Cookie'", "cannot be `Cookie`"),
            ("logged_in = 'context'\ncontext_field = 'A B'", "cannot be `A B`"),
            ("logged_in = 'context'\ncontext_media_type = 'x'", "no media type"),
            ("logged_in = 'context'\ncontext_cookie = 'group'", "needs the key"),
            ("logged_in = 'context'\ncontext_key_file = './key'", "has no effect without `context_cookie`"),
            (
                "logged_in = 'context'\ncontext_cookie = 'group'\ncontext_key_file = './short'",
                "shorter than 32 bytes",
            ),
            ("logged_in = 'context'\ncontext_cookie = 'group'\ncontext_key_file = './none'", "cannot read"),
        ] {
            let problems = load(text).unwrap_err();
            assert!(problems.contains(message), "{text}: {problems}");
        }
    }
}
