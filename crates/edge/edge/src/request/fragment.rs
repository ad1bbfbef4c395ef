//! Requests for fragments of a page.
//!
//! Invariants: a fragment is requested by the same steps as a page, as the visitor's browser would
//! request its URL. Its rules, key, lifetime and coalescing are therefore those of its own URL, and
//! a shared fetch for it contains nothing of the visitor. A page and all fragments within its
//! fragments have one budget of requests, bytes and time; each byte is taken from it before it is
//! kept. A fragment that is not complete is none.

use crate::control::counters::Metric;
use crate::memory::budget::MemoryShare;
use crate::request::arrival::Arrival;
use crate::request::client::ClientConnection;
use crate::request::foreign_ports::X_FORWARDED_PORT;
use crate::request::fragment_place::{
    FRAGMENT_BYTES_MAX, FragmentPlace, Handover, StoredFragment, may_stand_in_page,
};
use crate::request::fragment_url::{FragmentAddress, address_of, text_of_path};
use crate::request::guard::{HTTPS_CLAIMS, X_FORWARDED_PREFIX};
use crate::request::visit::{AfterResponse, RunRequest, Visit};
use crate::shared::Shared;
use crate::sites::Site;
use bytes::{Bytes, BytesMut};
use esi::Fetch;
use h1::client::{Exchange, ResponseEvent, Terms};
use h1::{BodyFraming, Request, Target};
use message::{Fields, Method, RequestHead, Version, names};
use net::{Connection, Stream};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Number of fragments of a page that are requested at the same time.
const AT_ONCE: usize = 16;

/// The same for a fragment that is a template: with more, each level would multiply the requests.
const AT_ONCE_WITHIN: usize = 1;

/// Bytes of the head of a fragment's response, beside its content.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Longest wait for one URL of a fragment; `maxwait` shortens it.
const FRAGMENT_WAIT: Duration = Duration::from_secs(10);

/// The fields of a page's request that the request for a fragment has too, beside those in which
/// trusted proxies state the visitor's scheme, port and prefix.
const COPIED: [&str; 9] = [
    names::HOST,
    names::USER_AGENT,
    "Accept",
    "Accept-Language",
    names::COOKIE,
    names::AUTHORIZATION,
    names::X_FORWARDED_FOR,
    names::X_FORWARDED_HOST,
    names::X_FORWARDED_PROTO,
];

/// Those of them that belong to the host of the page: a fragment of another host gets what a
/// browser would send there.
const OF_HOST: [&str; 5] =
    [names::COOKIE, names::AUTHORIZATION, names::X_FORWARDED_HOST, X_FORWARDED_PORT, X_FORWARDED_PREFIX];

/// Requests the fragments of one template.
#[derive(Clone)]
pub(crate) struct FragmentSource {
    shared: Arc<Shared>,
    worker: usize,
    arrival: Arrival,
    /// The fields of each request.
    fields: Arc<Fields>,
    /// The target of the page.
    page: Bytes,
    /// The site of the page.
    site: Option<Arc<Site>>,
    turns: Arc<Semaphore>,
    /// The place of the fragments.
    pub(crate) place: FragmentPlace,
    /// The steps of a request.
    run: RunRequest,
}

/// The content of a fragment.
#[derive(Debug)]
pub(crate) enum FragmentContent {
    /// A stored response in memory, which the page shares with the store.
    Stored(StoredFragment),
    /// Content that was sent to the page.
    Sent(Bytes),
}

/// A fragment that was requested. Dropping it ends the request.
pub(crate) struct PendingFragment {
    pub(crate) id: usize,
    state: FragmentState,
}

/// How far the request for a fragment is.
enum FragmentState {
    /// It has ended.
    Here(Option<FragmentContent>),
    /// It waits for something, in a task of its own.
    Arriving(JoinHandle<Option<FragmentContent>>),
}

impl Drop for PendingFragment {
    fn drop(&mut self) {
        if let FragmentState::Arriving(task) = &self.state {
            task.abort();
        }
    }
}

impl PendingFragment {
    pub(crate) fn is_here(&self) -> bool {
        match &self.state {
            FragmentState::Here(_) => true,
            FragmentState::Arriving(task) => task.is_finished(),
        }
    }

    /// The stored response, if the content is there as one.
    pub(crate) fn stored(&self) -> Option<&StoredFragment> {
        match &self.state {
            FragmentState::Here(Some(FragmentContent::Stored(stored))) => Some(stored),
            FragmentState::Here(_) | FragmentState::Arriving(_) => None,
        }
    }

    /// The content; `None` if it cannot be had.
    pub(crate) async fn content(mut self) -> Option<FragmentContent> {
        match &mut self.state {
            FragmentState::Here(content) => content.take(),
            FragmentState::Arriving(task) => task.await.ok().flatten(),
        }
    }
}

impl FragmentSource {
    /// The source of fragments for a visit.
    pub(crate) fn of(visit: &Visit<'_>, place: FragmentPlace) -> Self {
        let request = &visit.request.head;
        let mut fields = Fields::new();
        let of_proxies =
            HTTPS_CLAIMS.iter().map(|(name, _)| *name).chain([X_FORWARDED_PORT, X_FORWARDED_PREFIX]);
        for name in COPIED.into_iter().chain(of_proxies) {
            request.fields.all(name).for_each(|value| fields.push(name, value.clone()));
        }
        // The page is assembled from plain text.
        fields.push(names::ACCEPT_ENCODING, "identity");
        let at_once = if visit.client.fragment_of().is_some() { AT_ONCE_WITHIN } else { AT_ONCE };
        Self {
            shared: Arc::clone(visit.shared),
            worker: visit.worker,
            arrival: visit.client.arrival(),
            fields: Arc::new(fields),
            page: request.target.clone(),
            site: visit.site.cloned(),
            turns: Arc::new(Semaphore::new(at_once)),
            place,
            run: visit.run_request,
        }
    }

    /// The memory in which a page is queued.
    pub(crate) fn memory(&self) -> &Arc<MemoryShare> {
        self.shared.buffers.memory()
    }

    /// Counts something about the page.
    pub(crate) fn count(&self, metric: Metric) {
        self.shared.cells(self.worker).count(metric);
    }

    /// Requests a fragment. One that needs no waiting, such as a hit in memory, is there without a
    /// task.
    pub(crate) async fn begin(&self, fetch: Fetch) -> PendingFragment {
        let (id, mut fetching) = (fetch.id, Box::pin(self.clone().fetch(fetch)));
        let begun = poll_fn(|context| Poll::Ready(fetching.as_mut().poll(context))).await;
        let state = match begun {
            Poll::Ready(content) => FragmentState::Here(content),
            // The task polls it at once, and is then woken in place of this one.
            Poll::Pending => FragmentState::Arriving(tokio::spawn(fetching)),
        };
        PendingFragment { id, state }
    }

    /// The content of the first URL of an include that can be had.
    async fn fetch(self, fetch: Fetch) -> Option<FragmentContent> {
        let turn = tokio::time::timeout_at(self.place.ends(), self.turns.acquire()).await;
        let stated = fetch.maxwait_ms.map(|ms| Duration::from_millis(ms.into()));
        let wait = stated.unwrap_or(FRAGMENT_WAIT).min(FRAGMENT_WAIT);
        for url in [Some(fetch.src), fetch.alt].into_iter().flatten() {
            let now = Instant::now();
            // A request that is awaited until a time in the past would still begin.
            if turn.is_err() || now >= self.place.ends() {
                break;
            }
            let ends = self.place.ends().min(now + wait);
            match tokio::time::timeout_at(ends, self.request(&url)).await {
                Ok(Some(content)) => return Some(content),
                Ok(None) => {}
                Err(_) => self.tell_late(&url),
            }
        }
        self.count(Metric::EsiFragmentsFailed);
        None
    }

    /// Tells the operator of a fragment that was given up: its request has no record.
    fn tell_late(&self, url: &[u8]) {
        // Without queries, so that a page with any query is told of once.
        let (url, page) = (text_of_path(url), text_of_path(&self.page));
        let text = format!("the fragment {url} of {page} was late, and is missing in the page");
        self.shared.complaints.tell(&text, self.shared.clock.monotonic());
    }

    /// The fields of a request to another host.
    fn fields_for(&self, host: &str) -> Fields {
        let mut fields = (*self.fields).clone();
        for name in OF_HOST {
            fields.remove(name);
        }
        fields.set(names::HOST, host.to_owned());
        fields
    }

    /// The content of a URL.
    async fn request(&self, url: &[u8]) -> Option<FragmentContent> {
        let host = self.fields.only(names::HOST)?;
        let listed = self.site.as_deref().map_or(&[][..], |site| &site.plan.esi_hosts);
        let FragmentAddress { other_host, target } = address_of(url, (host, listed), &self.page)?;
        let target = Bytes::from(target);
        // What a client's request with such a target is refused for.
        Target::split(&Method::Get, &target).ok()?;
        if !self.place.take_request() {
            return None;
        }
        self.count(Metric::EsiFragments);
        // HTTP/1.0, so that the content has no framing within it. The end of the work says whether
        // it is complete.
        let head = RequestHead {
            method: Method::Get,
            target,
            version: Version::Http10,
            fields: other_host.map_or_else(|| (*self.fields).clone(), |host| self.fields_for(host)),
        };
        let request = Request {
            head,
            framing: BodyFraming::Empty,
            persistent: false,
            expect_continue: false,
            upgrade: false,
        };
        let output = Arc::new(Mutex::new(KeptOutput::of(&self.place)));
        let stream = Stream::Other(Box::new(Collector(Arc::clone(&output))));
        let limits = Arc::clone(&self.shared.limits);
        let handover = Handover::new(self.place.clone());
        let client = ClientConnection::of_fragment(stream, self.arrival, limits, handover.clone());
        match (self.run)(Arc::clone(&self.shared), self.worker, client, Box::new(request)).await {
            AfterResponse::Gone | AfterResponse::Tunnel(..) => None,
            AfterResponse::Keep | AfterResponse::Close | AfterResponse::Linger => {
                if let Some(stored) = handover.take() {
                    return Some(FragmentContent::Stored(stored));
                }
                let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                let content = content_of(std::mem::take(&mut output.octets))?;
                // These stay counted until the page ends.
                output.taken_bytes = output.taken_bytes.saturating_sub(content.len());
                Some(FragmentContent::Sent(content))
            }
        }
    }
}

/// The content of a whole response, if it may stand in a page and is within the limit, which is the
/// same for a fragment that is left in memory.
fn content_of(mut input: BytesMut) -> Option<Bytes> {
    let mut exchange = Exchange::new(&Method::Get, Terms::TOLERANT);
    let mut content = Vec::new();
    loop {
        match exchange.next(&mut input).ok()? {
            Some(ResponseEvent::Informational(_)) => {}
            Some(ResponseEvent::Head(response)) => {
                let head = response.head;
                if !may_stand_in_page(head.status) || head.fields.has(names::CONTENT_ENCODING) {
                    return None;
                }
            }
            Some(ResponseEvent::Data(octets)) => content.push(octets),
            Some(ResponseEvent::End(_)) => break,
            None => {
                exchange.close().ok()?;
                break;
            }
        }
    }
    if content.iter().map(Bytes::len).sum::<usize>() > FRAGMENT_BYTES_MAX {
        return None;
    }
    match content.len() {
        0 | 1 => Some(content.pop().unwrap_or_default()),
        _ => Some(content.concat().into()),
    }
}

/// What is written to a connection within the edge. Its bytes are given back to the page with it,
/// except those that become a part of the page.
#[derive(Debug)]
struct KeptOutput {
    octets: BytesMut,
    /// The bytes that were taken from the budget of the page for it.
    taken_bytes: usize,
    place: FragmentPlace,
}

impl KeptOutput {
    fn of(place: &FragmentPlace) -> Self {
        Self { octets: BytesMut::new(), taken_bytes: 0, place: place.clone() }
    }
}

impl Drop for KeptOutput {
    fn drop(&mut self) {
        self.place.give_back(self.taken_bytes);
    }
}

/// The end of a connection within the edge: it keeps what is written, up to a limit.
#[derive(Debug)]
struct Collector(Arc<Mutex<KeptOutput>>);

impl Collector {
    fn keep(&self, octets: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_short = kept.octets.len() + octets.len() <= FRAGMENT_BYTES_MAX + HEAD_BYTES_MAX;
        if !is_short || !kept.place.take_bytes(octets.len()) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        kept.taken_bytes += octets.len();
        kept.octets.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn keep_all(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        slices.iter().map(|slice| self.keep(slice)).sum()
    }
}

impl Connection for Collector {
    fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.keep_all(slices)
    }

    fn reset_on_close(&self, _: bool) {}

    fn is_quiet(&self) -> bool {
        true
    }
}

impl AsyncRead for Collector {
    /// The client sends nothing more, and stays.
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Collector {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.keep(octets))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.keep_all(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_ONCE, FragmentSource};
    use crate::request::arrival::Arrival;
    use crate::request::fragment_place::FragmentPlace;
    use crate::shared::Shared;
    use crate::system::System;
    use bytes::Bytes;
    use config::EdgePlan;
    use esi::Fetch;
    use message::{Fields, names};
    use net::Peer;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    #[tokio::test(start_paused = true)]
    async fn no_request_begins_after_the_time_of_the_page() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Arc::new(Shared::new(plan, None, System::of_machine()));
        let mut fields = Fields::new();
        fields.push(names::HOST, "a.test");
        let peer = Peer::Ip("10.0.0.1:5".parse().unwrap());
        let source = FragmentSource {
            worker: 0,
            arrival: Arrival::from(peer),
            fields: Arc::new(fields),
            page: Bytes::from_static(b"/"),
            site: None,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            place: FragmentPlace::of_page(shared.buffers.memory()),
            run: |_, _, _, _| panic!("a request began"),
            shared,
        };
        tokio::time::advance(Duration::from_secs(30)).await;
        let fetch = Fetch { id: 0, src: b"/a".to_vec(), alt: Some(b"/b".to_vec()), maxwait_ms: None };
        assert!(source.fetch(fetch).await.is_none());
    }
}
