//! Messages to the operator on standard error.
//!
//! Invariant: a message never stops or delays what the edge does. Messages wait in a short queue for a thread of their
//! own, so a reader that is slow or gone costs messages, which are counted, and nothing else.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Messages that wait to be written.
const WAITING_MAX: usize = 1024;

/// How long the end of an edge waits for the messages before it.
const FINISH_MAX: Duration = Duration::from_secs(1);

static OPERATOR: Operator = Operator { queue: OnceLock::new(), lost: AtomicU64::new(0), start };

enum Message {
    Line(String),
    /// Everything before it has been written when this is dropped.
    Mark(SyncSender<()>),
}

struct Operator {
    /// Empty until the thread that writes has started. If the system refuses it, the next message tries again.
    queue: OnceLock<SyncSender<Message>>,
    lost: AtomicU64,
    start: fn(Receiver<Message>) -> io::Result<()>,
}

/// Writes `petasos: TEXT` to standard error, soon.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    OPERATOR.say(format!("petasos: {text}\n"));
}

/// Messages that could not be written, or found no room in the queue.
pub(crate) fn lost() -> u64 {
    OPERATOR.lost.load(Ordering::Relaxed)
}

/// Waits until the messages so far are written, but not for a reader that has stopped.
pub(crate) fn finish() {
    let (done, waits) = sync_channel(1);
    let is_sent = OPERATOR.queue.get().is_some_and(|queue| queue.try_send(Message::Mark(done)).is_ok());
    if is_sent {
        // The channel's end says that it is done.
        let _ = waits.recv_timeout(FINISH_MAX);
    }
}

impl Operator {
    fn say(&self, line: String) {
        let is_queued = self.queue().is_some_and(|queue| queue.try_send(Message::Line(line)).is_ok());
        if !is_queued {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn queue(&self) -> Option<&SyncSender<Message>> {
        if let Some(queue) = self.queue.get() {
            return Some(queue);
        }
        let (queue, messages) = sync_channel(WAITING_MAX);
        (self.start)(messages).ok()?;
        // Of two threads that start at the same time, the one whose queue is dropped here ends at once.
        Some(self.queue.get_or_init(|| queue))
    }
}

fn start(messages: Receiver<Message>) -> io::Result<()> {
    Builder::new().name("petasos-messages".to_owned()).spawn(move || write(&messages)).map(drop)
}

fn write(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Line(line) => {
                // One call, so that lines of several threads and processes do not mix.
                if io::stderr().write_all(line.as_bytes()).is_err() {
                    OPERATOR.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Message::Mark(done) => drop(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Operator};
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::Receiver;

    #[test]
    fn thread_that_was_refused_is_started_by_the_next_message() {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        fn refused_once(messages: Receiver<Message>) -> io::Result<()> {
            if STARTS.fetch_add(1, Ordering::Relaxed) == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // It takes messages and writes none.
            std::thread::Builder::new().spawn(move || messages.into_iter().for_each(drop)).map(drop)
        }
        let operator = Operator { queue: OnceLock::new(), lost: AtomicU64::new(0), start: refused_once };
        (0..3).for_each(|_| operator.say("a line\n".to_owned()));
        assert_eq!(operator.lost.load(Ordering::Relaxed), 1, "one message found no thread");
        assert_eq!(STARTS.load(Ordering::Relaxed), 2, "one thread writes all messages");
    }
}
