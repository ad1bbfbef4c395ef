//! `cargo xtask long moves`: carries out the moves of docs/operations.md and the whole way of
//! docs/guide.md in a Debian root under systemd, word for word: first the site with the other
//! cache, then the commands of the guide up to the way back, then the way back. After each part,
//! the right program must answer.
//!
//! Invariant: the commands and files come from the guide alone. Each move has a separate root,
//! which has no network and is thrown away.

mod steps;

use crate::debian_root::DebianRoot;
use crate::{packages, release};
use anyhow::{Context, Result, ensure};
use clock::Clock;
use platform::SystemClock;
use std::path::{Path, PathBuf};
use steps::MoveSteps;

/// The guide with the moves from other caches.
const OPERATIONS: &str = "docs/operations.md";
/// The guide for the first hour.
const GUIDE: &str = "docs/guide.md";
/// Debian packages of the programs that make and boot the root.
const PACKAGES: [&str; 3] = ["debootstrap", "systemd", "systemd-container"];
/// Debian packages of the root beside the stack of WordPress.
const ROOT_PACKAGES: [&str; 5] = ["nginx-light", "varnish", "hitch", "php-fpm", "sudo"];
/// Directory of the root, and of the package installed in it.
const DIRECTORY: &str = "target/moves-root";
/// Makes the site that moves.
const SITE: &str = include_str!("moves/site.sh");

/// One move.
struct Move {
    /// The guide.
    guide: &'static str,
    /// The heading of its section in the guide.
    heading: &'static str,
    /// Puts the old cache in front of the site.
    before: &'static str,
    /// Checks that Petasos answers instead of the other cache.
    moved: &'static str,
    /// Checks that the old cache answers again.
    back: &'static str,
}

const MOVES: [Move; 4] = [
    Move {
        guide: OPERATIONS,
        heading: "Move from Varnish",
        before: include_str!("moves/varnish.sh"),
        moved: include_str!("moves/varnish-moved.sh"),
        back: include_str!("moves/varnish-back.sh"),
    },
    Move {
        guide: OPERATIONS,
        heading: "Move from nginx proxy_cache",
        before: include_str!("moves/nginx.sh"),
        moved: include_str!("moves/nginx-moved.sh"),
        back: include_str!("moves/nginx-back.sh"),
    },
    Move {
        guide: OPERATIONS,
        heading: "Move from a page-cache plug-in of WordPress",
        before: include_str!("moves/wordpress.sh"),
        moved: include_str!("moves/wordpress-moved.sh"),
        back: include_str!("moves/wordpress-back.sh"),
    },
    Move {
        guide: GUIDE,
        heading: "12. The whole way for Debian's WordPress",
        before: include_str!("moves/plain.sh"),
        moved: include_str!("moves/plain-moved.sh"),
        back: include_str!("moves/plain-back.sh"),
    },
];

/// Arguments of `cargo xtask long moves`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package this program instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Carry out only the moves whose headings contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Carries out the moves.
///
/// # Errors
/// Names the part of a move that failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "this boots a Debian root, which only root may do");
    packages::ensure(&PACKAGES)?;
    let out = Path::new(DIRECTORY).join("packages");
    let debs = release::revisions(args.program.as_deref(), &[1], &out)?;
    let deb = debs.first().context("a package was made")?;
    let name = deb.file_name().and_then(|name| name.to_str()).context("the package has a name")?;
    let clock = SystemClock::new();
    for each in MOVES.iter().filter(|each| each.heading.contains(&args.only)) {
        let guide =
            std::fs::read_to_string(each.guide).with_context(|| format!("cannot read {}", each.guide))?;
        let steps = MoveSteps::of(&guide, each.heading)?;
        println!("{}", each.heading);
        let root = DebianRoot::boot(Path::new(DIRECTORY), &ROOT_PACKAGES)?;
        root.copy(deb, name)?;
        root.copy_directory(Path::new("integrations"), "integrations")?;
        root.run("the site is made", SITE, &[])?;
        root.run("its cache is made", each.before, &[])?;
        let begin = clock.monotonic();
        root.run("the move", &steps.there, &[])?;
        println!("  the commands took {} s", clock.monotonic().since(begin).as_secs());
        root.run("Petasos answers", each.moved, &[])?;
        root.run("the way back", &steps.back, &[])?;
        root.run("the old cache answers", each.back, &[])?;
    }
    println!("the guide's moves work, word for word");
    Ok(())
}
