//! The place of a fragment in its page, and what the page may use for all its fragments.
//!
//! Invariant: a page and all fragments within its fragments have one budget of requests, bytes and
//! time. A stored response that is handed over counts as if its bytes had been sent.

use crate::memory::budget::MemoryShare;
use crate::memory::grant::Grant;
use encoding::{CodedPart, coded_content};
use message::Status;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use store::Object;
use tokio::time::Instant;

/// Largest number of fragments within fragments: a page is 0 deep, its fragments are 1 deep.
const DEPTH_MAX: u8 = 5;

/// Largest number of requests for fragments that one page causes, at all depths.
const FRAGMENTS_MAX: u32 = 256;

/// Most bytes of fragments and values in one page, at all depths.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Bytes of them that need no memory from the budget of bytes in transfer.
const PAGE_ALLOWANCE_BYTES: u64 = 16 * 1024;

/// Longest content of a fragment in bytes.
pub(crate) const FRAGMENT_BYTES_MAX: usize = 1 << 20;

/// Longest time for all fragments of a page.
const PAGE_WAIT: Duration = Duration::from_secs(30);

/// What a page may still use for its fragments, at all depths.
#[derive(Debug)]
struct PageBudget {
    fragments: AtomicU32,
    bytes: Mutex<HeldBytes>,
    ends: Instant,
}

/// The bytes of fragments and values that a page has received, whether they are sent or not.
#[derive(Debug)]
struct HeldBytes {
    count: u64,
    memory: Grant,
}

/// The place of a fragment: its page and how deep it is.
#[derive(Clone, Debug)]
pub(crate) struct FragmentPlace {
    budget: Arc<PageBudget>,
    depth: u8,
    /// Whether the page takes gzip forms of its fragments.
    takes_forms: bool,
}

impl FragmentPlace {
    /// The place of the fragments of a page that is no fragment itself. `share` is the memory for
    /// contents in transfer.
    pub(crate) fn of_page(share: &Arc<MemoryShare>) -> Self {
        let memory = Grant::new(share, PAGE_ALLOWANCE_BYTES, PAGE_BYTES_MAX);
        let budget = PageBudget {
            fragments: AtomicU32::new(FRAGMENTS_MAX),
            bytes: Mutex::new(HeldBytes { count: 0, memory }),
            ends: Instant::now() + PAGE_WAIT,
        };
        Self { budget: Arc::new(budget), depth: 1, takes_forms: false }
    }

    /// The place of the fragments of this fragment, which is assembled without a coding.
    pub(crate) fn within(&self) -> Self {
        Self { depth: self.depth.saturating_add(1), takes_forms: false, budget: Arc::clone(&self.budget) }
    }

    /// The same place in a page that is sent with gzip.
    pub(crate) fn with_forms(self) -> Self {
        Self { takes_forms: true, ..self }
    }

    /// Whether the page takes gzip forms of its fragments.
    pub(crate) const fn takes_forms(&self) -> bool {
        self.takes_forms
    }

    /// When the time for all fragments of the page ends.
    pub(crate) fn ends(&self) -> Instant {
        self.budget.ends
    }

    /// Takes bytes from the budget of the page. Returns false if it has too few left, or if memory
    /// is short.
    pub(crate) fn take_bytes(&self, bytes: usize) -> bool {
        let mut held = self.budget.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.count.saturating_add(bytes as u64);
        let has_room = held.memory.has_room(count);
        if has_room {
            held.count = count;
        } else {
            // A part of the bytes may have been granted.
            let count = held.count;
            held.memory.shrink(count);
        }
        has_room
    }

    /// Gives bytes back to the budget of the page.
    pub(crate) fn give_back(&self, bytes: usize) {
        let mut held = self.budget.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        held.count = held.count.saturating_sub(bytes as u64);
        let count = held.count;
        held.memory.shrink(count);
    }

    /// Takes one request from the budget of the page. Returns false if it has none left, or if the
    /// fragment is too deep.
    pub(crate) fn take_request(&self) -> bool {
        if self.depth > DEPTH_MAX {
            return false;
        }
        let left = |left: u32| left.checked_sub(1);
        // Relaxed is enough: the number publishes no other memory.
        self.budget.fragments.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }
}

/// Where the request for a fragment leaves a stored response. The page then takes the response
/// itself, and nothing is written and read again.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    place: FragmentPlace,
    left: Arc<OnceLock<StoredFragment>>,
}

/// A stored response as a fragment.
#[derive(Clone, Debug)]
pub(crate) struct StoredFragment {
    pub(crate) object: Arc<Object>,
    /// The deflate data, if the object is the gzip form of the response.
    pub(crate) coded: Option<CodedPart>,
    /// Whether every visitor gets this response for the URL, as far as the request for it says.
    pub(crate) is_for_all: bool,
}

impl Handover {
    /// For the request for a fragment at this place.
    pub(crate) fn new(place: FragmentPlace) -> Self {
        Self { place, left: Arc::default() }
    }

    /// The place of the fragment.
    pub(crate) const fn place(&self) -> &FragmentPlace {
        &self.place
    }

    /// Leaves a stored response, or the gzip form of one. Returns false if it must be sent: if its
    /// content is not in memory, may not stand in a page, or exceeds a limit.
    pub(crate) fn give(&self, object: &Arc<Object>, is_form: bool, is_for_all: bool) -> bool {
        let coded = if is_form { coded_content(object.body().chunks()) } else { None };
        // A limit is the same for each form.
        let bytes = coded.as_ref().map_or_else(|| object.content_bytes(), |part| part.bytes.into());
        may_stand_in_page(object.status())
            && object.is_coded() == coded.is_some()
            && object.part().is_none()
            && object.on_disk().is_none()
            && bytes <= FRAGMENT_BYTES_MAX as u64
            && self.place.take_bytes(bytes as usize)
            && self.left.set(StoredFragment { object: Arc::clone(object), coded, is_for_all }).is_ok()
    }

    /// The response that was left.
    pub(crate) fn take(self) -> Option<StoredFragment> {
        self.left.get().cloned()
    }
}

/// Whether the content of a response with this status may stand in a page.
pub(crate) fn may_stand_in_page(status: Status) -> bool {
    status == Status::OK || status.code() == 204
}

#[cfg(test)]
mod tests {
    use super::{FragmentPlace, PAGE_ALLOWANCE_BYTES};
    use crate::memory::budget::MemoryShare;

    #[test]
    fn bytes_beyond_the_allowance_are_taken_from_the_share() {
        let share = MemoryShare::new(1 << 20);
        let place = FragmentPlace::of_page(&share);
        assert!(place.take_bytes(PAGE_ALLOWANCE_BYTES as usize / 2));
        assert_eq!(share.taken(), 0);
        assert!(place.take_bytes(PAGE_ALLOWANCE_BYTES as usize));
        let taken = share.taken();
        assert!(taken > 0 && taken < 1 << 18, "{taken}");
        assert!(!place.take_bytes(1 << 20), "the share is too small");
        assert_eq!(share.taken(), taken, "a refused request keeps no memory");
    }
}
