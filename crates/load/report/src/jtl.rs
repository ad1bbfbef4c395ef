//! Writes single requests as JMeter's JTL in CSV, for JMeter's listeners and dashboard and for
//! other tools that read this format. The header is the default of `CSVSaveService` in JMeter 5.
//!
//! Invariant: the columns are JMeter's, complete and in its order. Some columns have one value for
//! the whole run, because the load tester does not keep it for each request. `docs/outputs.md`
//! lists these columns.

use message::Status;
use record::{FailureKind, RunOutcome, Sample};
use std::fmt::Write as _;
use std::io;

/// The header, without its line end.
pub const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,\
                          failureMessage,bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect";

/// Writes the kept requests in the order of their start.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write(outcome: &RunOutcome, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    let columns = SharedColumns::new(outcome);
    let mut line = String::new();
    for sample in &outcome.samples {
        line.clear();
        // Writing to a string cannot fail.
        let _ = columns.row(sample, &mut line);
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Values that all rows share.
struct SharedColumns {
    started_us: u64,
    /// URLs, quoted as needed.
    urls: Vec<String>,
    /// Size of a response's head in bytes, taken from the first response.
    head_bytes: u64,
    /// Mean number of bytes sent for a request.
    sent_bytes: u64,
    users: u64,
}

impl SharedColumns {
    fn new(outcome: &RunOutcome) -> Self {
        let targets = outcome.urls.iter().map(|of| quoted(&of.target.target.to_string()));
        let mut urls: Vec<String> = targets.collect();
        if urls.is_empty() {
            urls.push(quoted(&outcome.plan.target.to_string()));
        }
        Self {
            started_us: outcome.started.as_micros(),
            urls,
            head_bytes: outcome.first_head.len() as u64,
            sent_bytes: outcome.sent_bytes.checked_div(outcome.requests()).unwrap_or(0),
            users: outcome.plan.users as u64,
        }
    }

    fn row(&self, sample: &Sample, line: &mut String) -> std::fmt::Result {
        let ms = |us: u32| u64::from(us) / 1_000;
        let start_ms = (self.started_us + sample.start_us) / 1_000;
        write!(line, "{start_ms},{},", ms(sample.total_us))?;
        let url = self.urls.get(sample.url as usize).map_or("", String::as_str);
        write!(line, "{url},")?;
        match sample.failure {
            Some(kind) if sample.status == 0 => {
                let (code, message) = exception(kind);
                write!(line, "Non HTTP response code: {code},Non HTTP response message: {message},")?;
            }
            _ => write!(line, "{},{},", sample.status, phrase(sample.status))?,
        }
        let bytes = if sample.status == 0 { 0 } else { self.head_bytes + u64::from(sample.content_bytes) };
        let failure = match sample.failure {
            Some(kind) if sample.status != 0 => failure(kind),
            _ => "",
        };
        let latency_ms = ms(sample.connect_us.saturating_add(sample.waiting_us));
        writeln!(
            line,
            "petasos 1-1,text,{},{failure},{bytes},{},{users},{users},{url},{latency_ms},0,{}",
            sample.failure.is_none(),
            self.sent_bytes,
            ms(sample.connect_us),
            users = self.users,
        )
    }
}

/// Quotes a value if it contains a delimiter, a quote or a line break.
fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

/// The exception that JMeter reports for a kind of failure, and its message.
const fn exception(kind: FailureKind) -> (&'static str, &'static str) {
    match kind {
        FailureKind::Connect => ("java.net.ConnectException", "no connection could be made"),
        FailureKind::Tls => ("javax.net.ssl.SSLException", "the TLS handshake failed"),
        FailureKind::Address => ("java.net.BindException", "there was no free local port"),
        FailureKind::Timeout => ("java.net.SocketTimeoutException", "the response did not arrive in time"),
        FailureKind::Send => ("java.net.SocketException", "the request could not be written"),
        FailureKind::Malformed => ("org.apache.http.ProtocolException", "the response is not HTTP"),
        FailureKind::Receive | FailureKind::Status | FailureKind::Length | FailureKind::Body => {
            ("org.apache.http.NoHttpResponseException", "the connection broke")
        }
    }
}

/// Reason why a complete response failed.
const fn failure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Status => "the status is not an expected one",
        FailureKind::Length => "the length differs from that of the first good response",
        FailureKind::Body => "the content is not the expected one",
        _ => "the response failed",
    }
}

/// Reason phrase of a status; empty if it has none.
fn phrase(status: u16) -> &'static str {
    Status::from_code(status).map_or("", Status::reason)
}
