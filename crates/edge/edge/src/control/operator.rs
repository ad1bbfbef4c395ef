//! The way of the operator's messages to standard error.
//!
//! Invariant: a message never stops or delays the edge. A separate thread writes messages from a
//! short queue. If their reader is slow or gone, messages are lost and counted, and nothing else
//! happens.
//!
//! The crates below the command emit messages with `tracing`. The command installs a subscriber
//! that renders each as a line and writes it to an [`OperatorLog`].

use crate::upkeep::supervisor::{self, ThreadEnd};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Maximum number of queued messages.
const WAITING_MAX: usize = 1024;

/// Maximum length of a line in bytes. Messages quote addresses of pages, which clients choose.
const LINE_BYTES_MAX: usize = 8 << 10;

/// How long the end of an edge waits for queued messages.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// How long a thread that has panicked waits for queued messages.
const FLUSH_MAX: Duration = Duration::from_millis(100);

static OPERATOR: Operator = Operator { queue: OnceLock::new(), lost: AtomicU64::new(0), start };

/// Standard error as a sink whose writes neither block nor fail. Each write is one line.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorLog;

impl Write for OperatorLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        OPERATOR.queue_line(bounded(line));
        Ok(line.len())
    }

    /// Waits a moment until the queued lines are written. For the message of a panic, after which
    /// the process may abort.
    fn flush(&mut self) -> io::Result<()> {
        wait_written(FLUSH_MAX);
        Ok(())
    }
}

enum Message {
    Line(Vec<u8>),
    /// Dropped when everything queued before it has been written.
    Mark(SyncSender<()>),
}

struct Operator {
    /// Empty until the writer thread has started. If the system cannot create it, the next message
    /// tries again.
    queue: OnceLock<SyncSender<Message>>,
    /// Relaxed is enough: no other memory depends on the count.
    lost: AtomicU64,
    start: fn(Receiver<Message>) -> io::Result<()>,
}

/// Number of messages that could not be written or queued.
pub(crate) fn lost() -> u64 {
    OPERATOR.lost.load(Ordering::Relaxed)
}

/// Writes the queued messages when it is dropped, also by a panic, whose message is among them.
pub(crate) struct Finishing;

impl Drop for Finishing {
    fn drop(&mut self) {
        wait_written(FINISH_MAX);
    }
}

/// Waits until the queued messages are written, but not for a reader that has stopped.
fn wait_written(within: Duration) {
    let (done, waits) = sync_channel(1);
    let is_sent = OPERATOR.queue.get().is_some_and(|queue| queue.try_send(Message::Mark(done)).is_ok());
    if is_sent {
        // Dropping the sender tells the receiver that all is written.
        let _ = waits.recv_timeout(within);
    }
}

impl Operator {
    fn queue_line(&self, line: Vec<u8>) {
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

/// The line, or as much of it as is allowed, with a sign that the rest is missing.
fn bounded(line: &[u8]) -> Vec<u8> {
    if line.len() <= LINE_BYTES_MAX {
        return line.to_vec();
    }
    let text = String::from_utf8_lossy(line);
    let (start, _) = text.split_at(text.floor_char_boundary(LINE_BYTES_MAX));
    [start, "...\n"].concat().into_bytes()
}

/// Starts the writer. It is restarted if it panics, because nothing else reports what goes wrong.
fn start(messages: Receiver<Message>) -> io::Result<()> {
    let work = move || {
        write(&messages);
        // All senders are gone.
        ThreadEnd::Due
    };
    supervisor::start("petasos-messages", work).map(drop)
}

fn write(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Line(line) => {
                // In a single call, so that lines of several threads and processes do not mix.
                if io::stderr().write_all(&line).is_err() {
                    OPERATOR.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            Message::Mark(done) => drop(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Message, Operator, bounded};
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
        (0..3).for_each(|_| operator.queue_line(b"a line\n".to_vec()));
        assert_eq!(operator.lost.load(Ordering::Relaxed), 1, "one message found no thread");
        assert_eq!(STARTS.load(Ordering::Relaxed), 2, "one thread writes all messages");
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        assert_eq!(bounded(b"short\n"), b"short\n");
        let cut = String::from_utf8(bounded(format!("x{}\n", "\u{e9}".repeat(LINE_BYTES_MAX)).as_bytes()));
        let cut = cut.unwrap();
        assert!(cut.len() <= LINE_BYTES_MAX + 4 && cut.ends_with("\u{e9}...\n"), "{}", cut.len());
    }
}
