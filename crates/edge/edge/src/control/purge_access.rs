//! Access control: which clients may purge, and which may read at the admin address.
//!
//! Invariants: at the visitors' listener a loopback address proves nothing. Any proxy on this
//! machine has such an address and forwards requests of arbitrary clients. This listener accepts
//! purges only with the token or from the listed peers. The admin listener is behind no proxy. If
//! no token is configured, it accepts purges from this machine. If a proxy forwarded a request, the
//! peer's address never permits it.

use address::Prefixes;
use message::{Fields, names};
use net::Peer;
use purge::presented_tokens;

/// The listener on which a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    Visitors,
    Admin,
}

/// Decides which clients may purge, and which may read the state of the edge.
#[derive(Debug)]
pub(crate) struct PurgeAccess {
    /// The token that purges must show. Without one, access is decided by the client's address.
    token: Option<String>,
    /// The addresses that may purge at the visitors' listener.
    peers: Prefixes,
}

/// Why a client may not purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It presented a wrong token.
    WrongToken,
    /// Its address is permitted, but the request was forwarded for another client.
    Forwarded,
    /// A token is configured, and it presented none.
    NoToken,
    /// No token is configured, and its address is not permitted.
    Address(Entrance),
}

/// Fields, beside `X-Forwarded-*`, that show that a proxy forwarded the request.
const FORWARDING_FIELDS: [&str; 11] = [
    names::FORWARDED,
    names::VIA,
    "X-Real-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "X-Original-Forwarded-For",
    "X-Envoy-External-Address",
    "True-Client-IP",
    "CF-Connecting-IP",
    "Fastly-Client-IP",
    "CDN-Loop",
];

/// Prefix of the other forwarding fields.
const FORWARDED_PREFIX: &[u8] = b"X-Forwarded-";

impl PurgeAccess {
    /// Permits clients that present `token`, and clients with an address in `peers`.
    pub(crate) const fn new(token: Option<String>, peers: Prefixes) -> Self {
        Self { token, peers }
    }

    /// Whether a token is configured.
    pub(crate) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The token, if one is configured.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whether the request shows the token.
    pub(crate) fn shows_token(&self, fields: &Fields) -> bool {
        self.token.as_ref().is_some_and(|token| {
            presented_tokens(fields).any(|presented| is_equal(presented, token.as_bytes()))
        })
    }

    /// Whether the client that sent these fields on this connection may purge.
    pub(crate) fn may_purge(&self, entrance: Entrance, peer: Peer, fields: &Fields) -> Result<(), Denied> {
        let has_shown = presented_tokens(fields).next().is_some();
        if self.shows_token(fields) {
            return Ok(());
        }
        let may_do_without = entrance == Entrance::Visitors || self.token.is_none();
        if may_do_without && self.is_known(entrance, peer) {
            return if is_forwarded(fields) { Err(Denied::Forwarded) } else { Ok(()) };
        }
        Err(match &self.token {
            Some(_) if has_shown => Denied::WrongToken,
            Some(_) => Denied::NoToken,
            None => Denied::Address(entrance),
        })
    }

    /// Whether a client may read the state of the edge at the admin address. A client on this
    /// machine needs no token, even if the address is open to other machines. Clients on other
    /// machines need it.
    pub(crate) fn may_read(&self, peer: Peer, fields: &Fields) -> bool {
        let is_local = self.is_known(Entrance::Admin, peer) && !is_forwarded(fields);
        is_local || self.may_purge(Entrance::Admin, peer, fields).is_ok()
    }

    /// Whether this peer's purge order may have a longer head although no token has arrived yet.
    /// The token may be behind a long list of tags.
    pub(crate) fn may_show_token_late(&self, entrance: Entrance, peer: Peer) -> bool {
        self.token.is_some() && self.is_known(entrance, peer)
    }

    /// Whether the peer's address is permitted at this listener.
    fn is_known(&self, entrance: Entrance, peer: Peer) -> bool {
        match entrance {
            Entrance::Visitors => peer.ip().is_some_and(|ip| self.peers.contains(ip)),
            // A process on this machine connects over loopback or a Unix socket.
            Entrance::Admin => peer.is_loopback(),
        }
    }
}

impl Denied {
    /// Explains the refusal and what the operator can do about it.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::WrongToken => {
                "This client may not purge: the token is not the right one. It stands in token_file."
            }
            Self::Forwarded => {
                "This client may not purge: a proxy has forwarded its request, so its address does not count. Purge \
                 without the proxy, or set token_file and send the token."
            }
            Self::NoToken => {
                "This client may not purge without the token in token_file: send it as \"Authorization: Bearer TOKEN\". \
                 `petasos purge` takes it from PETASOS_TOKEN or --token-file."
            }
            Self::Address(Entrance::Visitors) => {
                "This client may not purge: set token_file and send the token, or purge at the admin address. Add a \
                 client that can do neither to purge_peers, unless a proxy with its address forwards visitors."
            }
            Self::Address(Entrance::Admin) => {
                "This client may not purge: without a token_file only this machine may purge here. Set token_file and \
                 send the token."
            }
        }
    }
}

/// Whether a proxy has forwarded the request.
fn is_forwarded(fields: &Fields) -> bool {
    let has_prefix = |name: &[u8]| {
        name.get(..FORWARDED_PREFIX.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(FORWARDED_PREFIX))
    };
    FORWARDING_FIELDS.iter().any(|name| fields.has(name))
        || fields.iter().any(|field| has_prefix(&field.name))
}

/// Compares two secrets in constant time, except for their lengths.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::{Denied, Entrance, PurgeAccess};
    use address::Prefix;
    use message::Fields;
    use net::Peer;

    fn edge(token: Option<&str>) -> PurgeAccess {
        let peers = ["10.0.0.0/8", "2001:db8::/32"].map(|p| p.parse::<Prefix>().unwrap());
        PurgeAccess::new(token.map(str::to_owned), peers.into_iter().collect())
    }

    fn asked(
        access: &PurgeAccess,
        entrance: Entrance,
        peer: &str,
        field: (&'static str, &'static str),
    ) -> Result<(), Denied> {
        let peer = peer.parse().map_or(Peer::Unix, Peer::Ip);
        let mut fields = Fields::new();
        fields.push("Host", "a.test");
        fields.push(field.0, field.1);
        access.may_purge(entrance, peer, &fields)
    }

    const PLAIN: (&str, &str) = ("Accept", "*/*");
    const TOKEN: (&str, &str) = ("Authorization", "Bearer secret");
    const FORWARDED: (&str, &str) = ("x-forwarded-for", "203.0.113.9");

    #[test]
    fn loopback_address_counts_only_at_the_admin_listener() {
        let access = edge(None);
        for peer in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix"] {
            let denied = Err(Denied::Address(Entrance::Visitors));
            assert_eq!(asked(&access, Entrance::Visitors, peer, PLAIN), denied, "{peer}");
            assert_eq!(asked(&access, Entrance::Admin, peer, PLAIN), Ok(()), "{peer}");
            assert_eq!(asked(&access, Entrance::Admin, peer, FORWARDED), Err(Denied::Forwarded), "{peer}");
        }
        let denied = Err(Denied::Address(Entrance::Admin));
        assert_eq!(asked(&access, Entrance::Admin, "192.0.2.1:1", PLAIN), denied);
    }

    #[test]
    fn loopback_address_does_not_count_if_there_is_a_token() {
        let access = edge(Some("secret"));
        for entrance in [Entrance::Visitors, Entrance::Admin] {
            for peer in ["127.0.0.1:1", "unix", "192.0.2.1:1"] {
                assert_eq!(asked(&access, entrance, peer, PLAIN), Err(Denied::NoToken));
                assert_eq!(asked(&access, entrance, peer, TOKEN), Ok(()));
                let wrong = ("Fastly-Key", "secre");
                assert_eq!(asked(&access, entrance, peer, wrong), Err(Denied::WrongToken));
            }
        }
    }

    #[test]
    fn reading_from_other_machines_needs_the_token() {
        for token in [None, Some("secret")] {
            let access = edge(token);
            let may_read = |peer: &str, field: (&'static str, &'static str)| {
                let peer = peer.parse().map_or(Peer::Unix, Peer::Ip);
                let mut fields = Fields::new();
                fields.push(field.0, field.1);
                access.may_read(peer, &fields)
            };
            for local in ["127.0.0.1:1", "[::1]:1", "unix"] {
                assert!(may_read(local, PLAIN), "{local}");
                assert!(!may_read(local, FORWARDED), "{local} forwards for another machine");
            }
            for other in ["192.0.2.1:1", "10.1.2.3:1", "[2001:db8::9]:1"] {
                assert!(!may_read(other, PLAIN), "{other}");
                assert_eq!(may_read(other, TOKEN), token.is_some(), "{other}");
            }
        }
    }

    #[test]
    fn listed_peers_count_unless_their_request_was_forwarded() {
        for token in [None, Some("secret")] {
            let (access, entrance) = (edge(token), Entrance::Visitors);
            assert!(asked(&access, Entrance::Admin, "10.1.2.3:1", PLAIN).is_err());
            for peer in ["10.1.2.3:1", "[::ffff:10.1.2.3]:1", "[2001:db8::9]:1"] {
                assert_eq!(asked(&access, entrance, peer, PLAIN), Ok(()), "{peer}");
                for name in ["X-Forwarded-Ssl", "forwarded", "Via", "CF-Connecting-IP", "x-real-ip"] {
                    assert_eq!(asked(&access, entrance, peer, (name, "a")), Err(Denied::Forwarded), "{name}");
                }
            }
        }
    }

    #[test]
    fn without_a_configured_token_no_token_is_accepted() {
        for secret in [TOKEN, ("Authorization", "Bearer "), ("X-Auth-Key", "")] {
            let denied = Err(Denied::Address(Entrance::Visitors));
            assert_eq!(asked(&edge(None), Entrance::Visitors, "127.0.0.1:1", secret), denied);
        }
    }
}
