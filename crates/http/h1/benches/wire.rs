//! Measures parsing and writing in nanoseconds per message, compared with httparse alone, which is
//! the lower bound. Prints the best of several rounds, because other work on the machine only adds
//! time.
//!
//! `cargo bench -p petasos-h1`

#![expect(clippy::expect_used, reason = "the messages below are good")]
#![allow(clippy::print_stdout, reason = "the figures are the result")]

use bytes::BytesMut;
use clock::Clock;
use message::Method;
use petasos_h1::{
    BodyDecoder, BodyFraming, Limits, Strictness, parse_request, parse_response, skim_response,
    write_request_head, write_response_head,
};
use platform::SystemClock;
use std::hint::black_box;

const REQUEST: &[u8] = b"GET /product/city-bike?colour=red&size=m HTTP/1.1\r\n\
Host: shop.example\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-GB,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br\r\n\
Referer: http://shop.example/category/bikes\r\n\
Connection: keep-alive\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; consent=1\r\n\
Upgrade-Insecure-Requests: 1\r\n\
If-None-Match: \"5f1c-63a\"\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
Content-Type: text/html; charset=utf-8\r\n\
Content-Length: 12972\r\n\
Cache-Control: public, max-age=300\r\n\
ETag: \"5f1c-63a\"\r\n\
Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\n\
Vary: Accept-Encoding\r\n\
Age: 12\r\n\
Via: 1.1 petasos\r\n\
Cache-Status: petasos; hit\r\n\r\n";

const ROUNDS: u32 = 20;
const TIMES: u32 = 20_000;

fn main() {
    let clock = SystemClock::new();
    let measure = |what: &str, step: &mut dyn FnMut()| {
        let best = (0..ROUNDS).map(|_| round(&clock, step)).fold(f64::INFINITY, f64::min);
        println!("{what:<42} {best:>9.0} ns");
    };
    measure("request head, httparse alone", &mut || {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let parsed = httparse::Request::new(&mut headers).parse(black_box(REQUEST));
        black_box(parsed.expect("good"));
    });
    // Each head is first copied into a buffer, as on a connection.
    let mut buf = BytesMut::new();
    measure("request head, received and parsed, strict", &mut || {
        buf.extend_from_slice(black_box(REQUEST));
        black_box(parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict).expect("good"));
    });
    measure("response head, httparse alone", &mut || {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let parsed = httparse::Response::new(&mut headers).parse(black_box(RESPONSE));
        black_box(parsed.expect("good"));
    });
    let mut buf = BytesMut::new();
    measure("response head, received and parsed, strict", &mut || {
        buf.extend_from_slice(black_box(RESPONSE));
        let parsed = parse_response(&mut buf, &Method::Get, &Limits::DEFAULT, Strictness::Strict);
        black_box(parsed.expect("good"));
    });
    measure("response head, skimmed", &mut || {
        black_box(skim_response(black_box(RESPONSE), false, &Limits::DEFAULT).expect("good"));
    });
    let skim = skim_response(RESPONSE, false, &Limits::DEFAULT).expect("good").expect("whole");
    measure("the last field of a skimmed head", &mut || {
        black_box(skim.field(black_box(RESPONSE), "Cache-Status"));
    });
    measure_writer(&measure);
    let chunk = [&b"1000\r\n"[..], &[b'x'; 4096], b"\r\n0\r\n\r\n"].concat();
    measure("chunked body of one 4 KiB chunk, skimmed", &mut || {
        black_box(BodyDecoder::new(BodyFraming::Chunked).skim(black_box(&chunk)).expect("good"));
    });
    let slow =
        [b"GET / HTTP/1.1\r\nHost: h\r\nX: ".to_vec(), vec![b'y'; 4000], b"\r\n\r\n".to_vec()].concat();
    let mut received = 0;
    let mut buf = BytesMut::new();
    measure("4 KiB head, an octet a read: each read", &mut || {
        if received == slow.len() {
            received = 0;
        }
        buf.extend_from_slice(slow.get(received..=received).unwrap_or_default());
        received += 1;
        black_box(parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict).expect("good"));
    });
}

fn measure_writer(measure: &dyn Fn(&str, &mut dyn FnMut())) {
    let mut out = Vec::new();
    let mut buf = BytesMut::from(REQUEST);
    let request =
        parse_request(&mut buf, &Limits::DEFAULT, Strictness::Strict).expect("good").expect("whole");
    measure("request head, written", &mut || {
        out.clear();
        write_request_head(&mut out, black_box(&request.head)).expect("good");
    });
    let mut buf = BytesMut::from(RESPONSE);
    let response = parse_response(&mut buf, &Method::Get, &Limits::DEFAULT, Strictness::Strict);
    let response = response.expect("good").expect("whole");
    measure("response head, written", &mut || {
        out.clear();
        write_response_head(&mut out, black_box(&response.head)).expect("good");
    });
}

/// The average time of a step in one round, in nanoseconds.
fn round(clock: &SystemClock, step: &mut dyn FnMut()) -> f64 {
    let start = clock.monotonic();
    for _ in 0..TIMES {
        step();
    }
    clock.monotonic().since(start).as_nanos() as f64 / f64::from(TIMES)
}
