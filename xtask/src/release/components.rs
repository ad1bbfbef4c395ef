//! The crates that the program consists of, and their list in the format CycloneDX 1.5.
//!
//! Invariant: a crate is listed if the program contains code of it on the target. Crates that only
//! run during the build or in tests are not.

use super::{Release, output};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A crate of the program.
pub(super) struct Component {
    pub(super) name: String,
    pub(super) version: String,
    /// The expression of its licence (SPDX).
    pub(super) licence: String,
    /// SHA-256 of its archive in the registry. `None`: it is a part of this repository.
    pub(super) checksum: Option<String>,
    /// The directory of its source.
    pub(super) directory: PathBuf,
}

impl Component {
    /// Whether the crate is a part of this repository.
    pub(super) fn is_own(&self) -> bool {
        self.checksum.is_none()
    }

    /// Its package URL.
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// The needed part of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<CrateTarget>,
}

#[derive(Deserialize)]
struct CrateTarget {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `None`: the code is a part of the crate; otherwise `build` or `dev`.
    kind: Option<String>,
}

/// The needed part of `Cargo.lock`.
#[derive(Deserialize)]
struct Lock {
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// The crates of the program on a target, by name and version.
pub(super) fn of(triple: &str) -> Result<Vec<Component>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", triple]);
    let metadata: Metadata = serde_json::from_str(&output(&mut command)?).context("the output of cargo")?;
    let lock: Lock = toml::from_str(&fs::read_to_string("Cargo.lock")?).context("Cargo.lock")?;
    let sums: BTreeMap<_, _> =
        lock.package.into_iter().map(|locked| ((locked.name, locked.version), locked.checksum)).collect();
    let linked = linked(&metadata)?;
    let mut components = Vec::new();
    for package in metadata.packages.iter().filter(|package| linked.contains(package.id.as_str())) {
        let checksum = sums.get(&(package.name.clone(), package.version.clone())).cloned().flatten();
        components.push(Component {
            name: package.name.clone(),
            version: package.version.clone(),
            licence: package.license.clone().unwrap_or_default().replace('/', " OR "),
            checksum,
            directory: package.manifest_path.parent().unwrap_or(&package.manifest_path).to_owned(),
        });
    }
    components.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(components)
}

/// The identifiers of all crates that the program links.
fn linked(metadata: &Metadata) -> Result<BTreeSet<&str>> {
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let macros: BTreeSet<&str> = metadata
        .packages
        .iter()
        .filter(|package| {
            package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
        })
        .map(|package| package.id.as_str())
        .collect();
    let program = metadata.packages.iter().find(|package| package.name == "petasos");
    let mut open = vec![program.context("cargo does not know petasos")?.id.as_str()];
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if macros.contains(id) || !found.insert(id) {
            continue;
        }
        let deps = nodes.get(id).map_or(&[][..], |node| &node.deps);
        let parts = deps.iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        open.extend(parts.map(|dep| dep.pkg.as_str()));
    }
    Ok(found)
}

/// A component of the list.
#[derive(Serialize)]
struct Row {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    reference: String,
    name: String,
    version: String,
    purl: String,
    licenses: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Value>,
}

/// The list of components as JSON.
pub(super) fn cyclone_dx(release: &Release) -> Result<String> {
    let is_main = |component: &&Component| component.name == "petasos" && component.is_own();
    let main = release.components.iter().find(is_main).context("petasos is a component")?;
    let row = |component: &Component| Row {
        kind: if component.name == main.name { "application" } else { "library" },
        reference: component.url(),
        name: component.name.clone(),
        version: component.version.clone(),
        purl: component.url(),
        licenses: vec![json!({ "expression": component.licence })],
        hashes: component.checksum.iter().map(|sum| json!({ "alg": "SHA-256", "content": sum })).collect(),
    };
    let rows: Vec<_> = release.components.iter().filter(|one| one.name != main.name).map(row).collect();
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": rfc3339(release.epoch_secs)?,
            "tools": [{ "name": "cargo xtask package" }],
            "component": row(main),
            "properties": [{ "name": "target", "value": release.target.triple }],
        },
        "components": rows,
    });
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// A time as RFC 3339 writes it.
fn rfc3339(secs: u64) -> Result<String> {
    let time = format!("--date=@{secs}");
    Ok(output(Command::new("date").args(["--utc", &time, "+%Y-%m-%dT%H:%M:%SZ"]))?.trim().to_owned())
}
