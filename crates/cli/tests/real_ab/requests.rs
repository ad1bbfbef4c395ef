//! Requests: both programs send the same bytes if both are given the same User-Agent.

use crate::beside::{SAME_NAME, ours, page, theirs};
use crate::lines::compare_at;
use testkit::Seen;

/// The request as sent, with field names in lower case, because their case has no meaning (RFC 9110
/// section 5.1).
fn sent(seen: &Seen) -> Vec<String> {
    let mut lines = seen.head.lines();
    let first = lines.next().unwrap().to_owned();
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        format!("{}: {value}", name.to_ascii_lowercase())
    };
    std::iter::once(first).chain(lines.map(field)).collect()
}

#[test]
fn both_programs_send_the_same_requests() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("body");
    std::fs::write(&file, "a=1").unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        &[][..],
        &["-k"],
        &["-i"],
        &["-m", "PATCH"],
        &["-p", file],
        &["-p", file, "-T", "a/b", "-k"],
        &["-u", file],
        &["-C", "a=b"],
        &["-H", "X-One: 1", "-H", "Accept: text/html", "-H", "X-Two: 2"],
        &["-H", "Host: other.test"],
        &["-A", "user:secret", "-P", "proxy:word"],
        &["-A", " user:secret"],
        &["-k", "-C", "a=b", "-A", "u:p", "-H", "X: y", "-p", file],
    ] {
        let origin = page();
        let url = format!("{}/a%20b?c=d&e", origin.url());
        let arguments = [arguments, &SAME_NAME, &[&url]].concat();
        let codes = [theirs(&arguments).code, ours(&arguments).code];
        let seen: Vec<Vec<String>> = origin.seen().iter().map(sent).collect();
        assert_eq!((codes, seen.len()), ([Some(0); 2], 2), "{arguments:?}");
        assert_eq!(seen[1], seen[0], "{arguments:?}");
        assert_eq!(origin.seen()[1].body, origin.seen()[0].body, "{arguments:?}");
    }
}

#[test]
fn requests_to_a_proxy_have_the_absolute_url() {
    let proxy = page();
    let address = proxy.address().to_string();
    // This host does not exist, so only the proxy can have answered.
    let url = "http://site.invalid:8081/page?x";
    compare_at(url, &["-n", "4", "-X", &address, "-P", "u:p", SAME_NAME[0], SAME_NAME[1]]);
    let seen: Vec<Vec<String>> = proxy.seen().iter().map(sent).collect();
    assert_eq!(seen.len(), 8);
    assert!(seen.iter().all(|request| *request == seen[0]), "{seen:#?}");
    assert_eq!(seen[0][0], "GET http://site.invalid:8081/page?x HTTP/1.0");
    let through = format!("Benchmarking site.invalid [through {address}] (be patient)...");
    for run in [theirs, ours] {
        assert!(run(&["-X", &address, url]).stdout.contains(&through));
    }
}
