//! What is seen of the process from outside: descriptors, threads and resident memory, once a second.
//!
//! Invariant: sockets are counted by what they are, not by their descriptors. Each worker has a descriptor of its own
//! for a listening socket and makes that when it starts, so their number says nothing of what was left open.

use super::application::Application;
use super::{Stage, lock};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Time between two samples.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two samples of a process that starts, and how many are taken at most.
const STARTED_PAUSE: Duration = Duration::from_millis(200);
const STARTED_TRIES: usize = 25;
/// Samples between two lines of progress.
const SAMPLES_PER_LINE: usize = 30;

/// The process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Connections by TCP, whatever their state.
    pub(super) connections: u64,
    /// Other sockets: those that listen, and pairs of the process with itself.
    pub(super) sockets: u64,
    /// Descriptors of everything that is no socket.
    pub(super) files: u64,
    /// Descriptors of all kinds.
    pub(super) descriptors: u64,
    pub(super) threads: u64,
    pub(super) resident_bytes: u64,
}

impl Sample {
    /// The process now.
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

    /// The process once two samples in a row are the same: workers may still open what each of them has.
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

/// The descriptors of a process, by what they are.
struct Descriptors {
    /// The numbers of the sockets that are connections by TCP.
    connections: BTreeSet<u64>,
    /// The numbers of the other sockets.
    sockets: BTreeSet<u64>,
    /// Descriptors of everything that is no socket.
    files: u64,
    /// Descriptors of all kinds.
    descriptors: u64,
}

impl Descriptors {
    /// The descriptors of the process with the directory `process` below `/proc`.
    fn of(process: &Path) -> Self {
        let (mut all, mut descriptors, mut files) = (BTreeSet::new(), 0, 0);
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

/// The number of the socket that the link of a descriptor names: `socket:[NUMBER]`.
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The sockets of all TCP connections that the process can see, without those that listen (proc(5), `/proc/net/tcp`).
fn connected(process: &Path) -> BTreeSet<u64> {
    const LISTENS: &str = "0A";
    let table = |name: &str| std::fs::read_to_string(process.join("net").join(name)).unwrap_or_default();
    let tables = [table("tcp"), table("tcp6")];
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let connection = |line: &str| {
        let mut columns = line.split_ascii_whitespace().skip(3);
        let state = columns.next()?;
        columns.nth(5)?.parse().ok().filter(|_| state != LISTENS)
    };
    lines.filter_map(connection).collect()
}

/// The most that the process was ever resident, in bytes.
pub(super) fn resident_bytes_max(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    number(&status, "VmHWM:") * 1024
}

/// The number behind `name` in the text of a status.
fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Looks at the process each second for as long as the soak is planned to last.
pub(super) fn samples(
    stage: &Stage<'_>,
    application: &Application,
    pid: u32,
    progress: &(dyn Fn(&str) + Sync),
) -> Vec<Sample> {
    let mut samples = Vec::new();
    while stage.health.now() < stage.plan.length && !stage.is_over() {
        std::thread::sleep(PAUSE);
        let sample = Sample::take(pid);
        samples.push(sample);
        application.forget();
        if samples.len().is_multiple_of(SAMPLES_PER_LINE) {
            let Sample { connections, files, threads, resident_bytes, .. } = sample;
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

    /// The number of the socket behind a descriptor of this process.
    fn number(descriptor: RawFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap();
        socket(&link.to_string_lossy()).unwrap()
    }

    #[test]
    fn connections_are_told_from_listening_sockets_and_their_copies() {
        assert_eq!((socket("socket:[12]"), socket("pipe:[12]"), socket("/a")), (Some(12), None, None));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let copies: Vec<_> = (0..50).map(|_| listener.try_clone().unwrap()).collect();
        let connections: Vec<_> =
            (0..50).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        // Other tests of this process have sockets too, so each is looked for by its number.
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
