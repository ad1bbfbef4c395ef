//! Benchmarks: programs that measure Petasos and its peers side by side in one run, and print the
//! figures. They are not tests: a slow result is no failure.
//!
//! Invariant: measuring code is built with optimisation, because otherwise its own cost would
//! dominate. Load goes to loopback only. Every started server is stopped, also after an
//! interruption. The peers' configurations are in `bench/peers`.

mod accuracy;
mod attacks;
mod crowd;
mod encodings;
mod esi;
mod guards;
mod limits;
mod load;
mod origins;
mod page_load;
mod rivals;
mod servers;
mod stampede;
mod starved;
mod static_files;
mod store;
mod tls;
mod visitors;
mod warm;

use anyhow::{Context, Result, ensure};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Subcommands of `cargo xtask bench`.
#[derive(clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// Attack Petasos, nginx, Varnish and HAProxy: slow clients, failing applications, bans,
    /// made-up parameters
    Attacks(attacks::peers::PeerArgs),
    /// Check the load tester's times against a server that knows the true times
    Accuracy(accuracy::Args),
    /// Measure hits in each content coding, the bytes of a page, and the encoder under a crawl
    Encodings(encodings::Args),
    /// Assemble pages from cached and slow fragments: Petasos, Varnish and nginx
    Esi(esi::Args),
    /// Flood Petasos, nginx, Varnish and HAProxy, each with limits for its clients
    Guards(attacks::peers::PeerArgs),
    /// Request one uncached page with many clients at once: Petasos, Varnish and nginx
    Stampede(stampede::Args),
    /// Compare the fixed and the adaptive limit of Petasos before an application with few workers
    Limits(limits::Args),
    /// Let the application fail behind Petasos, nginx, Varnish and HAProxy in seven ways
    Origins(attacks::peers::PeerArgs),
    /// Compare load generators: petasos bench, a bare loop, wrk, ab, h2load, hey and siege
    Load(load::Args),
    /// Compare the sending of files: Petasos, nginx and H2O
    Static(static_files::Args),
    /// Measure the store alone: memory, look-ups, purges
    Store(store::Args),
    /// Compare TLS and HTTP/2: Petasos, nginx, HAProxy and H2O
    Tls(tls::Args),
    /// Fill the cache with 1,000 pages after a purge, while visitors come
    Warm(warm::Args),
}

/// Runs `cargo xtask bench ...`.
///
/// # Errors
/// Names the step that failed. Slowness is no error.
pub(crate) fn run(bench: &BenchCommand) -> Result<()> {
    match bench {
        BenchCommand::Attacks(args) => return attacks::run(args),
        BenchCommand::Warm(args) => return warm::run(args),
        _ => {}
    }
    if cfg!(debug_assertions) {
        return go_on_optimised();
    }
    match bench {
        BenchCommand::Attacks(args) => attacks::run(args),
        BenchCommand::Accuracy(args) => accuracy::run(args),
        BenchCommand::Encodings(args) => encodings::run(args),
        BenchCommand::Esi(args) => esi::run(args),
        BenchCommand::Guards(args) => guards::run(args),
        BenchCommand::Stampede(args) => stampede::run(args),
        BenchCommand::Limits(args) => limits::run(args),
        BenchCommand::Load(args) => load::run(args),
        BenchCommand::Origins(args) => origins::run(args),
        BenchCommand::Static(args) => static_files::run(args),
        BenchCommand::Store(args) => store::run(args),
        BenchCommand::Tls(args) => tls::run(args),
        BenchCommand::Warm(args) => warm::run(args),
    }
}

/// Builds this program and Petasos with optimisation, then replaces this process with the optimised
/// program.
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

/// Path of an optimised program of this workspace. Relies on build profiles having sibling
/// directories.
fn optimised(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let profiles = own.parent().and_then(|profile| profile.parent()).context("a program has a directory")?;
    Ok(profiles.join("release").join(name))
}

/// Renders a table, aligned as text and valid as Markdown. The first column holds names, the others
/// hold figures.
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
