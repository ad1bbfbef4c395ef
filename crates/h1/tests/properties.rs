//! Whatever a peer sends, and however the network cuts it: the checks of `support/checks.rs` on generated
//! octets, and on the seeds of the fuzz targets, so that these are kept true without a fuzzer.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use support::checks;
use support::generate::{CHUNK_PARTS, REQUEST_LINES, STATUS_LINES, damaged, message, one_of};
use testkit::Seeds;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests(octets in damaged(vec(message(REQUEST_LINES), 1..3).prop_map(|all| all.concat()))) {
        checks::requests(&octets);
    }

    #[test]
    fn responses(octets in damaged(message(STATUS_LINES))) {
        checks::responses(&octets);
    }

    #[test]
    fn chunked_bodies(octets in damaged(vec(one_of(CHUNK_PARTS), 0..5))) {
        checks::chunked(&octets);
    }

    #[test]
    fn any_octets(octets in vec(any::<u8>(), 0..80)) {
        checks::requests(&octets);
        checks::responses(&octets);
        checks::chunked(&octets);
    }
}

/// The committed seeds of the fuzz targets.
const SEEDS: Seeds = Seeds::of(env!("CARGO_MANIFEST_DIR"));

#[test]
fn seeds_of_requests() {
    SEEDS.replay("requests", checks::requests);
}

#[test]
fn seeds_of_responses() {
    SEEDS.replay("responses", checks::responses);
}

#[test]
fn seeds_of_chunked() {
    SEEDS.replay("chunked", checks::chunked);
}
