//! Memory that one thread allocated and another thread freed.

use petasos_allocator as allocator;
use std::sync::mpsc::channel;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

const BLOCKS: usize = 512;
const BLOCK_BYTES: usize = 100 * 1024;

#[test]
fn memory_freed_by_another_thread_is_given_back_by_its_owner() {
    let (blocks, taken) = channel::<Vec<Vec<u8>>>();
    let (go_on, told) = channel::<()>();
    let owner = std::thread::spawn(move || {
        blocks.send((0..BLOCKS).map(|_| vec![1; BLOCK_BYTES]).collect()).unwrap();
        told.recv().unwrap();
        allocator::collect();
        // The second call returns the memory that the first one has taken out of its pages.
        allocator::collect();
        platform::resident_bytes().unwrap()
    });
    let held = taken.recv().unwrap();
    let before = platform::resident_bytes().unwrap();
    drop(held);
    go_on.send(()).unwrap();
    let after = owner.join().unwrap();
    assert!(
        after + (BLOCKS * BLOCK_BYTES * 3 / 4) as u64 <= before,
        "{after} of {before} bytes are still resident"
    );
}
