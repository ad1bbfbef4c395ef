//! Real application stacks on loopback: how each is installed, started, inspected and stopped.
//! There is one file for each stack.

pub(crate) mod applications;
mod database;
mod drupal;
mod files;
mod front;
mod mediawiki;
mod node;
mod php;
mod python;
mod stack;
mod traffic;
pub(crate) mod trial;
mod wagtail;
pub(crate) mod webservers;
mod wordpress;

use crate::packages;
use anyhow::{Result, ensure};
use stack::Stack;
use std::path::{Path, PathBuf};

/// Subcommands of `cargo xtask lab`.
#[derive(clap::Subcommand)]
pub(crate) enum LabCommand {
    /// WordPress on MariaDB, PHP-FPM with and without opcode cache, nginx and Varnish
    Wordpress(StackOrder),
    /// MediaWiki on MariaDB, PHP-FPM with and without opcode cache, nginx and Varnish; sends purges
    /// to Petasos
    Mediawiki(StackOrder),
    /// Wagtail from the Python Package Index behind gunicorn, nginx and Varnish; sends purges to
    /// Petasos
    Wagtail(StackOrder),
    /// Your own copy of Drupal 7 or Pressflow 7 on MariaDB, PHP-FPM and nginx
    Drupal {
        #[command(flatten)]
        order: StackOrder,
        /// Top directory of the Drupal tree; required by `up`
        #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
        source: Option<PathBuf>,
    },
    /// MoinMoin, a Django admin, and a shop in Flask and in PHP: sites that give every visitor a
    /// session
    Applications(StackOrder),
    /// A small content system in Node with Express; sends purges to Petasos' admin address
    Node(StackOrder),
    /// The web servers of labs/webservers; this command installs them, and their ladder starts them
    Webservers {
        /// Action on the lab
        action: Installation,
    },
}

/// Action on a content system's lab.
#[derive(clap::Args)]
pub(crate) struct StackOrder {
    /// Action on the lab
    #[arg(default_value = "up")]
    action: LabAction,
    /// Directory for the lab's files [default: target/labs/NAME]
    // Resolved before xtask changes to the top of the repository.
    #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
    dir: Option<PathBuf>,
}

/// Arguments of `cargo xtask long traffic`.
#[derive(clap::Args)]
pub(crate) struct LabTrafficArgs {
    /// Content system whose lab receives the traffic; the lab is started if necessary
    site: TrafficLab,
    /// Directory for the lab's files [default: target/labs/NAME]
    #[arg(long, value_name = "DIR", value_parser = |text: &str| std::path::absolute(text))]
    dir: Option<PathBuf>,
    /// Send the requests in real time, which takes five minutes, instead of as fast as possible
    #[arg(long, conflicts_with = "rates")]
    paced: bool,
    /// Instead, measure hit ratios at 0.5 to 12 requests a second, with and without edits and
    /// plugin (WordPress only)
    #[arg(long)]
    rates: bool,
    /// Duration of each of the six rounds of --rates
    #[arg(long, value_name = "MINUTES", default_value_t = 10, requires = "rates")]
    minutes: u64,
    /// Run only the rounds of --rates with or without the plugin; the others can run on another lab
    /// (--dir) at the same time
    #[arg(long, value_name = "WHETHER", requires = "rates")]
    plugin: Option<Plugin>,
    /// Skip the rounds of --rates that the last run on this lab has finished
    #[arg(long, requires = "rates")]
    resume: bool,
    /// Store the rounds of --rates for docs/hit-ratio.md
    #[arg(long, requires = "rates")]
    write: bool,
}

/// Whether WordPress uses the plugin.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Plugin {
    On,
    Off,
}

/// The labs that the traffic test supports.
#[derive(Clone, Copy, clap::ValueEnum)]
enum TrafficLab {
    Wordpress,
    Mediawiki,
    Wagtail,
}

/// Action on a lab whose servers are started by its ladder.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Installation {
    /// Install missing packages
    Up,
}

/// Action on every other lab.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum LabAction {
    /// Install missing packages and files, and start all servers that do not run
    Up,
    /// Stop all servers and keep the files
    Down,
    /// Print the servers and addresses; fails if the lab is not up
    Status,
}

/// Runs `cargo xtask lab ...`.
///
/// # Errors
/// Names the step that failed and the log with details.
pub(crate) fn run(lab: &LabCommand) -> Result<()> {
    match lab {
        LabCommand::Wordpress(order) => order.carry_out(&wordpress::STACK, &[]),
        LabCommand::Mediawiki(order) => order.carry_out(&mediawiki::STACK, &[]),
        LabCommand::Wagtail(order) => order.carry_out(&wagtail::STACK, &[]),
        LabCommand::Drupal { order, source } => {
            let given = match order.action {
                LabAction::Up => drupal::given(source.as_deref())?.to_vec(),
                LabAction::Down | LabAction::Status => Vec::new(),
            };
            order.carry_out(&drupal::STACK, &given)
        }
        LabCommand::Applications(order) => order.carry_out(&applications::STACK, &[]),
        LabCommand::Node(order) => order.carry_out(&node::STACK, &[]),
        LabCommand::Webservers { action: Installation::Up } => webservers::up(),
    }
}

/// Installs the Debian packages of the WordPress, MediaWiki and Wagtail labs, and Node.js, so that
/// the tests' budgets contain no installation time.
///
/// # Errors
/// As [`packages::ensure`].
pub(crate) fn install() -> Result<()> {
    crate::node::ensure_node()?;
    let stacks = [wordpress::STACK, mediawiki::STACK, wagtail::STACK];
    stacks.iter().try_for_each(|stack| packages::ensure_in_order(stack.packages))
}

/// Starts the Drupal lab from the tree in `source`.
///
/// # Errors
/// If the tree is not Drupal 7, or the lab cannot be started.
pub(crate) fn drupal_from(source: &Path) -> Result<()> {
    let given = drupal::given(Some(source))?;
    stack::up(&drupal::STACK, &directory(&drupal::STACK, None), &given)
}

/// Starts a lab and sends the traffic of visitors to it through Petasos.
///
/// # Errors
/// If the lab cannot be started, too few requests are hits, or a visitor receives another's data.
pub(crate) fn traffic(args: &LabTrafficArgs) -> Result<()> {
    let stack = match args.site {
        TrafficLab::Wordpress => &wordpress::STACK,
        TrafficLab::Mediawiki => &mediawiki::STACK,
        TrafficLab::Wagtail => &wagtail::STACK,
    };
    ensure!(
        !args.rates || matches!(args.site, TrafficLab::Wordpress),
        "--rates is written for WordPress only"
    );
    let dir = &directory(stack, args.dir.as_deref());
    stack::up(stack, dir, &[])?;
    if args.rates { traffic::rates(dir, args) } else { traffic::run(stack.name, dir, args.paced) }
}

/// Starts the applications' lab, visits it in Chromium through Petasos, and stops it.
///
/// # Errors
/// If the lab cannot be started, a visitor receives another's data, or too few requests are hits.
pub(crate) fn applications(args: &applications::Args) -> Result<()> {
    let dir = &directory(&applications::STACK, None);
    stack::up(&applications::STACK, dir, &[])?;
    let visited = applications::run(dir, args);
    stack::down(&applications::STACK, dir)?;
    visited
}

/// The front page of the WordPress lab, without a coding. The lab is started and stopped for it.
///
/// # Errors
/// If the lab cannot be started, or does not answer with its page.
pub(crate) fn wordpress_page() -> Result<Vec<u8>> {
    let (stack, dir) = (&wordpress::STACK, &directory(&wordpress::STACK, None));
    stack::up(stack, dir, &[])?;
    let page = stack::page(stack, dir);
    stack::down(stack, dir)?;
    page
}

/// Directory of a stack's files: the one given, or one below `target/labs`.
fn directory(stack: &Stack, given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| crate::repository().join("target/labs").join(stack.name), Path::to_owned)
}

impl StackOrder {
    fn carry_out(&self, stack: &Stack, given: &[(&str, String)]) -> Result<()> {
        let dir = &directory(stack, self.dir.as_deref());
        match self.action {
            LabAction::Up => stack::up(stack, dir, given),
            LabAction::Down => stack::down(stack, dir),
            LabAction::Status => stack::status(stack, dir),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stack::{Stack, tests::rendered};
    use super::{applications, drupal, mediawiki, node, wagtail, wordpress};

    /// Compares the rendered lines with `NAME.txt` beside the stack's file. After an intended
    /// change, copy the new text from the failure message.
    fn assert_as_approved(stack: &Stack, approved: &str) {
        let rendered = rendered(stack);
        assert!(rendered == approved, "{}.txt differs; the lines are now:\n{rendered}", stack.name);
    }

    #[test]
    fn wordpress_files_match_the_approved_text() {
        assert_as_approved(&wordpress::STACK, include_str!("lab/wordpress.txt"));
    }

    #[test]
    fn mediawiki_files_match_the_approved_text() {
        assert_as_approved(&mediawiki::STACK, include_str!("lab/mediawiki.txt"));
    }

    #[test]
    fn wagtail_files_match_the_approved_text() {
        assert_as_approved(&wagtail::STACK, include_str!("lab/wagtail.txt"));
    }

    #[test]
    fn applications_files_match_the_approved_text() {
        assert_as_approved(&applications::STACK, include_str!("lab/applications.txt"));
    }

    #[test]
    fn node_files_match_the_approved_text() {
        assert_as_approved(&node::STACK, include_str!("lab/node.txt"));
    }

    #[test]
    fn drupal_files_match_the_approved_text() {
        assert_as_approved(&drupal::STACK, include_str!("lab/drupal.txt"));
    }
}
