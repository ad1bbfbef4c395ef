//! The thread that obtains and renews certificates: from an authority by ACME, and from the local
//! authority.
//!
//! Invariant: whatever fails here, the listeners go on with the certificate that they have. The
//! operator learns of each failure, its reason and the time of the next attempt.

use crate::control::counters::Metric;
use crate::shared::Shared;
use crate::upkeep::certificates;
use crate::upkeep::supervisor::{self, ThreadEnd};
use acme::{AcmeTerms, Issuer, LocalAuthority, Outcome, ValidationMethod};
use address::Address;
use config::EdgePlan;
use platform::HashKeys;
use std::hash::BuildHasher as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use threads::JoinHandle;
use tokio::runtime::Builder;

/// How often the thread looks whether something is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the thread looks whether the edge quits.
const TICK: Duration = Duration::from_millis(50);

/// The terms of a plan. `None`: it has no directory for certificates, and obtains none.
pub(crate) fn terms(plan: &EdgePlan) -> Option<AcmeTerms> {
    Some(AcmeTerms {
        directory_url: plan.acme.directory_url.clone(),
        contact: plan.acme.contact.clone(),
        ca_file: plan.acme.ca_file.clone(),
        binding_file: plan.acme.eab_file.clone(),
        state_directory: plan.state_directory.clone()?,
    })
}

/// The local authority of a plan. `None`: no listener has a certificate of it.
pub(crate) fn local_authority(plan: &EdgePlan) -> Option<LocalAuthority> {
    let directory = plan.state_directory.as_ref().filter(|_| plan.has_local_authority())?;
    let names: Vec<_> = plan.sites.iter().flat_map(|site| site.names.iter().cloned()).collect();
    Some(LocalAuthority::new(directory, &names))
}

/// Starts the thread, if the plan has certificates to obtain.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    if shared.plan.acme_names().is_empty() && !shared.plan.has_local_authority() {
        return Ok(None);
    }
    let shared = Arc::clone(shared);
    let thread = supervisor::start("petasos-acme", move || {
        let ended = Builder::new_current_thread().enable_all().build().map(|runtime| {
            runtime.block_on(work(&shared));
        });
        if let Err(error) = ended {
            tracing::error!("certificates cannot be renewed: {error}");
        }
        ThreadEnd::of(&shared.ending)
    });
    thread.map(Some)
}

/// Does what is due, until the edge quits.
async fn work(shared: &Shared) {
    let mut issuer = issuer(shared);
    let local = local_authority(&shared.plan);
    while !shared.is_quitting() {
        if let Some(issuer) = &mut issuer {
            shared.listeners.issuance.tell(issuer.reports());
            tokio::select! {
                biased;
                () = quitting(shared) => return,
                outcomes = issuer.work() => outcomes.iter().for_each(|outcome| tell(shared, outcome)),
            }
            shared.listeners.issuance.tell(issuer.reports());
        }
        if let Some(local) = &local {
            renew(shared, local);
        }
        let _ = tokio::time::timeout(LOOK_EVERY, quitting(shared)).await;
    }
}

/// The certificates by ACME. `None`: there are none, or their files cannot be used.
fn issuer(shared: &Shared) -> Option<Issuer> {
    let lists = shared.plan.acme_names();
    let terms = terms(&shared.plan).filter(|_| !lists.is_empty())?;
    let answers = shared.listeners.issuance.answers.clone();
    let (methods, clock) = (methods(&shared.plan), Arc::clone(&shared.clock));
    let opened = Issuer::new(terms, &lists, methods, answers, clock, || HashKeys::new().hash_one("acme"));
    opened.map_err(|error| tracing::error!("{error}; no certificate is renewed until a restart")).ok()
}

/// The methods of validation, the preferred one first. Authorities send plain requests to port 80,
/// so a plain listener is the sign that it can be reached.
fn methods(plan: &EdgePlan) -> Vec<ValidationMethod> {
    let is_plain = |listener: &config::ListenerPlan| {
        listener.tls.is_none() && !matches!(listener.address, Address::Unix(_))
    };
    let plain = plan.listeners.iter().any(is_plain).then_some(ValidationMethod::Http);
    plain.into_iter().chain([ValidationMethod::Tls]).collect()
}

/// Reports the outcome of an attempt.
fn tell(shared: &Shared, outcome: &Outcome) {
    match outcome {
        Outcome::Issued { names } => {
            tracing::info!("the authority has issued a certificate for {}", names.join(", "));
            shared.cells(0).count(Metric::AcmeCertificates);
            certificates::refresh(shared, true);
        }
        Outcome::Failed { names, reason, next_attempt } => {
            let next = semantics::format_date(*next_attempt);
            tracing::error!(
                "no certificate for {}: {reason}; the certificate in use stays, next attempt {}",
                names.join(", "),
                String::from_utf8_lossy(&next)
            );
            shared.cells(0).count(Metric::AcmeFailures);
        }
    }
}

/// Renews the certificate of the local authority, if that is due.
fn renew(shared: &Shared, local: &LocalAuthority) {
    match local.renew(shared.clock.now()) {
        Ok(true) => certificates::refresh(shared, true),
        Ok(false) => {}
        Err(error) => shared.complaints.tell(&error.to_string(), shared.clock.monotonic()),
    }
}

/// Ready when the edge quits.
async fn quitting(shared: &Shared) {
    while !shared.is_quitting() {
        tokio::time::sleep(TICK).await;
    }
}
