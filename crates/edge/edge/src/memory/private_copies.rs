//! Copies of pages that belong to one session each (`logged_in = "private"`).
//!
//! Invariants: a copy is found only by the digests of all session cookies and of everything else
//! that its response may depend on. When a session ends or writes, its copies are removed, and no
//! fetch that began before stores another one. The table holds no cookie, only keyed digests. It is
//! in memory only; the copies of one session and of all sessions are bounded.

use crate::memory::sync::{Mutex, MutexGuard, PoisonError};
use bytes::Bytes;
use esi::Program;
use platform::{HashKeys, HashMap};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Key, Object, StoredTemplate};

/// A keyed digest of a cookie, a session or a page.
pub(crate) type Digest = [u8; 32];

/// Bytes that a copy takes beside its head, content and tags.
const COPY_BYTES: u64 = 1024;

/// Whose copies a request may use: the digests of its session cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    id: Digest,
    cookies: Vec<Digest>,
}

/// The copy of a page.
#[derive(Clone, Debug)]
pub(crate) struct PrivateCopy {
    pub(crate) object: Arc<Object>,
    pub(crate) key: Key,
    pub(crate) tags: Vec<Bytes>,
    /// The number of the last invalidation when the fetch of the response began.
    pub(crate) begun: u64,
}

/// How many bytes copies may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrivateLimits {
    pub(crate) session_bytes_max: u64,
    pub(crate) bytes_max: u64,
}

/// All copies.
#[derive(Debug)]
pub(crate) struct PrivateCopies {
    secret: [u64; 4],
    /// Whether any session has had a fetch. Until then no request has a session to end.
    is_used: AtomicBool,
    table: Mutex<Table>,
}

/// A fetch of a session that is under way. When it is dropped, the session may be forgotten.
#[derive(Debug)]
pub(crate) struct PrivateFetch {
    copies: Arc<PrivateCopies>,
    session: Digest,
    page: Digest,
    /// The number of the session's entry when the fetch began. An entry that was made after the
    /// end of the session has another one.
    number: u64,
    pub(crate) key: Key,
    /// As [`PrivateCopy::begun`].
    pub(crate) begun: u64,
}

/// A session that writes: its copies end now, again with [`WritingSession::end`], and when this is
/// dropped, because the origin may change its pages at any time in between.
#[derive(Debug)]
pub(crate) struct WritingSession {
    copies: Arc<PrivateCopies>,
    cookies: Vec<Digest>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<Digest, Entry>,
    /// The sessions that have a cookie.
    by_cookie: HashMap<Digest, Vec<Digest>>,
    /// The sessions by their last use.
    order: BTreeMap<u64, Digest>,
    bytes: u64,
    /// The number of the last use or entry.
    number: u64,
    ended: u64,
    evicted: u64,
}

/// The copies of one session.
#[derive(Debug)]
struct Entry {
    number: u64,
    cookies: Vec<Digest>,
    pages: HashMap<Digest, Held>,
    bytes: u64,
    fetches: usize,
    used: u64,
}

#[derive(Debug)]
struct Held {
    copy: PrivateCopy,
    bytes: u64,
    used: u64,
}

/// The figures of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrivateTotals {
    pub(crate) sessions: u64,
    pub(crate) bytes: u64,
    /// Sessions whose copies were removed because they ended or wrote.
    pub(crate) ended: u64,
    /// Copies that were removed because there was no more room.
    pub(crate) evicted: u64,
}

impl PrivateCopy {
    /// The memory that the copy takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let program = match self.object.template() {
            Some(StoredTemplate::Parsed(template)) => template.as_ref().as_ref().map_or(0, Program::bytes),
            Some(StoredTemplate::OnDisk) | None => 0,
        };
        COPY_BYTES
            + program as u64
            + self.object.content_bytes()
            + self.object.prebuilt().len() as u64
            + self.key.target().len() as u64
            + self.tags.iter().map(|tag| tag.len() as u64).sum::<u64>()
    }
}

impl PrivateCopies {
    pub(crate) fn new() -> Self {
        let keys = HashKeys::new();
        let secret = [0_u64, 1, 2, 3].map(|part| keys.hash_one(part));
        Self { secret, is_used: AtomicBool::new(false), table: Mutex::default() }
    }

    /// The keyed digest of these parts. Lengths separate them.
    pub(crate) fn digest<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut digest = Sha256::new();
        self.secret.iter().for_each(|part| digest.update(part.to_le_bytes()));
        for part in parts {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    /// The session with these cookies, each as `name=value`.
    pub(crate) fn session(&self, cookies: &[&[u8]]) -> Session {
        let mut cookies: Vec<Digest> = cookies.iter().map(|cookie| self.digest([*cookie])).collect();
        cookies.sort_unstable();
        cookies.dedup();
        Session { id: self.digest(cookies.iter().map(|cookie| &cookie[..])), cookies }
    }

    /// The session's copy of a page, if `is_current` says that it may still be used; otherwise the
    /// copy is removed. `touch`: this is a use.
    pub(crate) fn find(
        &self,
        session: &Session,
        page: &Digest,
        touch: bool,
        is_current: impl FnOnce(&PrivateCopy) -> bool,
    ) -> Option<Arc<Object>> {
        let mut table = self.table();
        let copy = &table.sessions.get(&session.id)?.pages.get(page)?.copy;
        let object = Arc::clone(&copy.object);
        if !is_current(copy) {
            if touch {
                table.remove(&session.id, page);
            }
            return None;
        }
        if touch {
            table.touch(&session.id, Some(page));
        }
        Some(object)
    }

    /// Begins a fetch of the session. `begun` returns the number of the last invalidation.
    pub(crate) fn begin(
        self: &Arc<Self>,
        session: Session,
        page: Digest,
        key: Key,
        begun: impl FnOnce() -> u64,
    ) -> PrivateFetch {
        self.is_used.store(true, Ordering::SeqCst);
        let id = session.id;
        let number = self.table().begin(session);
        PrivateFetch { copies: Arc::clone(self), session: id, page, number, key, begun: begun() }
    }

    /// Removes the copies of every session that has one of these cookies. A request often carries
    /// only some cookies of its session, because they have different paths.
    pub(crate) fn end(&self, cookies: &[Digest]) {
        let mut table = self.table();
        for cookie in cookies {
            let sessions = table.by_cookie.get(cookie).cloned().unwrap_or_default();
            sessions.iter().for_each(|session| {
                table.ended += 1;
                table.forget(session);
            });
        }
    }

    /// Whether there may be a session to end.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }

    pub(crate) fn totals(&self) -> PrivateTotals {
        let table = self.table();
        let sessions = table.sessions.len() as u64;
        PrivateTotals { sessions, bytes: table.bytes, ended: table.ended, evicted: table.evicted }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrivateFetch {
    /// Keeps the response for the session, unless that has ended since the fetch began. Removes
    /// copies that were not used for the longest time if there is no room. Returns whether the
    /// response is kept.
    pub(crate) fn keep(&self, object: Arc<Object>, tags: Vec<Bytes>, limits: PrivateLimits) -> bool {
        let copy = PrivateCopy { object, key: self.key.detached(), tags, begun: self.begun };
        let bytes = copy.bytes();
        let mut table = self.copies.table();
        let is_current = table.sessions.get(&self.session).is_some_and(|entry| entry.number == self.number);
        if !is_current || bytes > limits.session_bytes_max.min(limits.bytes_max) {
            return false;
        }
        table.put(&self.session, self.page, copy, bytes);
        table.trim(&self.session, limits);
        true
    }
}

impl Drop for PrivateFetch {
    fn drop(&mut self) {
        self.copies.table().end_fetch(&self.session, self.number);
    }
}

impl WritingSession {
    /// The session of a request with these cookies, which writes.
    pub(crate) fn begin<'a>(copies: &Arc<PrivateCopies>, cookies: impl Iterator<Item = &'a [u8]>) -> Self {
        let cookies = cookies.map(|cookie| copies.digest([cookie])).collect();
        let writing = Self { copies: Arc::clone(copies), cookies };
        writing.end();
        writing
    }

    /// Removes the copies that the session has now.
    pub(crate) fn end(&self) {
        self.copies.end(&self.cookies);
    }
}

impl Drop for WritingSession {
    fn drop(&mut self) {
        self.end();
    }
}

impl Table {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn begin(&mut self, session: Session) -> u64 {
        let Session { id, cookies } = session;
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.fetches += 1;
            return entry.number;
        }
        let number = self.next();
        cookies.iter().for_each(|cookie| self.by_cookie.entry(*cookie).or_default().push(id));
        let entry = Entry { number, cookies, pages: HashMap::default(), bytes: 0, fetches: 1, used: number };
        self.sessions.insert(id, entry);
        self.order.insert(number, id);
        number
    }

    fn end_fetch(&mut self, session: &Digest, number: u64) {
        let Some(entry) = self.sessions.get_mut(session).filter(|entry| entry.number == number) else {
            return;
        };
        entry.fetches = entry.fetches.saturating_sub(1);
        self.forget_if_empty(session);
    }

    fn forget_if_empty(&mut self, session: &Digest) {
        if self.sessions.get(session).is_some_and(|entry| entry.fetches == 0 && entry.pages.is_empty()) {
            self.forget(session);
        }
    }

    /// Notes the use of a session and of its copy of a page.
    fn touch(&mut self, session: &Digest, page: Option<&Digest>) {
        let now = self.next();
        let Some(entry) = self.sessions.get_mut(session) else { return };
        self.order.remove(&entry.used);
        self.order.insert(now, *session);
        entry.used = now;
        if let Some(held) = page.and_then(|page| entry.pages.get_mut(page)) {
            held.used = now;
        }
    }

    fn put(&mut self, session: &Digest, page: Digest, copy: PrivateCopy, bytes: u64) {
        self.remove_page(session, &page);
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.pages.insert(page, Held { copy, bytes, used: 0 });
            entry.bytes += bytes;
            self.bytes += bytes;
        }
        self.touch(session, Some(&page));
    }

    /// Removes copies until those of the session, and all copies, are within their limits.
    fn trim(&mut self, session: &Digest, limits: PrivateLimits) {
        while let Some(entry) = self.sessions.get(session)
            && entry.bytes > limits.session_bytes_max
            && let Some(oldest) = entry.pages.iter().min_by_key(|(_, held)| held.used).map(|(page, _)| *page)
        {
            self.evicted += 1;
            self.remove_page(session, &oldest);
        }
        while self.bytes > limits.bytes_max
            && let Some(oldest) = self.order.first_key_value().map(|(_, session)| *session)
        {
            self.evicted += self.sessions.get(&oldest).map_or(0, |entry| entry.pages.len() as u64);
            self.forget(&oldest);
        }
    }

    fn remove(&mut self, session: &Digest, page: &Digest) {
        self.remove_page(session, page);
        self.forget_if_empty(session);
    }

    fn remove_page(&mut self, session: &Digest, page: &Digest) {
        let Some(entry) = self.sessions.get_mut(session) else { return };
        if let Some(held) = entry.pages.remove(page) {
            entry.bytes -= held.bytes;
            self.bytes -= held.bytes;
        }
    }

    /// Removes a session with its copies. Its fetches store nothing any more.
    fn forget(&mut self, session: &Digest) {
        let Some(entry) = self.sessions.remove(session) else { return };
        self.bytes -= entry.bytes;
        self.order.remove(&entry.used);
        for cookie in &entry.cookies {
            if let Some(sessions) = self.by_cookie.get_mut(cookie) {
                sessions.retain(|other| other != session);
                if sessions.is_empty() {
                    self.by_cookie.remove(cookie);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, PrivateCopies, PrivateFetch, PrivateLimits, WritingSession};
    use bytes::Bytes;
    use message::{ResponseHead, Status};
    use semantics::{Freshness, Moment};
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Body, Key, Object, SiteId};

    const AMPLE: PrivateLimits = PrivateLimits { session_bytes_max: 1 << 20, bytes_max: 1 << 20 };

    fn object(bytes: usize) -> Arc<Object> {
        let freshness = Freshness::lasting(Duration::from_secs(60), Moment::default());
        let body = Body::gathered(&[Bytes::from(vec![b'x'; bytes])]);
        Arc::new(Object::new(&ResponseHead::new(Status::OK), &Bytes::new(), body, freshness))
    }

    fn begin(copies: &Arc<PrivateCopies>, cookies: &[&[u8]], page: u8) -> PrivateFetch {
        let key = Key::new(SiteId(0), false, b"a.test", Bytes::from_static(b"/"));
        copies.begin(copies.session(cookies), page_of(page), key, || 0)
    }

    fn page_of(page: u8) -> Digest {
        [page; 32]
    }

    fn has(copies: &PrivateCopies, cookies: &[&[u8]], page: u8) -> bool {
        copies.find(&copies.session(cookies), &page_of(page), true, |_| true).is_some()
    }

    #[test]
    fn copy_belongs_to_exactly_its_cookies_and_page() {
        let copies = Arc::new(PrivateCopies::new());
        assert!(begin(&copies, &[b"a=1", b"b=2"], 1).keep(object(9), Vec::new(), AMPLE));
        assert!(has(&copies, &[b"b=2", b"a=1"], 1), "the order means nothing");
        let others: [&[&[u8]]; 5] =
            [&[b"a=1"], &[b"a=1", b"b=3"], &[b"a=1", b"b=2", b"c=3"], &[b"a=1b=2"], &[]];
        for other in others {
            assert!(!has(&copies, other, 1), "{other:?}");
        }
        assert!(!has(&copies, &[b"a=1", b"b=2"], 2));
    }

    #[test]
    fn session_ends_with_any_of_its_cookies() {
        let copies = Arc::new(PrivateCopies::new());
        for cookie in [&b"a=1"[..], b"b=2"] {
            begin(&copies, &[b"a=1", b"b=2"], 1).keep(object(9), Vec::new(), AMPLE);
            begin(&copies, &[b"d=4"], 1).keep(object(9), Vec::new(), AMPLE);
            let late = begin(&copies, &[b"a=1", b"b=2"], 2);
            let writing = WritingSession::begin(&copies, [cookie, b"c=3"].into_iter());
            assert!(!has(&copies, &[b"a=1", b"b=2"], 1));
            assert!(has(&copies, &[b"d=4"], 1), "another session");
            let during = begin(&copies, &[b"a=1", b"b=2"], 2);
            assert!(!late.keep(object(9), Vec::new(), AMPLE), "it began before the write");
            drop(writing);
            assert!(!during.keep(object(9), Vec::new(), AMPLE), "it began before the write ended");
        }
        copies.end(&[copies.digest([&b"d=4"[..]])]);
        let totals = copies.totals();
        assert_eq!((totals.sessions, totals.bytes), (0, 0));
        assert!(copies.table().by_cookie.is_empty() && copies.table().order.is_empty());
    }

    #[test]
    fn outdated_copy_is_removed_and_empty_session_forgotten() {
        let copies = Arc::new(PrivateCopies::new());
        begin(&copies, &[b"a=1"], 1).keep(object(9), Vec::new(), AMPLE);
        let session = copies.session(&[b"a=1"]);
        assert!(copies.find(&session, &page_of(1), false, |_| false).is_none());
        assert_eq!(copies.totals().sessions, 1, "a question changes nothing");
        assert!(copies.find(&session, &page_of(1), true, |_| false).is_none());
        drop(begin(&copies, &[b"b=2"], 1));
        assert_eq!(copies.totals().sessions, 0);
    }

    #[test]
    fn copies_are_bounded_per_session_and_in_all() {
        let copies = Arc::new(PrivateCopies::new());
        let limits = PrivateLimits { session_bytes_max: 5_000, bytes_max: 10_000 };
        assert!(!begin(&copies, &[b"a=1"], 1).keep(object(5_000), Vec::new(), limits), "too large");
        for page in 1..=3 {
            assert!(begin(&copies, &[b"a=1"], page).keep(object(900), Vec::new(), limits));
        }
        assert!(!has(&copies, &[b"a=1"], 1) && has(&copies, &[b"a=1"], 2) && has(&copies, &[b"a=1"], 3));
        let more: [(&[u8], u8); 4] = [(b"b=1", 1), (b"b=1", 2), (b"c=1", 1), (b"c=1", 2)];
        for (cookie, page) in more {
            assert!(begin(&copies, &[cookie], page).keep(object(900), Vec::new(), limits));
            assert!(copies.totals().bytes <= limits.bytes_max);
        }
        assert!(!has(&copies, &[b"a=1"], 3) && has(&copies, &[b"c=1"], 2), "the oldest session went");
        assert_eq!(copies.totals().evicted, 3);
    }
}
