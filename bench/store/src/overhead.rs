//! What an object costs beside the octets of its head and body: by the store's own count and as resident memory.

use crate::filled::filled;
use crate::memory::resident_bytes;
use crate::pages::{TAGS, TAGS_OF_PAGE};

const PAGES: u64 = 1_000_000;

pub(crate) fn measure() {
    let before = resident_bytes();
    let (store, octets) = filled(PAGES);
    let resident = resident_bytes() - before;
    let stats = store.stats();
    let each = |bytes: u64| bytes as f64 / stats.objects as f64;
    println!(
        "  {} objects, {TAGS_OF_PAGE} tags of {TAGS} each: {:.0} octets of head and body",
        stats.objects,
        each(octets)
    );
    println!(
        "  beside them: {:.0} as weighed, {:.0} resident",
        each(stats.bytes - octets),
        each(resident) - each(octets)
    );
}
