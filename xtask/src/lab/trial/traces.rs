//! The traces of a trial at a site: the requests in its log, and changed content.
//!
//! Invariant: both are read from the site's own files and database, not from the report.

use super::super::database;
use super::super::stack::StackSite;
use super::sites::{Expected, TrialSite};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

/// Longest time between the first failed request of a load and its last request, in seconds.
const LOAD_END_MAX: f64 = 1.0;

/// Most requests after the first failed one. The third failure ends the load. At that moment, each
/// of its four users may have one request in progress and begin another.
const LATE_REQUESTS_MAX: usize = 10;

/// Parts of URLs that ask for an effect. No log may have one.
const EFFECTS: [&str; 8] =
    ["logout", "log-out", "delete", "add-to-cart", "action=", "token", "nonce", "unsubscribe"];

/// The content that a visit must not change.
pub(super) enum Content {
    /// Tables of MariaDB.
    Tables {
        /// The name of the database.
        database: &'static str,
        /// Tables that the application itself uses as a cache.
        own: &'static [&'static str],
    },
    /// Files and directories below the lab's directory.
    Files(&'static [&'static str]),
}

/// The log and the content at one moment.
pub(super) struct Traces {
    log: String,
    content: BTreeMap<String, String>,
}

impl Traces {
    /// The traces at `site` now.
    ///
    /// # Errors
    /// If a file cannot be read, or the database does not answer.
    pub(super) fn of(site: &TrialSite, lab: &StackSite<'_>) -> Result<Self> {
        let path = lab.at("log").join(site.log);
        let log = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut content = BTreeMap::new();
        match site.content {
            Content::Tables { database, own } => {
                content = database::checksums(lab, database)?;
                content.retain(|table, _| !own.iter().any(|own| table.ends_with(&format!(".{own}"))));
            }
            Content::Files(paths) => {
                paths.iter().try_for_each(|path| hashes(&lab.at(path), &mut content))?;
            }
        }
        Ok(Self { log: String::from_utf8_lossy(&log).into_owned(), content })
    }

    /// The faults in the traces of a trial that took place between `self` and `after`.
    pub(super) fn faults(&self, after: &Self, site: &TrialSite) -> Vec<String> {
        let mut faults = Vec::new();
        let names = self.content.keys().chain(after.content.keys());
        let mut changed: Vec<&String> =
            names.filter(|name| self.content.get(*name) != after.content.get(*name)).collect();
        changed.dedup();
        if !changed.is_empty() {
            faults.push(format!("content has changed: {changed:?}"));
        }
        let new = after.log.get(self.log.len()..).unwrap_or_default();
        let requests: Vec<LoggedRequest<'_>> = new.lines().filter_map(LoggedRequest::read).collect();
        if requests.is_empty() {
            faults.push("the log has no request".to_owned());
        }
        for request in &requests {
            let target = request.target.to_ascii_lowercase();
            if request.method != "GET" || EFFECTS.iter().any(|effect| target.contains(effect)) {
                faults.push(format!("{} {} was sent", request.method, request.target));
            }
        }
        if matches!(&site.expected, Expected::Report(of) if of.load == "gave-in") {
            faults.extend(load_faults(&requests));
        }
        faults
    }
}

/// The faults in the end of a load that met failures.
fn load_faults(requests: &[LoggedRequest<'_>]) -> Vec<String> {
    let Some(first) = requests.iter().position(|request| request.status == "500") else {
        return vec!["the site did not fail".to_owned()];
    };
    let late = requests.get(first..).unwrap_or_default();
    let secs = late.iter().map(|request| request.at_secs).fold(f64::NAN, f64::max)
        - late.first().map_or(f64::NAN, |request| request.at_secs);
    println!("  {} requests after the first failure, the last after {secs:.3} s", late.len() - 1);
    let mut faults = Vec::new();
    if !(0.0..=LOAD_END_MAX).contains(&secs) {
        faults.push(format!("the load went on for {secs} s after the first failure"));
    }
    if late.len() > 1 + LATE_REQUESTS_MAX {
        faults.push(format!("{} requests followed the first failure", late.len() - 1));
    }
    faults
}

/// A line of a log: `"METHOD TARGET VERSION" STATUS`, with anything before it. A Unix time in
/// seconds may follow.
struct LoggedRequest<'a> {
    method: &'a str,
    target: &'a str,
    status: &'a str,
    at_secs: f64,
}

impl<'a> LoggedRequest<'a> {
    /// `None` for a line of another kind.
    fn read(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once('"')?;
        let (request, rest) = rest.split_once("\" ")?;
        let mut words = request.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        words.next().filter(|version| version.starts_with("HTTP/"))?;
        let mut rest = rest.split(' ');
        let status = rest.next()?;
        Some(Self {
            method,
            target,
            status,
            at_secs: rest.next().and_then(|at| at.parse().ok()).unwrap_or(0.0),
        })
    }
}

/// Adds the hash of each file at or below `path`.
fn hashes(path: &Path, to: &mut BTreeMap<String, String>) -> Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    if path.is_dir() {
        for entry in fs::read_dir(path).with_context(cannot)? {
            hashes(&entry?.path(), to)?;
        }
        return Ok(());
    }
    let mut hasher = DefaultHasher::new();
    fs::read(path).with_context(cannot)?.hash(&mut hasher);
    to.insert(path.display().to_string(), hasher.finish().to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LoggedRequest, load_faults};

    fn read(line: &str) -> Option<(&str, &str, &str)> {
        LoggedRequest::read(line).map(|request| (request.method, request.target, request.status))
    }

    #[test]
    fn requests_of_all_logs_are_read() {
        let nginx = "127.0.0.1 - - [30/Nov/2026:02:00:00 +0000] \"GET /a?b HTTP/1.1\" 200 12 \"-\" \"x\"";
        assert_eq!(read(nginx), Some(("GET", "/a?b", "200")));
        assert_eq!(read("\"POST / HTTP/1.1\" 500 17.250"), Some(("POST", "/", "500")));
        assert_eq!(read("[2026] [INFO] Using \"x\" here"), None);
    }

    #[test]
    fn load_that_goes_on_after_failures_is_noticed() {
        let requests = |times: &[(&'static str, f64)]| -> Vec<LoggedRequest<'static>> {
            let request = |(status, at_secs): &(&'static str, f64)| LoggedRequest {
                method: "GET",
                target: "/",
                status,
                at_secs: *at_secs,
            };
            times.iter().map(request).collect()
        };
        let ends = |last| requests(&[("200", 1.0), ("500", 2.0), ("200", last)]);
        assert!(load_faults(&ends(2.9)).is_empty());
        assert!(!load_faults(&ends(3.1)).is_empty());
        assert!(!load_faults(&requests(&[("200", 1.0)])).is_empty());
        let mut many = vec![("500", 1.0)];
        many.extend([("200", 1.1); 11]);
        assert!(!load_faults(&requests(&many)).is_empty());
    }
}
