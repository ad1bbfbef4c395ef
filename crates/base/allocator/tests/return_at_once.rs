//! Freed memory goes back to the system at once, even if its thread does nothing afterwards.

use petasos_allocator as allocator;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

const BLOCKS: usize = 512;
const BLOCK_BYTES: usize = 100 * 1024;

#[test]
fn freed_memory_is_returned_at_once() {
    allocator::return_at_once();
    let held: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; BLOCK_BYTES]).collect();
    let before = platform::resident_bytes().unwrap();
    drop(held);
    let after = platform::resident_bytes().unwrap();
    assert!(
        after + (BLOCKS * BLOCK_BYTES * 3 / 4) as u64 <= before,
        "{after} of {before} bytes are still resident"
    );
}
