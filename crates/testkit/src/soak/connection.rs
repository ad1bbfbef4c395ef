//! Connections of a soak's visitors: HTTP/1.1 and HTTP/2, each plain and over TLS.
//!
//! Invariant: a request that the edge has not processed, by the rules of HTTP/2, is sent once more,
//! as browsers do. No other request is repeated.

use super::SoakState;
use crate::{Client, Http2Client, Http2Stream, Response};
use bytes::Bytes;
use h2::Reason;
use stats::Random;
use std::time::Duration;

/// The name that visitors ask for in the TLS handshake.
pub(super) const TLS_NAME: &str = "c.test";
/// One of this many exchanges over a kept connection is its last, so that handshakes go on.
const EXCHANGES_MEAN: usize = 100;

/// How a visitor reaches the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    Secured,
    /// HTTP/2 over TLS.
    Http2,
    /// HTTP/2 by prior knowledge.
    Http2Cleartext,
}

impl Transport {
    pub(super) const ALL: [Self; 4] = [Self::Plain, Self::Http2, Self::Secured, Self::Http2Cleartext];

    /// The name under which responses are counted.
    const fn tally(self) -> &'static str {
        match self {
            Self::Plain => "responses over HTTP/1.1",
            Self::Secured => "responses over HTTP/1.1 with TLS",
            Self::Http2 => "responses over HTTP/2 with TLS",
            Self::Http2Cleartext => "responses over HTTP/2 without TLS",
        }
    }
}

/// One visitor.
pub(super) struct Visitor {
    pub(super) transport: Transport,
    /// The open connection, if there is one.
    connection: Option<Connection>,
    pub(super) random: Random,
}

enum Connection {
    Http1(Client),
    Http2(Box<Http2Client>),
}

/// A request.
#[derive(Clone, Copy, Default)]
pub(super) struct Message<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    pub(super) target: &'a str,
    /// Header lines without line ends.
    pub(super) fields: &'a [&'a str],
    pub(super) content: Option<Upload<'a>>,
}

/// The content of a request.
#[derive(Clone, Copy)]
pub(super) struct Upload<'a> {
    pub(super) octets: &'a [u8],
    /// Whether the length is not stated. HTTP/2 states none in any case.
    pub(super) is_chunked: bool,
    /// Whether the client waits for 100 (Continue). Only with HTTP/1.1.
    pub(super) expects: bool,
    /// Bytes of a piece, and the pause after each.
    pub(super) pace: (usize, Duration),
}

/// How an exchange ended.
enum Outcome {
    Answered(Response),
    NotProcessed,
    Broken,
}

impl Visitor {
    pub(super) fn new(transport: Transport, random: Random) -> Self {
        Self { transport, connection: None, random }
    }

    /// Makes one exchange on the open connection or on a new one. Keeps the connection open if
    /// possible. `None` if there was no response.
    pub(super) fn exchange(&mut self, stage: &SoakState<'_>, message: &Message<'_>) -> Option<Response> {
        for _ in 0..2 {
            let mut connection = self.connection.take().or_else(|| self.connect(stage))?;
            match connection.exchange(message) {
                Outcome::NotProcessed => {}
                Outcome::Broken => return None,
                Outcome::Answered(answer) => {
                    let is_usable = match connection {
                        Connection::Http1(_) => {
                            answer.complete && answer.field("Connection") != Some("close")
                        }
                        Connection::Http2(_) => true,
                    };
                    if is_usable && self.random.below(EXCHANGES_MEAN) > 0 {
                        self.connection = Some(connection);
                    }
                    stage.count(self.transport.tally());
                    return Some(answer);
                }
            }
        }
        None
    }

    fn connect(&self, stage: &SoakState<'_>) -> Option<Connection> {
        match self.transport {
            Transport::Plain => Client::try_connect(stage.address).map(Connection::Http1),
            Transport::Secured => {
                Client::secured(stage.secured, TLS_NAME, &stage.trust).ok().map(Connection::Http1)
            }
            Transport::Http2 | Transport::Http2Cleartext => {
                self.connect_http2(stage).map(|client| Connection::Http2(Box::new(client)))
            }
        }
    }

    /// A new connection with HTTP/2, over TLS unless the visitor speaks it without.
    pub(super) fn connect_http2(&self, stage: &SoakState<'_>) -> Option<Http2Client> {
        if self.transport == Transport::Http2Cleartext {
            return Http2Client::try_connect(stage.address);
        }
        Http2Client::secured(stage.secured, TLS_NAME, &stage.trust).ok()
    }

    /// A new connection with HTTP/1.1, over TLS if the visitor uses TLS. The receive buffer of a
    /// plain one has about `receive_bytes`.
    pub(super) fn connect_http1(&self, stage: &SoakState<'_>, receive_bytes: usize) -> Option<Client> {
        if matches!(self.transport, Transport::Secured | Transport::Http2) {
            return Client::secured(stage.secured, TLS_NAME, &stage.trust).ok();
        }
        Client::try_connect_from([127, 0, 0, 1], stage.address, receive_bytes)
    }
}

impl Message<'_> {
    /// The head for HTTP/1.1.
    pub(super) fn head(&self) -> String {
        let Self { method, host, target, fields, content } = self;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        for field in *fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        if let Some(content) = content {
            if content.expects {
                head.push_str("Expect: 100-continue\r\n");
            }
            match content.is_chunked {
                true => head.push_str("Transfer-Encoding: chunked\r\n"),
                false => head.push_str(&format!("Content-Length: {}\r\n", content.octets.len())),
            }
        }
        head.push_str("\r\n");
        head
    }
}

impl Connection {
    fn exchange(&mut self, message: &Message<'_>) -> Outcome {
        match self {
            Self::Http1(client) => exchange(client, message).map_or(Outcome::Broken, Outcome::Answered),
            Self::Http2(client) => exchange_http2(client, message),
        }
    }
}

fn exchange(client: &mut Client, message: &Message<'_>) -> Option<Response> {
    let is_head = message.method == "HEAD";
    let Some(upload) = message.content else {
        return client.try_answer(message.head(), is_head);
    };
    client.try_send(message.head())?;
    if upload.expects {
        let mut early = client.try_read_head()?;
        if early.status != 100 {
            early.complete = client.read_body(&mut early);
            return Some(early);
        }
    }
    for piece in upload.octets.chunks(upload.pace.0.max(1)) {
        if upload.is_chunked {
            client.try_send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
        } else {
            client.try_send(piece)?;
        }
        std::thread::sleep(upload.pace.1);
    }
    if upload.is_chunked {
        client.try_send("0\r\n\r\n")?;
    }
    client.try_answer("", is_head)
}

fn exchange_http2(client: &mut Http2Client, message: &Message<'_>) -> Outcome {
    client.call_host(message.host);
    let request = client.request(message.method, message.target, message.fields);
    // RFC 9113 section 6.8: after GOAWAY, the server has not processed a stream that it does not
    // accept, nor one that the client could not begin.
    let Ok(mut stream) = client.begin(request, message.content.is_none()) else {
        return Outcome::NotProcessed;
    };
    if let Some(upload) = message.content {
        send(client, &mut stream, &upload);
    }
    match client.try_read(stream) {
        Ok(answer) => Outcome::Answered(answer),
        Err(error) if error.is_go_away() && error.is_remote() => Outcome::NotProcessed,
        Err(error) if error.reason() == Some(Reason::REFUSED_STREAM) => Outcome::NotProcessed,
        Err(_) => Outcome::Broken,
    }
}

/// Sends the content. A stream that the edge has ended accepts no more of it, and the response
/// says why.
fn send(client: &mut Http2Client, stream: &mut Http2Stream, upload: &Upload<'_>) {
    for piece in upload.octets.chunks(upload.pace.0.max(1)) {
        if stream.send.send_data(Bytes::copy_from_slice(piece), false).is_err() {
            return;
        }
        client.rest(upload.pace.1);
    }
    let _ = stream.send.send_data(Bytes::new(), true);
}
