//! The WordPress REST API: responses marked `public` are shared; all others pass with their
//! client's fields.

use crate::support::{Stage, reason};
use profiles::Policy;
use testkit::response;

const PUBLIC: &str = "Cache-Control: public, max-age=60";
const TARGETS: [&str; 2] = ["/wp-json/wp/v2/posts?per_page=5", "/?rest_route=/wp/v2/posts"];
const VISITOR: &[&str] = &["User-Agent: a visitor's", "Accept-Language: fr"];

fn stage(fields: &'static [&'static str]) -> Stage {
    let wordpress = |plan: &mut config::EdgePlan| {
        plan.sites.iter_mut().for_each(|site| site.policy = Policy::wordpress());
    };
    Stage::with(wordpress, move |seen| {
        if seen.head.starts_with("POST") {
            return response(
                "302 Found",
                &["Location: /wp-admin/post.php?post=1&action=edit&message=6"],
                b"",
            );
        }
        response("200 OK", fields, b"[]")
    })
}

#[test]
fn rest_response_marked_public_is_shared() {
    for target in TARGETS {
        let stage = stage(&[PUBLIC]);
        let reasons: Vec<_> = (0..4).map(|_| reason(&stage.get(target, VISITOR)).to_owned()).collect();
        assert_eq!(reasons, ["pass-unmarked", "miss-absent", "hit-fresh", "hit-fresh"]);
        assert_eq!(
            stage.last_seen().field("Accept-Language"),
            None,
            "the shared fetch has no client's fields"
        );
        stage.pass(61);
        assert_eq!(reason(&stage.get(target, VISITOR)), "miss-expired");
        let cookie = "Cookie: wordpress_logged_in_1=editor";
        assert_eq!(reason(&stage.get(target, &[cookie])), "pass-cookie");
        stage.ask("POST", "/wp-admin/post.php", &["Content-Length: 0", cookie]);
        assert_eq!(reason(&stage.get(target, VISITOR)), "miss-invalidated", "a save makes it stale");
    }
}

#[test]
fn rest_response_without_public_passes() {
    let said: [&[&str]; 5] = [
        &[],
        &["Cache-Control: max-age=60"],
        &["Cache-Control: public"],
        &["Cache-Control: public, max-age=60", "Set-Cookie: a=b"],
        &["Cache-Control: public, max-age=60, no-store"],
    ];
    for fields in said {
        for target in TARGETS {
            let stage = stage(fields);
            for _ in 0..3 {
                assert_eq!(reason(&stage.get(target, VISITOR)), "pass-unmarked", "{fields:?}");
                assert_eq!(stage.last_seen().field("User-Agent"), Some("a visitor's"));
            }
        }
    }
}

#[test]
fn rest_response_no_longer_marked_public_is_not_shared() {
    let stage = stage(&[PUBLIC]);
    let target = TARGETS[0];
    (0..3).for_each(|_| assert_eq!(stage.get(target, &[]).text(), "[]"));
    stage.becomes(|_| response("200 OK", &["Cache-Control: max-age=60"], b"[1]"));
    stage.pass(61);
    assert_eq!(reason(&stage.get(target, &[])), "store-refused-unmarked");
    assert_eq!(stage.get(target, VISITOR).text(), "[1]");
    assert_eq!(stage.last_seen().field("User-Agent"), Some("a visitor's"));
    stage.pass(121);
    assert_eq!(reason(&stage.get(target, VISITOR)), "pass-unmarked");
}
