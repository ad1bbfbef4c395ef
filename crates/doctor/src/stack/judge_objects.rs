//! Judges the object caches of applications.
//!
//! Invariant: the functions here are pure. An unknown application gets no finding.

use super::facts::{ApplicationFact, ApplicationKind, DropInFact, ObjectServerFact, RedisFact};
use crate::finding::Finding;
use crate::judge::rounded;

const WHY: &str = "the application asks the database for the same options and menus for every page that no page \
                   cache may answer, such as those of logged-in visitors";

/// The object caches of all applications. `has_apcu` holds for the visitors' PHP. `servers` is
/// `None` if ports of this root cannot be asked.
pub(super) fn objects(
    applications: &[ApplicationFact],
    has_apcu: bool,
    servers: Option<&[ObjectServerFact]>,
    redis: Option<&RedisFact>,
) -> Vec<Finding> {
    let mut found: Vec<_> =
        applications.iter().map(|application| application_objects(application, has_apcu, servers)).collect();
    if applications.is_empty() {
        found.push(Finding::unseen(
            "object cache",
            "no WordPress or MediaWiki was found, and how other applications keep objects cannot be seen",
            "look for Redis, memcached or APCu in the settings of your application",
        ));
    }
    found.extend(servers.into_iter().flatten().filter_map(|server| {
        let address = server.address.as_ref()?;
        Some(Finding::ok("object cache", format!("{} accepts connections at {address}", server.name)))
    }));
    let is_cache = applications.iter().any(keeps_objects_in_redis);
    found.extend(redis.map(|fact| redis_limit(fact, is_cache)));
    found
}

fn application_objects(
    application: &ApplicationFact,
    has_apcu: bool,
    servers: Option<&[ObjectServerFact]>,
) -> Finding {
    let label = application.directory.display();
    match &application.kind {
        ApplicationKind::WordPress { content, drop_in: DropInFact::None } => {
            let fix = if has_apcu {
                "in wp-admin, press Install beside the object cache under Tools > Petasos; or write \
                 `define( 'PETASOS_OBJECTS', array( '*' => 'apcu' ) );` in wp-config.php, and copy the plugin's \
                 drop-ins/object-cache.php to "
            } else {
                "install APCu (`apt install php-apcu`) or Redis and the drop-in of a plugin: a file \
                 object-cache.php in "
            };
            let message = format!("WordPress at {label}: none");
            Finding::warning("object cache", message, format!("{fix}{}", content.display())).because(WHY)
        }
        ApplicationKind::WordPress { content, drop_in: DropInFact::Unreadable } => {
            let message =
                format!("WordPress at {label}: {}/object-cache.php may not be read", content.display());
            Finding::unseen("object cache", message, "run `petasos doctor --stack` as root")
        }
        ApplicationKind::WordPress { drop_in: DropInFact::Text(text), .. } => {
            drop_in(&label.to_string(), text, servers)
        }
        ApplicationKind::MediaWiki { settings, main_cache } => {
            let kind = main_cache.as_deref().unwrap_or("CACHE_NONE");
            if matches!(kind, "CACHE_NONE" | "CACHE_DB" | "CACHE_ANYTHING") {
                let message = format!("MediaWiki at {label}: none in memory (`$wgMainCacheType` is {kind})");
                let install = if has_apcu { "" } else { "run `apt install php-apcu`, and " };
                let line =
                    format!("{install}write `$wgMainCacheType = CACHE_ACCEL;` in {}", settings.display());
                return Finding::warning("object cache", message, line).because(WHY);
            }
            Finding::ok("object cache", format!("MediaWiki at {label}: {kind}"))
        }
    }
}

/// Petasos' drop-in supports several kinds of servers, and its kind may be a setting of the
/// database.
fn is_own(drop_in: &str) -> bool {
    drop_in.contains("Petasos")
}

/// Whether a drop-in of another plugin keeps objects in Redis.
fn is_for_redis(drop_in: &str) -> bool {
    let text = drop_in.to_ascii_lowercase();
    !is_own(drop_in) && text.contains("redis") && !text.contains("memcached")
}

/// Whether an application is known to use Redis as a cache.
fn keeps_objects_in_redis(application: &ApplicationFact) -> bool {
    match &application.kind {
        ApplicationKind::WordPress { drop_in: DropInFact::Text(text), .. } => is_for_redis(text),
        ApplicationKind::WordPress { .. } => false,
        ApplicationKind::MediaWiki { main_cache, .. } => {
            main_cache.as_ref().is_some_and(|kind| kind.to_ascii_lowercase().contains("redis"))
        }
    }
}

/// WordPress has a drop-in. If it names a server that does not answer, it keeps nothing.
fn drop_in(label: &str, text: &str, servers: Option<&[ObjectServerFact]>) -> Finding {
    let whose = if is_own(text) { "Petasos' drop-in" } else { "the drop-in of another plugin" };
    let is_silent = |servers: &[ObjectServerFact]| {
        servers.iter().any(|server| server.name == "Redis" && server.address.is_none())
    };
    if is_for_redis(text) && servers.is_some_and(is_silent) {
        return Finding::warning(
            "object cache",
            format!("WordPress at {label}: {whose} wants Redis, but none answers at its usual addresses"),
            "run `systemctl enable --now redis-server`, or correct the address in wp-config.php",
        )
        .because("the drop-in then keeps nothing, and may wait for its timeout on every page");
    }
    Finding::ok("object cache", format!("WordPress at {label}: {whose}"))
}

/// Redis as a cache needs a limit and an eviction policy. As a queue or a store of sessions it must
/// have neither.
fn redis_limit(fact: &RedisFact, is_cache: bool) -> Finding {
    let limit = rounded(fact.memory_max);
    let (state, line, why) = if fact.memory_max == 0 {
        (
            "Redis has no limit of memory".to_owned(),
            "write `maxmemory 64mb` and `maxmemory-policy allkeys-lru`",
            "a cache without limit grows until the machine has no memory for pages",
        )
    } else if fact.policy == "noeviction" {
        (
            format!("Redis has {limit}, and refuses new objects when they are full"),
            "write `maxmemory-policy allkeys-lru`",
            "a full cache that evicts nothing no longer helps",
        )
    } else {
        return Finding::ok("object cache", format!("Redis has {limit} and evicts by {}", fact.policy));
    };
    let path = fact.path.display();
    let fix = format!(
        "{line} in {path}, then systemctl restart redis-server; not if it also keeps jobs or sessions, which would \
         be lost"
    );
    if is_cache {
        return Finding::warning("object cache", state, fix).because(why);
    }
    let message = format!("{state}; whether it is a cache cannot be seen");
    Finding::unseen("object cache", message, format!("if it is only a cache, {fix}"))
}

#[cfg(test)]
mod tests {
    use super::{ApplicationFact, ApplicationKind, DropInFact, ObjectServerFact, RedisFact, objects};
    use crate::finding::{Finding, Level};

    fn wordpress(drop_in: Option<&str>) -> ApplicationFact {
        let drop_in = drop_in.map_or(DropInFact::None, |text| DropInFact::Text(text.to_owned()));
        let kind = ApplicationKind::WordPress { content: "/w/wp-content".into(), drop_in };
        ApplicationFact { kind, directory: "/w".into(), php_files: 1 }
    }

    fn wiki(main_cache: Option<&str>) -> ApplicationFact {
        let main_cache = main_cache.map(str::to_owned);
        let kind = ApplicationKind::MediaWiki { settings: "/m/LocalSettings.php".into(), main_cache };
        ApplicationFact { kind, directory: "/m".into(), php_files: 1 }
    }

    fn judged(application: ApplicationFact, has_apcu: bool, servers: Option<&[ObjectServerFact]>) -> Finding {
        objects(&[application], has_apcu, servers, None).remove(0)
    }

    #[test]
    fn wordpress_without_drop_in_gets_the_line() {
        let found = judged(wordpress(None), true, None);
        let fix = found.fix.clone().unwrap();
        assert!(fix.contains("'*' => 'apcu'") && fix.ends_with("/w/wp-content"), "{found:?}");
        assert!(judged(wordpress(None), false, None).fix.unwrap().contains("apt install php-apcu"));
        assert_eq!(judged(wordpress(Some("Petasos, redis")), false, None).level, Level::Ok);
    }

    #[test]
    fn drop_in_needs_its_server() {
        let server =
            |address: Option<&str>| [ObjectServerFact { name: "Redis", address: address.map(str::to_owned) }];
        let redis = || wordpress(Some("class Redis_Object_Cache"));
        assert_eq!(judged(redis(), true, Some(&server(None))).level, Level::Warning);
        assert_eq!(judged(redis(), true, Some(&server(Some("127.0.0.1:6379")))).level, Level::Ok);
        // In a folder, nothing is known about ports.
        assert_eq!(judged(redis(), true, None).level, Level::Ok);
    }

    #[test]
    fn wiki_keeps_objects_in_memory() {
        assert_eq!(judged(wiki(Some("CACHE_ACCEL")), true, None).level, Level::Ok);
        let found = judged(wiki(None), true, None);
        assert!(
            found.fix.clone().unwrap().starts_with("write `$wgMainCacheType = CACHE_ACCEL;`"),
            "{found:?}"
        );
        assert!(judged(wiki(Some("CACHE_DB")), false, None).fix.unwrap().starts_with("run `apt install"));
        assert_eq!(objects(&[], true, None, None)[0].level, Level::Unseen);
    }

    #[test]
    fn redis_is_a_cache_only_with_a_limit() {
        let beside = |applications: &[ApplicationFact], memory_max, policy: &str| {
            let fact = RedisFact { path: "/r.conf".into(), memory_max, policy: policy.to_owned() };
            objects(applications, true, None, Some(&fact)).pop().unwrap()
        };
        let applications = [wordpress(Some("class Redis_Object_Cache"))];
        let with = |memory_max, policy: &str| beside(&applications, memory_max, policy);
        assert!(with(0, "noeviction").fix.unwrap().contains("`maxmemory 64mb` and"));
        assert_eq!(with(1 << 26, "noeviction").level, Level::Warning);
        assert_eq!(with(1 << 26, "allkeys-lru").level, Level::Ok);
        assert_eq!(beside(&[wiki(Some("redis"))], 0, "noeviction").level, Level::Warning);
        // A queue would lose its jobs.
        for applications in [&[][..], &[wordpress(Some("Petasos, redis"))], &[wiki(Some("CACHE_ACCEL"))]] {
            for memory_max in [0, 1 << 26] {
                let found = beside(applications, memory_max, "noeviction");
                assert_eq!(found.level, Level::Unseen, "{found:?}");
                assert!(found.fix.unwrap().starts_with("if it is only a cache, "));
            }
        }
    }

    #[test]
    fn drop_in_that_may_not_be_read_is_unseen() {
        let content = "/w/wp-content".into();
        let kind = ApplicationKind::WordPress { content, drop_in: DropInFact::Unreadable };
        let found = judged(ApplicationFact { kind, ..wordpress(None) }, true, None);
        assert_eq!(found.level, Level::Unseen, "{found:?}");
    }
}
