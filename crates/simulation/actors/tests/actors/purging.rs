//! The client that purges, against a server that answers every purge.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::town::Town;
use bytes::BytesMut;
use petasos_actors::{PurgePlan, Purger, lock};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use world::Random;

/// A server that answers each request with this response.
fn server(answer: &'static str) -> DuplexStream {
    let (near, mut far) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let mut input = BytesMut::new();
        while far.read_buf(&mut input).await.is_ok_and(|bytes| bytes > 0) {
            if far.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    near
}

async fn purge(answer: &'static str) -> Town {
    let town = Town::random(2);
    let mut plan = PurgePlan::random(&mut Random::new(2), 1, &town.plan());
    // The server has no pages to look at.
    plan.purges.iter_mut().for_each(|purge| purge.looks_after_ms = None);
    let connect = move || Some(server(answer));
    let ledger = Arc::clone(&town.ledger);
    let site = Arc::clone(&town.site);
    let purger = Purger::new(plan, site, ledger, town.timeline, Some("secret".to_owned()), connect, connect);
    tokio::spawn(purger.run()).await.unwrap();
    town
}

#[tokio::test(start_paused = true)]
async fn purges_follow_their_edits_and_are_recorded() {
    let town = purge("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
    town.is_right();
    let ledger = lock(&town.ledger);
    let count = *ledger.tally().purges.get("Done").unwrap();
    assert!(count > 0);
    let log = ledger.log().join("\n");
    assert_eq!(log.matches("is answered: Done").count() as u64, count);
    assert!(log.contains("is edited, version 2"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn refused_purges_are_violations() {
    let town = purge("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    assert!(lock(&town.ledger).violations()[0].text.contains("was refused with status 403"));
}
