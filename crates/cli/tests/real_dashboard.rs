//! The dashboard in a real browser: figures that move and equal the metrics, a purge by clicking,
//! no request to another host, an empty console, pages that fit narrow and wide screens, contrast,
//! and the way of the keyboard.
//!
//! Screenshots are written to `target/tmp`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

#[path = "../lab/wordpress/chromium.rs"]
#[allow(dead_code, reason = "each set of tests uses its part")]
mod chromium;

use chromium::{BrowserWindow, Chromium};
use serde_json::json;
use std::path::Path;
use testkit::{Client, Edge, Origin, get, response};

/// A hostile and long URL, host name or user agent.
const HOSTILE: &str = "/shop/%3Cscript%3Ealert(1)%3C/script%3E?q=%22onerror=%27alert(2)%27&long=aVeryLongParameterWithoutAnyPlaceToBreakItAnywhereAtAllInTheWholeLine0123456789";

/// Widths and heights of the screens.
const SCREENS: [(u32, u32); 2] = [(1280, 900), (390, 844)];

fn site() -> Origin {
    Origin::start(|seen| {
        let path = seen.target().split('?').next().unwrap();
        let tag = format!("Surrogate-Key: site page{}", path.replace('/', "-"));
        let html = "Content-Type: text/html; charset=utf-8";
        match path {
            _ if path.starts_with("/private") => {
                response("200 OK", &["Cache-Control: private", html], b"for one visitor")
            }
            _ if path.starts_with("/broken") => response("500 Internal Server Error", &[html], b"no"),
            _ if path.starts_with("/short") => {
                response("200 OK", &["Cache-Control: max-age=0", html], b"short")
            }
            _ => response("200 OK", &["Cache-Control: s-maxage=600", &tag, html], path.as_bytes()),
        }
    })
}

/// The requests of a few visitors.
fn visit(edge: &Edge, rounds: usize) {
    for round in 0..rounds {
        for target in ["/", "/", "/shop/", "/shop/1", "/blog/a", "/blog/a", HOSTILE] {
            get(edge.address, target, &["User-Agent: <script>alert(3)</script>"]);
        }
        get(edge.address, &format!("/blog/{round}"), &[]);
        get(edge.address, "/private/account", &["Cookie: session=1; theme=dark"]);
        if round % 5 == 0 {
            get(edge.address, "/broken/page", &[]);
            get(edge.address, "/short", &[]);
        }
    }
}

/// The number of requests in `/metrics`.
fn requests(edge: &Edge) -> u64 {
    let mut client = Client::connect(edge.admin);
    client.send(format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", edge.admin));
    let text = client.read().text().to_owned();
    let lines = text.lines().filter(|line| line.starts_with("petasos_requests_total{"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The number of requests when all answered ones have been counted, which happens after their
/// responses: the number no longer grows.
fn settled(edge: &Edge) -> u64 {
    let mut last = requests(edge);
    testkit::eventually("all requests are counted", || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let before = std::mem::replace(&mut last, requests(edge));
        before == last
    });
    last
}

/// A browser on the dashboard of an edge.
struct Visit {
    browser: Chromium,
    window: BrowserWindow,
}

impl Visit {
    fn new(edge: &Edge) -> Self {
        let mut browser = Chromium::start("localhost", edge.admin);
        let window = browser.window();
        for domain in ["Network.enable", "Log.enable", "Runtime.enable"] {
            browser.command(&window, domain, &json!({}));
        }
        Self { browser, window }
    }

    fn open(&mut self, path: &str) {
        self.browser.open(&self.window, &format!("http://localhost{path}"));
    }

    fn until(&mut self, what: &str, condition: &str) {
        self.browser.until(&self.window, what, condition);
    }

    fn text(&mut self) -> String {
        self.browser.evaluate(&self.window, "document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Asserts that nothing went wrong in the pages so far: no error in the console, no violation
    /// of the policy, and no request to another host.
    fn assert_clean(&mut self) {
        let events = self.browser.kept_events(&self.window);
        let mut requests = 0;
        for event in &events {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap() {
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str().unwrap();
                    assert!(url.starts_with("http://localhost/"), "{url}");
                    requests += 1;
                }
                // A hint about forms, for example.
                "Log.entryAdded" if parameters["entry"]["level"] == "verbose" => {}
                "Log.entryAdded" | "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" => {
                    panic!("the console has {event}");
                }
                _ => {}
            }
        }
        assert!(requests > 0, "{events:?}");
    }

    /// Sets the size of the screen and the preferred colours.
    fn show(&mut self, (width, height): (u32, u32), scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.browser.command(&self.window, "Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.browser.command(&self.window, "Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Asserts that the tab key reaches each control of the page, and that the focus is visible.
    fn walk_by_keyboard(&mut self, name: &str) {
        let controls = self.browser.evaluate(&self.window, include_str!("dashboard/controls.js"));
        let controls = controls.as_u64().unwrap();
        assert!(controls > 0, "{name} has no controls");
        self.browser.evaluate(&self.window, "document.activeElement.blur()");
        let mut reached = std::collections::BTreeSet::new();
        for _ in 0..controls {
            for kind in ["rawKeyDown", "keyUp"] {
                let key = json!({"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9});
                self.browser.command(&self.window, "Input.dispatchKeyEvent", &key);
            }
            let focus = self.browser.evaluate(&self.window, include_str!("dashboard/focus.js"));
            assert_eq!(focus["isVisible"], json!(true), "{name}: {focus}");
            reached.extend(focus["control"].as_str().and_then(|number| number.parse::<u64>().ok()));
        }
        let missing: Vec<u64> = (0..controls).filter(|number| !reached.contains(number)).collect();
        assert!(missing.is_empty(), "{name}: the tab key does not reach the controls {missing:?}");
    }

    /// Asserts that text can be read on its background.
    fn assert_contrast(&mut self, name: &str) {
        let faint = self.browser.evaluate(&self.window, include_str!("dashboard/contrast.js"));
        assert_eq!(faint, "", "{name}: too little contrast");
    }

    /// Asserts that nothing is wider than the screen, and saves the whole page.
    fn shoot(&mut self, name: &str, width: u32) {
        let wide = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && \
                    !e.closest('.skip') && e.getBoundingClientRect().right > innerWidth + 1).map(e => \
                    e.outerHTML.slice(0, 200)).join('\\n')";
        let wide = self.browser.evaluate(&self.window, wide);
        assert_eq!(wide, "", "{name}: wider than the screen");
        let scrolls = "document.documentElement.scrollWidth > innerWidth";
        assert_eq!(self.browser.evaluate(&self.window, scrolls), json!(false), "{name}");
        let picture = self.browser.picture(&self.window, width);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(directory.join(format!("dashboard-{name}.png")), picture).unwrap();
    }
}

fn edge(origin: &Origin, directory: &Path) -> Edge {
    let reports = directory.join("reports");
    std::fs::create_dir_all(reports.join("ladder")).unwrap();
    std::fs::write(reports.join("ladder/report.html"), "<h1>A ladder</h1><script>alert(4)</script>").unwrap();
    std::fs::write(reports.join("ladder/results.json"), "{}").unwrap();
    let disk = directory.join("disk");
    let configuration = format!(
        "state_directory = '{}'\nreports_directory = '{}'\ndisk = '{}'\ndisk_size = '256MiB'\nmemory = '128MiB'\n",
        directory.join("state").display(),
        reports.display(),
        disk.display()
    );
    std::fs::create_dir_all(&disk).unwrap();
    Edge::configured(&origin.url(), &configuration, &[])
}

#[test]
fn figures_move_and_purge_works_in_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let origin = site();
    let edge = edge(&origin, directory.path());
    visit(&edge, 20);
    let mut visit_of = Visit::new(&edge);
    visit_of.open("/dashboard");
    visit_of.until("the stream begins", "document.getElementById('live-state').textContent === 'Live'");
    let shown =
        |total: u64| format!("document.getElementById('requests-total')?.dataset.value === '{total}'");
    let before = settled(&edge);
    visit_of.until("the page shows the metrics", &shown(before));
    visit(&edge, 10);
    let after = settled(&edge);
    assert!(after >= before + 90, "{before}, {after}");
    visit_of.until("the figure moves", &shown(after));
    visit_of.until("rates are drawn", "!!document.querySelector('#live-overview figure path.l0')");
    assert!(get(edge.address, "/shop/1", &[]).field("Cache-Status").unwrap().contains("hit-fresh"));
    let choose = "document.getElementById('kind').value = 'tag'";
    visit_of.browser.evaluate(&visit_of.window, choose);
    visit_of.browser.type_into(&visit_of.window, "#value", "page-shop-1");
    visit_of
        .browser
        .follow(&visit_of.window, "document.querySelector('#purge form[method=get] button').click()");
    assert!(visit_of.text().contains("all responses with the tag page-shop-1"), "{}", visit_of.text());
    assert!(get(edge.address, "/shop/1", &[]).field("Cache-Status").unwrap().contains("hit-fresh"));
    visit_of.browser.follow(&visit_of.window, "document.querySelector('button.danger').click()");
    let result = visit_of.text();
    assert!(result.contains("1 stored response was removed."), "{result}");
    assert!(get(edge.address, "/shop/1", &[]).field("Cache-Status").unwrap().contains("miss-absent"));
    visit_of.open("/dashboard");
    visit_of
        .browser
        .follow(&visit_of.window, "document.querySelector('#purge form[method=post] button').click()");
    assert!(visit_of.text().contains("Done"), "{}", visit_of.text());
    visit_of.assert_clean();
}

#[test]
fn live_requests_appear_while_they_happen() {
    let directory = tempfile::tempdir().unwrap();
    let origin = site();
    let edge = edge(&origin, directory.path());
    let mut visit_of = Visit::new(&edge);
    visit_of.open("/dashboard/requests?verdict=miss");
    visit_of.until("the stream begins", "document.getElementById('live-state').textContent === 'Live'");
    visit(&edge, 2);
    visit_of.until("a miss is shown", "document.querySelectorAll('#request-rows tr').length >= 4");
    let text = visit_of.text();
    assert!(text.contains("/blog/1") && !text.contains("hit-fresh"), "{text}");
    visit_of.browser.press(&visit_of.window, "#pause");
    visit_of.until("it pauses", "document.getElementById('live-state').textContent === 'Paused'");
    visit_of.browser.press(&visit_of.window, "#pause");
    visit_of.until("it goes on", "document.getElementById('live-state').textContent === 'Live'");
    visit_of.assert_clean();
}

#[test]
fn pages_fit_every_screen() {
    let directory = tempfile::tempdir().unwrap();
    let origin = site();
    let edge = edge(&origin, directory.path());
    visit(&edge, 30);
    let call = r#"{"type":"uri","selectors":["http://example.test/blog/3"],"purge":true}"#;
    let mut client = Client::connect(edge.admin);
    client.send(format!(
        "POST /purge HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{call}",
        call.len()
    ));
    assert_eq!(client.read().status, 200);
    let mut visit_of = Visit::new(&edge);
    let found = "/dashboard/search?url=http%3A%2F%2Fexample.test%2Fblog%2Fa";
    let long = "/dashboard/purge?kind=url&value=http%3A%2F%2Fexample.test%2FaVeryLongPathWithoutAnyPlaceToBreakItAnywhere0123456789";
    let pages = [
        ("main", "/dashboard"),
        ("search", found),
        ("purge", long),
        ("login", "/dashboard/login"),
        ("requests", "/dashboard/requests"),
    ];
    for (name, path) in pages {
        visit_of.open(path);
        if name == "main" {
            visit_of
                .until("the stream begins", "document.getElementById('live-state').textContent === 'Live'");
            for _ in 0..3 {
                visit(&edge, 4);
                let total = settled(&edge);
                let shown = format!("document.getElementById('requests-total')?.dataset.value === '{total}'");
                visit_of.until("the figures are new", &shown);
            }
        }
        if name == "requests" {
            // Requests before the stream begins are not in it.
            visit_of
                .until("the stream begins", "document.getElementById('live-state').textContent === 'Live'");
            visit(&edge, 2);
            visit_of.until("requests are shown", "document.querySelectorAll('#request-rows tr').length > 5");
        }
        for screen in SCREENS {
            for scheme in ["light", "dark"] {
                visit_of.show(screen, scheme);
                let shot = format!("{name}-{}-{scheme}", screen.0);
                visit_of.shoot(&shot, screen.0);
                visit_of.assert_contrast(&shot);
            }
        }
        visit_of.walk_by_keyboard(name);
    }
    visit_of.assert_clean();
}
