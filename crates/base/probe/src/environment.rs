//! The fingerprint of the machine on which something was measured. Figures from different machines
//! cannot be compared.

use crate::procfs::ProcFs;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// Properties of a machine. A property that the system does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's model name.
    pub cpu_model: Option<String>,
    /// Number of cores that this process may use.
    pub cores: u32,
    /// The frequency governor of the first core, such as `performance`; virtual machines have none.
    pub governor: Option<String>,
    /// The machine's memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// The distribution's own name, such as `Debian 12`.
    pub system: Option<String>,
    /// Limits that can influence a result.
    pub limits: Vec<MachineLimit>,
}

/// A named limit with its value as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineLimit {
    /// Name of the limit.
    pub name: String,
    /// Value of the limit.
    pub value: String,
}

impl Environment {
    /// Reads the properties of the machine on which this process runs.
    pub fn detect() -> Self {
        let mut environment = Self::read(&ProcFs::system());
        environment.cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        environment.limits.insert(0, open_files());
        environment
    }

    /// Reads the properties from the machine's files, all except cores and process limits. The
    /// distribution's name always comes from /etc/os-release of the running machine.
    fn read(proc: &ProcFs) -> Self {
        let line = |text: Option<String>| text.map(|text| text.trim().to_owned());
        let kernel =
            line(proc.proc_text("sys/kernel/ostype")).zip(line(proc.proc_text("sys/kernel/osrelease")));
        let memory = proc.proc_text("meminfo").and_then(|text| value_of(&text, "MemTotal"));
        let kibibytes = memory.and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
        let control_group =
            [("cgroup cpu.max", "fs/cgroup/cpu.max"), ("cgroup memory.max", "fs/cgroup/memory.max")];
        let limits = control_group.into_iter().filter_map(|(name, path)| {
            let value = line(proc.sys_text(path))?;
            Some(MachineLimit { name: name.to_owned(), value })
        });
        Self {
            cpu_model: proc.proc_text("cpuinfo").and_then(|text| value_of(&text, "model name")),
            cores: 0,
            governor: line(proc.sys_text("devices/system/cpu/cpu0/cpufreq/scaling_governor")),
            memory_bytes: kibibytes.map(|kibibytes| kibibytes * 1024),
            kernel: kernel.map(|(name, release)| format!("{name} {release}")),
            system: std::fs::read_to_string("/etc/os-release").ok().and_then(|text| pretty_name(&text)),
            limits: limits.collect(),
        }
    }
}

/// The limit on open files, which also limits connections.
fn open_files() -> MachineLimit {
    let limit = getrlimit(Resource::Nofile);
    let text = |value: Option<u64>| value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string());
    let value = format!("{} (at most {})", text(limit.current), text(limit.maximum));
    MachineLimit { name: "open files".to_owned(), value }
}

/// The value of the first line of the form `key : value`.
fn value_of(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// The distribution's name from os-release(5).
fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Environment, pretty_name};
    use crate::procfs::ProcFs;

    #[test]
    fn environment_is_read_from_proc_and_sys() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Zilog Z80 @ 4 MHz\nflags\t\t: none\n");
        write("proc/meminfo", "MemTotal:      64 kB\n");
        write("proc/sys/kernel/ostype", "Linux\n");
        write("proc/sys/kernel/osrelease", "6.1.0\n");
        write("sys/fs/cgroup/cpu.max", "200000 100000\n");
        let environment = Environment::read(&ProcFs::at(root.path()));
        assert_eq!(environment.cpu_model.as_deref(), Some("Zilog Z80 @ 4 MHz"));
        assert_eq!(environment.memory_bytes, Some(65536));
        assert_eq!(environment.kernel.as_deref(), Some("Linux 6.1.0"));
        assert_eq!(environment.governor, None);
        assert_eq!(environment.limits.len(), 1);
        assert_eq!(environment.limits[0].value, "200000 100000");
    }

    #[test]
    fn running_machine_is_detected() {
        let environment = Environment::detect();
        assert!(environment.cores >= 1 && environment.kernel.is_some());
        assert_eq!(environment.limits[0].name, "open files");
    }

    #[test]
    fn distribution_name_is_read_from_os_release() {
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
    }
}
