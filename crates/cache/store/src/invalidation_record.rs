//! The form in which an invalidation is journaled, so that a later process can apply it.
//!
//! Invariant: a record that cannot be decoded invalidates everything, so that no response is used
//! that it may have matched.

use crate::octets::{put_counted, put_list, take_bytes, take_counted, take_list, take_u8};
use crate::record::SiteNames;
use crate::{Invalidation, Selector, SiteId};
use bytes::Bytes;
use invalidation::{Ban, Mode};
use std::sync::Arc;

/// The format of the records. Raise it when it changes.
const FORMAT: u8 = 1;

/// Decodes bans, which are recorded by their texts.
pub trait Bans: Send + Sync {
    /// The ban with this [`Ban::text`], or `None` if it cannot be parsed any more.
    fn ban(&self, text: &[u8]) -> Option<Arc<dyn Ban>>;
}

/// An invalidation that was read back.
#[derive(Debug)]
pub enum RestoredInvalidation {
    /// The invalidation as it was recorded.
    Same(Invalidation),
    /// The invalidation of a site that does not exist any more. It can be ignored, because nothing
    /// of that site is used.
    OfNoSite,
    /// The record cannot be decoded. It must be treated as an invalidation of everything.
    Unreadable,
}

const TARGET: u8 = 0;
const PREFIX: u8 = 1;
const HOST: u8 = 2;
const TAGS: u8 = 3;
const SITE: u8 = 4;
const ALL: u8 = 5;
const BAN: u8 = 6;

impl Invalidation {
    /// Every response, hard.
    pub const EVERYTHING: Self = Self { selector: Selector::Everything { site: None }, mode: Mode::Hard };

    /// Encodes the invalidation for a later or another process. `names` names its sites. One whose
    /// record would exceed `bytes_max` bytes becomes an invalidation of everything.
    pub fn to_octets(&self, names: &dyn SiteNames, bytes_max: usize) -> Vec<u8> {
        let octets = to_octets(self, names);
        if octets.len() <= bytes_max {
            return octets;
        }
        to_octets(&Self { selector: Selector::Everything { site: None }, mode: self.mode }, names)
    }
}

impl RestoredInvalidation {
    /// Decodes the result of [`Invalidation::to_octets`]. `names` finds the sites.
    pub fn of_octets(octets: &[u8], names: &dyn SiteNames, bans: &dyn Bans) -> Self {
        read(octets, names, bans).unwrap_or(Self::Unreadable)
    }

    /// The invalidation that this process must carry out, if any.
    pub fn due(self) -> Option<Invalidation> {
        match self {
            Self::Same(invalidation) => Some(invalidation),
            Self::OfNoSite => None,
            Self::Unreadable => Some(Invalidation::EVERYTHING),
        }
    }
}

fn to_octets(invalidation: &Invalidation, names: &dyn SiteNames) -> Vec<u8> {
    let Invalidation { selector, mode } = invalidation;
    let mut octets = vec![FORMAT, u8::from(*mode == Mode::Hard)];
    let mut put = |kind: u8, site: Option<&SiteId>, parts: &[&[u8]]| {
        octets.push(kind);
        put_counted(&mut octets, &site.map_or_else(Bytes::new, |site| names.name(*site)));
        parts.iter().for_each(|part| put_counted(&mut octets, part));
    };
    match selector {
        Selector::Target { site, host, target } => put(TARGET, Some(site), &[host, target]),
        Selector::Prefix { site, host, prefix } => put(PREFIX, Some(site), &[host, prefix]),
        Selector::Host { site, host } => put(HOST, Some(site), &[host]),
        Selector::Everything { site: Some(site) } => put(SITE, Some(site), &[]),
        Selector::Everything { site: None } => put(ALL, None, &[]),
        Selector::Ban { site, ban } => put(BAN, Some(site), &[ban.text().as_bytes()]),
        Selector::Tags { site, any_of, all_of } => {
            put(TAGS, Some(site), &[]);
            put_list(&mut octets, any_of);
            put_list(&mut octets, all_of);
        }
    }
    octets
}

fn read(mut octets: &[u8], names: &dyn SiteNames, bans: &dyn Bans) -> Option<RestoredInvalidation> {
    let rest = &mut octets;
    if take_u8(rest)? != FORMAT {
        return None;
    }
    let mode = if take_u8(rest)? == 0 { Mode::Soft } else { Mode::Hard };
    let kind = take_u8(rest)?;
    let name = take_counted(rest)?;
    if kind == ALL {
        return Some(RestoredInvalidation::Same(Invalidation {
            selector: Selector::Everything { site: None },
            mode,
        }));
    }
    let Some(site) = names.find_meant(name) else { return Some(RestoredInvalidation::OfNoSite) };
    let selector = match kind {
        TARGET => Selector::Target { site, host: take_bytes(rest)?, target: take_bytes(rest)? },
        PREFIX => Selector::Prefix { site, host: take_bytes(rest)?, prefix: take_bytes(rest)? },
        HOST => Selector::Host { site, host: take_bytes(rest)? },
        SITE => Selector::Everything { site: Some(site) },
        BAN => Selector::Ban { site, ban: bans.ban(take_counted(rest)?)? },
        TAGS => Selector::Tags { site, any_of: take_list(rest)?, all_of: take_list(rest)? },
        _ => return None,
    };
    rest.is_empty().then_some(RestoredInvalidation::Same(Invalidation { selector, mode }))
}
