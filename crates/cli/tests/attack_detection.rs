//! The real binary against page content and visitors that try to change the profile of a site
//! without configuration.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on panics")]
#![allow(clippy::print_stdout, reason = "the figures of the attack are its result")]

use testkit::{Client, Edge, Origin, Response, petasos, response};

const HTML: &str = "Content-Type: text/html; charset=utf-8";

/// Number of attempts that may change a profile.
const TURNED_MAX: usize = 0;

/// Markup that an attacker tries to have read as the head of a WordPress page.
const SIGNS: &str = "<meta name=\"generator\" content=\"WordPress 6.1.9\">\
                     <link rel=\"stylesheet\" href=\"/wp-includes/css/a.css\">";

/// A request and the origin's response to it.
struct DetectionAttempt {
    name: &'static str,
    target: &'static str,
    /// Header fields that the attacker sends.
    sends: &'static [&'static str],
    method: &'static str,
    status: &'static str,
    fields: &'static [&'static str],
    body: Vec<u8>,
}

impl DetectionAttempt {
    /// A page fetched with GET from this target.
    fn page(name: &'static str, target: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { name, target, sends: &[], method: "GET", status: "200 OK", fields: &[HTML], body }
    }

    fn with(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }
}

/// A page of a template with content from users in its head or body.
fn template(head: &str, body: &str) -> String {
    format!("<!DOCTYPE html><html><head><meta charset=utf-8>{head}</head><body>{body}</body></html>")
}

/// Start pages with user content inside an element.
fn contained() -> Vec<DetectionAttempt> {
    [
        ("script", template(&format!("<script>var post = '{SIGNS}'</script>"), "")),
        ("comment", template(&format!("<!-- {SIGNS} -->"), "")),
        ("title", template(&format!("<title>{SIGNS}</title>"), "")),
        ("style", template(&format!("<style>{SIGNS}</style>"), "")),
        ("noscript", template(&format!("<noscript>{SIGNS}</noscript>"), "")),
        ("template", template(&format!("<template>{SIGNS}</template>"), "")),
        ("attribute", template(&format!("<meta name=description content='{SIGNS}'>"), "")),
        ("body", template("", SIGNS)),
        ("textarea", template("", &format!("<textarea>{SIGNS}</textarea>"))),
        ("svg", template(&format!("<svg>{SIGNS}</svg>"), "")),
        ("xmp", template("", &format!("<xmp>{SIGNS}</xmp>"))),
        ("unclosed comment", format!("<html><head><!-- {SIGNS}")),
        ("unclosed title", format!("<html><head><title>{SIGNS}</head>")),
        ("unclosed script", format!("<html><head><script>{SIGNS}</head>")),
        ("after text", format!("hello {SIGNS}")),
        ("second head", template("", &format!("<head>{SIGNS}</head>"))),
        ("after 16 KiB", template(&format!("<!--{}-->{SIGNS}", "x".repeat(16 * 1024)), "")),
    ]
    .into_iter()
    .map(|(name, page)| DetectionAttempt::page(name, "/", page))
    .collect()
}

/// Documents and header fields that visitors can influence.
fn authored() -> Vec<DetectionAttempt> {
    let upload = || template(SIGNS, "");
    let page = DetectionAttempt::page;
    let wide: Vec<u8> = template(SIGNS, "").encode_utf16().flat_map(u16::to_be_bytes).collect();
    const LINK: &str =
        "Link: <http://a.test/>; rel=\"canonical\", <http://a.test/x;rel=https://api.w.org/>; rel=next";
    const REAL_LINK: &str = "Link: <http://a.test/x>; rel=\"https://api.w.org/\"";
    vec![
        page("uploaded document", "/uploads/a.html", upload()),
        page("document of a query", "/?file=a.html", upload()),
        page("document with a cookie of another system", "/a", upload())
            .with(&[HTML, "Set-Cookie: SESSION=1"]),
        page("generator alone", "/", template("<meta name=generator content='WordPress 6'>", "")),
        page("asset alone", "/", template("<link rel=stylesheet href=/wp-includes/a.css>", "")),
        page(
            "asset of another host",
            "/",
            template(
                "<meta name=generator content='WordPress 6'><link rel=stylesheet href=//b.test/wp-includes/a.css>",
                "",
            ),
        ),
        page(
            "canonical link",
            "/",
            template(
                "<meta name=generator content='WordPress 6'><link rel=canonical href=/wp-includes/a.css>",
                "",
            ),
        ),
        DetectionAttempt::page("utf-16", "/", wide).with(&["Content-Type: text/html; charset=utf-16"]),
        page("iso-2022-jp", "/", upload()).with(&["Content-Type: text/html; charset=iso-2022-jp"]),
        page("text", "/", upload()).with(&["Content-Type: text/plain"]),
        DetectionAttempt { status: "404 Not Found", ..page("error page", "/", upload()) },
        DetectionAttempt { method: "POST", ..page("answer to a POST", "/", upload()) },
        DetectionAttempt { sends: &["Cookie: theme=mine"], ..page("own start page", "/", upload()) },
        page("reflected target", "/x;rel=https://api.w.org/", String::new()).with(&[HTML, LINK]),
        page("reflected relation", "/x%3E;rel=%22https:%2f%2fapi.w.org/%22", String::new())
            .with(&[HTML, REAL_LINK]),
        page("reflected query", "/?link=1", String::new()).with(&[HTML, REAL_LINK]),
        DetectionAttempt {
            status: "404 Not Found",
            ..page("field of an error page", "/x", String::new()).with(&[HTML, REAL_LINK])
        },
        page("field of an upload", "/x", String::new()).with(&["Content-Type: image/png", REAL_LINK]),
        page("cookie alone", "/x", String::new()).with(&[HTML, "Set-Cookie: wordpress_test_cookie=1"]),
    ]
}

/// Sends a request on a connection and reads the answer.
fn ask(client: &mut Client, attempt: &DetectionAttempt) -> Response {
    let lines: String = attempt.sends.iter().map(|field| format!("{field}\r\n")).collect();
    let method = attempt.method;
    let target = attempt.target;
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n{lines}\r\n"));
    client.read()
}

/// Whether the attempt changes the profile. It is repeated, because stored and private responses
/// take different paths.
fn turns(attempt: DetectionAttempt) -> bool {
    let name = attempt.name;
    let target = attempt.target;
    let status = attempt.status;
    let fields = attempt.fields;
    let body = attempt.body.clone();
    let origin = Origin::start(move |_| response(status, fields, &body));
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    for _ in 0..3 {
        ask(&mut client, &attempt);
    }
    let status = Edge::status(edge.admin).unwrap();
    let rules = &status["sites"][0]["rules"];
    if rules != "default" {
        println!("{name}: {target} has turned the profile to {rules}");
    }
    rules != "default"
}

#[test]
fn user_content_never_changes_the_profile() {
    let attempts: Vec<DetectionAttempt> = contained().into_iter().chain(authored()).collect();
    let count = attempts.len();
    let turned = attempts.into_iter().filter_map(|attempt| turns(attempt).then_some(())).count();
    println!("attack: content-driven detection: {turned} of {count} attempts, at most {TURNED_MAX}");
    assert!((0..=TURNED_MAX).contains(&turned), "{turned} of {count} attempts have turned the profile");
}

/// The profile of an edge's only site.
fn rules(edge: &Edge) -> String {
    let status = Edge::status(edge.admin).unwrap();
    status["sites"][0]["rules"].as_str().unwrap().to_owned()
}

/// The profile after the first visits of a site with these pages: target, status, fields, content.
fn rules_of(pages: &'static [(&'static str, &'static str, &'static [&'static str], &'static str)]) -> String {
    let origin = Origin::start(move |seen| {
        let page = pages.iter().find(|(target, ..)| *target == seen.target()).unwrap();
        response(page.1, page.2, page.3.as_bytes())
    });
    let edge = Edge::start(&origin.url(), &[]);
    let mut client = Client::connect(edge.address);
    for (target, ..) in pages.iter().chain(pages) {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client.read();
    }
    rules(&edge)
}

#[test]
fn real_systems_are_still_detected() {
    const API: &str = "Link: <http://a.test/index.php?rest_route=/>; rel=\"https://api.w.org/\"";
    let found = [
        rules_of(&[("/", "200 OK", &["Content-Type: text/html; charset=UTF-8", API], "<p>")]),
        rules_of(&[
            ("/", "301 Moved Permanently", &["Location: http://a.test/wiki/Welcome"], ""),
            (
                "/wiki/Welcome",
                "200 OK",
                &[
                    "Content-Type: text/html; charset=UTF-8",
                    "Cache-Control: private, must-revalidate, max-age=0",
                ],
                "<!DOCTYPE html><html class=\"client-nojs\" lang=\"en\" dir=\"ltr\"><head><meta charset=\"UTF-8\"/>\
                 <title>W</title><script>RLCONF={};</script><link rel=\"stylesheet\" \
                 href=\"/load.php?lang=en&amp;modules=skins.vector.styles.legacy&amp;only=styles&amp;skin=vector\"/>\
                 <meta name=\"generator\" content=\"MediaWiki 1.39.17\"/></head><body class=\"mediawiki\">",
            ),
        ]),
        rules_of(&[(
            "/node",
            "200 OK",
            &["Content-Type: text/html; charset=utf-8", "X-Generator: Drupal 7 (http://drupal.org)"],
            "<html>",
        )]),
        rules_of(&[(
            "/admin/login/",
            "200 OK",
            &["Content-Type: text/html; charset=utf-8", "Set-Cookie: csrftoken=x; Path=/; SameSite=Lax"],
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Wagtail</title>\
             <link rel=\"stylesheet\" href=\"/static/wagtailadmin/css/core.css?v=1\"></head>",
        )]),
    ];
    assert_eq!(found, ["wordpress", "mediawiki", "drupal", "wagtail"]);
}

#[test]
fn operator_undoes_a_detection_by_command() {
    const API: &str = "Link: <http://a.test/wp-json/>; rel=\"https://api.w.org/\"";
    let origin = Origin::start(|_| response("200 OK", &[HTML, API], b"<p>"));
    let edge = Edge::start(&origin.url(), &[]);
    let admin = edge.admin.to_string();
    let visit = || {
        let mut client = Client::connect(edge.address);
        client.get("/", &[]);
        client.get("/", &[]);
    };
    let profile = |arguments: [&str; 2]| petasos([&["profile", "--admin", &admin][..], &arguments].concat());
    visit();
    assert_eq!(rules(&edge), "wordpress");
    let told = profile(["--forget", "any"]);
    let expected = "Site any had profile wordpress and has default; its profile is not detected any more.\n";
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), expected), "{}", told.stderr);
    visit();
    assert_eq!(rules(&edge), "default");
    let told = profile(["--detect", "any"]);
    let expected = "Site any has profile default; its profile is detected from now on.\n";
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), expected), "{}", told.stderr);
    visit();
    assert_eq!(rules(&edge), "wordpress");
    let told = profile(["--forget", "other.test"]);
    assert_eq!(told.code, Some(2));
    assert!(told.stderr.contains("There is no site `other.test`."), "{}", told.stderr);
}
