//! The output of `-v`.

use crate::beside::{SAME_NAME, origin, ours, page, theirs};

/// The text from the line `Benchmarking` to the report.
fn log(stdout: &str) -> String {
    let begin = stdout.find("Benchmarking").unwrap();
    let end = stdout.find("Server Software:").unwrap();
    stdout[begin..end].to_owned()
}

#[test]
fn log_of_request_and_response_is_that_of_ab() {
    let missing = origin("404 Not Found", |_, _| Vec::new());
    for (origin, says) in [(page(), "LOG: Response code = 200\n"), (missing, "not 2xx (404)\n")] {
        let url = format!("{}/", origin.url());
        for level in ["0", "1", "2", "3"] {
            // HEAD has no content, which `ab` would print if it arrived together with the head.
            let arguments = [&["-i", "-v", level], &SAME_NAME[..], &[&url]].concat();
            let [theirs, ours] = [theirs, ours].map(|run| log(&run(&arguments).stdout));
            assert_eq!(ours, theirs, "-v {level}");
            assert_eq!(ours.contains("INFO: HEAD header == \n---\nHEAD / HTTP/1.0\r\n"), level >= "2");
            let from = if says.starts_with("LOG") { "3" } else { "2" };
            assert_eq!(ours.contains(says), level >= from, "{ours}");
        }
    }
}

#[test]
fn log_of_the_head_has_no_content() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("form");
    std::fs::write(&file, "a=1&b=2").unwrap();
    let origin = page();
    let url = format!("{}/", origin.url());
    let arguments = ["-v", "2", "-p", file.to_str().unwrap(), SAME_NAME[0], SAME_NAME[1], &url];
    let [theirs, ours] = [theirs, ours].map(|run| log(&run(&arguments).stdout));
    let info = |log: &str| log.split("LOG:").next().unwrap().to_ascii_lowercase();
    assert_eq!(info(&ours), info(&theirs));
    assert!(!ours.contains("hello world") && !ours.contains("a=1"), "{ours}");
}
