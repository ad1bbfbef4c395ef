//! Versions and cipher suites of TLS, by the names that OpenSSL's tools use.
//!
//! Invariant: only chosen versions and suites are used. The name of an unsupported suite is an
//! error that lists the supported ones. This module does not touch connections.

use std::fmt;
use std::str::FromStr;
use tokio_rustls::rustls::{CipherSuite, ProtocolVersion};

/// A supported version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// The suites to offer, in order of preference; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSuites(Vec<CipherSuite>);

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
    suite: CipherSuite,
    version: TlsVersion,
    name: &'static str,
    /// Length of the cipher's key in bits.
    bits: u16,
    /// Keywords of the classes that the suite belongs to, in addition to [`ALL`].
    classes: &'static [&'static str],
}

/// Keywords that mean every supported suite.
const ALL: [&str; 3] = ["ALL", "DEFAULT", "HIGH"];

/// Every suite of the provider, in OpenSSL's order of preference.
const SUITES: [SuiteProperties; 9] = [
    SuiteProperties::of13(
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        "TLS_AES_256_GCM_SHA384",
        256,
        &["AES", "AESGCM", "AES256"],
    ),
    SuiteProperties::of13(
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        "TLS_CHACHA20_POLY1305_SHA256",
        256,
        &["CHACHA20"],
    ),
    SuiteProperties::of13(
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_128_GCM_SHA256",
        128,
        &["AES", "AESGCM", "AES128"],
    ),
    SuiteProperties::of12(
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aECDSA", "ECDSA", "AES", "AESGCM", "AES256"],
    ),
    SuiteProperties::of12(
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-AES256-GCM-SHA384",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aRSA", "AES", "AESGCM", "AES256"],
    ),
    SuiteProperties::of12(
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aECDSA", "ECDSA", "CHACHA20"],
    ),
    SuiteProperties::of12(
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-CHACHA20-POLY1305",
        256,
        &["ECDHE", "EECDH", "kECDHE", "aRSA", "CHACHA20"],
    ),
    SuiteProperties::of12(
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        128,
        &["ECDHE", "EECDH", "kECDHE", "aECDSA", "ECDSA", "AES", "AESGCM", "AES128"],
    ),
    SuiteProperties::of12(
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256",
        128,
        &["ECDHE", "EECDH", "kECDHE", "aRSA", "AES", "AESGCM", "AES128"],
    ),
];

impl SuiteProperties {
    const fn of13(
        suite: CipherSuite,
        name: &'static str,
        bits: u16,
        classes: &'static [&'static str],
    ) -> Self {
        Self { suite, version: TlsVersion::Tls13, name, bits, classes }
    }

    const fn of12(
        suite: CipherSuite,
        name: &'static str,
        bits: u16,
        classes: &'static [&'static str],
    ) -> Self {
        Self { suite, version: TlsVersion::Tls12, name, bits, classes }
    }

    /// Whether `name` is a name of this suite, or of a class or version that it belongs to.
    fn is_called(&self, name: &str) -> bool {
        let registered = self.suite.as_str().is_some_and(|registered| registered == name);
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

    pub(crate) fn of(version: ProtocolVersion) -> Option<Self> {
        match version {
            ProtocolVersion::TLSv1_2 => Some(Self::Tls12),
            ProtocolVersion::TLSv1_3 => Some(Self::Tls13),
            _ => None,
        }
    }
}

impl TlsSuites {
    /// Whether at least one suite belongs to this version.
    pub fn serves(&self, version: TlsVersion) -> bool {
        self.0.iter().filter_map(|&suite| known(suite)).any(|suite| suite.version == version)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = CipherSuite> {
        self.0.iter().copied()
    }
}

/// OpenSSL's name of a suite, and the length of its cipher's key in bits; `None` if it is not
/// supported.
pub(crate) fn name_and_bits(suite: CipherSuite) -> Option<(&'static str, u16)> {
    known(suite).map(|suite| (suite.name, suite.bits))
}

fn known(suite: CipherSuite) -> Option<&'static SuiteProperties> {
    SUITES.iter().find(|known| known.suite == suite)
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
    /// both. Before a name, `!` removes its suites for good, `-` removes them, and `+` moves them
    /// to the end. Unlike in OpenSSL, versions are not separate: a list without a suite of TLS 1.3
    /// does not offer TLS 1.3.
    fn from_str(text: &str) -> Result<Self, TlsSuitesError> {
        let mut chosen = Vec::new();
        let mut banned = Vec::new();
        for item in text.split([':', ',', ' ']).filter(|item| !item.is_empty()) {
            if item.starts_with('@') {
                return Err(TlsSuitesError::Command(item.to_owned()));
            }
            let name = item.trim_start_matches(['!', '-', '+']);
            let meant: Vec<CipherSuite> = SUITES
                .iter()
                .filter(|suite| name.split('+').all(|name| suite.is_called(name)))
                .map(|suite| suite.suite)
                .collect();
            match item.as_bytes().first() {
                // Removing a suite that is not in the list is no error.
                Some(b'!' | b'-') => {
                    chosen.retain(|suite| !meant.contains(suite));
                    if item.starts_with('!') {
                        banned.extend(meant);
                    }
                }
                Some(b'+') => chosen.sort_by_key(|suite| meant.contains(suite)),
                _ if meant.is_empty() => return Err(TlsSuitesError::Unknown(item.to_owned())),
                _ => {
                    let new = |suite: &CipherSuite| !chosen.contains(suite) && !banned.contains(suite);
                    let new: Vec<CipherSuite> = meant.into_iter().filter(new).collect();
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
            self.0.iter().filter_map(|&suite| known(suite)).map(|suite| suite.name).collect();
        f.write_str(&names.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::{SUITES, TlsSuites, TlsSuitesError, TlsVersion};
    use tokio_rustls::rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;

    fn chosen(text: &str) -> String {
        text.parse::<TlsSuites>().unwrap().to_string()
    }

    #[test]
    fn every_suite_of_the_provider_has_a_name() {
        assert_eq!(SUITES.len(), ALL_CIPHER_SUITES.len());
        for provided in ALL_CIPHER_SUITES {
            let ours = SUITES.iter().find(|suite| suite.suite == provided.suite()).unwrap();
            assert_eq!(TlsVersion::of(provided.version().version), Some(ours.version), "{}", ours.name);
            assert!(
                ours.suite.as_str().unwrap().contains(&ours.bits.to_string()) || ours.name.contains("CHACHA")
            );
        }
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
