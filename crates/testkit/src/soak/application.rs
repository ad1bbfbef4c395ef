//! The origin of a soak. It serves the pages of the crash test, and further targets. It fails from
//! time to time.
//!
//! Invariant: the content of a further target depends only on the target ([`octets`]).

use super::health::{FailureLog, SoakFailure};
use super::{SoakState, lock};
use crate::crash::{self, CrashModel, CrashPage};
use crate::{Action, Gate, Origin, Seen, response};
use stats::Random;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of events in one stream.
pub(super) const EVENTS: usize = 20;
/// Pause before each event.
const EVENT_PAUSE: Duration = Duration::from_millis(100);
/// Least duration of normal operation, and the greatest random addition.
const WELL: [Duration; 2] = [Duration::from_secs(14), Duration::from_secs(20)];
/// Least duration of a failure, and the greatest random addition.
const ILL: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// Pause between two checks of the end of the soak.
const SLICE: Duration = Duration::from_millis(50);

/// The running origin.
pub(super) struct SoakOrigin {
    origin: Origin,
    failing: Arc<Mutex<FailureMode>>,
    health: Arc<FailureLog>,
}

/// The current failure.
#[derive(Default)]
enum FailureMode {
    #[default]
    Not,
    Refuses,
    Errs,
    Hangs(Gate),
}

impl SoakOrigin {
    pub(super) fn start(model: &Arc<CrashModel>, health: &Arc<FailureLog>, seed: u64) -> Self {
        let failing = Arc::new(Mutex::new(FailureMode::Not));
        let random = Mutex::new(Random::from_seed(seed));
        let model = Arc::clone(model);
        let known = Arc::clone(health);
        let theirs = Arc::clone(&failing);
        let origin = Origin::start(move |seen| {
            let chance = lock(&random).next_u64();
            let is_head = seen.head.starts_with("HEAD");
            let (first, actions) = match &*lock(&theirs) {
                FailureMode::Not | FailureMode::Refuses => (None, answer(&model, seen, chance)),
                FailureMode::Errs => {
                    (None, response("500 Internal Server Error", &["Cache-Control: no-store"], b"ill"))
                }
                FailureMode::Hangs(gate) => (Some(Action::Await(gate.clone())), answer(&model, seen, chance)),
            };
            let actions = if is_head { head_alone(actions) } else { actions };
            if actions.iter().any(|action| matches!(action, Action::Close)) {
                known.break_off();
            }
            first.into_iter().chain(actions).collect()
        });
        Self { origin, failing, health: Arc::clone(health) }
    }

    pub(super) fn url(&self) -> String {
        self.origin.url()
    }

    /// Clears the record of requests, whose contents would fill the memory.
    pub(super) fn forget(&self) {
        self.origin.forget();
    }

    /// Fails from time to time, until the end.
    pub(super) fn trouble(&self, stage: &SoakState<'_>, mut random: Random) {
        let failures = [SoakFailure::Refuses, SoakFailure::Hangs, SoakFailure::Errs];
        for failure in failures.into_iter().cycle() {
            self.wait(stage, WELL, &mut random);
            if stage.is_over() {
                return;
            }
            self.fail(failure);
            self.wait(stage, ILL, &mut random);
            self.recover();
        }
    }

    fn wait(&self, stage: &SoakState<'_>, [least, more]: [Duration; 2], random: &mut Random) {
        let until = self.health.now() + least + more.mul_f64(random.below(1000) as f64 / 1000.0);
        while self.health.now() < until && !stage.is_over() {
            std::thread::sleep(SLICE);
        }
    }

    fn fail(&self, failure: SoakFailure) {
        self.health.fail(failure);
        *lock(&self.failing) = match failure {
            SoakFailure::Refuses => FailureMode::Refuses,
            SoakFailure::Hangs => FailureMode::Hangs(Gate::default()),
            SoakFailure::Errs => FailureMode::Errs,
        };
        if failure == SoakFailure::Refuses {
            self.origin.kill();
        }
    }

    fn recover(&self) {
        match std::mem::take(&mut *lock(&self.failing)) {
            FailureMode::Refuses => self.origin.revive(),
            FailureMode::Hangs(gate) => gate.open(),
            FailureMode::Errs | FailureMode::Not => {}
        }
        self.health.recover();
    }
}

fn answer(model: &CrashModel, seen: &Seen, chance: u64) -> Vec<Action> {
    let target = seen.target();
    let kind = target.split('/').nth(1).unwrap_or("");
    match kind {
        "upload" => response("200 OK", &["Cache-Control: no-store"], receipt(&seen.body).as_bytes()),
        "missing" => response("404 Not Found", &["Cache-Control: max-age=5"], &octets(target)),
        "moved" => {
            response("301 Moved Permanently", &[&format!("Location: /plain{target}")], &octets(target))
        }
        "private" => response("200 OK", &["Cache-Control: private"], &octets(target)),
        "plain" => {
            response("200 OK", &["Cache-Control: max-age=30", "Surrogate-Key: plain"], &octets(target))
        }
        "large" if seen.field("If-None-Match") == Some(LARGE_ETAG) => {
            let head = format!(
                "HTTP/1.1 304 Not Modified\r\nETag: {LARGE_ETAG}\r\nCache-Control: max-age=3\r\n\r\n"
            );
            vec![Action::Send(head.into_bytes())]
        }
        "large" => {
            let etag = format!("ETag: {LARGE_ETAG}");
            response("200 OK", &["Cache-Control: max-age=3", &etag, "Surrogate-Key: large"], &octets(target))
        }
        "events" => events(),
        _ => page(model, seen, chance),
    }
}

/// The response to a HEAD: the first bytes that would be sent, up to the end of the head.
fn head_alone(actions: Vec<Action>) -> Vec<Action> {
    let sent = actions.into_iter().find_map(|action| match action {
        Action::Send(octets) => Some(octets),
        _ => None,
    });
    let mut head = sent.unwrap_or_default();
    let end = head.windows(4).position(|octets| octets == b"\r\n\r\n").map_or(head.len(), |at| at + 4);
    head.truncate(end);
    vec![Action::Send(head)]
}

/// The entity tag of all large responses. They never change.
const LARGE_ETAG: &str = "\"large\"";

fn page(model: &CrashModel, seen: &Seen, chance: u64) -> Vec<Action> {
    let Some(page) = CrashPage::find(seen.field("Host").unwrap_or(""), seen.target()) else {
        return response("404 Not Found", &[], b"no such page");
    };
    if seen.head.starts_with("POST") {
        return response("200 OK", &["Cache-Control: no-store"], b"changed");
    }
    // Some pages expire during the soak, so that they are revalidated.
    let max_age = if page.number() % 4 == 3 { 2 } else { 86_400 };
    crash::answer(model, page, seen, max_age, chance)
}

/// An event stream, with a pause before each event.
fn events() -> Vec<Action> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let mut actions = vec![Action::Send(head.as_bytes().to_vec())];
    for number in 0..EVENTS {
        let event = event(number);
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        actions.extend([Action::Pause(EVENT_PAUSE), Action::Send(chunk.into_bytes())]);
    }
    actions.push(Action::Send(b"0\r\n\r\n".to_vec()));
    actions
}

/// One event of a stream, as text.
pub(super) fn event(number: usize) -> String {
    format!("data: {number}\n\n")
}

/// The origin's description of content that it received, which the uploading client checks.
pub(super) fn receipt(content: &[u8]) -> String {
    let sum = content.iter().fold(0_u64, |sum, octet| sum.wrapping_mul(31).wrapping_add(u64::from(*octet)));
    format!("{} bytes, sum {sum}\n", content.len())
}

/// The content of a further target `/KIND/NUMBER`. It is longer for `large`.
pub(super) fn octets(target: &str) -> Vec<u8> {
    let seed = target.bytes().fold(7_u64, |seed, octet| seed.wrapping_mul(31).wrapping_add(u64::from(octet)));
    let mut random = Random::from_seed(seed);
    let bytes = if target.starts_with("/large/") {
        1_500_000 + random.below(2_500_000)
    } else {
        1_000 + random.below(60_000)
    };
    let mut octets = format!("{target}\n").into_bytes();
    // Random bytes, repeated. Their length is odd, so that a misplaced piece differs from the
    // expected one.
    while octets.len() < bytes.min(65_521) {
        octets.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    octets.truncate(65_521);
    let mut octets = octets.repeat(bytes.div_ceil(octets.len()));
    octets.truncate(bytes);
    octets
}
