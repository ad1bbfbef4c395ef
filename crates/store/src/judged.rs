//! What was judged of a stored response, in few octets.
//!
//! Invariant: what was judged comes back exactly, but for times over 500 years, which are cut to that.

use platform::{Monotonic, Timestamp};
use semantics::{Freshness, Moment};
use std::time::Duration;

/// A [`Freshness`] in half of its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    lifetime_nanos: u64,
    initial_age_nanos: u64,
    while_revalidate_nanos: u64,
    if_error_nanos: u64,
    wall: Timestamp,
    monotonic: Monotonic,
    may_be_stale: bool,
    overridden: bool,
    validate_always: bool,
    immutable: bool,
}

impl From<Freshness> for Judged {
    fn from(freshness: Freshness) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // Named one by one, so that a new part cannot be forgotten.
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
        Self {
            lifetime_nanos: nanos(lifetime),
            initial_age_nanos: nanos(initial_age),
            while_revalidate_nanos: nanos(while_revalidate),
            if_error_nanos: nanos(if_error),
            wall,
            monotonic,
            may_be_stale,
            overridden,
            validate_always,
            immutable,
        }
    }
}

impl From<Judged> for Freshness {
    fn from(judged: Judged) -> Self {
        Self {
            lifetime: Duration::from_nanos(judged.lifetime_nanos),
            initial_age: Duration::from_nanos(judged.initial_age_nanos),
            received: Moment { wall: judged.wall, monotonic: judged.monotonic },
            while_revalidate: Duration::from_nanos(judged.while_revalidate_nanos),
            if_error: Duration::from_nanos(judged.if_error_nanos),
            may_be_stale: judged.may_be_stale,
            overridden: judged.overridden,
            validate_always: judged.validate_always,
            immutable: judged.immutable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Judged;
    use platform::{Monotonic, Timestamp};
    use semantics::{Freshness, Moment};
    use std::time::Duration;

    #[test]
    fn what_was_judged_comes_back() {
        let freshness = Freshness {
            lifetime: Duration::from_nanos(1_500_000_001),
            initial_age: Duration::from_millis(2),
            received: Moment { wall: Timestamp::from_micros(3), monotonic: Monotonic::from_nanos(4) },
            while_revalidate: Duration::from_secs(5),
            if_error: Duration::from_secs(6),
            may_be_stale: true,
            overridden: false,
            validate_always: true,
            immutable: false,
        };
        assert_eq!(Freshness::from(Judged::from(freshness)), freshness);
        let turned = Freshness {
            may_be_stale: false,
            overridden: true,
            validate_always: false,
            immutable: true,
            ..freshness
        };
        assert_eq!(Freshness::from(Judged::from(turned)), turned);
        let endless = Freshness { lifetime: Duration::MAX, ..freshness };
        let back = Freshness::from(Judged::from(endless)).lifetime;
        assert!(back > Duration::from_secs(500 * 366 * 86_400));
    }
}
