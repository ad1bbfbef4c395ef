//! The order in which the responses of one connection are sent (RFC 9218), within the windows of
//! its client.
//!
//! Invariants: a response is given send capacity only if no response before it can use any. A
//! response that its client does not accept holds up no other, and costs nothing until `h2` says
//! that its window has opened. Capacity is given back before the next attempt, so that none lies
//! idle. `h2` holds at most one round of bytes that it has not sent.

use crate::http2::priority::Priority;
use bytes::{Bytes, BytesMut};
use h2::{Reason, SendStream};
use http::HeaderMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Bytes that an incremental response sends before the next one of its urgency gets its turn.
const TURN_BYTES: usize = 16 * 1024;

/// Bytes of responses that `h2` is given between two times at which it sends. They are all of its
/// memory for responses, and what a more urgent response waits for.
pub(crate) const ROUND_BYTES: usize = 64 * 1024;

/// Pieces below this size are copied together, up to this size. An origin may send chunks of a few
/// bytes, but a client may end a connection with many small frames: `h2` and clients made with it
/// hold some hundred of them.
const GATHERED_BYTES: usize = 4 * 1024;

/// The end of a response.
#[derive(Debug)]
pub(crate) enum ResponseEnd {
    Plain,
    Trailer(HeaderMap),
}

/// The rest that one stream has to send.
#[derive(Debug)]
pub(crate) struct Outlet {
    send: SendStream<Bytes>,
    order: OrderKey,
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    end: Option<ResponseEnd>,
    /// Bytes that were sent since the last call of [`Outlet::take_moved`].
    moved_bytes: usize,
    /// Bytes that were sent so far.
    sent_bytes: u64,
    is_broken: bool,
    /// `None` until it waits in the queue of its connection for the first time.
    readiness: Option<Arc<Readiness>>,
    /// Whether it is in the queue of its connection.
    is_waiting: bool,
    waker: Option<Waker>,
}

/// Whether an attempt to send may succeed. `h2` sets it when it has capacity for a blocked stream,
/// or when the stream has ended.
#[derive(Debug)]
struct Readiness(AtomicBool);

/// An outlet in the queue of its connection.
#[derive(Debug)]
struct WaitingOutlet {
    outlet: SharedOutlet,
    readiness: Arc<Readiness>,
}

/// The place of a response in the order. The smallest is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderKey {
    priority: Priority,
    /// Turns that an incremental response has had.
    turns: u64,
    stream: u32,
}

/// The outlets of a connection that have something to send, in their order.
#[derive(Debug, Default)]
pub(crate) struct SendOrder {
    state: Mutex<OrderState>,
}

#[derive(Debug, Default)]
struct OrderState {
    /// In their order.
    waiting: Vec<WaitingOutlet>,
    /// Bytes that `h2` may still be given in this round.
    left_bytes: usize,
    /// Bytes of responses that were sent so far.
    moved_bytes: u64,
    /// Outlets whose streams end early as soon as `h2` has sent what it was given.
    resets: Vec<SharedOutlet>,
}

/// An outlet, which its request and its connection share.
pub(crate) type SharedOutlet = Arc<Mutex<Outlet>>;

/// The outcome of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// Everything was sent, or the stream has ended early.
    Done,
    /// The turn is over; more could be sent.
    TurnOver,
    /// The round is over; more could be sent.
    RoundOver,
    /// The windows are full.
    Blocked,
}

impl Outlet {
    pub(crate) fn new(send: SendStream<Bytes>, priority: Priority) -> SharedOutlet {
        let order = OrderKey { priority, turns: 0, stream: send.stream_id().as_u32() };
        Arc::new(Mutex::new(Self {
            send,
            order,
            queue: VecDeque::new(),
            queued_bytes: 0,
            end: None,
            moved_bytes: 0,
            sent_bytes: 0,
            is_broken: false,
            readiness: None,
            is_waiting: false,
            waker: None,
        }))
    }

    /// Queues content.
    pub(crate) fn push(&mut self, octets: Bytes) {
        if !octets.is_empty() {
            self.queued_bytes += octets.len();
            self.queue.push_back(octets);
        }
    }

    /// Queues the end.
    pub(crate) fn finish(&mut self, end: ResponseEnd) {
        self.end = Some(end);
    }

    pub(crate) const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether bytes or the end are still to be sent.
    pub(crate) const fn has_output(&self) -> bool {
        self.queued_bytes > 0 || self.end.is_some()
    }

    /// Whether bytes were sent since the last call of [`Outlet::take_moved`].
    pub(crate) const fn has_moved(&self) -> bool {
        self.moved_bytes > 0
    }

    /// Whether the client has ended the stream or the connection.
    pub(crate) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Bytes that were sent since the last call.
    pub(crate) fn take_moved(&mut self) -> usize {
        std::mem::take(&mut self.moved_bytes)
    }

    /// Wakes this task when bytes have moved or the stream has ended.
    pub(crate) fn wait(&mut self, context: &Context<'_>) {
        self.waker = Some(context.waker().clone());
    }

    /// Sends as much as the windows and the round permit; at most one turn if others of the same
    /// urgency wait.
    fn attempt(&mut self, round: &mut usize) -> Attempt {
        let mut left = if self.order.priority.is_incremental { TURN_BYTES } else { usize::MAX };
        let attempt = loop {
            if self.queue.is_empty() {
                break self.send_end();
            }
            if left == 0 {
                break Attempt::TurnOver;
            }
            if *round == 0 {
                break Attempt::RoundOver;
            }
            self.send.reserve_capacity(self.queued_bytes.min(left));
            let piece = take(&mut self.queue, self.send.capacity().min(left).min(*round));
            let bytes = piece.len();
            if bytes == 0 {
                let blocked = self.blocked();
                if blocked == Attempt::Blocked {
                    self.wake_sender();
                    return blocked;
                }
                break blocked;
            }
            left -= bytes;
            *round -= bytes;
            self.queued_bytes -= bytes;
            self.moved_bytes += bytes;
            self.sent_bytes += bytes as u64;
            let ends = self.queue.is_empty() && matches!(self.end, Some(ResponseEnd::Plain));
            if self.send.send_data(piece, ends).is_err() {
                break self.broke();
            }
            if ends {
                // The end of a stream gives its capacity back.
                self.end = None;
                self.waker.take().into_iter().for_each(Waker::wake);
                return Attempt::Done;
            }
        };
        self.give_capacity_back();
        self.wake_sender();
        attempt
    }

    /// Only one response at a time holds capacity that it does not use at once.
    fn give_capacity_back(&mut self) {
        self.send.reserve_capacity(0);
    }

    /// Wakes the request if bytes have moved or the stream has ended.
    fn wake_sender(&mut self) {
        if self.moved_bytes > 0 || self.is_broken || !self.has_output() {
            self.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Sends the end, which needs no window.
    fn send_end(&mut self) -> Attempt {
        let sent = match self.end.take() {
            None => return Attempt::Done,
            Some(ResponseEnd::Plain) => self.send.send_data(Bytes::new(), true),
            Some(ResponseEnd::Trailer(trailer)) => self.send.send_trailers(trailer),
        };
        if sent.is_ok() { Attempt::Done } else { self.broke() }
    }

    /// The windows are full, unless the client has ended the stream. `h2` sets the readiness when
    /// it has one byte for the stream, which is all that a blocked stream reserves.
    fn blocked(&mut self) -> Attempt {
        let waker = Waker::from(Arc::clone(self.readiness()));
        let mut context = Context::from_waker(&waker);
        if self.send.poll_reset(&mut context).is_ready() {
            return self.broke();
        }
        self.send.reserve_capacity(1);
        // An earlier change of the capacity is reported first.
        while let Poll::Ready(changed) = self.send.poll_capacity(&mut context) {
            match changed {
                Some(Ok(0)) => {}
                Some(Ok(_)) => {
                    waker.wake();
                    break;
                }
                None | Some(Err(_)) => return self.broke(),
            }
        }
        Attempt::Blocked
    }

    fn readiness(&mut self) -> &Arc<Readiness> {
        self.readiness.get_or_insert_with(|| Arc::new(Readiness(AtomicBool::new(true))))
    }

    fn broke(&mut self) -> Attempt {
        self.queue.clear();
        (self.queued_bytes, self.end) = (0, None);
        self.is_broken = true;
        // The next attempt takes it out of the queue of its connection.
        self.readiness.iter().for_each(|readiness| readiness.set());
        Attempt::Done
    }
}

impl SendOrder {
    /// Sends what this outlet has, in its turn.
    pub(crate) fn offer(&self, outlet: &SharedOutlet) {
        let mut state = lock(&self.state);
        let mut own = lock(outlet);
        if !own.has_output() {
            return;
        }
        // Most responses are sent at once.
        if state.waiting.is_empty() {
            let before = state.left_bytes;
            let attempt = own.attempt(&mut state.left_bytes);
            state.moved_bytes += (before - state.left_bytes) as u64;
            if attempt == Attempt::Done {
                return;
            }
        }
        if !std::mem::replace(&mut own.is_waiting, true) {
            // It takes turns with those that wait, without catching up on theirs.
            own.order.turns = state.turns_of(own.order.priority).unwrap_or(own.order.turns);
            let key = own.order;
            let readiness = Arc::clone(own.readiness());
            drop(own);
            state.insert(WaitingOutlet { outlet: Arc::clone(outlet), readiness }, key);
        } else {
            drop(own);
        }
        state.send();
    }

    /// Bytes of all other responses that were sent so far. While they grow, this one may wait for
    /// them, and not for a slow client.
    pub(crate) fn bytes_of_others(&self, own: &SharedOutlet) -> u64 {
        let all = lock(&self.state).moved_bytes;
        all.saturating_sub(lock(own).sent_bytes)
    }

    /// Ends a stream early, after `h2` has sent what it was given of it.
    pub(crate) fn reset_later(&self, outlet: &SharedOutlet) {
        lock(outlet).broke();
        lock(&self.state).resets.push(Arc::clone(outlet));
    }

    /// Begins a round: `h2` has sent everything. Sends what the windows permit now. All streams of
    /// a connection that `has_ended` learn it.
    pub(crate) fn begin_round(&self, has_ended: bool) {
        let mut state = lock(&self.state);
        if has_ended {
            state.waiting.iter().for_each(|waiting| waiting.readiness.set());
        }
        for outlet in state.resets.drain(..) {
            lock(&outlet).send.send_reset(Reason::INTERNAL_ERROR);
        }
        state.left_bytes = ROUND_BYTES;
        state.send();
    }
}

impl OrderState {
    fn insert(&mut self, waiting: WaitingOutlet, key: OrderKey) {
        let place = self.waiting.partition_point(|other| lock(&other.outlet).order < key);
        self.waiting.insert(place, waiting);
    }

    /// The least number of turns that a waiting outlet of this priority has had.
    fn turns_of(&self, priority: Priority) -> Option<u64> {
        let orders = self.waiting.iter().map(|waiting| lock(&waiting.outlet).order);
        orders.filter(|order| order.priority == priority).map(|order| order.turns).min()
    }

    /// Sends what the windows and the round permit, in the order of the outlets.
    fn send(&mut self) {
        let before = self.left_bytes;
        self.send_in_order();
        if self.left_bytes > 0 && self.waiting.iter().any(|waiting| waiting.readiness.is_set()) {
            // A response has given back what one before it can use.
            self.send_in_order();
        }
        self.moved_bytes += (before - self.left_bytes) as u64;
    }

    fn send_in_order(&mut self) {
        // Capacity that `h2` has given to a response may belong to one before it.
        for waiting in self.waiting.iter().filter(|waiting| waiting.readiness.is_set()) {
            lock(&waiting.outlet).give_capacity_back();
        }
        let mut at = 0;
        while let Some(waiting) = self.waiting.get(at).filter(|_| self.left_bytes > 0) {
            if !waiting.readiness.take() {
                at += 1;
                continue;
            }
            let mut own = lock(&waiting.outlet);
            match own.attempt(&mut self.left_bytes) {
                Attempt::Blocked => at += 1,
                Attempt::RoundOver => waiting.readiness.set(),
                Attempt::Done => {
                    own.is_waiting = false;
                    drop(own);
                    self.waiting.remove(at).readiness.set();
                }
                Attempt::TurnOver => {
                    own.order.turns += 1;
                    let key = own.order;
                    drop(own);
                    let waiting = self.waiting.remove(at);
                    waiting.readiness.set();
                    self.insert(waiting, key);
                }
            }
        }
    }
}

impl Readiness {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Whether it is set; clears it.
    fn take(&self) -> bool {
        self.is_set() && self.0.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Readiness {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

/// Takes the content of the next frame, at most `bytes_max` bytes.
fn take(queue: &mut VecDeque<Bytes>, bytes_max: usize) -> Bytes {
    let Some(front) = queue.front_mut() else { return Bytes::new() };
    if front.len() > bytes_max {
        return front.split_to(bytes_max);
    }
    let first = std::mem::take(front);
    queue.pop_front();
    let gathered_max = GATHERED_BYTES.min(bytes_max);
    let sums = queue.iter().scan(first.len(), |sum, next| {
        *sum += next.len();
        Some(*sum)
    });
    let fitting: Vec<usize> = sums.take_while(|sum| *sum <= gathered_max).collect();
    let Some(bytes) = fitting.last() else { return first };
    // No larger, because `h2` may hold many of them.
    let mut gathered = BytesMut::with_capacity(*bytes);
    gathered.extend_from_slice(&first);
    queue.drain(..fitting.len()).for_each(|next| gathered.extend_from_slice(&next));
    gathered.freeze()
}

/// The state is consistent after every step, so a panic elsewhere does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{GATHERED_BYTES, take};
    use bytes::Bytes;
    use std::collections::VecDeque;

    /// The lengths of the frames in which pieces of these lengths are taken.
    fn frames(pieces: &[usize], bytes_max: usize) -> Vec<usize> {
        let content: Vec<u8> = (0..pieces.iter().sum()).map(|at: usize| at as u8).collect();
        let mut rest = Bytes::from(content.clone());
        let mut queue: VecDeque<Bytes> = pieces.iter().map(|bytes| rest.split_to(*bytes)).collect();
        let (mut taken, mut lengths) = (Vec::new(), Vec::new());
        while !queue.is_empty() {
            let frame = take(&mut queue, bytes_max);
            taken.extend_from_slice(&frame);
            lengths.push(frame.len());
        }
        assert!(taken == content, "the bytes keep their order");
        lengths
    }

    #[test]
    fn small_pieces_share_a_frame() {
        assert_eq!(frames(&[10; 1000], usize::MAX), [4090, 4090, 1820]);
        assert_eq!(frames(&[10; 5], 25), [20, 20, 10]);
    }

    #[test]
    fn large_pieces_are_not_copied() {
        let large = 2 * GATHERED_BYTES;
        assert_eq!(frames(&[large, 10, large, 10, 10], usize::MAX), [large, 10, large, 20]);
        assert_eq!(frames(&[large], GATHERED_BYTES), [GATHERED_BYTES, GATHERED_BYTES]);
    }

    #[test]
    fn nothing_is_taken_without_capacity() {
        assert!(take(&mut VecDeque::from([Bytes::from_static(b"a")]), 0).is_empty());
    }
}
