//! The memory allocator of the program, and how its threads return memory to the system.
//!
//! Each thread has its own heap. A block that another thread frees stays resident until the thread
//! that allocated it allocates in the same size class again. An idle thread, or one that now
//! allocates other sizes, keeps it. Only a call on the owning thread returns this memory.

use std::ffi::{c_int, c_long};

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

#[expect(unsafe_code, reason = "mimalloc's crate has no safe form of this function")]
// Takes two numbers, ignores an unknown option, and does nothing else than to store the value
// (https://microsoft.github.io/mimalloc/group__options.html). It does not lock, so it must come
// before other threads.
unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
}

/// The number of the option `mi_option_purge_delay` in `mimalloc.h` of version 2. A test shows that
/// it is the right one.
const PURGE_DELAY: c_int = 15;

/// From now on, a page or block that becomes free is returned to the system at once. Otherwise this
/// happens 10 ms later, and only when its thread allocates or frees again.
///
/// Call it before the process has other threads.
pub fn return_at_once() {
    mi_option_set(PURGE_DELAY, 0);
}

/// Returns free memory of the calling thread, and of threads that have ended, to the system.
///
/// This includes memory that other threads have freed. The call visits each page of these heaps, so
/// its time grows with them: call it when memory is short.
pub fn collect() {
    mi_collect(true);
}
