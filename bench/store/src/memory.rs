//! The memory of this process, as the system counts it.

/// Resident memory now, in octets.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// In mebibytes, for people.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
