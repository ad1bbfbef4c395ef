//! The visitors of a model: they look up, join and wait as `pipeline` and `wait` do, but read
//! without a connection.
//!
//! Invariants: a visitor who asks after an invalidation never receives an older page. A visitor who
//! has seen the end of a body finds it stored.

use super::world::{Act, ModelWorld, parsed, peer, text};
use crate::fetch::base::Base;
use crate::fetch::coalesced_fetch::{FetchState, SharedResponse};
use crate::fetch::fetch_table::JoinResult;
use crate::request::delivery::ContentSource;
use crate::request::guard::guard;
use crate::request::lookup::{Decision, LookupResult, PageRequest, Touch};
use crate::request::wait::FETCHES_MAX;
use bytes::Bytes;
use h1::{BodyFraming, Request};
use message::ResponseHead;
use semantics::Directives;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{FillingReader, Lookup};

/// The request of most visitors.
pub(super) const GET: &str = "GET /a HTTP/1.1\r\nHost: a.test";

/// The result of a visitor's request.
#[derive(Debug, PartialEq)]
pub(super) enum VisitResult {
    Whole(String),
    Part(String),
    /// An error: there is no response.
    Failed,
    /// The visitor would send its own request.
    Alone,
}

impl ModelWorld {
    /// Runs a visitor in a thread.
    pub(super) fn visitor(
        self: &Arc<Self>,
        request: &'static str,
    ) -> shuttle::thread::JoinHandle<VisitResult> {
        let world = Arc::clone(self);
        shuttle::thread::spawn(move || world.visit(request))
    }

    /// Runs a visitor that asks, waits and reads to the end. Checks that the received version is
    /// not below the floor at the time of asking.
    pub(super) fn visit(self: &Arc<Self>, request: &str) -> VisitResult {
        let floor = self.floor.load(Ordering::SeqCst);
        let got = shuttle::future::block_on(self.ask(&parsed(request)));
        if let VisitResult::Whole(text) | VisitResult::Part(text) = &got {
            let version = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(usize::MAX);
            assert!(version >= floor, "asked after the invalidation for {floor}, got {text:?}");
        }
        got
    }

    /// The result of the first look-up; `None` if the request must join a fetch.
    fn found_at_once(self: &Arc<Self>, wanted: &PageRequest<'_>, request: &Request) -> Option<VisitResult> {
        match wanted.decide(&self.shared, &request.head, Touch::Yes, self.now()) {
            Decision::Deliver(delivery) | Decision::StaleInstead(delivery, _) => {
                Some(stored(&delivery.content))
            }
            Decision::Refresh(delivery, base) => {
                self.refresh(wanted, request, base);
                Some(stored(&delivery.content))
            }
            Decision::Pass(_) | Decision::Fetch { exclusive: true, .. } => Some(VisitResult::Alone),
            Decision::Fetch { .. } | Decision::OnlyIfCached => None,
            Decision::Read(_) => panic!("there is no disk here"),
        }
    }

    async fn ask(self: &Arc<Self>, request: &Request) -> VisitResult {
        let (shared, head) = (&*self.shared, &request.head);
        let subject = guard(shared, peer(), request).ok().unwrap();
        let wanted = PageRequest::new(shared, subject, head, Directives::default());
        if let Some(got) = self.found_at_once(&wanted, request) {
            return got;
        }
        for _ in 0..FETCHES_MAX {
            let mut base = None;
            let found = || match wanted.find(shared, head, Touch::No, self.now()) {
                LookupResult::Deliver(delivery) | LookupResult::Refresh(delivery, _) => Some(delivery),
                LookupResult::OnDisk(_) | LookupResult::Unfit => {
                    panic!("there is no disk here, and nothing is left out")
                }
                LookupResult::Unusable => panic!("nothing is compressed here"),
                LookupResult::Fetch(_, object) => {
                    base = object;
                    None
                }
            };
            let (mut receiver, leads) = match wanted.join_fetch(shared, head, &head.fields, self.now(), found)
            {
                JoinResult::Found(delivery) => return stored(&delivery.content),
                JoinResult::Filling(answer, reader) => {
                    return self.read(&wanted, request, &answer, reader).await;
                }
                JoinResult::Waiter(receiver) => (receiver, false),
                JoinResult::Leader(fetch) => {
                    let receiver = fetch.subscribe();
                    self.start(&wanted, request, fetch, base);
                    (receiver, true)
                }
            };
            let current = |begun: u64, tags: &[Bytes], head: &ResponseHead| {
                leads || shared.store.may_join(begun, &wanted.key, tags, head)
            };
            loop {
                let state = receiver.borrow_and_update().state.clone();
                match state {
                    FetchState::Waiting => {}
                    FetchState::Shared(answer)
                        if answer.rule.matches(&head.fields, &answer.variant)
                            && current(answer.begun, &answer.tags, &answer.head) =>
                    {
                        let Some(reader) = answer.filling.reader() else { return VisitResult::Alone };
                        return self.read(&wanted, request, &answer, reader).await;
                    }
                    FetchState::Confirmed(confirmed) => {
                        let object = &confirmed.object;
                        let current = current(confirmed.begun, &confirmed.tags, &object.head());
                        if !current || !confirmed.rule.matches(&head.fields, &confirmed.variant) {
                            break;
                        }
                        return VisitResult::Whole(text(object.body().chunks()));
                    }
                    // Used for a private response, which cannot exist here without a connection.
                    FetchState::Void if self.script.contains(&Act::Private) => return VisitResult::Alone,
                    // Look up again, with the rule known now.
                    FetchState::Shared(_) | FetchState::Void => break,
                    FetchState::Private(_) | FetchState::Denied => return VisitResult::Alone,
                    FetchState::Failed(_) => return VisitResult::Failed,
                }
                if receiver.changed().await.is_err() {
                    return VisitResult::Alone;
                }
            }
        }
        VisitResult::Alone
    }

    /// Reads a filling body to its end. Checks that the body is stored by then, unless it was too
    /// large or outdated.
    async fn read(
        &self,
        wanted: &PageRequest<'_>,
        request: &Request,
        answer: &SharedResponse,
        mut reader: FillingReader,
    ) -> VisitResult {
        let mut pieces = Vec::new();
        loop {
            match poll_fn(|context| reader.poll_next(context)).await {
                Some(Ok(octets)) => pieces.push(octets),
                Some(Err(_)) => return VisitResult::Part(text(&pieces)),
                None => break,
            }
        }
        let found = self.shared.store.peek(&wanted.key, &request.head.fields);
        if !matches!(found, Lookup::Found { .. }) {
            let changed = self.version.load(Ordering::SeqCst) > 1;
            let large = matches!(answer.framing, BodyFraming::Length(bytes) if bytes > self.shared.limits.object_bytes_max);
            assert!(changed || large, "the end of a body was seen before the body was stored");
        }
        VisitResult::Whole(text(&pieces))
    }

    fn refresh(self: &Arc<Self>, wanted: &PageRequest<'_>, request: &Request, stale: Base) {
        if let Some(fetch) = wanted.renew(&self.shared, &request.head, &stale.object, self.now()) {
            self.start(wanted, request, fetch, Some(stale));
        }
    }
}

/// The result for a stored response.
fn stored(content: &ContentSource) -> VisitResult {
    match content {
        ContentSource::Stored(object) => VisitResult::Whole(text(object.body().chunks())),
        _ => panic!("nothing but stored answers is found"),
    }
}

/// The whole page without a language.
pub(super) fn whole(version: usize) -> VisitResult {
    VisitResult::Whole(format!("{version}  end"))
}

/// Starts this many visitors in threads.
pub(super) fn crowd(
    world: &Arc<ModelWorld>,
    visitors: usize,
) -> Vec<shuttle::thread::JoinHandle<VisitResult>> {
    (0..visitors).map(|_| world.visitor(GET)).collect()
}

/// The results of all threads.
pub(super) fn join<T>(threads: Vec<shuttle::thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}
