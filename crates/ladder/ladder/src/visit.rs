//! One visit to one cell: switch the layer on, prove it, run the load, prove it again.
//!
//! Invariant: a [`Measured`] results only if every proof held and the page equalled the reference
//! both before and after the load. Otherwise the result is the reason why not. The writes of a load
//! are undone whatever happened to the visit, because later visits compare pages with the
//! reference.

use crate::bound::{CellFigures, bound_by};
use crate::bystander::Bystander;
use crate::client::{HttpClient, HttpResponse};
use crate::command::{Commands, tail};
use crate::fingerprint::NormalisedPage;
use crate::interrupt::{SLICE, StopFlag};
use crate::ladder::{Ladder, LadderStep, Meter, MeterSource, Proof, Role, Root, StepAction};
use crate::observer::{Observer, Phase, WalkStatus};
use crate::plan::Cell;
use crate::reference::Reference;
use crate::template::Variables;
use crate::traffic::{Session, Traffic, shown_to_nobody, weights};
use crate::visitor::{LoggedInVisitor, SiteAddress};
use crate::writer::WriteSender;
use crate::{ports, proof, results, star};
use address::HttpUrl;
use clock::Clock;
use load::Control;
use probe::{ProcFs, WatchFigures};
use record::{Expect, RunOutcome, WeightedTarget};
use report::results::{BystanderRecord, Measured, WriteRecord};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Time limit of one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// Window in which an idle site uses almost no processor time.
const IDLE_WINDOW: Duration = Duration::from_millis(100);
/// Processor time in that window, in clock ticks, up to which a site counts as idle.
const IDLE_TICKS_MAX: u64 = 1;
/// Number of bystander requests to the idle site, after one that is not counted.
const IDLE_REQUESTS: usize = 3;
/// Largest value of a counter, and the smallest one with a minus. Counters of 64 bits stay below.
const COUNTER_MAX: f64 = 1e20;

/// State that all visits share.
pub(crate) struct Bench<'a> {
    pub(crate) ladder: &'a Ladder,
    pub(crate) variables: &'a Variables,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) stop: &'a StopFlag,
    pub(crate) commands: Commands<'a>,
    pub(crate) proc: ProcFs,
    /// Process ids of services by name.
    pub(crate) services: Vec<(String, u32)>,
    pub(crate) cores: u32,
    pub(crate) unique: AtomicU64,
    pub(crate) visitors: Mutex<LoggedIn>,
}

/// Logged-in visitors by session and site. They stay logged in from one visit to the next.
pub(crate) type LoggedIn = BTreeMap<(String, String), Arc<Vec<LoggedInVisitor>>>;

/// Readings of a measured load, before anything is computed from them.
pub(crate) struct Readings {
    pub(crate) outcome: RunOutcome,
    pub(crate) watch: WatchFigures,
    pub(crate) bystander: BystanderRecord,
    /// Readings of the logged-in bystander.
    pub(crate) twin: Option<BystanderRecord>,
    pub(crate) writes: Vec<WriteRecord>,
    /// Value of each meter before and after the load.
    pub(crate) meters: Vec<(f64, f64)>,
}

/// Reason why a visit does not count.
#[derive(Debug)]
pub(crate) struct VisitFault {
    /// The reason, in a sentence.
    pub(crate) reason: String,
    /// Whether the load received no good response, although the page was right before and after it.
    pub(crate) is_silent: bool,
}

impl From<String> for VisitFault {
    fn from(reason: String) -> Self {
        Self { reason, is_silent: false }
    }
}

impl Bench<'_> {
    /// Visits a cell and measures it. The observer receives `status` with phase, rate and remaining
    /// time filled in.
    pub(crate) fn visit(
        &self,
        cell: &Cell,
        reference: &Reference,
        status: &WalkStatus,
        observer: &mut dyn Observer,
    ) -> Result<Measured, VisitFault> {
        let step = self.step(cell)?;
        let begun = self.clock.monotonic();
        observer.status(&WalkStatus { phase: Phase::Preparing, ..status.clone() });
        self.stop.wait(self.ladder.cooldown);
        self.settle();
        self.prepare(step)?;
        let traffic = cell.traffic.and_then(|position| self.ladder.loads.get(position));
        let (page, mut proofs) = self.prove(step, traffic, reference)?;
        let [idle_ms, idle_twin_ms] = self.idle_bystanders(cell, step)?;
        if !cell.load.warmup.is_zero() {
            let mut plan = self.load_plan(cell, step)?;
            plan.stop = record::Stop { time: Some(cell.load.warmup), ..record::Stop::default() };
            let left = status.left.saturating_sub(self.clock.monotonic().since(begun));
            self.loaded(
                &plan,
                (step, None),
                &WalkStatus { phase: Phase::WarmingUp, left, ..status.clone() },
                observer,
            )?;
        }
        let plan = self.load_plan(cell, step)?;
        let before = self.read_meters()?;
        let left = status.left.saturating_sub(self.clock.monotonic().since(begun));
        let status = WalkStatus { phase: Phase::Measuring, left, ..status.clone() };
        let loaded = self.loaded(&plan, (step, traffic), &status, observer);
        let loaded = loaded.and_then(|readings| Ok((readings, self.read_meters()?)));
        let undone = self.undo(step, traffic, observer);
        let (mut readings, after) = loaded?;
        readings.meters = before.into_iter().zip(after).collect();
        readings.bystander.idle_ms = idle_ms;
        readings.twin.iter_mut().for_each(|twin| twin.idle_ms.clone_from(&idle_twin_ms));
        self.interrupted()?;
        if undone? {
            self.perform_all("warming", &step.warm, step)?;
        }
        let (_, after) =
            self.prove(step, traffic, reference).map_err(|reason| format!("after the load: {reason}"))?;
        proofs.extend(after);
        if readings.outcome.good == 0 {
            let reason = format!("no good response in {:.1} s", readings.outcome.elapsed.as_secs_f64());
            return Err(VisitFault { reason, is_silent: true });
        }
        Ok(self.measured(cell, readings, page, proofs))
    }

    /// Undoes the writes of a load, also after a stop. Returns whether there were any. A failure is
    /// reported at once as well, because an earlier error of the visit may hide it.
    fn undo(
        &self,
        step: &LadderStep,
        traffic: Option<&Traffic>,
        observer: &mut dyn Observer,
    ) -> Result<bool, String> {
        let Some(traffic) = traffic.filter(|traffic| !traffic.writes.is_empty()) else { return Ok(false) };
        self.settle();
        let never = StopFlag::default();
        for action in &traffic.undo {
            self.perform(action, step, &never).map_err(|reason| {
                let reason = format!("the writes cannot be undone: {reason}");
                observer.notice(&reason);
                reason
            })?;
        }
        Ok(true)
    }

    /// Switches a step on and returns its page, which becomes a reference.
    pub(crate) fn page_of(&self, step: &LadderStep) -> Result<NormalisedPage, String> {
        self.settle();
        self.prepare(step)?;
        let answer = self.ask_page(step)?;
        Ok(NormalisedPage::new(&answer.content, &self.ladder.normalise))
    }

    /// Runs a step's actions: switch on, reset, warm.
    pub(crate) fn prepare(&self, step: &LadderStep) -> Result<(), String> {
        let parts = [("switching on", &step.on), ("resetting", &step.reset), ("warming", &step.warm)];
        parts.into_iter().try_for_each(|(what, actions)| self.perform_all(what, actions, step))
    }

    /// Performs actions until one fails or the walk is stopped.
    fn perform_all(&self, what: &str, actions: &[StepAction], step: &LadderStep) -> Result<(), String> {
        for action in actions {
            self.interrupted()?;
            self.perform(action, step, self.stop).map_err(|reason| format!("{what} failed: {reason}"))?;
        }
        Ok(())
    }

    fn step(&self, cell: &Cell) -> Result<&LadderStep, String> {
        self.ladder.steps.get(cell.step).ok_or_else(|| format!("cell `{}` has no step", cell.id))
    }

    fn interrupted(&self) -> Result<(), String> {
        if self.stop.is_requested() { Err("interrupted".to_owned()) } else { Ok(()) }
    }

    fn client(&self) -> HttpClient<'_> {
        self.client_until(self.stop)
    }

    fn client_until<'c>(&'c self, stop: &'c StopFlag) -> HttpClient<'c> {
        HttpClient { clock: self.clock, stop, limit: REQUEST_LIMIT }
    }

    /// Waits until the watched processes have finished the work that the preceding cell left.
    /// Otherwise that work would be counted here. The wait ends at the ladder's limit.
    fn settle(&self) {
        let roots: Vec<u32> = self.groups().into_iter().flat_map(|group| group.roots).collect();
        let ticks = || -> u64 {
            let members = self.proc.with_descendants(&roots);
            let stats = members.iter().filter_map(|pid| self.proc.process(*pid));
            stats.map(|stat| stat.own_ticks + stat.children_ticks).sum()
        };
        let begun = self.clock.monotonic();
        let mut before = ticks();
        while !self.stop.is_requested() && self.clock.monotonic().since(begun) < self.ladder.settle_limit {
            self.stop.wait(IDLE_WINDOW);
            let after = ticks();
            if after <= before + IDLE_TICKS_MAX {
                return;
            }
            before = after;
        }
    }

    /// Performs one action. Only `stop` ends it early.
    fn perform(&self, action: &StepAction, step: &LadderStep, stop: &StopFlag) -> Result<(), String> {
        match action {
            StepAction::Command(words) => {
                let words: Vec<String> = words.iter().map(|word| word.expand(self.variables)).collect();
                Commands { stop, ..self.commands.clone() }.run(&words).map(|_| ())
            }
            StepAction::Http { method, url } => {
                let url = url.expand(self.variables);
                // The Host field is set only for requests to the step's own address. A switch
                // elsewhere has another name.
                let page = format!("http://{}/", step.address.expand(self.variables));
                let host = step.host.as_deref().filter(|_| url.starts_with(&page));
                self.client_until(stop).ask_2xx(method, &url, host).map(|_| ())
            }
        }
    }

    fn ask_page(&self, step: &LadderStep) -> Result<HttpResponse, String> {
        let url = format!("http://{}{}", step.address.expand(self.variables), step.page);
        let answer = self.client().ask_2xx("GET", &url, step.host.as_deref())?;
        if answer.status == 200 {
            Ok(answer)
        } else {
            Err(format!("GET {url}: the response has status {}", answer.status))
        }
    }

    /// Checks that the layer is on and that the page is the reference page. Returns the page and a
    /// description of each proof, or the reason why a check failed.
    fn prove(
        &self,
        step: &LadderStep,
        traffic: Option<&Traffic>,
        reference: &Reference,
    ) -> Result<(NormalisedPage, Vec<String>), String> {
        let answer = self.ask_page(step)?;
        let mut seen = Vec::new();
        for proof in &step.proof {
            seen.push(match proof {
                Proof::Header { name, test } => proof::header(name, test, &answer.fields, self.variables)?,
                Proof::Json { url, pointer, test } => {
                    let url = url.expand(self.variables);
                    let document = self.client().ask_2xx("GET", &url, None)?;
                    proof::json(&url, pointer, test, &document.content)?
                }
            });
        }
        if let Some(session) = self.ladder.sessions.iter().find(|of| of.shows.0.is_match(&answer.content)) {
            return Err(format!("a request without a session got a page of session `{}`", session.name));
        }
        for position in traffic.iter().flat_map(|of| &of.visitors).filter_map(|audience| audience.session) {
            seen.extend(self.check_visitors(position, step)?);
        }
        let page = NormalisedPage::new(&answer.content, &self.ladder.normalise);
        match page.difference(reference, self.ladder.same) {
            None => Ok((page, seen)),
            Some(difference) => Err(difference),
        }
    }

    /// Checks that the page is made for a session's visitors. If not, they are forgotten, so that
    /// they log in again for the next visit.
    fn check_visitors(&self, position: usize, step: &LadderStep) -> Result<Option<String>, String> {
        let (site_address, visitors) = (self.site_address(step), self.visitors(position, step)?);
        let Some((session, first)) = self.ladder.sessions.get(position).zip(visitors.first()) else {
            return Ok(None);
        };
        let checked = first.check(session, &site_address, &step.page, self.client());
        if checked.is_err() {
            let mut kept = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
            kept.remove(&(session.name.clone(), site_address.site().to_owned()));
        }
        checked.map(Some)
    }

    /// Returns the visitors of a session at a step's site. They log in if they have not done so
    /// before.
    fn visitors(&self, position: usize, step: &LadderStep) -> Result<Arc<Vec<LoggedInVisitor>>, String> {
        let Some(session) = self.ladder.sessions.get(position) else { return Ok(Arc::default()) };
        let site_address = self.site_address(step);
        let name = (session.name.clone(), site_address.site().to_owned());
        // A panic under this lock cannot leave a partial entry, because each change is a single
        // insertion or removal. The poisoning is therefore ignored.
        let mut kept = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(visitors) = kept.get(&name) {
            return Ok(Arc::clone(visitors));
        }
        let log_in =
            |number| LoggedInVisitor::log_in(session, number, &site_address, self.variables, self.client());
        let visitors: Arc<Vec<LoggedInVisitor>> =
            Arc::new((1..=session.visitors).map(log_in).collect::<Result<_, _>>()?);
        kept.insert(name, Arc::clone(&visitors));
        Ok(visitors)
    }

    fn site_address(&self, step: &LadderStep) -> SiteAddress {
        SiteAddress { address: step.address.expand(self.variables), host: step.host.clone() }
    }

    fn bystander<'b>(&'b self, step: &'b LadderStep) -> Option<Bystander<'b>> {
        Some(Bystander {
            clock: self.clock,
            path: self.ladder.bystander.as_ref()?,
            variables: self.variables,
            address: step.address.expand(self.variables),
            host: step.host.as_deref(),
            sessions: &self.ladder.sessions,
            visitor: None,
            unique: &self.unique,
        })
    }

    /// The logged-in bystander; `None` if the ladder has none, or if the visitor has no cookie.
    fn twin<'b>(&'b self, step: &'b LadderStep) -> Result<Option<Bystander<'b>>, String> {
        let Some((position, bystander)) = self.ladder.bystander_session.zip(self.bystander(step)) else {
            return Ok(None);
        };
        let visitors = self.visitors(position, step)?;
        let cookie = visitors
            .first()
            .and_then(|first| first.cookies(&self.site_address(step), &step.page, self.clock));
        let visitor: Option<(&Session, String)> = self.ladder.sessions.get(position).zip(cookie);
        Ok(visitor.map(|visitor| Bystander { visitor: Some(visitor), ..bystander }))
    }

    /// Response times of the bystander and its twin on the idle site, in milliseconds. Failed
    /// requests are left out here; under load they are counted.
    fn idle_bystanders(&self, cell: &Cell, step: &LadderStep) -> Result<[Vec<f64>; 2], String> {
        let ask = |bystander: Option<Bystander<'_>>| -> Vec<f64> {
            let bystander = bystander.filter(|_| cell.own || cell.traffic.is_some());
            let asked =
                bystander.iter().flat_map(|of| (0..=IDLE_REQUESTS).filter_map(|_| of.ask(self.stop).ok()));
            asked.skip(1).collect()
        };
        Ok([ask(self.bystander(step)), ask(self.twin(step)?)])
    }

    /// Makes a target for each visitor of a load, with cookies and with a pattern that its page
    /// must match.
    fn targets(
        &self,
        traffic: &Traffic,
        step: &LadderStep,
        target: &HttpUrl,
    ) -> Result<Vec<WeightedTarget>, String> {
        let mut kinds = Vec::new();
        for audience in &traffic.visitors {
            let visitors = match audience.session {
                Some(position) => Some(self.visitors(position, step)?),
                None => None,
            };
            kinds.push((audience, visitors));
        }
        let counts = kinds
            .iter()
            .map(|(audience, visitors)| (audience.share, visitors.as_ref().map_or(1, |of| of.len() as u64)));
        let weights = weights(&counts.collect::<Vec<_>>());
        let weights = weights.ok_or_else(|| format!("the shares of load `{}` are too fine", traffic.id))?;
        let site_address = self.site_address(step);
        let mut targets = Vec::new();
        for ((audience, visitors), weight) in kinds.into_iter().zip(weights) {
            let one = |cookies: Vec<String>, expect: Expect| WeightedTarget {
                cookies,
                expect: Some(Expect { length: record::Length::Variable, ..expect }),
                ..WeightedTarget::new(target.clone(), weight)
            };
            let session = audience.session.and_then(|position| self.ladder.sessions.get(position));
            match session.zip(visitors) {
                None => {
                    let never = shown_to_nobody(&self.ladder.sessions)?;
                    targets.push(one(Vec::new(), Expect { never, ..Expect::default() }));
                }
                Some((session, visitors)) => {
                    let body = Some(session.shown()?);
                    targets.extend(visitors.iter().map(|visitor| {
                        let cookies = visitor.cookies(&site_address, &step.page, self.clock);
                        one(cookies.into_iter().collect(), Expect { body: body.clone(), ..Expect::default() })
                    }));
                }
            }
        }
        Ok(targets)
    }

    /// Makes the writers of a load: the first visitor of each write's session.
    fn writers<'b>(
        &'b self,
        traffic: Option<&'b Traffic>,
        step: &LadderStep,
    ) -> Result<Vec<WriteSender<'b>>, String> {
        let mut writers = Vec::new();
        for write in traffic.iter().flat_map(|traffic| &traffic.writes) {
            let visitors = self.visitors(write.session, step)?;
            let first = visitors.first().cloned();
            let writer = |visitor| WriteSender {
                write,
                visitor,
                site_address: self.site_address(step),
                unique: &self.unique,
            };
            writers.extend(first.map(writer));
        }
        Ok(writers)
    }

    fn load_plan(&self, cell: &Cell, step: &LadderStep) -> Result<record::Plan, String> {
        let url = format!("http://{}{}", step.address.expand(self.variables), step.page);
        let mut plan = record::Plan::new(HttpUrl::parse(&url).map_err(|error| error.to_string())?);
        plan.users = usize::try_from(cell.load.concurrency).unwrap_or(usize::MAX);
        // The generator shares the cores with the site. Were it to wait for them, it would measure
        // itself.
        plan.real_time = ports::is_here(&step.address.expand(self.variables));
        plan.keep_alive = cell.load.keepalive;
        // Browsers use HTTP/1.1, and nginx does not compress for older versions.
        plan.http = record::Protocol::Http11;
        plan.headers = step.host.iter().map(|host| ("Host".to_owned(), host.clone())).collect();
        if cell.traffic.is_none() {
            // The loads of `[[load]]` search the content of pages, which a content coding would
            // hide.
            plan.headers.push(("Accept-Encoding".to_owned(), results::ACCEPTED_CODINGS.to_owned()));
        }
        plan.stop = record::Stop {
            requests: cell.load.requests_max,
            time: Some(cell.load.duration),
            ..record::Stop::default()
        };
        plan.spread = record::spread(plan.stop.time);
        plan.expect.length = record::Length::Variable;
        if let Some(traffic) = cell.traffic.and_then(|position| self.ladder.loads.get(position)) {
            plan.targets = self.targets(traffic, step, &plan.target)?;
            plan.seed = self.ladder.seed;
        }
        Ok(plan)
    }

    /// Runs a load together with the bystanders, the writers and the watch of the processes.
    fn loaded(
        &self,
        plan: &record::Plan,
        (step, traffic): (&LadderStep, Option<&Traffic>),
        status: &WalkStatus,
        observer: &mut dyn Observer,
    ) -> Result<Readings, String> {
        // A write that has begun is waited for, also after a stop. Otherwise the site could carry
        // it out after the writes were undone.
        let (control, over, never) = (Control::new(), StopFlag::default(), StopFlag::default());
        let groups = self.groups();
        let (twin, writers) = (self.twin(step)?, self.writers(traffic, step)?);
        // Bystanders and writers measure times, too, and would wait for the generator's threads.
        let precede = &|| plan.real_time && load::take_real_time();
        let (bystanders, writes, (outcome, watch)) = std::thread::scope(|scope| {
            let (control, over, never) = (&control, &over, &never);
            let ask = move |bystander: Bystander<'_>| {
                precede();
                bystander.ask_until(over)
            };
            let bystanders = [self.bystander(step), twin]
                .map(|of| of.map(|bystander| scope.spawn(move || ask(bystander))));
            let write = |writer: WriteSender<'_>| {
                precede();
                writer.write_until(over, self.clock, self.client_until(never))
            };
            let writers: Vec<_> =
                writers.into_iter().map(|writer| scope.spawn(move || write(writer))).collect();
            scope.spawn(move || self.accompany(control, over, status, observer));
            let loaded = {
                let _over = SetOnDrop(over);
                probe::watch(&self.proc, &groups, self.clock, || load::run(plan, self.clock, control))
            };
            let writes: Vec<WriteRecord> = writers.into_iter().map(joined).collect();
            (bystanders.map(|thread| thread.map(joined)), writes, loaded)
        });
        let outcome = outcome.map_err(|error| error.to_string())?;
        let [bystander, twin] = bystanders;
        let bystander = bystander.unwrap_or_default();
        Ok(Readings { outcome, watch, bystander, twin, writes, meters: Vec::new() })
    }

    /// Until the load is over, forwards a stop to it and reports its rate to the observer.
    fn accompany(
        &self,
        control: &Control,
        over: &StopFlag,
        status: &WalkStatus,
        observer: &mut dyn Observer,
    ) {
        let begun = self.clock.monotonic();
        while !over.is_requested() {
            if self.stop.is_requested() {
                control.stop();
            }
            let progress = control.progress(self.clock);
            let elapsed =
                progress.elapsed.map(|elapsed| elapsed.as_secs_f64()).filter(|seconds| *seconds > 0.2);
            let rate_per_s = elapsed.map(|seconds| progress.done as f64 / seconds);
            let left = status.left.saturating_sub(self.clock.monotonic().since(begun));
            observer.status(&WalkStatus { rate_per_s, left, ..status.clone() });
            over.wait(SLICE);
        }
    }

    fn groups(&self) -> Vec<probe::ProcessGroup> {
        let root = |root: &Root| match root {
            Root::Service(name) => {
                self.services.iter().find(|(service, _)| service == name).map(|(_, pid)| *pid)
            }
            Root::Pid(text) => text.expand(self.variables).trim().parse().ok(),
            Root::PidFile(path) => {
                let text = std::fs::read_to_string(path.expand(self.variables)).ok()?;
                text.trim().parse().ok()
            }
        };
        let group = |group: &crate::ladder::Group| probe::ProcessGroup {
            name: group.name.clone(),
            roots: root(&group.root).into_iter().collect(),
        };
        self.ladder.groups.iter().map(group).collect()
    }

    fn read_meters(&self) -> Result<Vec<f64>, String> {
        let read = |meter: &Meter| self.read_meter(&meter.source);
        let named = |meter: &Meter| read(meter).map_err(|reason| format!("meter `{}`: {reason}", meter.name));
        self.ladder.meters.iter().map(named).collect()
    }

    fn read_meter(&self, source: &MeterSource) -> Result<f64, String> {
        match source {
            MeterSource::Command(words) => {
                let words: Vec<String> = words.iter().map(|word| word.expand(self.variables)).collect();
                counter(self.commands.run(&words)?.trim())
            }
            MeterSource::Json { url, pointer } => {
                let url = url.expand(self.variables);
                let answer = self.client().ask_2xx("GET", &url, None)?;
                let document: serde_json::Value =
                    serde_json::from_slice(&answer.content).map_err(|error| format!("{url}: {error}"))?;
                let number = document.pointer(pointer).filter(|value| value.is_number());
                counter(&number.ok_or_else(|| format!("{url} has no number at {pointer}"))?.to_string())
            }
        }
    }

    fn measured(
        &self,
        cell: &Cell,
        readings: Readings,
        page: NormalisedPage,
        proofs: Vec<String>,
    ) -> Measured {
        let outcome = &readings.outcome;
        let groups = results::groups(self.ladder, &readings.watch, outcome.good);
        let cpu = |roles: &[Role]| -> f64 {
            let mine = groups.iter().filter(|group| roles.iter().any(|role| role.name() == group.role));
            mine.map(|group| group.cpu_s).sum()
        };
        let generator = results::generator(outcome);
        let host = readings.watch.host;
        // The cores are free for the server while the generator busy-waits on one of them.
        let busy_wait = generator.busy_wait_s / (f64::from(self.cores) * readings.watch.seconds);
        let bound_by = bound_by(&CellFigures {
            concurrency: cell.load.concurrency,
            cores: self.cores,
            seconds: readings.watch.seconds,
            host_busy: host.busy.zip(host.steal).map(|(busy, steal)| (busy + steal - busy_wait).max(0.0)),
            link: host.link,
            generator_thread: generator.busiest_thread,
            generator_cpu_s: generator.cpu_s,
            site_cpu_s: cpu(&[Role::Site, Role::Database]),
            accelerator_cpu_s: cpu(&[Role::Accelerator]),
        });
        let starred = star::reasons(&outcome.check, &host, &readings.watch.groups);
        let (observed_load, load_samples) = results::observed_load(self.ladder, &readings.watch);
        Measured {
            seconds: outcome.elapsed.as_secs_f64(),
            answers: outcome.good,
            failures: results::failures(outcome),
            other_length: outcome.length_differs,
            what_changed: results::what_changed(outcome),
            received_bytes: outcome.received_bytes,
            throughput_per_s: outcome.good_per_second(),
            response: results::response_times(outcome),
            meters: results::meters(self.ladder, &readings),
            verdicts: results::verdicts(outcome),
            visitors: results::visitors(self.ladder, cell, outcome),
            writes: readings.writes,
            bystander: readings.bystander,
            twin: readings.twin,
            generator,
            observed_load,
            load_samples,
            groups,
            host,
            page: page.record,
            proofs,
            bound_by,
            starred,
        }
    }
}

/// Reads the value of a counter. The journal can hold no number that is not finite, and the
/// difference of two huge values is none.
fn counter(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.abs() <= COUNTER_MAX => Ok(number),
        Ok(_) => Err(format!("out of range{}", tail(text))),
        Err(_) => Err(format!("not a number{}", tail(text))),
    }
}

/// Joins a thread. A panic of that thread is a bug here and continues in the caller.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Sets a stop flag at the end of a scope, also if the scope panics. Otherwise the threads that
/// wait for the flag would never end.
struct SetOnDrop<'a>(&'a StopFlag);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[cfg(test)]
mod tests {
    use super::counter;

    #[test]
    fn counter_is_a_finite_number() {
        assert_eq!((counter("17"), counter("-0.5")), (Ok(17.0), Ok(-0.5)));
        assert_eq!(counter(&u64::MAX.to_string()), Ok(u64::MAX as f64));
        for refused in ["nan", "inf", "-inf", "infinity", "1e400", "-1e300", "17 queries", ""] {
            assert!(counter(refused).is_err(), "{refused}");
        }
        assert_eq!(counter("inf").unwrap_err(), "out of range: inf");
        assert_eq!(counter("").unwrap_err(), "not a number");
    }
}
