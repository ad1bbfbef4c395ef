//! One measured figure, as people and `cargo xtask bench store` read it.

use std::time::Duration;

/// Prints a figure on a line of its own. The unit may be empty.
pub(crate) fn figure(name: &str, value: f64, unit: &str) {
    // Nanoseconds need no more places, and shares no less.
    let places = if value.fract() == 0.0 || value.abs() >= 100.0 { 0 } else { 3 };
    println!("  {name}: {value:.places$} {unit}");
}

/// In milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
