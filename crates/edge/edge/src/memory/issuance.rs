//! What the rest of the edge knows of the certificates that Petasos obtains itself.
//!
//! Invariant: the thread that obtains them writes here, and every other part only reads.

use acme::{AcmeTerms, Answers, CertificateReport, LocalAuthority};
use bytes::Bytes;
use clock::Timestamp;
use config::EdgePlan;
use message::{ResponseHead, Status, names};
use purge::PurgeReply;
use std::sync::{Arc, Mutex, PoisonError};

/// The media type of an answer to an authority (RFC 8555 section 8.3).
const ANSWER_TYPE: &str = "application/octet-stream";

/// The answers to authorities, and the state of each certificate.
#[derive(Debug, Default)]
pub(crate) struct Issuance {
    pub(crate) answers: Answers,
    reports: Mutex<Arc<[CertificateReport]>>,
}

impl Issuance {
    /// The reply to an authority that validates a host name. `None`: the request is one like
    /// others.
    pub(crate) fn reply(&self, target: &[u8]) -> Option<PurgeReply> {
        let answer = self.answers.http.answer(target)?;
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push(names::CONTENT_TYPE, ANSWER_TYPE);
        head.fields.push(names::CACHE_CONTROL, "no-store");
        Some(PurgeReply { head, content: Bytes::from(answer) })
    }

    /// Replaces the state of the certificates.
    pub(crate) fn tell(&self, reports: Vec<CertificateReport>) {
        *self.reports.lock().unwrap_or_else(PoisonError::into_inner) = reports.into();
    }

    /// The state of the certificates.
    pub(crate) fn reports(&self) -> Arc<[CertificateReport]> {
        Arc::clone(&self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// When the next attempt is due, at the earliest; `None` without certificates.
    pub(crate) fn next_attempt(&self) -> Option<Timestamp> {
        self.reports().iter().map(|report| report.next_attempt).min()
    }

    /// Number of certificates whose last attempt failed.
    pub(crate) fn failing(&self) -> u64 {
        self.reports().iter().filter(|report| report.failures > 0).count() as u64
    }
}

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
    let names: Vec<_> = plan.host_names().into_iter().cloned().collect();
    Some(LocalAuthority::new(directory, &names))
}

#[cfg(test)]
mod tests {
    use super::Issuance;
    use acme::CertificateReport;
    use clock::Timestamp;

    #[test]
    fn reports_are_summed_up_for_the_metrics() {
        let issuance = Issuance::default();
        assert_eq!((issuance.next_attempt(), issuance.failing()), (None, 0));
        let report = |failures: u32, secs: u64| CertificateReport {
            names: vec!["a.test".to_owned()],
            expires: None,
            failures,
            last_error: None,
            next_attempt: Timestamp::from_secs(secs),
        };
        issuance.tell(vec![report(0, 9), report(3, 5)]);
        assert_eq!((issuance.next_attempt(), issuance.failing()), (Some(Timestamp::from_secs(5)), 1));
        assert!(issuance.reply(b"/.well-known/acme-challenge/x").is_none());
    }
}
