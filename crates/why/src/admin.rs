//! Calls of the admin address of a running edge: one request on its own connection.
//!
//! Invariant: nothing is retried. A whole response has limits of time and size; a stream has none,
//! except that an edge which is silent for [`SILENCE_MAX`] counts as gone.

use crate::ProbeError;
use crate::fetch::{FetchedResponse, Fetcher, ResponseStream, connection_failure, within_time};
use address::Address;
use bytes::{Bytes, BytesMut};
use difference::text_of;
use h1::client::ResponseEvent;
use message::{Fields, Method, RequestHead, Status, Version, names};
use net::Stream;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

/// The longest silence of a stream. The edge sends an empty line every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A running edge, as a command reaches it.
pub struct EdgeAccess<'a> {
    /// Makes the connections. They have TLS if it has a client for it.
    pub fetcher: &'a Fetcher,
    /// The admin address.
    pub admin: &'a Address,
    /// The token, where the edge demands one.
    pub token: Option<&'a str>,
}

/// A response that is read as it arrives.
pub struct EdgeStream(ResponseStream<Box<dyn Connection>>);

/// What became of the request for a stream.
pub enum StreamReply {
    /// It has begun.
    Begun(Box<EdgeStream>),
    /// The edge refused it, with this status and text.
    Refused(Status, String),
}

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

impl EdgeAccess<'_> {
    /// Posts JSON to `target`, and returns the response.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn post(&self, target: &str, content: &[u8]) -> Result<FetchedResponse, ProbeError> {
        let mut request = self.request(Method::Post, target);
        request.fields.push(names::CONTENT_TYPE, "application/json");
        request.fields.push(names::CONTENT_LENGTH, content.len().to_string());
        within_time(async { self.fetcher.exchange(self.connect().await?, request, content).await }).await
    }

    /// Gets `target`, and returns the response.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn get(&self, target: &str) -> Result<FetchedResponse, ProbeError> {
        let request = self.request(Method::Get, target);
        within_time(async { self.fetcher.exchange(self.connect().await?, request, b"").await }).await
    }

    /// Gets `target`, whose response does not end.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn stream(&self, target: &str) -> Result<StreamReply, ProbeError> {
        let request = self.request(Method::Get, target);
        within_time(async {
            let mut octets = BytesMut::new();
            h1::write_request_head(&mut octets, &request).map_err(ProbeError::Unwritable)?;
            let mut connection = self.connect().await?;
            let written = connection.write_all(&octets).await;
            written.map_err(|error| ProbeError::Broken(error.kind()))?;
            let mut reading = ResponseStream::new(connection, &request.method);
            let (head, _) = reading.head(&request.method).await?;
            if head.status == Status::OK {
                return Ok(StreamReply::Begun(Box::new(EdgeStream(reading))));
            }
            let (content, _) = reading.content().await?;
            let line = content.split(|&octet| octet == b'\n').next().unwrap_or_default();
            Ok(StreamReply::Refused(head.status, text_of(line)))
        })
        .await
    }

    fn request(&self, method: Method, target: &str) -> RequestHead {
        let mut fields = Fields::new();
        fields.push(names::HOST, self.host());
        fields.push(names::CONNECTION, "close");
        if let Some(token) = self.token {
            fields.push(names::AUTHORIZATION, format!("Bearer {token}"));
        }
        RequestHead { method, target: target.to_owned().into(), version: Version::Http11, fields }
    }

    /// At the admin address, the edge accepts only requests whose Host is an IP address, localhost
    /// or the configured name.
    fn host(&self) -> String {
        match self.admin {
            Address::Ip(_) | Address::Host { .. } => self.admin.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Connection>, ProbeError> {
        let admin = self.admin;
        let stream = Stream::connect(admin).await.map_err(|error| connection_failure(admin, &error))?;
        let Some(tls) = &self.fetcher.tls else { return Ok(Box::new(stream)) };
        let name = match admin {
            Address::Ip(address) => address.ip().to_string(),
            Address::Host { name, .. } => name.clone(),
            Address::Unix(_) => "localhost".to_owned(),
        };
        Ok(Box::new(tls.secure(stream, &name).await?))
    }
}

impl EdgeStream {
    /// The next piece of the content. `None` at its end.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, ProbeError> {
        loop {
            let event = tokio::time::timeout(SILENCE_MAX, self.0.advance()).await;
            match event.map_err(|_| ProbeError::TimedOut)?? {
                Some(ResponseEvent::Data(octets)) => return Ok(Some(octets)),
                Some(ResponseEvent::End(_)) => return Ok(None),
                Some(ResponseEvent::Informational(_) | ResponseEvent::Head(_)) | None => {}
            }
        }
    }
}
