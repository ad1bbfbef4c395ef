//! One check of the leak guard: an answer to a visitor with cookies beside what is stored, and, where they differ, the
//! page fetched again for nobody in particular.
//!
//! Invariant: a check never costs its visitor an answer: where the application fails, is late or sends anything but an
//! answer for this page, what would have been delivered is. Answers that cannot be compared (too long, in a coding that
//! is not undone here, errors) prove nothing.

use crate::counters::Metric;
use crate::flight::State;
use crate::fly;
use crate::forward;
use crate::guard::Subject;
use crate::leak_guard::{COMPARED_BYTES_MAX, Finding, cookie_names, is_explained, is_guarded};
use crate::operator;
use crate::popular::Page;
use crate::refetch;
use crate::respond::Account;
use crate::shared::Shared;
use crate::sites::Site;
use message::{Fields, Method, RequestHead, ResponseHead, Status, names};
use semantics::{Moment, has_conditions, is_refusal, is_server_error};
use static_tree::Coding;
use std::sync::Arc;
use store::{Key, Object};

/// Fetches without cookies before a page is said to depend on them.
const FETCHES_MAX: usize = 4;

/// Types of what is not made for one visitor, as they begin.
const NO_PAGES: [&[u8]; 6] = [b"image/", b"font/", b"video/", b"audio/", b"text/css", b"application/font"];

/// A check under way.
#[derive(Debug)]
pub(crate) struct LeakCheck {
    site: Arc<Site>,
    page: Page,
    stored: Arc<Object>,
    /// For when what is stored is delivered after all; `None` if it is kept back from the visitor.
    account: Option<Account>,
    /// The visitor's cookies by name, for people.
    cookies: String,
}

/// What would be delivered to a visitor.
#[derive(Clone, Copy)]
pub(crate) struct WouldBeHit<'a> {
    pub(crate) site: &'a Arc<Site>,
    pub(crate) key: &'a Key,
    /// The request as it was sent.
    pub(crate) sent: &'a RequestHead,
    /// With no more of its cookies than its key has.
    pub(crate) looked_up: &'a RequestHead,
    pub(crate) stored: &'a Arc<Object>,
    /// Whether the cookies would make the request pass if the response was no static file.
    pub(crate) is_file: bool,
}

impl LeakCheck {
    /// A check, if the visitor has cookies, the answer can be compared, the application has time, and the lot falls
    /// on it.
    pub(crate) fn draw(
        shared: &Shared,
        worker: usize,
        hit: WouldBeHit<'_>,
        account: Account,
    ) -> Option<Arc<Self>> {
        let is_drawn = is_guarded(&hit.sent.fields, hit.site.policy())
            && shared.leak_guard.draws(worker, hit.key, hit.is_file, || hit.can_be_checked());
        if is_drawn { Self::new(shared, hit, Some(account)) } else { None }
    }

    /// A check of what is kept back from the visitor, if it can be compared and the application has time.
    pub(crate) fn again(shared: &Shared, hit: WouldBeHit<'_>, now: Moment) -> Option<Arc<Self>> {
        if !hit.can_be_checked() {
            return None;
        }
        shared.leak_guard.looks_again(hit.key, now.monotonic);
        Self::new(shared, hit, None)
    }

    fn new(shared: &Shared, hit: WouldBeHit<'_>, account: Option<Account>) -> Option<Arc<Self>> {
        let WouldBeHit { site, key, sent, looked_up, stored, is_file: _ } = hit;
        let rule = shared.store.known_rule(key);
        Some(Arc::new(Self {
            site: Arc::clone(site),
            page: Page::of(key, &looked_up.fields, rule, site.policy())?,
            stored: Arc::clone(stored),
            account,
            cookies: cookie_names(&sent.fields, site.policy()),
        }))
    }

    /// What the application is asked: what a fetch for everybody asks, with the visitor's cookies, so that only these
    /// can make a difference. `head` is what was looked up, `sent` are the visitor's fields.
    pub(crate) fn request(
        &self,
        shared: &Shared,
        subject: &Subject<'_>,
        head: &RequestHead,
        sent: &Fields,
    ) -> RequestHead {
        let (key, known) = (&self.page.key, shared.store.known_rule(&self.page.key));
        let mut asked =
            forward::shared_head(subject, &shared.loop_mark, key, Method::Get, &head.fields, &known);
        // Those that are in the key are among the visitor's.
        asked.fields.remove(names::COOKIE);
        let cookies = sent.iter().filter(|field| field.is(names::COOKIE)).cloned();
        forward::with_fields(&asked, cookies.collect())
    }

    /// What the visitor would have got; `None` if that is kept back.
    pub(crate) fn instead(&self) -> Option<(Arc<Object>, Account)> {
        Some((Arc::clone(&self.stored), self.account?))
    }

    /// The same in place of an answer with this status that is none for the page.
    pub(crate) fn instead_of(&self, status: Status) -> Option<(Arc<Object>, Account)> {
        // The request has no conditions and wants all of the content.
        let is_none =
            is_server_error(status) || is_refusal(status) || matches!(status.code(), 206 | 304 | 416);
        if is_none { self.instead() } else { None }
    }

    /// Compares the application's answer with what is stored, and looks into it where they differ, while the visitor
    /// goes on.
    pub(crate) fn begin(
        self: Arc<Self>,
        shared: &Arc<Shared>,
        worker: usize,
        head: &ResponseHead,
        content: Vec<u8>,
    ) {
        shared.cells(worker).count(Metric::LeakChecks);
        if is_server_error(head.status) {
            return;
        }
        let (shared, head) = (Arc::clone(shared), head.clone());
        tokio::spawn(async move {
            let Some((before, own)) = self.compared(head, content).await else { return };
            if before == own {
                if self.account.is_none() {
                    self.settle(&shared, Finding::Changes);
                }
                return;
            }
            shared.cells(worker).count(Metric::LeakSuspicions);
            shared.leak_guard.suspect(&self.page.key, &self.cookies, shared.clock.monotonic());
            let finding = self.look_into(&shared, worker, before, own).await;
            self.settle(&shared, finding);
            if finding != Finding::Changes {
                // The tree is served to everybody, cookies or not.
                shared.static_tree.withdraw(&self.site, &self.page.key);
            }
            if finding == Finding::Leak {
                shared.cells(worker).count(Metric::LeaksPrevented);
                self.report();
            }
        });
    }

    fn settle(&self, shared: &Shared, finding: Finding) {
        let (again, now) = (self.account.is_none(), shared.clock.monotonic());
        shared.leak_guard.settle(&self.page.key, &self.cookies, finding, again, now);
    }

    /// What is stored and the visitor's own answer, if they can be compared.
    async fn compared(&self, head: ResponseHead, content: Vec<u8>) -> Option<(Answer, Answer)> {
        let stored = Arc::clone(&self.stored);
        aside(move || Answer::of(&stored).zip(Answer::new(&head, content))).await.flatten()
    }

    /// Whether the page differs as much from one fetch without cookies to the next. What is the same by chance in two
    /// of them is not in more, so it is fetched a few times before the cookies are blamed.
    async fn look_into(&self, shared: &Arc<Shared>, worker: usize, before: Answer, own: Answer) -> Finding {
        let mut fetched = vec![before.content];
        let own = Arc::new(own);
        for _ in 0..FETCHES_MAX {
            let Some(last) = self.fetched_again(shared, worker).await else { return Finding::Unknown };
            if last.status != own.status {
                return Finding::Leak;
            }
            let (before, own) = (fetched.clone(), Arc::clone(&own));
            let explained =
                aside(move || (is_explained(&before, &last.content, &own.content), last.content)).await;
            match explained {
                Some((false, last)) => fetched.push(last),
                Some((true, _)) => return Finding::Changes,
                None => return Finding::Unknown,
            }
        }
        Finding::Leak
    }

    /// The page as the application now sends it to somebody without cookies. What was stored before is not it.
    async fn fetched_again(&self, shared: &Arc<Shared>, worker: usize) -> Option<Answer> {
        let (flight, departure) = refetch::departure(shared, worker, &self.site, &self.page, None, || false)?;
        fly::fly(departure).await;
        let state = flight.subscribe().borrow().state.clone();
        let State::Shared(answer) = state else { return None };
        let object = answer.object.get().cloned()?;
        aside(move || Answer::of(&object)).await.flatten()
    }

    fn report(&self) {
        let Page { key, .. } = &self.page;
        let (host, target) = (difference::text_of(key.host()), difference::text_of(key.target()));
        operator::say(format_args!(
            "{}: the page {host}{target} depends on a cookie ({}) that profile {} ignores: visitors with cookies get it \
             from the application",
            self.site.label(),
            self.cookies,
            self.site.policy().name
        ));
    }
}

impl WouldBeHit<'_> {
    /// Whether the request wants what is stored as it is, that is something made for a visitor, whole and in memory,
    /// and the application has time.
    fn can_be_checked(&self) -> bool {
        let Self { site, sent, stored, is_file, .. } = self;
        let is_plain =
            sent.method == Method::Get && !sent.fields.has(names::RANGE) && !has_conditions(&sent.fields);
        let is_here = stored.part().is_none() && stored.on_disk().is_none();
        let is_short = stored.content_bytes() <= COMPARED_BYTES_MAX as u64;
        is_plain && is_here && is_short && (*is_file || is_made(stored)) && site.origin.has_time()
    }
}

fn is_made(stored: &Object) -> bool {
    let head = stored.head_of(|name| name.eq_ignore_ascii_case(names::CONTENT_TYPE.as_bytes()));
    let media_type = head.fields.first(names::CONTENT_TYPE).map(|value| value.to_ascii_lowercase());
    media_type.is_none_or(|media_type| !NO_PAGES.iter().any(|other| media_type.starts_with(other)))
}

/// Does what takes longer than a worker has.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// An answer as it is compared.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    /// Without its coding. Where a redirect leads to stands before it, as if it was the first line.
    content: Vec<u8>,
}

impl Answer {
    /// A response; `None` for one that cannot be compared.
    fn new(head: &ResponseHead, content: Vec<u8>) -> Option<Self> {
        let mut content = Coding::of(&head.fields)?.decoded(content, COMPARED_BYTES_MAX as u64)?;
        if let Some(location) = head.fields.first(names::LOCATION) {
            content = [location, &b"\n"[..], &content].concat();
        }
        Some(Self { status: head.status.code(), content })
    }

    fn of(object: &Object) -> Option<Self> {
        let is_here = object.on_disk().is_none() && object.content_bytes() <= COMPARED_BYTES_MAX as u64;
        let content = || object.content().collect::<Vec<_>>().concat();
        if is_here { Self::new(&object.head(), content()) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;
    use message::{ResponseHead, Status};

    fn answer(fields: &[(&'static str, &'static str)], content: &[u8]) -> Option<Answer> {
        let mut head = ResponseHead::new(Status::OK);
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        Answer::new(&head, content.to_vec())
    }

    #[test]
    fn where_a_redirect_leads_to_is_compared_and_other_fields_are_not() {
        assert_ne!(answer(&[("Location", "/de/")], b"moved"), answer(&[("Location", "/en/")], b"moved"));
        assert_eq!(answer(&[("X-User", "ann"), ("Set-Cookie", "a=1")], b"page"), answer(&[], b"page"));
        assert_eq!(answer(&[("Content-Encoding", "zstd")], b"page"), None);
        assert_eq!(answer(&[("Content-Encoding", "br, gzip")], b"page"), None);
    }
}
