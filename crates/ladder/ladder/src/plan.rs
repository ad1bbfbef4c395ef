//! Decides which cells are visited in which order, and estimates the duration. Pure functions.
//!
//! Invariants:
//!
//! * The plan depends only on the ladder, the options and the program's version.
//! * Every cell is visited once in each round.
//! * Each round is shuffled separately. Otherwise one step could always follow the same other step,
//!   or always be first or last.

use crate::fingerprint::fnv1a;
use crate::ladder::{Ladder, Load, ModeOverrides};
use crate::traffic::ANONYMOUS;
use stats::Random;
use std::time::Duration;

/// Estimated time of a visit without its loads and cooldown: switching, warming, proving.
pub(crate) const VISIT_OVERHEAD: Duration = Duration::from_millis(500);

/// Amount of measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Every step, also at each concurrency of `[full]`.
    Full,
    /// The steps' own cells and those of their `also` tables.
    #[default]
    Normal,
    /// Only the steps' own cells, by default in one short round.
    Quick,
}

impl Effort {
    /// Name of the effort in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
            Self::Quick => "quick",
        }
    }

    /// The changes that this effort makes to a ladder's cells and rounds.
    fn mode(self, ladder: &Ladder) -> ModeOverrides {
        match self {
            Self::Full => ladder.full.clone(),
            Self::Normal => ModeOverrides { also: true, ..ModeOverrides::default() },
            Self::Quick => ladder.quick.clone(),
        }
    }
}

/// Choices of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Amount of measuring.
    pub effort: Effort,
    /// Number of rounds; `None` uses the effort's or the file's.
    pub rounds: Option<u64>,
    /// Seed; `None` uses the file's.
    pub seed: Option<u64>,
    /// Ids of the loads to measure, [`ANONYMOUS`] included; empty means all.
    pub loads: Vec<String>,
}

impl Choice {
    fn has(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|chosen| chosen == load)
    }
}

/// One step under one load: the unit that is visited and measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Id of the cell.
    pub id: String,
    /// Position of the step in the ladder.
    pub step: usize,
    /// Whether this is the step's own cell, which the table of the report shows.
    pub own: bool,
    /// Position in [`Ladder::loads`] of the cell's load; `None` is the anonymous load.
    pub traffic: Option<usize>,
    /// Number of users and durations.
    pub load: Load,
}

/// The cells to measure and the order of the visits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderPlan {
    /// Amount of measuring.
    pub effort: Effort,
    /// Seed of the order.
    pub seed: u64,
    /// All cells, those of the anonymous load first.
    pub cells: Vec<Cell>,
    /// For each round, the order of the visits as positions in `cells`.
    pub order: Vec<Vec<usize>>,
    /// Identity of the plan: 16 hexadecimal digits.
    pub hash: String,
    /// Pause without requests before each visit.
    pub cooldown: Duration,
}

impl LadderPlan {
    /// Plans the walk of a ladder. `version` identifies the program and is part of the hash, so
    /// another version makes another plan.
    pub fn new(ladder: &Ladder, choice: Choice, version: &str) -> Self {
        let mode = choice.effort.mode(ladder);
        let seed = choice.seed.unwrap_or(ladder.seed);
        let rounds = choice.rounds.or(mode.rounds).unwrap_or(ladder.rounds);
        let cells = cells(ladder, &choice);
        let mut random = Random::from_seed(seed);
        let round = |_| {
            let mut order: Vec<usize> = (0..cells.len()).collect();
            random.shuffle(&mut order);
            order
        };
        let order: Vec<Vec<usize>> = (0..rounds).map(round).collect();
        let identity = format!("{version}\n{ladder:?}\n{cells:?}\n{order:?}");
        let hash = format!("{:016x}", fnv1a(identity.as_bytes()));
        Self { effort: choice.effort, seed, cells, order, hash, cooldown: ladder.cooldown }
    }

    /// Number of visits to each cell.
    pub fn rounds(&self) -> u64 {
        self.order.len() as u64
    }

    /// All visits as (round counted from 1, position of the cell), in order.
    pub fn visits(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        (1..).zip(&self.order).flat_map(|(round, order)| order.iter().map(move |cell| (round, *cell)))
    }

    /// Estimated duration of one visit to each of these cells.
    pub fn expected<'a>(&self, cells: impl Iterator<Item = &'a Cell>) -> Duration {
        let rest = self.cooldown + VISIT_OVERHEAD;
        cells.map(|cell| cell.load.warmup + cell.load.duration + rest).sum()
    }

    /// Estimated duration of the whole plan.
    pub fn expected_all(&self) -> Duration {
        self.expected(self.visits().filter_map(|(_, cell)| self.cells.get(cell)))
    }
}

/// All cells to measure, those of the anonymous load first.
pub(crate) fn cells(ladder: &Ladder, choice: &Choice) -> Vec<Cell> {
    let mode = choice.effort.mode(ladder);
    [anonymous_cells(ladder, &mode, choice), traffic_cells(ladder, &mode, choice)].concat()
}

/// Cells of the loads other than the anonymous one.
fn traffic_cells(ladder: &Ladder, mode: &ModeOverrides, choice: &Choice) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (position, traffic) in ladder.loads.iter().enumerate().filter(|(_, of)| choice.has(&of.id)) {
        for &step in &traffic.steps {
            let Some(rung) = ladder.steps.get(step) else { continue };
            let id = format!("{}-{}", rung.id, traffic.id);
            let load = mode.of(traffic.change.of(rung));
            cells.push(Cell { id, step, own: false, traffic: Some(position), load });
        }
    }
    cells
}

/// Cells of the anonymous load in one mode. A second cell with the same step, concurrency and
/// keep-alive is left out.
fn anonymous_cells(ladder: &Ladder, mode: &ModeOverrides, choice: &Choice) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    if !choice.has(ANONYMOUS) {
        return cells;
    }
    for (position, step) in ladder.steps.iter().enumerate() {
        let mut add = |id: String, own: bool, load: Load| {
            let same = |cell: &Cell| {
                cell.step == position
                    && (cell.load.concurrency, cell.load.keepalive) == (load.concurrency, load.keepalive)
            };
            if !cells.iter().any(same) {
                cells.push(Cell { id, step: position, own, traffic: None, load: mode.of(load) });
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

/// Id of a cell that has none in the file.
pub(crate) fn cell_id(step: &str, concurrency: u64, keepalive: bool) -> String {
    format!("{step}-c{concurrency}{}", if keepalive { "-keepalive" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::{Choice, Effort, LadderPlan};
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

    fn plan(effort: Effort) -> LadderPlan {
        LadderPlan::new(&ladder(), Choice { effort, ..Choice::default() }, "1")
    }

    fn ids(plan: &LadderPlan) -> Vec<&str> {
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
    fn each_load_has_its_own_cells() {
        let text = format!(
            "{TEXT}{}",
            r#"
            [[session]]
            name = "reader"
            shows = "Hello"
            log_in = [{ get = "http://{address}/in" }]
            [[load]]
            id = "mix"
            title = "a mix"
            steps = ["b"]
            concurrency = 4
            visitors = [{ share = 95 }, { session = "reader", share = 5 }]
            [[load]]
            id = "in"
            title = "logged in"
            duration = "9s"
            visitors = [{ session = "reader" }]
            "#
        );
        let ladder = read_ladder("test", &text, None).unwrap_or_else(|problems| panic!("{}", problems[0]));
        let plan = |loads: &[&str], effort| {
            let loads = loads.iter().map(|load| (*load).to_owned()).collect();
            LadderPlan::new(&ladder, Choice { loads, effort, ..Choice::default() }, "1")
        };
        let all = plan(&[], Effort::Normal);
        assert_eq!(ids(&all)[5..], ["b-mix", "a-in", "b-in"]);
        let loads: Vec<_> =
            all.cells.iter().skip(5).map(|cell| (cell.load.concurrency, cell.traffic)).collect();
        assert_eq!(loads, [(4, Some(0)), (2, Some(1)), (25, Some(1))]);
        assert_eq!(all.cells[6].load.duration, Duration::from_secs(9));
        assert_eq!(ids(&plan(&["in"], Effort::Quick)), ["a-in", "b-in"]);
        assert_eq!(ids(&plan(&["anonymous"], Effort::Quick)), ["a", "b"]);
        assert_eq!(plan(&["in"], Effort::Quick).cells[0].load.duration, Duration::from_secs(1));
    }

    #[test]
    fn expected_time_is_the_sum_of_the_visits() {
        assert_eq!(plan(Effort::Quick).expected_all(), Duration::from_millis(2 * (300 + 1000 + 500)));
    }

    #[test]
    fn hash_changes_with_everything_that_is_measured() {
        let hash = plan(Effort::Normal).hash;
        assert_eq!(hash, plan(Effort::Normal).hash);
        assert_ne!(hash, plan(Effort::Full).hash);
        let other = |choice| LadderPlan::new(&ladder(), choice, "1").hash;
        assert_ne!(hash, other(Choice { seed: Some(2), ..Choice::default() }));
        assert_ne!(hash, other(Choice { rounds: Some(4), ..Choice::default() }));
        assert_ne!(hash, LadderPlan::new(&ladder(), Choice::default(), "2").hash);
        let commented = format!("# a comment\n{TEXT}");
        let same = read_ladder("other name", &commented, None).unwrap();
        assert_eq!(hash, LadderPlan::new(&same, Choice::default(), "1").hash);
        let changed = read_ladder("test", &TEXT.replace("\"off\"", "\"no\""), None).unwrap();
        assert_ne!(hash, LadderPlan::new(&changed, Choice::default(), "1").hash);
    }

    proptest! {
        #[test]
        fn every_round_visits_every_cell_once(seed in any::<u64>(), rounds in 1_u64..20) {
            let choice = Choice { seed: Some(seed), rounds: Some(rounds), ..Choice::default() };
            let plan = LadderPlan::new(&ladder(), choice.clone(), "1");
            prop_assert_eq!(plan.rounds(), rounds);
            for order in &plan.order {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..plan.cells.len()).collect::<Vec<_>>());
            }
            prop_assert_eq!(plan.visits().count() as u64, rounds * plan.cells.len() as u64);
            prop_assert!(plan == LadderPlan::new(&ladder(), choice, "1"));
        }
    }

    #[test]
    fn rounds_have_different_orders() {
        let choice = Choice { rounds: Some(20), ..Choice::default() };
        let plan = LadderPlan::new(&ladder(), choice, "1");
        assert!(plan.order.iter().any(|order| *order != plan.order[0]));
    }
}
