//! The plan of a simulated run: who comes when, what goes wrong, and how each life ends.
//!
//! Invariant: a plan follows from its seed. Each of its elements can be removed without a change of
//! the others, because each has random numbers of its own.

use crate::download::Downloads;
use crate::fault::PlannedFault;
use crate::filling::{callers, publish};
use crate::guarding::{flooder, guard, members};
use crate::handover::PlannedHandover;
use crate::logging::{LogSettings, PlannedRotation};
use crate::reload::PlannedReload;
use crate::renewal::renewal;
use crate::settings::{HOST, OTHER_HOST, Settings, SiteProfile};
use crate::survey::survey;
use crate::tracing::TraceSettings;
use actors::{
    Application, DashboardPlan, EditorPlan, FlooderPlan, FollowerPlan, IntruderPlan, MemberPlan,
    OperatorPlan, PageKind, PurgePlan, SitePlan, TunnelPlan, VisitorPlan, WarmCallerPlan,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use world::Random;

/// The largest number of lives of a run.
const LIVES_MAX: u64 = 5;

/// The largest numbers of visitors, of clients that purge, of clients of the admin address, of
/// visitors that switch protocols, of clients that are refused, of editors, and of faults in a
/// life.
const VISITORS_MAX: u64 = 12;
const PURGERS_MAX: u64 = 3;
const OPERATORS_MAX: u64 = 2;
const TUNNELS_MAX: u64 = 2;
const INTRUDERS_MAX: u64 = 1;
const EDITORS_MAX: u64 = 2;
const FAULTS_MAX: u64 = 5;

/// How often a client follows the log.
const FOLLOWER_PERCENT: u64 = 30;

/// How often anybody visits the dashboard in a life, and the largest number of visitors.
const DASHBOARDS_PERCENT: u64 = 30;
const DASHBOARDS_MAX: u64 = 2;

/// How often a crowd comes in a life, its size, and the number of its first visitor.
const CROWD_PERCENT: u64 = 15;
const CROWD_VISITORS: u64 = 30;
const CROWD_VISITOR: u64 = 50;

/// The number in its life of the visitor that requests each page after a restart.
const RETURNING_VISITOR: u64 = 99;

/// How often bytes on the disk change between two lives.
const DECAY_PERCENT: u64 = 40;

/// How often a page is about as large as the disk accepts.
const FILM_PERCENT: u64 = 60;

/// How often as many bodies are under way as the disk has room for.
const PRESSURE_PERCENT: u64 = 20;

/// The largest size of this page. All actors hold its body in memory.
const FILM_BYTES_MAX: u64 = 3 << 19;

/// The largest body on the disk is this part of it, and is written in pieces of this many bytes.
const OBJECTS_ON_DISK_MIN: u64 = 8;
const PIECE_BYTES: u64 = 64 << 10;

/// Bodies of equal size fill the disk if they take this share of it, in percent. The disk tier
/// keeps a tenth for segments that are being written and for the journal.
const FULL_PERCENT: u64 = 91;

/// How many sizes are tried to find one with which bodies fill the disk.
const SIZES_TRIED: usize = 12;

/// The time in which actors arrive and faults begin, in simulated milliseconds.
pub(crate) const ARRIVAL_MS_MAX: u64 = 20_000;

/// The time in which the configuration is read again, in simulated milliseconds.
const RELOAD_MS_MAX: u64 = 40_000;

/// How often the site has routes, and how often they change while the edge is stopped.
const ROUTES_PERCENT: u64 = 50;
const OTHER_ROUTES_PERCENT: u64 = 25;

/// How often pages are templates, and how often the edge begins or ends to assemble them while it
/// is stopped.
const TEMPLATES_PERCENT: u64 = 30;
const OTHER_ASSEMBLY_PERCENT: u64 = 20;

/// How often the visitors behave so that the profile `rfc` can come into force by a reload.
const LETTER_PERCENT: u64 = 15;

/// How often some pages need a password.
const MEMBERS_PERCENT: u64 = 25;

/// The longest time until a kill, in simulated milliseconds.
const KILL_MS_MAX: u64 = 60_000;

/// How often the edge begins to drain in the middle of a life that ends in an orderly way.
const DRAIN_PERCENT: u64 = 20;

/// The largest number of the operation in which a process is killed.
const KILL_OPERATIONS_MAX: u64 = 40;

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The seed that it follows from.
    pub seed: u64,
    /// The settings of the edge in its first life.
    pub settings: Settings,
    /// The pages of the site.
    pub site: Arc<SitePlan>,
    /// The lives of the edge, one after the other. The last one ends in an orderly way.
    pub lives: Vec<LifePlan>,
}

/// The plan of one life.
#[derive(Clone, Debug)]
pub struct LifePlan {
    /// Its number, from 0 on.
    pub number: u64,
    /// The settings with which it starts. `None`: those of the life before.
    pub alteration: Option<Settings>,
    /// The number of places on the disk where bytes change while the machine is off before it.
    pub decay: u64,
    /// The visitors, each with its arrival in milliseconds after the start.
    pub visitors: Vec<(u64, VisitorPlan)>,
    /// The clients that purge, in the same way.
    pub purgers: Vec<(u64, PurgePlan)>,
    /// The clients of the admin address, in the same way.
    pub operators: Vec<(u64, OperatorPlan)>,
    /// The visitors that switch protocols, in the same way.
    pub tunnels: Vec<(u64, TunnelPlan)>,
    /// The clients that are refused, in the same way.
    pub intruders: Vec<(u64, IntruderPlan)>,
    /// The editors of the site's application, in the same way.
    pub editors: Vec<(u64, EditorPlan)>,
    /// The clients that follow the log, in the same way.
    pub followers: Vec<(u64, FollowerPlan)>,
    /// The visitors of the dashboard, in the same way.
    pub dashboards: Vec<(u64, DashboardPlan)>,
    /// The clients that fill the cache, in the same way.
    pub callers: Vec<(u64, WarmCallerPlan)>,
    /// The floods, in the same way.
    pub flooders: Vec<(u64, FlooderPlan)>,
    /// The clients of pages with a password, in the same way.
    pub members: Vec<(u64, MemberPlan)>,
    /// The faults.
    pub faults: Vec<PlannedFault>,
    /// The reloads, in the order of their times.
    pub reloads: Vec<PlannedReload>,
    /// The processes that want to take over, in the order of their times.
    pub handovers: Vec<PlannedHandover>,
    /// The rotations of the access log, if there is one.
    pub rotations: Vec<PlannedRotation>,
    /// How it ends.
    pub end: LifeEnd,
    /// When the edge begins to drain, although actors are not done; `None` if it waits for them.
    pub drains_at_ms: Option<u64>,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeEnd {
    /// The edge drains and closes its disk when all actors are done and all faults are over.
    Orderly,
    /// The process is killed after this many milliseconds.
    Kill(u64),
    /// The machine loses its power after this many milliseconds.
    PowerCut(u64),
    /// After this many milliseconds, the process is killed in the middle of the disk operation with
    /// this number, counted from then on.
    KillInOperation(u64, u64),
}

/// A removable element of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A life, except the last one.
    Life(u64),
    /// The change of the settings before a life.
    Alteration(u64),
    /// The early drain of a life.
    Drain(u64),
    /// The changed bytes on the disk before a life.
    Decay(u64),
    /// A fault of a life.
    Fault(u64, u64),
    /// A reload of a life.
    Reload(u64, u64),
    /// A process that wants to take over.
    Handover(u64, u64),
    /// A visitor of a life.
    Visitor(u64, u64),
    /// A client that purges.
    Purger(u64, u64),
    /// A client of the admin address.
    Operator(u64, u64),
    /// A visitor that switches protocols.
    Tunnel(u64, u64),
    /// A client that is refused.
    Intruder(u64, u64),
    /// An editor of the site's application.
    Editor(u64, u64),
    /// A visitor of the dashboard.
    Dashboard(u64, u64),
    /// A client that fills the cache.
    Caller(u64, u64),
    /// A visit of a visitor, by its place.
    Visit(u64, u64, usize),
    /// A purge of a client, by its place.
    Purge(u64, u64, usize),
    /// A client that follows the log.
    Follower(u64, u64),
    /// A flood.
    Flooder(u64, u64),
    /// A client of pages with a password.
    Member(u64, u64),
    /// A rotation of the access log.
    Rotation(u64, u64),
}

impl RunPlan {
    /// The plan that follows from a seed.
    pub fn of_seed(seed: u64) -> Self {
        let fork = |label| Random::fork(seed, label, 0);
        let application = Application::random(&mut fork("application"));
        let settings = Settings::random(&mut fork("settings")).for_site(&mut fork("profile"), application);
        let is_pressed = fork("pressure").percent(PRESSURE_PERCENT);
        let settings = if is_pressed { settings.under_pressure() } else { settings };
        let other_host = fork("hosts").percent(60).then(|| OTHER_HOST.to_owned());
        let is_by_the_letter = settings.profile == SiteProfile::Rfc || fork("letter").percent(LETTER_PERCENT);
        let mut site = SitePlan {
            other_host,
            application,
            // The letter of the standards believes what a careless page says.
            greets: !is_by_the_letter,
            has_ports: fork("ports").percent(30),
            keeps_tracking: is_by_the_letter,
            is_forged: true,
            ..SitePlan::random(&mut fork("site"), HOST)
        };
        let film = settings
            .disk_bytes
            .and_then(|bytes| enlarge_page(&mut fork("film"), &mut site, bytes, is_pressed));
        let film = film.filter(|_| is_pressed);
        let mut routing = fork("routes");
        let is_routed = routing.percent(ROUTES_PERCENT);
        let settings = if is_routed { settings.with_routes(&mut routing, &site) } else { settings };
        let mut templates = fork("templates");
        let has_templates = templates.percent(TEMPLATES_PERCENT);
        let mut site = if has_templates { site.with_templates(&mut templates) } else { site };
        let mut settings = if has_templates { settings.with_templates(&mut templates) } else { settings };
        publish(seed, &mut site, &mut settings);
        settings.traces = TraceSettings::random(seed);
        settings.guard = guard(seed);
        settings.has_members = fork("members").percent(MEMBERS_PERCENT);
        settings.log = LogSettings::random(seed);
        let site = Arc::new(site);
        let count = if settings.disk_bytes.is_some() { fork("lives").between(1, LIVES_MAX) } else { 1 };
        let life = |number| LifePlan::random(seed, (number, number + 1 == count), &settings, &site, film);
        let lives = (0..count).map(life).collect();
        Self { seed, settings, site, lives }
    }

    /// All elements, the large ones first.
    pub fn elements(&self) -> Vec<Element> {
        let mut all: BTreeSet<Element> = BTreeSet::new();
        for life in &self.lives {
            if life.end != LifeEnd::Orderly {
                all.insert(Element::Life(life.number));
            }
            all.extend(life.drains_at_ms.iter().map(|_| Element::Drain(life.number)));
            all.extend(life.alteration.iter().map(|_| Element::Alteration(life.number)));
            all.extend((life.decay > 0).then_some(Element::Decay(life.number)));
            all.extend(life.faults.iter().map(|fault| Element::Fault(life.number, fault.number)));
            all.extend(life.reloads.iter().map(|reload| Element::Reload(life.number, reload.number)));
            all.extend(life.handovers.iter().map(|handover| Element::Handover(life.number, handover.number)));
            let rotations = life.rotations.iter().map(|rotation| rotation.number);
            all.extend(rotations.map(|rotation| Element::Rotation(life.number, rotation)));
            let operators = life.operators.iter().map(|(_, operator)| operator.number);
            all.extend(operators.map(|operator| Element::Operator(life.number, operator)));
            all.extend(life.tunnels.iter().map(|(_, tunnel)| Element::Tunnel(life.number, tunnel.number)));
            let intruders = life.intruders.iter().map(|(_, intruder)| intruder.number);
            all.extend(intruders.map(|intruder| Element::Intruder(life.number, intruder)));
            all.extend(life.editors.iter().map(|(_, editor)| Element::Editor(life.number, editor.number)));
            let followers = life.followers.iter().map(|(_, follower)| follower.number);
            all.extend(followers.map(|follower| Element::Follower(life.number, follower)));
            let dashboards = life.dashboards.iter().map(|(_, dashboard)| dashboard.number);
            all.extend(dashboards.map(|dashboard| Element::Dashboard(life.number, dashboard)));
            all.extend(
                life.flooders.iter().map(|(_, flooder)| Element::Flooder(life.number, flooder.number)),
            );
            all.extend(life.members.iter().map(|(_, member)| Element::Member(life.number, member.number)));
            all.extend(life.callers.iter().map(|(_, caller)| Element::Caller(life.number, caller.number)));
            for (_, visitor) in &life.visitors {
                all.insert(Element::Visitor(life.number, visitor.number));
                all.extend(
                    (0..visitor.visits.len()).map(|at| Element::Visit(life.number, visitor.number, at)),
                );
            }
            for (_, purger) in &life.purgers {
                all.insert(Element::Purger(life.number, purger.number));
                all.extend((0..purger.purges.len()).map(|at| Element::Purge(life.number, purger.number, at)));
            }
        }
        all.into_iter().collect()
    }

    /// The plan with these elements only.
    #[must_use]
    pub fn retained(&self, kept: &BTreeSet<Element>) -> Self {
        let mut plan = self.clone();
        plan.lives.retain(|life| life.end == LifeEnd::Orderly || kept.contains(&Element::Life(life.number)));
        for life in &mut plan.lives {
            let number = life.number;
            life.alteration = life.alteration.take().filter(|_| kept.contains(&Element::Alteration(number)));
            life.drains_at_ms = life.drains_at_ms.take().filter(|_| kept.contains(&Element::Drain(number)));
            life.decay = if kept.contains(&Element::Decay(number)) { life.decay } else { 0 };
            life.faults.retain(|fault| kept.contains(&Element::Fault(number, fault.number)));
            life.reloads.retain(|reload| kept.contains(&Element::Reload(number, reload.number)));
            life.handovers.retain(|handover| kept.contains(&Element::Handover(number, handover.number)));
            life.rotations.retain(|rotation| kept.contains(&Element::Rotation(number, rotation.number)));
            life.visitors.retain(|(_, visitor)| kept.contains(&Element::Visitor(number, visitor.number)));
            life.purgers.retain(|(_, purger)| kept.contains(&Element::Purger(number, purger.number)));
            life.operators.retain(|(_, operator)| kept.contains(&Element::Operator(number, operator.number)));
            life.tunnels.retain(|(_, tunnel)| kept.contains(&Element::Tunnel(number, tunnel.number)));
            life.intruders.retain(|(_, intruder)| kept.contains(&Element::Intruder(number, intruder.number)));
            life.editors.retain(|(_, editor)| kept.contains(&Element::Editor(number, editor.number)));
            life.followers.retain(|(_, follower)| kept.contains(&Element::Follower(number, follower.number)));
            life.dashboards
                .retain(|(_, dashboard)| kept.contains(&Element::Dashboard(number, dashboard.number)));
            life.flooders.retain(|(_, flooder)| kept.contains(&Element::Flooder(number, flooder.number)));
            life.members.retain(|(_, member)| kept.contains(&Element::Member(number, member.number)));
            life.callers.retain(|(_, caller)| kept.contains(&Element::Caller(number, caller.number)));
            for (_, visitor) in &mut life.visitors {
                keep_places(&mut visitor.visits, |at| {
                    kept.contains(&Element::Visit(number, visitor.number, at))
                });
            }
            for (_, purger) in &mut life.purgers {
                keep_places(&mut purger.purges, |at| {
                    kept.contains(&Element::Purge(number, purger.number, at))
                });
            }
        }
        plan
    }
}

fn keep_places<T>(list: &mut Vec<T>, kept: impl Fn(usize) -> bool) {
    let mut at = 0;
    list.retain(|_| {
        at += 1;
        kept(at - 1)
    });
}

/// The settings of a life after the first, if they differ from those before.
fn alteration(seed: u64, number: u64, settings: &Settings, site: &SitePlan) -> Option<Settings> {
    let mut random = Random::fork(seed, "alteration", number);
    let is_altered = number > 0 && random.percent(60);
    is_altered.then(|| {
        let altered = settings.altered(&mut random);
        let is_rerouted = random.percent(OTHER_ROUTES_PERCENT);
        let mut altered = if is_rerouted { altered.with_routes(&mut random, site) } else { altered };
        let mut of_templates = Random::fork(seed, "other assembly", number);
        if site.has_templates() && of_templates.percent(OTHER_ASSEMBLY_PERCENT) {
            altered.assembles.0 = !altered.assembles.0;
        }
        altered
    })
}

impl LifeEnd {
    fn random(random: &mut Random, is_last: bool) -> Self {
        match random.below(9) {
            _ if is_last => Self::Orderly,
            0..3 => Self::PowerCut(random.between(100, KILL_MS_MAX)),
            3..6 => Self::Kill(random.between(100, KILL_MS_MAX)),
            _ => {
                let at_ms = random.between(0, KILL_MS_MAX / 2);
                Self::KillInOperation(at_ms, random.between(1, KILL_OPERATIONS_MAX))
            }
        }
    }
}

impl LifePlan {
    /// A life by chance. All download `film`, the number of a page, if there is one.
    fn random(
        seed: u64,
        (number, is_last): (u64, bool),
        settings: &Settings,
        site: &SitePlan,
        film: Option<u64>,
    ) -> Self {
        let mut random = Random::fork(seed, "life", number);
        let alteration = alteration(seed, number, settings, site);
        let fork = |label: &str, part: u64| Random::fork(seed, label, number * 1000 + part);
        let mut visitors: Vec<_> = (0..random.between(1, VISITORS_MAX))
            .map(|visitor| {
                let mut own = fork("visitor", visitor);
                (own.below(ARRIVAL_MS_MAX), VisitorPlan::random(&mut own, number * 100 + visitor, site))
            })
            .collect();
        let mut decaying = Random::fork(seed, "decay", number);
        let decays = number > 0 && decaying.percent(DECAY_PERCENT);
        let decay = if decays { *decaying.choice(&[1, 8, 32, 128]).unwrap_or(&1) } else { 0 };
        if number > 0 {
            // What a restart brings back is seen only before visitors and purges replace it. A
            // damaged page must be whole again at the second request.
            let rounds = if decays { 2 } else { 1 };
            visitors.push((0, survey(number * 100 + RETURNING_VISITOR, site, rounds, 5)));
        }
        let purgers = (0..random.between(0, PURGERS_MAX))
            .map(|purger| {
                let mut own = fork("purger", purger);
                (own.below(ARRIVAL_MS_MAX), PurgePlan::random(&mut own, number * 100 + purger, site))
            })
            .collect();
        let groups = Groups::random(seed, number, settings, site, film);
        visitors.extend(groups.visitors);
        let faults = (0..random.between(0, FAULTS_MAX))
            .map(|fault| PlannedFault::random(&mut fork("fault", fault), fault, ARRIVAL_MS_MAX))
            .chain(groups.faults)
            .collect();
        let drains_at_ms = drain(&mut Random::fork(seed, "drain", number));
        let end = LifeEnd::random(&mut random, is_last);
        // While it drains, an edge hands over to nobody.
        let mut of_handovers = Random::fork(seed, "hand-overs", number);
        let handovers = match drains_at_ms {
            None => PlannedHandover::random_list(&mut of_handovers, RELOAD_MS_MAX),
            Some(_) => Vec::new(),
        };
        // Another process does not know the counts of the first one.
        let is_steady = handovers.is_empty() && drains_at_ms.is_none();
        Self {
            number,
            alteration,
            decay,
            visitors,
            purgers,
            operators: operators(seed, number, site),
            tunnels: tunnels(seed, number),
            intruders: intruders(seed, number, site),
            editors: editors(seed, number, site),
            followers: follower(seed, number).into_iter().collect(),
            dashboards: dashboards(seed, number, site),
            callers: callers(seed, number, site),
            flooders: flooder(seed, number, is_steady && settings.guard.is_some()).into_iter().collect(),
            members: members(seed, number, settings.has_members),
            faults,
            reloads: reloads(seed, number, settings, site),
            handovers,
            rotations: rotations(seed, number, settings),
            end,
            drains_at_ms,
        }
    }
}

/// Makes a large page of some sites about as large as the disk accepts, and a little larger than a
/// number of the pieces in which it is written. Returns the number of the page.
fn enlarge_page(random: &mut Random, site: &mut SitePlan, disk_bytes: u64, is_sure: bool) -> Option<u64> {
    let is_wanted = random.percent(FILM_PERCENT) || is_sure;
    let bytes_max = (disk_bytes / OBJECTS_ON_DISK_MIN).min(FILM_BYTES_MAX);
    let mut size = |share_min| {
        let bytes = bytes_max * random.between(share_min, 100) / 100;
        bytes / PIECE_BYTES * PIECE_BYTES + random.below(PIECE_BYTES / 8)
    };
    // The whole pieces of as many bodies as the disk has room for leave no room for others.
    let fills_disk = |bytes: &u64| {
        let pieces_bytes = bytes / PIECE_BYTES * PIECE_BYTES;
        bytes / PIECE_BYTES > 0 && disk_bytes / bytes * pieces_bytes * 100 >= disk_bytes * FULL_PERCENT
    };
    let sizes: Vec<_> = (0..SIZES_TRIED).map(|_| size(40)).collect();
    let bytes = sizes.into_iter().find(fills_disk).unwrap_or_else(|| size(60));
    let page = site.pages.iter_mut().find(|page| page.kind == PageKind::Large).filter(|_| is_wanted)?;
    page.bytes = bytes as usize;
    Some(page.number)
}

/// Visitors of a life that come together or often, and the faults that accompany them.
struct Groups {
    visitors: Vec<(u64, VisitorPlan)>,
    faults: Vec<PlannedFault>,
}

impl Groups {
    fn random(seed: u64, life: u64, settings: &Settings, site: &SitePlan, film: Option<u64>) -> Self {
        let fork = |label: &str| Random::fork(seed, label, life * 1000);
        let mut visitors = Vec::new();
        if Random::fork(seed, "crowd", life).percent(CROWD_PERCENT) {
            visitors.extend(crowd(&mut fork("crowd"), life, site));
        }
        let downloads = Downloads::random(&mut fork("downloads"), life, site, ARRIVAL_MS_MAX, film);
        visitors.extend(downloads.visitors);
        let renewing = renewal(&mut fork("renewal"), life, site, ARRIVAL_MS_MAX);
        visitors.extend(renewing.filter(|_| settings.disk_bytes.is_some()));
        Self { visitors, faults: downloads.fault.into_iter().collect() }
    }
}

/// The clients of the admin address in a life.
fn operators(seed: u64, life: u64, site: &SitePlan) -> Vec<(u64, OperatorPlan)> {
    let operator = |number| {
        let mut own = Random::fork(seed, "operator", life * 1000 + number);
        (own.below(ARRIVAL_MS_MAX), OperatorPlan::random(&mut own, life * 100 + number, site))
    };
    (0..Random::fork(seed, "operators", life).between(0, OPERATORS_MAX)).map(operator).collect()
}

/// The clients of a life that are refused.
fn intruders(seed: u64, life: u64, site: &SitePlan) -> Vec<(u64, IntruderPlan)> {
    let intruder = |number| {
        let mut own = Random::fork(seed, "intruder", life * 1000 + number);
        (own.below(ARRIVAL_MS_MAX), IntruderPlan::random(&mut own, life * 100 + number, site))
    };
    (0..Random::fork(seed, "intruders", life).between(0, INTRUDERS_MAX)).map(intruder).collect()
}

/// The clients of a life that switch protocols.
fn tunnels(seed: u64, life: u64) -> Vec<(u64, TunnelPlan)> {
    let tunnel = |number| {
        let mut own = Random::fork(seed, "tunnel", life * 1000 + number);
        (own.below(ARRIVAL_MS_MAX), TunnelPlan::random(&mut own, life * 100 + number))
    };
    (0..Random::fork(seed, "tunnels", life).between(0, TUNNELS_MAX)).map(tunnel).collect()
}

/// The editors of a life, if the site runs on an application.
fn editors(seed: u64, life: u64, site: &SitePlan) -> Vec<(u64, EditorPlan)> {
    let count = Random::fork(seed, "editors", life).between(0, EDITORS_MAX);
    let editor = |number| {
        let mut own = Random::fork(seed, "editor", life * 1000 + number);
        (own.below(ARRIVAL_MS_MAX), EditorPlan::random(&mut own, life * 100 + number, site))
    };
    (0..count).filter(|_| site.application.is_some()).map(editor).collect()
}

/// The client of a life that follows the log, if there is one. Only one, so that the limit of their
/// streams is reached by its plan alone.
fn follower(seed: u64, life: u64) -> Option<(u64, FollowerPlan)> {
    let mut own = Random::fork(seed, "follower", life);
    let is_wanted = own.percent(FOLLOWER_PERCENT);
    is_wanted.then(|| (own.below(ARRIVAL_MS_MAX), FollowerPlan::random(&mut own, life * 100)))
}

/// The visitors of the dashboard in a life.
fn dashboards(seed: u64, life: u64, site: &SitePlan) -> Vec<(u64, DashboardPlan)> {
    let mut random = Random::fork(seed, "dashboards", life);
    let is_wanted = random.percent(DASHBOARDS_PERCENT);
    let count = random.between(1, DASHBOARDS_MAX);
    let dashboard = |number| {
        let mut own = Random::fork(seed, "dashboard", life * 1000 + number);
        (own.below(ARRIVAL_MS_MAX), DashboardPlan::random(&mut own, life * 100 + number, site))
    };
    (0..count).filter(|_| is_wanted).map(dashboard).collect()
}

/// The reloads of a life.
fn reloads(seed: u64, life: u64, settings: &Settings, site: &SitePlan) -> Vec<PlannedReload> {
    let mut random = Random::fork(seed, "reloads", life);
    let may_be_rfc = !site.greets && site.keeps_tracking;
    PlannedReload::random_list(&mut random, settings, may_be_rfc, RELOAD_MS_MAX, site.application)
}

/// The rotations of the access log in a life.
fn rotations(seed: u64, life: u64, settings: &Settings) -> Vec<PlannedRotation> {
    let mut random = Random::fork(seed, "rotations", life);
    let all = PlannedRotation::random_list(&mut random, RELOAD_MS_MAX);
    all.into_iter().filter(|_| settings.log.is_some()).collect()
}

/// When the edge begins to drain early, if it does.
fn drain(random: &mut Random) -> Option<u64> {
    random.percent(DRAIN_PERCENT).then(|| random.between(500, KILL_MS_MAX))
}

/// Visitors that arrive within a second, each with one request.
fn crowd(random: &mut Random, life: u64, site: &SitePlan) -> Vec<(u64, VisitorPlan)> {
    let arrival_ms = random.below(ARRIVAL_MS_MAX);
    let visitor = |number| {
        let mut own = Random::fork(arrival_ms, "of a crowd", number);
        let mut plan = VisitorPlan::random(&mut own, life * 100 + CROWD_VISITOR + number, site);
        plan.visits.truncate(1);
        (arrival_ms + own.below(1000), plan)
    };
    (0..CROWD_VISITORS).map(visitor).collect()
}

impl LifeEnd {
    /// The kind of this end.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Orderly => "orderly end",
            Self::Kill(_) => "kill",
            Self::PowerCut(_) => "power cut",
            Self::KillInOperation(..) => "kill in a disk operation",
        }
    }
}

impl fmt::Display for LifeEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orderly => f.write_str("an orderly end"),
            Self::Kill(at_ms) => write!(f, "a kill after {at_ms} ms"),
            Self::PowerCut(at_ms) => write!(f, "a power cut after {at_ms} ms"),
            Self::KillInOperation(at_ms, operation) => {
                write!(f, "a kill in disk operation {operation} after {at_ms} ms")
            }
        }
    }
}

impl fmt::Display for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.settings)?;
        if let Some(host) = &self.site.other_host {
            writeln!(f, "the pages are different ones at {host}")?;
        }
        if let Some(application) = self.site.application {
            writeln!(f, "the site runs on {application:?}")?;
        }
        if let Some(listed) = &self.site.listed {
            writeln!(f, "for robots: {listed:?}")?;
        }
        for page in &self.site.pages {
            writeln!(f, "page {page:?}")?;
        }
        for life in &self.lives {
            writeln!(f, "life {} with {}:", life.number, life.end)?;
            if let Some(altered) = &life.alteration {
                writeln!(f, "  the settings change to: {altered}")?;
            }
            if let Some(at_ms) = life.drains_at_ms.filter(|_| life.end == LifeEnd::Orderly) {
                writeln!(f, "  the edge drains after {at_ms} ms")?;
            }
            if life.decay > 0 {
                writeln!(f, "  before it bytes on the disk change in {} places", life.decay)?;
            }
            life.faults.iter().try_for_each(|fault| writeln!(f, "  {fault}"))?;
            life.reloads.iter().try_for_each(|reload| writeln!(f, "  {reload}"))?;
            life.handovers.iter().try_for_each(|handover| writeln!(f, "  {handover}"))?;
            life.rotations.iter().try_for_each(|rotation| writeln!(f, "  {rotation}"))?;
            for (at_ms, visitor) in &life.visitors {
                write!(f, "  after {at_ms} ms {visitor}")?;
            }
            for (at_ms, purger) in &life.purgers {
                write!(f, "  after {at_ms} ms {purger}")?;
            }
            for (at_ms, tunnel) in &life.tunnels {
                write!(f, "  after {at_ms} ms {tunnel}")?;
            }
            for (at_ms, intruder) in &life.intruders {
                write!(f, "  after {at_ms} ms {intruder}")?;
            }
            for (at_ms, editor) in &life.editors {
                write!(f, "  after {at_ms} ms {editor}")?;
            }
            for (at_ms, caller) in &life.callers {
                write!(f, "  after {at_ms} ms {caller}")?;
            }
            for (at_ms, flooder) in &life.flooders {
                write!(f, "  after {at_ms} ms {flooder}")?;
            }
            for (at_ms, member) in &life.members {
                write!(f, "  after {at_ms} ms {member}")?;
            }
            for (at_ms, operator) in &life.operators {
                write!(f, "  after {at_ms} ms {operator}")?;
            }
            for (at_ms, follower) in &life.followers {
                write!(f, "  after {at_ms} ms {follower}")?;
            }
            for (at_ms, dashboard) in &life.dashboards {
                write!(f, "  after {at_ms} ms {dashboard}")?;
            }
        }
        Ok(())
    }
}
