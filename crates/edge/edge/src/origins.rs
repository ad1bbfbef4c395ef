//! The https origins of a plan: how connections to them are secured.
//!
//! Invariant: a file that cannot be used prevents the start. Origins with the same settings share
//! the authorities in memory, and the sessions that they resume.

use config::{CertificatePaths, EdgePlan, OriginTlsPlan};
use net::{CertificateFiles, OriginTlsError, OriginTlsTerms, TlsClient};
use origin::OriginTls;
use std::collections::HashMap;

/// How connections to the origins of a site are secured, in their order; empty without TLS.
pub(crate) type SecuredOrigins = Vec<OriginTls>;

/// Reads the files of all https origins; blocks. The result has an entry for each site of the plan.
///
/// # Errors
/// All files and names that cannot be used.
pub(crate) fn open(plan: &EdgePlan) -> Result<Vec<SecuredOrigins>, Vec<OriginTlsError>> {
    let (mut clients, mut errors) = (HashMap::new(), Vec::new());
    let mut secured = Vec::with_capacity(plan.sites.len());
    for site in &plan.sites {
        match site.origin_tls.as_ref().map(|tls| open_all(tls, &mut clients)).transpose() {
            Ok(opened) => secured.push(opened.unwrap_or_default()),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(secured) } else { Err(errors) }
}

fn open_all(
    tls: &OriginTlsPlan,
    clients: &mut HashMap<OriginTlsTerms, TlsClient>,
) -> Result<SecuredOrigins, OriginTlsError> {
    let terms = terms(tls);
    let client = match clients.get(&terms) {
        Some(client) => client.clone(),
        None => {
            let client = TlsClient::for_origin(&terms)?;
            clients.insert(terms, client.clone());
            client
        }
    };
    let names = std::iter::once(&tls.name).chain(&tls.other_names);
    names.map(|name| Ok(OriginTls::new(client.clone(), name.clone())?)).collect()
}

/// The settings as the TLS client takes them.
pub(crate) fn terms(tls: &OriginTlsPlan) -> OriginTlsTerms {
    OriginTlsTerms {
        authorities: tls.authorities.clone(),
        certificate: tls.certificate.as_ref().map(files),
        is_verified: tls.is_verified,
    }
}

/// The files of a certificate.
pub(crate) fn files(pair: &CertificatePaths) -> CertificateFiles {
    CertificateFiles { chain: pair.chain.clone(), key: pair.key.clone() }
}
