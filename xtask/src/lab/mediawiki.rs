//! The MediaWiki lab: MariaDB, PHP-FPM without and with opcode cache, nginx with a server for each of MediaWiki's own
//! caches, Varnish, and a MediaWiki that purges Varnish and Petasos. What it is for stands in its README.
//!
//! Invariant: MediaWiki's code is the package's own, nothing of it is copied or changed; its content is marked when
//! it is complete, and a killed attempt is thrown away by the next.

use super::files::Template;
use super::stack::{Site, Stack, Step};
use super::{database, files, front, php};
use crate::place::output;
use anyhow::Result;
use std::process::Command;

/// What makes the content.
const FILL: &str = files::text!("mediawiki/php/fill.php");
/// Where Debian's package keeps the scripts.
const MAINTENANCE_PATH: &str = "/usr/share/mediawiki/maintenance";

/// The stack.
pub(crate) const STACK: Stack = Stack {
    title: "MediaWiki",
    name: "mediawiki",
    host: "mediawiki.test",
    page: "/wiki/Welcome",
    log_in: "/wiki/Special:UserLogin",
    // nginx and PHP come first: MediaWiki wants some web server with PHP, and would take Apache if it found none.
    packages: &[
        &[
            "mariadb-server",
            "nginx-core",
            "php",
            "php-apcu",
            "php-curl",
            "php-intl",
            "php-mbstring",
            "php-mysql",
            "php-xml",
            "php8.2-cli",
            "php8.2-fpm",
            "php8.2-opcache",
            "varnish",
        ],
        &["mediawiki"],
    ],
    addresses: &[
        ("nginx_objects", "nginx, opcode cache, MediaWiki keeps objects and parsed pages"),
        ("nginx_files", "nginx, opcode cache, MediaWiki keeps whole pages as well"),
        ("nginx_opcode", "nginx, opcode cache, MediaWiki keeps nothing"),
        ("nginx_plain", "nginx, no opcode cache, MediaWiki keeps nothing"),
        ("varnish", "Varnish before nginx_objects"),
        ("edge", "free for Petasos: MediaWiki sends its purges there"),
    ],
    secrets: &["admin_password", "user_password", "secret_key"],
    templates: &[
        files::FOR_PHP,
        &[
            files::rendered!("conf/nginx.conf", "mediawiki/conf/nginx.conf"),
            files::rendered!("conf/nginx-site.conf", "mediawiki/conf/nginx-site.conf"),
            files::rendered!("conf/varnish.vcl", "mediawiki/conf/varnish.vcl"),
            files::rendered!("conf/LocalSettings.php", "mediawiki/php/LocalSettings.php"),
            // Braces mean something of their own in the wiki's language.
            Template::verbatim("conf/fill.php", FILL),
        ],
    ],
    is_current: |_| true,
    steps: &[
        Step::Write,
        database::MAKE,
        database::START,
        Step::Make(fill),
        php::START_PLAIN,
        php::START_OPCODE,
        front::start_nginx(&["nginx_plain", "nginx_opcode", "nginx_objects", "nginx_files"]),
        front::START_VARNISH,
    ],
};

/// Lets MediaWiki install itself and makes its content, unless this has been done by this very script and version.
fn fill(site: &Site<'_>) -> Result<()> {
    let version = output(Command::new("dpkg-query").args(["--show", "mediawiki"]))?;
    // In the database's own directory, so that one does not outlive the other.
    let (mark, wanted) = (site.at("mariadb/filled-by"), format!("{version}\n{FILL}"));
    if files::holds(&mark, &wanted) {
        return Ok(());
    }
    ["cache", "images"].into_iter().try_for_each(|name| site.make_empty(name))?;
    database::run(site, "DROP DATABASE IF EXISTS wiki")?;
    let mut install = php::script(site);
    install.arg(format!("{MAINTENANCE_PATH}/install.php"));
    install.args(["--dbtype=mysql", "--dbname=wiki", "--dbuser=root", "--dbpass=", "--scriptpath="]);
    install.arg(site.render("--dbserver=localhost:{{mariadb_socket}}", &[])?);
    install.arg(site.render("--server=http://{{host}}", &[])?);
    // What it writes there is not used: the lab has a configuration of its own.
    install.arg(site.render("--confpath={{site}}/tmp", &[])?);
    install.arg(site.render("--passfile={{site}}/conf/admin-password", &[])?);
    site.run("install", install.args(["Petasos lab", "Admin"]))?;
    let mut fill = php::script(site);
    fill.env("MW_CONFIG_FILE", site.at("conf/LocalSettings.php"));
    site.run("fill", fill.arg(site.at("conf/fill.php")).arg(site.at("conf/user-password")))?;
    files::write(&mark, &wanted)
}
