//! One certificate that an authority issues by ACME: its files, validity and renewal time.
//!
//! Invariant: its file holds a usable certificate from the start on, at first a placeholder. Names
//! that change keep the file, so that the old certificate serves until the new one arrives.

use crate::files::{self, FileError, SECRET};
use crate::record::{Record, RenewalPlan, Validity, renewal_time};
use crate::self_signed::{self, PLACEHOLDER};
use crate::terms::AcmeTerms;
use clock::Timestamp;
use net::{Certificate, CertificateFiles};
use std::path::{Path, PathBuf};

/// The report to the operator about a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateReport {
    /// The names that it is or will be for.
    pub names: Vec<String>,
    /// When the authority's certificate expires; `None` without one.
    pub expires: Option<Timestamp>,
    /// Failed attempts since the last success.
    pub failures: u32,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When the next attempt is due.
    pub next_attempt: Timestamp,
}

/// The files of one certificate, and the record of the attempts at it.
#[derive(Debug)]
pub(crate) struct ManagedCertificate {
    pub(crate) names: Vec<String>,
    file: PathBuf,
    record_file: PathBuf,
    pub(crate) record: Record,
    /// The validity of the authority's certificate for all names, if there is one.
    held: Option<Validity>,
    /// When the outcome of another process's attempt is looked at.
    left_until: Option<Timestamp>,
}

impl ManagedCertificate {
    /// Opens the files of the certificate for these names, and makes a placeholder if there is no
    /// other certificate. Blocks.
    pub(crate) fn open(terms: &AcmeTerms, names: &[String], now: Timestamp) -> Result<Self, FileError> {
        let directory = terms.directory();
        files::create_directory(&directory)?;
        let name = names.first().map_or("none", String::as_str);
        let path = |kind: &str| directory.join(format!("{}.{kind}", files::name_for(name)));
        let (file, record_file) = (path("pem"), path("json"));
        let (names, record) = (names.to_vec(), Record::default());
        let mut own = Self { names, file, record_file, record, held: None, left_until: None };
        own.reload();
        if own.lacks_certificate(now)? {
            files::write(&own.file, &self_signed::placeholder(&own.names, now)?, SECRET)?;
        }
        Ok(own)
    }

    /// Whether a placeholder must be made. An unreadable file may hold a good certificate, so it is
    /// an error; a damaged one is set aside.
    fn lacks_certificate(&self, now: Timestamp) -> Result<bool, FileError> {
        if files::read(&self.file)?.is_none() {
            return Ok(true);
        }
        let Some(held) = self.read() else {
            let aside = self.file.with_extension("damaged");
            let moved = std::fs::rename(&self.file, aside);
            return moved.map(|()| true).map_err(|error| FileError::Write { path: self.file.clone(), error });
        };
        Ok(is_placeholder(&held) && self.is_outdated(&held, now))
    }

    /// Whether a placeholder is for other names, or ends soon.
    fn is_outdated(&self, held: &Certificate, now: Timestamp) -> bool {
        held.names() != self.names || now >= renewal_time(held.validity(), 0)
    }

    /// The file with the certificate, its chain and its key.
    pub(crate) fn files(&self) -> CertificateFiles {
        CertificateFiles { chain: self.file.clone(), key: self.file.clone() }
    }

    /// When the next attempt is due.
    pub(crate) fn due(&self) -> Timestamp {
        self.left_until.unwrap_or_else(|| self.record.due(&self.names, self.held))
    }

    /// Leaves the attempt to another process until this time.
    pub(crate) const fn leave_to_others(&mut self, until: Timestamp) {
        self.left_until = Some(until);
    }

    /// Whether another process has made an attempt whose outcome was not looked at.
    pub(crate) const fn is_left_to_others(&self) -> bool {
        self.left_until.is_some()
    }

    /// Reads the files again.
    pub(crate) fn reload(&mut self) {
        self.left_until = None;
        self.record = self.read_record();
        let held = self.authoritys().filter(|held| self.names.iter().all(|name| held.is_for(name)));
        self.held = held.map(|held| held.validity());
    }

    /// The plan for the renewal of the certificate that serves.
    pub(crate) fn plan(&self) -> Option<&RenewalPlan> {
        let held = self.held?;
        self.record.renewal.as_ref().filter(|plan| plan.expires_secs == held.1.as_secs())
    }

    /// The authority's certificate, also if it is for other names than wanted now.
    pub(crate) fn authoritys(&self) -> Option<Certificate> {
        self.read().filter(|held| !is_placeholder(held))
    }

    /// Puts a new certificate with its key into the file, if it is usable at `now`.
    pub(crate) fn replace(&mut self, pem: &str, now: Timestamp) -> Result<Validity, FileError> {
        let trial = self.file.with_extension("trial");
        files::write(&trial, pem, SECRET)?;
        let usable = self.examine(&trial, now);
        // The next attempt overwrites a file that an earlier one left.
        let _ = std::fs::remove_file(&trial);
        let validity = usable.map_err(|reason| FileError::Content { path: self.file.clone(), reason })?;
        files::write(&self.file, pem, SECRET)?;
        self.held = Some(validity);
        Ok(validity)
    }

    /// The validity of the certificate in a file, if it is valid at `now` and for all names.
    fn examine(&self, file: &Path, now: Timestamp) -> Result<Validity, String> {
        let files = CertificateFiles { chain: file.to_owned(), key: file.to_owned() };
        let new = Certificate::read(&files).map_err(|error| error.to_string())?;
        if let Some(fault) = new.fault_at(now) {
            return Err(fault.to_string());
        }
        match self.names.iter().find(|name| !new.is_for(name)) {
            Some(name) => Err(format!("the authority's certificate is not for `{name}`")),
            None => Ok(new.validity()),
        }
    }

    /// Writes the record of the attempts.
    pub(crate) fn remember(&self) -> Result<(), FileError> {
        let unusable = |error: serde_json::Error| FileError::Content {
            path: self.record_file.clone(),
            reason: error.to_string(),
        };
        let text = serde_json::to_string_pretty(&self.record).map_err(unusable)?;
        files::write(&self.record_file, &(text + "\n"), SECRET)
    }

    pub(crate) fn report(&self) -> CertificateReport {
        let is_current = self.record.names == self.names;
        CertificateReport {
            names: self.names.clone(),
            expires: self.held.map(|held| held.1),
            failures: if is_current { self.record.failures } else { 0 },
            last_error: self.record.last_error.clone().filter(|_| is_current),
            next_attempt: self.due(),
        }
    }

    fn read(&self) -> Option<Certificate> {
        Certificate::read(&self.files()).ok()
    }

    fn read_record(&self) -> Record {
        let text = files::read(&self.record_file).ok().flatten();
        // Without a record, the worst is one attempt too many.
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

fn is_placeholder(certificate: &Certificate) -> bool {
    certificate.common_name() == Some(PLACEHOLDER)
}

#[cfg(test)]
mod tests {
    use crate::terms::AcmeTerms;
    use clock::Timestamp;
    use net::Certificate;
    use std::os::unix::fs::symlink;

    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

    #[test]
    fn a_file_that_cannot_be_read_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let terms = AcmeTerms {
            directory_url: "https://ca.test/dir".to_owned(),
            contact: None,
            ca_file: None,
            binding_file: None,
            state_directory: directory.path().to_owned(),
        };
        let names = ["a.test".to_owned()];
        let file = terms.prepare(&names, NOW).unwrap().chain;
        let good = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        // A link to itself cannot be read, not even by root.
        symlink(&file, &file).unwrap();
        assert!(terms.prepare(&names, NOW).is_err());
        assert!(file.symlink_metadata().unwrap().is_symlink());
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "damaged").unwrap();
        let files = terms.prepare(&names, NOW).unwrap();
        assert!(Certificate::read(&files).is_ok() && std::fs::read(&file).unwrap() != good);
        assert_eq!(std::fs::read(file.with_extension("damaged")).unwrap(), b"damaged");
    }
}
