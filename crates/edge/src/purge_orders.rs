//! Purges: who may ask for them, and carrying them out.
//!
//! Invariant: when an order is answered, no later request gets what it meant. An order from somebody who may not give
//! it is refused and never forwarded. What an order means is read by `purge`; the barrier itself is the store's.

use crate::counters::{Cells, Metric};
use crate::guard::forwarding_names;
use crate::shared::Shared;
use crate::sites::Site;
use bytes::Bytes;
use message::{Fields, Method, RequestHead, ResponseHead};
use net::Peer;
use purge::{Ban, Invalidation, Malformed, Order, Outcome, Reach, Want, api, signals};
use std::sync::Arc;
use store::{Key, Mode, Selector};

/// Why an order is not carried out.
pub(crate) enum Unserved {
    /// Whoever sent it may not give orders.
    Forbidden,
    /// It cannot be understood.
    Malformed(Malformed),
}

impl Shared {
    /// The order that a request with a purge method gives.
    pub(crate) fn read_order(&self, peer: Peer, head: &RequestHead) -> Result<Order, Unserved> {
        if !self.may_purge(peer, &head.fields) {
            return Err(Unserved::Forbidden);
        }
        purge::read(head).map_err(Unserved::Malformed)
    }

    /// Whether whoever sent these fields over this connection may purge: by the token; or, where there is none, from
    /// a loopback address or one of `purge_peers`, if the request was not forwarded by anybody. While a trusted proxy
    /// is on loopback every visitor seems to be, and only the token counts.
    pub(crate) fn may_purge(&self, peer: Peer, fields: &Fields) -> bool {
        if let Some(token) = &self.token {
            return api::presented_tokens(fields).any(|presented| is_equal(presented, token.as_bytes()));
        }
        let forwarded = forwarding_names().any(|name| fields.has(name));
        let Some(ip) = peer.ip() else { return !forwarded };
        let proxied = self.plan.trusted_proxies.iter().any(|proxy| proxy.is_loopback());
        !forwarded && (ip.is_loopback() && !proxied || self.plan.purge_peers.contains(&ip))
    }

    /// Carries out an order.
    pub(crate) fn carry_out(&self, order: &Order) -> Outcome {
        let mut outcome = Outcome::default();
        for invalidation in &order.invalidations {
            self.invalidate_one(invalidation, &mut outcome);
        }
        outcome
    }

    /// Obeys what an answer of the application asks for (`X-LiteSpeed-Purge`, `Cache-Group-Invalidation` and others).
    /// It may mean its own site only.
    pub(crate) fn obey(&self, cells: &Cells, method: &Method, answer: &ResponseHead, key: &Key) {
        let signals = signals(method, answer, key.is_https(), key.host());
        if !signals.malformed.is_empty() {
            cells.add(Metric::PurgesMalformed, signals.malformed.len() as u64);
        }
        for invalidation in &signals.invalidations {
            cells.count(Metric::PurgesByAnswers);
            self.invalidate_one(invalidation, &mut Outcome::default());
        }
    }

    fn invalidate_one(&self, invalidation: &Invalidation, outcome: &mut Outcome) {
        let mode = invalidation.mode;
        for selector in self.selectors(&invalidation.want) {
            let done = match selector {
                Selector::Target { site, host, target } => {
                    self.invalidate(&Key::new(site, false, &host, target), mode)
                }
                selector => self.store.invalidate(&store::Invalidation { selector, mode }),
            };
            outcome.sequence = outcome.sequence.max(done.sequence);
            outcome.uncounted += u64::from(done.objects.is_none());
            let objects = done.objects.unwrap_or(0);
            match mode {
                Mode::Hard => outcome.purged += objects,
                Mode::Soft => outcome.softened += objects,
            }
        }
        self.sweeper.wake();
    }

    /// What the store is told, for each site that is meant.
    fn selectors(&self, want: &Want) -> Vec<Selector> {
        match want {
            Want::Target { host, target } => self.on(host, |site, host| {
                vec![Selector::Target { site: site.id, host, target: target.clone() }]
            }),
            Want::Prefix { host, prefix } => self.on(host, |site, host| {
                vec![Selector::Prefix { site: site.id, host, prefix: prefix.clone() }]
            }),
            Want::Pattern { host, pattern } => self.on(host, |site, host| {
                let ban = Arc::new(Ban::of_pages(&host, pattern.clone()));
                vec![Selector::Ban { site: site.id, ban }]
            }),
            Want::Host { host } => self.on(host, |site, host| vec![Selector::Host { site: site.id, host }]),
            Want::Tags { reach, any_of, all_of } => self
                .reached(reach)
                .map(|site| Selector::Tags { site: site.id, any_of: any_of.clone(), all_of: all_of.clone() })
                .collect(),
            Want::Ban { reach, ban } => self
                .reached(reach)
                .map(|site| Selector::Ban { site: site.id, ban: Arc::<Ban>::clone(ban) })
                .collect(),
            Want::Everything { reach: Reach::Everywhere } => vec![Selector::Everything { site: None }],
            Want::Everything { reach } => {
                self.reached(reach).map(|site| Selector::Everything { site: Some(site.id) }).collect()
            }
        }
    }

    /// Selectors for the site of a host, under the name that its pages are stored by; none if there is no such site.
    fn on(&self, host: &Bytes, selectors: impl Fn(&Arc<Site>, Bytes) -> Vec<Selector>) -> Vec<Selector> {
        let Some(site) = self.sites.find(Some(host)) else { return Vec::new() };
        let stored_by = site.plan.public_host.clone().map_or_else(|| host.clone(), Bytes::from);
        selectors(site, stored_by)
    }

    /// The sites that are meant: where no site has the name, all are.
    fn reached(&self, reach: &Reach) -> impl Iterator<Item = &Arc<Site>> {
        let one = match reach {
            Reach::Site(host) => self.sites.find(Some(host)),
            Reach::Everywhere => None,
        };
        self.sites.iter().filter(move |site| one.is_none_or(|one| one.id == site.id))
    }
}

/// Whether two secrets are the same; takes the same time wherever they differ.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}
