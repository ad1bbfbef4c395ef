//! The memory allocator of the program, and how its threads return memory to the system.
//!
//! Each thread has its own heap. A block that another thread frees stays resident until the thread
//! that allocated it allocates in the same size class again. A thread that is idle, or that now
//! allocates other sizes, keeps it. Only a call on the owning thread returns this memory.

/// The allocator. `cargo xtask bench store` compared several. This one returns memory when the
/// sizes of stored responses change.
pub use mimalloc::MiMalloc as Allocator;

#[expect(unsafe_code, reason = "mimalloc's crate has no safe form of this function")]
// Safe to call from each thread at any time. `mi_collect(bool force)` takes no pointer and locks
// the data that threads share. It does nothing if this allocator is not the program's
// (https://microsoft.github.io/mimalloc/group__extended.html).
unsafe extern "C" {
    safe fn mi_collect(force: bool);
}

/// Returns free memory of the calling thread, and of threads that have ended, to the system.
///
/// This includes memory that other threads have freed. The call visits each page of these heaps, so
/// its time grows with them: call it when memory is short.
pub fn collect() {
    mi_collect(true);
}
