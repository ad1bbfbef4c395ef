//! Refuses requests of clients that the operator denies, or that ask for more than their share.
//!
//! Invariant: hits, and requests that share another one's fetch, are no work for the origin. A
//! client whose address is unknown is not limited.

use crate::control::counters::Metric;
use crate::memory::client_rates::Demand;
use crate::request::client_address::address_of;
use crate::request::refusal::Refusal;
use crate::request::visit::Visit;
use config::RateLimit;
use std::net::IpAddr;

impl Visit<'_> {
    /// The refusal of a client that is denied, or that has sent too many requests.
    pub(crate) fn refused_client(&mut self) -> Option<Refusal> {
        // Some steps let the request start anew.
        if std::mem::replace(&mut self.is_counted, true) {
            return None;
        }
        let guard = &self.shared.plan.guard;
        let may_be_banned = self.shared.client_rates.may_ban(self.begun.monotonic);
        if guard.deny.is_empty() && guard.requests.is_none() && !may_be_banned {
            return None;
        }
        let address = self.client_address()?;
        if guard.deny.contains(address) {
            self.cells().count(Metric::ClientsDenied);
            return Some(Refusal::denied_client());
        }
        // An application may purge many pages at once, and its purges must not be lost.
        if guard.allow.contains(address) || self.shared.plan.purge_peers.contains(address) {
            return None;
        }
        if let Some(wait) = self.shared.client_rates.ban_of(address, self.begun.monotonic) {
            self.cells().count(Metric::ClientsBanned);
            return Some(Refusal::client_rate(wait));
        }
        let wait = self.beyond(address, (Demand::Request, guard.requests?))?;
        self.cells().count(Metric::ClientsTooFast);
        Some(Refusal::client_rate(wait))
    }

    /// The refusal of a client that has needed the origin too often. Counts this request.
    pub(crate) fn refused_origin_work(&self) -> Option<Refusal> {
        let limit = self.shared.plan.guard.origin_requests?;
        let wait = self.beyond(self.client_address()?, (Demand::Origin, limit))?;
        self.cells().count(Metric::ClientsTooCostly);
        Some(Refusal::client_origin_rate(wait))
    }

    /// How long the client must wait if its request is beyond a limit.
    fn beyond(&self, address: IpAddr, of: (Demand, RateLimit)) -> Option<std::time::Duration> {
        let guard = &self.shared.plan.guard;
        if guard.allow.contains(address) {
            return None;
        }
        // A request may have waited for a fetch since it began.
        let now = self.now().monotonic;
        // The page decides which fragments its visitor requests.
        let ban = guard.ban.filter(|_| self.client.fragment_of().is_none());
        let refusal = self.shared.client_rates.grant(address, of, ban, now).err()?;
        if refusal.is_banned_now {
            let text = format!(
                "client {address} goes on beyond its limits (guard), and is refused at once for a while; if this \
                 is the address of a proxy, name it in trusted_proxies"
            );
            self.shared.complaints.tell(&text, now);
        }
        Some(refusal.wait)
    }

    fn client_address(&self) -> Option<IpAddr> {
        let peer = self.client.peer();
        let is_trusted = peer.ip().is_some_and(|ip| self.shared.plan.trusted_proxies.contains(ip));
        address_of(self.shared, peer, is_trusted, &self.request.head.fields)
    }
}
