//! Checks the certificates of a plan for `petasos check`: those of listeners and the admin address,
//! and those for connections to origins.
//!
//! Invariant: a certificate that prevents the start is an error, any other finding a warning. Each
//! has the place of its setting.

use crate::listeners::Listeners;
use crate::origins;
use clock::Timestamp;
use config::{EdgePlan, OriginTlsPlan, TlsPlan};
use document::Diagnostic;
use net::{Certificate, TlsClient};
use origin::OriginTls;

/// Problems with the certificates of a plan at `now`.
pub fn check_certificates(plan: &EdgePlan, now: Timestamp) -> Vec<Diagnostic> {
    let secured = plan.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let of_listeners = secured.flat_map(|tls| problems(tls, plan, now));
    let origins = plan.sites.iter().filter_map(|site| site.origin_tls.as_ref());
    let of_origins = origins.filter_map(|tls| of_origin(tls, now));
    of_listeners.chain(of_admin(plan, now)).chain(of_origins).collect()
}

/// The problems with the files of the admin address.
fn of_admin(plan: &EdgePlan, now: Timestamp) -> Vec<Diagnostic> {
    let Some(tls) = &plan.admin_tls else { return Vec::new() };
    let place = plan.place("admin_certificate");
    match Listeners::check_admin(tls, now) {
        Ok(fault) => fault.map(|fault| Diagnostic::warning(fault.to_string(), place)).into_iter().collect(),
        Err(errors) => errors.iter().map(|error| Diagnostic::new(error.to_string(), place.clone())).collect(),
    }
}

/// The problem with the files of an https origin, if there is one.
fn of_origin(tls: &OriginTlsPlan, now: Timestamp) -> Option<Diagnostic> {
    let client = TlsClient::for_origin(&origins::terms(tls));
    let secured = client.and_then(|client| {
        let mut names = std::iter::once(&tls.name).chain(&tls.other_names);
        names.try_for_each(|name| OriginTls::new(client.clone(), name.clone()).map(drop))?;
        Ok(())
    });
    if let Err(error) = secured {
        return Some(Diagnostic::new(error.to_string(), tls.place.clone()));
    }
    let own = Certificate::read(&origins::files(tls.certificate.as_ref()?)).ok()?;
    let problem = Diagnostic::warning(own.fault_at(now)?.to_string(), tls.place.clone());
    Some(problem.with_help("renew it; until then the origin may refuse Petasos"))
}

fn problems(tls: &TlsPlan, plan: &EdgePlan, now: Timestamp) -> Vec<Diagnostic> {
    let (mut found, mut usable) = (Vec::new(), Vec::new());
    for pair in &tls.certificates {
        match Certificate::read(&origins::files(pair)) {
            Ok(certificate) => usable.push(certificate),
            Err(error) => found.push(Diagnostic::new(error.to_string(), tls.place.clone())),
        }
    }
    for fault in usable.iter().filter_map(|certificate| certificate.fault_at(now)) {
        let problem = Diagnostic::warning(fault.to_string(), tls.place.clone());
        found.push(problem.with_help("renew it; until then browsers refuse the site"));
    }
    if usable.len() == tls.certificates.len() && !tls.is_internal {
        let names = plan.host_names();
        let names = names.into_iter().filter(|name| !tls.acme_names.contains(name));
        let bare = names.filter(|name| !usable.iter().any(|certificate| certificate.is_for(name)));
        found.extend(bare.map(|name| {
            let message = format!("no certificate is for `{name}`, so browsers refuse it at this listener");
            let help = "add it or its certificate to `tls`, or remove the name from `names`";
            Diagnostic::warning(message, tls.place.clone()).with_help(help)
        }));
    }
    found
}
