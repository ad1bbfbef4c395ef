//! Pure parsers of /proc/PID/stat and /proc/PID/smaps_rollup.
//!
//! Invariant: the command name ends at the last closing parenthesis. A process may choose any name,
//! including spaces, parentheses and line ends (proc(5)).

/// State of a task, as far as it matters for the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Running or waiting for a core (`R`).
    Runnable,
    /// In uninterruptible sleep, usually waiting for a disk (`D`).
    Blocked,
    /// Ended, possibly before its parent has waited for it (`Z`, `X`).
    Dead,
    /// Any other state, such as asleep or stopped.
    Idle,
}

impl TaskState {
    /// Whether the task counts as load, as in the system's load average.
    pub const fn is_load(self) -> bool {
        matches!(self, Self::Runnable | Self::Blocked)
    }
}

/// Flag of a kernel thread (linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

/// The fields of /proc/PID/stat that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// State of the process's main task, or of the thread.
    pub state: TaskState,
    /// Process id of the parent.
    pub parent: u32,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// CPU time of all threads of the process, user and kernel, in clock ticks.
    pub own_ticks: u64,
    /// CPU time of all descendants that ended and were waited for, user and kernel, in clock ticks.
    pub children_ticks: u64,
}

impl ProcessStat {
    /// Parses the content of a stat file; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace();
        let state = match fields.next()? {
            "R" => TaskState::Runnable,
            "D" => TaskState::Blocked,
            "X" | "Z" => TaskState::Dead,
            _ => TaskState::Idle,
        };
        let parent = fields.next()?.parse().ok()?;
        // The state was field 3 of the file and the parent field 4. The flags are field 9, utime is
        // field 14.
        let flags: u64 = fields.nth(4)?.parse().ok()?;
        let mut times = fields.skip(4).map(|field| field.parse::<u64>().ok());
        let mut time = || times.next().flatten();
        let own_ticks = time()?.checked_add(time()?)?;
        let children_ticks = time()?.checked_add(time()?)?;
        Some(Self { state, parent, is_kernel: flags & PF_KTHREAD != 0, own_ticks, children_ticks })
    }
}

/// Parses the proportional set size from smaps_rollup, in bytes: the memory of one process with
/// each shared page divided by the number of processes that share it.
pub(crate) fn parse_pss_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{ProcessStat, TaskState, parse_pss_bytes};
    use proptest::prelude::{prop_assert_eq, proptest};

    const PHP: &str = "4711 (php-fpm: pool www) R 17 4711 4711 0 -1 4194624 3012 0 0 0 250 31 7 2 20 0 1 0 \
        88123 234567 4000 18446744073709551615 1 1 0 0 0 0 0 4096 134234626 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";

    #[test]
    fn name_with_spaces_is_skipped() {
        let stat = ProcessStat::parse(PHP).unwrap();
        let state = TaskState::Runnable;
        let is_kernel = false;
        assert_eq!(stat, ProcessStat { state, parent: 17, is_kernel, own_ticks: 281, children_ticks: 9 });
    }

    #[test]
    fn kernel_thread_is_recognised_by_its_flag() {
        let softirq = "16 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0 0 5183 0 0 20 0 1 0 24 0 0";
        assert!(ProcessStat::parse(softirq).unwrap().is_kernel);
    }

    #[test]
    fn name_that_looks_like_stat_fields_is_skipped() {
        let text = PHP.replace("php-fpm: pool www", "a) S 1 2 (b) D 3 4");
        assert_eq!(ProcessStat::parse(&text), ProcessStat::parse(PHP));
        assert_eq!(ProcessStat::parse(&PHP.replace("php-fpm: pool www", "x\ny)")), ProcessStat::parse(PHP));
    }

    #[test]
    fn only_runnable_and_blocked_tasks_are_load() {
        let state = |letter: &str| ProcessStat::parse(&PHP.replace(") R ", letter)).unwrap().state;
        assert_eq!(state(") D "), TaskState::Blocked);
        assert!(state(") D ").is_load() && state(") R ").is_load());
        for idle in [") S ", ") Z ", ") T ", ") I ", ") X "] {
            assert!(!state(idle).is_load());
        }
    }

    #[test]
    fn invalid_stat_text_is_refused() {
        for text in ["", "1 (a", "1 (a) R", "1 (a) R x 1", "1 (a) R 2 1 1 1 1 1 1 1 1 1 1", "\u{0}"] {
            assert_eq!(ProcessStat::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn pss_is_read_from_smaps_rollup() {
        let text =
            "55d0-7ff1 ---p 00000000 00:00 0 [rollup]\nRss:  9000 kB\nPss:  2345 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(parse_pss_bytes(text), Some(2345 * 1024));
        assert_eq!(parse_pss_bytes("Rss: 1 kB\n"), None);
    }

    proptest! {
        #[test]
        fn any_name_is_skipped(name in "\\PC{0,15}") {
            prop_assert_eq!(ProcessStat::parse(&PHP.replace("php-fpm: pool www", &name)), ProcessStat::parse(PHP));
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC*") {
            let _ = ProcessStat::parse(&text);
            let _ = parse_pss_bytes(&text);
        }
    }
}
