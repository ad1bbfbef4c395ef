//! One run that fills the cache with the pages of a site.
//!
//! Invariants: a request starts only when `crawl` and the origin have time for it. Long work on
//! lists of pages runs aside. The run ends when a later order has replaced it, when its site is
//! gone, and with the drain. Its file is written soon after the beginning, every few seconds, and
//! removed at the end.

use crate::memory::warmer::{OrderedRun, WarmBegin};
use crate::shared::Shared;
use crate::sites::Site;
use crate::upkeep::warm_documents;
use crate::upkeep::warm_file;
use crate::upkeep::warm_pages::{self, PageNeed};
use crate::upkeep::warming::site_name;
use address::HttpUrl;
use api::warm::{WarmCause, WarmRun};
use clock::Monotonic;
use crawl::pace::StopCause;
use crawl::{
    DocumentOutcome, PageOutcome, PlannedPage, URLS_BYTES_MAX, WarmEnd, WarmOrder, WarmStep, Warming,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Pause before a busy origin is looked at again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Longest wait in which an order to stop is not noticed.
const TICK: Duration = Duration::from_millis(200);

/// Time between two writes of the file. Fresh pages cost nothing, so a lost position costs little.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Pages that are looked at before the task yields.
const LOOKS_MAX: u32 = 32;

/// The state of a run.
struct RunState {
    shared: Arc<Shared>,
    order: OrderedRun,
    /// The pages; `None` while a thread works on them, or after that work has panicked.
    warming: Option<Warming>,
    /// The requests in progress.
    open: JoinSet<Ended>,
    /// Pages and documents among them.
    pages: usize,
    /// The last write of the file, and whether it had the pages.
    written: Option<(Monotonic, bool)>,
    shown: Option<Monotonic>,
    looks: u32,
}

/// A request that has ended.
enum Ended {
    Page(PlannedPage, PageOutcome),
    Document(Duration, DocumentOutcome),
}

/// Carries out a run.
pub(super) async fn run(shared: Arc<Shared>, order: OrderedRun) {
    let site = order.site.clone();
    let warming = match begin(&shared, &order).await {
        Ok(warming) => warming,
        Err(why) => {
            tracing::warn!("the cache of {site} is not filled: {why}");
            warm_file::remove(&shared, &site).await;
            let state = format!("did not begin: {why}");
            return shared.warmer.show(WarmRun { site, run: order.number, state, ..WarmRun::default() });
        }
    };
    shared.warmer.begins_with(&order, warming.order().clone());
    tracing::info!("fills the cache of {site} with the pages of {}", warming.order().url);
    let open = JoinSet::new();
    let (warming, pages, looks, written, shown) = (Some(warming), 0, 0, None, None);
    let mut run = RunState { shared, order, warming, open, pages, written, shown, looks };
    let (state, is_replaced) = run.work().await;
    let shown = run.progress(&state, false);
    tracing::info!(
        "the cache of {site}: {state}; {} pages found, {} stored, {} fresh before, {} cannot be stored, {} failed",
        shown.found,
        shown.warmed,
        shown.fresh,
        shown.not_cacheable,
        shown.failed
    );
    if !is_replaced {
        warm_file::remove(&run.shared, &site).await;
    }
    run.shared.warmer.show(shown);
}

/// The pages of a run, before the first request.
async fn begin(shared: &Arc<Shared>, order: &OrderedRun) -> Result<Warming, String> {
    let told = |error: crawl::WarmError| error.to_string();
    match &order.begin {
        WarmBegin::Ordered(ordered) => Warming::new(ordered.clone()).map_err(told),
        WarmBegin::Configured => Warming::new(configured(shared, &order.site).await?).map_err(told),
        WarmBegin::Resumed(state) => {
            let store = shared.store.stats();
            let (is_empty, state) = (store.objects == 0 && store.shelved == 0, state.clone());
            let resumed = threads::run_aside(move || warm_file::run_of(&state, is_empty)).await;
            let resumed = resumed.unwrap_or_else(|| Err("it cannot be read now".to_owned()));
            match resumed {
                Ok(warming) => Ok(warming),
                Err(why) => {
                    tracing::warn!(
                        "the file with the position in filling the cache of {} is ignored: {why}",
                        order.site
                    );
                    Warming::new(configured(shared, &order.site).await?).map_err(told)
                }
            }
        }
    }
}

/// The order that follows from the settings of a site.
async fn configured(shared: &Arc<Shared>, name: &str) -> Result<WarmOrder, String> {
    let mut sites = shared.sites.iter().filter(|site| site_name(site) == name);
    let plan = sites.find_map(|site| site.plan.warm.clone()).ok_or("the site has no setting warm.url")?;
    let pages = match plan.urls {
        None => Vec::new(),
        Some(path) => {
            let (disk, file) = (Arc::clone(&shared.system.disk), path.clone());
            let read = shared.disk_threads.run(shared.limits.disk_timeout, move || disk.read(&file)).await;
            let why = |why: String| format!("cannot read {}: {why}", path.display());
            let content = read.ok_or_else(|| why("the disk does not answer".to_owned()))?;
            let content = content.map_err(|error| why(error.to_string()))?;
            let text = content.get(..URLS_BYTES_MAX).unwrap_or(&content);
            crawl::listed_pages(&String::from_utf8_lossy(text))
        }
    };
    Ok(WarmOrder { url: plan.url, sitemaps: plan.sitemaps, pages, rate: plan.rate })
}

impl RunState {
    /// Works until the end. Returns it in words, and whether a later run has replaced this one.
    async fn work(&mut self) -> (String, bool) {
        loop {
            self.shared = self.shared.current();
            let (name, number) = (&self.order.site, self.order.number);
            if !self.shared.warmer.is_permitted(name, number) {
                let is_replaced = self.shared.warmer.has_run(name);
                let state =
                    if is_replaced { "was replaced by a later run" } else { "was stopped by an operator" };
                return (state.to_owned(), is_replaced);
            }
            self.write_if_due().await;
            let Some(warming) = &mut self.warming else {
                return ("ended unexpectedly; the log says why".to_owned(), false);
            };
            let site =
                site_of(&self.shared, warming.order()).filter(|site| site_name(site) == self.order.site);
            let Some(site) = site.cloned() else {
                return ("ended, because the configuration has no such site any more".to_owned(), false);
            };
            if !site.origin.has_time() {
                let state = if site.origin.is_open() {
                    "waits until the origin answers again"
                } else {
                    "waits, because visitors need the origin"
                };
                self.show(state);
                self.wait(BUSY_PAUSE).await;
                continue;
            }
            let gauges = site.origin.gauges();
            let visitors = (gauges.active + gauges.waiting).saturating_sub(self.pages);
            let step = warming.step(self.shared.clock.monotonic(), visitors);
            self.show("fills the cache");
            match step {
                WarmStep::Document(url) => self.request_document(site, url.into()),
                WarmStep::Page(page) => self.look_at(page).await,
                WarmStep::Wait(until) => {
                    let now = self.shared.clock.monotonic();
                    self.wait(until.map_or(TICK, |until| until.since(now)).min(TICK)).await;
                }
                WarmStep::Done(end) => return (text_of(end), false),
            }
        }
    }

    fn request_document(&mut self, site: Arc<Site>, url: String) {
        let shared = Arc::clone(&self.shared);
        self.pages += 1;
        self.open.spawn(async move {
            let begun = shared.clock.monotonic();
            let outcome = match warm_documents::document(Arc::clone(&shared), url).await {
                // The breaker opens before the run would end because of failures.
                DocumentOutcome::Failed(_) if site.origin.is_open() => DocumentOutcome::Postponed,
                outcome => outcome,
            };
            Ended::Document(shared.clock.monotonic().since(begun), outcome)
        });
    }

    /// Looks at a page, and requests it if that is needed.
    async fn look_at(&mut self, page: PlannedPage) {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS_MAX) {
            tokio::task::yield_now().await;
        }
        let outcome = match warm_pages::need(&self.shared, page.url.as_str()).await {
            PageNeed::Nothing => PageOutcome::Fresh,
            PageNeed::Never(reason) => PageOutcome::NotCacheable(reason.to_owned(), None),
            PageNeed::Fetch(first) if !first.has_time() => PageOutcome::Postponed,
            PageNeed::Fetch(first) => {
                let (shared, url) = (Arc::clone(&self.shared), page.url.to_string());
                self.pages += 1;
                self.open.spawn(async move {
                    let outcome = warm_pages::fetch(shared, url, first).await;
                    Ended::Page(page, outcome)
                });
                return;
            }
        };
        let is_postponed = outcome == PageOutcome::Postponed;
        self.page_ended(page, outcome);
        if is_postponed {
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    fn page_ended(&mut self, page: PlannedPage, outcome: PageOutcome) {
        let now = self.shared.clock.monotonic();
        if let Some(warming) = &mut self.warming {
            warming.page_ended(now, page, outcome);
        }
    }

    /// Waits for the end of a request, but no longer than this.
    async fn wait(&mut self, most: Duration) {
        let ended = tokio::time::timeout(most, async {
            match self.open.join_next().await {
                Some(ended) => ended,
                // Nothing is in progress, so only time passes.
                None => std::future::pending().await,
            }
        });
        let Ok(ended) = ended.await else { return };
        self.pages = self.pages.saturating_sub(1);
        let now = self.shared.clock.monotonic();
        match ended {
            Ok(Ended::Page(page, outcome)) => {
                let is_postponed = outcome == PageOutcome::Postponed;
                self.page_ended(page, outcome);
                if is_postponed {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
            }
            Ok(Ended::Document(took, outcome)) => {
                let is_postponed = outcome == DocumentOutcome::Postponed;
                self.aside(move |warming| warming.document_ended(now, took, outcome)).await;
                if is_postponed {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
            }
            // A panic of a request is a panic of its run, which is reported and counted.
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    /// Works on the list of pages on another thread, because that may take long. `None` if the work
    /// has panicked, or if the process ends.
    async fn aside<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Warming) -> T + Send + 'static,
    ) -> Option<T> {
        let mut warming = self.warming.take()?;
        let (warming, result) = threads::run_aside(move || {
            let result = work(&mut warming);
            (warming, result)
        })
        .await?;
        self.warming = Some(warming);
        Some(result)
    }

    async fn write_if_due(&mut self) {
        let now = self.shared.clock.monotonic();
        let has_directory = self.shared.plan.state_directory.is_some();
        let knows_pages = self.warming.as_ref().is_some_and(Warming::knows_pages);
        let is_recent = |(written, knew_pages): (Monotonic, bool)| {
            now.since(written) < WRITE_EVERY && knew_pages == knows_pages
        };
        if !has_directory || self.written.is_some_and(is_recent) {
            return;
        }
        self.written = Some((now, knows_pages));
        let state = self.aside(|warming| serde_json::to_vec(&warming.state())).await;
        if let Some(Ok(state)) = state {
            warm_file::write(&self.shared, &self.order.site, state).await;
        }
    }

    fn show(&mut self, state: &str) {
        let now = self.shared.clock.monotonic();
        if self.shown.is_none_or(|shown| now.since(shown) >= SHOW_EVERY) {
            self.shown = Some(now);
            self.shared.warmer.show(self.progress(state, true));
        }
    }

    fn progress(&self, state: &str, is_running: bool) -> WarmRun {
        let shown = WarmRun {
            is_running,
            run: self.order.number,
            site: self.order.site.clone(),
            state: state.to_owned(),
            ..WarmRun::default()
        };
        let Some(warming) = &self.warming else { return shown };
        let counts = warming.counts();
        let cause = |cause: &str, pages| WarmCause { cause: cause.to_owned(), pages };
        let mut causes: Vec<_> =
            counts.not_cacheable.iter().map(|(reason, pages)| cause(reason, *pages)).collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.pages));
        let skipped = warming.skipped().into_iter().map(|(why, pages)| cause(why.name(), pages));
        WarmRun {
            causes,
            failed: counts.failed,
            found: counts.found,
            fresh: counts.fresh,
            not_cacheable: counts.uncacheable().0,
            notes: warming.notes().to_vec(),
            skipped: skipped.collect(),
            url: warming.order().url.clone(),
            warmed: counts.warmed,
            ..shown
        }
    }
}

/// The site of an order, or its first route with pages; `None` if the plan has no such site.
fn site_of<'a>(shared: &'a Shared, order: &WarmOrder) -> Option<&'a Arc<Site>> {
    let url = HttpUrl::parse(&order.url).ok()?;
    let host = shared.sites.host(Some(url.authority().as_bytes()))?;
    let of_host = |site: &&Arc<Site>| site.plan.names == host.names();
    host.site().or_else(|| shared.sites.iter().find(of_host))
}

/// The name of the site of a URL, if the plan has it and it has pages.
pub(crate) fn site_name_of(shared: &Shared, url: &str) -> Option<String> {
    let order = WarmOrder { url: url.to_owned(), sitemaps: None, pages: Vec::new(), rate: None };
    site_of(shared, &order).map(|site| site_name(site).to_owned())
}

fn text_of(end: WarmEnd) -> String {
    match end {
        WarmEnd::Complete => "complete".to_owned(),
        WarmEnd::NoRules => "ended, because robots.txt cannot be read".to_owned(),
        WarmEnd::Stopped(StopCause::FailuresInRow(count)) => {
            format!("ended, because the origin failed {count} times in a row")
        }
        WarmEnd::Stopped(StopCause::RecentFailures(count)) => {
            format!("ended, because {count} of the last {} pages failed", crawl::pace::RECENT)
        }
        WarmEnd::Stopped(StopCause::RetryAfter(wait)) => {
            format!("ended, because the origin asks to come back after {} s", wait.as_secs())
        }
        WarmEnd::Stopped(StopCause::Slower { .. }) => "ended, because the origin became slower".to_owned(),
    }
}
