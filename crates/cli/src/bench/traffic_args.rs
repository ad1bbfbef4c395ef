//! The arguments that shape a load: the times of requests, their number, their URLs and their
//! source addresses.
//!
//! Invariant: each argument sets one field of a plan. Contradictions between them are found by the
//! plan's own check.

use super::idle_flags::IdleFlag;
use crate::values::time;
use address::HttpUrl;
use anyhow::{Context as _, ensure};
use record::{Arrival, Plan, Rate, SourceNet, Stage, StageLoad, Think, WeightedTarget};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest accepted list of URLs, in bytes.
const LIST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The shape of the load.
#[derive(Debug, clap::Args)]
pub(crate) struct TrafficArgs {
    /// Open loop: start R requests a second, however slow the responses are
    #[arg(long, value_name = "R", conflicts_with = "users")]
    rate: Option<f64>,
    /// With --rate and -t: change the rate evenly to R until the end of the run
    #[arg(long, value_name = "R", requires = "rate", conflicts_with_all = ["poisson", "stage"])]
    ramp_to: Option<f64>,
    /// Open loop: random gaps between requests, as between independent visitors
    #[arg(long)]
    poisson: bool,
    /// Open loop: largest number of requests in flight, or of visitors with --page (at most 5000).
    /// Requests due beyond it are counted and not started [default: 10000, with --page 5000]
    #[arg(long, value_name = "N")]
    in_flight_max: Option<usize>,
    /// Part of the run with its own load: users, such as 100:30s, or a rate, such as 250/s:30s;
    /// repeatable
    #[arg(long, value_name = "LOAD:TIME", value_parser = stage, conflicts_with_all = ["users", "rate", "time"])]
    stage: Vec<Stage>,
    /// Pause between two stages
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0", requires = "stage")]
    cooldown: Duration,
    /// Pause of a user between a response and the next request, or with --page between two pages; a
    /// range such as 1s-3s is possible
    #[arg(long, value_name = "TIME", value_parser = think, default_value = "0")]
    think: Think,
    /// Without keep-alive: keep connections open for this time after their response, as browsers
    /// do. With --page: keep them open after the page, while the next visitor comes
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0")]
    linger: Duration,
    /// Time in which the load grows to its full size. 0 starts all users at once [default: 20ms in
    /// a timed run, or 2s for another machine]
    #[arg(long, value_name = "TIME", value_parser = time)]
    ramp_up: Option<Duration>,
    /// Continue although most requests fail [default: only if the target is on this machine]
    #[arg(long)]
    keep_going: bool,
    /// Load a target on another machine without asking; needed without a terminal
    #[arg(long)]
    pub(super) yes: bool,
    /// File with a URL in each line, and an optional weight after it. A path belongs to the host of
    /// the URL argument
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Largest number of connections to one host (name and port), with --page for each visitor
    /// [default: no limit, with --page 6]
    #[arg(long, value_name = "N")]
    connections_per_host: Option<usize>,
    /// Largest number of connections to one address (IP and port) [default: no limit]
    #[arg(long, value_name = "N")]
    connections_per_address: Option<usize>,
    /// Local addresses to connect from in turn, such as 127.0.0.0/8; each has its own ports
    #[arg(long, value_name = "NET")]
    source: Option<SourceNet>,
}

impl TrafficArgs {
    /// Whether there are stages, which then determine the duration of the run.
    pub(super) fn has_stages(&self) -> bool {
        !self.stage.is_empty()
    }

    /// The flags that may have no effect in combination with the others.
    pub(super) fn idle(&self) -> [IdleFlag; 5] {
        let is_rate = |stage: &Stage| matches!(stage.load, StageLoad::Rate(_));
        let has_rate = self.rate.is_some() || self.stage.iter().any(is_rate);
        let has_users = self.rate.is_none() && (self.stage.is_empty() || !self.stage.iter().all(is_rate));
        [
            IdleFlag {
                flag: "--poisson",
                is_idle: self.poisson && !has_rate,
                fix: "it needs a rate, --rate or stages such as 250/s:30s",
            },
            IdleFlag {
                flag: "--in-flight-max",
                is_idle: self.in_flight_max.is_some() && !has_rate,
                fix: "it needs a rate, --rate or stages such as 250/s:30s; without a rate, use -c",
            },
            IdleFlag {
                flag: "--think",
                is_idle: !self.think.is_none() && !has_users,
                fix: "with a rate, requests (with --page: pages) begin at the rate; leave --think or the rate out",
            },
            IdleFlag {
                flag: "--cooldown",
                is_idle: !self.cooldown.is_zero() && self.stage.len() == 1,
                fix: "it is the pause between two stages, and there is one; give another --stage or leave it out",
            },
            IdleFlag {
                flag: "--ramp-up",
                is_idle: self.ramp_up.is_some_and(|ramp| !ramp.is_zero()) && self.ramp_to.is_some(),
                fix: "with --ramp-to, the rate already grows from --rate; leave --ramp-up or --ramp-to out",
            },
        ]
    }

    /// Sets the shape in a plan. With a rate, at most `in_flight_max_default` requests are in
    /// flight unless a flag sets another limit.
    ///
    /// # Errors
    /// If the list of URLs cannot be read.
    pub(super) fn shape(&self, plan: &mut Plan, in_flight_max_default: usize) -> anyhow::Result<()> {
        let rate = self.rate.map(|rate| match self.ramp_to {
            Some(to) => Rate::Ramp { from: rate, to },
            None if self.poisson => Rate::Poisson(rate),
            None => Rate::Constant(rate),
        });
        let of_stages = self.stage.iter().find_map(|stage| match stage.load {
            StageLoad::Rate(rate) if self.poisson => Some(Rate::Poisson(rate)),
            StageLoad::Rate(rate) => Some(Rate::Constant(rate)),
            StageLoad::Users(_) => None,
        });
        if let Some(rate) = rate.or(of_stages) {
            let in_flight_max = self.in_flight_max.unwrap_or(in_flight_max_default);
            plan.arrival = Arrival::Open { rate, in_flight_max };
        }
        plan.stages.clone_from(&self.stage);
        plan.cooldown = self.cooldown;
        plan.think = self.think;
        plan.linger = self.linger;
        plan.ramp = self.ramp_up.unwrap_or_default();
        plan.seed = self.seed;
        plan.connections_per_host_max = self.connections_per_host;
        plan.connections_per_address_max = self.connections_per_address;
        plan.source = self.source;
        if let Some(path) = &self.urls {
            plan.targets = read_list(path, &plan.target)?;
        }
        Ok(())
    }

    /// Whether a ramp-up is given, of any length. A ramp-up of 0 lets all users begin at once.
    pub(super) fn has_ramp_up(&self) -> bool {
        self.ramp_up.is_some()
    }

    /// Makes the load careful for a target on another machine: it grows slowly and stops if most
    /// requests fail.
    pub(super) fn be_careful(&self, plan: &mut Plan) {
        plan.stop.when_failing = !self.keep_going;
        // Without a time limit, the ramp-up takes all of RAMP_DEFAULT.
        let whole = plan.stop.time.unwrap_or(RAMP_DEFAULT * 5);
        plan.ramp = self.ramp_up.unwrap_or_else(|| RAMP_DEFAULT.min(whole / 5));
    }
}

/// Longest default ramp-up against a target on another machine. It is at most a fifth of
/// the run.
const RAMP_DEFAULT: Duration = Duration::from_secs(2);

/// Reads the URLs in a file.
///
/// # Errors
/// If the file cannot be read, is too large, has a bad line or has no URL.
fn read_list(path: &Path, base: &HttpUrl) -> anyhow::Result<Vec<WeightedTarget>> {
    let place = || path.display();
    let bytes = std::fs::metadata(path).with_context(|| format!("cannot read {}", place()))?.len();
    ensure!(bytes <= LIST_BYTES_MAX, "{} has more than {LIST_BYTES_MAX} bytes; use a smaller list", place());
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", place()))?;
    let lines =
        (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let targets: Vec<WeightedTarget> = lines
        .map(|(number, line)| url_of_line(line, base).with_context(|| format!("{}:{number}", place())))
        .collect::<anyhow::Result<_>>()?;
    ensure!(!targets.is_empty(), "{} has no URL; write one in each line", place());
    Ok(targets)
}

/// Parses `URL [WEIGHT]`. A URL that begins with `/` is a path on the host of `base`.
fn url_of_line(line: &str, base: &HttpUrl) -> anyhow::Result<WeightedTarget> {
    let mut words = line.split_whitespace();
    let url = words.next().unwrap_or_default();
    let weight = words.next();
    ensure!(words.next().is_none(), "{line:?} is neither a URL nor a URL with its weight");
    let weight = match weight {
        Some(weight) => weight
            .parse()
            .ok()
            .with_context(|| format!("{weight:?} is not a weight; write a whole number above 0"))?,
        None => 1,
    };
    let scheme = if base.is_https() { "https" } else { "http" };
    let text =
        if url.starts_with('/') { format!("{scheme}://{}{url}", base.authority()) } else { url.to_owned() };
    Ok(WeightedTarget::new(HttpUrl::parse(&text)?, weight))
}

fn stage(text: &str) -> Result<Stage, String> {
    let (load, time_text) =
        text.split_once(':').ok_or_else(|| format!("{text:?} is not a stage; write for example 100:30s"))?;
    Ok(Stage {
        load: load.parse().map_err(|error: record::StageLoadError| error.to_string())?,
        time: time(time_text)?,
    })
}

fn think(text: &str) -> Result<Think, String> {
    match text.split_once('-') {
        Some((from, to)) => {
            let from = time(from)?;
            let to = time(to)?;
            if to < from {
                Err(format!("{text:?} ends before it begins; write the shorter time first"))
            } else {
                Ok(Think::Range { from, to })
            }
        }
        None => Ok(match time(text)? {
            Duration::ZERO => Think::None,
            always => Think::Constant(always),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{read_list, stage, think};
    use address::HttpUrl;
    use record::{Stage, StageLoad, Think};
    use std::time::Duration;

    #[test]
    fn stages_and_think_times_are_parsed() {
        let seconds = Duration::from_secs;
        assert_eq!(stage("100:30s"), Ok(Stage { load: StageLoad::Users(100), time: seconds(30) }));
        assert_eq!(stage("2.5/s:1m"), Ok(Stage { load: StageLoad::Rate(2.5), time: seconds(60) }));
        assert!(["100", "x:1s", "100:", ":1s"].iter().all(|text| stage(text).is_err()));
        assert_eq!((think("0"), think("2")), (Ok(Think::None), Ok(Think::Constant(seconds(2)))));
        assert_eq!(think("1s-3s"), Ok(Think::Range { from: seconds(1), to: seconds(3) }));
        assert!(think("3s-1s").is_err() && think("-").is_err());
    }

    #[test]
    fn url_list_has_weights_and_its_errors_name_the_line() {
        let base = HttpUrl::parse("http://example.test:81/x").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = directory.path().join("list");
            std::fs::write(&path, text).unwrap();
            read_list(&path, &base).map_err(|error| format!("{error:#}"))
        };
        let targets = read("# pages\n/a 3\n\nhttp://other.test/b\n").unwrap();
        let found: Vec<_> = targets.iter().map(|of| (of.target.to_string(), of.weight)).collect();
        assert_eq!(
            found,
            [("http://example.test:81/a".to_owned(), 3), ("http://other.test/b".to_owned(), 1)]
        );
        for (text, place) in
            [("/a\n/b x\n", "list:2"), ("/a 1 2", "list:1"), ("ftp://h/", "list:1"), ("", "no URL")]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains(place), "{error}");
        }
        assert!(read_list(&directory.path().join("none"), &base).is_err());
    }
}
