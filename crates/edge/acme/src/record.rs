//! When the next attempt at a certificate is due: renewal, and the pause after failures.
//!
//! Invariant: these are functions of their arguments. An attempt counts as failed from its
//! beginning, so that a restart in the middle of it does not repeat it at once.

use clock::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Pause after the first failure. Each further failure makes it [`PAUSE_FACTOR`] times as long.
/// Four attempts fall into the first hour; Let's Encrypt permits five failed ones.
pub(crate) const PAUSE: Duration = Duration::from_secs(2 * 60);

const PAUSE_FACTOR: u32 = 4;

/// Longest such pause, except if the authority asks for a longer one.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// A certificate that replaces one that expires less than one part in this many of its lifetime
/// earlier came quickly. The next one waits as long.
const QUICK_PART: u32 = 20;

/// Longest pause that an authority may ask for.
pub(crate) const ASKED_PAUSE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The validity period of a certificate.
pub(crate) type Validity = (Timestamp, Timestamp);

/// The record of the attempts at one certificate, kept across restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Record {
    /// The names that the attempts were for.
    pub(crate) names: Vec<String>,
    /// Failed attempts since the last success.
    #[serde(default)]
    pub(crate) failures: u32,
    /// No attempt before this time, in seconds since 1970.
    #[serde(default)]
    pub(crate) not_before_secs: u64,
    /// Why the last attempt failed.
    #[serde(default)]
    pub(crate) last_error: Option<String>,
    /// The plan for the renewal of the certificate that was obtained last.
    #[serde(default)]
    pub(crate) renewal: Option<RenewalPlan>,
}

/// When a certificate is to be renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct RenewalPlan {
    /// The end of the certificate's validity, in seconds since 1970. The plan is for no other.
    pub(crate) expires_secs: u64,
    /// When the renewal is due, in seconds since 1970.
    pub(crate) renew_at_secs: u64,
    /// When the authority is to be asked again for its opinion (RFC 9773), in seconds since 1970.
    pub(crate) ask_at_secs: u64,
}

impl Record {
    /// When the next attempt is due for these names. `held` is the validity of the authority's
    /// certificate for all of them, if there is one.
    pub(crate) fn due(&self, names: &[String], held: Option<Validity>) -> Timestamp {
        if self.names != names {
            return Timestamp::default();
        }
        let wanted = held.map_or_else(Timestamp::default, |held| self.renewal_of(held));
        // After a success only a renewal waits. A missing certificate is obtained at once.
        let waits = self.failures > 0 || held.is_some();
        wanted.max(Timestamp::from_secs(if waits { self.not_before_secs } else { 0 }))
    }

    /// When a certificate with this validity is to be renewed.
    fn renewal_of(&self, held: Validity) -> Timestamp {
        let planned = self.renewal.as_ref().filter(|plan| plan.expires_secs == held.1.as_secs());
        planned.map_or_else(|| renewal_time(held, 0), |plan| Timestamp::from_secs(plan.renew_at_secs))
    }

    /// Records that an attempt begins. `chance` is a random number.
    pub(crate) fn begin(&mut self, names: &[String], now: Timestamp, chance: u64) {
        if self.names != names {
            *self = Self { names: names.to_vec(), ..Self::default() };
        }
        self.failures = self.failures.saturating_add(1);
        self.not_before_secs = now.plus(pause_after(self.failures, None, chance)).as_secs();
    }

    /// Records that the attempt that has begun failed. `asked` is the pause that the authority
    /// asked for.
    pub(crate) fn fail(&mut self, reason: String, now: Timestamp, asked: Option<Duration>, chance: u64) {
        self.not_before_secs = now.plus(pause_after(self.failures, asked, chance)).as_secs();
        self.last_error = Some(reason);
    }

    /// Records that the attempt that has begun produced a certificate.
    ///
    /// An authority may want a certificate to be replaced at once (RFC 9773). If the new one
    /// follows its predecessor as quickly, the clock or the authority is wrong: the next attempt
    /// and the next question then wait.
    pub(crate) fn succeed(&mut self, held: Validity, now: Timestamp, chance: u64) {
        let pause = held.1.since(held.0) / QUICK_PART;
        let is_quick = |before: &RenewalPlan| held.1 < Timestamp::from_secs(before.expires_secs).plus(pause);
        let is_quick = self.renewal.as_ref().is_some_and(is_quick);
        let next_secs = if is_quick { now.plus(pause).as_secs() } else { 0 };
        self.failures = 0;
        self.not_before_secs = next_secs;
        self.last_error = None;
        self.renewal = Some(RenewalPlan {
            expires_secs: held.1.as_secs(),
            renew_at_secs: renewal_time(held, chance).as_secs(),
            ask_at_secs: next_secs,
        });
    }
}

/// When a certificate is to be renewed without the authority's opinion: at two thirds of its
/// lifetime, and up to a thirtieth of it later, so that many servers do not renew at once.
pub(crate) fn renewal_time((from, to): Validity, chance: u64) -> Timestamp {
    let lifetime = to.since(from);
    from.plus(lifetime * 2 / 3).plus(share(lifetime / 30, chance))
}

/// A random moment in the window that the authority suggests (RFC 9773 section 4.2).
pub(crate) fn within((from, to): Validity, chance: u64) -> Timestamp {
    from.plus(share(to.since(from), chance))
}

/// The pause after this many failures, with up to a quarter more by chance.
pub(crate) fn pause_after(failures: u32, asked: Option<Duration>, chance: u64) -> Duration {
    let factor = PAUSE_FACTOR.saturating_pow(failures.saturating_sub(1));
    let pause = PAUSE.saturating_mul(factor).min(PAUSE_MAX);
    let pause = pause + share(pause / 4, chance);
    pause.max(asked.unwrap_or_default().min(ASKED_PAUSE_MAX))
}

/// A random part of a duration.
fn share(whole: Duration, chance: u64) -> Duration {
    let part = u128::from(chance) * whole.as_millis() / (u128::from(u64::MAX) + 1);
    Duration::from_millis(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{
        ASKED_PAUSE_MAX, PAUSE, PAUSE_MAX, QUICK_PART, Record, RenewalPlan, pause_after, renewal_time, within,
    };
    use clock::Timestamp;
    use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);
    const DAY: Duration = Duration::from_secs(86_400);

    fn names() -> Vec<String> {
        vec!["www.example.org".to_owned()]
    }

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_lifetime() {
        let held = (NOW, NOW.plus(DAY * 90));
        assert_eq!(renewal_time(held, 0), NOW.plus(DAY * 60));
        let latest = renewal_time(held, u64::MAX);
        assert!(latest > NOW.plus(DAY * 62) && latest <= NOW.plus(DAY * 63));
        let mut record = Record::default();
        assert_eq!(record.due(&names(), Some(held)), Timestamp::default(), "other names");
        record.begin(&names(), NOW, 0);
        record.succeed(held, NOW, u64::MAX / 2);
        let planned = renewal_time(held, u64::MAX / 2);
        assert_eq!(record.due(&names(), Some(held)).as_secs(), planned.as_secs());
        let other = (NOW, NOW.plus(DAY * 9));
        assert_eq!(record.due(&names(), Some(other)), NOW.plus(DAY * 6), "the plan is for another");
        assert_eq!(record.due(&names(), None), Timestamp::default(), "the certificate is gone");
        // The clock is wrong: each new certificate seems to be due already.
        let (late, week) = (NOW.plus(DAY * 5), (NOW, NOW.plus(DAY * 6)));
        record = Record { names: names(), ..Record::default() };
        record.succeed(week, late, 0);
        assert!(record.due(&names(), Some(week)) < late, "the first is replaced at once");
        record.succeed(week, late, 0);
        let soonest = late.plus(DAY * 6 / QUICK_PART);
        assert_eq!(record.due(&names(), Some(week)), soonest);
        assert_eq!(record.renewal.as_ref().unwrap().ask_at_secs, soonest.as_secs());
        let begins = (NOW, NOW.plus(DAY));
        assert!((within(begins, 0), within(begins, u64::MAX)) == (NOW, NOW.plus(DAY - MILLI)));
    }

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_grow_and_the_authority_can_prolong_them() {
        let pauses: Vec<_> = (1..9).map(|failures| pause_after(failures, None, 0).as_secs() / 60).collect();
        assert_eq!(pauses, [2, 8, 32, 128, 512, 720, 720, 720]);
        let hour = Duration::from_secs(3600);
        assert_eq!(pause_after(1, Some(hour), 0), hour);
        assert_eq!(pause_after(7, Some(hour), 0), PAUSE_MAX);
        assert_eq!(pause_after(1, Some(DAY * 999), 0), ASKED_PAUSE_MAX);
    }

    #[test]
    fn a_restart_within_an_attempt_waits_like_after_a_failure() {
        let mut record = Record::default();
        record.begin(&names(), NOW, 0);
        let read: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read.due(&names(), None), NOW.plus(PAUSE));
        record.fail("no answer".to_owned(), NOW, Some(DAY), 0);
        assert_eq!(record.due(&names(), None), NOW.plus(DAY));
        record.begin(&names(), NOW.plus(DAY), 0);
        assert_eq!((record.failures, record.last_error.as_deref()), (2, Some("no answer")));
        let more = vec!["www.example.org".to_owned(), "example.org".to_owned()];
        assert_eq!(record.due(&more, None), Timestamp::default(), "other names are tried at once");
        record.begin(&more, NOW, 0);
        assert_eq!((record.failures, &record.last_error), (1, &None));
    }

    #[test]
    fn an_older_record_without_some_members_is_read() {
        let record: Record = serde_json::from_str(r#"{"names":["a.test"]}"#).unwrap();
        assert_eq!((record.failures, record.renewal), (0, None::<RenewalPlan>));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_pause_is_between_its_limits(failures in any::<u32>(), asked in any::<u32>(), chance in any::<u64>()) {
            let asked = Duration::from_secs(asked.into());
            let pause = pause_after(failures, Some(asked), chance);
            prop_assert!(pause >= PAUSE && pause <= ASKED_PAUSE_MAX);
            prop_assert!(pause >= asked.min(ASKED_PAUSE_MAX));
            prop_assert!(pause_after(failures, None, chance) <= PAUSE_MAX * 5 / 4);
        }

        #[test]
        fn a_renewal_is_within_the_lifetime(from in 0_u32.., days in 1_u32..4000, chance in any::<u64>()) {
            let from = Timestamp::from_secs(from.into());
            let to = from.plus(DAY * days);
            let at = renewal_time((from, to), chance);
            prop_assert!(at >= from.plus(DAY * days * 2 / 3) && at < to);
        }
    }
}
