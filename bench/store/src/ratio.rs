//! The hit ratio of a store with memory for a tenth of the content. Visitors request pages by
//! Zipf's law. In a second trace, crawlers request all pages in turn between the visitors. For
//! comparison, an exact LRU has the same memory, the same requests and the same weight for each
//! page.

use crate::figure::figure;
use crate::lru::Lru;
use crate::pages;
use stats::Random;
use store::{Body, Lookup, Store, StoreLimits};

const PAGES: usize = 100_000;
/// Smallest and largest body, in bytes. The logarithms of the sizes are distributed evenly.
const SIZES: (f64, f64) = (1_024.0, 32_768.0);
/// The store has memory for one part in this many of the content.
const BUDGET_PART: u64 = 10;
/// Requests of visitors in a trace.
const VISITS: usize = 2_000_000;
/// The first part in this many of a trace warms the cache and does not count.
const WARMING_PART: usize = 4;
/// Zipf's exponent: the page of rank n is requested in proportion to 1 / n^0.9.
const EXPONENT: f64 = 0.9;
/// With crawlers, one crawler request follows this many visitor requests.
const VISITS_PER_CRAWL: usize = 2;

/// Requests in order: the page, and whether the request comes from a visitor (true) or a crawler.
type Trace = Vec<(u32, bool)>;

pub(crate) fn measure() {
    let mut random = Random::from_seed(11);
    let bodies: Vec<u64> = (0..PAGES).map(|_| body_bytes(&mut random)).collect();
    // The rank of a page is independent of its size and its place in a crawl.
    let mut ranked: Vec<u32> = (0..PAGES as u32).collect();
    random.shuffle(&mut ranked);
    let visits = visits(&ranked, &mut random);
    for (name, crawled) in [("visitors alone", false), ("visitors among crawlers", true)] {
        let trace = trace(&visits, crawled);
        let budget = bodies.iter().sum::<u64>() / BUDGET_PART;
        let (own, beside) = own_share(&trace, &bodies, budget);
        let lru = lru_share(&trace, &bodies, budget, beside);
        figure(&format!("store, {name}"), own * 100.0, "%");
        figure(&format!("LRU, {name}"), lru * 100.0, "%");
    }
}

fn body_bytes(random: &mut Random) -> u64 {
    let (from, to) = SIZES;
    (from.ln() + share(random) * (to.ln() - from.ln())).exp() as u64
}

/// A random number from 0 to 1.
fn share(random: &mut Random) -> f64 {
    random.below(1 << 40) as f64 / (1_u64 << 40) as f64
}

fn visits(ranked: &[u32], random: &mut Random) -> Vec<u32> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=ranked.len())
        .map(|rank| {
            sum += (rank as f64).powf(-EXPONENT);
            sum
        })
        .collect();
    let page = |_| {
        let wish = share(random) * sum;
        let rank = sums.partition_point(|&reached| reached <= wish);
        ranked.get(rank).or_else(|| ranked.last()).copied().unwrap_or_default()
    };
    (0..VISITS).map(page).collect()
}

fn trace(visits: &[u32], crawled: bool) -> Trace {
    let mut trace = Trace::new();
    for (place, page) in visits.iter().enumerate() {
        trace.push((*page, true));
        if crawled && place.is_multiple_of(VISITS_PER_CRAWL) {
            trace.push(((place / VISITS_PER_CRAWL % PAGES) as u32, false));
        }
    }
    trace
}

/// The hit ratio of visitors' requests, without the first part of the trace. `ask` returns whether
/// a request is a hit.
fn visitors_share(trace: &Trace, mut ask: impl FnMut(u32) -> bool) -> f64 {
    let mut visits = 0_u64;
    let mut hits = 0_u64;
    let warm = trace.len() / WARMING_PART;
    for (place, (page, is_visitor)) in trace.iter().enumerate() {
        let hit = ask(*page);
        if place >= warm && *is_visitor {
            visits += 1;
            hits += u64::from(hit);
        }
    }
    hits as f64 / visits as f64
}

/// The store's hit ratio, and the average weight of an object at the end, without the bytes of its
/// body.
fn own_share(trace: &Trace, bodies: &[u64], budget: u64) -> (f64, u64) {
    let limits =
        StoreLimits { memory_bytes_max: budget, object_bytes_max: 1 << 20, ..StoreLimits::default() };
    let store = Store::new(limits, 13);
    let fields = pages::request_fields();
    let octets = vec![b'x'; SIZES.1 as usize];
    let share = visitors_share(trace, |page| {
        let found = matches!(store.lookup(&pages::key(page.into()), &fields), Lookup::Found { .. });
        if !found {
            let bytes = bodies.get(page as usize).copied().unwrap_or_default() as usize;
            let body = Body::copy_of(octets.get(..bytes).unwrap_or_default());
            let _ = pages::publish(&store, page.into(), body);
        }
        found
    });
    let held = |page: &u32| matches!(store.peek(&pages::key((*page).into()), &fields), Lookup::Found { .. });
    let held = (0..bodies.len() as u32).filter(held);
    let content: u64 = held.filter_map(|page| bodies.get(page as usize)).sum();
    let stats = store.stats();
    (share, stats.bytes.saturating_sub(content) / stats.objects.max(1))
}

/// The hit ratio of an exact LRU. `beside` is the weight of each page in addition to its body, in
/// bytes.
fn lru_share(trace: &Trace, bodies: &[u64], budget: u64, beside: u64) -> f64 {
    let mut lru = Lru::new(bodies.len(), budget);
    visitors_share(trace, |page| {
        lru.ask(page, bodies.get(page as usize).copied().unwrap_or_default() + beside)
    })
}
