//! Runs the site as a process: it prints its address, and ends after a signal or with its parent
//! process.

use crate::{Options, Site, StartError};
use clock::Clock;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit status after a second signal.
const EXIT_IMPATIENT: i32 = 1;

/// Runs a site until SIGTERM, SIGINT or the end of the parent process. Once it accepts connections,
/// one line with its address is written to standard output.
///
/// A second signal ends the process at once.
///
/// # Errors
/// If the site cannot be started.
pub fn run(options: &Options, clock: Arc<dyn Clock>) -> Result<(), StartError> {
    let end = End::watch().map_err(|error| StartError::new("signals", &error))?;
    let site = Site::start(options, clock)?;
    let mut out = io::stdout();
    // Ignores errors, because standard output may be closed while the site works.
    let _ = writeln!(out, "petasos demo site: http://{}/", site.address()).and_then(|()| out.flush());
    end.wait();
    site.stop();
    Ok(())
}

/// The events that end the process.
struct End {
    signal: UnixStream,
    /// A descriptor of the parent. `None` if the parent had already ended.
    parent: Option<OwnedFd>,
}

impl End {
    fn watch() -> io::Result<Self> {
        let (signal, sender) = UnixStream::pair()?;
        let seen = Arc::new(AtomicBool::new(false));
        for number in [SIGTERM, SIGINT] {
            // The order matters: with the first signal, the flag is still down for the conditional
            // shutdown and is raised afterwards.
            flag::register_conditional_shutdown(number, EXIT_IMPATIENT, Arc::clone(&seen))?;
            flag::register(number, Arc::clone(&seen))?;
            low_level::pipe::register(number, sender.try_clone()?)?;
        }
        // The kernel's parent-death signal refers to the parent's thread. This descriptor refers to
        // the parent's process.
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
                // An event, or an error that makes watching impossible: both end the process.
                _ => return,
            }
        }
    }
}
