//! The real binary in front of an origin that shows pages to some addresses only. No order of
//! requests, forged field or race opens them to others.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]

use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Action, Edge, Origin, Seen, get, response};

const STAFF: &str = "203.0.113.5";
const STRANGER: &str = "198.51.100.9";
const CONFIGURATION: &str = "trusted_proxies = ['127.0.0.1']\n";
const REFUSALS: [&str; 5] =
    ["401 Unauthorized", "403 Forbidden", "407 Proxy", "429 Too Many Requests", "451 Unavailable"];

/// Fields with which a stranger claims to be this machine, or has its own address dropped.
const FORGERIES: [&str; 6] = [
    "X-Real-IP: 127.0.0.1",
    "Forwarded: for=127.0.0.1",
    "X_Forwarded_For: 127.0.0.1",
    "X-Client-IP: 127.0.0.1",
    "Connection: close, X-Forwarded-For",
    "Cookie: session=1",
];

/// The client address as nginx' realip and Apache's remoteip derive it: the last address except
/// those of proxies on this machine. Without the field it is the address of the connection, which
/// is loopback.
fn client_of(seen: &Seen) -> String {
    let chain = seen.field("X-Forwarded-For").unwrap_or_default();
    let mut hops = chain.rsplit(',').map(str::trim).filter(|hop| !hop.is_empty() && *hop != "127.0.0.1");
    hops.next().unwrap_or("127.0.0.1").to_owned()
}

/// A page for the staff and this machine, wrongly declared public. Other clients get a refusal.
fn restricted(seen: &Seen) -> Vec<Action> {
    let refusal = seen.target().bytes().map(usize::from).sum::<usize>() % REFUSALS.len();
    if [STAFF, "127.0.0.1"].contains(&&client_of(seen)[..]) {
        return response("200 OK", &["Cache-Control: public, max-age=600", "ETag: \"1\""], b"secret");
    }
    response(REFUSALS[refusal], &["Cache-Control: public, max-age=600"], b"refused")
}

fn ask(edge: &Edge, target: &str, client: &str, field: &str) -> bool {
    let own = format!("X-Forwarded-For: {client}");
    let mut fields = vec![&own[..]];
    fields.extend((!field.is_empty()).then_some(field));
    get(edge.address, target, &fields).text() == "secret"
}

#[test]
fn restricted_pages_stay_closed_in_every_order() {
    let origin = Origin::start(restricted);
    let edge = Edge::configured(&origin.url(), CONFIGURATION, &[]);
    let mut asked = 0;
    let mut opened = 0;
    let mut refused_staff = 0;
    for page in 0..20 {
        let target = format!("/server-status?{page}");
        let strangers_first = page % 2 == 0;
        for turn in 0..4 {
            if (turn % 2 == 0) == strangers_first {
                let forgery =
                    FORGERIES.get((page + turn) % (FORGERIES.len() + 1)).copied().unwrap_or_default();
                asked += 1;
                opened += usize::from(ask(&edge, &target, STRANGER, forgery));
            } else {
                refused_staff += usize::from(!ask(&edge, &target, STAFF, ""));
            }
        }
    }
    let unnamed = origin.seen().iter().filter(|seen| client_of(seen) == "127.0.0.1").count();
    let fetches = origin.seen().len();
    println!("attack: restricted pages: {opened} of {asked} strangers let in, at most 0");
    println!("attack: staff at restricted pages: {refused_staff} of 40 refused, at most 0");
    println!("attack: requests that look like this machine's: {unnamed} of {fetches}, at most 0");
    println!("attack: fetches of 20 restricted pages asked 80 times: {fetches}, at most 100");
    assert_eq!((opened, refused_staff, unnamed), (0, 0, 0));
    assert!(fetches <= 100, "{fetches} fetches");
}

#[test]
fn restricted_pages_stay_closed_in_a_race() {
    let origin = Origin::start(restricted);
    let edge = Edge::configured(&origin.url(), CONFIGURATION, &[]);
    let rounds = if std::env::var("PETASOS_ATTACK").is_ok_and(|form| form == "long") { 100 } else { 10 };
    let wrong = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let edge = &edge;
            let wrong = &wrong;
            scope.spawn(move || {
                let client = if number % 4 == 0 { STAFF } else { STRANGER };
                for page in 0..rounds {
                    let sees = ask(edge, &format!("/race?{page}"), client, "");
                    wrong.fetch_add(usize::from(sees != (client == STAFF)), Ordering::SeqCst);
                }
            });
        }
    });
    let wrong = wrong.load(Ordering::SeqCst);
    println!("attack: restricted pages in a race: {wrong} of {} answers wrong, at most 0", rounds * 8);
    assert_eq!(wrong, 0);
}

#[test]
fn origin_that_bans_the_shared_address_serves_all_visitors() {
    let origin = Origin::start(|seen| {
        if client_of(seen) == "192.0.2.1" {
            return response("403 Forbidden", &["Cache-Control: public, max-age=600"], b"banned");
        }
        response("200 OK", &["Cache-Control: public, max-age=600"], b"secret")
    });
    let edge = Edge::configured(&origin.url(), CONFIGURATION, &[]);
    let failed = (0..40).filter(|page| !ask(&edge, &format!("/{}", page % 8), STRANGER, "")).count();
    let fetches = origin.seen().len();
    println!("attack: visitors refused by a ban of the constant: {failed} of 40, at most 0");
    println!("attack: fetches of 8 pages asked 40 times under that ban: {fetches}, at most 48");
    assert_eq!(failed, 0);
    assert!(fetches <= 48, "{fetches} fetches");
}
