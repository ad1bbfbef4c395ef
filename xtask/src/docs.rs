//! Documents that are rendered from tables in the code or from committed results, and the check
//! that they are current.
//!
//! Invariant: these files are never edited by hand. `cargo xtask docs` writes them, and the tests
//! compare them.

use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Path of a document, and the function that renders it.
type RenderedDocument = (&'static str, fn() -> Result<String>);

/// All rendered documents.
const PAGES: &[RenderedDocument] = &[
    ("docs/clients.md", || Ok(testkit::clients::clients_reference())),
    ("docs/conformance.md", crate::conformance::page),
    ("docs/crawling.md", || Ok(crawl::crawling_reference())),
    ("docs/hit-ratio.md", || testkit::rates::hit_ratio_reference().map_err(anyhow::Error::msg)),
    ("docs/observing.md", || Ok(edge::observing_reference())),
    ("docs/profiles.md", || Ok(profiles::profiles_reference())),
    ("docs/purging.md", || Ok(purge::purging_reference())),
    ("docs/reasons.md", || Ok(semantics::reasons_reference())),
    ("docs/settings.md", || Ok(config::settings_reference())),
    ("docs/thresholds.md", || Ok(report::thresholds::thresholds_reference())),
    ("docs/why.md", || Ok(why::why_reference())),
];

/// Writes every document.
///
/// # Errors
/// If a document cannot be rendered or written.
pub(crate) fn write() -> Result<()> {
    for (path, render) in PAGES {
        std::fs::write(path, render()?).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

/// Compares every document with its rendering, and checks that links between documents lead to
/// existing files.
///
/// # Errors
/// Names the first document that differs, or else all links whose target is missing.
pub(crate) fn check() -> Result<()> {
    for (path, render) in PAGES {
        let found = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        ensure!(found == render()?, "{path} differs from what it is rendered from: run `cargo xtask docs`");
    }
    let mut broken = Vec::new();
    for page in pages()? {
        let text = std::fs::read_to_string(&page)?;
        let folder = Path::new(&page).parent().unwrap_or_else(|| Path::new("."));
        let dead = links(&text).filter(|link| !folder.join(link).exists());
        broken.extend(dead.map(|link| format!("{page}: {link}")));
    }
    ensure!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    check_named_tests(COMPARISON)
}

/// The document whose tables name a test in each row.
const COMPARISON: &str = "docs/origins-and-listeners.md";

/// Checks that each row of the comparison names a test, as `FILE.rs::TEST`, and that the test
/// exists in a file whose path ends so.
fn check_named_tests(page: &str) -> Result<()> {
    let sources = sources("crates")?;
    let text = std::fs::read_to_string(page)?;
    let rows = text.lines().filter(|line| line.matches(" | ").count() >= COMPARISON_COLUMNS - 1);
    let (mut missing, mut named) = (Vec::new(), 0);
    for row in rows.filter(|row| !row.starts_with("| option ") && !row.starts_with("|---")) {
        let test = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or(row).trim_matches('`');
        named += 1;
        let exists = test.split_once("::").is_some_and(|(file, name)| {
            let is_there = |source: &String| {
                source.ends_with(&format!("/{file}"))
                    && std::fs::read_to_string(source)
                        .is_ok_and(|code| code.contains(&format!("fn {name}()")))
            };
            sources.iter().any(is_there)
        });
        if !exists {
            missing.push(test.to_owned());
        }
    }
    ensure!(named > 0, "{page} has no row that names a test");
    ensure!(missing.is_empty(), "{page} names tests that do not exist:\n{}", missing.join("\n"));
    Ok(())
}

/// Columns of the comparison's tables.
const COMPARISON_COLUMNS: usize = 7;

/// The Rust files below a folder.
fn sources(folder: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.display().to_string();
        if path.is_dir() {
            found.extend(sources(&name)?);
        } else if name.ends_with(".rs") {
            found.push(name);
        }
    }
    Ok(found)
}

/// Markdown files at the top of the repository, in docs/ and in docs/decisions/.
fn pages() -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for folder in [".", "docs", "docs/decisions"] {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.display().to_string());
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// Targets of Markdown links to files of the repository, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::links;

    #[test]
    fn only_links_to_files_count() {
        let text = "[a](docs/a.md) [b](https://b.test/) [c](#here) [d](d.md#part)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "d.md"]);
    }
}
