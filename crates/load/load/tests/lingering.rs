//! Counts the descriptors of a run with lingering HTTP/2 connections. The only test of its process,
//! because other tests would open descriptors as well.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use address::HttpUrl;
use bytes::Bytes;
use h2::server;
use http::Response;
use petasos_load::Control;
use platform::SystemClock;
use record::{Plan, Protocol, Stop, Think};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Starts an HTTP/2 server that closes each connection after one response. At each request it
/// updates the highest number of descriptors that this process has open.
fn serve() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let open_max = Arc::<AtomicUsize>::default();
    let highest = Arc::clone(&open_max);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let mut connection = server::handshake(stream).await.unwrap();
                let (_, mut respond) = connection.accept().await.unwrap().unwrap();
                highest.fetch_max(descriptors(), Ordering::SeqCst);
                let mut content = respond.send_response(Response::new(()), false).unwrap();
                content.send_data(Bytes::from_static(b"hello"), true).unwrap();
                // The client receives the response before the connection ends.
                let _ = timeout(Duration::from_millis(5), connection.accept()).await;
            }
        });
    });
    (address, open_max)
}

/// Number of descriptors that this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn lingering_connection_is_dropped_when_the_server_closes_it() {
    let (address, open_max) = serve();
    let before = descriptors();
    let mut plan = Plan::new(HttpUrl::parse(&format!("http://{address}/")).unwrap());
    plan.stop = Stop { requests: Some(50), ..Stop::default() };
    // While the user thinks, the thread notices that the connection is closed.
    plan.think = Think::Constant(Duration::from_millis(10));
    plan.linger = Duration::from_secs(60);
    let plan = Plan { http: Protocol::H2, keep_alive: false, threads: 1, ..plan };
    let outcome = petasos_load::run(&plan, &SystemClock::new(), &Control::new()).unwrap();
    assert_eq!((outcome.good, outcome.connections), (50, 50));
    let opened = open_max.load(Ordering::SeqCst) - before;
    assert!(opened < 40, "{opened} descriptors for one user");
}
