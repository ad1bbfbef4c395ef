//! The entries of the setting `tls`: files, host names, and the word `internal`.
//!
//! Invariant: an entry is a host name only if it cannot be meant as a file. A file has a slash or
//! one of the usual endings in its name.

use crate::setting::{CertificatePaths, CertificateSource, SettingValue, parse_host};
use std::fmt;

/// The entry for the local authority.
const INTERNAL: &str = "internal";

/// Endings of the names of files with certificates and keys. None of them is a top-level domain.
const FILE_ENDINGS: [&str; 8] = ["cer", "cert", "chain", "crt", "der", "key", "pem", "txt"];

/// Reads an entry: the paths of a certificate and its key, the path of one file with both,
/// `internal`, or host names with commas between them.
pub(crate) fn parse(text: &str) -> Result<SettingValue, String> {
    if text.trim() == INTERNAL {
        return Ok(SettingValue::Certificates(vec![CertificateSource::Internal]));
    }
    if text.contains('*') && !text.contains('/') {
        return Err(format!(
            "`{text}` is a wildcard, which ACME permits only with a challenge by DNS; write all names, or \
             CERT.pem,KEY.pem"
        ));
    }
    let names: Option<Vec<_>> = text.split(',').map(|part| host(part.trim())).collect();
    if let Some(names) = names {
        let sources = names.into_iter().map(CertificateSource::Acme).collect();
        return Ok(SettingValue::Certificates(sources));
    }
    parse_files(text).map(|pair| SettingValue::Certificates(vec![CertificateSource::Files(pair)])).map_err(|_| {
        format!(
            "`{text}` is neither CERT.pem,KEY.pem nor the path of one file with both, nor a list of host names, \
             nor {INTERNAL}"
        )
    })
}

/// Reads the paths of a certificate and its key, or of one file with both.
pub(crate) fn parse_files(text: &str) -> Result<CertificatePaths, String> {
    let (chain, key) = text.split_once(',').unwrap_or((text, text));
    let (chain, key) = (chain.trim(), key.trim());
    if chain.is_empty() || key.is_empty() || key.contains(',') || host(chain).is_some() || host(key).is_some()
    {
        return Err(format!("`{text}` is neither CERT.pem,KEY.pem nor the path of one file with both"));
    }
    Ok(CertificatePaths { chain: chain.into(), key: key.into() })
}

/// The host name that an entry is, in lower case. An address is none, because authorities want
/// other terms for it.
fn host(text: &str) -> Option<String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if !text.bytes().all(is_legal) || text.contains("..") || text.starts_with('.') {
        return None;
    }
    let name = parse_host(text).ok()?;
    let (_, ending) = name.rsplit_once('.')?;
    let is_domain = !FILE_ENDINGS.contains(&ending) && !ending.bytes().all(|byte| byte.is_ascii_digit());
    is_domain.then_some(name)
}

impl fmt::Display for CertificatePaths {
    /// Writes the entry as the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.chain.display())?;
        if self.key == self.chain { Ok(()) } else { write!(f, ",{}", self.key.display()) }
    }
}

impl fmt::Display for CertificateSource {
    /// Writes the entry as the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(paths) => paths.fmt(f),
            Self::Acme(name) => f.write_str(name),
            Self::Internal => f.write_str(INTERNAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn an_entry_is_files_or_host_names_or_internal() {
        for (text, expected) in [
            ("cert.pem,key.pem", r#"["cert.pem,key.pem"]"#),
            ("/etc/ssl/example.org,/etc/ssl/example.key", r#"["/etc/ssl/example.org,/etc/ssl/example.key"]"#),
            ("both.PEM", r#"["both.PEM"]"#),
            ("./www.example.org", r#"["./www.example.org"]"#),
            ("both", r#"["both"]"#),
            ("www.Example.org", r#"["www.example.org"]"#),
            ("www.example.org, example.org.", r#"["www.example.org", "example.org"]"#),
            ("internal", r#"["internal"]"#),
        ] {
            assert_eq!(parse(text).unwrap().to_toml(), expected, "{text}");
        }
    }

    #[test]
    fn an_entry_that_mixes_kinds_is_refused() {
        for (text, words) in [
            ("www.example.org,key.pem", "nor a list of host names"),
            ("cert.pem,example.org", "nor a list of host names"),
            ("a,b,c", "nor a list of host names"),
            ("a,", "neither CERT.pem,KEY.pem"),
            ("*.example.org", "a challenge by DNS"),
        ] {
            assert!(parse(text).unwrap_err().contains(words), "{text}");
        }
    }
}
