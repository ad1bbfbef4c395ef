//! The admin address of a running edge: the arguments that name it, and the call.

use crate::why::runtime;
use address::Address;
use anyhow::{Context as _, ensure};
use message::Status;
use net::{CertificateFiles, OriginTlsTerms, TlsClient};
use platform::SystemClock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use why::{EdgeAccess, FetchedResponse, Fetcher, ProbeError};

/// The edge that a command calls.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminArgs {
    /// Admin address of the running edge: IP:PORT, NAME:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", default_value = why::ADMIN_DEFAULT)]
    pub(crate) admin: Address,
    /// File whose first line is the token; it takes precedence over the variable PETASOS_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Connect with TLS, because the edge has the setting admin_certificate. FILE has the
    /// authorities
    /// of the edge's certificate as PEM, or that certificate itself. `system`: those that this
    /// system trusts
    #[arg(long, value_name = "FILE")]
    admin_ca: Option<PathBuf>,
    /// Certificate that the edge demands by its setting admin_client_ca, and its key, as PEM files.
    /// One file may hold both
    #[arg(long, value_name = "CERT,KEY", requires = "admin_ca")]
    admin_certificate: Option<String>,
}

/// The value of `--admin-ca` for the authorities that the system trusts.
const SYSTEM: &str = "system";

impl AdminArgs {
    /// The client for requests to the edge.
    ///
    /// # Errors
    /// If a file of the arguments about TLS cannot be used.
    pub(crate) fn fetcher(&self) -> anyhow::Result<Fetcher> {
        let tls = self.admin_ca.as_deref().map(|authorities| self.tls(authorities)).transpose()?;
        Ok(Fetcher { tls, clock: Arc::new(SystemClock::new()) })
    }

    fn tls(&self, authorities: &Path) -> anyhow::Result<TlsClient> {
        let certificate = self.admin_certificate.as_deref().map(|pair| {
            let (chain, key) = pair.split_once(',').unwrap_or((pair, pair));
            CertificateFiles { chain: chain.into(), key: key.into() }
        });
        let authorities = (authorities != Path::new(SYSTEM)).then(|| authorities.to_owned());
        let terms = OriginTlsTerms { authorities, certificate, is_verified: true };
        TlsClient::for_origin(&terms).context("cannot secure the connection to the admin address")
    }

    /// Posts JSON to `target`, with the token if there is one, and returns the edge's answer.
    ///
    /// # Errors
    /// If the token cannot be read, or no edge answers.
    pub(crate) fn call(&self, target: &str, content: &[u8]) -> anyhow::Result<FetchedResponse> {
        let (fetcher, token) = (self.fetcher()?, self.token()?);
        let call = async { self.access(&fetcher, token.as_deref()).post(target, content).await };
        self.understood(runtime()?.block_on(call))
    }

    /// Gets `target`, with the token if there is one, and returns the edge's answer.
    ///
    /// # Errors
    /// If the token cannot be read, or no edge answers.
    pub(crate) fn get(&self, target: &str) -> anyhow::Result<FetchedResponse> {
        let (fetcher, token) = (self.fetcher()?, self.token()?);
        let call = async { self.access(&fetcher, token.as_deref()).get(target).await };
        self.understood(runtime()?.block_on(call))
    }

    /// The edge, reached by this fetcher with this token.
    pub(crate) const fn access<'a>(&'a self, fetcher: &'a Fetcher, token: Option<&'a str>) -> EdgeAccess<'a> {
        EdgeAccess { fetcher, admin: &self.admin, token }
    }

    fn understood(&self, answer: Result<FetchedResponse, ProbeError>) -> anyhow::Result<FetchedResponse> {
        let answer = answer.map_err(|error| self.failure(error))?;
        let is_plain = self.admin_ca.is_none() && answer.head.status == Status::BAD_REQUEST;
        ensure!(
            !is_plain || !says_tls(&answer.content),
            "the admin address {} speaks TLS; name the authority of its certificate with --admin-ca",
            self.admin
        );
        Ok(answer)
    }

    /// The error of a command that reaches no edge.
    pub(crate) fn failure(&self, error: ProbeError) -> anyhow::Error {
        let admin = &self.admin;
        let context = match error {
            ProbeError::Tls(_) => format!(
                "the connection to the admin address {admin} cannot be secured with --admin-ca and --admin-certificate"
            ),
            _ => format!(
                "no edge answers at the admin address {admin}; start `petasos serve`, or give its admin address with \
                 --admin"
            ),
        };
        anyhow::Error::new(error).context(context)
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

/// Whether a response tells a plain client that the port speaks TLS, as that of Petasos does.
fn says_tls(content: &[u8]) -> bool {
    String::from_utf8_lossy(content).contains("https://")
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the token file {}", file.display()))?;
    let token = text.lines().next().map(str::trim).filter(|token| !token.is_empty());
    token
        .map(str::to_owned)
        .with_context(|| format!("the first line of {} is empty; write the token into it", file.display()))
}
