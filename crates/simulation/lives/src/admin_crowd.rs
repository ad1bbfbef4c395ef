//! Connections that take all places of the admin address.
//!
//! Invariants: a client on another machine takes its share of the places at most, and never the
//! last ones. A client beyond a limit learns it, and is served again when the others have left. The
//! edge counts each refusal.

use crate::life::{Life, distant_address};
use actors::{Reply, lock, order};
use edge::Metric;
use std::time::Duration;
use tokio::time::sleep;
use world::Pipe;

/// The part of the places, as a divisor, that one client on another machine may take.
const SHARE_PART: usize = 4;

/// The number of this client.
const DISTANT_CLIENT: u64 = 9_997;

/// The longest time until an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Time in which the edge notices that connections are closed.
const LEFT_WITHIN: Duration = Duration::from_secs(2);

impl Life {
    /// Takes the places that a distant client may have, and then all places, while nobody else is
    /// there.
    pub(crate) async fn crowd_admin(&self) {
        let Ok(plan) = self.society.settings.plan() else { return };
        let places = plan.limits.admin_connections_max;
        let (here, afar) = (self.admin_entrance(), self.admin_entrance_from(distant_address(DISTANT_CLIENT)));
        let before = self.admin_refusals();
        let share: Vec<_> = (0..places / SHARE_PART).map(|_| afar()).collect();
        if !is_refused(&self.ask_admin(afar()).await) {
            self.violate(format!("a distant client has more than {} places", share.len()));
        }
        if is_refused(&self.ask_admin(here()).await) {
            self.violate("a distant client has taken the places of this machine".to_owned());
        }
        // The place of an answered client is free a little later.
        sleep(LEFT_WITHIN).await;
        let rest: Vec<_> = (share.len()..places).map(|_| here()).collect();
        if !is_refused(&self.ask_admin(here()).await) {
            self.violate(format!("the admin address has more than {places} connections"));
        }
        drop((share, rest));
        sleep(LEFT_WITHIN).await;
        if is_refused(&self.ask_admin(here()).await) || is_refused(&self.ask_admin(afar()).await) {
            self.violate("the places of the admin address are not given back".to_owned());
        }
        let counted = self.admin_refusals() - before;
        if counted != 2 {
            self.violate(format!("the admin address has counted {counted} refusals, not 2"));
        }
    }

    fn admin_refusals(&self) -> u64 {
        lock(&self.edge).as_ref().map_or(0, |edge| edge.metric(Metric::AdminConnectionsRefused))
    }

    /// An order that nobody understands, and its answer.
    async fn ask_admin(&self, stream: Option<Pipe>) -> Reply {
        match stream {
            Some(stream) => order(stream, "/crowd", None, self.timeline, ANSWER_MAX).await,
            None => Reply::default(),
        }
    }
}

/// Whether there was no place.
fn is_refused(reply: &Reply) -> bool {
    reply.is_complete() && reply.status == Some(503)
}
