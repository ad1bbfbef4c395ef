//! The memory of an object with four tags out of 50,000, beyond the bytes of its head and body: by
//! the store's own accounting, and as resident memory.

use crate::figure::figure;
use crate::filled::filled;
use crate::memory::resident_bytes;

const PAGES: u64 = 1_000_000;

pub(crate) fn measure() {
    let before = resident_bytes();
    let (store, octets) = filled(PAGES);
    let resident = resident_bytes() - before;
    let stats = store.stats();
    let each = |bytes: u64| bytes as f64 / stats.objects as f64;
    figure("objects", stats.objects as f64, "");
    figure("head and body of each", each(octets), "octets");
    figure("beside them, as weighed", each(stats.bytes - octets), "octets");
    figure("beside them, resident", each(resident) - each(octets), "octets");
}
