//! Templates on the disk: they are assembled after a restart, and fetched again if the disk does
//! not give them.

use crate::esi::{STORED, TEMPLATE, fragment, with_esi};
use crate::support::{self, START, reason};
use clock::ManualClock;
use config::DiskPlan;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use testkit::{Origin, eventually, response};

/// An origin whose page `/` is this template.
fn origin(template: &[u8]) -> Origin {
    let template = template.to_vec();
    Origin::start(move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], &template),
        other => fragment(other),
    })
}

/// An edge with its disk in `directory`.
fn start(origin: &Origin, directory: &Path) -> petasos_edge::RunningEdge {
    let mut plan = support::plan(&origin.url());
    with_esi(&mut plan);
    // The damage is found by a request, and not before.
    plan.limits.disk_verify_rate = 0;
    plan.disk = Some(DiskPlan {
        directory: directory.to_owned(),
        bytes_max: 256 << 20,
        power_safe_purges: false,
        state_directory: None,
        runtime_directory: None,
    });
    support::start_at(plan, Arc::new(ManualClock::at(START)))
}

/// An edge that was started again after page and fragment were written to the disk, and `between`
/// was done there.
fn restarted(
    origin: &Origin,
    directory: &Path,
    page: &str,
    between: impl FnOnce(&Path),
) -> petasos_edge::RunningEdge {
    let edge = start(origin, directory);
    assert_eq!(support::connect(&edge).get("/", &[]).text(), page);
    eventually("both are on the disk", || support::metric(&edge, "petasos_disk_written_total", "") >= 2);
    drop(edge);
    between(directory);
    start(origin, directory)
}

/// A template that is longer than the bodies that are read into memory, and its page.
fn long() -> (String, String) {
    let text = "a".repeat(64 * 1024);
    (format!("{text}<esi:include src=\"/b\"/>c"), format!("{text}/bc"))
}

#[test]
fn template_from_the_disk_is_assembled() {
    let short = ("a<esi:include src=\"/b\"/>c".to_owned(), "a/bc".to_owned());
    for (template, page) in [short, long()] {
        let (origin, directory) = (origin(template.as_bytes()), tempfile::tempdir().unwrap());
        let edge = restarted(&origin, directory.path(), &page, |_| {});
        let fetched = origin.seen().len();
        for _ in 0..2 {
            let answer = support::connect(&edge).get("/", &[]);
            assert_eq!((answer.status, reason(&answer)), (200, "hit-fresh"));
            assert!(answer.text() == page, "{} bytes", answer.text().len());
        }
        assert_eq!(origin.seen().len(), fetched);
    }
}

/// Changes a byte of each stored copy of a text that no other response has.
fn flip(directory: &Path, text: &[u8]) {
    let mut places = 0;
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|name| name != "data") {
            continue;
        }
        let mut content = fs::read(&path).unwrap();
        let found = |at: &usize| content.get(*at..).is_some_and(|rest| rest.starts_with(text));
        let begins: Vec<usize> = (0..content.len()).filter(found).collect();
        places += begins.len();
        for at in begins {
            content[at] = !content[at];
        }
        fs::write(&path, content).unwrap();
    }
    assert!(places > 0, "the text is in no file");
}

#[test]
fn damaged_template_is_fetched_once() {
    let (template, page) = long();
    let (origin, directory) = (origin(template.as_bytes()), tempfile::tempdir().unwrap());
    let damage = |directory: &Path| flip(directory, b"<esi:include src=\"/b\"");
    let edge = restarted(&origin, directory.path(), &page, damage);
    for expected in ["miss-absent", "hit-fresh"] {
        let answer = support::connect(&edge).get("/", &[]);
        assert_eq!((answer.status, reason(&answer)), (200, expected));
        assert!(answer.text() == page, "{} bytes", answer.text().len());
    }
    assert_eq!(origin.count("/"), 2, "the first fetch, and one for the damage");
    assert!(support::metric(&edge, "petasos_disk_damaged_total", "") > 0);
}

#[test]
fn damaged_template_without_its_origin_is_an_error() {
    let (template, page) = long();
    let (origin, directory) = (origin(template.as_bytes()), tempfile::tempdir().unwrap());
    let damage = |directory: &Path| flip(directory, b"<esi:include src=\"/b\"");
    let edge = restarted(&origin, directory.path(), &page, damage);
    origin.kill();
    let answer = support::connect(&edge).get("/", &[]);
    assert_eq!(answer.status, 502);
    assert!(reason(&answer).starts_with("origin-"), "{}", reason(&answer));
}
