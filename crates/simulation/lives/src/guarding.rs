//! The guard against clients that ask for too much, and passwords: their settings, the clients that
//! meet them, and what is expected of the guard's counters.
//!
//! Invariant: the limits hold for these clients alone. All others are exempt, and are never
//! refused.

use crate::life::Life;
use crate::plan::ARRIVAL_MS_MAX;
use crate::settings::{HOST, PROXY};
use actors::{FloodCounts, Flooder, FlooderPlan, GuardTerms, GuardedClient, Member, MemberPlan, lock};
use config::{GuardPlan, RateLimit};
use edge::{EmbeddedEdge, Metric};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use world::{Pipe, Random};

/// How often the guard has small limits, and how often a flood then comes in a life.
const GUARD_PERCENT: u64 = 35;
const FLOOD_PERCENT: u64 = 70;

/// The largest number of clients of a life that ask for pages with a password.
const MEMBERS_MAX: u64 = 2;

/// The networks of all other clients, also of those that a proxy states.
const EXEMPT: [&str; 4] = ["127.0.0.0/8", "203.0.0.0/16", "198.51.100.0/24", "192.0.2.0/24"];

/// The network of denied clients.
const DENIED: &str = "198.19.128.0/17";

/// The limits of the guard of a run, if they are small.
pub(crate) fn guard(seed: u64) -> Option<GuardTerms> {
    let mut random = Random::fork(seed, "guard", 0);
    random.percent(GUARD_PERCENT).then(|| GuardTerms::random(&mut random))
}

/// The flood of a life, if it `is_possible`, with its arrival. Only one, so that no other shares
/// its network.
pub(crate) fn flooder(seed: u64, life: u64, is_possible: bool) -> Option<(u64, FlooderPlan)> {
    let mut own = Random::fork(seed, "flood", life);
    let is_wanted = own.percent(FLOOD_PERCENT) && is_possible;
    is_wanted.then(|| (own.below(ARRIVAL_MS_MAX), FlooderPlan::random(&mut own, life * 100)))
}

/// The clients of a life that ask for pages with a password, each with its arrival.
pub(crate) fn members(seed: u64, life: u64, are_there: bool) -> Vec<(u64, MemberPlan)> {
    let member = |number| {
        let mut own = Random::fork(seed, "member", life * 1000 + number);
        (own.below(ARRIVAL_MS_MAX), MemberPlan::random(&mut own, life * 100 + number))
    };
    let count = Random::fork(seed, "members of a life", life).between(0, MEMBERS_MAX);
    (0..count).filter(|_| are_there).map(member).collect()
}

fn prefixes<T: FromIterator<address::Prefix>>(texts: &[&str]) -> T {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// The settings of the guard.
pub(crate) fn guard_plan(terms: &GuardTerms) -> GuardPlan {
    let limit =
        |terms: actors::RateTerms| Some(RateLimit { per_second: terms.per_second, burst: terms.burst });
    GuardPlan {
        deny: prefixes(&[DENIED]),
        allow: prefixes(&EXEMPT),
        requests: limit(terms.requests),
        origin_requests: limit(terms.origin_requests),
        ban: Some(Duration::from_secs(terms.ban_secs)),
        ..GuardPlan::default()
    }
}

/// The address of a client of the flood with this number. All but the denied one are of one
/// network.
fn address_of(number: u64, client: GuardedClient) -> IpAddr {
    let network = (number / 100 % 128) as u8;
    let (network, host) = match client {
        GuardedClient::Flooder => (network, 1),
        GuardedClient::Neighbour => (network, 2),
        GuardedClient::Holder => (network, 3),
        GuardedClient::Denied => (network + 128, 1),
    };
    IpAddr::V4(Ipv4Addr::new(198, 19, network, host))
}

impl Life {
    /// The clients of a flood.
    pub(crate) fn flooder(
        &self,
        plan: FlooderPlan,
    ) -> Option<Flooder<impl Fn(GuardedClient, bool) -> Option<Pipe> + Send + use<>>> {
        let (life, number) = (self.clone(), plan.number);
        let worker = self.worker_of(number);
        let proxy: Option<IpAddr> = PROXY.parse().ok();
        Some(Flooder {
            plan,
            terms: self.society.settings.guard?,
            host: HOST.to_owned(),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: move |client, is_stated| {
                let address = proxy.filter(|_| is_stated).unwrap_or_else(|| address_of(number, client));
                life.entrance(worker, address)()
            },
            address_of,
            counts: Arc::clone(&self.society.upkeep.refusals),
        })
    }

    /// A client of pages with a password.
    pub(crate) fn member(&self, plan: MemberPlan) -> Member<impl Fn() -> Option<Pipe> + Send + use<>> {
        Member {
            host: HOST.to_owned(),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: self.visitors_entrance(plan.number),
            plan,
        }
    }

    /// Compares the counters of the guard with what the clients of a flood have seen.
    pub(crate) fn check_refusals(&self) {
        let seen = *lock(&self.society.upkeep.refusals);
        let counts = |edge: &EmbeddedEdge| FloodCounts {
            denied: edge.metric(Metric::ClientsDenied),
            fast: edge.metric(Metric::ClientsTooFast) + edge.metric(Metric::ClientsBanned),
            costly: edge.metric(Metric::ClientsTooCostly),
            connections: edge.metric(Metric::ConnectionsRefusedAddress),
        };
        let Some(counted) = lock(&self.edge).as_ref().map(counts) else { return };
        if counted != seen {
            self.violate(format!("the guard has counted {counted:?}, but its clients have seen {seen:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{address_of, guard, guard_plan};
    use actors::GuardedClient;

    #[test]
    fn only_the_denied_client_is_denied_and_none_is_exempt() {
        let terms = (0..20).find_map(guard).unwrap();
        let plan = guard_plan(&terms);
        for number in [0, 300] {
            for client in [
                GuardedClient::Flooder,
                GuardedClient::Neighbour,
                GuardedClient::Holder,
                GuardedClient::Denied,
            ] {
                let address = address_of(number, client);
                assert_eq!(plan.deny.contains(address), client == GuardedClient::Denied);
                assert!(!plan.allow.contains(address));
            }
        }
    }
}
