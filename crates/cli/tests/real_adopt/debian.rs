//! The configurations of Debian's packages of nginx and Apache with PHP-FPM, as after the
//! installation, with the lines of the packages' documentation about PHP.
//!
//! Invariant: only paths and ports differ from the installed files, so that the test needs neither
//! the machine's ports nor its directories.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Files of nginx that the default site uses.
const NGINX_FILES: [&str; 6] = [
    "fastcgi.conf",
    "fastcgi_params",
    "mime.types",
    "nginx.conf",
    "sites-available/default",
    "snippets/fastcgi-php.conf",
];

/// Modules of Apache that the packages enable, with PHP-FPM and the modules that `adopt` needs.
const APACHE_MODULES: [&str; 23] = [
    "access_compat",
    "alias",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "autoindex",
    "deflate",
    "dir",
    "env",
    "filter",
    "mime",
    "mpm_event",
    "negotiation",
    "proxy",
    "proxy_fcgi",
    "remoteip",
    "reqtimeout",
    "rewrite",
    "setenvif",
    "status",
];

/// Files of settings that the packages of Apache enable.
const APACHE_SETTINGS: [&str; 5] =
    ["charset", "localized-error-pages", "other-vhosts-access-log", "security", "serve-cgi-bin"];

/// Copies a file of a package to `etc`, with these texts replaced.
fn copy(from: &Path, path: &Path, name: &str, replaced: &[(&str, String)]) {
    let source = from.join(name);
    let text = fs::read_to_string(&source)
        .unwrap_or_else(|error| panic!("{}: {error}; install Debian's package", source.display()));
    let text = replaced.iter().fold(text, |text, (old, new)| text.replace(old, new));
    let to = path.join("etc").join(name);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, text).unwrap();
}

/// nginx with its default site. The block for PHP is no comment any more.
pub(crate) fn write_nginx(path: &Path, port: u16) {
    let shown = path.display();
    let replaced = [
        ("/etc/nginx/", format!("{shown}/etc/")),
        ("/run/nginx.pid", format!("{shown}/pid")),
        ("/var/log/nginx", format!("{shown}/tmp")),
        ("/var/www/html", format!("{shown}/root")),
        ("80 default_server", format!("{port} default_server")),
        ("\t#location ~ \\.php$ {\n\t#\tinclude", "\tlocation ~ \\.php$ {\n\t\tinclude".to_owned()),
        (
            "\t#\tfastcgi_pass unix:/run/php/php7.4-fpm.sock;",
            format!("\t\tfastcgi_pass unix:{shown}/php.sock;"),
        ),
        ("\t#\tfastcgi_pass 127.0.0.1:9000;\n\t#}", "\t#\tfastcgi_pass 127.0.0.1:9000;\n\t}".to_owned()),
    ];
    for name in NGINX_FILES {
        copy(Path::new("/etc/nginx"), path, name, &replaced);
    }
    symlink("../sites-available/default", path.join("etc/sites-enabled/default")).unwrap();
}

/// Apache with its default site, and the settings of PHP-FPM's package.
pub(crate) fn write_apache(path: &Path, port: u16) {
    let shown = path.display();
    let from = Path::new("/etc/apache2");
    let replaced = [
        ("#ServerRoot \"/etc/apache2\"", format!("ServerRoot \"{shown}/etc\"")),
        ("<Directory /var/www/>", format!("<Directory {shown}/root/>")),
        ("/var/www/html", format!("{shown}/root")),
        ("Listen 80\n", format!("Listen {port}\n")),
        ("<VirtualHost *:80>", format!("<VirtualHost *:{port}>")),
        // The other port of the packages is not free on every machine.
        ("Listen 443", String::new()),
    ];
    for name in ["apache2.conf", "ports.conf", "magic", "sites-available/000-default.conf"] {
        copy(from, path, name, &replaced);
    }
    for name in ["mods-enabled", "conf-enabled"] {
        fs::create_dir_all(path.join("etc").join(name)).unwrap();
    }
    let enable = |kind: &str, name: &str| {
        let target = format!("../{kind}-available/{name}");
        symlink(target, path.join(format!("etc/{kind}-enabled/{name}"))).unwrap();
    };
    for name in APACHE_MODULES {
        for name in [format!("{name}.load"), format!("{name}.conf")] {
            if from.join("mods-available").join(&name).exists() {
                copy(from, path, &format!("mods-available/{name}"), &[]);
                enable("mods", &name);
            }
        }
    }
    for name in APACHE_SETTINGS {
        copy(from, path, &format!("conf-available/{name}.conf"), &[]);
        enable("conf", &format!("{name}.conf"));
    }
    let settings = fs::read_dir(from.join("conf-available")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut settings = settings.map(|name| name.into_string().unwrap());
    let name = settings.find(|name| name.starts_with("php") && name.ends_with("-fpm.conf"));
    let name = name.unwrap_or_else(|| panic!("PHP is missing: install Debian's php-fpm"));
    let socket = format!("/run/php/{}.sock", name.trim_end_matches(".conf"));
    copy(from, path, &format!("conf-available/{name}"), &[(&socket, format!("{shown}/php.sock"))]);
    enable("conf", &name);
    symlink("../sites-available/000-default.conf", path.join("etc/sites-enabled/000-default.conf")).unwrap();
}

/// The variables of Apache's `envvars`.
pub(crate) fn apache_variables(path: &Path) -> Vec<(&'static str, String)> {
    let shown = path.display();
    vec![
        ("APACHE_RUN_USER", "www-data".to_owned()),
        ("APACHE_RUN_GROUP", "www-data".to_owned()),
        ("APACHE_PID_FILE", format!("{shown}/pid")),
        ("APACHE_RUN_DIR", format!("{shown}/tmp")),
        ("APACHE_LOCK_DIR", format!("{shown}/tmp")),
        ("APACHE_LOG_DIR", format!("{shown}/tmp")),
    ]
}
