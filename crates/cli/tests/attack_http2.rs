//! Floods of HTTP/2 inside TLS against the real binary: rapid resets, CONTINUATION, SETTINGS and
//! PING, windows that stay closed or open byte by byte, and bombs of header fields.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use testkit::attack::{Attack, AttackKind, AttackOutcome, AttackedEdge, PAGE, SERVER_NAME};
use testkit::{Http2Frame, field_block};

/// Number of attackers. Each has one connection at a time.
const ATTACKERS: usize = 10;
/// Bit of a frame's flags (RFC 9113 section 6.2): the end of a stream.
const END_STREAM: u8 = 1;
/// As above: the end of a head.
const END_HEADERS: u8 = 4;
/// Types of frames (RFC 9113 section 6).
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// Settings that close the windows of all streams: SETTINGS_INITIAL_WINDOW_SIZE is 0.
const CLOSED_WINDOWS: [u8; 6] = [0, 4, 0, 0, 0, 0];
/// Streams that a connection may have at once by default (`limits.http2_streams_max`).
const STREAMS: u32 = 100;

/// The head of a request, with further fields.
fn request(stream: u32, target: &str, fields: &[(&str, &str)]) -> Http2Frame {
    let base = [(":method", "GET"), (":scheme", "https"), (":authority", SERVER_NAME), (":path", target)];
    Http2Frame::request(stream, &[&base, fields].concat())
}

fn octets(frames: &[Http2Frame]) -> Vec<u8> {
    frames.iter().flat_map(Http2Frame::octets).collect()
}

/// Connections that begin with `begin` and repeat batches. `batch` gets a number that grows by one
/// within a connection, and returns bytes with the number of units in them.
fn flood<B: FnMut(u32) -> (Vec<u8>, u64)>(
    attacked: &AttackedEdge,
    kind: &AttackKind,
    settings: &[u8],
    begin: impl Fn() -> Vec<u8> + Sync,
    new_batch: impl Fn(usize) -> B + Sync,
) -> AttackOutcome {
    let outcome = attacked.suffer(kind, |attack: &Attack, number| {
        let mut ticks = attack.ticks(number, ATTACKERS);
        let mut batch = new_batch(number);
        attack.ready();
        while ticks.wait() {
            // The edge may refuse a connection while it is busy with the others.
            let Ok(mut frames) = attacked.frames(settings) else { continue };
            frames.send_octets(&begin());
            for count in 0.. {
                let (octets, units) = batch(count);
                if !frames.send_octets(&octets) || !frames.drain() {
                    attack.closed();
                    break;
                }
                attack.sent(units);
                if !ticks.wait() {
                    return;
                }
            }
        }
    });
    let connections = attacked.edge.metric("petasos_http2_connections_total", "");
    assert!(connections >= ATTACKERS as f64, "only {connections} connections had HTTP/2");
    outcome
}

fn kind(name: &'static str, unit: &'static str, rate_min: u64, units_short: u64) -> AttackKind {
    AttackKind { name, unit, http: "2", attackers: ATTACKERS, rate_min, units_short }
}

fn floods(attacked: &AttackedEdge) -> f64 {
    attacked.edge.metric("petasos_http2_floods_total", "")
}

/// Ten requests with their resets.
fn resets(count: u32, target: impl Fn(u32) -> String, fields: &[(&str, &str)]) -> (Vec<u8>, u64) {
    let streams = (0..10).map(|number| (count * 10 + number) * 2 + 1);
    let frames: Vec<Http2Frame> = streams
        .flat_map(|stream| [request(stream, &target(stream), fields), Http2Frame::reset(stream)])
        .collect();
    (octets(&frames), 10)
}

#[test]
fn rapid_resets_of_hits_delay_no_other_hit() {
    let attacked = AttackedEdge::start("");
    let kind = kind("rapid resets of hits", "streams", 9_000, 2_000);
    flood(&attacked, &kind, &[], Vec::new, |_| |count| resets(count, |_| PAGE.to_owned(), &[]));
}

#[test]
fn rapid_resets_of_other_pages_delay_no_hit() {
    let attacked = AttackedEdge::start("");
    let kind = kind("rapid resets of pages that are not stored", "streams", 9_000, 2_000);
    let outcome = flood(&attacked, &kind, &[], Vec::new, |_| {
        |count| resets(count, |stream| format!("/other/{stream}"), &[("cookie", "session=1")])
    });
    let seen = attacked.origin.seen();
    let reached = seen.iter().filter(|seen| seen.target().starts_with("/other/")).count() as u64;
    println!("attack: rapid resets: {reached} of {} requests reached the origin", outcome.sent);
    assert!(reached <= outcome.sent / 100, "{reached} requests that were reset cost a fetch");
}

#[test]
fn endless_heads_delay_no_hit_and_are_ended() {
    let attacked = AttackedEdge::start("");
    // The edge ends each connection after a few of these frames, so more of them would be a flood
    // of TLS handshakes.
    let kind = kind("CONTINUATION without end", "frames", 500, 300);
    let begin = || Http2Frame { flags: END_STREAM, ..request(1, PAGE, &[]) }.octets();
    let more = Http2Frame::new(CONTINUATION, 1, field_block(&[("x", "y")])).octets();
    let outcome = flood(&attacked, &kind, &[], begin, |_| |_| (more.clone(), 1));
    assert!(outcome.closed > 0, "no connection was ended");
}

#[test]
fn floods_of_pings_delay_no_hit_and_are_ended() {
    let attacked = AttackedEdge::start("");
    let kind = kind("PING", "frames", 90_000, 300_000);
    let pings = Http2Frame::new(PING, 0, [7; 8]).octets().repeat(100);
    let outcome = flood(&attacked, &kind, &[], Vec::new, |_| |_| (pings.clone(), 100));
    assert!(outcome.closed > 0 && floods(&attacked) >= 1.0, "no connection was ended");
}

#[test]
fn floods_of_settings_delay_no_hit_and_are_ended() {
    let attacked = AttackedEdge::start("");
    let kind = kind("SETTINGS", "frames", 90_000, 300_000);
    let settings = Http2Frame::new(SETTINGS, 0, [0, 4, 0, 0, 255, 255]).octets().repeat(100);
    let outcome = flood(&attacked, &kind, &[], Vec::new, |_| |_| (settings.clone(), 100));
    assert!(outcome.closed > 0 && floods(&attacked) >= 1.0, "no connection was ended");
}

#[test]
fn closed_windows_delay_no_hit_and_stay_within_memory() {
    let attacked = AttackedEdge::start("");
    let kind = kind("windows that open byte by byte", "updates", 9_000, 2_000);
    // A third of the responses is private: the edge must fetch them, and may not share them.
    let begin = || {
        let heads = (0..STREAMS).map(|number| {
            let fields: &[(&str, &str)] = if number % 3 == 0 { &[("cookie", "session=1")] } else { &[] };
            request(number * 2 + 1, &format!("/filling/{number}"), fields)
        });
        octets(&heads.collect::<Vec<_>>())
    };
    flood(&attacked, &kind, &CLOSED_WINDOWS, begin, |_| {
        |count| {
            let streams = (0..10).map(|number| (count * 10 + number) % STREAMS * 2 + 1);
            let updates: Vec<_> = streams.map(|stream| Http2Frame::window_update(stream, 1)).collect();
            (octets(&updates), 10)
        }
    });
}

#[test]
fn bombs_of_indexed_fields_delay_no_hit_and_are_ended() {
    let attacked = AttackedEdge::start("");
    let kind = kind("bombs of indexed fields", "heads", 200, 100);
    // The first head adds a field of 3,000 bytes to the dynamic table, and the next ones repeat it:
    // 0xbe is the newest entry (RFC 7541 section 6.1).
    let value = "y".repeat(3_000);
    let bomb =
        |stream| Http2Frame { kind: 1, flags: END_HEADERS | END_STREAM, stream, payload: vec![0xbe; 16_000] };
    let outcome = flood(&attacked, &kind, &[], Vec::new, |_| {
        |count: u32| {
            let stream = count / 4 * 2 + 3;
            match (count, count % 4) {
                (0, _) => {
                    let mut first = request(1, PAGE, &[]);
                    // 0x40 is a field that enters the table (RFC 7541 section 6.2.1).
                    let mut field = field_block(&[("x", &value)]);
                    field.iter_mut().take(1).for_each(|octet| *octet = 0x40);
                    first.payload.extend(field);
                    (first.octets(), 1)
                }
                (_, 1) => (bomb(stream).octets(), 1),
                _ => (Vec::new(), 0),
            }
        }
    });
    assert!(outcome.closed > 0, "no connection was ended");
}

#[test]
fn large_heads_that_stay_open_stay_within_memory() {
    let attacked = AttackedEdge::start("");
    // Each connection holds as many as it may, so the rate says nothing.
    let kind = kind("large heads of requests that do not end", "heads", 0, 1_000);
    let large = "y".repeat(15_000);
    flood(&attacked, &kind, &[], Vec::new, |_| {
        |count: u32| {
            if count >= STREAMS {
                return (Vec::new(), 0);
            }
            let fields = [("content-length", "100000"), ("x", &large[..]), ("cookie", "session=1")];
            let base = [(":method", "POST"), (":scheme", "https"), (":authority", SERVER_NAME)];
            let head = field_block(&[&base[..], &[(":path", "/form")], &fields].concat());
            let frame = Http2Frame { kind: 1, flags: END_HEADERS, stream: count * 2 + 1, payload: head };
            (frame.octets(), 1)
        }
    });
}
