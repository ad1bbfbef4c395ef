//! The access log in a life: its settings, its rotation, and the check of its files.
//!
//! Invariants: each request has exactly one line, also while the log is rotated and while a process
//! hands over, or it is counted as lost. No visitor waits for the log. The files of an earlier life
//! are moved away, because a process that was killed may have left half a line.

use crate::life::Life;
use actors::{LogEnd, LogForm, lock};
use address::Address;
use platform::{Disk, SimulatedDisk};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;
use world::{ConnectMode, Random};

/// How often an edge has an access log, and how often the log is rotated in a life.
const LOGS_PERCENT: u64 = 25;
const ROTATES_PERCENT: u64 = 60;
const ROTATIONS_MAX: u64 = 12;

/// The longest time until the edge hears of a rotation, in milliseconds.
const HEARS_MS_MAX: u64 = 2000;

/// How often the lines go to a socket. The addresses of the sockets: of a syslog daemon on this
/// machine and on another one, and of the journal.
const SOCKETS_PERCENT: u64 = 40;
const LOCAL_SYSLOG: &str = "unix:/dev/log";
const SYSLOG: &str = "192.0.2.4:514";
const JOURNAL: &str = "unix:/run/journal";

/// The headers of a line on its way to each of them. The process has the identifier 1.
const LOCAL_HEADER: (&str, &str) = ("<190>", " petasos[1]: ");
const HEADER: (&str, &str) = ("<190>1 ", " machine.test petasos 1 access - ");
const JOURNAL_FIELD: &str = "MESSAGE=";
const JOURNAL_IDENTIFIER: &str = "\nPRIORITY=6\nSYSLOG_IDENTIFIER=petasos\nPETASOS_VERDICT=";

/// The directory of the logs, which holds nothing else, and the log.
const DIRECTORY: &str = "/log";
const FILE: &str = "/log/access";

/// The least status with a line, if the log is filtered.
const FILTERED_MIN: u16 = 400;

/// The destination of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// To a file.
    File,
    /// To a syslog daemon of this machine.
    LocalSyslog,
    /// To one on another machine.
    Syslog,
    /// To the journal.
    Journal,
}

/// The access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The destination of its lines.
    pub target: LogTarget,
    /// Whether its lines are objects of JSON.
    pub is_json: bool,
    /// One of this many requests has a line.
    pub every: u64,
    /// Whether only requests with an error have a line.
    pub is_filtered: bool,
    /// The largest number of lines that wait; `None` for the default.
    pub lines_max: Option<usize>,
}

impl LogSettings {
    /// Settings by chance, in part of the cases.
    pub(crate) fn random(seed: u64) -> Option<Self> {
        let mut random = Random::fork(seed, "access log", 0);
        let is_wanted = random.percent(LOGS_PERCENT);
        let is_json = random.percent(50);
        let every = *random.choice(&[1, 1, 1, 5])?;
        let is_filtered = random.percent(20);
        let lines_max = *random.choice(&[None, None, Some(1), Some(8)])?;
        let sockets = [LogTarget::LocalSyslog, LogTarget::Syslog, LogTarget::Journal];
        let has_socket = random.percent(SOCKETS_PERCENT);
        let target = *random.choice(&sockets).filter(|_| has_socket).unwrap_or(&LogTarget::File);
        is_wanted.then_some(Self { target, is_json, every, is_filtered, lines_max })
    }

    /// The lines of the configuration.
    pub(crate) fn configuration(self) -> String {
        let format = if self.is_json { "json" } else { "combined" };
        let filter = if self.is_filtered {
            format!("access_log_where = \"status >= {FILTERED_MIN}\"\n")
        } else {
            String::new()
        };
        let (target, every) = (self.target.setting(), self.every);
        format!(
            "access_log = \"{target}\"\naccess_log_format = \"{format}\"\naccess_log_every = {every}\n{filter}"
        )
    }

    const fn form(self) -> LogForm {
        let status_min = if self.is_filtered { FILTERED_MIN } else { 0 };
        LogForm { is_json: self.is_json, is_sampled: self.every > 1, status_min }
    }
}

impl LogTarget {
    /// The value of `access_log`.
    fn setting(self) -> String {
        match self {
            Self::File => FILE.to_owned(),
            Self::LocalSyslog => "syslog".to_owned(),
            Self::Syslog => format!("syslog:{SYSLOG}"),
            Self::Journal => JOURNAL.replacen("unix:", "journald:", 1),
        }
    }

    /// The address of the socket, if it is one.
    fn address(self) -> Option<Address> {
        match self {
            Self::File => None,
            Self::LocalSyslog => LOCAL_SYSLOG.parse().ok(),
            Self::Syslog => SYSLOG.parse().ok(),
            Self::Journal => JOURNAL.parse().ok(),
        }
    }

    /// The line in a datagram; the whole if something else surrounds it.
    fn line_of(self, datagram: &str) -> &str {
        let after = |(first, last)| {
            let (header, line) = datagram.split_once(last)?;
            header.starts_with(first).then_some(line)
        };
        let line = match self {
            Self::File => None,
            Self::LocalSyslog => after(LOCAL_HEADER),
            Self::Syslog => after(HEADER),
            Self::Journal => {
                let whole = datagram.strip_prefix(JOURNAL_FIELD).filter(|rest| rest.ends_with('\n'));
                whole.and_then(|rest| Some(rest.split_once(JOURNAL_IDENTIFIER)?.0))
            }
        };
        line.unwrap_or(datagram)
    }

    /// The lines in datagrams, as a file has them.
    fn lines_of(self, datagrams: &[Vec<u8>]) -> Vec<u8> {
        let text = |datagram: &Vec<u8>| String::from_utf8_lossy(datagram).into_owned();
        datagrams
            .iter()
            .flat_map(|datagram| format!("{}\n", self.line_of(&text(datagram))).into_bytes())
            .collect()
    }
}

/// A rotation of the log, or a trouble of the socket that receives its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRotation {
    /// Its number in the life.
    pub number: u64,
    /// When the file gets another name, in simulated milliseconds after the start of the edge.
    pub at_ms: u64,
    /// How much later the edge is told to open the file again, in milliseconds.
    pub after_ms: u64,
}

impl PlannedRotation {
    /// The rotations of a life.
    pub fn random_list(random: &mut Random, at_ms_max: u64) -> Vec<Self> {
        let is_wanted = random.percent(ROTATES_PERCENT);
        let count = random.between(1, ROTATIONS_MAX);
        let seed = random.number();
        let rotation = |number| {
            let mut own = Random::fork(seed, "rotation", number);
            Self { number, at_ms: own.below(at_ms_max), after_ms: own.below(HEARS_MS_MAX) }
        };
        (0..if is_wanted { count } else { 0 }).map(rotation).collect()
    }
}

impl fmt::Display for PlannedRotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, at_ms, after_ms } = self;
        write!(f, "rotation {number} of the log after {at_ms} ms, told {after_ms} ms later")
    }
}

/// The size of the logs in bytes.
pub(crate) fn log_bytes(disk: &SimulatedDisk) -> u64 {
    logs(disk).map(|(_, bytes)| bytes).sum()
}

fn logs(disk: &SimulatedDisk) -> impl Iterator<Item = (PathBuf, u64)> + use<> {
    disk.sizes().into_iter().filter(|(path, _)| path.starts_with(DIRECTORY))
}

impl Life {
    /// Moves the logs of earlier lives away, and begins to record requests.
    pub(crate) fn begin_log(&self) {
        let Some(log) = self.society.settings.log else { return };
        let disk = self.world.disk().content();
        for (path, _) in logs(disk) {
            // The file was there just now.
            let _ = disk.remove(&path);
        }
        lock(&self.society.ledger).watch_log(log.form());
        *lock(&self.heard) = log.target.address().map(|address| self.world.network().hear(&address));
    }

    /// Rotates the log as an operator does, if there is a file. The receiver at a socket refuses
    /// lines for the time until the edge would be told, or is slow.
    pub(crate) async fn rotate(self, rotation: PlannedRotation) {
        let target = self.society.settings.log.map(|log| log.target);
        if let Some(address) = target.and_then(LogTarget::address) {
            let modes = [ConnectMode::Refuse, ConnectMode::Hang, ConnectMode::Slow(rotation.after_ms / 8)];
            let mode = *modes.get(rotation.number as usize).unwrap_or(&ConnectMode::Refuse);
            self.note("the receiver of the log is in trouble");
            lock(&self.society.ledger).log_is_troubled();
            self.world.network().set_mode(&address, mode);
            sleep(Duration::from_millis(rotation.after_ms)).await;
            self.world.network().set_mode(&address, ConnectMode::Accept);
            return self.reopen_log();
        }
        let kept = PathBuf::from(format!("{FILE}.{}", rotation.number));
        if !self.world.disk().content().rename(Path::new(FILE), &kept) {
            return;
        }
        self.note("the log is rotated");
        sleep(Duration::from_millis(rotation.after_ms)).await;
        self.reopen_log();
    }

    fn reopen_log(&self) {
        if let Some(edge) = &*lock(&self.edge) {
            edge.reopen_log();
        }
    }

    /// Gives the ledger the number of lines that a process which has ended calls lost. Judges the
    /// files after the last one.
    pub(crate) fn check_log(&self, lost: u64) {
        let Some(log) = self.society.settings.log else { return };
        let at = self.timeline.now();
        let mut ledger = lock(&self.society.ledger);
        ledger.lines_lost(at, lost);
        if self.society.upkeep.processes.load(Ordering::Relaxed) > 1 {
            return;
        }
        let disk = self.world.disk().content();
        let heard = lock(&self.heard).as_ref().map(|heard| log.target.lines_of(&lock(heard)));
        let is_file = heard.is_none();
        let files: Vec<_> = logs(disk).filter_map(|(path, _)| disk.read(&path).ok()).chain(heard).collect();
        let end = LogEnd {
            was_ill: is_file && ledger.is_disk_ill(self.begun, at),
            is_short: log.lines_max.is_some(),
        };
        ledger.log_ends(at, &files, end);
    }
}
