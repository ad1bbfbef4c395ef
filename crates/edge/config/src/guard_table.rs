//! The settings of the table `guard`: which clients are refused, and how much each may ask for.

use crate::row::{global, row};
use crate::setting::{Setting, SettingKind, SettingScope};

/// Largest rate of a client, in requests a second.
const RATE_MAX: u64 = 1_000_000;

pub(crate) const GUARD: &[Setting] = &[
    row(
        "guard.deny",
        SettingScope::Global,
        SettingKind::Peers,
        None,
        "Addresses, networks and files (`@FILE`) of clients that Petasos refuses. It closes their \
         connections at once. If a trusted proxy states the address, the client gets 403. A reload reads \
         the files again. If left out: nobody.",
    ),
    row(
        "guard.allow",
        SettingScope::Global,
        SettingKind::Peers,
        None,
        "Addresses, networks and files (`@FILE`) of clients for which the limits of the table `guard` do \
         not hold. `guard.deny` has precedence. If left out: the addresses of this machine, `127.0.0.0/8` \
         and `::1`.",
    ),
    global(
        "guard.requests_per_second",
        SettingKind::Count(0, RATE_MAX),
        "0",
        "Largest number of requests a second of one client; further ones get 429 with Retry-After. An IPv6 \
         network of 64 bits counts as one client. All clients of a network (`/24`, IPv6 `/48`) together may \
         send four times as many. `0`: no limit.",
    ),
    global(
        "guard.requests_burst",
        SettingKind::Count(1, RATE_MAX),
        "1000",
        "Number of requests that a client may send at once before `guard.requests_per_second` holds.",
    ),
    global(
        "guard.origin_requests_per_second",
        SettingKind::Count(0, RATE_MAX),
        "100",
        "Largest number of requests a second of one client that need the origin: misses and passes. Hits, \
         and requests that share the fetch of another one, are free. Further ones get 429 with Retry-After. \
         An IPv6 network of 64 bits counts as one client. All clients of a network (`/24`, IPv6 `/48`) \
         together may need the origin four times as often. `0`: no limit.",
    ),
    global(
        "guard.origin_burst",
        SettingKind::Count(1, RATE_MAX),
        "1000",
        "Number of requests for the origin that a client may send at once before \
         `guard.origin_requests_per_second` holds.",
    ),
    global(
        "guard.ban",
        SettingKind::Duration,
        "10s",
        "Time for which Petasos refuses a client at once that goes on beyond the limits above: after 100 \
         refusals within 10 seconds. It closes the connections of the client. `0s`: never. A client behind \
         a trusted proxy gets 429 instead.",
    ),
    global(
        "guard.stale_when_busy",
        SettingKind::Switch,
        "true",
        "Whether visitors get a stale page at once while requests wait in the origin's queue for more than \
         half a second. The page must be one that may be sent when the origin fails \
         (`stale_on_error`). Petasos refreshes it in the background.",
    ),
];
