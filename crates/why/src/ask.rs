//! Asking a running edge why, at its admin address.
//!
//! Invariant: one question, one connection, and nothing is retried; what the edge answers is taken as it is.

use crate::fetch::{self, Fetcher, connection_failure, within_time};
use crate::{FetchError, HeaderLine, SiteUrl};
use bytes::Bytes;
use edge::why::{Answer, Question};
use message::{Fields, Method, RequestHead, Status, Version, names};
use net::{Address, Stream};

/// The admin address of an edge that was not told another: the default of the setting `admin`.
pub const ADMIN_DEFAULT: &str = "127.0.0.1:8081";

/// Why there is no answer from an edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nothing answered there.
    #[error(
        "no edge answers at the admin address {address}: {error}; start `petasos serve`, name its admin address \
         with --admin, or judge a site that has no Petasos in front with --direct"
    )]
    NoEdge {
        /// The address asked.
        address: String,
        /// What happened.
        error: FetchError,
    },
    /// Something answered that is no edge, or refused the question.
    #[error("{address} does not answer the question: {status} {text}")]
    Refused {
        /// The address asked.
        address: String,
        /// Its status.
        status: Status,
        /// What it said.
        text: String,
    },
    /// The answer is not one that this version can read.
    #[error("the answer of {address} cannot be read; it is of another version of petasos: {problem}")]
    Unreadable {
        /// The address asked.
        address: String,
        /// What is wrong.
        problem: String,
    },
}

/// The edge's answer, and the document as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What it says.
    pub answer: Answer,
    /// The JSON document.
    pub document: String,
}

/// Asks the edge at `admin`, which may demand a token, what would become of a GET for `url` with these fields.
///
/// # Errors
/// [`AskError`].
pub async fn ask(
    fetcher: &Fetcher,
    admin: &Address,
    token: Option<&str>,
    url: &SiteUrl,
    lines: &[HeaderLine],
) -> Result<Reply, AskError> {
    let address = admin.to_string();
    let question = Question {
        url: url.to_string(),
        method: Method::Get.to_string(),
        headers: lines.iter().map(HeaderLine::to_pair).collect(),
    };
    // Plain data with names as keys always serialises.
    let content = serde_json::to_vec(&question).unwrap_or_default();
    let answer = match call_edge(fetcher, admin, "/why", token, &content).await {
        Ok(answer) => answer,
        Err(error) => return Err(AskError::NoEdge { address, error }),
    };
    let document = String::from_utf8_lossy(&answer.content).into_owned();
    if answer.head.status != Status::OK {
        let text = document.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        return Err(AskError::Refused { address, status: answer.head.status, text });
    }
    match serde_json::from_str(&document) {
        Ok(answer) => Ok(Reply { answer, document }),
        Err(error) => Err(AskError::Unreadable { address, problem: error.to_string() }),
    }
}

/// Posts JSON to `target` at the admin address of a running edge, with a token if there is one, and reads the answer.
///
/// # Errors
/// [`FetchError`].
pub async fn call_edge(
    fetcher: &Fetcher,
    admin: &Address,
    target: &'static str,
    token: Option<&str>,
    content: &[u8],
) -> Result<fetch::Answer, FetchError> {
    // The edge answers only who names it by its address.
    let host = match admin {
        Address::Ip(_) | Address::Host { .. } => admin.to_string(),
        Address::Unix(_) => "localhost".to_owned(),
    };
    let mut fields = Fields::new();
    fields.push(names::HOST, host);
    fields.push(names::CONTENT_TYPE, "application/json");
    fields.push(names::CONTENT_LENGTH, content.len().to_string());
    fields.push(names::CONNECTION, "close");
    if let Some(token) = token {
        fields.push(names::AUTHORIZATION, format!("Bearer {token}"));
    }
    let target = Bytes::from_static(target.as_bytes());
    let request = RequestHead { method: Method::Post, target, version: Version::Http11, fields };
    within_time(async {
        let stream = Stream::connect(admin).await.map_err(|error| connection_failure(admin, &error))?;
        fetcher.exchange(stream, request, content).await
    })
    .await
}
