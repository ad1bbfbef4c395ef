//! Attacks on the files of the disk tier. Damaged content never reaches a visitor, and costs one
//! fetch.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use testkit::{Action, Client, Edge, Origin, Response, Seen, eventually, response};

const FILM_BYTES: usize = 6_000_000;
const FRESH: &str = "Cache-Control: max-age=86400";

/// Interval between two bytes of an origin that sends slowly.
const DROP_EVERY: Duration = Duration::from_millis(20);

/// Number of bytes from a slow origin: enough to outlast any test.
const DROPS: usize = 5_000;

/// The ranges of the multipart requests, as first and last byte.
const PARTS: [(usize, usize); 3] = [(0, 99_999), (2_900_000, 3_100_000), (5_900_000, FILM_BYTES - 1)];

/// The film at the origin: content and entity tag.
type Film = Arc<Mutex<(Vec<u8>, &'static str)>>;

/// The stored film, and its replacement.
static OLD: LazyLock<Vec<u8>> = LazyLock::new(|| octets(7));
static NEW: LazyLock<Vec<u8>> = LazyLock::new(|| octets(8));

fn octets(seed: u32) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(FILM_BYTES).collect()
}

fn film(tag: &'static str) -> Film {
    Arc::new(Mutex::new((OLD.clone(), tag)))
}

/// The response of an origin that supports `Range` and `If-Range`.
fn serve(seen: &Seen, film: &Film) -> Vec<Action> {
    let (content, tag) = &*film.lock().unwrap();
    let tag_line = format!("ETag: {tag}");
    let is_current = seen.field("If-Range").is_none_or(|known| known == *tag);
    match asked(seen) {
        Some((first, last)) if is_current => {
            let extent = format!("Content-Range: bytes {first}-{last}/{}", content.len());
            response("206 Partial Content", &[FRESH, &tag_line, &extent], &content[first..=last])
        }
        _ => response("200 OK", &[FRESH, &tag_line], content),
    }
}

/// The single range that a request asks for, as first and last byte.
fn asked(seen: &Seen) -> Option<(usize, usize)> {
    let (first, last) = seen.field("Range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// A restarted edge. Its disk holds the responses to `targets`, which it has not read since it
/// started.
fn restarted(origin: &Origin, directory: &Path, targets: &[String], damage: impl FnOnce(&Path)) -> Edge {
    let arguments = ["--disk", directory.to_str().unwrap(), "--workers", "1"];
    let mut edge = Edge::start(&origin.url(), &arguments);
    for (before, target) in targets.iter().enumerate() {
        assert_eq!(testkit::get(edge.address, target, &[]).status, 200);
        // Fetch one at a time, because a slow writer's queue would drop excess responses.
        let written = || edge.metric("petasos_disk_written_total", "");
        eventually("it is on the disk", || written() > before as f64);
    }
    edge.signal("TERM");
    edge.wait();
    damage(directory);
    let limits = "[limits]\ndisk_verify_rate = \"0B\"\ncompletion_timeout = \"2s\"\n";
    Edge::configured(&origin.url(), limits, &arguments)
}

fn one() -> [String; 1] {
    ["/film".to_owned()]
}

/// The files that contain these bytes, with the offset of each occurrence.
fn places(directory: &Path, octets: &[u8]) -> Vec<(File, u64)> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut places = Vec::new();
    for path in files.filter(|path| path.extension().is_some_and(|name| name == "data")) {
        let content = fs::read(&path).unwrap();
        let found = |at: usize| content[at] == octets[0] && content[at..].starts_with(octets);
        for at in (0..content.len()).filter(|at| found(*at)) {
            places.push((File::options().write(true).open(&path).unwrap(), at as u64));
        }
    }
    assert!(!places.is_empty(), "the octets stand in a file");
    places
}

/// Overwrites all stored copies of the film with `content`, from `offset` on.
fn overwrite(directory: &Path, offset: usize, content: &[u8]) {
    for (file, at) in places(directory, &OLD[offset..offset + 64]) {
        file.write_all_at(content, at).unwrap();
    }
}

fn flip(directory: &Path) {
    overwrite(directory, 3_000_000, &[!OLD[3_000_000]]);
}

fn zero_pages(directory: &Path) {
    overwrite(directory, 2_950_000, &[0; 16_384]);
}

fn truncate(directory: &Path) {
    let (file, at) = places(directory, &OLD[3_050_000..3_050_064]).remove(0);
    file.set_len(at).unwrap();
}

fn get(edge: &Edge, target: &str, fields: &[&str]) -> Response {
    Client::connect(edge.address).get(target, fields)
}

fn count(edge: &Edge, name: &str) -> u64 {
    edge.metric(&format!("petasos_{name}_total"), "") as u64
}

#[derive(Clone, Copy, Debug)]
enum FilmPart {
    Whole,
    Range,
    Parts,
}

impl FilmPart {
    fn ask(self, edge: &Edge, target: &str) -> Response {
        let parts: Vec<String> = PARTS.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        match self {
            Self::Whole => get(edge, target, &[]),
            Self::Range => get(edge, target, &["Range: bytes=2500000-3499999"]),
            Self::Parts => get(edge, target, &[&format!("Range: bytes={}", parts.join(","))]),
        }
    }

    /// Whether the response is complete and has the requested bytes.
    fn is_right(self, response: &Response, film: &[u8]) -> bool {
        response.complete
            && match self {
                Self::Whole => response.status == 200 && response.body == film,
                Self::Range => response.status == 206 && response.body == film[2_500_000..3_500_000],
                // The origin supports single ranges only. If a multipart request goes to it, it
                // responds with the whole content.
                Self::Parts if response.status == 200 => response.body == film,
                Self::Parts => response.status == 206 && are_parts(&response.body, film),
            }
    }
}

fn are_parts(body: &[u8], film: &[u8]) -> bool {
    let mut rest = body;
    PARTS.iter().all(|(first, last)| {
        let line = format!("Content-Range: bytes {first}-{last}/{FILM_BYTES}");
        let head_end = rest.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let is_named = String::from_utf8_lossy(&rest[..head_end]).contains(&line);
        let content;
        (content, rest) = rest[head_end..].split_at(last - first + 1);
        is_named && content == &film[*first..=*last]
    })
}

#[test]
fn damaged_large_body_is_completed_from_the_origin() {
    let film = film("\"1\"");
    let known = Arc::clone(&film);
    let origin = Origin::start(move |seen| serve(seen, &known));
    let mut wrong = 0;
    for damage in [flip, zero_pages] {
        let directory = tempfile::tempdir().unwrap();
        let kinds = [FilmPart::Whole, FilmPart::Range, FilmPart::Parts];
        let targets = kinds.map(|asked| format!("/{asked:?}"));
        let edge = restarted(&origin, directory.path(), &targets, damage);
        let ask_all = || kinds.iter().zip(&targets).map(|(asked, target)| (asked, asked.ask(&edge, target)));
        for (asked, response) in ask_all().chain(ask_all()) {
            wrong += u32::from(!asked.is_right(&response, &OLD));
        }
        let counts = ["disk_damaged", "damaged_responses_completed", "damaged_responses_cut"];
        assert_eq!(counts.map(|name| count(&edge, name)), [3, 3, 0]);
    }
    println!("attack: damaged large body: {wrong} of 12 responses wrong or cut, at most 0");
    assert_eq!(wrong, 0, "responses that were wrong or cut");
}

#[test]
fn body_with_a_truncated_file_is_fetched_again() {
    let film = film("W/\"1\"");
    let known = Arc::clone(&film);
    let origin = Origin::start(move |seen| serve(seen, &known));
    let directory = tempfile::tempdir().unwrap();
    let edge = restarted(&origin, directory.path(), &one(), truncate);
    for verdict in ["miss", "hit"] {
        let response = get(&edge, "/film", &[]);
        assert!(FilmPart::Whole.is_right(&response, &OLD), "{}", response.head);
        assert!(response.field("Cache-Status").unwrap().contains(verdict), "{}", response.head);
    }
    println!("attack: body whose file is too short: 0 responses cut of at most 0");
}

#[test]
fn damaged_body_without_strong_validator_is_cut_once() {
    let film = film("W/\"1\"");
    let known = Arc::clone(&film);
    let origin = Origin::start(move |seen| serve(seen, &known));
    let directory = tempfile::tempdir().unwrap();
    let edge = restarted(&origin, directory.path(), &one(), flip);
    let first = get(&edge, "/film", &[]);
    assert!(!first.complete && OLD.starts_with(&first.body), "{} octets", first.body.len());
    let second = get(&edge, "/film", &[]);
    assert!(FilmPart::Whole.is_right(&second, &OLD), "{}", second.head);
    assert!(second.field("Cache-Status").unwrap().contains("miss"), "{}", second.head);
    assert_eq!((count(&edge, "damaged_responses_cut"), count(&edge, "damaged_responses_completed")), (1, 0));
    println!("attack: damaged body with a weak validator: 1 response cut of at most 1");
}

#[test]
fn damaged_body_that_changed_at_origin_is_cut_not_mixed() {
    let film = film("\"1\"");
    let known = Arc::clone(&film);
    let origin = Origin::start(move |seen| serve(seen, &known));
    let directory = tempfile::tempdir().unwrap();
    let edge = restarted(&origin, directory.path(), &one(), flip);
    *film.lock().unwrap() = (NEW.clone(), "\"2\"");
    let first = get(&edge, "/film", &[]);
    assert!(!first.complete && OLD.starts_with(&first.body), "{} octets", first.body.len());
    let second = get(&edge, "/film", &[]);
    assert!(FilmPart::Whole.is_right(&second, &NEW), "{}", second.head);
    println!("attack: damaged body that has changed: 0 responses mixed of at most 0");
}

/// Number of wrong responses in [`lies`].
const LIES: u64 = 11;

/// Wrong responses to the request for the missing bytes. `None` if the request has no range.
fn lies(seen: &Seen, film: &Film, lie: u64) -> Option<Vec<Action>> {
    let (first, last) = asked(seen)?;
    let content = film.lock().unwrap().0.clone();
    let part = |tag: &str, first: usize, last: usize, complete: usize, content: &[u8]| {
        let extent = format!("Content-Range: bytes {first}-{last}/{complete}");
        response("206 Partial Content", &[FRESH, &format!("ETag: {tag}"), &extent], content)
    };
    let bytes = content.len();
    let missing = &content[first..=last];
    Some(match lie {
        0 => part("\"1\"", first + 1, last, bytes, &missing[1..]),
        1 => part("\"1\"", first, last - 1, bytes, &missing[1..]),
        2 => part("\"1\"", first, last, bytes + 1, missing),
        3 => part("\"2\"", first, last, bytes, missing),
        4 => part("W/\"1\"", first, last, bytes, missing),
        5 => part("\"1\"", first, last, bytes, &[missing, b"x"].concat()),
        6 => part("\"1\"", first, last, bytes, &missing[1..]),
        7 => response("403 Forbidden", &["ETag: \"1\""], missing),
        8 => response("200 OK", &[FRESH, "ETag: \"1\""], missing),
        9 => {
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes {first}-{last}/{bytes}\r\n\
                 Transfer-Encoding: chunked\r\n\r\n{:x}\r\n",
                missing.len()
            );
            let end = b"\r\n1\r\nx\r\n0\r\n\r\n";
            vec![Action::Send([head.as_bytes(), missing, end].concat())]
        }
        _ => vec![Action::Close],
    })
}

#[test]
fn wrong_completion_of_a_damaged_body_never_ends_complete() {
    let film = film("\"1\"");
    let known = Arc::clone(&film);
    let lie = |seen: &Seen| seen.target()[1..].parse().unwrap();
    let origin =
        Origin::start(move |seen| lies(seen, &known, lie(seen)).unwrap_or_else(|| serve(seen, &known)));
    let (directory, targets): (_, Vec<String>) =
        (tempfile::tempdir().unwrap(), (0..LIES).map(|lie| format!("/{lie}")).collect());
    let edge = restarted(&origin, directory.path(), &targets, flip);
    let mut whole = 0;
    for target in &targets {
        let first = get(&edge, target, &[]);
        assert!(OLD.starts_with(&first.body), "lie {target}: {} octets", first.body.len());
        whole += u32::from(first.complete);
        let second = get(&edge, target, &[]);
        assert!(FilmPart::Whole.is_right(&second, &OLD), "lie {target}: {}", second.head);
    }
    println!("attack: lies about missing octets: {whole} of {LIES} responses ended as whole, at most 0");
    assert_eq!(whole, 0);
    assert_eq!(count(&edge, "damaged_responses_cut"), LIES);
}

/// The response of an origin that sends the missing bytes one at a time, for longer than any test
/// waits.
fn drip(seen: &Seen, film: &Film) -> Vec<Action> {
    let Some((first, last)) = asked(seen) else { return serve(seen, film) };
    let length = last - first + 1;
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes {first}-{last}/{FILM_BYTES}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    let drops = film.lock().unwrap().0[first..=last].to_vec();
    let drops =
        drops.chunks(1).take(DROPS).flat_map(|drop| [Action::Pause(DROP_EVERY), Action::Send(drop.to_vec())]);
    std::iter::once(Action::Send(head.into_bytes())).chain(drops).collect()
}

#[test]
fn completion_that_drips_without_end_is_cut_off() {
    let film = film("\"1\"");
    let known = Arc::clone(&film);
    let origin = Origin::start(move |seen| drip(seen, &known));
    let directory = tempfile::tempdir().unwrap();
    let edge = restarted(&origin, directory.path(), &one(), flip);
    let first = get(&edge, "/film", &[]);
    assert!(!first.complete && OLD.starts_with(&first.body), "{} bytes", first.body.len());
    assert_eq!((count(&edge, "damaged_responses_cut"), count(&edge, "origin_timeouts")), (1, 1));
    println!("attack: completion that drips: 1 response cut of at most 1");
}

#[test]
fn damage_after_verification_is_found_in_the_background() {
    let film = film("\"1\"");
    let known = Arc::clone(&film);
    let origin = Origin::start(move |seen| serve(seen, &known));
    let directory = tempfile::tempdir().unwrap();
    drop(restarted(&origin, directory.path(), &one(), |_| {}));
    let arguments = ["--disk", directory.path().to_str().unwrap(), "--workers", "1"];
    let config = "[limits]\ndisk_verify_rate = \"64MiB\"\n";
    let edge = Edge::configured(&origin.url(), config, &arguments);
    // The first request reads and checks the file; the second is sent straight from the file.
    for _ in 0..2 {
        assert!(FilmPart::Whole.is_right(&get(&edge, "/film", &[]), &OLD));
    }
    assert_eq!(origin.seen().len(), 1, "nothing was fetched since the restart");
    let verified = || count(&edge, "disk_verified_bytes");
    flip(directory.path());
    let before = verified();
    eventually("the damage is found", || count(&edge, "disk_verify_damaged") >= 1);
    let read = verified() - before;
    println!("attack: damage behind sendfile: found after {read} bytes of at most {}", 2 * FILM_BYTES);
    assert!(read <= 2 * FILM_BYTES as u64);
    let next = get(&edge, "/film", &[]);
    assert!(FilmPart::Whole.is_right(&next, &OLD), "{}", next.head);
    assert!(next.field("Cache-Status").unwrap().contains("miss"), "{}", next.head);
}

#[test]
fn file_cut_short_behind_sendfile_is_completed() {
    let film = film("\"1\"");
    let known = Arc::clone(&film);
    let origin = Origin::start(move |seen| serve(seen, &known));
    let directory = tempfile::tempdir().unwrap();
    let edge = restarted(&origin, directory.path(), &one(), |_| {});
    for _ in 0..2 {
        assert!(FilmPart::Whole.is_right(&get(&edge, "/film", &[]), &OLD));
    }
    assert_eq!(origin.seen().len(), 1, "nothing was fetched since the restart");
    truncate(directory.path());
    for _ in 0..2 {
        assert!(FilmPart::Whole.is_right(&get(&edge, "/film", &[]), &OLD));
    }
    assert_eq!((count(&edge, "damaged_responses_completed"), count(&edge, "damaged_responses_cut")), (1, 0));
    println!("attack: file cut short behind sendfile: 0 responses cut of at most 0");
}

#[test]
fn damaged_small_page_is_fetched_once() {
    let origin = Origin::start(|seen| {
        response("200 OK", &[FRESH], format!("begin {} end of the page", seen.target()).as_bytes())
    });
    let wrecks: [fn(&Path); 3] = [
        |directory| {
            let (file, at) = places(directory, b"begin /film").remove(0);
            file.write_all_at(b"B", at).unwrap();
        },
        |directory| {
            let (file, at) = places(directory, b"begin /film").remove(0);
            file.set_len(at + 3).unwrap();
        },
        |directory| {
            let (file, _) = places(directory, b"begin /film").remove(0);
            let bytes = file.metadata().unwrap().len() as usize;
            file.write_all_at(&vec![0; bytes], 0).unwrap();
        },
    ];
    for wreck in wrecks {
        let directory = tempfile::tempdir().unwrap();
        let edge = restarted(&origin, directory.path(), &one(), wreck);
        let fetched = origin.seen().len();
        for _ in 0..2 {
            let response = get(&edge, "/film", &[]);
            assert_eq!((response.status, response.text()), (200, "begin /film end of the page"));
        }
        assert_eq!(origin.seen().len(), fetched + 1);
    }
    println!("attack: damaged small page: 0 responses wrong of at most 0");
}
