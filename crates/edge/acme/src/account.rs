//! The account at an authority: created once, and kept in a file.
//!
//! Invariant: the file is written before the account is used. An account that the authority no
//! longer knows is replaced.

use crate::authority_client::AuthorityClient;
use crate::files::{self, FileError, SECRET};
use crate::terms::AcmeTerms;
use crate::{binding, order};
use instant_acme::{Account, AccountCredentials, NewAccount};
use std::path::Path;

/// The name of the file.
const FILE: &str = "account.json";

/// Why there is no account to work with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccountError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The authority refused, or it did not answer.
    #[error("{}", order::describe(.0))]
    Authority(#[from] instant_acme::Error),
}

/// The account of a directory with files; creates it if there is none. By that the operator agrees
/// to the authority's terms.
pub(crate) async fn open(
    terms: &AcmeTerms,
    directory: &Path,
    client: &AuthorityClient,
) -> Result<Account, AccountError> {
    let file = directory.join(FILE);
    if let Some(text) = files::read(&file)? {
        match serde_json::from_str::<AccountCredentials>(&text) {
            Ok(known) => return Ok(builder(client).from_credentials(known).await?),
            Err(error) => {
                tracing::warn!(
                    "the ACME account in {} is unreadable, so a new one is made: {error}",
                    file.display()
                );
            }
        }
    }
    let binding = terms.binding_file.as_deref().map(binding::read).transpose()?;
    let contact = terms.contact.as_deref().map(mail_url);
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let wanted = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let made = builder(client).create(&wanted, terms.directory_url.clone(), binding.as_ref()).await;
    let (account, credentials) = made?;
    let text = serde_json::to_string(&credentials).map_err(instant_acme::Error::from)?;
    files::write(&file, &text, SECRET)?;
    tracing::info!("an ACME account was made at {} and is kept in {}", terms.directory_url, file.display());
    Ok(account)
}

/// Removes the account, because the authority does not know it any more.
pub(crate) fn forget(directory: &Path) {
    // If that fails, the next attempt reports the problem with the file.
    let _ = std::fs::remove_file(directory.join(FILE));
}

/// Whether the authority does not know the account.
pub(crate) fn is_unknown(error: &instant_acme::Error) -> bool {
    let instant_acme::Error::Api(problem) = error else { return false };
    problem.r#type.as_deref().is_some_and(|kind| kind.ends_with(":accountDoesNotExist"))
}

fn builder(client: &AuthorityClient) -> instant_acme::AccountBuilder {
    Account::builder_with_http(Box::new(client.clone()))
}

/// A mail address as the protocol wants it.
fn mail_url(address: &str) -> String {
    if address.starts_with("mailto:") { address.to_owned() } else { format!("mailto:{address}") }
}
