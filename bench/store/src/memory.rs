//! The memory of this process, as the system counts it.

/// Resident memory now, in octets.
pub(crate) fn resident_bytes() -> u64 {
    platform::resident_bytes().unwrap_or(0)
}

/// In mebibytes, for people.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
