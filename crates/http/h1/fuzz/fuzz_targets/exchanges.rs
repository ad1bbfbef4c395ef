//! A server's bytes in response to one request, read as an exchange. The checks are those of the
//! property tests.

#![no_main]

#[path = "../../tests/support/checks.rs"]
#[expect(dead_code, reason = "each target calls one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| checks::exchanges(octets));
