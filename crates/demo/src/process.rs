//! The site as a process of its own: it says where it is, and ends when it is told to or when the process
//! that started it is gone.

use crate::{Options, Site, StartError};
use platform::Clock;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What the process ends with when a second signal does not let it finish.
const EXIT_IMPATIENT: i32 = 1;

/// Runs a site until SIGTERM, SIGINT or the end of the parent process. When it accepts connections, one line
/// with its address goes to standard output.
///
/// A second signal ends the process at once.
///
/// # Errors
/// If the site cannot be started.
pub fn run(options: &Options, clock: Arc<dyn Clock>) -> Result<(), StartError> {
    let end = End::watch().map_err(|error| StartError::new("signals", &error))?;
    let site = Site::start(options, clock)?;
    let mut out = io::stdout();
    // Nobody may be listening to standard output, and the site is up all the same.
    let _ = writeln!(out, "petasos demo site: http://{}/", site.address()).and_then(|()| out.flush());
    end.wait();
    site.stop();
    Ok(())
}

/// What can end the process from outside.
struct End {
    signal: UnixStream,
    /// The parent, if it was still there to be watched.
    parent: Option<OwnedFd>,
}

impl End {
    fn watch() -> io::Result<Self> {
        let (signal, sender) = UnixStream::pair()?;
        let seen = Arc::new(AtomicBool::new(false));
        for number in [SIGTERM, SIGINT] {
            // In this order: the first signal finds the flag down and raises it.
            flag::register_conditional_shutdown(number, EXIT_IMPATIENT, Arc::clone(&seen))?;
            flag::register(number, Arc::clone(&seen))?;
            low_level::pipe::register(number, sender.try_clone()?)?;
        }
        // A descriptor of the process, because the system's own signal for this follows the parent's thread.
        let parent = getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
        Ok(Self { signal, parent })
    }

    fn wait(&self) {
        let ends = [Some(self.signal.as_fd()), self.parent.as_ref().map(AsFd::as_fd)];
        loop {
            let mut watched: Vec<PollFd<'_>> =
                ends.iter().flatten().map(|end| PollFd::from_borrowed_fd(*end, PollFlags::IN)).collect();
            match rustix::event::poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => {}
                // Woken, or unable to watch: either way there is no reason left to go on.
                _ => return,
            }
        }
    }
}
