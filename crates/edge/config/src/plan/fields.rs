//! Changes to header fields that an operator orders.
//!
//! Invariant: no rule changes a field that frames messages or that Petasos writes itself.

use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use document::{Diagnostic, Place};

/// Changes to the header fields of a message. A name belongs to at most one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldRules {
    /// Fields that replace all fields of the same name, name and value.
    pub set: Vec<(String, String)>,
    /// Fields that are added, name and value.
    pub add: Vec<(String, String)>,
    /// Names of fields that are removed.
    pub remove: Vec<String>,
}

/// Fields that frame a message or belong to its connection.
const OF_FRAMING: [&str; 9] = [
    "Connection",
    "Content-Length",
    "Host",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// Response fields that describe the content, or that Petasos writes about its own work.
const OF_CONTENT: [&str; 9] = [
    "Age",
    "Cache-Status",
    "Content-Encoding",
    "Content-Range",
    "Date",
    "ETag",
    "Last-Modified",
    "Vary",
    "Via",
];

/// Fields of requests on which the response depends, or that Petasos writes itself.
const OF_REQUEST: [&str; 13] = [
    "Accept-Encoding",
    "CDN-Loop",
    "Cookie",
    "Expect",
    "If-Match",
    "If-Modified-Since",
    "If-None-Match",
    "If-Range",
    "If-Unmodified-Since",
    "Range",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
];

/// Whether a field says whether and how long caches may store a response. `Cache-Control` for one
/// kind of caches has a name that ends with it (RFC 9213 section 2.2), such as
/// `Cloudflare-CDN-Cache-Control`.
pub fn is_about_storing(name: &[u8]) -> bool {
    const TARGETED: &[u8] = b"Cache-Control";
    let known = ["Surrogate-Control", "Edge-Control", "X-Accel-Expires", "Expires", "Pragma"];
    let end = name.get(name.len().saturating_sub(TARGETED.len())..).unwrap_or_default();
    end.eq_ignore_ascii_case(TARGETED)
        || known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a rule about a field is for successful responses only, and not for errors.
fn is_for_success(name: &str) -> bool {
    is_about_storing(name.as_bytes()) || name.eq_ignore_ascii_case("Retry-After")
}

/// The three settings of a message, in the order of the lists of [`FieldRules`]. Requests have no
/// `add`: an application that reads one field of a name would read that of the client.
fn keys(message: &str) -> [&'static str; 3] {
    match message {
        "request" => ["request.set", "", "request.remove"],
        _ => ["response.set", "response.add", "response.remove"],
    }
}

impl FieldRules {
    /// The rules for a `message`, which is `request` or `response`.
    pub(super) fn resolve(levels: &SettingLevels<'_>, message: &str) -> Self {
        let texts = |key: &'static str| match levels.stated(key) {
            Some(SettingValue::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        let lines = |key| -> Vec<(String, String)> {
            let lines: Vec<String> = texts(key);
            let split =
                |line: &String| line.split_once(": ").map(|(name, value)| (name.into(), value.into()));
            lines.iter().filter_map(split).collect()
        };
        let [set, add, remove] = keys(message);
        Self { set: lines(set), add: lines(add), remove: texts(remove) }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }

    /// The fields that replace others or are added, name and value.
    pub fn added(&self) -> impl Iterator<Item = &(String, String)> {
        self.set.iter().chain(&self.add)
    }

    /// The rules for errors: without those about whether and how long a response may be stored,
    /// which are for successful responses only.
    #[must_use]
    pub fn for_errors(&self) -> Self {
        let of = |lines: &[(String, String)]| {
            lines.iter().filter(|(name, _)| !is_for_success(name)).cloned().collect()
        };
        let remove = self.remove.iter().filter(|name| !is_for_success(name)).cloned().collect();
        Self { set: of(&self.set), add: of(&self.add), remove }
    }

    /// Whether fields of this name are removed or replaced.
    pub fn drops(&self, name: &[u8]) -> bool {
        let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        self.remove.iter().any(|name| is(name)) || self.set.iter().any(|(name, _)| is(name))
    }

    /// The rules in words, for `petasos check --print`.
    pub(super) fn explain(&self) -> Vec<String> {
        let set = self.set.iter().map(|(name, value)| format!("sets {name}: {value}"));
        let add = self.add.iter().map(|(name, value)| format!("adds {name}: {value}"));
        set.chain(add).chain(self.remove.iter().map(|name| format!("removes {name}"))).collect()
    }
}

/// Refuses rules about fields that frame a message, that Petasos writes itself, or that two rules
/// claim.
pub(super) fn problems(levels: &SettingLevels<'_>) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for (message, others) in [("request", &OF_REQUEST[..]), ("response", &OF_CONTENT[..])] {
        let rules = FieldRules::resolve(levels, message);
        let [set, add, remove] = keys(message);
        let stated = rules.set.iter().map(|(name, _)| (set, name));
        let added = rules.add.iter().map(|(name, _)| (add, name));
        let stated = stated.chain(added).chain(rules.remove.iter().map(|name| (remove, name)));
        let stated: Vec<(&'static str, &String)> = stated.collect();
        for (index, (key, name)) in stated.iter().enumerate() {
            let place = levels.place(key).unwrap_or(Place::Default);
            let is = |known: &&str| known.eq_ignore_ascii_case(name);
            if OF_FRAMING.iter().chain(others).any(is) {
                let problem = Diagnostic::new(format!("`{key}` cannot change `{name}`"), place);
                problems.push(problem.with_help(
                    "leave it out: Petasos writes this field, or the meaning of the message depends on it",
                ));
                continue;
            }
            let clash = stated
                .iter()
                .take(index)
                .find(|(other, earlier)| earlier.eq_ignore_ascii_case(name) && (other != key || *key != add));
            if let Some((other, _)) = clash {
                let text = format!("`{name}` is in `{key}` and in `{other}`");
                let text = if other == key { format!("`{name}` is in `{key}` twice") } else { text };
                problems.push(Diagnostic::new(text, place).with_help("remove one of them"));
            }
        }
    }
    problems
}
