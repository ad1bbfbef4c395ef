//! The scheduling priority of the worker threads.
//!
//! On the server's machine, a load tester competes with the server for cores. A response that the
//! kernel has received then waits until the generator gets a core. The run becomes invalid although
//! the server is fine. Threads with a real-time policy preempt ordinary programs as soon as a
//! response arrives. They do not use more CPU time than before, because a closed loop processes
//! responses and then waits.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Which programs the worker threads preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// None: the kernel shares the cores among all programs.
    #[default]
    Ordinary,
    /// All ordinary programs (SCHED_FIFO at its lowest priority) if the kernel allows it, otherwise
    /// none. It is allowed with CAP_SYS_NICE, or within the limit RLIMIT_RTPRIO.
    /// [`crate::Outcome::is_real_time`] has the result.
    RealTimeIfAllowed,
    /// All ordinary programs. If the kernel does not allow it, the run is an error.
    RealTime,
}

impl Priority {
    /// Gives this priority to the calling thread. Returns whether the thread is real-time now.
    ///
    /// # Errors
    /// The kernel's reason, if [`Priority::RealTime`] is not allowed.
    pub(crate) fn take(self) -> Result<bool, String> {
        if self == Self::Ordinary {
            return Ok(false);
        }
        let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        match set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy) {
            Ok(()) => Ok(true),
            Err(_) if self == Self::RealTimeIfAllowed => Ok(false),
            Err(thread_priority::Error::OS(number)) => {
                Err(std::io::Error::from_raw_os_error(number).to_string())
            }
            Err(error) => Err(format!("{error:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Priority;

    /// The result that a new thread with this priority gets, and the kernel's policy for it: 0 is
    /// SCHED_OTHER, 1 is SCHED_FIFO (proc_pid_stat(5), field 41).
    fn taken(priority: Priority) -> (Result<bool, String>, u32) {
        let thread = std::thread::spawn(move || {
            let taken = priority.take();
            let id = rustix::thread::gettid().as_raw_nonzero();
            let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap();
            // The name, field 2, is in parentheses and may contain spaces.
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            (taken, fields.split(' ').nth(41 - 3).unwrap().parse().unwrap())
        });
        thread.join().unwrap()
    }

    #[test]
    fn kernel_schedules_each_priority_as_reported() {
        assert_eq!(taken(Priority::Ordinary), (Ok(false), 0));
        // Whether it is allowed depends on the machine; the report must agree with the kernel in
        // either case.
        let (wished, policy) = taken(Priority::RealTimeIfAllowed);
        assert_eq!(wished, Ok(policy == 1));
        let (wanted, forced_policy) = taken(Priority::RealTime);
        assert_eq!((wanted.is_ok(), forced_policy), (policy == 1, policy));
    }
}
