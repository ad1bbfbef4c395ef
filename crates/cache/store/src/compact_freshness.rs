//! The freshness of a stored response in a compact form.
//!
//! Invariant: times are rounded to whole milliseconds, and from 24 days on to whole seconds.
//! Rounding never extends the time for which a response may be used, and never lowers its age.
//! Times above 68 years are cut off there.

use crate::octets::{put_u64, take_u8, take_u64};
use clock::{Monotonic, Timestamp};
use semantics::{Freshness, Moment};
use std::time::Duration;

/// A [`Freshness`] in a third of its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactFreshness {
    wall: Timestamp,
    monotonic: Monotonic,
    lifetime: CompactDuration,
    initial_age: CompactDuration,
    while_revalidate: CompactDuration,
    if_error: CompactDuration,
    flags: u8,
}

/// A duration in 32 bits: in seconds if the highest bit is set, otherwise in milliseconds.
#[derive(Clone, Copy, Debug)]
struct CompactDuration(u32);

const IN_SECONDS: u32 = 1 << 31;

impl CompactDuration {
    /// The longest span that does not exceed `duration`.
    fn within(duration: Duration) -> Self {
        Self::of(duration.as_millis(), duration.as_secs())
    }

    /// The shortest span of at least `duration`, up to the maximum of 68 years.
    fn around(duration: Duration) -> Self {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        let secs = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
        Self::of(millis, secs)
    }

    fn of(millis: u128, secs: u64) -> Self {
        match u32::try_from(millis) {
            Ok(millis) if millis < IN_SECONDS => Self(millis),
            // The value has at most 31 bits, so the cast loses nothing.
            _ => Self(IN_SECONDS | secs.min(u64::from(IN_SECONDS - 1)) as u32),
        }
    }

    fn duration(self) -> Duration {
        let number = u64::from(self.0 & !IN_SECONDS);
        if self.0 & IN_SECONDS == 0 { Duration::from_millis(number) } else { Duration::from_secs(number) }
    }
}

const MAY_BE_STALE: u8 = 1;
const OVERRIDDEN: u8 = 2;
const VALIDATE_ALWAYS: u8 = 4;
const IMMUTABLE: u8 = 8;

impl CompactFreshness {
    /// Encodes the value at the end of `octets`, for [`CompactFreshness::take`].
    pub(crate) fn put(self, octets: &mut Vec<u8>) {
        for span in [self.lifetime, self.initial_age, self.while_revalidate, self.if_error] {
            // A span is below 69 years, whose nanoseconds fit into 64 bits.
            put_u64(octets, span.duration().as_nanos() as u64);
        }
        put_u64(octets, self.wall.as_micros());
        put_u64(octets, self.monotonic.as_nanos());
        octets.push(self.flags);
    }

    /// Decodes a value that [`CompactFreshness::put`] wrote.
    pub(crate) fn take(octets: &mut &[u8]) -> Option<Self> {
        let mut span = || take_u64(octets).map(Duration::from_nanos);
        let lifetime = CompactDuration::within(span()?);
        let initial_age = CompactDuration::around(span()?);
        let (while_revalidate, if_error) =
            (CompactDuration::within(span()?), CompactDuration::within(span()?));
        Some(Self {
            wall: Timestamp::from_micros(take_u64(octets)?),
            monotonic: Monotonic::from_nanos(take_u64(octets)?),
            lifetime,
            initial_age,
            while_revalidate,
            if_error,
            flags: take_u8(octets)?,
        })
    }
}

impl From<Freshness> for CompactFreshness {
    fn from(freshness: Freshness) -> Self {
        // All fields are named, so that a new one cannot be forgotten.
        let Freshness {
            lifetime,
            initial_age,
            received: Moment { wall, monotonic },
            while_revalidate,
            if_error,
            may_be_stale,
            overridden,
            validate_always,
            immutable,
        } = freshness;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        Self {
            wall,
            monotonic,
            lifetime: CompactDuration::within(lifetime),
            initial_age: CompactDuration::around(initial_age),
            while_revalidate: CompactDuration::within(while_revalidate),
            if_error: CompactDuration::within(if_error),
            flags: flag(may_be_stale, MAY_BE_STALE)
                | flag(overridden, OVERRIDDEN)
                | flag(validate_always, VALIDATE_ALWAYS)
                | flag(immutable, IMMUTABLE),
        }
    }
}

impl From<CompactFreshness> for Freshness {
    fn from(judged: CompactFreshness) -> Self {
        let is_set = |flag: u8| judged.flags & flag != 0;
        Self {
            lifetime: judged.lifetime.duration(),
            initial_age: judged.initial_age.duration(),
            received: Moment { wall: judged.wall, monotonic: judged.monotonic },
            while_revalidate: judged.while_revalidate.duration(),
            if_error: judged.if_error.duration(),
            may_be_stale: is_set(MAY_BE_STALE),
            overridden: is_set(OVERRIDDEN),
            validate_always: is_set(VALIDATE_ALWAYS),
            immutable: is_set(IMMUTABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CompactFreshness;
    use clock::{Monotonic, Timestamp};
    use semantics::{Freshness, Moment};
    use std::time::Duration;

    #[test]
    fn freshness_round_trips_unchanged() {
        let freshness = Freshness {
            lifetime: Duration::from_millis(1_500),
            initial_age: Duration::from_millis(2),
            received: Moment { wall: Timestamp::from_micros(3), monotonic: Monotonic::from_nanos(4) },
            while_revalidate: Duration::from_secs(5),
            if_error: Duration::from_secs(6),
            may_be_stale: true,
            overridden: false,
            validate_always: true,
            immutable: false,
        };
        assert_eq!(Freshness::from(CompactFreshness::from(freshness)), freshness);
        let turned = Freshness {
            may_be_stale: false,
            overridden: true,
            validate_always: false,
            immutable: true,
            ..freshness
        };
        assert_eq!(Freshness::from(CompactFreshness::from(turned)), turned);
    }

    #[test]
    fn rounding_never_extends_freshness() {
        let nanos = |nanos| Duration::from_nanos(nanos);
        let day = Duration::from_secs(86_400);
        for time in [nanos(1), nanos(1_999_999), nanos(3_000_000), 24 * day, 25 * day + nanos(1), 400 * day] {
            let judged = CompactFreshness::from(Freshness {
                initial_age: time,
                while_revalidate: time,
                ..Freshness::lasting(time, Moment::default())
            });
            let mut octets = Vec::new();
            judged.put(&mut octets);
            let written = CompactFreshness::take(&mut &octets[..]).unwrap();
            for back in [judged, written].map(Freshness::from) {
                let unit =
                    if time < 24 * day + day / 2 { Duration::from_millis(1) } else { Duration::from_secs(1) };
                for within in [back.lifetime, back.while_revalidate] {
                    assert!(within <= time && time - within < unit, "{time:?} {within:?}");
                }
                assert!(back.initial_age >= time && back.initial_age - time < unit, "{time:?}");
            }
        }
        let endless =
            Freshness::from(CompactFreshness::from(Freshness::lasting(Duration::MAX, Moment::default())));
        assert!(endless.lifetime > Duration::from_secs(68 * 365 * 86_400));
    }
}
