//! The shape of a row in the settings table, and the values that rows accept.
//!
//! Invariant: a row's default is a text that the row's own kind accepts. A test parses the default
//! of every row.

use crate::certificates;
use crate::origin_member::OriginMember;
use crate::peers::PeerEntry;
use crate::plan::AccessLogTarget;
use address::{Address, HttpUrl};
use document::quantity::{format_duration, format_size, parse_duration, parse_size};
use profiles::{AUTO, Profile};
use request_log::filter::Filter;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Value of `client_address` with which the origin receives the address of the client that leads
/// the fetch.
pub(crate) const LEADER: &str = "leader";

/// The levels of a configuration at which a setting may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    /// At the top of the file only.
    Global,
    /// In a `[[listener]]`, or at the top if the file has none.
    Listener,
    /// In a `[[site]]`, or at the top if the file has none.
    Host,
    /// In a `[[site]]` or `[[site.route]]`, or at the top as the default of every site.
    Site,
    /// In a `[[site.route]]` only.
    Route,
}

impl SettingScope {
    /// The name of the tables that hold settings of this scope.
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Global => "",
            Self::Listener => "listener",
            Self::Host | Self::Site => "site",
            Self::Route => "site.route",
        }
    }

    /// Whether a table of this scope may have settings of the scope `setting`.
    pub(crate) const fn admits(self, setting: Self) -> bool {
        match self {
            Self::Global => !matches!(setting, Self::Route),
            Self::Listener => matches!(setting, Self::Listener),
            Self::Host | Self::Site => matches!(setting, Self::Host | Self::Site),
            Self::Route => matches!(setting, Self::Site | Self::Route),
        }
    }

    /// Advice for a setting of this scope in a table of another scope: the right place for it.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Global => "write it at the top of the file; it applies to all sites and listeners",
            Self::Listener => "write it in a [[listener]], or at the top of the file if there is none",
            Self::Host => "write it in a [[site]], or at the top of the file if there is none",
            Self::Site => "write it in a [[site]], or at the top of the file for all sites",
            Self::Route => "write it in a [[site.route]]; it says which requests the route is for",
        }
    }
}

/// The kind of value that a setting accepts. Counts and ports are TOML integers, switches TOML
/// booleans, lists TOML arrays; all other values are TOML strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A listening address: `127.0.0.1:8080`, `[::1]:8080`, `unix:PATH`.
    Address,
    /// A list of origins: `http://HOST[:PORT]`, `https://HOST[:PORT]` or `unix:PATH`, each with a
    /// weight: see [`OriginMember`].
    Origins,
    /// A duration with a unit: see [`parse_duration`](document::quantity::parse_duration).
    Duration,
    /// A size in bytes with a unit: see [`parse_size`](document::quantity::parse_size).
    Size,
    /// A whole number within bounds, both inclusive.
    Count(u64, u64),
    /// One of the listed whole numbers.
    Numbers(&'static [u64]),
    /// `true` or `false`; its flag needs no value.
    Switch,
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// Any non-empty text.
    Text,
    /// A destination of log lines: see [`AccessLogTarget`].
    LogTarget,
    /// An expression of the filter language: see [`request_log::filter`].
    Filter,
    /// `leader`, or an IP address except a loopback or unspecified one.
    ClientAddress,
    /// `auto`, the name of a shipped profile, or the path of a profile's file. A path contains a
    /// slash or ends in `.toml`.
    Profile,
    /// A list of host names; `*.` before a name means all names below it.
    Hosts,
    /// A list of paths in which `*` matches any run of characters.
    Paths,
    /// A list of request methods.
    Methods,
    /// A list of `Name` or `Name: value`, `*` in the value for any run of characters.
    FieldPatterns,
    /// A list of `name` or `name=value`, `*` for any run of characters.
    CookiePatterns,
    /// A list of header fields, `Name: value`.
    FieldLines,
    /// A list of names of header fields.
    FieldNames,
    /// A list of port numbers, given as TOML integers.
    Ports,
    /// A list of IP addresses, prefixes, and files that contain such lists.
    Peers,
    /// A list of http and https URLs, or paths of them.
    Urls,
    /// A list of paths of files.
    Files,
    /// A list of names in which `*` matches any run of characters.
    Patterns,
    /// A list of some of the listed words. Their order is kept.
    Choices(&'static [&'static str]),
    /// A list of certificates: `CERT.pem,KEY.pem`, one file with both, a host name or `internal`.
    /// Its flag takes one entry, or several host names.
    Certificates,
    /// One certificate: `CERT.pem,KEY.pem`, or one file with both.
    Certificate,
}

/// Where a certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// From files that another program writes.
    Files(CertificatePaths),
    /// From an authority by ACME, for this host name.
    Acme(String),
    /// From the local authority.
    Internal,
}

/// The PEM files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePaths {
    /// The certificate with its chain.
    pub chain: PathBuf,
    /// The private key. May be the same file.
    pub key: PathBuf,
}

/// One row of the settings table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key. A dot separates the name of a TOML table from the key inside it.
    pub key: &'static str,
    /// The levels at which it may be written.
    pub scope: SettingScope,
    /// The values it accepts.
    pub kind: SettingKind,
    /// The default as it would be written in the file. `None`: the setting has no fixed default,
    /// and `doc` states the effect of leaving it out.
    pub default: Option<&'static str>,
    /// The flag of `petasos serve` that sets it, including its dashes.
    pub flag: Option<&'static str>,
    /// The text of the reference: the effect of the setting, and of leaving it out.
    pub doc: &'static str,
}

/// A value that a row accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// Of [`SettingKind::Address`].
    Address(Address),
    /// Of [`SettingKind::Origins`].
    Origins(Vec<OriginMember>),
    /// Of [`SettingKind::Duration`].
    Duration(Duration),
    /// Of [`SettingKind::Size`], in bytes.
    Size(u64),
    /// Of [`SettingKind::Count`].
    Count(u64),
    /// Of [`SettingKind::Switch`].
    Switch(bool),
    /// Of [`SettingKind::Choice`], [`SettingKind::Text`], [`SettingKind::LogTarget`],
    /// [`SettingKind::Filter`], [`SettingKind::ClientAddress`] and [`SettingKind::Profile`].
    Text(String),
    /// Of [`SettingKind::Hosts`], lower case.
    Hosts(Vec<String>),
    /// Of [`SettingKind::Ports`].
    Ports(Vec<u16>),
    /// Of [`SettingKind::Peers`].
    Peers(Vec<PeerEntry>),
    /// Of [`SettingKind::Patterns`], [`SettingKind::Choices`], and the lists of paths, methods,
    /// fields and cookies.
    Texts(Vec<String>),
    /// Of [`SettingKind::Certificates`].
    Certificates(Vec<CertificateSource>),
    /// Of [`SettingKind::Certificate`].
    Certificate(CertificatePaths),
}

impl SettingKind {
    /// The kind's name in messages and in the reference.
    pub fn name(self) -> String {
        match self {
            Self::Address => "address".to_owned(),
            Self::Origins => "origin URL, or a list of them".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Size => "size".to_owned(),
            Self::Count(least, most) => format!("number, {least} to {most}"),
            Self::Numbers(numbers) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" or "),
            Self::Switch => "true or false".to_owned(),
            Self::Choice(words) => words.join(" or "),
            Self::Text => "text".to_owned(),
            Self::LogTarget => "path, -, journald or syslog".to_owned(),
            Self::Filter => "condition".to_owned(),
            Self::ClientAddress => "leader or IP address".to_owned(),
            Self::Profile => format!("{}, or a path", profile_names().join(", ")),
            Self::Hosts => "list of host names, `*.` for all names below one".to_owned(),
            Self::Paths => "list of paths, `*` for any characters".to_owned(),
            Self::Methods => "list of methods".to_owned(),
            Self::FieldPatterns => "list of Name or Name: value, `*` for any characters".to_owned(),
            Self::CookiePatterns => "list of name or name=value, `*` for any characters".to_owned(),
            Self::FieldLines => "list of Name: value".to_owned(),
            Self::FieldNames => "list of field names".to_owned(),
            Self::Ports => "list of ports".to_owned(),
            Self::Peers => "list of IP addresses, prefixes, networks and @FILE".to_owned(),
            Self::Urls => "list of URLs or paths".to_owned(),
            Self::Files => "list of paths of files".to_owned(),
            Self::Patterns => "list of names, `*` for any characters".to_owned(),
            Self::Choices(words) => format!("list of {}", words.join(", ")),
            Self::Certificates => "list of CERT.pem,KEY.pem, host names, or internal".to_owned(),
            Self::Certificate => "CERT.pem,KEY.pem".to_owned(),
        }
    }

    /// The placeholder for a value of this kind in a usage line.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Address => "ADDRESS",
            Self::Origins => "URL",
            Self::Duration => "DURATION",
            Self::Size => "SIZE",
            Self::Count(..) | Self::Numbers(_) => "N",
            Self::Switch => "BOOL",
            Self::Choice(_) | Self::Text | Self::Profile => "NAME",
            Self::ClientAddress => "ADDRESS",
            Self::LogTarget => "TARGET",
            Self::Filter => "CONDITION",
            Self::Hosts => "HOSTS",
            Self::Ports => "PORTS",
            Self::Peers => "ADDRESSES",
            Self::Patterns | Self::Choices(_) | Self::FieldNames | Self::Methods => "NAMES",
            Self::Paths | Self::Files => "PATHS",
            Self::Urls => "URLS",
            Self::FieldPatterns | Self::FieldLines => "FIELDS",
            Self::CookiePatterns => "COOKIES",
            Self::Certificates => "CERT,KEY|HOST",
            Self::Certificate => "CERT,KEY",
        }
    }

    /// Reads one value from its text. For a list, reads one entry and returns a list of one.
    ///
    /// # Errors
    /// A sentence that says which values are accepted.
    pub fn parse(self, text: &str) -> Result<SettingValue, String> {
        match self {
            Self::Address => text
                .parse()
                .map(SettingValue::Address)
                .map_err(|error: address::AddressError| error.to_string()),
            Self::Origins => OriginMember::parse(text).map(|origin| SettingValue::Origins(vec![origin])),
            Self::Duration => parse_duration(text).map(SettingValue::Duration),
            Self::Size => parse_size(text).map(SettingValue::Size),
            Self::Count(least, most) => parse_count(text, least, most).map(SettingValue::Count),
            Self::Numbers(numbers) => {
                let number = text.parse().ok().filter(|number| numbers.contains(number));
                number.map(SettingValue::Count).ok_or_else(|| format!("`{text}` is not {}", self.name()))
            }
            Self::Switch => text
                .parse()
                .map(SettingValue::Switch)
                .map_err(|_| format!("`{text}` is neither true nor false")),
            Self::Choice(words) if words.contains(&text) => Ok(SettingValue::Text(text.to_owned())),
            Self::Choice(words) => Err(format!("`{text}` is not one of: {}", words.join(", "))),
            Self::Text if text.is_empty() => Err("the text is empty".to_owned()),
            Self::Text => Ok(SettingValue::Text(text.to_owned())),
            Self::LogTarget => AccessLogTarget::parse(text).map(|_| SettingValue::Text(text.to_owned())),
            Self::Filter => Filter::parse(text)
                .map(|_| SettingValue::Text(text.to_owned()))
                .map_err(|error| error.to_string()),
            Self::ClientAddress => parse_client_address(text),
            Self::Profile => parse_profile(text),
            Self::Hosts => parse_site_name(text).map(|host| SettingValue::Hosts(vec![host])),
            Self::Paths => parse_path(text).map(one_text),
            Self::Methods => parse_method(text).map(one_text),
            Self::FieldPatterns => parse_field_pattern(text).map(one_text),
            Self::CookiePatterns => parse_cookie_pattern(text).map(one_text),
            Self::FieldLines => parse_field_line(text).map(one_text),
            Self::FieldNames => parse_field_name(text).map(one_text),
            Self::Ports => parse_port(text).map(|port| SettingValue::Ports(vec![port])),
            Self::Peers => PeerEntry::parse(text).map(|peer| SettingValue::Peers(vec![peer])),
            Self::Urls => parse_url(text).map(one_text),
            Self::Files if text.is_empty() => Err("the path is empty".to_owned()),
            Self::Files => Ok(one_text(text.to_owned())),
            Self::Patterns => parse_pattern(text).map(|pattern| SettingValue::Texts(vec![pattern])),
            Self::Choices(words) => {
                Self::Choice(words).parse(text).map(|_| SettingValue::Texts(vec![text.to_owned()]))
            }
            Self::Certificates => certificates::parse(text),
            Self::Certificate => certificates::parse_files(text).map(SettingValue::Certificate),
        }
    }

    /// Whether values of this kind are TOML booleans.
    pub fn is_switch(self) -> bool {
        matches!(self, Self::Switch)
    }

    /// Whether values of this kind are TOML integers.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Count(..) | Self::Numbers(_))
    }

    /// Whether values of this kind are lists.
    pub const fn is_list(self) -> bool {
        matches!(
            self,
            Self::Hosts
                | Self::Origins
                | Self::Paths
                | Self::Methods
                | Self::FieldPatterns
                | Self::CookiePatterns
                | Self::FieldLines
                | Self::FieldNames
                | Self::Ports
                | Self::Peers
                | Self::Urls
                | Self::Files
                | Self::Patterns
                | Self::Choices(_)
                | Self::Certificates
        )
    }

    /// The list of this kind without entries; `None` if the kind has none. An empty list of hosts
    /// means that they are left out, because no table inherits them.
    pub(crate) const fn empty_list(self) -> Option<SettingValue> {
        match self {
            Self::Ports => Some(SettingValue::Ports(Vec::new())),
            Self::Peers => Some(SettingValue::Peers(Vec::new())),
            Self::Hosts | Self::Origins | Self::Certificates => None,
            kind if kind.is_list() => Some(SettingValue::Texts(Vec::new())),
            _ => None,
        }
    }

    /// Whether the entries of a list of this kind are TOML integers.
    pub(crate) fn has_numbers(self) -> bool {
        matches!(self, Self::Ports)
    }
}

impl Setting {
    /// Reads the value of the row's flag. Commas separate the entries of a list, except those of
    /// [`SettingKind::Certificates`], which have commas themselves.
    ///
    /// # Errors
    /// As for [`SettingKind::parse`].
    pub(crate) fn parse_flag(&self, text: &str) -> Result<SettingValue, String> {
        if !self.kind.is_list() || self.kind == SettingKind::Certificates {
            return self.kind.parse(text);
        }
        let mut values = text.split(',').map(|entry| self.kind.parse(entry.trim()));
        let first = values.next().unwrap_or_else(|| self.kind.parse(text))?;
        values.try_fold(first, |list, value| Ok(list.joined(value?)))
    }
}

impl SettingValue {
    /// The value as in a configuration file, including quotes.
    pub fn to_toml(&self) -> String {
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        match self {
            Self::Address(address) => quoted(&address.to_string()),
            Self::Origins(origins) => match &origins[..] {
                [origin] => quoted(&origin.to_string()),
                _ => list(origins.iter().map(|origin| quoted(&origin.to_string())).collect()),
            },
            Self::Duration(duration) => quoted(&format_duration(*duration)),
            Self::Size(bytes) => quoted(&format_size(*bytes)),
            Self::Count(count) => count.to_string(),
            Self::Switch(on) => on.to_string(),
            Self::Text(text) => quoted(text),
            Self::Hosts(hosts) => list(hosts.iter().map(|host| quoted(host)).collect()),
            Self::Ports(ports) => list(ports.iter().map(u16::to_string).collect()),
            Self::Peers(peers) => list(peers.iter().map(|peer| quoted(&peer.to_string())).collect()),
            Self::Texts(texts) => list(texts.iter().map(|text| quoted(text)).collect()),
            Self::Certificate(pair) => quoted(&pair.to_string()),
            Self::Certificates(pairs) => list(pairs.iter().map(|pair| quoted(&pair.to_string())).collect()),
        }
    }

    /// Joins two values of the same list kind. For other kinds, `later` replaces `self`.
    #[must_use]
    pub(crate) fn joined(self, later: Self) -> Self {
        match (self, later) {
            (Self::Hosts(mut hosts), Self::Hosts(more)) => {
                hosts.extend(more);
                Self::Hosts(hosts)
            }
            (Self::Origins(mut origins), Self::Origins(more)) => {
                origins.extend(more);
                Self::Origins(origins)
            }
            (Self::Ports(mut ports), Self::Ports(more)) => {
                ports.extend(more);
                Self::Ports(ports)
            }
            (Self::Peers(mut peers), Self::Peers(more)) => {
                peers.extend(more);
                Self::Peers(peers)
            }
            (Self::Texts(mut texts), Self::Texts(more)) => {
                texts.extend(more);
                Self::Texts(texts)
            }
            (Self::Certificates(mut pairs), Self::Certificates(more)) => {
                pairs.extend(more);
                Self::Certificates(pairs)
            }
            (_, later) => later,
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn parse_count(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let count = text.replace('_', "").parse::<u64>();
    count
        .ok()
        .filter(|count| (least..=most).contains(count))
        .ok_or_else(|| format!("`{text}` is not a whole number from {least} to {most}"))
}

fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{text}` is not a port, which is a number from 1 to 65535"))
}

/// Whether the value of `profile` is a path and not a name.
pub(crate) fn is_path(profile: &str) -> bool {
    profile.contains('/') || profile.ends_with(".toml")
}

fn profile_names() -> Vec<&'static str> {
    std::iter::once(AUTO).chain(Profile::names()).collect()
}

fn parse_profile(text: &str) -> Result<SettingValue, String> {
    let names = profile_names();
    if names.contains(&text) || is_path(text) {
        return Ok(SettingValue::Text(text.to_owned()));
    }
    Err(format!(
        "`{text}` is not one of: {}; a file of your own is a path, such as ./my.toml",
        names.join(", ")
    ))
}

/// Reads the value of `client_address`. Addresses of this machine are refused: with one, a shared
/// fetch would receive pages that the origin shows to this machine only.
fn parse_client_address(text: &str) -> Result<SettingValue, String> {
    if text == LEADER {
        return Ok(SettingValue::Text(text.to_owned()));
    }
    let address: IpAddr =
        text.parse().map_err(|_| format!("`{text}` is neither `{LEADER}` nor an IP address"))?;
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return Err(format!(
            "`{text}` is an address of this machine; use one that belongs to nobody, such as 192.0.2.1"
        ));
    }
    Ok(SettingValue::Text(address.to_string()))
}

/// Reads the name of a cookie or field, or a pattern for several. A lone `*` is refused because it
/// would match every name.
fn parse_pattern(text: &str) -> Result<String, String> {
    let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b';' | b'=' | b'"');
    if text.bytes().all(|byte| byte == b'*') || !text.bytes().all(legal) {
        return Err(format!("`{text}` is not the name of a cookie or field, nor a pattern for some"));
    }
    Ok(text.to_owned())
}

/// Reads a URL, or the path of one.
fn parse_url(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && !text.starts_with("//");
    if !is_path {
        HttpUrl::parse(text).map_err(|error| error.to_string())?;
    }
    Ok(text.to_owned())
}

fn one_text(text: String) -> SettingValue {
    SettingValue::Texts(vec![text])
}

/// Reads a name of a site: a host name, or `*.` and a host name for all names below it.
fn parse_site_name(text: &str) -> Result<String, String> {
    match text.strip_prefix("*.") {
        Some(parent) => {
            let parent = parse_host(parent)?;
            if parent.starts_with('[') {
                return Err(format!("`{text}`: there are no names below an address"));
            }
            Ok(format!("*.{parent}"))
        }
        None if text.contains('*') => {
            Err(format!("`{text}`: `*` may only be the first label, as in *.example.org"))
        }
        None => parse_host(text),
    }
}

/// Reads a path or a pattern for paths.
fn parse_path(text: &str) -> Result<String, String> {
    if !text.starts_with(['/', '*']) || text.contains(['?', '#']) {
        return Err(format!(
            "`{text}` is not a path: it begins with `/`, and has neither query nor fragment"
        ));
    }
    if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return Err(format!("`{text}`: write `*` in place of white space"));
    }
    if text.contains('%') {
        return Err(format!(
            "`{text}`: write the characters themselves, because Petasos compares decoded paths"
        ));
    }
    if text.contains("//") || text.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(format!(
            "`{text}` matches no request, because Petasos compares paths without `//`, `.` and `..`"
        ));
    }
    Ok(text.to_owned())
}

fn parse_method(text: &str) -> Result<String, String> {
    let is_method = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if is_method {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a method, such as GET or POST"))
    }
}

fn parse_field_name(text: &str) -> Result<String, String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(legal) {
        return Err(format!("`{text}` is not the name of a field"));
    }
    Ok(text.to_owned())
}

/// Reads `Name: value`. Returns it with one space after the colon.
fn parse_field_line(text: &str) -> Result<String, String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("`{text}` is not `Name: value`"))?;
    let (name, value) = (parse_field_name(name)?, value.trim());
    if value.is_empty() || value.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err(format!("`{text}`: the value is empty or has control characters"));
    }
    Ok(format!("{name}: {value}"))
}

/// Reads `Name` or `Name: value`. Responses list the name in `Vary`, so it is no pattern.
fn parse_field_pattern(text: &str) -> Result<String, String> {
    let name = text.split(':').next().unwrap_or_default();
    if name.contains('*') {
        return Err(format!("`{text}`: `*` may only be in the value"));
    }
    if text.contains(':') { parse_field_line(text) } else { parse_field_name(text) }
}

fn parse_cookie_pattern(text: &str) -> Result<String, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "*"));
    parse_pattern(name)?;
    if value.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b';') {
        return Err(format!("`{text}`: the value has characters that no cookie can have"));
    }
    Ok(text.to_owned())
}

/// Reads a host name without a port. Returns it in lower case (RFC 9110 section 4.2.3) and without
/// a final dot, because requests are compared in this form.
pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':');
    if text.trim_end_matches('.').is_empty()
        || !text.bytes().all(legal)
        || (text.contains(':') && !text.starts_with('['))
    {
        return Err(format!("`{text}` is not a host name without a port"));
    }
    Ok(text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::{SettingKind, SettingValue};

    #[test]
    fn counts_keep_to_their_bounds() {
        let kind = SettingKind::Count(1, 10);
        assert_eq!(kind.parse("10"), Ok(SettingValue::Count(10)));
        assert!(kind.parse("0").is_err() && kind.parse("11").is_err() && kind.parse("-1").is_err());
    }

    #[test]
    fn a_switch_is_on_or_off() {
        assert_eq!(SettingKind::Switch.parse("true"), Ok(SettingValue::Switch(true)));
        assert_eq!(SettingKind::Switch.parse("yes").unwrap_err(), "`yes` is neither true nor false");
    }

    #[test]
    fn client_address_is_never_one_of_this_machine() {
        for good in ["leader", "192.0.2.1", "2001:db8::1"] {
            assert_eq!(SettingKind::ClientAddress.parse(good), Ok(SettingValue::Text(good.to_owned())));
        }
        for bad in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "follower", ""] {
            assert!(SettingKind::ClientAddress.parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_profile_is_a_name_or_a_path() {
        for text in ["auto", "default", "wordpress", "./my.toml", "my.toml", "/etc/petasos/shop"] {
            assert_eq!(SettingKind::Profile.parse(text), Ok(SettingValue::Text(text.to_owned())));
        }
        assert!(SettingKind::Profile.parse("wordpres").unwrap_err().contains("./my.toml"));
    }

    #[test]
    fn site_may_have_all_names_below_one() {
        let hosts = |name: &str| Ok(SettingValue::Hosts(vec![name.to_owned()]));
        assert_eq!(SettingKind::Hosts.parse("*.Example.org."), hosts("*.example.org"));
        for bad in ["*", "*.", "a.*.org", "**.org", "*example.org", "*.[::1]"] {
            assert!(SettingKind::Hosts.parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn entries_of_routes_are_checked() {
        for (kind, good, bad) in [
            (
                SettingKind::Paths,
                vec!["/", "/a/*", "*.php"],
                vec!["a", "", "/a?b", "/%61", "/a//b", "/a/../b"],
            ),
            (SettingKind::Methods, vec!["GET", "M-SEARCH"], vec!["", "get", "GE T"]),
            (SettingKind::FieldPatterns, vec!["X-A", "X-A: *b"], vec!["", "X A", "X-A:", ": b", "X-*"]),
            (SettingKind::CookiePatterns, vec!["a", "a=b*", "a_*"], vec!["", "*", "a=b;c", "a b"]),
            (SettingKind::FieldLines, vec!["X-A: b: c"], vec!["X-A", "X-A:", "X-A: a\nb", "X A: b"]),
            (SettingKind::FieldNames, vec!["X-A"], vec!["", "X-A: b"]),
        ] {
            good.iter().for_each(|text| assert!(kind.parse(text).is_ok(), "{text}"));
            bad.iter().for_each(|text| assert!(kind.parse(text).is_err(), "{text}"));
        }
        let line = SettingValue::Texts(vec!["X-A: b".to_owned()]);
        assert_eq!(SettingKind::FieldLines.parse("X-A:  b "), Ok(line));
    }

    #[test]
    fn hosts_are_lowercased_and_refuse_ports() {
        for text in ["Example.ORG", "example.org."] {
            assert_eq!(
                SettingKind::Hosts.parse(text),
                Ok(SettingValue::Hosts(vec!["example.org".to_owned()])),
                "{text}"
            );
        }
        assert!(SettingKind::Hosts.parse("example.org:80").is_err());
        assert!(SettingKind::Hosts.parse(".").is_err());
        assert!(SettingKind::Hosts.parse("exam ple").is_err());
    }
}
