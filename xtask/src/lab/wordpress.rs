//! The WordPress lab: a WordPress filled by its own functions. It runs on MariaDB and PHP-FPM
//! without and with opcode cache. nginx is in front of both, and Varnish in front of nginx with
//! opcode cache. The lab's purpose is described in `labs/wordpress/README.md`.
//!
//! Invariant: a part is either missing or complete. Parts are made under another name and renamed
//! at the end. The content is marked when it is complete. The next run removes incomplete parts.

mod integration;

use super::stack::{ReadyCondition, Stack, StackServer, StackSite, StackStep, remove};
use super::{database, files, front, php};
use crate::place::{make_own, output};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::process::Command;

/// Packages of WordPress itself.
const WORDPRESS: [&str; 2] = ["wordpress", "wordpress-theme-twentytwentythree"];
/// Directory of WordPress in Debian's package.
const WORDPRESS_PATH: &str = "/usr/share/wordpress";
/// Names of the keys and salts that WordPress signs its cookies with.
const SALTS: [&str; 8] = [
    "AUTH_KEY",
    "SECURE_AUTH_KEY",
    "LOGGED_IN_KEY",
    "NONCE_KEY",
    "AUTH_SALT",
    "SECURE_AUTH_SALT",
    "LOGGED_IN_SALT",
    "NONCE_SALT",
];

/// The stack.
pub(crate) const STACK: Stack = Stack {
    title: "WordPress",
    name: "wordpress",
    host: "wordpress.test",
    page: "/",
    log_in: "/wp-login.php",
    // nginx and PHP come first: WordPress depends on any web server with PHP, and apt would choose
    // Apache if none is installed.
    packages: &[
        &[
            "mariadb-server",
            "memcached",
            "nginx-core",
            "php",
            "php-apcu",
            "php-curl",
            "php-mbstring",
            "php-memcached",
            "php-mysql",
            "php-redis",
            "php-xml",
            "php8.2-cli",
            "php8.2-fpm",
            "php8.2-opcache",
            "redis-server",
            "varnish",
        ],
        &WORDPRESS,
    ],
    addresses: &[
        ("nginx_opcode", "nginx, opcode cache"),
        ("nginx_plain", "nginx, no opcode cache"),
        ("nginx_cache", "nginx, opcode cache and nginx' own cache"),
        ("varnish", "Varnish before nginx with opcode cache"),
    ],
    secrets: &["admin_password"],
    templates: &[
        files::FOR_PHP,
        &[
            files::rendered!("conf/nginx.conf", "wordpress/conf/nginx.conf"),
            files::rendered!("conf/nginx-site.conf", "wordpress/conf/nginx-site.conf"),
            files::rendered!("conf/varnish.vcl", "wordpress/conf/varnish.vcl"),
            files::rendered!("conf/fill.php", "wordpress/php/fill.php"),
            files::rendered!("wordpress/wp-config.php", "wordpress/php/wp-config.php"),
            files::rendered!("conf/redis.conf", "wordpress/conf/redis.conf"),
            files::rendered!("wordpress/lab-layers.php", "wordpress/php/lab-layers.php"),
            files::rendered!(
                "wordpress/wp-content/mu-plugins/lab-plugin.php",
                "wordpress/php/lab-plugin.php"
            ),
        ],
    ],
    is_current: |site| integration::is_current(site.place),
    steps: &[
        StackStep::Make(copy),
        StackStep::Make(salts),
        StackStep::Write,
        StackStep::Make(|site| integration::install(site.place)),
        StackStep::Make(empty),
        database::MAKE,
        database::START,
        StackStep::Start(StackServer {
            name: "redis",
            command: "redis-server {{site}}/conf/redis.conf",
            ready: ReadyCondition::Socket("redis.sock"),
        }),
        StackStep::Start(StackServer {
            name: "memcached",
            command: "memcached -s {{site}}/run/memcached.sock -m 64",
            ready: ReadyCondition::Socket("memcached.sock"),
        }),
        StackStep::Make(fill),
        php::START_PLAIN,
        php::START_OPCODE,
        front::start_nginx(&["nginx_plain", "nginx_opcode", "nginx_cache"]),
        front::START_VARNISH,
    ],
};

/// Removes cached files and the list of active layers, because the content may be made again.
fn empty(site: &StackSite<'_>) -> Result<()> {
    ["wordpress/wp-content/cache", "tmp/nginx-cache"]
        .into_iter()
        .try_for_each(|path| remove(&site.at(path)))?;
    let layers = site.at("tmp/layers.json");
    let removed = if layers.exists() { fs::remove_file(&layers) } else { Ok(()) };
    removed.with_context(|| format!("cannot remove {}", layers.display()))
}

/// Copies WordPress from the Debian package and resolves links, unless there is a copy of this
/// version.
fn copy(site: &StackSite<'_>) -> Result<()> {
    let version = output(Command::new("dpkg-query").arg("--show").args(WORDPRESS))?;
    let copy = site.at("wordpress");
    let new = site.at("wordpress.new");
    let mark = site.at("wordpress.version");
    if copy.exists() && files::holds(&mark, &version) {
        return Ok(());
    }
    // The uploaded pictures are inside the copy. The database refers to them, so it must be made
    // again as well.
    [&site.at("mariadb"), &copy, &new].into_iter().try_for_each(|old| remove(old))?;
    let account = site.place.account;
    output(account.step("cp").args(["-rL", "--no-preserve=mode", WORDPRESS_PATH]).arg(&new))?;
    for name in ["wp-content/mu-plugins", "wp-content/uploads"] {
        make_own(account, &new.join(name))?;
    }
    fs::rename(&new, &copy)?;
    files::write(&mark, &version)
}

/// Generates WordPress' salts, unless they exist.
fn salts(site: &StackSite<'_>) -> Result<()> {
    let path = "wordpress/wp-secrets.php";
    if site.at(path).exists() {
        return Ok(());
    }
    let mut text = "<?php\n".to_owned();
    for name in SALTS {
        writeln!(text, "define( '{name}', '{}' );", files::draw()?)?;
    }
    site.place.write(path, &text)
}

/// Lets WordPress install itself and make its content, unless it has done so.
fn fill(site: &StackSite<'_>) -> Result<()> {
    let mut command = php::script(site);
    command.arg(site.at("conf/fill.php")).arg(site.at("wordpress")).arg(site.at("conf/admin-password"));
    site.run("fill", &mut command)
}
