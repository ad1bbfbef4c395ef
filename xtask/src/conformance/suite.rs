//! The suite itself: the npm package in a fixed version, or a checkout, and the programs that it
//! needs.
//!
//! Invariant: nothing is installed outside of `target/`, except Debian's Node.js packages if there
//! is no Node.js. `conformance/package-lock.json` fixes the packages that npm installs. It leaves
//! out dependencies that the suite declares but does not need.

use super::{Variant, WORK};
use crate::node;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The two editions of the suite. They contain different tests, so their scores are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Edition {
    /// A checkout of the git repository.
    Git,
    /// The published npm package, which also tests Surrogate-Control.
    Npm,
}

impl Edition {
    /// Both editions, in the order in which they are shown.
    pub(crate) const ALL: [Self; 2] = [Self::Git, Self::Npm];

    /// Name in file names.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Git => "git",
        }
    }

    /// Oldest version of Node.js that can run the edition.
    const fn node_min(self) -> NodeVersion {
        match self {
            Self::Npm => NodeVersion(18, 0, 0),
            Self::Git => NodeVersion(20, 18, 1),
        }
    }

    /// Path of the suite's own origin server.
    pub(crate) const fn server(self) -> &'static str {
        match self {
            Self::Npm => "server/server.mjs",
            Self::Git => "test-engine/server/server.mjs",
        }
    }
}

/// A suite, ready to run.
pub(crate) struct Suite {
    /// The edition.
    pub(crate) edition: Edition,
    /// Directory of the suite.
    pub(crate) directory: PathBuf,
    /// Directory of the packages that its client needs.
    pub(crate) modules: PathBuf,
    /// Name and version, for output.
    pub(crate) label: String,
    /// Name and version of Node.js, for output.
    pub(crate) node: String,
}

impl Suite {
    /// Prepares everything: Node.js, the packages and the suite.
    ///
    /// # Errors
    /// Names the missing part.
    pub(crate) fn prepare(checkout: Option<&Path>) -> Result<Self> {
        let edition = match checkout {
            Some(directory) => edition_of(directory)?,
            None => Edition::Npm,
        };
        let version = node_version()?;
        let found = parse_version(&version)?;
        let least = edition.node_min();
        ensure!(
            found >= least,
            "this edition of the suite needs Node.js {least} or newer, and `node` is {version}"
        );
        let modules = install()?;
        let directory = checkout.map_or_else(|| modules.join("http-cache-tests"), Path::to_owned);
        let label = label(edition, &directory)?;
        Ok(Self { edition, directory, modules, label, node: format!("Node.js {version}") })
    }

    /// Directory for the logs of a run.
    pub(crate) fn logs(&self, variant: Variant) -> PathBuf {
        let Variant { profile, protocol } = variant;
        Path::new(WORK).join(format!("{}-{}-{}", self.edition.name(), profile.name(), protocol.name()))
    }

    /// Logs of the client and the origin in the last run. They contain the messages of a test that
    /// ran alone.
    pub(crate) fn messages(&self, variant: Variant) -> Vec<String> {
        let read = |name| std::fs::read_to_string(self.logs(variant).join(name)).unwrap_or_default();
        ["client.log", "origin.log"].map(read).to_vec()
    }
}

/// A version of Node.js.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeVersion(u32, u32, u32);

impl std::fmt::Display for NodeVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

fn parse_version(text: &str) -> Result<NodeVersion> {
    let numbers = || {
        let mut numbers = text.strip_prefix('v')?.split('.').map(|number| number.parse().ok());
        Some(NodeVersion(numbers.next()??, numbers.next()??, numbers.next()??))
    };
    numbers().with_context(|| format!("{text:?} is no version of Node.js"))
}

/// Recognises the edition of the suite in a directory by its layout.
fn edition_of(directory: &Path) -> Result<Edition> {
    let found = Edition::ALL.into_iter().find(|edition| directory.join(edition.server()).exists());
    found.with_context(|| {
        format!("{} has no {}: no checkout of the suite", directory.display(), Edition::Git.server())
    })
}

/// Output of `node --version`. Installs Debian's package if there is no Node.js.
fn node_version() -> Result<String> {
    node::ensure_node()?;
    let output = Command::new("node").arg("--version").output().context("cannot run node")?;
    ensure!(output.status.success(), "node --version ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Installs the packages of the committed lock file if they are missing. Returns their directory.
fn install() -> Result<PathBuf> {
    node::install(Path::new("conformance"), &std::path::absolute(WORK)?)
}

/// Name of the suite with its version (npm package) or with the date of its last commit (checkout).
fn label(edition: Edition, directory: &Path) -> Result<String> {
    if edition == Edition::Npm {
        let path = directory.join("package.json");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let package: serde_json::Value = serde_json::from_str(&text)?;
        let version = package.get("version").and_then(serde_json::Value::as_str);
        return Ok(format!("http-cache-tests {}", version.unwrap_or("of unknown version")));
    }
    let commit = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["log", "-1", "--date=short", "--format=%cd (%h)", "--abbrev=7"])
        .output()?;
    let commit = String::from_utf8_lossy(&commit.stdout).trim().to_owned();
    Ok(format!("cache-tests of {}", if commit.is_empty() { "an unknown date" } else { &commit }))
}

#[cfg(test)]
mod tests {
    use super::{Edition, NodeVersion, edition_of, parse_version};
    use std::path::Path;

    #[test]
    fn versions_compare_by_their_numbers() {
        assert_eq!(parse_version("v18.20.4").unwrap(), NodeVersion(18, 20, 4));
        assert!(parse_version("v20.9.0").unwrap() < Edition::Git.node_min());
        assert!(parse_version("v20.18.1").unwrap() >= Edition::Git.node_min());
        for wrong in ["", "20.1.2", "v20", "v20.x.1"] {
            assert!(parse_version(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn directory_without_a_suite_is_refused() {
        let error = edition_of(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
        assert!(error.to_string().contains("no checkout of the suite"), "{error}");
    }
}
