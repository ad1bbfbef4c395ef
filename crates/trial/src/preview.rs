//! A preview of the site through the temporary edge, for a browser on this machine.
//!
//! Invariants:
//!
//! - The preview only reads: it answers GET and HEAD, and sends GET to the edge.
//! - No cookie passes it. A browser sends the cookies of every program at the loopback address, and
//!   they are not the site's. So the preview shows the site to anonymous visitors.
//! - It answers only requests for its own address, so no other web page can read it by a name that
//!   leads here. Its scripts are in a sandbox of the browser.

use crate::rewrite::rewritten;
use address::HttpUrl;
use bytes::BytesMut;
use h1::{Limits, Strictness};
use message::{Fields, Method, RequestHead, ResponseHead, Status, Version, names};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use why::{FetchedResponse, Fetcher, plain_request};

/// Connections at a time; further ones wait.
const CONNECTIONS_MAX: usize = 64;

/// Longest wait for the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes for one read.
const READ_BYTES: usize = 8 * 1024;

/// How often the preview looks whether the user has interrupted the command.
const TICK: Duration = Duration::from_millis(50);

/// Fields of the site's response that the preview sends, besides `Location`.
const SENT_FIELDS: [&str; 4] =
    [names::CONTENT_TYPE, names::CACHE_STATUS, "Content-Language", names::CONTENT_ENCODING];

/// Media types whose URLs are rewritten.
const REWRITTEN_TYPES: [&[u8]; 3] = [b"text/html", b"application/xhtml", b"text/css"];

/// The policy of every response. Scripts of the site run without the rights of an origin, so they
/// cannot reach data of other programs at the loopback address.
const POLICY: &str = "sandbox allow-scripts allow-popups allow-forms";

/// A preview that listens and does not answer yet.
pub struct Preview {
    listener: TcpListener,
    terms: Arc<PreviewTerms>,
}

struct PreviewTerms {
    site: HttpUrl,
    edge: HttpUrl,
    fetcher: Fetcher,
    /// The preview's own address.
    address: SocketAddr,
}

impl Preview {
    /// A preview of the site of `site` at a free loopback port. `edge` is the URL of the temporary
    /// edge.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn bind(site: HttpUrl, edge: HttpUrl, fetcher: Fetcher) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, terms: Arc::new(PreviewTerms { site, edge, fetcher, address }) })
    }

    /// The URL of the page with which the visit began.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.terms.address, self.terms.site.path_and_query())
    }

    /// Answers until `interrupt` is set.
    pub async fn serve(self, interrupt: &AtomicBool) {
        let mut connections = JoinSet::new();
        while !interrupt.load(Ordering::Relaxed) {
            let may_accept = connections.len() < CONNECTIONS_MAX;
            tokio::select! {
                accepted = self.listener.accept(), if may_accept => {
                    // An error of a client that has already closed its connection must not end the
                    // server.
                    if let Ok((stream, _)) = accepted {
                        let terms = Arc::clone(&self.terms);
                        connections.spawn(async move {
                            // The browser has closed the connection, so the error has no receiver.
                            let _ = terms.answer(stream).await;
                        });
                    }
                }
                Some(_) = connections.join_next() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }
}

impl PreviewTerms {
    /// Answers one request and closes the connection.
    async fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let request = tokio::time::timeout(HEAD_TIME_MAX, read_head(&mut stream)).await??;
        let Some(request) = request else { return Ok(()) };
        let (head, content) = match self.refusal(&request) {
            Some((status, text)) => plain(status, text),
            None => self.page(&request).await,
        };
        let mut out = BytesMut::new();
        h1::write_response_head(&mut out, &head).map_err(io::Error::other)?;
        if request.method != Method::Head {
            out.extend_from_slice(&content);
        }
        stream.write_all(&out).await?;
        stream.shutdown().await
    }

    fn refusal(&self, request: &RequestHead) -> Option<(Status, &'static str)> {
        let host = request.fields.only(names::HOST).map(|value| &value[..]).unwrap_or_default();
        let own = [self.address.to_string(), format!("localhost:{}", self.address.port())];
        if !own.iter().any(|own| own.as_bytes() == host) {
            return Some((Status::BAD_REQUEST, "This is the preview of petasos try.\n"));
        }
        let reads = matches!(request.method, Method::Get | Method::Head);
        (!reads)
            .then_some((Status::BAD_REQUEST, "The preview only reads; send the form to the site itself.\n"))
    }

    /// The page through the edge, with links that lead to the preview.
    async fn page(&self, request: &RequestHead) -> (ResponseHead, Vec<u8>) {
        let target = String::from_utf8_lossy(&request.target).into_owned();
        let url = self.site.join("/").map(|root| format!("{}{target}", root.trim_end_matches('/')));
        let Some(url) = url.and_then(|url| HttpUrl::parse(&url).ok()) else {
            return plain(Status::BAD_REQUEST, "This is no path of the site.\n");
        };
        match self.fetcher.fetch(&self.edge, plain_request(&url, &[]), &[]).await {
            Ok(response) if response.is_cut => {
                plain(Status::BAD_GATEWAY, "The response is too long for the preview.\n")
            }
            Ok(response) => self.translated(&response),
            Err(error) => {
                plain(Status::BAD_GATEWAY, &format!("The temporary Petasos did not answer: {error}.\n"))
            }
        }
    }

    fn translated(&self, response: &FetchedResponse) -> (ResponseHead, Vec<u8>) {
        let (authority, own) = (self.site.authority(), self.address.to_string());
        let fields = &response.head.fields;
        let mut sent = Fields::new();
        for name in SENT_FIELDS {
            fields.all(name).for_each(|value| sent.push(name, value.clone()));
        }
        if let Some(location) = fields.first(names::LOCATION) {
            sent.push(names::LOCATION, rewritten(location, authority, &own));
        }
        let media_type = fields.first(names::CONTENT_TYPE).map(|value| value.to_ascii_lowercase());
        let is_text =
            media_type.is_some_and(|found| REWRITTEN_TYPES.iter().any(|kind| found.starts_with(kind)));
        let content = if is_text && response.content_coding().is_none() {
            rewritten(&response.content, authority, &own)
        } else {
            response.content.to_vec()
        };
        finished(response.head.status, sent, content)
    }
}

/// Reads the head of a request. `None` if the client sent none.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<RequestHead>> {
    let mut input = BytesMut::new();
    loop {
        let parsed = h1::parse_request(&mut input, &Limits::DEFAULT, Strictness::Strict);
        if let Some(request) = parsed.map_err(io::Error::other)? {
            return Ok(Some(request.head));
        }
        if net::read_more(stream, &mut input, READ_BYTES).await? == 0 {
            return Ok(None);
        }
    }
}

fn plain(status: Status, text: &str) -> (ResponseHead, Vec<u8>) {
    let mut fields = Fields::new();
    fields.push(names::CONTENT_TYPE, "text/plain; charset=utf-8");
    finished(status, fields, text.as_bytes().to_vec())
}

fn finished(status: Status, mut fields: Fields, content: Vec<u8>) -> (ResponseHead, Vec<u8>) {
    fields.push("Content-Security-Policy", POLICY);
    fields.push(names::CACHE_CONTROL, "no-store");
    fields.push(names::CONTENT_LENGTH, content.len().to_string());
    fields.push(names::CONNECTION, "close");
    let mut head = ResponseHead::new(status);
    head.version = Version::Http11;
    head.fields = fields;
    (head, content)
}
