//! A page whose purge was answered with 200 never comes back when real devices fail under the disk
//! cache. The faults are I/O errors (EIO), a device that becomes read-only (EROFS), a full device
//! (ENOSPC) and an unmounted one. They hit the disk cache alone, also the state directory, or all
//! directories. Each attack first proves and prints the error that its devices return.
//!
//! Needs root, loop devices, mkfs.ext4 and python3. Everything is mounted in a private mount
//! namespace, whose end also removes the mounts and loop devices.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Client, Edge, Origin, Response, StorageFault, eventually, get, response};

/// Number of pages that each attack purges.
const PAGES: usize = 4;

/// Current version of all pages at the origin.
static VERSION: AtomicUsize = AtomicUsize::new(1);

/// Environment variable with the directory for all mounts. It is set only within the private
/// namespace.
const INSIDE: &str = "PETASOS_TEST_NAMESPACE";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Runs a shell command that must succeed.
fn shell(line: &str) {
    let output = Command::new("sh").args(["-ec", line]).output().unwrap();
    assert!(output.status.success(), "`{line}` failed: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the test `name` again in a private mount namespace, and `inside` there.
fn isolated(name: &str, inside: impl FnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(INSIDE).map(PathBuf::from) {
        shell(&format!("mount -t tmpfs -o size=256m petasos {}", directory.display()));
        return inside(&directory);
    }
    for tool in ["unshare", "losetup", "mkfs.ext4", "python3"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap();
        assert!(found.status.success(), "{tool} is missing");
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
    let directory = tempfile::tempdir().unwrap();
    command.args(["--exact", name, "--nocapture"]).env(INSIDE, directory.path());
    assert!(command.status().unwrap().success(), "{name} failed in its namespace, or this is not root");
}

/// An ext4 file system on a loop device.
struct LoopDevice {
    image: PathBuf,
    at: PathBuf,
}

impl LoopDevice {
    fn new(directory: &Path, name: &str) -> Self {
        let device = Self { image: directory.join(format!("{name}.img")), at: directory.join(name) };
        fs::create_dir(&device.at).unwrap();
        shell(&format!("truncate -s 24M {0}; mkfs.ext4 -q {0}", device.image.display()));
        device.mount();
        device
    }

    fn mount(&self) {
        shell(&format!("mount -o loop {} {}", self.image.display(), self.at.display()));
    }

    /// Flushes everything written so far to the device, then makes the device fail. Proves which
    /// error a new file meets there.
    fn fail(&self, fault: DeviceFault) {
        let at = self.at.display();
        let mounted = fs::metadata(&self.at).unwrap().dev();
        shell(&format!("sync -f {at}"));
        match fault {
            // The ioctl EXT4_IOC_SHUTDOWN makes every later operation fail with EIO.
            DeviceFault::Io => shell(&format!(
                "python3 -c \"import fcntl, os, struct; \
                 fcntl.ioctl(os.open('{at}', 0), 0x8004587d, struct.pack('I', 1))\""
            )),
            DeviceFault::ReadOnly => shell(&format!("mount -o remount,abort {at}")),
            DeviceFault::Full => shell(&format!("dd if=/dev/zero of={at}/other bs=64k status=none || true")),
            DeviceFault::Lost => shell(&format!("umount -l {at}")),
        }
        let error = match fault {
            DeviceFault::Io => StorageFault::Eio,
            DeviceFault::ReadOnly => StorageFault::Erofs,
            DeviceFault::Full => StorageFault::Enospc,
            DeviceFault::Lost => {
                assert_ne!(fs::metadata(&self.at).unwrap().dev(), mounted, "{at} is still mounted");
                println!("fault: no error, but {at} is no longer mounted");
                return;
            }
        };
        error.check(self.write_probe());
    }

    /// Writes to a new file on the device.
    fn write_probe(&self) -> io::Result<()> {
        let mut file = File::create(self.at.join("probe"))?;
        file.write_all(&[0; 64 << 10])?;
        file.sync_data()
    }

    /// Makes the device work again, with its previous content.
    fn repair(&self) {
        let at = self.at.display();
        shell(&format!("umount {at} || true"));
        self.mount();
        shell(&format!("rm -f {at}/other {at}/probe"));
    }
}

/// The way in which a device fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceFault {
    Io,
    ReadOnly,
    Full,
    Lost,
}

/// The devices that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dead {
    Tier,
    TierAndState,
    All,
}

/// One combination of fault, devices, setting `purge_durability` and reboot.
#[derive(Clone, Copy, Debug)]
struct DiskAttack {
    fault: DeviceFault,
    dead: Dead,
    is_power: bool,
    reboots: bool,
}

impl DiskAttack {
    /// All combinations in the long form. The short form has every fault, every set of devices,
    /// and a reboot that loses the only record of a purge.
    fn all() -> Vec<Self> {
        let is_long = std::env::var("PETASOS_ATTACK").is_ok_and(|form| form == "long");
        let mut attacks = Vec::new();
        for fault in [DeviceFault::Io, DeviceFault::ReadOnly, DeviceFault::Full, DeviceFault::Lost] {
            for dead in [Dead::Tier, Dead::TierAndState, Dead::All] {
                for (is_power, reboots) in [(false, false), (false, true), (true, false), (true, true)] {
                    let attack = Self { fault, dead, is_power, reboots };
                    let is_short = match fault {
                        DeviceFault::Io => is_power == reboots || dead == Dead::TierAndState && reboots,
                        _ => dead == Dead::TierAndState && !is_power && !reboots,
                    };
                    if is_long || is_short {
                        attacks.push(attack);
                    }
                }
            }
        }
        attacks
    }

    /// The status that every purge must have; `None` allows any.
    fn expected(self) -> Option<u16> {
        match self {
            // A full or unmounted device still accepts writes that need no new space.
            Self { fault: DeviceFault::Full | DeviceFault::Lost, .. } | Self { dead: Dead::Tier, .. } => {
                Some(200)
            }
            Self { dead: Dead::TierAndState, is_power, .. } => Some(if is_power { 503 } else { 200 }),
            Self { dead: Dead::All, .. } => Some(503),
        }
    }

    fn run(self, directory: &Path, origin: &Origin) {
        fs::create_dir(directory).unwrap();
        let [tier, state, runtime] =
            ["tier", "state", "runtime"].map(|name| LoopDevice::new(directory, name));
        let configuration = format!(
            "disk = '{}/cache'\ndisk_size = '8MiB'\nstate_directory = '{}/s'\nruntime_directory = '{}/r'\n\
             purge_durability = '{}'\n",
            tier.at.display(),
            state.at.display(),
            runtime.at.display(),
            if self.is_power { "power" } else { "process" },
        );
        let start = || Edge::configured(&origin.url(), &configuration, &[]);
        let mut edge = start();
        (0..PAGES).for_each(|page| drop(get(edge.address, &target(page), &[])));
        eventually("the pages are on the disk", || {
            let status = Edge::status(edge.admin).unwrap();
            let synced = if self.is_power { "synced" } else { "durable" };
            edge.metric("petasos_disk_written_total", "") >= PAGES as f64
                && status["disk"][synced].as_u64() == status["disk"]["accepted"].as_u64()
        });
        tier.fail(self.fault);
        [(&state, Dead::TierAndState), (&runtime, Dead::All)].into_iter().for_each(|(device, from)| {
            if self.dead >= from {
                device.fail(self.fault);
            }
        });
        let answers: Vec<_> = (0..PAGES).map(|page| purge(&edge, page)).collect();
        for answer in &answers {
            assert!(
                self.expected().is_none_or(|status| status == answer.status),
                "{self:?}: {}",
                answer.text()
            );
            let says =
                answer.text().contains(r#""durable":false"#) && answer.text().contains(r#""in_force":true"#);
            assert_eq!(says, answer.status == 503, "{self:?}: {}", answer.text());
        }
        let purged = VERSION.fetch_add(1, Ordering::SeqCst);
        assert!((0..PAGES).all(|page| version(&edge, page) > purged), "{self:?}: a purge was not in force");
        edge.kill();
        [&tier, &state, &runtime].into_iter().for_each(LoopDevice::repair);
        if self.reboots {
            shell(&format!("rm -rf {}/*", runtime.at.display()));
            let id = directory.join("boot_id");
            fs::write(&id, format!("{}\n", directory.display())).unwrap();
            shell(&format!("mount --bind {} {BOOT_ID}", id.display()));
        }
        let mut edge = start();
        let promised = answers.iter().enumerate().filter(|(_, answer)| answer.status == 200);
        let (promised, returned) = promised.fold((0, 0), |(promised, returned), (page, _)| {
            (promised + 1, returned + usize::from(version(&edge, page) <= purged))
        });
        edge.kill();
        if self.reboots {
            shell(&format!("umount {BOOT_ID}"));
        }
        [&tier, &state, &runtime].into_iter().for_each(|device| {
            shell(&format!("umount {}", device.at.display()));
            fs::remove_file(&device.image).unwrap();
        });
        println!("attack: {self:?}: {returned} of {promised} purged pages returned, at most 0");
        assert_eq!(returned, 0, "{self:?}: purged pages returned");
    }
}

fn target(page: usize) -> String {
    format!("/page-{page}/")
}

/// The version of a page as a visitor receives it.
fn version(edge: &Edge, page: usize) -> usize {
    let answer = get(edge.address, &target(page), &[]);
    assert_eq!(answer.status, 200, "{}", answer.head);
    answer.text().split(' ').next().unwrap().parse().unwrap()
}

fn purge(edge: &Edge, page: usize) -> Response {
    let mut client = Client::connect(edge.address);
    client.send(format!("PURGE {} HTTP/1.1\r\nHost: example.test\r\n\r\n", target(page)));
    client.read()
}

#[test]
fn answered_purge_holds_when_devices_fail() {
    isolated("answered_purge_holds_when_devices_fail", |directory| {
        let origin = Origin::start(|seen| {
            let content = format!("{} {}", VERSION.load(Ordering::SeqCst), seen.target().repeat(100));
            response("200 OK", &["Cache-Control: max-age=600"], content.as_bytes())
        });
        for (number, attack) in DiskAttack::all().into_iter().enumerate() {
            attack.run(&directory.join(number.to_string()), &origin);
        }
    });
}
