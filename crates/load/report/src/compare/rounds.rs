//! Pairs the runs of two sides that were made in the same round.
//!
//! Invariant: runs are paired only if all of these conditions hold; otherwise no run is paired:
//!
//! * Every run names its round.
//! * Every round has one run of each side, in the same comparison.
//! * There are enough rounds for a verdict.

use super::Side;
use crate::run::Run;
use stats::ROUNDS_FOR_INTERVAL;

/// Returns the pairs in the order of the rounds; `None` if the sides cannot be paired.
pub(super) fn rounds<'a>(first: &'a Side, other: &'a Side) -> Option<Vec<(&'a Run, &'a Run)>> {
    let first = in_order(first)?;
    let other = in_order(other)?;
    let is_same = first.len() == other.len()
        && first.iter().zip(&other).all(|(one, two)| one.round == two.round)
        && first.windows(2).all(|two| matches!(two, [one, next] if one.round != next.round));
    (is_same && first.len() >= ROUNDS_FOR_INTERVAL).then(|| first.into_iter().zip(other).collect())
}

/// The runs of a side by round; `None` if one of them belongs to no round.
fn in_order(side: &Side) -> Option<Vec<&Run>> {
    let key = |run: &&Run| run.round.as_ref().map(|round| (round.comparison.clone(), round.number));
    let mut runs: Vec<&Run> = side.runs.iter().collect();
    runs.sort_by_key(key);
    runs.iter().all(|run| run.round.is_some()).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::rounds;
    use crate::compare::Side;
    use crate::run::{Round, Run};

    fn side(rounds: impl Iterator<Item = (&'static str, u64)>) -> Side {
        let run = |(comparison, number): (&str, u64)| Run {
            round: Some(Round { comparison: comparison.to_owned(), number }),
            requests: Some(number),
            ..Run::default()
        };
        Side { name: "side".to_owned(), runs: rounds.map(run).collect() }
    }

    #[test]
    fn runs_are_paired_by_round_number_in_any_file_order() {
        let first = side((1..=10).map(|n| ("x", n)));
        let other = side((1..=10).rev().map(|n| ("x", n)));
        let paired = rounds(&first, &other).unwrap();
        assert_eq!(paired.len(), 10);
        assert!(paired.iter().all(|(a, b)| a.requests == b.requests));
    }

    #[test]
    fn runs_of_different_rounds_are_not_paired() {
        let ten = || side((1..=10).map(|n| ("x", n)));
        assert!(rounds(&ten(), &side((1..=9).map(|n| ("x", n)))).is_none(), "a round is missing");
        assert!(rounds(&ten(), &side((2..=11).map(|n| ("x", n)))).is_none(), "other rounds");
        assert!(rounds(&ten(), &side((1..=10).map(|n| ("y", n)))).is_none(), "another comparison");
        assert!(rounds(&side([("x", 1); 10].into_iter()), &side([("x", 1); 10].into_iter())).is_none());
        let six = || side((1..=6).map(|n| ("x", n)));
        assert!(rounds(&six(), &six()).is_none(), "six rounds are too few for pairs");
        let mut alone = ten();
        alone.runs[3].round = None;
        assert!(rounds(&alone, &ten()).is_none() && rounds(&ten(), &alone).is_none());
    }

    #[test]
    fn rounds_of_two_comparisons_can_be_combined() {
        let both = || side((1..=3).map(|n| ("x", n)).chain((1..=4).map(|n| ("y", n))));
        assert_eq!(rounds(&both(), &both()).unwrap().len(), 7);
    }
}
