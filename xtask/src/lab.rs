//! Real stacks on loopback: how each is installed, started, looked at and stopped. One file per stack.

pub(crate) mod applications;
mod database;
mod drupal;
mod files;
mod front;
mod mediawiki;
mod php;
mod python;
mod stack;
mod traffic;
mod wagtail;
pub(crate) mod webservers;
mod wordpress;

use crate::packages;
use anyhow::{Result, ensure};
use stack::Stack;
use std::path::{Path, PathBuf};

/// `cargo xtask lab ...`.
#[derive(clap::Subcommand)]
pub(crate) enum Lab {
    /// WordPress on MariaDB, PHP-FPM with and without opcode cache, nginx and Varnish
    Wordpress(Order),
    /// MediaWiki on MariaDB, PHP-FPM with and without opcode cache, nginx and Varnish; purges Petasos itself
    Mediawiki(Order),
    /// Wagtail from the Python Package Index behind gunicorn, nginx and Varnish; purges Petasos itself
    Wagtail(Order),
    /// A Drupal 7 or Pressflow 7 that you have, on MariaDB, PHP-FPM and nginx
    Drupal {
        #[command(flatten)]
        order: Order,
        /// The top of its tree; `up` needs it
        #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
        source: Option<PathBuf>,
    },
    /// MoinMoin, a Django admin, and a shop window in Flask and in PHP: sites with a session for everybody
    Applications(Order),
    /// The web servers of labs/webservers: installed here, started by their ladder
    Webservers {
        /// What to do with it
        action: Installation,
    },
}

/// What to do with a content system's stack.
#[derive(clap::Args)]
pub(crate) struct Order {
    /// What to do with it
    #[arg(default_value = "up")]
    action: Action,
    /// Where its files are kept [default: target/labs/NAME]
    // Made absolute where the command was given, because xtask works at the top of the repository.
    #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
    dir: Option<PathBuf>,
}

/// What `cargo xtask long traffic` may be told.
#[derive(clap::Args)]
pub(crate) struct TrafficArgs {
    /// The content system whose lab the visitors go to; it is started if it is not up
    site: Site,
    /// Where its files are kept [default: target/labs/NAME]
    #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
    dir: Option<PathBuf>,
    /// Send the requests in real time, which takes five minutes, instead of as fast as they are answered
    #[arg(long, conflicts_with = "rates")]
    paced: bool,
    /// Measure hit ratios at 0.5 to 12 requests a second instead, with and without edits and plugin (WordPress only)
    #[arg(long)]
    rates: bool,
    /// Length of each of the six rounds of --rates
    #[arg(long, value_name = "MINUTES", default_value_t = 10, requires = "rates")]
    minutes: u64,
    /// Only the rounds of --rates with or without the plugin; the others may run on another lab (--dir) meanwhile
    #[arg(long, value_name = "WHETHER", requires = "rates")]
    plugin: Option<Plugin>,
    /// Leave out the rounds of --rates that the last run on this lab has finished
    #[arg(long, requires = "rates")]
    resume: bool,
    /// Keep the rounds of --rates for docs/hit-ratio.md
    #[arg(long, requires = "rates")]
    write: bool,
}

/// Whether WordPress has the plugin.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Plugin {
    On,
    Off,
}

/// The labs that visitors' traffic is written for.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Site {
    Wordpress,
    Mediawiki,
    Wagtail,
}

/// What can be done with a lab whose servers its ladder starts.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Installation {
    /// Install what is missing
    Up,
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
    match lab {
        Lab::Wordpress(order) => order.carry_out(&wordpress::STACK, &[]),
        Lab::Mediawiki(order) => order.carry_out(&mediawiki::STACK, &[]),
        Lab::Wagtail(order) => order.carry_out(&wagtail::STACK, &[]),
        Lab::Drupal { order, source } => {
            let given = match order.action {
                Action::Up => drupal::given(source.as_deref())?.to_vec(),
                Action::Down | Action::Status => Vec::new(),
            };
            order.carry_out(&drupal::STACK, &given)
        }
        Lab::Applications(order) => order.carry_out(&applications::STACK, &[]),
        Lab::Webservers { action: Installation::Up } => webservers::up(),
    }
}

/// Installs the Debian packages of the content systems that the tests visit, so that this takes none of their time.
///
/// # Errors
/// As [`packages::ensure`].
pub(crate) fn install() -> Result<()> {
    [mediawiki::STACK, wagtail::STACK].iter().try_for_each(|stack| packages::ensure_in_order(stack.packages))
}

/// Starts a lab and sends the traffic of visitors through Petasos to it.
///
/// # Errors
/// If the lab cannot be started, too few requests are hits, or something leaks.
pub(crate) fn traffic(args: &TrafficArgs) -> Result<()> {
    let stack = match args.site {
        Site::Wordpress => &wordpress::STACK,
        Site::Mediawiki => &mediawiki::STACK,
        Site::Wagtail => &wagtail::STACK,
    };
    ensure!(!args.rates || matches!(args.site, Site::Wordpress), "--rates is written for WordPress only");
    let dir = &directory(stack, args.dir.as_deref());
    stack::up(stack, dir, &[])?;
    if args.rates { traffic::rates(dir, args) } else { traffic::run(stack.name, dir, args.paced) }
}

/// Starts the applications' lab, visits it in Chromium through Petasos, and stops it.
///
/// # Errors
/// If the lab cannot be started, something of one visitor reaches another, or too few requests are hits.
pub(crate) fn applications(args: &applications::Args) -> Result<()> {
    let dir = &directory(&applications::STACK, None);
    stack::up(&applications::STACK, dir, &[])?;
    let visited = applications::run(dir, args);
    stack::down(&applications::STACK, dir)?;
    visited
}

/// Where a stack's files are kept: where the caller says, or below `target/labs`.
fn directory(stack: &Stack, given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| crate::repository().join("target/labs").join(stack.name), Path::to_owned)
}

impl Order {
    fn carry_out(&self, stack: &Stack, given: &[(&str, String)]) -> Result<()> {
        let dir = &directory(stack, self.dir.as_deref());
        match self.action {
            Action::Up => stack::up(stack, dir, given),
            Action::Down => stack::down(stack, dir),
            Action::Status => stack::status(stack, dir),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stack::{Stack, tests::rendered};
    use super::{applications, drupal, mediawiki, wagtail, wordpress};

    /// The rendered lines are compared with `NAME.txt` beside the stack's file; after a wanted change write it anew
    /// from the failure output.
    fn assert_as_approved(stack: &Stack, approved: &str) {
        let rendered = rendered(stack);
        assert!(rendered == approved, "{}.txt differs; the lines are now:\n{rendered}", stack.name);
    }

    #[test]
    fn the_files_of_wordpress_are_as_approved() {
        assert_as_approved(&wordpress::STACK, include_str!("lab/wordpress.txt"));
    }

    #[test]
    fn the_files_of_mediawiki_are_as_approved() {
        assert_as_approved(&mediawiki::STACK, include_str!("lab/mediawiki.txt"));
    }

    #[test]
    fn the_files_of_wagtail_are_as_approved() {
        assert_as_approved(&wagtail::STACK, include_str!("lab/wagtail.txt"));
    }

    #[test]
    fn the_files_of_applications_are_as_approved() {
        assert_as_approved(&applications::STACK, include_str!("lab/applications.txt"));
    }

    #[test]
    fn the_files_of_drupal_are_as_approved() {
        assert_as_approved(&drupal::STACK, include_str!("lab/drupal.txt"));
    }
}
