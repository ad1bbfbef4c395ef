//! Requests robots.txt, sitemaps and feeds for a run that fills the cache.
//!
//! Invariants: the request contains nothing of any visitor and asks for no content coding. The
//! content and the time are bounded. Nothing is stored: sitemaps of usual applications are not for
//! visitors, and a stored one may be old after a purge.

use crate::control::counters::Metric;
use crate::control::simulated_request::SimulatedRequest;
use crate::request::delivery::{ContentSource, Delivery};
use crate::request::files::{self, FileDecision};
use crate::request::forward;
use crate::request::guard::{RequestSubject, admit};
use crate::request::redirect::redirected;
use crate::request::refusal::Refusal;
use crate::shared::Shared;
use crate::upkeep::warm_pages::{question, retry_after};
use crawl::DocumentOutcome;
use message::{Fields, Method, names};
use origin::{FetchError, NoUpload, OriginEvent};
use semantics::VaryRule;
use static_files::{Content, Representation};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Largest content of a document before decompression. Sitemaps have 50,000 entries at most, which
/// are rarely longer than 200 bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest time for one document.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Requests a document as a visitor would get it.
pub(super) async fn document(shared: Arc<Shared>, url: String) -> DocumentOutcome {
    match tokio::time::timeout(TIME_MAX, requested(&shared, &url)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(why)) => DocumentOutcome::Failed(why),
        Err(_) => DocumentOutcome::Failed(format!("it is not complete after {} s", TIME_MAX.as_secs())),
    }
}

async fn requested(shared: &Arc<Shared>, url: &str) -> Result<DocumentOutcome, String> {
    let SimulatedRequest { request, arrival } = SimulatedRequest::new(shared, &question(url, &[]))?;
    let refused = |refusal: Refusal| format!("the edge answers by itself ({})", refusal.reason.name());
    let request = request.map_err(refused)?;
    let head = &request.head;
    let admitted = admit(shared, arrival, &request).map_err(refused)?;
    if admitted.password().is_some() {
        return Err("it needs a password".to_owned());
    }
    if let Some(answer) =
        redirected(shared, arrival, &admitted, head).or_else(|| admitted.answer(shared, head))
    {
        return Ok(of_answer(answer));
    }
    if let Some(directory) = admitted.directory() {
        match files::decision(shared, directory, (&head.method, &admitted.target, &head.fields)).await {
            FileDecision::Deliver(Delivery { content: ContentSource::File(found, _), .. }) => {
                return of_file(shared, found).await;
            }
            FileDecision::Deliver(_) => return Err("it is no file".to_owned()),
            FileDecision::Refuse(refusal) => return Ok(of_status(refusal.status.code())),
            FileDecision::Origin => {}
        }
    }
    let subject = admitted.subject(shared, head).map_err(refused)?;
    of_origin(shared, subject).await
}

const fn of_status(status: u16) -> DocumentOutcome {
    DocumentOutcome::Response { status, location: None, content: Vec::new(), retry_after: None }
}

/// A document that the configuration states, or whose redirect it states.
fn of_answer(answer: Refusal) -> DocumentOutcome {
    DocumentOutcome::Response {
        status: answer.status.code(),
        location: answer.location.map(String::from),
        content: answer.content.map(|stated| stated.text().as_bytes().to_vec()).unwrap_or_default(),
        retry_after: answer.retry_after_secs.map(|seconds| Duration::from_secs(seconds.into())),
    }
}

/// A document that is a file of a directory.
async fn of_file(shared: &Arc<Shared>, found: Arc<Representation>) -> Result<DocumentOutcome, String> {
    if found.bytes() > BYTES_MAX as u64 {
        return Err(too_long());
    }
    let read = shared.file_threads.run(shared.limits.disk_timeout, move || content_of(&found)).await;
    let content = read.ok_or("the disk does not answer")?.map_err(|error| error.to_string())?;
    Ok(DocumentOutcome::Response { status: 200, location: None, content, retry_after: None })
}

fn content_of(found: &Representation) -> io::Result<Vec<u8>> {
    match found.content() {
        Content::Memory(bytes) => Ok(bytes.to_vec()),
        Content::File(file) => {
            let mut content = vec![0; usize::try_from(found.bytes()).unwrap_or(BYTES_MAX)];
            file.read_exact_at(&mut content, 0)?;
            Ok(content)
        }
    }
}

fn too_long() -> String {
    format!("it has more than {BYTES_MAX} bytes")
}

async fn of_origin(shared: &Arc<Shared>, subject: RequestSubject<'_>) -> Result<DocumentOutcome, String> {
    let subject = RequestSubject { peer: None, trusted: false, ..subject };
    let key = subject.key();
    let known = VaryRule::default();
    let mut head =
        forward::shared_head(&subject, &shared.loop_mark, &key, Method::Get, &Fields::new(), &known);
    head.fields.remove(names::ACCEPT_ENCODING);
    let mut request = forward::without_content(&head).map_err(|error| error.to_string())?;
    request.probe = subject.site.origin.claim_probe();
    let told = |error: FetchError| error.to_string();
    let mut exchange = subject.site.origin.fetch(request).await.map_err(told)?;
    shared.cells(0).count(Metric::OriginFetches);
    let (mut received, mut content) = (None, Vec::new());
    loop {
        match exchange.next(&mut NoUpload).await.map_err(told)? {
            OriginEvent::Informational(_) => {}
            OriginEvent::Head { head, .. } => received = Some(head),
            OriginEvent::Data(bytes) if content.len() + bytes.len() > BYTES_MAX => return Err(too_long()),
            OriginEvent::Data(bytes) => content.extend_from_slice(&bytes),
            OriginEvent::End(_) => break,
        }
    }
    let head = received.ok_or("it has no head")?;
    let location = head.fields.only(names::LOCATION);
    Ok(DocumentOutcome::Response {
        status: head.status.code(),
        location: location.map(|location| String::from_utf8_lossy(location).into_owned()),
        content,
        retry_after: retry_after(&head.fields),
    })
}
