//! Checks the directories of a plan for `petasos check`.
//!
//! Invariant: nothing is left behind. Writing is tried with an unnamed file, which disappears when
//! it is closed. A missing directory is not created.

use crate::upkeep::detections_file;
use config::{AccessLogTarget, EdgePlan, FilesPlan, RouteAction};
use document::quantity::format_size;
use document::{Diagnostic, Place};
use platform::{Disk, SystemDisk};
use rustix::fs::statvfs;
use std::fs;
use std::path::Path;

/// A directory that a setting names.
struct NamedDirectory<'a> {
    key: &'static str,
    path: &'a Path,
    /// Whether the edge creates it at its start if it is missing.
    is_made: bool,
    /// The setting that limits its size, and the limit in bytes.
    limit: Option<(&'static str, u64)>,
    /// What is lost without the directory, and what to do.
    help: &'static str,
}

/// Problems with the directories of a plan, each with the place of its setting.
pub fn check_directories(plan: &EdgePlan) -> Vec<Diagnostic> {
    let disk = plan.disk.as_ref().map(|disk| NamedDirectory {
        key: "disk",
        path: &disk.directory,
        is_made: true,
        limit: Some(("disk_size", disk.bytes_max)),
        help: "name a directory of its own that can be written; without one, stored responses are kept in memory only",
    });
    let spool = plan.spool.directory.as_ref().map(|directory| NamedDirectory {
        key: "spool_directory",
        path: directory,
        is_made: false,
        limit: Some(("spool_size", plan.spool.bytes_max)),
        help: "name a directory that exists and can be written, or write \"none\"; without one, large bodies wait in memory only",
    });
    let tree = plan.static_tree.as_ref().map(|tree| NamedDirectory {
        key: "static_tree.directory",
        path: &tree.directory,
        is_made: true,
        limit: Some(("static_tree.size", tree.bytes_max)),
        help: "name a directory that can be written; without one, no files are written for web servers",
    });
    let obtains = !plan.acme_names().is_empty() || plan.has_local_authority();
    let state = plan.state_directory.as_ref().filter(|_| obtains).map(|directory| NamedDirectory {
        key: "state_directory",
        path: directory,
        is_made: true,
        limit: None,
        help: "name a directory that can be written; certificates that Petasos obtains itself are kept there",
    });
    let log = plan.access_log.as_ref().and_then(|log| match log {
        AccessLogTarget::Stdout | AccessLogTarget::Syslog(_) | AccessLogTarget::Journald(_) => None,
        AccessLogTarget::File(path) => Some(NamedDirectory {
            key: "access_log",
            path: path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new(".")),
            is_made: false,
            limit: None,
            help: "name a file in a directory that exists and can be written; `serve` does not start without its log",
        }),
    });
    let mut problems: Vec<_> =
        [disk, spool, tree, state, log].into_iter().flatten().flat_map(|named| named.check(plan)).collect();
    problems.extend(foreign_file(plan));
    problems.extend(log_is_directory(plan));
    let served = plan.routes.iter().filter_map(|route| match &route.action {
        RouteAction::Files(files) => Some(files),
        _ => None,
    });
    for files in served {
        let found = unreadable_files(files).map_or_else(|| private_files(files, plan), |found| vec![found]);
        // Several routes may have the files of one setting.
        for found in found {
            if !problems.contains(&found) {
                problems.push(found);
            }
        }
    }
    problems
}

/// A directory whose files cannot be served.
fn unreadable_files(files: &FilesPlan) -> Option<Diagnostic> {
    let error = match fs::metadata(&files.directory) {
        Ok(metadata) if metadata.is_dir() => fs::read_dir(&files.directory).err()?.to_string(),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    let text = format!("`files`: cannot read the directory {}: {error}", files.directory.display());
    let problem = Diagnostic::new(text, files.place.clone());
    Some(problem.with_help("name a directory that the user of Petasos can read"))
}

/// Files of Petasos itself in a directory whose files visitors get.
fn private_files(files: &FilesPlan, plan: &EdgePlan) -> Vec<Diagnostic> {
    let Ok(served) = fs::canonicalize(&files.directory) else { return Vec::new() };
    let is_below = |path: &Path| fs::canonicalize(path).is_ok_and(|path| path.starts_with(&served));
    let mut own = own_files(plan);
    if let Place::Text { name, .. } = &files.place {
        own.push(("the configuration", Path::new(&**name)));
    }
    let found = own.into_iter().filter(|(_, path)| is_below(path)).map(|(key, path)| {
        let text = format!("`files` serves {} to visitors ({key})", path.display());
        Diagnostic::warning(text, files.place.clone()).with_help("keep it outside of the directory")
    });
    found.collect()
}

/// The files and directories of a plan that no visitor should get, with their settings.
fn own_files(plan: &EdgePlan) -> Vec<(&'static str, &Path)> {
    let log = match &plan.access_log {
        Some(AccessLogTarget::File(path)) => Some(path),
        _ => None,
    };
    let single = [
        ("disk", plan.disk.as_ref().map(|disk| &disk.directory)),
        ("state_directory", plan.state_directory.as_ref()),
        ("token_file", plan.token_file.as_ref()),
        ("access_log", log),
        ("spool_directory", plan.spool.directory.as_ref()),
        ("admin_tls", plan.admin_tls.as_ref().map(|tls| &tls.certificate.key)),
    ];
    let single = single.into_iter().filter_map(|(key, path)| Some((key, path?.as_path())));
    let certificates = plan.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let keys = certificates.flat_map(|tls| &tls.certificates).map(|paths| ("tls", paths.key.as_path()));
    let passwords = plan.routes.iter().filter_map(|route| route.password.as_ref());
    let mut passwords: Vec<_> = passwords.map(|password| ("basic_auth", Path::new(&password.path))).collect();
    passwords.dedup();
    single.chain(keys).chain(passwords).collect()
}

impl NamedDirectory<'_> {
    fn check(&self, plan: &EdgePlan) -> Option<Diagnostic> {
        // A missing directory would be created in its nearest existing ancestor.
        let found = self.path.ancestors().find(|path| path.symlink_metadata().is_ok());
        let found = found.unwrap_or_else(|| Path::new("."));
        if let Err(problem) = self.is_usable(found) {
            let place = plan.place(self.key);
            // A default that the configuration does not state is only a warning.
            let made = if plan.is_stated(self.key) { Diagnostic::new } else { Diagnostic::warning };
            return Some(
                made(format!("`{}` cannot be used: {problem}", self.key), place).with_help(self.help),
            );
        }
        self.is_too_small(found, plan)
    }

    fn is_usable(&self, found: &Path) -> Result<(), String> {
        let metadata = fs::metadata(found).map_err(|error| format!("{}: {error}", found.display()))?;
        if !metadata.is_dir() {
            return Err(format!("{} is not a directory", found.display()));
        }
        if !self.is_made && found != self.path {
            return Err(format!("the directory {} does not exist", self.path.display()));
        }
        let tried = SystemDisk.open_unnamed(found).map(drop);
        tried.map_err(|error| format!("cannot write to {}: {error}", found.display()))
    }

    fn is_too_small(&self, found: &Path, plan: &EdgePlan) -> Option<Diagnostic> {
        let (key, wanted) = self.limit?;
        let system = statvfs(found).ok()?;
        let there = system.f_blocks.saturating_mul(system.f_frsize);
        if there == 0 || wanted <= there {
            return None;
        }
        let (wanted, there) = (format_size(wanted), format_size(there));
        let message =
            format!("`{key}` is {wanted}, but the file system of {} has only {there}", self.path.display());
        // Without a line for the size, the problem is shown at the directory.
        let place = plan.place(if plan.is_stated(key) { key } else { self.key });
        let problem = Diagnostic::warning(message, place);
        Some(problem.with_help(format!("set `{key}` below {there}, and leave space for other files")))
    }
}

/// A file of another program, or a link, in the directory `disk`. The disk tier refuses such a
/// directory.
fn foreign_file(plan: &EdgePlan) -> Option<Diagnostic> {
    let directory = &plan.disk.as_ref()?.directory;
    // A directory that cannot be listed was already reported as missing or unusable.
    let found = disk::foreign(&SystemDisk, directory, detections_file::FILES).ok()??;
    let problem = Diagnostic::new(format!("`disk` contains {found}"), plan.place("disk"));
    Some(
        problem.with_help(
            "name an empty directory, or one that only Petasos uses; Petasos deletes no file here",
        ),
    )
}

fn log_is_directory(plan: &EdgePlan) -> Option<Diagnostic> {
    let Some(AccessLogTarget::File(path)) = &plan.access_log else { return None };
    let problem =
        Diagnostic::new(format!("`access_log` is a directory: {}", path.display()), plan.place("access_log"));
    path.is_dir().then(|| problem.with_help("name a file in this directory"))
}
