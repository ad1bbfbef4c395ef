//! Loads a page in headless Chromium and in page mode, and compares the requests to the page's host
//! with the expected differences.
//!
//! An expected file has a line `CLASS SIDE TARGET` for each target in which the two differ. The
//! side is `chromium` or `petasos` if only that one requests the target. It is `perhaps` if page
//! mode does not request it, and Chromium may. The class is `lazy` or `favicon` if page mode
//! classifies the target so, otherwise `script-made`: the author of such a line has checked that.
//! Lazy targets are always `perhaps`, because they depend on the browser's layout; page mode must
//! list them, however.

mod chromium;

use clock::Clock;
use petasos_browse::{PagePlan, Watch, run};
use platform::SystemClock;
use resource::ResourceClass;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use testkit::{Origin, Seen};

/// Loads the plan's page in both, first in page mode. `address` is the address of the page's host;
/// all requests to it must reach `origin`. Returns how many targets both requested, and Chromium's
/// requests.
///
/// # Panics
/// If there is an unexpected difference.
pub(crate) fn compare(
    plan: &PagePlan,
    address: SocketAddr,
    origin: &Origin,
    expected: &str,
) -> (usize, Vec<Seen>) {
    let ours = page_mode(plan);
    let expected: BTreeSet<&str> =
        expected.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let side = |wanted: &str| -> BTreeSet<String> {
        let words = expected.iter().map(|line| line.splitn(3, ' ').collect::<Vec<_>>());
        words.filter(|words| words[1] == wanted).map(|words| words[2].to_owned()).collect()
    };
    let only_ours = side("petasos");
    let mut awaited = side("chromium");
    awaited.extend(ours.iter().filter(|(_, one)| one.is_asked()).map(|(target, _)| target.clone()));
    awaited.retain(|target| !only_ours.contains(target));
    let before = origin.seen().len();
    let chromium = || origin.seen().split_off(before);
    let targets = || chromium().iter().map(|seen| seen.target().to_owned()).collect::<BTreeSet<_>>();
    chromium::load(plan.url.as_str(), &address.to_string(), &awaited, targets);
    let (chromium, asked) = (chromium(), targets());
    let perhaps = side("perhaps");
    let targets: BTreeSet<&String> = asked.iter().chain(ours.keys()).chain(&perhaps).collect();
    let differences: BTreeSet<String> = targets
        .into_iter()
        .filter_map(|target| {
            let is_chromium = asked.contains(target);
            difference(ours.get(target), is_chromium, perhaps.contains(target))
                .map(|(class, side)| format!("{class} {side} {target}"))
        })
        .collect();
    let differences: BTreeSet<&str> = differences.iter().map(String::as_str).collect();
    assert_eq!(differences, expected, "{}", plan.url);
    let is_both = |target: &&String| ours.get(*target).is_some_and(Ours::is_asked);
    (asked.iter().filter(is_both).count(), chromium)
}

/// The result of page mode for a URL of the page's host.
struct Ours {
    class: ResourceClass,
    what: &'static str,
}

impl Ours {
    fn is_asked(&self) -> bool {
        !matches!(self.what, "lazy" | "foreign" | "cached")
    }
}

/// The URLs of the page's host in page mode, by path and query.
fn page_mode(plan: &PagePlan) -> BTreeMap<String, Ours> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let plan = PagePlan { pages: Some(1), time: None, threads: 1, ..plan.clone() };
    let outcome = run(&plan, &clock, &Arc::new(Watch::default())).unwrap();
    let site = plan.url.origin().ascii_serialization();
    let own = |url: &str| url.strip_prefix(&site).map(str::to_owned);
    let trace = outcome.figures.trace.iter();
    trace.filter_map(|one| Some((own(&one.url)?, Ours { class: one.class, what: one.what }))).collect()
}

/// The class and the side of a target in which the two differ, or may differ.
fn difference(
    ours: Option<&Ours>,
    is_chromium: bool,
    is_perhaps: bool,
) -> Option<(&'static str, &'static str)> {
    let class =
        if ours.is_some_and(|one| one.class == ResourceClass::Icon) { "favicon" } else { "script-made" };
    match (ours, is_chromium) {
        (Some(one), _) if one.what == "lazy" => Some(("lazy", "perhaps")),
        (Some(one), true) if one.is_asked() => None,
        (Some(one), false) if one.is_asked() => Some((class, "petasos")),
        _ if is_perhaps => Some((class, "perhaps")),
        (_, true) => Some((class, "chromium")),
        (_, false) => None,
    }
}
