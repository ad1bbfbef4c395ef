//! Pure parsers of the host's files /proc/stat, /proc/loadavg and /proc/net/dev.

/// CPU time of all cores together since the machine started, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Time in which a core worked: processes, interrupts and software interrupts.
    pub busy: u64,
    /// The part of `busy` that processes used, without interrupts.
    pub processes: u64,
    /// Time in which a core was idle or waited for I/O.
    pub idle: u64,
    /// Time in which the hypervisor ran another machine on the core.
    pub steal: u64,
}

impl CpuTimes {
    /// Parses the first line of /proc/stat; `None` if it is incomplete.
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let mut fields = line.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
        let mut field = || fields.next().flatten();
        let user = field()?;
        let nice = field()?;
        let system = field()?;
        let idle = field()?;
        let iowait = field().unwrap_or(0);
        let irq = field().unwrap_or(0);
        let softirq = field().unwrap_or(0);
        let steal = field().unwrap_or(0);
        // User time already includes guest time, so guest time is not added.
        let processes = user + nice + system;
        Some(Self { busy: processes + irq + softirq, processes, idle: idle + iowait, steal })
    }

    /// The time that has passed on all cores together.
    pub const fn all(self) -> u64 {
        self.busy + self.idle + self.steal
    }

    /// The shares of busy and of stolen time since an earlier reading, each 0 to 1. `None` if no
    /// time has passed.
    pub fn shares_since(self, earlier: Self) -> Option<(f64, f64)> {
        let busy = self.busy.saturating_sub(earlier.busy);
        let idle = self.idle.saturating_sub(earlier.idle);
        let steal = self.steal.saturating_sub(earlier.steal);
        let total = busy + idle + steal;
        (total > 0).then(|| (busy as f64 / total as f64, steal as f64 / total as f64))
    }

    /// The share of all cores' time that other processes used since an earlier reading, 0 to 1.
    /// `None` if no time has passed.
    ///
    /// `known_ticks` is the time that the known processes used, `all_ticks` the time of all live
    /// processes.
    ///
    /// Most kernels count software interrupts as time of the process that they interrupt, but
    /// /proc/stat does not count them as time of processes. A process that has ended may be missing
    /// in `all_ticks`. So the larger of the two sums is used.
    pub fn foreign_since(self, earlier: Self, known_ticks: u64, all_ticks: u64) -> Option<f64> {
        let total =
            (self.busy + self.idle + self.steal).saturating_sub(earlier.busy + earlier.idle + earlier.steal);
        let processes = self.processes.saturating_sub(earlier.processes);
        let foreign = processes.max(all_ticks).saturating_sub(known_ticks);
        (total > 0).then(|| foreign as f64 / total as f64)
    }
}

/// Parses the load average over one minute from /proc/loadavg.
pub(crate) fn parse_load_average(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Traffic of one network interface since it came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceTraffic {
    /// The interface's name.
    pub name: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl InterfaceTraffic {
    /// Parses /proc/net/dev. Loopback is left out because it has no speed that could be reached.
    pub fn parse_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::parse).filter(|link| link.name != "lo").collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let (name, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
        let received_bytes = numbers.next()??;
        // Eight columns for receiving are followed by those for sending. The first of each are the
        // bytes.
        let sent_bytes = numbers.nth(7)??;
        Some(Self { name: name.trim().to_owned(), received_bytes, sent_bytes })
    }

    /// The used share (0 to 1) of a link of `bits_per_second` in its busier direction, since an
    /// earlier reading `seconds` before.
    pub fn share_since(&self, earlier: &Self, bits_per_second: f64, seconds: f64) -> f64 {
        let received = self.received_bytes.saturating_sub(earlier.received_bytes);
        let sent = self.sent_bytes.saturating_sub(earlier.sent_bytes);
        received.max(sent) as f64 * 8.0 / (bits_per_second * seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuTimes, InterfaceTraffic, parse_load_average};

    #[test]
    fn cpu_times_are_parsed_and_compared() {
        let text = "cpu  100 5 50 800 20 1 4 30 7 0\ncpu0 1 2 3 4\n";
        let times = CpuTimes::parse(text).unwrap();
        assert_eq!(times, CpuTimes { busy: 160, processes: 155, idle: 820, steal: 30 });
        let later = CpuTimes { busy: 160 + 60, processes: 155 + 55, idle: 820 + 30, steal: 30 + 10 };
        assert_eq!(later.shares_since(times), Some((0.6, 0.1)));
        assert_eq!(times.shares_since(times), None);
        let foreign = |known, all| later.foreign_since(times, known, all);
        assert_eq!((foreign(15, 0), foreign(60, 0)), (Some(0.4), Some(0.0)));
        assert_eq!(foreign(15, 60), Some(0.45), "five ticks are software interrupts");
        assert_eq!(times.foreign_since(times, 0, 0), None);
        assert_eq!(CpuTimes::parse("cpu0 1 2 3 4"), None);
        assert_eq!(CpuTimes::parse("cpu  1 2 3 4").unwrap().busy, 6);
    }

    #[test]
    fn one_minute_load_average_is_parsed() {
        assert_eq!(parse_load_average("3.52 2.10 1.00 4/512 12345\n"), Some(3.52));
        assert_eq!(parse_load_average(""), None);
    }

    #[test]
    fn links_are_parsed_without_loopback() {
        let text = "Inter-|   Receive                |  Transmit\n face |bytes packets\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth0: 1000 8 0 0 0 0 0 0 500 6 0 0 0 0 0 0\n";
        let links = InterfaceTraffic::parse_all(text);
        assert_eq!(
            links,
            [InterfaceTraffic { name: "eth0".to_owned(), received_bytes: 1000, sent_bytes: 500 }]
        );
        let later = InterfaceTraffic { received_bytes: 2000, sent_bytes: 100_500, ..links[0].clone() };
        assert_eq!(later.share_since(&links[0], 1_000_000.0, 1.0), 0.8);
    }
}
