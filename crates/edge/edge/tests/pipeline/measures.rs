//! What the edge counts of each site, and shows at the admin address.

use crate::support::{Stage, admin};
use testkit::response;

const FRESH: &str = "Cache-Control: max-age=60";

#[test]
fn sampled_trace_becomes_the_exemplar_of_its_bucket() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH], b"page"));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    stage.get("/", &[&format!("traceparent: 00-{trace}-b7ad6b7169203331-00")]);
    let metrics =
        || admin(&stage.edge, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text().to_string();
    assert!(!metrics().contains(trace), "an unsampled trace was not recorded");
    stage.get("/", &[&format!("traceparent: 00-{trace}-b7ad6b7169203331-01")]);
    testkit::eventually("the exemplar", || {
        metrics().contains(&format!(
            "petasos_request_duration_seconds_bucket{{site=\"any\",verdict=\"hit\",le=\"0.000064\"}} 1 \
             # {{trace_id=\"{trace}\"}} 0.000000 1700000000.000000\n"
        ))
    });
    assert_eq!(stage.metric("petasos_request_duration_seconds_count", "verdict=\"miss\""), 1);
    assert_eq!(stage.metric("petasos_requests_total", "site=\"any\""), 2);
}
