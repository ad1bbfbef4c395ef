//! The clients and operators of a life, each with its entrance to the edge.

use super::{DRAIN_TURN, Life, distant_address, purger_address, visitor_address};
use crate::balancer::Balanced;
use crate::handover::PlannedHandover;
use crate::reload::{PlannedReload, Reloader};
use crate::settings::{HOST, PROXY, REDIRECTING};
use actors::{
    DashboardPlan, DashboardVisitor, Editor, EditorPlan, Follower, FollowerPlan, Intruder, IntruderPlan,
    Operator, OperatorPlan, PurgePlan, Purger, TunnelPlan, Tunneller, Visitor, VisitorPlan, lock,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::sleep;
use world::Pipe;

impl Life {
    /// Ends the work of a client of the admin address when the edge drains. A drained process does
    /// not wait for such clients: its end closes their connections.
    pub(super) fn until_drained<W: Future<Output = ()>>(&self, work: W) -> impl Future<Output = ()> + use<W> {
        let is_draining = Arc::clone(&self.is_draining);
        let drained = async move {
            while !is_draining.load(Ordering::Relaxed) {
                sleep(DRAIN_TURN).await;
            }
        };
        async move {
            tokio::select! {
                // The order is fixed because polls have effects: a run must not depend on chance.
                biased;
                () = work => {}
                () = drained => {}
            }
        }
    }

    pub(super) fn visitor(&self, plan: VisitorPlan) -> impl Future<Output = ()> + Send + use<> {
        let proxy = PROXY.parse().ok().filter(|_| plan.forwarded_for.is_some());
        let address = proxy.unwrap_or_else(|| visitor_address(plan.number));
        let entrance = self.entrance(self.worker_of(plan.number), address);
        let site = Arc::clone(lock(&self.society.site).plan());
        Visitor::new(plan, site, Arc::clone(&self.society.ledger), self.timeline, entrance).run()
    }

    pub(super) fn purger(&self, plan: PurgePlan) -> impl Future<Output = ()> + Send + use<> {
        let society = &self.society;
        Purger::new(
            plan,
            Arc::clone(&society.site),
            Arc::clone(&society.ledger),
            self.timeline,
            society.settings.token(),
            self.entrance(0, purger_address()),
            self.admin_entrance(),
        )
        .run()
    }

    pub(super) fn operator(&self, plan: OperatorPlan) -> impl Future<Output = ()> + Send + use<> {
        Operator {
            plan,
            host: HOST.to_owned(),
            label: self.society.settings.label().to_owned(),
            token: self.society.settings.token(),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: self.admin_entrance(),
        }
        .run()
    }

    pub(super) fn follower(
        &self,
        plan: FollowerPlan,
        is_sole_process: bool,
    ) -> impl Future<Output = ()> + Send + use<> {
        Follower {
            plan,
            token: self.society.settings.token(),
            is_sole_process,
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: self.admin_entrance(),
        }
        .run()
    }

    pub(super) fn dashboard_visitor(
        &self,
        plan: DashboardPlan,
    ) -> DashboardVisitor<impl Fn() -> Option<Pipe> + Send + use<>> {
        let number = plan.number;
        DashboardVisitor {
            plan,
            site: Arc::clone(&self.society.site),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            token: self.society.settings.token(),
            turn: Arc::clone(&self.society.upkeep.turn),
            connect_here: self.admin_entrance_from(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            connect_afar: self.admin_entrance_from(distant_address(number)),
        }
    }

    pub(super) fn reloads(&self, plans: Vec<PlannedReload>) -> impl Future<Output = ()> + Send + use<> {
        let reloader = self.next.as_ref().map(|next| Reloader {
            plans,
            society: self.society.clone(),
            next: next.clone(),
            timeline: self.timeline,
            edge: Arc::clone(&self.edge),
            connect: self.admin_entrance(),
        });
        async move {
            if let Some(reloader) = reloader {
                reloader.run().await;
            }
        }
    }

    pub(super) fn handovers(&self, plans: Vec<PlannedHandover>) -> impl Future<Output = ()> + Send + use<> {
        let life = self.clone();
        async move { life.hand_over(&plans).await }
    }

    pub(super) fn intruder(&self, plan: IntruderPlan) -> impl Future<Output = ()> + Send + use<> {
        Intruder {
            host: HOST.to_owned(),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: self.entrance_at((self.worker_of(plan.number), 0), visitor_address(plan.number)),
            connect_as_proxy: self.entrance_at((self.worker_of(plan.number), 0), Balanced::address()),
            connect_to_redirect: self
                .entrance_at((self.worker_of(plan.number), REDIRECTING), visitor_address(plan.number)),
            has_any_host: self.society.settings.naming.has_open_names(),
            plan,
        }
        .run()
    }

    pub(super) fn editor(&self, plan: EditorPlan) -> impl Future<Output = ()> + Send + use<> {
        Editor {
            site: Arc::clone(lock(&self.society.site).plan()),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: self.visitors_entrance(plan.number),
            plan,
        }
        .run()
    }

    pub(super) fn tunneller(&self, plan: TunnelPlan) -> impl Future<Output = ()> + Send + use<> {
        Tunneller {
            host: HOST.to_owned(),
            ledger: Arc::clone(&self.society.ledger),
            timeline: self.timeline,
            connect: self.visitors_entrance(plan.number),
            plan,
        }
        .run()
    }
}
