//! A site, its origin and visitors that reach it directly, under paused time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use petasos_actors::{
    Ledger, Origin, OriginFault, Rules, SharedLedger, SharedSite, Site, SitePlan, Timeline, Visitor,
    VisitorPlan, lock,
};
use std::sync::{Arc, Mutex};
use tokio::io::DuplexStream;
use world::Random;

/// The beginning of each simulation, in seconds since 1970.
const START_SECS: u64 = 1_700_000_000;

/// Everybody but the edge.
pub(crate) struct Town {
    pub(crate) site: SharedSite,
    pub(crate) ledger: SharedLedger,
    pub(crate) timeline: Timeline,
    pub(crate) origin: Origin,
}

impl Town {
    /// A town with this site. The caller is inside the runtime.
    pub(crate) fn new(plan: SitePlan, seed: u64) -> Self {
        let plan = Arc::new(plan);
        let rules = Rules { through_edge: false, trace: true, ..Rules::default() };
        let timeline = Timeline::start(START_SECS);
        let ledger = Ledger::shared(Arc::clone(&plan), rules);
        let site = Arc::new(Mutex::new(Site::new(plan)));
        let origin = Origin::new(Arc::clone(&site), Arc::clone(&ledger), timeline, seed);
        Self { site, ledger, timeline, origin }
    }

    /// A town with a random site.
    pub(crate) fn random(seed: u64) -> Self {
        Self::new(SitePlan::random(&mut Random::fork(seed, "site", 0), "a.test"), seed)
    }

    /// The plan of the site.
    pub(crate) fn plan(&self) -> Arc<SitePlan> {
        Arc::clone(lock(&self.site).plan())
    }

    /// Connects to the origin, through a pipe that holds this many bytes.
    pub(crate) fn connect(origin: &Origin, capacity_bytes: usize) -> DuplexStream {
        let (near, far) = tokio::io::duplex(capacity_bytes);
        let origin = origin.clone();
        tokio::spawn(async move { origin.serve(far, drop).await });
        near
    }

    /// Lets a visitor carry out its plan.
    pub(crate) fn visitor(&self, plan: VisitorPlan, capacity_bytes: usize) -> tokio::task::JoinHandle<()> {
        // The origin speaks HTTP/1.1 only.
        let plan = VisitorPlan { is_multiplexed: false, ..plan };
        let origin = self.origin.clone();
        let connect = move || Some(Self::connect(&origin, capacity_bytes));
        let visitor = Visitor::new(plan, self.plan(), Arc::clone(&self.ledger), self.timeline, connect);
        tokio::spawn(visitor.run())
    }

    /// Lets random visitors carry out their plans, and returns the log.
    pub(crate) async fn live(&self, seed: u64, visitors: u64, capacity_bytes: usize) -> String {
        let plan =
            |number| VisitorPlan::random(&mut Random::fork(seed, "visitor", number), number, &self.plan());
        let running: Vec<_> =
            (0..visitors).map(|number| self.visitor(plan(number), capacity_bytes)).collect();
        for visitor in running {
            visitor.await.unwrap();
        }
        let mut ledger = lock(&self.ledger);
        ledger.finish(self.timeline.now());
        ledger.log().join("\n")
    }

    /// Switches one fault on.
    pub(crate) fn breaks(&self, fault: OriginFault, percent: u64) {
        self.origin.faults().set(fault, percent);
    }

    #[track_caller]
    pub(crate) fn is_right(&self) {
        let ledger = lock(&self.ledger);
        let told: Vec<_> = ledger.violations().iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "{told:#?}");
    }
}
