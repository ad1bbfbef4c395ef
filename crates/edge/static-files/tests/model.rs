//! Property tests: random trees with links of all kinds and random encoded paths, against a slow
//! model that resolves names in memory, segment by segment.
//!
//! The tests prove for each of them: the answer is the model's, no content comes from outside of
//! the directory, and none from a hidden file, also if a link of the directory leads there. Renames
//! during a resolution have no model here: openat2 resolves and opens in one system call, and the
//! kernel refuses a resolution whose directories are renamed out while it runs. One test does
//! rename, but without the kernel's promise it fails only in one run of several.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use clock::{Monotonic, Timestamp};
use petasos_static_files::{
    CacheLimits, Content, FileRules, FileSettings, OpenFiles, Outcome, Representation, StaticFiles,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use semantics::{AcceptedCodings, Moment};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names in trees. Hidden ones, and those that look like encodings, are among them.
const NAMES: [&str; 9] = ["a", "b", "c", "a.txt", "b.txt", ".h", ".well-known", "index.html", "%2e%2e"];

/// Targets of links, below the directory of the link. `/site` means the directory's own path,
/// `/out` for the one beside it.
const TARGETS: [&str; 22] = [
    "a",
    "b",
    "c",
    "a.txt",
    ".h",
    "a/b",
    "b/a",
    "./c",
    "../a",
    "../b/c",
    "../../a",
    "..",
    ".",
    "../..",
    "../../../out/a",
    "../out/a",
    "../../out",
    "/site/a",
    "/site",
    "/out/a",
    "/",
    "/proc/self/root",
];

/// Segments of requests, with their encodings.
const SEGMENTS: [&str; 38] = [
    "a",
    "b",
    "c",
    "a.txt",
    "b.txt",
    "a",
    "b",
    "c",
    "a",
    "b",
    ".h",
    ".well-known",
    "index.html",
    "..",
    ".",
    "",
    "%2e%2e",
    "%2E.",
    ".%2e",
    "%2e",
    "%61",
    "%41",
    "a%2Etxt",
    "%2ehh",
    "%2Eh",
    "..%2f",
    "a%2Fb",
    "%2f",
    "..%5c",
    "..\\",
    "a%00",
    "a%0a",
    "%",
    "%zz",
    "%252e%252e",
    "%25252e",
    "%2e%2e%2fout%2fa",
    "a.txt%20",
];

#[derive(Clone, Debug)]
enum Node {
    File,
    Directory(BTreeMap<&'static str, Self>),
    Link(&'static str),
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![3 => Just(Node::File), 2 => select(&TARGETS[..]).prop_map(Node::Link)];
    leaf.prop_recursive(3, 24, 5, |inner| directory(inner).prop_map(Node::Directory))
}

fn directory(inner: impl Strategy<Value = Node>) -> impl Strategy<Value = BTreeMap<&'static str, Node>> {
    btree_map(select(&NAMES[..]), inner, 0..6)
}

/// A target: segments, perhaps a final slash and a query.
fn target() -> impl Strategy<Value = String> {
    let ending = select(vec!["", "", "", "/", "?q=/../x", "/?%"]);
    (vec(select(&SEGMENTS[..]), 0..5), ending)
        .prop_map(|(segments, ending)| format!("/{}{ending}", segments.join("/")))
}

/// Makes the tree in a directory. Each file holds its own path.
fn build(tree: &BTreeMap<&'static str, Node>, directory: &Path, base: &Path) {
    for (name, node) in tree {
        let path = directory.join(name);
        match node {
            Node::File => {
                let own = path.strip_prefix(base).expect("a path below the base");
                fs::write(&path, own.as_os_str().as_encoded_bytes()).expect("a file");
            }
            Node::Directory(inner) => {
                fs::create_dir(&path).expect("a directory");
                build(inner, &path, base);
            }
            Node::Link(target) => {
                let of_base = |rest: &str| format!("{}{rest}", base.display());
                let is_own = target.starts_with("/site") || target.starts_with("/out");
                let target = if is_own { of_base(target) } else { (*target).to_owned() };
                symlink(target, &path).expect("a link");
            }
        }
    }
}

/// The model: where a name leads.
#[derive(Debug, PartialEq)]
enum Place {
    /// The path of the file from the base.
    File(String),
    Directory,
    Nothing,
}

/// Resolves segments from the directory on, one after the other.
fn resolve(tree: &BTreeMap<&'static str, Node>, name: &str) -> Place {
    let mut open: Vec<String> = name.split('/').rev().map(str::to_owned).collect();
    let mut at: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(segment) = open.pop() {
        // Whatever is left needs a directory to begin in.
        let Some(Node::Directory(inner)) = node_at(tree, &at) else { return Place::Nothing };
        match &segment[..] {
            "." | "" => continue,
            ".." => {
                if at.pop().is_none() {
                    return Place::Nothing;
                }
                continue;
            }
            _ => {}
        }
        match inner.get(&segment[..]) {
            None => return Place::Nothing,
            Some(Node::Link(target)) => {
                links += 1;
                if links > 40 || target.starts_with('/') {
                    return Place::Nothing;
                }
                open.extend(target.split('/').rev().map(str::to_owned));
            }
            Some(_) => at.push(segment),
        }
    }
    match node_at(tree, &at) {
        Some(Node::File) => {
            let found = format!("site/{}", at.join("/"));
            if is_hidden(&found) { Place::Nothing } else { Place::File(found) }
        }
        Some(Node::Directory(_)) => Place::Directory,
        _ => Place::Nothing,
    }
}

fn node_at(tree: &BTreeMap<&'static str, Node>, at: &[String]) -> Option<Node> {
    let mut node = Node::Directory(tree.clone());
    for segment in at {
        let Node::Directory(inner) = node else { return None };
        node = inner.get(&segment[..])?.clone();
    }
    Some(node)
}

/// The model of decoding: `None` if the path is refused.
fn decode(path: &str) -> Option<Vec<String>> {
    let mut segments = Vec::new();
    for encoded in path.strip_prefix('/')?.split('/') {
        let mut parts = encoded.split('%');
        let mut segment = parts.next()?.to_owned();
        for part in parts {
            let digits =
                part.get(..2).filter(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()))?;
            segment.push(char::from(u8::from_str_radix(digits, 16).ok()?));
            segment.push_str(part.get(2..)?);
        }
        segments.push(segment);
    }
    let last = segments.len() - 1;
    let is_good = |(place, segment): (usize, &String)| {
        let is_end = place == last && segment.is_empty();
        let is_well_known = place == 0 && segment == ".well-known";
        let has_bad = segment.chars().any(|char| char == '/' || char == '\\' || char.is_ascii_control());
        is_end || (!segment.is_empty() && (is_well_known || !segment.starts_with('.')) && !has_bad)
    };
    segments.iter().enumerate().all(is_good).then_some(segments)
}

/// The model of attempts: the content or `redirect`.
fn expected(tree: &BTreeMap<&'static str, Node>, attempts: &[&str], target: &str) -> Option<String> {
    let path = target.split('?').next()?;
    let mut segments = decode(path)?;
    let is_directory = segments.last().is_some_and(String::is_empty);
    if is_directory {
        segments.pop();
    }
    let name = segments.join("/");
    let mut is_known_directory = false;
    for attempt in attempts {
        let names = match *attempt {
            "{path}" if is_directory => vec![format!("{name}/index.html")],
            "{path}" => vec![name.clone()],
            "{path}/b" => vec![format!("{name}/b")],
            _ if is_directory => vec![],
            suffixed => vec![suffixed.replace("{path}", &name)],
        };
        for candidate in names {
            match resolve(tree, &candidate) {
                Place::File(found) => return Some(found),
                Place::Directory => is_known_directory |= *attempt == "{path}" && !is_directory,
                Place::Nothing => {}
            }
        }
    }
    let has_index = matches!(resolve(tree, &format!("{name}/index.html")), Place::File(_));
    (is_known_directory && has_index).then(|| "redirect".to_owned())
}

fn content(found: &Representation) -> String {
    match found.content() {
        Content::Memory(content) => String::from_utf8_lossy(content).into_owned(),
        Content::File(descriptor) => {
            let file = descriptor.try_clone().expect("a descriptor");
            let mut content = vec![0; found.bytes() as usize];
            file.read_exact_at(&mut content, 0).expect("the content");
            String::from_utf8_lossy(&content).into_owned()
        }
    }
}

fn open(site: &Path, attempts: &[&str]) -> StaticFiles {
    let settings = FileSettings {
        attempts: attempts.iter().map(|attempt| (*attempt).to_owned()).collect(),
        ..FileSettings::default()
    };
    let rules = FileRules::new(&settings).expect("rules");
    StaticFiles::new(site, rules, CacheLimits::default(), OpenFiles::at_most(100))
}

fn answer(files: &StaticFiles, target: &str, accepted: AcceptedCodings) -> Option<String> {
    let now = Moment { wall: Timestamp::from_secs(4_000_000_000), monotonic: Monotonic::default() };
    let outcome = match files.find(target.as_bytes(), accepted, now) {
        Outcome::Cold(cold) => cold.run(),
        outcome => outcome,
    };
    match outcome {
        Outcome::File(found) => Some(content(&found)),
        Outcome::Redirect(location) => {
            let is_own =
                location.starts_with(b"/") && !location.starts_with(b"//") && !location.contains(&b'\\');
            assert!(is_own, "{target} leads to {location:?}");
            Some("redirect".to_owned())
        }
        Outcome::NotFound(_) => None,
        other => panic!("{target}: {other:?}"),
    }
}

fn is_hidden(path: &str) -> bool {
    path.split('/')
        .enumerate()
        .any(|(place, segment)| segment.starts_with('.') && !(place == 1 && segment == ".well-known"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_the_model(
        tree in directory(node()),
        targets in vec(target(), 40),
        attempts in subsequence(vec!["{path}", "{path}.txt", "{path}/b"], 1..=3).prop_shuffle(),
        repeated in any::<Index>(),
    ) {
        let base = tempfile::tempdir().expect("a directory");
        let base = fs::canonicalize(base.path()).map(|path| (path, base)).expect("a path");
        let (base, _guard) = base;
        for name in ["site", "out"] {
            fs::create_dir(base.join(name)).expect("a directory");
        }
        for name in ["a", "a.txt", "index.html"] {
            fs::write(base.join("out").join(name), format!("out/{name}")).expect("a file");
            fs::write(base.join(name), format!("outer/{name}")).expect("a file");
        }
        build(&tree, &base.join("site"), &base);
        let files = open(&base.join("site"), &attempts);
        let again = repeated.get(&targets);
        for target in targets.iter().chain([again]) {
            let found = answer(&files, target, AcceptedCodings::NONE);
            if let Some(found) = found.as_ref().filter(|found| *found != "redirect") {
                prop_assert!(found.starts_with("site/"), "{target} leads to {found}");
                prop_assert!(!is_hidden(found), "{target} leads to {found}");
            }
            prop_assert_eq!(found, expected(&tree, &attempts, target), "{}", target);
        }
    }
}

#[test]
fn renames_during_resolution_lead_nowhere() {
    let base = tempfile::tempdir().expect("a directory");
    let path = |name: &str| base.path().join(name);
    for name in ["site", "site/a", "site/a/b", "site/a/b/c", "out"] {
        fs::create_dir(path(name)).expect("a directory");
    }
    fs::write(path("secret"), "secret").expect("a file");
    fs::write(path("out/secret"), "secret").expect("a file");
    fs::write(path("site/secret"), "inside").expect("a file");
    // Leads to `site/secret` while `b` is below `a`, and out if `b` is moved away meanwhile.
    // The detours before it make the walk long enough for a rename in its midst.
    let target = format!("{}../../../secret", "../c/".repeat(400));
    symlink(target, path("site/a/b/c/link")).expect("a link");
    let files = open(&path("site"), &["{path}"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // Also when an assertion fails.
        let _end = SetOnDrop(&is_over);
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(path("site/a/b"), path("out/b")).expect("a rename");
                fs::rename(path("out/b"), path("site/a/b")).expect("a rename");
                // Each rename makes the kernel begin a resolution anew. On a single core, renames
                // without a pause would leave it no time to end one.
                std::thread::yield_now();
            }
        });
        for round in 0..1_000_u64 {
            // Each round is later than the lifetime of a result.
            let monotonic = Monotonic::from_nanos(round * 2_000_000_000);
            let now = Moment { wall: Timestamp::from_secs(4_000_000_000), monotonic };
            let outcome = match files.find(b"/a/b/c/link", AcceptedCodings::NONE, now) {
                Outcome::Cold(cold) => cold.run(),
                outcome => outcome,
            };
            match outcome {
                Outcome::File(found) => assert_eq!(content(&found), "inside"),
                Outcome::NotFound(_) | Outcome::Failed(_) => {}
                other => panic!("{other:?}"),
            }
        }
    });
}

/// Becomes true when this is dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
