//! How much each client asks for: rates of requests, and bans of clients that go on beyond them.
//!
//! Invariants: within any time t, a client is granted at most its burst and t times its rate (the
//! generic cell rate algorithm of ATM, ITU-T I.371), and so is its network with [`NETWORK_TIMES`]
//! times both. The memory is bounded: clients that were not seen for longest are forgotten.

use clock::Monotonic;
use config::RateLimit;
use platform::{HashKeys, HashMap};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many times the limit of a client its whole network has.
const NETWORK_TIMES: u32 = 4;

/// The length of the prefix that is one client, and of that which is its network, for IPv4 and
/// IPv6. A customer is given an IPv6 network of 64 bits at least.
const CLIENT_BITS: [u32; 2] = [32, 64];
const NETWORK_BITS: [u32; 2] = [24, 48];

/// A client is banned after this many refusals within [`REFUSALS_LAST`].
const REFUSALS_MAX: u32 = 100;
const REFUSALS_LAST: Duration = Duration::from_secs(10);

/// Separate tables, so that workers seldom wait for each other.
const SHARDS: usize = 16;

/// Entries in each of the two generations of a shard. Together they take about 2 MB.
const ENTRIES_MAX: usize = 512;

/// Which of its two limits a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// That of all requests.
    Request,
    /// That of requests that need the origin.
    Origin,
}

/// A refusal by a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateRefusal {
    /// The time until the next request is granted.
    pub wait: Duration,
    /// Whether the client is banned from now on.
    pub is_banned_now: bool,
}

/// The rates of all clients.
#[derive(Debug, Default)]
pub(crate) struct ClientRates {
    shards: [Mutex<Shard>; SHARDS],
    keys: HashKeys,
    /// When the last ban ends, by the monotonic clock, so that requests and connections cost
    /// nothing while nobody is banned. 0: there was none.
    last_ban_ends_nanos: AtomicU64,
}

/// Clients and networks in two generations. If the newer one is full, it becomes the older one.
#[derive(Debug, Default)]
struct Shard {
    new: HashMap<u64, Rates>,
    old: HashMap<u64, Rates>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    requests: CellRate,
    origin_requests: CellRate,
    refusals: u32,
    /// When the first of these refusals happened.
    refused_since: Option<Monotonic>,
    banned_until: Option<Monotonic>,
}

/// The state of one limit: when a client that uses its rate evenly would send its next request.
#[derive(Clone, Copy, Debug, Default)]
struct CellRate {
    due_nanos: u64,
}

impl CellRate {
    /// How long a request must wait; zero if it is granted now. It is not counted.
    fn wait(&mut self, limit: RateLimit, times: u32, now: Monotonic) -> Duration {
        let interval = interval_nanos(limit, times);
        let burst = u64::from(limit.burst.saturating_mul(times));
        // After a reload with a larger rate the client is due no later than one that has just used
        // its whole burst.
        let whole = interval.saturating_mul(burst);
        self.due_nanos = self.due_nanos.min(now.as_nanos().saturating_add(whole));
        let tolerance = interval.saturating_mul(burst - 1);
        Duration::from_nanos(self.due_nanos.saturating_sub(now.as_nanos().saturating_add(tolerance)))
    }

    /// Counts a granted request.
    fn count(&mut self, limit: RateLimit, times: u32, now: Monotonic) {
        self.due_nanos = self.due_nanos.max(now.as_nanos()).saturating_add(interval_nanos(limit, times));
    }
}

fn interval_nanos(limit: RateLimit, times: u32) -> u64 {
    1_000_000_000 / u64::from(limit.per_second.saturating_mul(times).max(1))
}

impl Rates {
    fn of(&mut self, demand: Demand) -> &mut CellRate {
        match demand {
            Demand::Request => &mut self.requests,
            Demand::Origin => &mut self.origin_requests,
        }
    }

    /// Counts a refusal, if such refusals lead to a `ban`. Returns whether the client is banned
    /// from now on.
    fn refuse(&mut self, ban: Option<Duration>, now: Monotonic) -> bool {
        let Some(ban) = ban else { return false };
        if self.refused_since.is_none_or(|since| now.since(since) > REFUSALS_LAST) {
            (self.refused_since, self.refusals) = (Some(now), 0);
        }
        self.refusals += 1;
        let is_banned = self.refusals >= REFUSALS_MAX;
        if is_banned {
            (self.refused_since, self.banned_until) = (None, Some(now.plus(ban)));
        }
        is_banned
    }
}

impl Shard {
    /// The entry of a client or network, which is among the new ones from now on.
    fn entry(&mut self, key: u64) -> &mut Rates {
        let old = self.old.remove(&key);
        if self.new.len() >= ENTRIES_MAX && !self.new.contains_key(&key) {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.entry(key).or_insert_with(|| old.unwrap_or_default())
    }

    fn known(&self, key: u64) -> Option<&Rates> {
        self.new.get(&key).or_else(|| self.old.get(&key))
    }
}

impl ClientRates {
    /// Grants a request of a client, and counts it.
    ///
    /// # Errors
    /// If the client or its network has used its limit. The request then does not count for the
    /// network, and for the client only if it was within its own limit.
    pub(crate) fn grant(
        &self,
        client: IpAddr,
        (demand, limit): (Demand, RateLimit),
        ban: Option<Duration>,
        now: Monotonic,
    ) -> Result<(), RateRefusal> {
        let (client, network) = (self.key(client, CLIENT_BITS), self.key(client, NETWORK_BITS));
        // One lock at a time. Two requests at once may both find the last place of a network free.
        let wait = self.shard(network).entry(network).of(demand).wait(limit, NETWORK_TIMES, now);
        let mut shard = self.shard(client);
        let rates = shard.entry(client);
        let own_wait = rates.of(demand).wait(limit, 1, now);
        let wait = wait.max(own_wait);
        if !wait.is_zero() {
            // Other clients of its network may have used up the limit. Such a request counts for
            // the client, so that only a client beyond its own limit is banned.
            let is_banned_now = if own_wait.is_zero() {
                rates.of(demand).count(limit, 1, now);
                false
            } else {
                rates.refuse(ban, now)
            };
            drop(shard);
            if is_banned_now {
                let ends = now.plus(ban.unwrap_or_default()).as_nanos();
                self.last_ban_ends_nanos.fetch_max(ends, Ordering::Relaxed);
            }
            return Err(RateRefusal { wait, is_banned_now });
        }
        rates.of(demand).count(limit, 1, now);
        drop(shard);
        self.shard(network).entry(network).of(demand).count(limit, NETWORK_TIMES, now);
        Ok(())
    }

    /// Whether a client may be banned.
    pub(crate) fn may_ban(&self, now: Monotonic) -> bool {
        // Relaxed is enough: a ban that is seen late has effect late.
        now.as_nanos() < self.last_ban_ends_nanos.load(Ordering::Relaxed)
    }

    /// How long a client is still banned; `None` if it is not.
    pub(crate) fn ban_of(&self, client: IpAddr, now: Monotonic) -> Option<Duration> {
        if !self.may_ban(now) {
            return None;
        }
        let key = self.key(client, CLIENT_BITS);
        let until = self.shard(key).known(key)?.banned_until?;
        (now < until).then(|| until.since(now))
    }

    /// A randomly keyed hash of the network of this many bits: clients cannot choose addresses that
    /// share an entry.
    fn key(&self, address: IpAddr, bits: [u32; 2]) -> u64 {
        let [v4, v6] = bits;
        let prefix = match address.to_canonical() {
            IpAddr::V4(address) => u128::from(address.to_bits() & (u32::MAX << (32 - v4))),
            IpAddr::V6(address) => address.to_bits() & (u128::MAX << (128 - v6)),
        };
        self.keys.hash_one((prefix, bits, address.to_canonical().is_ipv4()))
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        let [first, ..] = &self.shards;
        let shard = self.shards.get(key as usize % SHARDS).unwrap_or(first);
        // The table is consistent after each change, so a panic elsewhere does no harm.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientRates, Demand, ENTRIES_MAX, RateRefusal, SHARDS};
    use clock::Monotonic;
    use config::RateLimit;
    use proptest::prelude::*;
    use std::net::IpAddr;
    use std::time::Duration;

    const LIMIT: RateLimit = RateLimit { per_second: 10, burst: 5 };

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(millis * 1_000_000)
    }

    fn grants(rates: &ClientRates, client: &str, millis: u64) -> bool {
        let client: IpAddr = client.parse().unwrap();
        rates.grant(client, (Demand::Origin, LIMIT), None, at(millis)).is_ok()
    }

    #[test]
    fn client_has_its_burst_and_then_its_rate() {
        let rates = ClientRates::default();
        assert_eq!((0..20).filter(|_| grants(&rates, "192.0.2.1", 0)).count(), 5);
        assert!(!grants(&rates, "192.0.2.1", 99) && grants(&rates, "192.0.2.1", 100));
        assert_eq!((0..100).filter(|tenth| grants(&rates, "192.0.2.1", 200 + tenth * 10)).count(), 10);
        assert!(grants(&rates, "192.0.2.2", 1200), "another client");
        assert_eq!((0..20).filter(|_| grants(&rates, "192.0.2.1", 60_000)).count(), 5);
    }

    #[test]
    fn refused_client_learns_how_long_to_wait() {
        let rates = ClientRates::default();
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let ask = |millis| rates.grant(client, (Demand::Request, LIMIT), None, at(millis));
        (0..5).for_each(|_| assert_eq!(ask(1000), Ok(())));
        let wait = Duration::from_millis(60);
        assert_eq!(ask(1040), Err(RateRefusal { wait, is_banned_now: false }));
        assert_eq!(ask(1099).map_err(|refusal| refusal.wait), Err(Duration::from_millis(1)));
        assert_eq!(ask(1100), Ok(()));
        let other = rates.grant(client, (Demand::Origin, LIMIT), None, at(1100));
        assert_eq!(other, Ok(()), "each demand has its own limit");
    }

    #[test]
    fn larger_limit_holds_at_once() {
        let rates = ClientRates::default();
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let ask = |per_second, millis| {
            let limit = RateLimit { per_second, burst: 1000 };
            rates.grant(client, (Demand::Origin, limit), None, at(millis)).is_ok()
        };
        assert!((0..1000).all(|_| ask(1, 0)) && !ask(1, 10));
        assert!(!ask(100, 9) && ask(100, 20));
    }

    #[test]
    fn network_has_four_times_the_limit() {
        let rates = ClientRates::default();
        let granted = (1..=200).filter(|host| grants(&rates, &format!("192.0.2.{host}"), 0)).count();
        assert_eq!(granted, 20);
        assert!(grants(&rates, "192.0.3.1", 0));
        let granted = (0..200).filter(|net| grants(&rates, &format!("2001:db8:0:{net:x}::1"), 0)).count();
        assert_eq!(granted, 20);
        assert!(grants(&rates, "2001:db8:1::1", 0));
        let same = |host: u32| grants(&rates, &format!("2001:db8:2::{host:x}"), 0);
        assert_eq!((1..20).filter(|host| same(*host)).count(), 5, "an IPv6 /64 is one client");
    }

    #[test]
    fn hundred_refusals_in_ten_seconds_ban_a_client() {
        let rates = ClientRates::default();
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let ban = Some(Duration::from_secs(10));
        let ask = |millis| rates.grant(client, (Demand::Origin, LIMIT), ban, at(millis));
        let refusals = |millis| ask(millis).err().map(|refusal| refusal.is_banned_now);
        (0..5).for_each(|_| assert_eq!(ask(0), Ok(())));
        (0..99).for_each(|_| assert_eq!(refusals(0), Some(false)));
        assert_eq!(rates.ban_of(client, at(1)), None);
        (0..5).for_each(|_| assert!(ask(20_000).is_ok()));
        (0..99).for_each(|_| assert_eq!(refusals(20_000), Some(false), "the old ones are forgotten"));
        assert_eq!(refusals(20_050), Some(true));
        assert_eq!(rates.ban_of(client, at(30_049)), Some(Duration::from_millis(1)));
        assert_eq!(rates.ban_of(client, at(30_050)), None);
        assert!(rates.may_ban(at(30_049)) && !rates.may_ban(at(30_050)));
        assert_eq!(rates.ban_of("192.0.2.2".parse().unwrap(), at(20_051)), None);
    }

    #[test]
    fn flood_of_a_network_bans_only_its_senders() {
        let rates = ClientRates::default();
        let ban = Some(Duration::from_secs(10));
        let limit = RateLimit { per_second: 100, burst: 5 };
        let ask = |client: IpAddr, millis| rates.grant(client, (Demand::Origin, limit), ban, at(millis));
        let senders: Vec<IpAddr> = (1..=50).map(|host| IpAddr::from([192, 0, 2, host])).collect();
        let neighbour: IpAddr = "192.0.2.200".parse().unwrap();
        let mut refusals = 0;
        for millis in (0..9000).step_by(5) {
            // Each sender has twice the limit of a client, and the neighbour less than half.
            senders.iter().for_each(|sender| {
                let _ = ask(*sender, millis);
            });
            refusals += usize::from(millis % 25 == 0 && ask(neighbour, millis).is_err());
        }
        assert!(refusals > 100, "the network's limit is used up: {refusals}");
        assert_eq!(rates.ban_of(neighbour, at(9000)), None);
        assert!(senders.iter().any(|sender| rates.ban_of(*sender, at(9000)).is_some()));
    }

    #[test]
    fn memory_is_bounded_and_recent_clients_are_kept() {
        let rates = ClientRates::default();
        (0..5).for_each(|_| assert!(grants(&rates, "192.0.2.1", 0)));
        for number in 0..100_000_u32 {
            let client = IpAddr::from((number * 256 + (7 << 24)).to_be_bytes());
            let _ = rates.grant(client, (Demand::Origin, LIMIT), None, at(0));
            if number % 1000 == 0 {
                assert!(!grants(&rates, "192.0.2.1", 0), "after {number} others");
            }
        }
        let entries = |shard: usize| {
            let shard = rates.shards[shard].lock().unwrap();
            shard.new.len() + shard.old.len()
        };
        assert!((0..SHARDS).all(|shard| entries(shard) <= 2 * ENTRIES_MAX));
    }

    proptest! {
        /// Compares the grants of one client with a slow model: a bucket that is refilled.
        #[test]
        fn grants_are_those_of_a_token_bucket(pauses in prop::collection::vec(0_u64..400, 1..200)) {
            let rates = ClientRates::default();
            let (mut now, mut tokens) = (0, 5000);
            for pause in pauses {
                now += pause;
                // A thousand parts of a token are added in each tenth of a second.
                tokens = (tokens + pause * 10).min(5000);
                let is_granted = grants(&rates, "192.0.2.1", now);
                prop_assert_eq!(is_granted, tokens >= 1000);
                tokens -= if is_granted { 1000 } else { 0 };
            }
        }
    }
}
