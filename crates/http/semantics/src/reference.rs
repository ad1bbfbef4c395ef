//! The text of docs/reasons.md, rendered from the table of reasons. A test compares the file with
//! it.

use crate::{Reason, Verdict};
use std::fmt::Write;

/// The reference of all verdicts and reasons as Markdown.
pub fn reasons_reference() -> String {
    let mut page = String::from(
        "# Verdicts and reasons\n\n\
         This page explains why Petasos answered a request as it did, and how you can change that.\n\n\
         Every response of the edge has one verdict and one reason for it. You find the reason in the\n\
         `detail` of the response's `Cache-Status` (RFC 9211), in the access log, and as a label of the\n\
         metric `petasos_requests_total`.\n\n\
         This page is rendered from the table of reasons by `cargo xtask docs`.\n",
    );
    for verdict in Verdict::ALL {
        // Writing into a String cannot fail.
        let _ = writeln!(page, "\n## {}\n\n| reason | meaning; what to do |\n|---|---|", verdict.name());
        for reason in Reason::ALL.iter().filter(|reason| reason.verdict() == verdict) {
            let _ = writeln!(page, "| `{}` | {} |", reason.name(), reason.advice());
        }
    }
    page
}
