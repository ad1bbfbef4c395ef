//! How the kernel schedules the worker threads beside the other programs of the machine.
//!
//! On the host of its server, a load tester competes with that server for cores. A response that
//! the kernel has received waits until the load tester gets a core, and the run is invalid although
//! nothing is wrong with the server. Real-time threads preempt ordinary programs as soon as a
//! response is there, and sleep again when they have sent the next request.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Gives the calling thread the lowest real-time priority (SCHED_FIFO). Returns whether the kernel
/// allowed it: with CAP_SYS_NICE, or within the limit RLIMIT_RTPRIO.
pub fn take_real_time() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).is_ok()
}

#[cfg(test)]
mod tests {
    use super::take_real_time;

    /// The kernel's policy for the calling thread: 0 is SCHED_OTHER, 1 is SCHED_FIFO
    /// (proc_pid_stat(5), field 41).
    fn policy() -> u32 {
        let id = rustix::thread::gettid().as_raw_nonzero();
        let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap();
        // The name, field 2, is in parentheses and may contain spaces.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(41 - 3).unwrap().parse().unwrap()
    }

    #[test]
    fn kernel_schedules_the_thread_as_reported() {
        // The machine decides whether it is allowed; the result must agree with the kernel in
        // either case.
        let thread = std::thread::spawn(|| (policy(), take_real_time(), policy()));
        let (before, is_real_time, after) = thread.join().unwrap();
        assert_eq!(after, if is_real_time { 1 } else { before });
    }
}
