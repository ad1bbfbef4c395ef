//! A time limit on waiting, cheap to restart for every read and write.
//!
//! Invariant: the limit is reached `limit` after the first poll since the last reset, and never
//! earlier. A reset only clears the deadline. The runtime's timer keeps its old deadline and is
//! moved when it fires, so a busy connection does not touch the timer wheel for each request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// A restartable time limit, bound to the runtime on which it is first polled.
#[derive(Debug, Default)]
pub struct Patience {
    due: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    /// A limit that has not started.
    pub const fn new() -> Self {
        Self { due: None, sleep: None }
    }

    /// Clears the current deadline. The next poll sets a new one.
    pub fn reset(&mut self) {
        self.due = None;
    }

    /// Ready once `limit` has passed since the first poll after the last reset. Call it only after
    /// the awaited operation returned pending.
    pub fn poll_over(&mut self, context: &mut Context<'_>, limit: Duration) -> Poll<()> {
        let due = *self.due.get_or_insert_with(|| Instant::now() + limit);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(due)));
        loop {
            // The timer is set for a longer limit than the present one.
            if sleep.deadline() > due {
                sleep.as_mut().reset(due);
            }
            ready!(sleep.as_mut().poll(context));
            if sleep.deadline() == due {
                return Poll::Ready(());
            }
            // The timer fired at a deadline from before a reset: move it to the present one.
            sleep.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Patience;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    async fn over(patience: &mut Patience, limit: Duration) {
        poll_fn(|context| patience.poll_over(context, limit)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn limit_counts_from_the_reset() {
        let mut patience = Patience::new();
        let start = Instant::now();
        let limit = Duration::from_secs(10);
        tokio::select! {
            () = over(&mut patience, limit) => panic!("over too early"),
            () = sleep(Duration::from_secs(9)) => {}
        }
        patience.reset();
        over(&mut patience, limit).await;
        assert_eq!(start.elapsed().as_secs(), 19);
    }

    #[tokio::test(start_paused = true)]
    async fn shorter_limit_replaces_a_longer_one() {
        let mut patience = Patience::new();
        let start = Instant::now();
        tokio::select! {
            () = over(&mut patience, Duration::from_secs(60)) => panic!("over too early"),
            () = sleep(Duration::from_secs(1)) => {}
        }
        patience.reset();
        over(&mut patience, Duration::from_secs(2)).await;
        assert_eq!(start.elapsed().as_secs(), 3);
    }
}
