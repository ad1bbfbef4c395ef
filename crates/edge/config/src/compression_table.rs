//! The settings of coded forms, as rows of the settings table.

use crate::row::site;
use crate::setting::{Setting, SettingKind};

/// The words of `compression.codings`, in the order of the default.
pub(crate) const CODINGS: &[&str] = &["br", "zstd", "gzip"];

pub(crate) const COMPRESSION: &[Setting] = &[
    site(
        "compression.enabled",
        SettingKind::Switch,
        Some("true"),
        "Whether Petasos compresses stored responses that the origin sent uncompressed or with gzip. It \
         does so in the background after a response's second use; docs/compression.md describes it. \
         Responses for one client only are never compressed. The profile `rfc` sends what the origin \
         sends.",
    ),
    site(
        "compression.codings",
        SettingKind::Choices(CODINGS),
        None,
        "Content codings into which Petasos compresses stored responses, the preferred one first. A client \
         gets the first one that it accepts. If left out: br, zstd, gzip.",
    ),
    site(
        "compression.types",
        SettingKind::Patterns,
        None,
        "Media types of the responses that Petasos compresses, without parameters. Event streams are never \
         compressed. If left out: text/*, JSON and XML formats, JavaScript, WebAssembly, uncompressed fonts \
         and pictures, as docs/compression.md lists them.",
    ),
    site(
        "compression.size_min",
        SettingKind::Size,
        Some("1KiB"),
        "Shortest content that Petasos compresses.",
    ),
    site(
        "compression.size_max",
        SettingKind::Size,
        Some("4MiB"),
        "Longest content that Petasos compresses, before and after a decoding of the origin's gzip. At most \
         64MiB. Content on disk (`limits.object_bytes_max`) is never compressed.",
    ),
    site(
        "compression.misses",
        SettingKind::Choice(&["identity", "gzip"]),
        Some("identity"),
        "Form in which a client gets a shared response while it is fetched, if the origin sent it without a \
         coding. `identity`: as it is. `gzip`: compressed at the fastest level while it is sent, if the \
         client accepts gzip; this costs processor time for each miss.",
    ),
];
