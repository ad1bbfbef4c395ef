//! The layers of the workspace, checked from the manifests: a crate depends only on crates that the
//! workspace manifest lists before it, a pure crate on nothing that reaches the system, and a light
//! crate on no event loop, TLS library or HTML parser.
//!
//! Invariant: the order of `members` is the order of layers, and the crates of one folder follow
//! each other in it. Dependencies of tests are free, because a test of a lower crate may use the
//! test kit.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use toml::Value;

/// Crates that compute from their arguments alone: no socket, clock, disk or random source.
const PURE: [&str; 27] = [
    "crates/base/defects",
    "crates/base/clock",
    "crates/base/address",
    "crates/base/document",
    "crates/base/tls-terms",
    "crates/base/passwords",
    "crates/base/proxy-protocol",
    "crates/base/stats",
    "crates/base/difference",
    "crates/http/message",
    "crates/http/h1",
    "crates/http/invalidation",
    "crates/http/profiles",
    "crates/http/semantics",
    "crates/http/encoding",
    "crates/http/resource",
    "crates/http/page",
    "crates/http/esi",
    "crates/http/crawl",
    "crates/cache/purge",
    "crates/edge/api",
    "crates/edge/history",
    "crates/edge/dashboard",
    "crates/edge/request-log",
    "crates/edge/config",
    "crates/load/record",
    "crates/adopt",
];
/// Crates that only show results. They and their dependencies do without the crates in [`HEAVY`].
const LIGHT: [&str; 2] = ["crates/load/record", "crates/load/report"];
/// Published crates that reach the system, or bring event loops and TLS.
const EFFECTS: [&str; 11] = [
    "aws-lc-rs",
    "getrandom",
    "mio",
    "nix",
    "ring",
    "rustix",
    "rustls",
    "signal-hook",
    "socket2",
    "tokio",
    "tokio-rustls",
];
/// Published crates that pure crates may use although they link to one of [`EFFECTS`]. bcrypt draws
/// random salts for new hashes, and `passwords` only compares. The build of zstd uses a crate that
/// draws random names.
const HARMLESS: [&str; 2] = ["bcrypt", "zstd"];
/// Published crates that are an event loop, a TLS library or an HTML parser, or bring one.
const HEAVY: [&str; 10] =
    ["aws-lc-rs", "h2", "html5ever", "hyper", "mio", "ring", "rustls", "selectors", "tokio", "tokio-rustls"];

/// The manifest of the workspace.
#[derive(Deserialize)]
struct WorkspaceManifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    /// The folders of the crates, in the order of layers.
    members: Vec<String>,
    /// The dependencies of crates: a version, or a table that has a `path` for a member.
    dependencies: BTreeMap<String, Value>,
}

/// The manifest of a crate, or its part for one target.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct CrateManifest {
    dependencies: BTreeMap<String, Value>,
    build_dependencies: BTreeMap<String, Value>,
    target: BTreeMap<String, Self>,
}

impl CrateManifest {
    /// The names of all crates that the crate is built with, without the dependencies of tests.
    fn names(&self) -> Vec<&str> {
        let own = self.dependencies.keys().chain(self.build_dependencies.keys()).map(String::as_str);
        own.chain(self.target.values().flat_map(Self::names)).collect()
    }
}

/// Cargo.lock: all packages that a build may contain.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    /// Names, with a version where several are in use.
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Workspace {
    /// The folder of a dependency within the workspace.
    fn folder(&self, name: &str) -> Option<&str> {
        self.dependencies.get(name)?.get("path")?.as_str()
    }

    /// The place of a folder in the order of layers.
    fn rank(&self, folder: &str) -> Option<usize> {
        self.members.iter().position(|member| member == folder)
    }
}

impl Lock {
    /// A crate of `unwanted` that a published crate is, or depends on.
    fn reaches(&self, package: &str, unwanted: &[&'static str]) -> Option<&'static str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![package];
        while let Some(name) = open.pop() {
            if let Some(found) = unwanted.iter().find(|unwanted| **unwanted == name) {
                return Some(found);
            }
            if seen.insert(name) {
                let packages = self.package.iter().filter(|package| package.name == name);
                let used = packages.flat_map(|package| &package.dependencies);
                open.extend(used.filter_map(|used| used.split(' ').next()));
            }
        }
        None
    }
}

/// The faults in the layers of the workspace in the current directory, one sentence each.
///
/// # Errors
/// If a manifest cannot be read.
pub(crate) fn findings() -> Result<Vec<String>> {
    let root: WorkspaceManifest = read(Path::new("Cargo.toml"))?;
    let members = root.workspace.members.iter();
    let manifests = members.map(|folder| read::<CrateManifest>(&Path::new(folder).join("Cargo.toml")));
    let manifests = manifests.collect::<Result<Vec<_>>>()?;
    let mut found = scattered(&root.workspace.members);
    found.extend(inversions(&root.workspace, &manifests));
    let lock = read(Path::new("Cargo.lock"))?;
    found.extend(impurities(&root.workspace, &manifests, &lock, &PURE));
    found.extend(burdens(&root.workspace, &manifests, &lock, &LIGHT));
    Ok(found)
}

/// The folders of all members, in the order of layers.
///
/// # Errors
/// If the manifest of the workspace cannot be read.
pub(crate) fn members() -> Result<Vec<String>> {
    Ok(read::<WorkspaceManifest>(Path::new("Cargo.toml"))?.workspace.members)
}

/// The crates' names in code.
///
/// # Errors
/// If the manifest of the workspace cannot be read.
pub(crate) fn names() -> Result<Vec<String>> {
    let workspace = read::<WorkspaceManifest>(Path::new("Cargo.toml"))?.workspace;
    let names = workspace.dependencies.keys().filter(|name| workspace.folder(name).is_some());
    Ok(names.map(|name| name.replace('-', "_")).collect())
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))
}

/// Members whose folder has earlier members with those of another folder between. The folders of
/// the tree show the layers only if each of them is one.
fn scattered(members: &[String]) -> Vec<String> {
    let groups: Vec<&str> = members.iter().map(|member| group(member)).collect();
    let mut found = Vec::new();
    for (rank, (member, group)) in members.iter().zip(&groups).enumerate() {
        let before = groups.get(..rank).unwrap_or_default();
        if before.last() != Some(group) && before.contains(group) {
            found.push(format!("{member} is listed apart from the other members of {group}"));
        }
    }
    found
}

/// The folder of a member: `crates/http` of `crates/http/h1`. Members right below `crates`, such as
/// `crates/cli`, are no group.
fn group(member: &str) -> &str {
    match member.rsplit_once('/') {
        Some((folder, _)) if folder.contains('/') => folder,
        Some(_) | None => member,
    }
}

/// The dependencies on a crate listed after its user. `manifests` has one entry for each member.
fn inversions(workspace: &Workspace, manifests: &[CrateManifest]) -> Vec<String> {
    let mut found = Vec::new();
    for (rank, (member, manifest)) in workspace.members.iter().zip(manifests).enumerate() {
        for name in manifest.names() {
            let used = workspace.folder(name).and_then(|folder| workspace.rank(folder));
            if used.is_some_and(|used| used >= rank) {
                found.push(format!(
                    "{member} depends on {name}, which the members in Cargo.toml do not list before it"
                ));
            }
        }
    }
    found
}

/// The dependencies of pure crates on crates of the workspace that are not pure, and on published
/// crates that reach the system.
fn impurities(workspace: &Workspace, manifests: &[CrateManifest], lock: &Lock, pure: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for folder in pure {
        let Some(manifest) = workspace.rank(folder).and_then(|rank| manifests.get(rank)) else {
            found.push(format!("{folder} is listed as pure, but is no member"));
            continue;
        };
        for name in manifest.names().into_iter().filter(|name| !HARMLESS.contains(name)) {
            match (workspace.folder(name), lock.reaches(name, &EFFECTS)) {
                (Some(used), _) if pure.contains(&used) => {}
                (Some(_), _) => found.push(format!("{folder} is pure, but depends on {name}, which is not")),
                (None, Some(effect)) => {
                    found.push(format!("{folder} is pure, but depends on {name}, which is or uses {effect}"));
                }
                (None, None) => {}
            }
        }
    }
    found
}

/// The crates of [`HEAVY`] that light crates reach, directly or through other crates of the
/// workspace.
fn burdens(workspace: &Workspace, manifests: &[CrateManifest], lock: &Lock, light: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for folder in light {
        if workspace.rank(folder).is_none() {
            found.push(format!("{folder} is listed as light, but is no member"));
        }
        let (mut seen, mut open) = (BTreeSet::new(), vec![*folder]);
        while let Some(user) = open.pop() {
            let manifest = workspace.rank(user).and_then(|rank| manifests.get(rank));
            for name in manifest.map(CrateManifest::names).unwrap_or_default() {
                match (workspace.folder(name), lock.reaches(name, &HEAVY)) {
                    (Some(used), _) if seen.insert(used) => open.push(used),
                    (None, Some(heavy)) => found.push(format!(
                        "{folder} is light, but {user} depends on {name}, which is or uses {heavy}"
                    )),
                    (Some(_), _) | (None, None) => {}
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{CrateManifest, Lock, WorkspaceManifest, burdens, impurities, inversions, scattered};

    const ROOT: &str = "
        [workspace]
        members = ['low', 'high']
        [workspace.dependencies]
        low = { path = 'low' }
        high = { package = 'x-high', path = 'high' }
        outside = '1'
    ";

    const LOCK: &str = "
        package = [
            { name = 'outside', dependencies = ['between 1.0.0'] },
            { name = 'between', dependencies = ['outside', 'tokio'] },
            { name = 'harmless' },
        ]
    ";

    fn manifests(low: &str, high: &str) -> Vec<CrateManifest> {
        [low, high].map(|text| toml::from_str(text).unwrap()).into()
    }

    fn found(low: &str, high: &str) -> Vec<String> {
        let root: WorkspaceManifest = toml::from_str(ROOT).unwrap();
        inversions(&root.workspace, &manifests(low, high))
    }

    fn impure(high: &str, pure: &[&str]) -> Vec<String> {
        let (root, lock): (WorkspaceManifest, Lock) =
            (toml::from_str(ROOT).unwrap(), toml::from_str(LOCK).unwrap());
        impurities(&root.workspace, &manifests("", high), &lock, pure)
    }

    #[test]
    fn dependency_on_an_earlier_member_is_allowed() {
        let low = "[dependencies]\noutside.workspace = true\n[dev-dependencies]\nhigh.workspace = true";
        assert_eq!(found(low, "[dependencies]\nlow.workspace = true"), [""; 0]);
    }

    #[test]
    fn dependency_on_a_later_member_is_found_in_every_table() {
        for table in ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            let low = format!("[{table}]\nhigh = {{ workspace = true }}");
            let expected = "low depends on high, which the members in Cargo.toml do not list before it";
            assert_eq!(found(&low, ""), [expected], "{table}");
        }
    }

    #[test]
    fn members_of_a_folder_must_follow_each_other() {
        let members =
            |names: &[&str]| scattered(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            members(&["c/base/a", "c/base/b", "c/http/a", "c/cli", "bench/x", "c/why", "xtask"]),
            [""; 0]
        );
        let expected = ["c/base/b is listed apart from the other members of c/base"];
        assert_eq!(members(&["c/base/a", "c/http/a", "c/base/b", "c/base/d"]), expected);
    }

    #[test]
    fn pure_crate_may_depend_on_pure_and_harmless_crates() {
        let high = "[dependencies]\nlow.workspace = true\nharmless.workspace = true\n\
                    [dev-dependencies]\noutside = '1'";
        assert_eq!(impure(high, &["low", "high"]), [""; 0]);
    }

    #[test]
    fn pure_crate_with_a_way_to_the_system_is_found() {
        let high = "[dependencies]\nlow.workspace = true\noutside.workspace = true";
        let expected = [
            "high is pure, but depends on low, which is not",
            "high is pure, but depends on outside, which is or uses tokio",
        ];
        assert_eq!(impure(high, &["high"]), expected);
        assert_eq!(impure("", &["gone"]), ["gone is listed as pure, but is no member"]);
    }
    #[test]
    fn light_crate_that_reaches_an_event_loop_is_found_with_the_way() {
        let (root, lock): (WorkspaceManifest, Lock) =
            (toml::from_str(ROOT).unwrap(), toml::from_str(LOCK).unwrap());
        let found = |low: &str, high: &str, light: &[&str]| {
            burdens(&root.workspace, &manifests(low, high), &lock, light)
        };
        let uses_low = "[dependencies]\nlow.workspace = true\nharmless.workspace = true";
        let uses_outside = "[dependencies]\noutside.workspace = true";
        assert_eq!(found("", uses_low, &["high"]), [""; 0]);
        assert_eq!(found("", uses_outside, &["low"]), [""; 0]);
        let expected = ["high is light, but low depends on outside, which is or uses tokio"];
        assert_eq!(found(uses_outside, uses_low, &["low", "high"])[1..], expected);
        assert_eq!(found("", "", &["gone"]), ["gone is listed as light, but is no member"]);
    }
}
