//! The allocator of the program, and how its threads give memory back.
//!
//! Each thread has a heap of its own. A block that another thread frees stays resident until the thread that allocated
//! it allocates again in the same size class; a thread that is idle, or that now allocates other sizes, keeps it.
//! Nothing but a call on the owning thread gives such memory back.

/// The allocator. Of those measured by `cargo xtask bench store`, the one that gives memory back when the sizes of
/// stored responses change.
pub use mimalloc::MiMalloc as Allocator;

#[expect(unsafe_code, reason = "mimalloc's crate has no safe form of this function")]
// Safe to call from each thread at any time: `mi_collect(bool force)` takes no pointer, locks what threads share, and
// does nothing where this allocator is not the program's (https://microsoft.github.io/mimalloc/group__extended.html).
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Gives free memory of the calling thread, and of threads that have ended, back to the system. Memory that other
/// threads have freed is included. The call visits each page of these heaps, so its time grows with them: call it when
/// memory is short.
pub fn collect() {
    mi_collect(true);
}
