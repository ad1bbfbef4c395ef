//! The thread that obtains and renews certificates: from an authority by ACME, and from the local
//! authority.
//!
//! Invariant: whatever fails here, the listeners go on with the certificate that they have. The
//! operator learns of each failure, its reason and the time of the next attempt.

use crate::control::counters::Metric;
use crate::memory::issuance::{local_authority, terms};
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

/// Starts the thread, if a listener has TLS. A reload may bring the first certificate to obtain.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    if !shared.listeners.has_tls() {
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

/// The certificates by ACME that a plan wants, and how to obtain them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    terms: Option<AcmeTerms>,
    lists: Vec<Vec<String>>,
    methods: Vec<ValidationMethod>,
}

impl Wanted {
    fn by(plan: &EdgePlan) -> Self {
        Self { terms: terms(plan), lists: plan.acme_names(), methods: methods(plan) }
    }

    /// What obtains the certificates. `None`: there are none, or their files cannot be used.
    fn issuer(&self, shared: &Shared) -> Option<Issuer> {
        let terms = self.terms.clone().filter(|_| !self.lists.is_empty())?;
        let answers = shared.listeners.issuance.answers.clone();
        let (methods, clock) = (self.methods.clone(), Arc::clone(&shared.clock));
        let random = || HashKeys::new().hash_one("acme");
        let opened = Issuer::new(terms, &self.lists, methods, answers, clock, random);
        opened
            .map_err(|error| {
                tracing::error!("{error}; no certificate is renewed until the files can be used")
            })
            .ok()
    }
}

/// How often files that could not be used are tried again, in looks.
const OPEN_AGAIN_LOOKS: u32 = 60;

/// Does what is due for the plan in force, until the edge quits.
async fn work(shared: &Arc<Shared>) {
    let (mut wanted, mut issuer, mut looks) = (Wanted::default(), None, 0_u32);
    while !shared.is_quitting() {
        let shared = shared.current();
        let now_wanted = Wanted::by(&shared.plan);
        looks = looks.wrapping_add(1);
        // Files that could not be used may be usable again.
        if now_wanted != wanted || issuer.is_none() && looks.is_multiple_of(OPEN_AGAIN_LOOKS) {
            wanted = now_wanted;
            issuer = wanted.issuer(&shared);
            shared.listeners.issuance.tell(Vec::new());
        }
        // An order could not be validated after the listeners are closed.
        if let Some(issuer) = issuer.as_mut().filter(|_| !shared.is_draining()) {
            shared.listeners.issuance.tell(issuer.reports());
            tokio::select! {
                biased;
                () = quitting(&shared) => return,
                outcomes = issuer.work() => outcomes.iter().for_each(|outcome| tell(&shared, outcome)),
            }
            shared.listeners.issuance.tell(issuer.reports());
        }
        if let Some(local) = local_authority(&shared.plan) {
            renew(&shared, &local);
        }
        let _ = tokio::time::timeout(LOOK_EVERY, quitting(&shared)).await;
    }
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
fn tell(shared: &Arc<Shared>, outcome: &Outcome) {
    match outcome {
        Outcome::Issued { names } => {
            tracing::info!("the authority has issued a certificate for {}", names.join(", "));
            shared.cells(0).count(Metric::AcmeCertificates);
            // A reload may have replaced the listeners while the order was under way.
            certificates::refresh(&shared.current(), true);
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
