//! Which cells are visited, in which order, and how long it will take; pure.
//!
//! Invariant: the plan depends on the ladder and the options alone. Every cell is visited once in each round;
//! the order within a round is a shuffle of its own, so that no step always follows the same other one and no
//! step always gets the beginning or the end.

use crate::fingerprint::fnv1a;
use crate::ladder::{Ladder, Load, Mode};
use crate::read_step::cell_id;
use stats::Random;
use std::time::Duration;

/// What a visit takes besides its load, as far as it can be known beforehand: switching, warming, proving.
pub(crate) const VISIT_OVERHEAD: Duration = Duration::from_millis(500);

/// How much is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Every step at every concurrency of `[full]`.
    Full,
    /// The steps' own cells and those of their `also`.
    #[default]
    Normal,
    /// The steps' own cells, once, briefly.
    Quick,
}

impl Effort {
    /// The word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
            Self::Quick => "quick",
        }
    }
}

/// What the command line changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// How much is measured.
    pub effort: Effort,
    /// Rounds instead of those of the file or of the effort.
    pub rounds: Option<u64>,
    /// The seed instead of the file's.
    pub seed: Option<u64>,
}

/// A step at one concurrency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its id.
    pub id: String,
    /// The step's position in the ladder.
    pub step: usize,
    /// Whether it is the step's cell in the classic table.
    pub own: bool,
    /// Its load.
    pub load: Load,
}

/// What is to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How much is measured.
    pub effort: Effort,
    /// Where the order came from.
    pub seed: u64,
    /// The cells, step by step.
    pub cells: Vec<Cell>,
    /// For each round, positions in `cells` in the order of the visits.
    pub order: Vec<Vec<usize>>,
    /// Identifies the plan: 16 hexadecimal digits.
    pub hash: String,
}

impl Plan {
    /// The plan of a ladder. `version` identifies the program: another program is another plan.
    pub fn new(ladder: &Ladder, choice: Choice, version: &str) -> Self {
        let mode = match choice.effort {
            Effort::Full => ladder.full.clone(),
            Effort::Normal => Mode { also: true, ..Mode::default() },
            Effort::Quick => ladder.quick.clone(),
        };
        let seed = choice.seed.unwrap_or(ladder.seed);
        let rounds = choice.rounds.or(mode.rounds).unwrap_or(ladder.rounds);
        let cells = cells(ladder, &mode);
        let mut random = Random::from_seed(seed);
        let round = |_| {
            let mut order: Vec<usize> = (0..cells.len()).collect();
            random.shuffle(&mut order);
            order
        };
        let order: Vec<Vec<usize>> = (0..rounds).map(round).collect();
        let identity = format!("{version}\n{ladder:?}\n{cells:?}\n{order:?}");
        let hash = format!("{:016x}", fnv1a(identity.as_bytes()));
        Self { effort: choice.effort, seed, cells, order, hash }
    }

    /// How often each cell is visited.
    pub fn rounds(&self) -> u64 {
        self.order.len() as u64
    }

    /// All visits as (round counted from 1, position of the cell), in order.
    pub fn visits(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        (1..).zip(&self.order).flat_map(|(round, order)| order.iter().map(move |cell| (round, *cell)))
    }

    /// How long visits to these cells should take.
    pub fn expected<'a>(cells: impl Iterator<Item = &'a Cell>) -> Duration {
        cells.map(|cell| cell.load.warmup + cell.load.duration + VISIT_OVERHEAD).sum()
    }

    /// How long the whole plan should take.
    pub fn expected_all(&self) -> Duration {
        Self::expected(self.visits().filter_map(|(_, cell)| self.cells.get(cell)))
    }
}

/// The cells of a ladder in one mode; what is listed twice comes once.
fn cells(ladder: &Ladder, mode: &Mode) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for (position, step) in ladder.steps.iter().enumerate() {
        let mut add = |id: String, own: bool, load: Load| {
            let same = |cell: &Cell| {
                cell.step == position
                    && (cell.load.concurrency, cell.load.keepalive) == (load.concurrency, load.keepalive)
            };
            if !cells.iter().any(same) {
                let warmup = mode.warmup.unwrap_or(load.warmup);
                let duration = mode.duration.unwrap_or(load.duration);
                cells.push(Cell { id, step: position, own, load: Load { warmup, duration, ..load } });
            }
        };
        add(step.id.clone(), true, step.own);
        if mode.also {
            step.also.iter().for_each(|(id, load)| add(id.clone(), false, *load));
        }
        for &concurrency in &mode.concurrency {
            let id = cell_id(&step.id, concurrency, step.own.keepalive);
            add(id, false, Load { concurrency, ..step.own });
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::{Choice, Effort, Plan};
    use crate::ladder::Ladder;
    use crate::read_ladder;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::time::Duration;

    const TEXT: &str = r#"
        title = "t"
        page = "/"
        duration = "2s"
        warmup = "300ms"
        [[step]]
        id = "a"
        title = "none"
        about = "Nothing."
        concurrency = 2
        address = "127.0.0.1:1"
        proof = [{ header = "X", is = "off" }]
        also = [{ concurrency = 1 }, { concurrency = 25, duration = "1s" }, { concurrency = 2 }]
        [[step]]
        id = "b"
        title = "all"
        about = "All."
        concurrency = 25
        address = "127.0.0.1:1"
        proof = [{ header = "X", is = "on" }]
        also = [{ keepalive = true }]
        [full]
        concurrency = [1, 25, 100]
        rounds = 6
    "#;

    fn ladder() -> Ladder {
        read_ladder("test", TEXT, None).unwrap()
    }

    fn plan(effort: Effort) -> Plan {
        Plan::new(&ladder(), Choice { effort, ..Choice::default() }, "1")
    }

    fn ids(plan: &Plan) -> Vec<&str> {
        plan.cells.iter().map(|cell| cell.id.as_str()).collect()
    }

    #[test]
    fn efforts_choose_cells_and_rounds() {
        let (quick, normal, full) = (plan(Effort::Quick), plan(Effort::Normal), plan(Effort::Full));
        assert_eq!(ids(&quick), ["a", "b"]);
        assert_eq!(ids(&normal), ["a", "a-c1", "a-c25", "b", "b-c25-keepalive"]);
        assert_eq!(ids(&full), ["a", "a-c1", "a-c25", "a-c100", "b", "b-c25-keepalive", "b-c1", "b-c100"]);
        assert_eq!((quick.rounds(), normal.rounds(), full.rounds()), (1, 3, 6));
        assert_eq!(quick.cells[0].load.duration, Duration::from_secs(1));
        assert_eq!(normal.cells[2].load.duration, Duration::from_secs(1));
        assert_eq!(normal.cells[0].load.duration, Duration::from_secs(2));
    }

    #[test]
    fn the_expected_time_is_the_sum_of_the_visits() {
        assert_eq!(plan(Effort::Quick).expected_all(), Duration::from_millis(2 * (300 + 1000 + 500)));
    }

    #[test]
    fn whatever_decides_the_result_decides_the_hash() {
        let hash = plan(Effort::Normal).hash;
        assert_eq!(hash, plan(Effort::Normal).hash);
        assert_ne!(hash, plan(Effort::Full).hash);
        let other = |choice| Plan::new(&ladder(), choice, "1").hash;
        assert_ne!(hash, other(Choice { seed: Some(2), ..Choice::default() }));
        assert_ne!(hash, other(Choice { rounds: Some(4), ..Choice::default() }));
        assert_ne!(hash, Plan::new(&ladder(), Choice::default(), "2").hash);
        let commented = format!("# a comment\n{TEXT}");
        let same = read_ladder("other name", &commented, None).unwrap();
        assert_eq!(hash, Plan::new(&same, Choice::default(), "1").hash);
        let changed = read_ladder("test", &TEXT.replace("\"off\"", "\"no\""), None).unwrap();
        assert_ne!(hash, Plan::new(&changed, Choice::default(), "1").hash);
    }

    proptest! {
        #[test]
        fn every_round_visits_every_cell_once(seed in any::<u64>(), rounds in 1_u64..20) {
            let choice = Choice { effort: Effort::Normal, seed: Some(seed), rounds: Some(rounds) };
            let plan = Plan::new(&ladder(), choice, "1");
            prop_assert_eq!(plan.rounds(), rounds);
            for order in &plan.order {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..plan.cells.len()).collect::<Vec<_>>());
            }
            prop_assert_eq!(plan.visits().count() as u64, rounds * plan.cells.len() as u64);
            prop_assert!(plan == Plan::new(&ladder(), choice, "1"));
        }
    }

    #[test]
    fn rounds_differ_in_order() {
        let choice = Choice { rounds: Some(20), ..Choice::default() };
        let plan = Plan::new(&ladder(), choice, "1");
        assert!(plan.order.iter().any(|order| *order != plan.order[0]));
    }
}
