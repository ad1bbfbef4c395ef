//! The encoder thread: makes the coded forms of stored responses, one response at a time.
//!
//! Invariants: forms are added only to the response of which they were made, while it is stored and
//! valid; the store checks this under its lock. A client's request never waits for the thread,
//! which has the lowest priority. Its memory is bounded by the settings of the site and by the
//! windows of the encoders.

use crate::control::counters::Metric;
use crate::fetch::stored::coded_form;
use crate::memory::encodings::EncodingOrder;
use crate::shared::Shared;
use crate::upkeep::supervisor::{self, ThreadEnd};
use defects::{Defect, is_planted};
use encoding::{Source, Unencodable, encode, encode_texts};
use message::ResponseHead;
use semantics::{Coding, CompressionRules, is_gzip};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use store::{Body, CodedForm, Object, StoredTemplate};
use threads::JoinHandle;

/// Nice value of the thread: everything else goes first.
const GIVE_WAY_NICE: i32 = 19;

/// Pause after each form, in which everything that waits for the thread's core runs.
const PAUSE: Duration = Duration::from_millis(1);

/// A form is kept if it has at most this many hundredths of the bytes that are sent without it.
const WORTH_PERCENT: u64 = 95;

/// Starts the thread.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    // Restarted after a panic: without it, pages would be sent uncompressed.
    supervisor::start("petasos-encode", move || {
        threads::give_way(GIVE_WAY_NICE);
        while let Some(order) = shared.encodings.next() {
            carry_out(&shared.current(), &order);
        }
        ThreadEnd::of(&shared.ending)
    })
}

/// Makes the forms that were ordered and adds them to their response.
fn carry_out(shared: &Shared, order: &EncodingOrder) {
    let cells = shared.cells(0);
    let Some(object) = order.object.upgrade() else { return cells.count(Metric::EncodingsVoid) };
    let site = shared.sites.iter().find(|site| site.id == order.key.site());
    let Some((site, rules)) = site.and_then(|site| Some((site, site.compression()?))) else { return };
    let head = object.head();
    if object.on_disk().is_some() || !rules.cover(&head, object.content_bytes()) {
        return;
    }
    let body = object.body();
    let source = Source { pieces: body.chunks(), is_gzip: is_gzip(&head.fields), bytes_max: rules.bytes_max };
    let is_needed = || shared.store.holds(&order.key, &object) || is_planted(Defect::FormsOfReplacedObject);
    let goes_on = || !shared.encodings.is_ended() && is_needed();
    let (freshness, policy) = (object.freshness(), site.policy());
    let mut forms: Vec<CodedForm> = Vec::new();
    for coding in codings(rules, &head, &object) {
        let encoded = match object.template() {
            Some(template) => encoded_template(&object, template, &goes_on),
            None => encode(source, coding, &goes_on),
        };
        match encoded {
            Ok((coded, bytes)) => {
                cells.add(Metric::EncodingBytesRead, bytes);
                if coded.len() as u64 * 100 <= object.content_bytes() * WORTH_PERCENT {
                    cells.add(Metric::EncodingBytesMade, coded.len() as u64);
                    let (head, body) = ((&head, order.key.target()), Body::copy_of(&coded));
                    forms.push(coded_form(head, coding, body, freshness, policy));
                }
            }
            // What it is not in one coding, it is not in the others either.
            Err(Unencodable::NotGzip | Unencodable::TooLong) => {
                cells.count(Metric::EncodingsUseless);
                return;
            }
            Err(Unencodable::Ended) => return cells.count(Metric::EncodingsVoid),
        }
        threads::sleep(PAUSE);
    }
    if forms.is_empty() {
        cells.count(Metric::EncodingsUseless);
    } else if shared.store.add_forms(&order.key, &object, forms) {
        cells.count(Metric::Encodings);
    } else {
        cells.count(Metric::EncodingsVoid);
    }
}

/// The codings of the forms of a response. Pages are assembled from templates with gzip only.
fn codings(rules: &CompressionRules, head: &ResponseHead, object: &Object) -> Vec<Coding> {
    let mut codings = rules.codings_for(&head.fields);
    codings.retain(|coding| object.template().is_none() || *coding == Coding::Gzip);
    codings
}

/// The gzip form of a template, whose texts are parts of pages, and the length of the template.
fn encoded_template(
    object: &Arc<Object>,
    template: &StoredTemplate,
    goes_on: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, u64), Unencodable> {
    let StoredTemplate::Parsed(parsed) = template else { return Err(Unencodable::TooLong) };
    let Ok(program) = &**parsed else { return Err(Unencodable::TooLong) };
    let content = object.content().collect::<Vec<_>>().concat();
    let texts = program.texts().map(|text| text.begin as usize..text.end as usize);
    Ok((encode_texts(&content, texts, goes_on)?, content.len() as u64))
}
