//! The admin address: metrics, liveness and status, for operators and their tools.
//!
//! Invariant: nothing here changes anything, and nothing here is served to a page of another site: a request
//! whose Host or Origin is not this address' own is refused, so that a browser cannot be made to ask.

use crate::client::{Client, Received};
use crate::date::http_date;
use crate::metrics;
use crate::respond::{self, Asker};
use crate::shared::Shared;
use bytes::Bytes;
use h1::BodyFraming;
use message::{Method, RequestHead, ResponseHead, Status, names};
use net::{Acceptor, Address};
use semantics::Reason;
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long to wait when a connection cannot be accepted for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that may be open; operators and their tools need few.
const CONNECTIONS_MAX: usize = 64;

/// One answer.
struct Page {
    status: Status,
    media_type: &'static str,
    text: String,
}

/// Serves the admin address for as long as the runtime lives.
pub(crate) async fn serve(shared: Arc<Shared>, acceptor: Acceptor, local: Address) {
    let (local, places) = (Arc::new(local), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    loop {
        let Ok((stream, peer)) = acceptor.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Without a place the connection is closed at once.
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let client = Client::new(stream, peer, Arc::clone(&shared.limits));
            let conversation = converse(Arc::clone(&shared), Arc::clone(&local), client);
            tokio::spawn(async move {
                conversation.await;
                drop(place);
            });
        }
    }
}

async fn converse(shared: Arc<Shared>, local: Arc<Address>, mut client: Client) {
    let mut stop = Box::pin(std::future::pending());
    while let Received::Request(request) = client.receive(stop.as_mut()).await {
        let persistent = request.persistent && request.framing == BodyFraming::Empty;
        let page = answer(&shared, &local, &request.head);
        let mut head = ResponseHead::new(page.status);
        head.fields.push(names::DATE, http_date(shared.clock.now()));
        head.fields.push(names::CONTENT_TYPE, page.media_type);
        head.fields.push(names::CACHE_CONTROL, "no-store");
        let asker = Asker::new(&request.head.method, request.head.version, persistent);
        let written = respond::write_head(&head, BodyFraming::Length(page.text.len() as u64), None, asker);
        client.push(written.octets);
        if request.head.method != Method::Head {
            client.push(Bytes::from(page.text));
        }
        if client.flush().await.is_err() || !persistent {
            return client.linger().await;
        }
    }
}

fn answer(shared: &Arc<Shared>, local: &Address, request: &RequestHead) -> Page {
    if !is_own(request, local) {
        return Page::plain(
            403,
            "This address answers only requests that name it by its IP address or localhost.\n",
        );
    }
    if !matches!(request.method, Method::Get | Method::Head) {
        return Page::plain(405, "Only GET and HEAD are served here.\n");
    }
    let path = request.target.split(|&octet| octet == b'?').next().unwrap_or_default();
    match path {
        b"/healthz" => Page::plain(200, "ok\n"),
        b"/metrics" => {
            Page { status: Status::OK, media_type: metrics::MEDIA_TYPE, text: metrics::render(shared) }
        }
        b"/status" => Page { status: Status::OK, media_type: "application/json", text: status(shared) },
        _ => Page::plain(404, "There are /metrics, /healthz and /status.\n"),
    }
}

impl Page {
    fn plain(code: u16, text: &str) -> Self {
        let status = Status::from_code(code).unwrap_or(Status::NOT_FOUND);
        Self { status, media_type: "text/plain; charset=utf-8", text: text.to_owned() }
    }
}

/// Whether the request comes from somebody who knows this address, and from no page of another site. A name
/// other than localhost could be anybody's that resolves to this machine.
fn is_own(request: &RequestHead, local: &Address) -> bool {
    let Some(host) = request.fields.only(names::HOST) else { return false };
    let (name, _) = h1::split_port(host);
    let configured =
        matches!(local, Address::Host { name: own, .. } if name.eq_ignore_ascii_case(own.as_bytes()));
    let literal = std::str::from_utf8(name)
        .is_ok_and(|name| name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok());
    let own_origin = request.fields.all("Origin").all(|origin| {
        origin.strip_prefix(b"http://").is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    });
    (literal || configured || name.eq_ignore_ascii_case(b"localhost")) && own_origin
}

fn status(shared: &Shared) -> String {
    let store = shared.store.stats();
    let sites: Vec<_> = shared
        .sites
        .iter()
        .map(|site| {
            let gauges = site.origin.gauges();
            json!({
                "names": site.plan.names,
                "origin": site.plan.origin.to_string(),
                "profile": site.plan.profile,
                "fetches_active": gauges.active,
                "fetches_waiting": gauges.waiting,
                "connections_idle": gauges.idle,
            })
        })
        .collect();
    let requests: u64 = Reason::ALL.iter().map(|&reason| shared.counters.requests(reason)).sum();
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "workers": shared.plan.workers,
        "draining": shared.is_draining(),
        "connections": shared.connections(),
        "requests": requests,
        "store": {
            "bytes": store.bytes,
            "bytes_max": shared.store.limits().memory_bytes_max,
            "objects": store.objects,
            "published": store.published,
            "evicted": store.evicted,
        },
        "sites": sites,
    });
    format!("{status:#}\n")
}

#[cfg(test)]
mod tests {
    use super::answer;
    use crate::shared::Shared;
    use config::Plan;
    use message::{Fields, Method, RequestHead, Version};
    use platform::SystemClock;
    use std::sync::Arc;

    fn asked(method: Method, target: &'static str, fields: &[(&'static str, &'static str)]) -> (u16, String) {
        let plan = Plan::for_origin("http://127.0.0.1:9".parse().unwrap());
        let shared = Arc::new(Shared::new(plan, None, Arc::new(SystemClock::new())));
        let mut head =
            RequestHead { method, target: target.into(), version: Version::Http11, fields: Fields::new() };
        for (name, value) in fields {
            head.fields.push(*name, *value);
        }
        let page = answer(&shared, &"127.0.0.1:8081".parse().unwrap(), &head);
        (page.status.code(), page.text)
    }

    #[test]
    fn pages_are_served_to_those_who_name_the_address() {
        let own = [("Host", "127.0.0.1:8081")];
        assert_eq!(asked(Method::Get, "/healthz", &own), (200, "ok\n".to_owned()));
        assert_eq!(asked(Method::Get, "/nothing", &own).0, 404);
        assert_eq!(asked(Method::Post, "/healthz", &own).0, 405);
        let (code, text) = asked(Method::Get, "/metrics?x", &[("Host", "localhost:8081")]);
        assert!(
            code == 200 && text.ends_with("# EOF\n") && text.contains("petasos_store_bytes 0\n"),
            "{text}"
        );
        let (code, text) = asked(Method::Get, "/status", &[("Host", "[::1]:8081")]);
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, status["sites"][0]["origin"].as_str()), (200, Some("http://127.0.0.1:9")));
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
}
