//! Versions and cipher suites of TLS, by the names that OpenSSL's tools use.
//!
//! Invariant: a list contains only supported suites. To choose an unsupported suite is an error,
//! and the message lists the supported ones. This module only parses names; it does not use
//! connections.

use std::fmt;
use std::str::FromStr;

/// A supported version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// The suites to offer, by their registered numbers and in order of preference; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSuites(Vec<u16>);

/// Why a text is not a list of suites.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsSuitesError {
    /// A name or keyword that matches no suite.
    #[error("`{0}` is no cipher suite that is available; available are {names}", names = names())]
    Unknown(String),
    /// A command in the list, such as `@STRENGTH`.
    #[error("`{0}` in a list of cipher suites is not supported; name the suites in the order wanted")]
    Command(String),
    /// A list that removes every suite again, or is empty.
    #[error("`{0}` leaves no cipher suite; available are {names}", names = names())]
    Nothing(String),
}

/// The properties of a suite.
struct SuiteProperties {
    /// The number in the IANA registry.
    code: u16,
    /// The name in the registry; for TLS 1.3 as the TLS library writes it.
    registered: &'static str,
    version: TlsVersion,
    name: &'static str,
    /// Length of the cipher's key in bits.
    bits: u16,
    /// Keywords of the classes that the suite belongs to, in addition to [`ALL`].
    classes: &'static [&'static str],
}

/// Keywords that mean every supported suite.
const ALL: [&str; 3] = ["ALL", "DEFAULT", "HIGH"];

/// Every suite of the TLS library, in OpenSSL's order of preference.
const SUITES: [SuiteProperties; 9] = [
    SuiteProperties::of13(
        0x1302,
        "TLS13_AES_256_GCM_SHA384",
        "TLS_AES_256_GCM_SHA384",
        256,
        &["AES", "AESGCM", "AES256"],
    ),
    SuiteProperties::of13(
        0x1303,
        "TLS13_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        256,
        &["CHACHA20"],
    ),
    SuiteProperties::of13(
        0x1301,
        "TLS13_AES_128_GCM_SHA256",
        "TLS_AES_128_GCM_SHA256",
        128,
        &["AES", "AESGCM", "AES128"],
    ),
    SuiteProperties::of12(
        0xc02c,
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aECDSA", "ECDSA", "AES", "AESGCM", "AES256"],
    ),
    SuiteProperties::of12(
        0xc030,
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aRSA", "AES", "AESGCM", "AES256"],
    ),
    SuiteProperties::of12(
        0xcca9,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aECDSA", "ECDSA", "CHACHA20"],
    ),
    SuiteProperties::of12(
        0xcca8,
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aRSA", "CHACHA20"],
    ),
    SuiteProperties::of12(
        0xc02b,
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        128,
        &["ECDHE", "EECDH", "kECDHE", "aECDSA", "ECDSA", "AES", "AESGCM", "AES128"],
    ),
    SuiteProperties::of12(
        0xc02f,
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        128,
        &["ECDHE", "EECDH", "kECDHE", "aRSA", "AES", "AESGCM", "AES128"],
    ),
];

impl SuiteProperties {
    const fn of13(
        code: u16,
        registered: &'static str,
        name: &'static str,
        bits: u16,
        classes: &'static [&'static str],
    ) -> Self {
        Self { code, registered, version: TlsVersion::Tls13, name, bits, classes }
    }

    const fn of12(
        code: u16,
        registered: &'static str,
        name: &'static str,
        bits: u16,
        classes: &'static [&'static str],
    ) -> Self {
        Self { code, registered, version: TlsVersion::Tls12, name, bits, classes }
    }

    /// Whether `name` is a name of this suite, or of a class or version that it belongs to.
    fn is_called(&self, name: &str) -> bool {
        let registered = self.registered == name;
        let is_version = self.version.name() == name;
        registered || is_version || self.name == name || ALL.contains(&name) || self.classes.contains(&name)
    }
}

impl TlsVersion {
    /// Both versions, the newest first.
    pub const ALL: [Self; 2] = [Self::Tls13, Self::Tls12];

    /// The name as OpenSSL writes it, such as `TLSv1.3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

impl TlsSuites {
    /// Whether at least one suite belongs to this version.
    pub fn serves(&self, version: TlsVersion) -> bool {
        self.0.iter().filter_map(|&code| known(code)).any(|suite| suite.version == version)
    }

    /// The registered numbers of the suites, in order of preference.
    pub fn codes(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }
}

/// OpenSSL's name of a suite, and the length of its cipher's key in bits; `None` if it is not
/// supported. `code` is the suite's registered number.
pub fn name_and_bits(code: u16) -> Option<(&'static str, u16)> {
    known(code).map(|suite| (suite.name, suite.bits))
}

fn known(code: u16) -> Option<&'static SuiteProperties> {
    SUITES.iter().find(|known| known.code == code)
}

/// The names of all suites, for error messages.
fn names() -> String {
    SUITES.map(|suite| suite.name).join(", ")
}

impl FromStr for TlsSuites {
    type Err = TlsSuitesError;

    /// Parses a list as OpenSSL's `ciphers` does.
    ///
    /// Names or keywords are separated by `:`, `,` or spaces. `A+B` means the suites that belong to
    /// both. Before a name, `!` removes its suites for good, and `-` removes them until a later
    /// item adds them again. `+` moves them to the end. Unlike in OpenSSL, one list covers both
    /// versions: without a suite of TLS 1.3, it does not offer TLS 1.3.
    fn from_str(text: &str) -> Result<Self, TlsSuitesError> {
        let mut chosen = Vec::new();
        let mut banned = Vec::new();
        for item in text.split([':', ',', ' ']).filter(|item| !item.is_empty()) {
            if item.starts_with('@') {
                return Err(TlsSuitesError::Command(item.to_owned()));
            }
            let name = item.trim_start_matches(['!', '-', '+']);
            let meant: Vec<u16> = SUITES
                .iter()
                .filter(|suite| name.split('+').all(|name| suite.is_called(name)))
                .map(|suite| suite.code)
                .collect();
            match item.as_bytes().first() {
                // Removing a suite outside the list is no error.
                Some(b'!' | b'-') => {
                    chosen.retain(|code| !meant.contains(code));
                    if item.starts_with('!') {
                        banned.extend(meant);
                    }
                }
                Some(b'+') => chosen.sort_by_key(|code| meant.contains(code)),
                _ if meant.is_empty() => return Err(TlsSuitesError::Unknown(item.to_owned())),
                _ => {
                    let new = |code: &u16| !chosen.contains(code) && !banned.contains(code);
                    let new: Vec<u16> = meant.into_iter().filter(new).collect();
                    chosen.extend(new);
                }
            }
        }
        if chosen.is_empty() { Err(TlsSuitesError::Nothing(text.to_owned())) } else { Ok(Self(chosen)) }
    }
}

impl fmt::Display for TlsSuites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.0.iter().filter_map(|&code| known(code)).map(|suite| suite.name).collect();
        f.write_str(&names.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::{TlsSuites, TlsSuitesError, TlsVersion};

    fn chosen(text: &str) -> String {
        text.parse::<TlsSuites>().unwrap().to_string()
    }

    #[test]
    fn lists_are_parsed_as_openssl_does() {
        assert_eq!(
            chosen("ECDHE-RSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256"),
            "ECDHE-RSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256"
        );
        assert_eq!(
            chosen("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 CHACHA20+aRSA"),
            "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305"
        );
        assert_eq!(chosen("HIGH:!aNULL:!MD5").split(':').count(), 9);
        assert_eq!(
            chosen("TLSv1.2:!CHACHA20:-aECDSA:+AES256:CHACHA20+aRSA:aECDSA+AES128"),
            "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256"
        );
    }

    #[test]
    fn unknown_suite_error_lists_the_supported_suites() {
        let refused = |text: &str| text.parse::<TlsSuites>().unwrap_err();
        let unknown = refused("ECDHE-RSA-AES128-GCM-SHA256:RC4-SHA");
        assert_eq!(unknown, TlsSuitesError::Unknown("RC4-SHA".to_owned()));
        assert!(unknown.to_string().contains("TLS_AES_128_GCM_SHA256, "), "{unknown}");
        assert_eq!(refused("ALL:@STRENGTH"), TlsSuitesError::Command("@STRENGTH".to_owned()));
        for nothing in ["", ":", "ALL:!ALL", "!AES"] {
            assert_eq!(refused(nothing), TlsSuitesError::Nothing(nothing.to_owned()));
        }
    }

    #[test]
    fn suites_belong_to_versions() {
        let serves = |text: &str| {
            let suites: TlsSuites = text.parse().unwrap();
            TlsVersion::ALL.map(|version| suites.serves(version))
        };
        assert_eq!(serves("TLS_AES_128_GCM_SHA256"), [true, false]);
        assert_eq!(serves("ECDHE"), [false, true]);
        assert_eq!(serves("AES128"), [true, true]);
    }
}
