//! What the guard grants to a client: the obvious reading of docs/guards.md.
//!
//! Invariant: the edge decides about a request between the moment at which its client sent it and
//! the moment at which the answer arrived. The model has bounds for both, and reports only what no
//! moment in between explains.

use crate::moment::Moment;
use std::time::Duration;
use world::Random;

/// A client is banned after this many refusals within this time.
const REFUSALS_MAX: u32 = 100;
const REFUSALS_LAST: Duration = Duration::from_secs(10);

/// A request in the units of the model, and the rounding of the edge.
const ONE: u128 = 1_000_000_000;
const ROUNDING: u128 = ONE / 100;

/// The longest `Retry-After` of a client that is not banned, because the edge grants at least one
/// request a second.
const RATE_WAIT_SECS: u64 = 1;

/// The limits of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardTerms {
    /// The requests of a client.
    pub requests: RateTerms,
    /// Its requests that need the origin.
    pub origin_requests: RateTerms,
    /// How long a client is banned, in seconds.
    pub ban_secs: u64,
    /// The largest number of connections of an address.
    pub connections_max: usize,
}

/// A rate with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateTerms {
    /// Requests a second in the long run.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

impl GuardTerms {
    /// Limits by chance.
    pub fn random(random: &mut Random) -> Self {
        let mut rate = |most: u64, burst: (u64, u64)| RateTerms {
            per_second: random.between(1, most) as u32,
            burst: random.between(burst.0, burst.1) as u32,
        };
        let (requests, origin_requests) = (rate(20, (12, 40)), rate(4, (10, 14)));
        let ban_secs = random.between(3, 15);
        Self { requests, origin_requests, ban_secs, connections_max: random.between(12, 16) as usize }
    }
}

/// The time within which the edge decided about a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) sent: Moment,
    pub(crate) received: Moment,
}

/// The answer of the guard to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was granted, and counted.
    Granted,
    /// It was not refused, and perhaps not counted.
    Unknown,
    /// It was refused because of this limit, with this `Retry-After`.
    Refused(u64),
    /// Its connection was closed at once.
    Closed,
}

/// What a client may still have of a rate.
#[derive(Debug)]
pub(crate) struct Bucket {
    terms: RateTerms,
    /// What is left at least, in parts of a request.
    least: u128,
    last_received: Moment,
    /// When each granted request was sent.
    granted: Vec<Moment>,
}

impl Bucket {
    pub(crate) fn new(terms: RateTerms) -> Self {
        let least = u128::from(terms.burst) * ONE;
        Self { terms, least, last_received: Moment::default(), granted: Vec::new() }
    }

    fn of(&self, time: Duration) -> u128 {
        u128::from(self.terms.per_second) * time.as_nanos()
    }

    /// Records an answer, and describes a limit that does not hold.
    fn record(&mut self, span: Span, verdict: Verdict, may_be_banned: bool) -> Result<(), String> {
        let full = u128::from(self.terms.burst) * ONE;
        self.least = full.min(self.least + self.of(span.sent.since(self.last_received)));
        self.last_received = span.received;
        match verdict {
            Verdict::Refused(_) if self.least >= ONE && !may_be_banned => {
                return Err("it is refused, although it is within its limits".to_owned());
            }
            Verdict::Refused(_) | Verdict::Closed => return Ok(()),
            Verdict::Granted => self.granted.push(span.sent),
            Verdict::Unknown => {}
        }
        self.least = self.least.saturating_sub(ONE);
        if verdict == Verdict::Unknown {
            return Ok(());
        }
        let many = self.granted.iter().rev().zip(1_u128..).find(|(sent, count)| {
            let share = full + self.of(span.received.since(**sent)) + ROUNDING;
            count * ONE > share
        });
        many.map_or(Ok(()), |(sent, count)| Err(format!("{count} requests are granted since {sent}")))
    }
}

/// What is known about the ban of a client.
#[derive(Debug)]
struct Bans {
    ban: Duration,
    /// The first refusal of a time in which the edge counts refusals, and their number. `None`:
    /// the next one is the first.
    window: Option<(Span, u32)>,
    /// Whether the edge may have begun to count at another moment.
    is_doubtful: bool,
    last_refusal: Option<Span>,
    /// Refusals since the last ban.
    refusals: u32,
    /// Until when the client is banned at least, and at most.
    least_until: Moment,
    most_until: Moment,
}

impl Bans {
    fn refused(&mut self, span: Span) {
        self.refusals += 1;
        let last = self.last_refusal.replace(span);
        let is_first = last.is_none_or(|last| span.sent.since(last.received) > REFUSALS_LAST);
        if is_first {
            (self.window, self.is_doubtful) = (Some((span, 1)), false);
        } else if let Some((first, count)) = &mut self.window {
            self.is_doubtful |= span.received.since(first.sent) > REFUSALS_LAST;
            *count += 1;
        } else {
            self.window = Some((span, 1));
        }
        let count = self.window.map_or(0, |(_, count)| count);
        if count >= REFUSALS_MAX && !self.is_doubtful {
            self.least_until = span.sent.plus(self.ban);
            self.most_until = span.received.plus(self.ban);
            self.begin_anew();
        } else if self.refusals >= REFUSALS_MAX {
            self.most_until = span.received.plus(self.ban);
        }
    }

    fn begin_anew(&mut self) {
        (self.window, self.last_refusal, self.refusals, self.is_doubtful) = (None, None, 0, false);
    }

    /// A refusal because of a ban, with its `Retry-After` if there is a response.
    fn banned(&mut self, span: Span, wait_secs: Option<u64>) -> Result<(), String> {
        if span.sent >= self.most_until {
            return Err("it is refused like a banned client".to_owned());
        }
        if let Some(secs) = wait_secs {
            let least = Duration::from_secs(secs.saturating_sub(1));
            self.least_until = self.least_until.max(span.sent.plus(least));
            self.most_until = self.most_until.min(span.received.plus(Duration::from_secs(secs)));
        }
        self.begin_anew();
        Ok(())
    }

    fn may_hold(&self, span: Span) -> bool {
        span.sent < self.most_until
    }

    fn must_hold(&self, span: Span) -> bool {
        span.received < self.least_until
    }
}

/// What the guard knows of a client.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) requests: Bucket,
    pub(crate) origin_requests: Bucket,
    bans: Bans,
}

impl Share {
    pub(crate) fn new(terms: &GuardTerms) -> Self {
        let ban = Duration::from_secs(terms.ban_secs);
        let (least_until, most_until) = (Moment::default(), Moment::default());
        let bans = Bans {
            ban,
            window: None,
            is_doubtful: false,
            last_refusal: None,
            refusals: 0,
            least_until,
            most_until,
        };
        let (requests, origin_requests) = (Bucket::new(terms.requests), Bucket::new(terms.origin_requests));
        Self { requests, origin_requests, bans }
    }

    /// When the client is surely not banned.
    pub(crate) const fn free_at(&self) -> Moment {
        self.bans.most_until
    }

    /// Records the answer of the limit of all requests, which each request meets first.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn request(&mut self, span: Span, verdict: Verdict) -> Result<(), String> {
        if matches!(verdict, Verdict::Granted | Verdict::Unknown) && self.bans.must_hold(span) {
            return Err("it is granted, although the client is banned".to_owned());
        }
        let may_be_banned = self.bans.may_hold(span);
        self.requests.record(span, verdict, may_be_banned)?;
        match verdict {
            Verdict::Closed => self.bans.banned(span, None),
            Verdict::Refused(0) => Err("Retry-After is 0".to_owned()),
            Verdict::Refused(secs) if secs > self.bans.ban.as_secs() => {
                Err(format!("Retry-After is {secs}, longer than a ban"))
            }
            Verdict::Refused(secs) if secs > RATE_WAIT_SECS => self.bans.banned(span, Some(secs)),
            Verdict::Refused(_) => {
                if self.bans.must_hold(Span { received: span.received.plus(Duration::from_secs(1)), ..span })
                {
                    return Err("Retry-After is shorter than the ban".to_owned());
                }
                self.bans.refused(span);
                // In its last second a ban looks like the limit, and the edge does not count.
                self.bans.is_doubtful |= may_be_banned;
                Ok(())
            }
            Verdict::Granted | Verdict::Unknown => Ok(()),
        }
    }

    /// Records the answer of the limit of requests that need the origin.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn origin_request(&mut self, span: Span, verdict: Verdict) -> Result<(), String> {
        self.origin_requests.record(span, verdict, false)?;
        match verdict {
            Verdict::Refused(RATE_WAIT_SECS) => {
                self.bans.refused(span);
                Ok(())
            }
            Verdict::Refused(secs) => Err(format!("Retry-After is {secs}")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GuardTerms, RateTerms, Share, Span, Verdict};
    use crate::moment::Moment;

    const TERMS: GuardTerms = GuardTerms {
        requests: RateTerms { per_second: 2, burst: 3 },
        origin_requests: RateTerms { per_second: 1, burst: 2 },
        ban_secs: 5,
        connections_max: 4,
    };

    fn span(sent: u64, received: u64) -> Span {
        Span { sent: Moment::from_millis(sent), received: Moment::from_millis(received) }
    }

    /// The first fault of requests with these times of the answers, each sent 10 ms before.
    fn fault(answers: &[(u64, Verdict)]) -> Option<String> {
        let mut share = Share::new(&TERMS);
        answers.iter().find_map(|(at, verdict)| share.request(span(at - 10, *at), *verdict).err())
    }

    const GRANTED: Verdict = Verdict::Granted;

    #[test]
    fn burst_and_rate_are_granted_and_no_more() {
        let burst = [(10, GRANTED), (20, GRANTED), (30, GRANTED)];
        assert_eq!(fault(&burst), None);
        let more = |answer| fault(&[&burst[..], &[answer]].concat());
        assert!(more((40, GRANTED)).unwrap().contains("4 requests are granted"));
        assert_eq!(more((40, Verdict::Refused(1))), None);
        assert_eq!(more((520, GRANTED)), None);
        assert!(more((560, Verdict::Refused(1))).unwrap().contains("within its limits"));
        assert!(more((40, Verdict::Refused(0))).is_some(), "no Retry-After");
        assert!(more((40, Verdict::Refused(6))).is_some(), "longer than a ban");
        assert!(fault(&[(10, Verdict::Refused(1))]).is_some(), "the first request");
    }

    #[test]
    fn only_client_that_went_on_may_be_banned() {
        assert!(fault(&[(10, Verdict::Closed)]).unwrap().contains("like a banned client"));
        let burst = [(10, GRANTED), (10, GRANTED), (10, GRANTED)];
        let flood = |refusals: usize| [&burst[..], &vec![(20, Verdict::Refused(1)); refusals]].concat();
        let after = |refusals, at, verdict| fault(&[&flood(refusals)[..], &[(at, verdict)]].concat());
        assert_eq!(after(100, 40, Verdict::Closed), None);
        assert_eq!(after(100, 40, Verdict::Refused(5)), None);
        assert!(after(99, 40, Verdict::Closed).is_some());
        assert!(after(99, 40, Verdict::Refused(5)).is_some());
        // The ban ends between 5,010 and 5,020 ms.
        assert!(after(100, 5000, GRANTED).unwrap().contains("banned"));
        assert_eq!(after(100, 5015, GRANTED), None);
        assert_eq!(after(100, 5025, Verdict::Closed), None);
        assert!(after(100, 5040, Verdict::Closed).is_some());
        assert!(after(100, 2000, Verdict::Refused(1)).unwrap().contains("shorter"));
    }

    #[test]
    fn refusals_of_another_time_lead_to_no_sure_ban() {
        let mut share = Share::new(&TERMS);
        let mut refuse = |at: u64| share.bans.refused(span(at, at + 1));
        refuse(10);
        (0..59).for_each(|_| refuse(500));
        (0..60).for_each(|_| refuse(10_200));
        assert_eq!(share.bans.least_until, Moment::default());
        assert!(share.bans.may_hold(span(10_300, 10_301)), "the edge may have seen them within its time");
        let mut refuse = |at: u64| share.bans.refused(span(at, at + 1));
        (0..100).for_each(|_| refuse(30_000));
        assert!(share.bans.must_hold(span(30_010, 30_020)));
    }

    #[test]
    fn requests_for_the_origin_have_their_own_limit() {
        let mut share = Share::new(&TERMS);
        let mut ask = |at: u64, verdict| share.origin_request(span(at - 10, at), verdict);
        assert_eq!(ask(10, GRANTED), Ok(()));
        assert_eq!(ask(20, Verdict::Unknown), Ok(()));
        assert_eq!(ask(30, GRANTED), Ok(()), "the one before may not have counted");
        assert!(ask(40, GRANTED).is_err());
        assert_eq!(ask(50, Verdict::Refused(1)), Ok(()));
        assert!(ask(60, Verdict::Refused(2)).is_err());
    }
}
