//! The processor time of the machine, of this process and of database servers, from /proc.
//!
//! Invariant: a figure that cannot be read is missing, and nothing else depends on it.

use api::dashboard::MachineFigures;
use probe::{CpuTimes, ProcFs};
use std::collections::BTreeMap;

/// Names of the processes of database servers.
const DATABASES: [&str; 3] = ["mariadbd", "mysqld", "postgres"];

/// The processor time at the last sample.
#[derive(Debug)]
pub(crate) struct MachineWatch {
    processes: Option<ProcFs>,
    last: Option<Sample>,
}

#[derive(Debug)]
struct Sample {
    times: CpuTimes,
    own: Option<u64>,
    /// The ticks of each process of a database server.
    databases: BTreeMap<u32, u64>,
}

impl MachineWatch {
    /// A watch over these processes. `None`: there are no figures.
    pub(crate) const fn new(processes: Option<ProcFs>) -> Self {
        Self { processes, last: None }
    }

    /// The figures since the last sample. Reads files of the system, and so not on the caller's
    /// thread.
    pub(crate) async fn sampled(self, memory_bytes_max: u64) -> (Self, MachineFigures) {
        let none = MachineFigures { memory_bytes_max, ..MachineFigures::default() };
        let processes = self.processes.clone();
        if processes.is_none() {
            return (self, none);
        }
        let sampled = threads::run_aside(move || {
            let mut watch = self;
            let figures = watch.sample(memory_bytes_max);
            (watch, figures)
        });
        sampled.await.unwrap_or_else(|| (Self::new(processes), none))
    }

    fn sample(&mut self, memory_bytes_max: u64) -> MachineFigures {
        let mut figures = MachineFigures { memory_bytes_max, ..MachineFigures::default() };
        let Some(processes) = &self.processes else { return figures };
        figures.resident_bytes = platform::resident_bytes();
        let Some(times) = processes.cpu_times() else { return figures };
        let ticks = |pid| processes.process(pid).map(|stat| stat.own_ticks);
        let databases = processes.named(&DATABASES).into_iter().filter_map(|pid| Some((pid, ticks(pid)?)));
        let now = Sample { times, own: ticks(std::process::id()), databases: databases.collect() };
        if let Some(last) = &self.last {
            let all = now.times.all() - now.times.all().min(last.times.all());
            let percent = |ticks: u64| (all > 0).then(|| (100.0 * ticks as f64 / all as f64).min(100.0));
            figures.cpu_percent = now.times.shares_since(last.times).map(|(busy, _)| 100.0 * busy);
            let own = now.own.zip(last.own).map(|(own, before)| own.saturating_sub(before));
            figures.own_cpu_percent = own.and_then(percent);
            // A process that was not there before has used all of its time since.
            let since = now.databases.iter().map(|(pid, ticks)| {
                ticks.saturating_sub(last.databases.get(pid).copied().unwrap_or_default())
            });
            figures.database_cpu_percent = percent(since.sum()).filter(|_| !now.databases.is_empty());
        }
        self.last = Some(now);
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::MachineWatch;
    use probe::ProcFs;
    use std::path::Path;

    fn write(root: &Path, busy: u64, idle: u64, processes: &[(u32, &str, u64)]) {
        let proc = root.join("proc");
        std::fs::create_dir_all(&proc).unwrap();
        std::fs::write(proc.join("stat"), format!("cpu  {busy} 0 0 {idle} 0 0 0 0\n")).unwrap();
        for (pid, name, ticks) in processes {
            let directory = proc.join(pid.to_string());
            std::fs::create_dir_all(&directory).unwrap();
            let stat = format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 5 0");
            std::fs::write(directory.join("stat"), stat).unwrap();
            std::fs::write(directory.join("comm"), format!("{name}\n")).unwrap();
        }
    }

    #[test]
    fn figures_are_shares_of_the_machine() {
        let root = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let mut watch = MachineWatch::new(Some(ProcFs::at(root.path())));
        assert_eq!(watch.sample(7).cpu_percent, None, "nothing can be read");
        write(root.path(), 100, 900, &[(own, "petasos", 10), (2, "postgres", 40), (3, "postgresx", 40)]);
        let first = watch.sample(7);
        assert_eq!((first.cpu_percent, first.memory_bytes_max), (None, 7));
        write(root.path(), 150, 1050, &[(own, "petasos", 20), (2, "postgres", 50), (4, "mariadbd", 10)]);
        let figures = watch.sample(7);
        assert_eq!(figures.cpu_percent, Some(25.0));
        assert_eq!((figures.own_cpu_percent, figures.database_cpu_percent), (Some(5.0), Some(10.0)));
        assert!(figures.resident_bytes > Some(0));
    }

    #[tokio::test]
    async fn without_processes_there_are_no_figures() {
        let (_, figures) = MachineWatch::new(None).sampled(5).await;
        assert_eq!((figures.cpu_percent, figures.resident_bytes, figures.memory_bytes_max), (None, None, 5));
    }
}
