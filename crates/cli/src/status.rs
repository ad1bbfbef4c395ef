//! `petasos status`: the state of a running edge on one screen, or as JSON.
//!
//! Exit codes:
//!
//! - 0: all is well.
//! - 1: something needs attention; the output says what.
//! - 2: no edge answers, or it refuses. Standard error has the reason.

use crate::admin::AdminArgs;
use crate::bench::measure;
use crate::record_text::{printable, size_text};
use crate::snapshot::{Snapshot, Verdicts};
use crate::warm;
use clock::{Clock as _, Timestamp};
use platform::SystemClock;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

/// Exit code if something needs attention.
const EXIT_ATTENTION: u8 = 1;

/// Time between the two samples that rates are computed from.
const SAMPLE: Duration = Duration::from_secs(1);

/// A certificate needs attention when it expires within this time. Renewal by ACME begins earlier.
const EXPIRY_NEAR: Duration = Duration::from_secs(14 * 86_400);

/// Metrics that are zero while all is well, with the meaning of another value.
const ZERO_IF_WELL: &[(&str, &str)] = &[
    ("disk_off", "the disk is configured for stored responses and not in use; the edge's log says why"),
    (
        "disk_distrusted",
        "a purge could not be written to the disk, so the next start begins with an empty one",
    ),
    ("disk_stuck", "operations on the disk hang"),
    ("static_tree_off", "the static tree is configured and cannot be written; the edge's log says why"),
    ("acme_failing", "certificates cannot be obtained by ACME"),
    ("panics_total", "a part of Petasos has panicked since the start; report it as a bug"),
    ("threads_lost_total", "a thread of Petasos has ended since the start; report it as a bug"),
];

/// Counters that do not grow while all is well, with the meaning of growth.
const STILL_IF_WELL: &[(&str, &str)] = &[
    ("access_log_dropped_total", "lines of the access log are lost"),
    ("connections_refused_total", "connections are refused, because limits.connections_max are open"),
    ("origin_busy_total", "requests are refused, because the origin's queue is full"),
];

/// Show the state of a running edge on one screen.
///
/// The command takes one second, to measure rates. The exit code is 0 if all is well, 1 if
/// something needs attention, and 2 if no edge answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    edge: AdminArgs,
}

/// Prints the state.
///
/// # Errors
/// If no edge answers, or it refuses.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let clock = SystemClock::new();
    let (before, begun) = (Snapshot::of(&args.edge)?, clock.monotonic());
    std::thread::sleep(SAMPLE);
    let after = Snapshot::of(&args.edge)?;
    let view = View { time: clock.monotonic().since(begun), now: clock.now(), before, after };
    let attention = view.attention();
    let text = if args.json { view.json(&attention) } else { view.screen(&attention) };
    measure::write_text(io::stdout(), &text)?;
    Ok(if attention.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_ATTENTION) })
}

/// Two samples of an edge.
struct View {
    before: Snapshot,
    after: Snapshot,
    /// The time between them.
    time: Duration,
    now: Timestamp,
}

impl View {
    /// All problems that need an operator's attention, as sentences.
    fn attention(&self) -> Vec<String> {
        let status = &self.after.status;
        let mut found = Vec::new();
        if status.draining {
            found.push("the edge drains and takes no new connection".to_owned());
        }
        for site in status.sites.iter().filter(|site| site.breaker != "closed") {
            found.push(format!(
                "the breaker of {} ({}) is {}",
                site.origin,
                name_of(&site.names),
                site.breaker
            ));
        }
        for site in &status.sites {
            let name = name_of(&site.names);
            let unwell = site.unwell_origins();
            found.extend(
                unwell.map(|origin| format!("the origin {} ({name}) is {}", origin.url, origin.state)),
            );
        }
        let is_set = |(name, _): &&(&str, &str)| self.after.metric(name) > 0.0;
        found.extend(ZERO_IF_WELL.iter().filter(is_set).map(|(_, meaning)| (*meaning).to_owned()));
        let grows = |(name, _): &&(&str, &str)| self.growth(name) > 0.0;
        found.extend(STILL_IF_WELL.iter().filter(grows).map(|(_, meaning)| (*meaning).to_owned()));
        let failed = self.recent().count("failed");
        if failed > 0 {
            found.push(format!("{failed} requests of the last second failed at the origin"));
        }
        if let Some(left) = self.certificate_left()
            && left < EXPIRY_NEAR
        {
            found.push(format!("a certificate expires in {}", long_time(left)));
        }
        for certificate in &status.certificates {
            if let Some(error) = &certificate.last_error {
                found.push(format!("the certificate for {}: {error}", certificate.names.join(", ")));
            }
        }
        found
    }

    /// By how much a counter grew between the samples.
    fn growth(&self, name: &str) -> f64 {
        self.after.metric(name) - self.before.metric(name)
    }

    /// The requests between the samples.
    fn recent(&self) -> Verdicts {
        self.after.verdicts().since(&self.before.verdicts())
    }

    /// The amount of something per second, from its growth between the samples.
    fn per_second(&self, growth: f64) -> f64 {
        growth / self.time.as_secs_f64().max(f64::EPSILON)
    }

    /// How long the first certificate of the listeners is still valid. `None` without TLS.
    fn certificate_left(&self) -> Option<Duration> {
        let expiry = self.after.metric("certificate_expiry_timestamp_seconds");
        (expiry > 0.0).then(|| Timestamp::from_secs(expiry as u64).since(self.now))
    }

    fn json(&self, attention: &[String]) -> String {
        let (all, recent) = (self.after.verdicts(), self.recent());
        let document = serde_json::json!({
            "attention": attention,
            "hit_ratio": all.hit_ratio(),
            "requests_per_second": self.per_second(recent.total() as f64),
            "bytes_sent_per_second": self.per_second(self.growth("bytes_sent_total")),
            "origin_fetches_per_second": self.per_second(self.growth("origin_fetches_total")),
            "status": self.after.status,
            "verdicts": all.by_name(),
        });
        format!("{document:#}\n")
    }

    fn screen(&self, attention: &[String]) -> String {
        let status = &self.after.status;
        let mut text = String::new();
        // Writing to a String cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<13}{}", printable(&value));
        };
        let up = long_time(Duration::from_secs(status.uptime_secs));
        let (workers, connections) = (status.workers, status.connections);
        line("petasos", format!("{}, up {up}, {workers} workers, {connections} connections", status.version));
        self.requests().into_iter().for_each(|(name, value)| line(name, value));
        for site in &status.sites {
            let fetches = fetches_of(site.fetches_active, site.fetches_max, site.fetches_waiting);
            let (name, profile) = (name_of(&site.names), &site.rules);
            line(
                "site",
                format!("{name} -> {}, profile {profile}, breaker {}, {fetches}", site.origin, site.breaker),
            );
            for origin in site.origins.iter().filter(|_| site.origins.len() > 1) {
                let fetches = fetches_of(origin.fetches_active, origin.fetches_max, origin.fetches_waiting);
                line("  origin", format!("{}, {}, {fetches}", origin.url, origin.state));
            }
        }
        for run in status.warming.iter().filter(|run| run.is_running) {
            line("filling", format!("{}: {}", run.site, warm::progress(run)));
        }
        let store = &status.store;
        line(
            "memory",
            format!(
                "{}, {} responses",
                share(store.bytes, self.after.metric("store_bytes_max")),
                store.objects
            ),
        );
        if let Some(disk) = &status.disk {
            let used = share(disk.bytes, disk.bytes_max as f64);
            line("disk", format!("{used}, {} responses in {}", disk.objects, disk.directory));
        }
        if let Some(left) = self.certificate_left() {
            line("certificates", format!("the first expires in {}", long_time(left)));
        }
        for page in status.sites.iter().filter_map(|site| site.uncompressed.as_ref()) {
            line("advice", page.clone());
        }
        match attention {
            [] => line("attention", "nothing".to_owned()),
            found => found.iter().for_each(|sentence| line("ATTENTION", sentence.clone())),
        }
        text
    }

    /// The lines about requests.
    fn requests(&self) -> [(&'static str, String); 3] {
        let (all, recent) = (self.after.verdicts(), self.recent());
        let ratio = |verdicts: &Verdicts| {
            verdicts.hit_ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}%", ratio * 100.0))
        };
        let rate = |growth| self.per_second(growth).round() as u64;
        let verdicts: Vec<_> =
            all.occurring().into_iter().map(|(name, count)| format!("{name} {count}")).collect();
        [
            (
                "requests",
                format!(
                    "{} a second, {} sent, {} to origins; {} since the start",
                    rate(recent.total() as f64),
                    size_text(rate(self.growth("bytes_sent_total"))),
                    rate(self.growth("origin_fetches_total")),
                    all.total()
                ),
            ),
            ("from cache", format!("{} of the last second, {} since the start", ratio(&recent), ratio(&all))),
            ("verdicts", verdicts.join(", ")),
        ]
    }
}

/// The name of a site as metrics have it.
fn name_of(names: &[String]) -> &str {
    names.first().map_or("any", String::as_str)
}

/// The fetches of an origin in words.
fn fetches_of(active: usize, max: usize, waiting: usize) -> String {
    format!("{active} of {max} fetches, {waiting} waiting")
}

fn share(bytes: u64, bytes_max: f64) -> String {
    let percent = bytes as f64 * 100.0 / bytes_max.max(1.0);
    format!("{} of {} ({percent:.0}%)", size_text(bytes), size_text(bytes_max as u64))
}

/// A long time in its two largest units.
pub(crate) fn long_time(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match minutes {
        0 => format!("{} s", time.as_secs()),
        1..60 => format!("{minutes} min"),
        60..1440 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::View;
    use crate::snapshot::Snapshot;
    use crate::snapshot::examples::{METRICS, well};
    use clock::Timestamp;
    use std::time::Duration;

    fn view(after: Snapshot) -> View {
        let (time, now) = (Duration::from_secs(2), Timestamp::from_secs(1_000_000));
        View { before: well(METRICS), after, time, now }
    }

    #[test]
    fn screen_of_a_healthy_edge_asks_for_no_attention() {
        let later = METRICS.replace("} 600", "} 620").replace("total 5000", "total 45000");
        let view = view(well(&format!("{later}petasos_store_bytes_max 24600000\n")));
        assert!(view.attention().is_empty());
        let expected = "petasos      0.1.0, up 2 h 3 min, 2 workers, 3 connections\n\
                        requests     10 a second, 20.0 kB sent, 0 to origins; 1030 since the start\n\
                        from cache   100.0% of the last second, 96.1% since the start\n\
                        verdicts     hit 980, miss 40, refused 10\n\
                        site         a.test -> http://127.0.0.1:8000, profile wordpress, breaker closed, 2 of 64 fetches, 0 waiting\n\
                        memory       12.3 MB of 24.6 MB (50%), 345 responses\n\
                        attention    nothing\n";
        assert_eq!(view.screen(&[]), expected);
        let json: serde_json::Value = serde_json::from_str(&view.json(&[])).unwrap();
        assert_eq!((&json["requests_per_second"], &json["verdicts"]["hit"]), (&10.0.into(), &980.into()));
        assert_eq!(
            (&json["status"]["uptime_secs"], json["attention"].as_array().unwrap().len()),
            (&7384.into(), 0)
        );
    }

    #[test]
    fn run_under_way_is_a_line_of_the_screen() {
        let mut after = well(METRICS);
        let run = |is_running| api::warm::WarmRun {
            site: "a.test".to_owned(),
            found: 1_000,
            warmed: 250,
            fresh: 30,
            state: "fills the cache".to_owned(),
            is_running,
            ..api::warm::WarmRun::default()
        };
        after.status.warming = vec![run(true), run(false)];
        let screen = view(after).screen(&[]);
        let lines: Vec<_> = screen.lines().filter(|line| line.starts_with("filling")).collect();
        assert_eq!(lines, ["filling      a.test: 280 of 1,000 pages, 250 stored; fills the cache"]);
    }

    fn origin(state: &str) -> api::status::OriginStatus {
        api::status::OriginStatus {
            fetches_active: 1,
            fetches_max: 64,
            state: state.to_owned(),
            url: format!("http://{state}"),
            ..api::status::OriginStatus::default()
        }
    }

    #[test]
    fn everything_that_needs_attention_is_a_sentence() {
        let mut after = well(&format!(
            "{METRICS}petasos_disk_off 1\npetasos_access_log_dropped_total 3\n\
             petasos_requests_total{{site=\"a.test\",verdict=\"failed\",reason=\"origin-refused\"}} 2\n\
             petasos_certificate_expiry_timestamp_seconds 1172800\n"
        ));
        after.status.draining = true;
        after.status.sites[0].breaker = "open".to_owned();
        after.status.sites[0].origins = ["well", "unreachable"].map(origin).into();
        let view = view(after);
        let found = view.attention();
        for words in [
            "drains",
            "the breaker of http://127.0.0.1:8000 (a.test) is open",
            "the origin http://unreachable (a.test) is unreachable",
            "not in use",
            "lines of the access log are lost",
            "2 requests of the last second failed",
            "a certificate expires in 2 days",
        ] {
            assert!(found.iter().any(|sentence| sentence.contains(words)), "{words}: {found:?}");
        }
        assert_eq!(found.len(), 7, "{found:?}");
        let screen = view.screen(&found);
        assert!(screen.contains("ATTENTION    the edge drains"));
        assert!(screen.contains("  origin     http://well, well, 1 of 64 fetches, 0 waiting"), "{screen}");
    }
}
