//! Output of one measured figure, for people and for `cargo xtask bench store`.

use std::time::Duration;

/// Prints a figure on a line. The unit may be empty.
pub(crate) fn figure(name: &str, value: f64, unit: &str) {
    // Whole numbers and large figures need no decimal places; shares and milliseconds do.
    let places = if value.fract() == 0.0 || value.abs() >= 100.0 { 0 } else { 3 };
    println!("  {name}: {value:.places$} {unit}");
}

/// Converts a duration to milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
