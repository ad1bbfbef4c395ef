//! The measurements with mimalloc, the release binary's allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    petasos_bench_store::run("mimalloc")
}
