//! The choice of an origin among several, and the budget of repeated requests.
//!
//! Invariant: the choice is pure. It depends on the candidates and on earlier choices only.

use std::cmp::Reverse;

/// How far an origin can be expected to answer; the better one is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It answers.
    Well,
    /// It answers with errors, or fails its health checks.
    Failing,
    /// Its breaker is open because it does not answer.
    Silent,
    /// Its breaker is open because no connection can be made.
    Unreachable,
}

/// An origin as the choice sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Its place in the group.
    pub place: usize,
    pub standing: Standing,
    /// Whether it works on as many requests as its limit permits, so that a further one waits.
    pub is_full: bool,
    /// Its share of the requests; never 0.
    pub weight: u64,
    /// Its active and waiting requests.
    pub outstanding: u64,
}

/// Chooses the origin with the least outstanding requests for its weight among those of the best
/// standing. One that can begin at once precedes one whose queue the request would join. Equal ones
/// take turns by weight, spread evenly (smooth weighted round robin, as in nginx).
#[derive(Debug)]
pub(crate) struct Balancer {
    /// The lead of each origin over the others in its turns.
    credits: Vec<i64>,
}

impl Balancer {
    pub(crate) fn new(origins: usize) -> Self {
        Self { credits: vec![0; origins] }
    }

    /// The place of the chosen origin; `None` without candidates.
    pub(crate) fn choose(&mut self, candidates: &[Candidate]) -> Option<usize> {
        let rank = |candidate: &Candidate| (candidate.standing, candidate.is_full);
        let best = candidates.iter().map(rank).min()?;
        let usable = || candidates.iter().filter(|candidate| rank(candidate) == best);
        // The load of a candidate is a fraction, so fractions are compared by cross products.
        let least = usable().min_by(|a, b| load(a, b.weight).cmp(&load(b, a.weight)))?;
        let tied = || usable().filter(|other| load(other, least.weight) == load(least, other.weight));
        let mut total = 0;
        for candidate in tied() {
            let weight = i64::try_from(candidate.weight).unwrap_or(i64::MAX);
            total += weight;
            *self.credits.get_mut(candidate.place)? += weight;
        }
        let credit = |place: usize| self.credits.get(place).copied().unwrap_or_default();
        let chosen = tied().map(|tied| tied.place).max_by_key(|place| (credit(*place), Reverse(*place)))?;
        *self.credits.get_mut(chosen)? -= total;
        Some(chosen)
    }
}

/// The outstanding requests of a candidate, multiplied by the weight of the other one.
fn load(candidate: &Candidate, weight_of_other: u64) -> u128 {
    u128::from(candidate.outstanding) * u128::from(weight_of_other)
}

/// Limits repeated requests to a tenth of all requests, so that failing origins do not multiply
/// the load of the others.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    /// Requests that were not followed by a repeated one, at most [`SAVED_MAX`].
    saved: u32,
}

/// Each repeated request costs this many requests.
const RETRY_COST: u32 = 10;

/// The largest number of saved requests. They are enough for ten repeated requests at once, so that
/// an origin of a quiet site may fail without an error.
const SAVED_MAX: u32 = 10 * RETRY_COST;

impl RetryBudget {
    pub(crate) const fn full() -> Self {
        Self { saved: SAVED_MAX }
    }

    /// Counts a request.
    pub(crate) fn earn(&mut self) {
        self.saved = (self.saved + 1).min(SAVED_MAX);
    }

    /// Whether a request may be repeated; counts it if so.
    pub(crate) fn spend(&mut self) -> bool {
        let left = self.saved.checked_sub(RETRY_COST);
        self.saved = left.unwrap_or(self.saved);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{Balancer, Candidate, RetryBudget, Standing};
    use proptest::prelude::*;

    fn candidate(place: usize, weight: u64, outstanding: u64) -> Candidate {
        Candidate { place, standing: Standing::Well, is_full: false, weight, outstanding }
    }

    #[test]
    fn idle_origins_take_turns_by_weight() {
        let mut balancer = Balancer::new(3);
        let idle = [candidate(0, 5, 0), candidate(1, 1, 0), candidate(2, 1, 0)];
        let chosen: Vec<_> = (0..7).filter_map(|_| balancer.choose(&idle)).collect();
        assert_eq!(chosen, [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn busy_origin_gets_no_request() {
        let mut balancer = Balancer::new(2);
        for _ in 0..3 {
            assert_eq!(balancer.choose(&[candidate(0, 1, 3), candidate(1, 1, 2)]), Some(1));
            assert_eq!(balancer.choose(&[candidate(0, 4, 3), candidate(1, 1, 1)]), Some(0));
        }
        assert_eq!(balancer.choose(&[]), None);
    }

    #[test]
    fn full_origin_gets_no_request_while_another_is_free() {
        let full = Candidate { is_full: true, ..candidate(0, 10, 6) };
        let mut balancer = Balancer::new(2);
        assert_eq!(balancer.choose(&[full, candidate(1, 1, 30)]), Some(1));
        assert_eq!(balancer.choose(&[full, Candidate { is_full: true, ..candidate(1, 1, 60) }]), Some(0));
        let failing = Candidate { standing: Standing::Failing, ..candidate(1, 1, 0) };
        assert_eq!(balancer.choose(&[full, failing]), Some(0), "a queue is better than errors");
    }

    #[test]
    fn better_standing_precedes_fewer_requests() {
        let of = |place, standing| Candidate { standing, ..candidate(place, 1, 10 - place as u64) };
        let mut ranked = vec![
            of(0, Standing::Well),
            of(1, Standing::Failing),
            of(2, Standing::Silent),
            of(3, Standing::Unreachable),
        ];
        for place in 0..4 {
            assert_eq!(Balancer::new(4).choose(&ranked), Some(place));
            ranked.remove(0);
        }
    }

    proptest! {
        /// Origins that stay idle get requests in proportion to their weights.
        #[test]
        fn shares_follow_the_weights(weights in prop::collection::vec(1_u64..20, 1..6)) {
            let mut balancer = Balancer::new(weights.len());
            let idle: Vec<_> = weights.iter().enumerate().map(|(place, weight)| candidate(place, *weight, 0)).collect();
            let mut counts = vec![0; weights.len()];
            for _ in 0..3 * weights.iter().sum::<u64>() {
                counts[balancer.choose(&idle).unwrap()] += 1;
            }
            let expected: Vec<_> = weights.iter().map(|weight| 3 * weight).collect();
            prop_assert_eq!(counts, expected);
        }

        /// With requests that stay outstanding, no load for its weight exceeds another by more than
        /// one request.
        #[test]
        fn loads_stay_even(weights in prop::collection::vec(1_u64..20, 2..6), requests in 1_usize..200) {
            let mut balancer = Balancer::new(weights.len());
            let mut busy: Vec<_> =
                weights.iter().enumerate().map(|(place, weight)| candidate(place, *weight, 0)).collect();
            for _ in 0..requests {
                let chosen = balancer.choose(&busy).unwrap();
                busy[chosen].outstanding += 1;
            }
            for a in &busy {
                for b in &busy {
                    prop_assert!((a.outstanding.saturating_sub(1)) * b.weight <= b.outstanding * a.weight);
                }
            }
        }
    }

    #[test]
    fn a_tenth_of_the_requests_is_repeated() {
        let mut budget = RetryBudget::full();
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
        let repeated = (0..1000).filter(|_| {
            budget.earn();
            budget.spend()
        });
        assert_eq!(repeated.count(), 100);
    }
}
