//! The WordPress lab: MariaDB, PHP-FPM without and with opcode cache, nginx before both, Varnish before the
//! latter, and a WordPress filled by its own functions. What it is for stands in `labs/wordpress/README.md`.
//!
//! Invariant: everything lives in one directory and on loopback ports that were free; no file of the system is
//! written, no service of the system is used; each step can be repeated after a crash in the middle of any.

mod files;
mod setup;

use crate::account::Account;
use crate::packages;
use crate::place;
use crate::service::{Place, Service};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Packages of the stack. nginx and PHP come first: WordPress wants some web server with PHP, and would take
/// Apache if it found none.
const PACKAGES: [&[&str]; 2] = [
    &[
        "mariadb-server",
        "nginx-core",
        "php",
        "php-apcu",
        "php-curl",
        "php-mbstring",
        "php-mysql",
        "php-xml",
        "php8.2-cli",
        "php8.2-fpm",
        "php8.2-opcache",
        "varnish",
    ],
    &["wordpress", "wordpress-theme-twentytwentythree"],
];
/// The servers in the order in which they are started.
const NAMES: [&str; 5] = ["mariadb", "php-plain", "php-opcode", "nginx", "varnish"];
/// The site's public name, the same at every address.
const HOST: &str = "wordpress.test";
/// How long one request for a page may take while the lab starts; the first one compiles everything.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer to a check that is read, in bytes.
const HEAD_BYTES_MAX: usize = 64;

/// The loopback addresses of one lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Ports {
    /// nginx before PHP without opcode cache.
    nginx_plain: SocketAddr,
    /// nginx before PHP with opcode cache.
    nginx_opcode: SocketAddr,
    /// Varnish before `nginx_opcode`.
    varnish: SocketAddr,
}

/// What a ladder may use as variables, and people may read: `lab.toml`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Variables {
    host: String,
    #[serde(flatten)]
    ports: Ports,
    site: String,
    mariadb_socket: String,
    mariadb_pid: String,
    php_plain_pid: String,
    php_opcode_pid: String,
    nginx_pid: String,
    varnish_pid: String,
    admin_user: String,
    admin_password: String,
}

/// Installs what is missing and starts the lab below `dir`; does nothing if it is up already.
///
/// # Errors
/// Names the step that failed and shows the last lines of its log. What was started is stopped again.
pub(crate) fn up(dir: &Path) -> Result<()> {
    let lists: Vec<&[&str]> = PACKAGES.to_vec();
    packages::ensure_in_order(&lists)?;
    let _lock = place::lock(dir)?;
    let place = Place::settle(dir)?;
    if let Some(variables) = variables(dir).filter(|variables| is_up(&place, variables)) {
        eprintln!("the WordPress lab is up already");
        return show(dir, &place, &variables);
    }
    stop_all(&place, dir)?;
    let variables = start_all(dir, &place).inspect_err(|_| {
        // The reason of the failure matters more than what is left of the attempt; `down` tries again.
        let _ = stop_all(&place, dir);
    })?;
    show(dir, &place, &variables)
}

/// Stops everything that `up` started. The files stay, so that the next `up` takes seconds.
///
/// # Errors
/// If a server does not end.
pub(crate) fn down(dir: &Path) -> Result<()> {
    if !dir.join("site").exists() {
        eprintln!("the WordPress lab is not up");
        return Ok(());
    }
    let _lock = place::lock(dir)?;
    let stopped = stop_all(&Place::settle(dir)?, dir)?;
    eprintln!("the WordPress lab {}", if stopped { "is stopped" } else { "is not up" });
    Ok(())
}

/// Prints what runs, and where.
///
/// # Errors
/// If anything of the lab does not run or does not answer.
pub(crate) fn status(dir: &Path) -> Result<()> {
    let not_up = "the WordPress lab is not up: `cargo xtask lab wordpress up` starts it";
    let variables = variables(dir).context(not_up)?;
    let place = Place::find(dir, Account::for_servers()?)?;
    show(dir, &place, &variables)?;
    ensure!(
        is_up(&place, &variables),
        "a part of the lab does not run: `cargo xtask lab wordpress up` starts it again"
    );
    Ok(())
}

fn variables(dir: &Path) -> Option<Variables> {
    toml::from_str(&fs::read_to_string(dir.join("lab.toml")).ok()?).ok()
}

/// Whether every server runs, with the configuration of this version, and every address answers.
fn is_up(place: &Place, variables: &Variables) -> bool {
    let Ports { nginx_plain, nginx_opcode, varnish } = variables.ports;
    services(place, &variables.ports).iter().all(|service| place.is_running(service))
        && files::are_current(place, &variables.ports)
        && [nginx_plain, nginx_opcode, varnish].into_iter().all(answers)
}

/// Stops the servers, the last started first. Returns whether any ran.
fn stop_all(place: &Place, dir: &Path) -> Result<bool> {
    let mut any = false;
    for name in NAMES.iter().rev() {
        any |= place.stop(name)?;
    }
    match fs::remove_file(dir.join("lab.toml")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("cannot remove lab.toml: {error}")
        }
        _ => Ok(any),
    }
}

fn start_all(dir: &Path, place: &Place) -> Result<Variables> {
    let [nginx_plain, nginx_opcode, varnish] = place::free_addresses()?;
    let ports = Ports { nginx_plain, nginx_opcode, varnish };
    setup::copy_wordpress(place)?;
    files::write_all(place, &ports)?;
    let admin_password = files::secrets(place)?;
    setup::make_database(place)?;
    let [mariadb, php_plain, php_opcode, nginx, varnish] = services(place, &ports);
    let socket = |name: &str| place.directory.join("run").join(name);
    let listens = |path: PathBuf| move || UnixStream::connect(&path).is_ok();
    // A socket that a killed server left would look like a listening one's to the server itself.
    for name in ["mariadb.sock", "php-plain.sock", "php-opcode.sock"] {
        let _ = fs::remove_file(socket(name));
    }
    place.start(&mariadb, listens(socket("mariadb.sock")))?;
    setup::fill(place)?;
    place.start(&php_plain, listens(socket("php-plain.sock")))?;
    place.start(&php_opcode, listens(socket("php-opcode.sock")))?;
    place.start(&nginx, || answers(ports.nginx_plain) && answers(ports.nginx_opcode))?;
    place.start(&varnish, || answers(ports.varnish))?;
    let pid = |name: &str| {
        place.running(name).map(|pid| pid.to_string()).with_context(|| format!("{name} ended at once"))
    };
    let variables = Variables {
        host: HOST.to_owned(),
        ports,
        site: place.directory.display().to_string(),
        mariadb_socket: socket("mariadb.sock").display().to_string(),
        mariadb_pid: pid("mariadb")?,
        php_plain_pid: pid("php-plain")?,
        php_opcode_pid: pid("php-opcode")?,
        nginx_pid: pid("nginx")?,
        varnish_pid: pid("varnish")?,
        admin_user: "admin".to_owned(),
        admin_password,
    };
    write_variables(dir, &variables)?;
    Ok(variables)
}

/// The password is in it: for the caller alone.
fn write_variables(dir: &Path, variables: &Variables) -> Result<()> {
    let path = dir.join("lab.toml");
    let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(toml::to_string(variables)?.as_bytes())?;
    Ok(())
}

fn services(place: &Place, ports: &Ports) -> [Service; 5] {
    let at = |path: &str| place.directory.join(path).display().to_string();
    let php = |pool: &str, opcache: &str| {
        let conf = at(&format!("conf/php-{pool}.conf"));
        let ini = at("conf/php.ini");
        format!(
            "php-fpm8.2 --nodaemonize --fpm-config {conf} --php-ini {ini} --define opcache.enable={opcache}"
        )
    };
    let commands = [
        format!("mariadbd --defaults-file={}", at("conf/my.cnf")),
        php("plain", "0"),
        php("opcode", "1"),
        format!("nginx -p {} -c {}", at("tmp"), at("conf/nginx.conf")),
        format!(
            "varnishd -F -T none -n {} -f {} -a {} -s malloc,128m -p http_gzip_support=off",
            at("varnish"),
            at("conf/varnish.vcl"),
            ports.varnish
        ),
    ];
    // No path has a space in it: `Place::settle` saw to that.
    let words = |command: String| command.split(' ').map(str::to_owned).collect();
    let mut names = NAMES.into_iter();
    commands.map(|command| Service { name: names.next().unwrap_or_default(), command: words(command) })
}

/// Whether the front page is there.
fn answers(address: SocketAddr) -> bool {
    let status = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, PAGE_TIMEOUT)?;
        stream.set_read_timeout(Some(PAGE_TIMEOUT))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; HEAD_BYTES_MAX];
        stream.read_exact(&mut head)?;
        Ok(head.starts_with(b"HTTP/1.1 200 "))
    };
    status().unwrap_or(false)
}

/// Prints what runs, and where.
fn show(dir: &Path, place: &Place, variables: &Variables) -> Result<()> {
    let Ports { nginx_plain, nginx_opcode, varnish } = variables.ports;
    let nginx = format!("http://{nginx_plain}/ (no opcode cache), http://{nginx_opcode}/ (opcode cache)");
    let wheres = [
        variables.mariadb_socket.clone(),
        format!("{}/run/php-plain.sock", variables.site),
        format!("{}/run/php-opcode.sock", variables.site),
        nginx,
        format!("http://{varnish}/ (before nginx with opcode cache)"),
    ];
    let mut out = std::io::stdout().lock();
    for (name, whereabouts) in NAMES.iter().zip(wheres) {
        let state = place.running(name).map_or_else(|| "stopped".to_owned(), |pid| format!("process {pid}"));
        writeln!(out, "{name:<11} {state:<15} {whereabouts}")?;
    }
    writeln!(out, "{:<11} {HOST}; as a header: curl -H 'Host: {HOST}' http://{nginx_opcode}/", "host")?;
    writeln!(
        out,
        "{:<11} http://{nginx_opcode}/wp-login.php as {}, password in lab.toml",
        "log-in", variables.admin_user
    )?;
    writeln!(out, "{:<11} {}", "variables", dir.join("lab.toml").display())?;
    writeln!(out, "{:<11} {}", "files, logs", variables.site)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Ports, Variables};
    use std::net::{Ipv4Addr, SocketAddr};

    #[test]
    fn variables_are_a_flat_table_of_strings() {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let text = |text: &str| text.to_owned();
        let variables = Variables {
            host: text("h"),
            ports: Ports { nginx_plain: at(1), nginx_opcode: at(2), varnish: at(3) },
            site: text("/s"),
            mariadb_socket: text("/s/m"),
            mariadb_pid: text("4"),
            php_plain_pid: text("5"),
            php_opcode_pid: text("6"),
            nginx_pid: text("7"),
            varnish_pid: text("8"),
            admin_user: text("a"),
            admin_password: text("p"),
        };
        let written = toml::to_string(&variables).unwrap();
        let table: toml::Table = written.parse().unwrap();
        assert!(table.values().all(toml::Value::is_str), "{written}");
        assert_eq!(table.get("nginx_opcode").and_then(toml::Value::as_str), Some("127.0.0.1:2"));
        assert_eq!(toml::from_str::<Variables>(&written).unwrap(), variables);
    }
}
