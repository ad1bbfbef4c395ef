//! An edge with the default configuration, in front of an origin that responds like WordPress. The
//! traffic is that of an ordinary site, with a purge every minute. Measures the share of requests
//! that never reach the origin.

use crate::support::{Stage, connect, reason};
use testkit::traffic::{RATE, RequestSequence, SequenceRequest};
use testkit::{Action, Seen, response};

const REQUESTS: u32 = 20_000;
const PAGES: usize = 500;
const SEED: u64 = 0x5eed_0203;

/// Minimum share of requests that are answered from the store.
const HITS_MIN: f64 = 0.95;

/// A page as WordPress sends it to anonymous visitors, with a language plug-in that sets its cookie
/// on every tenth page.
fn blog(seen: &Seen) -> Vec<Action> {
    let page = format!("<html><head><link href='/wp-content/x.css'></head><p>{}</p>", seen.target());
    let link = "Link: <http://example.test/wp-json/>; rel=\"https://api.w.org/\"";
    let fields =
        ["Server: Apache", "X-Powered-By: PHP/8.2.29", link, "Content-Type: text/html; charset=UTF-8"];
    let language = ["Set-Cookie: pll_language=en; path=/; SameSite=Lax"];
    let sets_language = seen.target().ends_with("0/");
    let fields: Vec<_> = fields.into_iter().chain(language.into_iter().filter(|_| sets_language)).collect();
    response("200 OK", &fields, page.as_bytes())
}

#[test]
fn origin_receives_at_most_one_request_in_twenty() {
    let stage = Stage::new(blog);
    let mut traffic = RequestSequence::new(SEED, (0..PAGES).map(|page| format!("/{page}/")).collect());
    let mut client = connect(&stage.edge);
    let mut hits = 0;
    for count in 1..=REQUESTS {
        let SequenceRequest { page, target, fields } = traffic.visit();
        let fields: Vec<_> = fields.iter().map(|field| &field[..]).collect();
        let answer = client.get(&target, &fields);
        assert!(answer.text().contains(&format!("<p>/{page}/</p>")), "{target}: {}", answer.text());
        assert_eq!(answer.field("Set-Cookie").filter(|_| reason(&answer).starts_with("hit")), None);
        hits += u32::from(reason(&answer).starts_with("hit"));
        if count % RATE == 0 {
            stage.pass(1);
        }
        if count % (60 * RATE) == 0 {
            let purged = traffic.page();
            assert_eq!(stage.ask("PURGE", &format!("/{purged}/"), &[]).status, 200);
        }
    }
    let ratio = f64::from(hits) / f64::from(REQUESTS);
    println!("{hits} of {REQUESTS} requests, {:.2}%, were answered from the store", 100.0 * ratio);
    assert!(ratio >= HITS_MIN, "{hits} of {REQUESTS}");
    // No cookies and no tracking parameters were forwarded.
    let seen = stage.origin.seen();
    assert_eq!(seen.len(), (REQUESTS - hits) as usize);
    // The first request came before the profile was detected.
    assert!(seen.iter().skip(1).all(|seen| seen.field("Cookie").is_none() && !seen.target().contains('?')));
}
