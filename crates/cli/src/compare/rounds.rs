//! Loads URLs in rounds. Every round loads each URL once, in a newly drawn order, so that a change
//! over time affects all sides alike.
//!
//! Invariants: the order depends on the seed alone. Each run is written to its file as soon as it
//! is made, so an interrupted comparison leaves files that `compare` can read.

use super::Args;
use crate::bench::interrupt::Interrupt;
use crate::bench::measure;
use crate::bench::page::{load_pages, page_plan};
use crate::output::note;
use anyhow::{Context as _, anyhow, ensure};
use browse::{PageEnd, PagePlan};
use clock::Clock as _;
use load::{Ended, Plan};
use platform::SystemClock;
use report::compare::{CompareError, RUNS_MAX, SIDES_MAX, Side, Unit};
use report::number;
use report::page::PageRun;
use report::run::{Round, Run};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Default number of rounds: enough to detect a difference of some percent.
pub(super) const ROUNDS_DEFAULT: u16 = 10;

/// Largest number of rounds: the number of runs that a side may have.
pub(super) const ROUNDS_MAX: u16 = RUNS_MAX as u16;

/// The runs of the complete rounds, and why there are not more.
pub(super) struct CompleteRounds {
    pub(super) sides: Vec<Side>,
    pub(super) cut_short: Option<CutShort>,
}

/// Why not all rounds were made.
pub(super) enum CutShort {
    /// A signal came. The text names the round.
    Interrupted(String),
    /// A URL could not be loaded, a run had no good response, or a run could not be written.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for CutShort {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Loads each URL in every round.
///
/// # Errors
/// If the number of URLs is out of range, a URL is none, or the directory cannot be written.
/// Nothing has been loaded then.
pub(super) fn load(urls: &[String], args: &Args) -> anyhow::Result<CompleteRounds> {
    ensure!(urls.len() > 1, CompareError::Sides);
    ensure!(urls.len() <= SIDES_MAX, CompareError::SidesMany(urls.len()));
    let loads = loads(urls, args)?;
    let mut files = match &args.out {
        Some(directory) => create(directory, urls.len())?,
        None => Vec::new(),
    };
    let interrupt = Interrupt::on_signals()?;
    let mut sides: Vec<Side> = urls.iter().map(|url| Side { name: url.clone(), runs: Vec::new() }).collect();
    let cut_short = make_rounds(&loads, args, &interrupt, &mut sides, &mut files).err();
    let rounds = sides.iter().map(|side| side.runs.len()).min().unwrap_or_default();
    sides.iter_mut().for_each(|side| side.runs.truncate(rounds));
    Ok(CompleteRounds { sides, cut_short })
}

/// Makes the rounds, and adds each run to its side and its file.
fn make_rounds(
    loads: &[SideLoad],
    args: &Args,
    interrupt: &Interrupt,
    sides: &mut [Side],
    files: &mut [(String, File)],
) -> Result<(), CutShort> {
    let comparison = format!("{:x}-{:x}", SystemClock::new().now().as_micros(), args.order_seed);
    let mut random = stats::Random::from_seed(args.order_seed);
    for round in 1..=args.rounds {
        let mut order: Vec<usize> = (0..loads.len()).collect();
        random.shuffle(&mut order);
        for place in order {
            let (Some(load), Some(side)) = (loads.get(place), sides.get_mut(place)) else { continue };
            let made_in = Round { comparison: comparison.clone(), number: round.into() };
            let Some((run, json)) = load.run(made_in, interrupt)? else {
                let reason = format!("the comparison was interrupted in round {round} of {}", args.rounds);
                return Err(CutShort::Interrupted(reason));
            };
            let (what, unit) = load.words();
            if run.good_per_s.is_none_or(|rate| rate <= 0.0) {
                let name = &side.name;
                let failures = failures(&run);
                return Err(anyhow!("{name}: no good {what} in round {round}: {failures}").into());
            }
            note(format_args!(
                "round {round} of {}: {} {}  {}",
                args.rounds,
                number::rate(run.good_per_s.unwrap_or_default()),
                unit.per_second(),
                side.name
            ));
            if let Some((path, file)) = files.get_mut(place) {
                file.write_all(json.as_bytes()).with_context(|| format!("cannot write {path}"))?;
            }
            side.runs.push(run);
            std::thread::sleep(measure::REST);
        }
    }
    Ok(())
}

/// The way to load one side.
enum SideLoad {
    Requests(Box<Plan>),
    Pages(Box<PagePlan>),
}

impl SideLoad {
    /// Makes one run. Returns the run and its JSON, or `None` if it was interrupted, also before it
    /// began.
    fn run(&self, round: Round, interrupt: &Interrupt) -> anyhow::Result<Option<(Run, String)>> {
        if interrupt.is_set() {
            return Ok(None);
        }
        match self {
            Self::Requests(plan) => {
                let outcome = measure::measure(plan, interrupt, |_| {})?;
                let run = Run { round: Some(round), ..Run::from(&outcome) };
                let json = run.to_json();
                Ok((outcome.ended != Ended::Stopped).then_some((run, json)))
            }
            Self::Pages(plan) => {
                let outcome = load_pages(plan, interrupt)?;
                let run = PageRun { round: Some(round), ..PageRun::from(&outcome) };
                Ok((outcome.ended != PageEnd::Stopped).then(|| (Run::from(&run), run.to_json())))
            }
        }
    }

    /// The noun for one loaded item, and its unit.
    fn words(&self) -> (&'static str, Unit) {
        match self {
            Self::Requests(_) => ("response", Unit::Requests),
            Self::Pages(_) => ("page", Unit::Pages),
        }
    }
}

/// Builds the plan of each URL.
fn loads(urls: &[String], args: &Args) -> anyhow::Result<Vec<SideLoad>> {
    let plan = |url: &String| if args.page.page { args.load.plan_of_pages(url) } else { args.load.plan(url) };
    let mut plans = urls.iter().map(plan).collect::<anyhow::Result<Vec<Plan>>>()?;
    if !args.page.page {
        args.load.refuse_idle(&plans)?;
    }
    args.load.agree_all(&mut plans)?;
    let load = |(url, plan): (&String, Plan)| {
        Ok(if args.page.page {
            SideLoad::Pages(Box::new(page_plan(url, &args.page, &plan)?))
        } else {
            SideLoad::Requests(Box::new(plan))
        })
    };
    urls.iter().zip(plans).map(load).collect()
}

/// Creates a new file for each side, named `a.json`, `b.json` and so on.
fn create(directory: &Path, sides: usize) -> anyhow::Result<Vec<(String, File)>> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    ('a'..='z')
        .take(sides)
        .map(|letter| {
            let path = directory.join(format!("{letter}.json"));
            // `create_new` fails if the file exists: earlier runs must not be lost or mixed with
            // these.
            let file =
                File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
            Ok((path.display().to_string(), file))
        })
        .collect()
}

fn failures(run: &Run) -> String {
    let kinds = run.failed_by_kind.iter().filter(|(_, count)| **count > 0);
    let kinds: Vec<String> = kinds.map(|(kind, count)| format!("{kind} {count}")).collect();
    if kinds.is_empty() { "no request ended".to_owned() } else { kinds.join(", ") }
}
