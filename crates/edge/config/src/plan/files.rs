//! Static files of a route: the directory, and the rules for serving its files.
//!
//! Invariant: no name of a rule is hidden, leads to a parent directory, or is absolute.

use crate::levels::SettingLevels;
use crate::setting::SettingValue;
use document::{Diagnostic, Place};
use profiles::Pattern;
use std::path::{Path, PathBuf};

/// The directory of a route, and the rules for its files.
#[derive(Clone, Debug)]
pub struct FilesPlan {
    /// The directory.
    pub directory: PathBuf,
    /// The part of request paths that the directory does not have, such as `/media`; may be empty.
    pub strip: String,
    /// The names that are tried: `{path}` and suffixes.
    pub attempts: Vec<String>,
    /// Names of index files.
    pub index: Vec<String>,
    /// The answer if there is no file.
    pub missing: MissingFile,
    /// The content codings whose files are looked for beside the plain ones: `br`, `zstd`, `gzip`.
    pub precompressed: Vec<String>,
    /// Names of files that are never sent.
    pub refused: Vec<Pattern>,
    /// Where `files` was written.
    pub place: Place,
}

impl PartialEq for FilesPlan {
    /// Where the setting was written makes no difference. The numbers of sites follow from their
    /// order in the file.
    fn eq(&self, other: &Self) -> bool {
        let Self { directory, strip, attempts, index, missing, precompressed, refused, place: _ } = self;
        let is_same_missing = match (missing, &other.missing) {
            (MissingFile::Pages(_), MissingFile::Pages(_)) => true,
            (one, other) => one == other,
        };
        is_same_missing
            && (directory, strip, attempts, index, precompressed, refused)
                == (
                    &other.directory,
                    &other.strip,
                    &other.attempts,
                    &other.index,
                    &other.precompressed,
                    &other.refused,
                )
    }
}

impl Eq for FilesPlan {}

/// The answer to a request for which there is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingFile {
    /// A 404.
    NotFound,
    /// The pages of the site with this number in the plan.
    Pages(u32),
    /// This file, for applications that read the path in the browser.
    File(String),
}

/// Names of files that Petasos does not send unless `files_refused` says otherwise. They are source
/// code, configuration, databases, logs, and the copies that editors leave of them.
pub(crate) const REFUSED: [&str; 62] = [
    "*.php*",
    "*.phtml*",
    "*.pht",
    "*.shtml",
    "*.phar",
    "*.phps",
    "*.inc",
    "*.cgi",
    "*.fcgi",
    "*.pl",
    "*.py",
    "*.pyc",
    "*.pyw",
    "*.py3",
    "*.cfm",
    "*.rb",
    "*.sh",
    "*.asp*",
    "*.jsp*",
    "*.lua",
    "*.twig",
    "*.tpl",
    "*.module",
    "*.install",
    "*.theme",
    "*.engine",
    "*.sql*",
    "*.db",
    "*.db-*",
    "*.mdb",
    "*.bak",
    "*.backup",
    "*.old",
    "*.orig",
    "*.save",
    "*.swp",
    "*.swo",
    "*.tmp",
    "*~",
    "*.ini",
    "*.conf",
    "*.config",
    "*.cnf",
    "*.env",
    "*.env.*",
    "*.toml",
    "*.yml",
    "*.yaml",
    "*.log",
    "*.lock",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "id_rsa*",
    "id_ed25519*",
    "*.htpasswd",
    "composer.json",
    "package.json",
    "package-lock.json",
    "dockerfile",
];

/// The content codings of [`FilesPlan::precompressed`].
pub(crate) const CODINGS: &[&str] = &["br", "zstd", "gzip", "none"];

/// The path of a request in an attempt.
const PATH: &str = "{path}";

/// Length of the longest name in a rule, in bytes. Paths of requests are longer.
const NAME_BYTES_MAX: usize = 1024;

/// The last index file or attempt that has no fault, or the first fault.
type Checked<T> = Result<T, Diagnostic>;

impl FilesPlan {
    /// The files of a table that states `files`. `missing` is the answer if there is no file.
    pub(super) fn resolve(levels: &SettingLevels<'_>, missing: MissingFile) -> Checked<Self> {
        let place = levels.place("files").unwrap_or(Place::Default);
        let directory = levels.text("files").unwrap_or_default();
        let refused = texts(levels, "files_refused");
        let precompressed = texts(levels, "files_precompressed").unwrap_or_else(|| owned(CODINGS));
        let has_none =
            levels.stated("files_precompressed").is_some() && precompressed.iter().any(|name| name == "none");
        Ok(Self {
            directory: beside(directory, &place),
            strip: strip(levels)?,
            attempts: attempts(levels)?,
            index: index(levels)?,
            missing,
            precompressed: precompressed.into_iter().filter(|name| !has_none && name != "none").collect(),
            refused: match &refused {
                Some(names) => names.iter().map(|name| Pattern::new(name)).collect(),
                None => REFUSED.iter().map(|name| Pattern::new(name)).collect(),
            },
            place,
        })
    }

    /// The files in words, for `petasos check --print`.
    pub(super) fn explain(&self) -> String {
        let mut text = format!("files of {}", self.directory.display());
        if !self.strip.is_empty() {
            text += &format!(" without {}", self.strip);
        }
        if self.attempts != [PATH] {
            text += &format!(", tries {}", self.attempts.join(" "));
        }
        if self.index != ["index.html"] {
            text += &format!(", index {}", self.index.join(" "));
        }
        if self.precompressed.is_empty() {
            text += ", none precompressed";
        }
        text
    }
}

/// The answer to requests without a file, as `files_missing` says.
pub(super) enum StatedMissing {
    NotFound,
    Origin,
    File(String),
}

/// The answer to requests of a table without a file.
pub(super) fn missing(levels: &SettingLevels<'_>) -> Checked<StatedMissing> {
    let has_origin = levels.value("origin").is_some();
    let problem = |text: String| {
        let place = levels.place("files_missing").unwrap_or(Place::Default);
        Diagnostic::new(format!("`files_missing`: {text}"), place)
    };
    match levels.text("files_missing") {
        None if has_origin => Ok(StatedMissing::Origin),
        None | Some("404") => Ok(StatedMissing::NotFound),
        Some("origin") if has_origin => Ok(StatedMissing::Origin),
        Some("origin") => Err(problem("there is no `origin`".to_owned())
            .with_help("write origin = \"http://127.0.0.1:PORT\", or leave files_missing out")),
        Some(path) if is_file(path.strip_prefix('/').unwrap_or_default()) => {
            Ok(StatedMissing::File(path.to_owned()))
        }
        Some(other) => Err(problem(format!("`{other}` is neither 404, origin nor the path of a file"))
            .with_help("write a path below the directory, such as /index.html")),
    }
}

/// A path as the configuration wrote it; a relative one begins at the directory of the file that
/// states it.
fn beside(path: &str, place: &Place) -> PathBuf {
    match place {
        Place::Text { name, .. } => Path::new(&**name).parent().unwrap_or_else(|| Path::new("")).join(path),
        Place::Flag(_) | Place::Default => PathBuf::from(path),
    }
}

fn strip(levels: &SettingLevels<'_>) -> Checked<String> {
    let Some(path) = levels.text("files_strip") else { return Ok(String::new()) };
    // A final slash says the same.
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() || path.strip_prefix('/').is_some_and(is_file) {
        return Ok(path.to_owned());
    }
    let place = levels.place("files_strip").unwrap_or(Place::Default);
    let problem = Diagnostic::new(format!("`files_strip`: `{path}` is not a path"), place);
    Err(problem.with_help("write a path such as /media"))
}

fn attempts(levels: &SettingLevels<'_>) -> Checked<Vec<String>> {
    let attempts = texts(levels, "files_try").unwrap_or_else(|| owned(&[PATH]));
    let place = || levels.place("files_try").unwrap_or(Place::Default);
    if attempts.is_empty() {
        let problem = Diagnostic::new("`files_try` has no attempt".to_owned(), place());
        return Err(problem.with_help("write [\"{path}\"], or leave it out"));
    }
    for attempt in &attempts {
        let text = format!("`files_try`: `{attempt}` is no attempt");
        let problem = Diagnostic::new(text, place());
        let Some(suffix) = attempt.strip_prefix(PATH) else {
            return Err(problem.with_help("begin it with {path}, the path of the request"));
        };
        if suffix == "/" {
            return Err(
                problem.with_help("{path} includes the index files of directories; leave {path}/ out")
            );
        }
        if !is_file(&format!("a{suffix}")) {
            return Err(
                problem.with_help("write {path}, or {path} and a suffix such as .html or /index.html")
            );
        }
    }
    Ok(attempts)
}

fn index(levels: &SettingLevels<'_>) -> Checked<Vec<String>> {
    let names = texts(levels, "files_index").unwrap_or_else(|| owned(&["index.html"]));
    match names.iter().find(|name| name.contains('/') || !is_file(name)) {
        None => Ok(names),
        Some(bad) => {
            let text = format!("`files_index`: `{bad}` is not the name of a file that visitors may request");
            let place = levels.place("files_index").unwrap_or(Place::Default);
            Err(Diagnostic::new(text, place).with_help("write names such as index.html, without slashes"))
        }
    }
}

/// Whether a text is the name of a file below a directory that visitors may request.
fn is_file(name: &str) -> bool {
    let is_segment = |segment: &str| !segment.is_empty() && !segment.starts_with('.');
    let is_bad = |letter: char| letter.is_control() || "\\%?#{}".contains(letter);
    name.len() <= NAME_BYTES_MAX && name.split('/').all(is_segment) && !name.contains(is_bad)
}

fn texts(levels: &SettingLevels<'_>, key: &'static str) -> Option<Vec<String>> {
    match levels.stated(key) {
        Some(SettingValue::Texts(texts)) => Some(texts.clone()),
        _ => None,
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use crate::{EdgePlan, FilesPlan, Machine, MissingFile, Overrides, RouteAction};
    use std::path::Path;

    fn load(text: &str) -> Result<EdgePlan, String> {
        let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let machine = Machine::of_size(3, 4 << 30);
        crate::load("/etc/petasos/petasos.toml", text, &Overrides::new(), &machine, &read)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
    }

    fn files(plan: &EdgePlan) -> &FilesPlan {
        match &plan.routes[0].action {
            RouteAction::Files(files) => files,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refused_names_are_documented() {
        let document = include_str!("../../../../../docs/static-files.md").replace('\n', " ");
        let list = super::REFUSED.map(|name| format!("`{name}`")).join(" ");
        assert!(document.contains(&format!(" {list} ")), "docs/static-files.md must list {list}");
    }

    #[test]
    fn site_may_have_files_alone() {
        let plan = load("[[site]]\nnames = ['a.test']\nfiles = 'www'\nresponse.set = ['A: b']\n").unwrap();
        assert!(plan.sites.is_empty());
        let files = files(&plan);
        assert_eq!(files.directory, Path::new("/etc/petasos/www"));
        assert_eq!(files.missing, MissingFile::NotFound);
        assert_eq!(files.precompressed, ["br", "zstd", "gzip"]);
        assert!(files.refused.iter().any(|pattern| pattern.matches(b"wp-config.php.bak")));
        assert!(!files.refused.iter().any(|pattern| pattern.matches(b"jquery.min.js")));
    }

    #[test]
    fn files_of_a_route_leave_others_to_the_origin() {
        let site = "[[site]]\nnames = ['a.test']\norigin = 'http://a'\n[[site.route]]\npath = ['/media/*']\n";
        let with = |more: &str| load(&format!("{site}files = '/srv/media'\n{more}"));
        assert_eq!(files(&with("").unwrap()).missing, MissingFile::Pages(0));
        assert_eq!(files(&with("files_missing = '404'").unwrap()).missing, MissingFile::NotFound);
        let app = MissingFile::File("/index.html".to_owned());
        assert_eq!(files(&with("files_missing = '/index.html'").unwrap()).missing, app);
        let plan = with(
            "files_strip = '/media/'\nfiles_try = ['{path}', '{path}.html']\nfiles_index = ['index.htm']\n\
             files_precompressed = ['none']\nfiles_refused = ['*.exe']\n",
        )
        .unwrap();
        let own = files(&plan);
        assert_eq!((&own.strip[..], own.precompressed.len()), ("/media", 0));
        assert_eq!(own.refused.iter().map(ToString::to_string).collect::<Vec<_>>(), ["*.exe"]);
        insta::assert_snapshot!(plan.explain());
    }

    #[test]
    fn route_with_an_origin_has_no_files_of_its_site() {
        let text = "[[site]]\nnames = ['a.test']\nfiles = '/srv'\norigin = 'http://a'\n";
        let route = "[[site.route]]\npath = ['/api/*']\norigin = 'http://b'\n";
        let plan = load(&format!("{text}{route}[[site.route]]\npath = ['/x']\nttl = '1s'\n")).unwrap();
        let kinds: Vec<_> =
            plan.routes.iter().map(|route| matches!(route.action, RouteAction::Files(_))).collect();
        assert_eq!(kinds, [false, true, true]);
        assert_eq!(plan.sites.len(), 3, "the site, the route with an origin, the route with a lifetime");
    }

    #[test]
    fn faults_name_their_place_and_the_nearest_key() {
        for (more, place, words) in [
            ("fils = 'www'", ":3:1", "did you mean `files`?"),
            ("files = ''", ":3:9", "the text is empty"),
            ("files = 'w'\nfiles_strip = 'media'", ":4:15", "is not a path"),
            ("files = 'w'\nfiles_strip = '/a/../b'", ":4:15", "is not a path"),
            ("files = 'w'\nfiles_try = ['{path}/']", ":4:13", "leave {path}/ out"),
            ("files = 'w'\nfiles_try = ['/a']", ":4:13", "begin it with {path}"),
            ("files = 'w'\nfiles_try = ['{path}/../x']", ":4:13", "a suffix such as .html"),
            ("files = 'w'\nfiles_try = []", ":4:13", "has no attempt"),
            ("files = 'w'\nfiles_index = ['.x']", ":4:15", "is not the name of a file"),
            ("files = 'w'\nfiles_index = ['a/b']", ":4:15", "is not the name of a file"),
            ("files = 'w'\nfiles_missing = 'origin'", ":4:17", "there is no `origin`"),
            ("files = 'w'\nfiles_missing = '/.env'", ":4:17", "neither 404, origin nor the path"),
            ("files = 'w'\nfiles_precompressed = ['lz']", ":4:24", "is not one of: br, zstd, gzip, none"),
            ("files = 'w'\nfiles_refused = ['*']", ":4:18", "not the name"),
            ("files = 'w'\nredirect = 'http://b'", ":", "contradict each other"),
            ("files = 'w'\nanswer.status = 200", ":", "contradict each other"),
            ("files = 'w'\nttl = '1s'", ":4:7", "`ttl` has no effect beside `files`"),
            ("origin = 'http://a'\nfiles_index = ['a']", ":4:15", "no effect without `files`"),
        ] {
            let fault = load(&format!("[[site]]\nnames = ['a.test']\n{more}\n")).unwrap_err();
            assert!(fault.contains(words) && fault.contains(place), "{more}: {fault}");
        }
    }
}
