//! Asks a running edge at its admin address how it would answer a request.
//!
//! Invariant: each question uses one connection, and nothing is retried. The edge's answer is not
//! changed.

use crate::fetch::{self, Fetcher, connection_failure, within_time};
use crate::{HeaderLine, ProbeError};
use address::{Address, HttpUrl};
use api::why::{Question, WhyReply};
use bytes::Bytes;
use difference::text_of;
use message::{Fields, Method, RequestHead, Status, Version, names};
use net::Stream;

/// The default admin address: the default of the setting `admin`.
pub const ADMIN_DEFAULT: &str = "127.0.0.1:8081";

/// Reasons why there is no answer from an edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The connection or the exchange failed.
    #[error(
        "no edge answers at the admin address {address}: {error}; start `petasos serve`, give its admin address \
         with --admin, or use --direct for a site without Petasos"
    )]
    NoEdge {
        /// The admin address.
        address: String,
        /// The failure.
        error: ProbeError,
    },
    /// The server is not an edge, or refused the question.
    #[error("{address} refuses the question: {status} {text}")]
    Refused {
        /// The admin address.
        address: String,
        /// The status of the response.
        status: Status,
        /// The first line of its content.
        text: String,
    },
    /// The answer's format is not the one of this version.
    #[error("cannot read the response of {address}, which is not from this version of Petasos: {problem}")]
    Unreadable {
        /// The admin address.
        address: String,
        /// The parser's message.
        problem: String,
    },
}

/// The edge's answer, parsed and as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeReply {
    /// The parsed answer.
    pub answer: WhyReply,
    /// The JSON document as received.
    pub document: String,
}

/// Asks the edge at `admin` how it would answer a GET for `url` with these fields. `token` is
/// needed where the edge demands one.
///
/// # Errors
/// [`AskError`].
pub async fn ask(
    fetcher: &Fetcher,
    admin: &Address,
    token: Option<&str>,
    url: &HttpUrl,
    lines: &[HeaderLine],
) -> Result<EdgeReply, AskError> {
    let address = admin.to_string();
    let question = Question {
        url: url.to_string(),
        method: Method::Get.to_string(),
        headers: lines.iter().map(HeaderLine::to_pair).collect(),
    };
    // Plain data with names as keys always serialises.
    let content = serde_json::to_vec(&question).unwrap_or_default();
    let answer = match call_edge(fetcher, admin, api::why::PATH, token, &content).await {
        Ok(answer) => answer,
        Err(error) => return Err(AskError::NoEdge { address, error }),
    };
    let document = String::from_utf8_lossy(&answer.content).into_owned();
    if answer.head.status != Status::OK {
        let text = text_of(document.lines().next().unwrap_or_default().as_bytes());
        return Err(AskError::Refused { address, status: answer.head.status, text });
    }
    match serde_json::from_str(&document) {
        Ok(answer) => Ok(EdgeReply { answer, document }),
        Err(error) => Err(AskError::Unreadable { address, problem: text_of(error.to_string().as_bytes()) }),
    }
}

/// Posts JSON to `target` at the admin address of a running edge, with the token if one is given.
/// Returns the response. The connection has TLS if the fetcher has a client for it.
///
/// # Errors
/// [`ProbeError`].
pub async fn call_edge(
    fetcher: &Fetcher,
    admin: &Address,
    target: &'static str,
    token: Option<&str>,
    content: &[u8],
) -> Result<fetch::FetchedResponse, ProbeError> {
    // At the admin address, the edge accepts only requests whose Host is an IP address, localhost
    // or the configured name.
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
        let Some(tls) = &fetcher.tls else { return fetcher.exchange(stream, request, content).await };
        let name = match admin {
            Address::Ip(address) => address.ip().to_string(),
            Address::Host { name, .. } => name.clone(),
            Address::Unix(_) => "localhost".to_owned(),
        };
        fetcher.exchange(tls.secure(stream, &name).await?, request, content).await
    })
    .await
}
