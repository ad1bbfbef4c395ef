//! Listeners: the addresses that clients connect to, with the protocols and limits there.
//!
//! Invariant: at least one listener exists, and no two have the same address.

use super::{EdgePlan, named};
use crate::ReadFile;
use crate::document::{ConfigDocument, Level};
use crate::levels::SettingLevels;
use crate::setting::{CertificatePaths, CertificateSource, SettingValue};
use address::{Address, Prefixes};
use document::{Diagnostic, Place};
use profiles::Pattern;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// An address where clients connect.
#[derive(Clone, Debug)]
pub struct ListenerPlan {
    /// The address.
    pub address: Address,
    /// How connections are secured. `None`: they are plain.
    pub tls: Option<TlsPlan>,
    /// The proxies whose connections begin with a PROXY header.
    pub proxy_protocol: Prefixes,
    /// How plain requests are redirected to https. `None`: they are not.
    pub redirect: Option<RedirectPlan>,
    /// Whether clients may speak HTTP/2: after TLS has agreed on it, or at once without TLS.
    pub http2: bool,
}

/// How the connections of a listener are secured.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    /// The certificates in files. The first certificate of all serves names that no certificate is
    /// for: from a file, else by ACME, else of the local authority.
    pub certificates: Vec<CertificatePaths>,
    /// The names for which one certificate is obtained by ACME.
    pub acme_names: Vec<String>,
    /// Whether the local authority issues a certificate.
    pub is_internal: bool,
    /// Whether TLS 1.3 is the oldest permitted version; if not, TLS 1.2 is.
    pub is_at_least_1_3: bool,
    /// Where the setting `tls` was written.
    pub place: Place,
}

/// How connections to the admin address are secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTlsPlan {
    /// The certificate of the address.
    pub certificate: CertificatePaths,
    /// The file with the authorities of client certificates. `None`: clients need none.
    pub client_authorities: Option<PathBuf>,
}

/// The redirection of plain requests to https.
#[derive(Clone, Debug)]
pub struct RedirectPlan {
    /// The paths that are served without a redirect.
    pub except: Vec<Pattern>,
}

/// The settings that tell listeners apart. They cannot be defaults for several listeners.
const OF_ONE_LISTENER: [&str; 4] = ["listen", "tls", "proxy_protocol", "redirect_to_https"];

/// The default port of https.
const HTTPS_PORT: u16 = 443;

/// Reads the listeners of the file and of the flags.
pub(super) fn resolve(
    document: &ConfigDocument,
    flags: &Level,
    read: &ReadFile<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Vec<ListenerPlan> {
    if document.listeners.is_empty() {
        return only(&SettingLevels { levels: vec![flags, &document.top] }, read, problems);
    }
    problems.extend(outside(flags, &document.top));
    let tables = document.listeners.iter();
    tables
        .filter_map(|(own, header)| {
            listener(&SettingLevels { levels: vec![own, flags, &document.top] }, header, read, problems)
        })
        .collect()
}

/// The listeners of a file without `[[listener]]`: one, or the usual two if only `tls` is stated.
fn only(
    levels: &SettingLevels<'_>,
    read: &ReadFile<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Vec<ListenerPlan> {
    let header = levels.place("listen").or_else(|| levels.place("tls")).unwrap_or(Place::Default);
    if levels.stated("listen").is_some() || levels.stated("tls").is_none() {
        return listener(levels, &header, read, problems).into_iter().collect();
    }
    let proxies = levels.peers("proxy_protocol", read, problems).unwrap_or_default();
    let (secured, plain) = (everywhere(HTTPS_PORT), everywhere(80));
    vec![
        ListenerPlan {
            tls: tls(levels),
            proxy_protocol: proxies.clone(),
            http2: is_on(levels, "http2"),
            ..ListenerPlan::plain(secured)
        },
        ListenerPlan {
            redirect: Some(redirect(levels)),
            proxy_protocol: proxies,
            http2: is_on(levels, "http2_cleartext"),
            ..ListenerPlan::plain(plain)
        },
    ]
}

/// The address of a port on every address of the machine.
fn everywhere(port: u16) -> Address {
    Address::Ip((std::net::Ipv6Addr::UNSPECIFIED, port).into())
}

fn listener(
    levels: &SettingLevels<'_>,
    header: &Place,
    read: &ReadFile<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Option<ListenerPlan> {
    let redirects = is_on(levels, "redirect_to_https");
    let tls = tls(levels);
    if tls.is_some() && redirects {
        let place = levels.place("redirect_to_https").unwrap_or_else(|| header.clone());
        let problem =
            Diagnostic::new("`redirect_to_https` is for a plain listener, but this one has `tls`", place);
        problems.push(problem.with_help("write it in the [[listener]] of the plain port, usually 80"));
        return None;
    }
    Some(ListenerPlan {
        address: levels.address("listen"),
        http2: is_on(levels, if tls.is_some() { "http2" } else { "http2_cleartext" }),
        tls,
        proxy_protocol: levels.peers("proxy_protocol", read, problems).unwrap_or_default(),
        redirect: redirects.then(|| redirect(levels)),
    })
}

fn is_on(levels: &SettingLevels<'_>, key: &'static str) -> bool {
    levels.value(key) == Some(SettingValue::Switch(true))
}

fn tls(levels: &SettingLevels<'_>) -> Option<TlsPlan> {
    let Some(SettingValue::Certificates(sources)) = levels.value("tls") else { return None };
    let (mut certificates, mut acme_names, mut is_internal) = (Vec::new(), Vec::new(), false);
    for source in sources {
        match source {
            CertificateSource::Files(paths) => certificates.push(paths),
            CertificateSource::Acme(name) if acme_names.contains(&name) => {}
            CertificateSource::Acme(name) => acme_names.push(name),
            CertificateSource::Internal => is_internal = true,
        }
    }
    Some(TlsPlan {
        certificates,
        acme_names,
        is_internal,
        is_at_least_1_3: levels.text("tls_version_min") == Some("1.3"),
        place: levels.place("tls").unwrap_or(Place::Default),
    })
}

fn redirect(levels: &SettingLevels<'_>) -> RedirectPlan {
    RedirectPlan { except: levels.patterns("redirect_except") }
}

/// Refuses settings of one listener outside the `[[listener]]` tables.
fn outside(flags: &Level, top: &Level) -> Vec<Diagnostic> {
    let stated = OF_ONE_LISTENER.iter().filter_map(|key| {
        let located = flags.get(key).or_else(|| top.get(key))?;
        let message = format!("`{key}` is stated outside the [[listener]] tables of the file");
        let problem = Diagnostic::new(message, located.place.clone());
        Some(problem.with_help("write it in the [[listener]] that it belongs to"))
    });
    stated.collect()
}

/// Refuses a listener without an address, and an address that two listeners have.
pub(super) fn clashes(document: &ConfigDocument, listeners: &[ListenerPlan]) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for (level, header) in &document.listeners {
        if !level.contains_key("listen") {
            let problem = Diagnostic::new("the listener has no `listen`, its address", header.clone());
            problems.push(problem.with_help("write listen = \":443\", for example"));
        }
    }
    if !problems.is_empty() {
        return problems;
    }
    for (index, listener) in listeners.iter().enumerate() {
        // With port 0 the system chooses another port for each.
        let is_chosen = listener.address.port() == Some(0);
        let before = listeners.get(..index).unwrap_or_default();
        if !is_chosen && before.iter().any(|other| is_clash(&other.address, &listener.address)) {
            let place = document.listeners.get(index).map_or(Place::Default, |(_, place)| place.clone());
            let message = format!("another listener has the address {} already", listener.address);
            let help = "give each an address of its own; `:PORT` is every address of the machine";
            problems.push(Diagnostic::new(message, place).with_help(help));
        }
    }
    problems
}

/// Whether two listeners cannot both listen: their addresses are equal, or one is every address.
fn is_clash(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Ip(one), Address::Ip(other)) => {
            let is_everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
            one.port() == other.port() && (one.ip() == other.ip() || is_everywhere)
        }
        _ => one == other,
    }
}

impl ListenerPlan {
    /// Whether connections of this peer begin with a PROXY header. `None` is a Unix socket's peer.
    pub fn expects_header(&self, peer: Option<IpAddr>) -> bool {
        self.proxy_protocol.contains(peer.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
    }
}

impl EdgePlan {
    /// The port of https in redirects, if it is not the default port: that of the first listener
    /// with TLS, if none has the default port. Without TLS, another server speaks it there.
    pub fn https_port(&self) -> Option<u16> {
        let secured = self.listeners.iter().filter(|listener| listener.tls.is_some());
        let ports: Vec<u16> = secured.filter_map(|listener| listener.address.port()).collect();
        ports.first().copied().filter(|_| !ports.contains(&HTTPS_PORT))
    }
}

impl AdminTlsPlan {
    /// The settings of the admin address for TLS. `None`: it speaks plain HTTP.
    pub(super) fn resolve(top: &SettingLevels<'_>) -> Option<Self> {
        let Some(SettingValue::Certificate(certificate)) = top.value("admin_certificate") else {
            return None;
        };
        Some(Self { certificate, client_authorities: top.text("admin_client_ca").map(PathBuf::from) })
    }

    /// The settings in a line of `petasos check --print`.
    pub(super) fn explain(&self) -> String {
        let clients = self.client_authorities.as_ref();
        let clients = clients.map(|file| format!(" for clients certified by {}", file.display()));
        format!(" with TLS from 1.3 on with {}{}", self.certificate, clients.unwrap_or_default())
    }
}

impl TlsPlan {
    /// TLS from 1.2 on, with certificates in files.
    pub fn of_files(certificates: Vec<CertificatePaths>) -> Self {
        let acme_names = Vec::new();
        Self { certificates, acme_names, is_internal: false, is_at_least_1_3: false, place: Place::Default }
    }
}

impl ListenerPlan {
    /// A plain listener at this address.
    pub fn plain(address: Address) -> Self {
        Self { address, tls: None, proxy_protocol: Prefixes::default(), redirect: None, http2: false }
    }

    /// The listener as a line of `petasos check --print`.
    pub(super) fn explain(&self) -> String {
        let mut line = format!("listen {}", self.address);
        if let Some(tls) = &self.tls {
            let version = if tls.is_at_least_1_3 { "1.3" } else { "1.2" };
            let files = tls.certificates.iter().map(ToString::to_string);
            let internal = tls.is_internal.then(|| "a certificate of the local authority".to_owned());
            let sources: Vec<_> = files.chain(tls.acme_names.iter().cloned()).chain(internal).collect();
            line.push_str(&format!(", TLS from {version} on with {}", sources.join(" and ")));
        }
        if self.http2 {
            line.push_str(", HTTP/2");
        }
        if !self.proxy_protocol.is_empty() {
            line.push_str(&format!(", PROXY protocol from {}", named(&self.proxy_protocol)));
        }
        if self.redirect.is_some() {
            line.push_str(", redirects to https");
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use crate::{EdgePlan, Machine, Overrides};

    fn load(text: &str, flags: &[(&'static str, &str)]) -> Result<EdgePlan, String> {
        let text = format!("origin = 'http://127.0.0.1:9'\n{text}");
        let flags: Overrides = flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
        let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        crate::load("petasos.toml", &text, &flags, &Machine::of_size(3, 4 << 30), &read)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
    }

    /// The lines of `check --print` about listeners.
    fn lines(text: &str, flags: &[(&'static str, &str)]) -> Vec<String> {
        let explained = load(text, flags).unwrap().explain();
        explained.lines().filter(|line| line.starts_with("listen ")).map(str::to_owned).collect()
    }

    #[test]
    fn listeners_follow_from_listen_and_tls() {
        for (text, flags, expected) in [
            ("", &[][..], &["listen 127.0.0.1:8080"][..]),
            ("", &[("listen", ":8080")], &["listen [::]:8080"]),
            (
                "tls = ['/c.pem,/k.pem']",
                &[],
                &[
                    "listen [::]:443, TLS from 1.2 on with /c.pem,/k.pem, HTTP/2",
                    "listen [::]:80, redirects to https",
                ],
            ),
            (
                "tls_version_min = '1.3'\nhttp2 = false",
                &[("tls", "c.pem,k.pem"), ("listen", "127.0.0.1:8443")],
                &["listen 127.0.0.1:8443, TLS from 1.3 on with c.pem,k.pem"],
            ),
            (
                "[[listener]]\nlisten = ':443'\ntls = ['a.pem', 'b.pem, b.key']\n\
                 [[listener]]\nlisten = ':80'\nredirect_to_https = true\n[[listener]]\nlisten = 'unix:/run/p'\n\
                 http2_cleartext = true",
                &[],
                &[
                    "listen [::]:443, TLS from 1.2 on with a.pem and b.pem,b.key, HTTP/2",
                    "listen [::]:80, redirects to https",
                    "listen unix:/run/p, HTTP/2",
                ],
            ),
        ] {
            assert_eq!(lines(text, flags), expected, "{text} {flags:?}");
        }
    }

    #[test]
    fn contradictory_listeners_are_errors_with_place_and_fix() {
        let two = "[[listener]]\nlisten = ':80'\n[[listener]]\nlisten = ':80'";
        for (text, flags, words) in [
            (two, &[][..], "another listener has the address [::]:80 already"),
            ("[[listener]]\nlisten = ':80'\n[[listener]]\nlisten = '127.0.0.1:80'", &[], "every address"),
            ("tls = []", &[], "`tls`: the list is empty"),
            ("[[listener]]\nredirect_to_https = true", &[], "the listener has no `listen`"),
            ("listen = ':1'\n[[listener]]\nlisten = ':80'", &[], "stated outside the [[listener]] tables"),
            ("[[listener]]\nlisten = ':80'", &[("tls", "a.pem")], "--tls"),
            ("[[listener]]\nlisten = ':80'\nmemory = '1GiB'", &[], "write it at the top of the file"),
            ("[[listener]]\nlisten = ':80'\nttl = '1s'", &[], "is not a setting of a [[listener]]"),
            ("[[site]]\nlisten = ':80'", &[], "write it in a [[listener]]"),
            (
                "tls = ['a.pem']\nlisten = ':1'\nredirect_to_https = true",
                &[],
                "of the plain port, usually 80",
            ),
            ("tls = ['a,b,c']", &[], "neither CERT.pem,KEY.pem nor the path of one file"),
            ("tls = ['a,']", &[], "neither CERT.pem,KEY.pem nor the path of one file"),
            ("tls_version_min = '1.1'", &[], "1.2, 1.3"),
            ("listener = 1", &[], "start each listener with a line [[listener]]"),
        ] {
            let fault = load(text, flags).unwrap_err();
            assert!(fault.contains(words), "{text}: {fault}");
        }
    }

    #[test]
    fn redirects_lead_to_the_port_with_tls() {
        let port = |text: &str| load(text, &[]).unwrap().https_port();
        assert_eq!(port("tls = ['a.pem']"), None, "the default port");
        let other = "[[listener]]\nlisten = ':8443'\ntls = ['a.pem']\n[[listener]]\nlisten = ':80'";
        assert_eq!((port(other), port("")), (Some(8443), None));
        let both = format!("{other}\n[[listener]]\nlisten = ':443'\ntls = ['a.pem']");
        assert_eq!(port(&both), None, "the default port wins");
    }
}
