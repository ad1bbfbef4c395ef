//! Judges facts about the machine.
//!
//! Invariant: the functions here are pure. A finding follows from its arguments alone.

use crate::account::{Account, Ownership, READ, SEARCH, WRITE};
use crate::facts::{ClockFact, DirectoryFact, DiskFact, PETASOS, PortFact, ReachFact, SecretFact};
use crate::finding::Finding;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The process that listens for socket units.
const INIT: u32 = 1;
/// 2026-01-01. The program is younger, so an earlier clock is wrong.
const EARLIEST_SECS: u64 = 1_767_225_600;
/// 2100-01-01.
const LATEST_SECS: u64 = 4_102_444_800;
/// Descriptors for files, logs, and messages between threads.
const OTHER_DESCRIPTORS: u64 = 256;
/// A slower write to the disk delays purges noticeably.
const SYNC_SLOW: Duration = Duration::from_millis(200);
/// Free part of a file system below which other programs are at risk.
const FREE_PART_MIN: u64 = 20;

/// Kinds of file systems that are no place for a disk cache: magic number, name, reason.
const KINDS: [(u64, &str, &str); 6] = [
    (0x0102_1994, "tmpfs", "its files are in memory and are lost at a restart of the machine"),
    (0x8584_58f6, "ramfs", "its files are in memory and are lost at a restart of the machine"),
    (0x794c_7630, "overlay", "in a container, its files are lost with the container"),
    (0x6969, "NFS", "a network may make it slow or hang"),
    (0xff53_4d42, "CIFS", "a network may make it slow or hang"),
    (0x6573_5546, "FUSE", "a program serves it, which may make it slow or hang"),
];

/// An address where the edge listens.
pub(crate) fn port(address: &str, fact: &PortFact) -> Finding {
    match fact {
        PortFact::Free => Finding::ok("port", format!("{address} is free")),
        PortFact::Taken { process: Some(process), .. } if process.name == PETASOS => {
            Finding::ok("port", format!("{address} is served by Petasos (process {})", process.number))
        }
        PortFact::Taken { process: Some(process), .. } if process.number == INIT => {
            Finding::ok("port", format!("{address} is held by {} for a socket unit", process.name))
        }
        PortFact::Taken { process: Some(process), .. } => Finding::failure(
            "port",
            format!("{} (process {}) listens at {address}", process.name, process.number),
            "stop it, or choose another port for one of them",
        ),
        PortFact::Taken { process: None, user } => {
            let whose = user.map(|user| format!(" of user {user}")).unwrap_or_default();
            Finding::warning(
                "port",
                format!("a process{whose} listens at {address}, and only root may see which"),
                "run `petasos doctor` as root; if it is not Petasos, stop it or choose another port",
            )
        }
        PortFact::Denied => Finding::warning(
            "port",
            format!("this user may not listen at {address}"),
            "run `petasos doctor` as root; the unit of the package may use low ports (AmbientCapabilities=)",
        ),
        PortFact::Unusable(error) => Finding::failure("port", error, "correct the address"),
    }
}

/// A directory in which the edge writes.
pub(crate) fn directory(setting: &str, fact: &DirectoryFact, account: &Account) -> Finding {
    let DirectoryFact { path, found, ownership, closed, foreign } = fact;
    let (path, user) = (path.display(), &account.name);
    let make = format!("install -d -o {user} -m 750 {path}");
    if let Some(closed) = closed {
        let closed = closed.display();
        return Finding::failure(
            "permissions",
            format!("{setting}: {user} may not pass the directory {closed} on the way to {path}"),
            format!("chmod o+x {closed}, or choose a directory elsewhere"),
        );
    }
    if !account.may(*ownership, WRITE | SEARCH) {
        let message = if *found == fact.path {
            format!("{setting}: {user} may not write in {path}")
        } else {
            format!("{setting}: {path} does not exist, and {user} may not make it in {}", found.display())
        };
        return Finding::failure("permissions", message, make);
    }
    if let Some(foreign) = foreign {
        return Finding::failure(
            "permissions",
            format!("{setting}: {} does not belong to {user}", foreign.display()),
            format!("chown -R {user}: {path}, if Petasos once ran as another user"),
        );
    }
    let verb = if *found == fact.path { "write in" } else { "make" };
    Finding::ok("permissions", format!("{setting}: {user} may {verb} {path}"))
}

/// A directory that the edge writes to, compared with the directories that the sandbox of its unit
/// allows. `None`: the unit permits it.
pub(crate) fn sandbox(setting: &str, path: &Path, writable: &[PathBuf]) -> Option<Finding> {
    let path = (!writable.iter().any(|top| path.starts_with(top))).then(|| path.display())?;
    Some(Finding::failure(
        "permissions",
        format!("{setting}: the unit petasos.service may not write in {path}"),
        format!("run `systemctl edit petasos`, and write [Service] and ReadWritePaths={path}"),
    ))
}

/// A file with a secret.
pub(crate) fn secret(fact: &SecretFact, account: &Account) -> Option<Finding> {
    let SecretFact { setting, path, ownership, closed } = fact;
    let (path, user) = (path.display(), &account.name);
    if let Some(closed) = closed {
        return Some(Finding::failure(
            "permissions",
            format!("{setting}: {user} may not pass the directory {} on the way to {path}", closed.display()),
            format!("copy the file to /etc/petasos, owned by root:{user} with mode 640, at each renewal"),
        ));
    }
    // `check` reports missing files.
    let ownership = (*ownership)?;
    if !account.may(ownership, READ) {
        return Some(Finding::failure(
            "permissions",
            format!("{setting}: {user} may not read {path}"),
            format!("chgrp {user} {path} && chmod 640 {path}"),
        ));
    }
    Some(if ownership.mode & 0o007 == 0 {
        Finding::ok("permissions", format!("{setting}: only its owner and group may read {path}"))
    } else {
        Finding::warning(
            "permissions",
            format!("{setting}: every user of the machine may use the secret in {path}"),
            format!("chmod o= {path}"),
        )
    })
}

/// The configuration file itself: a user that may write it controls the edge.
pub(crate) fn configuration(path: &str, ownership: Ownership) -> Finding {
    if ownership.mode & 0o002 == 0 {
        let message = format!("{path} was read, and only its owner and group may change it");
        return Finding::ok("configuration", message);
    }
    Finding::warning(
        "configuration",
        format!("every user of the machine may change {path}"),
        format!("chmod o-w {path}"),
    )
}

/// File descriptors: those that the edge needs at its limits, and those that `holder` may have.
pub(crate) fn descriptors(connections: u64, limit: Option<u64>, holder: &str) -> Finding {
    let needed = connections.saturating_add(OTHER_DESCRIPTORS);
    match limit {
        Some(limit) if limit < needed => Finding::warning(
            "descriptors",
            format!("{holder} may open {limit} files, but the limits of the configuration need {needed}"),
            "raise LimitNOFILE= of the unit (or `ulimit -Hn`), or lower `limits.connections_max`",
        ),
        Some(limit) => {
            Finding::ok("descriptors", format!("{holder} may open {limit} files, and {needed} are needed"))
        }
        None => Finding::ok("descriptors", format!("{holder} may open any number of files")),
    }
}

/// The memory that the edge may take, beside that of the machine.
pub(crate) fn memory(wanted: u64, machine: u64) -> Finding {
    let (wanted_text, machine_text) = (rounded(wanted), rounded(machine));
    if wanted > machine / 4 * 3 {
        return Finding::warning(
            "memory",
            format!("`memory` is {wanted_text}, but the machine has only {machine_text}"),
            "lower `memory`, so that the application and the system have room",
        );
    }
    Finding::ok("memory", format!("{wanted_text} of {machine_text}"))
}

/// A size for people: in GiB from one on, else in MiB.
pub(crate) fn rounded(bytes: u64) -> String {
    let tenths = |unit: u64| (bytes.saturating_mul(10) / unit / 10, bytes.saturating_mul(10) / unit % 10);
    let ((whole, tenth), unit) =
        if bytes >= 1 << 30 { (tenths(1 << 30), "GiB") } else { (tenths(1 << 20), "MiB") };
    format!("{whole}.{tenth} {unit}")
}

/// The clock. Lifetimes and certificates depend on it.
pub(crate) fn clock(fact: ClockFact) -> Finding {
    let year = 1970 + fact.secs / 31_556_952;
    let set = "set the clock, for example with `timedatectl set-ntp true`";
    if !(EARLIEST_SECS..LATEST_SECS).contains(&fact.secs) {
        return Finding::failure("clock", format!("the clock is in the year {year}"), set);
    }
    match fact.is_synchronised {
        Some(true) => Finding::ok("clock", "a time server corrects it"),
        Some(false) => Finding::warning("clock", "no time server corrects it", set),
        None => Finding::ok("clock", format!("it is in {year}; the system does not say what corrects it")),
    }
}

/// A file system with files of the edge.
pub(crate) fn disk(fact: &DiskFact, timeout: Duration) -> Vec<Finding> {
    let DiskFact { setting, path, kind, bytes, free_bytes, limit, sync } = fact;
    let path = path.display();
    let mut found = Vec::new();
    if let Some((_, name, reason)) = KINDS.iter().find(|(number, ..)| number == kind) {
        found.push(Finding::warning(
            "disk",
            format!("{setting}: the file system of {path} is {name}: {reason}"),
            "choose a directory on a disk of this machine",
        ));
    }
    let free = rounded(*free_bytes);
    match limit {
        Some((limit, used)) if limit.saturating_sub(*used) > *free_bytes => found.push(Finding::warning(
            "disk",
            format!(
                "{setting}: its size may grow to {}, but only {free} are free at {path}",
                rounded(*limit)
            ),
            format!("lower the size of `{setting}`, or free space"),
        )),
        _ if *free_bytes < bytes / FREE_PART_MIN => found.push(Finding::warning(
            "disk",
            format!("{setting}: only {free} are free at {path}"),
            "free space, before logs and purges cannot be written",
        )),
        _ => {}
    }
    let slow = |level: fn(&'static str, String, &'static str) -> Finding, time: Duration| {
        let message = format!("{setting}: a durable write at {path} took {} ms", time.as_millis());
        level("disk", message, "choose a faster disk, or look for the program that keeps it busy")
    };
    match sync {
        None => found.push(Finding::failure(
            "disk",
            format!("{setting}: cannot write at {path}"),
            "mount it for writing, and free space",
        )),
        Some(time) if *time >= timeout => found.push(slow(Finding::failure, *time)),
        Some(time) if *time >= SYNC_SLOW => found.push(slow(Finding::warning, *time)),
        Some(time) if found.is_empty() => found.push(Finding::ok(
            "disk",
            format!("{setting}: {free} free at {path}, a durable write takes {} ms", time.as_millis()),
        )),
        Some(_) => {}
    }
    found
}

/// A server that the edge calls.
pub(crate) fn reach(what: &str, server: &str, fact: &ReachFact) -> Finding {
    match fact {
        ReachFact::Reached(time) => Finding::ok(
            "network",
            format!("{what} {server} accepts connections, after {} ms", time.as_millis()),
        ),
        ReachFact::Unresolved => Finding::failure(
            "dns",
            format!("{what} {server}: the name has no address"),
            "correct the name, or the name servers in /etc/resolv.conf",
        ),
        ReachFact::Refused(error) => Finding::failure(
            "network",
            format!("{what} {server} cannot be reached: {error}"),
            "start it, or correct its address; Petasos serves stale pages or 502 meanwhile",
        ),
        ReachFact::Silent(time) => Finding::failure(
            "network",
            format!("{what} {server} did not answer within {} s", time.as_secs()),
            "look for a firewall between the machines, and for slow name servers",
        ),
    }
}

/// A name for which a certificate is wanted: its address must exist, because the authority visits
/// it.
pub(crate) fn certificate_name(name: &str, has_address: bool) -> Finding {
    if has_address {
        return Finding::ok("dns", format!("{name} has an address"));
    }
    Finding::failure(
        "dns",
        format!("{name} has no address, so no authority issues a certificate for it"),
        "make an A or AAAA record that leads here, or remove the name from `tls`",
    )
}

#[cfg(test)]
mod tests {
    use super::{
        certificate_name, clock, configuration, descriptors, directory, disk, memory, port, reach, sandbox,
        secret,
    };
    use crate::account::{Account, Ownership};
    use crate::facts::{ClockFact, DirectoryFact, DiskFact, PortFact, ProcessFact, ReachFact, SecretFact};
    use crate::finding::{Finding, Level};
    use std::time::Duration;

    fn account() -> Account {
        Account { name: "petasos".to_owned(), user: 101, groups: vec![102] }
    }

    fn owned(user: u32, mode: u32) -> Ownership {
        Ownership { user, group: user, mode }
    }

    /// Asserts the level, and that the message or the fix has these words.
    fn is(finding: &Finding, level: Level, words: &str) {
        assert_eq!(finding.level, level, "{finding:?}");
        let fix = finding.fix.clone().unwrap_or_default();
        assert!(finding.message.contains(words) || fix.contains(words), "{words} in {finding:?}");
        assert_eq!(finding.fix.is_none(), level == Level::Ok, "{finding:?}");
    }

    #[test]
    fn port_may_be_free_or_that_of_petasos() {
        let taken = |name: &str| {
            let process = ProcessFact { number: 7, name: name.to_owned(), files_max: None };
            PortFact::Taken { process: Some(process), user: Some(0) }
        };
        let of_init = ProcessFact { number: 1, name: "systemd".to_owned(), files_max: None };
        let of_init = PortFact::Taken { process: Some(of_init), user: Some(0) };
        let hidden = PortFact::Taken { process: None, user: Some(33) };
        for (fact, level, words) in [
            (PortFact::Free, Level::Ok, "is free"),
            (taken("petasos"), Level::Ok, "process 7"),
            (of_init, Level::Ok, "for a socket unit"),
            (taken("nginx"), Level::Failure, "nginx (process 7) listens at :80"),
            (hidden, Level::Warning, "of user 33"),
            (PortFact::Denied, Level::Warning, "AmbientCapabilities"),
            (PortFact::Unusable("no such address".to_owned()), Level::Failure, "no such address"),
        ] {
            is(&port(":80", &fact), level, words);
        }
    }

    #[test]
    fn directories_are_judged_for_the_service() {
        let good = DirectoryFact {
            path: "/var/cache/petasos".into(),
            found: "/var/cache/petasos".into(),
            ownership: owned(101, 0o750),
            closed: None,
            foreign: None,
        };
        let missing =
            DirectoryFact { found: "/var/cache".into(), ownership: owned(0, 0o755), ..good.clone() };
        let closed = DirectoryFact { closed: Some("/var/cache".into()), ..good.clone() };
        let of_root = DirectoryFact { ownership: owned(0, 0o755), ..good.clone() };
        let mixed = DirectoryFact { foreign: Some("/var/cache/petasos/journal".into()), ..good.clone() };
        for (fact, level, words) in [
            (good, Level::Ok, "petasos may write"),
            (missing, Level::Failure, "install -d -o petasos -m 750 /var/cache/petasos"),
            (closed, Level::Failure, "may not pass the directory /var/cache "),
            (of_root, Level::Failure, "may not write in /var/cache/petasos"),
            (mixed, Level::Failure, "chown -R petasos:"),
        ] {
            is(&directory("disk", &fact, &account()), level, words);
        }
    }

    #[test]
    fn sandbox_permits_its_directories_and_those_below() {
        let writable = ["/var/cache/petasos".into(), "/srv/cache".into()];
        for path in ["/var/cache/petasos", "/srv/cache/deep"] {
            assert_eq!(sandbox("disk", path.as_ref(), &writable), None);
        }
        is(
            &sandbox("disk", "/srv/cache2".as_ref(), &writable).unwrap(),
            Level::Failure,
            "ReadWritePaths=/srv/cache2",
        );
    }

    #[test]
    fn secrets_are_for_the_service_alone() {
        let with = |ownership, closed| {
            let fact = SecretFact { setting: "tls", path: "/k.pem".into(), ownership, closed };
            secret(&fact, &account())
        };
        let judged = |ownership| with(ownership, None);
        let closed = with(Some(owned(101, 0o600)), Some("/etc/letsencrypt/archive".into()));
        is(&closed.unwrap(), Level::Failure, "may not pass the directory /etc/letsencrypt/archive");
        is(&judged(Some(owned(101, 0o600))).unwrap(), Level::Ok, "only its owner");
        is(&judged(Some(owned(0, 0o600))).unwrap(), Level::Failure, "may not read /k.pem");
        is(&judged(Some(owned(101, 0o644))).unwrap(), Level::Warning, "chmod o= /k.pem");
        assert_eq!(judged(None), None);
        is(&configuration("/e.toml", owned(0, 0o644)), Level::Ok, "/e.toml");
        is(&configuration("/e.toml", owned(0, 0o666)), Level::Warning, "chmod o-w");
    }

    #[test]
    fn descriptors_and_memory_fit_the_configuration() {
        is(&descriptors(10_000, Some(65_536), "it"), Level::Ok, "10256 are needed");
        is(&descriptors(10_000, Some(1024), "it"), Level::Warning, "LimitNOFILE");
        is(&descriptors(10_000, None, "it"), Level::Ok, "any number");
        is(&memory(1 << 30, 4 << 30), Level::Ok, "1.0 GiB of 4.0 GiB");
        is(&memory(4 << 30, 4 << 30), Level::Warning, "lower `memory`");
    }

    #[test]
    fn clock_is_plausible_and_synchronised() {
        let at = |secs, is_synchronised| clock(ClockFact { secs, is_synchronised });
        is(&at(1_800_000_000, Some(true)), Level::Ok, "time server");
        is(&at(1_800_000_000, Some(false)), Level::Warning, "timedatectl");
        is(&at(1_800_000_000, None), Level::Ok, "in 2027");
        is(&at(86_400, Some(true)), Level::Failure, "year 1970");
        is(&at(5_000_000_000, Some(true)), Level::Failure, "year 2128");
    }

    #[test]
    fn disk_has_space_a_good_kind_and_speed() {
        let good = DiskFact {
            setting: "disk",
            path: "/var/cache/petasos".into(),
            kind: 0xef53,
            bytes: 100 << 30,
            free_bytes: 20 << 30,
            limit: Some((10 << 30, 0)),
            sync: Some(Duration::from_millis(3)),
        };
        let judged = |fact: &DiskFact| {
            let found = disk(fact, Duration::from_secs(2));
            assert_eq!(found.len(), 1, "{found:?}");
            found.into_iter().next().unwrap()
        };
        is(&judged(&good), Level::Ok, "takes 3 ms");
        is(&judged(&DiskFact { kind: 0x0102_1994, ..good.clone() }), Level::Warning, "tmpfs");
        is(
            &judged(&DiskFact { free_bytes: 9 << 30, ..good.clone() }),
            Level::Warning,
            "only 9.0 GiB are free",
        );
        // Its own files count as space for it.
        let filled = DiskFact { free_bytes: 6 << 30, limit: Some((10 << 30, 5 << 30)), ..good.clone() };
        is(&judged(&filled), Level::Ok, "free");
        let full = DiskFact { free_bytes: 1 << 30, limit: None, ..good.clone() };
        is(&judged(&full), Level::Warning, "free space");
        is(&judged(&DiskFact { sync: None, ..good.clone() }), Level::Failure, "cannot write");
        let slow = |ms| DiskFact { sync: Some(Duration::from_millis(ms)), ..good.clone() };
        is(&judged(&slow(300)), Level::Warning, "took 300 ms");
        is(&judged(&slow(2000)), Level::Failure, "took 2000 ms");
    }

    #[test]
    fn servers_resolve_and_answer() {
        for (fact, level, words) in [
            (ReachFact::Reached(Duration::from_millis(4)), Level::Ok, "after 4 ms"),
            (ReachFact::Unresolved, Level::Failure, "/etc/resolv.conf"),
            (ReachFact::Refused("connection refused".to_owned()), Level::Failure, "connection refused"),
            (ReachFact::Silent(Duration::from_secs(5)), Level::Failure, "within 5 s"),
        ] {
            is(&reach("the origin", "a.test:80", &fact), level, words);
        }
        is(&certificate_name("a.test", true), Level::Ok, "a.test");
        is(&certificate_name("a.test", false), Level::Failure, "AAAA");
    }
}
