//! Shared by the test programs of this crate; `checks` and `reference` also by its fuzz targets.

pub(crate) mod checks;
pub(crate) mod generate;
pub(crate) mod reference;
