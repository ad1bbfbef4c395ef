//! Assembles a page from an ESI template and its fragments.
//!
//! Invariants: only a response that declares itself a template is parsed; fragments and substituted
//! values are not, unless a fragment declares it too and was assembled by its own request. All
//! fragments that the request needs are requested before the first byte is sent, and no byte waits
//! for a fragment behind it. A fragment that is missing leaves what the template says, or a
//! comment: a page is never complete without saying so. A page with something that may differ
//! between visitors is stored by nobody.

use crate::control::counters::Metric;
use crate::fetch::body_repair::BodyRepair;
use crate::fetch::coalesced_fetch::StreamedResponse;
use crate::request::client::ClientConnection;
use crate::request::decoded::CodedSource;
use crate::request::delivery::ContentSource;
use crate::request::fragment::{FragmentSource, PendingFragment};
use crate::request::fragment_url::query_of;
use crate::request::interrupted::Interrupted;
use crate::request::refusal::Refusal;
use crate::request::respond::ResponseAccount;
use crate::request::visit::{RequestOutcome, Visit};
use bytes::Bytes;
use esi::{Consequence, Fetch, Limits, Program, Run, Step, Values};
use h1::BodyFraming;
use message::{Fields, ResponseHead, Status, names};
use semantics::declares_esi;
use std::sync::Arc;
use store::Template;

/// What a page has in the place of a fragment that is missing without the template's permission.
const GAP: &[u8] = b"<!-- a fragment of this page is missing -->";

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

/// Fields that say how long a response may be stored.
const OF_STORING: [&str; 6] = [
    names::CACHE_CONTROL,
    names::CDN_CACHE_CONTROL,
    names::EXPIRES,
    names::PRAGMA,
    names::AGE,
    "No-Vary-Search",
];

/// Whether a response declares that it is a template. The site must have ESI.
pub(crate) fn is_template(content: &ContentSource) -> bool {
    match content {
        ContentSource::Stored(object) => object.template().is_some(),
        ContentSource::Filling { answer, .. } => declares(&answer.head),
        ContentSource::Claimed(response)
        | ContentSource::Own(response)
        | ContentSource::SuspectedWrite(response, _)
        | ContentSource::Watched(response, _) => declares(&response.head),
        ContentSource::Switch(..) | ContentSource::File(..) => false,
    }
}

fn declares(head: &ResponseHead) -> bool {
    let lines = head.fields.all(names::SURROGATE_CONTROL).map(|value| &value[..]);
    !head.status.has_no_content() && declares_esi(lines)
}

/// A template with its head.
struct Parent {
    head: ResponseHead,
    text: Bytes,
    parsed: Arc<Template>,
}

impl Visit<'_> {
    /// Sends the page that a template describes.
    pub(crate) async fn assemble(
        &mut self,
        content: ContentSource,
        account: &ResponseAccount,
    ) -> RequestOutcome {
        if let ContentSource::Filling { answer, .. } = &content {
            self.notes.fetch = answer.phases;
        }
        let parent = match self.parent(content).await {
            Ok(parent) => parent,
            Err(why) => return self.refuse_template(why).await,
        };
        let program = match &*parent.parsed {
            Ok(program) => program,
            Err(error) => return self.refuse_template(&error.to_string()).await,
        };
        self.cells().count(Metric::EsiPages);
        self.tell_faults(program);
        let head = page_head(&parent.head, self.recipient.head_only || program.is_dynamic());
        let account = match program.is_dynamic() {
            true => ResponseAccount { age_secs: None, ..*account },
            false => *account,
        };
        let written = self.write_head(&head, BodyFraming::Chunked, &account);
        if written.framing == BodyFraming::Empty {
            self.client.push_head(&written);
            let sent = self.client.flush().await.map_err(Interrupted::from);
            return self.outcome(head.status, account.reason, 0, sent, &written);
        }
        let request = &self.request.head;
        let host = request.fields.only(names::HOST).cloned().unwrap_or_default();
        let cookies = self.permitted_cookies(&request.fields);
        let first = |name| request.fields.first(name).map_or(&b""[..], |value| value);
        let values = Values {
            host: &host,
            cookies: &cookies,
            accept_language: first("Accept-Language"),
            user_agent: first(names::USER_AGENT),
            referer: first("Referer"),
            query: query_of(&request.target),
        };
        let source = FragmentSource::of(self);
        let run = Run::new(program, &parent.text, values);
        let pending = run.ahead().into_iter().map(|fetch| source.begin(fetch)).collect();
        self.begin(&written);
        let mut page = Page {
            client: self.client,
            framing: written.framing,
            source,
            pending,
            held: Vec::new(),
            marks: Vec::new(),
            content_bytes: 0,
        };
        let sent = page.send(run, &parent.text).await;
        let content_bytes = page.content_bytes;
        self.outcome(head.status, account.reason, content_bytes, sent, &written)
    }

    async fn refuse_template(&mut self, why: &str) -> RequestOutcome {
        let refusal = Refusal::template(&self.request.head.target, why);
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
    async fn parent(&self, content: ContentSource) -> Result<Parent, &'static str> {
        let (mut suspected, mut observer) = (None, None);
        let repair = BodyRepair::of(self);
        let (head, mut source, parsed) = match content {
            ContentSource::Stored(object) => {
                if object.part().is_some() {
                    return Err("it is a part of a response");
                }
                (object.head(), CodedSource::stored(&object, &repair), object.template().cloned())
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
                return Err("it is no response of an origin");
            }
        };
        if head.status == Status::PARTIAL_CONTENT {
            return Err("it is a part of a response");
        }
        if head.fields.has(names::CONTENT_ENCODING) {
            return Err("it is compressed");
        }
        let bytes_max = Limits::default().template_bytes_max as usize;
        let text =
            if self.recipient.head_only { Bytes::new() } else { collected(&mut source, bytes_max).await? };
        drop(source);
        if let Some(suspected) = suspected {
            self.settle_suspected(&suspected, &head, &text).await;
        }
        if let Some(observer) = observer {
            observer(&head, text.to_vec());
        }
        let parsed = parsed.unwrap_or_else(|| Arc::new(Program::parse(&text, &Limits::default())));
        Ok(Parent { head, text, parsed })
    }

    /// Tells the operator what is wrong with the markup of a template.
    fn tell_faults(&self, program: &Program) {
        let Some(fault) = program.faults().first() else { return };
        self.cells().add(Metric::EsiFaults, program.fault_count() as u64);
        let target = String::from_utf8_lossy(&self.request.head.target).into_owned();
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

/// The whole content of a source, in one piece.
async fn collected(source: &mut CodedSource<'_>, bytes_max: usize) -> Result<Bytes, &'static str> {
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    while let Some(piece) = source.next().await.map_err(|_| "it did not arrive completely")? {
        bytes += piece.len();
        if bytes > bytes_max {
            return Err("it is too long");
        }
        pieces.push(piece);
    }
    match pieces.len() {
        0 | 1 => Ok(pieces.pop().unwrap_or_default()),
        _ => Ok(pieces.concat().into()),
    }
}

/// The head of the assembled page.
fn page_head(template: &ResponseHead, is_dynamic: bool) -> ResponseHead {
    let mut head = template.clone();
    let removed = |name: &str| OF_BYTES.contains(&name) || is_dynamic && OF_STORING.contains(&name);
    OF_BYTES.iter().chain(&OF_STORING).filter(|name| removed(name)).for_each(|name| {
        head.fields.remove(name);
    });
    if is_dynamic {
        head.fields.push(names::CACHE_CONTROL, "private, no-store");
    }
    head
}

/// A page that is being sent.
struct Page<'v> {
    client: &'v mut ClientConnection,
    framing: BodyFraming,
    source: FragmentSource,
    /// The fragments that were requested, in the order of the page.
    pending: Vec<PendingFragment>,
    /// The output of attempts that are not decided.
    held: Vec<Bytes>,
    /// For each attempt, the number of pieces held before it.
    marks: Vec<usize>,
    content_bytes: u64,
}

impl Page<'_> {
    async fn send(&mut self, mut run: Run<'_>, template: &Bytes) -> Result<(), Interrupted> {
        loop {
            match run.next() {
                Step::Text(place) => {
                    self.put(template.slice(place.begin as usize..place.end as usize)).await?;
                }
                Step::Value(value) => {
                    if !self.source.place.take_bytes(value.len()) {
                        return Err(Interrupted::Source(None));
                    }
                    self.put(value.into()).await?;
                }
                Step::Fetch(fetch) => match self.fragment(fetch).await? {
                    Some(content) => self.put(content).await?,
                    None => match run.failed() {
                        Consequence::Skipped => {}
                        Consequence::Excepted => self.held.truncate(self.marks.pop().unwrap_or(0)),
                        Consequence::Lacking => {
                            self.source.count(Metric::EsiGaps);
                            self.put(Bytes::from_static(GAP)).await?;
                        }
                    },
                },
                Step::Attempt => self.marks.push(self.held.len()),
                Step::Commit => {
                    self.marks.pop();
                    if self.marks.is_empty() {
                        for piece in std::mem::take(&mut self.held) {
                            self.put(piece).await?;
                        }
                    }
                }
                Step::Done => break,
            }
        }
        self.client.push_end(self.framing, None);
        self.client.flush().await.map_err(Interrupted::from)
    }

    /// The content of a fragment. The client gets all that precedes it before the wait for it.
    async fn fragment(&mut self, fetch: Fetch) -> Result<Option<Bytes>, Interrupted> {
        let place = self.pending.iter().position(|pending| pending.id == fetch.id);
        let pending = match place {
            Some(place) => self.pending.remove(place),
            None => self.source.begin(fetch),
        };
        if !pending.is_here() {
            self.client.flush().await?;
        }
        Ok(pending.content().await)
    }

    /// Sends a piece, or holds it back during an attempt.
    async fn put(&mut self, piece: Bytes) -> Result<(), Interrupted> {
        // An empty chunk would end the content.
        if piece.is_empty() {
            return Ok(());
        }
        if !self.marks.is_empty() {
            self.held.push(piece);
            return Ok(());
        }
        self.content_bytes += piece.len() as u64;
        self.client.push_content(self.framing, piece);
        if !self.client.has_room(self.source.memory()) {
            self.client.flush().await?;
        }
        Ok(())
    }
}
