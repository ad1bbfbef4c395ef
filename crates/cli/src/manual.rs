//! `petasos manual`: manual pages of section 1, one for each command, from the same definitions as
//! `--help`.
//!
//! Invariant: the pages depend on the program alone, not on the time, so that packages can be built
//! again byte for byte.

use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;
use platform::{Disk as _, SystemDisk};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the manual pages of all commands into a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for the pages, which Petasos makes if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let directory = &args.directory;
    SystemDisk
        .create_directory(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for (name, page) in pages(crate::command())? {
        let path = directory.join(name);
        std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The pages of a command and of its subcommands: the name of each file, and its content.
fn pages(command: Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    // Gives each subcommand its full name, such as `petasos serve`.
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut page = Vec::new();
    // The version takes the place of the date, which would be that of the build.
    let page_of = Man::new(command.clone()).title(name.clone()).date(env!("CARGO_PKG_VERSION"));
    page_of.source("petasos").manual("Petasos").render(&mut page)?;
    pages.push((format!("{name}.1"), page));
    command.get_subcommands().try_for_each(|subcommand| add(subcommand, pages))
}

#[cfg(test)]
mod tests {
    use super::pages;

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let pages = pages(crate::command()).unwrap();
        let page = |name: &str| {
            let found = pages.iter().find(|(file, _)| *file == format!("{name}.1"));
            String::from_utf8(found.unwrap_or_else(|| panic!("no page {name}")).1.clone()).unwrap()
        };
        for command in crate::command().get_subcommands() {
            let text = page(&format!("petasos-{}", command.get_name()));
            for flag in command.get_arguments().filter_map(|arg| arg.get_long()) {
                assert!(text.contains(&flag.replace('-', "\\-")), "{}: --{flag}", command.get_name());
            }
        }
        assert!(page("petasos").contains("petasos\\-serve"));
        // A command of a command has a page too.
        assert!(page("petasos-static-tree-rules").contains("petasos static\\-tree rules"));
    }
}
