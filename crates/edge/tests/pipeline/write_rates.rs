//! The rate limit on invalidation by unsafe methods (RFC 9111 section 4.4), and the pages it
//! covers.

use crate::support::{Stage, reason};
use testkit::response;

const FRESH: &str = "Cache-Control: max-age=60";

#[test]
fn unsafe_method_beyond_the_rate_keeps_the_https_page() {
    let limits = |plan: &mut config::Plan| {
        plan.limits.page_writes_per_minute = 0;
        plan.trusted_proxies = ["127.0.0.1".parse::<address::Prefix>().unwrap()].into_iter().collect();
    };
    let stage = Stage::with(limits, |_| response("200 OK", &[FRESH], b"page"));
    let secure = ["X-Forwarded-Proto: https"];
    stage.get("/", &secure);
    stage.ask("POST", "/", &["Content-Length: 0"]);
    assert_eq!(stage.metric("petasos_page_writes_postponed_total", ""), 1);
    let answer = stage.get("/", &secure);
    assert!(reason(&answer).starts_with("hit") || reason(&answer).starts_with("stale"), "{}", answer.head);
}
