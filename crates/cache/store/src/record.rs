//! The form in which a stored response is written to the disk, so that a later process can index
//! and send it.
//!
//! ```text
//!   index: its place in the index (site, scheme, host, target, rule, variant), its tags, and the
//!          last invalidation it was checked against; also the head, if a revalidation replaced it
//!   head:  status, freshness, part, and the bytes of its head
//! ```
//!
//! Invariant: a record is read back unchanged or not at all. Bytes that are not a complete record
//! of this format give `None`.
//!
//! Times are kept as wall-clock times across processes. The age of a recovered response is never
//! less than the wall clock says. A response that seems to come from the future is stale.

use crate::compact_freshness::CompactFreshness;
use crate::octets::{
    put_counted, put_list, put_u32, put_u64, take_bytes, take_counted, take_list, take_u8, take_u32, take_u64,
};
use crate::stored_head::HeadLayout;
use crate::{ContentPart, Key, SiteId};
use bytes::Bytes;
use message::Status;
use semantics::{ContentRange, Freshness, Moment, VariantKey, VaryRule};
use std::time::Duration;

/// The format of both parts, including the normalisation of targets and variants. Raise it when any
/// of these changes; records of other formats are not read.
const FORMAT: u8 = 1;

const SOFTENED: u8 = 1;
const HTTPS: u8 = 2;
const AS_SENT: u8 = 4;
const HAS_EQUIVALENTS: u8 = 8;
const HAS_HEAD: u8 = 16;

/// Names of sites that are stable across processes, unlike [`SiteId`]s.
pub trait SiteNames: Send + Sync {
    /// The name of a site on the disk. It covers everything that must be equal if another process
    /// is to use the site's pages. Empty for an unknown site.
    fn name(&self, site: SiteId) -> Bytes;

    /// The site with this name, if there is one now.
    fn find(&self, name: &[u8]) -> Option<SiteId>;

    /// The site that an invalidation recorded under this name applies to. This includes a site that
    /// has another name now because its rules changed: a response that was invalidated under one
    /// name may have been stored under the other.
    fn find_meant(&self, name: &[u8]) -> Option<SiteId> {
        self.find(name)
    }
}

/// The place of a response in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexRecord {
    pub(crate) key: Key,
    pub(crate) rule: VaryRule,
    pub(crate) variant: VariantKey,
    pub(crate) tags: Vec<Bytes>,
    /// The number of the last invalidation that the response was checked against.
    pub(crate) checked: u64,
    pub(crate) softened: bool,
    /// The value of its `No-Vary-Search`. It must be known before the head is read, because it
    /// makes other targets equivalent.
    pub(crate) no_vary_search: Option<Bytes>,
    /// The stored head, if it differs from the one that was written with the body.
    pub(crate) head: Option<Bytes>,
}

/// The stored form of a response without its content.
#[derive(Clone, Debug)]
pub(crate) struct HeadRecord<'a> {
    pub(crate) status: Status,
    pub(crate) judged: CompactFreshness,
    pub(crate) part: Option<ContentPart>,
    pub(crate) layout: HeadLayout,
    pub(crate) head: &'a [u8],
}

impl IndexRecord {
    /// Whether the response has `No-Vary-Search`, which names other targets with the same content.
    pub(crate) const fn has_equivalents(&self) -> bool {
        self.no_vary_search.is_some()
    }

    /// Encodes the entry.
    pub(crate) fn to_octets(&self, names: &dyn SiteNames) -> Bytes {
        let Self { key, rule, variant, tags, checked, softened, no_vary_search, head } = self;
        let head_bytes = head.as_ref().map_or(0, Bytes::len);
        let texts_bytes = key.host().len() + key.target().len() + variant.len() + head_bytes;
        let mut octets = Vec::with_capacity(96 + texts_bytes);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(*softened, SOFTENED)
            | flag(key.is_https(), HTTPS)
            | flag(rule.is_as_sent(), AS_SENT)
            | flag(no_vary_search.is_some(), HAS_EQUIVALENTS)
            | flag(head.is_some(), HAS_HEAD);
        octets.extend_from_slice(&[FORMAT, flags]);
        put_u64(&mut octets, *checked);
        for part in [&*names.name(key.site()), key.host(), key.target(), variant.octets()] {
            put_counted(&mut octets, part);
        }
        put_list(&mut octets, rule.names());
        put_list(&mut octets, tags);
        no_vary_search.iter().for_each(|value| put_counted(&mut octets, value));
        head.iter().for_each(|head| put_counted(&mut octets, head));
        Bytes::from(octets)
    }

    /// Decodes an entry. `None` if its site does not exist any more, or if the bytes are not an
    /// entry.
    pub(crate) fn of_octets(mut octets: &[u8], names: &dyn SiteNames) -> Option<Self> {
        let octets = &mut octets;
        if take_u8(octets)? != FORMAT {
            return None;
        }
        let flags = take_u8(octets)?;
        let checked = take_u64(octets)?;
        let site = names.find(take_counted(octets)?)?;
        let host = take_counted(octets)?;
        let target = take_bytes(octets)?;
        let variant = VariantKey::of_octets(take_bytes(octets)?);
        let rule = VaryRule::of_names(take_list(octets)?, flags & AS_SENT != 0);
        let tags = take_list(octets)?;
        // Records of earlier versions have the flag without the value. They are not read.
        let no_vary_search = if flags & HAS_EQUIVALENTS == 0 { None } else { Some(take_bytes(octets)?) };
        let head = if flags & HAS_HEAD == 0 { None } else { Some(take_bytes(octets)?) };
        // The response was fetched with the host in the record. If normalisation now changes that
        // host, the key would belong to another one. Earlier versions kept a final dot.
        let key = Some(Key::new(site, flags & HTTPS != 0, host, target)).filter(|key| key.host() == host)?;
        let softened = flags & SOFTENED != 0;
        let entry = Self { key, rule, variant, tags, checked, softened, no_vary_search, head };
        octets.is_empty().then_some(entry)
    }
}

impl<'a> HeadRecord<'a> {
    /// Encodes the response. `life` identifies this process.
    pub(crate) fn to_octets(&self, life: u64) -> Bytes {
        let Self { status, judged, part, layout, head } = self;
        let mut octets = Vec::with_capacity(128 + head.len());
        octets.push(FORMAT);
        put_u32(&mut octets, u32::from(status.code()));
        put_u64(&mut octets, life);
        judged.put(&mut octets);
        octets.push(u8::from(part.is_some()));
        if let Some(ContentPart { extent, asked }) = part {
            put_u64(&mut octets, extent.first);
            put_u64(&mut octets, extent.last);
            put_u64(&mut octets, extent.complete.unwrap_or(u64::MAX));
            put_counted(&mut octets, asked);
        }
        layout.put(&mut octets);
        octets.extend_from_slice(head);
        Bytes::from(octets)
    }

    /// Decodes a response, as of `now`, for the process that `life` identifies. `None` if the bytes
    /// are not one.
    pub(crate) fn of_octets(mut octets: &'a [u8], life: u64, now: Moment) -> Option<Self> {
        let rest = &mut octets;
        if take_u8(rest)? != FORMAT {
            return None;
        }
        let status = Status::from_code(u16::try_from(take_u32(rest)?).ok()?)?;
        let is_own = take_u64(rest)? == life;
        let judged = CompactFreshness::take(rest)?;
        let part = match take_u8(rest)? {
            0 => None,
            _ => {
                let first = take_u64(rest)?;
                let last = take_u64(rest)?;
                let complete = take_u64(rest)?;
                let extent =
                    ContentRange { first, last, complete: (complete != u64::MAX).then_some(complete) };
                Some(ContentPart { extent, asked: take_bytes(rest)? })
            }
        };
        let mut layout_and_head = *rest;
        let head_bytes = rest.len().checked_sub(HeadLayout::WRITTEN_BYTES)?;
        let layout = HeadLayout::take(&mut layout_and_head, head_bytes)?;
        let judged = if is_own { judged } else { aged(judged.into(), now).into() };
        Some(Self { status, judged, part, layout, head: layout_and_head })
    }
}

/// The freshness that another process computed, as of `now`. Only its wall-clock times are used,
/// because monotonic clocks do not compare across processes.
fn aged(freshness: Freshness, now: Moment) -> Freshness {
    let received = freshness.received.wall;
    if received > now.wall {
        // The clock was set back, so the time that has passed cannot be known.
        return stale(Freshness { received: now, ..freshness });
    }
    let passed = now.wall.since(received);
    let initial_age = freshness.initial_age.saturating_add(passed);
    Freshness { initial_age, received: now, ..freshness }
}

/// The same freshness, but stale: the response must be validated before each use.
pub(crate) fn stale(freshness: Freshness) -> Freshness {
    Freshness {
        lifetime: Duration::ZERO,
        while_revalidate: Duration::ZERO,
        if_error: Duration::ZERO,
        may_be_stale: false,
        overridden: false,
        validate_always: true,
        immutable: false,
        ..freshness
    }
}

#[cfg(test)]
mod tests {
    use super::{HAS_EQUIVALENTS, IndexRecord, SiteNames};
    use crate::{Key, SiteId};
    use bytes::Bytes;
    use message::Fields;
    use profiles::Policy;
    use semantics::VaryRule;

    struct TestSiteNames;

    impl SiteNames for TestSiteNames {
        fn name(&self, _: SiteId) -> Bytes {
            Bytes::from_static(b"site")
        }

        fn find(&self, _: &[u8]) -> Option<SiteId> {
            Some(SiteId(0))
        }
    }

    fn entry(no_vary_search: Option<&'static str>, head: Option<&'static str>) -> IndexRecord {
        let rule = VaryRule::from_response(&Fields::new(), &Policy::default_profile()).unwrap();
        IndexRecord {
            key: Key::new(SiteId(0), false, b"a.test", Bytes::from_static(b"/a?utm=1")),
            variant: rule.key(&Fields::new()),
            rule,
            tags: vec![Bytes::from_static(b"tag")],
            checked: 7,
            softened: false,
            no_vary_search: no_vary_search.map(Bytes::from),
            head: head.map(Bytes::from),
        }
    }

    #[test]
    fn no_vary_search_round_trips() {
        for head in [None, Some("head")] {
            for value in [None, Some(""), Some("params")] {
                let entry = entry(value, head);
                assert_eq!(
                    IndexRecord::of_octets(&entry.to_octets(&TestSiteNames), &TestSiteNames),
                    Some(entry)
                );
            }
        }
    }

    #[test]
    fn record_with_a_non_canonical_host_is_rejected() {
        let mut octets = entry(None, None).to_octets(&TestSiteNames).to_vec();
        let host = octets.windows(6).position(|octets| octets == b"a.test").unwrap();
        assert!(IndexRecord::of_octets(&octets, &TestSiteNames).is_some());
        octets[host + 5] = b'.';
        assert_eq!(IndexRecord::of_octets(&octets, &TestSiteNames), None);
    }

    #[test]
    fn record_without_its_no_vary_search_is_rejected() {
        for head in [None, Some("head")] {
            let mut octets = entry(None, head).to_octets(&TestSiteNames).to_vec();
            octets[1] |= HAS_EQUIVALENTS;
            assert_eq!(IndexRecord::of_octets(&octets, &TestSiteNames), None);
        }
    }
}
