//! The self-check: whether a run measured the server or its own generator.
//!
//! Invariant: a pure judgement over figures of the run, with every bound named here. It says what it saw; it
//! corrects nothing.

use std::fmt;
use std::time::Duration;

/// A generator thread busier than this was the limit itself.
pub const CPU_SHARE_INVALID: f64 = 0.95;

/// A generator thread busier than this has little in reserve; its answers queue at the generator.
pub const CPU_SHARE_TIGHT: f64 = 0.80;

/// How far the mean number of requests in flight may be from the number of users. In a closed loop without
/// think time Little's law makes them equal.
pub const LITTLE_RESIDUAL_INVALID: f64 = 0.05;

/// Answers per user below which Little's law is not checked: start and end of the run weigh too much then.
pub const LITTLE_ANSWERS_PER_USER_MIN: u64 = 50;

/// The share of the median latency that the generator's own lag may have at its 99th percentile.
pub const LAG_SHARE_TIGHT: f64 = 0.10;

/// Lag below this many microseconds is never worth a word.
pub const LAG_TIGHT_US_MIN: u64 = 100;

/// How far a run's figures can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The server was what was measured.
    #[default]
    Clean,
    /// The generator was near a limit of its own; small differences between runs mean nothing.
    Tight,
    /// The generator was the limit, or the figures contradict each other.
    Invalid,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "clean",
            Self::Tight => "tight",
            Self::Invalid => "invalid",
        })
    }
}

/// The result of the self-check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelfCheck {
    /// The verdict in one word.
    pub trust: Trust,
    /// Why it is not clean; empty if it is.
    pub reasons: Vec<String>,
    /// The share of the measured time that the busiest generator thread was on a core, 0 to 1.
    pub cpu_share_max: f64,
    /// 99th percentile of the time for which an answer may have lain unread because the generator was busy
    /// with others, in microseconds.
    pub lag_p99_us: u64,
    /// Mean requests in flight against users: 0.03 means 3 percent fewer (or, below zero, more) than there are
    /// users. `None` where the run is too short to tell.
    pub little_residual: Option<f64>,
}

/// What the self-check looks at.
pub(crate) struct Figures<'a> {
    pub(crate) users: usize,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: &'a [Duration],
    pub(crate) requests: u64,
    /// The time all requests together were in flight, failed ones included.
    pub(crate) in_flight: Duration,
    pub(crate) latency_p50_us: u64,
    pub(crate) lag_p99_us: u64,
    /// Connections that found no free local port.
    pub(crate) addresses_missing: u64,
}

impl SelfCheck {
    pub(crate) fn judge(figures: &Figures<'_>) -> Self {
        let mut check = Self {
            trust: Trust::Clean,
            reasons: Vec::new(),
            cpu_share_max: figures.cpu_share_max(),
            lag_p99_us: figures.lag_p99_us,
            little_residual: figures.little_residual(),
        };
        check.judge_cpu();
        if let Some(residual) =
            check.little_residual.filter(|residual| residual.abs() > LITTLE_RESIDUAL_INVALID)
        {
            check.add(
                Trust::Invalid,
                format!(
                    "the answers account for {:.1} of {} users (Little's law): the others were idle or stuck",
                    figures.users as f64 * (1.0 - residual),
                    figures.users
                ),
            );
        }
        if figures.addresses_missing > 0 {
            let count = figures.addresses_missing;
            check.add(Trust::Invalid, format!("{count} connections found no free local port"));
        }
        let lag_bound_us = (figures.latency_p50_us as f64 * LAG_SHARE_TIGHT) as u64;
        if figures.lag_p99_us > lag_bound_us.max(LAG_TIGHT_US_MIN) {
            check.add(
                Trust::Tight,
                format!(
                    "answers waited up to {} us (p99) for the generator, the median latency is {} us",
                    figures.lag_p99_us, figures.latency_p50_us
                ),
            );
        }
        check
    }

    fn judge_cpu(&mut self) {
        let share = self.cpu_share_max;
        let percent = share * 100.0;
        if share > CPU_SHARE_INVALID {
            self.add(Trust::Invalid, format!("a generator thread was on a core {percent:.0}% of the time"));
        } else if share > CPU_SHARE_TIGHT {
            self.add(Trust::Tight, format!("a generator thread was on a core {percent:.0}% of the time"));
        }
    }

    fn add(&mut self, trust: Trust, reason: String) {
        self.trust = self.trust.max(trust);
        self.reasons.push(reason);
    }
}

impl Figures<'_> {
    fn cpu_share_max(&self) -> f64 {
        let busiest = self.cpu.iter().max().copied().unwrap_or_default();
        if self.elapsed.is_zero() { 0.0 } else { busiest.as_secs_f64() / self.elapsed.as_secs_f64() }
    }

    fn little_residual(&self) -> Option<f64> {
        let enough = self.requests >= LITTLE_ANSWERS_PER_USER_MIN.saturating_mul(self.users as u64);
        (enough && !self.elapsed.is_zero())
            .then(|| 1.0 - self.in_flight.as_secs_f64() / (self.elapsed.as_secs_f64() * self.users as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, SelfCheck, Trust};
    use std::time::Duration;

    const CPU: [Duration; 2] = [Duration::from_millis(2_000), Duration::from_millis(4_000)];

    /// Ten users over ten seconds, always busy, half a core.
    fn quiet() -> Figures<'static> {
        Figures {
            users: 10,
            elapsed: Duration::from_secs(10),
            cpu: &CPU,
            requests: 10_000,
            in_flight: Duration::from_secs(99),
            latency_p50_us: 10_000,
            lag_p99_us: 500,
            addresses_missing: 0,
        }
    }

    #[test]
    fn a_quiet_run_is_clean() {
        let check = SelfCheck::judge(&quiet());
        assert_eq!((check.trust, check.reasons.len()), (Trust::Clean, 0));
        assert!((check.cpu_share_max - 0.4).abs() < 1e-9);
        assert!((check.little_residual.unwrap() - 0.01).abs() < 1e-9);
    }

    #[test]
    fn a_busy_thread_is_tight_and_a_saturated_one_invalid() {
        let trust =
            |millis| SelfCheck::judge(&Figures { cpu: &[Duration::from_millis(millis)], ..quiet() }).trust;
        assert_eq!((trust(7_900), trust(8_100), trust(9_600)), (Trust::Clean, Trust::Tight, Trust::Invalid));
    }

    #[test]
    fn idle_users_make_a_run_invalid_once_there_are_enough_answers() {
        let idle = Figures { in_flight: Duration::from_secs(80), ..quiet() };
        let check = SelfCheck::judge(&idle);
        assert_eq!(check.trust, Trust::Invalid);
        assert_eq!(
            check.reasons,
            ["the answers account for 8.0 of 10 users (Little's law): the others were idle or stuck"]
        );
        assert_eq!(SelfCheck::judge(&Figures { requests: 499, ..idle }).little_residual, None);
    }

    #[test]
    fn lag_counts_against_the_latency_it_is_part_of() {
        let trust =
            |lag, p50| SelfCheck::judge(&Figures { lag_p99_us: lag, latency_p50_us: p50, ..quiet() }).trust;
        assert_eq!((trust(1_001, 10_000), trust(999, 10_000)), (Trust::Tight, Trust::Clean));
        assert_eq!((trust(100, 50), trust(101, 50)), (Trust::Clean, Trust::Tight));
    }

    #[test]
    fn missing_ports_are_this_machines_fault() {
        assert_eq!(SelfCheck::judge(&Figures { addresses_missing: 1, ..quiet() }).trust, Trust::Invalid);
    }

    #[test]
    fn the_worst_word_wins_and_all_reasons_are_given() {
        let bad = Figures { cpu: &[Duration::from_secs(10)], lag_p99_us: 5_000, ..quiet() };
        let check = SelfCheck::judge(&bad);
        assert_eq!((check.trust, check.reasons.len()), (Trust::Invalid, 2));
    }
}
