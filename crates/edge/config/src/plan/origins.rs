//! How connections to origins are secured.
//!
//! Invariant: an origin has settings for TLS exactly if its URL begins with https. An origin is
//! verified unless the operator has switched that off, and the operator is then warned.

use super::{OriginBalance, SitePlan};
use crate::document::Level;
use crate::levels::SettingLevels;
use crate::setting::{CertificatePaths, SettingValue};
use address::OriginUrl;
use document::{Diagnostic, Place};
use std::path::PathBuf;

/// How the connections to an https origin are secured.
#[derive(Clone, Debug)]
pub struct OriginTlsPlan {
    /// The PEM file with authorities or with the origin's own certificate. `None`: the authorities
    /// that the system trusts.
    pub authorities: Option<PathBuf>,
    /// The name that Petasos asks for (SNI) and that the origin's certificate must be for.
    pub name: String,
    /// The same for the site's other origins, in their order.
    pub other_names: Vec<String>,
    /// The certificate that Petasos shows to an origin that asks for one.
    pub certificate: Option<CertificatePaths>,
    /// Whether the origin is verified.
    pub is_verified: bool,
    /// Where the first of these settings was written, or else the origin.
    pub place: Place,
}

impl PartialEq for OriginTlsPlan {
    /// Where the settings were written makes no difference.
    fn eq(&self, other: &Self) -> bool {
        let Self { authorities, name, other_names, certificate, is_verified, place: _ } = self;
        (authorities, name, other_names, certificate, is_verified)
            == (&other.authorities, &other.name, &other.other_names, &other.certificate, &other.is_verified)
    }
}

impl Eq for OriginTlsPlan {}

/// The settings about TLS towards an origin.
const OF_TLS: [&str; 4] = ["origin_ca", "origin_name", "origin_certificate", "origin_insecure"];

impl OriginTlsPlan {
    /// The settings of a site for TLS towards its origins. `None` for origins without TLS.
    pub(super) fn resolve(
        (origin, balance): (&OriginUrl, &OriginBalance),
        levels: &SettingLevels<'_>,
    ) -> Option<Self> {
        if !origin.is_https() {
            return None;
        }
        let certificate = match levels.value("origin_certificate") {
            Some(SettingValue::Certificate(pair)) => Some(pair),
            _ => None,
        };
        // Certificates have names without a final dot.
        let name = |url: &OriginUrl| {
            let name = levels.text("origin_name").map_or_else(|| url.host(), str::to_owned);
            name.strip_suffix('.').unwrap_or(&name).to_owned()
        };
        let mut places = OF_TLS.iter().chain(&["origin"]).filter_map(|key| levels.place(key));
        Some(Self {
            authorities: levels.text("origin_ca").map(PathBuf::from),
            name: name(origin),
            other_names: balance.others.iter().map(|other| name(&other.url)).collect(),
            certificate,
            is_verified: levels.value("origin_insecure") != Some(SettingValue::Switch(true)),
            place: places.next().unwrap_or(Place::Default),
        })
    }

    fn explain(&self) -> String {
        let certificate = self.certificate.as_ref().map(|pair| format!(", shows it {pair}"));
        let verified = match &self.authorities {
            _ if !self.is_verified => "not verified".to_owned(),
            Some(file) => format!("verified as {} by {}", self.name, file.display()),
            None => format!("verified as {} by the system's authorities", self.name),
        };
        format!("{verified}{}", certificate.unwrap_or_default())
    }
}

/// How connections to the origin of a site begin, as a part of a line of `petasos check --print`.
pub(super) fn explain(site: &SitePlan) -> String {
    let introduced = site.origin_proxy_protocol.map(|version| format!("PROXY protocol {version}"));
    let parts: Vec<_> =
        introduced.into_iter().chain(site.origin_tls.as_ref().map(OriginTlsPlan::explain)).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// Warns that the origin of a site is not verified.
pub(super) fn unverified(site: &SitePlan) -> Option<Diagnostic> {
    let tls = site.origin_tls.as_ref().filter(|tls| !tls.is_verified)?;
    let message = format!(
        "site {}: the origin's certificate is not verified (origin_insecure): an attacker on the network can read \
         and change everything",
        site.title()
    );
    let help = "name the authority in origin_ca, and leave origin_insecure out";
    Some(Diagnostic::warning(message, tls.place.clone()).with_help(help))
}

/// Refuses settings for TLS in tables if none of the `sites` that have them has an origin with TLS.
pub(super) fn in_vain_of<'a>(
    tables: impl IntoIterator<Item = &'a Level>,
    sites: &[SitePlan],
) -> Vec<Diagnostic> {
    // Without a site, a problem with its origin was found already.
    if sites.is_empty() || sites.iter().any(|site| site.origin_tls.is_some()) {
        return Vec::new();
    }
    tables.into_iter().flat_map(|level| OF_TLS.iter().filter_map(|key| in_vain(level, key))).collect()
}

fn in_vain(level: &Level, key: &str) -> Option<Diagnostic> {
    let located = level.get(key)?;
    let message = format!("`{key}` has no effect, because the origin is no https:// URL");
    let problem = Diagnostic::new(message, located.place.clone());
    Some(problem.with_help("write origin = \"https://HOST\", or leave the setting out"))
}

#[cfg(test)]
mod tests {
    use crate::EdgePlan;

    fn load(text: &str) -> Result<EdgePlan, String> {
        super::super::loading::load(text, &[])
    }

    #[test]
    fn https_origin_is_verified_as_its_host_by_default() {
        let plan = load("origin = 'https://App.internal:8443'").unwrap();
        let tls = plan.sites[0].origin_tls.clone().unwrap();
        assert_eq!((&tls.name[..], tls.is_verified, &tls.authorities), ("app.internal", true, &None));
        assert!(plan.warnings.is_empty());
        let words = "origin https://app.internal:8443 (verified as app.internal by the system's authorities)";
        assert!(plan.explain().contains(words), "{}", plan.explain());
        assert!(load("origin = 'http://a:443'").unwrap().sites[0].origin_tls.is_none());
    }

    #[test]
    fn settings_of_tls_are_taken_from_the_site() {
        let text = "origin = 'https://192.0.2.1'\norigin_ca = '/ca.pem'\norigin_certificate = '/c.pem,/k.pem'\n\
                    [[site]]\nnames = ['a.test']\norigin_name = 'a.internal'\n[[site]]\norigin = 'http://b'\n";
        let plan = load(text).unwrap();
        let words = "(verified as a.internal by /ca.pem, shows it /c.pem,/k.pem)";
        assert!(plan.explain().contains(words), "{}", plan.explain());
        assert!(plan.sites[1].origin_tls.is_none());
    }

    #[test]
    fn proxy_protocol_of_an_origin_has_two_versions() {
        let said = |version: &str| {
            let plan = load(&format!("origin = 'unix:/a'\norigin_proxy_protocol = '{version}'"));
            plan.map(|plan| plan.explain())
        };
        assert!(said("v1").unwrap().contains("origin unix:/a (PROXY protocol v1), profile"));
        assert!(said("v2").unwrap().contains("(PROXY protocol v2)"));
        assert!(!said("none").unwrap().contains("PROXY"));
        assert!(said("v3").unwrap_err().contains("none, v1, v2"));
    }

    #[test]
    fn unverified_origin_gives_a_warning_with_its_place() {
        let plan = load("origin = 'https://a'\norigin_insecure = true").unwrap();
        let warning = plan.warnings[0].to_string();
        assert!(warning.contains("origin_ca") && warning.contains("petasos.toml:2"), "{warning}");
        assert!(plan.explain().contains("(not verified)"));
    }

    #[test]
    fn settings_of_tls_without_https_are_errors() {
        for text in [
            "origin = 'http://a'\norigin_ca = '/ca.pem'",
            "origin = 'unix:/a'\norigin_insecure = true",
            "origin = 'https://a'\n[[site]]\nnames = ['a']\n[[site]]\norigin = 'http://b'\norigin_name = 'b'",
        ] {
            let fault = load(text).unwrap_err();
            assert!(fault.contains("has no effect") && fault.contains("petasos.toml:"), "{text}: {fault}");
        }
        assert!(load("origin = 'https://a'\norigin_certificate = 'a,b,c'").unwrap_err().contains("KEY.pem"));
    }
}
