//! Asks the system for facts.
//!
//! Invariants: nothing is left behind. A name server, a server or a disk that does not answer costs
//! a limited time, because it is waited for on a thread of its own.

use crate::account::{Account, Ownership, SEARCH};
use crate::facts::{ClockFact, DirectoryFact, DiskFact, PortFact, ProcessFact, ReachFact};
use address::Address;
use clock::Clock;
use net::BindError;
use platform::{Disk, SystemClock, SystemDisk};
use rustix::fs::{statfs, statvfs};
use std::fs;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Time for a connection or a look-up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Size of the block that is written to a disk.
const BLOCK_BYTES: usize = 64 * 1024;

/// Runs a question on a thread of its own. `None` if there is no answer in time; the thread then
/// ends with the process.
pub(crate) fn in_time<T: Send + 'static>(question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    thread::spawn(move || {
        // Nobody waits any more if it took too long.
        let _ = answer.send(question());
    });
    answered.recv_timeout(PATIENCE).ok()
}

/// Binds an address for a moment.
pub(crate) fn port(address: &Address) -> PortFact {
    if let Address::Unix(path) = address {
        // Binding would replace the socket of a process that has ended.
        return match UnixStream::connect(path) {
            Ok(_) => PortFact::Taken { process: None, user: fs::metadata(path).ok().map(|file| file.uid()) },
            Err(_) => PortFact::Free,
        };
    }
    match net::bind(address, 1) {
        Ok(_) => PortFact::Free,
        Err(BindError::InUse(_)) => address.port().map_or(PortFact::Free, taken),
        Err(BindError::Denied(_)) => PortFact::Denied,
        Err(error) => PortFact::Unusable(error.to_string()),
    }
}

/// Who listens at a TCP port.
fn taken(port: u16) -> PortFact {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<_> = tables.iter().flat_map(|table| listening(table, port)).collect();
    let user = sockets.first().map(|(_, user)| *user);
    let process = sockets.iter().find_map(|(inode, _)| holder(*inode));
    PortFact::Taken { process, user }
}

/// The sockets that listen at a port, in the text of /proc/net/tcp: inode and user.
fn listening(table: &str, port: u16) -> Vec<(u64, u32)> {
    let row = |line: &str| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let (_, own) = fields.get(1)?.rsplit_once(':')?;
        // 0A is the state LISTEN.
        let is_listening = *fields.get(3)? == "0A" && u16::from_str_radix(own, 16).ok()? == port;
        is_listening.then_some((fields.get(9)?.parse().ok()?, fields.get(7)?.parse().ok()?))
    };
    table.lines().filter_map(row).collect()
}

/// The process with a socket. `None` if this user may not see it.
fn holder(inode: u64) -> Option<ProcessFact> {
    let wanted = PathBuf::from(format!("socket:[{inode}]"));
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |number: &u32| {
        let Ok(mut files) = fs::read_dir(format!("/proc/{number}/fd")) else { return false };
        files.any(|file| file.is_ok_and(|file| fs::read_link(file.path()).is_ok_and(|to| to == wanted)))
    };
    let number = numbers.find(has)?;
    let read = |name: &str| fs::read_to_string(format!("/proc/{number}/{name}")).unwrap_or_default();
    Some(ProcessFact { number, name: read("comm").trim().to_owned(), files_max: files_max(&read("limits")) })
}

/// The hard limit of open files in the text of /proc/PID/limits.
fn files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A directory as the account meets it. `None` if not even its root can be seen.
pub(crate) fn directory(path: &Path, account: &Account) -> Option<DirectoryFact> {
    let found = path.ancestors().find(|path| path.exists())?.to_owned();
    let mut above: Vec<_> = found.ancestors().skip(1).collect();
    above.reverse();
    let is_closed = |path: &&Path| Ownership::of(path).is_ok_and(|file| !account.may(file, SEARCH));
    let foreign = (found == path && account.user != 0).then(|| foreign(path, account)).flatten();
    Some(DirectoryFact {
        path: path.to_owned(),
        ownership: Ownership::of(&found).ok()?,
        closed: above.into_iter().find(is_closed).map(Path::to_owned),
        foreign,
        found,
    })
}

/// A file in a directory that belongs to another user.
fn foreign(directory: &Path, account: &Account) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let mut of_others = entries.filter(|entry| entry.metadata().is_ok_and(|file| file.uid() != account.user));
    of_others.next().map(|entry| entry.path())
}

/// The file system of a directory, which may not exist yet. `limit` is the setting's.
pub(crate) fn disk(setting: &'static str, path: &Path, limit: Option<u64>) -> Option<DiskFact> {
    let found = path.ancestors().find(|path| path.is_dir())?.to_owned();
    let (kind, size) = (statfs(&found).ok()?, statvfs(&found).ok()?);
    let used = || fs::read_dir(path).map_or(0, |files| files.filter_map(|file| bytes(&file.ok()?)).sum());
    let written = in_time(move || durable_write(&found).ok());
    Some(DiskFact {
        setting,
        path: path.to_owned(),
        kind: u64::try_from(kind.f_type).unwrap_or_default() & 0xffff_ffff,
        bytes: size.f_blocks.saturating_mul(size.f_frsize),
        free_bytes: size.f_bavail.saturating_mul(size.f_frsize),
        limit: limit.map(|limit| (limit, used())),
        sync: written.unwrap_or(Some(PATIENCE)),
    })
}

fn bytes(file: &fs::DirEntry) -> Option<u64> {
    // Blocks, because files may have holes.
    file.metadata().ok().map(|metadata| metadata.blocks().saturating_mul(512))
}

/// The time for a block to be on the disk.
fn durable_write(directory: &Path) -> io::Result<Duration> {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let file = SystemDisk.open_unnamed(directory)?;
    file.write_at(&[0; BLOCK_BYTES], 0)?;
    file.sync()?;
    Ok(clock.monotonic().since(start))
}

/// The clock, and whether a time server corrects it.
pub(crate) fn clock() -> ClockFact {
    let is_marked = Path::new("/run/systemd/timesync/synchronized").exists();
    let asked = || {
        let mut command = Command::new("timedatectl");
        let output = command.args(["show", "--property=NTPSynchronized", "--value"]).output().ok()?;
        match output.stdout.as_slice() {
            b"yes\n" => Some(true),
            b"no\n" => Some(false),
            _ => None,
        }
    };
    let is_synchronised = if is_marked { Some(true) } else { in_time(asked).flatten() };
    ClockFact { secs: SystemClock::new().now().as_secs(), is_synchronised }
}

/// Looks up and connects to a server.
pub(crate) fn reach(server: &Address) -> ReachFact {
    let server = server.clone();
    in_time(move || connect(&server)).unwrap_or(ReachFact::Silent(PATIENCE))
}

fn connect(server: &Address) -> ReachFact {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let connected = match server {
        Address::Unix(path) => UnixStream::connect(path).map(drop),
        Address::Ip(address) => TcpStream::connect(address).map(drop),
        Address::Host { name, port } => {
            let Ok(addresses) = (name.as_str(), *port).to_socket_addrs() else {
                return ReachFact::Unresolved;
            };
            TcpStream::connect(&*addresses.collect::<Vec<_>>()).map(drop)
        }
    };
    match connected {
        Ok(()) => ReachFact::Reached(clock.monotonic().since(start)),
        Err(error) => ReachFact::Refused(error.to_string()),
    }
}

/// Whether a name has an address.
pub(crate) fn has_address(name: &str) -> bool {
    let name = name.to_owned();
    in_time(move || (name.as_str(), 443).to_socket_addrs().is_ok()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::{connect, directory, disk, files_max, has_address, listening, port, reach};
    use crate::account::Account;
    use crate::facts::{PortFact, ReachFact};
    use address::Address;
    use std::net::TcpListener;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 4242 1 x\n\
        1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000    33        0 4243 1 x\n\
        2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1 x\n";

    #[test]
    fn only_listening_sockets_of_the_port_are_found() {
        assert_eq!(listening(TABLE, 8080), [(4242, 33)]);
        assert_eq!(listening(TABLE, 80), [(17, 0)]);
        assert_eq!(listening(TABLE, 443), []);
    }

    #[test]
    fn hard_limit_of_a_process_is_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            1024                 65536                files\n";
        assert_eq!(files_max(text), Some(65_536));
        assert_eq!(
            files_max("Max open files            1024                 unlimited            files\n"),
            None
        );
    }

    #[test]
    fn own_socket_is_found_with_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(listener.local_addr().unwrap());
        let PortFact::Taken { process: Some(process), .. } = port(&address) else {
            panic!("{:?}", port(&address))
        };
        assert_eq!(process.number, std::process::id());
        assert!(matches!(reach(&address), ReachFact::Reached(_)));
        drop(listener);
        assert_eq!(port(&address), PortFact::Free);
        assert!(matches!(connect(&address), ReachFact::Refused(_)));
    }

    #[test]
    fn names_are_looked_up() {
        assert!(has_address("localhost"));
        let name = Address::Host { name: "no.invalid".to_owned(), port: 80 };
        assert_eq!(reach(&name), ReachFact::Unresolved);
    }

    #[test]
    fn missing_directory_is_examined_where_it_would_be() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        let account = Account { name: "nobody".to_owned(), user: 65_534, groups: Vec::new() };
        let fact = directory(&path, &account).unwrap();
        assert_eq!((fact.found, fact.closed), (top.path().to_owned(), None));
        let fact = disk("disk", &path, Some(1)).unwrap();
        assert!(fact.bytes >= fact.free_bytes && fact.sync.is_some(), "{fact:?}");
        assert_eq!(fact.limit, Some((1, 0)));
        assert!(std::fs::read_dir(top.path()).unwrap().next().is_none(), "nothing is left behind");
        std::fs::create_dir(top.path().join("a")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(top.path(), mode).unwrap();
        let closed = directory(&path, &account).unwrap().closed;
        assert_eq!(closed.as_deref(), Some(top.path()));
    }

    #[test]
    fn file_of_another_user_is_found() {
        let top = tempfile::tempdir().unwrap();
        std::fs::write(top.path().join("journal"), "").unwrap();
        let account = Account { name: "nobody".to_owned(), user: 65_534, groups: Vec::new() };
        let fact = directory(top.path(), &account).unwrap();
        assert_eq!(fact.foreign, Some(top.path().join("journal")));
    }
}
