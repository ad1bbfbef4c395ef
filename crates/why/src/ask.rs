//! Asks a running edge at its admin address how it would answer a request.
//!
//! Invariant: each question uses one connection, and nothing is retried. The edge's answer is not
//! changed.

use crate::admin::EdgeAccess;
use crate::{Fetcher, HeaderLine, ProbeError};
use address::{Address, HttpUrl};
use api::why::{Question, WhyReply};
use difference::text_of;
use message::{Method, Status};

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
    let access = EdgeAccess { fetcher, admin, token };
    let answer = match access.post(api::why::PATH, &content).await {
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
