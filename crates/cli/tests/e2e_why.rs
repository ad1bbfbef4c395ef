//! `petasos why` from the user's view: a running edge, sites over http and https, bad arguments,
//! unreachable servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use testkit::{Action, Certificate, Edge, HeldPort, Origin, TlsFront, get, petasos, petasos_with, response};

fn page() -> Origin {
    Origin::start(|_| response("200 OK", &["Cache-Control: s-maxage=60"], b"<p>a page</p>"))
}

/// The https URL of the front. It names `localhost`, because the test server's certificate does.
fn https(front: &TlsFront) -> String {
    format!("https://localhost:{}/", front.address.port())
}

#[test]
fn page_is_judged_as_text_and_as_json() {
    let origin = page();
    let text = petasos(["why", "--direct", &origin.url(), "--pause", "0"]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    assert!(text.stdout.contains("CACHEABLE as it is, for 60 seconds."), "{}", text.stdout);
    assert_eq!(origin.seen().len(), 7, "no validator, so no conditional question");
    let json = petasos(["why", "--direct", &origin.url(), "--pause", "0", "--json"]);
    assert!(json.stdout.starts_with("{\n  \"format\": 1,"), "{}", json.stdout);
    assert!(json.stdout.contains("\"cacheable\": \"yes\""), "{}", json.stdout);
}

#[test]
fn page_that_is_not_cacheable_exits_with_0() {
    let fields = ["Set-Cookie: PHPSESSID=1", "Cache-Control: private"];
    let origin = Origin::start(move |_| response("200 OK", &fields, b"x"));
    let output = petasos(["why", "--direct", &origin.url(), "--pause", "0"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stdout.contains("NOT CACHEABLE: store-refused-set-cookie"), "{}", output.stdout);
    assert!(output.stdout.contains("session_start()"), "{}", output.stdout);
}

#[test]
fn header_lines_are_sent_with_every_request() {
    let origin = page();
    let lines = ["-H", "Host: shop.test", "-H", "Cookie: theme=dark"];
    let output = petasos(["why", "--direct", &origin.url(), "--pause", "0"].into_iter().chain(lines));
    assert!(output.stdout.contains("pass-unknown-cookie"), "{}", output.stdout);
    for seen in origin.seen() {
        assert_eq!(seen.field("Host"), Some("shop.test"));
        assert!(seen.field("Cookie").unwrap().starts_with("theme=dark"), "{seen:?}");
    }
}

/// Examines a server that has this certificate, while trusting the certificate's authority.
fn ask_believing(origin: &Origin, certificate: Certificate) -> testkit::CommandOutput {
    let front = TlsFront::start(origin.address(), certificate);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("authority.pem");
    std::fs::write(&file, &front.authority_pem).unwrap();
    let variables = [("SSL_CERT_FILE", file.to_str().unwrap())];
    petasos_with(&variables, ["why", "--direct", &https(&front), "--pause", "0"])
}

#[test]
fn https_is_verified_by_the_systems_authorities() {
    let origin = page();
    let output = ask_believing(&origin, Certificate::Good);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains("CACHEABLE as it is"), "{}", output.stdout);
    let before = origin.seen().len();
    for (certificate, words) in
        [(Certificate::Expired, "has expired"), (Certificate::OtherName, "is not for `localhost`")]
    {
        let output = ask_believing(&origin, certificate);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    let front = TlsFront::start(origin.address(), Certificate::Good);
    let output = petasos(["why", "--direct", &https(&front), "--pause", "0"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    assert!(output.stderr.contains("certificate"), "{}", output.stderr);
    assert_eq!(origin.seen().len(), before, "a request went to a server that was not verified");
}

#[test]
fn report_says_that_the_certificate_was_not_verified() {
    let origin = page();
    let front = TlsFront::start(origin.address(), Certificate::Expired);
    let output = petasos(["why", "--direct", &https(&front), "--insecure", "--pause", "0"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stderr.contains("not verified"), "{}", output.stderr);
    assert!(output.stdout.contains("not verified"), "{}", output.stdout);
}

#[test]
fn question_that_cannot_be_asked_exits_with_2_and_a_reason() {
    let origin = page();
    let url = origin.url();
    let held = HeldPort::take();
    let nobody = format!("http://{}/", held.address());
    for (arguments, words) in [
        (&["--direct", "www.example.org"][..], "is not a URL"),
        (&["--direct", "ftp://localhost/"], "use http:// or https://"),
        (&["--direct", "http://a:b@localhost/"], "Authorization"),
        (&["--direct", &url, "-H", "Cookie"], "write 'Name: value'"),
        (&["--direct", &url, "-H", "Range: bytes=0-1"], "Petasos itself sets the field"),
        (&["--direct", &nobody], "nothing listens"),
        (&["--direct", "http://nothing.invalid/"], "has no address"),
        (&["--direct", &url, "--pause", "soon"], "--pause"),
        (&[&url, "--insecure"], "--direct"),
    ] {
        let output = petasos(["why"].iter().chain(arguments));
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn site_without_http_or_with_a_cut_response_is_explained() {
    let close = Origin::start(|_| vec![Action::Close]);
    let nonsense =
        Origin::start(|_| vec![Action::Send(b"220 mail.test ESMTP\r\n\r\n".to_vec()), Action::Close]);
    let truncated = Origin::start(|_| {
        vec![Action::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab".to_vec()), Action::Reset]
    });
    for (origin, words) in
        [(&close, "without a response"), (&nonsense, "is not HTTP/1"), (&truncated, "broke")]
    {
        let output = petasos(["why", "--direct", &origin.url(), "--pause", "0"]);
        assert_eq!(output.code, Some(2), "{words}");
        assert!(output.stderr.contains(words), "{}", output.stderr);
        assert_eq!(origin.seen().len(), 1, "a site in trouble is not asked again");
    }
}

#[test]
fn endless_page_is_read_up_to_a_limit() {
    let endless = Origin::start(|_| {
        let mut actions =
            vec![Action::Send(b"HTTP/1.1 200 OK\r\nCache-Control: s-maxage=9\r\n\r\n".to_vec())];
        actions.extend(std::iter::repeat_n(Action::Send(vec![b'x'; 1 << 20]), 64));
        actions
    });
    let output = petasos(["why", "--direct", &endless.url(), "--pause", "0"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("more than 10.5 MB"), "{}", output.stdout);
}

#[test]
fn running_edge_tells_the_verdict_of_a_request() {
    let origin = page();
    let edge = Edge::start(&origin.url(), &[]);
    let admin = edge.admin.to_string();
    let ask = |more: &[&str]| {
        let output = petasos(["why", "http://example.test/", "--admin", &admin].iter().chain(more));
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
        output.stdout
    };
    let text = ask(&[]);
    assert!(text.contains("MISS: miss-absent") && text.contains("stored     nothing"), "{text}");
    assert!(origin.seen().is_empty(), "asking fetches nothing");
    get(edge.address, "/", &[]);
    let text = ask(&[]);
    assert!(text.contains("HIT: hit-fresh") && text.contains("(lifetime 60 seconds)"), "{text}");
    let text = ask(&["-H", "Cookie: theme=dark"]);
    assert!(text.contains("PASS: pass-unknown-cookie"), "{text}");
    assert!(text.contains("noise_cookies = [\"theme\"]"), "{text}");
    let json = ask(&["--json", "-H", "Cookie: PHPSESSID=1"]);
    assert!(json.contains("\"verdict\": \"pass\"") && json.contains("\"name\": \"PHPSESSID\""), "{json}");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn without_an_edge_the_alternatives_are_named() {
    let origin = page();
    let held = HeldPort::take();
    let nobody = held.address().to_string();
    let other = origin.address().to_string();
    for (admin, words) in [
        (nobody.as_str(), "--direct"),
        ("unix:/nowhere/petasos.sock", "nothing listens at unix:/nowhere/petasos.sock"),
        (other.as_str(), "not from this version of Petasos"),
        ("8081", "has no port"),
    ] {
        let output = petasos(["why", "http://example.test/", "--admin", admin]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{admin}");
        assert!(output.stderr.contains(words), "{admin}: {}", output.stderr);
    }
    let edge = Edge::start(&origin.url(), &[]);
    let visitors = edge.address.to_string();
    let output = petasos(["why", "http://example.test/", "--admin", &visitors]);
    assert_eq!(
        output.code,
        Some(2),
        "the address for visitors passes the question to the application: {output:?}"
    );
    let output = petasos(["why", "http://example.test/", "--direct", "--admin", &visitors]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("--admin"), "{}", output.stderr);
}
