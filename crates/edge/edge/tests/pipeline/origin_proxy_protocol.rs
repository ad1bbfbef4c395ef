//! Origins that learn the client of each connection by the PROXY protocol.

use crate::support::{self, plan};
use proxy_protocol::{Header, Parsed, Version};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use testkit::{Certificate, Origin, TlsFront, response};

/// The headers with which connections began, in the order of the connections.
type Headers = Arc<Mutex<Vec<Header>>>;

/// A server that reads the header of each connection and connects the rest with `origin`.
fn reader(origin: SocketAddr) -> (SocketAddr, Headers) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let headers = Headers::default();
    let record = Arc::clone(&headers);
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            record.lock().unwrap().push(header(&mut client));
            let origin = TcpStream::connect(origin).unwrap();
            pipe(client.try_clone().unwrap(), origin.try_clone().unwrap());
            pipe(origin, client);
        }
    });
    (address, headers)
}

fn header(client: &mut TcpStream) -> Header {
    let mut octets = Vec::new();
    loop {
        match proxy_protocol::parse(&octets).unwrap() {
            Parsed::Header(header) => return header,
            Parsed::More(bytes) => {
                let begun = octets.len();
                octets.resize(begun + bytes, 0);
                client.read_exact(&mut octets[begun..]).unwrap();
            }
        }
    }
}

fn pipe(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        // Either side may end the connection at any time.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}

fn origin() -> Origin {
    Origin::start(|seen| {
        let fields = if seen.target().starts_with("/own") {
            ["Cache-Control: private"]
        } else {
            ["Cache-Control: max-age=60"]
        };
        response("200 OK", &fields, seen.field("X-Forwarded-For").unwrap_or("none").as_bytes())
    })
}

/// The addresses in the headers, those of shared fetches without a port.
fn named(headers: &Headers) -> Vec<String> {
    let headers = headers.lock().unwrap();
    let address = |header: &Header| match header {
        Header::Client { address, is_secured: None } if address.port() == 0 => address.ip().to_string(),
        Header::Client { address, is_secured: None } => address.to_string(),
        other => panic!("{other:?}"),
    };
    headers.iter().map(address).collect()
}

const SESSION: [&str; 1] = ["Cookie: session=1"];

#[test]
fn each_client_has_a_connection_and_shared_fetches_have_one() {
    for version in [Version::Text, Version::Binary] {
        let (origin, own) = (origin(), [127, 0, 0, 3]);
        let (address, headers) = reader(origin.address());
        let mut plan = plan(&format!("http://{address}"));
        plan.sites[0].origin_proxy_protocol = Some(version);
        let edge = support::start(plan);
        for target in ["/a", "/b", "/c"] {
            assert_eq!(support::connect(&edge).get(target, &[]).text(), "192.0.2.1");
        }
        assert_eq!(named(&headers), ["192.0.2.1"], "one connection, with the placeholder address");
        let mut client = testkit::Client::connect_from(own, support::address(&edge), 1 << 16);
        for _ in 0..2 {
            assert_eq!(client.get("/own", &SESSION).text(), "127.0.0.3");
        }
        let named = named(&headers);
        assert_eq!(named.len(), 3, "{named:?}");
        assert!(named[1].starts_with("127.0.0.3:") && named[1] == named[2], "{named:?}");
    }
}

#[test]
fn header_precedes_the_handshake_with_the_origin() {
    let origin = origin();
    let front = TlsFront::start(origin.address(), Certificate::Good);
    let (address, headers) = reader(front.address);
    let mut plan = plan(&format!("https://{address}"));
    plan.sites[0].origin_proxy_protocol = Some(Version::Binary);
    plan.sites[0].origin_tls.as_mut().unwrap().is_verified = false;
    let edge = support::start(plan);
    assert_eq!(support::connect(&edge).get("/", &[]).text(), "192.0.2.1");
    assert_eq!(support::connect(&edge).get("/other", &[]).text(), "192.0.2.1");
    assert_eq!(named(&headers), ["192.0.2.1"]);
}

#[test]
fn client_that_a_front_proxy_states_is_stated_to_the_origin() {
    let origin = origin();
    let (address, headers) = reader(origin.address());
    let mut plan = plan(&format!("http://{address}"));
    plan.sites[0].origin_proxy_protocol = Some(Version::Text);
    plan.listeners[0].proxy_protocol =
        std::iter::once("127.0.0.2".parse::<address::Prefix>().unwrap()).collect();
    let edge = support::start(plan);
    let mut proxy = testkit::Client::connect_from([127, 0, 0, 2], support::address(&edge), 1 << 16);
    proxy.send(
        "PROXY TCP6 2001:db8::7 ::1 55 80\r\nGET /own HTTP/1.1\r\nHost: a\r\nCookie: session=1\r\n\r\n",
    );
    assert_eq!(proxy.read().text(), "2001:db8::7");
    assert_eq!(named(&headers), ["[2001:db8::7]:55"]);
}
