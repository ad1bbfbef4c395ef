//! Reads facts from the configuration files of Debian's packages.
//!
//! Invariant: a file that cannot be read is as if it were missing, unless the difference matters.

use super::assignments::{Assignments, bytes};
use super::facts::{
    ApplicationFact, ApplicationKind, DatabaseFact, DropInFact, PhpFact, PhpKind, PoolFact, RedisFact,
};
use super::root::Root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files of an application that are counted at most.
const PHP_FILES_MAX: u64 = 50_000;
/// Depth of directories below an application.
const DEPTH_MAX: u32 = 12;
/// Included files of the database server that lead to further ones.
const INCLUDES_MAX: u32 = 8;
/// Directories of web sites, whose entries are applications or lead to them.
const SITES: [&str; 4] = ["/var/www", "/srv", "/usr/share", "/var/lib"];
/// Configuration directories of web servers, and the words before a directory of a site.
const SERVERS: [(&str, &str); 4] = [
    ("/etc/nginx/sites-enabled", "root"),
    ("/etc/nginx/conf.d", "root"),
    ("/etc/apache2/sites-enabled", "DocumentRoot"),
    ("/etc/apache2/conf-enabled", "DocumentRoot"),
];
/// Sections of the database server's files that the server reads.
const SERVER_SECTIONS: [&str; 4] = ["mysqld", "server", "mariadb", "mariadbd"];

/// Every PHP that serves visitors.
pub(super) fn php(root: &Root) -> Vec<PhpFact> {
    let mut found = Vec::new();
    for directory in root.list(Path::new("/etc/php")) {
        let Some(version) = directory.file_name().and_then(|name| name.to_str()) else { continue };
        for (kind, name) in [(PhpKind::Fpm, "fpm"), (PhpKind::Apache, "apache2")] {
            let own = directory.join(name);
            let module = format!("/etc/apache2/mods-enabled/php{version}.load");
            if kind == PhpKind::Apache && !root.exists(Path::new(&module)) {
                continue;
            }
            let Some(main) = root.read(&own.join("php.ini")) else { continue };
            let mut settings = Assignments::default();
            settings.add(&own.join("php.ini"), &main);
            for path in root.list_files(&own.join("conf.d"), "ini") {
                settings.add(&path, &root.read(&path).unwrap_or_default());
            }
            let packaged = root.list_files(&directory.join("mods-available"), "ini");
            let packaged = packaged.iter().filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
            found.push(PhpFact {
                version: version.to_owned(),
                kind,
                settings,
                packaged: packaged.collect(),
                pools: pools(root, &own.join("pool.d")),
            });
        }
    }
    found
}

/// The pools of PHP-FPM. Several files may add to one pool.
fn pools(root: &Root, directory: &Path) -> Vec<PoolFact> {
    let mut all = Assignments::default();
    for path in root.list_files(directory, "conf") {
        all.add(&path, &root.read(&path).unwrap_or_default());
    }
    let names: BTreeSet<_> = all.iter().map(|one| one.section.clone()).collect();
    let named = names.into_iter().filter(|name| name != "global").filter_map(|name| {
        let settings = all.select(|one| (one.section == name).then(|| one.key.clone()));
        let path = settings.iter().next()?.path.clone();
        Some(PoolFact { name, path, settings, workers: None })
    });
    named.collect()
}

/// The applications in the directories that web servers name, and in the usual ones.
pub(super) fn applications(root: &Root) -> Vec<ApplicationFact> {
    let mut candidates = BTreeSet::new();
    for (directory, word) in SERVERS {
        for path in root.list(Path::new(directory)) {
            candidates.extend(named_directories(&root.read(&path).unwrap_or_default(), word));
        }
    }
    for directory in SITES {
        candidates.insert(PathBuf::from(directory));
        for path in root.list(Path::new(directory)) {
            // One level more, for /var/www/NAME/html.
            if directory == "/var/www" {
                candidates.extend(root.list(&path));
            }
            candidates.insert(path);
        }
    }
    let mut found: Vec<_> = candidates.iter().filter_map(|path| application(root, path)).collect();
    // Debian links from one directory of an application to another.
    let mut places = BTreeSet::new();
    found.retain(|one| {
        places.insert(root.place(match &one.kind {
            ApplicationKind::WordPress { .. } => &one.directory,
            ApplicationKind::MediaWiki { settings, .. } => settings,
        }))
    });
    found
}

/// The directories after a word at the beginning of lines.
fn named_directories(text: &str, word: &str) -> Vec<PathBuf> {
    let named = |line: &str| {
        let rest = line.trim().strip_prefix(word)?;
        let path = rest.strip_prefix([' ', '\t'])?.trim().trim_end_matches(';').trim_matches('"');
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(named).collect()
}

/// The application in a directory, if it has been configured.
fn application(root: &Root, directory: &Path) -> Option<ApplicationFact> {
    let kind = if root.exists(&directory.join("wp-includes/version.php")) {
        // Debian's package has the directory of contents elsewhere.
        let debian = Path::new("/var/lib/wordpress/wp-content");
        let is_debian = directory == Path::new("/usr/share/wordpress") && root.exists(debian);
        let is_configured = if is_debian {
            !root.list_files(Path::new("/etc/wordpress"), "php").is_empty()
        } else {
            // WordPress also looks one level above.
            [directory, directory.parent().unwrap_or(directory)]
                .iter()
                .any(|place| root.exists(&place.join("wp-config.php")))
        };
        if !is_configured {
            return None;
        }
        let content = if is_debian { debian.to_owned() } else { directory.join("wp-content") };
        let path = content.join("object-cache.php");
        let drop_in = match root.read(&path) {
            Some(text) => DropInFact::Text(text),
            None if root.is_missing(&path) => DropInFact::None,
            None => DropInFact::Unreadable,
        };
        ApplicationKind::WordPress { content, drop_in }
    } else if root.exists(&directory.join("includes/Setup.php")) {
        let settings = directory.join("LocalSettings.php");
        let main_cache = main_cache(&root.read(&settings)?);
        ApplicationKind::MediaWiki { settings, main_cache }
    } else {
        return None;
    };
    let mut php_files = 0;
    count_php(&root.place(directory), DEPTH_MAX, &mut php_files);
    Some(ApplicationFact { kind, directory: directory.to_owned(), php_files })
}

/// The value of `$wgMainCacheType` in a configuration of MediaWiki.
fn main_cache(settings: &str) -> Option<String> {
    let value = |line: &str| {
        let rest = line.trim_start().strip_prefix("$wgMainCacheType")?.trim_start().strip_prefix('=')?;
        Some(rest.split(';').next().unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned())
    };
    settings.lines().filter_map(value).next_back()
}

/// Adds the number of PHP files below a directory, without following links.
fn count_php(directory: &Path, depth: u32, count: &mut u64) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let Ok(kind) = entry.file_type() else { continue };
        if *count >= PHP_FILES_MAX {
            return;
        }
        if kind.is_dir() && depth > 0 {
            count_php(&entry.path(), depth - 1, count);
        } else if entry.path().extension().is_some_and(|extension| extension == "php") {
            *count += 1;
        }
    }
}

/// The limit of Redis. `None` if Redis is not installed or its file may not be read.
pub(super) fn redis(root: &Root) -> Option<RedisFact> {
    let path = PathBuf::from("/etc/redis/redis.conf");
    let text = root.read(&path)?;
    let value = |key: &str| {
        let of = |line: &'_ str| {
            line.trim().strip_prefix(key)?.strip_prefix(' ').map(str::trim).map(str::to_owned)
        };
        text.lines().filter_map(of).next_back()
    };
    Some(RedisFact {
        memory_max: value("maxmemory").and_then(|value| bytes(&value)).unwrap_or(0),
        policy: value("maxmemory-policy").unwrap_or_else(|| "noeviction".to_owned()),
        path,
    })
}

/// The database server of this root.
pub(super) fn database(root: &Root) -> Option<DatabaseFact> {
    let name = if root.exists(Path::new("/usr/sbin/mariadbd")) {
        "MariaDB"
    } else if root.exists(Path::new("/usr/sbin/mysqld")) {
        "MySQL"
    } else {
        return None;
    };
    let mut all = Assignments::default();
    include(root, Path::new("/etc/mysql/my.cnf"), INCLUDES_MAX, &mut all);
    let settings = all.select(|one| {
        let is_own = is_versioned(&one.section) || SERVER_SECTIONS.contains(&one.section.as_str());
        is_own.then(|| one.key.replace('-', "_"))
    });
    let data = settings
        .last("datadir")
        .map_or_else(|| PathBuf::from("/var/lib/mysql"), |one| one.value.clone().into());
    let own = Path::new("/etc/mysql/mariadb.conf.d");
    let directory = if root.exists(own) { own } else { Path::new("/etc/mysql/conf.d") };
    Some(DatabaseFact {
        name,
        settings,
        directory: directory.to_owned(),
        data_bytes: table_bytes(root, &data),
        live: None,
    })
}

/// Whether a section is for the server of one version, such as `mariadb-10.11`. `mariadb-client` is
/// for a client.
fn is_versioned(section: &str) -> bool {
    let mut versions =
        ["mariadb-", "mariadbd-", "mysqld-"].iter().filter_map(|start| section.strip_prefix(start));
    versions.any(|version| version.starts_with(|letter: char| letter.is_ascii_digit()))
}

/// Adds the assignments of a file and of those that it includes.
fn include(root: &Root, path: &Path, depth: u32, all: &mut Assignments) {
    let Some(text) = root.read(path) else { return };
    all.add(path, &text);
    if depth == 0 {
        return;
    }
    for line in text.lines().map(str::trim) {
        if let Some(directory) = line.strip_prefix("!includedir ") {
            for path in root.list_files(Path::new(directory.trim()), "cnf") {
                include(root, &path, depth - 1, all);
            }
        } else if let Some(path) = line.strip_prefix("!include ") {
            include(root, Path::new(path.trim()), depth - 1, all);
        }
    }
}

/// The size of the files with tables. `None` if the directory may not be read, as for most users.
fn table_bytes(root: &Root, data: &Path) -> Option<u64> {
    std::fs::read_dir(root.place(data)).ok()?;
    let mut sum = 0_u64;
    for path in root.list(data).into_iter().flat_map(|path| [root.list(&path), vec![path]].concat()) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.ends_with("ibdata1") || matches!(extension, Some("ibd" | "MYD" | "MYI")) {
            sum = sum.saturating_add(std::fs::metadata(root.place(&path)).map_or(0, |file| file.len()));
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::{ApplicationKind, DropInFact, applications, database, php, redis};
    use crate::stack::facts::PhpKind;
    use crate::stack::root::Root;
    use std::fs;
    use std::path::Path;
    use tempfile::TempDir;

    /// A folder with these files.
    fn folder(files: &[(&str, &str)]) -> (TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn php_has_its_files_in_order_and_its_pools() {
        let (folder, root) = folder(&[
            ("etc/php/8.2/fpm/php.ini", "[PHP]\nmemory_limit = 128M\n"),
            ("etc/php/8.2/fpm/conf.d/90-site.ini", "memory_limit = 256M\n"),
            ("etc/php/8.2/fpm/conf.d/90-site.ini.before", "memory_limit = 1M\n"),
            ("etc/php/8.2/mods-available/opcache.ini", "zend_extension=opcache.so\n"),
            (
                "etc/php/8.2/fpm/pool.d/www.conf",
                "[global]\nx = 1\n[www]\npm.max_children = 5\n[b]\npm.max_children = 7\n",
            ),
            ("etc/php/8.2/fpm/pool.d/www-more.conf", "[www]\npm.max_children = 5\n"),
            ("etc/php/8.2/fpm/pool.d/aaa.conf", "[www]\npm.max_children = 9\n"),
            ("etc/php/8.2/cli/php.ini", ""),
            ("etc/php/8.2/apache2/php.ini", ""),
            ("etc/php/8.1/apache2/php.ini", ""),
            ("etc/apache2/mods-enabled/php8.2.load", ""),
        ]);
        let link = folder.path().join("etc/php/8.2/fpm/conf.d/10-opcache.ini");
        std::os::unix::fs::symlink("/etc/php/8.2/mods-available/opcache.ini", link).unwrap();
        let found = php(&root);
        assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [PhpKind::Fpm, PhpKind::Apache]);
        let fpm = &found[0];
        let limit = fpm.settings.last("memory_limit").unwrap();
        assert_eq!(
            (limit.value.as_str(), limit.path.to_str().unwrap()),
            ("256M", "/etc/php/8.2/fpm/conf.d/90-site.ini")
        );
        assert_eq!(fpm.settings.last("zend_extension").unwrap().value, "opcache.so");
        assert_eq!(fpm.packaged, ["opcache"]);
        let pools: Vec<_> = fpm
            .pools
            .iter()
            .map(|pool| (pool.name.as_str(), pool.settings.last("pm.max_children").unwrap().value.as_str()))
            .collect();
        assert_eq!(pools, [("b", "7"), ("www", "5")]);
    }

    #[test]
    fn applications_are_found_where_servers_name_them() {
        let (folder, root) = folder(&[
            ("etc/nginx/sites-enabled/a", "server {\n    root /home/shop/public;\n}\n"),
            ("home/shop/public/wp-includes/version.php", ""),
            ("home/shop/public/wp-content/object-cache.php", "Petasos"),
            ("home/shop/wp-config.php", ""),
            ("var/www/b/html/wp-includes/version.php", ""),
            ("var/www/b/html/wp-config.php", ""),
            ("var/www/c/wp-includes/version.php", "nobody has configured it"),
            ("etc/wordpress/config-default.php", ""),
            ("usr/share/wordpress/wp-includes/version.php", ""),
            ("var/lib/wordpress/wp-content/object-cache.php", "Redis"),
            ("srv/wiki/includes/Setup.php", ""),
            (
                "srv/wiki/LocalSettings.php",
                "<?php\n$wgMainCacheType = CACHE_NONE;\n  $wgMainCacheType = 'redis';\n",
            ),
            ("srv/other/index.php", ""),
        ]);
        let mut found = applications(&root);
        found.sort_by(|one, other| one.directory.cmp(&other.directory));
        let directories: Vec<_> = found.iter().map(|one| one.directory.to_str().unwrap()).collect();
        assert_eq!(
            directories,
            ["/home/shop/public", "/srv/wiki", "/usr/share/wordpress", "/var/www/b/html"]
        );
        let drop_in = |index: usize| match &found[index].kind {
            ApplicationKind::WordPress { drop_in: DropInFact::Text(text), .. } => Some(text.clone()),
            ApplicationKind::WordPress { .. } => None,
            ApplicationKind::MediaWiki { main_cache, .. } => main_cache.clone(),
        };
        assert_eq!(
            [drop_in(0), drop_in(1), drop_in(2), drop_in(3)],
            [Some("Petasos".to_owned()), Some("redis".to_owned()), Some("Redis".to_owned()), None]
        );
        assert_eq!(found[0].php_files, 2);
        std::os::unix::fs::symlink("/srv/wiki", folder.path().join("srv/again")).unwrap();
        let link = folder.path().join("var/lib/wiki");
        fs::create_dir_all(link.join("includes")).unwrap();
        fs::write(link.join("includes/Setup.php"), "").unwrap();
        std::os::unix::fs::symlink("/srv/wiki/LocalSettings.php", link.join("LocalSettings.php")).unwrap();
        assert_eq!(applications(&root).len(), 4, "links lead to no further application");
    }

    #[test]
    fn drop_in_that_may_not_be_read_is_not_missing() {
        // A directory cannot be read as a file, not even by root.
        for (extra, expected) in
            [("object-cache.php/x", DropInFact::Unreadable), ("plugins/x", DropInFact::None)]
        {
            let (_folder, root) = folder(&[
                ("var/www/a/wp-includes/version.php", ""),
                ("var/www/a/wp-config.php", ""),
                (&format!("var/www/a/wp-content/{extra}"), ""),
            ]);
            let found = applications(&root).remove(0);
            assert!(
                matches!(&found.kind, ApplicationKind::WordPress { drop_in, .. } if *drop_in == expected),
                "{found:?}"
            );
        }
    }

    #[test]
    fn database_reads_its_own_sections() {
        let (_folder, root) = folder(&[
            ("usr/sbin/mariadbd", ""),
            (
                "etc/mysql/my.cnf",
                "[client-server]\nsocket = /x\n!includedir /etc/mysql/mariadb.conf.d/\n!include /etc/mysql/my.cnf\n",
            ),
            (
                "etc/mysql/mariadb.conf.d/50-server.cnf",
                "[mysqld]\ninnodb-buffer-pool-size = 1G # room\n[mariadb-10.11]\na=1\n[client]\nb=1\n\
                 [mariadb-client]\nc=1\n",
            ),
            ("var/lib/mysql/ibdata1", "12345"),
            ("var/lib/mysql/site/wp_posts.ibd", "123"),
            ("var/lib/mysql/ib_logfile0", "1234567"),
        ]);
        let found = database(&root).unwrap();
        assert_eq!(found.settings.last("innodb_buffer_pool_size").unwrap().value, "1G");
        assert!(found.settings.last("a").is_some() && found.settings.last("b").is_none());
        assert_eq!(found.settings.last("c"), None, "a client's section");
        assert_eq!(found.data_bytes, Some(8));
        assert_eq!(
            (found.name, found.directory.as_path()),
            ("MariaDB", Path::new("/etc/mysql/mariadb.conf.d"))
        );
        let (_folder, empty) = folder(&[]);
        assert_eq!(database(&empty), None);
        let (_folder, without) = folder(&[("usr/sbin/mysqld", "")]);
        assert_eq!(database(&without).unwrap().data_bytes, None);
    }

    #[test]
    fn redis_has_a_limit_or_none() {
        let (_folder, root) = folder(&[(
            "etc/redis/redis.conf",
            "# maxmemory 1\nmaxmemory 64mb\nmaxmemory-policy allkeys-lru\n",
        )]);
        let found = redis(&root).unwrap();
        assert_eq!((found.memory_max, found.policy.as_str()), (64 << 20, "allkeys-lru"));
        let (_folder, root) = folder(&[("etc/redis/redis.conf", "port 0\n")]);
        assert_eq!(redis(&root).unwrap().memory_max, 0);
        let (_folder, empty) = folder(&[]);
        assert_eq!(redis(&empty), None);
    }
}
