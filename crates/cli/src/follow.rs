//! Reads the stream of records of a running edge, for `petasos log` and `petasos top`.
//!
//! Invariant: a stream that ends is opened again, because an edge may be restarted or replaced. If
//! no edge answers for [`ABSENCE_MAX`], or the edge refuses, the command ends with the reason.

use crate::admin::AdminArgs;
use crate::why::runtime;
use anyhow::bail;
use std::ops::ControlFlow;
use std::time::Duration;
use url::form_urlencoded;
use why::{EdgeAccess, EdgeStream, ProbeError, StreamReply};

/// How long the stream may be away once it has begun.
const ABSENCE_MAX: Duration = Duration::from_secs(10);

/// Pause between two attempts to open it.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// Upper bound of one line in bytes. Longer ones come from no edge.
const LINE_BYTES_MAX: usize = 4 << 20;

/// An event of a stream.
pub(crate) enum StreamEvent<'a> {
    /// A line. An empty one says that the stream lives.
    Line(&'a str),
    /// It has ended, for this reason, and will be opened again.
    Ended(String),
}

/// Passes every event of the stream to `take`, until it returns `Break`.
///
/// # Errors
/// If no edge answers, or it refuses to stream.
pub(crate) fn follow(
    edge: &AdminArgs,
    filter: Option<&str>,
    mut take: impl FnMut(StreamEvent<'_>) -> ControlFlow<()>,
) -> anyhow::Result<()> {
    let (fetcher, token) = (edge.fetcher()?, edge.token()?);
    let access = edge.access(&fetcher, token.as_deref());
    runtime()?.block_on(async {
        let mut stream = opened(&access, filter).await.map_err(|refusal| refusal.told(edge))?;
        loop {
            let error = match read(&mut stream, &mut take).await {
                Ok(ControlFlow::Break(())) => return Ok(()),
                Ok(ControlFlow::Continue(())) => None,
                Err(error) => Some(error),
            };
            let why = error.map(|error| format!(": {error}")).unwrap_or_default();
            if take(StreamEvent::Ended(format!("the stream of {} has ended{why}", edge.admin))).is_break() {
                return Ok(());
            }
            stream = open_again(&access, filter).await.map_err(|refusal| refusal.told(edge))?;
        }
    })
}

/// Why there is no stream.
enum NoStream {
    Failed(ProbeError),
    Refused(String),
}

impl NoStream {
    fn told(self, edge: &AdminArgs) -> anyhow::Error {
        match self {
            Self::Failed(error) => edge.failure(error),
            Self::Refused(why) => anyhow::anyhow!("{}: {why}", edge.admin),
        }
    }
}

async fn opened(access: &EdgeAccess<'_>, filter: Option<&str>) -> Result<EdgeStream, NoStream> {
    let mut target = api::log::PATH.to_owned();
    if let Some(filter) = filter {
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair(api::log::WHERE, filter).finish();
        target = format!("{target}?{query}");
    }
    match access.stream(&target).await {
        Ok(StreamReply::Begun(stream)) => Ok(*stream),
        Ok(StreamReply::Refused(status, why)) => Err(NoStream::Refused(format!("{status} {why}"))),
        Err(error) => Err(NoStream::Failed(error)),
    }
}

/// Opens the stream as soon as an edge answers.
async fn open_again(access: &EdgeAccess<'_>, filter: Option<&str>) -> Result<EdgeStream, NoStream> {
    let attempts = ABSENCE_MAX.as_millis() / RETRY_EVERY.as_millis();
    let mut result = opened(access, filter).await;
    for _ in 0..attempts {
        if !matches!(result, Err(NoStream::Failed(_))) {
            break;
        }
        tokio::time::sleep(RETRY_EVERY).await;
        result = opened(access, filter).await;
    }
    result
}

/// Reads lines until the stream ends.
async fn read(
    stream: &mut EdgeStream,
    take: &mut impl FnMut(StreamEvent<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, ProbeError> {
    let mut text = Vec::new();
    while let Some(octets) = stream.next().await? {
        text.extend_from_slice(&octets);
        let mut begin = 0;
        while let Some(length) =
            text.get(begin..).and_then(|rest| rest.iter().position(|&octet| octet == b'\n'))
        {
            let line = text.get(begin..begin + length).unwrap_or_default();
            begin += length + 1;
            if take(StreamEvent::Line(&String::from_utf8_lossy(line))).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        text.drain(..begin);
        if text.len() > LINE_BYTES_MAX {
            return Err(ProbeError::Broken(std::io::ErrorKind::InvalidData));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Checks a filter before an edge is asked, so that the error can show its place.
///
/// # Errors
/// The fault, with the expression and a mark under its column.
pub(crate) fn check_filter(text: &str) -> anyhow::Result<()> {
    let Err(error) = request_log::filter::Filter::parse(text) else { return Ok(()) };
    let mark = " ".repeat(error.column.saturating_sub(1));
    bail!("--where: {error}\n  {text}\n  {mark}^")
}
