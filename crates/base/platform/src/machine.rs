//! Properties of the machine on which defaults depend.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The assumed memory of a system that does not report it.
const MEMORY_BYTES_UNKNOWN: u64 = 1 << 30;

/// Processor cores that this process may use; 1 if the system does not report them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Memory in bytes: the machine's, or the control group's limit if the limit is smaller. A machine
/// that does not report its memory is assumed to have 1 GiB.
pub fn memory_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let total = memory_total(&read("/proc/meminfo")).unwrap_or(MEMORY_BYTES_UNKNOWN);
    let limit = read("/sys/fs/cgroup/memory.max").trim().parse().unwrap_or(u64::MAX);
    total.min(limit)
}

/// The directory for files that must survive a restart of the machine.
///
/// It is the first directory in `$STATE_DIRECTORY`, which systemd sets. Otherwise it is
/// `/var/lib/petasos` for root, and `petasos` in `$XDG_STATE_HOME` or `~/.local/state` for other
/// users. `None` if no variable gives a directory.
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

/// The directory for files that must survive the process: `petasos` in `$XDG_RUNTIME_DIR`, else
/// `/run/petasos`.
///
/// `None` if that directory is in `$RUNTIME_DIRECTORY`, because systemd removes it when the service
/// ends.
pub fn runtime_directory() -> Option<PathBuf> {
    let variable = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty());
    let directory = Path::new(variable.as_deref().unwrap_or_else(|| OsStr::new("/run"))).join("petasos");
    let managed = std::env::var_os("RUNTIME_DIRECTORY").unwrap_or_default();
    (!std::env::split_paths(&managed).any(|path| path == directory)).then_some(directory)
}

/// The directory for large temporary files: `/var/tmp`, because the system's temporary directory is
/// in memory on many machines. The system's temporary directory if `/var/tmp` does not exist.
pub fn spool_directory() -> PathBuf {
    let large = Path::new("/var/tmp");
    if large.is_dir() { large.to_owned() } else { std::env::temp_dir() }
}

/// The resident memory of this process in bytes; `None` if the system does not report it.
pub fn resident_bytes() -> Option<u64> {
    kibibytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// `MemTotal` of `/proc/meminfo` in bytes.
fn memory_total(meminfo: &str) -> Option<u64> {
    kibibytes(meminfo, "MemTotal:")
}

/// The number in the line that begins with `name`, converted from KiB to bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{cores, memory_bytes, memory_total, resident_bytes};

    #[test]
    fn total_memory_is_read_in_bytes() {
        assert_eq!(memory_total("MemTotal:       16 kB\nMemFree: 3 kB\n"), Some(16 * 1024));
        assert_eq!(memory_total("MemFree: 3 kB\n"), None);
    }

    #[test]
    fn detected_machine_has_cores_and_memory() {
        assert!(cores() >= 1 && memory_bytes() > 1 << 20);
    }

    #[test]
    fn written_memory_is_resident() {
        let before = resident_bytes().unwrap();
        let filled = vec![1u8; 64 << 20];
        assert!(resident_bytes().unwrap() >= before + (48 << 20), "{before}");
        drop(filled);
    }
}
