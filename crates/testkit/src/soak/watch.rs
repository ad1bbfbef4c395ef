//! What is seen of the process from outside: descriptors, threads and resident memory, once a second.

use super::application::Application;
use super::{Stage, lock};
use std::path::Path;
use std::time::Duration;

/// Time between two samples.
const PAUSE: Duration = Duration::from_secs(1);
/// Samples between two lines of progress.
const SAMPLES_PER_LINE: usize = 30;

/// The process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Descriptors of sockets.
    pub(super) sockets: u64,
    /// Descriptors of everything else.
    pub(super) files: u64,
    pub(super) threads: u64,
    pub(super) resident_bytes: u64,
}

impl Sample {
    /// The process now.
    pub(super) fn take(pid: u32) -> Self {
        let process = Path::new("/proc").join(pid.to_string());
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        let (mut sockets, mut files) = (0, 0);
        for descriptor in std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            // A descriptor may be closed before its link is read.
            let Ok(link) = std::fs::read_link(descriptor.path()) else { continue };
            let count = if link.to_string_lossy().starts_with("socket:") { &mut sockets } else { &mut files };
            *count += 1;
        }
        Self {
            sockets,
            files,
            threads: number(&status, "Threads:"),
            resident_bytes: number(&status, "VmRSS:") * 1024,
        }
    }

    pub(super) fn descriptors(&self) -> u64 {
        self.sockets + self.files
    }
}

/// The most that the process was ever resident, in bytes.
pub(super) fn resident_bytes_max(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    number(&status, "VmHWM:") * 1024
}

/// The number behind `name` in the text of a status.
fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Looks at the process each second for as long as the soak is planned to last.
pub(super) fn samples(
    stage: &Stage<'_>,
    application: &Application,
    pid: u32,
    progress: &(dyn Fn(&str) + Sync),
) -> Vec<Sample> {
    let mut samples = Vec::new();
    while stage.health.now() < stage.plan.length && !stage.is_over() {
        std::thread::sleep(PAUSE);
        let sample = Sample::take(pid);
        samples.push(sample);
        application.forget();
        if samples.len().is_multiple_of(SAMPLES_PER_LINE) {
            let Sample { sockets, files, threads, resident_bytes } = sample;
            let after = stage.health.now().as_secs();
            let visits: u64 = lock(&stage.tally).values().sum();
            progress(&format!(
                "{after} s: {visits} visits, {sockets} sockets, {files} files, {threads} threads, \
                 {resident_bytes} bytes resident"
            ));
        }
    }
    samples
}
