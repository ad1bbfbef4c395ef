//! *why*: explains what would happen to a request, and why. It asks the pipeline for its decisions
//! without carrying them out.
//!
//! Invariants: a question changes nothing: no counter, no position in the eviction order, no fetch.
//! The answer is the outcome of the next request. If that depends on the origin's response, the
//! document says so. As in the pipeline, `semantics` decides whether a stored response may be used.

use crate::control::purge_orders::{self, OrderRefusal};
use crate::control::simulated_request::SimulatedRequest;
use crate::control::uncompressed::UncompressedPage;
use crate::fetch::base::Base;
use crate::fetch::disk_reads;
use crate::memory::detection::Detected;
use crate::memory::hit_for_miss::PassReason;
use crate::memory::leak_guard::is_guarded;
use crate::request::authorise::{credentials_of, refusal_of};
use crate::request::context::{ContextRequest, short_form};
use crate::request::files;
use crate::request::foreign_ports::is_beyond_foreign_ports;
use crate::request::forward;
use crate::request::guard::{RequestSubject, admit, guard};
use crate::request::key::KeyOutcome;
use crate::request::leak_guard::withheld;
use crate::request::lookup::{Decision, LookupResult, PageRequest, Touch, freshness};
use crate::request::private::PrivateRequest;
use crate::request::redirect::redirected;
use crate::request::refusal::Refusal;
use crate::shared::Shared;
use api::why::{
    Cause, ContextAnswer, FORMAT, FormAnswer, KeyAnswer, OriginDemand, Question, RememberedAnswer,
    SiteAnswer, StoredAnswer, Substitute, WhyReply,
};
use h1::Request;
use message::{Method, RequestHead, ResponseHead, names};
use profiles::Policy;
use semantics::{
    Culprit, Moment, Reason, Verdict, browser_lifetime, downstream_head, explain_request, recheck,
};
use std::sync::Arc;
use store::{CodedForm, Key, Lookup, Object, ShelvedObject, StoredTemplate};

/// Maximum size of a question as JSON, in bytes.
pub(crate) const QUESTION_BYTES_MAX: usize = 256 * 1024;

/// Answers a question. A page only on the disk is read first, as for a visitor.
///
/// # Errors
/// A text that says what is wrong with the question.
pub(crate) async fn answer(shared: &Arc<Shared>, question: &Question) -> Result<WhyReply, String> {
    let (authorised, refusal) = authorise(shared, question).await?;
    if let Some(refusal) = refusal {
        return Ok(answer_of(refusal.reason));
    }
    let question = authorised.as_ref().unwrap_or(question);
    if let Some((key, shelved)) = on_disk(shared, question) {
        // A page that was not read in time will be fetched, which is the answer.
        let _ = disk_reads::read(shared, &key, shelved).await;
    }
    if let Some(reason) = of_file(shared, question).await {
        return Ok(answer_of(reason));
    }
    answer_from_memory(shared, question)
}

/// The question without its password, if the site or route needs one and it is right; otherwise
/// the response.
async fn authorise(
    shared: &Arc<Shared>,
    question: &Question,
) -> Result<(Option<Question>, Option<Refusal>), String> {
    let simulated = SimulatedRequest::new(shared, question)?;
    let Ok(request) = simulated.request else { return Ok((None, None)) };
    let Ok(admitted) = admit(shared, simulated.arrival, &request) else { return Ok((None, None)) };
    let is_order = purge::is_purge_method(&request.head.method);
    let is_redirected = redirected(shared, simulated.arrival, &admitted, &request.head).is_some();
    let Some(plan) = admitted.password().filter(|_| !is_order && !is_redirected) else {
        return Ok((None, None));
    };
    let Some(given) = credentials_of(&request.head) else {
        return Ok((None, Some(Refusal::unauthorised(&plan.realm))));
    };
    let result = shared.password_checks.check(&plan.file, given).await;
    let mut authorised = question.clone();
    authorised.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(names::AUTHORIZATION));
    Ok((Some(authorised), refusal_of(result, plan)))
}

/// The reason of the answer, if a directory answers and not the pages of a site.
async fn of_file(shared: &Arc<Shared>, question: &Question) -> Option<Reason> {
    let simulated = SimulatedRequest::new(shared, question).ok()?;
    let request = simulated.request.ok().filter(|request| !purge::is_purge_method(&request.head.method))?;
    let admitted = admit(shared, simulated.arrival, &request).ok()?;
    let head = &request.head;
    let is_answered = redirected(shared, simulated.arrival, &admitted, head).is_some()
        || admitted.answer(shared, head).is_some();
    let directory = admitted.directory().filter(|_| !is_answered)?;
    files::explain(shared, directory, (&head.method, &admitted.target, &head.fields)).await
}

/// The page of a question and its place, if it is only on the disk.
fn on_disk(shared: &Arc<Shared>, question: &Question) -> Option<(Key, ShelvedObject)> {
    let simulated = SimulatedRequest::new(shared, question).ok()?;
    let request = simulated.request.ok().filter(|request| !purge::is_purge_method(&request.head.method))?;
    let subject = guard(shared, simulated.arrival, &request).ok()?;
    let (outcome, head) = (KeyOutcome::new(shared, subject.clone(), &request.head, false), &request.head);
    let (key, reduced) = match outcome {
        KeyOutcome::Pass(..) => (subject.key(), None),
        KeyOutcome::LookUp(page_request, head) => (page_request.key, head),
    };
    match shared.store.peek(&key, &reduced.as_deref().unwrap_or(head).fields) {
        Lookup::Shelved(shelved) => Some((key, shelved)),
        _ => None,
    }
}

fn answer_from_memory(shared: &Arc<Shared>, question: &Question) -> Result<WhyReply, String> {
    let simulated = SimulatedRequest::new(shared, question)?;
    let request = match simulated.request {
        Ok(request) => request,
        Err(refusal) => return Ok(answer_of(refusal.reason)),
    };
    if purge::is_purge_method(&request.head.method) {
        let reason = match purge_orders::read_order(shared, simulated.arrival.peer, &request.head) {
            Ok(_) => Reason::Purged,
            Err(OrderRefusal::Forbidden(_)) => Reason::PurgeForbidden,
            Err(OrderRefusal::Malformed(_)) => Reason::PurgeMalformed,
        };
        return Ok(answer_of(reason));
    }
    let admitted = match admit(shared, simulated.arrival, &request) {
        Ok(admitted) => admitted,
        Err(refusal) => return Ok(answer_of(refusal.reason)),
    };
    if let Some(redirect) = redirected(shared, simulated.arrival, &admitted, &request.head) {
        return Ok(answer_of(redirect.reason));
    }
    if let Some(answer) = admitted.answer(shared, &request.head) {
        return Ok(answer_of(answer.reason));
    }
    match admitted.subject(shared, &request.head) {
        Ok(subject) => Ok(of_subject(shared, &subject, &request)),
        Err(refusal) => Ok(answer_of(refusal.reason)),
    }
}

/// The answer for a request that passed the guard. Runs *key* and *lookup* as the pipeline does,
/// and adds the state of the page.
fn of_subject(shared: &Arc<Shared>, subject: &RequestSubject<'_>, request: &Request) -> WhyReply {
    let (head, policy, now) = (&request.head, subject.site.policy(), Moment::read(&*shared.clock));
    let mut context = None;
    let (page_request, reduced) = match KeyOutcome::new(shared, subject.clone(), head, false) {
        KeyOutcome::Pass(_, reason) => {
            let (reason, of_visitor) = of_session(shared, subject, head, reason, now);
            context = of_visitor;
            (Err(reason), None)
        }
        KeyOutcome::LookUp(page_request, head) => (Ok(page_request), head),
    };
    let key = page_request.as_ref().map_or_else(|_| subject.key(), |page_request| page_request.key.clone());
    let head = reduced.as_deref().unwrap_or(head);
    let remembered = shared.hit_for_miss.recall(&key, now.monotonic);
    let decided = match &page_request {
        Err(reason) => {
            let culprit = explain_request(head, false, policy).and_then(|(_, culprit)| culprit);
            let culprit = culprit.as_ref().map(cause);
            let is_kept = reason.verdict() == Verdict::Hit;
            let asks = if is_kept { OriginDemand::Nothing } else { OriginDemand::OwnAnswer };
            WhyReply { culprit, asks, ..answer_of(*reason) }
        }
        // With all cookies, as in the pipeline.
        Ok(page_request) => match withheld(shared, page_request, &request.head, now)
            .filter(|_| is_guarded(&request.head.fields, policy))
        {
            Some(withheld) => {
                let culprit = Some(cause(&withheld.culprit));
                WhyReply { culprit, asks: OriginDemand::OwnAnswer, ..answer_of(Reason::PassLeakGuard) }
            }
            None => {
                let decided = looked_up(shared, page_request, head, remembered.as_ref(), now);
                let is_left_out =
                    page_request.left_out.reason().is_some_and(|own| own.name() == decided.reason);
                let culprit = explain_request(&request.head, false, policy).filter(|_| is_left_out);
                let culprit = culprit.and_then(|(_, culprit)| culprit);
                WhyReply { culprit: culprit.as_ref().map(cause).or(decided.culprit), ..decided }
            }
        },
    };
    // A stale response never replaces the response to a client's own request.
    let is_pass = decided.verdict == Verdict::Pass.name();
    let stale = page_request.ok().filter(|_| decided.asks != OriginDemand::Nothing && !is_pass);
    let stale = stale.and_then(|page_request| page_request.stale_instead(shared, head, now));
    let (stored, other_variants_only) = match shared.store.peek(&key, &head.fields) {
        Lookup::Found { object, softened } => {
            (Some(stored_answer(&object, key.target(), softened, policy, now)), false)
        }
        Lookup::NoVariant => (None, true),
        Lookup::Shelved(_) | Lookup::Absent => (None, false),
    };
    let found = subject.site.detection.found();
    WhyReply {
        site: Some(SiteAnswer {
            name: subject.site.label().to_owned(),
            profile: subject.site.plan.profile.clone(),
            rules: subject.site.policy().name.clone(),
            recognised_by: found.as_ref().map(Detected::evidence),
            recognised_since: found.as_ref().map(Detected::since_text),
            origin: subject.site.plan.origin.to_string(),
            uncompressed: subject.site.uncompressed.found().map(UncompressedPage::text),
        }),
        key: Some(key_answer(shared, &key, key.target() != subject.key().target())),
        stored,
        other_variants_only,
        remembered: remembered.map(remembered_answer),
        is_being_fetched: shared.fetches.is_under_way(&key),
        if_origin_fails: stale.map(|delivery| substitute(delivery.account.reason)),
        context,
        ..decided
    }
}

/// Why a request that shares no response with all passes, or that a copy of its session or a page
/// of its context answers it. The context of the visitor comes with it.
fn of_session(
    shared: &Shared,
    subject: &RequestSubject<'_>,
    head: &RequestHead,
    reason: Reason,
    now: Moment,
) -> (Reason, Option<ContextAnswer>) {
    if let Some(request) = ContextRequest::of(shared, subject, head, reason) {
        let (reason, context) = of_context(shared, &request, head, now);
        return (reason, Some(context));
    }
    let Some(private) = PrivateRequest::of(shared, subject, head, reason) else { return (reason, None) };
    match private.find(shared, subject.site.policy(), now, false) {
        Some(delivery) => (delivery.account.reason, None),
        None => (Reason::PassPrivate, None),
    }
}

/// Why the request of a session passes, or that a page of its context answers it. The origin is not
/// asked for a context.
fn of_context(
    shared: &Shared,
    request: &ContextRequest<'_>,
    head: &RequestHead,
    now: Moment,
) -> (Reason, ContextAnswer) {
    let unknown = |is_asked| ContextAnswer { name: None, is_asked };
    if request.is_paused(shared) {
        return (Reason::PassContextPaused, unknown(false));
    }
    let context = match request.known(shared, &head.fields, now) {
        None => return (Reason::PassContext, unknown(true)),
        Some(Err(reason)) => return (reason, unknown(false)),
        Some(Ok(context)) => context,
    };
    let name = Some(short_form(&shared.private_copies, &context));
    let page = request.page(shared, &head.fields, &context);
    let found = page.find(shared, request.subject.site, now, false);
    let reason = found.map_or(Reason::PassContext, |delivery| delivery.account.reason);
    (reason, ContextAnswer { name, is_asked: false })
}

/// The pipeline's decision after a look-up.
fn looked_up(
    shared: &Shared,
    page_request: &PageRequest<'_>,
    head: &RequestHead,
    remembered: Option<&PassReason>,
    now: Moment,
) -> WhyReply {
    match page_request.decide(shared, head, Touch::No, now) {
        Decision::Deliver(delivery) | Decision::StaleInstead(delivery, _) => {
            answer_of(delivery.account.reason)
        }
        Decision::Refresh(delivery, _) => {
            WhyReply { asks: OriginDemand::Renewal, ..answer_of(delivery.account.reason) }
        }
        // The object could not be read, or was evicted at once, so it will be fetched.
        Decision::Read(_) => WhyReply { asks: OriginDemand::Page, ..answer_of(Reason::MissAbsent) },
        Decision::OnlyIfCached => answer_of(Reason::OnlyIfCached),
        Decision::Pass(reason) => match page_request.left_out.reason() {
            Some(reason) => WhyReply { asks: OriginDemand::OwnAnswer, ..answer_of(reason) },
            None => alone(reason, head, remembered),
        },
        Decision::Fetch { .. }
            if is_beyond_foreign_ports(shared, page_request, &head.fields, now.monotonic) =>
        {
            WhyReply { asks: OriginDemand::OwnAnswer, ..answer_of(Reason::PassForeignPort) }
        }
        Decision::Fetch { reason, .. } => {
            let confirms = match page_request.find(shared, head, Touch::No, now) {
                LookupResult::Fetch(_, Some(base)) => is_confirmation(page_request, &base, head),
                LookupResult::Fetch(_, None)
                | LookupResult::Deliver(_)
                | LookupResult::Refresh(..)
                | LookupResult::OnDisk(_)
                | LookupResult::Unfit
                | LookupResult::Unusable => false,
            };
            WhyReply {
                asks: if confirms { OriginDemand::Confirmation } else { OriginDemand::Page },
                ..answer_of(reason)
            }
        }
    }
}

/// Whether the fetch is a conditional request for the stored response.
fn is_confirmation(page_request: &PageRequest<'_>, base: &Base, head: &RequestHead) -> bool {
    let policy = page_request.subject.site.policy();
    let asks = forward::fetch_fields(page_request.range.as_deref(), Some(base), &head.fields, policy);
    asks.has(names::IF_NONE_MATCH) || asks.has(names::IF_MODIFIED_SINCE)
}

/// The answer for a look-up that sends its own request: because of its method, or because the page
/// could not be shared the last time. The remembered reason will apply again unless the origin's
/// response has changed.
fn alone(reason: Reason, head: &RequestHead, remembered: Option<&PassReason>) -> WhyReply {
    let judged = remembered.filter(|_| head.method == Method::Get && !head.fields.has(names::RANGE));
    let culprit = judged.and_then(|remembered| remembered.culprit.as_ref()).map(cause);
    let reason = judged.map_or(reason, |remembered| remembered.reason);
    WhyReply { asks: OriginDemand::OwnAnswer, culprit, ..answer_of(reason) }
}

fn key_answer(shared: &Shared, key: &Key, is_equivalent: bool) -> KeyAnswer {
    let text = |octets: &[u8]| octets.escape_ascii().to_string();
    KeyAnswer {
        scheme: if key.is_https() { "https" } else { "http" }.to_owned(),
        host: text(key.host()),
        target: text(key.target()),
        is_equivalent,
        variant_fields: shared.store.known_rule(key).names().iter().map(|name| text(name)).collect(),
    }
}

fn stored_answer(
    object: &Arc<Object>,
    target: &[u8],
    softened: bool,
    policy: &Policy,
    now: Moment,
) -> StoredAnswer {
    let freshness = freshness(object, softened, policy);
    let head = object.head();
    let cache_control = |head: &ResponseHead| {
        let lines: Vec<_> =
            head.fields.all(names::CACHE_CONTROL).map(|value| value.escape_ascii().to_string()).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    };
    StoredAnswer {
        status: head.status.code(),
        location: head.fields.only(names::LOCATION).map(|value| difference::text_of(value)),
        cache_control: cache_control(&head),
        sent_cache_control: downstream_head(&head, browser_lifetime(target, &head, policy), policy, None)
            .as_ref()
            .and_then(cache_control),
        content_bytes: object.content_bytes(),
        is_part: object.part().is_some(),
        forms: object.forms().iter().map(form_answer).collect(),
        template: object.template().map(template_answer),
        age_secs: freshness.age(now).as_secs(),
        lifetime_secs: freshness.lifetime.as_secs(),
        ttl_secs: freshness.ttl_secs(now),
        stale_while_revalidate_secs: freshness.while_revalidate.as_secs(),
        stale_if_error_secs: freshness.if_error.as_secs(),
        stale_if_error_overrides: freshness.overridden,
        is_validated_always: freshness.validate_always,
        no_cache_overridden: recheck(target, &head, policy).is_some(),
        is_purged_softly: softened,
    }
}

/// What a template consists of, and what is wrong with it.
fn template_answer(template: &StoredTemplate) -> String {
    let StoredTemplate::Parsed(template) = template else {
        return "it is on the disk, and is parsed when it is delivered".to_owned();
    };
    let program = match &**template {
        Ok(program) => program,
        Err(error) => return format!("refused: {error}"),
    };
    let mut text = format!("{} includes, {} faults", program.include_count(), program.fault_count());
    if let Some(fault) = program.faults().first() {
        text += &format!("; the first is {:?} at byte {}", fault.kind, fault.at);
    }
    text
}

fn form_answer(form: &CodedForm) -> FormAnswer {
    FormAnswer { coding: form.coding.name().to_owned(), content_bytes: form.object.content_bytes() }
}

/// An answer with this reason that demands nothing of the origin.
fn answer_of(reason: Reason) -> WhyReply {
    WhyReply {
        format: FORMAT,
        verdict: reason.verdict().name().to_owned(),
        reason: reason.name().to_owned(),
        advice: reason.advice().to_owned(),
        asks: OriginDemand::Nothing,
        culprit: None,
        site: None,
        key: None,
        stored: None,
        other_variants_only: false,
        remembered: None,
        is_being_fetched: false,
        if_origin_fails: None,
        context: None,
    }
}

fn substitute(reason: Reason) -> Substitute {
    Substitute { verdict: reason.verdict().name().to_owned(), reason: reason.name().to_owned() }
}

fn cause(culprit: &Culprit) -> Cause {
    Cause { kind: culprit.kind.name().to_owned(), name: culprit.name.escape_ascii().to_string() }
}

fn remembered_answer(remembered: PassReason) -> RememberedAnswer {
    RememberedAnswer {
        reason: remembered.reason.name().to_owned(),
        advice: remembered.reason.advice().to_owned(),
        culprit: remembered.culprit.as_ref().map(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::{OriginDemand, Question, WhyReply, answer_from_memory};
    use crate::shared::Shared;
    use crate::system::System;
    use address::Prefix;
    use config::EdgePlan;
    use profiles::Policy;
    use std::sync::Arc;

    fn plan() -> EdgePlan {
        EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap())
    }

    fn ask(plan: &EdgePlan, method: &str, url: &str, headers: &[(&str, &str)]) -> WhyReply {
        let shared = Arc::new(Shared::new(plan.clone(), None, System::of_machine()));
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (url, method) = (url.to_owned(), method.to_owned());
        answer_from_memory(&shared, &Question { url, method, headers: headers.collect() }).unwrap()
    }

    #[test]
    fn request_refused_by_the_guard_is_explained_as_refused() {
        let mut named = plan();
        named.sites[0].names = vec!["a.test".to_owned()];
        let refused = ask(&named, "GET", "http://b.test/", &[]);
        assert_eq!((refused.verdict.as_str(), refused.reason.as_str()), ("refused", "unknown-site"));
        assert_eq!((refused.site, refused.key), (None, None));
        assert_eq!(ask(&named, "GET", "http://x/", &[("Host", "a.test")]).reason, "miss-absent");
        assert_eq!(
            ask(&plan(), "GET", "http://a.test/", &[("Host", "a.test"), ("Host", "b")]).reason,
            "bad-request"
        );
        let long = "x".repeat(40_000);
        assert_eq!(ask(&plan(), "GET", "http://a.test/", &[("Cookie", &long)]).reason, "head-too-large");
    }

    #[test]
    fn passing_request_names_its_culprit() {
        let passed = ask(&plan(), "GET", "http://a.test/x?y", &[("Cookie", "_ga=1; PHPSESSID=2")]);
        assert_eq!((passed.verdict.as_str(), passed.reason.as_str()), ("pass", "pass-cookie"));
        let culprit = passed.culprit.unwrap();
        assert_eq!((culprit.kind.as_str(), culprit.name.as_str()), ("cookie", "PHPSESSID"));
        assert_eq!(passed.asks, OriginDemand::OwnAnswer);
        let key = passed.key.unwrap();
        assert_eq!((key.scheme.as_str(), key.host.as_str(), key.target.as_str()), ("http", "a.test", "/x?y"));
        assert_eq!(ask(&plan(), "POST", "http://a.test/", &[]).reason, "pass-method");
    }

    #[test]
    fn https_needs_a_trusted_proxy_or_a_public_https_site() {
        let scheme = |plan: &EdgePlan, url: &str| ask(plan, "GET", url, &[]).key.unwrap().scheme;
        let mut behind_a_proxy = plan();
        behind_a_proxy.trusted_proxies = ["10.0.0.1".parse::<Prefix>().unwrap()].into_iter().collect();
        assert_eq!(scheme(&behind_a_proxy, "https://a.test/"), "https");
        assert_eq!(scheme(&behind_a_proxy, "http://a.test/"), "http");
        assert_eq!(scheme(&plan(), "https://a.test/"), "http", "no proxy states the scheme");
        let mut public = plan();
        public.sites[0].public_https = true;
        assert_eq!(scheme(&public, "http://a.test/"), "https");
    }

    #[test]
    fn look_up_in_an_empty_store_demands_the_page() {
        let absent = ask(&plan(), "GET", "http://a.test/", &[]);
        assert_eq!((absent.reason.as_str(), absent.asks), ("miss-absent", OriginDemand::Page));
        let cached_only = ask(&plan(), "GET", "http://a.test/", &[("Cache-Control", "only-if-cached")]);
        assert_eq!((cached_only.verdict.as_str(), cached_only.asks), ("refused", OriginDemand::Nothing));
        assert_eq!(ask(&plan(), "HEAD", "http://a.test/", &[]).asks, OriginDemand::Page);
        let mut wordpress = plan();
        wordpress.sites[0].policy = Policy::wordpress();
        assert_eq!(ask(&wordpress, "GET", "http://a.test/wp-admin/", &[]).reason, "pass-path");
    }
}
