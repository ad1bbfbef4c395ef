//! Responses and reports for tests.

use crate::report::{Comparison, FORMAT, LoadReport, PageClass, PageReport, TrialReport};
use crate::sameness::Sameness;
use address::HttpUrl;
use message::{ResponseHead, Status};
use semantics::Moment;
use why::{FetchedResponse, plain_request};

/// A response for `http://shop.test/` with fields as `Name: value`.
pub(crate) fn answer(status: u16, fields: &[&str], content: &str) -> FetchedResponse {
    let mut head = ResponseHead::new(Status::from_code(status).unwrap());
    for (name, value) in fields.iter().filter_map(|line| line.split_once(": ")) {
        head.fields.push(name.to_owned(), value.to_owned());
    }
    FetchedResponse {
        request: plain_request(&HttpUrl::parse("http://shop.test/").unwrap(), &[]),
        head,
        strict_fault: None,
        content: content.to_owned().into(),
        is_cut: false,
        sent: Moment::default(),
        arrived: Moment::default(),
        ended: Moment::default(),
    }
}

/// A page of a class, with 10 ms of the server's time.
pub(crate) fn page(class: PageClass) -> PageReport {
    PageReport {
        url: "http://shop.test/page".to_owned(),
        class,
        verdict: Some(if class == PageClass::Memory { "hit" } else { "miss" }),
        reason: (class != PageClass::Memory).then(|| "store-refused-no-freshness".to_owned()),
        remedy: match class {
            PageClass::Setting => Some("ttl = \"5m\"".to_owned()),
            PageClass::Application => Some("Send s-maxage.".to_owned()),
            PageClass::Memory | PageClass::Personal => None,
        },
        server_ms: 10.0,
        anonymous: Sameness::Same,
        logged_in: None,
    }
}

/// A report of these pages, of a site on this machine.
pub(crate) fn report(pages: Vec<PageReport>) -> TrialReport {
    TrialReport {
        format: FORMAT,
        url: "http://shop.test/".to_owned(),
        is_on_this_machine: true,
        software: Vec::new(),
        profile: "default".to_owned(),
        failed: Vec::new(),
        skipped: Vec::new(),
        stopped: None,
        is_in_trouble: false,
        everybodys_cookie: None,
        layers: Vec::new(),
        first_byte_ms: 9.0,
        anonymous: Comparison::of(pages.iter().map(|page| &page.anonymous)),
        logged_in: None,
        cookie_changes_nothing: false,
        load: LoadReport::NotMade { reason: "this is a test".to_owned() },
        configuration: "origin = \"http://shop.test\"\n".to_owned(),
        pages,
    }
}
