//! The shape of the load: closed or open loop, rates, stages and think times.
//!
//! Invariant: these types are plain data. The schedule turns them into moments, and depends only on
//! them and the plan's seed.

use stats::Random;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The highest rate in requests per second that a plan may ask for. No machine can generate more.
pub const RATE_MAX: f64 = 10_000_000.0;

/// The lowest rate in requests per second that a plan may ask for: one in eleven days.
pub const RATE_MIN: f64 = 0.000_001;

/// How many requests an open loop may have in flight by default.
pub const IN_FLIGHT_MAX_DEFAULT: usize = 10_000;

/// The most stages of a plan. Each thread keeps histograms for each stage, up to 2 MB.
pub const STAGES_MAX: usize = 100;

/// When requests are meant to start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrival {
    /// Each of [`crate::Plan::users`] sends its next request after its last response and its think
    /// time.
    #[default]
    Closed,
    /// Requests fall due at a rate that does not depend on the target's speed.
    Open {
        /// Requests per second.
        rate: Rate,
        /// The most requests in flight. A request that falls due beyond this is not started, only
        /// counted.
        in_flight_max: usize,
    },
}

/// A rate of requests per second, and how they are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Equal gaps.
    Constant(f64),
    /// Exponentially distributed gaps, as between independent arrivals.
    Poisson(f64),
    /// A rate that changes linearly over the time of the run.
    Ramp {
        /// Rate at the beginning.
        from: f64,
        /// Rate at the end.
        to: f64,
    },
}

impl Rate {
    /// The mean over the time of the run, in requests per second.
    pub fn mean(self) -> f64 {
        match self {
            Self::Constant(rate) | Self::Poisson(rate) => rate,
            Self::Ramp { from, to } => f64::midpoint(from, to),
        }
    }
}

/// A part of the run with its own load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// The load.
    pub load: StageLoad,
    /// How long the stage takes.
    pub time: Duration,
}

/// The load of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StageLoad {
    /// A number of users in a closed loop.
    Users(usize),
    /// A rate in requests per second in an open loop, spread according to the plan's [`Rate`].
    Rate(f64),
}

impl fmt::Display for StageLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users(1) => f.write_str("1 user"),
            Self::Users(users) => write!(f, "{users} users"),
            Self::Rate(rate) => write!(f, "{rate}/s"),
        }
    }
}

/// A text with an invalid load of a stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number of users such as 100 nor a rate such as 100/s")]
pub struct StageLoadError(String);

impl FromStr for StageLoad {
    type Err = StageLoadError;

    /// Parses `100` as users and `100/s` as a rate.
    fn from_str(text: &str) -> Result<Self, StageLoadError> {
        let load = match text.strip_suffix("/s") {
            Some(rate) => rate.parse().map(Self::Rate).ok(),
            None => text.parse().map(Self::Users).ok(),
        };
        load.ok_or_else(|| StageLoadError(text.to_owned()))
    }
}

/// The pause of a user between a response and its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Think {
    /// No pause.
    #[default]
    None,
    /// A constant pause.
    Constant(Duration),
    /// A random pause in this range, uniformly distributed.
    Range {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
}

impl Think {
    /// Whether users do not pause.
    pub fn is_none(self) -> bool {
        matches!(self, Self::None | Self::Constant(Duration::ZERO))
    }

    /// The shortest and the longest time.
    pub fn bounds(self) -> (Duration, Duration) {
        match self {
            Self::None => (Duration::ZERO, Duration::ZERO),
            Self::Constant(time) => (time, time),
            Self::Range { from, to } => (from, to),
        }
    }

    /// Draws the length of one pause.
    pub fn draw(self, random: &mut Random) -> Duration {
        let (from, to) = self.bounds();
        if from == to {
            return from;
        }
        let share = random.next_u64() as f64 / u64::MAX as f64;
        from + to.saturating_sub(from).mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, StageLoad, Think};
    use stats::Random;
    use std::time::Duration;

    #[test]
    fn stage_loads_are_parsed_and_displayed() {
        let read = |text: &str| text.parse::<StageLoad>();
        assert_eq!((read("100"), read("2.5/s")), (Ok(StageLoad::Users(100)), Ok(StageLoad::Rate(2.5))));
        assert!(["", "/s", "-1", "1.5", "1/m", "x"].iter().all(|text| read(text).is_err()));
        let texts = ["1", "20", "0.5/s"].map(|text| read(text).unwrap().to_string());
        assert_eq!(texts, ["1 user", "20 users", "0.5/s"]);
    }

    #[test]
    fn think_times_lie_between_their_bounds() {
        let (from, to) = (Duration::from_secs(1), Duration::from_secs(3));
        let mut random = Random::from_seed(1);
        let drawn: Vec<Duration> = (0..100).map(|_| Think::Range { from, to }.draw(&mut random)).collect();
        assert!(drawn.iter().all(|time| (from..=to).contains(time)));
        assert!(drawn.iter().any(|time| *time < from * 2) && drawn.iter().any(|time| *time > from * 2));
        assert_eq!(Think::Constant(to).draw(&mut random), to);
        assert_eq!(Think::None.draw(&mut random), Duration::ZERO);
    }

    #[test]
    fn ramp_has_the_mean_of_its_ends() {
        assert!((Rate::Ramp { from: 10.0, to: 30.0 }.mean() - 20.0).abs() < 1e-9);
    }
}
