//! Files of a directory as answers of routes: what visitors get, and what they never get.

use crate::routes::PASSWORDS;
use crate::support::{self, connect, metric, reason};
use api::why::{Question, WhyReply};
use config::{AccessLogTarget, CertificatePaths, EdgePlan, ListenerPlan, Machine, TlsPlan};
use petasos_edge::{BoundEdge, PlanSource, RunningEdge, System};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use testkit::{Authority, Client, Http2Client, KeyKind, Origin, Response, Seen, Trust, response};

/// What no response may contain.
const SECRET: &str = "SECRET-OF-THE-SERVER";

/// Bytes of the large file, which is not kept in memory.
const LARGE_BYTES: usize = 3 << 20;

/// An edge with this configuration, in which `DIR` is a directory, `ORIGIN` the URL of an origin.
struct Served {
    edge: RunningEdge,
    directory: TempDir,
    origin: Origin,
    authority: Authority,
    next: Arc<Mutex<EdgePlan>>,
}

fn plan(text: &str, directory: &Path, origin: &Origin) -> Result<EdgePlan, String> {
    let text = text.replace("DIR", directory.to_str().unwrap()).replace("ORIGIN", &origin.url());
    let read = |path: &str| Ok(if path == "./passwords" { PASSWORDS } else { "<p>Back soon" }.to_owned());
    let machine = Machine {
        cores: 2,
        memory_bytes: 1 << 30,
        state_directory: None,
        runtime_directory: None,
        spool_directory: std::env::temp_dir(),
    };
    let mut plan = config::load("petasos.toml", &text, &Vec::new(), &machine, &read)
        .map_err(|problems| format!("{problems:?}"))?;
    let usual = support::plan(&origin.url());
    plan.listeners = usual.listeners;
    plan.listeners[0].http2 = true;
    plan.admin = usual.admin;
    plan.limits = usual.limits;
    Ok(plan)
}

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at / 7 % 251) as u8).collect()
}

impl Served {
    fn new(text: &str) -> Self {
        Self::with(text, |_, _| {})
    }

    fn with(text: &str, change: impl FnOnce(&mut EdgePlan, &Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let origin = Origin::start(|seen: &Seen| {
            response("200 OK", &["Cache-Control: no-store"], format!("origin {}", seen.target()).as_bytes())
        });
        let www = directory.path().join("www");
        for (name, content) in [
            ("index.html", &b"<p>start"[..]),
            ("small.txt", b"0123456789"),
            ("large.bin", &large()),
            ("a.css", b"plain style"),
            ("a.css.gz", b"gzipped"),
            ("a.css.br", b"brotli"),
            ("docs/index.html", b"<p>docs"),
            ("empty/nothing.txt", b""),
            ("about.html", b"<p>about"),
            (".well-known/security.txt", b"contact"),
        ] {
            write(&www, name, content);
        }
        let mut plan = plan(text, directory.path(), &origin).unwrap();
        let authority = Authority::new("an authority");
        let (chain, key) =
            authority.issue(&["a.test"], KeyKind::Ecdsa, (2000, 2100)).write(directory.path(), "a.test");
        let tls = TlsPlan::of_files(vec![CertificatePaths { chain, key }]);
        let address = "127.0.0.1:0".parse().unwrap();
        plan.listeners.push(ListenerPlan { tls: Some(tls), http2: true, ..ListenerPlan::plain(address) });
        change(&mut plan, directory.path());
        let next = Arc::new(Mutex::new(plan.clone()));
        let source: PlanSource = Arc::new({
            let next = Arc::clone(&next);
            move || Ok(next.lock().unwrap().clone())
        });
        let edge = BoundEdge::bind_again(plan, source, System::of_machine()).unwrap().start().unwrap();
        Self { edge, directory, origin, authority, next }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("www").join(name)
    }

    fn ask(&self, method: &str, target: &str, fields: &[&str]) -> Response {
        let mut client = connect(&self.edge);
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
        if method == "HEAD" { client.read_head() } else { client.read() }
    }

    fn get(&self, target: &str, fields: &[&str]) -> Response {
        self.ask("GET", target, fields)
    }

    fn reload(&self, text: &str) {
        let mut plan = plan(text, self.directory.path(), &self.origin).unwrap();
        let before = self.next.lock().unwrap().clone();
        plan.listeners = before.listeners;
        *self.next.lock().unwrap() = plan;
        let done = support::admin(&self.edge, "POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(done.status, 200, "{}", done.text());
    }

    fn why(&self, url: &str, method: &str) -> WhyReply {
        let question = Question { url: url.to_owned(), method: method.to_owned(), headers: Vec::new() };
        let question = serde_json::to_string(&question).unwrap();
        let length = question.len();
        let answer = support::admin(
            &self.edge,
            &format!(
                "POST /why HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{question}"
            ),
        );
        serde_json::from_str(answer.text()).unwrap()
    }
}

fn write(directory: &Path, name: &str, content: &[u8]) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

const ALONE: &str = "files = 'DIR/www'\n";
const WITH_ORIGIN: &str = "files = 'DIR/www'\norigin = 'ORIGIN'\n";

#[test]
fn site_of_files_alone_answers_get_and_head() {
    let served = Served::new(ALONE);
    let page = served.get("/", &[]);
    assert_eq!((page.status, page.text(), reason(&page)), (200, "<p>start", "static-file"));
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.field("Accept-Ranges"), Some("bytes"));
    for name in ["Date", "ETag", "Last-Modified", "Via"] {
        assert!(page.field(name).is_some(), "{name}");
    }
    assert_eq!(page.field("Vary"), None);
    let large = served.get("/large.bin?v=2", &[]);
    assert!(large.complete && large.body == self::large());
    let empty = served.get("/empty/nothing.txt", &[]);
    assert_eq!((empty.status, empty.body.len(), empty.field("Content-Length")), (200, 0, Some("0")));
    for (target, length) in [("/small.txt", "10"), ("/large.bin", "3145728")] {
        let mut client = connect(&served.edge);
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a.test\r\n\r\n").repeat(2));
        for _ in 0..2 {
            let head = client.read_head();
            assert_eq!((head.status, head.field("Content-Length")), (200, Some(length)), "{target}");
        }
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        let refused = served.ask(method, "/small.txt", &["Content-Length: 0"]);
        assert_eq!((refused.status, refused.field("Allow")), (405, Some("GET, HEAD")), "{method}");
        assert_eq!(reason(&refused), "file-method");
    }
    let missing = served.get("/nothing", &[]);
    assert_eq!((missing.status, reason(&missing)), (404, "file-missing"));
    assert_eq!(missing.field("Cache-Control"), Some("no-store"));
    assert!(served.origin.seen().is_empty());
}

#[test]
fn conditions_and_ranges_follow_the_file() {
    let served = Served::new(ALONE);
    for (target, content) in [("/small.txt", b"0123456789".to_vec()), ("/large.bin", large())] {
        let whole = served.get(target, &[]);
        let (tag, date) = (whole.field("ETag").unwrap(), whole.field("Last-Modified").unwrap());
        for field in [format!("If-None-Match: {tag}"), format!("If-Modified-Since: {date}")] {
            let same = served.get(target, &[&field]);
            assert_eq!((same.status, same.body.len(), reason(&same)), (304, 0, "static-file"), "{field}");
            assert!(same.field("ETag") == Some(tag) && same.field("Date").is_some());
        }
        let old = served.get(target, &["If-None-Match: \"other\""]);
        assert!(old.status == 200 && old.body == content);
        assert_eq!(served.get(target, &["If-Match: \"other\""]).status, 412);
        let last = content.len() - 1;
        for (range, first, end) in
            [("1-3", 1, 3), ("-2", last - 1, last), ("5-", 5, last), ("4-99999999", 4, last)]
        {
            let part = served.get(target, &[&format!("Range: bytes={range}")]);
            let stated = format!("bytes {first}-{end}/{}", content.len());
            assert_eq!((part.status, part.field("Content-Range")), (206, Some(&stated[..])), "{range}");
            assert!(part.body == content[first..=end] && part.complete, "{range}");
            assert!(part.field("Via").is_some(), "{}", part.head);
        }
        let beyond = served.get(target, &["Range: bytes=99999999-"]);
        let stated = format!("bytes */{}", content.len());
        assert_eq!((beyond.status, beyond.field("Content-Range")), (416, Some(&stated[..])));
        let both = served.get(target, &["Range: bytes=0-1,4-5"]);
        let text = String::from_utf8_lossy(&both.body).into_owned();
        assert!(both.field("Content-Type").unwrap().starts_with("multipart/byteranges"), "{}", both.head);
        assert_eq!((both.status, text.matches("Content-Range: bytes").count()), (206, 2), "{text}");
        assert!(both.body.windows(2).any(|pair| pair == &content[4..=5]));
        let if_range = |validator: &str| {
            served.get(target, &["Range: bytes=1-3", &format!("If-Range: {validator}")]).status
        };
        assert_eq!((if_range(tag), if_range("\"other\"")), (206, 200));
        let head = served.ask("HEAD", target, &["Range: bytes=1-3"]);
        assert_eq!((head.status, head.field("Content-Length")), (200, Some(&content.len().to_string()[..])));
    }
}

#[test]
fn precompressed_file_is_sent_to_clients_that_accept_it() {
    let served = Served::new(ALONE);
    for (accepted, content, coding) in [
        ("gzip, deflate, br, zstd", "brotli", Some("br")),
        ("gzip", "gzipped", Some("gzip")),
        ("gzip, br;q=0", "gzipped", Some("gzip")),
        ("x-gzip", "gzipped", Some("gzip")),
        ("identity", "plain style", None),
        ("", "plain style", None),
    ] {
        let got = served.get("/a.css", &[&format!("Accept-Encoding: {accepted}")]);
        assert_eq!((got.text(), got.field("Content-Encoding")), (content, coding), "{accepted}");
        assert_eq!(got.field("Vary"), Some("Accept-Encoding"));
        assert_eq!(got.field("Content-Type"), Some("text/css; charset=utf-8"));
        let tag = format!("If-None-Match: {}", got.field("ETag").unwrap());
        let same = served.get("/a.css", &[&format!("Accept-Encoding: {accepted}"), &tag]);
        assert_eq!((same.status, same.field("Vary")), (304, Some("Accept-Encoding")));
        let part = served.get("/a.css", &[&format!("Accept-Encoding: {accepted}"), "Range: bytes=1-2"]);
        assert_eq!((part.text(), part.field("Content-Encoding")), (&content[1..3], coding));
    }
    let off = Served::new(&format!("{ALONE}files_precompressed = ['none']\n"));
    let plain = off.get("/a.css", &["Accept-Encoding: gzip, br"]);
    assert_eq!((plain.text(), plain.field("Vary")), ("plain style", None));
}

#[test]
fn directory_without_a_slash_redirects_on_its_own_host() {
    let served = Served::new(ALONE);
    write(&served.path(""), "evil.test/index.html", b"evil");
    for (target, location) in [
        ("/docs", Some("/docs/")),
        ("/docs?a=/b", Some("/docs/?a=/b")),
        ("http://a.test/docs", Some("/docs/")),
        ("/d%6fcs", Some("/docs/")),
        ("/empty", None),
        ("//evil.test", None),
        ("//evil.test/", None),
        ("/%2fevil.test", None),
        ("/\\evil.test", None),
        ("/%5cevil.test", None),
        ("/.//evil.test", None),
    ] {
        let got = served.ask("GET", target, &["X-Forwarded-Host: evil.test"]);
        assert_eq!(got.field("Location"), location, "{target}: {}", got.head);
        assert_eq!(got.status, if location.is_some() { 301 } else { 404 }, "{target}");
    }
    assert_eq!(served.get("/docs/", &[]).text(), "<p>docs");
}

#[test]
fn missing_files_and_other_methods_go_to_the_origin() {
    let served = Served::new(WITH_ORIGIN);
    assert_eq!(reason(&served.get("/small.txt", &[])), "static-file");
    write(&served.path(""), "wp-config.php", SECRET.as_bytes());
    for target in ["/nothing", "/empty/", "/wp-config.php", "/.env", "/a%2fb", "/small.txt/x"] {
        let page = served.get(target, &[]);
        assert_eq!((page.status, page.text()), (200, &format!("origin {target}")[..]), "{target}");
    }
    assert_eq!(served.ask("POST", "/small.txt", &["Content-Length: 0"]).text(), "origin /small.txt");
    let application = Served::new(&format!("{ALONE}files_missing = '/index.html'\n"));
    assert_eq!(application.get("/users/7", &[]).text(), "<p>start");
    assert_eq!(application.ask("POST", "/users/7", &["Content-Length: 0"]).status, 405);
    let tried = Served::new(&format!("{ALONE}files_try = ['{{path}}', '{{path}}.html']\n"));
    assert_eq!(tried.get("/about", &[]).text(), "<p>about");
}

#[test]
fn part_of_the_path_may_be_stripped() {
    let served = Served::new(
        "[[site]]\nnames = ['a.test']\norigin = 'ORIGIN'\n[[site.route]]\npath = ['/media/*', '/media']\n\
         files = 'DIR/www'\nfiles_strip = '/media'\n",
    );
    assert_eq!(served.get("/media/small.txt", &[]).text(), "0123456789");
    assert_eq!(served.get("/media", &[]).field("Location"), Some("/media/"));
    assert_eq!(served.get("/media/docs", &[]).field("Location"), Some("/media/docs/"));
    for target in ["/small.txt", "/MEDIA/small.txt", "/media/media/small.txt"] {
        assert_eq!(served.get(target, &[]).text(), format!("origin {target}"), "{target}");
    }
}

/// Targets that try to leave the directory or to name a hidden or refused file.
fn attacks() -> Vec<String> {
    let names = ["secret", ".env", ".git/config", "x.php", "X.PhP", "x.php.bak", "x.php~", "dump.sql.gz"];
    let ways = [
        "/",
        "//",
        "/./",
        "/../",
        "/../../",
        "/%2e%2e/",
        "/%2E%2E/",
        "/.%2e/",
        "/%2e./",
        "/..%2f",
        "/..%5c",
        "/..\\",
        "/.../",
        "/..;/",
        "/.;/",
        "/docs/../",
        "/docs/..;/",
        "/docs/%2e%2e/%2e%2e/",
        "/%252e%252e/",
        "/%c0%ae%c0%ae/",
        "/%ff/../",
        "/docs%2f..%2f..%2f",
        "/docs/..%00/",
        "/%00/",
        "/out/",
        "/up/",
        "/lin/",
        "/.well-known/../",
        "/.well-known/%2e%2e/",
        "/docs/.well-known/",
    ];
    let mut targets = Vec::new();
    for way in ways {
        for name in names {
            targets.push(format!("{way}{name}"));
            targets.push(format!("{way}{}", name.replace('.', "%2e")));
            targets.push(format!("http://a.test{way}{name}"));
        }
    }
    for name in names {
        for end in
            ["/", ".", "%20", "%00", "%00.txt", "::$DATA", ";.css", "?.css", "#.css", "%23.css", "/a.css"]
        {
            targets.push(format!("/{name}{end}"));
        }
    }
    targets.extend(
        ["/link.txt", "/env.txt", "/source.txt", "/fifo", "/socket", "/proc/self/environ"].map(str::to_owned),
    );
    targets
}

#[test]
fn no_attack_reaches_beyond_the_directory() {
    let sites = format!(
        "[[site]]\nnames = ['a.test']\n{ALONE}[[site]]\nnames = ['b.test']\nfiles = 'DIR/other'\n\
         [[site]]\nnames = ['*.c.test']\norigin = 'ORIGIN'\n"
    );
    let served = Served::new(&sites);
    let www = served.path("");
    for name in [".env", ".git/config", "x.php", "X.PhP", "x.php.bak", "x.php~", "dump.sql.gz", "docs/.env"] {
        write(&www, name, SECRET.as_bytes());
    }
    write(served.directory.path(), "secret", SECRET.as_bytes());
    write(served.directory.path(), "other/secret", SECRET.as_bytes());
    write(served.directory.path(), "other/small.txt", SECRET.as_bytes());
    symlink("..", www.join("up")).unwrap();
    symlink("../other", www.join("out")).unwrap();
    symlink(".", www.join("lin")).unwrap();
    symlink("../secret", www.join("link.txt")).unwrap();
    symlink(".env", www.join("env.txt")).unwrap();
    symlink("x.php", www.join("source.txt")).unwrap();
    symlink("/proc", www.join("proc")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, www.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(www.join("socket")).unwrap();
    let is_safe = |answer: &Response, what: &str| {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!text.contains(SECRET) && !answer.head.contains(SECRET), "{what}: {text}");
        // `lin` is the directory itself, and a query or fragment is no part of a name.
        assert!([400, 404, 421].contains(&answer.status), "{what}: {} {text}", answer.status);
        let served_from = answer.field("Location").unwrap_or("/");
        assert!(served_from.starts_with('/') && !served_from.starts_with("//"), "{what}: {served_from}");
    };
    for target in attacks() {
        is_safe(&served.get(&target, &[]), &target);
        is_safe(&served.get(&target, &["Accept-Encoding: gzip", "Range: bytes=0-4"]), &target);
    }
    for fields in [
        "Host: b.test@a.test",
        "Host: c.test",
        "Host: a.test/../b.test",
        "Host: ..",
        "Host: \r\nX-Forwarded-Host: b.test",
        "Host: evil.test\r\nX-Forwarded-Host: b.test\r\nX-Host: b.test",
        "Host: evil.test\r\nForwarded: host=b.test\r\nX-Original-URL: /secret\r\nX-Rewrite-URL: /secret",
    ] {
        let mut client = connect(&served.edge);
        client.send(format!("GET /small.txt HTTP/1.1\r\n{fields}\r\n\r\n"));
        is_safe(&client.read(), fields);
    }
    for fields in [
        "X-Forwarded-Host: b.test",
        "X-Original-URL: /../secret",
        "X-Sendfile: /etc/passwd",
        "X-Accel-Redirect: /x",
    ] {
        let own = served.get("/small.txt", &[fields]);
        assert_eq!(own.text(), "0123456789", "{fields}");
    }
    assert!(served.origin.seen().is_empty());
}

#[test]
fn path_with_readings_for_two_routes_reaches_no_file() {
    let served = Served::new(
        "[[site]]\nnames = ['a.test']\nfiles = 'DIR/www'\n\
         [[site.route]]\npath = ['/docs/*']\nanswer.status = 403\n",
    );
    for (target, status) in [
        ("/docs/index.html", 403),
        ("/DOCS/index.html", 403),
        ("/docs%2findex.html", 400),
        ("//docs/index.html", 400),
        ("/x/../docs/index.html", 400),
        ("/docs;x/index.html", 400),
        ("/small.txt", 200),
    ] {
        assert_eq!(served.get(target, &[]).status, status, "{target}");
    }
}

#[test]
fn fields_of_the_route_are_in_its_responses() {
    let served = Served::new(
        "files = 'DIR/www'\nhsts = '1h'\nresponse.set = ['Cache-Control: max-age=600', 'X-Own: 1']\n\
         response.remove = ['Accept-Ranges']\n",
    );
    let check = |answer: &Response, control, why: &str| {
        assert_eq!((answer.field("Cache-Control"), answer.field("X-Own")), (control, Some("1")), "{why}");
        assert_eq!(answer.field("Accept-Ranges"), None, "{why}");
    };
    check(&served.get("/small.txt", &[]), Some("max-age=600"), "whole");
    check(&served.get("/large.bin", &[]), Some("max-age=600"), "whole, from the file");
    check(&served.get("/small.txt", &["Range: bytes=0-1"]), Some("max-age=600"), "part");
    check(&served.get("/small.txt", &["If-None-Match: *"]), Some("max-age=600"), "304");
    check(&served.get("/nothing", &[]), Some("no-store"), "404");
    let head = served.ask("HEAD", "/small.txt", &[]);
    assert_eq!(head.field("Content-Length"), Some("10"));
    check(&head, Some("max-age=600"), "HEAD");
    let trust = Trust::of(&served.authority.pem());
    let address = support::socket(&served.edge.bound().listen[1]);
    let mut secured = Client::secured(address, "a.test", &trust).unwrap();
    let answer = secured.get("/small.txt", &[]);
    assert_eq!(answer.field("Strict-Transport-Security"), Some("max-age=3600"));
    assert!(served.get("/small.txt", &[]).field("Strict-Transport-Security").is_none());
}

#[test]
fn files_behind_a_password_are_for_its_users() {
    let served = Served::new(&format!("{ALONE}basic_auth = './passwords'\n"));
    let (right, wrong) = ("Authorization: Basic YW5uOnNlY3JldA==", "Authorization: Basic YW5uOng=");
    for target in ["/small.txt", "/large.bin", "/docs", "/nothing", "/.env"] {
        for fields in [&[][..], &[wrong], &["Range: bytes=0-1"], &["If-None-Match: *"]] {
            let answer = served.get(target, fields);
            assert_eq!((answer.status, reason(&answer)), (401, "password-required"), "{target}");
        }
    }
    for (target, status) in [("/small.txt", 200), ("/large.bin", 200), ("/docs", 301), ("/nothing", 404)] {
        let answer = served.get(target, &[right]);
        let control = if status == 404 { "private, no-store" } else { "private, no-cache" };
        assert_eq!((answer.status, answer.field("Cache-Control")), (status, Some(control)), "{target}");
    }
    assert_eq!(served.ask("HEAD", "/small.txt", &[right]).field("Content-Length"), Some("10"));
}

#[test]
fn every_protocol_sends_the_same_files() {
    let served = Served::new(ALONE);
    let trust = Trust::of(&served.authority.pem());
    let address = support::socket(&served.edge.bound().listen[1]);
    let mut secured = Client::secured(address, "a.test", &trust).unwrap();
    let mut multiplexed = Http2Client::secured(address, "a.test", &trust).unwrap();
    let mut plain = Http2Client::connect(support::address(&served.edge));
    for (target, content) in [("/small.txt", b"0123456789".to_vec()), ("/large.bin", large())] {
        for (name, answer) in [
            ("TLS", secured.get(target, &[])),
            ("HTTP/2 with TLS", multiplexed.get(target, &[])),
            ("HTTP/2", plain.get(target, &[])),
        ] {
            assert!(answer.complete && answer.body == content, "{target} over {name}");
            assert_eq!(reason(&answer), "static-file");
        }
        let part = multiplexed.get(target, &["range: bytes=2-5"]);
        assert_eq!((part.status, &part.body[..]), (206, &content[2..=5]));
        assert_eq!(secured.get(target, &["Range: bytes=2-5"]).body, content[2..=5]);
    }
    assert_eq!(plain.get("/.env", &[]).status, 404);
}

/// Begins to read the large file, lets `change` happen, and reads on.
fn interrupted(served: &Served, secured: bool, change: impl FnOnce(&Path)) -> (Vec<u8>, bool) {
    let trust = Trust::of(&served.authority.pem());
    let address = support::socket(&served.edge.bound().listen[1]);
    let mut client = match secured {
        true => Client::secured(address, "a.test", &trust).unwrap(),
        false => Client::connect_from([127, 0, 0, 1], support::address(&served.edge), 4096),
    };
    client.send("GET /huge.bin HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut answer = client.read_head();
    let begin = client.read_octets(1000);
    change(&served.path("huge.bin"));
    let mut rest = answer.clone();
    rest.head = rest.head.replace(
        answer.field("Content-Length").unwrap(),
        &(answer.field("Content-Length").unwrap().parse::<usize>().unwrap() - 1000).to_string(),
    );
    answer.complete = client.read_body(&mut rest);
    ([begin, rest.body].concat(), answer.complete)
}

#[test]
fn file_that_changes_while_it_is_sent_ends_the_connection() {
    let served = Served::new(ALONE);
    let old = vec![b'o'; 32 << 20];
    for secured in [false, true] {
        fs::write(served.path("huge.bin"), &old).unwrap();
        let (content, complete) = interrupted(&served, secured, |path| {
            fs::File::options().write(true).open(path).unwrap().set_len(20 << 20).unwrap();
        });
        assert!(!complete && content.len() < old.len(), "shorter, TLS {secured}");
        assert!(content.iter().all(|byte| *byte == b'o'), "nothing was padded");
        fs::write(served.path("huge.bin"), &old).unwrap();
        let (_, complete) = interrupted(&served, secured, |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.write_all_at(&vec![b'n'; 1 << 20], 25 << 20).unwrap();
        });
        assert!(!complete, "changed in place, TLS {secured}");
        let harmless: [fn(&Path); 3] = [
            |path| fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap(),
            |path| fs::hard_link(path, path.with_extension("link")).unwrap(),
            |path| {
                let new = path.with_extension("new");
                fs::write(&new, vec![b'n'; 32 << 20]).unwrap();
                fs::rename(new, path).unwrap();
                fs::remove_file(path.with_extension("link")).unwrap();
            },
        ];
        fs::write(served.path("huge.bin"), &old).unwrap();
        for (number, change) in harmless.into_iter().enumerate() {
            let (content, complete) = interrupted(&served, secured, change);
            assert!(complete && content == old, "harmless change {number}, TLS {secured}");
        }
    }
    assert!(metric(&served.edge, "petasos_responses_cut_total", "") >= 4);
    let new = served.get("/huge.bin", &[]);
    assert!(new.complete && new.body.iter().all(|byte| *byte == b'n'));
}

#[test]
fn reload_changes_and_removes_the_directory() {
    let site = "[[site]]\nnames = ['a.test']\n";
    let served = Served::new(&format!("{site}{ALONE}"));
    write(served.directory.path(), "other/small.txt", b"other");
    assert_eq!(served.get("/small.txt", &[]).text(), "0123456789");
    served.reload(&format!("{site}files = 'DIR/other'\n"));
    assert_eq!(served.get("/small.txt", &[]).text(), "other");
    assert_eq!(served.get("/docs/", &[]).status, 404);
    served.reload(&format!("{site}files = 'DIR/missing'\n"));
    let failed = served.get("/small.txt", &[]);
    assert_eq!((failed.status, reason(&failed)), (503, "files-failed"));
    assert!(!failed.text().contains("missing"), "clients learn nothing about the directory");
    served.reload(&format!("{site}files = 'DIR/missing'\norigin = 'ORIGIN'\n"));
    assert_eq!(served.get("/small.txt", &[]).text(), "origin /small.txt");
    served.reload(&format!("{site}origin = 'ORIGIN'\n"));
    assert_eq!(served.get("/small.txt", &[]).text(), "origin /small.txt");
    served.reload(&format!("{site}{ALONE}"));
    assert_eq!(served.get("/small.txt", &[]).text(), "0123456789");
}

#[test]
fn answers_are_explained_counted_and_logged() {
    let mut log = PathBuf::new();
    let served = Served::with(
        "[[site]]\nnames = ['a.test']\nfiles = 'DIR/www'\n[[site]]\nnames = ['b.test']\nfiles = 'DIR/www'\n\
         origin = 'ORIGIN'\n[[site]]\nnames = ['c.test']\nfiles = 'DIR/www'\nmaintenance = 'x'\n",
        |plan, directory| {
            log = directory.join("access.log");
            plan.access_log = Some(AccessLogTarget::File(log.clone()));
        },
    );
    for (url, method, expected) in [
        ("http://a.test/small.txt", "GET", "static-file"),
        ("http://a.test/small.txt", "HEAD", "static-file"),
        ("http://a.test/docs", "GET", "static-file"),
        ("http://a.test/nothing", "GET", "file-missing"),
        ("http://a.test/x.php", "GET", "file-missing"),
        ("http://a.test/small.txt", "POST", "file-method"),
        ("http://b.test/small.txt", "GET", "static-file"),
        ("http://b.test/nothing", "GET", "miss-absent"),
        ("http://b.test/small.txt", "POST", "pass-method"),
        ("http://c.test/small.txt", "GET", "maintenance"),
    ] {
        assert_eq!(served.why(url, method).reason, expected, "{method} {url}");
    }
    assert_eq!(metric(&served.edge, "petasos_requests_total", "static-file"), 0, "a question counts nothing");
    served.get("/small.txt", &["User-Agent: me"]);
    served.get("/large.bin", &[]);
    served.get("/nothing", &[]);
    assert_eq!(metric(&served.edge, "petasos_requests_total", "reason=\"static-file\""), 2);
    assert_eq!(metric(&served.edge, "petasos_requests_total", "reason=\"file-missing\""), 1);
    assert_eq!(metric(&served.edge, "petasos_files_open", ""), 1, "the small file is in memory");
    served.edge.stop();
    served.edge.join().unwrap();
    let text = fs::read_to_string(log).unwrap();
    for line in [
        "\"GET /small.txt HTTP/1.1\" 200 10 \"-\" \"me\" a.test answered static-file",
        "\"GET /large.bin HTTP/1.1\" 200 3145728 \"-\" \"-\" a.test answered static-file",
        " a.test refused file-missing",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
