//! The arguments that describe a load, shared by every command that generates one.
//!
//! Invariant: a plan built here has passed [`Plan::check`]. Only in page mode are the settings that
//! have another meaning there left out of that check.

use super::elsewhere::{ask, hosts_elsewhere, is_loopback, targets};
use super::idle_flags::{self, IdleFlag};
use super::request_args::RequestArgs;
use super::traffic_args::TrafficArgs;
use crate::values::time;
use address::HttpUrl;
use anyhow::ensure;
use browse::VISITORS_MAX;
use record::{
    BodyPattern, Close, Expect, IN_FLIGHT_MAX_DEFAULT, Length, Plan, Protocol, StatusSet, Stop, spread,
};
use std::path::PathBuf;
use std::time::Duration;

/// Duration of a run if neither a number of requests nor a time is given.
const TIME_DEFAULT: Duration = Duration::from_secs(10);

/// The load to make.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Number of requests. With -t, the run ends at the first of the two limits
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// Number of users, each with one request in flight
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    users: usize,
    /// Duration of the measurement [default: 10s, unless -n is given]
    #[arg(short = 't', long, value_name = "TIME", value_parser = time)]
    time: Option<Duration>,
    /// Duration of the load before the measurement; it is in no figure
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0")]
    warmup: Duration,
    /// Generator threads [default: one for each core, or for two cores with a light load]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Make a new connection for every request
    #[arg(long)]
    no_keepalive: bool,
    /// How to end connections that the server has closed, on loopback without keep-alive. fin is
    /// what clients do; rst is faster than any client and flatters both sides
    #[arg(long, value_name = "HOW", default_value = "fin")]
    close: Close,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// Time limit of a request, from its start to the last byte of the response
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    timeout: Duration,
    /// Status codes of good responses, such as 200 or 2xx,304
    #[arg(long, value_name = "S", default_value = "2xx")]
    expect_status: StatusSet,
    /// Regular expression that matches in the content of every good response
    #[arg(long, value_name = "RE")]
    expect_body: Option<BodyPattern>,
    /// HTTP version: 1.0, 1.1 or 2. Over https the server must choose 2; over http it must support
    /// 2
    #[arg(long, value_name = "V", default_value = "1.1")]
    http: Protocol,
    /// Number of requests that each connection may have in flight [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pipeline: usize,
    /// Accept invalid certificates of https servers
    #[arg(long)]
    insecure: bool,
    /// PEM file of certificates, of authorities or of servers, that verify https servers [default:
    /// the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Resume no TLS session: make a full handshake for each https connection
    #[arg(long)]
    no_resumption: bool,
    /// Accept responses of different lengths as good
    #[arg(long)]
    variable_length: bool,
}

impl LoadArgs {
    /// Builds the plan for a URL.
    ///
    /// # Errors
    /// If the arguments contradict each other or a file cannot be read.
    pub(crate) fn plan(&self, url: &str) -> anyhow::Result<Plan> {
        let mut plan = self.shaped(url, IN_FLIGHT_MAX_DEFAULT)?;
        ensure!(
            plan.linger.is_zero() || !plan.keep_alive,
            "--linger goes with --no-keepalive or --page; with keep-alive, connections stay open anyway"
        );
        if self.requests.is_none() && !self.traffic.has_ramp_up() {
            plan.spread = spread(plan.stop.time);
        }
        plan.check()?;
        Ok(plan)
    }

    /// Builds the plan for page mode. The bound on connections has other limits there, which page
    /// mode checks. Connections that are kept open may linger.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub(crate) fn plan_of_pages(&self, url: &str) -> anyhow::Result<Plan> {
        let mut plan = self.shaped(url, VISITORS_MAX)?;
        let connections_per_host_max = plan.connections_per_host_max.take();
        let linger = std::mem::take(&mut plan.linger);
        plan.check()?;
        Ok(Plan { connections_per_host_max, linger, ..plan })
    }

    /// Builds the plan from the arguments without checking it. Only flags without effect are
    /// refused.
    fn shaped(&self, url: &str, in_flight_max_default: usize) -> anyhow::Result<Plan> {
        idle_flags::refuse(self.traffic.idle().into_iter().chain(self.request.idle()))?;
        let mut plan = Plan::new(HttpUrl::parse(url)?);
        let is_endless = self.requests.is_none() && !self.traffic.has_stages();
        let time = self.time.or_else(|| is_endless.then_some(TIME_DEFAULT));
        plan.stop = Stop { requests: self.requests, time, ..Stop::default() };
        plan.users = self.users;
        plan.threads = self.threads;
        plan.warmup = self.warmup;
        plan.keep_alive = !self.no_keepalive;
        plan.close = self.close;
        plan.timeout = self.timeout;
        plan.http = self.http;
        plan.pipeline = self.pipeline;
        plan.tls.is_verified = !self.insecure;
        plan.tls.ca_file.clone_from(&self.ca);
        plan.tls.is_resumed = !self.no_resumption;
        let length = if self.variable_length { Length::Variable } else { Length::Constant };
        plan.expect = Expect {
            status: self.expect_status.clone(),
            length,
            body: self.expect_body.clone(),
            never: None,
        };
        self.request.shape(&mut plan)?;
        self.traffic.shape(&mut plan, in_flight_max_default)?;
        Ok(plan)
    }

    /// Refuses flags that have no effect on any of these plans. Not for page mode, where a page may
    /// name files of other hosts.
    ///
    /// # Errors
    /// If there is one; the error has the flag and the advice.
    pub(crate) fn refuse_idle(&self, plans: &[Plan]) -> anyhow::Result<()> {
        let has_tls = plans.iter().flat_map(targets).any(HttpUrl::is_https);
        let of_tls = |flag, is_given: bool| IdleFlag {
            flag,
            is_idle: is_given && !has_tls,
            fix: "no URL is https; leave it out",
        };
        let may_redial = || plans.iter().flat_map(targets).any(is_loopback);
        idle_flags::refuse([
            of_tls("--insecure", self.insecure),
            of_tls("--ca", self.ca.is_some()),
            of_tls("--no-resumption", self.no_resumption),
            IdleFlag {
                flag: "--close rst",
                is_idle: self.close == Close::Rst && !may_redial(),
                fix: "only connections on loopback end with a reset, and no URL leads there; leave it out",
            },
        ])
    }

    /// If the target is not on this machine, asks the user for consent and makes the load careful.
    ///
    /// # Errors
    /// If the user does not consent.
    pub(crate) fn agree(&self, plan: &mut Plan) -> anyhow::Result<()> {
        self.agree_all(std::slice::from_mut(plan))
    }

    /// As [`Self::agree`], with one question for all plans. If one target is not on this machine,
    /// all plans become careful, so that the compared targets get the same load.
    ///
    /// # Errors
    /// If the user does not consent.
    pub(crate) fn agree_all(&self, plans: &mut [Plan]) -> anyhow::Result<()> {
        let mut hosts: Vec<String> = Vec::new();
        for host in plans.iter().flat_map(hosts_elsewhere) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        if !hosts.is_empty() {
            if !self.traffic.yes {
                ask(&hosts)?;
            }
            plans.iter_mut().for_each(|plan| self.traffic.be_careful(plan));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadArgs, Plan, Protocol, TIME_DEFAULT};
    use clap::{Args as _, Command, FromArgMatches as _};
    use message::Method;
    use record::{Arrival, Rate};
    use std::time::Duration;

    /// Builds the plan from a line with a URL, followed by arguments.
    fn parse(line: &str) -> anyhow::Result<Plan> {
        let (url, arguments) = line.split_once(' ').unwrap_or((line, ""));
        let command = LoadArgs::augment_args(Command::new("bench").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments.split_whitespace())?;
        LoadArgs::from_arg_matches(&matches)?.plan(url)
    }

    #[test]
    fn the_defaults_keep_connections_for_ten_seconds() {
        let plan = parse("http://h/").unwrap();
        assert_eq!((plan.users, plan.keep_alive, plan.stop.time), (1, true, Some(TIME_DEFAULT)));
        assert_eq!(plan.stop.requests, None);
    }

    #[test]
    fn a_number_of_requests_replaces_the_default_time() {
        let plan = parse("http://h/ -n 5 -c 2 --no-keepalive").unwrap();
        assert_eq!((plan.stop.requests, plan.stop.time, plan.keep_alive), (Some(5), None, false));
        let both = parse("http://h/ -n 5 -t 1m").unwrap();
        assert_eq!((both.stop.requests, both.stop.time), (Some(5), Some(Duration::from_secs(60))));
    }

    #[test]
    fn short_names_have_long_ones() {
        let long = parse("http://h/ --requests 5 --users 2 --time 1m --header X:1").unwrap();
        assert_eq!(long, parse("http://h/ -n 5 -c 2 -t 1m -H X:1").unwrap());
    }

    #[test]
    fn methods_and_headers_are_taken_over() {
        let plan = parse("http://h/ --method PURGE -H X-A:1 -H X-B:2 --expect-status 200,404").unwrap();
        assert_eq!(plan.method, Method::from_token(b"PURGE"));
        assert_eq!(plan.headers, [("X-A".into(), "1".into()), ("X-B".into(), "2".into())]);
        assert!(plan.expect.status.contains(404) && !plan.expect.status.contains(201));
    }

    #[test]
    fn servers_are_verified_unless_told_otherwise() {
        let plan = parse("https://h/").unwrap();
        assert!(plan.tls.is_verified && plan.tls.is_resumed && plan.tls.ca_file.is_none());
        assert!(!parse("https://h/ --insecure").unwrap().tls.is_verified);
        let own = parse("https://h/ --ca own.pem --no-resumption").unwrap();
        assert_eq!((own.tls.ca_file.unwrap().to_str(), own.tls.is_resumed), (Some("own.pem"), false));
    }

    #[test]
    fn arguments_of_the_load_shape_are_taken_over() {
        let plan = parse("http://h/ --rate 50 --poisson --in-flight-max 7 --seed 3 --ramp-up 1s").unwrap();
        assert_eq!(plan.arrival, Arrival::Open { rate: Rate::Poisson(50.0), in_flight_max: 7 });
        assert_eq!((plan.seed, plan.ramp), (3, Duration::from_secs(1)));
        let ramp = parse("http://h/ --rate 50 --ramp-to 100 -t 5").unwrap();
        assert!(matches!(ramp.arrival, Arrival::Open { rate: Rate::Ramp { .. }, .. }));
        let staged = parse("http://h/ --stage 100:30s --stage 5/s:30s --cooldown 5s --poisson").unwrap();
        assert_eq!(
            (staged.stages.len(), staged.cooldown, staged.stop.time),
            (2, Duration::from_secs(5), None)
        );
        assert!(matches!(staged.arrival, Arrival::Open { rate: Rate::Poisson(_), .. }));
        let browser =
            parse("http://h/ --no-keepalive --linger 5s --think 1s-3s --source 127.0.0.0/8").unwrap();
        assert_eq!((browser.linger, browser.source.is_some()), (Duration::from_secs(5), true));
        let bound = parse("http://h/ --connections-per-host 6 --connections-per-address 9").unwrap();
        assert_eq!((bound.connections_per_host_max, bound.connections_per_address_max), (Some(6), Some(9)));
    }

    #[test]
    fn arguments_of_the_request_are_taken_over() {
        let plan = parse("http://h/ --form a=1+1 --form b=x&y --cookie s=1 --auth u:p --http 1.0").unwrap();
        let body = plan.body.unwrap();
        assert_eq!(
            (&body.content[..], body.content_type.as_str()),
            (&b"a=1%2B1&b=x%26y"[..], "application/x-www-form-urlencoded")
        );
        assert_eq!(
            (plan.method, plan.http, plan.cookies),
            (Method::Post, Protocol::Http10, vec!["s=1".to_owned()])
        );
        assert_eq!(plan.basic_auth.as_deref(), Some("u:p"));
        assert!(parse("http://h/ --expect-body h.llo").unwrap().expect.body.is_some());
    }

    #[test]
    fn remote_target_is_loaded_carefully_unless_told_otherwise() {
        let careful = |arguments: &str| {
            let command = LoadArgs::augment_args(Command::new("bench").no_binary_name(true));
            let args =
                LoadArgs::from_arg_matches(&command.get_matches_from(arguments.split_whitespace())).unwrap();
            let url = if arguments.contains("loopback") { "http://127.0.0.1/" } else { "http://192.0.2.1/" };
            let mut plan = args.plan(url).unwrap();
            args.agree(&mut plan).unwrap();
            (plan.stop.when_failing, plan.ramp)
        };
        assert_eq!(careful("--yes"), (true, Duration::from_secs(2)));
        assert_eq!(careful("--yes -t 5"), (true, Duration::from_secs(1)));
        assert_eq!(careful("--yes --keep-going --ramp-up 0"), (false, Duration::ZERO));
        assert_eq!(careful("--yes -H X:loopback"), (false, Duration::ZERO));
    }

    #[test]
    fn one_remote_target_makes_the_load_on_all_careful() {
        let command = LoadArgs::augment_args(Command::new("compare").no_binary_name(true));
        let args = LoadArgs::from_arg_matches(&command.get_matches_from(["--yes"])).unwrap();
        let agreed = |urls: [&str; 2]| {
            let mut plans = urls.map(|url| args.plan(url).unwrap());
            args.agree_all(&mut plans).unwrap();
            plans.map(|plan| plan.ramp)
        };
        assert_eq!(agreed(["http://127.0.0.1/", "http://127.0.0.2/"]), [Duration::ZERO; 2]);
        assert_eq!(agreed(["http://127.0.0.1/", "http://192.0.2.1/"]), [Duration::from_secs(2); 2]);
    }

    #[test]
    fn protocols_are_chosen_by_version_number() {
        let plan = parse("https://h/ --http 2 --pipeline 8").unwrap();
        assert_eq!((plan.http, plan.pipeline), (Protocol::H2, 8));
        assert_eq!(parse("http://h/ --http 1.0").unwrap().http, Protocol::Http10);
    }

    #[test]
    fn flags_without_effect_are_refused_with_the_fix() {
        for (line, reason) in [
            ("http://h/ --rate 5 --think 1s", "--think does nothing"),
            ("http://h/ --stage 5/s:1s --think 1s-2s", "--think does nothing"),
            ("http://h/ -c 5 --in-flight-max 7", "--in-flight-max does nothing"),
            ("http://h/ --in-flight-max 10000", "--in-flight-max does nothing"),
            ("http://h/ --stage 5:1s --in-flight-max 7", "--in-flight-max does nothing"),
            ("http://h/ --poisson", "--poisson does nothing"),
            ("http://h/ --rate 5 --ramp-to 9 -t 5 --ramp-up 2s", "--ramp-up does nothing"),
            ("http://h/ --content-type text/plain", "--content-type does nothing"),
            ("http://h/ --stage 5:1s --cooldown 1s", "--cooldown does nothing"),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(reason), "{line:?}: {error}");
        }
        for line in [
            "http://h/ --rate 5 --think 0 --in-flight-max 7",
            "http://h/ --stage 5/s:1s --stage 5:1s --think 1s --in-flight-max 7",
            "http://h/ --think 1s --form a=1 --content-type text/plain",
            "http://h/ --stage 5:1s --stage 5:1s --cooldown 1s",
        ] {
            assert!(parse(line).is_ok(), "{line:?} was refused");
        }
    }

    #[test]
    fn flags_without_effect_on_any_url_are_refused() {
        let refusal = |flags: &str, urls: &[&str]| {
            let command = LoadArgs::augment_args(Command::new("compare").no_binary_name(true));
            let args =
                LoadArgs::from_arg_matches(&command.get_matches_from(flags.split_whitespace())).unwrap();
            let plans: Vec<Plan> = urls.iter().map(|url| args.plan(url).unwrap()).collect();
            args.refuse_idle(&plans).err().map(|error| error.to_string())
        };
        let plain = "http://127.0.0.1/";
        let secure = "https://192.0.2.1/";
        for flags in ["--insecure", "--ca own.pem", "--no-resumption"] {
            let error = refusal(flags, &[plain, plain]).unwrap();
            assert!(error.contains("does nothing here: no URL is https"), "{flags}: {error}");
            assert_eq!(refusal(flags, &[plain, secure]), None, "{flags}");
        }
        let error = refusal("--close rst", &[secure]).unwrap();
        assert!(error.contains("--close rst does nothing here"), "{error}");
        assert_eq!((refusal("--close rst", &[plain]), refusal("--close fin", &[secure])), (None, None));
    }

    #[test]
    fn loads_that_cannot_run_are_refused() {
        for line in [
            "",
            "gopher://h/",
            "https://h/ --insecure --ca file",
            "http://h/ -c 0",
            "http://h/ -n 0",
            "http://h/ -t 0",
            "http://h/ -t soon",
            "http://h/ --expect-status ok",
            "http://h/ -H nonsense",
            "http://h/ --body /nonexistent/file",
            "http://h/ --form a=1 --body Cargo.toml",
            "http://h/ --form a",
            "http://h/ --urls /nonexistent/file",
            "http://h/ --rate 0",
            "http://h/ --rate 5 -c 5",
            "http://h/ --ramp-to 5",
            "http://h/ --rate 5 --ramp-to 9 -n 5",
            "http://h/ --poisson",
            "http://h/ --stage 5:0s",
            "http://h/ --stage 5:1s -t 3",
            "http://h/ --linger 3s",
            "http://h/ --http 3",
            "http://h/ --expect-body (",
            "http://h/ --source localhost",
            "http://h/ --connections-per-host 0",
            "http://h/ --method G/T",
            "http://h/ --pipeline 0",
            "http://h/ --http 3",
        ] {
            assert!(parse(line).is_err(), "{line:?} was accepted");
        }
    }
}
