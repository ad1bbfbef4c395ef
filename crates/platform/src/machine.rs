//! What the machine offers, where defaults depend on it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The resources that defaults are derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processor cores that this process may use, at least 1.
    pub cores: usize,
    /// Memory in bytes: the machine's, or the control group's limit where that is smaller.
    pub memory_bytes: u64,
}

/// What is assumed where the system does not say.
const MEMORY_BYTES_UNKNOWN: u64 = 1 << 30;

impl Machine {
    /// The machine this process runs on. What cannot be read is assumed to be one core and 1 GiB.
    pub fn detect() -> Self {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        let total = memory_total(&read("/proc/meminfo")).unwrap_or(MEMORY_BYTES_UNKNOWN);
        let limit = read("/sys/fs/cgroup/memory.max").trim().parse().unwrap_or(u64::MAX);
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: total.min(limit),
        }
    }
}

/// Where a service keeps files that must outlive restarts of the machine: the first of `$STATE_DIRECTORY`, as systemd
/// sets it; else `/var/lib/petasos` for root, and `petasos` in `$XDG_STATE_HOME` or `~/.local/state` for others.
pub fn state_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(listed) = variable("STATE_DIRECTORY") {
        return std::env::split_paths(&listed).next();
    }
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Some(PathBuf::from("/var/lib/petasos"));
    }
    let home = variable("HOME").map(|home| Path::new(&home).join(".local/state"));
    variable("XDG_STATE_HOME").map(PathBuf::from).or(home).map(|state| state.join("petasos"))
}

/// Where a service keeps files that must outlive the process: `petasos` in `$XDG_RUNTIME_DIR`, else `/run/petasos`. Not
/// in `$RUNTIME_DIRECTORY`, which systemd removes whenever the service ends.
pub fn runtime_directory() -> Option<PathBuf> {
    let variable = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty());
    let directory = Path::new(variable.as_deref().unwrap_or_else(|| OsStr::new("/run"))).join("petasos");
    let managed = std::env::var_os("RUNTIME_DIRECTORY").unwrap_or_default();
    (!std::env::split_paths(&managed).any(|path| path == directory)).then_some(directory)
}

/// Where large temporary files belong: `/var/tmp`, because the system's temporary directory is memory on many machines;
/// where that is missing, the system's temporary directory.
pub fn spool_directory() -> PathBuf {
    let large = Path::new("/var/tmp");
    if large.is_dir() { large.to_owned() } else { std::env::temp_dir() }
}

/// The memory that this process occupies now, in bytes; `None` where the system does not say.
pub fn resident_bytes() -> Option<u64> {
    kibibytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// `MemTotal` of /proc/meminfo in bytes.
fn memory_total(meminfo: &str) -> Option<u64> {
    kibibytes(meminfo, "MemTotal:")
}

/// The figure of the line that begins with `name`, in bytes; it is written in units of 1,024.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{Machine, memory_total, resident_bytes};

    #[test]
    fn total_memory_is_read_in_bytes() {
        assert_eq!(memory_total("MemTotal:       16 kB\nMemFree: 3 kB\n"), Some(16 * 1024));
        assert_eq!(memory_total("MemFree: 3 kB\n"), None);
    }

    #[test]
    fn this_machine_has_something() {
        let machine = Machine::detect();
        assert!(machine.cores >= 1 && machine.memory_bytes > 1 << 20);
    }

    #[test]
    fn what_is_written_to_is_resident() {
        let before = resident_bytes().unwrap();
        let filled = vec![1u8; 64 << 20];
        assert!(resident_bytes().unwrap() >= before + (48 << 20), "{before}");
        drop(filled);
    }
}
