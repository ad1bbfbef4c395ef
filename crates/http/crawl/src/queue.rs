//! Pages that wait to be visited, in fair turns of the parts of the site.
//!
//! A page belongs to a group by the beginning of its path. The next page is of the group that had
//! the fewest turns; within a group, pages near the start, popular pages and recent ones come
//! first. This is start-time fair queueing: a new or empty group that gets pages again starts at
//! the turn of the others, so that it neither waits nor catches up.
//!
//! Invariant: the order follows from the calls alone. There are at most [`GROUPS_MAX`] groups, and
//! as many pages as the caller's limit; a page that finds no room replaces the last page of the
//! largest group, or is refused if it belongs to it.

use crate::frontier::{PageHints, PageSource};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use url::Url;

/// Groups of one site. Pages of further parts share one more group.
const GROUPS_MAX: usize = 64;

/// Bytes of a group's name.
const NAME_BYTES_MAX: usize = 64;

/// A page in the queue.
#[derive(Clone, Debug)]
pub(crate) struct QueuedPage {
    pub(crate) url: Url,
    /// Links from the start.
    pub(crate) depth: u32,
    pub(crate) source: PageSource,
    pub(crate) hints: PageHints,
    /// How often the page was offered again.
    pub(crate) links: u32,
}

/// Orders the pages of a group: smaller is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    depth: u32,
    popularity: Reverse<u32>,
    priority: Reverse<u16>,
    modified: Reverse<Option<u64>>,
    links: Reverse<u32>,
    /// The order of arrival, which no two pages share.
    sequence: u64,
}

#[derive(Debug, Default)]
struct Group {
    /// Turns that it had; at least those of the other groups when it became non-empty.
    turns: u64,
    pages: BTreeMap<Rank, (u64, QueuedPage)>,
}

/// The queue. A page is identified by a number that the caller computes from its URL.
#[derive(Debug, Default)]
pub(crate) struct PageQueue {
    groups: BTreeMap<String, Group>,
    places: BTreeMap<u64, (String, Rank)>,
    sequence: u64,
}

impl PageQueue {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.places.contains_key(&id)
    }

    /// All pages in the order of their arrival. Adding them in this order to a queue with the same
    /// turns restores this queue.
    pub(crate) fn pages(&self) -> Vec<&QueuedPage> {
        let pages = self.groups.values().flat_map(|group| &group.pages);
        let mut pages: Vec<_> = pages.map(|(rank, (_, page))| (rank.sequence, page)).collect();
        pages.sort_by_key(|(sequence, _)| *sequence);
        pages.into_iter().map(|(_, page)| page).collect()
    }

    /// The turns that each group had.
    pub(crate) fn turns(&self) -> BTreeMap<String, u64> {
        self.groups.iter().map(|(name, group)| (name.clone(), group.turns)).collect()
    }

    /// A queue without pages whose groups had these turns. Groups beyond [`GROUPS_MAX`] are
    /// dropped.
    pub(crate) fn with_turns(turns: BTreeMap<String, u64>) -> Self {
        let groups = turns.into_iter().take(GROUPS_MAX + 1);
        let groups = groups.map(|(name, turns)| (name, Group { turns, ..Group::default() }));
        Self { groups: groups.collect(), ..Self::default() }
    }

    /// Adds a page. If the queue then has more than `pages_max`, the last page of the largest group
    /// leaves it; its number and URL are returned, which may be those of the new page.
    pub(crate) fn push(&mut self, id: u64, page: QueuedPage, pages_max: usize) -> Option<(u64, Url)> {
        let name = self.group_of(&page.url);
        let others = self.groups.values().filter(|group| !group.pages.is_empty());
        let turn = others.map(|group| group.turns).min().unwrap_or_default();
        let group = self.groups.entry(name).or_default();
        if group.pages.is_empty() {
            group.turns = group.turns.max(turn);
        }
        self.restore(id, page);
        if self.len() <= pages_max {
            return None;
        }
        // Of several largest groups the last by name, so that the order does not depend on chance.
        let largest = self.groups.values_mut().max_by_key(|group| group.pages.len())?;
        let (_, (id, page)) = largest.pages.pop_last()?;
        self.places.remove(&id);
        Some((id, page.url))
    }

    /// Adds a page without a change of turns, as it was in an earlier queue.
    pub(crate) fn restore(&mut self, id: u64, page: QueuedPage) {
        self.sequence += 1;
        let rank = Rank {
            depth: page.depth,
            popularity: Reverse(page.hints.popularity),
            priority: Reverse(page.hints.priority_permille),
            modified: Reverse(page.hints.modified.map(|moment| moment.as_micros())),
            links: Reverse(page.links),
            sequence: self.sequence,
        };
        let name = self.group_of(&page.url);
        self.groups.entry(name.clone()).or_default().pages.insert(rank, (id, page));
        self.places.insert(id, (name, rank));
    }

    /// Notes that another link leads to a waiting page.
    pub(crate) fn link_again(&mut self, id: u64) {
        let Some((name, rank)) = self.places.get_mut(&id) else { return };
        let Some(group) = self.groups.get_mut(&*name) else { return };
        let Some((id, mut page)) = group.pages.remove(&*rank) else { return };
        page.links = page.links.saturating_add(1);
        rank.links = Reverse(page.links);
        group.pages.insert(*rank, (id, page));
    }

    /// Takes the next page.
    pub(crate) fn pop(&mut self) -> Option<(u64, QueuedPage)> {
        let waiting = self.groups.values_mut().filter(|group| !group.pages.is_empty());
        let next = waiting
            .min_by_key(|group| (group.turns, group.pages.first_key_value().map(|(rank, _)| *rank)))?;
        next.turns += 1;
        let (_, (id, page)) = next.pages.pop_first()?;
        self.places.remove(&id);
        Some((id, page))
    }

    /// The group of a URL, or the shared one if there are too many.
    fn group_of(&self, url: &Url) -> String {
        let name = group_name(url);
        let is_known = self.groups.contains_key(&name) || self.groups.len() < GROUPS_MAX;
        if is_known { name } else { "*".to_owned() }
    }
}

/// The part of the site that contains a URL.
///
/// It is the first segment, and for a site with languages (`/de/shop/x`) the first two. Pages right
/// below the root, where blogs have their posts, share one part; years and other numbers are one
/// part, too. URLs with a query are apart, because there may be very many of one path.
fn group_name(url: &Url) -> String {
    let segments: Vec<&str> = url.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let is_language = |segment: &str| {
        let bytes = segment.as_bytes();
        matches!(bytes.len(), 2 | 5)
            && bytes.iter().enumerate().all(|(place, byte)| {
                if place == 2 { matches!(byte, b'-' | b'_') } else { byte.is_ascii_alphabetic() }
            })
    };
    let depth = match segments.as_slice() {
        [first, _, _, ..] if is_language(first) => 2,
        [_, _, ..] => 1,
        [] | [_] => 0,
    };
    let mut name: String = segments.iter().take(depth).fold(String::new(), |name, segment| {
        let is_number = segment.bytes().all(|byte| byte.is_ascii_digit());
        name + "/" + if is_number { "#" } else { segment }
    });
    name = name.chars().take(NAME_BYTES_MAX).collect();
    if url.query().is_some() { name + "?" } else { name }
}

#[cfg(test)]
mod tests {
    use super::{GROUPS_MAX, PageQueue, QueuedPage, group_name};
    use crate::frontier::{PageHints, PageSource};
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeMap;
    use url::Url;

    fn page(path: &str, depth: u32) -> QueuedPage {
        let url = Url::parse("http://h").unwrap().join(path).unwrap();
        QueuedPage { url, depth, source: PageSource::Link, hints: PageHints::default(), links: 0 }
    }

    fn drained(queue: &mut PageQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop()).map(|(_, page)| page.url.path().to_owned()).collect()
    }

    #[test]
    fn parts_of_a_site_have_their_names() {
        for (path, expected) in [
            ("/", ""),
            ("/hello-world/", ""),
            ("/shop/shirt", "/shop"),
            ("/2024/05/hello", "/#"),
            ("/de/shop/shirt", "/de/shop"),
            ("/de/shop", "/de"),
            ("/en-gb/a/b", "/en-gb/a"),
            ("/index.php?title=A", "?"),
            ("/shop/shirt?color=red", "/shop?"),
        ] {
            assert_eq!(group_name(&page(path, 0).url), expected, "{path}");
        }
    }

    #[test]
    fn many_posts_do_not_hide_a_small_part() {
        let mut queue = PageQueue::default();
        for number in 0..1_000 {
            queue.push(number, page(&format!("/blog/{number}"), 1), 10_000);
        }
        queue.push(2_000, page("/shop/a", 2), 10_000);
        queue.push(2_001, page("/shop/b", 2), 10_000);
        let order = drained(&mut queue);
        let shops: Vec<usize> = order
            .iter()
            .enumerate()
            .filter(|(_, path)| path.starts_with("/shop"))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(shops, [1, 3]);
    }

    #[test]
    fn part_found_late_does_not_catch_up() {
        let mut queue = PageQueue::default();
        for number in 0..20 {
            queue.push(number, page(&format!("/a/{number}"), 1), 100);
        }
        (0..10).for_each(|_| drop(queue.pop()));
        (20..30).for_each(|number| drop(queue.push(number, page(&format!("/b/{number}"), 1), 100)));
        let next: Vec<String> = drained(&mut queue).into_iter().take(6).collect();
        assert_eq!(next.iter().filter(|path| path.starts_with("/b")).count(), 3, "{next:?}");
    }

    #[test]
    fn near_popular_recent_and_linked_pages_come_first() {
        let mut queue = PageQueue::default();
        let hinted = |path: &str, popularity, priority_permille, micros| {
            let hints = PageHints {
                popularity,
                priority_permille,
                modified: Some(clock::Timestamp::from_micros(micros)),
            };
            QueuedPage { hints, ..page(path, 1) }
        };
        queue.push(1, page("/deep", 2), 10);
        queue.push(2, hinted("/plain", 0, 500, 5), 10);
        queue.push(3, hinted("/recent", 0, 500, 9), 10);
        queue.push(4, hinted("/high", 0, 900, 1), 10);
        queue.push(5, hinted("/popular", 7, 100, 1), 10);
        queue.push(6, hinted("/linked", 0, 500, 5), 10);
        queue.link_again(6);
        queue.link_again(99);
        assert_eq!(drained(&mut queue), ["/popular", "/high", "/recent", "/linked", "/plain", "/deep"]);
    }

    #[test]
    fn full_queue_takes_room_from_the_largest_part() {
        let mut queue = PageQueue::default();
        (0..10)
            .for_each(|number| assert!(queue.push(number, page(&format!("/a/{number}"), 1), 10).is_none()));
        let (left, _) = queue.push(10, page("/b/x", 5), 10).unwrap();
        assert_eq!((left, queue.len()), (9, 10));
        let (left, url) = queue.push(11, page("/a/last", 9), 10).unwrap();
        assert_eq!((left, url.path()), (11, "/a/last"), "the new page is the last of the largest part");
        assert!(queue.contains(10) && !queue.contains(11));
    }

    #[test]
    fn parts_beyond_the_limit_share_one_group() {
        let mut queue = PageQueue::default();
        for number in 0..1_000 {
            queue.push(number, page(&format!("/p{number}/x"), 1), 10_000);
        }
        assert_eq!(queue.groups.len(), GROUPS_MAX + 1);
        assert_eq!(drained(&mut queue).len(), 1_000);
    }

    proptest! {
        /// The slow model: lists, searched from the start.
        #[test]
        fn order_is_that_of_the_slow_model(
            calls in prop::collection::vec((any::<bool>(), 0_usize..4, 0_u32..3), 1..60),
        ) {
            let mut queue = PageQueue::default();
            let mut model: BTreeMap<String, (u64, Vec<(u32, u64)>)> = BTreeMap::new();
            for (id, (is_push, group, depth)) in (0_u64..).zip(calls) {
                if is_push {
                    queue.push(id, page(&format!("/{group}x/{id}"), depth), 1_000);
                    let turn = model.values().filter(|(_, pages)| !pages.is_empty()).map(|(turns, _)| *turns).min();
                    let entry = model.entry(format!("/{group}x")).or_default();
                    if entry.1.is_empty() {
                        entry.0 = entry.0.max(turn.unwrap_or_default());
                    }
                    entry.1.push((depth, id));
                    entry.1.sort_unstable();
                } else {
                    let waiting = model.values_mut().filter(|(_, pages)| !pages.is_empty());
                    let next = waiting.min_by_key(|(turns, pages)| (*turns, pages[0]));
                    let expected = next.map(|(turns, pages)| { *turns += 1; pages.remove(0).1 });
                    prop_assert_eq!(queue.pop().map(|(id, _)| id), expected);
                }
                prop_assert_eq!(queue.len(), model.values().map(|(_, pages)| pages.len()).sum::<usize>());
                prop_assert!(queue.pages().len() == queue.len());
            }
        }
    }
}
