//! How the connections to an https origin are secured.
//!
//! Invariant: a connection to an https origin carries a request only after its handshake. Without
//! settings for TLS there is no connection.

use net::{Stream, TlsClient, TlsError};

/// How the connections to an https origin are secured.
#[derive(Clone, Debug)]
pub struct OriginTls {
    client: TlsClient,
    name: String,
}

impl OriginTls {
    /// Secures connections by this client. `name`, a host name or an IP address without brackets,
    /// is the name that Petasos asks for (SNI) and that the origin's certificate must be for.
    ///
    /// # Errors
    /// [`TlsError::Name`] if no certificate can be for the name.
    pub fn new(client: TlsClient, name: String) -> Result<Self, TlsError> {
        if TlsClient::is_name(&name) { Ok(Self { client, name }) } else { Err(TlsError::Name(name)) }
    }

    /// The name that the origin's certificate must be for.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Secures a new connection. The caller limits the time.
    pub(crate) async fn secure(&self, stream: Stream) -> Result<Stream, TlsError> {
        self.client.secure(stream, &self.name).await.map(net::TlsStream::into_stream)
    }
}
