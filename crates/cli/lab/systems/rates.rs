//! The hit ratio of an ordinary site's traffic at the request rates of ordinary sites, on the
//! WordPress lab.
//!
//! Four edges, each with an empty store and configured only with the origin's address, have the
//! same WordPress as origin. Each receives the traffic of `testkit::traffic` at its own rate,
//! evenly spaced, from its own seed. The front page and the newest post are the most popular URLs.
//! An editor changes the title of the newest post. Without the plugin, the change is made through
//! each edge, because an edge only knows the writes that pass through it. With the plugin, it is
//! made through one edge, because WordPress purges all four.
//!
//! `PETASOS_RATES` is the length of each of the six rounds in minutes; the visitors then come in
//! real time. Without it, the test uses a part of the site and twelve seconds of its time, as fast
//! as the responses come. `PETASOS_RATES_FILE` names the file that keeps the rounds; a round is
//! skipped if the file has one of at least this length. `PETASOS_RATES_PLUGIN`, `on` or `off`,
//! restricts the rounds to one kind.
//!
//! Invariant: after a save, no page that shows the saved post is older than docs/hit-ratio.md
//! promises.

use super::crawl::crawl;
use super::site::{Editor, HOST, WordPressLab};
use super::visitor::{LabVariables, is_hit};
use clock::{Clock as _, Monotonic};
use platform::SystemClock;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use testkit::rates::{EdgeFigures, RATES, RateRound, Rounds, SAVES_EVERY_SECS};
use testkit::traffic::{RequestSequence, SequenceRequest};
use testkit::{Client, Edge, Response};

/// Seed for the order of the pages.
const SEED: u64 = 0x5eed_0213;
/// Text before the number of the save in the title of the saved post.
const MARK: &str = "Save number ";
/// Longest time in seconds that a page of another post may be outdated after a save, without the
/// plugin. It is the lifetime of WordPress pages plus the time for which they are served stale
/// during a refresh.
const OLD_SECS_MAX: u64 = 300 + 60;

/// Size and speed of the measurement.
struct MeasurementSize {
    secs: u64,
    is_paced: bool,
    urls_max: usize,
    plugin: Vec<bool>,
    saves_every_secs: Vec<u64>,
}

impl MeasurementSize {
    fn chosen() -> Self {
        let plugin = match std::env::var("PETASOS_RATES_PLUGIN").as_deref() {
            Ok("on") => vec![true],
            Ok("off") => vec![false],
            Ok(other) => panic!("PETASOS_RATES_PLUGIN is `{other}`: it is `on` or `off`, or not set"),
            Err(_) => vec![false, true],
        };
        let Ok(minutes) = std::env::var("PETASOS_RATES") else {
            return Self { secs: 12, is_paced: false, urls_max: 30, plugin, saves_every_secs: vec![5] };
        };
        let minutes: u64 =
            minutes.parse().unwrap_or_else(|_| panic!("PETASOS_RATES is no number of minutes"));
        let saves_every_secs = SAVES_EVERY_SECS.to_vec();
        Self { secs: 60 * minutes, is_paced: true, urls_max: usize::MAX, plugin, saves_every_secs }
    }
}

#[test]
fn wordpress() {
    let lab = LabVariables::find("wordpress");
    let extent = MeasurementSize::chosen();
    let site = WordPressLab::with("");
    let (post, number) = site.first("posts");
    let found = crawl(lab.address("nginx_opcode"), HOST, "/", &[], extent.urls_max);
    println!("{} URLs", found.len());
    let measured = MeasuredSite {
        site,
        pages: by_popularity(found, &post),
        post,
        number,
        extent,
        clock: SystemClock::new(),
    };
    let file = std::env::var_os("PETASOS_RATES_FILE").map(PathBuf::from);
    let mut broken = Vec::new();
    for has_plugin in &measured.extent.plugin {
        for save_every_secs in &measured.extent.saves_every_secs {
            let secs = measured.extent.secs;
            let is_kept = |path| Rounds::read(path).unwrap().has(*has_plugin, *save_every_secs, secs);
            if file.as_deref().is_some_and(is_kept) {
                continue;
            }
            let round = measured.round(*has_plugin, *save_every_secs, &mut broken);
            show(&round);
            if let Some(path) = &file {
                let mut rounds = Rounds::read(path).unwrap();
                rounds.keep(round);
                rounds.write(path).unwrap();
            }
        }
    }
    assert!(broken.is_empty(), "{} answers break the promise:\n{}", broken.len(), broken.join("\n"));
}

/// The pages by popularity: the front page, the edited post, then all others in an order drawn from
/// the seed.
fn by_popularity(found: Vec<String>, post: &str) -> Vec<String> {
    let drawn = RequestSequence::shuffled(SEED, found);
    let others = drawn.pages().iter().filter(|page| *page != "/" && *page != post);
    ["/", post].into_iter().map(str::to_owned).chain(others.cloned()).collect()
}

fn show(round: &RateRound) {
    let plugin = if round.has_plugin { "with" } else { "without" };
    println!("{plugin} the plugin, a save every {} s, {} s", round.save_every_secs, round.took_secs);
    for edge in &round.edges {
        let percent = |count: u64| 100.0 * count as f64 / edge.requests() as f64;
        println!(
            "  {:>4} a second: {} of {} hits ({:.1}%), {} of them stale; bound {:.1}%; {:?}",
            edge.rate,
            edge.hits(),
            edge.requests(),
            percent(edge.hits()),
            edge.stale(),
            percent(edge.requests() - edge.first),
            edge.reasons
        );
        println!(
            "        {} saves; {} of {} answers older than promised; {} others were old, for {} s at most",
            edge.saves, edge.broken, edge.must_be_new, edge.old, edge.old_secs_max
        );
    }
}

/// The site and the parameters of the measurement.
struct MeasuredSite {
    site: WordPressLab,
    /// Targets of the pages, the most popular first.
    pages: Vec<String>,
    /// Target and number of the edited post.
    post: String,
    number: u64,
    extent: MeasurementSize,
    clock: SystemClock,
}

/// A completed save.
#[derive(Clone, Copy)]
struct Save {
    number: u64,
    at: Monotonic,
}

/// The editor of one edge, as its visitors know it.
struct EdgeEditor<'a> {
    /// Logged in through this edge. `None` if the editor of another edge saves for all.
    editor: Option<Editor>,
    /// Number of the last save through any edge. The lock is held during a save, so that the
    /// numbers in titles only grow.
    last: &'a Mutex<u64>,
    /// The saves that passed this edge or that it was purged for, the oldest first.
    saves: &'a Mutex<Vec<Save>>,
}

impl MeasuredSite {
    fn round(&self, has_plugin: bool, save_every_secs: u64, broken: &mut Vec<String>) -> RateRound {
        self.site.layers("");
        self.site.empty();
        let last = Mutex::new(0);
        self.save(&self.site.administrator(), 0);
        let origin = format!("http://{}", self.site.origin);
        let edges: Vec<Edge> = RATES.iter().map(|_| Edge::start(&origin, &[])).collect();
        if has_plugin {
            let addresses: Vec<_> = edges.iter().map(|edge| edge.address.to_string()).collect();
            self.site.layers(&format!("plugin=on&edge={}", addresses.join(",")));
        }
        let lists: Vec<_> = edges.iter().map(|_| Mutex::new(Vec::new())).collect();
        // One login after the other: WordPress loses sessions of a user who logs in twice at the
        // same time.
        let mut visitors = Vec::new();
        for (place, edge) in edges.iter().enumerate() {
            let saves_here = save_every_secs > 0 && (place == 0 || !has_plugin);
            let log_in = || Editor::log_in(edge.address, "admin", self.site.password());
            let saves = &lists[if has_plugin { 0 } else { place }];
            let edge_editor = EdgeEditor { editor: saves_here.then(log_in), last: &last, saves };
            visitors.push(EdgeVisitors::new(self, edge, edge_editor, RATES[place], has_plugin));
        }
        let begun = self.clock.monotonic();
        let mut figures = Vec::new();
        std::thread::scope(|scope| {
            let mut visits = Vec::new();
            for (place, visitors) in visitors.into_iter().enumerate() {
                let traffic = RequestSequence::new(SEED + 1 + place as u64, self.pages.clone());
                visits.push(scope.spawn(move || visitors.come(traffic, save_every_secs)));
            }
            for visits in visits {
                let (edge, texts) = visits.join().unwrap();
                broken.extend(texts);
                figures.push(edge);
            }
        });
        let urls = self.pages.len() as u64;
        let took_secs = self.clock.monotonic().since(begun).as_secs();
        let secs = self.extent.secs;
        let remark = String::new();
        RateRound { has_plugin, save_every_secs, secs, took_secs, remark, urls, edges: figures }
    }

    fn save(&self, editor: &Editor, number: u64) {
        editor.change(&format!("posts/{}", self.number), &json!({"title": format!("{MARK}{number}.")}));
    }
}

/// The visitors of one edge.
struct EdgeVisitors<'a> {
    measured: &'a MeasuredSite,
    edge: &'a Edge,
    edge_editor: EdgeEditor<'a>,
    has_plugin: bool,
    rate: f64,
    tally: Mutex<RequestResults>,
}

/// Results of the requests so far.
#[derive(Default)]
struct RequestResults {
    figures: EdgeFigures,
    visited: BTreeSet<usize>,
    /// Descriptions of responses that break the promise.
    broken: Vec<String>,
}

impl<'a> EdgeVisitors<'a> {
    fn new(
        measured: &'a MeasuredSite,
        edge: &'a Edge,
        edge_editor: EdgeEditor<'a>,
        rate: f64,
        has_plugin: bool,
    ) -> Self {
        let figures = EdgeFigures { rate, ..EdgeFigures::default() };
        let tally = Mutex::new(RequestResults { figures, ..RequestResults::default() });
        Self { measured, edge, edge_editor, has_plugin, rate, tally }
    }

    /// Sends all requests of the round and saves when a save is due. In real time, no request waits
    /// for a response, so a slow origin delays none.
    fn come(self, mut traffic: RequestSequence, save_every_secs: u64) -> (EdgeFigures, Vec<String>) {
        let begun = self.measured.clock.monotonic();
        let requests = (self.measured.extent.secs as f64 * self.rate) as u64;
        let mut saved = 0;
        let visitors = &self;
        let is_paced = self.measured.extent.is_paced;
        std::thread::scope(|scope| {
            for count in 0..requests {
                let due = count as f64 / visitors.rate;
                if is_paced {
                    let passed = visitors.measured.clock.monotonic().since(begun);
                    std::thread::sleep(Duration::from_secs_f64(due).saturating_sub(passed));
                }
                if save_every_secs > 0 && due as u64 / save_every_secs > saved {
                    saved += 1;
                    if is_paced {
                        scope.spawn(|| visitors.save());
                    } else {
                        visitors.save();
                    }
                }
                let visit = traffic.visit();
                if is_paced {
                    scope.spawn(move || visitors.visit(&visit));
                } else {
                    visitors.visit(&visit);
                }
            }
        });
        let RequestResults { mut figures, broken, .. } = self.tally.into_inner().unwrap();
        figures.saves = self.edge_editor.saves.lock().unwrap().len() as u64;
        (figures, broken)
    }

    /// Saves the post through this edge, if this edge has an editor.
    fn save(&self) {
        let Some(editor) = &self.edge_editor.editor else { return };
        let mut last = self.edge_editor.last.lock().unwrap();
        *last += 1;
        self.measured.save(editor, *last);
        self.edge_editor
            .saves
            .lock()
            .unwrap()
            .push(Save { number: *last, at: self.measured.clock.monotonic() });
    }

    /// Sends one request and counts its result.
    fn visit(&self, visit: &SequenceRequest) {
        let is_first = self.tally.lock().unwrap().visited.insert(visit.page);
        let saves = self.edge_editor.saves.lock().unwrap().clone();
        let answer = ask(self.edge, visit);
        let status = answer.field("Cache-Status").unwrap_or_default();
        let reason = status.split("detail=").nth(1).unwrap_or(status).split(';').next().unwrap_or(status);
        let is_meant = testkit::rates::is_hit(reason) == is_hit(&answer);
        assert!(is_meant && answer.complete, "{}: {}", visit.target, answer.head);
        let mut tally = self.tally.lock().unwrap();
        *tally.figures.reasons.entry(reason.to_owned()).or_default() += 1;
        tally.figures.first += u64::from(is_first);
        self.judge(&mut tally, visit, &answer, &saves);
    }

    /// Compares the save that the response shows with the saves that were complete before the
    /// request was sent.
    fn judge(&self, tally: &mut RequestResults, visit: &SequenceRequest, answer: &Response, saves: &[Save]) {
        let Some(shown) = shown(&answer.body) else { return };
        let page = &self.measured.pages[visit.page];
        let older_than = saves.iter().find(|save| save.number > shown);
        let is_other_post = page != &self.measured.post && answer.head.contains("rel=shortlink");
        // WordPress validates feeds of comments by the date of the last comment, so a 304 may
        // confirm an old title in them.
        let is_confirmed = page.contains("comments/feed") || page.ends_with("/feed/") && page != "/feed/";
        let must_be_new = !is_confirmed && (self.has_plugin || !is_other_post);
        let figures = &mut tally.figures;
        figures.must_be_new += u64::from(must_be_new);
        let Some(save) = older_than else { return };
        let secs = self.measured.clock.monotonic().since(save.at).as_secs();
        if must_be_new || secs > OLD_SECS_MAX && self.measured.extent.is_paced {
            figures.broken += 1;
            let number = save.number;
            let head = &answer.head;
            tally.broken.push(format!("{page} shows save {shown}, save {number} is {secs} s old: {head}"));
        } else {
            figures.old += 1;
            figures.old_secs_max = figures.old_secs_max.max(secs);
        }
    }
}

/// The number of the oldest save that a page shows.
fn shown(body: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(body);
    let numbers = text.split(MARK).skip(1).filter_map(|rest| rest.split('.').next()?.parse().ok());
    numbers.min()
}

/// Sends a visitor's request on a new connection.
fn ask(edge: &Edge, visit: &SequenceRequest) -> Response {
    let lines: String = visit.fields.iter().map(|field| format!("{field}\r\n")).collect();
    let mut client = Client::connect(edge.address);
    client.send(format!("GET {} HTTP/1.1\r\nHost: {HOST}\r\n{lines}Connection: close\r\n\r\n", visit.target));
    client.read()
}
