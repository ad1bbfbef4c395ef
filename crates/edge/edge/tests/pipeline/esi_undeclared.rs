//! Templates that do not declare themselves, on a site or route that says that HTML is a template.

use crate::coded_forms::{FRESH, HTML};
use crate::esi::{STORED, fragment};
use crate::routes::plan;
use crate::support::{Stage, connect, reason, start};
use config::{EdgePlan, LoggedIn};
use testkit::{Origin, response};

const TAG: &str = "ETag: \"1\"";

fn with_undeclared(plan: &mut EdgePlan) {
    plan.sites[0].esi = true;
    plan.sites[0].esi_undeclared = true;
}

/// The pages `/html`, which is a template, and others with the same text or without markup.
fn site() -> Stage {
    const MARKUP: &[u8] = b"a<esi:include src='/b'/>c";
    Stage::with(with_undeclared, |seen| match seen.target() {
        "/html" => response("200 OK", &[STORED, HTML, TAG], MARKUP),
        "/private" => response("200 OK", &["Cache-Control: private", HTML], MARKUP),
        "/json" => response("200 OK", &[STORED, "Content-Type: application/json", TAG], MARKUP),
        "/plain" => response("200 OK", &[STORED, HTML, TAG], b"<p>no markup"),
        "/coded" => response("200 OK", &[STORED, HTML, "Content-Encoding: gzip"], b"x"),
        other => fragment(other),
    })
}

#[test]
fn html_is_a_template_where_the_settings_say_so() {
    let stage = site();
    for target in ["/html", "/html", "/private", "/private"] {
        let answer = stage.get(target, &[]);
        assert_eq!((answer.text(), answer.field("ETag")), ("a/bc", None), "{target}");
        assert_eq!(answer.field("Cache-Control"), Some("private, no-store"), "{target}");
    }
    assert_eq!((stage.origin.count("/html"), stage.origin.count("/b")), (1, 1));
    assert_eq!(reason(&stage.get("/coded", &[])), "esi-refused");
}

#[test]
fn other_types_and_html_without_markup_stay_as_they_are() {
    let stage = site();
    let json = stage.get("/json", &[]);
    assert_eq!((json.text(), json.field("ETag")), ("a<esi:include src='/b'/>c", Some("\"1\"")));
    for expected in [None, Some("\"1\"")] {
        // The end of the content is not known when the first response begins.
        let answer = stage.get("/plain", &[]);
        assert_eq!((answer.text(), answer.field("ETag")), ("<p>no markup", expected));
        assert_eq!(answer.field("Cache-Control"), Some("max-age=600"));
    }
    assert_eq!(stage.get("/plain", &["If-None-Match: \"1\""]).status, 304);
}

#[test]
fn route_alone_makes_templates_of_its_pages() {
    let markup = b"<esi:include src='/x'/>";
    let origin = || {
        Origin::start(move |seen| match seen.target() {
            "/x" => response("200 OK", &[STORED, HTML], b"x"),
            _ => response("200 OK", &[STORED, HTML], markup),
        })
    };
    let (main, other) = (origin(), origin());
    let text = "[[site]]\norigin = 'ORIGIN'\n\
                [[site.route]]\npath = ['/shop/*']\nesi = true\nesi_undeclared = true\n";
    let edge = start(plan(text, &main, &other));
    for _ in 0..2 {
        assert_eq!(connect(&edge).get("/shop/", &[]).text(), "x");
        assert_eq!(connect(&edge).get("/page", &[]).text().as_bytes(), markup);
    }
}

#[test]
fn no_copy_of_a_session_is_a_template() {
    let change = |plan: &mut EdgePlan| {
        with_undeclared(plan);
        plan.sites[0].logged_in = LoggedIn::Private;
    };
    let stage = Stage::with(change, |seen| match seen.target() {
        "/" => response("200 OK", &[FRESH, HTML], b"a<esi:include src='/b'/>c"),
        other => fragment(other),
    });
    for _ in 0..3 {
        assert_eq!(stage.get("/", &["Cookie: sessionid=1"]).text(), "a/bc");
    }
    assert_eq!(stage.origin.count("/"), 3);
}
