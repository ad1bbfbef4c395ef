//! The units of the packages, judged by systemd's own tool. The whole life of a package is a long
//! test: `cargo xtask long package`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;
use std::process::{Command, Output};

/// Largest exposure of the service that `systemd-analyze security` may find, in tenths.
const EXPOSURE_MAX: u32 = 20;

fn security(unit: &Path, bound: u32) -> Output {
    Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", &format!("--threshold={bound}")])
        .arg(unit)
        .output()
        .unwrap()
}

#[test]
fn service_is_sandboxed() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd/petasos.service");
    let output = security(&unit, EXPOSURE_MAX);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("exposure level for petasos.service"), "{text}");
    // The tool does enforce the bound.
    assert!(!security(&unit, 1).status.success());
}
