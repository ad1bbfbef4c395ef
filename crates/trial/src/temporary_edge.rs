//! The temporary edge: at free loopback ports, with the usual settings, and without any file.
//!
//! Invariant: it ends when it is dropped.

use crate::configuration;
use address::HttpUrl;
use config::{Machine, Overrides};
use edge::{BoundEdge, RunningEdge, System};
use std::io;

/// Why the temporary edge could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// Its configuration was refused.
    #[error("the temporary edge cannot be configured: {0}")]
    Configuration(String),
    /// It could not run.
    #[error("the temporary edge cannot be started: {0}")]
    Start(String),
}

/// An edge in front of a site, in threads of this process.
pub struct TemporaryEdge {
    url: HttpUrl,
    /// Kept, because the edge ends with it.
    _running: RunningEdge,
}

impl TemporaryEdge {
    /// Starts an edge in front of the site of `url`. `machine` supplies the defaults of the
    /// settings. With `is_insecure` it accepts any certificate of the site.
    ///
    /// # Errors
    /// [`EdgeError`], for instance if the process may open no further descriptor.
    pub fn start(url: &HttpUrl, is_insecure: bool, machine: &Machine) -> Result<Self, EdgeError> {
        let text = configuration::temporary(url, is_insecure);
        // The configuration names no file.
        let read = |_: &str| -> io::Result<String> { Err(io::ErrorKind::NotFound.into()) };
        let plan = config::load("(trial)", &text, &Overrides::new(), machine, &read).map_err(|problems| {
            EdgeError::Configuration(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let failed = |error: String| EdgeError::Start(error);
        let bound = BoundEdge::bind(plan, System::of_machine()).map_err(|error| failed(error.to_string()))?;
        let running = bound.start().map_err(|error| failed(error.to_string()))?;
        let address = running
            .bound()
            .listen
            .first()
            .map(ToString::to_string)
            .ok_or_else(|| failed("no address".to_owned()))?;
        let url = HttpUrl::parse(&format!("http://{address}/")).map_err(|error| failed(error.to_string()))?;
        Ok(Self { url, _running: running })
    }

    /// The URL of its start page.
    pub fn url(&self) -> &HttpUrl {
        &self.url
    }
}
