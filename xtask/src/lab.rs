//! Real stacks on loopback: how each is installed, started, looked at and stopped. One file per stack.

pub(crate) mod wordpress;

use anyhow::Result;
use std::path::PathBuf;

/// `cargo xtask lab ...`.
#[derive(clap::Subcommand)]
pub(crate) enum Lab {
    /// WordPress on MariaDB, PHP-FPM with and without opcode cache, nginx and Varnish
    Wordpress {
        /// What to do with it
        action: Action,
        /// Where its files are kept [default: target/labs/wordpress]
        // Made absolute where the command was given, because xtask works at the top of the repository.
        #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
        dir: Option<PathBuf>,
    },
}

/// What can be done with every lab.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Action {
    /// Install what is missing, start what does not run
    Up,
    /// Stop everything that was started; the files stay
    Down,
    /// Say what runs, and where; fails if the lab is not up
    Status,
}

/// Runs `cargo xtask lab ...`.
///
/// # Errors
/// The text names what could not be done and the log that says more.
pub(crate) fn run(lab: &Lab) -> Result<()> {
    let Lab::Wordpress { action, dir } = lab;
    let dir = &dir.clone().unwrap_or_else(|| crate::repository().join("target/labs/wordpress"));
    match action {
        Action::Up => wordpress::up(dir),
        Action::Down => wordpress::down(dir),
        Action::Status => wordpress::status(dir),
    }
}
