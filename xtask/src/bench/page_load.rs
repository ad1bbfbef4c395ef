//! Loads of one page by `petasos bench`, over kept connections from one thread.
//!
//! Invariant: the load is a separate process, so that its processor time is not the caller's.

use super::optimised;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Concurrent connections of a load.
const CONNECTIONS: &str = "32";

/// The host for requests of the test kit's client.
const HOST: &str = "Host: example.test";

/// A load of one page.
pub(super) struct PageLoad<'a> {
    pub(super) address: SocketAddr,
    pub(super) target: &'a str,
    /// The only coding that the client accepts; the empty one is identity.
    pub(super) coding: &'a str,
    pub(super) seconds: u16,
}

impl PageLoad<'_> {
    /// Loads the page; returns the number of good responses. The run is written to `json`.
    ///
    /// # Errors
    /// If the load generator fails.
    pub(super) fn run(&self, json: &Path) -> Result<u64> {
        let Self { address, target, coding, seconds } = self;
        let accepted = if coding.is_empty() { "identity" } else { coding };
        let mut command = Command::new(optimised("petasos")?);
        command.args(["bench", &format!("http://{address}{target}"), "--accept-invalid", "--threads", "1"]);
        command.args(["-c", CONNECTIONS, "-H", &format!("Accept-Encoding: {accepted}"), "-H", HOST]);
        command.args(["-t", &format!("{seconds}s"), "--json"]).arg(json);
        let ended = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(
            ended.status.success(),
            "petasos bench of {target} with {coding:?}: {}, {said}",
            ended.status
        );
        let run: serde_json::Value = serde_json::from_slice(&fs::read(json)?)?;
        let good = run.pointer("/good").and_then(serde_json::Value::as_u64);
        good.context("the run states no number of responses")
    }
}
