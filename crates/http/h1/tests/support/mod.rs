//! Modules shared by the tests of this crate. The fuzz targets use `checks` too.

pub(crate) mod checks;
pub(crate) mod generate;
