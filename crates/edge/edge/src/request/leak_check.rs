//! One check of the leak guard: compares the origin's response to a client with cookies with the
//! stored response. If they differ, it fetches the page again without cookies.
//!
//! Invariants: a check never costs its client a response. If the origin fails, is late or responds
//! with anything but the page, the client receives the stored response. Responses that cannot be
//! compared prove nothing: those that are too long, have an unsupported coding, or are errors.

use crate::control::counters::Metric;
use crate::fetch::coalesced_fetch::FetchState;
use crate::fetch::refetch;
use crate::fetch::task;
use crate::memory::hot_pages::PageVariant;
use crate::memory::leak_guard::{COMPARED_BYTES_MAX, Finding, cookie_names, is_explained};
use crate::request::forward;
use crate::request::guard::RequestSubject;
use crate::request::respond::ResponseAccount;
use crate::shared::Shared;
use crate::sites::Site;
use message::{Fields, Method, RequestHead, ResponseHead, Status, names};
use semantics::{Moment, has_conditions, is_refusal, is_server_error};
use static_tree::Coding;
use std::sync::Arc;
use store::{Key, Object};

/// Number of fetches without cookies before a page is reported as depending on cookies.
const FETCHES_MAX: usize = 4;

/// Prefixes of media types that are not generated for each visitor.
const NO_PAGES: [&[u8]; 6] = [b"image/", b"font/", b"video/", b"audio/", b"text/css", b"application/font"];

/// A check under way.
#[derive(Debug)]
pub(crate) struct LeakCheck {
    site: Arc<Site>,
    page: PageVariant,
    stored: Arc<Object>,
    /// Set if the client would otherwise receive the stored response; `None` if that is withheld
    /// from it.
    account: Option<ResponseAccount>,
    /// The names of the client's cookies, for people.
    cookies: String,
}

/// A hit that may be checked.
#[derive(Clone, Copy)]
pub(crate) struct GuardedHit<'a> {
    pub(crate) site: &'a Arc<Site>,
    pub(crate) key: &'a Key,
    /// The request as it was sent.
    pub(crate) sent: &'a RequestHead,
    /// The request as it was looked up: its only cookies are those in the key.
    pub(crate) looked_up: &'a RequestHead,
    pub(crate) stored: &'a Arc<Object>,
    /// Whether the request would pass because of its cookies if the response were not a static
    /// file.
    pub(crate) is_file: bool,
}

impl LeakCheck {
    /// Starts a check if the hit is sampled, the responses can be compared and the origin is not
    /// busy.
    pub(crate) fn draw(
        shared: &Shared,
        worker: usize,
        hit: GuardedHit<'_>,
        account: ResponseAccount,
    ) -> Option<Arc<Self>> {
        let is_drawn = shared
            .leak_guard
            .draws(worker, hit.key, (&hit.site.probation, hit.is_file), || hit.can_be_checked());
        if is_drawn { Self::new(shared, hit, Some(account)) } else { None }
    }

    /// Starts a check of a page withheld from the client, if it can be compared and the
    /// origin is not busy.
    pub(crate) fn again(shared: &Shared, hit: GuardedHit<'_>, now: Moment) -> Option<Arc<Self>> {
        if !hit.can_be_checked() {
            return None;
        }
        shared.leak_guard.note_renewed_check(hit.key, now.monotonic);
        Self::new(shared, hit, None)
    }

    fn new(shared: &Shared, hit: GuardedHit<'_>, account: Option<ResponseAccount>) -> Option<Arc<Self>> {
        let GuardedHit { site, key, sent, looked_up, stored, is_file: _ } = hit;
        let rule = shared.store.known_rule(key);
        Some(Arc::new(Self {
            site: Arc::clone(site),
            page: PageVariant::of(key, &looked_up.fields, rule, site.policy())?,
            stored: Arc::clone(stored),
            account,
            cookies: cookie_names(&sent.fields, site.policy()),
        }))
    }

    /// The request for the origin: a shared fetch with the client's cookies added, so that only the
    /// cookies can make a difference. `head` is the looked-up request, `sent` are the client's
    /// fields.
    pub(crate) fn request(
        &self,
        shared: &Shared,
        subject: &RequestSubject<'_>,
        head: &RequestHead,
        sent: &Fields,
    ) -> RequestHead {
        let (key, known) = (&self.page.key, shared.store.known_rule(&self.page.key));
        let mut request =
            forward::shared_head(subject, &shared.loop_mark, key, Method::Get, &head.fields, &known);
        // The cookies of the key are among the client's, which are added below.
        request.fields.remove(names::COOKIE);
        let cookies = sent.iter().filter(|field| field.is(names::COOKIE)).cloned();
        forward::with_fields(&request, cookies.collect())
    }

    /// The stored response that the client would have received; `None` if it is withheld.
    pub(crate) fn instead(&self) -> Option<(Arc<Object>, ResponseAccount)> {
        Some((Arc::clone(&self.stored), self.account?))
    }

    /// The stored response, if the origin's response with this status is not one for the page.
    pub(crate) fn instead_of(&self, status: Status) -> Option<(Arc<Object>, ResponseAccount)> {
        // The request has neither conditions nor a range, so 206, 304 and 416 do not fit it.
        let is_none =
            is_server_error(status) || is_refusal(status) || matches!(status.code(), 206 | 304 | 416);
        if is_none { self.instead() } else { None }
    }

    /// Compares the origin's response with the stored one, and investigates a difference. This runs
    /// as a separate task, so the client need not wait.
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
            let finding = self.investigate(&shared, worker, before, own).await;
            self.settle(&shared, finding);
            if finding != Finding::Changes {
                // The static tree is served to all visitors, with or without cookies.
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
        let page = (&self.page.key, &self.site.probation);
        shared.leak_guard.settle(page, &self.cookies, finding, again, now);
    }

    /// The stored response and the one with cookies, if they can be compared.
    async fn compared(
        &self,
        head: ResponseHead,
        content: Vec<u8>,
    ) -> Option<(ComparedResponse, ComparedResponse)> {
        let stored = Arc::clone(&self.stored);
        threads::run_aside(move || ComparedResponse::of(&stored).zip(ComparedResponse::new(&head, content)))
            .await
            .flatten()
    }

    /// Whether the page changes as much between fetches without cookies. It is fetched several
    /// times before cookies are blamed, because two fetches may be equal by chance.
    async fn investigate(
        &self,
        shared: &Arc<Shared>,
        worker: usize,
        before: ComparedResponse,
        own: ComparedResponse,
    ) -> Finding {
        let mut fetched = vec![before.content];
        let own = Arc::new(own);
        for _ in 0..FETCHES_MAX {
            let Some(last) = self.fetched_again(shared, worker).await else { return Finding::Unknown };
            if last.status != own.status {
                return Finding::Leak;
            }
            let (before, own) = (fetched.clone(), Arc::clone(&own));
            let explained = threads::run_aside(move || {
                (is_explained(&before, &last.content, &own.content), last.content)
            })
            .await;
            match explained {
                Some((false, last)) => fetched.push(last),
                Some((true, _)) => return Finding::Changes,
                None => return Finding::Unknown,
            }
        }
        Finding::Leak
    }

    /// The page as the origin now sends it without cookies.
    async fn fetched_again(&self, shared: &Arc<Shared>, worker: usize) -> Option<ComparedResponse> {
        let (fetch, task) = refetch::task(shared, worker, &self.site, &self.page, None, || false)?;
        task::run(task).await;
        let state = fetch.subscribe().borrow().state.clone();
        let FetchState::Shared(answer) = state else { return None };
        let object = answer.object.get().cloned()?;
        threads::run_aside(move || ComparedResponse::of(&object)).await.flatten()
    }

    fn report(&self) {
        let PageVariant { key, .. } = &self.page;
        let (host, target) = (difference::text_of(key.host()), difference::text_of(key.target()));
        tracing::warn!(
            "{}: the page {host}{target} depends on a cookie ({}) that profile {} ignores; visitors with \
             cookies now get the page from the application. Add the cookie that changes it to session_cookies",
            self.site.label(),
            self.cookies,
            self.site.policy().name
        );
    }
}

impl GuardedHit<'_> {
    /// Whether the hit can be checked. The request must want the whole response without conditions.
    /// The response must be complete, in memory and of a type that may be generated for a visitor.
    /// The origin must not be busy.
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

/// A response in the form in which it is compared.
#[derive(Debug, PartialEq, Eq)]
struct ComparedResponse {
    status: u16,
    /// The decoded content. The value of `Location` precedes it as a first line.
    content: Vec<u8>,
}

impl ComparedResponse {
    /// Prepares a response; `None` if it cannot be compared.
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
    use super::ComparedResponse;
    use message::{ResponseHead, Status};

    fn answer(fields: &[(&'static str, &'static str)], content: &[u8]) -> Option<ComparedResponse> {
        let mut head = ResponseHead::new(Status::OK);
        fields.iter().for_each(|(name, value)| head.fields.push(*name, *value));
        ComparedResponse::new(&head, content.to_vec())
    }

    #[test]
    fn location_is_compared_and_other_fields_are_not() {
        assert_ne!(answer(&[("Location", "/de/")], b"moved"), answer(&[("Location", "/en/")], b"moved"));
        assert_eq!(answer(&[("X-User", "ann"), ("Set-Cookie", "a=1")], b"page"), answer(&[], b"page"));
        assert_eq!(answer(&[("Content-Encoding", "zstd")], b"page"), None);
        assert_eq!(answer(&[("Content-Encoding", "br, gzip")], b"page"), None);
    }
}
