//! The answers to an authority that validates a name, as long as it validates.
//!
//! Invariant: an answer exists from before the authority may ask until the order ends.

use net::ChallengeCertificates;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Where an authority asks for an answer by HTTP (RFC 8555 section 8.3).
const WELL_KNOWN: &[u8] = b"/.well-known/acme-challenge/";

/// The answers by HTTP, by token. Listeners look here before they serve a request.
#[derive(Default)]
pub struct HttpChallenges {
    by_token: RwLock<HashMap<String, String>>,
}

/// All answers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The answers by HTTP.
    pub http: Arc<HttpChallenges>,
    /// The answers by TLS.
    pub tls: Arc<ChallengeCertificates>,
}

impl HttpChallenges {
    /// The content of the answer to a request for this target. `None`: no authority asks for it,
    /// and the request is one like others.
    pub fn answer(&self, target: &[u8]) -> Option<String> {
        let token = std::str::from_utf8(target.strip_prefix(WELL_KNOWN)?).ok()?;
        self.by_token.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    /// Answers requests with this token.
    pub(crate) fn publish(&self, token: &str, answer: &str) {
        // A poisoned lock holds a complete table: each change is one call.
        let mut by_token = self.by_token.write().unwrap_or_else(PoisonError::into_inner);
        by_token.insert(token.to_owned(), answer.to_owned());
    }

    fn clear(&self) {
        self.by_token.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Answers {
    /// Answers no authority any more.
    pub(crate) fn clear(&self) {
        self.http.clear();
        self.tls.clear();
    }
}

impl fmt::Debug for HttpChallenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpChallenges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Answers;

    #[test]
    fn only_known_tokens_are_answered() {
        let answers = Answers::default();
        assert_eq!(answers.http.answer(b"/.well-known/acme-challenge/"), None);
        answers.http.publish("tok-1", "tok-1.print");
        for (target, answer) in [
            (&b"/.well-known/acme-challenge/tok-1"[..], Some("tok-1.print")),
            (b"/.well-known/acme-challenge/tok-2", None),
            (b"/.well-known/acme-challenge/", None),
            (b"/.well-known/acme-challenge/tok-1?x", None),
            (b"/.well-known/acme-challenge/\xff", None),
            (b"/", None),
        ] {
            assert_eq!(answers.http.answer(target).as_deref(), answer);
        }
        answers.clear();
        assert_eq!(answers.http.answer(b"/.well-known/acme-challenge/tok-1"), None);
    }
}
