//! Style rules that a program can check: file and line lengths, the `//!` at the start of files,
//! words that mark unfinished work, names of tests, items with two public paths, the layers of the
//! crates, and headings of documents.
//!
//! Invariant: limits are only ever lowered. Rules that the compiler or clippy can check are not
//! repeated here.

use crate::layers;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
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

/// Checks every Rust file and document that git tracks or would track, and the manifests.
///
/// # Errors
/// All findings, one a line.
pub(crate) fn run() -> Result<()> {
    let mut findings = String::new();
    let crates = layers::names()?;
    for path in tracked()? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            check_rust(&path, &crates, &mut findings)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            for line in indented_headings(&std::fs::read_to_string(&path)?) {
                // Writing into a String cannot fail.
                let _ = writeln!(findings, "{}:{line}: a heading begins its line", path.display());
            }
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

fn check_rust(path: &Path, crates: &[String], findings: &mut String) -> Result<()> {
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
    for (line, what) in second_paths(&text, crates) {
        find(line, what);
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

/// The lines of a document with a heading that does not begin its line. Indented by four spaces, it
/// would be shown as code.
///
/// In code, `#` begins a comment. A line outside of a fence is taken for a heading if it has
/// several, or if its indent is too small for code.
fn indented_headings(text: &str) -> Vec<usize> {
    let mut is_in_fence = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_start();
        if content.starts_with("```") {
            is_in_fence = !is_in_fence;
        }
        let indent = line.len() - content.len();
        let signs = content.len() - content.trim_start_matches('#').len();
        let is_heading =
            (1..=6).contains(&signs) && content.get(signs..).is_some_and(|rest| rest.starts_with(' '));
        if !is_in_fence && indent > 0 && is_heading && (signs > 1 || indent < CODE_INDENT) {
            found.push(number);
        }
    }
    found
}

/// The indent of a line of code, in spaces.
const CODE_INDENT: usize = 4;

/// The lines of a file that give an item a second public path: its module is public as well, or it
/// belongs to another crate of the workspace. With two paths, an import does not show on which
/// crate or module a file depends.
fn second_paths(text: &str, crates: &[String]) -> Vec<(usize, String)> {
    let module = |line: &'_ str, start: &str| {
        let name = line.strip_prefix(start)?;
        Some(name.trim_end_matches([';', '{', ' ']).to_owned())
    };
    let public: BTreeSet<String> = text.lines().filter_map(|line| module(line, "pub mod ")).collect();
    let private: BTreeSet<String> = text.lines().filter_map(|line| module(line, "mod ")).collect();
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(path) = line.strip_prefix("pub use ") else { continue };
        let path = path.trim_start_matches("::").trim_start_matches("crate::").trim_start_matches("self::");
        let first = path.split([':', ';', ' ']).next().unwrap_or_default();
        if public.contains(first) {
            found.push((number, format!("`{first}` is public: its items have a path already")));
        } else if crates.iter().any(|name| name == first) && !private.contains(first) {
            found.push((number, format!("`{first}` is another crate: its items have a path already")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{indented_headings, second_paths};

    fn lines(text: &str) -> Vec<usize> {
        let crates = ["clock".to_owned(), "static_tree".to_owned()];
        second_paths(text, &crates).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn item_with_a_second_public_path_is_found() {
        let text = "pub mod a;\nmod b;\npub use a::A;\npub use b::B;\npub use crate::a::{\n    C,\n};\n\
                    pub use clock::Clock;\npub use ::static_tree::*;\npub use std::fmt;\n";
        assert_eq!(lines(text), [3, 5, 8, 9]);
    }

    #[test]
    fn heading_that_does_not_begin_its_line_is_found() {
        let text =
            "# a\n\n    # in a shell\n\n         ## b\n\n```text\n  ## c\n```\n # d\n  #e\n####### f\n";
        assert_eq!(indented_headings(text), [5, 10]);
    }

    #[test]
    fn module_that_is_called_like_a_crate_is_no_crate() {
        assert_eq!(lines("mod clock;\npub use clock::Clock;\npub(crate) use clock::Other;\n"), [0; 0]);
    }
}
