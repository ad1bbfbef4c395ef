//! h2spec: the public conformance suite for HTTP/2 servers, over TLS, with its strict cases.
//!
//! Invariant: every case passes. A case that the suite skips fails the run.

use super::protocol::{Protocol, keys};
use super::suite_servers::SuiteServer;
use super::{TestCounts, WORK};
use crate::go_tools;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{Origin, response};

/// The number of cases of the suite.
const CASES: u64 = 146;

/// Runs the suite against the binary.
///
/// # Errors
/// If the suite cannot run or its answer cannot be read.
pub(super) fn run(petasos: &Path) -> Result<TestCounts> {
    let h2spec = go_tools::ensure("h2spec")?;
    let logs = std::path::absolute(Path::new(WORK).join("h2spec"))?;
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let keys = keys(&logs);
    // The suite needs a response longer than one frame's minimum.
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: max-age=600"], &[b'x'; 200]));
    let mut edge = super::suite_servers::bound(petasos.as_os_str());
    edge.args(["serve", "--origin", &origin.url(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    edge.args(["--tls", &keys.pair]);
    let edge = SuiteServer::start("petasos", edge, &logs, Protocol::Http2.serving())?;
    let mut command = Command::new(h2spec);
    command.args(["-h", "127.0.0.1", "-p", &edge.address.port().to_string(), "-t", "-k", "-S"]);
    let output = command.stdin(Stdio::null()).output().context("cannot run h2spec")?;
    std::fs::write(logs.join("h2spec.log"), &output.stdout)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (passed, failed) = score(&text).with_context(|| {
        format!("h2spec gave no score; look at {}", logs.join(OsStr::new("h2spec.log")).display())
    })?;
    println!("h2spec 2.2.1: {passed} of {CASES} passed");
    for line in text.lines().skip_while(|line| !line.starts_with("Failures:")) {
        println!("  {line}");
    }
    ensure!(passed + failed == CASES, "the suite has {CASES} cases, but {} ran", passed + failed);
    Ok(TestCounts { passed, differences: failed })
}

/// The numbers of passed and of other cases in the last line, such as
/// `146 tests, 145 passed, 0 skipped, 1 failed`.
fn score(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().rev().find(|line| line.contains(" tests, "))?;
    let number = |word: &str| {
        let part = line.split(", ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse::<u64>().ok()
    };
    Some((number(" passed")?, number(" skipped")? + number(" failed")?))
}

#[cfg(test)]
mod tests {
    use super::score;

    #[test]
    fn score_counts_skipped_cases_as_failed() {
        let text = "Finished in 0.3 seconds\n146 tests, 143 passed, 2 skipped, 1 failed\n";
        assert_eq!(score(text), Some((143, 3)));
        assert_eq!(score("nothing"), None);
    }
}
