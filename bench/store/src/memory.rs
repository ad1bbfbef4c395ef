//! Resident memory of this process.

/// Current resident memory, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    platform::resident_bytes().unwrap_or(0)
}

/// Converts bytes to mebibytes.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
