//! The ladder's page in a real browser: every chart is drawn, the console stays empty, and no other
//! host receives a request.
//!
//! Chromium loads a harness from an origin in this process. The harness shows the page in a frame
//! of a given width and records the layout. All hosts except 127.0.0.1 are reached through a proxy
//! in this process, which records the requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod common;

use common::made_up;
use petasos_report::html::page;
use petasos_report::results::{CellRecord, Results, StepRecord};
use serde_json::Value;
use std::process::Command;
use testkit::{Origin, response};

/// Possible paths of the browser.
const BROWSERS: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];

/// Hosts that the browser contacts on its own, whatever the page is: updates, time, accounts.
const BROWSER_ITSELF: [&str; 10] = [
    "accounts.google.com",
    "android.clients.google.com",
    "clients.google.com",
    "clients2.google.com",
    "content-autofill.googleapis.com",
    "edgedl.me.gvt1.com",
    "optimizationguide-pa.googleapis.com",
    "redirector.gvt1.com",
    "safebrowsing.googleapis.com",
    "update.googleapis.com",
];

/// Shows `/page` in a frame. Reports the box and the number of marks for each visible drawing.
const HARNESS: &str = r#"<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<iframe id="f" src="/page" style="width:WIDTHpx;height:3000px;border:0"></iframe><pre id="out"></pre>
<script>
const frame = document.getElementById('f');
frame.onload = () => {
  const inner = frame.contentDocument, view = frame.contentWindow;
  const shown = [...inner.querySelectorAll('svg')].filter(svg => svg.getClientRects().length > 0);
  const box = element => { const r = element.getBoundingClientRect(); return [r.left, r.right, r.width, r.height]; };
  const collisions = svg => {
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    const touch = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
    const pairs = [];
    texts.forEach(([one, a], i) => texts.slice(i + 1).forEach(([other, b]) => { if (touch(a, b)) pairs.push(one + ' | ' + other); }));
    return pairs;
  };
  const details = inner.getElementById('details');
  const before_details = details ? details.getBoundingClientRect().top : 0;
  const charts = shown.map(svg => ({
    id: svg.getAttribute('aria-labelledby'), box: box(svg),
    marks: [...svg.querySelectorAll('circle, polyline, .bar, .stem, .range')].filter(m => { const b = m.getBBox(); return b.width + b.height > 0; }).length,
    collisions: collisions(svg),
    smallest: Math.min(...[...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect().height)),
  }));
  const wide = [...inner.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg') && e.getBoundingClientRect().right > view.innerWidth + 1).length;
  document.getElementById('out').textContent = JSON.stringify({charts, wide, before_details, scrolls: inner.documentElement.scrollWidth > view.innerWidth});
};
</script>"#;

/// Observations of a visit with the browser.
struct BrowserVisit {
    layout: Value,
    console: Vec<String>,
    own_requests: Vec<String>,
    foreign_requests: Vec<String>,
}

fn browse(page: String, width: u32) -> BrowserVisit {
    let browser = BROWSERS.iter().find(|path| std::path::Path::new(path).exists());
    let browser = browser.expect("no Chromium here: install Debian's package `chromium`");
    let harness = HARNESS.replace("WIDTH", &width.to_string());
    let origin = Origin::start(move |seen| match seen.target() {
        "/page" => response("200 OK", &["Content-Type: text/html; charset=utf-8"], page.as_bytes()),
        "/" => response("200 OK", &["Content-Type: text/html; charset=utf-8"], harness.as_bytes()),
        _ => response("404 Not Found", &[], b""),
    });
    let proxy = Origin::start(|_| response("502 No", &[], b""));
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-default-apps", "--disable-domain-reliability", "--no-pings"])
        .arg(format!("--proxy-server={}", proxy.address()))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--window-size={width},3000"))
        .arg(format!("{}/", origin.url()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let json =
        dom.split("<pre id=\"out\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap_or_default();
    let layout = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {dom}\n{log}"));
    BrowserVisit {
        layout,
        console: log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
        own_requests: origin.seen().iter().map(|seen| seen.target().to_owned()).collect(),
        foreign_requests: proxy
            .seen()
            .iter()
            .map(|seen| seen.target().to_owned())
            .filter(|t| is_foreign(t))
            .collect(),
    }
}

/// Whether a request to the proxy was made for the page. The target is a URL, or host and port for
/// a tunnel.
fn is_foreign(target: &str) -> bool {
    let rest = target.strip_prefix("http://").unwrap_or(target);
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    !BROWSER_ITSELF.contains(&host)
}

#[test]
fn each_chart_is_drawn_and_no_foreign_host_is_contacted() {
    for width in [1280, 390] {
        let seen = browse(page(&made_up(3)), width);
        assert_eq!(seen.console, Vec::<String>::new());
        assert_eq!(seen.foreign_requests, Vec::<String>::new());
        assert_eq!(seen.own_requests, ["/", "/page"]);
        let charts = seen.layout["charts"].as_array().unwrap();
        assert_eq!(charts.len(), 7, "{charts:?}");
        for chart in charts {
            let edge = |at: usize| chart["box"][at].as_f64().unwrap();
            assert!(edge(2) > 300.0 && edge(3) > 200.0, "{width}: {chart}");
            assert!(edge(0) >= 0.0 && edge(1) <= f64::from(width), "{width}: {chart}");
            assert!(chart["marks"].as_u64().unwrap() >= 12, "{width}: {chart}");
            assert!(chart["smallest"].as_f64().unwrap() >= 10.0, "{width}: text too small to read: {chart}");
        }
        assert_eq!(
            (seen.layout["wide"].as_u64(), seen.layout["scrolls"].as_bool()),
            (Some(0), Some(false)),
            "{width}"
        );
    }
}

/// A ladder like that of the WordPress lab: fourteen steps with long names, some of them side
/// steps.
fn long_ladder() -> Results {
    let mut results = made_up(3);
    let steps = results.steps.clone();
    for (step, number) in steps.iter().zip(["1b", "2b", "3b", "5b", "5c", "5d", "6b"]) {
        let cell = results.cells.iter().find(|cell| cell.id == step.cell).unwrap().clone();
        let id = format!("{}-beside", step.id);
        results.cells.push(CellRecord { id: id.clone(), step: id.clone(), ..cell });
        let title = "opcode cache + objects in Redis".to_owned();
        results.steps.push(StepRecord {
            id: id.clone(),
            number: number.to_owned(),
            title,
            cell: id,
            ..step.clone()
        });
    }
    results
}

#[test]
fn details_start_within_three_screens_and_no_labels_overlap() {
    for (width, screen) in [(1280, 800.0), (390, 844.0)] {
        let seen = browse(page(&long_ladder()), width);
        let top = seen.layout["before_details"].as_f64().unwrap();
        println!("{width}: {top} pixels before the details");
        assert!(top > screen && top <= 3.0 * screen, "{width}: {top} pixels before the details");
        for chart in seen.layout["charts"].as_array().unwrap() {
            assert_eq!(chart["collisions"], serde_json::json!([]), "{width}: {}", chart["id"]);
        }
    }
}

/// Shows that the tests above can fail.
#[test]
fn browser_reports_errors_and_foreign_requests() {
    let page = "<!doctype html><body><svg width=900 height=300></svg><img src='http://foreign.example/a.png'>\
                <script>console.error('oh')</script>";
    let seen = browse(page.to_owned(), 390);
    assert_eq!(seen.console.len(), 1, "{:?}", seen.console);
    assert_eq!(seen.foreign_requests, ["http://foreign.example/a.png"]);
    assert_eq!(seen.layout["charts"][0]["marks"], 0);
    assert_eq!(seen.layout["scrolls"], true);
}
