//! Plans the changes of Apache's configuration.
//!
//! The public `Listen` directives become one at the loopback address, and each public virtual host
//! moves there. Its text stays, except for TLS, redirects to https, and the server name that Apache
//! puts into its redirects.

use crate::apache::Apache;
use crate::directive::Directive;
use crate::host::is_address;
use crate::host::{Decision, Fate, Host, Ip, Public, checked_name};
use crate::nginx_plan::is_loopback;
use crate::source::{Position, Refusal, Sources, Span};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Directives that need TLS in Apache itself.
const TLS_DIRECTIVES: [&str; 5] =
    ["sslengine", "sslcertificatefile", "sslcertificatekeyfile", "sslcertificatechainfile", "sslrequiressl"];

/// An address of `Listen` or `<VirtualHost>`. No port means all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    /// Nothing for an address of the machine itself.
    ip: Option<Ip>,
    port: Option<u16>,
}

/// Apache's virtual hosts, as they were read.
pub(crate) struct ApacheHosts<'a> {
    apache: &'a Apache,
    /// The public ones.
    listens: Vec<&'a Directive>,
    sections: Vec<&'a Directive>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) tls_1_3_only: bool,
    pub(crate) ports: BTreeSet<u16>,
    pub(crate) notes: Vec<(Option<Position>, String)>,
}

fn address(text: &str) -> Result<Address, ()> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, if port == "*" { None } else { Some(port.parse().map_err(|_| ())?) })
        }
        _ => match text.parse() {
            Ok(port) => ("*", Some(port)),
            Err(_) => (text, None),
        },
    };
    let ip = match host {
        "*" | "_default_" => Some(Ip::All),
        "0.0.0.0" => Some(Ip::V4),
        "[::]" => Some(Ip::V6),
        "localhost" => None,
        _ => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let ip: IpAddr = bare.parse().map_err(|_| ())?;
            (!is_loopback(ip)).then_some(Ip::One(ip))
        }
    };
    Ok(Address { ip, port })
}

fn named<'a>(items: &[&'a Directive], name: &str) -> Option<&'a Directive> {
    items.iter().copied().find(|item| item.name == name)
}

/// Finds the public addresses and virtual hosts.
pub(crate) fn survey<'a>(apache: &'a Apache, sources: &Sources) -> Result<ApacheHosts<'a>, Refusal> {
    let top = apache.flatten(&apache.items);
    let mut found = ApacheHosts {
        apache,
        listens: Vec::new(),
        sections: Vec::new(),
        hosts: Vec::new(),
        trusted_proxies: Vec::new(),
        tls_1_3_only: false,
        ports: BTreeSet::new(),
        notes: Vec::new(),
    };
    let mut open: Vec<(Address, bool)> = Vec::new();
    for item in top.iter().copied().filter(|item| item.name == "listen") {
        let address = found.address(item, 0, sources)?;
        found.ports.extend(address.port);
        let is_https = item.word(1).eq_ignore_ascii_case("https");
        if address.ip.is_some() {
            found.listens.push(item);
            open.push((address, is_https));
        }
    }
    found.trust(&top, sources)?;
    for item in top.iter().copied().filter(|item| item.name == "virtualhost") {
        found.section(item, &top, &open, sources)?;
    }
    Ok(found)
}

impl<'a> ApacheHosts<'a> {
    fn address(&self, item: &Directive, word: usize, sources: &Sources) -> Result<Address, Refusal> {
        let text = self.apache.expand(item.word(word));
        address(&text).map_err(|()| {
            let problem = format!("the address `{text}` is not understood");
            sources.refusal(item.position(), problem, "write a port, or an IP address with a port")
        })
    }

    fn section(
        &mut self,
        section: &'a Directive,
        top: &[&'a Directive],
        open: &[(Address, bool)],
        sources: &Sources,
    ) -> Result<(), Refusal> {
        let items = self.apache.flatten(section.children());
        let has_tls =
            named(&items, "sslengine").is_some_and(|item| !item.word(0).eq_ignore_ascii_case("off"));
        let mut publics = Vec::new();
        let mut is_private = false;
        for number in 0..section.words.len() {
            let address = self.address(section, number, sources)?;
            let Some(ip) = address.ip else {
                is_private = true;
                continue;
            };
            let ports: Vec<(u16, Ip)> = match address.port {
                // A site alone was read, without the file that has the Listen directives.
                Some(port) if open.is_empty() => vec![(port, ip)],
                _ => {
                    let on = open
                        .iter()
                        .filter(|(listen, _)| address.port.is_none() || listen.port == address.port);
                    on.filter_map(|(listen, _)| {
                        let narrower = if ip == Ip::All { listen.ip? } else { ip };
                        Some((listen.port?, narrower))
                    })
                    .collect()
                }
            };
            if ports.is_empty() {
                let note = "Apache listens at no port of this virtual host, so it stays as it is".to_owned();
                self.notes.push((Some(section.position()), note));
            }
            publics.extend(ports.into_iter().map(|(port, ip)| Public { ip, port, tls: has_tls }));
        }
        if publics.is_empty() {
            return Ok(());
        }
        if is_private {
            let problem = "the virtual host has a public address and one of the machine itself";
            return Err(sources.refusal(section.position(), problem, "write two virtual hosts"));
        }
        self.trust(&items, sources)?;
        let host = self.host(section, &items, top, publics, has_tls, sources)?;
        self.hosts.push(host);
        self.sections.push(section);
        Ok(())
    }

    fn host(
        &mut self,
        section: &'a Directive,
        items: &[&'a Directive],
        top: &[&'a Directive],
        publics: Vec<Public>,
        has_tls: bool,
        sources: &Sources,
    ) -> Result<Host, Refusal> {
        let mut names = BTreeSet::new();
        let given: Vec<_> =
            items.iter().filter(|item| ["servername", "serveralias"].contains(&item.name.as_str())).collect();
        for (item, word) in given.iter().flat_map(|item| item.words.iter().map(move |word| (item, word))) {
            let text = self.apache.expand(&word.text);
            let text = text.trim_start_matches("https://").trim_start_matches("http://");
            let text = text.split(':').next().unwrap_or(text);
            names.extend(checked_name(text).map_err(|(problem, fix)| {
                sources.refusal(Position { file: item.file, offset: word.span.start }, problem, fix)
            })?);
        }
        let verifies =
            named(items, "sslverifyclient").filter(|item| !item.word(0).eq_ignore_ascii_case("none"));
        if let Some(item) = verifies {
            let problem = "Apache verifies certificates of visitors, which Petasos cannot";
            return Err(sources.refusal(item.position(), problem, "leave this site with Apache"));
        }
        let inherited = |name: &str| named(items, name).or_else(|| named(top, name));
        if let Some(item) = named(items, "sslcertificatechainfile") {
            let problem = "the chain of the certificate is in a file of its own";
            let fix = "write certificate and chain into one file, and name it in SSLCertificateFile";
            return Err(sources.refusal(item.position(), problem, fix));
        }
        let mut certificates = Vec::new();
        let files = items.iter().filter(|item| item.name == "sslcertificatefile");
        for (number, file) in files.enumerate().filter(|_| has_tls) {
            let keys = items.iter().filter(|item| item.name == "sslcertificatekeyfile");
            let key = keys.clone().nth(number).map_or_else(|| file.word(0), |key| key.word(0));
            for path in [file.word(0), key] {
                if !path.starts_with('/') || path.contains(['$', ',']) {
                    let problem = format!("`{path}` is no path of a file");
                    return Err(sources.refusal(file.position(), problem, "name a file with its whole path"));
                }
            }
            certificates.push((file.word(0).to_owned(), key.to_owned()));
        }
        let newest = inherited("sslprotocol")
            .is_some_and(|item| item.words.iter().map(|word| word.text.as_str()).eq(["TLSv1.3"]));
        self.tls_1_3_only |= has_tls && newest;
        // Apache's first host of an address answers for names that no host has.
        let any_name = named(items, "servername").is_none() && names.is_empty();
        Ok(Host {
            position: section.position(),
            publics,
            names,
            any_name,
            certificates,
            redirects: !has_tls && redirects(items),
            root: inherited("documentroot").map(|item| self.apache.expand(item.word(0))),
            content: self.content(section.children()),
        })
    }

    /// Adds the proxies that Apache trusts.
    fn trust(&mut self, items: &[&Directive], sources: &Sources) -> Result<(), Refusal> {
        let header = named(items, "remoteipheader");
        if let Some(header) = header.filter(|header| !header.word(0).eq_ignore_ascii_case("X-Forwarded-For"))
        {
            let problem = format!("a proxy in front states clients in `{}`", header.word(0));
            let fix =
                "let it set X-Forwarded-For, which Petasos reads, and write `RemoteIPHeader X-Forwarded-For`";
            return Err(sources.refusal(header.position(), problem, fix));
        }
        if let Some(item) =
            named(items, "remoteipproxyprotocol").filter(|item| !item.word(0).eq_ignore_ascii_case("off"))
        {
            let fix =
                "adopt the site by hand: `proxy_protocol` of a listener names the proxies (docs/tls.md)";
            return Err(sources.refusal(item.position(), "this address expects a PROXY header", fix));
        }
        if let Some(item) =
            items.iter().find(|item| item.name.starts_with("remoteip") && item.name.ends_with("proxylist"))
        {
            let fix = "write the addresses with RemoteIPInternalProxy";
            return Err(sources.refusal(item.position(), "the proxies in front are in a file", fix));
        }
        let proxies = items
            .iter()
            .filter(|item| ["remoteipinternalproxy", "remoteiptrustedproxy"].contains(&item.name.as_str()));
        for (item, word) in proxies.flat_map(|item| item.words.iter().map(move |word| (item, word))) {
            if !self.trusted_proxies.contains(&word.text) {
                if !is_address(&word.text) {
                    let problem = format!("the proxy `{}` is no IP address", word.text);
                    return Err(sources.refusal(item.position(), problem, "write its address or prefix"));
                }
                self.trusted_proxies.push(word.text.clone());
                let note = "a proxy is in front; Petasos trusts it in place of Apache".to_owned();
                self.notes.push((Some(item.position()), note));
            }
        }
        Ok(())
    }

    /// The directives of a section that affect its responses, for a comparison.
    fn content(&self, items: &[Directive]) -> Vec<String> {
        let left_out = ["servername", "serveralias", "serveradmin", "errorlog", "customlog", "loglevel"];
        let mut lines = Vec::new();
        for item in self.apache.flatten(items) {
            if left_out.contains(&item.name.as_str()) || item.name.starts_with("ssl") {
                continue;
            }
            let inner = self.content(item.children());
            if item.block.is_some() && inner.is_empty() {
                continue;
            }
            let words: Vec<&str> = item.words.iter().map(|word| word.text.as_str()).collect();
            lines.push(format!("{} {}", item.name, words.join(" ")));
            lines.extend(inner);
            lines.push("end".to_owned());
        }
        lines
    }

    /// Records the changes.
    pub(crate) fn change(&mut self, decision: &Decision, loopback: &str, sources: &mut Sources) {
        if let Some((first, others)) = self.listens.split_first() {
            sources.replace(first.file, first.span, format!("Listen {loopback}"));
            for other in others {
                sources.comment_out(other.file, other.span);
            }
        } else {
            let note = format!(
                "the `Listen` directives are in another file: write `Listen {loopback}` in their place"
            );
            self.notes.push((None, note));
        }
        let sections = std::mem::take(&mut self.sections);
        let hosts = std::mem::take(&mut self.hosts);
        for ((section, host), fate) in sections.iter().zip(&hosts).zip(&decision.fates) {
            if *fate == Fate::Goes {
                sources.comment_out(section.file, section.span);
                continue;
            }
            self.move_section(section, host, decision, *fate, loopback, sources);
        }
        let is_first_named = hosts.iter().zip(&decision.fates).find(|(_, fate)| **fate != Fate::Goes);
        if let Some((host, _)) = is_first_named.filter(|_| !hosts.iter().any(|host| host.any_name)) {
            let note = format!(
                "Apache answers for unknown hosts as {}; Petasos answers 421 (remove `names` of one site to serve them)",
                host.title()
            );
            self.notes.push((Some(host.position), note));
        }
        self.hosts = hosts;
        if !self.apache.has_module("remoteip") {
            self.notes.push((None, "the new lines need the modules remoteip and setenvif".to_owned()));
        }
        let note = "in `LogFormat`, `%a` logs the client's address; redirects to https in .htaccess files must test \
                    %{HTTP:X-Forwarded-Proto} instead of %{HTTPS}";
        self.notes.push((None, note.to_owned()));
    }

    fn move_section(
        &mut self,
        section: &Directive,
        host: &Host,
        decision: &Decision,
        fate: Fate,
        loopback: &str,
        sources: &mut Sources,
    ) {
        if let (Some(first), Some(last)) = (section.words.first(), section.words.last()) {
            sources.replace(section.file, Span { start: first.span.start, end: last.span.end }, loopback);
        }
        let items = self.apache.flatten(section.children());
        let tls = host.publics.iter().find(|public| public.tls);
        let (scheme, port) = match (tls, host.publics.first()) {
            (Some(public), _) => ("https", public.port),
            // Another host without TLS had the same contents, so visitors come both ways.
            (None, Some(public)) => ("http", public.port),
            (None, None) => ("http", 80),
        };
        let mut lines = Vec::new();
        if let Some(item) = named(&items, "servername") {
            let name = self.apache.expand(item.word(0));
            let bare =
                name.rsplit("://").next().unwrap_or(&name).split(':').next().unwrap_or_default().to_owned();
            if let Some(word) = item.words.first() {
                sources.replace(item.file, word.span, format!("{scheme}://{bare}:{port}"));
            }
        } else {
            lines.push(format!("ServerName {scheme}://localhost:{port}"));
        }
        if named(&items, "remoteipheader").is_none() {
            lines.push("RemoteIPHeader X-Forwarded-For".to_owned());
        }
        // A list of a virtual host replaces that of the server.
        let proxies = std::iter::once("127.0.0.1").chain(self.trusted_proxies.iter().map(String::as_str));
        lines.push(format!("RemoteIPInternalProxy {}", proxies.collect::<Vec<_>>().join(" ")));
        if decision.listeners.iter().any(|listener| listener.tls) {
            lines.push("SetEnvIf X-Forwarded-Proto \"^https$\" HTTPS=on".to_owned());
        }
        if fate == Fate::MovesWithRedirect {
            lines.push("RewriteEngine On".to_owned());
            lines.push("RewriteCond %{HTTP:X-Forwarded-Proto} =http".to_owned());
            lines.push("RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [END,NE,R=301]".to_owned());
        }
        insert_lines(section, &lines, sources);
        let mut open = section.children().iter().collect::<Vec<_>>();
        while let Some(item) = open.pop() {
            open.extend(item.children().iter().chain(&item.included));
            if TLS_DIRECTIVES.contains(&item.name.as_str()) {
                sources.comment_out(item.file, item.span);
            }
            if item.name == "rewritecond" && item.word(0).contains("%{HTTPS}") {
                test_forwarded_scheme(item, sources);
            }
            self.tell_of(item);
        }
    }

    /// Notes directives that need the operator's attention.
    fn tell_of(&mut self, item: &Directive) {
        let note = match item.name.as_str() {
            "require" if ["ip", "local", "host"].contains(&item.word(0)) || item.word(1) == "ip" => {
                "counts by the client's address, which Apache now reads from X-Forwarded-For; shared fetches carry \
                 192.0.2.1 (docs/client-address.md)"
            }
            "cacheenable" => "is a second cache behind Petasos: purges do not reach it, so switch it off",
            _ => return,
        };
        let note = (Some(item.position()), format!("`{}` {note}", item.name));
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Inserts lines before the end tag of a section.
fn insert_lines(section: &Directive, lines: &[String], sources: &mut Sources) {
    let Some((_, close)) = &section.block else { return };
    let indent = sources.indent(Position { file: section.file, offset: *close });
    let step = section.children().first().map(|child| {
        let inner = sources.indent(child.position());
        inner.strip_prefix(&indent).unwrap_or("\t").to_owned()
    });
    let step = step.filter(|step| !step.is_empty()).unwrap_or_else(|| "\t".to_owned());
    let line_start =
        sources.text(section.file).get(..*close).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let text: String = lines.iter().map(|line| format!("{indent}{step}{line}\n")).collect();
    sources.insert(section.file, line_start, text);
}

/// Makes a condition on TLS test the X-Forwarded-Proto of Petasos.
fn test_forwarded_scheme(item: &Directive, sources: &mut Sources) {
    let (Some(subject), Some(value)) = (item.words.first(), item.words.get(1)) else { return };
    let new = match value.text.trim_matches('^').trim_matches('$').to_ascii_lowercase().as_str() {
        "off" | "=off" | "!=on" | "!on" | "!^on" => "!=https",
        "on" | "=on" | "!=off" | "!off" => "=https",
        _ => return,
    };
    sources.replace(item.file, subject.span, subject.text.replace("%{HTTPS}", "%{HTTP:X-Forwarded-Proto}"));
    sources.replace(item.file, value.span, new);
}

/// Whether these directives send every visitor to https and the own host.
fn redirects(items: &[&Directive]) -> bool {
    let name = named(items, "servername").map(|item| item.word(0).to_owned()).unwrap_or_default();
    items.iter().any(|item| match item.name.as_str() {
        "redirect" | "redirectpermanent" => {
            let path = item.words.len().checked_sub(2).map_or("", |number| item.word(number));
            let target = item.words.last().map_or("", |word| &word.text);
            path == "/" && target.trim_end_matches('/') == format!("https://{name}")
        }
        "rewriterule" => {
            let whole = ["^", "^/?(.*)", "^(.*)$", "(.*)", ".*", "^/(.*)$", "^.*$", "^/?(.*)$"];
            let own = ["https://%{SERVER_NAME}", "https://%{HTTP_HOST}"];
            whole.contains(&item.word(0)) && own.iter().any(|own| item.word(1).starts_with(own))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{Address, Ip, address};

    #[test]
    fn addresses_are_read_as_by_apache() {
        assert_eq!(address("80"), Ok(Address { ip: Some(Ip::All), port: Some(80) }));
        assert_eq!(address("_default_:443"), Ok(Address { ip: Some(Ip::All), port: Some(443) }));
        assert_eq!(address("*"), Ok(Address { ip: Some(Ip::All), port: None }));
        assert_eq!(address("0.0.0.0:80"), Ok(Address { ip: Some(Ip::V4), port: Some(80) }));
        assert_eq!(address("[::]:80"), Ok(Address { ip: Some(Ip::V6), port: Some(80) }));
        for private in ["127.0.0.1:80", "[::1]:80", "localhost:80"] {
            assert_eq!(address(private).map(|address| address.ip), Ok(None), "{private}");
        }
        for bad in ["example.org:80", "*:http", "${PORT}"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
