//! Whether a Petasos with the written configuration answers the reported pages from memory.
//!
//! Invariant: each edge is new, so nothing is in its memory that the requests here did not store.

use super::report::Report;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use testkit::{Client, Edge};

/// Replaces the listener, and keeps the edge away from directories of the machine.
const TEMPORARY: &str = "listen = \"127.0.0.1:0\"\nspool_directory = \"none\"\nstate_directory = \"none\"\n\
                         runtime_directory = \"none\"";

/// Begins a proposed setting in the configuration.
const PROPOSAL: &str = "# With this setting, ";

/// The faults in the statements about the pages, by `configuration`.
///
/// # Errors
/// If the configuration cannot be written for the edge.
pub(super) fn faults(report: &Report, configuration: &str) -> Result<Vec<String>> {
    let mut faults = compare(report, configuration, &["memory"], "as written")?;
    if report.pages.iter().any(|page| page.class == "setting") {
        let with_settings = with_proposals(configuration);
        faults.extend(compare(report, &with_settings, &["memory", "setting"], "with its proposals")?);
    }
    Ok(faults)
}

/// Compares the hits of an edge with the pages of these classes.
fn compare(report: &Report, configuration: &str, classes: &[&str], how: &str) -> Result<Vec<String>> {
    let expected: BTreeSet<&str> = report
        .classes()
        .into_iter()
        .filter(|(_, class)| classes.contains(class))
        .map(|(url, _)| url)
        .collect();
    let hits = hits(report, configuration)?;
    let fault = |url: &&str, what: &str| format!("{url} {what} by the configuration {how}");
    let missing = expected.iter().filter(|url| !hits.contains(*url)).map(|url| fault(url, "is no hit"));
    let more = hits.iter().filter(|url| !expected.contains(*url)).map(|url| fault(url, "is a hit"));
    Ok(missing.chain(more).collect())
}

/// The pages whose second request is a hit.
fn hits<'a>(report: &'a Report, configuration: &str) -> Result<BTreeSet<&'a str>> {
    let place = tempfile::tempdir()?;
    let file = place.path().join("petasos.toml");
    let lines =
        configuration.lines().map(|line| if line.starts_with("listen = ") { TEMPORARY } else { line });
    fs::write(&file, lines.collect::<Vec<_>>().join("\n"))?;
    let edge = Edge::of_file(&file, None);
    let first = report.pages.first().context("a report has a page")?;
    // By its first responses the edge detects the system. Its rules apply from then on.
    ask(&edge, &first.url)?;
    let mut hits = BTreeSet::new();
    for page in &report.pages {
        ask(&edge, &page.url)?;
        if ask(&edge, &page.url)?.contains("Petasos; hit") {
            hits.insert(page.url.as_str());
        }
    }
    Ok(hits)
}

/// Requests a page of the site through the edge. Returns its Cache-Status.
fn ask(edge: &Edge, url: &str) -> Result<String> {
    let (_, rest) = url.split_once("://").context("a URL has a scheme")?;
    let (host, path) = rest.split_once('/').context("a URL has a path")?;
    let mut client = Client::connect(edge.address);
    client.send(format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    Ok(client.read().field("Cache-Status").unwrap_or_default().to_owned())
}

/// The configuration with the settings that it proposes in comments. A later value of a key
/// replaces the earlier one, as the comments say.
fn with_proposals(configuration: &str) -> String {
    let (mut lines, mut is_proposal) = (Vec::new(), false);
    for line in configuration.lines() {
        is_proposal = line.starts_with(PROPOSAL) || is_proposal && !line.is_empty();
        match line.strip_prefix("# ").filter(|text| is_proposal && text.contains(" = ")) {
            Some(setting) => {
                let key = setting.split(" = ").next().unwrap_or(setting);
                lines.retain(|known: &&str| known.split(" = ").next() != Some(key));
                lines.push(setting);
            }
            None => lines.push(line),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::with_proposals;

    #[test]
    fn proposed_settings_take_effect() {
        let text = "# Petasos\nlisten = \"a\"\nprofile = \"auto\"\n\n# With this setting, 1 page more:\n\
                    # (The next line replaces the profile above.)\n# profile = \"php\"\n# ttl = \"5m\"";
        let expected = "# Petasos\nlisten = \"a\"\n\n# With this setting, 1 page more:\n\
                        # (The next line replaces the profile above.)\nprofile = \"php\"\nttl = \"5m\"";
        assert_eq!(with_proposals(text), expected);
    }
}
