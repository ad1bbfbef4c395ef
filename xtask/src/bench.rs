//! Benchmarks: programs that measure Petasos and its peers side by side in one run, and print what they saw. They
//! are no tests: nothing fails because something is slow.
//!
//! Invariant: what measures is built with optimisation, or it would be what is measured; load goes to loopback
//! only; every server that was started is stopped, also after an interruption. The peers' configurations stand in
//! `bench/peers`.

mod accuracy;
mod attacks;
mod crowd;
mod load;
mod servers;
mod stampede;
mod starved;
mod store;

use anyhow::{Context, Result, ensure};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// `cargo xtask bench ...`.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Slow clients, failing applications, bans, made-up parameters: Petasos, nginx, Varnish and HAProxy
    Attacks(attacks::Args),
    /// Whether the load tester's times are right, against a server that knows them
    Accuracy(accuracy::Args),
    /// Many visitors ask for one page at once that nobody has stored: Petasos, Varnish and nginx
    Stampede(stampede::Args),
    /// Load generators: petasos bench, a bare loop, wrk, ab, h2load, hey and siege
    Load(load::Args),
    /// The store by itself: memory, look-ups, purges
    Store(store::Args),
}

/// Runs `cargo xtask bench ...`.
///
/// # Errors
/// The text names what could not be done. That something is slow is no error.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    if let Bench::Attacks(args) = bench {
        return attacks::run(args);
    }
    if cfg!(debug_assertions) {
        return go_on_optimised();
    }
    match bench {
        Bench::Attacks(args) => attacks::run(args),
        Bench::Accuracy(args) => accuracy::run(args),
        Bench::Stampede(args) => stampede::run(args),
        Bench::Load(args) => load::run(args),
        Bench::Store(args) => store::run(args),
    }
}

/// Builds this program and the product with optimisation and becomes the optimised program.
fn go_on_optimised() -> Result<()> {
    eprintln!("building with optimisation");
    ["petasos", "xtask"].into_iter().try_for_each(build)?;
    let error = Command::new(optimised("xtask")?).args(std::env::args_os().skip(1)).exec();
    Err(error).context("cannot run the optimised program")
}

/// Builds a package with optimisation.
fn build(package: &str) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--package", package])
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cargo could not build {package}: {status}");
    Ok(())
}

/// The path of an optimised program of this workspace: build profiles have sibling directories.
fn optimised(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let profiles = own.parent().and_then(|profile| profile.parent()).context("a program has a directory")?;
    Ok(profiles.join("release").join(name))
}

/// A table that reads well as text and as Markdown. The first column holds names, the others figures.
fn markdown(head: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, title)| {
            rows.iter().map(|row| cells(row, column)).fold(title.chars().count(), usize::max)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::from("|");
        for (column, (cell, width)) in cells.into_iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = if column == 0 { ("", &*padding) } else { (&*padding, "") };
            text += &format!(" {before}{cell}{after} |");
        }
        text + "\n"
    };
    let rule = |(column, width): (usize, &usize)| {
        if column == 0 {
            format!("{}|", "-".repeat(width + 2))
        } else {
            format!("{}:|", "-".repeat(width + 1))
        }
    };
    let mut text = line(head.to_vec());
    text.push('|');
    text.extend(widths.iter().enumerate().map(rule));
    text.push('\n');
    text.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    text
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn a_table_is_aligned() {
        let rows = [vec!["a".to_owned(), "10.5".to_owned()], vec!["longer".to_owned(), "1".to_owned()]];
        let expected = "\
            | name   |   ms |\n\
            |--------|-----:|\n\
            | a      | 10.5 |\n\
            | longer |    1 |\n";
        assert_eq!(markdown(&["name", "ms"], &rows), expected);
    }
}
