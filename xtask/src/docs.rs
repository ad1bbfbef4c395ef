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
    Ok(())
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
