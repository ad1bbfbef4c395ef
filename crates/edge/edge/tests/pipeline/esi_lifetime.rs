//! The lifetime of pages with fragments in browsers (`esi_lifetime = "shortest"`).

use crate::coded_forms::GZIP;
use crate::esi::{TEMPLATE, with_esi};
use crate::support::Stage;
use config::EdgePlan;
use testkit::{Response, response};

const CDN: &str = "CDN-Cache-Control: max-age=9000";

fn with_shortest(plan: &mut EdgePlan) {
    with_esi(plan);
    plan.sites[0].esi_shortest_lifetime = true;
}

/// A stage whose page `/` is this template. Fragments name their fields, after a slash.
fn stage(template: &'static str) -> Stage {
    Stage::with(with_shortest, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, "Cache-Control: max-age=900", CDN], template.as_bytes()),
        "/short" => response("200 OK", &["Cache-Control: max-age=300"], b"s"),
        "/long" => response("200 OK", &["Cache-Control: max-age=3000"], b"l"),
        "/here" => response("200 OK", &["Cache-Control: max-age=0, s-maxage=600"], b"h"),
        "/private" => response("200 OK", &["Cache-Control: private, max-age=60"], b"p"),
        "/language" => response("200 OK", &["Cache-Control: max-age=60", "Vary: Accept-Language"], b"v"),
        _ => response("404 Not Found", &["Cache-Control: max-age=60"], b"no"),
    })
}

/// The lifetime of the second response to a request for the page, 100 seconds after the first one.
fn lifetime(template: &'static str, fields: &[&str]) -> String {
    let stage = stage(template);
    stage.get("/", fields);
    stage.pass(100);
    stated(&stage.get("/", fields))
}

fn stated(answer: &Response) -> String {
    assert_eq!((answer.status, answer.field("CDN-Cache-Control"), answer.field("ETag")), (200, None, None));
    assert_eq!(answer.field("Age"), None);
    answer.field("Cache-Control").unwrap().to_owned()
}

#[test]
fn page_states_the_shortest_lifetime_of_its_parts() {
    let both = "<esi:include src='/long'/><esi:include src='/short'/>";
    for fields in [&[][..], &[GZIP]] {
        assert_eq!(lifetime(both, fields), "private, max-age=200");
    }
    assert_eq!(lifetime("<esi:include src='/long'/>", &[]), "private, max-age=800", "that of the template");
    let tried =
        "<esi:try><esi:attempt><esi:include src='/short'/></esi:attempt><esi:except>x</esi:except></esi:try>";
    assert_eq!(lifetime(tried, &[]), "private, max-age=200");
}

#[test]
fn page_with_a_part_that_is_not_for_all_is_not_stored() {
    for template in [
        "<esi:include src='/private'/>",
        "<esi:include src='/language'/>",
        "<esi:include src='/here'/>",
        "<esi:include src='/none' onerror='continue'/>",
        "<esi:include src='/short'/><esi:vars>$(HTTP_HOST)</esi:vars>",
        "<esi:include src='/short?$(QUERY_STRING)'/>",
        "<esi:choose><esi:when test='1==1'><esi:include src='/short'/></esi:when></esi:choose>",
        "<esi:try><esi:attempt>x</esi:attempt><esi:except><esi:include src='/short'/></esi:except></esi:try>",
    ] {
        assert_eq!(lifetime(template, &[]), "private, no-store", "{template}");
    }
    let session = &["Cookie: sessionid=1"];
    assert_eq!(lifetime("<esi:include src='/short'/>", session), "private, no-store");
}

#[test]
fn page_that_waits_for_a_fragment_is_not_stored() {
    let stage = stage("<esi:include src='/short'/>");
    assert_eq!(stated(&stage.get("/", &[])), "private, no-store", "nothing was stored");
    assert_eq!(stated(&stage.get("/", &[])), "private, max-age=300");
    assert_eq!(stage.ask("PURGE", "/short", &[]).status, 200);
    assert_eq!(stated(&stage.get("/", &[])), "private, no-store", "the fragment is fetched");
    assert_eq!(stated(&stage.ask("HEAD", "/", &[])), "private, no-store");
}
