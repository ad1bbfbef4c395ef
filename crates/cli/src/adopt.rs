//! `petasos adopt`: reads the configuration of a web server and prints it as before and after the
//! move of its ports to Petasos.
//!
//! Invariant: the command writes only below the directory of `--write`, which is empty or does not
//! exist before.

use crate::bench::measure;
use ::adopt::{Adoption, FILE_BYTES_MAX, Machine, Request, TextFile, adopt};
use anyhow::{Context as _, bail};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Read the configuration of nginx or Apache, and print what changes when Petasos takes over its
/// ports.
///
/// The command changes no file. With --write it writes copies to a new directory. It also prints
/// the commands that switch to Petasos and back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Main file of the web server, its directory, or the file of a site
    #[arg(value_name = "FILE|DIR")]
    start: PathBuf,
    /// Loopback port for the web server [default: the first free one from 8080 on]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Directory to write the changed files and petasos.toml to; it must be empty or not exist
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Directory in the printed commands if none is written.
const NO_DIRECTORY: &str = "DIR";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = std::path::absolute(&args.start)
        .with_context(|| format!("{} is not a path", args.start.display()))?;
    let adoption = adopt(&Request { start, port: args.port }, &ThisMachine)?;
    let directory = match &args.write {
        Some(directory) => {
            let directory = std::path::absolute(directory)
                .with_context(|| format!("{} is not a path", directory.display()))?;
            write(&adoption, &directory)?;
            directory
        }
        None => PathBuf::from(NO_DIRECTORY),
    };
    let text =
        if args.json { adoption.json(&directory) } else { adoption.text(&directory, args.write.is_some()) };
    measure::write_text(io::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the files. No file that exists is changed.
fn write(adoption: &Adoption, directory: &Path) -> anyhow::Result<()> {
    let main = Path::new(&adoption.read_from);
    let mut read = adoption.changes.iter().map(|change| change.file.as_path()).chain([main]);
    // The web server could include the written files.
    if let Some(file) = read.find(|file| file.parent().is_some_and(|parent| directory.starts_with(parent))) {
        bail!(
            "{} is beside {}; name a directory outside of the configuration",
            directory.display(),
            file.display()
        );
    }
    fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let mut entries =
        fs::read_dir(directory).with_context(|| format!("{} cannot be read", directory.display()))?;
    if entries.next().is_some() {
        bail!("{} is not empty; name a new directory", directory.display());
    }
    for (path, text) in adoption.files(directory) {
        let failed = || format!("{} cannot be written", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        let mut file = File::create_new(&path).with_context(failed)?;
        file.write_all(text.as_bytes()).with_context(failed)?;
    }
    Ok(())
}

/// The machine that runs the command.
struct ThisMachine;

impl Machine for ThisMachine {
    fn read(&self, path: &Path) -> Result<TextFile, String> {
        let failed = |error: io::Error| error.to_string();
        let path = path.canonicalize().map_err(failed)?;
        if !path.is_file() {
            return Err("it is not a file".to_owned());
        }
        let mut text = String::new();
        // One byte more than the limit, so that the reader of the configuration sees the excess.
        File::open(&path)
            .map_err(failed)?
            .take(FILE_BYTES_MAX as u64 + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Ok(TextFile { path, text })
    }

    fn matching(&self, pattern: &str) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::from("/")];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            found = if part.contains(['*', '?', '[']) {
                found.iter().flat_map(|directory| entries(directory, part)).collect()
            } else {
                found.iter().map(|directory| directory.join(part)).filter(|path| path.exists()).collect()
            };
        }
        found.sort();
        found
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn is_port_free(&self, port: u16) -> bool {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
    }
}

/// The entries of a directory whose names match a pattern. Hidden ones match no `*`.
fn entries(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let pattern: Vec<char> = pattern.chars().collect();
    let matches = |path: &PathBuf| {
        let name: Vec<char> =
            path.file_name().map(|name| name.to_string_lossy().chars().collect()).unwrap_or_default();
        (pattern.first() == Some(&'.') || name.first() != Some(&'.')) && is_match(&pattern, &name)
    };
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(matches).collect()
}

/// Whether a name matches a pattern with `*`, `?` and `[...]`.
fn is_match(pattern: &[char], name: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    match first {
        '*' => (0..=name.len()).any(|skipped| name.get(skipped..).is_some_and(|name| is_match(rest, name))),
        '[' => {
            let Some(close) = rest.iter().position(|character| *character == ']') else {
                return name.first() == Some(first) && is_match(rest, name.get(1..).unwrap_or_default());
            };
            let (set, after) =
                (rest.get(..close).unwrap_or_default(), rest.get(close + 1..).unwrap_or_default());
            let (inverted, set) = match set.split_first() {
                Some(('!' | '^', set)) => (true, set),
                _ => (false, set),
            };
            name.split_first().is_some_and(|(character, name)| {
                let is_in_range = set
                    .windows(3)
                    .any(|range| matches!(range, [from, '-', to] if (*from..=*to).contains(character)));
                (set.contains(character) || is_in_range) != inverted && is_match(after, name)
            })
        }
        _ => name
            .split_first()
            .is_some_and(|(character, name)| (first == character || *first == '?') && is_match(rest, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::is_match;

    #[test]
    fn patterns_match_as_in_a_shell() {
        let matches = |pattern: &str, name: &str| {
            is_match(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        for (pattern, name) in
            [("*", "a"), ("*.conf", "a.conf"), ("a?c", "abc"), ("[a-c]x", "bx"), ("[!a]", "b")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.conf", "a.conf~"), ("a?c", "ac"), ("[a-c]x", "dx"), ("[!a]", "a"), ("", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
