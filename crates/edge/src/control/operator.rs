//! Messages to the operator on standard error.
//!
//! Invariant: a message never stops or delays the edge. A separate thread writes messages from a
//! short queue. If their reader is slow or gone, messages are lost and counted, and nothing else
//! happens.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Maximum number of queued messages.
const WAITING_MAX: usize = 1024;

/// How long the end of an edge waits for queued messages.
const FINISH_MAX: Duration = Duration::from_secs(1);

static OPERATOR: Operator = Operator { queue: OnceLock::new(), lost: AtomicU64::new(0), start };

enum Message {
    Line(String),
    /// Dropped when everything queued before it has been written.
    Mark(SyncSender<()>),
}

struct Operator {
    /// Empty until the writer thread has started. If the system cannot create it, the next message
    /// tries again.
    queue: OnceLock<SyncSender<Message>>,
    lost: AtomicU64,
    start: fn(Receiver<Message>) -> io::Result<()>,
}

/// Queues `petasos: TEXT` for standard error.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    OPERATOR.say(format!("petasos: {text}\n"));
}

/// Number of messages that could not be written or queued.
pub(crate) fn lost() -> u64 {
    OPERATOR.lost.load(Ordering::Relaxed)
}

/// Waits until the queued messages are written, but not for a reader that has stopped.
pub(crate) fn finish() {
    let (done, waits) = sync_channel(1);
    let is_sent = OPERATOR.queue.get().is_some_and(|queue| queue.try_send(Message::Mark(done)).is_ok());
    if is_sent {
        // Dropping the sender tells the receiver that all is written.
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
        // If two threads were started concurrently, the one whose queue is dropped here ends at
        // once.
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
                // In a single call, so that lines of several threads and processes do not mix.
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
            // Accepts messages and writes none.
            std::thread::Builder::new().spawn(move || messages.into_iter().for_each(drop)).map(drop)
        }
        let operator = Operator { queue: OnceLock::new(), lost: AtomicU64::new(0), start: refused_once };
        (0..3).for_each(|_| operator.say("a line\n".to_owned()));
        assert_eq!(operator.lost.load(Ordering::Relaxed), 1, "one message found no thread");
        assert_eq!(STARTS.load(Ordering::Relaxed), 2, "one thread writes all messages");
    }
}
