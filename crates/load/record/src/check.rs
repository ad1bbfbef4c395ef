//! The self-check: whether a run measured the server or its own generator.
//!
//! Invariant: the check is a pure function of the run's figures, and every threshold is a constant
//! here. It reports problems and corrects no figure.

use crate::account::Account;
use crate::little::LittlesLaw;
use std::fmt;
use std::time::Duration;

/// CPU share of a generator thread above which the generator was the bottleneck.
pub const CPU_SHARE_INVALID: f64 = 0.95;

/// CPU share of a generator thread above which it has little in reserve, and responses queue at the
/// generator.
pub const CPU_SHARE_TIGHT: f64 = 0.80;

/// The share of the users' time that the generator may take: late to send, unread and being
/// processed.
pub const LOST_SHARE_INVALID: f64 = 0.05;

/// Time lost per request, in microseconds, below which the loss does not make a run invalid.
///
/// A client that sleeps until its response comes cannot read it earlier, because waking takes 10 to
/// 100 us. Percentiles do not include this time, because response times end with the kernel's
/// timestamp. In an open loop throughput is not affected either, so the loss is not reported. The
/// same allowance applies to each earlier piece of a response.
pub const LOST_US_PER_REQUEST_MIN: f64 = 100.0;

/// The share of responses that end with a close of their connection above which a wait for cores
/// matters. The generator then cannot tell its own time from the server's.
const CLOSED_SHARE_MAX: f64 = 0.05;

/// The largest difference between the good responses times their published mean and the time at the
/// server, as a share of the latter.
pub const ACCOUNT_GAP_INVALID: f64 = 0.01;

/// The contribution of each response to this difference, in microseconds, because published times
/// are cut to whole microseconds.
pub const ACCOUNT_GAP_US_PER_ANSWER: f64 = 1.0;

/// The largest deviation from Little's law, as a share. In a closed loop, the time users spend in
/// requests and between them is compared with their total time. In an open loop, the time of all
/// requests is compared with the number in flight, summed up over time.
pub const LITTLE_RESIDUAL_INVALID: f64 = 0.05;

/// Little's law is not checked below this many responses per user (in an open loop: responses),
/// because the start and end of the run weigh too much.
pub const LITTLE_ANSWERS_PER_USER_MIN: u64 = 50;

/// Run time below which Little's law is not checked, because creating threads and connections takes
/// milliseconds.
pub const LITTLE_ELAPSED_MIN: Duration = Duration::from_millis(500);

/// The largest share of the median latency that the 99th percentile of the generator's own lag may
/// have.
pub const LAG_SHARE_TIGHT: f64 = 0.10;

/// Lag below this many microseconds is never reported.
pub const LAG_TIGHT_US_MIN: u64 = 100;

/// The share of requests due but not started above which a run is invalid, because its percentiles
/// are not those of the requested rate.
pub const NOT_STARTED_SHARE_INVALID: f64 = 0.01;

/// A run that starts less than this share of the requested requests is invalid.
pub const RATE_SHARE_INVALID: f64 = 0.95;

/// Requested requests below which the rate is not checked, because chance weighs too much.
pub const RATE_REQUESTS_MIN: f64 = 1_000.0;

/// A schedule lag (99th percentile) above this share of the median latency makes a run invalid, if
/// it is also above [`SCHEDULE_LAG_INVALID_US_MIN`].
pub const SCHEDULE_LAG_SHARE_INVALID: f64 = 0.5;

/// Schedule lag below this many microseconds does not make a run invalid.
pub const SCHEDULE_LAG_INVALID_US_MIN: u64 = 1_000;

/// How far a run's figures can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The figures measure the server.
    #[default]
    Clean,
    /// The generator was close to its own limits; small differences between runs mean nothing.
    Tight,
    /// The generator was the bottleneck, or the figures contradict each other.
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
    /// The overall verdict.
    pub trust: Trust,
    /// Why the verdict is not clean; empty if it is.
    pub reasons: Vec<String>,
    /// CPU share of the busiest generator thread: its time on a core, divided by the measured time.
    pub cpu_share_max: f64,
    /// 99th percentile of the time a response may have waited unread because the generator was busy
    /// with others, in microseconds.
    pub lag_p99_us: u64,
    /// The rate requested for an open loop, in requests per second.
    pub rate_asked: Option<f64>,
    /// The rate at which requests of an open loop were started, in requests per second. See
    /// [`SelfCheck::rate_asked`].
    pub rate_started: Option<f64>,
    /// 99th percentile of the delay of requests of an open loop behind their intended start, in
    /// microseconds.
    pub schedule_lag_p99_us: Option<u64>,
    /// The share missing from the value that Little's law expects; `None` if the run is too short
    /// to tell.
    ///
    /// In a closed loop, 0.03 means that requests and the time between them account for 3 percent
    /// fewer users than there are. A value below zero means more users. In an open loop, the times
    /// of requests are compared with the number in flight.
    pub little_residual: Option<f64>,
    /// The users' time by state.
    pub account: Account,
    /// The difference between the good responses times their published mean (connecting left out)
    /// and the time at the server, as a share of the latter. `None` without good responses.
    pub account_gap: Option<f64>,
    /// How long the generator's threads were ready to run but waited for a core; `None` if the
    /// system does not report it. It explains late or unread time and is no part of the account.
    pub core_wait: Option<Duration>,
    /// How long early bytes of a response, or bytes of a handshake, had arrived but were not read.
    /// The server may have waited meanwhile, so this is in no term of the account.
    pub held_back: Duration,
    /// The part of `held_back` that waking does not explain: for each piece, the time above
    /// [`LOST_US_PER_REQUEST_MIN`].
    pub held_back_excess: Duration,
    /// Whether the generator took, or may have taken, more than a twentieth of the users' time, and
    /// more than waking explains. A run with this flag is not clean, and its figures are not
    /// compared.
    pub may_have_lost: bool,
}

/// The figures that the self-check judges.
pub struct CheckInput<'a> {
    /// `None` for an open loop.
    pub users: Option<usize>,
    /// How long the measured part took.
    pub elapsed: Duration,
    /// CPU time of each generator thread, without busy-waits.
    pub cpu: &'a [Duration],
    /// Requests that ended.
    pub requests: u64,
    /// Both sides of Little's law.
    pub little: LittlesLaw,
    /// The median latency, in microseconds.
    pub latency_p50_us: u64,
    /// See [`SelfCheck::lag_p99_us`].
    pub lag_p99_us: u64,
    /// Connections that found no free local port.
    pub addresses_missing: u64,
    /// Further figures of an open loop; `None` for a closed loop.
    pub open: Option<OpenLoop>,
    /// The users' time by state.
    pub account: Account,
    /// Good responses.
    pub good: u64,
    /// Good responses times the published mean of their times, connecting left out.
    pub published: Duration,
    /// See [`SelfCheck::core_wait`].
    pub core_wait: Option<Duration>,
    /// See [`SelfCheck::held_back`].
    pub held_back: Duration,
    /// The part of `held_back` that waking does not explain.
    pub held_back_excess: Duration,
    /// Responses that ended with the close of their connection.
    pub ends_with_close: u64,
}

/// Further figures of an open loop.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoop {
    /// The requested rate, in requests per second.
    pub rate_asked: f64,
    /// How long the parts with a rate were measured.
    pub time: Duration,
    /// Whether other stages have users.
    pub has_users: bool,
    /// Requests that fell due and were started.
    pub started: u64,
    /// Requests that fell due and were not started.
    pub not_started: u64,
    /// 99th percentile of the delay of requests behind their intended start, in microseconds.
    pub schedule_lag_p99_us: u64,
}

impl SelfCheck {
    /// Judges the figures of a run.
    pub fn judge(figures: &CheckInput<'_>) -> Self {
        let mut check = Self {
            trust: Trust::Clean,
            reasons: Vec::new(),
            cpu_share_max: figures.cpu_share_max(),
            lag_p99_us: figures.lag_p99_us,
            rate_asked: figures.open.map(|open| open.rate_asked),
            rate_started: figures.rate_started(),
            schedule_lag_p99_us: figures.open.map(|open| open.schedule_lag_p99_us),
            little_residual: figures.little_residual(),
            account: figures.account,
            account_gap: figures.account_gap(),
            core_wait: figures.core_wait,
            held_back: figures.held_back,
            held_back_excess: figures.held_back_excess,
            may_have_lost: false,
        };
        check.judge_account(figures);
        check.judge_held_back();
        check.judge_closes(figures);
        check.judge_published(figures);
        check.judge_cpu();
        check.judge_little(figures);
        if let Some(open) = figures.open {
            check.judge_rate(open);
            check.judge_schedule(figures, open);
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
                    "responses waited up to {} us (p99) for the generator; the median latency is {} us",
                    figures.lag_p99_us, figures.latency_p50_us
                ),
            );
        }
        check
    }

    fn judge_account(&mut self, figures: &CheckInput<'_>) {
        let Some(share) = self.account.lost_share().filter(|share| *share > LOST_SHARE_INVALID) else {
            return;
        };
        let whose = match figures.open {
            None => "users'",
            Some(open) if open.has_users => "users' and requests'",
            Some(_) => "requests'",
        };
        let (lost, total) = (self.account.lost().as_secs_f64(), self.account.total().as_secs_f64());
        let is_small = lost * 1e6 < LOST_US_PER_REQUEST_MIN * figures.requests as f64;
        if is_small && figures.open.is_some_and(|open| !open.has_users) {
            return;
        }
        let terms = self
            .account
            .lost_terms()
            .map(|(name, time)| format!("{name} {:.1}%", time.as_secs_f64() / total * 100.0));
        let waited = self.core_wait.filter(|wait| !wait.is_zero());
        let why = waited.map(|wait| format!("; its threads waited {:.2} s for a core", wait.as_secs_f64()));
        // In a short run, creating threads and connections weighs too much: it takes milliseconds.
        let is_tight = is_small || figures.elapsed < LITTLE_ELAPSED_MIN;
        self.may_have_lost |= !is_small;
        let each = is_small.then(|| format!(" ({:.0} us a request)", lost * 1e6 / figures.requests as f64));
        self.add(
            if is_tight { Trust::Tight } else { Trust::Invalid },
            format!(
                "the generator took {:.1}% of the {whose} time{}: {}{}",
                share * 100.0,
                each.unwrap_or_default(),
                terms.join(", "),
                why.unwrap_or_default()
            ),
        );
    }

    /// Judges bytes that were read late. They may have kept the server from sending more, but the
    /// server may also have been busy.
    ///
    /// The wake-up allowance applies to each piece, not to the average. Otherwise many pieces that
    /// were read at once would hide the long waits of a generator without a core.
    fn judge_held_back(&mut self) {
        let total = self.account.total().as_secs_f64();
        let [held_back, excess] = [self.held_back, self.held_back_excess].map(|time| time.as_secs_f64());
        if excess <= total * LOST_SHARE_INVALID {
            return;
        }
        self.may_have_lost = true;
        self.add(
            Trust::Tight,
            format!(
                "beginnings of responses, or handshakes, waited {:.1}% of the time to be read ({:.1}% without \
                 {LOST_US_PER_REQUEST_MIN} us a piece): the server may have waited too",
                held_back / total * 100.0,
                excess / total * 100.0
            ),
        );
    }

    /// Judges responses that end with a close. The time of a close is when it was read, so a wait
    /// of the generator for a core looks like the server's time.
    fn judge_closes(&mut self, figures: &CheckInput<'_>) {
        let share = figures.ends_with_close as f64 / figures.requests.max(1) as f64;
        let running = figures.elapsed.as_secs_f64() * figures.cpu.len() as f64;
        let waited = figures.core_wait.map_or(0.0, |wait| wait.as_secs_f64());
        if share <= CLOSED_SHARE_MAX || waited <= running * LOST_SHARE_INVALID {
            return;
        }
        self.may_have_lost = true;
        self.add(
            Trust::Tight,
            format!(
                "{:.0}% of the responses ended with a close, whose time is not known exactly; the \
                 generator's threads waited {waited:.2} s for a core",
                share * 100.0
            ),
        );
    }

    fn judge_published(&mut self, figures: &CheckInput<'_>) {
        let server = self.account.server.as_secs_f64();
        let gap = (figures.published.as_secs_f64() - server).abs();
        let rounding = figures.good as f64 * ACCOUNT_GAP_US_PER_ANSWER / 1e6;
        if gap > server * ACCOUNT_GAP_INVALID + rounding {
            self.add(
                Trust::Invalid,
                format!(
                    "{} good responses times their mean are {:.3} s, but users waited for the server for {server:.3} s",
                    figures.good,
                    figures.published.as_secs_f64()
                ),
            );
        }
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

    fn judge_little(&mut self, figures: &CheckInput<'_>) {
        let is_off = |share: f64| share.abs() > LITTLE_RESIDUAL_INVALID;
        let residual = self.little_residual.filter(|&residual| is_off(residual));
        let Some(residual) = residual.filter(|_| figures.little.unexplained().is_some_and(is_off)) else {
            return;
        };
        self.add(Trust::Invalid, match figures.users {
            Some(users) if residual > 0.0 => format!(
                "the responses account for {:.1} of {users} users (Little's law); the others were idle or stuck",
                users as f64 * (1.0 - residual),
            ),
            Some(users) => format!(
                "the responses account for {:.1} users, but there were {users} (Little's law)",
                users as f64 * (1.0 - residual),
            ),
            None => format!(
                "the times of the requests and the number in flight differ by {:.1}% (Little's law)",
                residual.abs() * 100.0
            ),
        });
    }

    fn judge_rate(&mut self, open: OpenLoop) {
        let due = (open.started + open.not_started).max(1);
        if open.not_started > 0 {
            let share = open.not_started as f64 / due as f64;
            let trust = if share > NOT_STARTED_SHARE_INVALID { Trust::Invalid } else { Trust::Tight };
            let reason = format!(
                "{} requests fell due and were not started, because the limit of requests in flight was reached",
                open.not_started
            );
            self.add(trust, reason);
        } else if let Some(started) = self.rate_started
            && started < open.rate_asked * RATE_SHARE_INVALID
            && open.rate_asked * open.time.as_secs_f64() >= RATE_REQUESTS_MIN
        {
            let reason = format!(
                "{:.1} requests a second were demanded, but only {started:.1} started",
                open.rate_asked
            );
            self.add(Trust::Invalid, reason);
        }
    }

    fn judge_schedule(&mut self, figures: &CheckInput<'_>, open: OpenLoop) {
        let (lag_us, median_us) = (open.schedule_lag_p99_us, figures.latency_p50_us);
        let share = lag_us as f64 / median_us.max(1) as f64;
        let reason =
            format!("requests started up to {lag_us} us late (p99); the median latency is {median_us} us");
        if share > SCHEDULE_LAG_SHARE_INVALID && lag_us > SCHEDULE_LAG_INVALID_US_MIN {
            self.add(Trust::Invalid, reason);
        } else if share > LAG_SHARE_TIGHT && lag_us > LAG_TIGHT_US_MIN {
            self.add(Trust::Tight, reason);
        }
    }

    fn add(&mut self, trust: Trust, reason: String) {
        self.trust = self.trust.max(trust);
        self.reasons.push(reason);
    }
}

impl CheckInput<'_> {
    fn cpu_share_max(&self) -> f64 {
        let busiest = self.cpu.iter().max().copied().unwrap_or_default();
        if self.elapsed.is_zero() { 0.0 } else { busiest.as_secs_f64() / self.elapsed.as_secs_f64() }
    }

    fn account_gap(&self) -> Option<f64> {
        let server = self.account.server.as_secs_f64();
        (server > 0.0).then(|| (self.published.as_secs_f64() - server).abs() / server)
    }

    fn rate_started(&self) -> Option<f64> {
        let open = self.open.filter(|open| !open.time.is_zero())?;
        Some(open.started as f64 / open.time.as_secs_f64())
    }

    fn little_residual(&self) -> Option<f64> {
        let users = self.users.unwrap_or(1) as u64;
        let enough = self.requests >= LITTLE_ANSWERS_PER_USER_MIN.saturating_mul(users)
            && self.elapsed >= LITTLE_ELAPSED_MIN;
        self.little.residual().filter(|_| enough)
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, CheckInput, LittlesLaw, OpenLoop, SelfCheck, Trust};
    use std::time::Duration;

    const CPU: [Duration; 2] = [Duration::from_millis(2_000), Duration::from_millis(4_000)];

    /// Requests that took this long in total, of ten users over ten seconds who needed another
    /// second to process responses.
    fn requests_of(millis: u64) -> LittlesLaw {
        let account = Account { processing: Duration::from_secs(1), ..Account::default() };
        let users = Duration::from_secs(100);
        LittlesLaw::closed(Duration::from_millis(millis), Duration::ZERO, &account, users)
    }

    /// Ten users over ten seconds, always busy, half a core.
    fn quiet() -> CheckInput<'static> {
        CheckInput {
            users: Some(10),
            elapsed: Duration::from_secs(10),
            cpu: &CPU,
            requests: 10_000,
            little: requests_of(98_000),
            latency_p50_us: 10_000,
            lag_p99_us: 500,
            addresses_missing: 0,
            open: None,
            account: Account {
                server: Duration::from_secs(97),
                unread: Duration::from_secs(2),
                processing: Duration::from_secs(1),
                ..Account::default()
            },
            good: 10_000,
            published: Duration::from_millis(96_995),
            core_wait: None,
            held_back: Duration::ZERO,
            held_back_excess: Duration::ZERO,
            ends_with_close: 0,
        }
    }

    #[test]
    fn early_bytes_that_were_read_late_make_a_run_tight() {
        let check = |held_back, excess| {
            let [held_back, held_back_excess] = [held_back, excess].map(Duration::from_millis);
            let check = SelfCheck::judge(&CheckInput { held_back, held_back_excess, ..quiet() });
            (check.trust, check.may_have_lost)
        };
        assert_eq!(
            check(9_000, 5_000),
            (Trust::Clean, false),
            "the pieces waited no longer than the wake-up latency"
        );
        assert_eq!(check(9_000, 5_001), (Trust::Tight, true));
        // The number of requests does not matter: the allowance is already in the excess.
        let (held_back, held_back_excess) = (Duration::from_millis(5_900), Duration::from_millis(5_500));
        let many = CheckInput { requests: 60_000, held_back, held_back_excess, ..quiet() };
        assert_eq!(SelfCheck::judge(&many).trust, Trust::Tight);
    }

    #[test]
    fn lost_time_is_flagged_above_100_us_a_request() {
        let check = |unread_ms, elapsed_ms| {
            let (unread, elapsed) = (Duration::from_millis(unread_ms), Duration::from_millis(elapsed_ms));
            let account = Account { unread, server: Duration::from_secs(10), ..Account::default() };
            let figures = CheckInput { account, elapsed, published: account.server, cpu: &[], ..quiet() };
            let check = SelfCheck::judge(&figures);
            (check.trust, check.may_have_lost)
        };
        // 10,000 requests: 99 us and 101 us each.
        assert_eq!(check(990, 10_000), (Trust::Tight, false), "the percentiles are still valid");
        assert_eq!(check(1_010, 10_000), (Trust::Invalid, true));
        assert_eq!(check(1_010, 400), (Trust::Tight, true));
    }

    #[test]
    fn late_users_are_judged_once_by_the_account() {
        // Ten users who think for 1 ms, wait for 0.2 ms and are 0.09 ms late: 7% of their time.
        let requests = 77_500;
        let each = |us: u64| Duration::from_micros(us * requests);
        let account =
            Account { thinking: each(1_000), server: each(200), late: each(90), ..Account::default() };
        let users = Duration::from_secs(100);
        let judge = |in_flight: Duration| {
            let little = LittlesLaw::closed(in_flight, Duration::ZERO, &account, users);
            let figures = CheckInput { requests, good: requests, account, little, ..quiet() };
            SelfCheck::judge(&CheckInput {
                published: account.server,
                latency_p50_us: 200,
                lag_p99_us: 0,
                ..figures
            })
        };
        let check = judge(each(200));
        assert_eq!((check.trust, check.reasons.len()), (Trust::Tight, 1), "{:?}", check.reasons);
        assert!(check.little_residual.unwrap() > 0.05, "the residual is published unchanged");
        // Time missing beyond the lateness is still reported.
        assert_eq!(judge(each(130)).trust, Trust::Invalid);
    }

    #[test]
    fn many_closes_and_waits_for_cores_make_a_run_tight() {
        let check = |ends_with_close, wait_millis| {
            let core_wait = Some(Duration::from_millis(wait_millis));
            let check = SelfCheck::judge(&CheckInput { ends_with_close, core_wait, ..quiet() });
            (check.trust, check.may_have_lost)
        };
        // Two threads for ten seconds.
        assert_eq!(check(10_000, 1_000), (Trust::Clean, false));
        assert_eq!(check(500, 20_000), (Trust::Clean, false));
        assert_eq!(check(501, 1_001), (Trust::Tight, true));
    }

    #[test]
    fn time_lost_to_the_generator_makes_a_run_invalid() {
        let lost = |late, unread| {
            let account = Account {
                late: Duration::from_millis(late),
                unread: Duration::from_millis(unread),
                server: Duration::from_millis(100_000 - late - unread),
                ..Account::default()
            };
            let figures = CheckInput { account, published: account.server, ..quiet() };
            SelfCheck::judge(&figures)
        };
        assert_eq!((lost(2_000, 2_900).trust, lost(2_000, 3_100).trust), (Trust::Clean, Trust::Invalid));
        assert_eq!(
            lost(2_000, 26_000).reasons,
            [
                "the generator took 28.0% of the users' time: unread 26.0%, late to send 2.0%, being processed 0.0%"
            ]
        );
        // The number of responses per user does not matter.
        let account = lost(9_000, 0).account;
        let few = CheckInput { requests: 10, good: 10, account, published: account.server, ..quiet() };
        let waited = Some(Duration::from_millis(1_500));
        let check = SelfCheck::judge(&CheckInput { core_wait: waited, ..few });
        assert_eq!((check.trust, check.little_residual), (Trust::Invalid, None));
        assert!(check.reasons[0].ends_with("; its threads waited 1.50 s for a core"), "{:?}", check.reasons);
    }

    #[test]
    fn wake_up_latency_alone_leaves_a_closed_loop_tight() {
        // One user of a fast server: a cycle of 50 us, or of 135 us and more if responses wait
        // unread.
        let check = |unread_us: u64| {
            let requests = 10_000_000 / (36 + unread_us);
            let [unread, server] = [unread_us, 36].map(|us| Duration::from_micros(us * requests));
            let account = Account { unread, server, ..Account::default() };
            SelfCheck::judge(&CheckInput { users: Some(1), requests, account, published: server, ..quiet() })
        };
        let [waking, just, late] = [14, 99, 101].map(check);
        assert_eq!((waking.trust, just.trust, late.trust), (Trust::Tight, Trust::Tight, Trust::Invalid));
        assert_eq!(
            waking.reasons[0],
            "the generator took 28.0% of the users' time (14 us a request): unread 28.0%, late to send 0.0%, being processed 0.0%"
        );
    }

    #[test]
    fn open_loop_may_lose_100_us_a_request() {
        let trust = |late_ms, has_users| {
            let late = Duration::from_millis(late_ms);
            let account = Account { late, server: Duration::from_secs(2), ..Account::default() };
            let open = Some(OpenLoop { has_users, ..punctual() });
            let figures = CheckInput { open, users: None, account, ..quiet() };
            SelfCheck::judge(&CheckInput { published: account.server, ..figures }).trust
        };
        assert_eq!((trust(990, false), trust(1_010, false)), (Trust::Clean, Trust::Invalid));
        // Users of other stages lose throughput by it.
        assert_eq!((trust(990, true), trust(1_010, true)), (Trust::Tight, Trust::Invalid));
    }

    #[test]
    fn published_times_must_agree_with_the_time_at_the_server() {
        let trust = |millis| {
            SelfCheck::judge(&CheckInput { published: Duration::from_millis(millis), ..quiet() }).trust
        };
        // One in a hundred, and a microsecond for each of 10,000 responses.
        assert_eq!((trust(96_021), trust(96_019)), (Trust::Clean, Trust::Invalid));
        assert_eq!((trust(97_979), trust(97_981)), (Trust::Clean, Trust::Invalid));
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
            |millis| SelfCheck::judge(&CheckInput { cpu: &[Duration::from_millis(millis)], ..quiet() }).trust;
        assert_eq!((trust(7_900), trust(8_100), trust(9_600)), (Trust::Clean, Trust::Tight, Trust::Invalid));
    }

    #[test]
    fn idle_users_make_a_run_invalid_given_enough_responses() {
        let idle = CheckInput { little: requests_of(79_000), ..quiet() };
        let check = SelfCheck::judge(&idle);
        assert_eq!(check.trust, Trust::Invalid);
        assert_eq!(
            check.reasons,
            ["the responses account for 8.0 of 10 users (Little's law); the others were idle or stuck"]
        );
        assert_eq!(SelfCheck::judge(&CheckInput { requests: 499, ..idle }).little_residual, None);
        let too_many = SelfCheck::judge(&CheckInput { little: requests_of(109_000), ..quiet() });
        assert_eq!(
            (too_many.trust, &*too_many.reasons[0]),
            (Trust::Invalid, "the responses account for 11.0 users, but there were 10 (Little's law)")
        );
    }

    #[test]
    fn lag_above_a_tenth_of_the_median_makes_a_run_tight() {
        let trust = |lag, p50| {
            SelfCheck::judge(&CheckInput { lag_p99_us: lag, latency_p50_us: p50, ..quiet() }).trust
        };
        assert_eq!((trust(1_001, 10_000), trust(999, 10_000)), (Trust::Tight, Trust::Clean));
        assert_eq!((trust(100, 50), trust(101, 50)), (Trust::Clean, Trust::Tight));
    }

    #[test]
    fn missing_local_ports_make_a_run_invalid() {
        assert_eq!(SelfCheck::judge(&CheckInput { addresses_missing: 1, ..quiet() }).trust, Trust::Invalid);
    }

    /// An open loop of 1,000 requests a second over ten seconds.
    fn punctual() -> OpenLoop {
        OpenLoop {
            rate_asked: 1_000.0,
            time: Duration::from_secs(10),
            has_users: false,
            started: 10_000,
            not_started: 0,
            schedule_lag_p99_us: 90,
        }
    }

    fn open(started: u64, not_started: u64, schedule_lag_p99_us: u64) -> SelfCheck {
        let open = OpenLoop { started, not_started, schedule_lag_p99_us, ..punctual() };
        SelfCheck::judge(&CheckInput { users: None, open: Some(open), ..quiet() })
    }

    #[test]
    fn an_open_loop_that_kept_its_schedule_is_clean() {
        let check = open(10_000, 0, 90);
        assert_eq!(
            (check.trust, check.rate_asked, check.rate_started),
            (Trust::Clean, Some(1_000.0), Some(1_000.0))
        );
        assert_eq!((check.schedule_lag_p99_us, check.reasons.len()), (Some(90), 0));
    }

    #[test]
    fn unstarted_and_late_requests_lower_the_trust() {
        let trust = |started, not_started, lag| open(started, not_started, lag).trust;
        assert_eq!((trust(9_950, 50, 0), trust(9_800, 200, 0)), (Trust::Tight, Trust::Invalid));
        assert_eq!((trust(9_510, 0, 0), trust(9_490, 0, 0)), (Trust::Clean, Trust::Invalid));
        // The median latency is ten milliseconds.
        assert_eq!((trust(10_000, 0, 999), trust(10_000, 0, 1_001)), (Trust::Clean, Trust::Tight));
        assert_eq!((trust(10_000, 0, 4_999), trust(10_000, 0, 5_001)), (Trust::Tight, Trust::Invalid));
    }

    #[test]
    fn worst_verdict_wins_and_all_reasons_are_listed() {
        let bad = CheckInput { cpu: &[Duration::from_secs(10)], lag_p99_us: 5_000, ..quiet() };
        let check = SelfCheck::judge(&bad);
        assert_eq!((check.trust, check.reasons.len()), (Trust::Invalid, 2));
    }
}
