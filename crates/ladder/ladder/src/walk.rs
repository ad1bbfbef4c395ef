//! Walks a ladder to its end: the assembly of this crate. A walk starts at the beginning or resumes
//! an unfinished one.
//!
//! Invariants:
//!
//! * Every visit is in the journal before the next one begins.
//! * An interrupted walk writes its results, too.
//! * After a [`Walk`] is dropped, no service runs.

use crate::command::Commands;
use crate::fingerprint::NormalisedPage;
use crate::interrupt::StopFlag;
use crate::journal::{Header, JournalContent, WalkJournal};
use crate::ladder::{Ladder, LadderStep};
use crate::observer::{Observer, WalkStatus};
use crate::output::{OutputDirectory, REFERENCE_FILE, REPORT_FILE, RESULTS_FILE, new_reference_file};
use crate::plan::{Cell, Choice, LadderPlan};
use crate::ports;
use crate::read_step::OWN_VERSION;
use crate::reference::{Reference, References};
use crate::results;
use crate::service::Services;
use crate::template::Variables;
use crate::visit::{Bench, VisitFault};
use clock::Clock;
use difference::text_of;
use platform::Disk;
use probe::{Environment, ProcFs};
use report::results::{CellRun, EnvironmentRecord, PageRecord, Results, SCHEMA, VersionRecord, VisitOutcome};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// File for the output of commands, in the output directory.
const COMMAND_FILE: &str = "command.out";
/// Time between two checks whether the services of a held ladder still run.
const HOLD_POLL: Duration = Duration::from_millis(200);

/// Options of a walk.
#[derive(Clone, Debug)]
pub struct Options {
    /// Effort, rounds, seed and loads.
    pub choice: Choice,
    /// The output directory.
    pub out: PathBuf,
    /// Whether to move an earlier walk's files aside even if it could be resumed.
    pub fresh: bool,
    /// Whether the services are held after the walk. If so, the last step is switched on at the
    /// end.
    pub stay: bool,
    /// Path of the running executable: the variable `{petasos}`.
    pub petasos: PathBuf,
    /// Version of this program; part of the plan's identity.
    pub version: String,
}

/// The outside world, passed in so that tests can replace it.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Time source.
    pub clock: &'a dyn Clock,
    /// Access to the files of the output directory.
    pub disk: &'a dyn Disk,
    /// Flag that interrupts the walk.
    pub stop: &'a StopFlag,
}

/// Reason why a ladder cannot be walked. A fault of a single step is no such error: it makes the
/// step void.
#[derive(Debug, thiserror::Error)]
pub enum LadderError {
    /// Another process is walking a ladder with the same output directory.
    #[error("another ladder is writing to {}; wait for its end, or choose another directory with --out", .0.display())]
    Busy(PathBuf),
    /// A file, a directory or a port cannot be used.
    #[error("{what}: {source}")]
    Disk {
        /// What the program was doing.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The journal cannot be read.
    #[error("cannot read {} ({source}); choose another directory with --out, or move the file aside with --fresh", .path.display())]
    Journal {
        /// Path of the journal.
        path: PathBuf,
        /// The error of reading or parsing it.
        source: io::Error,
    },
    /// The output directory holds an unfinished walk of another plan.
    #[error(
        "{} has an unfinished ladder of another plan ({found}; this command's plan is {asked}); resume it \
         with its own options, choose another directory with --out, or move it aside with --fresh",
        .directory.display()
    )]
    OtherPlan {
        /// The output directory.
        directory: PathBuf,
        /// Description of the plan that was found.
        found: String,
        /// Description of the requested plan.
        asked: String,
    },
    /// A service did not start, or ended during the walk.
    #[error("{0}")]
    Service(String),
    /// The first step's page could not be fetched.
    #[error("step {step} does not return the page that other steps are compared with: {reason}")]
    Reference {
        /// Number of the step.
        step: String,
        /// Reason for the failure.
        reason: String,
    },
    /// The walk was interrupted before anything could be measured.
    #[error("interrupted")]
    Interrupted,
}

/// A finished or interrupted walk. Its services run until it is dropped.
pub struct Walk<'a> {
    /// Everything measured by this walk and by the ones it resumed.
    pub results: Results,
    /// Addresses of the ladder's ports by name.
    pub addresses: Vec<(String, String)>,
    /// Path of the results file.
    pub results_file: PathBuf,
    /// Path of the report.
    pub report_file: PathBuf,
    services: Services<'a>,
    ladder: Ladder,
    variables: Variables,
    world: World<'a>,
    output: OutputDirectory,
}

/// Walks a ladder and writes its results and report.
///
/// # Errors
/// Returns an error if the walk cannot go on. Finished visits stay in the journal.
pub fn walk<'a>(
    ladder: &Ladder,
    options: &Options,
    world: World<'a>,
    observer: &mut dyn Observer,
) -> Result<Walk<'a>, LadderError> {
    let plan = LadderPlan::new(ladder, options.choice.clone(), &options.version);
    let words = words(ladder, &plan);
    let output = OutputDirectory::open(&options.out, world.disk)?;
    let past = output.past(&plan.hash, &words, options.fresh, world.disk)?;
    let header = header(ladder, &plan, words, past.as_ref(), world.clock)?;
    let variables = variables(ladder, options, &output.directory, &header.ports);
    let journal = open_journal(&output, &header, past.is_some(), world.disk)?;
    announce(ladder, &plan, past.as_ref(), observer);
    let services = Services::start(&ladder.services, &variables, &output.directory, world.clock, world.stop)
        .map_err(|reason| {
            if world.stop.is_requested() { LadderError::Interrupted } else { LadderError::Service(reason) }
        })?;
    let commands =
        Commands { clock: world.clock, stop: world.stop, output: output.directory.join(COMMAND_FILE) };
    let environment = environment(ladder, options, &variables, &commands);
    let cores = environment.machine.cores;
    let bench = bench(ladder, &variables, (world, &services, cores), &output.directory);
    let mut past = past.unwrap_or_else(|| JournalContent::new(header));
    let mut walker =
        Walker { bench, plan: &plan, journal, services, world, runs: std::mem::take(&mut past.runs) };
    let references = walker.references(&past, &output.directory)?;
    walker.visits(&references, observer)?;
    if options.stay && !world.stop.is_requested() {
        walker.switch_to_last(observer);
    }
    let results = Results {
        schema: SCHEMA.to_owned(),
        title: ladder.title.clone(),
        synthetic: ladder.synthetic,
        about: ladder.about.clone(),
        page: ladder.page.clone(),
        plan: results::plan(&plan),
        complete: walker.runs.len() as u64 >= past.header.visits,
        started_at_s: past.header.started_at_s,
        written_at_s: world.clock.now().as_secs(),
        environment,
        reference: references.of(0).ok().map(|reference| reference.page.record.clone()),
        steps: results::steps(ladder, &references),
        cells: results::cells(ladder, &plan, None, &walker.runs),
        loads: results::loads(ladder, &plan, &walker.runs),
    };
    let (results_file, report_file) = write(&results, &output.directory, world.disk)?;
    let port = |name: &String| Some((name.clone(), variables.value(name)?.to_owned()));
    let addresses = ladder.ports.iter().filter_map(port).collect();
    let services = walker.services;
    let ladder = ladder.clone();
    Ok(Walk { results, addresses, results_file, report_file, services, ladder, variables, world, output })
}

/// Builds the shared state of the visits.
fn bench<'b>(
    ladder: &'b Ladder,
    variables: &'b Variables,
    (world, services, cores): (World<'b>, &Services<'_>, u32),
    directory: &Path,
) -> Bench<'b> {
    let pid = |name: &String| Some((name.clone(), services.pid(name)?));
    Bench {
        ladder,
        variables,
        clock: world.clock,
        stop: world.stop,
        commands: Commands { clock: world.clock, stop: world.stop, output: directory.join(COMMAND_FILE) },
        proc: ProcFs::system(),
        services: ladder.services.iter().filter_map(|service| pid(&service.name)).collect(),
        cores,
        unique: AtomicU64::new(world.clock.now().as_micros()),
        visitors: Mutex::default(),
    }
}

impl Walk<'_> {
    /// Keeps the services running until `stop` is set. Each step whose number or id arrives on
    /// `asked` is switched on. `told` then receives the address of its page, or the reason why it
    /// is not on.
    ///
    /// # Errors
    /// Returns [`LadderError::Service`] if a service ends.
    pub fn hold(
        &mut self,
        stop: &StopFlag,
        asked: &Receiver<String>,
        told: &mut dyn FnMut(Result<String, String>),
    ) -> Result<(), LadderError> {
        while !stop.is_requested() {
            self.services.check().map_err(LadderError::Service)?;
            match asked.try_recv() {
                Ok(number) => told(self.switch_to(number.trim())),
                Err(_) => stop.wait(HOLD_POLL),
            }
        }
        Ok(())
    }

    /// URL of the page of the step with this number or id.
    ///
    /// # Errors
    /// Returns a sentence if there is no such step.
    pub fn url_of(&self, number: &str) -> Result<String, String> {
        let step = self.step(number)?;
        Ok(format!("http://{}{}", step.address.expand(&self.variables), step.page))
    }

    fn step(&self, number: &str) -> Result<&LadderStep, String> {
        let step = self.ladder.steps.iter().find(|step| step.number == number || step.id == number);
        step.ok_or_else(|| format!("there is no step `{number}`"))
    }

    fn switch_to(&self, number: &str) -> Result<String, String> {
        let step = self.step(number)?;
        let cores = self.results.environment.machine.cores;
        let about = (self.world, &self.services, cores);
        bench(&self.ladder, &self.variables, about, &self.output.directory).prepare(step)?;
        self.url_of(number)
    }
}

/// The part of a walk that goes from visit to visit.
struct Walker<'a, 'b> {
    bench: Bench<'b>,
    plan: &'b LadderPlan,
    journal: WalkJournal<'b>,
    services: Services<'a>,
    world: World<'b>,
    runs: Vec<CellRun>,
}

impl Walker<'_, '_> {
    /// Collects the reference pages: recorded ones, or pages that their steps serve now.
    fn references(&mut self, past: &JournalContent, directory: &Path) -> Result<References, LadderError> {
        let mut references = References::default();
        let ladder = self.bench.ladder;
        for (place, step) in ladder.steps.iter().enumerate() {
            let (noted, file) = match place {
                0 => (past.reference.clone(), REFERENCE_FILE.to_owned()),
                _ if step.reference => {
                    (past.new_references.get(&step.id).cloned(), new_reference_file(&step.id))
                }
                _ => continue,
            };
            let found = match self.reference(step, noted, &directory.join(file), place == 0)? {
                // A later step without a page is void. Without the first step's page, nothing can
                // be compared.
                Err(reason) if place == 0 => {
                    return Err(LadderError::Reference { step: step.number.clone(), reason });
                }
                found => found,
            };
            let reference = found.map(|page| Reference { number: step.number.clone(), page });
            references.0.insert(place, reference);
        }
        Ok(references)
    }

    /// Returns a step's reference page, or the reason why it has none. A new page is written to
    /// `path` and recorded in the journal.
    fn reference(
        &mut self,
        step: &LadderStep,
        noted: Option<PageRecord>,
        path: &Path,
        is_first: bool,
    ) -> Result<Result<NormalisedPage, String>, LadderError> {
        let fault = |source| LadderError::Disk { what: format!("reference page {}", path.display()), source };
        if let Some(record) = noted
            && let Ok(content) = self.world.disk.read(path)
        {
            return Ok(Ok(NormalisedPage { record, content }));
        }
        let page = match self.bench.page_of(step) {
            Ok(page) => page,
            Err(_) if self.world.stop.is_requested() => return Err(LadderError::Interrupted),
            Err(reason) => {
                self.services.check().map_err(LadderError::Service)?;
                return Ok(Err(text_of(reason.as_bytes())));
            }
        };
        // The file is written before the journal entry, so an entry never refers to a missing file.
        self.world.disk.replace(path, &page.content).map_err(fault)?;
        let noted = if is_first {
            self.journal.reference(&page.record)
        } else {
            self.journal.new_reference(&step.id, &page.record)
        };
        noted.map_err(fault)?;
        Ok(Ok(page))
    }

    /// Makes the visits that are still missing. Ends early when the walk is stopped; the
    /// interrupted visit is not recorded.
    fn visits(&mut self, references: &References, observer: &mut dyn Observer) -> Result<(), LadderError> {
        let done: BTreeSet<(u64, String)> =
            self.runs.iter().map(|run| (run.round, run.cell.clone())).collect();
        let is_missing = |(round, cell): &(u64, &Cell)| !done.contains(&(*round, cell.id.clone()));
        let all = self.plan.visits().filter_map(|(round, cell)| Some((round, self.plan.cells.get(cell)?)));
        let missing: Vec<(u64, &Cell)> = all.filter(is_missing).collect();
        let mut pace = VisitPace::default();
        for (position, (round, cell)) in missing.iter().enumerate() {
            let rest = missing.iter().skip(position).map(|(_, cell)| *cell);
            let status = self.status(cell, *round, pace.scale(self.plan.expected(rest)));
            let begun = self.world.clock.monotonic();
            let started_at_s = self.world.clock.now().as_secs();
            let visited = match references.of(cell.step) {
                Ok(reference) => self.bench.visit(cell, reference, &status, observer),
                Err(reason) => Err(VisitFault::from(reason)),
            };
            if self.world.stop.is_requested() {
                return Ok(());
            }
            self.services.check().map_err(LadderError::Service)?;
            let took = self.world.clock.monotonic().since(begun);
            pace.add(self.plan.expected(std::iter::once(*cell)), took);
            let outcome = match visited {
                Ok(measured) => VisitOutcome::Measured(Box::new(measured)),
                Err(VisitFault { reason, is_silent }) => {
                    // A reason may quote what a site sent.
                    VisitOutcome::Void { reason: text_of(reason.as_bytes()), is_silent }
                }
            };
            let run = CellRun {
                cell: cell.id.clone(),
                round: *round,
                started_at_s,
                visit_s: took.as_secs_f64(),
                outcome,
            };
            let fault = |source| LadderError::Disk { what: "cannot write the journal".to_owned(), source };
            self.journal.run(&run).map_err(fault)?;
            self.runs.push(run);
        }
        Ok(())
    }

    /// Switches the last step on, so that the held services show the end of the ladder.
    fn switch_to_last(&self, observer: &mut dyn Observer) {
        if let Some(step) = self.bench.ladder.steps.last()
            && let Err(reason) = self.bench.prepare(step)
        {
            observer.notice(&format!("step {} could not be switched on again: {reason}", step.number));
        }
    }

    fn status(&self, cell: &Cell, round: u64, left: Duration) -> WalkStatus {
        let step = self.bench.ladder.steps.get(cell.step);
        WalkStatus {
            step: step.map(|step| format!("{} {}", step.number, step.title)).unwrap_or_default(),
            concurrency: cell.load.concurrency,
            round,
            rounds: self.plan.rounds(),
            left,
            ..WalkStatus::default()
        }
    }
}

/// Ratio of actual to expected visit times so far. It corrects the estimate of the remaining time.
#[derive(Default)]
struct VisitPace {
    expected: Duration,
    took: Duration,
}

impl VisitPace {
    fn add(&mut self, expected: Duration, took: Duration) {
        self.expected += expected;
        self.took += took;
    }

    fn scale(&self, expected: Duration) -> Duration {
        if self.expected.is_zero() {
            return expected;
        }
        expected.mul_f64(self.took.as_secs_f64() / self.expected.as_secs_f64())
    }
}

/// Describes a plan in words, for messages.
fn words(ladder: &Ladder, plan: &LadderPlan) -> String {
    let (effort, rounds, seed) = (plan.effort.name(), plan.rounds(), plan.seed);
    format!("{}, {effort}, {rounds} rounds of {} cells, seed {seed}", ladder.title, plan.cells.len())
}

/// Makes the first line of a journal. A resumed walk keeps its start time and, where they are free,
/// its ports.
fn header(
    ladder: &Ladder,
    plan: &LadderPlan,
    words: String,
    past: Option<&JournalContent>,
    clock: &dyn Clock,
) -> Result<Header, LadderError> {
    let none = BTreeMap::new();
    let wanted = past.map_or(&none, |past| &past.header.ports);
    let fault = |source| LadderError::Disk { what: "cannot choose loopback ports".to_owned(), source };
    let ports = ports::choose(&ladder.ports, wanted).map_err(fault)?;
    let visits = plan.visits().count() as u64;
    let started_at_s = past.map_or_else(|| clock.now().as_secs(), |past| past.header.started_at_s);
    Ok(Header { hash: plan.hash.clone(), words, visits, started_at_s, ports })
}

fn open_journal<'a>(
    output: &OutputDirectory,
    header: &Header,
    resume: bool,
    disk: &'a dyn Disk,
) -> Result<WalkJournal<'a>, LadderError> {
    let journal = if resume {
        WalkJournal::resume(disk, &output.directory)
    } else {
        WalkJournal::begin(disk, &output.directory, header.clone())
    };
    journal.map_err(|source| LadderError::Disk { what: "cannot write the journal".to_owned(), source })
}

fn variables(ladder: &Ladder, options: &Options, out: &Path, ports: &BTreeMap<String, u16>) -> Variables {
    let mut variables = Variables::default();
    ladder.constants.iter().for_each(|(name, value)| variables.set(name, value.as_str()));
    ports.iter().for_each(|(name, port)| variables.set(name, format!("127.0.0.1:{port}")));
    variables.set("page", ladder.page.as_str());
    variables.set("petasos", options.petasos.display().to_string());
    variables.set("out", out.display().to_string());
    variables
}

fn announce(ladder: &Ladder, plan: &LadderPlan, past: Option<&JournalContent>, observer: &mut dyn Observer) {
    let visits = plan.visits().count();
    let (cells, rounds, seed) = (plan.cells.len(), plan.rounds(), plan.seed);
    let time = report::number::time(plan.expected_all());
    observer.notice(&format!("{visits} visits: {cells} cells, rounds: {rounds}, seed {seed}; about {time}"));
    if let Some(past) = past {
        observer.notice(&format!("Resuming: {} visits are already measured", past.runs.len()));
    }
    if !ladder.services.is_empty() {
        let names: Vec<&str> = ladder.services.iter().map(|service| service.name.as_str()).collect();
        observer.notice(&format!("Starting {}", names.join(", ")));
    }
}

fn environment(
    ladder: &Ladder,
    options: &Options,
    variables: &Variables,
    commands: &Commands<'_>,
) -> EnvironmentRecord {
    let petasos = VersionRecord { name: OWN_VERSION.to_owned(), version: options.version.clone() };
    let others = ladder.versions.iter().map(|program| {
        let words: Vec<String> = program.command.iter().map(|word| word.expand(variables)).collect();
        let printed = commands.run(&words).unwrap_or_else(|reason| format!("unknown: {reason}"));
        let version = printed.lines().next().unwrap_or_default().trim().to_owned();
        VersionRecord { name: program.name.clone(), version }
    });
    EnvironmentRecord {
        machine: Environment::detect(),
        versions: std::iter::once(petasos).chain(others).collect(),
        generator_shares_host: ladder
            .steps
            .iter()
            .any(|step| ports::is_here(&step.address.expand(variables))),
    }
}

/// Writes `results.json` and `report.html`; returns their paths.
fn write(results: &Results, directory: &Path, disk: &dyn Disk) -> Result<(PathBuf, PathBuf), LadderError> {
    let (results_file, report_file) = (directory.join(RESULTS_FILE), directory.join(REPORT_FILE));
    let json = serde_json::to_vec_pretty(results).map_err(io::Error::from);
    let written = json.and_then(|mut json| {
        json.push(b'\n');
        disk.replace(&results_file, &json)?;
        disk.replace(&report_file, report::html::page(results).as_bytes())
    });
    written.map_err(|source| LadderError::Disk {
        what: format!("results in {}", directory.display()),
        source,
    })?;
    Ok((results_file, report_file))
}
