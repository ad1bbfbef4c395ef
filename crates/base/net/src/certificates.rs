//! Certificates of TLS listeners: read from files, chosen by name and key type, and replaced when
//! their files change.
//!
//! Invariant: a certificate serves only after its key was found to belong to it. A file that cannot
//! be used leaves the certificate that was read before in use, unless there is none.

mod certificate;
mod challenge;
mod watched_file;

pub(crate) use certificate::read_chain;
pub use certificate::{Certificate, CertificateError, CertificateFiles};
pub use challenge::{ACME_TLS, ChallengeCertificates, ChallengeError};

use clock::Timestamp;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use watched_file::{Look, WatchedFiles};

/// The certificates of one or several listeners.
pub struct Certificates {
    /// The files, in the order of the configuration. Only [`Certificates::refresh`] locks it, so
    /// handshakes never wait for the disk.
    watched: std::sync::Mutex<Vec<WatchedFiles>>,
    /// The certificates that serve now, in the same order.
    serving: RwLock<Arc<[Arc<Certificate>]>>,
    /// The certificates for an authority that validates names. `None`: no authority is answered.
    challenges: Option<Arc<ChallengeCertificates>>,
}

/// The outcome of looking at the files of one certificate that have changed.
#[derive(Debug)]
pub enum Refreshed {
    /// The new certificate serves from now on.
    Replaced(Arc<Certificate>),
    /// The new files cannot be used; the old certificate stays in use.
    Kept(CertificateError),
}

impl Certificates {
    /// Reads the certificates from their files. An expired certificate is accepted, because an
    /// error page of the browser is better than no site; see [`Certificate::fault_at`].
    ///
    /// # Errors
    /// The errors of all files that cannot be used.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, Vec<CertificateError>> {
        let (mut serving, mut errors) = (Vec::with_capacity(files.len()), Vec::new());
        // The states come first: a file that changes while it is read is then read again.
        let watched = files.iter().map(WatchedFiles::of).collect();
        for pair in files {
            match Certificate::read(pair) {
                Ok(certificate) => serving.push(Arc::new(certificate)),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let (watched, serving) = (std::sync::Mutex::new(watched), RwLock::new(serving.into()));
        Ok(Self { watched, serving, challenges: None })
    }

    /// Also answers an authority that validates a name by TLS (RFC 8737), with these certificates.
    #[must_use]
    pub fn with_challenges(self, challenges: Arc<ChallengeCertificates>) -> Self {
        Self { challenges: Some(challenges), ..self }
    }

    /// Whether authorities that validate a name by TLS are answered.
    pub(crate) const fn answers_challenges(&self) -> bool {
        self.challenges.is_some()
    }

    /// The certificates that serve now, in the order of the configuration.
    pub fn serving(&self) -> Arc<[Arc<Certificate>]> {
        // A poisoned lock holds a complete list: replacing it is one assignment.
        Arc::clone(&self.serving.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files that have changed since they were read last; blocks. Changed files count
    /// once they have stayed the same between two calls, so that a certificate and its key can be
    /// replaced one after the other. With `at_once` they count immediately.
    ///
    /// A new certificate outside its validity period at `now` is refused while the old one is
    /// better.
    pub fn refresh(&self, now: Timestamp, at_once: bool) -> Vec<Refreshed> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let mut serving = self.serving().to_vec();
        let mut refreshed = Vec::new();
        for (files, certificate) in watched.iter_mut().zip(&mut serving) {
            let look = files.look(at_once);
            if look == Look::Unchanged {
                continue;
            }
            let new = Certificate::read(files.files()).and_then(|new| new.instead_of(certificate, now));
            files.were_read(!matches!(new, Err(CertificateError::Unreadable { .. })));
            match new {
                Ok(new) => {
                    *certificate = Arc::new(new);
                    refreshed.push(Refreshed::Replaced(Arc::clone(certificate)));
                }
                Err(error) if look == Look::Changed => refreshed.push(Refreshed::Kept(error)),
                // It was reported when the files changed.
                Err(_) => {}
            }
        }
        if !refreshed.is_empty() {
            *self.serving.write().unwrap_or_else(PoisonError::into_inner) = serving.into();
        }
        refreshed
    }

    /// Whether a certificate that serves clients of the host `named` is also for `other`.
    pub(crate) fn are_shared(&self, named: &str, other: &str) -> bool {
        let serving = self.serving();
        let is_usual = !serving.iter().any(|certificate| certificate.is_for(named));
        let mut serves = serving
            .iter()
            .enumerate()
            .filter(|(number, certificate)| certificate.is_for(named) || is_usual && *number == 0);
        serves.any(|(_, certificate)| certificate.is_for(other))
    }

    /// The certificate for a client that named this server (or none) and accepts these signature
    /// schemes. A certificate with the exact name wins over one with a wildcard, and that over the
    /// first of all, which also answers clients that name no server.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let serving = self.serving();
        let usable = || serving.iter().filter(|certificate| certificate.can_sign(schemes));
        let chosen = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let exact = usable().filter(|certificate| certificate.names_exactly(&name));
            let covering = usable().filter(|certificate| certificate.is_for(&name));
            exact.min_by_key(|one| one.rank()).or_else(|| covering.min_by_key(|one| one.rank()))
        });
        chosen.or_else(|| usable().next()).map(|certificate| certificate.key())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(challenges) = self.challenges.as_ref().filter(|_| challenge::is_validation(&hello)) {
            return challenges.find(hello.server_name()?);
        }
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.serving().iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{CertificateError, CertificateFiles, Certificates, Refreshed};
    use clock::Timestamp;
    use std::path::Path;
    use testkit::{Authority, KeyKind, PemFiles};
    use tokio_rustls::rustls::SignatureScheme::{self, ECDSA_NISTP256_SHA256, RSA_PSS_SHA256};

    /// A moment in 2026.
    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);
    const VALID: (i32, i32) = (2000, 2100);
    const BOTH: [SignatureScheme; 2] = [RSA_PSS_SHA256, ECDSA_NISTP256_SHA256];

    fn write(pem: &PemFiles, directory: &Path, name: &str) -> CertificateFiles {
        let (chain, key) = pem.write(directory, name);
        CertificateFiles { chain, key }
    }

    /// Whether a certificate is for this host name.
    fn covers(certificates: &Certificates, name: &str) -> bool {
        certificates.serving().iter().any(|certificate| certificate.is_for(name))
    }

    /// Number of the chosen certificate.
    fn chosen(certificates: &Certificates, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<usize> {
        let key = certificates.choose(name, schemes)?;
        certificates.serving().iter().position(|one| one.key().cert == key.cert)
    }

    #[test]
    fn certificate_is_chosen_by_name_and_key_type() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new("choice"));
        let issue = |index: usize, names: &[&str], kind| {
            write(&authority.issue(names, kind, VALID), directory.path(), &index.to_string())
        };
        let files = [
            issue(0, &["first.test"], KeyKind::Ecdsa),
            issue(1, &["*.b.test", "b.test"], KeyKind::Ecdsa),
            issue(2, &["www.b.test"], KeyKind::Rsa),
            issue(3, &["both.test"], KeyKind::Rsa),
            issue(4, &["Both.test"], KeyKind::Ecdsa),
        ];
        let certificates = Certificates::read(&files).unwrap();
        for (name, schemes, expected) in [
            (None, &BOTH[..], Some(0)),
            (Some("unknown.test"), &BOTH, Some(0)),
            (Some("b.test"), &BOTH, Some(1)),
            (Some("x.b.test"), &BOTH, Some(1)),
            (Some("x.y.b.test"), &BOTH, Some(0)),
            (Some("WWW.b.test"), &BOTH, Some(2)),
            (Some("www.b.test"), &[ECDSA_NISTP256_SHA256], Some(1)),
            (Some("both.test"), &BOTH, Some(4)),
            (Some("both.test"), &[RSA_PSS_SHA256], Some(3)),
            (Some("both.test"), &[SignatureScheme::ED25519], None),
        ] {
            assert_eq!(chosen(&certificates, name, schemes), expected, "{name:?} {schemes:?}");
        }
        assert!(covers(&certificates, "x.b.test") && !covers(&certificates, "c.test"));
    }

    #[test]
    fn every_fault_of_a_file_is_named_with_the_file() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new("faults"));
        let good = authority.issue(&["a.test"], KeyKind::Ecdsa, VALID);
        let other = authority.issue(&["a.test"], KeyKind::Ecdsa, VALID);
        let files = |certificate: &str, key: &str| {
            let pem = PemFiles { certificate: certificate.to_owned(), key: key.to_owned(), ..good.clone() };
            write(&pem, directory.path(), "a")
        };
        let cut = good.certificate.replace("-----END CERTIFICATE-----", "");
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (certificate, key, expected) in [
            (&good.certificate[..], &other.key[..], "a.key does not belong to the certificate in"),
            (&good.certificate, "", "a.key holds no private key"),
            ("", &good.key, "a.pem holds no certificate"),
            (&cut, &good.key, "a.pem is damaged"),
            (nonsense, &good.key, "the first certificate in"),
        ] {
            let errors = Certificates::read(&[files(certificate, key)]).unwrap_err();
            let text = errors.iter().map(ToString::to_string).collect::<String>();
            assert!(text.contains(expected) && text.contains("/a."), "{expected}: {text}");
        }
        let gone = CertificateFiles { chain: "/none/a.pem".into(), key: "/none/a.key".into() };
        let errors = Certificates::read(&[gone.clone(), gone]).unwrap_err();
        assert!(matches!(
            errors[..],
            [CertificateError::Unreadable { .. }, CertificateError::Unreadable { .. }]
        ));
        let together = PemFiles { certificate: good.certificate.clone() + &good.key, ..good.clone() };
        let chain = write(&together, directory.path(), "both").chain;
        assert!(Certificates::read(&[CertificateFiles { key: chain.clone(), chain }]).is_ok());
    }

    #[test]
    fn changed_files_replace_the_certificate_once_they_rest() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new("changes"));
        let issue = |name: &str, years| authority.issue(&[name], KeyKind::Ecdsa, years);
        let files = write(&issue("old.test", VALID), directory.path(), "a");
        let certificates = Certificates::read(std::slice::from_ref(&files)).unwrap();
        assert!(certificates.refresh(NOW, true).is_empty(), "nothing has changed");

        let new = issue("new.test", VALID);
        std::fs::write(&files.chain, &new.certificate).unwrap();
        assert!(certificates.refresh(NOW, false).is_empty(), "the key may follow");
        std::fs::write(&files.key, &new.key).unwrap();
        assert!(certificates.refresh(NOW, false).is_empty(), "the files have just changed");
        assert!(matches!(certificates.refresh(NOW, false)[..], [Refreshed::Replaced(_)]));
        assert!(covers(&certificates, "new.test") && !covers(&certificates, "old.test"));

        std::fs::write(&files.key, "").unwrap();
        assert!(matches!(certificates.refresh(NOW, true)[..], [Refreshed::Kept(CertificateError::NoKey(_))]));
        assert!(certificates.refresh(NOW, true).is_empty(), "a fault is reported once");
        std::fs::remove_file(&files.key).unwrap();
        let kept = certificates.refresh(NOW, true);
        assert!(matches!(kept[..], [Refreshed::Kept(CertificateError::Unreadable { .. })]), "{kept:?}");
        assert!(covers(&certificates, "new.test"), "the old certificate serves");
        std::fs::write(&files.key, &new.key).unwrap();
        assert!(matches!(certificates.refresh(NOW, true)[..], [Refreshed::Replaced(_)]));

        // A directory in place of a file cannot be read by any user, the superuser included.
        std::fs::remove_file(&files.key).unwrap();
        std::fs::create_dir(&files.key).unwrap();
        assert!(matches!(certificates.refresh(NOW, true)[..], [Refreshed::Kept(_)]));
        assert!(certificates.refresh(NOW, false).is_empty(), "it is tried again, and reported once");
        std::fs::remove_dir(&files.key).unwrap();
        write(&issue("later.test", (2050, 2060)), directory.path(), "a");
        assert!(matches!(
            certificates.refresh(NOW, true)[..],
            [Refreshed::Kept(CertificateError::NotYetValid { .. })]
        ));

        write(&issue("expired.test", (1990, 1999)), directory.path(), "a");
        assert!(matches!(
            certificates.refresh(NOW, true)[..],
            [Refreshed::Kept(CertificateError::Expired { .. })]
        ));
        write(&issue("last.test", VALID), directory.path(), "a");
        assert!(matches!(certificates.refresh(NOW, true)[..], [Refreshed::Replaced(_)]));
        assert!(covers(&certificates, "last.test"));
    }

    #[test]
    fn expired_certificate_serves_if_there_is_no_other() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new("expiry"));
        let files = write(&authority.issue(&["a.test"], KeyKind::Ecdsa, (1990, 1999)), directory.path(), "a");
        let certificates = Certificates::read(std::slice::from_ref(&files)).unwrap();
        let expired = certificates.serving()[0].fault_at(NOW).unwrap().to_string();
        assert!(expired.ends_with("a.pem has expired on Fri, 01 Jan 1999 00:00:00 GMT"), "{expired}");
        write(&authority.issue(&["a.test"], KeyKind::Ecdsa, (1990, 2001)), directory.path(), "a");
        assert!(matches!(certificates.refresh(NOW, true)[..], [Refreshed::Replaced(_)]), "less old");
    }
}
