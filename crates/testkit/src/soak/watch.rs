//! Observes the process from outside: descriptors, threads and resident memory, once a second.
//!
//! Invariant: sockets are counted by their identity, not by descriptors. Each worker opens its own
//! descriptor for a listening socket when it starts, so the number of descriptors does not show
//! leaks.

use super::{Origins, SoakState, lock};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Time between two samples.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause between two samples of a starting process, and the upper bound of their number.
const STARTED_PAUSE: Duration = Duration::from_millis(200);
const STARTED_TRIES: usize = 25;
/// Samples between two lines of progress.
const SAMPLES_PER_LINE: usize = 30;

/// The process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessSample {
    /// TCP connections in any state.
    pub(super) connections: u64,
    /// Other sockets: listening ones, and socket pairs within the process.
    pub(super) sockets: u64,
    /// Descriptors that are not sockets.
    pub(super) files: u64,
    /// All descriptors.
    pub(super) descriptors: u64,
    pub(super) threads: u64,
    pub(super) resident_bytes: u64,
}

impl ProcessSample {
    /// Takes a sample of the process.
    pub(super) fn take(pid: u32) -> Self {
        let process = Path::new("/proc").join(pid.to_string());
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        let Descriptors { connections, sockets, files, descriptors } = Descriptors::of(&process);
        Self {
            connections: connections.len() as u64,
            sockets: sockets.len() as u64,
            files,
            descriptors,
            threads: number(&status, "Threads:"),
            resident_bytes: number(&status, "VmRSS:") * 1024,
        }
    }

    /// Waits until two consecutive samples are equal, because workers may still be opening their
    /// descriptors. Returns the last sample.
    pub(super) fn of_started(pid: u32) -> Self {
        let mut last = Self::take(pid);
        for _ in 0..STARTED_TRIES {
            std::thread::sleep(STARTED_PAUSE);
            let next = Self::take(pid);
            if next.descriptors == last.descriptors && next.threads == last.threads {
                return next;
            }
            last = next;
        }
        last
    }
}

/// The descriptors of a process, by kind.
struct Descriptors {
    /// Inode numbers of the sockets that are TCP connections.
    connections: BTreeSet<u64>,
    /// Inode numbers of the other sockets.
    sockets: BTreeSet<u64>,
    /// Descriptors that are not sockets.
    files: u64,
    /// All descriptors.
    descriptors: u64,
}

impl Descriptors {
    /// Reads the descriptors of the process whose directory below `/proc` is `process`.
    fn of(process: &Path) -> Self {
        let mut all = BTreeSet::new();
        let mut descriptors = 0;
        let mut files = 0;
        for descriptor in std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            // A descriptor may be closed before its link is read.
            let Ok(link) = std::fs::read_link(descriptor.path()) else { continue };
            descriptors += 1;
            match socket(&link.to_string_lossy()) {
                Some(number) => drop(all.insert(number)),
                None => files += 1,
            }
        }
        let connected = connected(process);
        let (connections, sockets) = all.into_iter().partition(|number| connected.contains(number));
        Self { connections, sockets, files, descriptors }
    }
}

/// The inode number of a socket from a descriptor's link: `socket:[NUMBER]`.
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Inode numbers of all TCP connections in the process's network namespace, without listening
/// sockets (proc(5), `/proc/net/tcp`).
fn connected(process: &Path) -> BTreeSet<u64> {
    const LISTENS: &str = "0A";
    let table = |name: &str| std::fs::read_to_string(process.join("net").join(name)).unwrap_or_default();
    let tables = [table("tcp"), table("tcp6")];
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let connection = |line: &str| {
        let mut columns = line.split_ascii_whitespace().skip(3);
        let state = columns.next()?;
        if state == LISTENS { None } else { columns.nth(5)?.parse().ok() }
    };
    lines.filter_map(connection).collect()
}

/// Resident bytes that the pages of the shipped program's file take, rounded up.
const PROGRAM_BYTES: u64 = 16 << 20;

/// Greatest resident size that the process ever had, in bytes.
///
/// A program without optimisation has twice as many pages of its file in memory as the shipped one,
/// and how many depends on the system's page cache. The promise of docs/performance.md is about the
/// shipped one, so pages beyond its number do not count.
pub(crate) fn resident_bytes_max(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let excess = (number(&status, "RssFile:") * 1024).saturating_sub(PROGRAM_BYTES);
    (number(&status, "VmHWM:") * 1024).saturating_sub(excess)
}

/// The number after `name` in the text of a status file. 0 if it is missing.
fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Takes a sample each second for the planned length of the soak.
pub(super) fn samples(
    stage: &SoakState<'_>,
    origins: &Origins,
    pid: u32,
    progress: &(dyn Fn(&str) + Sync),
) -> Vec<ProcessSample> {
    let mut samples = Vec::new();
    while stage.health.now() < stage.plan.length && !stage.is_over() {
        std::thread::sleep(PAUSE);
        let sample = ProcessSample::take(pid);
        samples.push(sample);
        origins.first.forget();
        origins.pair.forget();
        if samples.len().is_multiple_of(SAMPLES_PER_LINE) {
            let ProcessSample { connections, files, threads, resident_bytes, .. } = sample;
            let after = stage.health.now().as_secs();
            let visits: u64 = lock(&stage.tally).values().sum();
            progress(&format!(
                "{after} s: {visits} visits, {connections} connections, {files} files, {threads} threads, \
                 {resident_bytes} bytes resident"
            ));
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::{Descriptors, socket};
    use std::collections::BTreeSet;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, RawFd};
    use std::path::Path;

    /// The inode number of the socket behind a descriptor of this process.
    fn number(descriptor: RawFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap();
        socket(&link.to_string_lossy()).unwrap()
    }

    #[test]
    fn connections_and_listening_sockets_are_distinguished() {
        assert_eq!((socket("socket:[12]"), socket("pipe:[12]"), socket("/a")), (Some(12), None, None));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let copies: Vec<_> = (0..50).map(|_| listener.try_clone().unwrap()).collect();
        let connections: Vec<_> =
            (0..50).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        // Other tests of this process open sockets too, so look for each socket by its number.
        let found = Descriptors::of(Path::new("/proc/self"));
        let connected: BTreeSet<_> =
            connections.iter().map(|connection| number(connection.as_raw_fd())).collect();
        let listening: BTreeSet<_> = copies.iter().map(|copy| number(copy.as_raw_fd())).collect();
        assert_eq!((connected.len(), listening.len()), (50, 1));
        assert!(connected.is_subset(&found.connections), "{connected:?} {:?}", found.connections);
        assert!(listening.is_subset(&found.sockets), "{listening:?} {:?}", found.sockets);
        assert!(found.descriptors >= 50 + 50 + found.files, "{} {}", found.descriptors, found.files);
    }
}
