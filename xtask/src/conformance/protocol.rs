//! The protocols over which the suite's client speaks with Petasos.

use std::path::Path;
use testkit::{Authority, KeyKind};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1 without TLS
    Http1,
    /// HTTP/1.1 over TLS
    Tls,
    /// HTTP/2 over TLS
    Http2,
}

/// A certificate for loopback.
pub(super) struct Keys {
    /// The certificate of the authority, as a path.
    pub(super) authority: std::path::PathBuf,
    /// The value of `--tls`.
    pub(super) pair: String,
}

impl Protocol {
    /// All protocols. The first is the one whose scores are kept.
    pub(super) const ALL: [Self; 3] = [Self::Http1, Self::Tls, Self::Http2];

    /// Name in output and file names.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Tls => "tls",
            Self::Http2 => "http2",
        }
    }

    /// The scheme of URLs.
    pub(super) const fn scheme(self) -> &'static str {
        match self {
            Self::Http1 => "http",
            Self::Tls | Self::Http2 => "https",
        }
    }

    /// The text that Petasos prints before its address.
    pub(super) const fn serving(self) -> &'static str {
        match self {
            Self::Http1 => "petasos: serving http://",
            Self::Tls | Self::Http2 => "petasos: serving https://",
        }
    }
}

/// Writes a certificate for 127.0.0.1 into a directory.
pub(super) fn keys(directory: &Path) -> Keys {
    let authority = Authority::new("conformance");
    let (chain, key) = authority.issue(&["127.0.0.1"], KeyKind::Ecdsa, (2000, 2100)).write(directory, "edge");
    let path = directory.join("authority.pem");
    // A directory that was just made can be written to; otherwise the client fails and says why.
    let _ = std::fs::write(&path, authority.pem());
    Keys { authority: path, pair: format!("{},{}", chain.display(), key.display()) }
}
