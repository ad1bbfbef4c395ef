//! The layers of the workspace, checked from the manifests: a crate depends only on crates that the
//! workspace manifest lists before it.
//!
//! Invariant: the order of `members` is the order of layers. Dependencies of tests are free, because
//! a test of a lower crate may use the test kit.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use toml::Value;

/// The manifest of the workspace.
#[derive(Deserialize)]
struct Root {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    /// The folders of the crates, in the order of layers.
    members: Vec<String>,
    /// What crates may depend on: a version, or a table that has a `path` for a member.
    dependencies: BTreeMap<String, Value>,
}

/// The manifest of a crate, or its part for one target.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Manifest {
    dependencies: BTreeMap<String, Value>,
    build_dependencies: BTreeMap<String, Value>,
    target: BTreeMap<String, Self>,
}

impl Manifest {
    /// The names of everything that the crate is built with, without the dependencies of tests.
    fn names(&self) -> Vec<&str> {
        let own = self.dependencies.keys().chain(self.build_dependencies.keys()).map(String::as_str);
        own.chain(self.target.values().flat_map(Self::names)).collect()
    }
}

/// What is wrong with the layers of the workspace in the current directory, one sentence each.
///
/// # Errors
/// If a manifest cannot be read.
pub(crate) fn findings() -> Result<Vec<String>> {
    let root: Root = read(Path::new("Cargo.toml"))?;
    let members = root.workspace.members.iter();
    let manifests = members.map(|folder| read::<Manifest>(&Path::new(folder).join("Cargo.toml")));
    Ok(inversions(&root.workspace, &manifests.collect::<Result<Vec<_>>>()?))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))
}

/// The dependencies on a crate that is not listed before its user. `manifests` has one entry for
/// each member.
fn inversions(workspace: &Workspace, manifests: &[Manifest]) -> Vec<String> {
    let place = |folder: &str| workspace.members.iter().position(|member| member == folder);
    let mut found = Vec::new();
    for (rank, (member, manifest)) in workspace.members.iter().zip(manifests).enumerate() {
        for name in manifest.names() {
            let folder = workspace.dependencies.get(name).and_then(|written| written.get("path")?.as_str());
            if folder.and_then(place).is_some_and(|used| used >= rank) {
                found.push(format!(
                    "{member} depends on {name}, which the members in Cargo.toml do not list before it"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Manifest, Root, inversions};

    const ROOT: &str = "
        [workspace]
        members = ['low', 'high']
        [workspace.dependencies]
        low = { path = 'low' }
        high = { package = 'x-high', path = 'high' }
        outside = '1'
    ";

    fn found(low: &str, high: &str) -> Vec<String> {
        let root: Root = toml::from_str(ROOT).unwrap();
        let manifests: Vec<Manifest> = [low, high].map(|text| toml::from_str(text).unwrap()).into();
        inversions(&root.workspace, &manifests)
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
}
