//! Programs of tests that are written in Go. They are built into target/tools once, so that the
//! user's own installation stays unchanged.
//!
//! Invariant: versions are fixed. Debian 12 has a Go too old to build them, so it only fetches a
//! newer one, as a module into the module cache.

use crate::packages;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest Go that builds the tools, as its major and minor version.
const GO_MIN: (u32, u32) = (1, 25);

/// The Go to fetch if there is none, or an older one.
const GO_FETCHED: &str = "golang.org/toolchain@v0.0.1-go1.25.0.linux-amd64";

/// The tools, with their modules.
const TOOLS: [(&str, &str); 2] = [
    ("h2spec", "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"),
    ("pebble", "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3"),
];

/// Returns the path of a tool, and builds the tool first if it is missing.
///
/// # Errors
/// If there is no Go and none can be fetched, or if it cannot build the tool.
pub(crate) fn ensure(name: &str) -> Result<PathBuf> {
    let directory = std::env::current_dir()?.join("target/tools/bin");
    let path = directory.join(name);
    if path.exists() {
        return Ok(path);
    }
    let (_, module) = TOOLS.iter().find(|(tool, _)| *tool == name).context("the tool is in the table")?;
    eprintln!("building {module} into {}", directory.display());
    let mut command = Command::new(go()?);
    // An older toolchain would fetch a newer one itself, or refuse.
    command.args(["install", module]).env("GOBIN", &directory).env("CGO_ENABLED", "0");
    let status = command.env("GOFLAGS", "-mod=mod").stdin(Stdio::null()).status()?;
    ensure!(status.success() && path.exists(), "go could not build {module}: {status}");
    Ok(path)
}

/// Builds all tools that are missing.
///
/// # Errors
/// As [`ensure`].
pub(crate) fn ensure_all() -> Result<()> {
    TOOLS.iter().try_for_each(|(name, _)| ensure(name).map(|_| ()))
}

/// A Go, new enough for the tools.
fn go() -> Result<PathBuf> {
    let own = PathBuf::from("go");
    if version(&own).is_some_and(|version| version >= GO_MIN) {
        return Ok(own);
    }
    fetched()
}

/// Fetches a Go with that of Debian.
fn fetched() -> Result<PathBuf> {
    packages::ensure(&["golang-go"])?;
    let mut command = Command::new("/usr/bin/go");
    command.args(["mod", "download", "-json", GO_FETCHED]).env("GOFLAGS", "-mod=mod");
    let output = command.stdin(Stdio::null()).output().context("cannot run /usr/bin/go")?;
    ensure!(
        output.status.success(),
        "go cannot fetch {GO_FETCHED}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let module: Module = serde_json::from_slice(&output.stdout).context("the answer of go mod download")?;
    allow_execution(&module.dir)?;
    let path = module.dir.join("bin/go");
    ensure!(version(&path).is_some_and(|version| version >= GO_MIN), "{} does not run", path.display());
    Ok(path)
}

/// The needed part of go's answer.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Module {
    dir: PathBuf,
}

/// Makes the programs of a toolchain executable, which files of a module are not.
fn allow_execution(toolchain: &Path) -> Result<()> {
    let programs = ["bin", "pkg/tool"].map(|part| toolchain.join(part));
    let status = Command::new("chmod").arg("-R").arg("u+rwx").args(&programs).status()?;
    ensure!(status.success(), "cannot make the programs in {} executable", toolchain.display());
    Ok(())
}

/// The version of a Go.
fn version(go: &Path) -> Option<(u32, u32)> {
    let output = Command::new(go).arg("version").stdin(Stdio::null()).output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// The version in a line such as `go version go1.26.8 linux/amd64`.
fn parse_version(line: &str) -> Option<(u32, u32)> {
    let (_, version) = line.split_once(" go1.")?;
    let minor = version.split(['.', ' ', 'r', 'b']).next()?.parse().ok()?;
    Some((1, minor))
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn versions_of_go_are_read() {
        for (line, version) in [
            ("go version go1.26.8 linux/amd64", Some((1, 26))),
            ("go version go1.19 linux/amd64", Some((1, 19))),
            ("go version go1.27rc1 linux/amd64", Some((1, 27))),
            ("go version devel", None),
        ] {
            assert_eq!(parse_version(line), version, "{line}");
        }
    }
}
