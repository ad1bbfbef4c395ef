//! Pages assembled from ESI templates and fragments.

use crate::support::{self, START, Stage, behind, reason};
use crate::why::asked;
use api::why::Question;
use clock::ManualClock;
use config::EdgePlan;
use profiles::Pattern;
use std::sync::Arc;
use testkit::{Action, Client, Gate, Http2Client, Origin, Response, Seen, eventually, response};

pub(crate) const TEMPLATE: &str = "Surrogate-Control: content=\"ESI/1.0\"";
pub(crate) const STORED: &str = "Cache-Control: max-age=600";
pub(crate) const GAP: &str = "<!-- a fragment of this page is missing -->";

pub(crate) fn with_esi(plan: &mut EdgePlan) {
    plan.sites[0].esi = true;
    plan.sites[0].esi_cookies = vec![Pattern::new("group")];
}

/// A stage whose page `/` is a template, and whose other pages are fragments that name themselves.
fn stage(template: &str) -> Stage {
    let template = template.to_owned();
    Stage::with(with_esi, move |seen| match seen.target() {
        "/" | "/other" => response("200 OK", &[TEMPLATE, STORED, "ETag: \"t\""], template.as_bytes()),
        other => fragment(other),
    })
}

pub(crate) fn fragment(target: &str) -> Vec<Action> {
    match target {
        _ if target.starts_with("/missing") => response("404 Not Found", &[STORED], b"no"),
        _ if target.starts_with("/private") => {
            response("200 OK", &["Cache-Control: private"], target.as_bytes())
        }
        _ => response("200 OK", &[STORED], target.as_bytes()),
    }
}

fn count(stage: &Stage, target: &str) -> usize {
    stage.origin.seen().iter().filter(|seen| seen.target() == target).count()
}

#[test]
fn page_is_assembled_from_its_fragments() {
    let stage =
        stage("<p><esi:include src=\"/a?b=1\"/>-<esi:include src=\"c\"/></p><esi:remove>x</esi:remove>");
    for expected in ["miss-absent", "hit-fresh"] {
        let answer = stage.get("/", &[]);
        assert_eq!((answer.status, answer.text()), (200, "<p>/a?b=1-/c</p>"));
        assert_eq!(reason(&answer), expected);
        assert_eq!(answer.field("Cache-Control"), Some("private, no-store"));
        for absent in ["ETag", "Last-Modified", "Content-Length", "Surrogate-Control", "Age", "Accept-Ranges"]
        {
            assert_eq!(answer.field(absent), None, "{absent}");
        }
    }
    assert_eq!((count(&stage, "/"), count(&stage, "/a?b=1"), count(&stage, "/c")), (1, 1, 1));
    assert_eq!(stage.metric("petasos_esi_pages_total", ""), 2);
    assert_eq!(stage.metric("petasos_esi_fragments_total", ""), 4);
    let seen = stage.last_seen();
    assert_eq!(seen.field("Surrogate-Capability"), Some("petasos=\"ESI/1.0\""));
    assert_eq!(seen.field("Accept-Encoding"), Some("identity"));
}

#[test]
fn template_is_text_without_setting_or_declaration() {
    let markup = "<esi:include src=\"/a\"/>";
    let off = Stage::new(move |_| response("200 OK", &[TEMPLATE, STORED], markup.as_bytes()));
    assert_eq!(off.get("/", &[]).text(), markup);
    assert_eq!(off.last_seen().field("Surrogate-Capability"), None);
    let plain =
        Stage::with(with_esi, move |_| response("200 OK", &[STORED, "ETag: \"x\""], markup.as_bytes()));
    for _ in 0..2 {
        let answer = plain.get("/", &[]);
        assert_eq!((answer.text(), answer.field("ETag")), (markup, Some("\"x\"")));
    }
    assert_eq!(plain.metric("petasos_esi_pages_total", ""), 0);
}

#[test]
fn template_without_variable_parts_keeps_its_lifetime() {
    let stage = stage("a<esi:remove>x</esi:remove>b<esi:comment text=\"c\"/>");
    let answer = stage.get("/", &[]);
    assert_eq!((answer.text(), answer.field("Cache-Control")), ("ab", Some("max-age=600")));
    assert_eq!(answer.field("ETag"), None);
}

#[test]
fn first_bytes_do_not_wait_for_a_slow_fragment() {
    let (gate, opened) = (Gate::default(), Gate::default());
    let held = gate.clone();
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response(
            "200 OK",
            &[TEMPLATE, STORED],
            b"begin<esi:include src=\"/fast\"/><esi:include src=\"/slow\"/>end",
        ),
        "/slow" => behind(&held, fragment("/slow")),
        other => fragment(other),
    });
    drop(opened);
    let mut client = stage.begin("GET", "/", &[]);
    let head = client.read_head();
    assert_eq!(head.status, 200);
    let mut begun = Vec::new();
    while begun.len() < "begin/fast".len() {
        begun.extend(client.try_read_chunk().unwrap());
    }
    assert_eq!(begun, b"begin/fast");
    gate.open();
    let mut rest = Vec::new();
    while let Some(chunk) = client.try_read_chunk().filter(|chunk| !chunk.is_empty()) {
        rest.extend(chunk);
    }
    assert_eq!(rest, b"/slowend");
}

#[test]
fn fragments_are_fetched_at_the_same_time() {
    let gate = Gate::default();
    let held = gate.clone();
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response(
            "200 OK",
            &[TEMPLATE],
            b"<esi:include src=\"/1\"/><esi:include src=\"/2\"/><esi:include src=\"/3\"/>",
        ),
        other => behind(&held, fragment(other)),
    });
    let mut client = stage.begin("GET", "/", &[]);
    stage.await_seen(4);
    gate.open();
    assert_eq!(client.read().text(), "/1/2/3");
}

#[test]
fn missing_fragment_leaves_what_the_template_says() {
    let cases = [
        ("<esi:include src=\"/missing\" alt=\"/b\"/>", "/b".to_owned()),
        ("a<esi:include src=\"/missing\" onerror=\"continue\"/>b", "ab".to_owned()),
        ("a<esi:include src=\"/missing\"/>b", format!("a{GAP}b")),
        (
            "<esi:try><esi:attempt>1<esi:include src=\"/a\"/><esi:include src=\"/missing\"/></esi:attempt>\
             <esi:except>2<esi:include src=\"/c\"/></esi:except></esi:try>",
            "2/c".to_owned(),
        ),
        (
            "<esi:try><esi:attempt>1<esi:include src=\"/a\"/></esi:attempt><esi:except>2</esi:except></esi:try>",
            "1/a".to_owned(),
        ),
    ];
    for (template, expected) in cases {
        let stage = stage(template);
        let answer = stage.get("/", &[]);
        assert_eq!((answer.status, answer.text()), (200, &*expected), "{template}");
        assert_eq!(stage.metric("petasos_esi_gaps_total", ""), u64::from(expected.contains(GAP)));
    }
}

#[test]
fn stale_fragment_replaces_one_that_fails() {
    let stage = stage("<esi:include src=\"/a\"/>");
    assert_eq!(stage.get("/", &[]).text(), "/a");
    stage.pass(601);
    stage.becomes(|seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], b"<esi:include src=\"/a\"/>"),
        _ => response("500 Internal Server Error", &[], b"error"),
    });
    assert_eq!(stage.get("/", &[]).text(), "/a");
}

#[test]
fn markup_in_fragments_and_values_is_not_processed() {
    let markup = "<esi:include src=\"/secret\"/>";
    let template =
        "<esi:include src=\"/comment\"/><esi:vars>$(HTTP_COOKIE{group})|$(QUERY_STRING{x})</esi:vars>";
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/comment" => response("200 OK", &[STORED], markup.as_bytes()),
        "/secret" => response("200 OK", &[STORED], b"secret"),
        _ => response("200 OK", &[TEMPLATE, STORED], template.as_bytes()),
    });
    let answer = stage.get("/?x=%3Cesi:vars%3E'", &["Cookie: group=<esi:vars>"]);
    assert!(answer.text().starts_with(markup), "{}", answer.text());
    assert_eq!(answer.text().matches("<esi:").count(), 1, "{}", answer.text());
    assert!(!answer.text().contains("secret</"), "{}", answer.text());
    assert_eq!(count(&stage, "/secret"), 0);
}

#[test]
fn fragment_that_declares_esi_is_assembled_to_a_depth() {
    let stage = Stage::with(with_esi, |seen| {
        let number: u32 = seen.target().trim_start_matches('/').parse().unwrap_or(0);
        let text = format!("{number}<esi:include src=\"/{}\" onerror=\"continue\"/>", number + 1);
        response("200 OK", &[TEMPLATE, STORED], text.as_bytes())
    });
    assert_eq!(stage.get("/", &[]).text(), "012345");
}

#[test]
fn page_that_includes_itself_often_ends() {
    let many = "<esi:include src=\"/\" onerror=\"continue\"/>".repeat(200);
    let stage = stage(&format!("x{many}"));
    let text = stage.get("/", &[]).text().to_owned();
    assert!(text.len() <= 257 && text.bytes().all(|byte| byte == b'x'), "{} bytes", text.len());
    assert_eq!(stage.metric("petasos_esi_fragments_total", ""), 256);
}

#[test]
fn template_beyond_a_limit_is_refused() {
    let stage = stage(&"<esi:include src=\"/a\"/>".repeat(10_000));
    for _ in 0..2 {
        let answer = stage.get("/", &[]);
        assert_eq!((answer.status, reason(&answer)), (502, "esi-refused"));
    }
    assert_eq!(count(&stage, "/a"), 0);
    let coded = Stage::with(with_esi, |_| response("200 OK", &[TEMPLATE, "Content-Encoding: gzip"], b"x"));
    assert_eq!(coded.get("/", &[]).status, 502);
}

#[test]
fn other_hosts_and_smuggled_lines_are_no_fragments() {
    let urls = [
        "http://other.test/",
        "http://127.0.0.1:8081/purge",
        "//localhost/",
        "/a HTTP/1.1&#13;&#10;X: y",
        "/a\r\nX-Evil: 1",
        "/a b",
        "file:///etc/passwd",
    ];
    for url in urls {
        let stage = stage(&format!("<esi:include src=\"{url}\"/>"));
        assert_eq!(stage.get("/", &[]).text(), GAP, "{url}");
        assert_eq!(stage.origin.seen().len(), 1, "{url}");
    }
    let own = stage("<esi:include src=\"http://example.test/x\"/><esi:include src='/v?$(QUERY_STRING{x})'/>");
    assert_eq!(own.get("/", &[]).text(), "/x/v?");
}

/// A response that ends before its stated length.
fn truncated(fields: &str) -> Vec<Action> {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 100\r\n\r\nshort");
    vec![Action::Send(head.into_bytes()), Action::Close]
}

#[test]
fn truncated_template_or_fragment_is_never_called_whole() {
    let fragment = Stage::with(with_esi, |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], b"a<esi:include src=\"/cut\"/>b"),
        _ => truncated(""),
    });
    assert_eq!(fragment.get("/", &[]).text(), format!("a{GAP}b"));
    let template = Stage::with(with_esi, |_| truncated(&format!("{TEMPLATE}\r\n")));
    let answer = template.get("/", &[]);
    assert_eq!((answer.status, reason(&answer)), (502, "esi-refused"));
}

#[test]
fn fragment_beyond_its_limit_is_missing() {
    let long = vec![b'x'; (1 << 20) + 1];
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], b"a<esi:include src=\"/long\"/>b"),
        _ => response("200 OK", &[STORED], &long),
    });
    for _ in 0..2 {
        assert_eq!(stage.get("/", &[]).text(), format!("a{GAP}b"));
    }
}

#[test]
fn page_beyond_its_bytes_is_visibly_incomplete() {
    let values = "$(QUERY_STRING)".repeat(6000);
    let stage = Stage::with(with_esi, move |_| {
        response("200 OK", &[TEMPLATE, STORED], format!("<esi:vars>{values}</esi:vars>").as_bytes())
    });
    let mut client = stage.begin("GET", &format!("/?{}", "x".repeat(4000)), &[]);
    let mut answer = client.read_head();
    assert_eq!(answer.status, 200);
    assert!(!client.read_body(&mut answer), "{} bytes", answer.body.len());
    assert!(answer.body.len() <= 16 << 20, "{} bytes", answer.body.len());
}

#[test]
fn hung_fragment_is_left_after_maxwait() {
    let gate = Gate::default();
    let held = gate.clone();
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response(
            "200 OK",
            &[TEMPLATE, STORED],
            b"a<esi:include src=\"/hung\" alt=\"/b\" maxwait=\"50\"/>c",
        ),
        "/hung" => behind(&held, fragment("/hung")),
        other => fragment(other),
    });
    assert_eq!(stage.get("/", &[]).text(), "a/bc");
    gate.open();
}

#[test]
fn purged_fragment_shows_at_once() {
    let stage = stage("<esi:include src=\"/a\"/>");
    assert_eq!(stage.get("/", &[]).text(), "/a");
    stage.becomes(|_| response("200 OK", &[STORED], b"new"));
    assert_eq!(stage.get("/", &[]).text(), "/a");
    assert_eq!(stage.ask("PURGE", "/a", &[]).status, 200);
    assert_eq!(stage.get("/", &[]).text(), "new");
    assert_eq!(count(&stage, "/"), 1);
}

#[test]
fn visitor_fields_reach_only_fragments_that_pass() {
    let stage = stage("<esi:include src=\"/shared\"/><esi:include src=\"/private\"/>");
    let fields = ["Cookie: group=1; utm=2", "Range: bytes=0-1", "If-None-Match: \"t\"", "X-Refresh: 1"];
    let answer = stage.get("/", &fields);
    assert_eq!((answer.status, answer.text()), (200, "/shared/private"));
    let of = |target: &str| stage.origin.seen().into_iter().find(|seen| seen.target() == target).unwrap();
    for seen in [of("/shared"), of("/private")] {
        for absent in ["Range", "If-None-Match", "X-Refresh"] {
            assert_eq!(seen.field(absent), None, "{absent}");
        }
    }
}

#[test]
fn fields_of_a_trusted_proxy_count_for_fragments() {
    let trusting = |plan: &mut EdgePlan| {
        with_esi(plan);
        plan.trusted_proxies = ["127.0.0.1".parse::<address::Prefix>().unwrap()].into_iter().collect();
    };
    let stage = Stage::with(trusting, |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], b"<esi:include src=\"/a\"/>"),
        other => fragment(other),
    });
    assert_eq!(stage.get("/", &["X-Forwarded-Ssl: on"]).text(), "/a");
    for seen in stage.origin.seen() {
        assert_eq!(seen.field("X-Forwarded-Proto"), Some("https"), "{}", seen.target());
    }
}

#[test]
fn conditions_and_ranges_get_the_whole_page() {
    let stage = stage("a<esi:include src=\"/b\"/>");
    for fields in
        [&["If-None-Match: \"t\""][..], &["Range: bytes=0-1"], &["If-Range: \"t\"", "Range: bytes=0-1"]]
    {
        for _ in 0..2 {
            let answer = stage.get("/", fields);
            assert_eq!((answer.status, answer.text()), (200, "a/b"), "{fields:?}");
        }
    }
}

#[test]
fn head_request_fetches_no_fragment() {
    let stage = stage("a<esi:include src=\"/b\"/>");
    for _ in 0..2 {
        let answer = stage.ask("HEAD", "/", &[]);
        assert_eq!((answer.status, answer.field("Cache-Control")), (200, Some("private, no-store")));
        assert_eq!((answer.field("Content-Length"), answer.field("ETag")), (None, None));
        assert_eq!(answer.field("Age"), None);
        assert_eq!(stage.get("/other", &[]).text(), "a/b");
    }
    assert_eq!(count(&stage, "/b"), 1);
}

#[test]
fn http_1_0_client_gets_the_page_until_the_end() {
    let stage = stage("a<esi:include src=\"/b\"/>");
    let mut client: Client = support::connect(&stage.edge);
    client.send("GET / HTTP/1.0\r\nHost: example.test\r\n\r\n");
    let answer: Response = client.read();
    assert_eq!((answer.text(), answer.field("Transfer-Encoding")), ("a/b", None));
}

#[test]
fn page_that_is_not_stored_is_assembled_too() {
    let stage = Stage::with(with_esi, |seen: &Seen| match seen.target() {
        "/b" => fragment("/b"),
        _ => response("200 OK", &[TEMPLATE, "Cache-Control: private"], b"a<esi:include src=\"/b\"/>"),
    });
    for _ in 0..2 {
        assert_eq!(stage.get("/", &[]).text(), "a/b");
    }
    let mut client = support::connect(&stage.edge);
    client.send("POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.read().text(), "a/b");
}

#[test]
fn http2_client_gets_the_page_and_its_end() {
    let change = |plan: &mut EdgePlan| {
        with_esi(plan);
        plan.listeners[0].http2 = true;
    };
    let stage = Stage::with(change, |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], b"a<esi:include src=\"/b\"/>c"),
        other => fragment(other),
    });
    let mut client = Http2Client::connect(support::address(&stage.edge));
    for _ in 0..2 {
        let answer = client.get("/", &[]);
        assert_eq!((answer.status, answer.text(), answer.complete), (200, "a/bc", true));
        assert_eq!(answer.field("content-length"), None);
    }
}

/// The fields of a response that tell caches whether to store it.
fn told_to_caches(answer: &Response) -> Vec<(String, String)> {
    let fields = answer.head.lines().filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let names = ["x-accel-expires", "edge-control", "expires", "pragma", "surrogate-control"];
    fields.filter(|(name, _)| name.ends_with("cache-control") || names.contains(&&**name)).collect()
}

#[test]
fn page_with_fragments_is_stored_by_no_cache() {
    let told = [
        TEMPLATE,
        STORED,
        "CDN-Cache-Control: max-age=9",
        "Cloudflare-CDN-Cache-Control: max-age=9",
        "X-Accel-Expires: 9",
        "Edge-Control: max-age=9",
        "Expires: Thu, 01 Jan 2099 00:00:00 GMT",
    ];
    let origin = Origin::start(move |seen| match seen.target() {
        "/b" => fragment("/b"),
        _ => response("200 OK", &told, b"a<esi:include src=\"/b\"/>"),
    });
    let text = format!(
        "origin = '{}'\nesi = true\n\
         response.set = ['Cache-Control: max-age=9', 'Netlify-CDN-Cache-Control: max-age=9']\n",
        origin.url()
    );
    let machine = config::Machine {
        cores: 2,
        memory_bytes: 1 << 30,
        state_directory: None,
        runtime_directory: None,
        spool_directory: std::env::temp_dir(),
    };
    let read = |_: &str| Ok(String::new());
    let mut plan = config::load("petasos.toml", &text, &Vec::new(), &machine, &read).unwrap();
    let usual = support::plan(&origin.url());
    (plan.listeners, plan.admin, plan.limits) = (usual.listeners, usual.admin, usual.limits);
    let edge = support::start_at(plan, Arc::new(ManualClock::at(START)));
    let expected = [("cache-control".to_owned(), "private, no-store".to_owned())];
    for _ in 0..2 {
        let answer = support::connect(&edge).get("/", &[]);
        assert_eq!((answer.text(), &told_to_caches(&answer)[..]), ("a/b", &expected[..]));
        let mut client = support::connect(&edge);
        client.send("HEAD / HTTP/1.1\r\nHost: example.test\r\n\r\n");
        assert_eq!(told_to_caches(&client.read_head()), expected);
    }
}

#[test]
fn arriving_fragments_count_towards_the_memory() {
    let gate = Gate::default();
    let held = gate.clone();
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], b"a<esi:include src=\"/long\"/>b"),
        _ => vec![
            Action::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec()),
            Action::Send(vec![b'x'; 900_000]),
            Action::Await(held.clone()),
            Action::Send(vec![b'x'; 100_000]),
        ],
    });
    let mut client = stage.begin("GET", "/", &[]);
    eventually("its bytes are counted", || stage.metric("petasos_buffered_bytes", "") >= 500_000);
    gate.open();
    assert_eq!(client.read().text().len(), 1_000_002);
    eventually("they are given back", || stage.metric("petasos_buffered_bytes", "") == 0);
}

#[test]
fn template_without_memory_is_refused_for_a_moment() {
    let text = format!("{}<esi:include src=\"/b\"/>", "a".repeat(40_000));
    let change = |plan: &mut EdgePlan| {
        with_esi(plan);
        plan.limits.buffer_memory_percent = 0;
    };
    let stage = Stage::with(change, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, "Cache-Control: no-store"], text.as_bytes()),
        other => fragment(other),
    });
    let answer = stage.get("/", &[]);
    assert_eq!((answer.status, reason(&answer)), (503, "esi-refused"));
    assert!(answer.field("retry-after").is_some());
}

#[test]
fn template_within_a_page_requests_one_fragment_at_once() {
    let gate = Gate::default();
    let held = gate.clone();
    let stage = Stage::with(with_esi, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE], b"<esi:include src=\"/within\"/>"),
        "/within" => response(
            "200 OK",
            &[TEMPLATE],
            b"<esi:include src=\"/1\"/><esi:include src=\"/2\"/><esi:include src=\"/3\"/>",
        ),
        other => behind(&held, fragment(other)),
    });
    let mut client = stage.begin("GET", "/", &[]);
    stage.await_seen(3);
    // More requests would come at once.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(stage.origin.seen().len(), 3);
    gate.open();
    assert_eq!(client.read().text(), "/1/2/3");
}

#[test]
fn write_counts_if_its_response_is_a_bad_template() {
    let wordpress = |plan: &mut EdgePlan| {
        with_esi(plan);
        plan.sites[0].policy = profiles::Policy::wordpress();
    };
    let stage = Stage::with(wordpress, |_| response("200 OK", &[], b"old"));
    assert_eq!(stage.get("/post/", &[]).text(), "old");
    stage.becomes(|seen| {
        if seen.head.starts_with("GET") {
            return response("200 OK", &[], b"new");
        }
        let batch = r#"{"responses":[{"body":{"code":"x"},"status":404},{"body":{},"status":200}]}"#;
        let fields = "Content-Type: application/json; charset=UTF-8\r\nX-WP-Nonce: 0a1b2c3d4e\r\n\
                      Cache-Control: no-cache, must-revalidate, max-age=0";
        let head =
            format!("HTTP/1.1 207 Multi-Status\r\n{fields}\r\n{TEMPLATE}\r\nContent-Length: 100\r\n\r\n");
        vec![Action::Send(head.into()), Action::Send(batch.into()), Action::Close]
    });
    let answer = stage.ask("POST", "/wp-json/batch/v1", &["Content-Length: 0"]);
    assert_eq!((answer.status, reason(&answer)), (502, "esi-refused"));
    assert_eq!(stage.get("/post/", &[]).text(), "new");
}

#[test]
fn passed_request_for_a_template_asks_for_its_whole() {
    let stage = Stage::with(with_esi, |seen| match seen.target() {
        "/b" => fragment("/b"),
        _ => match ["Range", "If-None-Match", "If-Modified-Since"]
            .iter()
            .any(|name| seen.field(name).is_some())
        {
            true => response("304 Not Modified", &["ETag: \"t\""], b""),
            false => response("200 OK", &[TEMPLATE, "Cache-Control: private"], b"a<esi:include src=\"/b\"/>"),
        },
    });
    for fields in [
        &["Range: bytes=0-1"][..],
        &["Range: bytes=0-1", "If-Range: \"t\""],
        &["If-None-Match: \"t\""],
        &["If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT"],
    ] {
        for _ in 0..2 {
            let answer = stage.get("/", fields);
            assert_eq!((answer.status, answer.text()), (200, "a/b"), "{fields:?}");
            assert_eq!(stage.ask("HEAD", "/", fields).status, 200, "{fields:?}");
        }
    }
}

#[test]
fn page_does_not_ban_its_visitor() {
    let change = |plan: &mut EdgePlan| {
        with_esi(plan);
        plan.guard.origin_requests = Some(config::RateLimit { per_second: 1, burst: 2 });
        plan.guard.ban = Some(std::time::Duration::from_secs(10));
        plan.purge_peers = address::Prefixes::default();
    };
    let many: String =
        (0..150).map(|number| format!("<esi:include src='/private{number}' onerror='continue'/>")).collect();
    let stage = Stage::with(change, move |seen| match seen.target() {
        "/" => response("200 OK", &[TEMPLATE, STORED], many.as_bytes()),
        other => fragment(other),
    });
    assert_eq!(stage.get("/", &[]).status, 200);
    assert!(stage.metric("petasos_clients_too_costly_total", "") >= 100);
    assert_eq!(stage.get("/", &[]).status, 200);
    stage.pass(5);
    assert_eq!(stage.get("/private", &[]).status, 200);
}

#[test]
fn why_describes_a_stored_template() {
    let stage = stage("<esi:include src=\"/a\"/><esi:include alt=\"/b\"/>");
    stage.get("/", &[]);
    let question =
        Question { url: "http://example.test/".to_owned(), method: "GET".to_owned(), headers: Vec::new() };
    let template = asked(&stage.edge, &question).stored.unwrap().template.unwrap();
    assert_eq!(template, "1 includes, 1 faults; the first is MissingAttribute at byte 23");
}

#[test]
fn cookie_that_is_not_listed_has_no_value() {
    let stage = stage("<esi:vars>[$(HTTP_COOKIE{group})$(HTTP_COOKIE{session})]</esi:vars>");
    assert_eq!(stage.get("/", &["Cookie: session=1; group=a"]).text(), "[a]");
}

#[test]
fn noise_cookie_has_a_value_in_a_shared_page() {
    let change = |plan: &mut EdgePlan| {
        with_esi(plan);
        plan.sites[0].policy.noise_cookies.push(Pattern::new("group"));
    };
    let stage = Stage::with(change, |seen| match seen.target() {
        "/" => response(
            "200 OK",
            &[TEMPLATE, STORED],
            b"<esi:vars>$(HTTP_COOKIE{group})</esi:vars><esi:include src='/a?g=$(HTTP_COOKIE{group})'/>",
        ),
        other => fragment(other),
    });
    for group in ["staff", "guests", "staff"] {
        let answer = stage.get("/", &[&format!("Cookie: group={group}")]);
        assert_eq!(answer.text(), format!("{group}/a?g={group}"));
        assert_eq!(answer.field("Cache-Control"), Some("private, no-store"));
    }
    assert_eq!((count(&stage, "/"), stage.origin.seen().len()), (1, 3));
    assert!(stage.origin.seen().iter().all(|seen| seen.field("Cookie").is_none()));
}

#[test]
fn faults_of_markup_are_counted() {
    let stage = stage("<esi:include alt=\"/a\"/>");
    assert_eq!(stage.get("/", &[]).text(), "<esi:include alt=\"/a\"/>");
    assert_eq!(stage.metric("petasos_esi_faults_total", ""), 1);
}
