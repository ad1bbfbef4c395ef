//! Shared by the test programs of this crate; `checks` also by its fuzz targets.

pub(crate) mod checks;
pub(crate) mod generate;
