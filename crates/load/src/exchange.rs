//! One request from the moment at which it is meant to start until its answer is read.
//!
//! Invariant: an answer ends when the kernel had its last octets, whenever they were read.

use crate::check::LOST_US_PER_REQUEST_MIN;
use platform::Monotonic;
use std::time::Duration;

/// Waking a thread takes 10 to 100 us, so a client that sleeps until octets come cannot read them earlier. A piece that
/// waits no longer than this is not held back by a lack of cores.
const WAKING_MAX: Duration = Duration::from_micros(LOST_US_PER_REQUEST_MIN as u64);

/// The moments of one request, as far as it has come. Moments that have not come yet are stale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// Whether it belongs to the measured part.
    pub(crate) measured: bool,
    /// Whether a user of a closed loop waits for it.
    pub(crate) of_user: bool,
    /// The stage's place in the plan.
    pub(crate) stage: u16,
    /// The URL's place in the plan.
    pub(crate) url: u32,
    /// When it was meant to start.
    pub(crate) intended: Monotonic,
    pub(crate) started: Monotonic,
    /// When TCP stood.
    pub(crate) established: Monotonic,
    /// When requests could be sent.
    pub(crate) connected: Monotonic,
    pub(crate) sent: Monotonic,
    /// When the first octets of the answer had come.
    pub(crate) first_octet: Monotonic,
    /// When the last ones had come, whenever they were read.
    pub(crate) last_octet: Monotonic,
    /// When they were read.
    pub(crate) read_at: Monotonic,
    /// For how long octets before the last ones had come and were not read.
    pub(crate) held_back: HeldBack,
    /// Whether the end of the answer is the close of its connection, whose moment the kernel does not tell.
    pub(crate) ends_with_close: bool,
}

/// For how long octets before the last ones of a response had come and were not read.
///
/// Octets that came while others waited to be read are one piece with these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    total: Duration,
    /// What finished pieces waited beyond the time that waking takes.
    excess: Duration,
    /// For how long the unfinished piece has waited.
    piece: Duration,
}

impl HeldBack {
    /// Octets waited so long until they were read, or until the next ones came. `is_over` says that they were read
    /// before the next ones came.
    fn add(&mut self, time: Duration, is_over: bool) {
        self.total += time;
        self.piece += time;
        if is_over {
            self.excess = self.excess();
            self.piece = Duration::ZERO;
        }
    }

    /// The time of all pieces together.
    pub(crate) fn total(self) -> Duration {
        self.total
    }

    /// What each piece waited beyond the time that waking takes, summed up. Pieces that were read at once make up for
    /// nothing.
    pub(crate) fn excess(self) -> Duration {
        self.excess + self.piece.saturating_sub(WAKING_MAX)
    }
}

impl Exchange {
    /// A request that is meant to start at a moment, and starts then.
    pub(crate) fn starting(started: Monotonic, measured: bool) -> Self {
        Self {
            measured,
            of_user: true,
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

    /// The same, started later than intended.
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

    /// Octets that had come at `came` are read at `read_at`, those of a handshake included.
    pub(crate) fn receive(&mut self, came: Monotonic, read_at: Monotonic) {
        // From `came` on the time counts for these octets, so that nothing counts twice.
        let time = self.read_at.min(came).since(self.last_octet);
        self.held_back.add(time, came > self.read_at);
        (self.last_octet, self.read_at) = (came, read_at);
    }

    /// The close of the connection, seen at `now`, is the end of the answer.
    pub(crate) fn end_with_close(&mut self, now: Monotonic) {
        self.receive(now, now);
        self.ends_with_close = true;
    }
}

#[cfg(test)]
mod tests {
    use super::Exchange;
    use platform::Monotonic;
    use std::time::Duration;

    fn at(micros: u64) -> Monotonic {
        Monotonic::from_nanos(micros * 1_000)
    }

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn each_piece_of_a_response_may_wait_as_long_as_waking_takes() {
        let mut exchange = Exchange::starting(at(0), true);
        // A piece comes every millisecond and is read 90 us later.
        (1..=20).for_each(|piece| exchange.receive(at(piece * 1_000), at(piece * 1_000 + 90)));
        assert_eq!((exchange.held_back.total(), exchange.held_back.excess()), (us(19 * 90), us(0)));
        // The next waits for 3 ms; many pieces that do not wait make up for none of that.
        exchange.receive(at(30_000), at(33_000));
        (34..=60).for_each(|piece| exchange.receive(at(piece * 1_000), at(piece * 1_000)));
        assert_eq!(exchange.held_back.excess(), us(2_900));
    }

    #[test]
    fn pieces_that_came_during_one_wait_are_allowed_one_waking() {
        let mut exchange = Exchange::starting(at(0), true);
        // Thirty pieces come while the generator has no core, and are read one after the other.
        (0..30).for_each(|piece| exchange.receive(at(1_000 + piece * 100), at(5_000 + piece)));
        assert_eq!((exchange.held_back.total(), exchange.held_back.excess()), (us(2_900), us(2_800)));
        // What comes after they were read is another piece; they had waited since the first of them came.
        exchange.receive(at(6_000), at(6_010));
        assert_eq!(exchange.held_back.excess(), us(2_900 + 1_129 - 100));
    }
}
