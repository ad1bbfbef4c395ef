//! The dashboard: who may read and change, purges with confirmation, reloads, searches and events.

use crate::support::{metric, plan, reason, socket};
use address::Prefixes;
use clock::Clock as _;
use config::EdgePlan;
use petasos_edge::{BoundEdge, PlanSource, RunningEdge, System};
use platform::SystemClock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Client, Origin, Response, eventually, response};

/// An edge with a dashboard, in front of an origin whose pages have tags.
struct Stage {
    edge: RunningEdge,
    /// The plan that a reload puts in force.
    plan: Arc<Mutex<Result<EdgePlan, String>>>,
    origin: Origin,
    directory: tempfile::TempDir,
}

/// A form of a page: what a browser would send.
struct Form {
    action: String,
    fields: Vec<(String, String)>,
}

impl Stage {
    fn start(token: Option<&str>) -> Self {
        let origin = Origin::start(|seen| {
            let tag = format!("Surrogate-Key: page all-{}", seen.target().trim_start_matches('/'));
            response("200 OK", &["Cache-Control: max-age=600", &tag], seen.target().as_bytes())
        });
        let directory = tempfile::tempdir().unwrap();
        let mut plan = plan(&origin.url());
        plan.purge_peers = Prefixes::default();
        plan.reports_directory = Some(directory.path().join("reports"));
        plan.state_directory = Some(directory.path().join("state"));
        if let Some(token) = token {
            std::fs::write(directory.path().join("token"), token).unwrap();
            plan.token_file = Some(directory.path().join("token"));
        }
        let stored = Arc::new(Mutex::new(Ok(plan.clone())));
        let source: PlanSource = Arc::new({
            let stored = Arc::clone(&stored);
            move || stored.lock().unwrap().clone()
        });
        let edge = BoundEdge::bind_again(plan, source, System::of_machine()).unwrap().start().unwrap();
        Self { edge, plan: stored, origin, directory }
    }

    fn host(&self) -> String {
        socket(&self.edge.bound().admin).to_string()
    }

    fn client(&self) -> Client {
        Client::connect(socket(&self.edge.bound().admin))
    }

    fn get(&self, target: &str, fields: &[&str]) -> Response {
        self.ask("GET", target, fields, "")
    }

    fn ask(&self, method: &str, target: &str, fields: &[&str], content: &str) -> Response {
        let (mut client, host, length) = (self.client(), self.host(), content.len());
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{lines}\r\n{content}"
        ));
        client.read()
    }

    fn post(&self, target: &str, fields: &[&str], content: &str) -> Response {
        let form = ["Content-Type: application/x-www-form-urlencoded"];
        self.ask("POST", target, &[&form[..], fields].concat(), content)
    }

    /// Sends a form as it is in the page.
    fn submit(&self, form: &Form, fields: &[&str]) -> Response {
        self.post(&form.action, fields, &form.content())
    }

    /// Follows the redirection to the result of a change.
    fn result(&self, response: &Response, fields: &[&str]) -> String {
        assert_eq!(response.status, 303, "{}", response.text());
        let page = self.get(response.field("Location").unwrap(), fields);
        assert_eq!(page.status, 200);
        page.text().to_owned()
    }

    /// Logs in, and returns the line with the cookie.
    fn log_in(&self, token: &str) -> String {
        let answer = self.post("/dashboard/login", &[], &format!("token={token}"));
        assert_eq!((answer.status, answer.field("Location")), (303, Some("/dashboard")), "{}", answer.text());
        let cookie = answer.field("Set-Cookie").unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        format!("Cookie: {}", cookie.split(';').next().unwrap())
    }

    /// Whether a page is a hit. Afterwards it is stored.
    fn is_stored(&self, target: &str) -> bool {
        let mut client = Client::connect(socket(&self.edge.bound().listen[0]));
        reason(&client.get(target, &[])) == "hit-fresh"
    }
}

impl Form {
    /// The form of a page whose action is this.
    fn of(page: &str, action: &str) -> Self {
        let mut forms = page.split("<form ").skip(1).map(|form| form.split("</form>").next().unwrap());
        let wanted = format!("method=\"post\" action=\"{action}\"");
        let form = forms.find(|form| form.contains(&wanted)).unwrap_or_else(|| panic!("no {action}: {page}"));
        let value = |input: &str, name: &str| {
            input.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned()
        };
        let hidden = form.split("<input type=\"hidden\"").skip(1);
        let fields = hidden.map(|input| (value(input, "name"), value(input, "value"))).collect();
        Self { action: action.to_owned(), fields }
    }

    fn content(&self) -> String {
        let encoded = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
        let fields = self.fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        fields.collect::<Vec<_>>().join("&")
    }
}

#[test]
fn page_has_its_figures_and_a_strict_policy() {
    let stage = Stage::start(None);
    assert!(!stage.is_stored("/a") && stage.is_stored("/a"));
    eventually("both requests are counted", || metric(&stage.edge, "petasos_requests_total", "") == 2);
    let page = stage.get("/dashboard", &[]);
    assert_eq!(page.status, 200);
    let text = page.text();
    assert!(text.contains("data-value=\"2\">2<") && text.contains("miss-absent"), "{text}");
    let policy = page.field("Content-Security-Policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
    for (name, value) in [
        ("X-Frame-Options", "DENY"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "same-origin"),
    ] {
        assert_eq!(page.field(name), Some(value));
    }
    assert_eq!(stage.get("/", &[]).field("Location"), Some("/dashboard"));
    for file in ["style.css", "script.js", "icon.svg"] {
        assert_eq!(stage.get(&format!("/dashboard/{file}"), &[]).status, 200, "{file}");
    }
    for (method, target, status) in
        [("GET", "/dashboard/none", 404), ("POST", "/dashboard/none", 404), ("PUT", "/dashboard", 405)]
    {
        assert_eq!(stage.ask(method, target, &[], "").status, status, "{method} {target}");
    }
}

#[test]
fn purge_needs_its_confirmation_and_its_form_token() {
    let stage = Stage::start(None);
    for (query, gone) in [
        ("kind=tag&value=all-a", &["/a"][..]),
        ("kind=url&value=http%3A%2F%2Fexample.test%2Fb", &["/b"]),
        ("kind=prefix&value=http%3A%2F%2Fexample.test%2Fdir%2F", &["/dir/c"]),
        ("kind=host&value=example.test", &["/a", "/b", "/dir/c"]),
        ("kind=everything&value=", &["/a", "/b", "/dir/c"]),
    ] {
        for target in ["/a", "/b", "/dir/c"] {
            stage.is_stored(target);
        }
        let confirmation = stage.get(&format!("/dashboard/purge?{query}"), &[]);
        assert_eq!(confirmation.status, 200, "{query}");
        assert!(stage.is_stored("/a") && stage.is_stored("/b"), "asking purges nothing");
        let form = Form::of(confirmation.text(), "/dashboard/purge");
        let fields =
            |form: &Form| form.fields.iter().filter(|(name, _)| name != "form_token").cloned().collect();
        let forged = Form { action: form.action.clone(), fields: fields(&form) };
        assert_eq!(stage.submit(&forged, &[]).status, 403, "{query}");
        assert!(stage.is_stored("/a") && stage.is_stored("/b"), "a forged form purges nothing");
        let result = stage.result(&stage.submit(&form, &[]), &[]);
        assert!(result.contains("Done") && result.contains("127.0.0.1 (dashboard)"), "{result}");
        for target in ["/a", "/b", "/dir/c"] {
            assert_eq!(stage.is_stored(target), !gone.contains(&target), "{query}: {target}");
        }
    }
    let soft = stage.get("/dashboard/purge?kind=tag&value=all-a&soft=yes", &[]);
    let result = stage.result(&stage.submit(&Form::of(soft.text(), "/dashboard/purge"), &[]), &[]);
    assert!(result.contains("1 stored response was marked stale."), "{result}");
    for wrong in ["kind=url&value=%3Cscript%3E", "kind=tag&value=", "kind=host&value=a%2Fb"] {
        let page = stage.get(&format!("/dashboard/purge?{wrong}"), &[]);
        assert!(page.status == 400 && !page.text().contains("<script>"), "{wrong}");
    }
}

#[test]
fn foreign_pages_can_neither_read_nor_change() {
    let stage = Stage::start(None);
    stage.is_stored("/a");
    let page = stage.get("/dashboard/purge?kind=everything", &[]);
    let form = Form::of(page.text(), "/dashboard/purge");
    for field in [
        "Origin: http://evil.test",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "X-Forwarded-For: 192.0.2.1",
    ] {
        let answer = stage.submit(&form, &[field]);
        assert_eq!(answer.status, 403, "{field}");
        assert!(stage.is_stored("/a"), "{field}");
    }
    let mut client = stage.client();
    client.send("GET /dashboard HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    assert_eq!(client.read().status, 403, "a name of another site leads here");
    assert_eq!(stage.get("/dashboard", &["Sec-Fetch-Site: cross-site"]).status, 403);
    let link = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    assert_eq!(stage.get("/dashboard", &link).status, 200, "a link may open the dashboard");
    for target in ["/log", "/status", "/dashboard/history", "/dashboard/requests/events", "/dashboard/events"]
    {
        assert_eq!(stage.get(target, &["Sec-Fetch-Site: cross-site"]).status, 403, "{target}");
        let is_stream = target == "/log" || target.ends_with("/events");
        assert_eq!(stage.get(target, &link).status, if is_stream { 403 } else { 200 }, "{target}");
    }
    let length = form.content().len();
    let mut client = stage.client();
    let host = stage.host();
    client.send(format!(
        "POST /dashboard/purge HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{}",
        form.content()
    ));
    assert_eq!(client.read().status, 415, "a form of another kind");
    assert!(stage.is_stored("/a"));
}

#[test]
fn last_seconds_before_a_stop_are_kept() {
    let stage = Stage::start(None);
    stage.is_stored("/a");
    // A shorter time gives no values.
    std::thread::sleep(Duration::from_millis(1100));
    let Stage { edge, directory, .. } = stage;
    edge.stop();
    edge.join().unwrap();
    let content = std::fs::read(directory.path().join("state/history")).unwrap();
    let now = SystemClock::new().now().as_secs() / 60;
    let rows = history::read(&content, now).unwrap();
    let requests = |row: &history::Row| f64::from(row.secs) * row.get(history::Figure::Requests).unwrap();
    let (counted, secs) =
        (rows.iter().map(requests).sum::<f64>(), rows.iter().map(|row| row.secs).sum::<u32>());
    assert!((0.5..1.5).contains(&counted) && secs >= 1, "{rows:?}");
}

#[test]
fn origins_are_values_for_readers_only() {
    let stage = Stage::start(Some("secret"));
    stage.is_stored("/a");
    eventually("the request is counted", || metric(&stage.edge, "petasos_requests_total", "") == 1);
    let values = stage.get("/dashboard/origins.csv", &[]);
    assert_eq!((values.status, values.field("Content-Type")), (200, Some("text/csv; charset=utf-8")));
    let (head, line) = values.text().trim_end().split_once("\r\n").unwrap();
    let found: HashMap<_, _> = head.split(',').zip(line.split(',')).collect();
    assert_eq!((found["origin"], found["state"]), (&*stage.origin.url(), "well"));
    let number = |name: &str| found[name].parse::<u64>().unwrap();
    assert_eq!((number("requests"), number("connect_errors"), number("downs")), (1, 0, 0));
    assert!(number("bytes_received") > 50 && number("bytes_sent") > 50, "{line}");
    let status: api::status::EdgeStatus = serde_json::from_str(stage.get("/status", &[]).text()).unwrap();
    assert_eq!(status.sites[0].origins[0].requests, 1);
    let elsewhere = "X-Forwarded-For: 192.0.2.1";
    assert_eq!(stage.get("/dashboard/origins.csv", &[elsewhere]).status, 303);
    assert_eq!(stage.get("/dashboard/origins.csv", &[elsewhere, "Authorization: Bearer secret"]).status, 200);
}

#[test]
fn log_in_gives_a_session_that_may_purge() {
    let stage = Stage::start(Some("secret"));
    let elsewhere = "X-Forwarded-For: 192.0.2.1";
    for target in
        ["/dashboard", "/dashboard/search?url=http://a/", "/dashboard/reports/a.html", "/dashboard/requests"]
    {
        assert_eq!(stage.get(target, &[elsewhere]).field("Location"), Some("/dashboard/login"), "{target}");
    }
    assert_eq!(stage.get("/dashboard/events", &[elsewhere]).status, 403);
    assert_eq!(stage.get("/dashboard/requests/events", &[elsewhere]).status, 403);
    let reader = stage.get("/dashboard", &[]);
    assert!(reader.status == 200 && !reader.text().contains("form_token"), "this machine may only read");
    assert_eq!(stage.post("/dashboard/purge", &[], "kind=everything").status, 303);
    let cookie = stage.log_in("secret");
    let page = stage.get("/dashboard", &[elsewhere, &cookie]);
    assert_eq!(page.status, 200);
    stage.is_stored("/a");
    let confirmation = stage.get("/dashboard/purge?kind=tag&value=page", &[&cookie]);
    let form = Form::of(confirmation.text(), "/dashboard/purge");
    let other = stage.log_in("secret");
    assert_eq!(stage.submit(&form, &[&other]).status, 403, "the form belongs to the other session");
    let result = stage.result(&stage.submit(&form, &[&cookie]), &[&cookie]);
    assert!(result.contains("1 stored response was removed.") && result.contains("logged in"), "{result}");
    assert!(!stage.is_stored("/a"));
    assert_eq!(
        stage.get("/metrics", &[elsewhere, &cookie]).status,
        403,
        "a session is for the dashboard only"
    );
    assert_eq!(stage.ask("POST", "/reload", &[&cookie], "").status, 403);
    let out = Form::of(page.text(), "/dashboard/logout");
    assert_eq!(stage.submit(&out, &[&cookie]).status, 303);
    assert_eq!(stage.get("/dashboard", &[elsewhere, &cookie]).status, 303, "the session has ended");
    std::fs::write(stage.directory.path().join("token"), "changed").unwrap();
    assert_eq!(stage.get("/dashboard", &[elsewhere, &other]).status, 200);
    assert_eq!(stage.ask("POST", "/reload", &["Authorization: Bearer secret"], "").status, 200);
    assert_eq!(stage.get("/dashboard", &[elsewhere, &other]).status, 303, "its token is no longer valid");
}

#[test]
fn wrong_tokens_are_refused_and_soon_no_more_are_tried() {
    let stage = Stage::start(Some("secret"));
    for wrong in ["secre", "secret2", "", "SECRET"] {
        let answer = stage.post("/dashboard/login", &[], &format!("token={wrong}"));
        assert!(answer.status == 403 && answer.field("Set-Cookie").is_none(), "{wrong}");
    }
    assert_eq!(stage.post("/dashboard/login", &[], "token=x").status, 403);
    let answer = stage.post("/dashboard/login", &[], "token=secret");
    assert!(answer.status == 429 && answer.field("Set-Cookie").is_none(), "five attempts were made");
    let refused = metric(&stage.edge, "petasos_dashboard_logins_refused_total", "");
    assert_eq!(refused, 6);
    for made_up in ["Cookie: petasos_session=", "Cookie: petasos_session=0000"] {
        assert_eq!(stage.get("/dashboard", &["Via: 1.1 a", made_up]).status, 303);
    }
    let without = Stage::start(None);
    assert_eq!(without.post("/dashboard/login", &[], "token=").status, 403, "there is no token");
}

#[test]
fn reload_by_a_form_tells_its_result() {
    let stage = Stage::start(None);
    let reload = || Form::of(stage.get("/dashboard", &[]).text(), "/dashboard/reload");
    let good = stage.result(&stage.submit(&reload(), &[]), &[]);
    assert!(good.contains("Done") && good.contains("1 unchanged"), "{good}");
    *stage.plan.lock().unwrap() = Err("line 7: <b>nothing</b> is right".to_owned());
    let bad = stage.result(&stage.submit(&reload(), &[]), &[]);
    assert!(bad.contains("Not done") && bad.contains("&lt;b&gt;nothing&lt;/b&gt;"), "{bad}");
    assert_eq!(stage.ask("POST", "/reload", &[], "").status, 422);
    let purge = r#"{"type": "tag", "selectors": ["a<i>"], "purge": true}"#;
    assert_eq!(stage.ask("POST", "/purge", &["Content-Type: application/json"], purge).status, 200);
    let page = stage.get("/dashboard", &[]);
    let changes = page.text().split("live-changes").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(changes.matches("<tr>").count(), 5, "four changes below the head: {changes}");
    assert!(changes.contains("purge (api): tags a&lt;i&gt;"), "{changes}");
    assert_eq!(stage.get("/dashboard/change?number=99", &[]).status, 404);
}

#[test]
fn search_shows_what_is_stored_for_a_url() {
    let stage = Stage::start(None);
    stage.is_stored("/a");
    let found = stage.get("/dashboard/search?url=http%3A%2F%2Fexample.test%2Fa", &[]);
    assert!(found.status == 200 && found.text().contains("hit-fresh"), "{}", found.text());
    assert!(
        found.text().contains("max-age=600") && found.text().contains(" of 10 min, "),
        "{}",
        found.text()
    );
    let absent = stage.get("/dashboard/search?url=http%3A%2F%2Fexample.test%2Fb", &[]);
    assert!(absent.text().contains("miss-absent") && absent.text().contains("Nothing is stored"));
    assert_eq!(stage.get("/dashboard/search?url=%3Cscript%3E", &[]).status, 400);
    assert!(!stage.is_stored("/b"), "the search has fetched nothing");
}

/// Begins a stream of events and reads its first one.
fn events(stage: &Stage, target: &str) -> (Client, String) {
    let (mut client, host) = (stage.client(), stage.host());
    client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let head = client.read_head();
    assert_eq!((head.status, head.field("Content-Type")), (200, Some("text/event-stream")));
    let first = String::from_utf8(client.try_read_chunk().unwrap()).unwrap();
    (client, first)
}

#[test]
fn events_bring_changed_sections_and_end_with_their_client() {
    let stage = Stage::start(None);
    let (mut client, first) = events(&stage, "/dashboard/events?range=7d");
    assert!(first.starts_with("event: sections\ndata: {") && first.ends_with("}\n\n"), "{first}");
    let all: serde_json::Value = serde_json::from_str(first.split("data: ").nth(1).unwrap().trim()).unwrap();
    assert!(all["overview"].as_str().unwrap().contains("data-value=\"0\""), "{all}");
    stage.is_stored("/a");
    let next = || String::from_utf8(client.try_read_chunk().unwrap()).unwrap();
    let later = std::iter::repeat_with(next).find(|event| event.contains("miss-absent")).unwrap();
    assert!(!later.contains("\"certificates\""), "a section that has not changed is not sent");
    let mut all: Vec<_> = (0..7).map(|_| events(&stage, "/dashboard/events").0).collect();
    assert_eq!(stage.get("/dashboard/events", &[]).status, 503, "eight pages receive events");
    all.pop();
    eventually("the place of a client that has gone is free", || {
        let (mut client, host) = (stage.client(), stage.host());
        client.send(format!("GET /dashboard/events HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read_head().status == 200
    });
}

#[test]
fn live_requests_are_filtered_and_told_when_left_out() {
    let stage = Stage::start(None);
    let (mut client, _) =
        events(&stage, "/dashboard/requests/events?verdict=miss&where=path%20~%20%22%5E%2Fn%22");
    stage.is_stored("/other");
    for number in 0..150 {
        stage.is_stored(&format!("/n{number}"));
        stage.is_stored(&format!("/n{number}"));
    }
    let (mut rows, mut skipped) = (0, 0);
    while rows + skipped < 150 {
        let event = String::from_utf8(client.try_read_chunk().unwrap()).unwrap();
        let Some(data) = event.strip_prefix("event: requests\ndata: ") else { continue };
        let data: serde_json::Value = serde_json::from_str(data.trim()).unwrap();
        let html = data["html"].as_str().unwrap();
        assert!(!html.contains("/other") && !html.contains("hit-fresh"), "{html}");
        rows += html.matches("<tr>").count();
        skipped = data["skipped"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap_or(0);
    }
    assert_eq!(rows + skipped, 150);
    let page = stage.get("/dashboard/requests?where=path%20~%20%28", &[]);
    assert!(page.status == 400 && page.text().contains("column"), "{}", page.text());
    assert_eq!(stage.get("/dashboard/requests?verdict=none", &[]).status, 400);
    assert_eq!(stage.get("/dashboard/requests?verdict=hit", &[]).status, 200);
}

#[test]
fn reports_are_shown_in_a_sandbox() {
    let stage = Stage::start(None);
    let reports = stage.directory.path().join("reports");
    std::fs::create_dir_all(reports.join("run")).unwrap();
    std::fs::write(reports.join("run/report.html"), "<script>alert(1)</script>").unwrap();
    let page = stage.get("/dashboard", &[]);
    assert!(page.text().contains("href=\"/dashboard/reports/run/report.html\""), "{}", page.text());
    let report = stage.get("/dashboard/reports/run/report.html", &[]);
    let policy = report.field("Content-Security-Policy").unwrap();
    assert!(report.status == 200 && policy.starts_with("sandbox; default-src 'none'"), "{policy}");
    for target in ["../token", "..%2ftoken", "run/../../token.html", "run%2freport.html", "", "/etc/passwd"] {
        assert_eq!(stage.get(&format!("/dashboard/reports/{target}"), &[]).status, 404, "{target}");
    }
}
