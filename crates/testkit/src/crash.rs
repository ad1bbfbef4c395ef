//! Lives and deaths of the real binary with a disk: each life works on what the ones before have left, under load and
//! purges, until it is killed at some moment; then every answer of the next one is compared with a model.
//!
//! What must hold: no answer is torn, of another page, or older than a purge of its page that was answered; and what
//! the edge said to be durable answers without a question to the application, unless it was changed since.
//!
//! The seed decides what is asked, purged and when it ends. How threads and processes take their turns it does not.

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
pub(crate) use model::{Begun, Model, Verdict};
pub(crate) use pages::{LANGUAGES, NO_LANGUAGE, Page};

/// The lifetime of pages, in seconds: more than lives last.
const MAX_AGE_S: u32 = 86_400;

/// Lives that follow one another on one directory; then comes a new one.
const LIVES_PER_DIRECTORY: u32 = 4;

/// What was done and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lives that ended.
    pub lives: u32,
    /// Requests that were sent.
    pub requests: u64,
    /// Answers from the store, without a question to the application.
    pub hits: u64,
    /// Answers of the edge that it has none.
    pub refused: u64,
    /// Answers that broke off.
    pub cut: u64,
    /// Requests without any answer.
    pub unanswered: u64,
    /// Purges that were answered.
    pub purges: u64,
    /// Responses that had to be there after a restart, and were.
    pub kept: u64,
    /// Further ones that were.
    pub found: u64,
    /// Responses that the edge removed from the disk for want of room.
    pub evicted: u64,
    /// The longest time in which what was accepted was not durable, as seen from outside, in milliseconds.
    pub lag_ms_max: u64,
}

/// Lets `lives` lives begin and end, and tells `progress` after each.
///
/// # Errors
/// What did not hold, and how it came to that.
pub fn run(seed: u64, lives: u32, progress: &mut dyn FnMut(&Tally)) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut seed = seed;
    while tally.lives < lives {
        let count = LIVES_PER_DIRECTORY.min(lives - tally.lives);
        let told = series(seed, count, &mut tally, progress);
        told.map_err(|problem| format!("seed {seed}, {tally}: {problem}"))?;
        seed += 1;
    }
    Ok(tally)
}

/// Lives on one directory.
fn series(seed: u64, count: u32, tally: &mut Tally, progress: &mut dyn FnMut(&Tally)) -> Result<(), String> {
    let mut random = Random::from_seed(seed);
    let model = Arc::new(Model::new());
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

/// The application: some of its large answers are slow, some break off.
fn application(model: Arc<Model>, seed: u64) -> Origin {
    let random = Mutex::new(Random::from_seed(seed));
    Origin::start(move |seen| {
        let Some(page) = Page::find(seen.field("Host").unwrap_or(""), seen.target()) else {
            return response("404 Not Found", &[], b"no such page");
        };
        if seen.head.starts_with("POST") {
            return response("200 OK", &["Cache-Control: no-store"], b"changed");
        }
        answer(&model, page, seen, MAX_AGE_S, lock(&random).next_u64())
    })
}

/// The application's response to a request for a page.
pub(crate) fn answer(model: &Model, page: Page, seen: &Seen, max_age_s: u32, chance: u64) -> Vec<Action> {
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

impl Tally {
    fn count(&mut self, verdict: Option<Verdict>) {
        self.requests += 1;
        match verdict {
            Some(Verdict::Hit) => self.hits += 1,
            Some(Verdict::Other) => {}
            Some(Verdict::Refused) => self.refused += 1,
            Some(Verdict::Cut) => self.cut += 1,
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

impl fmt::Display for Tally {
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

/// A thread that panicked has said so; the others go on to their end.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
