//! A run as text in the layout of ApacheBench 2.3, with the same labels, column widths and number
//! formats. Scripts written for `ab` and people used to it can therefore read it. Figures that `ab`
//! does not have follow below.
//!
//! Meanings are those of `ab`, except where `ab` is known to be wrong:
//!
//! - *Failed requests* counts each failed request once, and includes responses with an unexpected
//!   status, which `ab` counts as successes. The bracket keeps the four names of `ab`: *Connect*
//!   (no connection, no local port), *Receive* (the connection broke or ended early), *Length*, and
//!   *Exceptions* (timeouts, responses that are not HTTP). Unexpected statuses and write errors are
//!   only in the total; both have separate lines.
//! - Medians and percentiles are correct, also for even counts and for few responses.
//! - A response ends with its last byte. `ab` counts until the connection is closed.
//!
//! Invariant: the lines above the block "Beyond ab" are those of `ab` in its order, with no line
//! added between them.

pub mod html;

use record::{AbAccount, Expect, FailureKind, Length, RunOutcome, Times};
use stats::Histogram;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Percentages of the table below the times.
const PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// Optional parts of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalParts {
    /// The table "Percentage of the requests served within a certain time"; `ab -d` leaves it out.
    pub percentiles: bool,
    /// Median, standard deviation and the warnings about them; `ab -S` leaves them out.
    pub spread: bool,
}

impl Default for OptionalParts {
    fn default() -> Self {
        Self { percentiles: true, spread: true }
    }
}

/// Returns the first lines, in place of those of `ab`.
pub fn banner() -> String {
    format!(
        "This is Petasos, Version {}\n\
         The report has the layout of ApacheBench, Version 2.3; what that layout hides follows below it.\n\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns as many lines as `ab` prints first, for scripts that count lines.
pub fn plain_banner() -> String {
    format!(
        "This is Petasos, Version {}\n\
         The report is that of ApacheBench, Version 2.3, and nothing else (petasos ab --plain).\n\
         As in ApacheBench, an answer of any status is a good one.\n\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the report, starting with the line `Server Software`. Figures that `ab` does not have
/// follow below.
pub fn report(outcome: &RunOutcome, parts: OptionalParts) -> String {
    let mut text = layout(outcome, &UpperCounts::ours(outcome), parts);
    // Writing to a string cannot fail, here and below.
    let _ = write_beyond(&mut text, outcome);
    text
}

/// Returns the report that `ab` would have printed, with its own account of failures and without
/// further figures.
pub fn plain_report(outcome: &RunOutcome, parts: OptionalParts) -> String {
    layout(outcome, &UpperCounts::of_ab(outcome), parts)
}

/// Writes the lines of `ab`.
fn layout(outcome: &RunOutcome, counts: &UpperCounts, parts: OptionalParts) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail, here and in the other functions of this file.
    let _ = write_summary(&mut text, outcome, counts);
    if outcome.complete > 0 {
        let times = outcome.complete_times();
        let _ = write_rates(&mut text, outcome);
        let _ =
            if parts.spread { write_times(&mut text, &times) } else { write_plain_times(&mut text, &times) };
        if parts.percentiles && outcome.complete > 1 {
            let _ = write_percentiles(&mut text, &times.total);
        }
    }
    text
}

/// Returns the percentiles 0 to 100 as comma-separated values, in the format of `ab -e`.
pub fn percentile_csv(outcome: &RunOutcome) -> String {
    let total = outcome.complete_times().total;
    let mut text = String::from("Percentage served,Time in ms\n");
    for percent in 0..=100 {
        let _ = writeln!(text, "{percent},{:.3}", milliseconds(total.percentile_us(f64::from(percent))));
    }
    text
}

/// Returns one line per kept response as tab-separated values, in the format of `ab -g`. Unlike
/// there, lines are in the order in which the requests started. Times are UTC.
pub fn gnuplot_tsv(outcome: &RunOutcome) -> String {
    let mut text = String::from("starttime\tseconds\tctime\tdtime\tttime\twait\n");
    for sample in outcome.samples.iter().filter(|sample| sample.status != 0) {
        let start_s = (outcome.started.as_micros() + sample.start_us) / 1_000_000;
        let round = |value_us: u32| rounded_ms(f64::from(value_us));
        let _ = writeln!(
            text,
            "{}\t{start_s}\t{}\t{}\t{}\t{}",
            calendar(start_s),
            round(sample.connect_us),
            round(sample.total_us.saturating_sub(sample.connect_us)),
            round(sample.total_us),
            round(sample.waiting_us),
        );
    }
    text
}

fn write_summary(text: &mut String, outcome: &RunOutcome, counts: &UpperCounts) -> std::fmt::Result {
    let plan = &outcome.plan;
    writeln!(text, "Server Software:        {}", outcome.server_software())?;
    writeln!(text, "Server Hostname:        {}", plan.target.host())?;
    writeln!(text, "Server Port:            {}", plan.target.port())?;
    write_tls(text, outcome)?;
    writeln!(text)?;
    writeln!(text, "Document Path:          {}", plan.target.path_and_query())?;
    match plan.expect.length {
        Length::Variable => writeln!(text, "Document Length:        Variable")?,
        Length::Constant => {
            writeln!(text, "Document Length:        {} bytes", counts.document_bytes)?;
        }
    }
    writeln!(text)?;
    writeln!(text, "Concurrency Level:      {}", outcome.plan.users)?;
    writeln!(text, "Time taken for tests:   {:.3} seconds", outcome.elapsed.as_secs_f64())?;
    writeln!(text, "Complete requests:      {}", outcome.complete)?;
    writeln!(text, "Failed requests:        {}", counts.failed)?;
    if counts.failed > 0 {
        writeln!(text, "   {}", bracket(&counts.kinds))?;
    }
    let count_if = |text: &mut String, label: &str, count: u64| match count {
        0 => Ok(()),
        count => writeln!(text, "{label:24}{count}"),
    };
    count_if(text, "Write errors:", outcome.failures.of(FailureKind::Send))?;
    count_if(text, "Non-2xx responses:", counts.non_2xx)?;
    if plan.keep_alive {
        writeln!(text, "Keep-Alive requests:    {}", outcome.kept)?;
    }
    writeln!(text, "Total transferred:      {} bytes", outcome.received_bytes)?;
    if plan.body.is_some() {
        writeln!(text, "Total body sent:        {}", outcome.sent_bytes)?;
    }
    writeln!(text, "HTML transferred:       {} bytes", counts.content_bytes)
}

/// Writes the negotiated TLS parameters, and the server name that was sent.
fn write_tls(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    if let Some(tls) = &outcome.tls {
        let terms = format!("{},{},{},{}", tls.version, tls.suite, tls.key_bits, tls.cipher_bits);
        writeln!(text, "SSL/TLS Protocol:       {terms}")?;
        tls.temporary_key.iter().try_for_each(|key| writeln!(text, "Server Temp Key:        {key}"))?;
    }
    let plan = &outcome.plan;
    let name = plan.tls.name.clone().unwrap_or_else(|| plan.target.host());
    // IP addresses are not sent as server names (RFC 6066 section 3).
    if plan.target.is_https() && plan.tls.server_name && name.parse::<IpAddr>().is_err() {
        writeln!(text, "TLS Server Name:        {name}")?;
    }
    Ok(())
}

fn write_rates(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let seconds = outcome.elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return Ok(());
    }
    let each_ms = seconds * 1_000.0 / outcome.complete as f64;
    let kilobytes = |bytes: u64| bytes as f64 / 1024.0 / seconds;
    let received = kilobytes(outcome.received_bytes);
    let sent = kilobytes(outcome.sent_bytes);
    writeln!(text, "Requests per second:    {:.2} [#/sec] (mean)", outcome.complete_per_second())?;
    writeln!(text, "Time per request:       {:.3} [ms] (mean)", each_ms * outcome.plan.users as f64)?;
    writeln!(text, "Time per request:       {each_ms:.3} [ms] (mean, across all concurrent requests)")?;
    writeln!(text, "Transfer rate:          {received:.2} [Kbytes/sec] received")?;
    if outcome.plan.body.is_some() {
        writeln!(text, "                        {sent:.2} kb/s sent")?;
        writeln!(text, "                        {:.2} kb/s total", received + sent)?;
    }
    Ok(())
}

fn write_times(text: &mut String, times: &Times) -> std::fmt::Result {
    let rows = rows(times);
    writeln!(text, "\nConnection Times (ms)")?;
    writeln!(text, "              min  mean[+/-sd] median   max")?;
    for (label, _, histogram) in rows {
        writeln!(
            text,
            "{label:11} {:5} {:4} {:5.1} {:6} {:7}",
            rounded_ms(histogram.min_us() as f64),
            rounded_ms(histogram.mean_us()),
            histogram.standard_deviation_us() / 1_000.0,
            rounded_ms(histogram.median_us() as f64),
            rounded_ms(histogram.max_us() as f64),
        )?;
    }
    rows.into_iter().try_for_each(|(_, name, histogram)| write_warning(text, name, histogram))
}

/// Writes the warning of `ab` for a median and a mean that are far apart.
fn write_warning(text: &mut String, name: &str, histogram: &Histogram) -> std::fmt::Result {
    let distance = rounded_ms(histogram.mean_us()).abs_diff(rounded_ms(histogram.median_us() as f64)) as f64;
    let deviation = histogram.standard_deviation_us() / 1_000.0;
    if distance > 2.0 * deviation {
        writeln!(text, "ERROR: The median and mean for {name} are more than twice the standard")?;
        writeln!(text, "       deviation apart. These results are NOT reliable.")
    } else if distance > deviation {
        writeln!(text, "WARNING: The median and mean for {name} are not within a normal deviation")?;
        writeln!(text, "        These results are probably not that reliable.")
    } else {
        Ok(())
    }
}

fn write_plain_times(text: &mut String, times: &Times) -> std::fmt::Result {
    writeln!(text, "\nConnection Times (ms)")?;
    writeln!(text, "              min   avg   max")?;
    for (label, _, histogram) in rows(times) {
        writeln!(
            text,
            "{label:11} {:5} {:5}{:5}",
            rounded_ms(histogram.min_us() as f64),
            rounded_ms(histogram.mean_us()),
            rounded_ms(histogram.max_us() as f64),
        )?;
    }
    Ok(())
}

fn write_percentiles(text: &mut String, total: &Histogram) -> std::fmt::Result {
    writeln!(text, "\nPercentage of the requests served within a certain time (ms)")?;
    for percent in PERCENTS {
        let time = rounded_ms(total.percentile_us(f64::from(percent)) as f64);
        let longest = if percent == 100 { " (longest request)" } else { "" };
        writeln!(text, " {percent:3}%  {time:5}{longest}")?;
    }
    Ok(())
}

/// Label, name in warnings, and times of each row.
fn rows(times: &Times) -> [(&'static str, &'static str, &Histogram); 4] {
    [
        ("Connect:", "the initial connection time", &times.connect),
        ("Processing:", "the processing time", &times.processing),
        ("Waiting:", "the waiting time", &times.waiting),
        ("Total:", "the total time", &times.total),
    ]
}

/// Writes the figures that the layout of `ab` lacks.
fn write_beyond(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    writeln!(text, "\nBeyond ab")?;
    writeln!(
        text,
        "Good answers:           {} of {} requests, {:.2} req/s",
        outcome.good,
        outcome.requests(),
        outcome.good_per_second()
    )?;
    write_list(
        text,
        "Failed by kind:",
        FailureKind::ALL.map(|kind| (kind.name(), outcome.failures.of(kind))),
    )?;
    write_list(text, "Status codes:", outcome.statuses.iter())?;
    let total = &outcome.good_times.total;
    if !total.is_empty() {
        writeln!(text, "Times of good answers:  {}", milliseconds_line(total))?;
    }
    for of in &outcome.verdicts {
        let label = format!("  cache {}:", of.verdict.name());
        writeln!(text, "{label:24}{} answers, {}", of.total.count(), milliseconds_line(&of.total))?;
    }
    write_connections(text, outcome)?;
    write_drift(text, outcome)?;
    write_generator(text, outcome)?;
    write_ab_account(text, outcome)?;
    let kinds = FailureKind::ALL.into_iter().filter(|&kind| outcome.failures.of(kind) > 0);
    kinds.filter_map(FailureKind::advice).try_for_each(|advice| writeln!(text, "Note: {advice}."))
}

/// Writes the changes between the first good response and the first that differs from it, with
/// their places.
pub(crate) fn write_drift(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let Some(drift) = crate::run::ContentDrift::of(outcome) else { return Ok(()) };
    let throughout = if drift.spots_count.is_none() { " throughout, from here on" } else { "" };
    writeln!(
        text,
        "Contents:               {} of {} that were compared differ from the first; what changed: {}{throughout}",
        drift.differing,
        drift.compared,
        drift.said()
    )?;
    drift.spots.iter().try_for_each(|spot| writeln!(text, "  {}", spot.said()))?;
    match drift.spots_count.map(|count| count - drift.spots.len() as u64) {
        Some(more @ 1..) => writeln!(text, "  and {more} more places"),
        _ => Ok(()),
    }
}

pub(crate) fn write_connections(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    write!(text, "Connections:            {} opened", outcome.connections)?;
    for (count, what) in [
        (outcome.resent, "requests sent again after an unannounced close"),
        (outcome.closed_by_us, "closed by us because the server did not"),
    ] {
        if count > 0 {
            write!(text, ", {count} {what}")?;
        }
    }
    writeln!(text)?;
    if outcome.unfinished > 0 {
        writeln!(text, "Unfinished requests:    {} in flight at the end, not counted", outcome.unfinished)?;
    }
    if outcome.ended != record::Ended::Requests && outcome.ended != record::Ended::Time {
        writeln!(text, "Ended early:            {}", outcome.ended.name())?;
    }
    if outcome.plan.expect != Expect::default() {
        let Expect { status, length, body, never } = &outcome.plan.expect;
        let lengths = if *length == Length::Variable { ", any length" } else { "" };
        let body = body.as_ref().map(|pattern| format!(", content /{pattern}/")).unwrap_or_default();
        let never = never.as_ref().map(|pattern| format!(", never /{pattern}/")).unwrap_or_default();
        writeln!(text, "Expected:               status {status}{lengths}{body}{never}")?;
    }
    if outcome.length_differs > 0 {
        writeln!(text, "Lengths:                {} answers differ from the first", outcome.length_differs)?;
    }
    Ok(())
}

pub(crate) fn write_generator(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let check = &outcome.check;
    write!(
        text,
        "Generator:              {}; threads {}, busiest {:.0}% of a core, lag p99 {:.3} ms",
        check.trust,
        outcome.threads,
        check.cpu_share_max * 100.0,
        milliseconds(check.lag_p99_us)
    )?;
    match check.little_residual {
        Some(residual) => writeln!(text, ", {:+.1}% off Little's law", residual * 100.0)?,
        None => writeln!(text, ", too few answers for Little's law")?,
    }
    write_account(text, outcome)?;
    check.reasons.iter().try_for_each(|reason| writeln!(text, "{:24}{reason}", ""))
}

/// Writes the account of the users' time on one line. The server's and the generator's shares are
/// always shown, the others only if they are not zero.
fn write_account(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let account = &outcome.check.account;
    let total = account.total().as_secs_f64();
    if total <= 0.0 {
        return Ok(());
    }
    let terms = [
        ("at the server", account.server, true),
        ("failed", account.failed, false),
        ("connecting", account.connecting, false),
        ("thinking", account.thinking, false),
        ("late", account.late, true),
        ("unread", account.unread, true),
        ("processing", account.processing, true),
        ("unfinished", account.unfinished, false),
    ];
    let shown = terms.into_iter().filter(|(_, time, is_always)| *is_always || !time.is_zero());
    let list: Vec<String> =
        shown.map(|(name, time, _)| format!("{name} {:.1}%", time.as_secs_f64() * 100.0 / total)).collect();
    let label = if outcome.rate_asked.is_some() { "Time of requests:" } else { "Time of users:" };
    writeln!(text, "{label:24}{}", list.join(", "))
}

/// Writes a line of counts without the zeros; no line if all are zero.
pub(crate) fn write_list<N: std::fmt::Display>(
    text: &mut String,
    label: &str,
    counts: impl IntoIterator<Item = (N, u64)>,
) -> std::fmt::Result {
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let list: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
    if list.is_empty() { Ok(()) } else { writeln!(text, "{label:24}{}", list.join(", ")) }
}

fn milliseconds_line(histogram: &Histogram) -> String {
    let [p50, p95, p99] = [50.0, 95.0, 99.0].map(|percent| milliseconds(histogram.percentile_us(percent)));
    format!(
        "mean {:.3} ms, sd {:.3}, p50 {p50:.3}, p95 {p95:.3}, p99 {p99:.3}, max {:.3}",
        histogram.mean_us() / 1_000.0,
        histogram.standard_deviation_us() / 1_000.0,
        milliseconds(histogram.max_us())
    )
}

/// The four counts in the bracket of `ab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AbCounts {
    connect: u64,
    receive: u64,
    length: u64,
    exceptions: u64,
}

impl AbCounts {
    /// Counts by the rules of Petasos.
    fn ours(outcome: &RunOutcome) -> Self {
        let of = |kind| outcome.failures.of(kind);
        Self {
            connect: of(FailureKind::Connect) + of(FailureKind::Tls) + of(FailureKind::Address),
            receive: of(FailureKind::Receive),
            length: of(FailureKind::Length),
            exceptions: of(FailureKind::Timeout) + of(FailureKind::Body) + of(FailureKind::Malformed),
        }
    }

    /// Counts by the rules of `ab`.
    fn of_ab(account: &AbAccount) -> Self {
        let AbAccount { receive, length, exceptions, .. } = *account;
        Self { connect: 0, receive, length, exceptions }
    }
}

/// Counts of the report's upper half that differ between Petasos and `ab`.
struct UpperCounts {
    document_bytes: u64,
    failed: u64,
    kinds: AbCounts,
    non_2xx: u64,
    content_bytes: u64,
}

impl UpperCounts {
    fn ours(outcome: &RunOutcome) -> Self {
        Self {
            document_bytes: outcome.document_bytes.unwrap_or(0),
            failed: outcome.failures.total(),
            kinds: AbCounts::ours(outcome),
            non_2xx: outcome.complete - outcome.statuses.class(2),
            content_bytes: outcome.content_bytes,
        }
    }

    /// Counts by the rules of `ab`. A run without an account of `ab` uses the counts of Petasos.
    fn of_ab(outcome: &RunOutcome) -> Self {
        let Some(account) = &outcome.ab else { return Self::ours(outcome) };
        Self {
            document_bytes: account.document_bytes,
            failed: account.failed(),
            kinds: AbCounts::of_ab(account),
            non_2xx: account.non_2xx,
            content_bytes: account.content_bytes,
        }
    }
}

/// Writes the result that `ab` would have reported for the same responses, if it differs.
fn write_ab_account(text: &mut String, outcome: &RunOutcome) -> std::fmt::Result {
    let Some(account) = &outcome.ab else { return Ok(()) };
    if let Some(reason) = why_ab_ends(outcome) {
        return writeln!(text, "ab would have ended without a report: {reason}.");
    }
    let counts = AbCounts::of_ab(account);
    if counts == AbCounts::ours(outcome) && account.failed() == outcome.failures.total() {
        return Ok(());
    }
    let bound = if account.refused > 0 { "at least " } else { "" };
    writeln!(text, "ab would have reported {bound}{} failed requests {}.", account.failed(), bracket(&counts))
}

/// Reason why `ab` would have ended this run without a report, in its own words; `None` if it would
/// have reported.
pub fn why_ab_ends(outcome: &RunOutcome) -> Option<&'static str> {
    let account = outcome.ab.as_ref()?;
    let ends_at_breaks = outcome.plan.stop.at_first_receive_error;
    if account.receive > 0 && ends_at_breaks {
        Some("apr_socket_recv: Connection reset by peer (104)")
    } else if account.refused > 0 && ends_at_breaks {
        Some("apr_socket_recv: Connection refused (111)")
    } else if account.silent > 0 && outcome.plan.stop.time.is_none() {
        Some("apr_pollset_poll: The timeout specified has expired (70007)")
    } else {
        None
    }
}

fn bracket(counts: &AbCounts) -> String {
    let AbCounts { connect, receive, length, exceptions } = counts;
    format!("(Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})")
}

pub(crate) fn milliseconds(value_us: u64) -> f64 {
    value_us as f64 / 1_000.0
}

/// Rounds to whole milliseconds as `ab` does: fractions of a microsecond are cut, half a
/// millisecond is rounded up.
fn rounded_ms(value_us: f64) -> u64 {
    (value_us as u64 + 500) / 1_000
}

/// Formats a time as the C library's `ctime` does, in UTC: `Thu Oct 17 12:00:00 2024`.
fn calendar(unix_s: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = unix_s / 86_400;
    let seconds = unix_s % 86_400;
    // Days are counted from 1 March of the year 0, so that a leap day is the last day of its year.
    // 400 years have 146,097 days.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    let name = |names: &[&'static str], index: u64| names.get(index as usize).copied().unwrap_or_default();
    format!(
        "{} {} {day:2} {:02}:{:02}:{:02} {year}",
        name(&WEEKDAYS, days % 7),
        name(&MONTHS, month),
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}
