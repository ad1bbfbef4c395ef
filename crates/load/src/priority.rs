//! How the kernel schedules the worker threads beside the other programs of the machine.
//!
//! On the machine of its server a load tester competes with that server for cores. A response that the kernel has
//! received then waits until the generator gets a core, and the run is invalid although nothing is wrong with the server.
//! Threads of a real-time policy preempt ordinary programs as soon as a response is there. They take no more
//! of the cores than before: a closed loop works on responses and then waits.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Which programs the worker threads precede.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// None: the kernel shares the cores among all programs.
    #[default]
    Ordinary,
    /// All ordinary programs (SCHED_FIFO at its lowest priority) if the kernel allows it, else none. It allows
    /// that with CAP_SYS_NICE, or within the limit RLIMIT_RTPRIO. [`crate::Outcome::is_real_time`] has what came of it.
    RealTimeIfAllowed,
    /// All ordinary programs; a run that is not allowed to is an error.
    RealTime,
}

impl Priority {
    /// Gives this priority to the calling thread. Returns whether the thread is real-time now.
    ///
    /// # Errors
    /// The kernel's reason, if real-time was a must.
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

    /// What a new thread with this priority is told, and the policy that the kernel has for it: 0 is SCHED_OTHER, 1 is
    /// SCHED_FIFO (proc_pid_stat(5), field 41).
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
        // Whether it is allowed depends on the machine; the report must agree with the kernel in either case.
        let (wished, policy) = taken(Priority::RealTimeIfAllowed);
        assert_eq!(wished, Ok(policy == 1));
        let (wanted, forced_policy) = taken(Priority::RealTime);
        assert_eq!((wanted.is_ok(), forced_policy), (policy == 1, policy));
    }
}
