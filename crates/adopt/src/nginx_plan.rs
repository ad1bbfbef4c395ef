//! Plans the changes of nginx's configuration.
//!
//! Each server with a public address keeps its text, except for `listen`, TLS, redirects to https,
//! and variables that tell how a visitor came. A server with addresses of the machine only (127.*,
//! ::1, Unix sockets) is not touched.

use crate::directive::Directive;
use crate::host::{Decision, Fate, Host, Ip, Public, checked_name, is_address};
use crate::nginx::{all, flatten};
use crate::source::{Position, Refusal, Sources, Span};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Files of parameters that the packages bring. They are overridden, not changed.
const PACKAGED: [&str; 4] = ["fastcgi_params", "fastcgi.conf", "uwsgi_params", "scgi_params"];
/// Path of the files that certificate authorities fetch to validate a site.
const CHALLENGES: &str = "/.well-known/acme-challenge";
/// Directives that hand parameters to an application.
const PARAMETERS: [&str; 3] = ["fastcgi_param", "uwsgi_param", "scgi_param"];
/// Directives that count for TLS only and that nginx would still act on.
const TLS_DIRECTIVES: [&str; 5] = ["ssl", "ssl_certificate", "ssl_certificate_key", "http2", "http3"];
/// Variables that tell how the visitor came, and their replacements.
const VARIABLES: [(&str, &str); 3] =
    [("scheme", "petasos_scheme"), ("https", "petasos_https"), ("server_port", "petasos_port")];

/// A server with a public address.
struct Server<'a> {
    directive: &'a Directive,
    listens: Vec<(&'a Directive, Public)>,
    is_default: bool,
    /// Whether it also has TLS at an address of the machine itself, for which its certificates
    /// stay.
    has_private_tls: bool,
}

/// nginx' servers, as they were read.
pub(crate) struct Nginx<'a> {
    /// The directives of all servers.
    http: Vec<&'a Directive>,
    /// The blocks with these directives. None if the file of a site was read alone.
    blocks: Vec<&'a Directive>,
    servers: Vec<Server<'a>>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) tls_1_3_only: bool,
    pub(crate) ports: BTreeSet<u16>,
    pub(crate) notes: Vec<(Option<Position>, String)>,
}

fn flat_block(directive: &Directive) -> Vec<&Directive> {
    flatten(directive.children())
}

fn named<'a>(items: &[&'a Directive], name: &str) -> Option<&'a Directive> {
    items.iter().copied().find(|item| item.name == name)
}

/// Reads the address of a `listen`. Returns nothing for addresses of the machine itself.
fn address(text: &str) -> Result<(Option<Ip>, u16), ()> {
    if text.starts_with("unix:") {
        return Ok((None, 0));
    }
    if let Ok(port) = text.parse() {
        return Ok((Some(Ip::V4), port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.contains(']') => {
            (host, port.parse().map_err(|_| ())?)
        }
        _ => (text, 80),
    };
    let ip = match host {
        "*" | "0.0.0.0" => Some(Ip::V4),
        "[::]" => Some(Ip::V6),
        "localhost" => None,
        _ => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let ip: IpAddr = bare.parse().map_err(|_| ())?;
            (!is_loopback(ip)).then_some(Ip::One(ip))
        }
    };
    Ok((ip, port))
}

/// Whether only this machine can reach the address.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.is_loopback() || ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(Ipv6Addr::LOCALHOST)
}

/// Finds the servers. `items` are those of the main file or of a file that `http` includes.
pub(crate) fn survey<'a>(items: &'a [Directive], sources: &Sources) -> Result<Nginx<'a>, Refusal> {
    let top = flatten(items);
    let blocks: Vec<&Directive> = top.iter().copied().filter(|item| item.name == "http").collect();
    let http: Vec<&Directive> =
        if blocks.is_empty() { top } else { blocks.iter().flat_map(|item| flat_block(item)).collect() };
    let mut nginx = Nginx {
        servers: Vec::new(),
        hosts: Vec::new(),
        trusted_proxies: Vec::new(),
        tls_1_3_only: false,
        ports: BTreeSet::new(),
        notes: Vec::new(),
        http: http.clone(),
        blocks,
    };
    for directive in http.iter().copied().filter(|item| item.name == "server") {
        let Some(server) = nginx.server(directive, sources)? else { continue };
        let host = nginx.host(&server, sources)?;
        nginx.hosts.push(host);
        nginx.servers.push(server);
    }
    Ok(nginx)
}

impl<'a> Nginx<'a> {
    fn server(&mut self, directive: &'a Directive, sources: &Sources) -> Result<Option<Server<'a>>, Refusal> {
        let items = flat_block(directive);
        let is_old_ssl = named(&items, "ssl").is_some_and(|item| item.word(0) == "on");
        let mut server = Server { directive, listens: Vec::new(), is_default: false, has_private_tls: false };
        let mut is_private = false;
        for item in items.iter().copied().filter(|item| item.name == "listen") {
            let (ip, port) = address(item.word(0)).map_err(|()| {
                let problem = format!("`listen {}` is not understood", item.word(0));
                sources.refusal(item.position(), problem, "write a port, or an IP address with a port")
            })?;
            self.ports.insert(port);
            let has = |words: &[&str]| item.words.iter().any(|word| words.contains(&word.text.as_str()));
            if has(&["proxy_protocol"]) {
                let problem = "this address expects a PROXY header";
                let fix =
                    "adopt the site by hand: `proxy_protocol` of a listener names the proxies (docs/tls.md)";
                return Err(sources.refusal(item.position(), problem, fix));
            }
            let Some(ip) = ip else {
                is_private = true;
                server.has_private_tls |= has(&["ssl"]);
                continue;
            };
            let is_dual = item.words.iter().any(|word| word.text == "ipv6only=off");
            let ip = if ip == Ip::V6 && is_dual { Ip::All } else { ip };
            server.is_default |= has(&["default_server", "default"]);
            if has(&["quic"]) {
                let note =
                    "HTTP/3 ends, because Petasos does not have it; remove `Alt-Svc` fields that offer it";
                self.notes.push((Some(item.position()), note.to_owned()));
            }
            let tls = has(&["ssl", "quic"]) || is_old_ssl;
            server.listens.push((item, Public { ip, port, tls }));
        }
        if server.listens.is_empty() && !is_private {
            let problem = "the server has no `listen`";
            return Err(sources.refusal(
                directive.position(),
                problem,
                "add the one that nginx assumes: `listen 80;`",
            ));
        }
        if is_private && !server.listens.is_empty() {
            let note = "keeps its own loopback address beside the new one".to_owned();
            self.notes.push((Some(directive.position()), note));
        }
        Ok((!server.listens.is_empty()).then_some(server))
    }

    fn host(&mut self, server: &Server<'a>, sources: &Sources) -> Result<Host, Refusal> {
        let directive = server.directive;
        let items = flat_block(directive);
        let http = self.http.clone();
        let inherited = |name: &str| named(&items, name).or_else(|| named(&http, name));
        let mut names = BTreeSet::new();
        let mut any_name = server.is_default;
        let given: Vec<_> = items.iter().filter(|item| item.name == "server_name").collect();
        any_name |= given.is_empty();
        for (item, word) in given.iter().flat_map(|item| item.words.iter().map(move |word| (item, word))) {
            if ["_", ""].contains(&word.text.as_str()) {
                any_name = true;
                continue;
            }
            names.extend(checked_name(&word.text).map_err(|(problem, fix)| {
                sources.refusal(Position { file: item.file, offset: word.span.start }, problem, fix)
            })?);
        }
        if let Some(item) = inherited("ssl_verify_client").filter(|item| item.word(0) != "off") {
            let problem = "nginx verifies certificates of visitors, which Petasos cannot";
            return Err(sources.refusal(item.position(), problem, "leave this site with nginx"));
        }
        let paths = |name: &str| -> Result<Vec<String>, Refusal> {
            let own: Vec<_> = items.iter().filter(|item| item.name == name).collect();
            let from =
                if own.is_empty() { http.iter().filter(|item| item.name == name).collect() } else { own };
            let checked = from.into_iter().map(|item| {
                let path = item.word(0);
                if path.starts_with('/') && !path.contains(['$', ',']) {
                    return Ok(path.to_owned());
                }
                let fix = "name a file with its whole path";
                Err(sources.refusal(item.position(), format!("`{path}` is no path of a file"), fix))
            });
            checked.collect()
        };
        let has_tls = server.listens.iter().any(|(_, public)| public.tls);
        let certificates = if has_tls {
            paths("ssl_certificate")?.into_iter().zip(paths("ssl_certificate_key")?).collect()
        } else {
            Vec::new()
        };
        let protocols = inherited("ssl_protocols");
        let is_newest = protocols.is_some_and(|item| item.words.iter().all(|word| word.text == "TLSv1.3"));
        self.tls_1_3_only |= has_tls && is_newest;
        Ok(Host {
            position: directive.position(),
            publics: server.listens.iter().map(|(_, public)| *public).collect(),
            names,
            any_name,
            certificates,
            redirects: !has_tls && redirects(&items),
            root: inherited("root").map(|item| item.word(0).to_owned()).filter(|root| !root.contains('$')),
            content: content(&items),
        })
    }

    /// Records the changes.
    pub(crate) fn change(
        &mut self,
        decision: &Decision,
        loopback: &str,
        sources: &mut Sources,
    ) -> Result<(), Refusal> {
        self.real_ip_at_http(sources)?;
        let servers = std::mem::take(&mut self.servers);
        let mut uses_map = false;
        let has_default = servers
            .iter()
            .zip(&decision.fates)
            .any(|(server, fate)| *fate != Fate::Goes && server.is_default);
        for (server, fate) in servers.iter().zip(&decision.fates) {
            if *fate == Fate::Goes {
                sources.comment_out(server.directive.file, server.directive.span);
                let below = all(server.directive.children());
                let challenges = below
                    .iter()
                    .find(|item| item.word(0).contains(CHALLENGES) || item.word(1).contains(CHALLENGES));
                if let Some(item) = challenges {
                    let note = "has the files by which certificates are renewed: let Petasos renew them, or copy this \
                                `location` to the server with TLS and set `redirect_except`";
                    self.notes.push((Some(item.position()), note.to_owned()));
                }
                continue;
            }
            self.move_server(server, loopback, *fate, sources)?;
            uses_map |= tell_scheme(server.directive, sources);
            self.tell_of(server);
        }
        // Every server has these, unless it has its own. Those that stay at an address of the
        // machine get the usual values, because no X-Forwarded-Proto reaches them.
        for block in &self.blocks {
            uses_map |= tell_block(block, sources);
        }
        let first = servers.iter().zip(&self.hosts).next().filter(|(_, host)| !has_default && !host.any_name);
        if let Some((server, host)) = first {
            let note = format!(
                "nginx answers for unknown hosts as {}; Petasos answers 421 (remove `names` of one site to serve them)",
                host.title()
            );
            self.notes.push((Some(server.directive.position()), note));
        }
        for item in self.http.iter().filter(|item| TLS_DIRECTIVES.contains(&item.name.as_str())) {
            sources.comment_out(item.file, item.span);
        }
        let first = servers.iter().zip(&decision.fates).find(|(_, fate)| **fate != Fate::Goes);
        if uses_map && let Some((first, _)) = first {
            let at = first.directive;
            sources.insert(at.file, at.span.start, maps(decision));
        }
        Ok(())
    }

    /// Adds the proxies that nginx trusts for all servers.
    fn real_ip_at_http(&mut self, sources: &Sources) -> Result<(), Refusal> {
        let items = self.http.clone();
        self.trust(&items, sources)
    }

    fn trust(&mut self, items: &[&Directive], sources: &Sources) -> Result<(), Refusal> {
        let header = named(items, "real_ip_header");
        if let Some(header) = header.filter(|header| !header.word(0).eq_ignore_ascii_case("X-Forwarded-For"))
        {
            let problem = format!("a proxy in front states clients in `{}`", header.word(0));
            let fix =
                "let it set X-Forwarded-For, which Petasos reads, and write `real_ip_header X-Forwarded-For`";
            return Err(sources.refusal(header.position(), problem, fix));
        }
        for item in items.iter().filter(|item| item.name == "set_real_ip_from") {
            let peer = item.word(0).to_owned();
            if peer != "unix:" && !self.trusted_proxies.contains(&peer) {
                if !is_address(&peer) {
                    let problem = format!("the proxy `{peer}` is no IP address");
                    return Err(sources.refusal(item.position(), problem, "write its address or prefix"));
                }
                self.trusted_proxies.push(peer);
                let note = "a proxy is in front; Petasos trusts it in place of nginx".to_owned();
                self.notes.push((Some(item.position()), note));
            }
        }
        Ok(())
    }

    fn move_server(
        &mut self,
        server: &Server<'_>,
        loopback: &str,
        fate: Fate,
        sources: &mut Sources,
    ) -> Result<(), Refusal> {
        let items = flat_block(server.directive);
        self.trust(&items, sources)?;
        let Some(((first, _), others)) = server.listens.split_first() else { return Ok(()) };
        let indent = sources.indent(first.position());
        let default = if server.is_default { " default_server" } else { "" };
        sources.replace(first.file, first.span, format!("listen {loopback}{default};"));
        let mut lines = String::new();
        let mut add = |line: &str| {
            lines.push('\n');
            lines.push_str(&indent);
            lines.push_str(line);
        };
        add("set_real_ip_from 127.0.0.1;");
        if named(&items, "set_real_ip_from").is_none() {
            for item in self.http.iter().filter(|item| item.name == "set_real_ip_from") {
                add(&format!("set_real_ip_from {};", item.word(0)));
            }
        }
        if named(&items, "real_ip_header").is_none() {
            add("real_ip_header X-Forwarded-For;");
        }
        match named(&items, "real_ip_recursive") {
            None => add("real_ip_recursive on;"),
            Some(item) => switch(item, "on", sources),
        }
        match named(&items, "absolute_redirect") {
            None => add("absolute_redirect off;"),
            Some(item) => switch(item, "off", sources),
        }
        if fate == Fate::MovesWithRedirect {
            add("if ($http_x_forwarded_proto = http) { return 301 https://$host$request_uri; }");
        }
        sources.insert(first.file, line_end(first, sources), lines);
        for (other, _) in others {
            sources.comment_out(other.file, other.span);
        }
        let of_tls = items.iter().filter(|item| TLS_DIRECTIVES.contains(&item.name.as_str()));
        for item in of_tls.filter(|_| !server.has_private_tls) {
            sources.comment_out(item.file, item.span);
        }
        Ok(())
    }

    /// Notes directives that need the operator's attention.
    fn tell_of(&mut self, server: &Server<'_>) {
        for item in all(server.directive.children()) {
            let note = match item.name.as_str() {
                "allow" | "deny" | "limit_req" | "limit_conn" => {
                    "counts by the client's address, which nginx now reads from X-Forwarded-For; shared fetches \
                     carry 192.0.2.1 (docs/client-address.md)"
                }
                "proxy_cache" | "fastcgi_cache" | "uwsgi_cache" | "scgi_cache" if item.word(0) != "off" => {
                    "is a second cache behind Petasos: purges do not reach it, so switch it off"
                }
                _ => continue,
            };
            let note = (Some(item.position()), format!("`{}` {note}", item.name));
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// The end of a directive with the comment that follows it in its line.
fn line_end(item: &Directive, sources: &Sources) -> usize {
    let rest = sources.text(item.file).get(item.span.end..).unwrap_or_default();
    let rest = rest.lines().next().unwrap_or_default();
    if rest.trim_start().starts_with('#') { item.span.end + rest.trim_end().len() } else { item.span.end }
}

/// Sets the word of a switch.
fn switch(item: &Directive, value: &str, sources: &mut Sources) {
    if let Some(word) = item.words.first().filter(|word| word.text != value) {
        sources.replace(item.file, word.span, value);
    }
}

/// Whether these directives of a server do nothing but send visitors to https and their own host.
fn redirects(items: &[&Directive]) -> bool {
    let to_https = |item: &Directive| {
        item.name == "return"
            && ["301", "302", "307", "308"].contains(&item.word(0))
            && [
                "https://$host$request_uri",
                "https://$server_name$request_uri",
                "https://$http_host$request_uri",
            ]
            .contains(&item.word(1))
    };
    let harmless = ["listen", "server_name", "access_log", "error_log", "server_tokens", "root", "index"];
    let mut found = false;
    let is_alone = items.iter().all(|item| {
        let inner = flat_block(item);
        let is_redirect = to_https(item)
            || (["if", "location"].contains(&item.name.as_str())
                && !inner.is_empty()
                && inner.iter().all(|item| to_https(item)));
        found |= is_redirect;
        let is_challenge =
            item.name == "location" && item.words.iter().any(|word| word.text.contains(CHALLENGES));
        // certbot writes `return 404` below its redirects, for names that it does not know.
        is_redirect
            || is_challenge
            || harmless.contains(&item.name.as_str())
            || (item.name == "return" && item.word(0) == "404")
    });
    found && is_alone
}

/// The directives of a server that affect its responses, for a comparison.
fn content(items: &[&Directive]) -> Vec<String> {
    let left_out = ["listen", "server_name", "access_log", "error_log"];
    let counts = |item: &&&Directive| {
        let name = item.name.as_str();
        !left_out.contains(&name) && !name.starts_with("ssl") && !name.starts_with("http")
    };
    let mut lines = Vec::new();
    for item in items.iter().filter(counts) {
        let words: Vec<&str> = item.words.iter().map(|word| word.text.as_str()).collect();
        lines.push(format!("{} {}", item.name, words.join(" ")));
        lines.extend(content(&flat_block(item)));
        lines.push("end".to_owned());
    }
    lines
}

/// Lets the application see the scheme and port of the visitor. Returns whether the maps are used.
fn tell_scheme(server: &Directive, sources: &mut Sources) -> bool {
    let below = all(server.children()).into_iter().filter(|item| item.block.is_some());
    std::iter::once(server).chain(below).fold(false, |used, block| tell_block(block, sources) | used)
}

/// As [`tell_scheme`], for the directives of one block without those of the blocks in it.
fn tell_block(block: &Directive, sources: &mut Sources) -> bool {
    let mut used = false;
    let items = flat_block(block);
    let is_packaged = |item: &Directive, sources: &Sources| {
        let path = sources.files.get(item.file).map(|source| source.path.clone()).unwrap_or_default();
        path.file_name().is_some_and(|name| PACKAGED.iter().any(|packaged| name == *packaged))
    };
    for item in &items {
        // The format of a log keeps its variables, as does the name of a file.
        let is_of_log = item.name.ends_with("_log") || item.name == "log_format";
        if !is_of_log && !is_packaged(item, sources) {
            used |= rename_variables(item, sources);
        }
    }
    let Some((_, close)) = &block.block else { return used };
    for kind in PARAMETERS {
        if !items.iter().any(|item| item.name == kind) {
            continue;
        }
        used = true;
        let is_given = |name: &str| {
            items.iter().any(|item| item.name == kind && item.word(0) == name && !is_packaged(item, sources))
        };
        let lines: Vec<String> = [
            ("HTTPS", "$petasos_https if_not_empty"),
            ("REQUEST_SCHEME", "$petasos_scheme"),
            ("SERVER_PORT", "$petasos_port"),
        ]
        .into_iter()
        .filter(|(name, _)| !is_given(name))
        .map(|(name, value)| format!("{kind} {name} {value};"))
        .collect();
        if !lines.is_empty() {
            insert_before_end(block, *close, &lines, sources);
        }
    }
    used
}

/// Inserts lines before the closing brace of a block.
fn insert_before_end(block: &Directive, close: usize, lines: &[String], sources: &mut Sources) {
    let text = sources.text(block.file);
    let line_start = text.get(..close).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let is_own_line = text.get(line_start..close).is_some_and(|before| before.trim().is_empty());
    if is_own_line {
        let indent = sources.indent(Position { file: block.file, offset: close });
        let step = if indent.contains('\t') { "\t" } else { "    " };
        let lines: String = lines.iter().map(|line| format!("{indent}{step}{line}\n")).collect();
        sources.insert(block.file, line_start, lines);
    } else {
        sources.insert(block.file, close, format!("{} ", lines.join(" ")));
    }
}

/// Renames the variables in the words of a directive. Returns whether there was one.
fn rename_variables(item: &Directive, sources: &mut Sources) -> bool {
    let mut found = false;
    for word in &item.words {
        let Some(raw) = sources.text(item.file).get(word.span.start..word.span.end).map(str::to_owned) else {
            continue;
        };
        let mut at = 0;
        while let Some(dollar) = raw.get(at..).and_then(|rest| rest.find('$')).map(|found| at + found) {
            let start =
                dollar + 1 + usize::from(raw.get(dollar + 1..).is_some_and(|rest| rest.starts_with('{')));
            let rest = raw.get(start..).unwrap_or_default();
            let length = rest
                .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
                .unwrap_or(rest.len());
            let name = rest.get(..length).unwrap_or_default();
            if let Some((_, new)) = VARIABLES.iter().find(|(old, _)| *old == name) {
                let from = word.span.start + start;
                sources.replace(item.file, Span { start: from, end: from + length }, *new);
                found = true;
            }
            at = start + length;
        }
    }
    found
}

/// The variables that tell how a visitor came to Petasos.
fn maps(decision: &Decision) -> String {
    let port = |tls: bool, usual: u16| {
        decision.listeners.iter().find(|listener| listener.tls == tls).map_or(usual, |listener| listener.port)
    };
    format!(
        "# How visitors reach Petasos, which states it in X-Forwarded-Proto.\n\
         map $http_x_forwarded_proto $petasos_scheme {{ default $scheme; http http; https https; }}\n\
         map $petasos_scheme $petasos_https {{ default \"\"; https on; }}\n\
         map $http_x_forwarded_proto $petasos_port {{ default $server_port; http {}; https {}; }}\n\n",
        port(false, 80),
        port(true, 443)
    )
}

#[cfg(test)]
mod tests {
    use super::{Ip, address};

    #[test]
    fn addresses_are_read_as_by_nginx() {
        assert_eq!(address("80"), Ok((Some(Ip::V4), 80)));
        assert_eq!(address("*:81"), Ok((Some(Ip::V4), 81)));
        assert_eq!(address("[::]:443"), Ok((Some(Ip::V6), 443)));
        assert_eq!(address("192.0.2.1"), Ok((Some(Ip::One([192, 0, 2, 1].into())), 80)));
        assert_eq!(address("[2001:db8::1]").map(|(_, port)| port), Ok(80));
        for private in ["127.0.0.1:80", "[::1]:80", "localhost:8080", "unix:/run/x", "127.1.2.3"] {
            assert_eq!(address(private).map(|(ip, _)| ip), Ok(None), "{private}");
        }
        for bad in ["$port", "example.org:80", "80:80:80", ""] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
