//! The crash test: runs of the real binary with a disk that end at random moments.
//!
//! A *life* is one run of the edge. Each life starts on the disk that the lives before it left,
//! under requests and purges, until it is killed. Then every response of the next life is compared
//! with a model.
//!
//! These must hold:
//!
//! - No response is torn, belongs to another page, or is older than an answered purge of its page.
//! - A response that the edge reported as durable is served without a request to the origin, unless
//!   the page was changed since.
//!
//! The seed determines the requests, the purges and the moment of each end. It does not determine
//! the scheduling of threads and processes.

mod life;
mod load;
mod model;
mod pages;

use crate::{Action, Origin, Seen, response};
use stats::Random;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use load::Purge;
pub(crate) use model::{CrashModel, ModelSnapshot, ResponseKind};
pub(crate) use pages::{CrashPage, LANGUAGES, NO_LANGUAGE};

/// The lifetime of pages, in seconds. It exceeds the duration of the test.
const MAX_AGE_S: u32 = 86_400;

/// Number of lives that share one directory.
const LIVES_PER_DIRECTORY: u32 = 4;

/// Counters of the test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashCounts {
    /// Lives that ended.
    pub lives: u32,
    /// Requests that were sent.
    pub requests: u64,
    /// Responses from the store, without a request to the origin.
    pub hits: u64,
    /// Responses with a status of 500 or more.
    pub refused: u64,
    /// Truncated responses.
    pub cut: u64,
    /// Requests without a response.
    pub unanswered: u64,
    /// Answered purges.
    pub purges: u64,
    /// Responses that had to survive a restart, and did.
    pub kept: u64,
    /// Other responses that survived a restart.
    pub found: u64,
    /// Responses that the edge evicted from the disk.
    pub evicted: u64,
    /// Longest time, in milliseconds, from observing an accepted number in `/status` to observing
    /// it as durable.
    pub lag_ms_max: u64,
}

/// Runs `lives` lives, and calls `progress` after each.
///
/// # Errors
/// The first violation, with the history of the page.
pub fn run(seed: u64, lives: u32, progress: &mut dyn FnMut(&CrashCounts)) -> Result<CrashCounts, String> {
    let mut tally = CrashCounts::default();
    let mut seed = seed;
    while tally.lives < lives {
        let count = LIVES_PER_DIRECTORY.min(lives - tally.lives);
        let told = series(seed, count, &mut tally, progress);
        told.map_err(|problem| format!("seed {seed}, {tally}: {problem}"))?;
        seed += 1;
    }
    Ok(tally)
}

/// Runs the lives of one directory.
fn series(
    seed: u64,
    count: u32,
    tally: &mut CrashCounts,
    progress: &mut dyn FnMut(&CrashCounts),
) -> Result<(), String> {
    let mut random = Random::from_seed(seed);
    let model = Arc::new(CrashModel::new());
    let origin = application(Arc::clone(&model), random.next_u64());
    let mut family = life::Family::new(&model, &origin, seed);
    for life in 0..count {
        let lived = family.live(&mut random);
        let lived = lived.map_err(|problem| format!("life {life} in {}: {problem}", family.keep()))?;
        tally.add(&lived);
        progress(tally);
    }
    Ok(())
}

/// Starts the origin. Some of its large responses are slow, and some are truncated.
fn application(model: Arc<CrashModel>, seed: u64) -> Origin {
    let random = Mutex::new(Random::from_seed(seed));
    Origin::start(move |seen| {
        let Some(page) = CrashPage::find(seen.field("Host").unwrap_or(""), seen.target()) else {
            return response("404 Not Found", &[], b"no such page");
        };
        if seen.head.starts_with("POST") {
            return response("200 OK", &["Cache-Control: no-store"], b"changed");
        }
        answer(&model, page, seen, MAX_AGE_S, lock(&random).next_u64())
    })
}

/// The origin's response to a request for a page. `chance` decides framing, pauses and truncation.
pub(crate) fn answer(
    model: &CrashModel,
    page: CrashPage,
    seen: &Seen,
    max_age_s: u32,
    chance: u64,
) -> Vec<Action> {
    let asked = seen.field("Accept-Language").unwrap_or("");
    let language = LANGUAGES.iter().position(|language| page.has_languages() && *language == asked);
    let content = model.fetch(page, language.unwrap_or(NO_LANGUAGE));
    let fields = content.fields(max_age_s).join("\r\n");
    if seen.field("If-None-Match") == Some(&content.etag()) {
        return vec![Action::Send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n").into_bytes())];
    }
    let octets = content.octets();
    if octets.len() < 50_000 {
        return response("200 OK", &[&fields], &octets);
    }
    let is_chunked = chance.is_multiple_of(2);
    let framing = if is_chunked {
        "Transfer-Encoding: chunked".to_owned()
    } else {
        format!("Content-Length: {}", octets.len())
    };
    let mut actions =
        vec![Action::Send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{framing}\r\n\r\n").into_bytes())];
    for piece in octets.chunks(octets.len() / 4 + 1) {
        let size = if is_chunked { format!("{:x}\r\n", piece.len()) } else { String::new() };
        let end: &[u8] = if is_chunked { b"\r\n" } else { b"" };
        actions.push(Action::Send([size.as_bytes(), piece, end].concat()));
        actions.push(Action::Pause(Duration::from_millis(chance / 2 % 4)));
    }
    if (chance / 8).is_multiple_of(20) {
        actions.truncate(actions.len() / 2);
        actions.push(Action::Close);
    } else if is_chunked {
        actions.push(Action::Send(b"0\r\n\r\n".to_vec()));
    }
    actions
}

impl CrashCounts {
    fn count(&mut self, verdict: Option<ResponseKind>) {
        self.requests += 1;
        match verdict {
            Some(ResponseKind::Hit) => self.hits += 1,
            Some(ResponseKind::Other) => {}
            Some(ResponseKind::Refused) => self.refused += 1,
            Some(ResponseKind::Cut) => self.cut += 1,
            None => self.unanswered += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        let Self {
            lives,
            requests,
            hits,
            refused,
            cut,
            unanswered,
            purges,
            kept,
            found,
            evicted,
            lag_ms_max,
        } = other;
        self.lives += lives;
        self.requests += requests;
        self.hits += hits;
        self.refused += refused;
        self.cut += cut;
        self.unanswered += unanswered;
        self.purges += purges;
        self.kept += kept;
        self.found += found;
        self.evicted += evicted;
        self.lag_ms_max = self.lag_ms_max.max(*lag_ms_max);
    }
}

impl fmt::Display for CrashCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lives,
            requests,
            hits,
            refused,
            cut,
            unanswered,
            purges,
            kept,
            found,
            evicted,
            lag_ms_max,
        } = self;
        write!(f, "{lives} lives, {requests} requests, {hits} hits, {refused} refused, {cut} cut, ")?;
        write!(f, "{unanswered} unanswered, {purges} purges, {kept} of {kept} kept as promised, ")?;
        write!(f, "{found} more found, {evicted} evicted, durable within {lag_ms_max} ms")
    }
}

/// Ignores poisoning: the panic of the other thread is already reported, and this one may finish.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
