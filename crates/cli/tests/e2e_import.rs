//! `petasos import` from the user's view, and the comparison of imported runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use testkit::petasos;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../load/report/tests/data");

#[test]
fn reports_of_other_tools_become_comparable_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let ab = path("ab.json");
    let wrk = path("wrk.json");
    let output = petasos(["import", &format!("{DATA}/ab.txt"), &format!("{DATA}/ab.txt"), "--json", &ab]);
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (Some(0), "", ""));
    let output = petasos(["import", &format!("{DATA}/wrk-latency.txt")]);
    assert!(output.stdout.contains("\"source\": \"wrk\"") && output.stdout.contains("\"address\": null"));
    std::fs::write(&wrk, output.stdout).unwrap();
    let output = petasos(["compare", &ab, &wrk]);
    assert!(output.stdout.contains("throughput  551 req/s  2,269 req/s"), "{}", output.stdout);
    assert!(output.stdout.contains("No verdict on B: it takes 5 runs a side;"), "{}", output.stdout);
    assert!(output.stdout.contains("A and B were not loaded alike: "), "{}", output.stdout);
}

#[test]
fn report_that_cannot_be_imported_exits_with_2_and_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.jtl");
    std::fs::write(&file, "timeStamp,elapsed,success\n1,2,true\n1,soon,true\n").unwrap();
    let output = petasos(["import", file.to_str().unwrap()]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    assert!(
        output.stderr.contains("results.jtl: line 3: elapsed: \"soon\" is not a whole number"),
        "{}",
        output.stderr
    );
    let output = petasos(["import", "/nonexistent"]);
    assert!(output.stderr.contains("cannot read /nonexistent"), "{}", output.stderr);
    let output = petasos(["import", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert!(output.stderr.contains("neither a report of petasos bench, nor one of ab"), "{}", output.stderr);
}
