//! `cargo xtask long NAME`: tests that take too long for every landing, or whose subject is time. A change that
//! touches their subject runs them, and says what they showed.

use crate::{crash, fuzz, lab, soak, test, tools};
use anyhow::Result;
use std::time::Duration;

/// `cargo xtask long ...`.
#[derive(clap::Subcommand)]
pub(crate) enum Long {
    /// Kill the binary under load and purges, start it again, and compare its responses with a model
    Crash(crash::Args),
    /// Ten minutes with a disk, little memory, visitors of all kinds, purges and a failing origin: no unexplained
    /// error, no growth, and no more memory than documented
    Soak(soak::Args),
    /// Run every fuzz target for a minute, or for a given time
    Fuzz {
        /// Seconds for each target
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        seconds: u64,
    },
    /// Look up the dependencies in the advisory database, which comes from the network
    Advisories,
    /// The same session of an editor and visitors in Chromium with and without Petasos before WordPress, in four forms:
    /// with and without the plugin, pretty and plain permalinks. The databases must be equal afterwards
    Sessions,
    /// 50 page views in Chromium of each of four applications with a session for everybody, through Petasos: the hit
    /// ratio of files and of pages, and that nothing of one visitor reaches another
    Applications(lab::applications::Args),
    /// Send 20,000 requests of an ordinary site's visitors through Petasos, 67 a second: 95% must be hits, and nothing
    /// may leak. `--rates` measures what lower rates come to (docs/hit-ratio.md)
    Traffic(lab::TrafficArgs),
}

/// Runs `cargo xtask long ...`.
///
/// # Errors
/// The text names the failed promise, or the part that could not be run.
pub(crate) fn run(long: &Long) -> Result<()> {
    match long {
        Long::Crash(args) => crash::run(args),
        Long::Soak(args) => soak::run(args),
        Long::Fuzz { seconds } => fuzz::run(Duration::from_secs(*seconds)).map(|_| ()),
        Long::Advisories => tools::advisories(),
        Long::Sessions => test::sessions(),
        Long::Applications(args) => lab::applications(args),
        Long::Traffic(args) => lab::traffic(args),
    }
}
