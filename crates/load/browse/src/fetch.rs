//! Loads one resource for one visitor: from the cache, or with requests that follow redirects.
//!
//! Invariant: no connection is made to a host that may not be requested, wherever a redirect leads.
//! Every exchange is recorded once. The content is not interpreted here.

use crate::connection::{ContentBuffer, ResourceResponse};
use crate::visitor::{Connections, Visitor};
use crate::worker::BrowseWorker;
use bytes::Bytes;
use clock::Monotonic;
use message::{Fields, Method, RequestHead, ResponseHead, Status, Version, names};
use page::{CacheLookup, CodingError, Subresource, decoded};
use record::{CacheVerdict, FetchFailure, PageFigures};
use resource::{PageLimit, PageLimits, ResourceClass};
use semantics::Moment;
use std::cell::{Cell, RefCell, RefMut};
use url::{Position, Url};

/// A resource that has arrived.
#[derive(Debug)]
pub(crate) struct FetchedResource {
    /// The final URL, after redirects.
    pub(crate) url: Url,
    pub(crate) head: ResponseHead,
    /// Content without its content coding; empty for classes that are not parsed.
    pub(crate) content: Bytes,
    /// When the first byte arrived; `None` if the resource came from the cache.
    pub(crate) arrived: Option<Monotonic>,
}

/// The range requested of video and audio: browsers load only the beginning before
/// playback.
const MEDIA_RANGE: &str = "bytes=0-65535";

/// Fetches the resources of one page load.
pub(crate) struct ResourceFetcher<'a> {
    pub(crate) worker: &'a BrowseWorker,
    pub(crate) visitor: &'a RefCell<Visitor>,
    pub(crate) connections: Connections,
    pub(crate) page: Url,
}

impl ResourceFetcher<'_> {
    /// Loads one resource.
    pub(crate) async fn fetch(&self, asset: &Subresource) -> Result<FetchedResource, FetchFailure> {
        let mut url = asset.url.clone();
        for _ in 0..=self.worker.shared.plan.limits.redirects_max {
            if !self.worker.shared.plan.may_ask(&url) {
                self.figures().foreign(url.host_str().unwrap_or_default());
                return Err(FetchFailure::Foreign);
            }
            let (head, content, arrived) = self.step(&url, asset.class).await?;
            let Some(next) = redirected(&url, &head) else {
                return self.read(url, head, &content, arrived, asset.class);
            };
            self.figures().redirects += 1;
            url = next;
        }
        self.figures().limits.add(PageLimit::Redirects);
        Err(FetchFailure::Redirects)
    }

    /// Judges the final response, and decodes its content if it will be parsed.
    fn read(
        &self,
        url: Url,
        head: ResponseHead,
        content: &Bytes,
        arrived: Option<Monotonic>,
        class: ResourceClass,
    ) -> Result<FetchedResource, FetchFailure> {
        let is_good = match class {
            ResourceClass::Document => self.worker.shared.plan.expect_status.contains(head.status.code()),
            // A frame shows any response, and a missing icon is no failure.
            ResourceClass::Frame | ResourceClass::Icon => true,
            _ => head.status.is_success(),
        };
        if !is_good {
            return Err(FetchFailure::Status);
        }
        if !is_read(class) {
            return Ok(FetchedResource { url, head, content: Bytes::new(), arrived });
        }
        match decoded(&head.fields, content, self.worker.shared.plan.limits.decoded_bytes_max) {
            Ok(content) => Ok(FetchedResource { url, head, content, arrived }),
            Err(CodingError::TooLong) => {
                self.figures().limits.add(PageLimit::Decoded);
                Err(FetchFailure::TooLong)
            }
            Err(CodingError::Unknown | CodingError::Broken) => Err(FetchFailure::Coding),
        }
    }

    /// One step of a fetch: a cached, revalidated or new response.
    async fn step(
        &self,
        url: &Url,
        class: ResourceClass,
    ) -> Result<(ResponseHead, Bytes, Option<Monotonic>), FetchFailure> {
        let now = Moment::read(&*self.worker.shared.clock);
        let mut request = self.request(url, class, now);
        let kept = self.visitor.borrow().cache.look(url, &request.fields, now);
        match kept {
            CacheLookup::Fresh(head, content) => {
                if let Some(figures) = self.figures().of(class) {
                    figures.from_cache += 1;
                }
                return Ok((head, content, None));
            }
            CacheLookup::Ask(conditions) => conditions.iter().for_each(|field| {
                request.fields.push(field.name.clone(), field.value.clone());
            }),
            CacheLookup::Nothing => {}
        }
        let began = Cell::new(self.worker.shared.clock.monotonic().as_nanos());
        let (bytes_max, limit) = bytes_max(class, &self.worker.shared.plan.limits);
        let content = ContentBuffer::new(is_read(class), bytes_max);
        let answered = self.connections.exchange(self.worker, url, &request, &content, &began).await;
        let answer = match answered {
            Ok(answer) => answer,
            Err(failure) => {
                if let Some(figures) = self.figures().of(class) {
                    figures.requests += 1;
                }
                if failure == FetchFailure::TooLong {
                    self.figures().limits.add(limit);
                }
                return Err(failure);
            }
        };
        let total = answer.ended.since(Monotonic::from_nanos(began.get()));
        let total_us = u64::try_from(total.as_micros()).unwrap_or(u64::MAX);
        let verdict = CacheVerdict::of(|name| answer.head.fields.first(name).map(|value| &value[..]));
        record(&mut self.figures(), class, &answer, verdict, total_us);
        self.worker.tally(self.connections.is_measured, |tally| {
            let counts = &mut tally.counts;
            counts.requests += 1;
            *counts.statuses.entry(answer.head.status.code()).or_default() += 1;
            verdict.into_iter().for_each(|verdict| *counts.verdicts.entry(verdict).or_default() += 1);
            counts.received_bytes += answer.received_bytes;
            tally.request_times.record(total_us);
        });
        let mut visitor = self.visitor.borrow_mut();
        visitor.jar.take(url, &answer.head.fields, answer.times.1.wall);
        let arrived = Some(answer.times.1.monotonic);
        if answer.head.status == Status::NOT_MODIFIED {
            let confirmed = visitor.cache.confirm(url, &request, &answer.head, answer.times);
            let (head, content) = confirmed.ok_or(FetchFailure::BadAnswer)?;
            return Ok((head, content, arrived));
        }
        visitor.cache.store(url, &request, &answer.head, answer.content.clone(), answer.times);
        Ok((answer.head, answer.content, arrived))
    }

    /// The request that a browser sends for this resource. Fields of the plan replace built-in
    /// ones.
    fn request(&self, url: &Url, class: ResourceClass, now: Moment) -> RequestHead {
        let mut fields = Fields::with_capacity(8);
        fields.push(names::HOST, url[Position::BeforeHost..Position::AfterPort].to_owned());
        let own: [(&str, &str); 4] = [
            (names::USER_AGENT, load::USER_AGENT),
            ("Accept", accept(class)),
            (names::ACCEPT_ENCODING, "gzip"),
            (names::RANGE, MEDIA_RANGE),
        ];
        let is_given = |name: &str| {
            self.worker.shared.plan.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        for (name, value) in own {
            let is_for_this = name != names::RANGE || class == ResourceClass::Media;
            if is_for_this && !is_given(name) {
                fields.push(name.to_owned(), value);
            }
        }
        if class != ResourceClass::Document && !is_given("Referer") {
            fields.push("Referer", self.page.as_str().to_owned());
        }
        for (name, value) in &self.worker.shared.plan.headers {
            fields.push(name.clone(), value.clone());
        }
        if let Some(cookies) = self.visitor.borrow().jar.value(url, now.wall)
            && !is_given(names::COOKIE)
        {
            fields.push(names::COOKIE, cookies);
        }
        let target = url[Position::BeforePath..Position::AfterQuery].to_owned();
        RequestHead { method: Method::Get, target: target.into(), version: Version::Http11, fields }
    }

    pub(crate) fn figures(&self) -> RefMut<'_, PageFigures> {
        self.worker.figures(self.connections.is_measured)
    }
}

/// Whether content of this class is parsed for further resources.
fn is_read(class: ResourceClass) -> bool {
    matches!(class, ResourceClass::Document | ResourceClass::Frame | ResourceClass::Stylesheet)
}

/// The most bytes of content that are received for a class, and the limit that says so. Beyond the
/// decoding limit plus an eighth, parsed content is too long in any ordinary coding, so the rest is
/// neither awaited nor held in memory.
fn bytes_max(class: ResourceClass, limits: &PageLimits) -> (usize, PageLimit) {
    let parsed_max = limits.decoded_bytes_max.saturating_add(limits.decoded_bytes_max / 8);
    if is_read(class) && parsed_max < limits.content_bytes_max {
        (parsed_max, PageLimit::Decoded)
    } else {
        (limits.content_bytes_max, PageLimit::Content)
    }
}

fn accept(class: ResourceClass) -> &'static str {
    match class {
        ResourceClass::Document | ResourceClass::Frame => {
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
        }
        ResourceClass::Stylesheet => "text/css,*/*;q=0.1",
        ResourceClass::Image | ResourceClass::Icon => {
            "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
        }
        ResourceClass::Script | ResourceClass::Font | ResourceClass::Media | ResourceClass::Other => "*/*",
    }
}

/// The target of a redirect; `None` if the response is no redirect.
fn redirected(url: &Url, head: &ResponseHead) -> Option<Url> {
    if !matches!(head.status.code(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = std::str::from_utf8(head.fields.first(names::LOCATION)?).ok()?;
    let mut next = url.join(location).ok()?;
    next.set_fragment(None);
    Some(next)
}

fn record(
    figures: &mut PageFigures,
    class: ResourceClass,
    answer: &ResourceResponse,
    verdict: Option<CacheVerdict>,
    total_us: u64,
) {
    let head = &answer.head;
    *figures.statuses.entry(head.status.code()).or_default() += 1;
    if let Some(verdict) = verdict {
        *figures.verdicts.entry((class == ResourceClass::Document, verdict)).or_default() += 1;
    }
    if let Some(figures) = figures.of(class) {
        figures.requests += 1;
        figures.received_bytes += answer.received_bytes;
        figures.not_modified += u64::from(head.status == Status::NOT_MODIFIED);
        figures.times.record(total_us);
    }
}
