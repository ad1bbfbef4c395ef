//! Examines the lines of a report: which lines there are, their form, and whether they agree with
//! each other.

use crate::beside::{ours, theirs};
use testkit::Origin;

/// Lines whose values depend on time; only their form is compared. The bytes sent depend on the
/// program's name, unless both programs get the same User-Agent.
const TIMED: [&str; 6] =
    ["Time taken", "Requests per second", "Time per request", "Transfer rate", "Total body sent", "      "];

/// Like [`TIMED`], for rows of the HTML table.
pub(crate) const TIMED_ROWS: [&str; 6] =
    ["Time taken", "per second", "kb/s", ">Connect:<", ">Processing:<", ">Total:<"];

/// The rows of the table of times.
const ROWS: [&str; 4] = ["Connect:", "Processing:", "Waiting:", "Total:"];

/// The lines of the report from `Server Software` on, without the part below `ab`'s layout.
/// Warnings about the spread are left out, because they depend on the times of a run.
pub(crate) fn report(stdout: &str) -> Vec<String> {
    let start = stdout.find("Server Software:").unwrap_or_else(|| panic!("no report in {stdout}"));
    without_warnings(stdout[start..].split("\nBeyond ab\n").next().unwrap())
}

/// The lines of a text without the warnings about the spread.
pub(crate) fn without_warnings(text: &str) -> Vec<String> {
    let warnings =
        ["WARNING: The median", "ERROR: The median", "        These results", "       deviation apart"];
    let is_warning = |line: &&str| warnings.iter().any(|warning| line.starts_with(warning));
    text.trim_end().lines().filter(|line| !is_warning(line)).map(str::to_owned).collect()
}

/// A line with every number reduced to its form: `9`, or `9.99` with as many decimal places as it
/// has. Spaces before a number are removed, because wide numbers have fewer; [`ends`] checks the
/// columns.
pub(crate) fn form(line: &str) -> String {
    let mut form = String::new();
    let mut in_fraction = false;
    for character in line.chars() {
        let after_digit = form.ends_with('9');
        match character {
            '0'..='9' if after_digit && !in_fraction => {}
            '0'..='9' => {
                form.truncate(if after_digit { form.len() } else { form.trim_end().len() });
                form.push('9');
            }
            '.' if after_digit => {
                form.push('.');
                in_fraction = true;
                continue;
            }
            other => form.push(other),
        }
        in_fraction &= character.is_ascii_digit();
    }
    form
}

/// Positions at which the columns of a table row end.
fn ends(row: &str) -> Vec<usize> {
    let characters: Vec<char> = row.chars().collect();
    let is_end =
        |at: &usize| characters[*at] != ' ' && characters.get(at + 1).is_none_or(|next| *next == ' ');
    (0..characters.len()).filter(is_end).collect()
}

/// Runs both programs with the same arguments and compares their reports.
pub(crate) fn compare(origin: &Origin, arguments: &[&str]) {
    compare_at(&format!("{}/page?x=1", origin.url()), arguments);
}

/// Like [`compare`], for a given URL.
pub(crate) fn compare_at(url: &str, arguments: &[&str]) {
    let arguments = [arguments, &[url]].concat();
    let their = theirs(&arguments);
    let our = ours(&arguments);
    let their = report(&their.stdout);
    let our = report(&our.stdout);
    same(&our, &their, &arguments);
    agrees_with_itself(&our);
    agrees_with_itself(&their);
}

/// Compares two reports line by line.
pub(crate) fn same(ours: &[String], theirs: &[String], arguments: &[&str]) {
    assert_eq!(ours.len(), theirs.len(), "{arguments:?}\nours: {ours:#?}\ntheirs: {theirs:#?}");
    let is_same_name = arguments.iter().any(|argument| argument.starts_with("User-Agent:"));
    for (our, their) in ours.iter().zip(theirs) {
        let said = format!("{arguments:?}\nours:   {our}\ntheirs: {their}");
        assert_eq!(form(our), form(their), "{said}");
        let is_row = our.starts_with("<tr") && TIMED_ROWS.iter().any(|label| our.contains(label));
        let is_timed = (is_row || TIMED.iter().any(|label| our.starts_with(label)))
            && !(is_same_name && our.starts_with("Total body sent"));
        if ROWS.iter().any(|label| our.starts_with(label)) || our.contains('%') {
            assert_eq!(ends(our), ends(their), "{said}");
        } else if !is_timed {
            assert_eq!(our, their, "{arguments:?}");
        }
    }
}

/// The first number of the line that begins with this label; `None` if there is no such line.
pub(crate) fn number(report: &[String], label: &str) -> Option<f64> {
    numbers(report, label).into_iter().next()
}

/// The numbers of the first line that begins with this label.
pub(crate) fn numbers(report: &[String], label: &str) -> Vec<f64> {
    let line = report.iter().find_map(|line| line.strip_prefix(label)).unwrap_or_default();
    line.split([' ', ',']).filter_map(|word| word.trim_end_matches('%').parse().ok()).collect()
}

/// Checks that the figures of a report agree with their labels. Rates are counts divided by the
/// time, means and medians lie between minimum and maximum, and percentiles rise to the maximum.
pub(crate) fn agrees_with_itself(report: &[String]) {
    let of = |label: &str| number(report, label).unwrap();
    let complete = of("Complete requests:");
    if complete == 0.0 {
        return;
    }
    let seconds = of("Time taken for tests:");
    // The printed value was rounded to milliseconds, so it may be off by half of one.
    let seconds = (seconds - 0.000_501).max(1e-9)..=seconds + 0.000_501;
    let is_quotient = |label: &str, count: f64, digit: f64| {
        let range = (count / seconds.end() - digit)..=(count / seconds.start() + digit);
        assert!(range.contains(&of(label)), "{label} {} is not in {range:?}: {report:#?}", of(label));
    };
    is_quotient("Requests per second:", complete, 0.01);
    is_quotient("Transfer rate:", of("Total transferred:") / 1024.0, 0.01);
    let means: Vec<f64> =
        report.iter().filter_map(|line| number(std::slice::from_ref(line), "Time per request:")).collect();
    let across = seconds.start() * 1000.0 / complete - 0.001..=seconds.end() * 1000.0 / complete + 0.001;
    assert!(across.contains(&means[1]), "{means:?}: {report:#?}");
    let users = of("Concurrency Level:");
    assert!((means[0] - users * means[1]).abs() <= 0.001 * (users + 1.0), "{means:?}: {report:#?}");
    for row in ROWS.map(|label| numbers(report, label)) {
        let min = row[0];
        let mean = row[1];
        let max = row[row.len() - 1];
        let median = if row.len() == 5 { row[3] } else { mean };
        assert!(min <= mean && mean <= max && min <= median && median <= max, "{row:?}: {report:#?}");
    }
    let percentiles: Vec<f64> = [50, 66, 75, 80, 90, 95, 98, 99, 100]
        .map(|p| number(report, &format!(" {p:3}% ")))
        .into_iter()
        .flatten()
        .collect();
    assert!(percentiles.is_sorted(), "{report:#?}");
    assert!(
        percentiles.last().is_none_or(|last| Some(last) == numbers(report, "Total:").last()),
        "{report:#?}"
    );
}
