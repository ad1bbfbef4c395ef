//! The directory of reports: its list, and one report.
//!
//! Invariants: no name reaches a file outside of the directory. The kernel promises that
//! (`RESOLVE_BENEATH` without links), and a name has only letters, digits, `.`, `_` and `-`. A list
//! and a report are bounded. Everything here blocks.

use bytes::Bytes;
use clock::Timestamp;
use dashboard::Report;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum number of entries of a directory that are looked at.
const ENTRIES_MAX: usize = 1000;

/// Maximum number of reports in the list.
const REPORTS_MAX: usize = 100;

/// Maximum size of a report in bytes.
const REPORT_BYTES_MAX: u64 = 8 << 20;

/// Maximum length of a part of a name in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The reports of a directory, the newest first: its own files, and those of the directories
/// directly below. A directory that cannot be read has none.
pub(crate) fn list(directory: &Path) -> Vec<Report> {
    let mut reports = Vec::new();
    for entry in entries(directory) {
        let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
        let Some(name) = name.to_str().filter(|name| is_name(name)) else { continue };
        if kind.is_dir() {
            let below = entries(&directory.join(name));
            reports.extend(below.filter_map(|below| report_of(&below, &format!("{name}/"))));
        } else {
            reports.extend(report_of(&entry, ""));
        }
    }
    reports
        .sort_by(|one, other| (Reverse(one.at_secs), &one.name).cmp(&(Reverse(other.at_secs), &other.name)));
    reports.truncate(REPORTS_MAX);
    reports
}

fn entries(directory: &Path) -> impl Iterator<Item = std::fs::DirEntry> + use<> {
    std::fs::read_dir(directory).into_iter().flatten().take(ENTRIES_MAX).filter_map(Result::ok)
}

/// The report in a regular file with the right name.
fn report_of(entry: &std::fs::DirEntry, before: &str) -> Option<Report> {
    let name = entry.file_name();
    let name = name.to_str().filter(|name| is_name(name))?;
    media_type(name)?;
    // Does not follow links.
    let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file())?;
    let at_secs = metadata.modified().map_or(0, |at| Timestamp::from_system_time(at).as_secs());
    Some(Report { name: format!("{before}{name}"), at_secs, bytes: metadata.len() })
}

/// The content of a report, and its media type. `None` if there is no such report.
///
/// # Errors
/// If it cannot be read, or is too large.
pub(crate) fn read(directory: &Path, name: &str) -> io::Result<Option<(Bytes, &'static str)>> {
    let parts: Vec<_> = name.split('/').collect();
    let Some(media_type) =
        media_type(name).filter(|_| parts.len() <= 2 && parts.iter().all(|part| is_name(part)))
    else {
        return Ok(None);
    };
    let below = openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = match openat2(&below, OsStr::new(name), flags, Mode::empty(), resolve) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(REPORT_BYTES_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > REPORT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 8 MiB"));
    }
    Ok(Some((content.into(), media_type)))
}

/// Whether a part of a name is one that reports may have.
fn is_name(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&part.len()) && !part.starts_with('.') && part.bytes().all(is_allowed)
}

fn media_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "json" => Some("application/json"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{REPORT_BYTES_MAX, list, read};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn reports_are_listed_and_read_below_their_directory_only() {
        let root = tempfile::tempdir().unwrap();
        let (secret, directory) = (root.path().join("secret.html"), root.path().join("reports"));
        fs::create_dir_all(directory.join("run/deeper")).unwrap();
        fs::write(&secret, "secret").unwrap();
        for name in [
            "a.html",
            "run/report.html",
            "run/results.json",
            "run/deeper/x.html",
            "notes.txt",
            ".b.html",
            "a b.html",
        ] {
            fs::write(directory.join(name), name).unwrap();
        }
        symlink(&secret, directory.join("link.html")).unwrap();
        symlink(root.path(), directory.join("up")).unwrap();
        fs::create_dir(directory.join("c.html")).unwrap();
        let mut names: Vec<_> = list(&directory).into_iter().map(|report| report.name).collect();
        names.sort();
        assert_eq!(names, ["a.html", "run/report.html", "run/results.json"]);
        for name in &names {
            let (content, media_type) = read(&directory, name).unwrap().unwrap();
            assert_eq!(
                (&content[..], media_type.contains("json")),
                (name.as_bytes(), name.ends_with("json"))
            );
        }
        for name in [
            "../secret.html",
            "run/../a.html",
            "/etc/passwd.html",
            "up/secret.html",
            "link.html",
            "c.html",
            "",
            "none.html",
            "notes.txt",
            ".b.html",
            "a b.html",
            "run/deeper/x.html",
            "run//report.html",
            "a.html/",
            "a.html\0",
            "..",
            "./a.html",
        ] {
            assert!(read(&directory, name).unwrap().is_none(), "{name}");
        }
        assert!(
            list(&root.path().join("none")).is_empty() && read(&root.path().join("none"), "a.html").is_err()
        );
    }

    #[test]
    fn report_that_is_too_large_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::create(directory.path().join("a.json")).unwrap();
        file.set_len(REPORT_BYTES_MAX).unwrap();
        assert!(read(directory.path(), "a.json").unwrap().is_some());
        file.set_len(REPORT_BYTES_MAX + 1).unwrap();
        assert!(read(directory.path(), "a.json").is_err());
    }
}
