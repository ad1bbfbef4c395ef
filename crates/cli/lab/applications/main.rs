//! Applications that start a session for every visitor, visited in Chromium through Petasos. The
//! test measures the share of hits among the requests that pages cause, and checks that no content
//! of one visitor reaches another.
//!
//! Needs the applications' lab (`cargo xtask lab applications up`) and Debian's package chromium.
//! `PETASOS_BEFORE` names another build of Petasos, which is visited first. The first visitor of an
//! application views 50 pages, each with an empty browser cache, because the browser would
//! otherwise serve most files itself. Each later visitor views ten pages.
//!
//! Invariant: the table counts every GET that reached Petasos during the first visitor's views,
//! whatever its result.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the figures are a result of the test")]

mod application;
#[path = "../wordpress/chromium.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;
#[allow(dead_code, reason = "each set of tests uses its part")]
mod network;
mod visitor;

use application::{APPLICATIONS, Application};
use chromium::Chromium;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use testkit::Edge;
use visitor::{ApplicationVisitor, nothing_is_shared};

/// Number of times that the first visitor views the application's pages.
const ROUNDS: usize = 5;

/// Reads the lab's variables.
fn lab() -> toml::Table {
    let default = || format!("{}/../../target/labs/applications", env!("CARGO_MANIFEST_DIR"));
    let directory = std::env::var("PETASOS_LAB").unwrap_or_else(|_| default());
    let text = std::fs::read_to_string(format!("{directory}/lab.toml"));
    text.unwrap_or_else(|_| panic!("run `cargo xtask lab applications up` first")).parse().unwrap()
}

/// Requests of one kind, the hits among them, and the reasons of the others.
#[derive(Default)]
struct RequestCounts {
    requests: usize,
    hits: usize,
    others: BTreeMap<String, usize>,
}

impl RequestCounts {
    fn count(&mut self, status: &str) {
        self.requests += 1;
        if status.starts_with("Petasos; hit") {
            self.hits += 1;
        } else {
            let reason = status.split_once("detail=").map_or(status, |(_, detail)| detail);
            *self.others.entry(reason.to_owned()).or_default() += 1;
        }
    }

    fn ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }
}

impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut others: Vec<_> = self.others.iter().collect();
        others.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let others: Vec<_> = others.iter().map(|(reason, count)| format!("{count} `{reason}`")).collect();
        let others = others.join(", ");
        write!(f, "{} | {} | {:.0}% | {others}", self.requests, self.hits, 100.0 * self.ratio())
    }
}

/// Visits an application behind one build of Petasos with all its visitors. Returns the hit ratio
/// of the first visitor's files.
fn visit(application: &Application, lab: &toml::Table, before: Option<&PathBuf>, arguments: &[&str]) -> f64 {
    let value = |name: &str| lab[name].as_str().unwrap();
    let origin = format!("http://{}", value(application.address));
    let edge = Edge::of_build(before.map(PathBuf::as_path), &origin, arguments);
    let host = value("host");
    let mut browser = Chromium::start(host, edge.address);
    let mut visitors = Vec::new();
    for (number, user) in application.visitors.iter().enumerate() {
        let mut visitor = ApplicationVisitor::new(&mut browser, application, host, *user);
        visitor.log_in(&mut browser, value("user_password"));
        for _ in 0..if number == 0 { ROUNDS } else { 1 } {
            application.pages.iter().for_each(|page| visitor.view(&mut browser, page));
        }
        visitors.push(visitor);
    }
    let mut pages = RequestCounts::default();
    let mut files = RequestCounts::default();
    for received in visitors[0].viewed() {
        let tally = if received.is_page { &mut pages } else { &mut files };
        tally.count(received.field("Cache-Status").unwrap_or("no Cache-Status"));
    }
    let build = if before.is_some() { "before" } else { "after" };
    let name = application.name;
    println!("| {name} | {build} {} | pages | {pages} |", arguments.join(" "));
    println!("| {name} | {build} {} | files | {files} |", arguments.join(" "));
    nothing_is_shared(name, &visitors);
    files.ratio()
}

#[test]
fn files_are_hits_and_sessions_stay_apart() {
    let lab = lab();
    let before = std::env::var_os("PETASOS_BEFORE").map(PathBuf::from);
    println!(
        "| application | Petasos | of | requests | hits | ratio | the others |\n|---|---|---|---|---|---|---|"
    );
    let mut poor = Vec::new();
    for application in APPLICATIONS {
        if before.is_some() {
            visit(application, &lab, before.as_ref(), &[]);
        }
        for (arguments, hits_min) in application.promises {
            let ratio = visit(application, &lab, None, arguments);
            if ratio < *hits_min {
                poor.push(format!("{} {arguments:?}: {ratio:.3} of {hits_min}", application.name));
            }
        }
    }
    assert!(poor.is_empty(), "too few files are hits: {}", poor.join("; "));
}
