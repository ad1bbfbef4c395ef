//! `cargo xtask long package`: installs the .deb in a separate Debian root under systemd, lets it
//! accelerate Debian's WordPress with a certificate of the authority pebble, upgrades it under
//! load, removes and purges it.
//!
//! No request may fail, and nothing may be left behind.
//!
//! Invariant: everything happens in the root, which has a separate network and is thrown away. This
//! needs root, namespaces and overlay file systems; systemd need not be the machine's init.

use crate::debian_root::DebianRoot;
use crate::{go_tools, packages, release};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian packages of the programs that make, boot and check the root.
const PACKAGES: [&str; 4] = ["debootstrap", "lintian", "systemd", "systemd-container"];
/// Debian packages of the root beside the stack of WordPress.
const ROOT_PACKAGES: [&str; 2] = ["apache2", "libapache2-mod-php"];
/// Directory of the root, and of the packages that are installed in it.
const DIRECTORY: &str = "target/package-root";
/// Largest exposure of the unit by `systemd-analyze security`, in tenths. 0 is none, 100 all.
const EXPOSURE_MAX: u32 = 20;
/// Protocols of the two generators.
const PROTOCOLS: [&str; 2] = ["1.1", "2"];

const WORDPRESS: &str = include_str!("installation/wordpress.sh");
const SITE: &str = include_str!("installation/site.sh");
const INSTALL: &str = include_str!("installation/install.sh");
const UPGRADE: &str = include_str!("installation/upgrade.sh");
const REMOVAL: &str = include_str!("installation/removal.sh");

/// Arguments of `cargo xtask long package`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package this program instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Requests a second of each of the two generators
    #[arg(long, default_value_t = 200)]
    rate: u32,
}

/// Runs the whole life of the package and prints the observations.
///
/// # Errors
/// Names the step that failed, or the files left behind.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "this boots a Debian root, which only root may do");
    packages::ensure(&PACKAGES)?;
    let pebble = go_tools::ensure("pebble")?;
    let out = Path::new(DIRECTORY).join("packages");
    // The third one replaces a version while the configuration is broken.
    let debs = release::revisions(args.program.as_deref(), &[1, 2, 3], &out)?;
    let first = debs.first().context("three packages were made")?;
    check("lintian", &["--fail-on", "error"], first)?;
    let bound = format!("--threshold={EXPOSURE_MAX}");
    check(
        "systemd-analyze",
        &["security", "--offline=true", "--no-pager", &bound],
        Path::new("contrib/systemd/petasos.service"),
    )?;
    let root = DebianRoot::boot(Path::new(DIRECTORY), &ROOT_PACKAGES)?;
    root.copy(&pebble, "pebble")?;
    for (number, deb) in (1..).zip(&debs) {
        root.copy(deb, &format!("petasos-{number}.deb"))?;
    }
    root.run("WordPress is installed", WORDPRESS, &[])?;
    root.run("Petasos is installed", INSTALL, &[])?;
    root.run("Petasos accelerates WordPress", SITE, &[])?;
    root.run("Petasos is upgraded under load", UPGRADE, &[&args.rate.to_string()])?;
    let failed: u64 = PROTOCOLS.iter().map(|protocol| count(&root, protocol)).sum::<Result<u64>>()?;
    root.run("Petasos is removed and purged", REMOVAL, &[])?;
    ensure!(failed == 0, "{failed} requests failed");
    println!("no request failed, and nothing was left behind");
    Ok(())
}

/// Runs a program that checks a file.
fn check(program: &str, arguments: &[&str], file: &Path) -> Result<()> {
    let output = Command::new(program).args(arguments).arg(file).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // The last line has the sum.
    println!("{program}: {}", text.trim_end().lines().last().unwrap_or("no findings"));
    ensure!(output.status.success(), "{program} finds faults in {}:\n{text}", file.display());
    Ok(())
}

/// Prints the counts of a generator and returns the number of failed requests.
fn count(root: &DebianRoot, protocol: &str) -> Result<u64> {
    let text = std::fs::read(root.path().join(format!("root/load-{protocol}.json")))
        .with_context(|| format!("the generator over HTTP/{protocol} wrote nothing"))?;
    let run: Value = serde_json::from_slice(&text)?;
    let of = |name: &str| run.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (good, failed, late) = (of("good"), of("failed"), of("not_started"));
    println!("  HTTP/{protocol} over TLS: {good} good, {failed} failed, {late} not started");
    ensure!(good > 0, "the generator over HTTP/{protocol} measured nothing");
    Ok(failed + late)
}
