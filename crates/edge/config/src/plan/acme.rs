//! Certificates that Petasos obtains itself: the authority, the names, and the directory.
//!
//! Invariant: a plan with such certificates has a directory for them.

use super::{EdgePlan, ListenerPlan};
use crate::levels::SettingLevels;
use crate::machine::Machine;
use address::HttpUrl;
use document::{Diagnostic, Place};
use std::path::PathBuf;

/// The terms on which an authority issues certificates by ACME (RFC 8555).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmePlan {
    /// The URL of the authority's directory.
    pub directory_url: String,
    /// The operator's mail address.
    pub contact: Option<String>,
    /// The file with the authorities that verify the server of the certificate authority. `None`:
    /// those of the system.
    pub ca_file: Option<PathBuf>,
    /// The file with the external account binding. `None`: the authority needs none.
    pub eab_file: Option<PathBuf>,
}

impl AcmePlan {
    pub(super) fn resolve(top: &SettingLevels<'_>) -> Self {
        Self {
            directory_url: top.text("acme_directory").unwrap_or_default().to_owned(),
            contact: top.text("acme_contact").map(str::to_owned),
            ca_file: top.text("acme_ca_file").map(PathBuf::from),
            eab_file: top.text("acme_eab_file").map(PathBuf::from),
        }
    }
}

impl EdgePlan {
    /// The lists of names for which certificates are obtained by ACME: one for each certificate.
    pub fn acme_names(&self) -> Vec<Vec<String>> {
        let mut lists: Vec<Vec<String>> = Vec::new();
        let wanted = self.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        for names in wanted.map(|tls| &tls.acme_names).filter(|names| !names.is_empty()) {
            if !lists.contains(names) {
                lists.push(names.clone());
            }
        }
        lists
    }

    /// Whether the local authority issues a certificate.
    pub fn has_local_authority(&self) -> bool {
        self.listeners.iter().filter_map(|listener| listener.tls.as_ref()).any(|tls| tls.is_internal)
    }
}

/// Refuses terms that cannot work: no directory for the certificates, a URL without https, and two
/// certificates with one file.
pub(super) fn problems(
    top: &SettingLevels<'_>,
    machine: &Machine,
    listeners: &[ListenerPlan],
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let place = |key| top.place(key).unwrap_or(Place::Default);
    let url = top.text("acme_directory").unwrap_or_default();
    if !HttpUrl::parse(url).is_ok_and(|url| url.is_https()) {
        let problem =
            Diagnostic::new(format!("`acme_directory` is not an https URL: {url}"), place("acme_directory"));
        found.push(
            problem.with_help("write the URL of the authority's directory, such as https://HOST/directory"),
        );
    }
    if top.text("acme_contact").is_some_and(|mail| !mail.contains('@') || mail.contains(char::is_whitespace))
    {
        let problem = Diagnostic::new("`acme_contact` is not a mail address", place("acme_contact"));
        found.push(problem.with_help("write for example acme_contact = \"admin@example.org\""));
    }
    let mut lists: Vec<&[String]> = Vec::new();
    for tls in listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        let is_obtained = tls.is_internal || !tls.acme_names.is_empty();
        if is_obtained
            && super::directory_or_default(top, "state_directory", machine.state_directory.clone()).is_none()
        {
            let message = "`tls` names no file, and there is no `state_directory` for a certificate";
            let problem = Diagnostic::new(message, tls.place.clone());
            found.push(problem.with_help("set `state_directory`, or name the files CERT.pem,KEY.pem"));
        }
        if lists.iter().any(|list| *list != tls.acme_names && list.first() == tls.acme_names.first()) {
            let message = "another listener has a list of host names that begins with the same one";
            let problem = Diagnostic::new(message, tls.place.clone());
            found.push(problem.with_help("list the same names, or begin with another name"));
        }
        if !tls.acme_names.is_empty() {
            lists.push(&tls.acme_names);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::{EdgePlan, Machine, Overrides};
    use std::path::Path;

    fn load(text: &str, flags: &[(&'static str, &str)], state: Option<&str>) -> Result<EdgePlan, String> {
        let text = format!("origin = 'http://127.0.0.1:9'\n{text}");
        let flags: Overrides = flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
        let machine = Machine { state_directory: state.map(Into::into), ..Machine::of_size(3, 4 << 30) };
        let read = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        crate::load("petasos.toml", &text, &flags, &machine, &read)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n\n")).collect())
    }

    #[test]
    fn a_host_name_in_tls_is_a_certificate_by_acme() {
        let plan = load("", &[("tls", "www.example.org,example.org")], Some("/state")).unwrap();
        assert_eq!(plan.acme_names(), [["www.example.org", "example.org"]]);
        assert_eq!(plan.state_directory.as_deref(), Some(Path::new("/state")));
        assert_eq!(plan.acme.directory_url, "https://acme-v02.api.letsencrypt.org/directory");
        assert!(plan.explain().contains("TLS from 1.2 on with www.example.org and example.org"));
        let text = "[[listener]]\nlisten = ':443'\ntls = ['a.test', '/b.pem']\n[[listener]]\nlisten = ':444'\n\
                    tls = ['a.test']\n[[listener]]\nlisten = ':445'\ntls = ['internal']";
        let plan = load(text, &[], Some("/state")).unwrap();
        assert!(plan.acme_names() == [["a.test"]] && plan.has_local_authority());
        let tls = plan.listeners[0].tls.as_ref().unwrap();
        assert_eq!((tls.certificates.len(), tls.is_internal), (1, false));
    }

    #[test]
    fn terms_that_cannot_work_are_errors_with_a_fix() {
        for (text, state, words) in [
            ("tls = ['a.test']", None, "set `state_directory`"),
            ("tls = ['internal']", None, "set `state_directory`"),
            ("tls = ['a.test']\nstate_directory = 'none'", Some("/s"), "set `state_directory`"),
            ("acme_directory = 'http://a.test/dir'", Some("/s"), "not an https URL"),
            ("acme_directory = 'a.test'", Some("/s"), "not an https URL"),
            ("acme_contact = 'admin'", Some("/s"), "not a mail address"),
            (
                "[[listener]]\nlisten = ':443'\ntls = ['a.test']\n[[listener]]\nlisten = ':444'\n\
                 tls = ['a.test', 'b.test']",
                Some("/s"),
                "begins with the same one",
            ),
        ] {
            let fault = load(text, &[], state).unwrap_err();
            assert!(fault.contains(words), "{text}: {fault}");
        }
    }
}
