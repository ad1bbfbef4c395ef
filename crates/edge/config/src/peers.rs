//! Lists of peers: addresses, prefixes, names of networks, and files with one address or prefix in
//! each line.
//!
//! Invariant: the edge receives a list complete or not at all. An unreadable file and a line
//! without an address are errors of the configuration. A list with a gap would trust, or refuse,
//! the wrong machines.

use crate::ReadFile;
use crate::cdn::{CDNS, Cdn};
use address::{Prefix, Prefixes};
use document::{Diagnostic, Place};
use std::fmt;
use std::sync::Arc;

/// The character that marks an entry as the path of a file.
const FILE_SIGN: char = '@';

/// Upper bound of the bad lines reported for one file. In a file of the wrong kind, every line is
/// bad.
const BAD_LINES_REPORTED_MAX: usize = 10;

/// One entry of a list of peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerEntry {
    /// An address or a prefix.
    Prefix(Prefix),
    /// All addresses of a network.
    Cdn(&'static Cdn),
    /// The path of a file with an address or a prefix in each line.
    File(String),
}

impl PeerEntry {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix(FILE_SIGN) {
            Some("") => Err(format!(
                "`{FILE_SIGN}` needs the path of a file; write for example @/etc/petasos/cdn.txt"
            )),
            Some(path) => Ok(Self::File(path.to_owned())),
            None => match Cdn::named(text) {
                Some(cdn) => Ok(Self::Cdn(cdn)),
                None => text.parse().map(Self::Prefix).map_err(|error| told(text, &error)),
            },
        }
    }
}

/// The message about a text that cannot be parsed as an entry.
fn told(text: &str, error: &address::PrefixError) -> String {
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) && !text.contains([':', '.']) {
        let names: Vec<&str> = CDNS.iter().map(|cdn| cdn.name).collect();
        return format!("{error}; the networks with a list in Petasos are {}", names.join(" and "));
    }
    error.to_string()
}

impl fmt::Display for PeerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Cdn(cdn) => f.write_str(cdn.name),
            Self::File(path) => write!(f, "{FILE_SIGN}{path}"),
        }
    }
}

/// The prefixes of a list, including those of the networks and files that it names. `place` is the
/// place of the list in the configuration; problems are added to `problems`.
pub(crate) fn resolve(
    entries: &[PeerEntry],
    place: &Place,
    read: &ReadFile<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Prefixes {
    let mut prefixes = Vec::new();
    for entry in entries {
        match entry {
            PeerEntry::Prefix(prefix) => prefixes.push(*prefix),
            PeerEntry::Cdn(cdn) => prefixes.extend(cdn.prefixes()),
            PeerEntry::File(path) => match read(path) {
                Ok(text) => read_lines(path, &text, &mut prefixes, problems),
                Err(error) => problems.push(
                    Diagnostic::new(format!("cannot read the list {path}: {error}"), place.clone())
                        .with_help("the file has one address or prefix in each line; `#` begins a comment"),
                ),
            },
        }
    }
    prefixes.into_iter().collect()
}

fn read_lines(name: &str, text: &str, prefixes: &mut Vec<Prefix>, problems: &mut Vec<Diagnostic>) {
    let (name, whole): (Arc<str>, Arc<str>) = (name.into(), text.into());
    let mut start = 0;
    let mut bad_lines = 0;
    for line in text.split('\n') {
        let content = line.split('#').next().unwrap_or_default();
        let entry = content.trim();
        let begin = start + (content.len() - content.trim_start().len());
        start += line.len() + 1;
        if entry.is_empty() {
            continue;
        }
        match entry.parse() {
            Ok(prefix) => prefixes.push(prefix),
            Err(error) if bad_lines < BAD_LINES_REPORTED_MAX => {
                bad_lines += 1;
                let span = begin..begin + entry.len();
                let place = Place::Text { name: name.clone(), text: whole.clone(), span };
                problems.push(Diagnostic::new(error.to_string(), place));
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PeerEntry, resolve};
    use document::Place;

    /// Resolves `entries`, with `file` as the contents of /cdn.txt. Returns the addresses and the
    /// problems.
    fn listed(entries: &[&str], file: &'static str) -> (Vec<String>, Vec<String>) {
        let entries: Vec<_> = entries.iter().map(|entry| PeerEntry::parse(entry).unwrap()).collect();
        let read = move |path: &str| match path {
            "/cdn.txt" => Ok(file.to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        let mut problems = Vec::new();
        let prefixes = resolve(&entries, &Place::Default, &read, &mut problems);
        let shown = prefixes.iter().map(ToString::to_string).collect();
        (shown, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_file_has_one_entry_in_each_line() {
        let file = "# of the network\r\n192.0.2.0/24\r\n\n  2001:db8::/32 # its IPv6\n198.51.100.7";
        let (prefixes, problems) = listed(&["10.0.0.0/8", "@/cdn.txt", "::1"], file);
        assert_eq!(prefixes, ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32", "198.51.100.7", "::1"]);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn a_bad_line_is_shown_with_its_place() {
        let (_, problems) = listed(&["@/cdn.txt"], "192.0.2.0/24\n  10.0.0.1/8 # all\nexample.org\n");
        let [bits, name] = &problems[..] else { panic!("{problems:?}") };
        assert!(bits.contains("/cdn.txt:2:3") && bits.contains("write 10.0.0.0/8"), "{bits}");
        assert!(name.contains("/cdn.txt:3:1") && name.contains("`example.org`"), "{name}");
        let (_, problems) = listed(&["@/cdn.txt"], "x\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\n");
        assert_eq!(problems.len(), super::BAD_LINES_REPORTED_MAX);
    }

    #[test]
    fn a_network_is_listed_by_its_name() {
        let (prefixes, problems) = listed(&["fastly", "10.0.0.1"], "");
        assert_eq!((prefixes.len(), &problems[..]), (22, &[][..]));
        assert!(prefixes.contains(&"151.101.0.0/16".to_owned()) && prefixes.contains(&"10.0.0.1".to_owned()));
        let refused = PeerEntry::parse("cloudfare").unwrap_err();
        assert!(refused.contains("cloudflare and fastly"), "{refused}");
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let (_, problems) = listed(&["@/nowhere.txt"], "");
        assert!(problems[0].contains("cannot read the list /nowhere.txt"), "{problems:?}");
        assert!(PeerEntry::parse("@").unwrap_err().contains("path of a file"));
    }
}
