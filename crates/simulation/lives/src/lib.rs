//! Simulated lives of the edge.
