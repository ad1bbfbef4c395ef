//! The MediaWiki lab: a MediaWiki that purges Varnish and Petasos. It runs on MariaDB, PHP-FPM
//! without and with opcode cache, nginx with one server for each of MediaWiki's own caches, and
//! Varnish. Its purpose is described in `labs/mediawiki/README.md`.
//!
//! Invariant: MediaWiki's code is the Debian package's, neither copied nor changed. The content is
//! marked when it is complete, and the next run removes incomplete content.

use super::files::StackFile;
use super::stack::{Stack, StackSite, StackStep};
use super::{database, files, front, php};
use crate::place::output;
use anyhow::Result;
use std::process::Command;

/// The script that makes the content.
const FILL: &str = files::text!("mediawiki/php/fill.php");
/// Directory of MediaWiki's maintenance scripts in Debian's package.
const MAINTENANCE_PATH: &str = "/usr/share/mediawiki/maintenance";

/// The stack.
pub(crate) const STACK: Stack = Stack {
    title: "MediaWiki",
    name: "mediawiki",
    host: "mediawiki.test",
    page: "/wiki/Welcome",
    log_in: "/wiki/Special:UserLogin",
    // nginx and PHP come first: MediaWiki depends on any web server with PHP, and apt would choose
    // Apache if none is installed.
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
            files::verbatim!("conf/PetasosSettings.php", "../integrations/mediawiki/PetasosSettings.php"),
            // Wikitext uses double braces itself.
            StackFile::verbatim("conf/fill.php", FILL),
        ],
    ],
    is_current: |_| true,
    steps: &[
        StackStep::Write,
        database::MAKE,
        database::START,
        StackStep::Make(fill),
        php::START_PLAIN,
        php::START_OPCODE,
        front::start_nginx(&["nginx_plain", "nginx_opcode", "nginx_objects", "nginx_files"]),
        front::START_VARNISH,
    ],
};

/// Installs MediaWiki and makes its content, unless both exist and come from this script and this
/// version of the package.
fn fill(site: &StackSite<'_>) -> Result<()> {
    let version = output(Command::new("dpkg-query").args(["--show", "mediawiki"]))?;
    // The mark is inside the database's directory, so that they are always removed together.
    let mark = site.at("mariadb/filled-by");
    let wanted = format!("{version}\n{FILL}");
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
    // The configuration that the installer writes there is not used, because the lab has its own.
    install.arg(site.render("--confpath={{site}}/tmp", &[])?);
    install.arg(site.render("--passfile={{site}}/conf/admin-password", &[])?);
    site.run("install", install.args(["Petasos lab", "Admin"]))?;
    let mut fill = php::script(site);
    fill.env("MW_CONFIG_FILE", site.at("conf/LocalSettings.php"));
    site.run("fill", fill.arg(site.at("conf/fill.php")).arg(site.at("conf/user-password")))?;
    files::write(&mark, &wanted)
}
