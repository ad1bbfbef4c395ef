//! Whoever meets the edge in a simulation: origins, visitors and clients that purge.
