//! The settings of a listener, as rows of the settings table.

use crate::row::row;
use crate::setting::{Setting, SettingKind, SettingScope};

const fn listener(
    key: &'static str,
    kind: SettingKind,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    row(key, SettingScope::Listener, kind, default, doc)
}

pub(crate) const LISTENER: &[Setting] = &[
    listener(
        "listen",
        SettingKind::Address,
        Some("127.0.0.1:8080"),
        "Address where clients connect. `:PORT` means every address of the machine, IPv6 and IPv4; \
         `unix:PATH` means a Unix socket. With `tls` and without `listen`, Petasos listens at `:443` with \
         TLS and redirects from `:80`. Several addresses need a `[[listener]]` table each.",
    )
    .flag("--listen"),
    listener(
        "tls",
        SettingKind::Certificates,
        None,
        "Certificates of the listener, which then speaks TLS only. An entry names the PEM files of the \
         certificate with its chain and of the key, `CERT.pem,KEY.pem`, or one file with both. A host name \
         such as `www.example.org` is for a certificate that Petasos obtains by ACME. All host names of the \
         listener have one certificate. By naming them you agree to the terms of the authority at \
         `acme_directory`. \
         `internal` is for a certificate of a local authority, for development. Petasos \
         chooses among several by the name that the client asks for and by the kind of key; the first \
         serves all other names. Changed files are read again within seconds, and a bad file leaves the \
         old certificate in use. The flag takes one entry, or host names with commas between them. If left out: the listener speaks plain HTTP.",
    )
    .flag("--tls"),
    listener(
        "tls_version_min",
        SettingKind::Choice(&["1.2", "1.3"]),
        Some("1.2"),
        "Oldest version of TLS that clients may use.",
    ),
    listener(
        "http2",
        SettingKind::Switch,
        Some("true"),
        "Offers HTTP/2 to clients with TLS, beside HTTP/1.1.",
    ),
    listener(
        "http2_cleartext",
        SettingKind::Switch,
        Some("false"),
        "Lets clients without TLS speak HTTP/2 if they begin with it (prior knowledge), beside HTTP/1.1. \
         Browsers do not; proxies and gRPC clients may.",
    ),
    listener(
        "proxy_protocol",
        SettingKind::Peers,
        None,
        "Addresses of proxies whose connections begin with a PROXY header, version 1 or 2. The client in \
         the header then counts as the peer for every purpose, and TLS in the header as https. A \
         connection from these addresses without a header is closed; connections from other addresses \
         have none. A peer at a Unix socket counts as 127.0.0.1. If left out: none.",
    ),
    listener(
        "redirect_to_https",
        SettingKind::Switch,
        Some("false"),
        "Answers plain requests with 308 and the same URL with https. Purges are obeyed without a redirect. \
         A request that a proxy of \
         `trusted_proxies` received with https is not redirected.",
    ),
    listener(
        "redirect_except",
        SettingKind::Patterns,
        None,
        "Paths that `redirect_to_https` leaves alone; `*` stands for any characters, as in \
         `/health*`. If left out: none.",
    ),
];
