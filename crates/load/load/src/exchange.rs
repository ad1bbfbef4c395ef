//! One request, from the moment it is meant to start until its response is read.
//!
//! Invariant: a response ends when the kernel received its last bytes, no matter when they were
//! read.

use clock::Monotonic;
use record::LOST_US_PER_REQUEST_MIN;
use std::time::Duration;

/// Wake-up allowance of a piece of a response. Waking a thread takes 10 to 100 us, so a sleeping
/// client cannot read bytes earlier. A shorter wait is not blamed on a lack of cores.
const WAKING_MAX: Duration = Duration::from_micros(LOST_US_PER_REQUEST_MIN as u64);

/// The moments of one request so far. Moments that have not come yet hold stale values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExchangeTimes {
    /// Whether it belongs to the measured part.
    pub(crate) measured: bool,
    /// Whether a user of a closed loop waits for it.
    pub(crate) of_user: bool,
    /// Whether it was started before, and its connection did not process it. It counts as started
    /// once.
    pub(crate) is_returned: bool,
    /// Index of its stage in the plan.
    pub(crate) stage: u16,
    /// Index of its URL in the plan.
    pub(crate) url: u32,
    /// When it was meant to start.
    pub(crate) intended: Monotonic,
    pub(crate) started: Monotonic,
    /// When the TCP handshake ended.
    pub(crate) established: Monotonic,
    /// When requests could be sent.
    pub(crate) connected: Monotonic,
    pub(crate) sent: Monotonic,
    /// When the first bytes of the response arrived.
    pub(crate) first_octet: Monotonic,
    /// When the last bytes arrived, no matter when they were read.
    pub(crate) last_octet: Monotonic,
    /// When the last bytes were read.
    pub(crate) read_at: Monotonic,
    /// How long bytes before the last ones had arrived but were not read.
    pub(crate) held_back: HeldBack,
    /// Whether the response ended with the close of its connection. The kernel has no timestamp for
    /// a close.
    pub(crate) ends_with_close: bool,
}

/// How long bytes before the last ones of a response had arrived but were not read.
///
/// Bytes that arrive while others wait to be read belong to the same piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    total: Duration,
    /// The waits of finished pieces, each reduced by the wake-up allowance.
    excess: Duration,
    /// How long the current piece has waited.
    piece: Duration,
}

impl HeldBack {
    /// Adds a wait of bytes: until they were read, or until the next ones arrived. `is_over` says
    /// that they were read before the next ones arrived.
    fn add(&mut self, time: Duration, is_over: bool) {
        self.total += time;
        self.piece += time;
        if is_over {
            self.excess = self.excess();
            self.piece = Duration::ZERO;
        }
    }

    /// The waits of all pieces.
    pub(crate) fn total(self) -> Duration {
        self.total
    }

    /// The waits of all pieces, each reduced by the wake-up allowance. A piece that was read at
    /// once does not offset another's wait.
    pub(crate) fn excess(self) -> Duration {
        self.excess + self.piece.saturating_sub(WAKING_MAX)
    }
}

impl ExchangeTimes {
    /// A request meant to start at `started`, and starts then.
    pub(crate) fn starting(started: Monotonic, measured: bool) -> Self {
        Self {
            measured,
            of_user: true,
            is_returned: false,
            stage: 0,
            url: 0,
            intended: started,
            started,
            established: started,
            connected: started,
            sent: started,
            first_octet: started,
            last_octet: started,
            read_at: started,
            held_back: HeldBack::default(),
            ends_with_close: false,
        }
    }

    /// The same request, started later than intended.
    #[must_use]
    pub(crate) fn started_at(self, started: Monotonic) -> Self {
        Self {
            started,
            established: started,
            connected: started,
            sent: started,
            first_octet: started,
            last_octet: started,
            read_at: started,
            ..self
        }
    }

    /// Records that bytes which arrived at `came` were read at `read_at`. Bytes of a handshake
    /// count too.
    pub(crate) fn receive(&mut self, came: Monotonic, read_at: Monotonic) {
        // The wait of the earlier bytes ends at `came`: from then on the new bytes wait, and no
        // time counts twice.
        let time = self.read_at.min(came).since(self.last_octet);
        self.held_back.add(time, came > self.read_at);
        (self.last_octet, self.read_at) = (came, read_at);
    }

    /// Records that the close of the connection, seen at `now`, is the end of the response.
    pub(crate) fn end_with_close(&mut self, now: Monotonic) {
        self.receive(now, now);
        self.ends_with_close = true;
    }
}

#[cfg(test)]
mod tests {
    use super::ExchangeTimes;
    use clock::Monotonic;
    use std::time::Duration;

    fn at(micros: u64) -> Monotonic {
        Monotonic::from_nanos(micros * 1_000)
    }

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn each_piece_may_wait_for_the_wake_up_latency() {
        let mut exchange = ExchangeTimes::starting(at(0), true);
        // A piece arrives every millisecond and is read 90 us later.
        (1..=20).for_each(|piece| exchange.receive(at(piece * 1_000), at(piece * 1_000 + 90)));
        assert_eq!((exchange.held_back.total(), exchange.held_back.excess()), (us(19 * 90), us(0)));
        // The next piece waits for 3 ms. Many pieces that do not wait do not offset that.
        exchange.receive(at(30_000), at(33_000));
        (34..=60).for_each(|piece| exchange.receive(at(piece * 1_000), at(piece * 1_000)));
        assert_eq!(exchange.held_back.excess(), us(2_900));
    }

    #[test]
    fn pieces_of_one_wait_share_one_allowance() {
        let mut exchange = ExchangeTimes::starting(at(0), true);
        // Thirty pieces arrive while the generator has no core, and are read one after the other.
        (0..30).for_each(|piece| exchange.receive(at(1_000 + piece * 100), at(5_000 + piece)));
        assert_eq!((exchange.held_back.total(), exchange.held_back.excess()), (us(2_900), us(2_800)));
        // Bytes that arrive after the read are another piece. The earlier ones had waited since the
        // first of them arrived.
        exchange.receive(at(6_000), at(6_010));
        assert_eq!(exchange.held_back.excess(), us(2_900 + 1_129 - 100));
    }
}
