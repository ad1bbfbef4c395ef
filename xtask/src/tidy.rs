//! Style rules that a program can check: file and line lengths, the `//!` at the start of files,
//! words that mark unfinished work, names of tests, and the layers of the crates.
//!
//! Invariant: limits are only ever lowered. Rules that the compiler or clippy can check are not
//! repeated here.

use crate::layers;
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum number of code lines in one file, without the tests at its end. A longer file should be
/// split into two nouns.
const FILE_LINES_MAX: usize = 700;
/// Longest comment line, in characters. rustfmt limits code lines, except tables of texts, which
/// may be wider.
const COMMENT_CHARACTERS_MAX: usize = 100;
/// Longest name of a test, in characters.
const TEST_NAME_CHARACTERS_MAX: usize = 60;
/// Words that mark unfinished work, in pieces so that this file does not contain them.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("dbg", "!(")];

/// Checks every Rust file that git tracks or would track, and the manifests.
///
/// # Errors
/// All findings, one a line.
pub(crate) fn run() -> Result<()> {
    let mut findings = String::new();
    for path in tracked()? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            check_rust(&path, &mut findings)?;
        }
    }
    for finding in layers::findings()? {
        // Writing into a String cannot fail.
        let _ = writeln!(findings, "Cargo.toml: {finding}");
    }
    ensure!(findings.is_empty(), "tidy found:\n{findings}");
    Ok(())
}

/// The files that git tracks, and untracked files that git does not ignore.
fn tracked() -> Result<Vec<PathBuf>> {
    let output =
        Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).output()?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout)?;
    Ok(paths.lines().map(PathBuf::from).filter(|path| path.exists()).collect())
}

fn check_rust(path: &Path, findings: &mut String) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let mut find = |line: usize, what: String| {
        // Writing into a String cannot fail.
        let _ = writeln!(findings, "{}:{line}: {what}", path.display());
    };
    if !text.starts_with("//!") && !text.starts_with("#!") {
        find(
            1,
            "a file opens with `//!`: what it is for, the invariant it keeps, what it does not do".to_owned(),
        );
    }
    let product_lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
    if product_lines > FILE_LINES_MAX {
        find(
            product_lines,
            format!("{product_lines} lines of code: more than {FILE_LINES_MAX}; is it one noun?"),
        );
    }
    let mut is_test = false;
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        is_test |= code.starts_with("#[") && code.trim_end_matches(']').ends_with("test");
        if let Some((_, rest)) = code.split_once("fn ")
            && std::mem::take(&mut is_test)
            && let Some((name, _)) = rest.split_once('(')
            && name.len() > TEST_NAME_CHARACTERS_MAX
        {
            find(number, format!("a test's name longer than {TEST_NAME_CHARACTERS_MAX} characters"));
        }
        let is_comment = line.trim_start().starts_with("//");
        // A row of a table cannot be wrapped.
        let is_row = is_comment && line.trim_start().trim_start_matches(['/', '!', ' ']).starts_with('|');
        if is_comment && !is_row && line.chars().count() > COMMENT_CHARACTERS_MAX {
            find(number, format!("a comment longer than {COMMENT_CHARACTERS_MAX} characters"));
        }
        if let Some(mark) = UNFINISHED.iter().find(|mark| line.contains(*mark)) {
            find(number, format!("`{mark}` marks unfinished work: finish it, or write it down as an issue"));
        }
    }
    Ok(())
}
