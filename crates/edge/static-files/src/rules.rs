//! The operator's rules for a directory, checked.
//!
//! Invariant: no rule names a hidden file, a parent directory or an absolute name, so that rules
//! cannot undo the checks of a request's path.

use crate::request_path::RequestPath;
use profiles::Pattern;
use semantics::{AcceptedCodings, Coding};

/// The beginning of an attempt: the path of the request.
const PATH: &str = "{path}";

/// The rules before their check. The default serves the file at the path, with `index.html` for
/// directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// The part of request paths that the directory does not have, such as `/assets`; may be empty.
    pub prefix: String,
    /// The names that are tried in this order. Each is `{path}` and a suffix, such as
    /// `{path}.html` or `{path}/index.html`. `{path}` alone also means the index file of a
    /// directory.
    pub attempts: Vec<String>,
    /// The names of index files, in the order in which they are tried.
    pub index: Vec<String>,
    /// The answer if no attempt finds a file.
    pub fallback: Fallback,
    /// The codings whose files are looked for beside the plain ones.
    pub precompressed: AcceptedCodings,
    /// Names of files that are never sent, such as `*.php`: without their application, servers
    /// would send their source. The last segment of a path is compared, without regard to case.
    pub refused: Vec<Pattern>,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            attempts: vec![PATH.to_owned()],
            index: vec!["index.html".to_owned()],
            fallback: Fallback::NotFound,
            precompressed: AcceptedCodings::of_codings(&Coding::ALL),
            refused: Vec::new(),
        }
    }
}

/// The answer to a request for which there is no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// A 404.
    #[default]
    NotFound,
    /// The origin.
    Origin,
    /// This file of the directory, with status 200, for applications that read the path in the
    /// browser. Its path begins with a slash.
    File(String),
}

/// Why settings are no rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// An attempt is not the path and a suffix.
    #[error("`{0}` is no attempt: write `{{path}}`, or `{{path}}` and a suffix such as `.html`")]
    Attempt(String),
    /// There is no attempt.
    #[error("there must be at least one attempt, such as `{{path}}`")]
    NoAttempt,
    /// A name of an index file has a slash, or is hidden.
    #[error("`{0}` is no name of an index file: write a name without slashes and without a dot before it")]
    Index(String),
    /// The fallback is no path of a file.
    #[error("`{0}` is no file of the directory: write a path such as `/index.html`")]
    Fallback(String),
    /// The prefix is no path.
    #[error("`{0}` is no prefix: write a path such as `/assets`, without a slash at its end")]
    Prefix(String),
}

/// Extensions of compressed copies.
const COMPRESSED: [&str; 7] = ["gz", "br", "zst", "bz2", "xz", "zip", "7z"];

/// Checked rules.
#[derive(Clone, Debug)]
pub struct FileRules {
    pub(crate) prefix: Vec<u8>,
    /// The text behind the path in each attempt; empty for the path alone.
    pub(crate) suffixes: Vec<Vec<u8>>,
    pub(crate) index: Vec<Vec<u8>>,
    pub(crate) fallback: CheckedFallback,
    pub(crate) precompressed: AcceptedCodings,
    pub(crate) refused: Vec<Pattern>,
}

/// A fallback whose file has no slash before it.
#[derive(Clone, Debug)]
pub(crate) enum CheckedFallback {
    NotFound,
    Origin,
    File(Vec<u8>),
}

impl FileRules {
    /// Checks settings.
    ///
    /// # Errors
    /// The first fault.
    pub fn new(settings: &FileSettings) -> Result<Self, RuleFault> {
        let prefix = &settings.prefix;
        if !prefix.is_empty() && (!is_plain(prefix) || prefix.ends_with('/')) {
            return Err(RuleFault::Prefix(prefix.clone()));
        }
        if settings.attempts.is_empty() {
            return Err(RuleFault::NoAttempt);
        }
        let suffixes = settings.attempts.iter().map(|attempt| suffix(attempt));
        let index = settings.index.iter().map(|name| {
            let is_name = !name.contains('/') && is_plain(&format!("/{name}")) && !name.is_empty();
            is_name.then(|| name.clone().into_bytes()).ok_or_else(|| RuleFault::Index(name.clone()))
        });
        let fallback = match &settings.fallback {
            Fallback::NotFound => CheckedFallback::NotFound,
            Fallback::Origin => CheckedFallback::Origin,
            Fallback::File(path) => {
                let name = path.strip_prefix('/').filter(|_| is_plain(path) && !path.ends_with('/'));
                let name = name.ok_or_else(|| RuleFault::Fallback(path.clone()))?;
                CheckedFallback::File(name.as_bytes().to_vec())
            }
        };
        Ok(Self {
            prefix: prefix.clone().into_bytes(),
            suffixes: suffixes.collect::<Result<_, _>>()?,
            index: index.collect::<Result<_, _>>()?,
            fallback,
            precompressed: settings.precompressed,
            refused: settings.refused.clone(),
        })
    }

    /// Whether the file with this name is never sent: the name is refused, or that of the original
    /// if the file is a compressed or numbered copy.
    pub(crate) fn refuses(&self, name: &[u8]) -> bool {
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut names = std::iter::successors(Some(last), |name| original(name));
        names.any(|name| self.refused.iter().any(|pattern| pattern.matches(name)))
    }
}

/// The name of the original, if this is the name of a compressed or numbered copy.
fn original(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let (original, extension) = (name.get(..dot)?, name.get(dot + 1..)?);
    let is_number = !extension.is_empty() && extension.iter().all(u8::is_ascii_digit);
    let is_packed = COMPRESSED.iter().any(|known| extension.eq_ignore_ascii_case(known.as_bytes()));
    (is_number || is_packed).then_some(original)
}

fn suffix(attempt: &str) -> Result<Vec<u8>, RuleFault> {
    let fault = || RuleFault::Attempt(attempt.to_owned());
    let suffix = attempt.strip_prefix(PATH).ok_or_else(fault)?;
    // A suffix may extend a request's path if a longer path may end with it.
    let is_suffix =
        is_plain(&format!("/a{suffix}")) && !suffix.ends_with('/') && !suffix.contains(['{', '}']);
    if is_suffix { Ok(suffix.as_bytes().to_vec()) } else { Err(fault()) }
}

/// Whether a text is a path that clients may send, without encodings.
fn is_plain(path: &str) -> bool {
    !path.contains(['%', '?']) && RequestPath::of(path.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Fallback, FileRules, FileSettings, RuleFault};

    fn fault(change: impl FnOnce(&mut FileSettings)) -> Option<RuleFault> {
        let mut settings = FileSettings::default();
        change(&mut settings);
        FileRules::new(&settings).err()
    }

    #[test]
    fn good_rules_are_accepted() {
        assert_eq!(fault(|_| {}), None);
        assert_eq!(
            fault(|settings| {
                settings.prefix = "/assets/v1".to_owned();
                settings.attempts =
                    ["{path}", "{path}.html", "{path}/index.html", "{path}-x/y"].map(str::to_owned).into();
                settings.index = vec!["index.htm".to_owned()];
                settings.fallback = Fallback::File("/app/index.html".to_owned());
            }),
            None
        );
    }

    #[test]
    fn rules_that_name_hidden_or_outer_files_are_refused() {
        for attempt in [
            "",
            "path",
            "/x",
            "{path}/..",
            "{path}/../x",
            "{path}/.env",
            "{path}/",
            "x{path}",
            "{path}{path}",
            "{path}\\",
        ] {
            let expected = RuleFault::Attempt(attempt.to_owned());
            assert_eq!(fault(|settings| settings.attempts = vec![attempt.to_owned()]), Some(expected));
        }
        for name in ["", ".", "..", ".hidden", "a/b", "/a", "a\0"] {
            let expected = RuleFault::Index(name.to_owned());
            assert_eq!(fault(|settings| settings.index = vec![name.to_owned()]), Some(expected));
        }
        for path in ["", "index.html", "/", "/../x", "/.env", "/a/", "//a"] {
            let expected = RuleFault::Fallback(path.to_owned());
            assert_eq!(fault(|settings| settings.fallback = Fallback::File(path.to_owned())), Some(expected));
        }
        for prefix in ["/", "a", "/a/", "/../a", "/a%20"] {
            let expected = RuleFault::Prefix(prefix.to_owned());
            assert_eq!(fault(|settings| settings.prefix = prefix.to_owned()), Some(expected));
        }
        assert_eq!(fault(|settings| settings.attempts.clear()), Some(RuleFault::NoAttempt));
    }
}
