//! The origins of a soak. The first one serves the pages of the crash test, and further targets.
//! Each fails from time to time.
//!
//! Invariant: the content of a further target depends only on the target ([`octets`]).

use super::health::{FailureLog, SoakFailure};
use super::{SoakState, lock};
use crate::crash::{self, CrashModel, CrashPage};
use crate::{Action, Gate, Origin, Seen, response};
use stats::Random;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The host of the further targets.
pub(super) const SOAK_HOST: &str = "c.test";
/// Number of events in one stream.
pub(super) const EVENTS: usize = 20;
/// Pause before each event.
const EVENT_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two checks of the end of the soak.
const SLICE: Duration = Duration::from_millis(50);
/// Time for which a flapping origin works, and does not work.
const FLAP: Duration = Duration::from_millis(300);
/// Least time before a slow response, its random addition, and the pause before each piece of its
/// content. A first byte comes within `limits.stale_wait`, so the breaker stays closed.
const SLOW_MS: [u64; 3] = [100, 500, 60];
/// Number of pieces of a slow response.
const SLOW_PIECES: usize = 5;
/// Time before the end of the soak in which no failure occurs, so that the edge finds out that its
/// origins work.
const LAST: Duration = Duration::from_secs(10);

/// When an origin fails: the least duration of normal operation and its greatest random addition,
/// and both for failures.
pub(super) struct FailurePace {
    pub(super) well: [Duration; 2],
    pub(super) ill: [Duration; 2],
}

/// A running origin.
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
    Errs,
    Slow,
    Truncates,
    Hangs(Gate),
}

impl SoakOrigin {
    /// Starts an origin. `script` receives a request and a random number.
    pub(super) fn start(
        health: &Arc<FailureLog>,
        seed: u64,
        script: impl Fn(&Seen, u64) -> Vec<Action> + Send + Sync + 'static,
    ) -> Self {
        let failing = Arc::new(Mutex::new(FailureMode::Not));
        let random = Mutex::new(Random::from_seed(seed));
        let known = Arc::clone(health);
        let theirs = Arc::clone(&failing);
        let origin = Origin::start(move |seen| {
            let chance = lock(&random).next_u64();
            let mode = lock(&theirs);
            let actions = match &*mode {
                FailureMode::Errs => failed(chance),
                _ => script(seen, chance),
            };
            let actions = if seen.head.starts_with("HEAD") { head_alone(actions) } else { actions };
            let actions = match &*mode {
                FailureMode::Not | FailureMode::Errs => actions,
                FailureMode::Slow => slow(actions, chance),
                FailureMode::Truncates => truncated(actions),
                FailureMode::Hangs(gate) => [vec![Action::Await(gate.clone())], actions].concat(),
            };
            drop(mode);
            if actions.iter().any(|action| matches!(action, Action::Close)) {
                known.break_off();
            }
            actions
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

    /// Fails once, after a time of normal operation. Returns whether the soak goes on.
    pub(super) fn fail_once(
        &self,
        stage: &SoakState<'_>,
        failure: SoakFailure,
        pace: &FailurePace,
        random: &mut Random,
    ) -> bool {
        let last = stage.plan.length.saturating_sub(LAST);
        let now = self.health.now();
        self.wait(stage, now + span(pace.well, random));
        let now = self.health.now();
        if stage.is_over() || now >= last {
            return false;
        }
        self.fail(failure);
        let until = (now + span(pace.ill, random)).min(last);
        if failure == SoakFailure::Flaps {
            self.flap(stage, until);
        } else {
            self.wait(stage, until);
        }
        self.recover(failure);
        !stage.is_over()
    }

    fn wait(&self, stage: &SoakState<'_>, until: Duration) {
        while self.health.now() < until && !stage.is_over() {
            std::thread::sleep(SLICE);
        }
    }

    /// Refuses connections and accepts them in turns.
    fn flap(&self, stage: &SoakState<'_>, until: Duration) {
        while self.health.now() < until && !stage.is_over() {
            self.kill();
            std::thread::sleep(FLAP);
            self.origin.revive();
            std::thread::sleep(FLAP);
        }
    }

    fn fail(&self, failure: SoakFailure) {
        self.health.fail(failure);
        *lock(&self.failing) = match failure {
            SoakFailure::Refuses | SoakFailure::Flaps => FailureMode::Not,
            SoakFailure::Hangs => FailureMode::Hangs(Gate::default()),
            SoakFailure::Errs => FailureMode::Errs,
            SoakFailure::Slow => FailureMode::Slow,
            SoakFailure::Truncates => FailureMode::Truncates,
        };
        if failure == SoakFailure::Refuses {
            self.kill();
        }
    }

    fn kill(&self) {
        self.health.end_connections();
        self.origin.kill();
    }

    fn recover(&self, failure: SoakFailure) {
        if let FailureMode::Hangs(gate) = std::mem::take(&mut *lock(&self.failing)) {
            gate.open();
        }
        if failure == SoakFailure::Refuses {
            self.origin.revive();
        }
        self.health.recover();
    }
}

/// A random duration between the first one, and the sum of both.
fn span([least, more]: [Duration; 2], random: &mut Random) -> Duration {
    least + more.mul_f64(random.below(1000) as f64 / 1000.0)
}

/// A response of an origin that fails.
fn failed(chance: u64) -> Vec<Action> {
    let status = match chance % 4 {
        0 => "502 Bad Gateway",
        1 => "503 Service Unavailable",
        2 => "504 Gateway Timeout",
        _ => "500 Internal Server Error",
    };
    response(status, &["Cache-Control: no-store"], b"ill")
}

/// The same response, late and in pieces.
fn slow(actions: Vec<Action>, chance: u64) -> Vec<Action> {
    let [least, more, pause] = SLOW_MS;
    let mut late = vec![Action::Pause(Duration::from_millis(least + chance % more))];
    for action in actions {
        let Action::Send(octets) = action else {
            late.push(action);
            continue;
        };
        for piece in octets.chunks(octets.len() / SLOW_PIECES + 1) {
            late.push(Action::Send(piece.to_vec()));
            late.push(Action::Pause(Duration::from_millis(pause)));
        }
    }
    late
}

/// The same response without its end. One without content stays whole.
fn truncated(mut actions: Vec<Action>) -> Vec<Action> {
    let [Action::Send(octets)] = &mut actions[..] else {
        actions.truncate(actions.len() / 2);
        actions.push(Action::Close);
        return actions;
    };
    let head = octets.windows(4).position(|octets| octets == b"\r\n\r\n").map_or(octets.len(), |at| at + 4);
    let content = octets.len() - head;
    if content > 0 {
        octets.truncate(head + content / 2);
        actions.push(Action::Close);
    }
    actions
}

/// The response of the first origin.
pub(super) fn answer(model: &CrashModel, seen: &Seen, chance: u64) -> Vec<Action> {
    let target = seen.target();
    let kind = target.split('/').nth(1).unwrap_or("");
    match kind {
        "upload" => {
            let content = content_of(seen);
            response("200 OK", &["Cache-Control: no-store"], receipt(&content).as_bytes())
        }
        "tunnel" => tunnel(seen),
        "missing" => response("404 Not Found", &["Cache-Control: max-age=5"], &octets(target)),
        "moved" => {
            response("301 Moved Permanently", &[&format!("Location: /plain{target}")], &octets(target))
        }
        "moving" => {
            response("200 OK", &["Cache-Control: max-age=1, stale-while-revalidate=5"], &octets(target))
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
pub(super) const LARGE_ETAG: &str = "\"large\"";

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

/// The content of a request, without chunked coding.
fn content_of(seen: &Seen) -> Vec<u8> {
    if seen.field("Transfer-Encoding").is_none() {
        return seen.body.clone();
    }
    let mut content = Vec::new();
    let mut rest = &seen.body[..];
    while let Some(end) = rest.windows(2).position(|octets| octets == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap().split(';').next().unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        content.extend_from_slice(&rest[end + 2..][..size]);
        rest = &rest[end + 2 + size + 2..];
    }
    content
}

/// The bytes that the origin sends through a tunnel.
pub(super) const TUNNEL_GREETING: &[u8] = b"through the tunnel\n";

/// Agrees to the protocol that a client asks for, sends a greeting, and ends the tunnel.
fn tunnel(seen: &Seen) -> Vec<Action> {
    if seen.field("Upgrade").is_none() {
        return response("426 Upgrade Required", &["Cache-Control: no-store"], b"");
    }
    let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: greeting\r\n\r\n";
    vec![Action::Send(head.to_vec()), Action::Send(TUNNEL_GREETING.to_vec()), Action::Close]
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
