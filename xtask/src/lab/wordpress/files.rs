//! The files of the WordPress lab: the templates of `labs/wordpress/`, with this lab's paths and addresses put
//! in, and the secrets that are drawn once.
//!
//! Invariant: a secret is drawn once and stays. It starts nothing.

use super::Ports;
use crate::place::render;
use crate::service::Place;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::io::Read;

/// Bytes from the system's random source in each secret.
const SECRET_BYTES: usize = 32;
/// The keys and salts that WordPress signs its cookies with.
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

/// A file of the lab: its path below the lab's directory, its template, what is put in beside the general.
type Template = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Everything that is rendered at each `up`.
const TEMPLATES: [Template; 10] = [
    ("conf/my.cnf", include_str!("../../../../labs/wordpress/conf/my.cnf"), &[]),
    ("conf/php.ini", include_str!("../../../../labs/wordpress/conf/php.ini"), &[]),
    (
        "conf/php-plain.conf",
        include_str!("../../../../labs/wordpress/conf/php-fpm.conf"),
        &[("pool", "plain")],
    ),
    (
        "conf/php-opcode.conf",
        include_str!("../../../../labs/wordpress/conf/php-fpm.conf"),
        &[("pool", "opcode")],
    ),
    ("conf/nginx.conf", include_str!("../../../../labs/wordpress/conf/nginx.conf"), &[]),
    ("conf/nginx-site.conf", include_str!("../../../../labs/wordpress/conf/nginx-site.conf"), &[]),
    ("conf/varnish.vcl", include_str!("../../../../labs/wordpress/conf/varnish.vcl"), &[]),
    ("conf/fill.php", include_str!("../../../../labs/wordpress/php/fill.php"), &[]),
    ("wordpress/wp-config.php", include_str!("../../../../labs/wordpress/php/wp-config.php"), &[]),
    (
        "wordpress/wp-content/mu-plugins/lab-headers.php",
        include_str!("../../../../labs/wordpress/php/lab-headers.php"),
        &[],
    ),
];

/// Whether the files are what this version of the lab would write.
pub(super) fn are_current(place: &Place, ports: &Ports) -> bool {
    let same = |(path, text): &(&str, String)| {
        fs::read_to_string(place.directory.join(path)).is_ok_and(|found| found == *text)
    };
    render_all(place, ports).is_ok_and(|files| files.iter().all(same))
}

/// Writes every file.
///
/// # Errors
/// Names the file that cannot be written.
pub(super) fn write_all(place: &Place, ports: &Ports) -> Result<()> {
    for (path, text) in render_all(place, ports)? {
        place.write(path, &text)?;
    }
    Ok(())
}

/// Draws the administrator's password and WordPress' salts, unless they are there. Returns the password.
///
/// # Errors
/// Names the file that cannot be read or written.
pub(super) fn secrets(place: &Place) -> Result<String> {
    let password_path = place.directory.join("conf/admin-password");
    if !password_path.exists() {
        place.write("conf/admin-password", &secret()?)?;
    }
    if !place.directory.join("wordpress/wp-secrets.php").exists() {
        let mut text = "<?php\n".to_owned();
        for name in SALTS {
            writeln!(text, "define( '{name}', '{}' );", secret()?)?;
        }
        place.write("wordpress/wp-secrets.php", &text)?;
    }
    fs::read_to_string(&password_path).with_context(|| format!("cannot read {}", password_path.display()))
}

fn render_all(place: &Place, ports: &Ports) -> Result<Vec<(&'static str, String)>> {
    let site = place.directory.to_str().context("the directory's name is not text")?;
    let (nginx_plain, nginx_opcode, opcode_port) = (
        ports.nginx_plain.to_string(),
        ports.nginx_opcode.to_string(),
        ports.nginx_opcode.port().to_string(),
    );
    let general = [
        ("site", site),
        ("nginx_plain", &nginx_plain),
        ("nginx_opcode", &nginx_opcode),
        ("nginx_opcode_host", "127.0.0.1"),
        ("nginx_opcode_port", &opcode_port),
    ];
    TEMPLATES
        .iter()
        .map(|(path, template, own)| Ok((*path, render(template, &[&general, *own].concat())?)))
        .collect()
}

/// Letters and digits that nobody can guess.
fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::render_all;
    use crate::account::Account;
    use crate::lab::wordpress::Ports;
    use crate::service::Place;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::path::PathBuf;

    /// The rendered files are compared with `rendered.txt` beside this file; after a wanted change write it
    /// anew from this test's failure output.
    #[test]
    fn the_files_are_as_approved() {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let ports = Ports { nginx_plain: at(1001), nginx_opcode: at(1002), varnish: at(1003) };
        let place = Place { directory: PathBuf::from("/lab/site"), account: Account::Caller };
        let lines = |(path, text): (&str, String)| {
            let filled = text
                .lines()
                .filter(|line| line.contains("/lab/site") || line.contains("100") || line.contains("opcode"));
            filled.map(|line| format!("{path}: {}\n", line.trim())).collect::<String>()
        };
        let rendered: String = render_all(&place, &ports).unwrap().into_iter().map(lines).collect();
        let approved = include_str!("rendered.txt");
        assert!(rendered == approved, "rendered files differ from rendered.txt; they are now:\n{rendered}");
    }
}
