//! What the edge counts of each site, and shows at the admin address.

use crate::support::{Stage, admin};
use api::dashboard::{CostKind, DashboardData, History};
use history::Figure;
use testkit::{Gate, eventually, response};

const FRESH: &str = "Cache-Control: max-age=60";

fn data(stage: &Stage) -> DashboardData {
    let answer = stage.call_admin("GET", "/dashboard/data", "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn sampled_trace_becomes_the_exemplar_of_its_bucket() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH], b"page"));
    let trace = "0af7651916cd43dd8448eb211c80319c";
    stage.get("/", &[&format!("traceparent: 00-{trace}-b7ad6b7169203331-00")]);
    let metrics =
        || admin(&stage.edge, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text().to_string();
    assert!(!metrics().contains(trace), "an unsampled trace was not recorded");
    stage.get("/", &[&format!("traceparent: 00-{trace}-b7ad6b7169203331-01")]);
    eventually("the exemplar", || {
        metrics().contains(&format!(
            "petasos_request_duration_seconds_bucket{{site=\"any\",verdict=\"hit\",le=\"0.000064\"}} 1 \
             # {{trace_id=\"{trace}\"}} 0.000000 1700000000.000000\n"
        ))
    });
    assert_eq!(stage.metric("petasos_request_duration_seconds_count", "verdict=\"miss\""), 1);
    assert_eq!(stage.metric("petasos_requests_total", "site=\"any\""), 2);
}

#[test]
fn dashboard_has_the_numbers_of_the_metrics() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH], b"page"));
    for target in ["/shop/1", "/shop/1", "/shop/2", "/", "/about"] {
        stage.get(target, &[]);
    }
    let sum = |verdict: &str| stage.metric("petasos_requests_total", &format!("verdict=\"{verdict}\""));
    eventually("all are counted", || sum("hit") == 1 && sum("miss") == 4);
    let found = data(&stage);
    assert_eq!(found.status.requests, 5);
    let site = &found.sites[0];
    let verdicts: Vec<_> = site.verdicts.iter().map(|row| (&*row.verdict, row.requests)).collect();
    assert_eq!((&*site.site, verdicts), ("any", vec![("hit", 1), ("miss", 4)]));
    let groups: Vec<_> =
        site.path_groups.iter().map(|group| (&*group.group, group.requests, group.hits)).collect();
    assert_eq!(groups, [("/shop/", 3, 1), ("/", 1, 0), ("/about", 1, 0)]);
    let reasons: Vec<_> = found.reasons.iter().map(|row| (&*row.reason, row.requests)).collect();
    assert_eq!(reasons, [("miss-absent", 4), ("hit-fresh", 1)]);
    eventually("the ranking is merged", || !data(&stage).hottest.is_empty());
    let hottest = data(&stage).hottest;
    assert_eq!((&*hottest[0].url, hottest[0].requests), ("http://example.test/shop/1", 1));
    assert!(found.machine.memory_bytes_max > 0 && found.machine.resident_bytes > Some(0));
}

#[test]
fn costs_name_cookies_and_parameters_without_their_values() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH], b"page"));
    stage.get("/list?colour=secret1&size=secret2&secret3", &[]);
    stage.get("/mine?token=secret4", &["Cookie: theme=secret5; PHPSESSID=secret6"]);
    stage.get("/bare", &["Cookie: secret7"]);
    eventually("both are noted", || data(&stage).misses.len() == 3);
    let text = stage.call_admin("GET", "/dashboard/data", "").text().to_string();
    assert!(!text.contains("secret"), "{text}");
    let found = data(&stage);
    let mut urls: Vec<_> = found.misses.iter().map(|miss| &*miss.url).collect();
    urls.sort_unstable();
    assert_eq!(urls, ["http://example.test/bare", "http://example.test/list", "http://example.test/mine"]);
    let mut costs: Vec<_> = found.costs.iter().map(|cost| (cost.kind, &*cost.name, cost.requests)).collect();
    costs.sort_by_key(|(kind, name, _)| (*kind == CostKind::Parameter, *name));
    assert_eq!(
        costs,
        [
            (CostKind::Cookie, "(no name)", 1),
            (CostKind::Cookie, "PHPSESSID", 1),
            (CostKind::Parameter, "(no name)", 1),
            (CostKind::Parameter, "colour", 1),
            (CostKind::Parameter, "size", 1),
        ]
    );
}

#[test]
fn followers_of_a_fetch_cost_the_origin_nothing() {
    let gate = Gate::default();
    let stage = {
        let gate = gate.clone();
        Stage::new(move |_| crate::support::behind(&gate, response("200 OK", &[FRESH], b"page")))
    };
    let crowd = stage.crowd(5, &[]);
    gate.open();
    crowd.into_iter().for_each(|mut client| assert_eq!(client.read().status, 200));
    eventually("all are counted", || stage.metric("petasos_requests_total", "verdict=\"miss\"") == 5);
    let misses = data(&stage).misses;
    assert_eq!(misses.iter().map(|miss| miss.requests).collect::<Vec<_>>(), [1]);
}

#[test]
fn history_and_summary_are_served_without_a_past() {
    let stage = Stage::new(|_| response("200 OK", &[FRESH], b"page"));
    let answer = stage.call_admin("GET", "/dashboard/history?minutes=10", "");
    let history: History = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((history.minutes_per_value, history.series.len()), (1, Figure::ALL.len()));
    for series in &history.series {
        assert_eq!((series.values.len(), series.usual.len()), (10, 0), "{}", series.name);
        assert!(series.values.iter().all(Option::is_none));
    }
    assert_eq!(stage.call_admin("GET", "/dashboard/history?minutes=no", "").status, 400);
    let summary = stage.call_admin("GET", "/dashboard/summary", "");
    assert_eq!(summary.field("Content-Type"), Some("text/markdown; charset=utf-8"));
    assert!(summary.text().starts_with("# The last 7 days\n\nNo minute of this time"), "{}", summary.text());
}
