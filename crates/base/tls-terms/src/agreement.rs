//! The terms on which a client and a server agreed in a TLS handshake.
//!
//! Invariant: an unknown value is absent or 0, never guessed.

/// The terms of a connection, in the notation of OpenSSL's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsAgreement {
    /// The version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub suite: &'static str,
    /// Length of the server's public key in bits; 0 if the kind of key is unknown.
    pub key_bits: u32,
    /// Length of the cipher's key in bits.
    pub cipher_bits: u16,
    /// The server's ephemeral key, such as `X25519 253 bits`.
    pub temporary_key: Option<String>,
}
