//! `cargo xtask long NAME`: tests that take too long to run before every landing, or that measure
//! behaviour over time. Run the ones that a change may affect, and report their results with the
//! change.

use crate::{
    changes, crash, examples, fuzz, installation, lab, mercury, monitoring, moves, simulate, soak, test,
    tools,
};
use anyhow::Result;
use std::ffi::OsString;
use std::time::Duration;

/// Subcommands of `cargo xtask long`.
#[derive(clap::Subcommand)]
pub(crate) enum Long {
    /// Change configuration, certificate and program of a running edge, ten times each, under an
    /// open-loop load over HTTP/1, TLS and HTTP/2 and purges. No request may fail, and no purged
    /// page may come back
    Changes(changes::Args),
    /// Kill the binary under load and purges, restart it, and compare its responses with a model
    Crash(crash::Args),
    /// As `cargo xtask soak`: ten minutes with a disk, little memory, visitors of all kinds,
    /// purges, reloads and failing origins. No unexplained error, no growth, and no more memory
    /// than documented
    Soak(soak::Args),
    /// Run every fuzz target for a minute, or for a given time
    Fuzz {
        /// Seconds for each target
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        seconds: u64,
    },
    /// Simulate 100,000 lives of the edge, or another number. It takes about an hour
    Simulation {
        /// Number of lives
        #[arg(long, default_value_t = 100_000)]
        lives: u64,
    },
    /// Measure the share of source lines of edge, store and disk tier that run in the simulation
    SimulationLines {
        /// Options of the measurement, such as `--seeds 500` and `--ranges`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
        options: Vec<OsString>,
    },
    /// Check the dependencies against the advisory database, which is downloaded
    Advisories,
    /// Run the same Chromium session of an editor and visitors with and without Petasos before
    /// WordPress, and compare the databases. Four forms: with and without the plugin, pretty and
    /// plain permalinks
    Sessions,
    /// Load 50 pages in Chromium through Petasos from each of four applications that give every
    /// visitor a session. Measures the hit ratios of files and pages, and checks that no visitor
    /// receives another's data
    Applications(lab::applications::Args),
    /// Run `petasos try` on the sites of the labs, and check its statements: the software and the
    /// pages from memory, that nothing changes at the site, that only some sites get a factor, and
    /// that the load ends soon after the first failures. The results are those of docs/try.md
    Try(lab::trial::Args),
    /// Visit the example of each system in Chromium, in front of the real system. With `--source`,
    /// a given Drupal 7 takes the place of its stub
    Examples(examples::Args),
    /// Install the .deb in a Debian root under systemd, let it accelerate WordPress with a
    /// certificate by ACME, upgrade it under load, remove and purge it. No request may fail, and
    /// nothing may be left behind. Needs root
    Package(installation::Args),
    /// Carry out the moves of docs/operations.md and the whole way of docs/guide.md, word for word,
    /// in a Debian root under systemd: from Varnish, from nginx and from a page cache of WordPress,
    /// and back. Needs root
    Moves(moves::Args),
    /// Set up the stacks of contrib/mercury by their own scripts, each in a Debian root under
    /// systemd. No layer may be missing, and their removal must be complete. Needs root
    Mercury(mercury::Args),
    /// Check the alert rules in contrib/prometheus with promtool, and run their tests
    Monitoring,
    /// Send 20,000 requests of an ordinary site's visitors through Petasos, 67 a second. 95% must
    /// be hits, and no visitor may receive another's data. `--rates` measures hit ratios at lower
    /// rates (docs/hit-ratio.md)
    Traffic(lab::LabTrafficArgs),
}

/// Runs `cargo xtask long ...`.
///
/// # Errors
/// Names the requirement that did not hold, or the part that could not run.
pub(crate) fn run(long: &Long) -> Result<()> {
    match long {
        Long::Changes(args) => changes::run(args),
        Long::Crash(args) => crash::run(args),
        Long::Soak(args) => soak::run(args),
        Long::Fuzz { seconds } => fuzz::run(Duration::from_secs(*seconds)).map(|_| ()),
        Long::Simulation { lives } => simulate::run_lives(*lives),
        Long::SimulationLines { options } => simulate::measure_lines(options),
        Long::Advisories => tools::advisories(),
        Long::Sessions => test::sessions(),
        Long::Applications(args) => lab::applications(args),
        Long::Try(args) => lab::trial::run(args),
        Long::Examples(args) => examples::run(args),
        Long::Package(args) => installation::run(args),
        Long::Moves(args) => moves::run(args),
        Long::Mercury(args) => mercury::run(args),
        Long::Monitoring => monitoring::run(),
        Long::Traffic(args) => lab::traffic(args),
    }
}
