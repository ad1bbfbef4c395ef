//! When the kernel had what is read: its time stamps of received packets, as readings of a clock of ours.
//!
//! A thread that sleeps is woken after its octets came: some 10 µs later on an idle machine, some hundred on a virtual
//! one, milliseconds where others want the core. A thread that is awake may be busy. Neither is the peer's time. The
//! stamp is taken when the packet comes in, whatever the thread does then.
//!
//! Invariant: a moment is never after the one at which the octets were read. Where the kernel gives no stamp, it is
//! that one.

use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, cmsg_space, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use platform::{Clock, Monotonic};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Octets of the message that carries a stamp.
const CONTROL_BYTES: usize = cmsg_space::<TimeSpec>();

/// How close to each other readings of two clocks are to be.
const COMPARED_WITHIN: Duration = Duration::from_micros(1);

/// How often that is tried: between two readings the thread may lose its core.
const ATTEMPTS_MAX: usize = 20;

/// Room for that message, beginning where the system wants it.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// When a packet came in, by the wall clock: nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of so many nanoseconds since 1970; `None` for zero.
    pub const fn from_nanos(nanos: u64) -> Option<Self> {
        if nanos > 0 { Some(Self(nanos)) } else { None }
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// Asks the kernel for stamps of what a socket receives.
///
/// # Errors
/// If the system has none; moments are then those of reading.
pub fn ask_for_stamps(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, ReceiveTimestampns, &true)?)
}

/// Reads from a socket; gives how many octets there were, and when the last of them came in.
///
/// # Errors
/// As the system reports them.
pub fn receive(socket: &impl AsRawFd, room: &mut [u8]) -> io::Result<(usize, Option<Stamp>)> {
    let mut control = Control([0; CONTROL_BYTES]);
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

/// How the wall clock, which the kernel stamps by, lies to a monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct StampClock {
    /// The wall clock's reading when the monotonic one is at zero.
    wall_at_zero_ns: u64,
}

impl StampClock {
    /// Compares the clocks. The wall clock may be set at any time, so this has to be done now and then.
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

    /// When octets came that were read at `now`.
    pub fn moment(self, stamp: Option<Stamp>, now: Monotonic) -> Monotonic {
        let of = |stamp: Stamp| Monotonic::from_nanos(stamp.0.saturating_sub(self.wall_at_zero_ns));
        stamp.map_or(now, |stamp| of(stamp).min(now))
    }
}

#[cfg(test)]
mod tests {
    use super::{Stamp, StampClock, ask_for_stamps, receive};
    use platform::{Clock as _, Monotonic, SystemClock};
    use std::io::{ErrorKind, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_stamp_tells_when_octets_came_and_not_when_they_were_read() {
        let clock = SystemClock::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        ask_for_stamps(&stream).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut room = [0; 16];
        // The kernel begins to stamp a little after the first socket asks for it.
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
                // The clocks are compared to some microseconds.
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
    fn nothing_comes_after_it_was_read() {
        let clock = StampClock { wall_at_zero_ns: 5_000 };
        let moment =
            |wall_ns| clock.moment(Stamp::from_nanos(wall_ns), Monotonic::from_nanos(200)).as_nanos();
        assert_eq!([5_150, 5_250, 4_000, 0].map(moment), [150, 200, 0, 200]);
    }
}
