//! Assembles a page from an ESI template and its fragments.
//!
//! Invariants: only a response that declares itself a template is parsed, or HTML of a site or
//! route that says so; fragments and substituted values are not, unless a fragment is a template
//! too and was assembled by its own request. All fragments that the request needs are requested
//! before the first byte is sent, and no byte waits for a fragment behind it. A fragment that is
//! missing leaves what the template says, or a comment: a page is never complete without saying so.
//! A page with something that may differ between visitors is stored by nobody.

use crate::control::counters::Metric;
use crate::fetch::body_repair::BodyRepair;
use crate::fetch::coalesced_fetch::StreamedResponse;
use crate::request::client::ClientConnection;
use crate::request::decoded::CodedSource;
use crate::request::delivery::{ContentSource, Delivery};
use crate::request::fragment::{FragmentContent, FragmentSource, PendingFragment};
use crate::request::fragment_place::{FragmentPlace, StoredFragment};
use crate::request::fragment_url::{query_of, text_of_path};
use crate::request::interrupted::Interrupted;
use crate::request::lookup::FetchOrder;
use crate::request::refusal::Refusal;
use crate::request::respond::{Recipient, ResponseAccount};
use crate::request::visit::{RequestOutcome, Visit};
use crate::sites::Site;
use bytes::Bytes;
use config::is_about_storing;
use encoding::{CodedPart, GZIP_HEAD, JoinedGzip, coded_texts, slices};
use esi::{Consequence, Fetch, Limits, Program, Run, Span, Step, TemplateError, Values};
use h1::BodyFraming;
use message::{Fields, RequestHead, ResponseHead, Status, names};
use profiles::DeviceClass;
use semantics::{AcceptedCodings, Coding, DirectiveScope, Directives, Moment, declares_esi, is_html_type};
use std::borrow::Cow;
use std::sync::Arc;
use store::{Body, CodedForm, Object, StoredTemplate, Template};

/// What a page has in the place of a fragment that is missing without the template's permission.
const GAP: &[u8] = b"<!-- a fragment of this page is missing -->";

/// Bytes of content that are gathered for one chunk. The store, the page's budget or a constant has
/// the memory of all of them: the page holds the stored template and its form until it ends, and
/// has taken the bytes of its fragments.
const GATHERED_BYTES_MAX: usize = 64 * 1024;

/// Why a response to a request for a part is no template.
const IS_PART: &str = "it is a part of a response";

/// Fields that speak of the template's own bytes.
const OF_BYTES: [&str; 8] = [
    names::ETAG,
    names::LAST_MODIFIED,
    names::CONTENT_LENGTH,
    names::ACCEPT_RANGES,
    "Content-MD5",
    "Digest",
    "Content-Digest",
    "Repr-Digest",
];

/// Fields that say how long a response may be stored and for which requests. Those for particular
/// caches are not sent with a private response.
const OF_STORING: [&str; 3] = [names::CACHE_CONTROL, names::AGE, "No-Vary-Search"];

/// The disk did not give the stored template of a page. The request is looked up again, and fetches
/// the page.
pub(crate) struct Unread;

/// Why no page can be assembled from a response.
enum NoTemplate {
    /// It cannot be a template, for this reason.
    Refused(Cow<'static, str>),
    /// Other requests use the memory for contents in transfer.
    MemoryIsShort,
    /// The disk did not give it.
    Unread,
}

impl From<&'static str> for NoTemplate {
    fn from(why: &'static str) -> Self {
        Self::Refused(why.into())
    }
}

impl From<&TemplateError> for NoTemplate {
    fn from(error: &TemplateError) -> Self {
        Self::Refused(error.to_string().into())
    }
}

/// Whether a response is a template. The site must have ESI. `undeclared`: HTML is one even if it
/// does not declare it.
fn is_template(content: &ContentSource, undeclared: bool) -> bool {
    let head = match content {
        ContentSource::Stored(object) => return object.template().is_some(),
        ContentSource::Filling { answer, .. } => &answer.head,
        ContentSource::Claimed(response)
        | ContentSource::Own(response)
        | ContentSource::SuspectedWrite(response, _)
        | ContentSource::Watched(response, _) => &response.head,
        ContentSource::Switch(..) | ContentSource::File(..) => return false,
    };
    let is_html = || head.fields.first(names::CONTENT_TYPE).is_some_and(|value| is_html_type(value));
    let lines = head.fields.all(names::SURROGATE_CONTROL).map(|value| &value[..]);
    !head.status.has_no_content() && (declares_esi(lines) || undeclared && is_html())
}

/// A template with its head.
struct Parent {
    head: ResponseHead,
    text: Bytes,
    parsed: Arc<Template>,
    /// The stored response with the text, so that its memory is counted until the page ends.
    stored: Option<Arc<Object>>,
}

impl Visit<'_> {
    /// Whether a page is assembled from the response.
    pub(crate) fn is_assembled(&self, content: &ContentSource) -> bool {
        self.site.is_some_and(|site| site.plan.esi && is_template(content, site.plan.esi_undeclared))
    }

    /// Sends the page that a template describes.
    ///
    /// # Errors
    /// [`Unread`], before anything is sent. At most once for each request.
    pub(crate) async fn assemble(&mut self, delivery: Delivery) -> Result<RequestOutcome, Unread> {
        let Delivery { content, account } = delivery;
        // The rest of the request's content may never arrive.
        self.recipient.persistent &= self.client.is_content_read();
        if let ContentSource::Filling { answer, .. } = &content {
            self.notes.fetch = answer.phases;
        }
        let place = match self.client.fragment_of() {
            Some(place) => place.within(),
            None => FragmentPlace::of_page(self.shared.buffers.memory()),
        };
        self.coded_by = self.rules_for(&content);
        let gzip = self.gzip_of_page(&content, &place);
        let place = if gzip.is_some() { place.with_forms() } else { place };
        let parent = match self.parent(content, &place).await {
            Ok(parent) => parent,
            Err(NoTemplate::Unread) if self.must_fetch != Some(FetchOrder::Unread) => {
                self.must_fetch = Some(FetchOrder::Unread);
                return Err(Unread);
            }
            Err(why) => return Ok(self.refuse_template(&why).await),
        };
        match &*parent.parsed {
            Ok(program) => Ok(self.send_assembled(&parent, program, (gzip, place), &account).await),
            Err(error) => Ok(self.refuse_template(&error.into()).await),
        }
    }

    /// Sends the page of a template that was read.
    async fn send_assembled(
        &mut self,
        parent: &Parent,
        program: &Program,
        (gzip, place): (Option<PageGzip>, FragmentPlace),
        account: &ResponseAccount,
    ) -> RequestOutcome {
        self.cells().count(Metric::EsiPages);
        self.tell_faults(program);
        let request = &self.request.head;
        let host = request.fields.only(names::HOST).cloned().unwrap_or_default();
        let cookies = self.permitted_cookies(&request.fields);
        let run = Run::new(program, &parent.text, values_of(request, &host, &cookies));
        let source = FragmentSource::of(self, place);
        let pending = if self.recipient.head_only { Vec::new() } else { begun(&run, &source).await };
        let is_dynamic = self.recipient.head_only || program.is_dynamic();
        let lifetime = if is_dynamic { self.shortest_lifetime(parent, program, &pending) } else { None };
        let mut head = page_head(&parent.head, is_dynamic, lifetime);
        if gzip.is_some() {
            self.count_form(Coding::Gzip);
            head.fields.push(names::CONTENT_ENCODING, "gzip");
        }
        // No setting and no field for one kind of caches may let the page be stored.
        self.recipient.is_private |= is_dynamic && lifetime.is_none();
        // The content of a template is not read for HEAD, so that its program says nothing.
        let account = match is_dynamic {
            true => ResponseAccount { age_secs: None, ..*account },
            false => *account,
        };
        let written = self.write_head(&head, BodyFraming::Chunked, &account);
        if written.framing == BodyFraming::Empty {
            self.client.push_head(&written);
            let sent = self.client.flush().await.map_err(Interrupted::from);
            return self.outcome(head.status, account.reason, 0, sent, &written);
        }
        self.begin(&written);
        let framing = written.framing;
        let mut page = Page::new(self.client, framing, source, gzip, pending);
        let sent = page.send(run, &parent.text).await;
        let content_bytes = page.content_bytes;
        self.outcome(head.status, account.reason, content_bytes, sent, &written)
    }

    /// The seconds for which a browser may keep the page, if the site wants that: all parts are
    /// stored, in memory, the same for all visitors, and state a lifetime for browsers.
    fn shortest_lifetime(
        &self,
        parent: &Parent,
        program: &Program,
        pending: &[PendingFragment],
    ) -> Option<u64> {
        let site = self.site.filter(|site| site.plan.esi_shortest_lifetime)?;
        let has_all = program.include_count() == pending.len() && !self.recipient.head_only;
        let is_same = program.is_same_for_all() && is_for_all(self.recipient, site);
        if !has_all || !is_same || self.client.fragment_of().is_some() {
            return None;
        }
        let now = self.now();
        let own = browser_secs(parent.stored.as_ref()?, now)?;
        pending.iter().try_fold(own, |shortest, pending| {
            let stored = pending.stored().filter(|stored| stored.is_for_all)?;
            Some(shortest.min(browser_secs(&stored.object, now)?))
        })
    }

    /// The gzip with which the page is sent, if its client accepts it, the stored template has its
    /// form, and the page has memory for the list of its texts. Costs a template without a form one
    /// branch.
    fn gzip_of_page(&self, content: &ContentSource, place: &FragmentPlace) -> Option<PageGzip> {
        let accepted = AcceptedCodings::of(&self.request.head.fields);
        let CodedForm { coding: Coding::Gzip, object } = self.chosen(content, accepted)? else { return None };
        if self.is_selected_by_cookie() {
            return None;
        }
        let form = object.body();
        let texts = coded_texts(form.chunks())?;
        let has_memory = place.take_bytes(texts.capacity() * size_of::<CodedPart>());
        has_memory.then(|| PageGzip { texts, form, _object: object, joined: JoinedGzip::default() })
    }

    async fn refuse_template(&mut self, why: &NoTemplate) -> RequestOutcome {
        let target = &self.request.head.target;
        let refusal = match why {
            NoTemplate::Refused(why) => Refusal::template(target, why),
            NoTemplate::MemoryIsShort => Refusal::template_without_memory(target, "memory is short"),
            NoTemplate::Unread => Refusal::template(target, "the disk does not give it"),
        };
        let refusal = match self.site {
            Some(site) => site.refusal(|_| refusal),
            None => refusal,
        };
        self.refuse(refusal).await
    }

    /// Reads a template.
    ///
    /// # Errors
    /// Why the response cannot be one.
    async fn parent(&self, content: ContentSource, place: &FragmentPlace) -> Result<Parent, NoTemplate> {
        let (mut suspected, mut observer, mut stored) = (None, None, None);
        let repair = BodyRepair::of(self);
        let (head, mut source, parsed) = match content {
            ContentSource::Stored(object) => {
                if object.part().is_some() {
                    return Err(IS_PART.into());
                }
                let parsed = match object.template() {
                    Some(StoredTemplate::Parsed(template)) => Some(Arc::clone(template)),
                    Some(StoredTemplate::OnDisk) | None => None,
                };
                // It may be too long for its text to be read.
                if let Some(Err(error)) = parsed.as_deref() {
                    return Err(error.into());
                }
                let object = stored.insert(object);
                (object.head(), CodedSource::stored(object, &repair), parsed)
            }
            ContentSource::Filling { answer, reader, own } => {
                let head = answer.own_head.as_ref().filter(|_| own).unwrap_or(&answer.head);
                (head.clone(), CodedSource::Filling(reader), None)
            }
            ContentSource::Claimed(response) | ContentSource::Own(response) => of_exchange(response),
            ContentSource::SuspectedWrite(response, write) => {
                suspected = Some(write);
                of_exchange(response)
            }
            ContentSource::Watched(response, watcher) => {
                observer = Some(watcher.observer);
                of_exchange(response)
            }
            ContentSource::Switch(..) | ContentSource::File(..) => {
                return Err("it is no response of an origin".into());
            }
        };
        let refused = refused_head(&head);
        let mut text = Bytes::new();
        // The content of a write says what it has changed, even if it is no page.
        let is_read = !self.recipient.head_only && (refused.is_none() || suspected.is_some());
        let arrived = if is_read { collected(&mut source, place, &mut text).await } else { Ok(()) };
        drop(source);
        if let Some(suspected) = suspected {
            self.settle_suspected(&suspected, &head, &text).await;
        }
        if let Some(why) = refused {
            return Err(why.into());
        }
        arrived?;
        if let Some(observer) = observer {
            observer(&head, text.to_vec());
        }
        let parsed = match parsed {
            Some(parsed) => parsed,
            None => parsed_within(place, &text)?,
        };
        Ok(Parent { head, text, parsed, stored })
    }

    /// Tells the operator what is wrong with the markup of a template.
    fn tell_faults(&self, program: &Program) {
        let Some(fault) = program.faults().first() else { return };
        self.cells().add(Metric::EsiFaults, program.fault_count() as u64);
        let target = text_of_path(&self.request.head.target);
        let text = format!(
            "the ESI template of {target} has {} faults; the first is {:?} at its byte {}",
            program.fault_count(),
            fault.kind,
            fault.at
        );
        self.shared.complaints.tell(&text, self.now().monotonic);
    }

    /// The cookies that templates of the site may use.
    fn permitted_cookies(&self, fields: &Fields) -> Vec<u8> {
        let patterns = self.site.map_or(&[][..], |site| &site.plan.esi_cookies);
        if patterns.is_empty() {
            return Vec::new();
        }
        let cookies = fields.all(names::COOKIE).flat_map(|line| line.split(|byte| *byte == b';'));
        let is_permitted = |cookie: &&[u8]| {
            let name = cookie.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            patterns.iter().any(|pattern| pattern.matches(name))
        };
        cookies.filter(is_permitted).collect::<Vec<_>>().join(&b';')
    }
}

fn of_exchange<'a>(response: StreamedResponse) -> (ResponseHead, CodedSource<'a>, Option<Arc<Template>>) {
    (response.head, CodedSource::Exchange(response.exchange, None), None)
}

/// The program of a template that is not stored with one. It counts towards the page.
fn parsed_within(place: &FragmentPlace, text: &[u8]) -> Result<Arc<Template>, NoTemplate> {
    let parsed = Program::parse(text, &Limits::default());
    let bytes = parsed.as_ref().map_or(0, Program::bytes);
    if place.take_bytes(bytes) { Ok(Arc::new(parsed)) } else { Err(NoTemplate::MemoryIsShort) }
}

/// Why no response with this head is a template.
fn refused_head(head: &ResponseHead) -> Option<&'static str> {
    if head.status == Status::PARTIAL_CONTENT {
        return Some(IS_PART);
    }
    head.fields.has(names::CONTENT_ENCODING).then_some("it is compressed")
}

/// Reads the whole content of a source into `text`, in one piece. Its bytes count towards the page.
/// `text` has what arrived, also after an error.
async fn collected(
    source: &mut CodedSource<'_>,
    place: &FragmentPlace,
    text: &mut Bytes,
) -> Result<(), NoTemplate> {
    let bytes_max = Limits::default().template_bytes_max as usize;
    if let CodedSource::Pieces(pieces) = source
        && pieces.len() <= 1
    {
        // It is a part of the store and needs no copy.
        *text = pieces.pop_front().unwrap_or_default();
        return Ok(());
    }
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    let arrived = loop {
        let piece = match source.next().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break Ok(()),
            Err(Interrupted::Damage) => break Err(NoTemplate::Unread),
            Err(_) => break Err("it did not arrive completely".into()),
        };
        if bytes + piece.len() > bytes_max {
            break Err("it is too long".into());
        }
        if !place.take_bytes(piece.len()) {
            break Err(NoTemplate::MemoryIsShort);
        }
        bytes += piece.len();
        pieces.push(piece);
    };
    if arrived.is_err() {
        // A fragment leaves the bytes to its page.
        place.give_back(bytes);
    }
    *text = match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    };
    arrived
}

/// Whether every visitor gets the same stored response for a URL, as far as settings and rules of
/// its site say.
pub(crate) fn is_for_all(recipient: Recipient<'_>, site: &Site) -> bool {
    let policy = site.policy();
    policy.keyed_cookies.is_empty()
        && policy.device_class == DeviceClass::None
        && !recipient.is_private
        && recipient.vary.is_none()
        && recipient.fields.is_none()
}

/// What variables refer to in the request for a page.
fn values_of<'r>(request: &'r RequestHead, host: &'r [u8], cookies: &'r [u8]) -> Values<'r> {
    let first = |name| request.fields.first(name).map_or(&b""[..], |value| value);
    Values {
        host,
        cookies,
        accept_language: first("Accept-Language"),
        user_agent: first(names::USER_AGENT),
        referer: first("Referer"),
        query: query_of(&request.target),
    }
}

/// Requests the fragments that the page needs. Those for which it has no memory now are requested
/// when the page comes to them.
async fn begun(run: &Run<'_>, source: &FragmentSource) -> Vec<PendingFragment> {
    let may_wait = |fetch: &Fetch| source.place.take_bytes(fetch.url_bytes());
    let mut pending = Vec::new();
    for fetch in run.ahead().into_iter().take_while(may_wait) {
        pending.push(source.begin(fetch).await);
    }
    pending
}

/// The seconds for which browsers may keep a stored response from now on. `None` if it does not say
/// so, or differs between requests.
fn browser_secs(object: &Object, now: Moment) -> Option<u64> {
    let head = object.head();
    let differs = |name: &[u8]| !name.eq_ignore_ascii_case(names::ACCEPT_ENCODING.as_bytes());
    let stated = Directives::of_response(&head.fields);
    let is_kept = !stated.no_store
        && stated.no_cache == DirectiveScope::Nothing
        && stated.private == DirectiveScope::Nothing
        && !stated.must_understand
        && !head.fields.list(names::VARY).any(differs);
    let left = u64::from(stated.max_age_secs?).checked_sub(object.freshness().age(now).as_secs())?;
    (is_kept && left > 0).then_some(left)
}

/// The head of the assembled page. `lifetime`: the seconds for which a browser may keep it although
/// it is dynamic.
fn page_head(template: &ResponseHead, is_dynamic: bool, lifetime: Option<u64>) -> ResponseHead {
    let mut head = template.clone();
    let removed = |name: &str| OF_BYTES.contains(&name) || is_dynamic && OF_STORING.contains(&name);
    OF_BYTES.iter().chain(&OF_STORING).filter(|name| removed(name)).for_each(|name| {
        head.fields.remove(name);
    });
    match lifetime.filter(|_| is_dynamic) {
        // Shared caches would need the tags of all fragments for purges.
        Some(secs) => {
            head.fields.retain(|field| !is_about_storing(&field.name));
            head.fields.push(names::CACHE_CONTROL, format!("private, max-age={secs}"));
        }
        None if is_dynamic => head.fields.push(names::CACHE_CONTROL, "private, no-store"),
        None => {}
    }
    head
}

/// The gzip of a page.
struct PageGzip {
    /// The texts of the template that are coded, and the content of the form with their deflate
    /// data. The page's budget has the memory of the list.
    texts: Vec<CodedPart>,
    form: Body,
    /// The form. The store counts the memory of a response that it evicted while it is held.
    _object: Arc<Object>,
    joined: JoinedGzip,
}

/// A part of a page.
enum PagePart {
    Plain(Bytes),
    /// Deflate data in pieces, for a page with gzip.
    Coded(CodedPart, Vec<Bytes>),
}

impl PagePart {
    /// The parts of a stored response.
    fn of_stored(stored: StoredFragment) -> Vec<Self> {
        let body = stored.object.body();
        match stored.coded {
            None => body.chunks().iter().cloned().map(Self::Plain).collect(),
            Some(part) => {
                let pieces = slices(body.chunks(), part.coded.clone()).collect();
                vec![Self::Coded(part, pieces)]
            }
        }
    }
}

/// A page that is being sent.
struct Page<'v> {
    client: &'v mut ClientConnection,
    framing: BodyFraming,
    source: FragmentSource,
    gzip: Option<PageGzip>,
    /// The fragments that were requested, in the order of the page.
    pending: Vec<PendingFragment>,
    /// The output of attempts that are not decided.
    held: Vec<PagePart>,
    /// For each attempt, the number of pieces held before it.
    marks: Vec<usize>,
    /// Content that comes next and is not queued yet.
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    content_bytes: u64,
}

impl<'v> Page<'v> {
    fn new(
        client: &'v mut ClientConnection,
        framing: BodyFraming,
        source: FragmentSource,
        gzip: Option<PageGzip>,
        pending: Vec<PendingFragment>,
    ) -> Self {
        Self {
            client,
            framing,
            source,
            gzip,
            pending,
            held: Vec::new(),
            marks: Vec::new(),
            gathered: Vec::new(),
            gathered_bytes: 0,
            content_bytes: 0,
        }
    }

    async fn send(&mut self, mut run: Run<'_>, template: &Bytes) -> Result<(), Interrupted> {
        if self.gzip.is_some() {
            self.gather(Bytes::from_static(&GZIP_HEAD));
        }
        loop {
            match run.next() {
                Step::Text(place) => {
                    let text = self.text(template, place);
                    self.put(text).await?;
                }
                Step::Value(value) => {
                    if !self.source.place.take_bytes(value.len()) {
                        return Err(Interrupted::Source(None));
                    }
                    self.put(PagePart::Plain(value.into())).await?;
                }
                Step::Fetch(fetch) => match self.fragment(fetch).await? {
                    Some(parts) => {
                        for part in parts {
                            self.put(part).await?;
                        }
                    }
                    None => match run.failed() {
                        Consequence::Skipped => {}
                        Consequence::Excepted => {
                            self.held.truncate(self.marks.pop().unwrap_or(0));
                            // The rest of the attempt needs its fragments no more.
                            self.pending.retain(|pending| pending.id >= run.position());
                        }
                        Consequence::Lacking => {
                            self.source.count(Metric::EsiGaps);
                            self.put(PagePart::Plain(Bytes::from_static(GAP))).await?;
                        }
                    },
                },
                Step::Attempt => self.marks.push(self.held.len()),
                Step::Commit => {
                    self.marks.pop();
                    if self.marks.is_empty() {
                        for part in std::mem::take(&mut self.held) {
                            self.put(part).await?;
                        }
                    }
                }
                Step::Done => break,
            }
        }
        if let Some(gzip) = &self.gzip {
            let end = gzip.joined.end();
            self.gather(end);
        }
        self.pass_on();
        self.client.push_end(self.framing, None);
        self.client.flush().await.map_err(Interrupted::from)
    }

    /// A text of the template.
    fn text(&self, template: &Bytes, place: Span) -> PagePart {
        let coded = self.gzip.as_ref().and_then(|gzip| {
            let number = gzip.texts.binary_search_by_key(&place.begin, |text| text.begin).ok()?;
            let text = gzip.texts.get(number).filter(|text| text.bytes == place.end - place.begin)?;
            Some((text.clone(), slices(gzip.form.chunks(), text.coded.clone()).collect()))
        });
        match coded {
            Some((text, pieces)) => PagePart::Coded(text, pieces),
            None => PagePart::Plain(template.slice(place.begin as usize..place.end as usize)),
        }
    }

    /// The content of a fragment. The client gets all that precedes it before the wait for it.
    async fn fragment(&mut self, fetch: Fetch) -> Result<Option<Vec<PagePart>>, Interrupted> {
        let place = self.pending.iter().position(|pending| pending.id == fetch.id);
        let pending = match place {
            Some(place) => self.pending.remove(place),
            None => self.source.begin(fetch).await,
        };
        if !pending.is_here() {
            self.pass_on();
            self.client.flush().await?;
        }
        Ok(match pending.content().await {
            Some(FragmentContent::Stored(stored)) => Some(PagePart::of_stored(stored)),
            Some(FragmentContent::Sent(content)) => Some(vec![PagePart::Plain(content)]),
            None => None,
        })
    }

    /// Sends a part, or holds it back during an attempt.
    async fn put(&mut self, part: PagePart) -> Result<(), Interrupted> {
        if !self.marks.is_empty() {
            self.held.push(part);
            return Ok(());
        }
        match (self.gzip.as_mut().map(|gzip| &mut gzip.joined), part) {
            (None, PagePart::Plain(content)) => self.gather(content),
            (Some(joined), PagePart::Plain(content)) => {
                let mut blocks = Vec::with_capacity(2);
                joined.plain(&content, |block| blocks.push(block));
                blocks.into_iter().for_each(|block| self.gather(block));
            }
            (Some(joined), PagePart::Coded(part, pieces)) => {
                joined.coded(&part);
                pieces.into_iter().for_each(|piece| self.gather(piece));
            }
            // No page without gzip takes forms.
            (None, PagePart::Coded(..)) => return Err(Interrupted::Source(None)),
        }
        if self.gathered_bytes >= GATHERED_BYTES_MAX {
            self.pass_on();
            if !self.client.has_room(self.source.memory()) {
                self.client.flush().await?;
            }
        }
        Ok(())
    }

    fn gather(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.gathered_bytes += piece.len();
            self.gathered.push(piece);
        }
    }

    /// Queues what was gathered, in one chunk.
    fn pass_on(&mut self) {
        // An empty chunk would end the content.
        if self.gathered_bytes == 0 {
            return;
        }
        let bytes = std::mem::take(&mut self.gathered_bytes);
        self.content_bytes += bytes as u64;
        self.client.push_gathered(self.framing, bytes, self.gathered.drain(..));
    }
}
