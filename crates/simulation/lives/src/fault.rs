//! The faults of a life: when each begins and ends, and what it does.
//!
//! Invariant: after the last fault has ended, origin, network and disk behave well again. A damaged
//! file stays damaged, and a clock that has jumped stays where it is.

use crate::settings::ORIGIN_ADDRESS;
use actors::{FaultPlace, OriginFault};
use std::fmt;
use std::time::Duration;
use world::{ConnectMode, DiskHang, DiskMode, Random};

/// The shortest and the longest duration of a fault, in simulated milliseconds.
const DURATION_MS: (u64, u64) = (500, 30_000);

/// The furthest jump of the wall clock, in seconds.
const JUMP_S_MAX: u64 = 3600;

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The origin misbehaves in this percentage of its responses.
    Origin(OriginFault, u64),
    /// Connecting to the origin fails in this way.
    Connect(ConnectMode),
    /// The disk behaves like this.
    Disk(DiskMode),
    /// These operations of the disk hang.
    DiskHangs(DiskHang),
    /// The disk has no more room than it occupies now.
    DiskFull,
    /// Bytes of a random file change, this many times.
    Damage(u64),
    /// The wall clock jumps forwards or, if true, backwards by this many seconds.
    ClockJump(u64, bool),
}

/// A fault of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFault {
    /// Its number in the life.
    pub number: u64,
    /// When it begins, in simulated milliseconds after the start.
    pub at_ms: u64,
    /// How long it lasts, in simulated milliseconds.
    pub for_ms: u64,
    /// The effect.
    pub action: FaultAction,
}

impl PlannedFault {
    /// A fault by chance that begins within `at_ms_max` milliseconds.
    pub fn random(random: &mut Random, number: u64, at_ms_max: u64) -> Self {
        let at_ms = random.below(at_ms_max);
        let for_ms = random.between(DURATION_MS.0, DURATION_MS.1);
        Self { number, at_ms, for_ms, action: FaultAction::random(random) }
    }
}

impl FaultAction {
    fn random(random: &mut Random) -> Self {
        match random.below(20) {
            0..=8 => {
                let fault = random.choice(&OriginFault::ALL).copied().unwrap_or(OriginFault::Hang);
                Self::Origin(fault, *random.choice(&[10, 30, 100]).unwrap_or(&100))
            }
            9 => Self::Connect(ConnectMode::Refuse),
            10 => Self::Connect(ConnectMode::Hang),
            11 => Self::Connect(ConnectMode::Slow(random.between(100, 3000))),
            12 => Self::Disk(DiskMode::slow(random.between(100, 4000))),
            13 => Self::Disk(DiskMode::failing(random.between(5, 1000))),
            14 => Self::Disk(DiskMode {
                short_permille: random.between(0, 300),
                misread_permille: random.between(0, 200),
                full_permille: random.between(0, 100),
                ..DiskMode::default()
            }),
            15 => Self::DiskHangs(DiskHang::Everything),
            16 => Self::DiskHangs(
                *random.choice(&[DiskHang::Writing, DiskHang::Closing]).unwrap_or(&DiskHang::Writing),
            ),
            17 => Self::DiskFull,
            18 => Self::Damage(*random.choice(&[1, 2, 4, 8, 64]).unwrap_or(&1)),
            _ => Self::ClockJump(random.between(1, JUMP_S_MAX), random.percent(50)),
        }
    }

    /// Where the fault is, for the ledger. The edge does not use a disk while an operation takes
    /// longer than `disk_timeout`.
    pub fn place(self, disk_timeout: Duration) -> FaultPlace {
        match self {
            Self::Origin(..) => FaultPlace::Origin,
            Self::Connect(_) => FaultPlace::Network,
            Self::Disk(mode) if mode.is_slow_only(disk_timeout) => FaultPlace::SlowDisk,
            Self::Disk(_) | Self::DiskHangs(_) | Self::DiskFull => FaultPlace::Disk,
            Self::Damage(_) => FaultPlace::Medium,
            Self::ClockJump(..) => FaultPlace::Edge,
        }
    }
}

impl fmt::Display for FaultAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(fault, percent) => write!(f, "origin: {fault} in {percent}% of responses"),
            Self::Connect(fault) => write!(f, "connecting to {ORIGIN_ADDRESS}: {fault:?}"),
            Self::Disk(mode) => write!(f, "disk: {mode:?}"),
            Self::DiskHangs(hang) => write!(f, "disk: {hang:?} hangs"),
            Self::DiskFull => f.write_str("disk: full"),
            Self::Damage(count) => write!(f, "disk: bytes change in {count} places"),
            Self::ClockJump(seconds, false) => write!(f, "the wall clock jumps forwards by {seconds} s"),
            Self::ClockJump(seconds, true) => write!(f, "the wall clock jumps backwards by {seconds} s"),
        }
    }
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) =
            (Duration::from_millis(self.at_ms), Duration::from_millis(self.at_ms + self.for_ms));
        write!(f, "fault {} from {begin:?} to {end:?}: {}", self.number, self.action)
    }
}
