//! Judges the opcode cache, the settings and the workers of PHP.
//!
//! Invariant: the functions here are pure. A finding that is not good names a line and its file.

use super::assignments::{Assignment, bytes, is_on};
use super::facts::{ApplicationFact, MachineFact, PhpFact, PhpKind, PoolFact};
use crate::finding::Finding;
use crate::judge::rounded;

/// PHP's own values for what no file sets.
const OPCODE_MEGABYTES: u64 = 128;
const OPCODE_FILES: u64 = 10_000;
const REALPATH_BYTES: u64 = 4 << 20;
const REALPATH_SECS: u64 = 120;
const MEMORY_LIMIT: &str = "128M";
/// Least opcode cache for an ordinary application, in megabytes: WordPress with plug-ins needs half.
const OPCODE_MEGABYTES_MIN: u64 = 64;
/// Workers for each core: one that waits for the database leaves its core to another.
const WORKERS_PER_CORE: u64 = 2;
/// Parts of the machine's memory that workers may take together, of four.
const MEMORY_QUARTERS: u64 = 3;

/// Everything about one PHP.
pub(super) fn php(fact: &PhpFact, applications: &[ApplicationFact], machine: MachineFact) -> Vec<Finding> {
    let mut found = opcode_cache(fact, applications);
    found.push(realpath_cache(fact));
    found.push(jit(fact));
    if fact.kind == PhpKind::Fpm {
        found.extend(fact.pools.iter().map(|pool| children(fact, pool, machine)));
    }
    found
}

/// Such as `PHP 8.2 (FPM)`.
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
        let files = number(fact, "opcache.max_accelerated_files", OPCODE_FILES);
        let message = format!("{name}: on, {megabytes} MB for up to {files} files");
        found.push(Finding::ok("opcode cache", message));
    }
    found
}

/// A pool may switch off what php.ini switches on.
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
    let key = "opcache.max_accelerated_files";
    let files = number(fact, key, OPCODE_FILES);
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
fn children(fact: &PhpFact, pool: &PoolFact, machine: MachineFact) -> Finding {
    let label = format!("{}, pool {}", name(fact), pool.name);
    let Some((set, max)) =
        pool.settings.last("pm.max_children").and_then(|set| Some((set, set.value.parse::<u64>().ok()?)))
    else {
        return Finding::warning(
            "PHP workers",
            format!("{label}: `pm.max_children` is missing, so the pool does not start"),
            format!(
                "write `pm.max_children = {}` in {}",
                machine.cores * WORKERS_PER_CORE,
                pool.path.display()
            ),
        )
        .because("this many pages are made at once");
    };
    let limit = fact.settings.last("memory_limit").map_or(MEMORY_LIMIT, |set| &set.value);
    let fits = |each: u64| (machine.memory_bytes / 4 * MEMORY_QUARTERS / each.max(1)).max(1);
    let fix = |number: u64| {
        let place = format!("line {} of {}", set.line, set.path.display());
        format!(
            "write `pm.max_children = {number}` in {place}, then systemctl reload php{}-fpm",
            fact.version
        )
    };
    let size = pool.workers.map_or_else(
        || format!("none runs, so their memory cannot be seen; each may take {limit}"),
        |workers| {
            format!("the largest of the {} that run takes {}", workers.count, rounded(workers.largest_bytes))
        },
    );
    let room = pool.workers.map_or(u64::MAX, |workers| fits(workers.largest_bytes));
    if max > room {
        let message = format!(
            "{label}: up to {max} workers, but {} hold only {room}: {size}",
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
    if pool.workers.is_none() {
        let how = "run `petasos doctor --stack` on the machine while PHP-FPM serves visitors";
        return Finding::unseen("PHP workers", message, how);
    }
    Finding::ok("PHP workers", message)
}

#[cfg(test)]
mod tests {
    use super::super::assignments::Assignments;
    use super::super::facts::WorkersFact;
    use super::{ApplicationFact, MachineFact, PhpFact, PhpKind, PoolFact, has_apcu, php};
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
        Some(WorkersFact { count: 2, largest_bytes: mebibytes << 20 })
    }

    /// The one warning of these settings: its message and its fix.
    fn warning(fact: &PhpFact, files: u64, workers: Option<WorkersFact>) -> (String, String) {
        let kind = super::super::facts::ApplicationKind::WordPress { content: "/w".into(), drop_in: None };
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
            found.iter().any(|one| one.message.contains("on, 128 MB for up to 10000 files")),
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
                12_000,
                "the applications have 12000",
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

    #[test]
    fn apcu_is_loaded_and_not_switched_off() {
        assert!(has_apcu(&fact("extension=apcu.so\n", "")));
        assert!(!has_apcu(&fact("extension=apcu.so\napc.enabled=0\n", "")));
        assert!(!has_apcu(&fact(LOADED, "")));
    }
}
