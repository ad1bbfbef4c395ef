//! The actors that meet the edge in a simulation: origins, visitors, clients that purge, and
//! operators. A ledger records and judges what they saw.
//!
//! Invariant: all decisions follow from seeds, and all times from the paused clock of the runtime.
//! The actors know only streams of bytes; the ledger knows only what the actors recorded.

mod access_lines;
mod answer;
mod application;
mod assembled;
mod body;
mod coded;
mod collector;
mod content;
mod dashboard_call;
mod dashboard_judge;
mod dashboard_visitor;
mod dialect;
mod editor;
mod event;
mod exchange;
mod fault;
mod flooder;
mod follower;
mod frames;
mod guard_model;
mod handover;
mod integrity;
mod intruder;
mod judge;
mod judge_listed;
mod judge_route;
mod ledger;
mod listed;
mod member;
mod moment;
mod multiplexed;
mod operator;
mod order;
mod ordered;
mod origin;
mod page;
mod purger;
mod read;
mod reload;
mod routing;
mod rules;
mod send;
mod site;
mod spans;
mod staleness;
mod stream_tunnel;
mod template;
mod traces;
mod tunnel;
mod visit;
mod visitor;
mod warm_caller;

pub use access_lines::{LogEnd, LogForm};
pub use application::{Application, SaveForm};
pub use collector::Collector;
pub use content::{BLOCK_BYTES, ContentId, Mismatch, NONE, slice, verify};
pub use dashboard_call::{DashboardAccess, DashboardCall};
pub use dashboard_visitor::{DashboardPlan, DashboardStep, DashboardVisitor};
pub use dialect::Dialect;
pub use editor::{Editor, EditorAction, EditorPlan, EditorStep};
pub use event::{FaultId, FaultPlace, Lie, PurgeAnswer, PurgeId, RequestId, Scope, Stamp};
pub use exchange::{Ask, Ending, HeldCopy, RangeSpec, Reply};
pub use fault::{OriginFault, OriginFaults};
pub use flooder::{FloodCounts, FloodStep, Flooder, FlooderPlan, GuardedClient};
pub use follower::{Followed, Follower, FollowerPlan};
pub use frames::Breach;
pub use guard_model::{GuardTerms, RateTerms};
pub use intruder::{Attempt, Intruder, IntruderPlan};
pub use ledger::{Ledger, SharedLedger, Tally, VARIANTS_MAX};
pub use listed::{ListedPlan, RobotsForm, SitemapForm};
pub use member::{MEMBERS, MEMBERS_FILE, MEMBERS_ROUTE, Member, MemberPlan, Shown};
pub use moment::{Moment, Timeline};
pub use operator::{AdminCall, Operator, OperatorPlan, PlannedCall};
pub use order::{PlannedPurge, WrittenPurge};
pub use ordered::OrderedPurge;
pub use origin::Origin;
pub use page::{Framing, Lifetime, PageKind, PagePlan, Validator};
pub use purger::{PurgePlan, Purger};
pub use read::order;
pub use reload::ReloadId;
pub use routing::{
    MAINTAINER, MAINTENANCE_FILE, MAINTENANCE_PAGE, REALM_FIELD, RouteAnswer, RoutePages, Routing, SiteRoute,
    realm,
};
pub use rules::{Rule, Rules, Violation};
pub use site::{
    DEFAULT_LANGUAGE, LANGUAGES, NICK_COOKIE, PageState, Recognised, SharedSite, Site, SitePlan, USER_COOKIE,
    chosen_language, content_target, lock, split_host,
};
pub use template::{Include, TEMPLATE_COOKIES, TemplatePart};
pub use tunnel::{TunnelPlan, Tunneller};
pub use visit::{Condition, Manner, Upload, Visit, VisitMethod};
pub use visitor::{Visitor, VisitorPlan};
pub use warm_caller::{WarmCaller, WarmCallerPlan, WarmRequest};
