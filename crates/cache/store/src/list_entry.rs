//! Listed invalidations: prefixes, groups of tags and bans. Each is compared with an object once,
//! by a look-up or by the sweep.
//!
//! Invariant: `covers` returns true only if the newer entry matches everything that the older one
//! matches.

use crate::SiteId;
use crate::selector::StoredView;
use crate::subject::{InvalidationSubject, TagIds, spelled};
use crate::tags::Tags;
use crate::weight::allocated;
use bytes::Bytes;
use invalidation::{Ban, Mode};
use semantics::canonical_target;
use std::sync::Arc;

/// An entry of the list.
#[derive(Debug)]
pub(crate) struct ListEntry {
    pub(crate) sequence: u64,
    pub(crate) mode: Mode,
    pub(crate) site: SiteId,
    pub(crate) listing: Listing,
}

/// The responses that an entry applies to.
#[derive(Debug)]
pub(crate) enum Listing {
    /// `hosts` are the canonical hosts under http and https.
    Prefix { hosts: [Bytes; 2], prefix: Bytes },
    /// Numbers of tags, sorted. The entry holds these tags.
    Tags { any_of: Box<[u32]>, all_of: Box<[u32]> },
    /// `is_sievable` says whether the ban has a [`Ban::need`].
    Ban { ban: Arc<dyn Ban>, is_sievable: bool },
}

impl Listing {
    pub(crate) fn of_tags(tags: &mut Tags, site: SiteId, any_of: &[Bytes], all_of: &[Bytes]) -> Self {
        let mut held = |texts: &[Bytes]| {
            let mut ids: Vec<u32> = Vec::with_capacity(texts.len());
            for text in texts {
                let id = tags.intern(site, text);
                tags.hold(id);
                ids.push(id);
            }
            ids.sort_unstable();
            ids.into_boxed_slice()
        };
        Self::Tags { any_of: held(any_of), all_of: held(all_of) }
    }

    /// Releases the tags that the entry holds.
    pub(crate) fn release(self, tags: &mut Tags) {
        if let Self::Tags { any_of, all_of } = self {
            any_of.iter().chain(&all_of).for_each(|id| tags.release(*id));
        }
    }

    /// Whether the entry matches a response. The caller has compared the sites.
    pub(crate) fn means(&self, subject: &InvalidationSubject<'_>, stored: &StoredView<'_>) -> bool {
        match self {
            Self::Prefix { hosts, prefix } => {
                let [http, https] = hosts;
                let host = if subject.https { https } else { http };
                let begins = |target: &[u8], prefix: &[u8]| target.starts_with(prefix);
                *host == subject.host
                    && (begins(subject.target, prefix)
                        || begins(&canonical_target(subject.target), &canonical_target(prefix)))
            }
            Self::Tags { any_of, all_of } => has_tags(subject.tags, any_of, all_of),
            // `&` and not `&&`: the response's note of an unknown attribute must be taken and
            // cleared after each ban. An undecided ban does not match here, and is evaluated again
            // when the response has been read.
            Self::Ban { ban, .. } => ban.matches(stored) & !subject.response.was_asked_in_vain(),
        }
    }
}

/// Whether a response has all tags of `all_of` and, unless `any_of` is empty, one of `any_of`.
fn has_tags(tags: TagIds<'_>, any_of: &[u32], all_of: &[u32]) -> bool {
    all_of.iter().all(|id| tags.has(*id))
        && (any_of.is_empty() || tags.iter().any(|id| any_of.binary_search(&id).is_ok()))
}

impl ListEntry {
    /// Whether this entry matches everything that `old` matches.
    pub(crate) fn covers(&self, old: &Self) -> bool {
        self.site == old.site
            && match (&self.listing, &old.listing) {
                (
                    Listing::Prefix { hosts, prefix },
                    Listing::Prefix { hosts: old_hosts, prefix: old_prefix },
                ) => {
                    hosts == old_hosts
                        && old_prefix.starts_with(prefix)
                        && canonical_target(old_prefix).starts_with(&canonical_target(prefix))
                }
                (
                    Listing::Tags { any_of, all_of },
                    Listing::Tags { any_of: old_any_of, all_of: old_all_of },
                ) => any_of == old_any_of && all_of == old_all_of,
                (Listing::Ban { ban, .. }, Listing::Ban { ban: old_ban, .. }) => ban.text() == old_ban.text(),
                _ => false,
            }
    }

    /// Whether this entry is a prefix of pages of the host.
    pub(crate) fn is_prefix_of_host(&self, site: SiteId, host: &[u8]) -> bool {
        self.site == site
            && match &self.listing {
                Listing::Prefix { hosts: [http, https], .. } => {
                    *http == spelled(site, false, host) && *https == spelled(site, true, host)
                }
                Listing::Tags { .. } | Listing::Ban { .. } => false,
            }
    }

    /// The bytes that it occupies.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.listing {
                Listing::Prefix { hosts, prefix } => {
                    hosts.iter().map(|host| allocated(host.len())).sum::<usize>() + allocated(prefix.len())
                }
                Listing::Tags { any_of, all_of } => {
                    allocated(size_of_val(&**any_of)) + allocated(size_of_val(&**all_of))
                }
                Listing::Ban { ban, .. } => allocated(ban.text().len()) + BAN_BYTES,
            }
    }
}

/// The estimated cost of a compiled ban beside its text: an ordinary regular expression and its
/// part of a sieve.
const BAN_BYTES: usize = 16 * 1024;
