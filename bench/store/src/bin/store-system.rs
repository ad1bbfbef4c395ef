//! The measurements with the system's allocator.

use std::process::ExitCode;

fn main() -> ExitCode {
    petasos_bench_store::run("system")
}
