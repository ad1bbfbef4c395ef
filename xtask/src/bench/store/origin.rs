//! The application whose pages fill the caches. `/BYTES/NUMBER` is a page of that size. Each page
//! has four of 50,000 tags. All pages are divided into 100 parts, and a further tag names the
//! page's part.
//!
//! Invariant: the same target always has the same response. The content begins with the page's
//! number, so that a response under a wrong cache key is noticed. Each connection has a thread.
//! Requests must have no content. Every request is counted.

use anyhow::Result;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Length of the page number at the start of the content, in bytes. No page is smaller.
pub(super) const NUMBER_BYTES: usize = 20;
/// Size of the largest page, in bytes.
pub(super) const PAGE_BYTES_MAX: usize = 1 << 20;
/// Number of parts that all pages are divided into. One page in this many has a given part's tag.
pub(super) const PARTS: u64 = 100;
/// Number of tags. A page has four of them. Even pages use the first half and odd pages the second,
/// so that purges by tag can hit odd pages only.
pub(super) const TAGS: u64 = 50_000;
/// Header field that carries the tags.
pub(super) const TAG_HEADER: &str = "X-Cache-Tags";

const TAGS_OF_PAGE: u64 = 4;
/// Stack of a connection's thread, in bytes. The thread only reads a head and writes slices.
const STACK_BYTES: usize = 128 << 10;

/// A page of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BenchPage {
    pub(super) bytes: u32,
    pub(super) number: u64,
}

/// The application. It serves until the program ends.
pub(super) struct PageOrigin {
    pub(super) address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl PageOrigin {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        let filler = Arc::new(vec![b'x'; PAGE_BYTES_MAX]);
        std::thread::Builder::new().name("origin".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let requests = Arc::clone(&counted);
                let filler = Arc::clone(&filler);
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
                let served = thread.spawn(move || {
                    // An error means that the cache has closed the connection, and needs no
                    // handling.
                    let _ = serve(stream, &requests, &filler);
                });
                if let Err(error) = served {
                    eprintln!("error: the application has no thread for a connection: {error}");
                }
            }
        })?;
        Ok(Self { address, requests })
    }

    /// Number of requests that the application has received.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl BenchPage {
    pub(super) fn target(self) -> String {
        format!("/{}/{}", self.bytes, self.number)
    }

    /// Parses the page from a request line.
    fn asked(line: &str) -> Option<Self> {
        let mut parts = line.split(' ').nth(1)?.strip_prefix('/')?.split('/');
        Some(Self { bytes: parts.next()?.parse().ok()?, number: parts.next()?.parse().ok()? })
    }

    /// First bytes of the content.
    pub(super) fn beginning(self) -> String {
        format!("{:0NUMBER_BYTES$}", self.number)
    }

    /// Head of the response, as the application sends it.
    pub(super) fn head(self) -> String {
        let Self { bytes, number } = self;
        let tags: Vec<String> = (0..TAGS_OF_PAGE).map(|place| tag(tag_number(number, place))).collect();
        format!(
            "HTTP/1.1 200 OK\r\nServer: Apache/2.4.62 (Debian)\r\n\
             Cache-Control: public, max-age=86400\r\nETag: \"{number:x}-5b4cd3\"\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\r\nContent-Type: text/html; charset=UTF-8\r\n\
             Content-Language: en\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: SAMEORIGIN\r\n\
             {TAG_HEADER}: {} {}\r\nContent-Length: {bytes}\r\n\r\n",
            tags.join(" "),
            part(number % PARTS)
        )
    }
}

/// Name of a tag.
pub(super) fn tag(number: u64) -> String {
    format!("node:{number}")
}

/// Name of the tag of a part.
pub(super) fn part(number: u64) -> String {
    format!("part:{number}")
}

fn tag_number(page: u64, place: u64) -> u64 {
    // Knuth's multiplicative hash scatters the pages over the tags of their half.
    let half = TAGS / 2;
    page.wrapping_mul(2_654_435_761).wrapping_add(place * 12_347) % half + page % 2 * half
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, requests: &AtomicU64, filler: &[u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let asked = BenchPage::asked(&line);
        while !line.trim_end().is_empty() {
            line.clear();
            lines.read_line(&mut line)?;
        }
        // Relaxed is enough: the response is sent after the addition, and the count is read after
        // the response has arrived.
        requests.fetch_add(1, Ordering::Relaxed);
        let Some(page) = asked else {
            stream.write_all(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n")?;
            continue;
        };
        let answer = page.head() + &page.beginning();
        let rest = filler.get(NUMBER_BYTES..page.bytes as usize).unwrap_or_default();
        if rest.len() < PAGE_BYTES_MAX / 16 {
            // Head and content in one write, to save a system call.
            stream.write_all(&[answer.as_bytes(), rest].concat())?;
        } else {
            stream.write_all(answer.as_bytes())?;
            stream.write_all(rest)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BenchPage, TAGS, tag_number};

    #[test]
    fn page_is_parsed_from_its_own_request_line() {
        let page = BenchPage { bytes: 1_000, number: 77 };
        assert_eq!(BenchPage::asked(&format!("GET {} HTTP/1.1\r\n", page.target())), Some(page));
        assert_eq!(BenchPage::asked("GET / HTTP/1.1\r\n"), None);
        assert_eq!(page.beginning(), "00000000000000000077");
    }

    #[test]
    fn even_and_odd_pages_share_no_tags() {
        for page in 0..10_000 {
            for place in 0..4 {
                let tag = tag_number(page, place);
                assert!(tag < TAGS && (tag >= TAGS / 2) == (page % 2 == 1), "{page}: {tag}");
            }
        }
    }
}
