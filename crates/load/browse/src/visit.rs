//! One page load: the document and all resources it needs, as many at a time as connections allow.
//!
//! Invariant: a page load ends when none of its resources is in progress, and it is counted once.
//! The [`ResourceClass`] of a resource decides whether it counts toward the page's time.

use crate::fetch::{FetchedResource, ResourceFetcher};
use crate::visitor::{Connections, Visitor};
use crate::worker::BrowseWorker;
use clock::Monotonic;
use page::{Loading, Subresource};
use record::{FetchFailure, TRACE_MAX, TracedUrl, kept_url};
use resource::ResourceClass;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// A resource in progress.
type PendingResource<'a> =
    Pin<Box<dyn Future<Output = (Subresource, Result<FetchedResource, FetchFailure>)> + 'a>>;

/// State of a page load in progress.
struct PageLoad<'a> {
    fetching: &'a ResourceFetcher<'a>,
    loading: Loading,
    trace: Option<Vec<TracedUrl>>,
    /// When the first byte of the document arrived, and when the last resource that counts toward
    /// the page's time ended.
    first_octet: Option<Monotonic>,
    ended: Option<Monotonic>,
    has_document: bool,
    is_complete: bool,
}

/// Loads the page for a visitor. `due` is when it was meant to begin.
pub(crate) async fn visit(
    worker: &BrowseWorker,
    visitor: &RefCell<Visitor>,
    is_returning: bool,
    due: Monotonic,
) {
    let plan = &worker.shared.plan;
    let is_measured = worker.shared.is_measured(due);
    let connections = Connections::new(plan, is_measured);
    let fetching = ResourceFetcher { worker, visitor, connections, page: plan.url.clone() };
    let is_traced = !is_returning && is_measured && fetching.figures().trace.is_empty();
    let mut page = PageLoad {
        fetching: &fetching,
        loading: Loading::new(plan.limits),
        trace: is_traced.then(Vec::new),
        first_octet: None,
        ended: None,
        has_document: false,
        is_complete: true,
    };
    let mut waiting = vec![Loading::page(plan.url.clone())];
    let mut under_way: Vec<PendingResource<'_>> = Vec::new();
    loop {
        for asset in std::mem::take(&mut waiting) {
            if page.is_to_be_asked(&asset) {
                under_way.push(Box::pin(fetch(&fetching, asset)));
            } else {
                waiting.extend(page.ended(&asset));
            }
        }
        if !waiting.is_empty() {
            continue;
        }
        if under_way.is_empty() {
            break;
        }
        let (asset, result) = next(&mut under_way).await;
        waiting = page.arrived(&asset, result);
    }
    visitor.borrow_mut().has_visited |= page.has_document;
    page.record(is_returning, due);
    drop(under_way);
    worker.leave(fetching.connections);
}

async fn fetch<'a>(
    fetching: &'a ResourceFetcher<'a>,
    asset: Subresource,
) -> (Subresource, Result<FetchedResource, FetchFailure>) {
    let result = fetching.fetch(&asset).await;
    (asset, result)
}

/// Waits for the first ready future, and removes it. There must be at least one future.
async fn next(
    under_way: &mut Vec<PendingResource<'_>>,
) -> (Subresource, Result<FetchedResource, FetchFailure>) {
    let (at, output) = poll_fn(|context| {
        for (at, future) in under_way.iter_mut().enumerate() {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready((at, output));
            }
        }
        Poll::Pending
    })
    .await;
    // A finished future must not be polled again. `remove` keeps the order of the others, which
    // decides the next user of a free connection.
    drop(under_way.remove(at));
    output
}

/// Whether a resource of this class counts toward the page's time.
fn holds_up(class: ResourceClass) -> bool {
    !matches!(class, ResourceClass::Icon | ResourceClass::Media | ResourceClass::Other)
}

impl PageLoad<'_> {
    /// Whether to request an asset. Assets on foreign hosts are only counted.
    fn is_to_be_asked(&mut self, asset: &Subresource) -> bool {
        if !self.fetching.worker.shared.plan.may_ask(&asset.url) {
            self.fetching.figures().foreign(asset.url.host_str().unwrap_or_default());
            self.note(asset, "foreign");
            return false;
        }
        let knows_icon = asset.class == ResourceClass::Icon && self.fetching.visitor.borrow().has_icon;
        if knows_icon {
            self.note(asset, "cached");
        }
        !knows_icon
    }

    fn ended(&mut self, asset: &Subresource) -> Vec<Subresource> {
        self.loading.ended(&mut self.fetching.worker.memo.borrow_mut(), asset)
    }

    /// Handles the result of an asset. Returns the assets to load next.
    fn arrived(
        &mut self,
        asset: &Subresource,
        result: Result<FetchedResource, FetchFailure>,
    ) -> Vec<Subresource> {
        let now = self.fetching.worker.shared.clock.monotonic();
        if holds_up(asset.class) {
            self.ended = Some(now);
        }
        if asset.class == ResourceClass::Icon {
            self.fetching.visitor.borrow_mut().has_icon = true;
        }
        let worker = self.fetching.worker;
        // A missing icon, a redirect to a foreign host and a limit of this machine do not indicate
        // a failing server.
        let is_telling = asset.class != ResourceClass::Icon
            && !matches!(result, Err(failure) if failure == FetchFailure::Foreign || failure.local_limit().is_some());
        worker.shared.failure_tally.count(1, u64::from(is_telling && result.is_err()));
        let fetched = match result {
            Ok(fetched) => fetched,
            Err(failure) => {
                let mut figures = self.fetching.figures();
                if let Some(figures) = figures.of(asset.class) {
                    figures.failed += 1;
                }
                figures.fail(asset.url.as_str(), failure);
                drop(figures);
                worker.tally(self.fetching.connections.is_measured, |tally| tally.counts.fail(failure));
                self.is_complete = false;
                self.note(asset, failure.name());
                return self.ended(asset);
            }
        };
        self.note(asset, if fetched.arrived.is_some() { "loaded" } else { "cached" });
        if fetched.url != asset.url {
            let mut led_to = asset.clone();
            led_to.url = fetched.url.clone();
            self.note(&led_to, "redirected");
        }
        let mut memo = self.fetching.worker.memo.borrow_mut();
        match asset.class {
            ResourceClass::Document | ResourceClass::Frame => {
                if asset.class == ResourceClass::Document {
                    self.has_document = true;
                    self.first_octet = fetched.arrived;
                }
                let is_html = content_is_html(&fetched);
                if !is_html {
                    return self.loading.ended(&mut memo, asset);
                }
                self.loading.document(&mut memo, asset, &fetched.url, &fetched.head.fields, &fetched.content)
            }
            ResourceClass::Stylesheet => {
                self.loading.stylesheet(&mut memo, asset, &fetched.url, &fetched.content)
            }
            _ => self.loading.ended(&mut memo, asset),
        }
    }

    fn note(&mut self, asset: &Subresource, what: &'static str) {
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.len() < TRACE_MAX) {
            trace.push(TracedUrl { url: kept_url(asset.url.as_str()), class: asset.class, what });
        }
    }

    /// Adds the page load to the figures.
    fn record(mut self, is_returning: bool, due: Monotonic) {
        let lazy: Vec<Subresource> = self.loading.lazy().cloned().collect();
        for asset in &lazy {
            self.note(asset, "lazy");
        }
        let (worker, is_measured) = (self.fetching.worker, self.fetching.connections.is_measured);
        if is_measured {
            worker.shared.watch.add_page(self.has_document);
        }
        let mut figures = self.fetching.figures();
        figures.limits.merge(self.loading.limits_hit());
        figures.lazy += lazy.len() as u64;
        match (self.has_document, self.is_complete) {
            (true, true) => figures.pages.good += 1,
            (true, false) => figures.pages.incomplete += 1,
            (false, _) => figures.pages.failed += 1,
        }
        figures.pages.returning += u64::from(is_returning);
        let since = |moment: Monotonic| u64::try_from(moment.since(due).as_micros()).unwrap_or(u64::MAX);
        let page_us = self.ended.filter(|_| self.has_document).map(since);
        worker.tally(is_measured, |tally| {
            match (self.has_document, self.is_complete) {
                (true, true) => tally.counts.good += 1,
                (true, false) => tally.counts.incomplete += 1,
                (false, _) => tally.counts.failed += 1,
            }
            page_us.into_iter().for_each(|page_us| tally.page_times.record(page_us));
        });
        if let Some(page_us) = page_us {
            figures.page_times.record(page_us);
            if is_returning {
                figures.returning_times.record(page_us);
            }
        }
        if let Some(first) = self.first_octet {
            figures.first_octet_times.record(since(first));
        }
        if let Some(trace) = self.trace.filter(|_| self.has_document) {
            figures.trace = trace;
        }
    }
}

/// Whether a browser parses the response as a document. A response without a type counts as one.
fn content_is_html(fetched: &FetchedResource) -> bool {
    let Some(kind) = fetched.head.fields.first(message::names::CONTENT_TYPE) else { return true };
    let essence = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"text/html") || essence.eq_ignore_ascii_case(b"application/xhtml+xml")
}
