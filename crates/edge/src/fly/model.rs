//! Models of flights, the publish step, invalidations and the memory of pages in vain: each scenario is played through
//! in thousands of orders in which its threads could come, and its rules must hold in every one of them.
//!
//! What is played is the product's own: the table of flights, the task of a flight from its answer to its end, bodies
//! that fill, the store, invalidation, keys. What stands in for something is small: an origin that is a script, and
//! visitors who look up, join and wait as `pipeline` and `wait` do, but read without a connection. The channel on which
//! flights announce is tokio's, which has models of its own; here its operations are one step each.
//!
//! A failing order is printed by the checker with how to play it again.

use super::{Answer, Departure, Source};
use crate::delivery::Content;
use crate::flight::{Flight, SharedAnswer, State};
use crate::flights::Joined;
use crate::forward;
use crate::guard::guard;
use crate::lookup::{Decision, Found, Touch, Wanted};
use crate::shared::Shared;
use crate::wait::FLIGHTS_MAX;
use bytes::{Bytes, BytesMut};
use config::Plan;
use h1::{BodyFraming, Request, Strictness, parse_request};
use message::{Method, ResponseHead, Status};
use net::Peer;
use origin::{Event, FetchError};
use platform::{ManualClock, Timestamp};
use semantics::{Directives, Moment, Reason};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use store::{FillingReader, Invalidation, Key, Lookup, Mode, Object, Selector, SiteId};

/// Orders in which a scenario is played by each of the two schedulers.
const ORDERS: usize = 2_000;
/// Switches of threads that the second scheduler places with intent (Burckhardt et al. 2010).
const SWITCHES: usize = 3;
/// Where the draws of both schedulers begin.
const SEED: u64 = 20_260_720;
/// Octets of stack for a thread in a model.
const STACK_BYTES: usize = 1 << 20;

/// A piece of a body that is more than a window holds.
const PADDING_BYTES: usize = 300_000;

/// Plays a scenario and waits for the end of what it began.
fn explore(name: &str, scenario: impl Fn() -> Arc<World> + Send + Sync + 'static) {
    let scenario = Arc::new(scenario);
    let play = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = shuttle::Config::new();
        config.stack_size = STACK_BYTES;
        // All orderings are taken for the strongest, as the checker would say each time.
        config.silence_warnings = true;
        let scenario = Arc::clone(&scenario);
        shuttle::Runner::new(scheduler, config).run(move || scenario().settle())
    };
    let played = play(Box::new(RandomScheduler::new_from_seed(SEED, ORDERS)))
        + play(Box::new(PctScheduler::new_from_seed(SEED, SWITCHES, ORDERS)));
    println!("model: {name}: {played} orders played");
    assert_eq!(played, 2 * ORDERS, "{name}");
}

/// What the origin does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    /// Sends the page.
    Page,
    /// Sends the page's head and its content but for the end.
    Half,
    /// Answers for one visitor alone.
    Private,
    /// Is never asked: the flight's task ends before.
    Never,
}

/// The edge, its origin and an account of both.
struct World {
    shared: Arc<Shared>,
    clock: Arc<ManualClock>,
    /// Header lines of the page.
    page: &'static str,
    /// A piece of the page beside its version and language.
    padding: Bytes,
    /// What the origin does for each flight in turn; after the last, the page.
    script: &'static [Act],
    /// How often the page was changed, and once more; it says so.
    version: AtomicUsize,
    /// What everybody must at least get who asks now.
    floor: AtomicUsize,
    flights: AtomicUsize,
    fetches: AtomicUsize,
    /// What the flights under way ask for that others may join, as long as the page was never changed.
    under_way: Mutex<Vec<String>>,
    tasks: Mutex<Vec<shuttle::future::JoinHandle<()>>>,
}

/// What a visitor got.
#[derive(Debug, PartialEq)]
enum Got {
    Whole(String),
    Part(String),
    /// The explanation that there is nothing.
    Failed,
    /// It goes on by itself.
    Alone,
}

impl World {
    fn new(page: &'static str, script: &'static [Act]) -> Arc<Self> {
        Self::with(|_| {}, page, script, Bytes::new())
    }

    fn with(
        change: impl FnOnce(&mut Plan),
        page: &'static str,
        script: &'static [Act],
        padding: Bytes,
    ) -> Arc<Self> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_000_000)));
        let mut plan = Plan::for_origin("http://127.0.0.1:9".parse().unwrap());
        change(&mut plan);
        Arc::new(Self {
            shared: Arc::new(Shared::new(plan, None, clock.clone())),
            clock,
            page,
            padding,
            script,
            version: AtomicUsize::new(1),
            floor: AtomicUsize::new(1),
            flights: AtomicUsize::new(0),
            fetches: AtomicUsize::new(0),
            under_way: Mutex::default(),
            tasks: Mutex::default(),
        })
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    fn now(&self) -> Moment {
        Moment::read(&*self.clock)
    }

    /// A visitor's thread.
    fn visitor(self: &Arc<Self>, request: &'static str) -> shuttle::thread::JoinHandle<Got> {
        let world = Arc::clone(self);
        shuttle::thread::spawn(move || world.visit(request))
    }

    /// A visitor: asks, waits, reads to the end. What it gets is no older than what everybody gets who asks now.
    fn visit(self: &Arc<Self>, request: &str) -> Got {
        let floor = self.floor.load(Ordering::SeqCst);
        let got = shuttle::future::block_on(self.ask(&parsed(request)));
        if let Got::Whole(text) | Got::Part(text) = &got {
            let version = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(usize::MAX);
            assert!(version >= floor, "asked after the invalidation for {floor}, got {text:?}");
        }
        got
    }

    async fn ask(self: &Arc<Self>, request: &Request) -> Got {
        let (shared, head) = (&*self.shared, &request.head);
        let subject = guard(shared, peer(), request).ok().unwrap();
        let wanted = Wanted::new(shared, subject, head, Directives::default());
        match wanted.decide(shared, head, Touch::Yes, self.now()) {
            Decision::Deliver(delivery) => return stored(&delivery.content),
            Decision::Refresh(delivery, object) => {
                self.refresh(&wanted, request, object);
                return stored(&delivery.content);
            }
            Decision::Alone(_) | Decision::Fly { solo: true, .. } => return Got::Alone,
            Decision::Fly { .. } | Decision::OnlyIfCached => {}
            Decision::Load(_) => panic!("there is no disk here"),
        }
        for _ in 0..FLIGHTS_MAX {
            let mut base = None;
            let found = || match wanted.find(shared, head, Touch::No, self.now()) {
                Found::Deliver(delivery) | Found::Refresh(delivery, _) => Some(delivery),
                Found::Load(_) => panic!("there is no disk here"),
                Found::Fetch(_, object) => {
                    base = object;
                    None
                }
            };
            let (mut receiver, leads) = match wanted.ask_flights(shared, head, self.now(), found) {
                Joined::Found(delivery) => return stored(&delivery.content),
                Joined::Filling(answer, reader) => return self.read(&wanted, request, &answer, reader).await,
                Joined::Waiter(receiver) => (receiver, false),
                Joined::Leader(flight) => {
                    let receiver = flight.subscribe();
                    self.depart(&wanted, request, flight, base);
                    (receiver, true)
                }
            };
            let current = |begun: u64, tags: &[Bytes], head: &ResponseHead| {
                leads || shared.store.may_join(begun, &wanted.key, tags, head)
            };
            loop {
                let state = receiver.borrow_and_update().state.clone();
                match state {
                    State::Waiting => {}
                    State::Shared(answer)
                        if answer.rule.matches(&head.fields, &answer.variant)
                            && current(answer.begun, &answer.tags, &answer.head) =>
                    {
                        let Some(reader) = answer.filling.reader() else { return Got::Alone };
                        return self.read(&wanted, request, &answer, reader).await;
                    }
                    State::Confirmed(confirmed) => {
                        let object = &confirmed.object;
                        let current = current(confirmed.begun, &confirmed.tags, &object.head());
                        if !current || !confirmed.rule.matches(&head.fields, &confirmed.variant) {
                            break;
                        }
                        return Got::Whole(text(object.body().chunks()));
                    }
                    // In place of a private answer, which there cannot be without a connection.
                    State::Void if self.script.contains(&Act::Private) => return Got::Alone,
                    // Once more, with what is known now.
                    State::Shared(_) | State::Void => break,
                    State::Private(_) => return Got::Alone,
                    State::Failed(_) => return Got::Failed,
                }
                if receiver.changed().await.is_err() {
                    return Got::Alone;
                }
            }
        }
        Got::Alone
    }

    /// Reads a filling body to its end. Who has seen the end finds it stored, unless it was too large or is out of
    /// date.
    async fn read(
        &self,
        wanted: &Wanted<'_>,
        request: &Request,
        answer: &SharedAnswer,
        mut reader: FillingReader,
    ) -> Got {
        let mut pieces = Vec::new();
        loop {
            match poll_fn(|context| reader.poll_next(context)).await {
                Some(Ok(octets)) => pieces.push(octets),
                Some(Err(_)) => return Got::Part(text(&pieces)),
                None => break,
            }
        }
        let found = self.shared.store.peek(&wanted.key, &request.head.fields);
        if !matches!(found, Lookup::Found { .. }) {
            let changed = self.version.load(Ordering::SeqCst) > 1;
            let large = matches!(answer.framing, BodyFraming::Length(bytes) if bytes > self.shared.limits.object_bytes_max);
            assert!(changed || large, "the end of a body was seen before the body was stored");
        }
        Got::Whole(text(&pieces))
    }

    fn refresh(self: &Arc<Self>, wanted: &Wanted<'_>, request: &Request, stale: Arc<Object>) {
        if let Some(flight) = wanted.renew(&self.shared, &request.head, &stale, self.now()) {
            self.depart(wanted, request, flight, Some(stale));
        }
    }

    /// Starts a flight as a task of its own.
    fn depart(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
        request: &Request,
        flight: Arc<Flight>,
        base: Option<Arc<Object>>,
    ) {
        let (subject, key, fields) = (&wanted.subject, &wanted.key, &request.head.fields);
        let mark = &self.shared.loop_mark;
        let head = forward::shared_head(subject, mark, key, Method::Get, fields, flight.known());
        let asks = forward::flight_fields(flight.range(), base.as_deref(), fields);
        let sent = forward::with_fields(&head, asks);
        let departure = Departure {
            shared: Arc::clone(&self.shared),
            worker: 0,
            site: Arc::clone(subject.site),
            key: key.clone(),
            request: forward::without_content(&sent).unwrap(),
            head,
            flight,
            base,
        };
        let world = Arc::clone(self);
        let validator = sent.fields.first("If-None-Match").map(|tag| text(std::slice::from_ref(tag)));
        let task = shuttle::future::spawn(async move { world.fly(departure, validator).await });
        self.tasks.lock().unwrap().push(task);
    }

    /// A flight's task, from its request to its end.
    async fn fly(&self, departure: Departure, validator: Option<String>) {
        let number = self.flights.fetch_add(1, Ordering::SeqCst);
        let act = self.script.get(number).copied().unwrap_or(Act::Page);
        if act == Act::Never {
            return;
        }
        let (asked, version) = (self.now(), self.version.load(Ordering::SeqCst));
        self.fetches.fetch_add(1, Ordering::SeqCst);
        let language = departure.head.fields.first("Accept-Language").cloned().unwrap_or_default();
        // A flight that nobody may join any more leaves the table before its end.
        let shared = act == Act::Page && self.padding.is_empty();
        let asks_for = [departure.key.target(), b" ", &language].concat();
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
        let exchange = Box::new(Script { pieces, dies: act == Act::Half, waited: false });
        let (head, framing) = (self.head(version, confirms), BodyFraming::Length(bytes));
        let answer = Answer { head, framing, exchange, asked, answered: self.now() };
        match &departure.base {
            _ if act == Act::Private => {
                let now = self.now().monotonic;
                departure.shared.in_vain.remember(&departure.key, Reason::StoreRefusedPrivate, None, now);
                return departure.part(State::Void);
            }
            Some(base) if confirms => departure.confirm(answer, base).await,
            _ => {
                let judged = departure.judge(&answer.head, answer.asked, answer.answered);
                let Ok((storable, rule)) = judged else { panic!("the page can be stored") };
                departure.store_and_stream(answer, storable, rule).await;
            }
        }
        self.lands(&asks_for, shared);
        // It leaves the table now, as it is dropped.
    }

    /// No two flights that others may join ask for the same, except that one was revoked by a change of the page.
    fn takes_off(&self, asks_for: &[u8], shared: bool) {
        if !shared {
            return;
        }
        let asks_for = String::from_utf8(asks_for.to_vec()).unwrap();
        let mut under_way = self.under_way.lock().unwrap();
        let alone = !under_way.contains(&asks_for) || self.version.load(Ordering::SeqCst) > 1;
        under_way.push(asks_for);
        assert!(alone, "two flights are under way that ask for the same");
    }

    fn lands(&self, asks_for: &[u8], shared: bool) {
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

    /// Waits for the end of every flight; nothing is left of them then.
    fn settle(&self) {
        loop {
            let task = self.tasks.lock().unwrap().pop();
            let Some(task) = task else { break };
            shuttle::future::block_on(task).unwrap();
        }
        assert_eq!(self.shared.flights.len(), 0, "a flight has ended and is still in the table");
        assert!(self.under_way.lock().unwrap().is_empty());
    }

    /// A write: the page changes, what is stored is invalidated by `invalidate`, and from then on nobody who asks may
    /// get an older one.
    fn write(&self, invalidate: impl FnOnce(&Self)) {
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        invalidate(self);
        self.floor.fetch_max(version, Ordering::SeqCst);
    }

    fn key_of(&self, request: &str) -> Key {
        let request = parsed(request);
        guard(&self.shared, peer(), &request).ok().unwrap().key()
    }
}

/// Content that comes piece by piece, letting others go on before each.
struct Script {
    pieces: VecDeque<Bytes>,
    dies: bool,
    waited: bool,
}

impl Source for Script {
    async fn next_event(&mut self) -> Result<Event, FetchError> {
        let_others(&mut self.waited).await;
        self.waited = false;
        match self.pieces.pop_front() {
            Some(piece) => Ok(Event::Data(piece)),
            None if self.dies => Err(FetchError::Closed),
            None => Ok(Event::End(None)),
        }
    }
}

/// Ready at the second look, so that others may come between. It is no wish that they should, which the schedulers
/// would take for the end of a thread's turn.
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

fn peer() -> Peer {
    Peer::Ip("127.0.0.1:1".parse().unwrap())
}

fn parsed(request: &str) -> Request {
    let mut octets = BytesMut::from(format!("{request}\r\n\r\n").as_bytes());
    parse_request(&mut octets, &h1::Limits::DEFAULT, Strictness::Strict).unwrap().unwrap()
}

/// What pieces of a body say, padding left out.
fn text(pieces: &[Bytes]) -> String {
    let said: Vec<_> = pieces.iter().filter(|piece| piece.len() < PADDING_BYTES).cloned().collect();
    String::from_utf8(said.concat()).unwrap()
}

/// What a visitor gets of a stored answer.
fn stored(content: &Content) -> Got {
    match content {
        Content::Stored(object) => Got::Whole(text(object.body().chunks())),
        _ => panic!("nothing but stored answers is found"),
    }
}

/// The page in no language.
fn whole(version: usize) -> Got {
    Got::Whole(format!("{version}  end"))
}

/// This many visitors, all on their way.
fn crowd(world: &Arc<World>, visitors: usize) -> Vec<shuttle::thread::JoinHandle<Got>> {
    (0..visitors).map(|_| world.visitor(GET)).collect()
}

/// What threads bring.
fn join<T>(threads: Vec<shuttle::thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.test";
const MINUTE: &str = "Cache-Control: max-age=60";

/// Few visitors, with whom the checker comes to every corner, and more of them.
const CROWDS: [usize; 2] = [2, 4];

#[test]
fn any_number_of_visitors_cost_one_fetch() {
    for visitors in CROWDS {
        explore(&format!("one fetch, {visitors} visitors"), move || {
            let world = World::new(MINUTE, &[]);
            for got in join(crowd(&world, visitors)) {
                assert_eq!(got, whole(1));
            }
            assert_eq!((world.visit(GET), world.fetches()), (whole(1), 1));
            world
        });
    }
}

#[test]
fn every_variant_is_fetched_once() {
    const GERMAN: &str = "GET /a HTTP/1.1\r\nHost: a.test\r\nAccept-Language: de";
    const ENGLISH: &str = "GET /a HTTP/1.1\r\nHost: a.test\r\nAccept-Language: en";
    for padding in [Bytes::new(), Bytes::from(vec![b'x'; PADDING_BYTES])] {
        let large = !padding.is_empty();
        explore(if large { "variants, too large to be kept" } else { "variants" }, move || {
            let small = |plan: &mut Plan| plan.limits.object_bytes_max = 100_000;
            let world =
                World::with(small, "Cache-Control: max-age=60\nVary: Accept-Language", &[], padding.clone());
            let visitors = [GERMAN, ENGLISH, GERMAN, ENGLISH];
            let threads = visitors.map(|request| world.visitor(request)).into();
            for (got, asked) in join(threads).into_iter().zip(visitors) {
                let language = asked.rsplit(' ').next().unwrap();
                match got {
                    Got::Whole(text) => assert!(text.starts_with(&format!("1 {language}")), "{text}"),
                    other => assert!(large && other == Got::Alone, "{other:?}"),
                }
            }
            // The first was fetched before anybody knew that there are variants.
            assert!(large || world.fetches() <= 3);
            world
        });
    }
}

#[test]
fn a_body_cut_off_is_whole_for_nobody_and_fetched_again() {
    explore("cut off", || {
        let world = World::new(MINUTE, &[Act::Half]);
        for got in join(crowd(&world, 3)) {
            assert!(got == Got::Part("1 ".to_owned()) || got == whole(1), "{got:?}");
        }
        assert_eq!((world.visit(GET), world.fetches()), (whole(1), 2));
        world
    });
}

#[test]
fn a_flight_that_ends_before_it_began_leaves_nobody_waiting() {
    explore("never sent", || {
        let world = World::new(MINUTE, &[Act::Never, Act::Never]);
        for got in join(crowd(&world, 3)) {
            assert!(got == Got::Failed || got == whole(1), "{got:?}");
        }
        world
    });
}

#[test]
fn what_is_private_is_waited_for_once() {
    explore("private", || {
        let world = World::new(MINUTE, &[Act::Private; 4]);
        for got in join(crowd(&world, 4)) {
            assert_eq!(got, Got::Alone);
        }
        let flights = world.flights.load(Ordering::SeqCst);
        assert_eq!(world.visit(GET), Got::Alone);
        assert_eq!(
            world.flights.load(Ordering::SeqCst),
            flights,
            "a page known to be private was waited for"
        );
        world
    });
}

#[test]
fn nobody_who_asks_after_an_invalidation_gets_what_was_fetched_before() {
    for visitors in CROWDS {
        explore(&format!("invalidation, {visitors} visitors"), move || {
            let world = World::new(MINUTE, &[]);
            let key = world.key_of(GET);
            let early = crowd(&world, visitors - 1);
            world.write(|world| {
                world.shared.invalidate(&key, Mode::Hard);
            });
            assert_eq!(world.visit(GET), whole(2));
            join(early);
            assert_eq!(world.visit(GET), whole(2));
            world
        });
    }
}

fn explore_invalidation_by(name: &str, selector: fn() -> Selector) {
    for visitors in CROWDS {
        explore(&format!("invalidation by {name}, {visitors} visitors"), move || {
            let world = World::new("Cache-Control: max-age=60\nSurrogate-Key: news", &[]);
            let early = crowd(&world, visitors - 1);
            world.write(|world| {
                world.shared.store.invalidate(&Invalidation { selector: selector(), mode: Mode::Hard });
            });
            assert_eq!(world.visit(GET), whole(2));
            join(early);
            assert_eq!(world.visit(GET), whole(2));
            world
        });
    }
}

#[test]
fn an_invalidation_of_tags_reaches_what_is_on_its_way() {
    explore_invalidation_by("tags", || Selector::Tags {
        site: SiteId(0),
        any_of: vec![Bytes::from("news")],
        all_of: Vec::new(),
    });
}

#[test]
fn an_invalidation_of_a_prefix_reaches_what_is_on_its_way() {
    explore_invalidation_by("prefix", || Selector::Prefix {
        site: SiteId(0),
        host: Bytes::from("a.test"),
        prefix: Bytes::from("/"),
    });
}

#[test]
fn a_confirmation_revives_nothing_that_was_invalidated() {
    explore("confirmation", || {
        let world = World::new(MINUTE, &[]);
        let key = world.key_of(GET);
        assert_eq!(world.visit(GET), whole(1));
        world.settle();
        world.clock.advance(Duration::from_secs(61));
        let visitors = crowd(&world, 3);
        world.write(|world| {
            world.shared.invalidate(&key, Mode::Hard);
        });
        assert_eq!(world.visit(GET), whole(2));
        join(visitors);
        assert_eq!(world.visit(GET), whole(2));
        world
    });
}

#[test]
fn a_stale_page_is_refreshed_once_for_any_number_of_visitors() {
    explore("refresh", || {
        let world = World::new("Cache-Control: max-age=60, stale-while-revalidate=600", &[]);
        assert_eq!(world.visit(GET), whole(1));
        world.settle();
        world.clock.advance(Duration::from_secs(61));
        for got in join(crowd(&world, 4)) {
            assert_eq!(got, whole(1));
        }
        world.settle();
        assert_eq!(world.fetches(), 2);
        world
    });
}
