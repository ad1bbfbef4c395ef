//! The disk of a world: a disk in memory that takes simulated time and has faults.
//!
//! Invariant: an operation waits in a simulated thread, before it does anything. After a kill or a
//! power cut every operation of the old process fails, and those that wait or hang return an error.

use crate::disk_file::WorldFile;
use crate::disk_operation::Operation;
use crate::pipe::locked;
use crate::random::digest;
use crate::{
    DiskHang, DiskMode, FaultCounts, FaultKind, Random, SLOW_MS, SimulatedThreads, Trace, Violations,
};
use ::threads::Scheduler;
use platform::{Access, DirectoryEntry, Disk, DiskFault, DiskFile, DiskLock, SimulatedDisk};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use tokio::sync::Notify;

/// A disk of a world, as one process sees it. Clones are the same disk and process.
#[derive(Clone)]
pub struct WorldDisk {
    shared: Arc<Shared>,
    /// The number of the process.
    life: u64,
}

struct Shared {
    files: SimulatedDisk,
    threads: SimulatedThreads,
    violations: Violations,
    trace: Trace,
    faults: FaultCounts,
    state: Mutex<State>,
    killed: Notify,
}

struct State {
    random: Random,
    mode: DiskMode,
    hang: DiskHang,
    /// The number of the current process.
    life: u64,
    /// Whether the current process was killed in the middle of an operation.
    is_killed: bool,
    /// Wakes the operations that hang.
    hung: Vec<Waker>,
    hung_count: usize,
    /// The open files of each process.
    open: BTreeMap<u64, usize>,
}

impl WorldDisk {
    /// An empty disk and its first process.
    pub fn new(
        mut random: Random,
        threads: SimulatedThreads,
        violations: Violations,
        trace: Trace,
        faults: FaultCounts,
    ) -> Self {
        let files = SimulatedDisk::new(random.number());
        Self::with_files(files, random, threads, violations, trace, faults)
    }

    /// A disk with the files of an earlier one, and its next process. The open files and locks of
    /// the earlier process are invalid, and all faults are over.
    pub fn with_files(
        files: SimulatedDisk,
        random: Random,
        threads: SimulatedThreads,
        violations: Violations,
        trace: Trace,
        faults: FaultCounts,
    ) -> Self {
        files.kill();
        files.set_room(None);
        let state = State {
            random,
            mode: DiskMode::default(),
            hang: DiskHang::Nothing,
            life: 0,
            is_killed: false,
            hung: Vec::new(),
            hung_count: 0,
            open: BTreeMap::new(),
        };
        let (state, killed) = (Mutex::new(state), Notify::new());
        Self {
            shared: Arc::new(Shared { files, threads, violations, trace, faults, state, killed }),
            life: 0,
        }
    }

    /// The disk as the current process sees it. Call this after [`WorldDisk::kill`].
    #[must_use]
    pub fn of_current_process(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), life: locked(&self.shared.state).life }
    }

    /// Changes how the disk behaves from now on.
    pub fn set_mode(&self, mode: DiskMode) {
        locked(&self.shared.state).mode = mode;
    }

    /// Limits the total size of all files in bytes. `None` removes the limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.shared.files.set_room(bytes);
    }

    /// From now on some operations hang until [`WorldDisk::thaw`].
    pub fn hang(&self, hang: DiskHang) {
        locked(&self.shared.state).hang = hang;
        self.wake_hung();
    }

    /// Lets all operations that hang continue.
    pub fn thaw(&self) {
        self.hang(DiskHang::Nothing);
    }

    /// The number of operations that hang.
    pub fn hung(&self) -> usize {
        locked(&self.shared.state).hung_count
    }

    /// Changes a few bytes of one stored file by chance. Returns its path; `None` if all files are
    /// empty. In half of the cases each file is as likely as any other one, so that small files are
    /// hit too. In the other half each byte is.
    pub fn damage(&self) -> Option<PathBuf> {
        let mut state = locked(&self.shared.state);
        let path = if state.random.percent(50) {
            state.random.choice(&self.shared.files.paths()).cloned()?
        } else {
            path_of_byte(&self.shared.files.sizes(), &mut state.random)?
        };
        let mut is_damaged = false;
        self.shared.files.damage(&path, |content| {
            for _ in 0..state.random.between(1, 8) {
                let place = state.random.below(content.len() as u64) as usize;
                if let Some(octet) = content.get_mut(place) {
                    *octet ^= 1 << state.random.below(8);
                    is_damaged = true;
                }
            }
        });
        drop(state);
        if !is_damaged {
            return None;
        }
        self.shared.faults.hit(FaultKind::DiskDamage);
        self.shared
            .trace
            .event("damage", digest(path.as_os_str().as_encoded_bytes()), || path.display().to_string());
        Some(path)
    }

    /// Kills the current process. Its writes stay.
    pub fn kill(&self) {
        self.shared.files.kill();
        self.end_process(FaultKind::Kill);
    }

    /// Kills the current process and restarts the machine. Only synced data is sure to stay.
    pub fn power_cut(&self) {
        self.shared.files.power_cut();
        self.end_process(FaultKind::PowerCut);
    }

    /// Kills the process in the middle of a later operation: the `operations`-th from now on, at
    /// least the first. [`WorldDisk::killed`] tells when this has happened. The next process begins
    /// with a call of [`WorldDisk::kill`] or [`WorldDisk::power_cut`].
    pub fn kill_in(&self, operations: u64) {
        self.shared.files.fail_at(self.shared.files.operations() + operations.max(1), DiskFault::Kill);
    }

    /// Waits until the process is killed in the middle of an operation.
    pub async fn killed(&self) {
        loop {
            let killed = self.shared.killed.notified();
            if locked(&self.shared.state).is_killed {
                return;
            }
            killed.await;
        }
    }

    /// The number of files that the current process has open.
    pub fn open_files(&self) -> usize {
        let state = locked(&self.shared.state);
        state.open.get(&state.life).copied().unwrap_or_default()
    }

    /// The total size in bytes of all files with names, and of the open ones without.
    pub fn bytes(&self) -> u64 {
        self.shared.files.bytes()
    }

    /// The memory in bytes that the simulation takes for the disk.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.files.memory_bytes()
    }

    /// The disk in memory below, for looks at its content that take no time and meet no fault.
    pub fn content(&self) -> &SimulatedDisk {
        &self.shared.files
    }

    fn end_process(&self, kind: FaultKind) {
        self.shared.faults.hit(kind);
        self.shared.trace.event("process", kind as u64, || kind.to_string());
        let mut state = locked(&self.shared.state);
        state.life += 1;
        state.is_killed = false;
        drop(state);
        self.wake_hung();
    }

    fn wake_hung(&self) {
        let hung = std::mem::take(&mut locked(&self.shared.state).hung);
        hung.into_iter().for_each(Waker::wake);
    }

    fn is_alive(&self) -> bool {
        let state = locked(&self.shared.state);
        state.life == self.life && !state.is_killed
    }

    fn check_alive(&self) -> io::Result<()> {
        if self.is_alive() { Ok(()) } else { Err(io::Error::other("the process has ended")) }
    }

    /// Does an operation: waits for its time, applies the faults that hit it, then does `work`.
    pub(crate) fn operate<T>(
        &self,
        operation: Operation,
        path: &Path,
        work: impl FnOnce(&SimulatedDisk) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.shared.threads.is_inside() {
            self.check_alive()?;
            self.spend_time();
            self.pass_gate(operation);
        } else {
            let violation = format!("a worker touches the disk: {operation:?} of {}", path.display());
            self.shared.violations.record(violation);
        }
        self.check_alive()?;
        let fault = self.fault(operation);
        if let Some((_, fault)) = fault {
            self.shared.files.fail_at(self.shared.files.operations() + 1, fault);
        }
        let done = work(&self.shared.files);
        self.count_faults(fault.map(|(kind, _)| kind), &done);
        let is_ok = done.is_ok();
        let number =
            digest(path.as_os_str().as_encoded_bytes()) ^ ((operation as u64) << 1 | u64::from(is_ok));
        self.shared.trace.event("disk", number, || {
            format!("{operation:?} {} {}", path.display(), if is_ok { "done" } else { "failed" })
        });
        done
    }

    /// Waits as long as the mode and chance say.
    fn spend_time(&self) {
        let mut state = locked(&self.shared.state);
        let DiskMode { latency_ms_max, slow_percent, slow_ms_max, .. } = state.mode;
        let is_slow = state.random.percent(slow_percent);
        let duration = if is_slow {
            state.random.millis(SLOW_MS, slow_ms_max.max(SLOW_MS))
        } else {
            state.random.millis(0, latency_ms_max)
        };
        drop(state);
        if is_slow {
            self.shared.faults.hit(FaultKind::DiskSlow);
        }
        if !duration.is_zero() {
            self.shared.threads.wait(Some(duration), &mut |_| Poll::Pending);
        }
    }

    /// Waits while the operation hangs and its process lives.
    fn pass_gate(&self, operation: Operation) {
        let Some(kind) = operation.hangs(locked(&self.shared.state).hang) else { return };
        self.shared.faults.hit(kind);
        let _hung = CountHung::new(&self.shared.state);
        self.shared.threads.wait(None, &mut |context| {
            let mut state = locked(&self.shared.state);
            let hangs = operation.hangs(state.hang).is_some();
            let is_dead = state.life != self.life || state.is_killed || self.shared.threads.is_cancelled();
            if !hangs || is_dead {
                return Poll::Ready(());
            }
            state.hung.push(context.waker().clone());
            Poll::Pending
        });
    }

    /// The fault that hits an operation by chance.
    fn fault(&self, operation: Operation) -> Option<(FaultKind, DiskFault)> {
        let mut state = locked(&self.shared.state);
        let mode = state.mode;
        let mut hits = |permille| permille > 0 && state.random.below(1000) < permille;
        if hits(mode.failing_permille) {
            return Some((FaultKind::DiskFails, DiskFault::Io));
        }
        if operation.fills() && hits(mode.full_permille) {
            return Some((FaultKind::DiskFull, DiskFault::Full));
        }
        if operation.transfers() && hits(mode.short_permille) {
            return Some((FaultKind::DiskShort, DiskFault::Short));
        }
        None
    }

    /// Counts the fault that an operation has met.
    fn count_faults<T>(&self, kind: Option<FaultKind>, done: &io::Result<T>) {
        match (kind, done) {
            (_, Err(error)) if error.kind() == io::ErrorKind::StorageFull => {
                self.shared.faults.hit(FaultKind::DiskFull);
            }
            (Some(FaultKind::DiskFails), Err(_)) => self.shared.faults.hit(FaultKind::DiskFails),
            (Some(FaultKind::DiskShort), Ok(_)) => self.shared.faults.hit(FaultKind::DiskShort),
            _ => {}
        }
        if self.shared.files.is_killed() {
            let before = std::mem::replace(&mut locked(&self.shared.state).is_killed, true);
            if !before {
                self.shared.faults.hit(FaultKind::KillInOperation);
                self.shared.trace.event("process", 0, || FaultKind::KillInOperation.to_string());
                self.shared.killed.notify_waiters();
                self.wake_hung();
            }
        }
    }

    /// Counts a file as open.
    pub(crate) fn count_open(&self) {
        *locked(&self.shared.state).open.entry(self.life).or_default() += 1;
    }

    /// Closes a file. It is also counted as closed if its thread is unwound while the disk hangs.
    pub(crate) fn close(&self) {
        let _open = CountOpen(self);
        // A worker may drop a handle, which takes no time then.
        if self.shared.threads.is_inside() {
            self.pass_gate(Operation::Close);
        }
    }
}

/// The file that holds a byte by chance.
fn path_of_byte(sizes: &[(PathBuf, u64)], random: &mut Random) -> Option<PathBuf> {
    let mut at = random.below(sizes.iter().map(|(_, bytes)| bytes).sum());
    let holds = |(_, bytes): &&(PathBuf, u64)| {
        let is_here = at < *bytes;
        at = at.saturating_sub(*bytes);
        is_here
    };
    sizes.iter().find(holds).map(|(path, _)| path.clone())
}

impl Disk for WorldDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut content = self.operate(Operation::Read, path, |files| files.read(path))?;
        self.misread(&mut content);
        Ok(content)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.operate(Operation::Replace, path, |files| files.replace(path, content))
    }

    fn append(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.operate(Operation::Append, path, |files| files.append(path, content))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.operate(Operation::CreateDirectory, path, |files| files.create_directory(path))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.operate(Operation::Open, path, |files| files.open(path, access))?;
        Ok(Arc::new(WorldFile::new(self.clone(), path.to_owned(), file)))
    }

    fn open_unnamed(&self, directory: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.operate(Operation::OpenUnnamed, directory, |files| files.open_unnamed(directory))?;
        Ok(Arc::new(WorldFile::unnamed(self.clone(), directory.to_owned(), file)))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.operate(Operation::List, directory, |files| files.list(directory))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate(Operation::Remove, path, |files| files.remove(path))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.operate(Operation::SyncDirectory, directory, |files| files.sync_directory(directory))
    }

    fn lock(&self, path: &Path) -> io::Result<DiskLock> {
        self.operate(Operation::Lock, path, |files| files.lock(path))
    }

    fn boot(&self) -> io::Result<String> {
        self.shared.files.boot()
    }
}

impl WorldDisk {
    /// Changes a byte that was read, by chance.
    pub(crate) fn misread(&self, content: &mut [u8]) {
        let mut state = locked(&self.shared.state);
        let permille = state.mode.misread_permille;
        if permille == 0 || content.is_empty() || state.random.below(1000) >= permille {
            return;
        }
        let place = state.random.below(content.len() as u64) as usize;
        if let Some(octet) = content.get_mut(place) {
            *octet ^= 1 << state.random.below(8);
        }
        drop(state);
        self.shared.faults.hit(FaultKind::DiskMisreads);
    }
}

/// Counts an operation as hung until this is dropped.
struct CountHung<'a>(&'a Mutex<State>);

impl<'a> CountHung<'a> {
    fn new(state: &'a Mutex<State>) -> Self {
        locked(state).hung_count += 1;
        Self(state)
    }
}

impl Drop for CountHung<'_> {
    fn drop(&mut self) {
        locked(self.0).hung_count -= 1;
    }
}

/// Counts a file as open until this is dropped.
struct CountOpen<'a>(&'a WorldDisk);

impl Drop for CountOpen<'_> {
    fn drop(&mut self) {
        if let Some(open) = locked(&self.0.shared.state).open.get_mut(&self.0.life) {
            *open = open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
