//! The settings of the admin address, as rows of the settings table.

use crate::row::{global, row};
use crate::setting::{Setting, SettingKind, SettingScope};

pub(crate) const ADMIN: &[Setting] = &[
    global(
        "admin",
        SettingKind::Address,
        "127.0.0.1:8081",
        "Address that serves metrics and status and accepts purges. A client on this machine reads them \
         without a token, and purges without one unless `token_file` is set. A client on another machine, or \
         behind a proxy, needs the token of `token_file` for both. Every client may read `/healthz` and `/readyz`. Keep \
         this address on loopback unless it has TLS by `admin_certificate`, and let no proxy forward to it.",
    )
    .flag("--admin"),
    row(
        "admin_certificate",
        SettingScope::Global,
        SettingKind::Certificate,
        None,
        "Certificate with its chain, and its key, as PEM files. One file may hold both. The admin address \
         then speaks TLS 1.3 only. Changed files are read again within seconds. If left out: it speaks plain \
         HTTP.",
    ),
    row(
        "admin_client_ca",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "PEM file with the authorities of client certificates for the admin address. A client without a \
         certificate from one of them is refused in the TLS handshake. A client with one needs no token to \
         read, purge or reload. A reload reads the file again. If left out: clients need no certificate.",
    ),
    row(
        "reports_directory",
        SettingScope::Global,
        SettingKind::Text,
        None,
        "Directory with reports of `petasos bench` and `petasos ladder`, which the dashboard lists: files \
         whose names end in `.html` or `.json`, also in directories directly below. Everyone who may read \
         at `admin` may read them. If left out: the dashboard lists no reports.",
    ),
];
