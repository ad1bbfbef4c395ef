//! The configuration file of Petasos for adopted hosts.

use crate::host::{Decision, Fate, Host, Listener};
use crate::source::{Refusal, Sources};
use crate::system::System;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The inputs of the file `petasos.toml`.
pub(crate) struct Parts<'a> {
    pub(crate) server: &'static str,
    pub(crate) hosts: &'a [Host],
    pub(crate) decision: &'a Decision,
    pub(crate) loopback: &'a str,
    pub(crate) trusted_proxies: &'a [String],
    pub(crate) tls_1_3_only: bool,
    /// The system of each host.
    pub(crate) systems: &'a [Option<System>],
}

/// A string of TOML. Strings of JSON are strings of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// Writes the file.
pub(crate) fn write(parts: &Parts<'_>, sources: &Sources) -> Result<String, Refusal> {
    let mut text = format!(
        "# Petasos in front of {} at {}. Written by `petasos adopt`.\n\n\
         # Stored pages outlive a restart with a directory that Petasos may write to:\n\
         # disk = \"/var/cache/petasos\"\n\
         # disk_size = \"2GiB\"\n",
        parts.server, parts.loopback
    );
    if !parts.trusted_proxies.is_empty() {
        let _ = write!(
            text,
            "\n# Proxies in front, which {} trusted before.\ntrusted_proxies = {}\n",
            parts.server,
            list(parts.trusted_proxies)
        );
    }
    for listener in &parts.decision.listeners {
        write_listener(&mut text, parts, listener, sources)?;
    }
    let moved = parts.hosts.iter().zip(&parts.decision.fates).zip(parts.systems);
    for ((host, _), system) in moved.filter(|((_, fate), _)| **fate != Fate::Goes) {
        let (below, exact): (Vec<&String>, Vec<&String>) =
            host.names.iter().partition(|name| name.starts_with('*'));
        let mut site = |names: Option<&[&String]>| {
            text.push_str("\n[[site]]\n");
            if let Some(names) = names {
                let _ = writeln!(text, "names = {}", list(names));
            }
            let _ = writeln!(text, "origin = {}", quoted(&format!("http://{}", parts.loopback)));
            if let Some(system) = system {
                let _ = writeln!(text, "profile = {}", quoted(system.profile));
            }
        };
        // The site without names also serves the names of its host.
        if host.any_name {
            site(None);
        } else {
            for names in [exact, below].iter().filter(|names| !names.is_empty()) {
                site(Some(names));
            }
        }
    }
    Ok(text)
}

fn write_listener(
    text: &mut String,
    parts: &Parts<'_>,
    listener: &Listener,
    sources: &Sources,
) -> Result<(), Refusal> {
    let _ = write!(text, "\n[[listener]]\nlisten = {}\n", quoted(&listener.address));
    if !listener.tls {
        if parts.decision.redirect_to_https {
            text.push_str("redirect_to_https = true\n");
            text.push_str("# If certbot renews by files of the site, let its requests through:\n");
            text.push_str("# redirect_except = [\"/.well-known/acme-challenge/*\"]\n");
        }
        return Ok(());
    }
    let with_tls = parts.hosts.iter().filter(|host| host.publics.iter().any(|public| public.tls));
    let mut certificates: Vec<&(String, String)> = Vec::new();
    let mut names = BTreeSet::new();
    for host in with_tls {
        if host.certificates.is_empty() {
            let fix = "name the files of certificate and key";
            return Err(sources.refusal(host.position, "the host has TLS without a certificate", fix));
        }
        for certificate in &host.certificates {
            if !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
        names.extend(host.names.iter().filter(|name| !name.starts_with('*')));
    }
    let is_certbot = certificates.iter().any(|(certificate, _)| certificate.contains("/letsencrypt/live/"));
    let files = certificates.iter().map(|(certificate, key)| {
        if certificate == key { certificate.clone() } else { format!("{certificate},{key}") }
    });
    if is_certbot {
        text.push_str(
            "# The files of certbot, which goes on renewing them. The user of Petasos must be able to\n",
        );
        text.push_str("# read them: `petasos doctor` says whether it can.\n");
    }
    let _ = writeln!(text, "tls = {}", list(files));
    if !names.is_empty() {
        text.push_str(
            "# Or let Petasos obtain and renew a certificate itself. By that you agree to the terms\n",
        );
        let _ = writeln!(text, "# of Let's Encrypt:\n# tls = {}", list(names));
    }
    if parts.tls_1_3_only {
        text.push_str("tls_version_min = \"1.3\"\n");
    }
    Ok(())
}
