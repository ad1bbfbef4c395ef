//! The real binary under attack: requests and responses crafted to leave something behind that
//! harms others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use testkit::{Action, Client, Edge, Gate, Origin, eventually, get, response};

const SHARED: &str = "Cache-Control: max-age=60";

fn send(octets: impl Into<Vec<u8>>) -> Action {
    Action::Send(octets.into())
}

/// An edge with these lines under `[limits]` in its configuration file.
fn edge_with_limits(origin: &Origin, lines: &str, arguments: &[&str]) -> (Edge, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("petasos.toml");
    std::fs::write(&file, format!("[limits]\n{lines}\n")).unwrap();
    let mut all = vec![file.to_str().unwrap()];
    all.extend_from_slice(arguments);
    (Edge::start(&origin.url(), &all), directory)
}

/// Waits until nothing remains of earlier requests.
fn settles(edge: &Edge) {
    for gauge in [
        "petasos_flights_open",
        "petasos_origin_fetches_active",
        "petasos_origin_fetches_waiting",
        "petasos_filling_bytes",
        "petasos_connections_open",
    ] {
        eventually(gauge, || edge.metric(gauge, "") <= 0.0);
    }
}

#[test]
fn large_body_of_another_variant_releases_its_fetch() {
    for coding in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
        let origin = Origin::start(move |_| {
            let head = format!("HTTP/1.1 200 OK\r\n{SHARED}\r\nVary: Accept-Language\r\n{coding}\r\n\r\n");
            let body = if coding.contains("chunked") {
                format!("{:x}\r\n{}\r\n0\r\n\r\n", 1_000_000, "x".repeat(1_000_000))
            } else {
                "x".repeat(1_000_000)
            };
            vec![send(head), send(body)]
        });
        let (edge, _directory) =
            edge_with_limits(&origin, "object_bytes_max = '100KiB'\nfetches_max = 4", &[]);
        for number in 0..8 {
            let page = get(edge.address, &format!("/{number}"), &["Accept-Language: de"]);
            assert_eq!((page.status, page.body.len()), (200, 1_000_000), "{}", page.head);
        }
        settles(&edge);
    }
}

#[test]
fn unrequested_protocol_switch_is_a_502() {
    let origin = Origin::start(|_| {
        vec![send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")]
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    assert_eq!(client.get("/", &[]).status, 502);
}

#[test]
fn private_page_is_fetched_with_each_visitors_own_fields() {
    let origin = Origin::start(|seen| {
        let text = ["Accept-Language", "User-Agent", "X-Forwarded-For", "Referer"]
            .map(|name| seen.field(name).unwrap_or("-").to_owned())
            .join("|");
        response("200 OK", &["Cache-Control: private"], text.as_bytes())
    });
    let edge = Edge::start(&origin.url(), &[]);
    get(edge.address, "/", &[]);
    let page =
        get(edge.address, "/", &["Accept-Language: de", "User-Agent: me", "Referer: http://example.test/x"]);
    assert_eq!(page.text(), "de|me|127.0.0.1|http://example.test/x");
}

#[test]
fn fields_for_the_edge_are_not_passed_on() {
    let origin = Origin::start(|_| {
        response(
            "200 OK",
            &["Surrogate-Control: max-age=60", "Surrogate-Key: a b", "Cache-Control: private"],
            b"x",
        )
    });
    let edge = Edge::start(&origin.url(), &[]);
    for fields in [&[][..], &[], &["Cookie: session=1"]] {
        let page = get(edge.address, "/", fields);
        assert_eq!(
            (page.field("Surrogate-Control"), page.field("Surrogate-Key")),
            (None, None),
            "{}",
            page.head
        );
        assert_eq!(page.field("Cache-Control"), Some("private"));
    }
    assert_eq!(origin.seen().len(), 2);
}

#[test]
fn trailers_with_fields_of_heads_are_dropped() {
    let origin = Origin::start(|_| {
        vec![send(
            "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
             Content-Length: 5\r\nSet-Cookie: a=b\r\nX-Sum: 1\r\nLocation: /x\r\nContent-Encoding: gzip\r\n\r\n",
        )]
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    client.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
         X-Forwarded-For: 6.6.6.6\r\nContent-Length: 7\r\nCookie: session=1\r\nX-Rewrite-URL: /admin\r\n\
         X-Sum: 2\r\n\r\n",
    );
    let page = client.read();
    assert_eq!(page.trailers, "X-Sum: 1\n");
    let body = String::from_utf8(origin.seen()[0].body.clone()).unwrap();
    assert_eq!(body, "1\r\nx\r\n0\r\nX-Sum: 2\r\n\r\n");
}

#[test]
fn underscores_do_not_forge_forwarding_fields() {
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: no-store"], b"x"));
    let edge = Edge::start(&origin.url(), &[]);
    let forged = [
        "X_Forwarded_For: 6.6.6.6",
        "X-Forwarded_Host: evil.test",
        "X_Rewrite_URL: /admin",
        "X_HTTP_Method_Override: DELETE",
        "X_Real-IP: 6.6.6.6",
    ];
    get(edge.address, "/", &forged);
    let mut alone = forged.to_vec();
    alone.push("Cookie: session=1");
    get(edge.address, "/", &alone);
    for seen in origin.seen() {
        for field in forged {
            let name = field.split(':').next().unwrap();
            assert_eq!(seen.field(name), None, "{}", seen.head);
        }
    }
}

#[test]
fn early_hints_are_limited_and_carry_no_cookies() {
    let origin = Origin::start(|seen| match seen.target() {
        "/flood" => vec![
            send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100_000)),
            send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
        ],
        _ => vec![send(
            "HTTP/1.1 103 Early Hints\r\nSet-Cookie: a=b\r\nLink: </a>\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        )],
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    client.send("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    let hint = client.read_head();
    assert_eq!((hint.status, hint.field("Set-Cookie")), (103, None), "{}", hint.head);
    assert_eq!(client.read().text(), "x");
    let mut client = Client::connect(edge.address);
    client.send("GET /flood HTTP/1.0\r\nHost: example.test\r\n\r\n");
    assert_eq!(client.read().status, 502);
    client = Client::connect(edge.address);
    client.send("POST /flood HTTP/1.0\r\nHost: example.test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read().status, 502);
}

#[test]
fn storm_of_visitors_that_leave_holds_no_resources() {
    let gate = Gate::default();
    let wait = gate.clone();
    let origin = Origin::start(move |seen| {
        let control = match seen.target().as_bytes()[1] % 3 {
            0 => "Cache-Control: max-age=60",
            1 => "Cache-Control: private",
            _ => "Cache-Control: max-age=60\r\nVary: Accept-Language",
        };
        let head = format!("HTTP/1.1 200 OK\r\n{control}\r\nContent-Length: 300000\r\n\r\n");
        let mut actions = vec![
            Action::Await(wait.clone()),
            send(head),
            send("x".repeat(150_000)),
            send("x".repeat(150_000)),
        ];
        if seen.target().ends_with('7') {
            actions.truncate(3);
            actions.push(Action::Reset);
        }
        actions
    });
    let (edge, _directory) =
        edge_with_limits(&origin, "object_bytes_max = '200KiB'\nfetches_max = 16", &["--workers", "2"]);
    let mut clients = Vec::new();
    for number in 0..600 {
        let mut client = Client::connect(edge.address);
        let cookie = if number % 5 == 0 { "Cookie: session=1\r\n" } else { "" };
        let language = if number % 2 == 0 { "Accept-Language: de\r\n" } else { "" };
        client.send(format!(
            "GET /{}/{} HTTP/1.1\r\nHost: example.test\r\n{cookie}{language}\r\n",
            number % 3,
            number % 40
        ));
        if number % 3 > 0 {
            clients.push(client);
        }
    }
    eventually("the application is asked", || !origin.seen().is_empty());
    clients.truncate(200);
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        if number % 2 == 0 {
            client.read_head();
        }
    }
    drop(clients);
    settles(&edge);
    assert_eq!(get(edge.address, "/1/1", &["Cookie: session=2"]).body.len(), 300_000);
}

/// Resident memory of a process, in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn slow_readers_hold_no_more_than_the_memory_limit() {
    // Bodies in transit may take 8 MiB. The first body leaves room in it, so that it is stored and
    // lingers. Each of the others needs all of it.
    let origin = Origin::start(|seen| {
        let bytes = match seen.target() {
            "/large/0" => 6 << 20,
            target if target.starts_with("/large") => 8 << 20,
            _ => 1_000,
        };
        response("200 OK", &[SHARED], &vec![b'x'; bytes])
    });
    let (edge, _directory) = edge_with_limits(&origin, "fetches_max = 200", &["--memory", "64MiB"]);
    let slow: Vec<_> = (0..40)
        .map(|number| {
            // Even-numbered visitors receive a body while it is fetched, odd-numbered ones the
            // stored body. Both count against the limit.
            let target = format!("/large/{}", number / 2);
            let mut client = Client::connect(edge.address);
            client.send(format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n\r\n"));
            client.read_head();
            if number % 2 == 0 {
                eventually("the body is stored, or passed on only", || {
                    edge.metric("petasos_store_published_total", "")
                        + edge.metric("petasos_fillings_unkept_total", "")
                        > f64::from(number / 2)
                });
            }
            client
        })
        .collect();
    assert!(edge.metric("petasos_lingering_bytes", "") > 0.0);
    let resident = resident_bytes(edge.pid());
    assert!(resident < 160 << 20, "{resident} octets of memory for a limit of 64 MiB");
    for _ in 0..2 {
        assert_eq!(get(edge.address, "/small", &[]).body.len(), 1_000);
    }
    assert_eq!(origin.count("/small"), 1, "slow visitors kept a page from being stored");
    drop(slow);
    settles(&edge);
    eventually("nothing lingers", || edge.metric("petasos_lingering_bytes", "") <= 0.0);
}

#[test]
fn response_without_length_ends_cleanly_only_if_complete() {
    let whole = 32 << 20;
    let chunk = "x".repeat(1 << 20);
    let origin = Origin::start(move |_| {
        let piece = format!("{:x}\r\n{chunk}\r\n", chunk.len());
        let mut actions =
            vec![send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n")];
        actions.extend((0..32).map(|_| send(piece.clone())));
        actions.push(send("0\r\n\r\n"));
        actions
    });
    let ask = |edge: &Edge| {
        let mut client = Client::connect(edge.address);
        client.send("GET / HTTP/1.0\r\nHost: example.test\r\n\r\n");
        client
    };
    let (edge, _directory) = edge_with_limits(&origin, "write_timeout = '2s'", &[]);
    let page = ask(&edge).read();
    assert_eq!((page.body.len(), page.complete), (whole, true));
    // The visitor reads nothing until the edge gives up on it.
    let mut slow = ask(&edge);
    eventually("the visitor is given up", || edge.metric("petasos_visitor_timeouts_total", "") >= 1.0);
    let page = slow.read();
    assert!(!page.complete && page.body.len() < whole, "a part was passed on as the whole");
    // The edge is ended before the response is complete.
    let (mut edge, _directory) = edge_with_limits(&origin, "", &[]);
    let mut slow = ask(&edge);
    eventually("the response is under way", || edge.metric("petasos_origin_fetches_total", "") >= 1.0);
    slow.read_head();
    edge.signal("TERM");
    edge.signal("INT");
    edge.wait();
    assert!(!slow.read_to_end(), "a part was passed on as the whole");
}
