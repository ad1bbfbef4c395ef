//! One request from the moment at which it is meant to start until its answer is read.
//!
//! Invariant: an answer ends when the kernel had its last octets, whenever they were read.

use platform::Monotonic;
use std::time::Duration;

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
    pub(crate) held_back: Duration,
    /// Whether the end of the answer is the close of its connection, whose moment the kernel does not tell.
    pub(crate) ends_with_close: bool,
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
            held_back: Duration::ZERO,
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
        self.held_back += self.read_at.min(came).since(self.last_octet);
        (self.last_octet, self.read_at) = (came, read_at);
    }

    /// The close of the connection, seen at `now`, is the end of the answer.
    pub(crate) fn end_with_close(&mut self, now: Monotonic) {
        self.receive(now, now);
        self.ends_with_close = true;
    }
}
