//! Templates. The checks are those of the property tests.

#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| support::check(octets));
