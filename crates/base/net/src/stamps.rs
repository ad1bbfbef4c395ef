//! The kernel's time stamps of received packets, converted to readings of a monotonic clock.
//!
//! A sleeping thread is woken some time after its bytes arrived: about 10 µs later on an idle
//! machine, some hundred µs on a virtual one, milliseconds if other threads need the core. A
//! running thread may be busy. The peer is not responsible for this delay. The stamp is taken when
//! the packet arrives, whatever the thread does then.
//!
//! Invariant: a returned moment is never after the moment at which the bytes were read. Without a
//! stamp it equals that moment.

use clock::{Clock, Monotonic};
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, cmsg_space, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Size in bytes of the control message that carries a stamp.
const CONTROL_BYTES: usize = cmsg_space::<TimeSpec>();

/// The desired maximum time between two compared clock readings.
const COMPARED_WITHIN: Duration = Duration::from_micros(1);

/// The maximum number of attempts, because the thread may lose its core between two readings.
const ATTEMPTS_MAX: usize = 20;

/// Buffer for the control message, with the alignment that the system needs.
#[repr(align(8))]
struct ControlBuffer([u8; CONTROL_BYTES]);

/// The arrival of a packet by the wall clock, in nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp for this number of nanoseconds since 1970; `None` for zero.
    pub const fn from_nanos(nanos: u64) -> Option<Self> {
        if nanos > 0 { Some(Self(nanos)) } else { None }
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// Asks the kernel for stamps of the packets that a socket receives.
///
/// # Errors
/// If the system has no stamps. [`StampClock::moment`] then gives the moment of reading.
pub fn ask_for_stamps(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, ReceiveTimestampns, &true)?)
}

/// Reads from a socket. Returns the number of bytes, and the stamp of the last of them if there is
/// one.
///
/// # Errors
/// As the system reports them.
pub fn receive(socket: &impl AsRawFd, room: &mut [u8]) -> io::Result<(usize, Option<Stamp>)> {
    let mut control = ControlBuffer([0; CONTROL_BYTES]);
    let mut pieces = [IoSliceMut::new(room)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut control.0), MsgFlags::empty())?;
    let stamp = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(time) => {
            Stamp::from_nanos(Duration::from(time).as_nanos() as u64)
        }
        _ => None,
    });
    Ok((message.bytes, stamp))
}

/// The offset of the wall clock, which the kernel uses for stamps, to a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct StampClock {
    /// The reading of the wall clock in nanoseconds when the monotonic clock is at zero.
    wall_at_zero_ns: u64,
}

impl StampClock {
    /// Compares the clocks. The wall clock may be set at any time, so the comparison must be
    /// repeated from time to time.
    pub fn compare(clock: &dyn Clock) -> Self {
        let mut best = (Duration::MAX, 0);
        for _ in 0..ATTEMPTS_MAX {
            let before = clock.monotonic();
            let wall_ns = clock.now().as_micros() * 1_000;
            let took = clock.monotonic().since(before);
            if took < best.0 {
                best = (took, wall_ns.saturating_sub(before.plus(took / 2).as_nanos()));
            }
            if took <= COMPARED_WITHIN {
                break;
            }
        }
        Self { wall_at_zero_ns: best.1 }
    }

    /// The arrival of bytes that were read at `now`: the moment of their stamp, but never after
    /// `now`.
    pub fn moment(self, stamp: Option<Stamp>, now: Monotonic) -> Monotonic {
        let of = |stamp: Stamp| Monotonic::from_nanos(stamp.0.saturating_sub(self.wall_at_zero_ns));
        stamp.map_or(now, |stamp| of(stamp).min(now))
    }
}

#[cfg(test)]
mod tests {
    use super::{Stamp, StampClock, ask_for_stamps, receive};
    use clock::{Clock as _, Monotonic};
    use platform::SystemClock;
    use std::io::{ErrorKind, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn stamp_is_the_arrival_of_bytes_not_their_reading() {
        let clock = SystemClock::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        ask_for_stamps(&stream).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut room = [0; 16];
        // The kernel starts stamping shortly after the first socket asks for it.
        for attempt in 0..100 {
            let before = clock.monotonic();
            server.write_all(b"octets").unwrap();
            let after = clock.monotonic();
            std::thread::sleep(Duration::from_millis(50));
            let (bytes, stamp) = receive(&stream, &mut room).unwrap();
            assert_eq!(room.get(..bytes), Some(&b"octets"[..]));
            let now = clock.monotonic();
            let came = StampClock::compare(&clock).moment(stamp, now);
            if stamp.is_some() {
                // The comparison of the clocks is accurate to some microseconds.
                let slack = Duration::from_millis(1);
                assert!(
                    before <= came.plus(slack) && came <= after.plus(slack),
                    "{before:?} {came:?} {after:?}"
                );
                stream.set_nonblocking(true).unwrap();
                assert_eq!(receive(&stream, &mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
                drop(server);
                stream.set_nonblocking(false).unwrap();
                assert_eq!(receive(&stream, &mut room).unwrap(), (0, None));
                return;
            }
            assert_eq!(came, now, "without a stamp it is when it was read; attempt {attempt}");
        }
        panic!("the kernel has given no stamp");
    }

    #[test]
    fn moment_is_never_after_the_reading() {
        let clock = StampClock { wall_at_zero_ns: 5_000 };
        let moment =
            |wall_ns| clock.moment(Stamp::from_nanos(wall_ns), Monotonic::from_nanos(200)).as_nanos();
        assert_eq!([5_150, 5_250, 4_000, 0].map(moment), [150, 200, 0, 200]);
    }
}
