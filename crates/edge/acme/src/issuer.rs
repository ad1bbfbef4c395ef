//! Obtains and renews certificates from an authority by ACME.
//!
//! Invariant: the attempts at a certificate are as rare as their record permits, whatever fails and
//! however often the process restarts. Before an attempt begins, the record of it is on the disk.

use crate::account::{self, AccountError};
use crate::answers::Answers;
use crate::authority_client::AuthorityClient;
use crate::files::{self, FileError};
use crate::managed::{CertificateReport, ManagedCertificate};
use crate::order::{self, OrderError, ValidationMethod};
use crate::record::{Validity, within};
use crate::terms::AcmeTerms;
use clock::{Clock, Timestamp};
use instant_acme::{Account, CertificateIdentifier};
use net::{CertificateFiles, TlsClient, TlsError};
use rustls_pki_types::CertificateDer;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longest duration of an attempt.
const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// How often an authority is asked at most, and how often at least, when a certificate should be
/// renewed.
const ASK_EVERY: (Duration, Duration) = (Duration::from_secs(60 * 60), Duration::from_secs(24 * 60 * 60));

/// How long before the renewal an authority is not asked any more.
const RENEWAL_SOON: Duration = Duration::from_secs(60);

/// How long an attempt waits for another process with the same directory.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(60);

/// The outcome of an attempt at one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a new certificate.
    Issued {
        /// Its names.
        names: Vec<String>,
    },
    /// There is none.
    Failed {
        /// The names.
        names: Vec<String>,
        /// Why.
        reason: String,
        /// When the next attempt is due.
        next_attempt: Timestamp,
    },
}

/// The certificates of one edge.
pub struct Issuer {
    orders: Orders,
    certificates: Vec<ManagedCertificate>,
}

/// How certificates are ordered.
struct Orders {
    terms: AcmeTerms,
    /// The methods of validation, the preferred one first.
    methods: Vec<ValidationMethod>,
    answers: Answers,
    clock: Arc<dyn Clock>,
    random: fn() -> u64,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0}")]
    Validation(String),
    #[error("the attempt took longer than {} s", ATTEMPT_TIME_MAX.as_secs())]
    TimedOut,
}

impl AcmeTerms {
    /// The directory for the account and the certificates of this authority.
    pub(crate) fn directory(&self) -> PathBuf {
        self.state_directory.join("acme").join(files::name_for(&self.directory_url))
    }

    /// The file with the certificate for these names. Makes a placeholder if there is no
    /// certificate yet, so that a listener can start. Blocks.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn prepare(&self, names: &[String], now: Timestamp) -> Result<CertificateFiles, FileError> {
        Ok(ManagedCertificate::open(self, names, now)?.files())
    }
}

impl Issuer {
    /// Obtains certificates for each of these lists of names. `random` is a source of random
    /// numbers. Blocks.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn new(
        terms: AcmeTerms,
        lists: &[Vec<String>],
        methods: Vec<ValidationMethod>,
        answers: Answers,
        clock: Arc<dyn Clock>,
        random: fn() -> u64,
    ) -> Result<Self, FileError> {
        let now = clock.now();
        let opened = lists.iter().map(|names| ManagedCertificate::open(&terms, names, now));
        let certificates = opened.collect::<Result<_, _>>()?;
        Ok(Self { orders: Orders { terms, methods, answers, clock, random }, certificates })
    }

    /// The report to the operator.
    pub fn reports(&self) -> Vec<CertificateReport> {
        self.certificates.iter().map(ManagedCertificate::report).collect()
    }

    /// Makes the attempts that are due, one after the other, and asks the authority when renewals
    /// should happen. Dropping the future ends the attempt, which then counts as failed.
    pub async fn work(&mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for certificate in &mut self.certificates {
            outcomes.extend(Box::pin(self.orders.work_on(certificate)).await);
        }
        outcomes
    }
}

impl Orders {
    async fn work_on(&self, certificate: &mut ManagedCertificate) -> Option<Outcome> {
        let now = self.clock.now();
        if now < certificate.due() {
            self.ask_when_to_renew(certificate, now).await;
            return None;
        }
        // Another process with the same directory makes the same attempt. Without a lock file, the
        // attempt itself reports the problem with the directory.
        let lock = File::create(self.terms.directory().join("lock"));
        if lock.as_ref().is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock))) {
            certificate.leave_to_others(now.plus(WAIT_FOR_OTHERS));
            return None;
        }
        if certificate.is_left_to_others() {
            certificate.reload();
            return None;
        }
        Some(self.attempt(certificate).await)
    }

    /// Makes one attempt, and records it.
    async fn attempt(&self, certificate: &mut ManagedCertificate) -> Outcome {
        let names = certificate.names.clone();
        certificate.record.begin(&names, self.clock.now(), (self.random)());
        if let Err(error) = certificate.remember() {
            // Without a record, a restart would repeat the attempt at once.
            return self.failed(certificate, &AttemptError::File(error), None);
        }
        tracing::info!("ordering a certificate for {} at {}", names.join(", "), self.terms.directory_url);
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return self.failed(certificate, &error.into(), None),
        };
        let obtaining = Box::pin(self.obtain(certificate, &client));
        let obtained = tokio::time::timeout(ATTEMPT_TIME_MAX, obtaining).await;
        self.answers.clear();
        let kept = obtained.unwrap_or(Err(AttemptError::TimedOut)).and_then(|pem| {
            let now = self.clock.now();
            let validity = certificate.replace(&pem, now)?;
            certificate.record.succeed(validity, now, (self.random)());
            Ok(certificate.remember()?)
        });
        match kept {
            Ok(()) => Outcome::Issued { names },
            Err(error) => self.failed(certificate, &error, client.asked_pause()),
        }
    }

    fn failed(
        &self,
        certificate: &mut ManagedCertificate,
        error: &AttemptError,
        asked: Option<Duration>,
    ) -> Outcome {
        let reason = error.to_string();
        certificate.record.fail(reason.clone(), self.clock.now(), asked, (self.random)());
        if let Err(error) = certificate.remember() {
            tracing::warn!("{error}; after a restart, the attempt is repeated too early");
        }
        Outcome::Failed { names: certificate.names.clone(), reason, next_attempt: certificate.due() }
    }

    /// Orders the certificate, with one method after the other as long as the authority cannot
    /// validate the names.
    async fn obtain(
        &self,
        certificate: &ManagedCertificate,
        client: &AuthorityClient,
    ) -> Result<String, AttemptError> {
        let directory = self.terms.directory();
        let mut account = account::open(&self.terms, &directory, client).await?;
        let mut failures = Vec::new();
        for method in self.methods_of(certificate.record.failures) {
            let mut obtained = self.order(&account, certificate, method).await;
            if let Err(OrderError::Authority(error)) = &obtained
                && account::is_unknown(error)
            {
                account::forget(&directory);
                account = account::open(&self.terms, &directory, client).await?;
                obtained = self.order(&account, certificate, method).await;
            }
            match obtained {
                Ok(pem) => return Ok(pem),
                Err(error) if error.is_of_method() => failures.push(format!("{}: {error}", method.name())),
                Err(error) => return Err(error.into()),
            }
        }
        Err(AttemptError::Validation(failures.join("; ")))
    }

    async fn order(
        &self,
        account: &Account,
        certificate: &ManagedCertificate,
        method: ValidationMethod,
    ) -> Result<String, OrderError> {
        let replaced = certificate.authoritys().and_then(|held| identifier(held.der()));
        Box::pin(order::obtain(account, &certificate.names, method, &self.answers, replaced)).await
    }

    /// The methods of the attempt with this number. The first attempt tries all of them, later ones
    /// take turns, because authorities limit failed validations.
    fn methods_of(&self, attempt: u32) -> Vec<ValidationMethod> {
        if attempt <= 1 {
            return self.methods.clone();
        }
        let turn = usize::try_from(attempt).unwrap_or(0) % self.methods.len().max(1);
        self.methods.get(turn).copied().into_iter().collect()
    }

    /// Asks the authority when the certificate should be renewed (RFC 9773), if it is time to ask.
    /// An authority without an answer leaves the renewal at two thirds of the lifetime.
    async fn ask_when_to_renew(&self, certificate: &mut ManagedCertificate, now: Timestamp) {
        let is_soon = certificate.due() <= now.plus(RENEWAL_SOON);
        let is_asked = |certificate: &ManagedCertificate| {
            certificate.plan().is_some_and(|plan| now >= Timestamp::from_secs(plan.ask_at_secs))
        };
        if certificate.record.failures > 0 || is_soon || !is_asked(certificate) {
            return;
        }
        let asking = Box::pin(self.suggestion(certificate));
        let suggested = tokio::time::timeout(ATTEMPT_TIME_MAX, asking).await.ok().flatten();
        let chance = (self.random)();
        let Some(plan) = certificate.record.renewal.as_mut() else { return };
        let pause = suggested.map_or(ASK_EVERY.1, |(_, pause)| pause.clamp(ASK_EVERY.0, ASK_EVERY.1));
        plan.ask_at_secs = now.plus(pause).as_secs();
        // A moment that was drawn stays, unless it has left the window.
        // A window that ends after the certificate is no advice.
        let is_usable = |window: &Validity| window.1 < Timestamp::from_secs(plan.expires_secs);
        let suggested = suggested.filter(|(window, _)| is_usable(window));
        if let Some((window, _)) = suggested.filter(|(window, _)| !contains(*window, plan.renew_at_secs)) {
            plan.renew_at_secs = within(window, chance).as_secs();
        }
        if let Err(error) = certificate.remember() {
            tracing::debug!("{error}; the authority is asked again after a restart");
        }
    }

    /// The window for the renewal that the authority suggests, and when it may be asked again.
    async fn suggestion(&self, certificate: &ManagedCertificate) -> Option<(Validity, Duration)> {
        let identifier = certificate.authoritys().and_then(|held| identifier(held.der()))?;
        let client = self.client().ok()?;
        let account = account::open(&self.terms, &self.terms.directory(), &client).await.ok()?;
        match account.renewal_info(&identifier).await {
            Ok((info, pause)) => {
                let moment = |secs: i64| Timestamp::from_secs(u64::try_from(secs).unwrap_or(0));
                let window = info.suggested_window;
                let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
                Some(((moment(start), moment(end)), pause))
            }
            Err(error) => {
                tracing::debug!("the authority does not tell when to renew: {error}");
                None
            }
        }
    }

    fn client(&self) -> Result<AuthorityClient, TlsError> {
        let tls = match &self.terms.ca_file {
            Some(file) => TlsClient::with_authorities_in(file)?,
            None => TlsClient::with_system_authorities()?,
        };
        Ok(AuthorityClient::new(tls, Arc::clone(&self.clock)))
    }
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

/// Whether a window contains a moment, in seconds since 1970.
fn contains(window: Validity, secs: u64) -> bool {
    (window.0.as_secs()..=window.1.as_secs()).contains(&secs)
}

/// The identifier of a certificate in the authority's renewal information (RFC 9773 section 4.1).
fn identifier(der: &[u8]) -> Option<CertificateIdentifier<'static>> {
    CertificateIdentifier::try_from(&CertificateDer::from(der)).ok().map(CertificateIdentifier::into_owned)
}

#[cfg(test)]
mod tests {
    use super::{Issuer, Outcome, ValidationMethod, contains};
    use crate::answers::Answers;
    use crate::terms::AcmeTerms;
    use clock::{Clock, ManualClock, Timestamp};
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;
    use testkit::HeldPort;

    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

    /// An issuer whose authority is gone.
    fn issuer(directory: &Path, gone: &HeldPort, clock: &Arc<ManualClock>) -> Issuer {
        let terms = AcmeTerms {
            directory_url: format!("https://{}/dir", gone.address()),
            contact: None,
            ca_file: None,
            binding_file: None,
            state_directory: directory.to_owned(),
        };
        let lists = [vec!["a.test".to_owned()]];
        let methods = vec![ValidationMethod::Http, ValidationMethod::Tls];
        let clock: Arc<dyn Clock> = clock.clone();
        Issuer::new(terms, &lists, methods, Answers::default(), clock, || 0).unwrap()
    }

    #[tokio::test]
    async fn a_failed_attempt_is_repeated_after_its_pause_only() {
        let (directory, gone) = (tempfile::tempdir().unwrap(), HeldPort::take());
        let clock = Arc::new(ManualClock::at(NOW));
        let mut first = issuer(directory.path(), &gone, &clock);
        let outcomes = first.work().await;
        let [Outcome::Failed { next_attempt, .. }] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!(*next_attempt, NOW.plus(Duration::from_secs(120)));
        assert!(first.work().await.is_empty());
        let placeholder = std::fs::read(first.certificates[0].files().chain).unwrap();
        drop(first);

        let mut second = issuer(directory.path(), &gone, &clock);
        assert!(second.work().await.is_empty(), "a restart changes nothing");
        assert_eq!((second.reports()[0].failures, second.reports()[0].expires), (1, None));
        assert_eq!(std::fs::read(second.certificates[0].files().chain).unwrap(), placeholder);
        clock.advance(Duration::from_secs(121));
        let outcomes = second.work().await;
        let [Outcome::Failed { next_attempt, .. }] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!(*next_attempt, NOW.plus(Duration::from_secs(121 + 8 * 60)));
    }

    #[tokio::test]
    async fn an_attempt_of_another_process_is_waited_for() {
        let (directory, gone) = (tempfile::tempdir().unwrap(), HeldPort::take());
        let clock = Arc::new(ManualClock::at(NOW));
        let mut own = issuer(directory.path(), &gone, &clock);
        let lock = File::create(own.orders.terms.directory().join("lock")).unwrap();
        lock.try_lock().unwrap();
        assert!(own.work().await.is_empty() && own.work().await.is_empty());
        assert_eq!(own.reports()[0].next_attempt, NOW.plus(Duration::from_secs(60)));
        drop(lock);
        clock.advance(Duration::from_secs(61));
        assert!(own.work().await.is_empty(), "it looks what the other one has done");
        assert_eq!(own.work().await.len(), 1);
    }

    #[test]
    fn later_attempts_take_turns_with_the_methods() {
        let (directory, gone) = (tempfile::tempdir().unwrap(), HeldPort::take());
        let own = issuer(directory.path(), &gone, &Arc::new(ManualClock::at(NOW)));
        let (http, tls) = (ValidationMethod::Http, ValidationMethod::Tls);
        let methods: Vec<_> = (1..=4).map(|attempt| own.orders.methods_of(attempt)).collect();
        assert_eq!(methods, [vec![http, tls], vec![http], vec![tls], vec![http]]);
    }

    #[test]
    fn a_window_contains_its_ends() {
        let window = (NOW, NOW.plus(Duration::from_secs(9)));
        let secs = NOW.as_secs();
        let inside = [secs - 1, secs, secs + 9, secs + 10].map(|secs| contains(window, secs));
        assert_eq!(inside, [false, true, true, false]);
    }
}
