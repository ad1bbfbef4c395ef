//! Fragments of other hosts: only pages of listed sites of the configuration, without anything that
//! belongs to the host of the page.

use crate::esi::{GAP, STORED, TEMPLATE};
use crate::routes::plan;
use crate::support::{self, connect, start};
use petasos_edge::RunningEdge;
use testkit::{Origin, Response, response};

/// An edge with the site `a.test`, which lists `b.test`, and with two other sites of a second
/// origin. The page of each origin is its template; all other pages name their host and target.
struct Hosts {
    edge: RunningEdge,
    main: Origin,
    other: Origin,
}

impl Hosts {
    fn new(template: &str, of_other: &str, settings_of_other: &str) -> Self {
        let [main, other] = [template, of_other].map(|template| {
            let template = template.to_owned();
            Origin::start(move |seen| match seen.target() {
                "/" => response("200 OK", &[TEMPLATE, STORED], template.as_bytes()),
                other => {
                    let text = format!("{}{other}", seen.field("Host").unwrap_or("-"));
                    response("200 OK", &[STORED], text.as_bytes())
                }
            })
        });
        let text = format!(
            "[[site]]\nnames = ['a.test']\norigin = 'ORIGIN'\nesi = true\nesi_hosts = ['b.test']\n\
             [[site]]\nnames = ['b.test']\norigin = 'OTHER'\n{settings_of_other}\n\
             [[site]]\nnames = ['c.test']\norigin = 'OTHER'\n"
        );
        let edge = start(plan(&text, &main, &other));
        Self { edge, main, other }
    }

    fn get(&self, fields: &str) -> Response {
        let mut client = connect(&self.edge);
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
        client.read()
    }
}

#[test]
fn page_of_a_listed_site_is_a_fragment() {
    let hosts = Hosts::new("<esi:include src='https://B.test/x?y'/>|<esi:include src='//b.test'/>", "-", "");
    for _ in 0..2 {
        let answer =
            hosts.get("Cookie: sessionid=1\r\nAuthorization: Basic YTpi\r\nX-Forwarded-Host: a.test\r\n");
        assert_eq!(answer.text(), "b.test/x?y|-");
    }
    assert_eq!((hosts.main.count("/"), hosts.other.seen().len()), (2, 2), "the fragments are stored");
    for seen in hosts.other.seen() {
        let of = |name| seen.field(name);
        assert_eq!((of("Host"), of("X-Forwarded-Host")), (Some("b.test"), Some("b.test")));
        assert_eq!((of("Cookie"), of("Authorization")), (None, None));
    }
}

#[test]
fn nothing_but_listed_sites_is_reached() {
    for url in [
        "http://c.test/x",
        "http://127.0.0.1/x",
        "http://b.test:81/x",
        "http://b.test.c.test/x",
        "http://user@b.test/x",
        "http://$(QUERY_STRING{h})/x",
    ] {
        let hosts = Hosts::new(&format!("<esi:include src='{url}'/>"), "-", "");
        assert_eq!(hosts.get("").text(), GAP, "{url}");
        assert_eq!((hosts.main.seen().len(), hosts.other.seen().len()), (1, 0), "{url}");
    }
}

#[test]
fn password_of_the_page_does_not_open_another_site() {
    let protected = "basic_auth = './passwords'";
    let hosts = Hosts::new("<esi:include src='http://b.test/x'/>", "-", protected);
    // The password of `ann`, who may see the other site.
    let answer = hosts.get("Authorization: Basic YW5uOnNlY3JldA==\r\n");
    assert_eq!((answer.text(), hosts.other.seen().len()), (GAP, 0));
}

#[test]
fn template_of_another_site_has_its_own_list() {
    let inner = "[<esi:include src='/own'/><esi:include src='http://a.test/secret'/>]";
    let hosts = Hosts::new("<esi:include src='http://b.test/'/>", inner, "esi = true");
    assert_eq!(hosts.get("").text(), format!("[b.test/own{GAP}]"));
    assert_eq!(hosts.main.seen().len(), 1);
    assert_eq!(support::metric(&hosts.edge, "petasos_esi_gaps_total", ""), 1);
}
