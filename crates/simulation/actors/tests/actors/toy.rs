//! A toy of an edge: it stores whole responses in a table, and every purge removes everything. Its
//! bugs can be switched on, so that the actors and the oracle show that they find them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::town::Town;
use bytes::{Bytes, BytesMut};
use h1::{BodyDecoder, Decoded, Limits, Request, Strictness, parse_request, parse_response};
use message::{Fields, Method};
use petasos_actors::{Moment, Origin, Timeline, content_target, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A bug of the toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Purges are answered, but remove nothing.
    ForgetsPurges,
    /// Purges remove pages a second after their answer.
    PurgesLate,
    /// Writes remove nothing.
    ForgetsWrites,
    /// A fetch that a purge or write overtook is stored.
    StoresOvertaken,
    /// Requests with cookies are answered from the store, and their responses stored.
    SharesCookies,
    /// The language is not part of the key.
    IgnoresLanguage,
    /// The content coding is not part of the key.
    IgnoresCoding,
    /// The query is not part of the key.
    IgnoresQuery,
    /// Stored pages are fresh for ever.
    IgnoresLifetime,
    /// Truncated responses count as whole.
    BelievesTruncated,
    /// The second half of a large body comes from the response stored before it.
    MixesVersions,
    /// Every tenth response is lost.
    LosesResponses,
    /// Requests wait for two minutes if they come after another one.
    Waits,
}

#[derive(Clone)]
struct Stored {
    status: u16,
    fields: Fields,
    body: Bytes,
    at: Moment,
    fresh_for: Duration,
}

/// The toy. Clones are the same toy.
#[derive(Clone)]
pub(crate) struct Toy {
    origin: Origin,
    timeline: Timeline,
    bug: Bug,
    state: Arc<Mutex<ToyState>>,
}

#[derive(Default)]
struct ToyState {
    table: BTreeMap<String, Stored>,
    last: BTreeMap<String, Bytes>,
    invalidations: u64,
    responses: u64,
}

impl Toy {
    pub(crate) fn new(town: &Town, bug: Bug) -> Self {
        Self { origin: town.origin.clone(), timeline: town.timeline, bug, state: Arc::default() }
    }

    pub(crate) fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let toy = self.clone();
        tokio::spawn(async move { toy.serve(far).await });
        near
    }

    async fn serve(&self, mut stream: DuplexStream) -> Option<()> {
        let mut input = BytesMut::new();
        loop {
            let request = loop {
                // Purges have longer heads than other requests.
                let limits = Limits { head_bytes_max: 128 << 10, ..Limits::DEFAULT };
                match parse_request(&mut input, &limits, Strictness::Strict).unwrap() {
                    Some(request) => break request,
                    None if stream.read_buf(&mut input).await.ok()? == 0 => return None,
                    None => {}
                }
            };
            if request.expect_continue {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
            }
            let mut decoder = BodyDecoder::new(request.framing);
            let mut body = Vec::new();
            loop {
                match decoder.decode(&mut input).unwrap() {
                    Decoded::NeedMore if stream.read_buf(&mut input).await.ok()? == 0 => return None,
                    Decoded::NeedMore => {}
                    Decoded::Data(octets) => body.extend_from_slice(&octets),
                    Decoded::End(_) => break,
                }
            }
            if self.bug == Bug::Waits && lock(&self.state).responses > 0 {
                tokio::time::sleep(Duration::from_secs(120)).await;
            }
            let (stored, reason) = self.respond(&request, &body).await;
            let count = {
                let mut state = lock(&self.state);
                state.responses += 1;
                state.responses
            };
            if self.bug == Bug::LosesResponses && count % 10 == 0 {
                return None;
            }
            let is_head = request.head.method == Method::Head;
            stream.write_all(&self.written(&stored, reason, is_head)).await.ok()?;
        }
    }

    /// The response as bytes.
    fn written(&self, stored: &Stored, reason: &str, is_head: bool) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} X\r\nCache-Status: Toy; detail={reason}\r\n", stored.status);
        for field in &stored.fields {
            let name = String::from_utf8_lossy(&field.name).into_owned();
            let length = name.eq_ignore_ascii_case("content-length");
            if !length && !name.eq_ignore_ascii_case("transfer-encoding") && name != "Connection" {
                text += &format!("{name}: {}\r\n", String::from_utf8_lossy(&field.value));
            }
        }
        if reason == "hit-fresh" {
            text += &format!("Age: {}\r\n", self.timeline.now().since(stored.at).as_secs());
        }
        match stored.fields.first("Content-Length") {
            Some(length) if is_head => {
                text += &format!("Content-Length: {}\r\n", String::from_utf8_lossy(length));
            }
            _ if is_head || matches!(stored.status, 304 | 204) => {}
            _ => text += &format!("Content-Length: {}\r\n", stored.body.len()),
        }
        let mut octets = (text + "\r\n").into_bytes();
        if !is_head {
            octets.extend_from_slice(&stored.body);
        }
        octets
    }

    async fn respond(&self, request: &Request, body: &[u8]) -> (Stored, &'static str) {
        let fields = &request.head.fields;
        let target = String::from_utf8_lossy(&request.head.target).into_owned();
        let is_call = target.starts_with("/purge") || target.contains("/purge");
        let is_purge = !matches!(request.head.method, Method::Get | Method::Head | Method::Post)
            || is_call
            || fields.has("X-Refresh");
        if is_purge {
            return (self.purge().await, "purged");
        }
        let is_plain = request.head.method == Method::Get
            && !["Range", "If-None-Match", "If-Modified-Since", "Cache-Control"]
                .iter()
                .any(|name| fields.has(name))
            && (!fields.has("Cookie") || self.bug == Bug::SharesCookies);
        let now = self.timeline.now();
        let key = self.key(&target, fields);
        if is_plain
            && let Some(stored) = lock(&self.state).table.get(&key).cloned()
            && (now.since(stored.at) <= stored.fresh_for || self.bug == Bug::IgnoresLifetime)
        {
            return (stored, "hit-fresh");
        }
        let begun = lock(&self.state).invalidations;
        let Some(stored) = self.fetch(request, body).await else {
            let (status, fields, body) = (502, Fields::new(), Bytes::from_static(b"bad"));
            let stored = Stored { status, fields, body, at: now, fresh_for: Duration::ZERO };
            return (stored, "origin-truncated");
        };
        let mut state = lock(&self.state);
        if request.head.method == Method::Post && stored.status < 400 && self.bug != Bug::ForgetsWrites {
            state.invalidations += 1;
            state.table.clear();
        }
        let is_current = begun == state.invalidations || self.bug == Bug::StoresOvertaken;
        let is_shared = self.bug == Bug::SharesCookies || stored.fresh_for > Duration::ZERO;
        if is_plain && is_current && is_shared && matches!(stored.status, 200 | 302 | 404) {
            state.table.insert(key, stored.clone());
        }
        (stored, "miss-absent")
    }

    fn key(&self, target: &str, fields: &Fields) -> String {
        let mut target = content_target(target);
        if self.bug == Bug::IgnoresQuery {
            target = target.split('?').next().unwrap_or_default().to_owned();
        }
        let language = fields.first("Accept-Language").filter(|_| self.bug != Bug::IgnoresLanguage);
        let coding = fields.first("Accept-Encoding").filter(|_| self.bug != Bug::IgnoresCoding);
        let is_coded = coding.is_some_and(|coding| coding.windows(4).any(|name| name == b"gzip"));
        format!("{target} {language:?} {is_coded}")
    }

    async fn purge(&self) -> Stored {
        let state = Arc::clone(&self.state);
        let bug = self.bug;
        let remove = async move {
            if bug == Bug::PurgesLate {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let mut state = lock(&state);
            state.invalidations += 1;
            state.table.clear();
        };
        match bug {
            Bug::ForgetsPurges => {}
            Bug::PurgesLate => drop(tokio::spawn(remove)),
            _ => remove.await,
        }
        let (fields, body) = (Fields::new(), Bytes::from_static(b"{}"));
        Stored { status: 200, fields, body, at: self.timeline.now(), fresh_for: Duration::ZERO }
    }

    /// Fetches a response from the origin; `None` if it was truncated.
    async fn fetch(&self, request: &Request, body: &[u8]) -> Option<Stored> {
        let mut stream = Town::connect(&self.origin, 1 << 16);
        let head = &request.head;
        let mut text = BytesMut::new();
        h1::write_request_line(&mut text, &head.method, &head.target, head.version).unwrap();
        for field in &head.fields {
            let is_own = ["Content-Length", "Transfer-Encoding", "Expect"].iter().any(|name| field.is(name));
            if !is_own {
                h1::write_field(&mut text, std::str::from_utf8(&field.name).unwrap(), &field.value).unwrap();
            }
        }
        if !body.is_empty() || head.method == Method::Post {
            h1::write_decimal_field(&mut text, "Content-Length", body.len() as u64).unwrap();
        }
        h1::write_head_end(&mut text);
        text.extend_from_slice(body);
        stream.write_all(&text).await.ok()?;
        let mut input = BytesMut::new();
        let response = loop {
            match parse_response(&mut input, &head.method, &Limits::DEFAULT, Strictness::Strict).ok()? {
                Some(response) => break response,
                None if stream.read_buf(&mut input).await.ok()? == 0 => return None,
                None => {}
            }
        };
        let mut decoder = BodyDecoder::new(response.framing);
        let mut content = BytesMut::new();
        loop {
            match decoder.decode(&mut input).ok()? {
                Decoded::NeedMore => {
                    input.reserve(1 << 14);
                    let is_over = stream.read_buf(&mut input).await.ok()? == 0;
                    if is_over && (decoder.eof().is_ok() || self.bug == Bug::BelievesTruncated) {
                        break;
                    }
                    if is_over {
                        return None;
                    }
                }
                Decoded::Data(octets) => content.extend_from_slice(&octets),
                Decoded::End(_) => break,
            }
        }
        let status = response.head.status.code();
        let mut content = content.freeze();
        if self.bug == Bug::MixesVersions && status == 200 && head.method == Method::Get {
            content = self.mixed(&String::from_utf8_lossy(&head.target), content);
        }
        let fields = response.head.fields;
        let least = if self.bug == Bug::SharesCookies { Duration::from_secs(60) } else { Duration::ZERO };
        let fresh_for = fresh_for(&fields).max(least);
        Some(Stored { status, fields, body: content, at: self.timeline.now(), fresh_for })
    }

    fn mixed(&self, target: &str, content: Bytes) -> Bytes {
        let mut state = lock(&self.state);
        let last = state.last.insert(target.to_owned(), content.clone());
        let half = content.len() / 2;
        let end = last.as_ref().and_then(|last| last.get(half..content.len()));
        let Some((begin, end)) = content.get(..half).zip(end) else { return content };
        Bytes::from([begin, end].concat())
    }
}

/// The lifetime that a response states; zero if it is not for everybody.
fn fresh_for(fields: &Fields) -> Duration {
    let control = fields.first("Cache-Control").map(|value| String::from_utf8_lossy(value).into_owned());
    let control = control.unwrap_or_default();
    if control.contains("private") || control.contains("no-store") || fields.has("Set-Cookie") {
        return Duration::ZERO;
    }
    let secs = |name: &str| {
        let directive = control.split(", ").find_map(|directive| directive.strip_prefix(name));
        directive.and_then(|secs| secs.parse::<u64>().ok())
    };
    Duration::from_secs(secs("s-maxage=").or_else(|| secs("max-age=")).unwrap_or(0))
}
