//! Asks the system for facts.
//!
//! Invariants: nothing is left behind. A name server, a server or a disk that does not answer costs
//! a limited time, because a separate thread waits for it.

use crate::account::{Account, Ownership, SEARCH};
use crate::facts::{
    ClockFact, DirectoryFact, DiskFact, PETASOS, PortFact, ProcessFact, ReachFact, SecretFact,
};
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
/// Size of the test block for a disk.
const BLOCK_BYTES: usize = 64 * 1024;
/// The unit in which a file's size on the disk is stated (stat(2)). Files may have holes.
const BLOCK_UNIT_BYTES: u64 = 512;

/// Runs a question on a new thread. `None` if there is no answer in time; the thread then ends with
/// the process.
pub(crate) fn in_time<T: Send + 'static>(question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    thread::spawn(move || {
        // The receiver is gone if the answer took too long.
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

/// The process that listens at a TCP port.
fn taken(port: u16) -> PortFact {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<_> = tables.iter().flat_map(|table| listening(table, port)).collect();
    let user = sockets.first().map(|(_, user)| *user);
    let inodes: Vec<_> = sockets.iter().map(|(inode, _)| *inode).collect();
    // A socket that systemd has passed on belongs to both.
    let mut holders = holders(&inodes);
    let own = holders.iter().position(|process| process.name == PETASOS).unwrap_or(0);
    let process = (own < holders.len()).then(|| holders.swap_remove(own));
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

/// The processes with one of these sockets, as far as this user may see them.
fn holders(inodes: &[u64]) -> Vec<ProcessFact> {
    let wanted: Vec<_> = inodes.iter().map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |number: &u32| {
        let Ok(mut files) = fs::read_dir(format!("/proc/{number}/fd")) else { return false };
        files.any(|file| {
            file.is_ok_and(|file| fs::read_link(file.path()).is_ok_and(|to| wanted.contains(&to)))
        })
    };
    let fact = |number: u32| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{number}/{name}")).unwrap_or_default();
        ProcessFact { number, name: read("comm").trim().to_owned(), files_max: files_max(&read("limits")) }
    };
    numbers.filter(has).map(fact).collect()
}

/// The hard limit of open files in the text of /proc/PID/limits.
fn files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A directory as the account meets it. `None` if not even its root can be seen.
pub(crate) fn directory(path: &Path, account: &Account) -> Option<DirectoryFact> {
    let found = path.ancestors().find(|path| path.exists())?.to_owned();
    let foreign = (found == path && account.user != 0).then(|| foreign(path, account)).flatten();
    Some(DirectoryFact {
        path: path.to_owned(),
        ownership: Ownership::of(&found).ok()?,
        closed: closed(&found, account),
        foreign,
        found,
    })
}

/// The topmost directory above a path that the account may not pass.
fn closed(path: &Path, account: &Account) -> Option<PathBuf> {
    let mut above: Vec<_> = path.ancestors().skip(1).collect();
    above.reverse();
    let is_closed = |path: &&Path| Ownership::of(path).is_ok_and(|file| !account.may(file, SEARCH));
    above.into_iter().find(is_closed).map(Path::to_owned)
}

/// A file with a secret as the account meets it.
pub(crate) fn secret(setting: &'static str, path: PathBuf, account: &Account) -> SecretFact {
    // certbot's files are links into another directory, which is closed, too.
    let real = fs::canonicalize(&path).ok();
    let closed = closed(&path, account).or_else(|| real.and_then(|real| closed(&real, account)));
    SecretFact { setting, ownership: Ownership::of(&path).ok(), closed, path }
}

/// A file in a directory that belongs to another user. Directories do not count: Petasos leaves
/// those alone that it did not make, such as `lost+found`.
fn foreign(directory: &Path, account: &Account) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let is_foreign = |file: fs::Metadata| !file.is_dir() && file.uid() != account.user;
    let mut of_others = entries.filter(|entry| entry.metadata().is_ok_and(is_foreign));
    of_others.next().map(|entry| entry.path())
}

/// The directories that the sandbox of the package's unit permits. `None`: the unit is not loaded
/// or has no such sandbox.
pub(crate) fn sandbox() -> Option<Vec<PathBuf>> {
    let asked = || {
        let properties = "--property=LoadState,ProtectSystem,ReadWritePaths,StateDirectory,\
                          CacheDirectory,LogsDirectory,RuntimeDirectory,PrivateTmp";
        let output = Command::new("systemctl").args(["show", properties, "petasos.service"]).output().ok()?;
        writable(&String::from_utf8_lossy(&output.stdout))
    };
    in_time(asked).flatten()
}

/// The directories in which a unit may write, by the properties that systemd states of it.
fn writable(properties: &str) -> Option<Vec<PathBuf>> {
    let of = |name: &str| {
        let value = properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default()
    };
    if of("LoadState") != "loaded" || of("ProtectSystem") != "strict" {
        return None;
    }
    let stated =
        of("ReadWritePaths").split(' ').map(|path| PathBuf::from(path.trim_start_matches(['-', '+'])));
    let own = [
        ("StateDirectory", "/var/lib"),
        ("CacheDirectory", "/var/cache"),
        ("LogsDirectory", "/var/log"),
        ("RuntimeDirectory", "/run"),
    ];
    let own = own.into_iter().flat_map(|(name, top)| of(name).split(' ').map(move |one| (top, one)));
    let own = own.filter(|(_, one)| !one.is_empty()).map(|(top, one)| Path::new(top).join(one));
    let temporary = if of("PrivateTmp") == "yes" { &["/tmp", "/var/tmp"][..] } else { &[] };
    let all = stated.chain(own).chain(temporary.iter().map(PathBuf::from));
    Some(all.filter(|path| path.is_absolute()).collect())
}

/// The file system of a directory, which may not exist yet. `limit` is the setting's.
pub(crate) fn disk(setting: &'static str, path: &Path, limit: Option<u64>) -> Option<DiskFact> {
    let found = path.ancestors().find(|path| path.is_dir())?.to_owned();
    let (kind, size) = (statfs(&found).ok()?, statvfs(&found).ok()?);
    let used = || used_bytes(path);
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

/// The size of the files below a directory, as far as time permits counting.
fn used_bytes(top: &Path) -> u64 {
    let top = top.to_owned();
    let (counted, total) = mpsc::channel();
    // Each directory is reported when it was read, so that a slow disk hides only the rest.
    in_time(move || {
        let mut directories = vec![top];
        while let Some(directory) = directories.pop() {
            let files = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
            for (path, file) in files.filter_map(|file| Some((file.path(), file.metadata().ok()?))) {
                if file.is_dir() {
                    directories.push(path);
                } else if counted.send(file.blocks().saturating_mul(BLOCK_UNIT_BYTES)).is_err() {
                    return;
                }
            }
        }
    });
    total.try_iter().fold(0, u64::saturating_add)
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
    use super::{connect, directory, disk, files_max, has_address, listening, port, reach, secret, writable};
    use crate::account::Account;
    use crate::facts::{PortFact, ReachFact};
    use address::Address;
    use std::net::TcpListener;
    use std::path::PathBuf;

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
        // A process that another test starts has the socket too, until it runs its program.
        testkit::eventually("the port is free", || port(&address) == PortFact::Free);
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
        std::fs::remove_file(top.path().join("journal")).unwrap();
        std::fs::create_dir(top.path().join("lost+found")).unwrap();
        assert_eq!(directory(top.path(), &account).unwrap().foreign, None);
    }

    #[test]
    fn link_into_a_closed_directory_is_found() {
        let top = tempfile::tempdir().unwrap();
        let [live, archive] = ["live", "archive"].map(|name| top.path().join(name));
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(top.path(), mode(0o755)).unwrap();
        for path in [&live, &archive] {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, mode(0o755)).unwrap();
        }
        std::fs::write(archive.join("key.pem"), "").unwrap();
        std::os::unix::fs::symlink(archive.join("key.pem"), live.join("key.pem")).unwrap();
        let account = Account { name: "nobody".to_owned(), user: 65_534, groups: Vec::new() };
        let closed = || secret("tls", live.join("key.pem"), &account).closed;
        let before = closed();
        std::fs::set_permissions(&archive, mode(0o700)).unwrap();
        assert_eq!((before, closed()), (None, Some(archive.canonicalize().unwrap())));
    }

    #[test]
    fn files_of_subdirectories_count() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("a/b")).unwrap();
        for path in ["one", "a/b/two"] {
            std::fs::write(top.path().join(path), [1; 8192]).unwrap();
        }
        let (_, used) = disk("static_tree.directory", top.path(), Some(1)).unwrap().limit.unwrap();
        assert!(used >= 16_384, "{used}");
    }

    #[test]
    fn sandbox_of_a_unit_is_read() {
        let text = "LoadState=loaded\nProtectSystem=strict\nReadWritePaths=-/run/petasos /srv/cache\n\
                    StateDirectory=petasos\nCacheDirectory=petasos\nLogsDirectory=\nPrivateTmp=yes\n";
        let expected =
            ["/run/petasos", "/srv/cache", "/var/lib/petasos", "/var/cache/petasos", "/tmp", "/var/tmp"];
        assert_eq!(writable(text), Some(expected.map(PathBuf::from).to_vec()));
        assert_eq!(writable(&text.replace("strict", "no")), None);
        assert_eq!(writable("LoadState=not-found\n"), None);
    }
}
