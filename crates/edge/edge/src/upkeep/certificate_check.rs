//! Checks the certificates of a plan for `petasos check`.
//!
//! Invariant: a certificate that prevents the start is an error, any other finding a warning. Each
//! has the place of its setting.

use clock::Timestamp;
use config::{EdgePlan, TlsPlan};
use document::Diagnostic;
use net::{Certificate, CertificateFiles};

/// Problems with the certificates of a plan at `now`.
pub fn check_certificates(plan: &EdgePlan, now: Timestamp) -> Vec<Diagnostic> {
    let secured = plan.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    secured.flat_map(|tls| problems(tls, plan, now)).collect()
}

fn problems(tls: &TlsPlan, plan: &EdgePlan, now: Timestamp) -> Vec<Diagnostic> {
    let (mut found, mut usable) = (Vec::new(), Vec::new());
    for pair in &tls.certificates {
        let files = CertificateFiles { chain: pair.chain.clone(), key: pair.key.clone() };
        match Certificate::read(&files) {
            Ok(certificate) => usable.push(certificate),
            Err(error) => found.push(Diagnostic::new(error.to_string(), tls.place.clone())),
        }
    }
    for fault in usable.iter().filter_map(|certificate| certificate.fault_at(now)) {
        let problem = Diagnostic::warning(fault.to_string(), tls.place.clone());
        found.push(problem.with_help("renew it; until then browsers refuse the site"));
    }
    if usable.len() == tls.certificates.len() {
        let names = plan.sites.iter().flat_map(|site| &site.names);
        let bare = names.filter(|name| !usable.iter().any(|certificate| certificate.is_for(name)));
        found.extend(bare.map(|name| {
            let message = format!("no certificate is for `{name}`, so browsers refuse it at this listener");
            let help = "add its certificate to `tls`, or remove the name from `names`";
            Diagnostic::warning(message, tls.place.clone()).with_help(help)
        }));
    }
    found
}
