//! The admin address of a running edge: the arguments that name it, and the call.

use crate::why::runtime;
use address::Address;
use anyhow::Context as _;
use platform::SystemClock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use why::{FetchedResponse, Fetcher};

/// The edge that a command calls.
#[derive(Debug, clap::Args)]
pub(crate) struct AdminArgs {
    /// Admin address of the running edge: IP:PORT, NAME:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", default_value = why::ADMIN_DEFAULT)]
    pub(crate) admin: Address,
    /// File whose first line is the token; it takes precedence over the variable PETASOS_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl AdminArgs {
    /// Posts JSON to `target`, with the token if there is one, and returns the edge's answer.
    ///
    /// # Errors
    /// If the token cannot be read, or no edge answers.
    pub(crate) fn call(&self, target: &'static str, content: &[u8]) -> anyhow::Result<FetchedResponse> {
        let token = self.token()?;
        let fetcher = Fetcher { tls: None, clock: Arc::new(SystemClock::new()) };
        let call = why::call_edge(&fetcher, &self.admin, target, token.as_deref(), content);
        runtime()?.block_on(call).with_context(|| {
            format!(
                "no edge answers at the admin address {}; start `petasos serve`, or give its admin address with --admin",
                self.admin
            )
        })
    }

    /// The token: the first line of the token file, or else `PETASOS_TOKEN`. `None` if neither is
    /// given.
    ///
    /// # Errors
    /// If the file cannot be read, or its first line is empty.
    pub(crate) fn token(&self) -> anyhow::Result<Option<String>> {
        match &self.token_file {
            Some(file) => read_token(file).map(Some),
            None => Ok(std::env::var("PETASOS_TOKEN").ok().filter(|token| !token.is_empty())),
        }
    }
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the token file {}", file.display()))?;
    let token = text.lines().next().map(str::trim).filter(|token| !token.is_empty());
    token
        .map(str::to_owned)
        .with_context(|| format!("the first line of {} is empty; write the token into it", file.display()))
}
