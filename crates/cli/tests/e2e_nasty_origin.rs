//! The real binary in front of an origin that misbehaves. No truncated response is stored or passed
//! on as complete, every failure is explained, and other clients are served meanwhile.

use testkit::{Action, Client, Edge, Gate, HeldPort, Origin, eventually, get, response};

/// A response head with these header lines.
fn head(lines: &[&str]) -> Action {
    Action::Send(format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", lines.join("\r\n")).into_bytes())
}

fn send(octets: &[u8]) -> Action {
    Action::Send(octets.to_vec())
}

const SHARED: &str = "Cache-Control: max-age=60";

#[test]
fn body_shorter_than_its_length_is_incomplete_and_not_stored() {
    let origin =
        Origin::start(|_| vec![head(&[SHARED, "Content-Length: 100"]), send(b"short"), Action::Close]);
    let edge = Edge::start(&origin.url(), &[]);
    for round in 1..=2 {
        let response = get(edge.address, "/", &[]);
        assert!(!response.complete, "a truncated body was passed on as complete");
        assert_eq!(origin.count("/"), round, "a truncated body was stored");
    }
}

#[test]
fn truncated_chunked_body_is_incomplete_and_not_stored() {
    let origin = Origin::start(|_| {
        vec![head(&[SHARED, "Transfer-Encoding: chunked"]), send(b"5\r\nshort\r\n"), Action::Close]
    });
    let edge = Edge::start(&origin.url(), &[]);
    for round in 1..=2 {
        assert!(!get(edge.address, "/", &[]).complete);
        assert_eq!(origin.count("/"), round);
    }
}

#[test]
fn stalled_body_ends_incomplete_while_others_are_served() {
    let gate = Gate::default();
    let wait = gate.clone();
    let origin = Origin::start(move |seen| match seen.target() {
        "/stalled" => vec![head(&[SHARED, "Content-Length: 10"]), send(b"half"), Action::Await(wait.clone())],
        _ => response("200 OK", &[SHARED], b"fine"),
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("petasos.toml");
    std::fs::write(&file, "[limits]\nbetween_bytes_timeout = '300ms'\n").unwrap();
    let edge = Edge::start(&origin.url(), &[file.to_str().unwrap()]);
    let mut stalled = Client::connect(edge.address);
    stalled.send("GET /stalled HTTP/1.1\r\nHost: example.test\r\n\r\n");
    assert_eq!(get(edge.address, "/other", &[]).text(), "fine");
    let response = stalled.read();
    assert!(!response.complete);
    gate.open();
}

#[test]
fn content_beyond_its_length_reaches_no_other_request() {
    let origin = Origin::start(|seen| match seen.target() {
        "/lying" => vec![
            head(&[SHARED, "Content-Length: 2"]),
            send(b"okHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
        ],
        _ => response("200 OK", &["Cache-Control: no-store"], b"good"),
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    assert_eq!(client.get("/lying", &[]).text(), "ok");
    for _ in 0..3 {
        assert_eq!(client.get("/after", &[]).text(), "good");
    }
}

#[test]
fn chunked_content_with_trailers_passes() {
    let origin = Origin::start(|_| {
        vec![
            head(&["Cache-Control: no-store", "Transfer-Encoding: chunked", "Trailer: X-Sum"]),
            send(b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n"),
        ]
    });
    let edge = Edge::start(&origin.url(), &[]);
    let response = get(edge.address, "/", &["TE: trailers"]);
    assert_eq!((response.text(), response.complete), ("abcdefg", true));
    assert_eq!(response.trailers, "X-Sum: 7\n");
}

#[test]
fn origin_errors_are_passed_on_and_not_stored() {
    let origin = Origin::start(|_| response("500 Internal Server Error", &[], b"broken"));
    let edge = Edge::start(&origin.url(), &["--ttl", "1m"]);
    for round in 1..=2 {
        let response = get(edge.address, "/", &[]);
        assert_eq!((response.status, response.text()), (500, "broken"));
        assert_eq!(origin.count("/"), round);
    }
}

#[test]
fn refused_connection_is_a_502_with_its_reason() {
    let nobody = HeldPort::take();
    let edge = Edge::start(&format!("http://{}", nobody.address()), &[]);
    let response = get(edge.address, "/", &[]);
    assert_eq!(response.status, 502);
    assert!(!response.text().contains("127.0.0.1"), "{}", response.text());
    let status = response.field("Cache-Status").unwrap();
    assert!(status.ends_with("; detail=origin-refused-connection"), "{status}");
    assert!(response.field("Cache-Control").is_some_and(|value| value.contains("no-store")));
}

#[test]
fn garbage_instead_of_a_response_is_a_502() {
    let origin = Origin::start(|_| vec![send(b"SSH-2.0-OpenSSH\r\n\r\n"), Action::Close]);
    let edge = Edge::start(&origin.url(), &[]);
    assert_eq!(get(edge.address, "/", &[]).status, 502);
}

#[test]
fn connection_closed_before_the_response_is_a_502() {
    let origin = Origin::start(|_| vec![Action::Close]);
    let edge = Edge::start(&origin.url(), &[]);
    assert_eq!(get(edge.address, "/", &[]).status, 502);
    let mut client = Client::connect(edge.address);
    client.send("POST /form HTTP/1.1\r\nHost: example.test\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.read().status, 502);
    assert_eq!(origin.count("/form"), 1, "a POST was repeated");
}

#[test]
fn fetch_continues_for_others_when_a_client_leaves() {
    let gate = Gate::default();
    let wait = gate.clone();
    let origin = Origin::start(move |seen| match seen.target() {
        "/slow" => {
            vec![
                head(&[SHARED, "Content-Length: 8"]),
                send(b"half"),
                Action::Await(wait.clone()),
                send(b"half"),
            ]
        }
        _ => response("200 OK", &[SHARED], b"fine"),
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut leaver = Client::connect(edge.address);
    leaver.send("GET /slow HTTP/1.1\r\nHost: example.test\r\n\r\n");
    leaver.read_head();
    let mut waiter = Client::connect(edge.address);
    waiter.send("GET /slow HTTP/1.1\r\nHost: example.test\r\n\r\n");
    waiter.read_head();
    drop(leaver);
    assert_eq!(get(edge.address, "/other", &[]).text(), "fine");
    gate.open();
    assert_eq!(waiter.read_octets(8), b"halfhalf");
    assert_eq!(get(edge.address, "/slow", &[]).text(), "halfhalf");
    assert_eq!(origin.count("/slow"), 1, "the fetch went on without its first client");
    drop(waiter);
    eventually("no connection is left but the one that asks", || {
        edge.metric("petasos_connections_open", "") <= 1.0
    });
}

#[test]
fn hundred_clients_of_a_cold_page_cost_one_fetch() {
    let gate = Gate::default();
    let wait = gate.clone();
    let origin = Origin::start(move |_| {
        let mut actions = vec![Action::Await(wait.clone())];
        actions.extend(response("200 OK", &[SHARED], b"once"));
        actions
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut clients: Vec<Client> = (0..100).map(|_| Client::connect(edge.address)).collect();
    for client in &mut clients {
        client.send("GET /cold HTTP/1.1\r\nHost: example.test\r\n\r\n");
    }
    eventually("the fetch is on its way", || !origin.seen().is_empty());
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read().text(), "once");
    }
    assert_eq!(origin.count("/cold"), 1);
}

#[test]
fn followers_of_a_private_response_each_get_their_own() {
    let gate = Gate::default();
    let wait = gate.clone();
    let origin = Origin::start(move |_| {
        let mut actions = vec![Action::Await(wait.clone())];
        actions.extend(response("200 OK", &["Cache-Control: private"], b"mine"));
        actions
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(edge.address)).collect();
    for client in &mut clients {
        client.send("GET /private HTTP/1.1\r\nHost: example.test\r\n\r\n");
    }
    eventually("a fetch is on its way", || !origin.seen().is_empty());
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read().text(), "mine");
    }
    assert_eq!(origin.count("/private"), 10, "a private answer was shared");
}
