//! Flags that `petasos bench --page` shares with a load of requests: what they do to pages, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use serde_json::Value;
use testkit::{Action, Origin, Output, Seen, petasos, response};

const HTML: &str = "Content-Type: text/html";

/// A page with eight pictures and an icon.
fn site(seen: &Seen) -> Vec<Action> {
    let pictures: String = (0..8).map(|number| format!("<img src=/{number}.png>")).collect();
    match seen.target() {
        "/" => response("200 OK", &[HTML], pictures.as_bytes()),
        "/broken" => response("200 OK", &[HTML], b"<img src=/gone>"),
        "/gone" => response("404 Not Found", &[HTML], b"no"),
        _ => response("200 OK", &["Content-Type: image/png"], b"12345678"),
    }
}

/// Loads pages of a URL with more arguments.
fn bench(url: &str, arguments: &[&str]) -> Output {
    petasos(["bench", url, "--page"].iter().chain(arguments))
}

#[test]
fn json_of_pages_has_the_thresholds() {
    let origin = Origin::start(site);
    let arguments = ["-n", "2", "--json", "-", "--fail-if", "rate > 0", "--fail-if", "p95 > 30s"];
    let output = bench(&origin.url(), &arguments);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let run: Value = serde_json::from_str(&output.stdout).unwrap();
    let thresholds = run["thresholds"].as_array().expect("the JSON has no thresholds");
    let judged: Vec<_> = thresholds.iter().map(|one| (one["condition"].as_str(), &one["missed"])).collect();
    assert_eq!(judged, [(Some("rate > 0"), &Value::Bool(true)), (Some("p95 > 30s"), &Value::Bool(false))]);
    assert!(thresholds[0]["found"].as_str().unwrap().ends_with(" pages/s"), "{}", thresholds[0]["found"]);
}
