//! The most requested pages, and the request fields with which to fetch them for no particular
//! visitor.
//!
//! Invariants: a page is remembered by its key and its negotiated fields. Cookies are kept only if
//! the cache key contains them, and credentials never. A later fetch of the page therefore sends
//! nothing personal. A hit costs one counter of its worker and an occasional note. The memory is
//! bounded, and old requests fade.

use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use clock::Monotonic;
use message::{Fields, names};
use platform::{HashKeys, HashMap};
use profiles::{Forwarding, Policy};
use semantics::{AcceptedCodings, VaryRule, is_selecting};
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use store::Key;

/// Target number of notes per worker between two merges. Of more requests, only a sample is noted.
const NOTES_WANTED: u32 = 256;

/// Maximum number of pages that a worker notes between two merges.
const NOTES_MAX: usize = 1024;

/// Maximum sampling interval: at least one request in this many is noted.
const STRIDE_MAX: u32 = 4096;

/// Time after which a request counts half.
const HALF_LIFE: Duration = Duration::from_secs(600);

/// Request fields that say what a client can display, and nothing about who it is. A page that
/// varies on any other field is not remembered.
const NEGOTIATED: &[&str] = &[
    "Accept",
    "Accept-Charset",
    names::ACCEPT_ENCODING,
    "Accept-Language",
    "Save-Data",
    names::USER_AGENT,
    "Sec-CH-UA-Mobile",
    "Sec-CH-UA-Platform",
];

/// A page, as any visitor might request it.
#[derive(Debug)]
pub(crate) struct PageVariant {
    pub(crate) key: Key,
    /// The values of its negotiated fields.
    pub(crate) fields: Fields,
    /// The fields that its responses are known to vary on.
    pub(crate) rule: VaryRule,
}

/// The ranking of all pages.
#[derive(Debug)]
pub(crate) struct HotPages {
    workers: Vec<Sampler>,
    ranking: Mutex<Ranking>,
    hasher: HashKeys,
    pages_max: usize,
}

/// The notes of one worker, on separate cache lines. Relaxed is enough for the numbers: they only
/// choose the samples, and a note takes its weight from the interval by which it was chosen.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Sampler {
    requests: AtomicU32,
    /// The sampling interval less one; the interval is a power of two.
    mask: AtomicU32,
    notes: Mutex<HashMap<u64, Note>>,
}

#[derive(Debug)]
struct Note {
    page: Arc<PageVariant>,
    requests: f64,
}

#[derive(Debug, Default)]
struct Ranking {
    pages: HashMap<u64, Note>,
    merged: Option<Monotonic>,
}

impl PageVariant {
    /// The page of `key` for a client with these looked-up fields; its responses vary on `rule`.
    /// `None` if the page may depend on who the client is.
    pub(crate) fn of(key: &Key, fields: &Fields, rule: VaryRule, policy: &Policy) -> Option<Self> {
        let is = |name: &[u8], known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        // If keys contain cookies, the looked-up request has only those.
        let has_keyed = policy.forwarding == Forwarding::Keyed && !policy.keyed_cookies.is_empty();
        let is_negotiated = |name: &[u8]| {
            NEGOTIATED.iter().any(|known| is(name, known)) || has_keyed && is(name, names::COOKIE)
        };
        // A request without a selecting field belongs to the variant for its absence.
        let is_absent = |name: &Bytes| {
            is_selecting(name) && !fields.iter().any(|field| field.name.eq_ignore_ascii_case(name))
        };
        if !rule.names().iter().all(|name| is_negotiated(name) || is_absent(name)) {
            return None;
        }
        let mut kept = Fields::new();
        if policy.forwarding == Forwarding::Keyed {
            // One page for all clients whose fetch would be the same.
            kept.push(names::ACCEPT_ENCODING, AcceptedCodings::of(fields).offer());
        }
        for field in fields {
            if is(&field.name, names::ACCEPT_ENCODING) && policy.forwarding == Forwarding::Keyed {
                continue;
            }
            if is(&field.name, names::ACCEPT_ENCODING) || rule.selects_on(&field.name) {
                // Copied, because the originals are slices of a larger buffer.
                kept.push(Bytes::copy_from_slice(&field.name), Bytes::copy_from_slice(&field.value));
            }
        }
        Some(Self { key: key.detached(), fields: kept, rule })
    }

    /// The page of `key` as requested without any of these fields.
    pub(crate) fn plain(key: &Key) -> Self {
        Self { key: key.detached(), fields: Fields::new(), rule: VaryRule::default() }
    }
}

impl HotPages {
    /// An empty ranking for this many workers, with at most `pages_max` pages.
    pub(crate) fn new(workers: usize, pages_max: usize) -> Self {
        let workers = (0..workers.max(1)).map(|_| Sampler::default()).collect();
        Self { workers, ranking: Mutex::default(), hasher: HashKeys::new(), pages_max }
    }

    /// Counts the delivery of a stored page by a worker. `page` is called only if the request is
    /// sampled.
    pub(crate) fn note(&self, worker: usize, page: impl FnOnce() -> Option<PageVariant>) {
        let Some(sampler) = self.workers.get(worker).filter(|_| self.pages_max > 0) else { return };
        let number = sampler.requests.fetch_add(1, Ordering::Relaxed);
        let mask = sampler.mask.load(Ordering::Relaxed);
        if number & mask != 0 {
            return;
        }
        let Some(page) = page() else { return };
        let id = self.hasher.hash_one((&page.key, page.rule.key(&page.fields).octets()));
        let requests = f64::from(mask) + 1.0;
        let mut notes = lock(&sampler.notes);
        let has_room = notes.len() < NOTES_MAX;
        match notes.entry(id) {
            Entry::Occupied(mut note) => note.get_mut().requests += requests,
            Entry::Vacant(place) if has_room => {
                place.insert(Note { page: Arc::new(page), requests });
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Merges the notes of all workers. To be called about once a second.
    ///
    /// Lock order: the ranking, then the notes of a worker.
    pub(crate) fn merge(&self, now: Monotonic) {
        let mut ranking = lock(&self.ranking);
        ranking.fade(now);
        for sampler in &self.workers {
            let requests = sampler.requests.swap(0, Ordering::Relaxed);
            let stride = (requests / NOTES_WANTED).next_power_of_two().min(STRIDE_MAX);
            sampler.mask.store(stride - 1, Ordering::Relaxed);
            for (id, note) in std::mem::take(&mut *lock(&sampler.notes)) {
                match ranking.pages.entry(id) {
                    Entry::Occupied(mut known) => known.get_mut().requests += note.requests,
                    Entry::Vacant(place) => {
                        place.insert(note);
                    }
                }
            }
        }
        ranking.keep(self.pages_max);
    }

    /// The pages, the most requested first.
    pub(crate) fn ranked(&self) -> Vec<Arc<PageVariant>> {
        let ranking = lock(&self.ranking);
        let mut notes: Vec<&Note> = ranking.pages.values().collect();
        notes.sort_unstable_by(|one, other| other.requests.total_cmp(&one.requests));
        notes.into_iter().map(|note| Arc::clone(&note.page)).collect()
    }

    /// The pages with their estimated requests, in any order.
    pub(crate) fn counted(&self) -> Vec<(Arc<PageVariant>, f64)> {
        let ranking = lock(&self.ranking);
        ranking.pages.values().map(|note| (Arc::clone(&note.page), note.requests)).collect()
    }

    /// Number of remembered pages.
    pub(crate) fn len(&self) -> usize {
        lock(&self.ranking).pages.len()
    }
}

impl Ranking {
    /// Lowers the weight of past requests according to the time since the last merge.
    fn fade(&mut self, now: Monotonic) {
        let since = self.merged.replace(now).map_or(Duration::ZERO, |merged| now.since(merged));
        let left = 0.5_f64.powf(since.as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.pages.values_mut().for_each(|note| note.requests *= left);
    }

    /// Keeps only the `pages_max` most requested pages. Pages with the same count as the first
    /// excluded one fill the remaining room. Without this, a site whose pages are all requested
    /// equally would keep none.
    fn keep(&mut self, pages_max: usize) {
        if self.pages.len() <= pages_max {
            return;
        }
        let mut counts: Vec<f64> = self.pages.values().map(|note| note.requests).collect();
        let (kept, least, _) = counts.select_nth_unstable_by(pages_max, |one, other| other.total_cmp(one));
        let least = *least;
        let mut room = kept.iter().filter(|requests| **requests == least).count();
        self.pages.retain(|_, note| {
            let is_at_border = note.requests == least;
            let stays = note.requests > least || is_at_border && room > 0;
            room -= usize::from(is_at_border && stays);
            stays
        });
    }
}

/// Poison is ignored because no code that can panic runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{HALF_LIFE, HotPages, NOTES_WANTED, PageVariant};
    use bytes::Bytes;
    use clock::Monotonic;
    use message::Fields;
    use profiles::{Forwarding, Policy};
    use proptest::prelude::*;
    use semantics::VaryRule;
    use std::collections::HashMap;
    use std::time::Duration;
    use store::{Key, SiteId};

    fn key(number: usize) -> Key {
        Key::new(SiteId(0), false, b"a.test", Bytes::from(format!("/{number}")))
    }

    fn page(number: usize) -> Option<PageVariant> {
        Some(PageVariant::plain(&key(number)))
    }

    fn at(secs: u64) -> Monotonic {
        Monotonic::default().plus(Duration::from_secs(secs))
    }

    fn ranked(hot_pages: &HotPages) -> Vec<Key> {
        hot_pages.ranked().iter().map(|page| page.key.clone()).collect()
    }

    fn rule(names: &[&'static str]) -> VaryRule {
        VaryRule::of_names(names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect(), false)
    }

    #[test]
    fn most_requested_pages_come_first_up_to_the_limit() {
        let popular = HotPages::new(2, 3);
        for (number, requests) in [(1, 2), (2, 9), (3, 4), (4, 7)] {
            (0..requests).for_each(|request| popular.note(request % 2, || page(number)));
        }
        assert_eq!(popular.len(), 0, "nothing before a merge");
        popular.merge(at(1));
        assert_eq!(ranked(&popular), [key(2), key(4), key(3)]);
        let none = HotPages::new(1, 0);
        none.note(0, || page(1));
        none.merge(at(1));
        assert_eq!(none.len(), 0);
    }

    #[test]
    fn old_requests_count_less() {
        let popular = HotPages::new(1, 10);
        (0..10).for_each(|_| popular.note(0, || page(1)));
        popular.merge(at(0));
        (0..4).for_each(|_| popular.note(0, || page(2)));
        popular.merge(at(2 * HALF_LIFE.as_secs()));
        assert_eq!(ranked(&popular), [key(2), key(1)]);
    }

    #[test]
    fn many_requests_are_sampled() {
        let popular = HotPages::new(1, 10);
        let mut looked_at = 0;
        for second in 1..=3 {
            looked_at = 0;
            for _ in 0..64 * NOTES_WANTED {
                popular.note(0, || {
                    looked_at += 1;
                    page(1)
                });
            }
            popular.merge(at(second));
        }
        assert_eq!(looked_at, NOTES_WANTED);
    }

    #[test]
    fn remembered_page_has_no_personal_fields() {
        let mut fields = Fields::new();
        for (name, value) in [
            ("Accept-Encoding", "gzip"),
            ("Accept-Language", "fr"),
            ("User-Agent", "browser"),
            ("Cookie", "session=1"),
            ("Authorization", "Basic x"),
            ("X-Forwarded-For", "192.0.2.1"),
            ("Referer", "http://b.test/"),
        ] {
            fields.push(name, value);
        }
        let kept = |names: &[&'static str]| {
            let page = PageVariant::of(&key(1), &fields, rule(names), &Policy::default_profile())?;
            Some(
                page.fields
                    .iter()
                    .map(|field| String::from_utf8(field.name.to_vec()).unwrap())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(kept(&[]).unwrap(), ["Accept-Encoding"]);
        assert_eq!(kept(&["accept-language"]).unwrap(), ["Accept-Encoding", "Accept-Language"]);
        for personal in ["cookie", "authorization", "x-api-key", "x-forwarded-for"] {
            assert_eq!(kept(&["accept-language", personal]), None, "{personal}");
        }
        let keyed = |forwarding| {
            let policy = Policy {
                keyed_cookies: vec!["currency".to_owned()],
                forwarding,
                ..Policy::default_profile()
            };
            PageVariant::of(&key(1), &fields, rule(&["cookie"]), &policy).is_some()
        };
        assert!(keyed(Forwarding::Keyed) && !keyed(Forwarding::Everything));
    }

    #[test]
    fn variants_are_ranked_separately() {
        let popular = HotPages::new(1, 10);
        for (language, requests) in [("fr", 3), ("de", 5)] {
            let mut fields = Fields::new();
            fields.push("Accept-Language", language);
            let page =
                || PageVariant::of(&key(1), &fields, rule(&["accept-language"]), &Policy::default_profile());
            (0..requests).for_each(|_| popular.note(0, page));
        }
        popular.merge(at(1));
        let languages: Vec<_> = popular
            .ranked()
            .iter()
            .map(|page| page.fields.first("Accept-Language").unwrap().clone())
            .collect();
        assert_eq!(languages, ["de", "fr"]);
    }

    proptest! {
        /// Compares the ranking with a plain table of counts, without sampling or fading.
        #[test]
        fn ranking_follows_the_counts(requests in prop::collection::vec((0_usize..12, 0_usize..3), 0..200)) {
            let popular = HotPages::new(3, 8);
            let mut counts: HashMap<usize, usize> = HashMap::new();
            for (number, worker) in requests {
                popular.note(worker, || page(number));
                *counts.entry(number).or_default() += 1;
            }
            popular.merge(at(1));
            let count = |key: &Key| {
                let number = std::str::from_utf8(&key.target()[1..]).unwrap().parse::<usize>().unwrap();
                counts.get(&number).copied().unwrap_or(0)
            };
            let ranked = ranked(&popular);
            prop_assert!(ranked.is_sorted_by(|one, other| count(one) >= count(other)));
            prop_assert_eq!(ranked.len(), counts.len().min(8));
            let least_kept = ranked.iter().map(count).min().unwrap_or(0);
            let mut left_out = counts.iter().filter(|(number, _)| !ranked.contains(&key(**number)));
            let is_fair = left_out.all(|(_, requests)| *requests <= least_kept);
            prop_assert!(is_fair, "no omitted page was requested more often than a kept one");
        }
    }
}
