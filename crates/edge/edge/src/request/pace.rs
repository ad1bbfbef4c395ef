//! Measures the rate at which a client sends or reads while the edge waits for it.
//!
//! Invariant: only the time of waiting for the client counts. A client is not slow because an
//! origin is, nor because of a long pause between two events of a stream.

use net::Patience;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// A client's progress in the current window.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Waiting time in this window, without the current wait.
    waited: Duration,
    bytes: u64,
    /// Start of the current wait.
    since: Option<Instant>,
    patience: Patience,
}

impl Pace {
    /// Starts a new window, for the next request.
    pub(crate) fn reset(&mut self) {
        (self.waited, self.bytes, self.since) = (Duration::ZERO, 0, None);
        self.patience.reset();
    }

    /// Records that the client has sent or read this many bytes.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
            self.patience.reset();
        }
    }

    /// Ready when the edge has waited for `window` and the client did not reach `bytes_per_second`
    /// in that time. To be called only after the client's I/O was pending.
    pub(crate) fn poll_too_slow(
        &mut self,
        context: &mut Context<'_>,
        bytes_per_second: u64,
        window: Duration,
    ) -> Poll<()> {
        if bytes_per_second == 0 || window.is_zero() {
            return Poll::Pending;
        }
        loop {
            self.since.get_or_insert_with(Instant::now);
            ready!(self.patience.poll_over(context, window.saturating_sub(self.waited)));
            if (self.bytes as f64) < bytes_per_second as f64 * window.as_secs_f64() {
                return Poll::Ready(());
            }
            self.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    const WINDOW: Duration = Duration::from_secs(10);

    async fn too_slow(pace: &mut Pace) {
        poll_fn(|context| pace.poll_too_slow(context, 100, WINDOW)).await;
    }

    /// Waits for the client in steps of a second, in each of which it moves `bytes`. Returns the
    /// seconds until it is too slow, or `None` after `seconds` steps.
    async fn seconds_until_too_slow(pace: &mut Pace, bytes: usize, seconds: u64) -> Option<u64> {
        let begin = Instant::now();
        for _ in 0..seconds {
            tokio::select! {
                () = too_slow(pace) => return Some(begin.elapsed().as_secs()),
                () = sleep(Duration::from_millis(999)) => pace.moved(bytes),
            }
            sleep(Duration::from_millis(1)).await;
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn client_below_the_rate_is_too_slow_after_the_window() {
        assert_eq!(seconds_until_too_slow(&mut Pace::default(), 90, 100).await, Some(10));
        assert_eq!(seconds_until_too_slow(&mut Pace::default(), 110, 100).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_rate_or_window_no_client_is_too_slow() {
        let mut pace = Pace::default();
        for (rate, window) in [(0, WINDOW), (100, Duration::ZERO)] {
            let too_slow = poll_fn(|context| pace.poll_too_slow(context, rate, window));
            assert!(tokio::time::timeout(10 * WINDOW, too_slow).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_of_the_other_side_do_not_count() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            // The client moves a byte at once, then the other side pauses for long.
            tokio::select! {
                biased;
                () = too_slow(&mut pace) => panic!("the client was never waited for"),
                () = std::future::ready(()) => pace.moved(1),
            }
            sleep(WINDOW).await;
        }
    }
}
