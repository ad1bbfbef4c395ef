//! Shared by the test programs of this crate and, except for the oracle, by its fuzz targets.

pub(crate) mod checks;
pub(crate) mod reference;
