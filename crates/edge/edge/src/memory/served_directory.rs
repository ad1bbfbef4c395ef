//! Directories whose files answer requests of routes.
//!
//! Invariants: a directory keeps what is known of its files across reloads that do not change its
//! rules. All directories together have a bounded number of open files and of bytes in memory. The
//! look-ups and reads of one directory that wait for its disk hold a bounded number of threads, so
//! that a disk that hangs stops no other directory.

use config::{FilesPlan, MissingFile};
use rustix::process::{Resource, getrlimit};
use semantics::{AcceptedCodings, Coding};
use static_files::{CacheLimits, Fallback, FileRules, FileSettings, OpenFiles, StaticFiles};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Maximum number of look-ups and reads of one directory that wait for its disk at the same time.
/// Each holds a thread.
const WAITING_MAX: usize = 4;

/// Upper bound of open files, whatever the limit of the process.
const OPEN_FILES_MAX: u64 = 4096;

/// The part of the process's limit of descriptors that files may take. The rest is for connections.
const OPEN_FILES_SHARE: u64 = 4;

/// A directory and the rules for its files.
#[derive(Debug)]
pub(crate) struct ServedDirectory {
    pub(crate) plan: FilesPlan,
    pub(crate) files: StaticFiles,
    /// Permits to wait for the disk.
    pub(crate) turns: Arc<Semaphore>,
}

/// The bounds of all directories together.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryBounds {
    pub(crate) open_files: OpenFiles,
}

impl Default for DirectoryBounds {
    fn default() -> Self {
        // The soft limit is raised to the hard one at the start. `None`: there is no limit.
        let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let open_files = (descriptors / OPEN_FILES_SHARE).min(OPEN_FILES_MAX);
        Self { open_files: OpenFiles::at_most(usize::try_from(open_files).unwrap_or(usize::MAX)) }
    }
}

impl ServedDirectory {
    /// The directory of a plan, one of `count`.
    pub(crate) fn new(plan: FilesPlan, bounds: &DirectoryBounds, count: usize) -> Arc<Self> {
        #[expect(clippy::expect_used, reason = "the configuration accepts fewer names; a test compares them")]
        let rules = FileRules::new(&settings(&plan)).expect("the rules of a plan are good");
        let all = CacheLimits::default();
        let share = |whole: usize| (whole / count.max(1)).max(whole / 64);
        // Responses under way need the other half.
        let descriptors = all.descriptors.min(bounds.open_files.limit() / 2);
        let limits = CacheLimits {
            files: share(all.files),
            descriptors: share(descriptors).max(CacheLimits::DESCRIPTORS_MIN),
            memory_bytes: share(all.memory_bytes),
            missing: share(all.missing),
            ..all
        };
        let files = StaticFiles::new(&plan.directory, rules, limits, bounds.open_files.clone());
        Arc::new(Self { plan, files, turns: Arc::new(Semaphore::new(WAITING_MAX)) })
    }

    /// Whether other methods than GET and HEAD, and requests without a file, go to the origin.
    pub(crate) const fn has_origin(&self) -> bool {
        matches!(self.plan.missing, MissingFile::Pages(_))
    }
}

/// The rules of a plan.
fn settings(plan: &FilesPlan) -> FileSettings {
    let codings: Vec<_> =
        plan.precompressed.iter().filter_map(|name| Coding::by_name(name.as_bytes())).collect();
    FileSettings {
        prefix: plan.strip.clone(),
        attempts: plan.attempts.clone(),
        index: plan.index.clone(),
        fallback: match &plan.missing {
            MissingFile::NotFound => Fallback::NotFound,
            MissingFile::Pages(_) => Fallback::Origin,
            MissingFile::File(path) => Fallback::File(path.clone()),
        },
        precompressed: AcceptedCodings::of_codings(&codings),
        refused: plan.refused.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::settings;
    use config::{FilesPlan, Machine, Overrides, RouteAction};
    use static_files::FileRules;

    fn plan(more: &str) -> Option<FilesPlan> {
        let text = format!("files = '/srv'\n{more}\n");
        let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let machine = Machine {
            cores: 1,
            memory_bytes: 1 << 30,
            state_directory: None,
            runtime_directory: None,
            spool_directory: std::env::temp_dir(),
        };
        let plan = config::load("petasos.toml", &text, &Overrides::new(), &machine, &read).ok()?;
        match plan.routes.into_iter().next()?.action {
            RouteAction::Files(files) => Some(files),
            _ => None,
        }
    }

    #[test]
    fn rules_that_the_configuration_accepts_are_good() {
        let long = "a".repeat(1023);
        let names = [
            "a",
            "/a",
            "/a/b",
            "a/",
            "//",
            ".",
            "..",
            ".a",
            "a.",
            "a~",
            "é",
            "a b",
            "%",
            "{",
            "\\\\",
            &long,
            &format!("/{long}a/"),
            &long.repeat(2),
            &format!("/{}", long.repeat(3)),
        ];
        let mut accepted = 0;
        for name in names {
            for more in [
                format!("files_strip = \"{name}\""),
                format!("files_missing = \"{name}\""),
                format!("files_index = [\"{name}\"]"),
                format!("files_try = [\"{{path}}{name}\"]"),
                format!("files_try = [\"{name}\"]"),
                "files_try = []".to_owned(),
            ] {
                let Some(plan) = plan(&more) else { continue };
                accepted += 1;
                assert_eq!(FileRules::new(&settings(&plan)).err(), None, "{more}");
            }
        }
        assert!(accepted > 10, "{accepted}");
    }
}
