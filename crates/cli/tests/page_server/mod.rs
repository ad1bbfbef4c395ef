//! A server of one small page. Before it answers the second visitor, it examines the first
//! visitor's connection.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest time that the server waits for a connection to end before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server. Its threads end with the test process.
pub(crate) struct PageServer {
    address: SocketAddr,
    found: Arc<AtomicBool>,
}

/// The first visitor's connection from the server's side.
pub(crate) struct FirstConnection(TcpStream);

impl FirstConnection {
    /// Whether the visitor has kept the connection open.
    pub(crate) fn is_open(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether the visitor closes the connection within [`PATIENCE`].
    pub(crate) fn ends(&self) -> bool {
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(self.0.peek(&mut [0]), Ok(0))
    }
}

impl PageServer {
    /// Starts a server. It calls `look` with the first connection when the document is requested
    /// for the second time.
    pub(crate) fn start(look: impl Fn(&FirstConnection) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let found = Arc::<AtomicBool>::default();
        let look = Arc::new(look);
        let (first, documents) =
            (Arc::<Mutex<Option<FirstConnection>>>::default(), Arc::<AtomicUsize>::default());
        let told = Arc::clone(&found);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                first.lock().unwrap().get_or_insert_with(|| FirstConnection(stream.try_clone().unwrap()));
                let first = Arc::clone(&first);
                let documents = Arc::clone(&documents);
                let look = Arc::clone(&look);
                let found = Arc::clone(&found);
                std::thread::spawn(move || {
                    serve(stream, || {
                        if documents.fetch_add(1, Ordering::SeqCst) == 1 {
                            let is_so = first.lock().unwrap().as_ref().is_some_and(|first| look(first));
                            found.store(is_so, Ordering::SeqCst);
                        }
                    });
                });
            }
        });
        Self { address, found: told }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The result of `look`; false if it was not called.
    pub(crate) fn was_true(&self) -> bool {
        self.found.load(Ordering::SeqCst)
    }
}

/// Answers every request of a connection and calls `on_document` before each document.
fn serve(mut stream: TcpStream, on_document: impl Fn()) {
    let reader = BufReader::new(stream.try_clone().unwrap());
    let mut is_document = false;
    for line in reader.lines() {
        let Ok(line) = line else { return };
        if line.starts_with("GET ") {
            is_document = line.starts_with("GET / ");
        }
        if !line.is_empty() {
            continue;
        }
        if is_document {
            on_document();
        }
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p>x";
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
