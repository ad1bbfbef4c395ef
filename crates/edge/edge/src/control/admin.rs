//! The admin address: metrics, liveness, status, records of requests, `why`, purges and detected
//! profiles, for operators and their tools. `dashboard` has the pages for people.
//!
//! Invariants: only purges, reloads and calls about a detected profile change anything. They need
//! the token or, without one, a client on this machine, and are recorded. All paths except
//! `/healthz` and `/readyz` need the token or a client on this machine. A client with a certificate
//! needs no token. A request whose Host or Origin is not the address itself is refused, and so is
//! one that a browser marks as sent for a page of another site (Fetch Metadata). The content of a
//! request has a size limit, and is read only after the head has shown that its client may send the
//! request.

use crate::accepted::secure;
use crate::control::changes::{self, order_text, outcome_text};
use crate::control::counters::Metric;
use crate::control::dashboard::{self, Answered};
use crate::control::dashboard_access::{guesses_too_often, is_from_elsewhere, name_of, opens_tab};
use crate::control::figures;
use crate::control::log_stream::{self, StreamRefusal};
use crate::control::metrics;
use crate::control::purge_access::Entrance;
use crate::control::purge_orders::{carry_out, reply};
use crate::control::status::status;
use crate::control::warm_call;
use crate::control::why::{self, QUESTION_BYTES_MAX};
use crate::memory::address_limit::AddressLimit;
use crate::request::arrival::Arrival;
use crate::request::client::{ClientConnection, ReceiveOutcome};
use crate::request::date::http_date;
use crate::request::respond::{self, Recipient};
use crate::shared::Shared;
use crate::upkeep::detection_call;
use crate::worker::goes_on;
use address::Address;
use api::why::Question;
use bytes::Bytes;
use config::AdminTlsPlan;
use h1::{BodyFraming, Request};
use history::VALUES_MAX;
use message::{Frame, Method, RequestHead, ResponseHead, Status, Version, names};
use net::{Acceptor, Peer, Stream};
use origin::Upload;
use purge::PurgeReply;
use serde::Serialize;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part of the places, as a divisor, that one client on another machine may hold, and the part
/// that only clients on this machine may hold. Strangers thus cannot shut the operator out.
const PLACES_PART: usize = 4;
/// The connections that one other machine may always have: a browser opens six to a host, and the
/// stream of the dashboard keeps one of them.
const ADDRESS_PLACES_MIN: usize = 8;

/// Pause after a connection could not be accepted for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of connections beyond the limit that receive a refusal at the same time. Further
/// ones are closed at once.
const REFUSALS_MAX: usize = 16;

/// The path for questions to `why`.
const WHY_PATH: &[u8] = api::why::PATH.as_bytes();

/// The path of the status.
const STATUS_PATH: &[u8] = api::status::PATH.as_bytes();

/// The path where any client, such as a load balancer, learns that the process runs.
const HEALTH_PATH: &[u8] = b"/healthz";

/// The path where any client learns whether the process takes new connections.
const READY_PATH: &[u8] = b"/readyz";

/// The path of the stream of records.
const LOG_PATH: &[u8] = api::log::PATH.as_bytes();

/// The path of the order to read the configuration again.
const RELOAD_PATH: &[u8] = b"/reload";

/// The paths of the figures behind the dashboard.
const DATA_PATH: &[u8] = api::dashboard::DATA_PATH.as_bytes();
const HISTORY_PATH: &[u8] = api::dashboard::HISTORY_PATH.as_bytes();
const SUMMARY_PATH: &[u8] = api::dashboard::SUMMARY_PATH.as_bytes();

/// The media type of the summary.
const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// The answer to a reading of the past that has panicked.
const READING_FAILED: &str = "The reading ended unexpectedly; the log says why.\n";

/// The media type of questions and of most answers.
const JSON: &str = "application/json";

/// The answer to a request whose Host or Origin is foreign, or that another site made a browser
/// send.
const FOREIGN: &str = "This address answers only requests whose Host is its IP address, localhost or the name \
                       in the setting admin, and that come from no page of another site.";

/// The answer to a client on another machine without the token.
const NO_READER: &str = "This client may not read here. From another machine or through a proxy, it needs the token in \
                         token_file, sent as \"Authorization: Bearer TOKEN\". `petasos why` takes it from PETASOS_TOKEN or \
                         --token-file.";

/// The answer to a client that has shown several wrong tokens.
const TOO_MANY_GUESSES: &str = "This client has shown too many wrong tokens. Wait a minute and try again.\n";

/// The answer to a connection beyond the limit.
const FULL: &str = "This address has its maximum of connections, limits.admin_connections_max, or a quarter of it \
                    from your address. Try again later; if this persists, close connections that are not needed \
                    or raise the limit.";

/// Fields of every response. A page of another site cannot embed it, whatever its media type.
pub(crate) const SHIELD: [(&str, &str); 2] =
    [("X-Content-Type-Options", "nosniff"), ("Cross-Origin-Resource-Policy", "same-origin")];

/// One answer.
struct AdminPage {
    status: Status,
    media_type: &'static str,
    text: String,
}

/// Serves the admin address for as long as the runtime exists, or until another process does.
pub(crate) async fn serve(shared: Arc<Shared>, acceptor: Arc<Acceptor>) {
    let entrance = AdminEntrance::new(&shared);
    let mut handed_over = std::pin::pin!(shared.ending.handed_over());
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut handed_over => return,
            accepted = acceptor.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => entrance.take(&shared, stream, peer),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// The limits of connections to the admin address.
#[derive(Debug)]
pub(crate) struct AdminEntrance {
    places: Arc<Semaphore>,
    /// The places that clients on other machines may hold together.
    others: Arc<Semaphore>,
    /// The places of each of them.
    addresses: Arc<AddressLimit>,
    /// How many places one of them may hold.
    address_max: usize,
    refusals: Arc<Semaphore>,
}

/// A place for one connection.
#[derive(Debug)]
struct AdminPlace {
    places: Vec<OwnedSemaphorePermit>,
    address: Option<(IpAddr, Arc<AddressLimit>)>,
}

impl Drop for AdminPlace {
    fn drop(&mut self) {
        if let Some((address, addresses)) = &self.address {
            addresses.give_back(*address);
        }
    }
}

impl AdminEntrance {
    pub(crate) fn new(shared: &Shared) -> Self {
        let places = shared.limits.admin_connections_max;
        Self {
            places: Arc::new(Semaphore::new(places)),
            others: Arc::new(Semaphore::new(places - places / PLACES_PART)),
            addresses: Arc::default(),
            address_max: (places / PLACES_PART).max(ADDRESS_PLACES_MIN).min(places),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
        }
    }

    /// A place for a connection of this client; `None` if there is none for it.
    fn place(&self, peer: Peer) -> Option<AdminPlace> {
        let mut place = AdminPlace { places: Vec::new(), address: None };
        if !peer.is_loopback() {
            if let Some(address) = peer.ip() {
                let is_free = self.addresses.take(address, self.address_max);
                place.address = is_free.then(|| (address, Arc::clone(&self.addresses)));
                place.address.as_ref()?;
            }
            place.places.push(Arc::clone(&self.others).try_acquire_owned().ok()?);
        }
        place.places.push(Arc::clone(&self.places).try_acquire_owned().ok()?);
        Some(place)
    }

    /// Serves a connection in a task. Beyond the limit it is refused.
    pub(crate) fn take(&self, shared: &Arc<Shared>, stream: Stream, peer: Peer) {
        let shared = shared.current();
        if let Some(place) = self.place(peer) {
            tokio::spawn(async move {
                if let Some((client, is_certified)) = secured(&shared, stream, peer).await {
                    Box::pin(converse(shared, client, is_certified)).await;
                }
                drop(place);
            });
            return;
        }
        shared.cells(0).count(Metric::AdminConnectionsRefused);
        if let Ok(turn) = Arc::clone(&self.refusals).try_acquire_owned() {
            tokio::spawn(async move {
                if let Some((client, _)) = secured(&shared, stream, peer).await {
                    Box::pin(refuse(shared, client)).await;
                }
                drop(turn);
            });
        }
    }
}

/// Secures a connection, if the address has TLS. `None` if that failed. Also returns whether the
/// client has shown a certificate of an authority that the operator named.
async fn secured(shared: &Shared, stream: Stream, peer: Peer) -> Option<(ClientConnection, bool)> {
    let mut arrival = Arrival::from(peer);
    let Some(tls) = shared.listeners.admin_tls() else {
        return Some((ClientConnection::new(stream, arrival, Arc::clone(&shared.limits)), false));
    };
    let stream = Box::pin(secure(shared, 0, tls, stream, arrival)).await?;
    arrival.is_secured = true;
    let names_authorities = |tls: &AdminTlsPlan| tls.client_authorities.is_some();
    let is_certified = shared.plan.admin_tls.as_ref().is_some_and(names_authorities);
    Some((ClientConnection::new(stream, arrival, Arc::clone(&shared.limits)), is_certified))
}

/// Tells a client that the limit of connections is reached, and closes.
async fn refuse(shared: Arc<Shared>, mut client: ClientConnection) {
    let recipient = Recipient::new(&Method::Get, Version::Http11, false);
    if send(&shared, &mut client, AdminPage::plain(503, &format!("{FULL}\n")).into(), recipient).await {
        client.linger().await;
    }
}

async fn converse(shared: Arc<Shared>, mut client: ClientConnection, is_certified: bool) {
    let mut shared = shared;
    let listeners = Arc::clone(&shared.listeners);
    let mut stop = Box::pin(std::future::pending());
    loop {
        let request = match client.receive(stop.as_mut()).await {
            ReceiveOutcome::Request(request) => request,
            ReceiveOutcome::Malformed(error) if goes_on(&shared, Entrance::Admin, &mut client, error) => {
                continue;
            }
            _ => return,
        };
        shared = shared.current();
        let arrival = client.arrival();
        // A reload may have withdrawn the authority of the client's certificate.
        if arrival.is_secured && !Arc::ptr_eq(&shared.listeners, &listeners) {
            return client.linger().await;
        }
        let is_health = [HEALTH_PATH, READY_PATH].contains(&path(&request.head));
        if !is_health && guesses_too_often(&shared, arrival, is_certified, &request.head.fields) {
            let page = AdminPage::plain(429, TOO_MANY_GUESSES).into();
            if respond_to(&shared, &mut client, &request, page).await {
                continue;
            }
            return client.linger().await;
        }
        if dashboard::is_path(path(&request.head)) {
            if answer_dashboard(&shared, &mut client, &request, is_certified).await {
                continue;
            }
            return client.linger().await;
        }
        let refused = refusal(&shared, arrival, is_certified, &request.head);
        if refused.is_none() && path(&request.head) == LOG_PATH && request.head.method == Method::Get {
            match log_stream::follow(&shared, query(&request.head)) {
                Ok(following) => {
                    Box::pin(log_stream::stream(&shared, &mut client, &request, following)).await;
                }
                Err(StreamRefusal { code, why }) => {
                    let recipient = Recipient::new(&request.head.method, request.head.version, false);
                    let page = AdminPage::plain(code, &format!("{why}\n"));
                    send(&shared, &mut client, page.into(), recipient).await;
                }
            }
            return client.linger().await;
        }
        let reply: PurgeReply = match refused {
            Some(page) => page.into(),
            None => {
                let content = read_content(&mut client, &request).await;
                let who = name_of(&shared, arrival, is_certified, &request.head.fields);
                match call(&shared, &who, &request.head, &content).await {
                    Some(reply) => reply,
                    None => answer(&shared, &request.head, &content).await.into(),
                }
            }
        };
        if !respond_to(&shared, &mut client, &request, reply).await {
            return client.linger().await;
        }
    }
}

/// Answers a request for the dashboard. Returns whether the connection stays open.
async fn answer_dashboard(
    shared: &Arc<Shared>,
    client: &mut ClientConnection,
    request: &Request,
    is_certified: bool,
) -> bool {
    let reply = if is_own(&request.head, &shared.plan.admin, client.arrival().is_secured) {
        match Box::pin(dashboard::answer(shared, client, request, is_certified)).await {
            Answered::Reply(reply) => reply,
            Answered::Streamed => return false,
        }
    } else {
        AdminPage::plain(403, &format!("{FOREIGN}\n")).into()
    };
    respond_to(shared, client, request, reply).await
}

/// Sends the response to a request. Returns whether the connection stays open.
async fn respond_to(
    shared: &Shared,
    client: &mut ClientConnection,
    request: &Request,
    reply: PurgeReply,
) -> bool {
    let persistent = request.persistent && client.is_content_read();
    let recipient = Recipient::new(&request.head.method, request.head.version, persistent);
    send(shared, client, reply, recipient).await && persistent
}

/// Sends a response; returns whether all of it was sent.
async fn send(
    shared: &Shared,
    client: &mut ClientConnection,
    reply: PurgeReply,
    recipient: Recipient<'_>,
) -> bool {
    let PurgeReply { mut head, content } = reply;
    head.fields.push(names::DATE, http_date(shared.clock.now()));
    let written = respond::write_head(&head, BodyFraming::Length(content.len() as u64), None, recipient);
    client.push_head(&written);
    if !recipient.head_only {
        client.push(content);
    }
    client.flush().await.is_ok()
}

/// The answer to a request that its client may not send here. It depends on the head alone, and on
/// whether the client has shown a certificate.
fn refusal(
    shared: &Shared,
    arrival: Arrival,
    is_certified: bool,
    request: &RequestHead,
) -> Option<AdminPage> {
    let peer = arrival.peer;
    let is_call = purge::api::ApiRoute::of(&request.target).is_some()
        || [detection_call::PATH, RELOAD_PATH].contains(&path(request))
        || path(request) == warm_call::PATH && request.method == Method::Post;
    // A link on another site may lead to a page here, but not to a stream that takes a follower.
    let is_link = opens_tab(request) && path(request) != LOG_PATH;
    let is_foreign =
        !is_own(request, &shared.plan.admin, arrival.is_secured) || is_from_elsewhere(request) && !is_link;
    let refused = if is_foreign {
        FOREIGN
    } else if is_certified {
        return None;
    } else if is_call {
        shared.purge_access.may_purge(Entrance::Admin, peer, &request.fields).err()?.text()
    } else if [HEALTH_PATH, READY_PATH].contains(&path(request))
        || shared.purge_access.may_read(peer, &request.fields)
    {
        return None;
    } else {
        NO_READER
    };
    if is_call {
        shared.cells(0).count(Metric::PurgesForbidden);
    }
    Some(AdminPage::plain(403, &format!("{refused}\n")))
}

/// Puts a changed configuration in force.
async fn answer_reload(shared: &Arc<Shared>, who: &str, request: &RequestHead) -> AdminPage {
    if request.method != Method::Post {
        return AdminPage::plain(405, "POST here reads the configuration again.\n");
    }
    match changes::reload_for(shared, who).await {
        (_, Ok(summary)) => AdminPage::plain(200, &format!("{summary}\n")),
        (_, Err(why)) => AdminPage::plain(422, &format!("{why}\n")),
    }
}

/// The answer to a call of `who` that changes something; `None` for all other requests.
async fn call(shared: &Arc<Shared>, who: &str, request: &RequestHead, content: &[u8]) -> Option<PurgeReply> {
    if path(request) == RELOAD_PATH {
        return Some(answer_reload(shared, who, request).await.into());
    }
    let Some(route) = purge::api::ApiRoute::of(&request.target) else {
        return match path(request) {
            detection_call::PATH => Some(answer_profile(shared, who, request, content).await.into()),
            warm_call::PATH if request.method == Method::Post => {
                Some(answer_warm(shared, who, request, content).into())
            }
            _ => None,
        };
    };
    Some(match purge::api::read(&route, &request.method, &request.fields, content) {
        Ok(order) => {
            shared.cells(0).count(Metric::Purges);
            let outcome = carry_out(shared, &order).await;
            changes::record(shared, who, &order_text(&order), &outcome_text(outcome), outcome.is_complete());
            reply(shared, &order, outcome)
        }
        Err(refused) => {
            shared.cells(0).count(Metric::PurgesMalformed);
            refused.reply()
        }
    })
}

/// The content of a question or a call, up to its limit. The content of other requests is not read.
async fn read_content(client: &mut ClientConnection, request: &Request) -> Vec<u8> {
    let mut content = Vec::new();
    let bytes_max = match path(&request.head) {
        WHY_PATH => QUESTION_BYTES_MAX,
        detection_call::PATH => detection_call::CONTENT_BYTES_MAX,
        warm_call::PATH => warm_call::CONTENT_BYTES_MAX,
        _ if purge::api::ApiRoute::of(&request.head.target).is_some() => purge::api::CONTENT_BYTES_MAX,
        _ => return content,
    };
    if request.head.method != Method::Post {
        return content;
    }
    while content.len() <= bytes_max {
        match poll_fn(|context| client.poll_frame(context)).await {
            Ok(Frame::Data(octets)) => content.extend_from_slice(&octets),
            // An incomplete content is refused when it is parsed.
            Ok(Frame::End(_)) | Err(_) => break,
        }
    }
    content
}

/// The answer to a request that changes nothing.
async fn answer(shared: &Arc<Shared>, request: &RequestHead, content: &[u8]) -> AdminPage {
    if path(request) == WHY_PATH {
        return answer_why(shared, request, content).await;
    }
    if !matches!(request.method, Method::Get | Method::Head) {
        return AdminPage::plain(405, "Only GET and HEAD are served here.\n");
    }
    match path(request) {
        HEALTH_PATH => AdminPage::plain(200, "ok\n"),
        READY_PATH if shared.is_draining() => AdminPage::plain(503, "draining\n"),
        READY_PATH => AdminPage::plain(200, "ready\n"),
        b"/metrics" => {
            AdminPage { status: Status::OK, media_type: metrics::MEDIA_TYPE, text: metrics::render(shared) }
        }
        STATUS_PATH => AdminPage { status: Status::OK, media_type: JSON, text: written(&status(shared)) },
        warm_call::PATH => {
            AdminPage { status: Status::OK, media_type: JSON, text: written(&shared.warmer.document()) }
        }
        DATA_PATH => {
            AdminPage { status: Status::OK, media_type: JSON, text: written(&figures::data(shared)) }
        }
        HISTORY_PATH => answer_history(shared, request).await,
        SUMMARY_PATH => match figures::last_week(shared).await {
            Some(text) => AdminPage { status: Status::OK, media_type: MARKDOWN, text },
            None => AdminPage::plain(500, READING_FAILED),
        },
        _ => AdminPage::plain(
            404,
            "There are /dashboard, /dashboard/data, /dashboard/history, /dashboard/summary, /metrics, /healthz, \
             /readyz, /status, /log, /why, /purge, /profile, /warm and /reload.\n",
        ),
    }
}

/// The values of the last minutes.
async fn answer_history(shared: &Arc<Shared>, request: &RequestHead) -> AdminPage {
    let minutes = match figures::minutes_of(query(request)) {
        Ok(minutes) => minutes,
        Err(why) => return AdminPage::plain(400, &format!("{why}\n")),
    };
    match figures::history(shared, minutes, VALUES_MAX).await {
        // Not indented, because it is long.
        Some(history) => AdminPage {
            status: Status::OK,
            media_type: JSON,
            text: serde_json::to_string(&history).unwrap_or_default(),
        },
        None => AdminPage::plain(500, READING_FAILED),
    }
}

/// The path without the query.
fn path(request: &RequestHead) -> &[u8] {
    request.target.split(|&octet| octet == b'?').next().unwrap_or_default()
}

/// The query without its question mark.
fn query(request: &RequestHead) -> &[u8] {
    let mark = request.target.iter().position(|&octet| octet == b'?');
    mark.and_then(|mark| request.target.get(mark + 1..)).unwrap_or_default()
}

/// Explains the request that the content describes.
async fn answer_why(shared: &Arc<Shared>, request: &RequestHead, content: &[u8]) -> AdminPage {
    if request.method != Method::Post {
        return AdminPage::plain(405, "POST a question here; docs/why.md describes it.\n");
    }
    if !has_json(request) {
        return AdminPage::plain(415, "A question is application/json.\n");
    }
    if content.len() > QUESTION_BYTES_MAX {
        return AdminPage::plain(413, "The question is too long.\n");
    }
    let question: Question = match serde_json::from_slice(content) {
        Ok(question) => question,
        Err(error) => return AdminPage::plain(400, &format!("The question cannot be read: {error}.\n")),
    };
    match why::answer(shared, &question).await {
        Ok(answer) => AdminPage { status: Status::OK, media_type: JSON, text: written(&answer) },
        Err(problem) => AdminPage::plain(400, &format!("The question cannot be answered: {problem}.\n")),
    }
}

/// Carries out a call about a site's detected profile.
async fn answer_profile(shared: &Arc<Shared>, who: &str, request: &RequestHead, content: &[u8]) -> AdminPage {
    if request.method != Method::Post {
        return AdminPage::plain(405, "POST a call here; docs/profiles.md describes it.\n");
    }
    if !has_json(request) {
        return AdminPage::plain(415, "A call is application/json.\n");
    }
    if content.len() > detection_call::CONTENT_BYTES_MAX {
        return AdminPage::plain(413, "The call is too long.\n");
    }
    let (code, text) = match detection_call::carry_out(shared, content).await {
        Ok(done) => (200, written(&done)),
        Err((code, refused)) => (code, written(&refused)),
    };
    let what = format!("call about a profile: {}", String::from_utf8_lossy(content));
    changes::record(shared, who, &what, if code == 200 { "done" } else { "refused" }, code == 200);
    let status = Status::from_code(code).unwrap_or(Status::BAD_REQUEST);
    AdminPage { status, media_type: JSON, text }
}

/// Carries out a call that begins or ends filling the cache of a site.
fn answer_warm(shared: &Shared, who: &str, request: &RequestHead, content: &[u8]) -> AdminPage {
    if !has_json(request) {
        return AdminPage::plain(415, "A call is application/json.\n");
    }
    if content.len() > warm_call::CONTENT_BYTES_MAX {
        return AdminPage::plain(413, "The call is too long.\n");
    }
    let (what, done) = warm_call::carry_out(shared, content);
    let is_done = done.is_ok();
    let (code, text) = match done {
        Ok(done) => (200, written(&done)),
        Err((code, refused)) => (code, written(&refused)),
    };
    changes::record(shared, who, &what, if is_done { "done" } else { "refused" }, is_done);
    let status = Status::from_code(code).unwrap_or(Status::BAD_REQUEST);
    AdminPage { status, media_type: JSON, text }
}

/// Whether the content is declared as JSON. A form on another site cannot send that media type.
fn has_json(request: &RequestHead) -> bool {
    let media_type = request.fields.only(names::CONTENT_TYPE);
    media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case(JSON.as_bytes()))
}

impl AdminPage {
    fn plain(code: u16, text: &str) -> Self {
        let status = Status::from_code(code).unwrap_or(Status::NOT_FOUND);
        Self { status, media_type: "text/plain; charset=utf-8", text: text.to_owned() }
    }
}

impl From<AdminPage> for PurgeReply {
    fn from(page: AdminPage) -> Self {
        let mut head = ResponseHead::new(page.status);
        head.fields.push(names::CONTENT_TYPE, page.media_type);
        head.fields.push(names::CACHE_CONTROL, "no-store");
        for (name, value) in SHIELD {
            head.fields.push(name, value);
        }
        Self { head, content: Bytes::from(page.text) }
    }
}

/// Whether the request names this address, `configured` in the setting `admin`, and comes from no
/// page of another site. Other names are refused because a foreign site's name may resolve to this
/// machine. With TLS every name is accepted: a browser refuses a name that the certificate is not
/// for.
fn is_own(request: &RequestHead, configured: &Address, is_secured: bool) -> bool {
    let Some(host) = request.fields.only(names::HOST) else { return false };
    let (name, _) = h1::split_port(host);
    let configured =
        matches!(configured, Address::Host { name: own, .. } if name.eq_ignore_ascii_case(own.as_bytes()));
    let literal = std::str::from_utf8(name)
        .is_ok_and(|name| name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok());
    let own_origin = request.fields.all("Origin").all(|origin| {
        let scheme: &[u8] = if is_secured { b"https://" } else { b"http://" };
        origin.strip_prefix(scheme).is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    });
    (is_secured || literal || configured || name.eq_ignore_ascii_case(b"localhost")) && own_origin
}

/// Writes a document as JSON. Serialisation cannot fail: a document is plain data with strings as
/// keys.
fn written(document: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::{AdminEntrance, AdminPage, SHIELD, answer, refusal};
    use crate::shared::Shared;
    use crate::system::System;
    use config::EdgePlan;
    use message::{Fields, Method, RequestHead, Version};
    use net::Peer;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    const LOCAL: Peer = Peer::Ip(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5));

    fn answered(shared: &Arc<Shared>, peer: Peer, head: &RequestHead, content: &[u8]) -> AdminPage {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answered = || runtime.block_on(answer(shared, head, content));
        refusal(shared, peer.into(), false, head).unwrap_or_else(answered)
    }

    fn asked(method: Method, target: &'static str, fields: &[(&'static str, &'static str)]) -> (u16, String) {
        asked_with(method, target, fields, &[])
    }

    fn asked_with(
        method: Method,
        target: &'static str,
        fields: &[(&'static str, &'static str)],
        content: &[u8],
    ) -> (u16, String) {
        let mut plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        plan.admin = "edge.internal:8081".parse().unwrap();
        let shared = Arc::new(Shared::new(plan, None, System::of_machine()));
        let mut head =
            RequestHead { method, target: target.into(), version: Version::Http11, fields: Fields::new() };
        for (name, value) in fields {
            head.fields.push(*name, *value);
        }
        let page = answered(&shared, LOCAL, &head, content);
        (page.status.code(), page.text)
    }

    #[test]
    fn strangers_cannot_take_all_places() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Shared::new(plan, None, System::of_machine());
        let entrance = AdminEntrance::new(&shared);
        let peer = |text: &str| Peer::Ip(text.parse().unwrap());
        let taken = |text: &str| -> Vec<_> { (0..100).map_while(|_| entrance.place(peer(text))).collect() };
        let one = taken("192.0.2.1:5");
        assert_eq!(one.len(), 16, "a quarter of 64");
        let others: Vec<_> = (2..9).flat_map(|number| taken(&format!("192.0.2.{number}:5"))).collect();
        assert_eq!(others.len(), 32, "three quarters together");
        assert_eq!(taken("127.0.0.1:5").len(), 16, "the rest is for this machine");
        drop(one);
        assert_eq!(taken("[2001:db8::1]:5").len(), 16);
        drop(others);
        assert_eq!(taken("127.0.0.1:5").len(), 64, "all places came back");
    }

    #[test]
    fn without_the_token_other_machines_may_read_only_health() {
        let plan = EdgePlan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Shared::new(plan, None, System::of_machine()).with_token(Some("s".to_owned()));
        let shared = Arc::new(shared);
        let peer = Peer::Ip("192.0.2.1:5".parse().unwrap());
        let ask = |method: Method, target: &'static str, token: &'static str| {
            let fields = Fields::new();
            let mut head = RequestHead { method, target: target.into(), version: Version::Http11, fields };
            head.fields.push("Host", "192.0.2.9:8081");
            head.fields.push("Content-Type", "application/json");
            head.fields.push("Authorization", token);
            answered(&shared, peer, &head, br#"{"url": "http://a.test/"}"#).status.code()
        };
        for (method, target) in [
            (Method::Get, "/metrics"),
            (Method::Get, "/status"),
            (Method::Get, "/dashboard/data"),
            (Method::Get, "/dashboard/history"),
            (Method::Get, "/dashboard/summary"),
            (Method::Post, "/why"),
        ] {
            assert_eq!(ask(method.clone(), target, "Bearer wrong"), 403, "{target}");
            assert_eq!(ask(method, target, "Bearer s"), 200, "{target}");
        }
        assert_eq!(ask(Method::Get, "/healthz", "Bearer wrong"), 200);
        assert_eq!(ask(Method::Get, "/readyz", "Bearer wrong"), 200);
        assert_eq!(ask(Method::Get, "/log", "Bearer wrong"), 403);
    }

    #[test]
    fn questions_must_be_json_and_name_the_admin_address() {
        let own = [("Host", "127.0.0.1:8081"), ("Content-Type", "application/json")];
        let ask = |fields: &[(&'static str, &'static str)], content: &str| {
            asked_with(Method::Post, "/why", fields, content.as_bytes())
        };
        let (code, text) = ask(&own, r#"{"url": "http://a.test/"}"#);
        assert!(code == 200 && text.contains("\"reason\": \"miss-absent\""), "{text}");
        assert_eq!(ask(&own[..1], "{}").0, 415);
        assert_eq!(ask(&[own[0], ("Content-Type", "text/plain")], "{}").0, 415);
        assert_eq!(ask(&own[1..], "{}").0, 403);
        for wrong in ["", "{}", r#"{"url": 1}"#, r#"{"url": "http://a/", "x": 1}"#, r#"{"url": "a"}"#] {
            assert_eq!(ask(&own, wrong).0, 400, "{wrong}");
        }
        let long = format!(r#"{{"url": "http://a/{}"}}"#, "a".repeat(300_000));
        assert_eq!(ask(&own, &long).0, 413);
        assert_eq!(asked(Method::Get, "/why", &own).0, 405);
    }

    #[test]
    fn requests_that_name_the_admin_address_are_served() {
        let own = [("Host", "127.0.0.1:8081")];
        assert_eq!(asked(Method::Get, "/healthz", &own), (200, "ok\n".to_owned()));
        assert_eq!(asked(Method::Get, "/nothing", &own).0, 404);
        assert_eq!(asked(Method::Post, "/healthz", &own).0, 405);
        let (code, text) = asked(Method::Get, "/metrics?x", &[("Host", "localhost:8081")]);
        assert!(
            code == 200 && text.ends_with("# EOF\n") && text.contains("petasos_store_bytes 0\n"),
            "{text}"
        );
        assert_eq!(asked(Method::Get, "/healthz", &[("Host", "Edge.internal:8081")]).0, 200);
        let (code, text) = asked(Method::Get, "/status", &[("Host", "[::1]:8081")]);
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, status["sites"][0]["origin"].as_str()), (200, Some("http://127.0.0.1:9")));
        assert_eq!(text, format!("{status:#}\n"), "the members are not in the order of the alphabet");
        let typed: api::status::EdgeStatus = serde_json::from_str(&text).unwrap();
        assert_eq!((typed.disk, typed.sites.len()), (None, 1));
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        for fields in [
            &[("Host", "evil.test")][..],
            &[],
            &[("Host", "127.0.0.1:8081"), ("Origin", "http://evil.test")],
            &[("Host", "127.0.0.1:8081"), ("Origin", "null")],
            &[("Host", "127.0.0.1:8081"), ("Host", "127.0.0.1:8081")],
        ] {
            assert_eq!(asked(Method::Get, "/status", fields).0, 403, "{fields:?}");
        }
        let own = [("Host", "127.0.0.1:8081"), ("Origin", "http://127.0.0.1:8081")];
        assert_eq!(asked(Method::Get, "/status", &own).0, 200);
    }

    #[test]
    fn page_of_another_site_may_only_link_to_pages() {
        let host = ("Host", "127.0.0.1:8081");
        let navigation = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")];
        for target in ["/log", "/dashboard/history", "/metrics", "/status", "/healthz"] {
            for site in ["cross-site", "same-site"] {
                let fields = [host, ("Sec-Fetch-Site", site), navigation[0], navigation[1]];
                assert_eq!(asked(Method::Get, target, &fields[..2]).0, 403, "{target}");
                let link = if target == "/log" { 403 } else { 200 };
                assert_eq!(asked(Method::Get, target, &fields).0, link, "{target}: a link");
                assert_eq!(asked(Method::Post, target, &fields).0, 403, "{target}");
            }
        }
        for site in ["same-origin", "none"] {
            assert_eq!(asked(Method::Get, "/status", &[host, ("Sec-Fetch-Site", site)]).0, 200, "{site}");
        }
        let reply: purge::PurgeReply = AdminPage::plain(200, "").into();
        assert!(SHIELD.iter().all(|(name, value)| {
            reply.head.fields.only(name).is_some_and(|found| **found == *value.as_bytes())
        }));
    }
}
