//! Judges the opcode cache, the settings and the workers of PHP.
//!
//! Invariant: the functions here are pure. A bad finding names a line and its file.

use super::assignments::{Assignment, bytes, is_on};
use super::facts::{ApplicationFact, MachineFact, PhpFact, PhpKind, PoolFact, WorkerMemoryFact};
use crate::finding::Finding;
use crate::judge::rounded;

const OPCODE_FILES_KEY: &str = "opcache.max_accelerated_files";
/// PHP's defaults, if no file sets them.
const OPCODE_MEGABYTES: u64 = 128;
const OPCODE_FILES: u64 = 10_000;
/// The sizes of the table of compiled files. PHP takes the next one above the setting.
const OPCODE_TABLES: [u64; 13] =
    [223, 463, 983, 1979, 3907, 7963, 16_229, 32_531, 65_407, 130_987, 262_237, 524_521, 1_048_793];
const REALPATH_BYTES: u64 = 4 << 20;
const REALPATH_SECS: u64 = 120;
const MEMORY_LIMIT: &str = "128M";
/// Least opcode cache for an ordinary application, in megabytes: WordPress with plug-ins needs
/// half.
const OPCODE_MEGABYTES_MIN: u64 = 64;
/// Workers for each core: one that waits for the database leaves its core to another.
const WORKERS_PER_CORE: u64 = 2;
/// Parts of the machine's memory that workers and the database may take together, of four.
const MEMORY_QUARTERS: u64 = 3;

/// The memory for the workers of all pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkersRoom {
    /// Memory left for their private pages, in bytes.
    there: u64,
    /// The memory of all, in bytes, if each pool had its largest number. Pools that do not run
    /// count nothing.
    wanted: u64,
}

impl WorkersRoom {
    /// `buffers` is the database's part of the memory, in bytes.
    pub(super) fn new(phps: &[PhpFact], machine: MachineFact, buffers: u64) -> Self {
        let mut room =
            Self { there: (machine.memory_bytes / 4 * MEMORY_QUARTERS).saturating_sub(buffers), wanted: 0 };
        for fact in phps {
            let seen = || fact.pools.iter().filter_map(|pool| Some((pool, memory(pool)?)));
            // All pools of a master have the same opcode cache.
            let shared = seen().map(|(_, memory)| memory.shared).max().unwrap_or(0);
            room.there = room.there.saturating_sub(shared);
            for (pool, memory) in seen() {
                let children = max_children(pool).map_or(0, |(_, max)| max);
                room.wanted = room.wanted.saturating_add(children.saturating_mul(memory.private));
            }
        }
        room
    }

    /// The workers that a pool with `max` of this size may have. All pools get smaller by the same
    /// part if they do not fit.
    fn workers(self, max: u64, private: u64) -> u64 {
        let left = self.there.checked_sub(self.wanted);
        let number = left.map_or_else(
            || {
                let share = u128::from(max) * u128::from(self.there) / u128::from(self.wanted.max(1));
                u64::try_from(share).unwrap_or(u64::MAX)
            },
            |left| max.saturating_add(left / private.max(1)),
        );
        number.max(1)
    }
}

/// The memory of a pool's largest worker.
fn memory(pool: &PoolFact) -> Option<WorkerMemoryFact> {
    pool.workers?.largest
}

/// The largest number of a pool's workers, and where it is written.
fn max_children(pool: &PoolFact) -> Option<(&Assignment, u64)> {
    let set = pool.settings.last("pm.max_children")?;
    Some((set, set.value.parse().ok()?))
}

/// Everything about one PHP.
pub(super) fn php(
    fact: &PhpFact,
    applications: &[ApplicationFact],
    machine: MachineFact,
    room: WorkersRoom,
) -> Vec<Finding> {
    let mut found = opcode_cache(fact, applications);
    found.push(realpath_cache(fact));
    found.push(jit(fact));
    if fact.kind == PhpKind::Fpm {
        found.extend(fact.pools.iter().map(|pool| children(fact, pool, machine, room)));
    }
    found
}

/// The name of a PHP, such as `PHP 8.2 (FPM)`.
fn name(fact: &PhpFact) -> String {
    let kind = match fact.kind {
        PhpKind::Fpm => "FPM",
        PhpKind::Apache => "Apache",
    };
    format!("PHP {} ({kind})", fact.version)
}

/// Debian's word for a kind of PHP.
const fn word(kind: PhpKind) -> &'static str {
    match kind {
        PhpKind::Fpm => "fpm",
        PhpKind::Apache => "apache2",
    }
}

/// Where to write a line: the place that holds the key now, or a file that PHP reads last.
fn mend(fact: &PhpFact, set: Option<&Assignment>, line: &str) -> String {
    let place = match set {
        Some(set) => format!("line {} of {}", set.line, set.path.display()),
        None => format!("/etc/php/{}/{}/conf.d/90-site.ini", fact.version, word(fact.kind)),
    };
    format!("{line} in {place}, then {}", restart(fact))
}

/// A new size of shared memory needs a new master.
fn restart(fact: &PhpFact) -> String {
    match fact.kind {
        PhpKind::Fpm => format!("systemctl restart php{}-fpm", fact.version),
        PhpKind::Apache => "systemctl restart apache2".to_owned(),
    }
}

/// A number that a file sets, or PHP's own.
fn number(fact: &PhpFact, key: &str, own: u64) -> u64 {
    fact.settings.last(key).and_then(|set| set.value.parse().ok()).unwrap_or(own)
}

fn is_loaded(fact: &PhpFact, extension: &str) -> bool {
    let is_it = |one: &Assignment| {
        let file = one.value.rsplit('/').next().unwrap_or_default();
        (one.key == "zend_extension" || one.key == "extension") && file.trim_end_matches(".so") == extension
    };
    fact.settings.iter().any(is_it)
}

/// Whether APCu is there for the visitors' PHP.
pub(super) fn has_apcu(fact: &PhpFact) -> bool {
    is_loaded(fact, "apcu") && fact.settings.last("apc.enabled").is_none_or(|set| is_on(&set.value))
}

fn opcode_cache(fact: &PhpFact, applications: &[ApplicationFact]) -> Vec<Finding> {
    const WHY: &str = "without it, PHP compiles every file for every page; with it, the WordPress of README.md \
                       answered 503 pages a second instead of 15.8";
    let (name, version, word) = (name(fact), &fact.version, word(fact.kind));
    if !is_loaded(fact, "opcache") {
        let enable = format!("phpenmod -v {version} -s {word} opcache");
        let fix = if fact.packaged.iter().any(|extension| extension == "opcache") {
            format!("run `{enable}`, then {}", restart(fact))
        } else {
            format!("run `apt install php{version}-opcache`, then {}", restart(fact))
        };
        let finding = Finding::warning("opcode cache", format!("{name}: not loaded"), fix);
        return vec![finding.because(WHY)];
    }
    if let Some(set) = fact.settings.last("opcache.enable").filter(|set| !is_on(&set.value)) {
        let fix = mend(fact, Some(set), "write `opcache.enable = 1`");
        return vec![Finding::warning("opcode cache", format!("{name}: switched off"), fix).because(WHY)];
    }
    let mut found: Vec<_> = fact.pools.iter().filter_map(|pool| pool_switch(fact, pool)).collect();
    found.iter_mut().for_each(|finding| finding.why = Some(WHY.to_owned()));
    found.extend(opcode_size(fact, applications));
    if found.is_empty() {
        let megabytes = number(fact, "opcache.memory_consumption", OPCODE_MEGABYTES);
        let files = opcode_files(fact);
        let message = format!("{name}: on, {megabytes} MB for up to {files} files");
        found.push(Finding::ok("opcode cache", message));
    }
    found
}

/// A pool may switch off settings that php.ini switches on.
fn pool_switch(fact: &PhpFact, pool: &PoolFact) -> Option<Finding> {
    let keys = ["value", "flag"]
        .into_iter()
        .flat_map(|kind| ["php_admin_", "php_"].map(|start| format!("{start}{kind}[opcache.enable]")));
    let set = keys.filter_map(|key| pool.settings.last(&key)).find(|set| !is_on(&set.value))?;
    Some(Finding::warning(
        "opcode cache",
        format!("{}: the pool {} switches it off", name(fact), pool.name),
        format!("remove line {} of {}, then {}", set.line, set.path.display(), restart(fact)),
    ))
}

/// The files for which PHP makes room.
fn opcode_files(fact: &PhpFact) -> u64 {
    let set = number(fact, OPCODE_FILES_KEY, OPCODE_FILES);
    OPCODE_TABLES.into_iter().find(|size| *size >= set).unwrap_or(set)
}

/// Room for the files of the application, and the cost of looking for changes.
fn opcode_size(fact: &PhpFact, applications: &[ApplicationFact]) -> Vec<Finding> {
    let (name, mut found) = (name(fact), Vec::new());
    let key = "opcache.memory_consumption";
    let megabytes = number(fact, key, OPCODE_MEGABYTES);
    if megabytes < OPCODE_MEGABYTES_MIN {
        let fix = mend(fact, fact.settings.last(key), &format!("write `{key} = {OPCODE_MEGABYTES}`"));
        let finding = Finding::warning("opcode cache", format!("{name}: only {megabytes} MB"), fix);
        found.push(finding.because("when it is full, PHP compiles the remaining files for every page"));
    }
    let key = OPCODE_FILES_KEY;
    let files = opcode_files(fact);
    // Files that no page uses need no room, but PHP cannot tell before.
    let needed: u64 = applications.iter().map(|application| application.php_files).sum();
    if needed > files {
        let line = format!("write `{key} = {}`", needed.next_multiple_of(10_000));
        let message = format!("{name}: room for {files} files, but the applications have {needed}");
        let finding = Finding::warning("opcode cache", message, mend(fact, fact.settings.last(key), &line));
        found.push(finding.because("when it is full, PHP compiles the remaining files for every page"));
    }
    let key = "opcache.revalidate_freq";
    let validates = fact.settings.last("opcache.validate_timestamps").is_none_or(|set| is_on(&set.value));
    if let Some(set) = fact.settings.last(key).filter(|set| validates && set.value == "0") {
        let message = format!("{name}: looks at every file for every page (`{key} = 0`)");
        let fix = mend(fact, Some(set), &format!("write `{key} = 2`"));
        let finding = Finding::warning("opcode cache", message, fix);
        found.push(
            finding.because("a page of WordPress has hundreds of files, each of which costs a system call"),
        );
    }
    found
}

fn realpath_cache(fact: &PhpFact) -> Finding {
    const WHY: &str = "PHP resolves the path of every file that a page includes, part by part";
    let name = name(fact);
    if let Some(set) = fact.settings.last("open_basedir").filter(|set| !set.value.is_empty()) {
        let message = format!("{name}: no cache of paths, because `open_basedir` switches it off");
        let fix = format!(
            "remove line {} of {} if a user of its own runs the site, then {}",
            set.line,
            set.path.display(),
            restart(fact)
        );
        return Finding::warning("PHP settings", message, fix).because(WHY);
    }
    let key = "realpath_cache_size";
    let size = fact.settings.last(key).and_then(|set| bytes(&set.value)).unwrap_or(REALPATH_BYTES);
    if size < REALPATH_BYTES {
        let message = format!("{name}: the cache of paths has only {}", rounded(size));
        let fix = mend(fact, fact.settings.last(key), &format!("write `{key} = 4096K`"));
        return Finding::warning("PHP settings", message, fix).because(WHY);
    }
    let key = "realpath_cache_ttl";
    let secs = number(fact, key, REALPATH_SECS);
    if secs < REALPATH_SECS {
        let message = format!("{name}: the cache of paths keeps them for {secs} s only");
        let fix = mend(fact, fact.settings.last(key), &format!("write `{key} = {REALPATH_SECS}`"));
        return Finding::warning("PHP settings", message, fix).because(WHY);
    }
    Finding::ok("PHP settings", format!("{name}: a cache of paths of {} for {secs} s", rounded(size)))
}

/// The compiler to machine code. It is no lack if it is off: pages of applications wait for files
/// and the database, not for loops.
fn jit(fact: &PhpFact) -> Finding {
    let size = fact.settings.last("opcache.jit_buffer_size").and_then(|set| bytes(&set.value)).unwrap_or(0);
    let mode = fact.settings.last("opcache.jit").map_or("tracing", |set| &set.value);
    let is_off = size == 0 || matches!(mode, "off" | "disable" | "0" | "");
    let state =
        if is_off { "off, as PHP's default".to_owned() } else { format!("{mode}, {}", rounded(size)) };
    Finding::ok("PHP settings", format!("{}: JIT {state}", name(fact)))
}

/// The number of workers beside cores and memory.
fn children(fact: &PhpFact, pool: &PoolFact, machine: MachineFact, room: WorkersRoom) -> Finding {
    let label = format!("{}, pool {}", name(fact), pool.name);
    let Some((set, max)) = max_children(pool) else {
        let number = machine.cores * WORKERS_PER_CORE;
        return Finding::warning(
            "PHP workers",
            format!("{label}: `pm.max_children` is missing, so the pool does not start"),
            format!("write `pm.max_children = {number}` in {}", pool.path.display()),
        )
        .because("this many pages are made at once");
    };
    let fix = |number: u64| {
        let place = format!("line {} of {}", set.line, set.path.display());
        format!(
            "write `pm.max_children = {number}` in {place}, then systemctl reload php{}-fpm",
            fact.version
        )
    };
    let memory = memory(pool);
    let size = worker_size(fact, pool);
    let room = memory.map_or(u64::MAX, |memory| room.workers(max, memory.private));
    if max > room {
        let message = format!(
            "{label}: up to {max} workers, but {} hold only {room} beside the other pools and the database: {size}",
            rounded(machine.memory_bytes)
        );
        return Finding::warning("PHP workers", message, fix(room))
            .because("when all are busy, the machine swaps, and every page becomes slow at once");
    }
    let least = (machine.cores * WORKERS_PER_CORE).min(room);
    if max < least {
        let message = format!("{label}: up to {max} workers for {} cores: {size}", machine.cores);
        return Finding::warning("PHP workers", message, fix(least)).because(
            "a worker waits for the database part of its time, so fewer than two for a core leave cores idle",
        );
    }
    let message = format!("{label}: up to {max} workers; {size}");
    if memory.is_none() {
        let how = "run `petasos doctor --stack` as root on the machine while PHP-FPM serves visitors";
        return Finding::unseen("PHP workers", message, how);
    }
    Finding::ok("PHP workers", message)
}

/// The known memory of a pool's workers.
fn worker_size(fact: &PhpFact, pool: &PoolFact) -> String {
    let limit = fact.settings.last("memory_limit").map_or(MEMORY_LIMIT, |set| &set.value);
    let Some(workers) = pool.workers else {
        return format!("none runs, so their memory cannot be seen; each may take {limit}");
    };
    let count = workers.count;
    workers.largest.map_or_else(
        || format!("only root sees the memory of the {count} that run; each may take {limit}"),
        |memory| {
            let (private, shared) = (rounded(memory.private), rounded(memory.shared));
            format!(
                "the largest of the {count} that run takes {private}, and shares {shared} with the others"
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::assignments::Assignments;
    use super::super::facts::{ApplicationKind, DropInFact, WorkerMemoryFact, WorkersFact};
    use super::{ApplicationFact, MachineFact, PhpFact, PhpKind, PoolFact, WorkersRoom, has_apcu};
    use crate::finding::{Finding, Level};
    use std::path::Path;

    const MACHINE: MachineFact = MachineFact { memory_bytes: 4 << 30, cores: 2 };

    fn assignments(path: &str, text: &str) -> Assignments {
        let mut all = Assignments::default();
        all.add(Path::new(path), text);
        all
    }

    fn fact(ini: &str, pool: &str) -> PhpFact {
        PhpFact {
            version: "8.2".to_owned(),
            kind: PhpKind::Fpm,
            settings: assignments("/etc/php/8.2/fpm/php.ini", ini),
            packaged: vec!["opcache".to_owned()],
            pools: vec![PoolFact {
                name: "www".to_owned(),
                path: "/etc/php/8.2/fpm/pool.d/www.conf".into(),
                settings: assignments("/etc/php/8.2/fpm/pool.d/www.conf", pool),
                workers: None,
            }],
        }
    }

    fn workers(mebibytes: u64) -> Option<WorkersFact> {
        let largest = Some(WorkerMemoryFact { private: mebibytes << 20, shared: 0 });
        Some(WorkersFact { count: 2, largest })
    }

    /// Judges one PHP on a machine without database.
    fn php(fact: &PhpFact, applications: &[ApplicationFact], machine: MachineFact) -> Vec<Finding> {
        let room = WorkersRoom::new(std::slice::from_ref(fact), machine, 0);
        super::php(fact, applications, machine, room)
    }

    /// The one warning of these settings: its message and its fix.
    fn warning(fact: &PhpFact, files: u64, workers: Option<WorkersFact>) -> (String, String) {
        let kind = ApplicationKind::WordPress { content: "/w".into(), drop_in: DropInFact::None };
        let applications = [ApplicationFact { kind, directory: "/w".into(), php_files: files }];
        let found = php(&with(fact.clone(), workers), &applications, MACHINE);
        let warnings: Vec<&Finding> = found.iter().filter(|one| one.level == Level::Warning).collect();
        assert_eq!(warnings.len(), 1, "{found:?}");
        assert!(warnings[0].why.is_some(), "{found:?}");
        (warnings[0].message.clone(), warnings[0].fix.clone().unwrap())
    }

    /// The same with running workers.
    fn with(fact: PhpFact, workers: Option<WorkersFact>) -> PhpFact {
        let pools = fact.pools.into_iter().map(|pool| PoolFact { workers, ..pool }).collect();
        PhpFact { pools, ..fact }
    }

    const LOADED: &str = "zend_extension=opcache.so\n";
    const POOL: &str = "[www]\npm.max_children = 5\n";

    #[test]
    fn debians_defaults_with_opcode_cache_are_good() {
        let found = php(&with(fact(LOADED, POOL), workers(40)), &[], MACHINE);
        assert!(found.iter().all(|one| one.level == Level::Ok), "{found:?}");
        assert!(
            found.iter().any(|one| one.message.contains("on, 128 MB for up to 16229 files")),
            "{found:?}"
        );
    }

    #[test]
    fn opcode_cache_that_is_off_names_its_line() {
        let (message, fix) = warning(&fact("", POOL), 1, None);
        assert!(
            message.contains("not loaded") && fix.contains("phpenmod -v 8.2 -s fpm opcache"),
            "{message} {fix}"
        );
        let mut without = fact("", POOL);
        without.packaged.clear();
        assert!(warning(&without, 1, None).1.contains("apt install php8.2-opcache"));
        let off = fact(&format!("{LOADED}opcache.enable=0\n"), POOL);
        let (message, fix) = warning(&off, 1, None);
        assert!(message.contains("switched off"), "{message}");
        assert!(fix.contains("write `opcache.enable = 1` in line 2 of /etc/php/8.2/fpm/php.ini"), "{fix}");
        let of_pool = fact(LOADED, &format!("{POOL}php_admin_flag[opcache.enable] = off\n"));
        let (message, fix) = warning(&of_pool, 1, None);
        assert!(message.contains("the pool www switches it off") && fix.contains("remove line 3"), "{fix}");
    }

    #[test]
    fn opcode_cache_has_room_for_the_application() {
        for (lines, files, words, line) in [
            ("opcache.memory_consumption=8\n", 1, "only 8 MB", "opcache.memory_consumption = 128"),
            (
                "",
                16_230,
                "room for 16229 files, but the applications have 16230",
                "`opcache.max_accelerated_files = 20000` in /etc/php",
            ),
            ("opcache.revalidate_freq=0\n", 1, "for every page", "opcache.revalidate_freq = 2"),
            ("realpath_cache_size=16k\n", 1, "cache of paths", "realpath_cache_size = 4096K"),
            ("realpath_cache_ttl=1\n", 1, "for 1 s only", "realpath_cache_ttl = 120"),
            ("open_basedir=/srv\n", 1, "open_basedir", "remove line 2 of /etc/php"),
        ] {
            let (message, fix) = warning(&fact(&format!("{LOADED}{lines}"), POOL), files, workers(40));
            assert!(message.contains(words) && fix.contains(line), "{message} {fix}");
        }
        let still = format!("{LOADED}opcache.validate_timestamps=0\nopcache.revalidate_freq=0\n");
        let found = php(&with(fact(&still, POOL), workers(40)), &[], MACHINE);
        assert!(found.iter().all(|one| one.level == Level::Ok), "{found:?}");
    }

    #[test]
    fn workers_fit_cores_and_memory() {
        let pool = |number: u32| fact(LOADED, &format!("[www]\npm.max_children = {number}\n"));
        let (message, fix) = warning(&pool(100), 1, workers(64));
        assert!(message.contains("4.0 GiB hold only 48"), "{message}");
        assert!(fix.contains("pm.max_children = 48` in line 2 of /etc/php/8.2/fpm/pool.d/www.conf"), "{fix}");
        assert!(warning(&pool(3), 1, workers(64)).1.contains("pm.max_children = 4`"));
        assert!(warning(&fact(LOADED, "[www]\n"), 1, None).0.contains("is missing"));
        // Without a running worker, no size is invented.
        let unseen = php(&pool(100), &[], MACHINE);
        assert!(unseen.iter().all(|one| one.level <= Level::Unseen), "{unseen:?}");
        assert_eq!(unseen.last().unwrap().level, Level::Unseen, "{unseen:?}");
    }

    /// A machine with a pool of each number of workers. Each worker takes 64 MiB and shares 192
    /// MiB.
    fn pools(numbers: &[u32], buffers: u64) -> Vec<Finding> {
        let largest = Some(WorkerMemoryFact { private: 64 << 20, shared: 192 << 20 });
        let mut all = fact(LOADED, POOL);
        let pool = |number: &u32| PoolFact {
            name: format!("p{number}"),
            path: "/p".into(),
            settings: assignments("/p", &format!("pm.max_children = {number}\n")),
            workers: Some(WorkersFact { count: 2, largest }),
        };
        all.pools = numbers.iter().map(pool).collect();
        let room = WorkersRoom::new(std::slice::from_ref(&all), MACHINE, buffers);
        let mut found = super::php(&all, &[], MACHINE, room);
        found.retain(|one| one.subject == "PHP workers");
        found
    }

    #[test]
    fn workers_share_the_memory_with_each_other_and_the_database() {
        // 3 GiB less the shared part are 45 workers.
        let levels = |numbers: &[u32], buffers| {
            pools(numbers, buffers).iter().map(|one| one.level).collect::<Vec<_>>()
        };
        assert_eq!(levels(&[45], 0), [Level::Ok]);
        assert_eq!(levels(&[46], 0), [Level::Warning]);
        assert_eq!(levels(&[5, 40], 0), [Level::Ok, Level::Ok], "a small pool leaves room for a large one");
        assert_eq!(levels(&[30, 60], 0), [Level::Warning, Level::Warning]);
        assert!(pools(&[30, 60], 0)[0].fix.clone().unwrap().contains("pm.max_children = 15`"));
        assert!(pools(&[30, 60], 0)[1].fix.clone().unwrap().contains("pm.max_children = 30`"));
        assert_eq!(levels(&[29], 1 << 30), [Level::Ok]);
        assert!(pools(&[30], 1 << 30)[0].fix.clone().unwrap().contains("pm.max_children = 29`"));
        assert_eq!(levels(&[5], 9 << 30), [Level::Warning], "a pool larger than the memory");
    }

    #[test]
    fn workers_whose_memory_may_not_be_read_are_unseen() {
        let seen = Some(WorkersFact { count: 2, largest: None });
        let found = php(&with(fact(LOADED, "[www]\npm.max_children = 500\n"), seen), &[], MACHINE);
        let last = found.last().unwrap();
        assert!(last.level == Level::Unseen && last.message.contains("only root sees"), "{last:?}");
    }

    #[test]
    fn apcu_is_loaded_and_not_switched_off() {
        assert!(has_apcu(&fact("extension=apcu.so\n", "")));
        assert!(!has_apcu(&fact("extension=apcu.so\napc.enabled=0\n", "")));
        assert!(!has_apcu(&fact(LOADED, "")));
    }
}
