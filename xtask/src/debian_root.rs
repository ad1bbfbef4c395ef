//! A Debian system that boots in separate namespaces, over a base that stays unchanged.
//!
//! Invariant: when the value is dropped, the system is off and its changes are gone. The base is
//! made once, and is complete or missing.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The release of Debian that the packages are for.
const SUITE: &str = "bookworm";
/// Adds packages to Debian's smallest system: its init, the stack of WordPress, and those given.
const MAKE_BASE: &str = include_str!("debian_root/base.sh");
/// Name of the machine in namespaces.
const MACHINE: &str = "petasos-package";
/// Interval between two checks, and the number of checks: two minutes.
const POLL: Duration = Duration::from_millis(200);
const POLLS_MAX: u32 = 600;

/// A running system.
pub(crate) struct DebianRoot {
    /// Directory of this module's files.
    directory: PathBuf,
    nspawn: Child,
    /// The process id of its init.
    init: u32,
}

impl DebianRoot {
    /// Boots a system below a directory. `packages` are those of its base beside the stack of
    /// WordPress.
    pub(crate) fn boot(directory: &Path, packages: &[&str]) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let directory = directory.canonicalize()?;
        let base = base(&directory, packages)?;
        let part = |name: &str| directory.join(name);
        // A killed run may have left them.
        let _ = Command::new("umount").arg(part("root")).stderr(Stdio::null()).status();
        for name in ["upper", "work", "root"] {
            let _ = fs::remove_dir_all(part(name));
            fs::create_dir(part(name))?;
        }
        let layers = format!(
            "lowerdir={},upperdir={},workdir={}",
            base.display(),
            part("upper").display(),
            part("work").display()
        );
        command("mount", &["-t", "overlay", "overlay", "-o", &layers], &part("root"))?;
        let log = File::create(part("boot.log"))?;
        let nspawn = Command::new("systemd-nspawn")
            .args(["--quiet", "--register=no", "--keep-unit", "--private-network", "--boot"])
            .arg(format!("--machine={MACHINE}"))
            .arg(format!("--directory={}", part("root").display()))
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start systemd-nspawn")?;
        let mut root = Self { directory, nspawn, init: 0 };
        root.wait()?;
        Ok(root)
    }

    /// The directory of the system's files.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Copies a file into the home of the system's root user, with the rights of the source.
    pub(crate) fn copy(&self, source: &Path, name: &str) -> Result<()> {
        let copied = fs::copy(source, self.path().join("root").join(name));
        copied.map(|_| ()).with_context(|| format!("cannot copy {}", source.display()))
    }

    /// Copies a directory into the home of the system's root user.
    pub(crate) fn copy_directory(&self, source: &Path, name: &str) -> Result<()> {
        let source = source.display().to_string();
        command("cp", &["-r", &source], &self.path().join("root").join(name))
    }

    /// Runs a script in the system. Its output is printed.
    ///
    /// # Errors
    /// If the script fails.
    pub(crate) fn run(&self, title: &str, script: &str, arguments: &[&str]) -> Result<()> {
        println!("{title}:");
        let mut command = self.enter(&["sh", "-c", script, "package"]);
        let output = command.args(arguments).output()?;
        let text = [output.stdout, output.stderr].concat();
        for line in String::from_utf8_lossy(&text).lines() {
            println!("  {line}");
        }
        ensure!(output.status.success(), "the step \"{title}\" failed: {}", output.status);
        Ok(())
    }

    /// A command in all namespaces of the system.
    fn enter(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.init));
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--"]);
        command.args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"]);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Waits until the system has started.
    fn wait(&mut self) -> Result<()> {
        for _ in 0..POLLS_MAX {
            sleep(POLL);
            if let Some(status) = self.nspawn.try_wait()? {
                let log = fs::read_to_string(self.directory.join("boot.log")).unwrap_or_default();
                bail!("systemd-nspawn ended with {status}:\n{log}");
            }
            let Some(init) = child(self.nspawn.id()) else { continue };
            self.init = init;
            let output = self.enter(&["systemctl", "is-system-running"]).output()?;
            if matches!(output.stdout.as_slice(), b"running\n" | b"degraded\n") {
                return Ok(());
            }
        }
        bail!(
            "the system has not started after two minutes; see {}",
            self.directory.join("boot.log").display()
        )
    }
}

impl Drop for DebianRoot {
    fn drop(&mut self) {
        // Errors are ignored, because the drop has no caller to report to; the next boot cleans up.
        let _ = self.enter(&["systemctl", "poweroff"]).output();
        for _ in 0..POLLS_MAX / 4 {
            if matches!(self.nspawn.try_wait(), Ok(Some(_))) {
                break;
            }
            sleep(POLL);
        }
        let _ = self.nspawn.kill();
        let _ = self.nspawn.wait();
        let _ = command("umount", &[], &self.path());
        for name in ["upper", "work", "root"] {
            let _ = fs::remove_dir_all(self.directory.join(name));
        }
    }
}

/// The first child of a process.
fn child(process: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}

/// The base, which is made if it is missing.
fn base(directory: &Path, packages: &[&str]) -> Result<PathBuf> {
    let (base, new) = (directory.join("base"), directory.join("base.new"));
    if base.exists() {
        return Ok(base);
    }
    println!("making a Debian root; this takes some minutes");
    let _ = fs::remove_dir_all(&new);
    command("debootstrap", &["--variant=minbase", SUITE], &new)?;
    let arguments = [&["-c", MAKE_BASE, "base"], packages].concat();
    command("sh", &arguments, &new)?;
    fs::rename(&new, &base)?;
    Ok(base)
}

/// Runs a program whose last argument is a path.
fn command(program: &str, arguments: &[&str], path: &Path) -> Result<()> {
    let output = Command::new(program).args(arguments).arg(path).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed with {}: {}", output.status, text.trim_end());
    Ok(())
}
