//! Looks at the lines of a report: which there are, what form they have, and whether they agree with each other.

use crate::beside::{ours, theirs};
use testkit::Origin;

/// Lines whose values depend on time, so that only their form is compared. How much was sent depends on the program's
/// name, unless both are given the same.
const TIMED: [&str; 6] =
    ["Time taken", "Requests per second", "Time per request", "Transfer rate", "Total body sent", "      "];

/// As [`TIMED`], for rows of the HTML table.
pub(crate) const TIMED_ROWS: [&str; 6] =
    ["Time taken", "per second", "kb/s", ">Connect:<", ">Processing:<", ">Total:<"];

/// The rows of the table of times.
const ROWS: [&str; 4] = ["Connect:", "Processing:", "Waiting:", "Total:"];

/// The report's lines: from `Server Software` on, without what stands below `ab`'s layout, and without the
/// warnings about the spread, which the times of a run may or may not call for.
pub(crate) fn report(stdout: &str) -> Vec<String> {
    let start = stdout.find("Server Software:").unwrap_or_else(|| panic!("no report in {stdout}"));
    without_warnings(stdout[start..].split("\nBeyond ab\n").next().unwrap())
}

/// The lines of a text without those about the spread.
pub(crate) fn without_warnings(text: &str) -> Vec<String> {
    let warnings =
        ["WARNING: The median", "ERROR: The median", "        These results", "       deviation apart"];
    let is_warning = |line: &&str| warnings.iter().any(|warning| line.starts_with(warning));
    text.trim_end().lines().filter(|line| !is_warning(line)).map(str::to_owned).collect()
}

/// A line with the form of its numbers only: every number becomes `9`, or `9.99` with as many places as it has.
/// Padding before a number is cut, because wide numbers have less of it; [`ends`] looks at columns.
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

/// Where the columns of a table row end.
fn ends(row: &str) -> Vec<usize> {
    let characters: Vec<char> = row.chars().collect();
    let is_end =
        |at: &usize| characters[*at] != ' ' && characters.get(at + 1).is_none_or(|next| *next == ' ');
    (0..characters.len()).filter(is_end).collect()
}

/// Runs both with the same arguments and compares their reports.
pub(crate) fn compare(origin: &Origin, arguments: &[&str]) {
    compare_at(&format!("{}/page?x=1", origin.url()), arguments);
}

/// The same for a URL.
pub(crate) fn compare_at(url: &str, arguments: &[&str]) {
    let arguments = [arguments, &[url]].concat();
    let (their, our) = (theirs(&arguments), ours(&arguments));
    let (their, our) = (report(&their.stdout), report(&our.stdout));
    same(&our, &their, &arguments);
    agrees_with_itself(&our);
    agrees_with_itself(&their);
}

/// Holds one report against the other, line by line.
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

/// The figures of a report mean what their labels say: rates are counts through the time, means and medians lie
/// between the smallest and the largest, percentiles rise to the largest.
pub(crate) fn agrees_with_itself(report: &[String]) {
    let of = |label: &str| number(report, label).unwrap();
    let complete = of("Complete requests:");
    if complete == 0.0 {
        return;
    }
    let seconds = of("Time taken for tests:");
    // What was printed was rounded to half a millisecond.
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
        let (min, mean, max) = (row[0], row[1], row[row.len() - 1]);
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
