//! What the dashboard remembers: sessions, recent changes, and samples of counters.
//!
//! Invariants: everything is bounded, and lost with the process. The identifier of a session is
//! stored as a digest only, so that comparing it reveals nothing about it. A session ends with the
//! token that it was begun with.

use api::dashboard::History;
use clock::Monotonic;
use dashboard::{Change, Range, Samples};
use platform::sound;
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Maximum number of sessions. One more ends the oldest.
pub(crate) const SESSIONS_MAX: usize = 32;

/// Time after which a session ends.
pub(crate) const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);

/// Maximum number of attempts to log in that one client may make in [`ATTEMPTS_PERIOD`]. An IPv6
/// network of 64 bits is one client.
pub(crate) const ATTEMPTS_MAX: u32 = 5;

/// The period that [`ATTEMPTS_MAX`] is for.
pub(crate) const ATTEMPTS_PERIOD: Duration = Duration::from_secs(60);

/// Maximum number of clients whose attempts are counted one by one. All others count as one, except
/// this machine.
const CLIENTS_MAX: usize = 256;

/// Number of IPv6 clients of one network of 48 bits that are counted one by one. One more counts
/// with all others of it, because one customer of a provider may have such a network.
const NEIGHBOURS_MAX: usize = 16;

/// Maximum number of changes that are remembered.
pub(crate) const CHANGES_MAX: usize = 50;

/// Maximum number of event streams of the dashboard at the same time.
pub(crate) const LISTENERS_MAX: usize = 8;

/// Maximum number of readings of the directory of reports at the same time.
const REPORT_READERS_MAX: usize = 2;

/// Everything that the dashboard remembers.
#[derive(Debug)]
pub(crate) struct DashboardState {
    pub(crate) sessions: Sessions,
    pub(crate) changes: Changes,
    samples: Mutex<Samples>,
    pub(crate) rendered: RenderedTable,
    /// Permits for event streams.
    pub(crate) listeners: Arc<Semaphore>,
    /// Permits for reading the directory of reports.
    pub(crate) report_readers: Arc<Semaphore>,
}

/// Names and HTML of sections.
pub(crate) type RenderedSections = Arc<[(&'static str, Arc<str>)]>;

/// The sections of the main page as they were at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    pub(crate) at: Monotonic,
    /// The minute of `history`, in minutes since 1970.
    pub(crate) minute: u64,
    pub(crate) history: Arc<History>,
    pub(crate) sections: RenderedSections,
}

/// The sections that were rendered last, for each period of the charts.
#[derive(Debug, Default)]
pub(crate) struct RenderedTable {
    all: Mutex<[Option<Rendered>; Range::ALL.len()]>,
}

impl RenderedTable {
    pub(crate) fn of(&self, range: Range) -> Option<Rendered> {
        sound(self.all.lock()).get(range as usize).cloned().flatten()
    }

    pub(crate) fn set(&self, range: Range, rendered: Rendered) {
        if let Some(place) = sound(self.all.lock()).get_mut(range as usize) {
            *place = Some(rendered);
        }
    }
}

/// The sessions of people who have logged in.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    list: Mutex<VecDeque<Session>>,
    attempts: Mutex<Vec<Attempts>>,
    /// The token in forms of clients that need no session.
    form_token: OnceLock<String>,
}

#[derive(Debug)]
struct Session {
    /// The digest of its identifier.
    id: [u8; 32],
    /// The token in its forms.
    form_token: String,
    /// The digest of the token that it was begun with.
    token: [u8; 32],
    ends: Monotonic,
}

/// Wrong or unfinished attempts of one client.
#[derive(Debug)]
struct Attempts {
    client: Guesser,
    count: u32,
    since: Monotonic,
}

/// Whose attempts are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guesser {
    /// This machine. No stranger can use up its attempts.
    Local,
    /// An IPv4 address or an IPv6 network of 64 bits.
    Client(IpAddr),
    /// Many clients of an IPv6 network of 48 bits.
    Neighbours(Ipv6Addr),
    /// Too many clients, or one without an address.
    Rest,
}

/// The last purges and reloads.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    list: Mutex<VecDeque<Change>>,
}

impl Default for DashboardState {
    fn default() -> Self {
        Self {
            sessions: Sessions::default(),
            changes: Changes::default(),
            samples: Mutex::default(),
            rendered: RenderedTable::default(),
            listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
            report_readers: Arc::new(Semaphore::new(REPORT_READERS_MAX)),
        }
    }
}

impl DashboardState {
    /// The number of open event streams.
    pub(crate) fn streams(&self) -> usize {
        LISTENERS_MAX.saturating_sub(self.listeners.available_permits())
    }

    /// Adds a sample if the last one is old enough, and returns all.
    pub(crate) fn sample(&self, now: Monotonic, data: &api::dashboard::DashboardData) -> Samples {
        let mut samples = sound(self.samples.lock());
        samples.push(Duration::from_nanos(now.as_nanos()), data);
        samples.clone()
    }
}

impl Sessions {
    /// Begins a session with these random texts for somebody who has shown `token`.
    pub(crate) fn begin(&self, id: &str, form_token: String, token: &str, now: Monotonic) {
        let mut list = sound(self.list.lock());
        list.retain(|session| session.ends > now);
        if list.len() == SESSIONS_MAX {
            list.pop_front();
        }
        let (id, token) = (digest(id.as_bytes()), digest(token.as_bytes()));
        list.push_back(Session { id, form_token, token, ends: now.plus(SESSION_LIFE) });
    }

    /// The token in the forms of the session with this identifier, if it lasts and was begun with
    /// `token`.
    pub(crate) fn form_token_of(&self, id: &[u8], token: Option<&str>, now: Monotonic) -> Option<String> {
        let (id, token) = (digest(id), digest(token?.as_bytes()));
        let list = sound(self.list.lock());
        let session = list.iter().find(|session| session.id == id)?;
        (session.ends > now && session.token == token).then(|| session.form_token.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &[u8]) {
        let id = digest(id);
        sound(self.list.lock()).retain(|session| session.id != id);
    }

    /// The token in forms of clients that need no session; `random` makes it once. A page of
    /// another site cannot read it.
    pub(crate) fn common_form_token(&self, random: impl FnOnce() -> Option<String>) -> Option<String> {
        if let Some(known) = self.form_token.get() {
            return Some(known.clone());
        }
        let new = random()?;
        Some(self.form_token.get_or_init(|| new).clone())
    }

    /// Counts an attempt to log in. Returns whether it may be made.
    pub(crate) fn may_attempt(&self, client: Option<IpAddr>, now: Monotonic) -> bool {
        let mut attempts = sound(self.attempts.lock());
        attempts.retain(|known| now.since(known.since) < ATTEMPTS_PERIOD);
        let client = guesser(client, &attempts);
        if let Some(known) = attempts.iter_mut().find(|known| known.client == client) {
            known.count = known.count.saturating_add(1);
            return known.count <= ATTEMPTS_MAX;
        }
        attempts.push(Attempts { client, count: 1, since: now });
        true
    }

    /// Whether a client has made all attempts that it may make now.
    pub(crate) fn is_exhausted(&self, client: Option<IpAddr>, now: Monotonic) -> bool {
        let attempts = sound(self.attempts.lock());
        let client = guesser(client, &attempts);
        attempts.iter().any(|known| {
            known.client == client && known.count >= ATTEMPTS_MAX && now.since(known.since) < ATTEMPTS_PERIOD
        })
    }

    /// Forgets the attempts of a client that has shown the token.
    pub(crate) fn forget_attempts(&self, client: Option<IpAddr>) {
        let mut attempts = sound(self.attempts.lock());
        let client = guesser(client, &attempts);
        attempts.retain(|known| known.client != client);
    }
}

/// With whom the attempts of a client are counted.
fn guesser(client: Option<IpAddr>, attempts: &[Attempts]) -> Guesser {
    let Some(client) = client.map(network) else { return Guesser::Rest };
    if client.is_loopback() || client == network(Ipv6Addr::LOCALHOST.into()) {
        return Guesser::Local;
    }
    let one = Guesser::Client(client);
    if attempts.iter().any(|known| known.client == one) {
        return one;
    }
    let wider = |address: Ipv6Addr| Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 80));
    if let IpAddr::V6(address) = client {
        let is_near = |known: &&Attempts| matches!(known.client, Guesser::Client(IpAddr::V6(other)) if wider(other) == wider(address));
        if attempts.iter().filter(is_near).count() >= NEIGHBOURS_MAX {
            return Guesser::Neighbours(wider(address));
        }
    }
    if attempts.len() < CLIENTS_MAX { one } else { Guesser::Rest }
}

impl Changes {
    /// Adds a change; its number is assigned here.
    pub(crate) fn add(&self, change: Change) -> u64 {
        let mut list = sound(self.list.lock());
        let number = list.front().map_or(1, |newest| newest.number + 1);
        list.push_front(Change { number, ..change });
        list.truncate(CHANGES_MAX);
        number
    }

    /// The change with this number, if it is remembered.
    pub(crate) fn by_number(&self, number: u64) -> Option<Change> {
        sound(self.list.lock()).iter().find(|change| change.number == number).cloned()
    }

    /// The changes that are remembered, the newest first.
    pub(crate) fn recent(&self) -> Vec<Change> {
        sound(self.list.lock()).iter().cloned().collect()
    }
}

/// Whether two secrets are equal. The time says nothing about where they differ.
pub(crate) fn is_same_secret(one: &[u8], other: &[u8]) -> bool {
    digest(one) == digest(other)
}

fn digest(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// The network that counts as one client.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ATTEMPTS_MAX, ATTEMPTS_PERIOD, CHANGES_MAX, CLIENTS_MAX, Changes, NEIGHBOURS_MAX, SESSION_LIFE,
        SESSIONS_MAX, Sessions,
    };
    use clock::Monotonic;
    use dashboard::Change;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    const NOW: Monotonic = Monotonic::from_nanos(5);

    #[test]
    fn session_ends_in_time_and_with_its_token() {
        let sessions = Sessions::default();
        sessions.begin("id", "form".to_owned(), "secret", NOW);
        let form_token = |id: &[u8], token, now| sessions.form_token_of(id, token, now);
        assert_eq!(form_token(b"id", Some("secret"), NOW).as_deref(), Some("form"));
        assert_eq!(form_token(b"other", Some("secret"), NOW), None);
        assert_eq!(form_token(b"id", Some("new"), NOW), None, "the token was changed");
        assert_eq!(form_token(b"id", None, NOW), None, "the token was removed");
        assert_eq!(form_token(b"id", Some("secret"), NOW.plus(SESSION_LIFE)), None);
        sessions.end(b"id");
        assert_eq!(form_token(b"id", Some("secret"), NOW), None);
    }

    #[test]
    fn one_session_too_many_ends_the_oldest() {
        let sessions = Sessions::default();
        for number in 0..=SESSIONS_MAX {
            sessions.begin(&number.to_string(), String::new(), "secret", NOW);
        }
        let lasts =
            |number: usize| sessions.form_token_of(number.to_string().as_bytes(), Some("secret"), NOW);
        assert!(lasts(0).is_none() && lasts(1).is_some() && lasts(SESSIONS_MAX).is_some());
    }

    #[test]
    fn attempts_of_each_network_are_limited() {
        let sessions = Sessions::default();
        let client = |text: &str| text.parse::<IpAddr>().ok();
        let allowed = |client, now| (0..20).filter(|_| sessions.may_attempt(client, now)).count();
        assert_eq!(allowed(client("2001:db8::1"), NOW), ATTEMPTS_MAX as usize);
        assert_eq!(allowed(client("2001:db8::2"), NOW), 0, "the same network");
        assert_eq!(allowed(client("192.0.2.1"), NOW), ATTEMPTS_MAX as usize);
        assert_eq!(allowed(client("2001:db8::2"), NOW.plus(ATTEMPTS_PERIOD)), ATTEMPTS_MAX as usize);
    }

    #[test]
    fn many_networks_together_are_limited_too() {
        let sessions = Sessions::default();
        let attempt = |number: u32| sessions.may_attempt(Some(Ipv4Addr::from_bits(number).into()), NOW);
        let allowed = (0..100_000).filter(|number| attempt(*number)).count();
        assert_eq!(allowed, CLIENTS_MAX + ATTEMPTS_MAX as usize);
        for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            sessions.forget_attempts(local.parse().ok());
            assert!(sessions.may_attempt(local.parse().ok(), NOW), "{local} has attempts of its own");
        }
    }

    #[test]
    fn network_of_one_customer_does_not_take_all_places() {
        let sessions = Sessions::default();
        let network =
            |number: u128| Some(IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | number << 64)));
        let allowed = (0..60_000).filter(|number| sessions.may_attempt(network(*number), NOW)).count();
        assert_eq!(allowed, NEIGHBOURS_MAX + ATTEMPTS_MAX as usize);
        let other = "192.0.2.1".parse().ok();
        assert_eq!((0..20).filter(|_| sessions.may_attempt(other, NOW)).count(), ATTEMPTS_MAX as usize);
    }

    #[test]
    fn changes_are_numbered_and_bounded() {
        let (changes, empty) = (Changes::default(), || Change {
            number: 0,
            at_secs: 0,
            who: String::new(),
            what: String::new(),
            result: String::new(),
            is_done: true,
        });
        let numbers: Vec<_> = (0..60).map(|_| changes.add(empty())).collect();
        assert_eq!((numbers[0], numbers[59]), (1, 60));
        let recent = changes.recent();
        assert!(recent.len() == CHANGES_MAX && recent[0].number == 60);
        assert!(changes.by_number(60).is_some() && changes.by_number(1).is_none());
    }
}
