//! Reads runs back from JSON.
//!
//! Invariant: a document is accepted only if its schema is [`SCHEMA`], or [`page::SCHEMA`] for page
//! mode. Unknown members are ignored. Any other text is refused with the place and the value found
//! there.

use super::{Run, SCHEMA};
use crate::page::{self, PageRun};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reason why a text cannot be read as runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunReadError {
    /// The text is empty.
    #[error("the file has no run")]
    Empty,
    /// The text is not JSON.
    #[error("run {run}: {reason}")]
    Json {
        /// Number of the run in the text, counted from 1.
        run: usize,
        /// Reason, with line and column.
        reason: String,
    },
    /// The document is JSON, but has no schema.
    #[error("run {run}: not a run: its member \"schema\" is missing or is not {SCHEMA:?}")]
    NoSchema {
        /// Number of the run in the text, counted from 1.
        run: usize,
    },
    /// The document has another schema, or another version of this one.
    #[error("run {run}: its schema is {found:?}, but this version of Petasos reads {SCHEMA:?}{hint}")]
    Schema {
        /// Number of the run in the text, counted from 1.
        run: usize,
        /// Schema that the document names.
        found: String,
        /// Hint about the origin of the document; empty if unknown.
        hint: &'static str,
    },
    /// A member has the wrong type.
    #[error("run {run}: {reason}")]
    Member {
        /// Number of the run in the text, counted from 1.
        run: usize,
        /// Reason, with the expected type.
        reason: String,
    },
}

/// Reads all runs in `text`: one JSON object or several in sequence, with any white space between
/// them.
///
/// # Errors
/// Returns the first problem, with the number of its run.
pub fn read_runs(text: &str) -> Result<Vec<Run>, RunReadError> {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let runs = documents
        .zip(1..)
        .map(|(document, run)| {
            let document = document.map_err(|error| RunReadError::Json { run, reason: error.to_string() })?;
            read_run(document, run)
        })
        .collect::<Result<Vec<Run>, RunReadError>>()?;
    if runs.is_empty() { Err(RunReadError::Empty) } else { Ok(runs) }
}

fn read_run(document: Value, run: usize) -> Result<Run, RunReadError> {
    match document.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => member(document, run),
        Some(page::SCHEMA) => member::<PageRun>(document, run).map(|pages| Run::from(&pages)),
        None => Err(RunReadError::NoSchema { run }),
        Some(found) => {
            let hint = match found.split_once('/') {
                Some(("petasos-run" | "petasos-page-run", _)) => ": a newer Petasos may have written it",
                Some(("petasos-compare", _)) => ": it is the result of a comparison",
                _ if found.starts_with("petasos-ladder") => ": it is the result of a ladder",
                _ => "",
            };
            Err(RunReadError::Schema { run, found: found.to_owned(), hint })
        }
    }
}

fn member<T: DeserializeOwned>(document: Value, run: usize) -> Result<T, RunReadError> {
    serde_json::from_value(document).map_err(|error| RunReadError::Member { run, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::{PageRun, Run, RunReadError, SCHEMA, read_runs};
    use crate::page::PagesByResult;
    use crate::run::Distribution;

    #[test]
    fn written_runs_are_read_back() {
        let run = Run { good: Some(3), url: Some("http://h/".to_owned()), ..Run::of_source("ab") };
        assert_eq!(read_runs(&run.to_json()), Ok(vec![run.clone()]));
        let two = format!("{}{}", run.to_json(), serde_json::to_string(&run).unwrap());
        assert_eq!(read_runs(&two), Ok(vec![run.clone(), run]));
    }

    #[test]
    fn pages_are_read_as_requests() {
        let pages = PageRun {
            schema: crate::page::SCHEMA.to_owned(),
            pages: PagesByResult { good: 3, incomplete: 1, ..PagesByResult::default() },
            pages_per_s: 2.5,
            returning_asked: 0.3,
            page_times: Distribution { p95_us: Some(7), ..Distribution::default() },
            ..PageRun::default()
        };
        let runs = read_runs(&pages.to_json()).unwrap();
        let run = &runs[0];
        assert_eq!(
            (run.requests, run.good, run.failed, run.good_per_s),
            (Some(4), Some(3), Some(1), Some(2.5))
        );
        assert_eq!((run.good_times.latency.p95_us, run.pages.map(|of| of.returning)), (Some(7), Some(0.3)));
        let error = read_runs(r#"{"schema": "petasos-page-run/2"}"#).unwrap_err().to_string();
        assert!(error.ends_with(": a newer Petasos may have written it"), "{error}");
    }

    #[test]
    fn unknown_and_missing_members_are_accepted() {
        let text =
            format!("{{\"schema\": \"{SCHEMA}\", \"source\": \"petasos\", \"news\": [1], \"good\": 7}}");
        let runs = read_runs(&text).unwrap();
        assert_eq!((runs[0].good, runs[0].complete), (Some(7), None));
    }

    #[test]
    fn other_documents_are_refused_with_the_reason() {
        let message = |text: &str| read_runs(text).unwrap_err().to_string();
        assert_eq!(read_runs(" \n"), Err(RunReadError::Empty));
        assert_eq!(
            message("{}"),
            "run 1: not a run: its member \"schema\" is missing or is not \"petasos-run/1\""
        );
        assert_eq!(
            message("{\"schema\": \"petasos-run/2\"}"),
            "run 1: its schema is \"petasos-run/2\", but this version of Petasos reads \"petasos-run/1\": \
             a newer Petasos may have written it"
        );
        assert!(message("{\"schema\": \"petasos-ladder-1\"}").ends_with(": it is the result of a ladder"));
        let good = format!("{{\"schema\": \"{SCHEMA}\"}}\n");
        assert!(message(&format!("{good}{{\"schema\": ")).starts_with("run 2: EOF"));
        let wrong = format!("{{\"schema\": \"{SCHEMA}\", \"good\": \"many\"}}");
        assert!(message(&wrong).contains("invalid type: string \"many\""), "{}", message(&wrong));
    }
}
