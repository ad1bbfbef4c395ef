//! One order at an authority, from the names to the certificate.
//!
//! Invariant: the private key leaves this machine never. When an order ends, no authority is
//! answered any more.

use crate::answers::Answers;
use crate::files::FileError;
use crate::self_signed;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use net::ChallengeError;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use std::time::Duration;

/// How an authority is asked for the state of an order: after 250 ms, then ever less often.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(90));

/// How an authority validates that this machine serves a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationMethod {
    /// By a plain request to port 80 (HTTP-01, RFC 8555 section 8.3).
    Http,
    /// By a handshake at port 443 (TLS-ALPN-01, RFC 8737).
    Tls,
}

/// Why an order produced no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    /// The authority refused, or it did not answer.
    #[error("{}", describe(.0))]
    Authority(#[from] Error),
    /// The authority does not offer the method.
    #[error("the authority does not validate `{name}` by {}", method.name())]
    NotOffered {
        /// The name.
        name: String,
        /// The method.
        method: ValidationMethod,
    },
    /// The authority could not validate a name.
    #[error("the authority could not validate {0}")]
    Invalid(String),
    /// An answer for the authority cannot be made.
    #[error(transparent)]
    Answer(#[from] ChallengeError),
    /// A certificate or request cannot be made.
    #[error(transparent)]
    File(#[from] FileError),
}

impl ValidationMethod {
    /// The name of the challenge.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP-01",
            Self::Tls => "TLS-ALPN-01",
        }
    }

    const fn challenge(self) -> ChallengeType {
        match self {
            Self::Http => ChallengeType::Http01,
            Self::Tls => ChallengeType::TlsAlpn01,
        }
    }
}

impl OrderError {
    /// Whether another method may succeed.
    pub(crate) const fn is_of_method(&self) -> bool {
        matches!(self, Self::NotOffered { .. } | Self::Invalid(_) | Self::Answer(_))
    }
}

/// Orders a certificate for these names. Returns the chain and the key as PEM. `replaced` is the
/// certificate that the new one is to replace (RFC 9773 section 5).
pub(crate) async fn obtain(
    account: &Account,
    names: &[String],
    method: ValidationMethod,
    answers: &Answers,
    replaced: Option<CertificateIdentifier<'static>>,
) -> Result<String, OrderError> {
    let obtained = Box::pin(carry_out(account, names, method, answers, replaced)).await;
    answers.clear();
    obtained
}

async fn carry_out(
    account: &Account,
    names: &[String],
    method: ValidationMethod,
    answers: &Answers,
    replaced: Option<CertificateIdentifier<'static>>,
) -> Result<String, OrderError> {
    let mut order = begin(account, names, replaced).await?;
    prove(&mut order, method, answers).await?;
    match order.poll_ready(&POLLING).await {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => {}
        Ok(_) => return Err(OrderError::Invalid(failed_names(&mut order).await)),
        Err(error @ Error::Api(_)) => {
            let failed = failed_names(&mut order).await;
            return Err(if failed.is_empty() { error.into() } else { OrderError::Invalid(failed) });
        }
        Err(error) => return Err(error.into()),
    }
    let key = KeyPair::generate().map_err(FileError::from)?;
    let mut wanted = CertificateParams::new(names.to_vec()).map_err(FileError::from)?;
    wanted.distinguished_name = DistinguishedName::new();
    let request = wanted.serialize_request(&key).map_err(FileError::from)?;
    order.finalize_csr(request.der()).await?;
    let chain = order.poll_certificate(&POLLING).await?;
    Ok(format!("{}\n{}", chain.trim_end(), key.serialize_pem()))
}

/// Creates the order. An authority may refuse the reference to the old certificate, which is a
/// courtesy only.
async fn begin(
    account: &Account,
    names: &[String],
    replaced: Option<CertificateIdentifier<'static>>,
) -> Result<Order, Error> {
    let names: Vec<_> = names.iter().map(|name| Identifier::Dns(name.clone())).collect();
    if let Some(replaced) = replaced {
        match account.new_order(&NewOrder::new(&names).replaces(replaced)).await {
            Ok(order) => return Ok(order),
            Err(Error::Api(problem)) if is_limited(&problem) => return Err(Error::Api(problem)),
            Err(error) => tracing::debug!("the authority takes no note of the old certificate: {error}"),
        }
    }
    account.new_order(&NewOrder::new(&names)).await
}

/// Publishes the answer for each name that has no validation yet, and tells the authority to ask.
async fn prove(order: &mut Order, method: ValidationMethod, answers: &Answers) -> Result<(), OrderError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        let challenge = authorization.challenge(method.challenge());
        let mut challenge = challenge.ok_or(OrderError::NotOffered { name: name.clone(), method })?;
        publish(&challenge, &name, method, answers)?;
        challenge.set_ready().await?;
    }
    Ok(())
}

fn publish(
    challenge: &ChallengeHandle<'_>,
    name: &str,
    method: ValidationMethod,
    answers: &Answers,
) -> Result<(), OrderError> {
    let authorization = challenge.key_authorization();
    match method {
        ValidationMethod::Http => answers.http.publish(&challenge.token, authorization.as_str()),
        ValidationMethod::Tls => {
            let shown = self_signed::for_validation(name, authorization.digest().as_ref())?;
            answers.tls.publish(name, shown.certificate, shown.key)?;
        }
    }
    Ok(())
}

/// The names that the authority could not validate, each with its reason.
async fn failed_names(order: &mut Order) -> String {
    let (mut authorizations, mut failed) = (order.authorizations(), Vec::new());
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() || authorization.status != AuthorizationStatus::Invalid {
            continue;
        }
        let errors = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        let reasons: Vec<_> = errors.map(tell).collect();
        failed.push(format!("`{}`: {}", authorization.identifier(), reasons.join("; ")));
    }
    failed.join(", ")
}

/// An error of the ACME library as a clause for the operator.
pub(crate) fn describe(error: &Error) -> String {
    match error {
        Error::Api(problem) => format!("the authority refused: {}", tell(problem)),
        Error::Timeout(_) => "the authority did not finish the order in time".to_owned(),
        Error::Json(error) => format!("the authority's response is not of the protocol: {error}"),
        other => other.to_string(),
    }
}

/// Whether the authority limits the rate of orders.
fn is_limited(problem: &Problem) -> bool {
    problem.r#type.as_deref().is_some_and(|kind| kind.ends_with(":rateLimited"))
}

fn tell(problem: &Problem) -> String {
    let detail = problem.detail.as_deref().unwrap_or("no reason given");
    let parts = problem.subproblems.iter().filter_map(|part| part.detail.as_deref());
    let details: Vec<_> = std::iter::once(detail).chain(parts).collect();
    let kind = problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next());
    let kind = kind.map(|kind| format!(" ({kind})")).unwrap_or_default();
    format!("{}{kind}", details.join("; "))
}

#[cfg(test)]
mod tests {
    use super::{describe, is_limited};
    use instant_acme::{Error, Problem};

    fn problem(text: &str) -> Problem {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_refusal_is_told_with_its_parts() {
        let limited = problem(r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many"}"#);
        assert!(is_limited(&limited));
        assert_eq!(describe(&Error::Api(limited)), "the authority refused: too many (rateLimited)");
        let text = r#"{"type":"urn:x:malformed","detail":"some","subproblems":[{"detail":"bad name"}]}"#;
        assert_eq!(describe(&Error::Api(problem(text))), "the authority refused: some; bad name (malformed)");
        let bare = problem("{}");
        assert!(!is_limited(&bare));
        assert_eq!(describe(&Error::Api(bare)), "the authority refused: no reason given");
    }
}
