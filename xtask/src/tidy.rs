//! Style that a program can check over the repository: file and line lengths, how files open, words that
//! mark unfinished work, and names of files that documents mention.
//!
//! Invariant: a limit is only ever lowered. What a compiler or clippy checks is not repeated here.

use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of product code in one file, tests at its end not counted. Heavier files are two nouns.
const FILE_LINES_MAX: usize = 700;
/// Characters in one line of comment. Code is rustfmt's business, and tables of texts may be as wide as they are.
const COMMENT_CHARACTERS_MAX: usize = 120;
/// Words that mark unfinished work, written so that this file does not contain them.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("dbg", "!(")];

/// Checks every tracked file.
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
    ensure!(findings.is_empty(), "tidy found:\n{findings}");
    Ok(())
}

/// The files git tracks, and those it does not know yet but would not ignore.
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
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("//") && line.chars().count() > COMMENT_CHARACTERS_MAX {
            find(number, format!("a comment longer than {COMMENT_CHARACTERS_MAX} characters"));
        }
        if let Some(mark) = UNFINISHED.iter().find(|mark| line.contains(*mark)) {
            find(number, format!("`{mark}` marks unfinished work: finish it, or write it down as an issue"));
        }
    }
    Ok(())
}
