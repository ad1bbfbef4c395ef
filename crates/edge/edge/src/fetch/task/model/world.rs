//! The edge of a model, the origin behind it, and the expected results.
//!
//! Invariants: no two fetches that others may join are under way for the same request. A fetch
//! that has ended is no longer in the table. Each page contains its version. The lowest version
//! that a visitor may receive is tracked here and checked by `visitor`.

use crate::fetch::base::Base;
use crate::fetch::coalesced_fetch::{CoalescedFetch, FetchState};
use crate::fetch::table_entry::TableEntry;
use crate::fetch::task::{FetchTask, OriginResponse, ResponseSource};
use crate::request::forward;
use crate::request::guard::guard;
use crate::request::lookup::PageRequest;
use crate::shared::Shared;
use crate::system::System;
use bytes::{Bytes, BytesMut};
use clock::{ManualClock, Timestamp};
use config::EdgePlan;
use h1::{BodyFraming, Request, Strictness, parse_request};
use message::{Method, ResponseHead, Status};
use net::Peer;
use origin::{FetchError, OriginEvent};
use semantics::{Moment, Reason};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use store::Key;

/// Size of a piece of a body that exceeds a reader's window.
pub(super) const PADDING_BYTES: usize = 300_000;

/// The origin's reaction to a request.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// It sends the page.
    Page,
    /// It sends the page's head and its content without the last piece.
    Half,
    /// It sends a response for one client only.
    Private,
    /// It receives no request, because the task of the fetch ends before.
    Never,
}

/// The edge, its origin and the expected results.
pub(super) struct ModelWorld {
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Arc<ManualClock>,
    /// Header lines of the page.
    page: &'static str,
    /// A piece of the page beside its version and language.
    padding: Bytes,
    /// The origin's reaction to each fetch in turn; after the last, it sends the page.
    pub(super) script: &'static [Act],
    /// The current version of the page: one more than the number of its changes.
    pub(super) version: AtomicUsize,
    /// The lowest version that a visitor who asks now may receive.
    pub(super) floor: AtomicUsize,
    pub(super) started: AtomicUsize,
    fetches: AtomicUsize,
    /// The requests of the fetches under way that others may join; only meaningful until the page
    /// changes.
    under_way: Mutex<Vec<String>>,
    tasks: Mutex<Vec<shuttle::future::JoinHandle<()>>>,
}

impl ModelWorld {
    pub(super) fn new(page: &'static str, script: &'static [Act]) -> Arc<Self> {
        Self::with(|_| {}, page, script, Bytes::new())
    }

    pub(super) fn with(
        change: impl FnOnce(&mut EdgePlan),
        page: &'static str,
        script: &'static [Act],
        padding: Bytes,
    ) -> Arc<Self> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000_000)));
        let system = System { clock: clock.clone(), ..System::of_machine() };
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        change(&mut plan);
        Arc::new(Self {
            shared: Arc::new(Shared::new(plan, None, system)),
            clock,
            page,
            padding,
            script,
            version: AtomicUsize::new(1),
            floor: AtomicUsize::new(1),
            started: AtomicUsize::new(0),
            fetches: AtomicUsize::new(0),
            under_way: Mutex::default(),
            tasks: Mutex::default(),
        })
    }

    pub(super) fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    pub(super) fn now(&self) -> Moment {
        Moment::read(&*self.clock)
    }

    /// Starts a fetch as a separate task.
    pub(super) fn start(
        self: &Arc<Self>,
        wanted: &PageRequest<'_>,
        request: &Request,
        fetch: Arc<CoalescedFetch>,
        base: Option<Base>,
    ) {
        let (subject, key, fields) = (&wanted.subject, &wanted.key, &request.head.fields);
        let mark = &self.shared.loop_mark;
        let head = forward::shared_head(subject, mark, key, Method::Get, fields, fetch.known());
        let policy = subject.site.policy();
        let asks = forward::fetch_fields(fetch.range(), base.as_ref(), fields, policy);
        let sent = forward::with_fields(&head, asks);
        let task = FetchTask {
            shared: Arc::clone(&self.shared),
            worker: 0,
            site: Arc::clone(subject.site),
            key: key.clone(),
            request: forward::without_content(&sent).unwrap(),
            head,
            entry: TableEntry::of(&self.shared, key, &fetch),
            fetch,
            base: base.map(|base| base.object),
            impersonal: true,
            trace: None,
        };
        let world = Arc::clone(self);
        let validator = sent.fields.first("If-None-Match").map(|tag| text(std::slice::from_ref(tag)));
        let task = shuttle::future::spawn(async move { world.run(task, validator).await });
        self.tasks.lock().unwrap().push(task);
    }

    /// The task of a fetch, from its request to its end.
    async fn run(&self, task: FetchTask, validator: Option<String>) {
        let number = self.started.fetch_add(1, Ordering::SeqCst);
        let act = self.script.get(number).copied().unwrap_or(Act::Page);
        if act == Act::Never {
            return;
        }
        let (sent_at, version) = (self.now(), self.version.load(Ordering::SeqCst));
        self.fetches.fetch_add(1, Ordering::SeqCst);
        let language = task.head.fields.first("Accept-Language").cloned().unwrap_or_default();
        // A fetch that can no longer be joined may leave the table before its end.
        let shared = act == Act::Page && self.padding.is_empty();
        let asks_for = [task.key.target(), b" ", &language].concat();
        self.takes_off(&asks_for, shared);
        let_others(&mut false).await;
        let confirms = validator.is_some_and(|tag| tag == format!("\"{version}\""));
        let mut pieces = vec![Bytes::from(format!("{version} ")), language.clone(), self.padding.clone()];
        pieces.push(Bytes::from(" end"));
        pieces.retain(|piece| !piece.is_empty());
        let bytes = pieces.iter().map(Bytes::len).sum::<usize>() as u64;
        if act == Act::Half {
            pieces.pop();
        }
        let pieces = if confirms { VecDeque::new() } else { pieces.into() };
        let exchange = Box::new(ScriptedSource { pieces, dies: act == Act::Half, waited: false });
        let (head, framing) = (self.head(version, confirms), BodyFraming::Length(bytes));
        let answer = OriginResponse { head, framing, exchange, sent_at, received_at: self.now() };
        match &task.base {
            _ if act == Act::Private => {
                let now = self.now().monotonic;
                task.shared.hit_for_miss.remember(&task.key, Reason::StoreRefusedPrivate, None, now);
                return task.end_sharing(FetchState::Void);
            }
            Some(base) if confirms => task.confirm(answer, base).await,
            _ => {
                let judged = task.judge(&answer.head, answer.sent_at, answer.received_at);
                let Ok((storable, rule)) = judged else { panic!("the page can be stored") };
                task.store_and_stream(answer, storable, rule).await;
            }
        }
        self.has_response(&asks_for, shared);
        // Dropping `task` here removes the fetch from the table.
    }

    /// Checks that no two fetches that others may join send the same request, unless one was
    /// revoked by a change of the page.
    fn takes_off(&self, asks_for: &[u8], shared: bool) {
        if !shared {
            return;
        }
        let asks_for = String::from_utf8(asks_for.to_vec()).unwrap();
        let mut under_way = self.under_way.lock().unwrap();
        let alone = !under_way.contains(&asks_for) || self.version.load(Ordering::SeqCst) > 1;
        under_way.push(asks_for);
        assert!(alone, "two fetches are under way that ask for the same");
    }

    fn has_response(&self, asks_for: &[u8], shared: bool) {
        if !shared {
            return;
        }
        let mut under_way = self.under_way.lock().unwrap();
        let place = under_way.iter().position(|other| other.as_bytes() == asks_for).unwrap();
        under_way.swap_remove(place);
    }

    fn head(&self, version: usize, confirms: bool) -> ResponseHead {
        let mut head = ResponseHead::new(if confirms { Status::NOT_MODIFIED } else { Status::OK });
        head.fields.push("ETag", format!("\"{version}\""));
        for line in self.page.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            head.fields.push(name, value);
        }
        head
    }

    /// Waits for the end of every fetch, and checks that none is left.
    pub(super) fn settle(&self) {
        loop {
            let task = self.tasks.lock().unwrap().pop();
            let Some(task) = task else { break };
            shuttle::future::block_on(task).unwrap();
        }
        assert_eq!(self.shared.fetches.len(), 0, "a fetch has ended and is still in the table");
        assert!(self.under_way.lock().unwrap().is_empty());
    }

    /// A write: changes the page, runs `invalidate`, and from then on no visitor may receive an
    /// older version.
    pub(super) fn write(&self, invalidate: impl FnOnce(&Self)) {
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        invalidate(self);
        self.floor.fetch_max(version, Ordering::SeqCst);
    }

    pub(super) fn key_of(&self, request: &str) -> Key {
        let request = parsed(request);
        guard(&self.shared, peer(), &request).ok().unwrap().key()
    }
}

/// A source that yields its pieces one by one, and lets other tasks run before each.
struct ScriptedSource {
    pieces: VecDeque<Bytes>,
    dies: bool,
    waited: bool,
}

impl ResponseSource for ScriptedSource {
    async fn next_event(&mut self) -> Result<OriginEvent, FetchError> {
        let_others(&mut self.waited).await;
        self.waited = false;
        match self.pieces.pop_front() {
            Some(piece) => Ok(OriginEvent::Data(piece)),
            None if self.dies => Err(FetchError::Closed),
            None => Ok(OriginEvent::End(None)),
        }
    }
}

/// Ready at the second poll, so that other tasks may run in between. It does not yield explicitly,
/// because the schedulers would treat that as the end of a thread's turn.
async fn let_others(waited: &mut bool) {
    poll_fn(|context| {
        if std::mem::replace(waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(super) fn peer() -> Peer {
    Peer::Ip("127.0.0.1:1".parse().unwrap())
}

pub(super) fn parsed(request: &str) -> Request {
    let mut octets = BytesMut::from(format!("{request}\r\n\r\n").as_bytes());
    parse_request(&mut octets, &h1::Limits::DEFAULT, Strictness::Strict).unwrap().unwrap()
}

/// The text in the pieces of a body, without padding.
pub(super) fn text(pieces: &[Bytes]) -> String {
    let said: Vec<_> = pieces.iter().filter(|piece| piece.len() < PADDING_BYTES).cloned().collect();
    String::from_utf8(said.concat()).unwrap()
}
