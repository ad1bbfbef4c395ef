//! Messages to the operator on standard error.
//!
//! Invariant: a message never stops or delays what the edge does. Messages wait in a short queue for a thread of their
//! own, so a reader that is slow or gone costs messages, which are counted, and nothing else.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Messages that wait to be written.
const WAITING_MAX: usize = 1024;

/// How long the end of an edge waits for the messages before it.
const FINISH_MAX: Duration = Duration::from_secs(1);

static OPERATOR: OnceLock<Operator> = OnceLock::new();

enum Message {
    Line(String),
    /// Everything before it has been written when this is dropped.
    Mark(SyncSender<()>),
}

struct Operator {
    /// `None` where there is no thread to be had.
    queue: Option<SyncSender<Message>>,
    lost: AtomicU64,
}

/// Writes `petasos: TEXT` to standard error, soon.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    operator().say(format!("petasos: {text}\n"));
}

/// Messages that could not be written, or found no room in the queue.
pub(crate) fn lost() -> u64 {
    operator().lost.load(Ordering::Relaxed)
}

/// Waits until the messages so far are written, but not for a reader that has stopped.
pub(crate) fn finish() {
    let (done, waits) = sync_channel(1);
    let is_sent = operator().queue.as_ref().is_some_and(|queue| queue.try_send(Message::Mark(done)).is_ok());
    if is_sent {
        // The channel's end says that it is done.
        let _ = waits.recv_timeout(FINISH_MAX);
    }
}

fn operator() -> &'static Operator {
    OPERATOR.get_or_init(|| {
        let (queue, messages) = sync_channel(WAITING_MAX);
        let writer = Builder::new().name("petasos-messages".to_owned()).spawn(move || write(&messages));
        Operator { queue: writer.is_ok().then_some(queue), lost: AtomicU64::new(0) }
    })
}

impl Operator {
    fn say(&self, line: String) {
        let refused = match &self.queue {
            Some(queue) => queue.try_send(Message::Line(line)),
            None => Err(TrySendError::Disconnected(Message::Line(line))),
        };
        if refused.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Line(line) => {
                // One call, so that lines of several threads and processes do not mix.
                if io::stderr().write_all(line.as_bytes()).is_err() {
                    operator().lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Message::Mark(done) => drop(done),
        }
    }
}
