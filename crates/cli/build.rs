//! Passes the commit of the build to the program as `PETASOS_COMMIT`, if git and a repository
//! exist.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=..");
    println!("cargo::rerun-if-changed=../../labs/demo");
    if let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) {
        let modified =
            git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
        let mark = if modified { ", modified" } else { "" };
        println!("cargo::rustc-env=PETASOS_COMMIT={commit}{mark}");
    }
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| std::path::Path::new(path).exists())
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// The output of git; `None` without git or without a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
