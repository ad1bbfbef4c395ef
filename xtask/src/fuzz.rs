//! Runs the fuzz targets of all crates, each for a given time, with the stable compiler.
//!
//! The fuzzer keeps failing inputs under the crate's `fuzz/artifacts` and prints their names. A fix
//! adds them to the committed corpus, which the ordinary tests replay. Inputs that only reach new
//! code go to `target/fuzz`, so that the committed corpus stays small and written by hand.

use crate::{layers, tools};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Runs every target for `time`. Returns the number of targets.
///
/// # Errors
/// If a target fails or cannot be built.
pub(crate) fn run(time: Duration) -> Result<u64> {
    let tool = tools::ensure("cargo-fuzz")?;
    let mut count = 0;
    for (directory, target) in targets()? {
        eprintln!("fuzzing {target} for {} s", time.as_secs());
        let found = Path::new("target/fuzz").join(&target);
        std::fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let status = Command::new(&tool)
            // The stable compiler accepts the options for coverage only with this variable.
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["run", "--sanitizer", "none", "--fuzz-dir"])
            .arg(&directory)
            .arg(&target)
            // The fuzzer writes new inputs into the first directory and reads from both.
            .arg(&found)
            .arg(directory.join("corpus").join(&target))
            .arg("--")
            .arg(format!("-max_total_time={}", time.as_secs()))
            .arg("-verbosity=0")
            .status()?;
        ensure!(status.success(), "fuzz target {target} failed: {status}");
        count += 1;
    }
    ensure!(count > 0, "there are no fuzz targets");
    Ok(count)
}

/// All targets, each with the directory of its fuzz package.
fn targets() -> Result<Vec<(PathBuf, String)>> {
    let mut targets = Vec::new();
    for member in layers::members()? {
        let directory = Path::new(&member).join("fuzz");
        let Ok(files) = std::fs::read_dir(directory.join("fuzz_targets")) else { continue };
        for file in files {
            let path = file?.path();
            let stem = path.file_stem().context("a fuzz target has a name")?;
            targets.push((directory.clone(), stem.to_string_lossy().into_owned()));
        }
    }
    targets.sort();
    Ok(targets)
}
