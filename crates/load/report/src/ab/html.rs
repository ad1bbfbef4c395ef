//! The report as an HTML table in the layout of `ab -w`, followed by the figures that the layout
//! lacks.
//!
//! Invariant: no text from a server, a URL or the command line can end an element. Texts are
//! escaped, and attributes cannot contain the characters `<` and `>`.
//!
//! The rows are those of `ab`, in its order, with two differences. The bracket of failures has all
//! four numbers. The row *Processing* shows measured times; `ab` subtracts one row from another.

use super::{Histogram, Length, RunOutcome, UpperCounts, rounded_ms, write_beyond};
use std::fmt::Write as _;

/// Attributes of the table's elements: the options `-x`, `-y` and `-z` of `ab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Attributes of `table`.
    pub table: String,
    /// Attributes of each `tr`.
    pub row: String,
    /// Attributes of each `td` and `th`.
    pub cell: String,
}

impl Default for Attributes {
    /// The defaults of `ab`.
    fn default() -> Self {
        Self { table: String::new(), row: String::new(), cell: "bgcolor=white".to_owned() }
    }
}

/// Formats the lines of a banner as the start of the page.
pub fn banner(lines: &str) -> String {
    let lines: Vec<String> = lines.lines().filter(|line| !line.is_empty()).map(escaped).collect();
    format!("<p>\n {}<br>\n</p>\n", lines.join("<br>\n "))
}

/// Like [`banner`], with the paragraph that `ab` opens and does not close.
pub fn plain_banner(lines: &str) -> String {
    format!("{}<p>\n", banner(lines))
}

/// Formats a text as a preformatted block.
pub fn block(text: &str) -> String {
    format!("<pre>\n{}</pre>\n", escaped(text))
}

/// Returns the table and the figures that its layout lacks.
pub fn report(outcome: &RunOutcome, attributes: &Attributes) -> String {
    let mut beyond = String::new();
    // Writing to a string cannot fail.
    let _ = write_beyond(&mut beyond, outcome);
    format!("{}{}", table(outcome, attributes, &UpperCounts::ours(outcome)), block(beyond.trim_start()))
}

/// Returns the table with the account of failures that `ab` would have made, and without further
/// figures.
pub fn plain_report(outcome: &RunOutcome, attributes: &Attributes) -> String {
    table(outcome, attributes, &UpperCounts::of_ab(outcome))
}

fn table(outcome: &RunOutcome, attributes: &Attributes, counts: &UpperCounts) -> String {
    let within = |text: &str| text.replace('<', "&lt;").replace('>', "&gt;");
    let table = TableAttributes { row: within(&attributes.row), cell: within(&attributes.cell) };
    let mut text = format!("\n\n<table {}>\n", within(&attributes.table));
    table.summary(&mut text, outcome, counts);
    table.rates(&mut text, outcome);
    if outcome.complete > 0 {
        table.times(&mut text, outcome);
    }
    text.push_str("</table>\n");
    text
}

/// Attributes of rows and cells, made safe for use in tags.
struct TableAttributes {
    row: String,
    cell: String,
}

impl TableAttributes {
    fn summary(&self, text: &mut String, outcome: &RunOutcome, counts: &UpperCounts) {
        let plan = &outcome.plan;
        let target = &plan.target;
        self.pair(text, "Server Software", &outcome.server_software());
        self.pair(text, "Server Hostname", &target.host());
        self.pair(text, "Server Port", &target.port().to_string());
        self.pair(text, "Document Path", target.path_and_query());
        let length = match plan.expect.length {
            Length::Variable => "Variable".to_owned(),
            Length::Constant => format!("{} bytes", counts.document_bytes),
        };
        self.pair(text, "Document Length", &length);
        self.pair(text, "Concurrency Level", &plan.users.to_string());
        self.pair(text, "Time taken for tests", &format!("{:.3} seconds", outcome.elapsed.as_secs_f64()));
        self.pair(text, "Complete requests", &outcome.complete.to_string());
        self.pair(text, "Failed requests", &counts.failed.to_string());
        if counts.failed > 0 {
            let Self { row, cell } = self;
            let bracket = super::bracket(&counts.kinds);
            let _ = writeln!(text, "<tr {row}><td colspan=4 {cell} >   {bracket}</td></tr>");
        }
        if counts.non_2xx > 0 {
            self.pair(text, "Non-2xx responses", &counts.non_2xx.to_string());
        }
        if plan.keep_alive {
            self.pair(text, "Keep-Alive requests", &outcome.kept.to_string());
        }
        self.pair(text, "Total transferred", &format!("{} bytes", outcome.received_bytes));
        if plan.body.is_some() {
            self.pair(text, "Total body sent", &outcome.sent_bytes.to_string());
        }
        self.pair(text, "HTML transferred", &format!("{} bytes", counts.content_bytes));
    }

    fn rates(&self, text: &mut String, outcome: &RunOutcome) {
        let seconds = outcome.elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let rate = |bytes: u64| bytes as f64 / 1024.0 / seconds;
        let received = rate(outcome.received_bytes);
        let sent = rate(outcome.sent_bytes);
        self.pair(text, "Requests per second", &format!("{:.2}", outcome.complete_per_second()));
        self.pair(text, "Transfer rate", &format!("{received:.2} kb/s received"));
        if outcome.plan.body.is_some() {
            let Self { row, cell } = self;
            for (rate, what) in [(sent, "sent"), (received + sent, "total")] {
                let name = format!("<td colspan=2 {cell}>&nbsp;</td>");
                let _ =
                    writeln!(text, "<tr {row}>{name}<td colspan=2 {cell}>{rate:.2} kb/s {what}</td></tr>");
            }
        }
    }

    fn times(&self, text: &mut String, outcome: &RunOutcome) {
        let Self { row, cell } = self;
        let times = outcome.complete_times();
        let _ = writeln!(text, "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>");
        let _ = writeln!(
            text,
            "<tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   <th {cell}>max</th></tr>"
        );
        let mut line = |label: &str, of: &Histogram| {
            let values = [of.min_us() as f64, of.mean_us(), of.max_us() as f64];
            let cells = values.map(|value| format!("<td {cell}>{:5}</td>", rounded_ms(value)));
            let _ = writeln!(text, "<tr {row}><th {cell}>{label}:</th>{}</tr>", cells.concat());
        };
        line("Connect", &times.connect);
        line("Processing", &times.processing);
        line("Total", &times.total);
    }

    /// Writes a row with a name and a value.
    fn pair(&self, text: &mut String, name: &str, value: &str) {
        let Self { row, cell } = self;
        let value = escaped(value);
        let _ = writeln!(
            text,
            "<tr {row}><th colspan=2 {cell}>{name}:</th><td colspan=2 {cell}>{value}</td></tr>"
        );
    }
}

/// Escapes a text so that it cannot contain elements.
fn escaped(text: &str) -> String {
    maud::html! { (text) }.into_string()
}
