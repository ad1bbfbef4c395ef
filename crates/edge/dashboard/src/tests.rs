//! Tests of the rendered pages: escaping, structure, labels, and what needs no script.

use super::{
    Change, FileCertificate, PurgeKind, Range, Report, SAMPLES_MAX, Samples, View, Viewer, confirmation,
    login, main_page, notice, request_rows, requests_page, result_page, search_page, sections,
};
use api::dashboard::{
    CostFigures, CostKind, DashboardData, History, MachineFigures, MissFigures, PageFigures,
    PathGroupFigures, ReasonFigures, Series, SiteFigures, VerdictFigures,
};
use api::log::LoggedRequest;
use api::status::{CertificateStatus, DiskStatus, EdgeStatus, OriginStatus, SiteStatus, StoreStatus};
use api::warm::{WarmCause, WarmRun};
use api::why::{
    Cause, KeyAnswer, OriginDemand, RememberedAnswer, SiteAnswer, StoredAnswer, Substitute, WhyReply,
};
use std::time::Duration;

/// A text that would run a script if it were not escaped, in an element or in an attribute.
const HOSTILE: &str = r#"<script>alert(1)</script>"><img src=x onerror='alert(2)'>&amp;"#;

fn hostile() -> String {
    HOSTILE.to_owned()
}

fn status() -> EdgeStatus {
    EdgeStatus {
        certificates: vec![CertificateStatus {
            expires: Some(hostile()),
            failures: 3,
            last_error: Some(hostile()),
            names: vec![hostile()],
            next_attempt: hostile(),
        }],
        connections: 5,
        disk: Some(DiskStatus {
            accepted: 0,
            bytes: 3 << 30,
            bytes_max: 10 << 30,
            directory: hostile(),
            durable: 0,
            hung: true,
            objects: 12,
            off: false,
            stuck: 1,
            synced: 0,
        }),
        draining: false,
        requests: 1_234_567,
        sites: vec![SiteStatus {
            breaker: "open".to_owned(),
            connections_idle: 1,
            fetches_active: 2,
            fetches_max: 8,
            fetches_waiting: 3,
            names: vec![hostile()],
            origin: hostile(),
            origins: ["well", "silent"]
                .map(|state| OriginStatus {
                    connections_idle: 1,
                    fetches_active: 2,
                    fetches_max: 8,
                    fetches_waiting: 3,
                    state: state.to_owned(),
                    url: hostile(),
                })
                .into(),
            profile: hostile(),
            purges_itself: false,
            recognised_by: None,
            recognised_since: None,
            recognition_confirmed: None,
            recognition_off: false,
            rules: hostile(),
            uncompressed: Some(hostile()),
        }],
        store: StoreStatus { bytes: 7, bytes_max: 9, evicted: 0, objects: 3, on_disk_only: 1, published: 4 },
        uptime_secs: 90,
        version: hostile(),
        warming: vec![WarmRun {
            causes: vec![WarmCause { cause: hostile(), pages: 3 }],
            found: 10,
            warmed: 4,
            not_cacheable: 3,
            is_running: true,
            site: hostile(),
            state: hostile(),
            url: hostile(),
            ..WarmRun::default()
        }],
        workers: 2,
    }
}

fn data() -> DashboardData {
    let figures = |verdict: &str, requests| VerdictFigures {
        verdict: verdict.to_owned(),
        requests,
        p50_micros: Some(45),
        p95_micros: Some(12_345),
        p99_micros: None,
    };
    DashboardData {
        at_secs: 784_111_777,
        status: status(),
        machine: MachineFigures {
            cpu_percent: Some(40.0),
            own_cpu_percent: Some(3.0),
            database_cpu_percent: Some(20.0),
            resident_bytes: Some(64 << 20),
            memory_bytes_max: 128 << 20,
        },
        sites: vec![SiteFigures {
            site: hostile(),
            verdicts: vec![figures("hit", 900), figures("miss", 100), figures(HOSTILE, 1)],
            path_groups: vec![PathGroupFigures { group: hostile(), requests: 8, hits: 6 }],
        }],
        reasons: vec![ReasonFigures {
            reason: hostile(),
            verdict: hostile(),
            requests: 7,
            meaning: hostile(),
            fix: hostile(),
        }],
        hottest: vec![PageFigures { url: hostile(), requests: 3 }],
        misses: vec![MissFigures { url: hostile(), reason: hostile(), requests: 3, origin_micros: 5 }],
        costs: [CostKind::Cookie, CostKind::Parameter]
            .map(|kind| CostFigures { kind, name: hostile(), site: hostile(), requests: 3, origin_micros: 5 })
            .into(),
    }
}

fn history() -> History {
    let series = |name: &str, unit: &str| Series {
        name: name.to_owned(),
        unit: unit.to_owned(),
        values: (0..180).map(|minute| (minute % 50 != 0).then_some(f64::from(minute))).collect(),
        usual: vec![Some((10.0, 20.0)); 180],
    };
    let all = [
        series("requests", "1/s"),
        series("cpu", "%"),
        series("cpu petasos", "%"),
        series("cpu database", "%"),
        series(HOSTILE, HOSTILE),
    ];
    History { first_minute: 13_068_529, minutes_per_value: 1, series: all.into() }
}

fn change(is_done: bool) -> Change {
    Change { number: 3, at_secs: 784_111_777, who: hostile(), what: hostile(), result: hostile(), is_done }
}

fn operator() -> Viewer {
    Viewer { form_token: Some(hostile()), is_logged_in: true, may_log_in: true }
}

fn with_view<T>(data: &DashboardData, render: impl FnOnce(&View<'_>) -> T) -> T {
    let mut samples = Samples::default();
    for second in 0..2 * SAMPLES_MAX as u64 {
        samples.push(Duration::from_secs(2 * second), data);
    }
    render(&View {
        data,
        samples: &samples,
        history: &history(),
        range: Range::Day,
        certificates: &[FileCertificate { names: vec![hostile()], expires_secs: 784_200_000 }],
        changes: &[change(true), change(false)],
        reports: Some(&[Report { name: "run/report.html".to_owned(), at_secs: 5, bytes: 2048 }]),
        summary: Some(HOSTILE),
    })
}

fn answer() -> WhyReply {
    let culprit = || Some(Cause { kind: hostile(), name: hostile() });
    WhyReply {
        format: 1,
        verdict: hostile(),
        reason: hostile(),
        advice: hostile(),
        asks: OriginDemand::Page,
        culprit: culprit(),
        site: Some(SiteAnswer {
            name: hostile(),
            profile: hostile(),
            rules: hostile(),
            recognised_by: None,
            recognised_since: None,
            origin: hostile(),
            uncompressed: None,
        }),
        key: Some(KeyAnswer {
            scheme: hostile(),
            host: hostile(),
            target: hostile(),
            is_equivalent: false,
            variant_fields: vec![hostile()],
        }),
        stored: Some(StoredAnswer {
            status: 200,
            content_bytes: 2048,
            template: None,
            is_part: true,
            forms: Vec::new(),
            age_secs: 90,
            lifetime_secs: 60,
            ttl_secs: -30,
            stale_while_revalidate_secs: 5,
            stale_if_error_secs: 6,
            stale_if_error_overrides: true,
            is_validated_always: true,
            no_cache_overridden: false,
            is_purged_softly: true,
            location: Some(hostile()),
            cache_control: Some(hostile()),
            sent_cache_control: Some(hostile()),
        }),
        other_variants_only: false,
        remembered: Some(RememberedAnswer { reason: hostile(), advice: hostile(), culprit: culprit() }),
        is_being_fetched: true,
        if_origin_fails: Some(Substitute { verdict: hostile(), reason: hostile() }),
    }
}

fn request() -> LoggedRequest {
    LoggedRequest {
        at: "1994-11-06T08:49:37.000042Z".to_owned(),
        client: hostile(),
        method: hostile(),
        host: Some(hostile()),
        target: hostile(),
        status: 200,
        verdict: hostile(),
        reason: hostile(),
        key: None,
        agent: Some(hostile()),
        time: 45,
        ..LoggedRequest::default()
    }
}

/// Every page, with hostile texts wherever a text can be.
fn all_pages() -> Vec<(&'static str, String)> {
    let keyed = LoggedRequest { key: Some(hostile()), ..request() };
    let mut pages = vec![
        ("main", with_view(&data(), |view| main_page(view, &operator()))),
        ("main for a reader", with_view(&data(), |view| main_page(view, &Viewer::default()))),
        ("log-in", login(true, Some(HOSTILE))),
        ("no log-in", login(false, None)),
        ("confirmation", confirmation(PurgeKind::Tag, HOSTILE, true, HOSTILE)),
        ("notice", notice(HOSTILE, HOSTILE, Some((PurgeKind::Url, HOSTILE, false)))),
        ("result", result_page(&change(false))),
        ("search", search_page(HOSTILE, Ok(&answer()))),
        ("search in vain", search_page(HOSTILE, Err(HOSTILE))),
        (
            "requests",
            requests_page(Some(HOSTILE), HOSTILE, &[request(), keyed], 1234, Some(HOSTILE), &operator()),
        ),
        ("rows", request_rows(&[request()], 1).0),
    ];
    pages.extend(with_view(&data(), sections));
    pages
}

/// The start tags of a page, each with its attributes.
fn tags(page: &str) -> Vec<&str> {
    let is_start = |tag: &&str| tag.starts_with(|letter: char| letter.is_ascii_alphabetic());
    page.split('<').skip(1).filter(is_start).map(|tag| tag.split('>').next().unwrap()).collect()
}

/// A start tag without the values of its attributes.
fn without_values(tag: &str) -> String {
    tag.split('"').step_by(2).collect()
}

#[test]
fn hostile_texts_are_escaped_on_every_page() {
    for (name, page) in all_pages() {
        assert!(!page.contains("<script>") && !page.contains("<img"), "{name}: {page}");
        assert!(
            !tags(&page).iter().any(|tag| without_values(tag).contains("onerror")),
            "{name}: an attribute was left"
        );
    }
    let main = with_view(&data(), |view| main_page(view, &operator()));
    assert!(main.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&gt;&lt;img"), "the texts are shown");
}

#[test]
fn no_page_has_a_script_style_or_handler_of_its_own() {
    for (name, page) in all_pages() {
        for tag in tags(&page) {
            let names = without_values(tag);
            assert!(!names.contains(" style=") && !names.contains(" on"), "{name}: {tag}");
            assert!(!tag.starts_with("style") && !tag.contains("javascript:"), "{name}: {tag}");
            let is_own = |address: &str| address.starts_with('/') || address.starts_with('#');
            for attribute in ["href", "src", "action"] {
                let address = tag.split(&format!(" {attribute}=\"")).nth(1);
                assert!(address.is_none_or(is_own), "{name}: {tag}");
            }
        }
        let scripts = page.matches("<script ").count();
        let own = page.matches("<script src=\"/dashboard/script.js\" defer></script>").count();
        assert_eq!(scripts, own, "{name}");
    }
}

#[test]
fn fields_have_labels_and_tables_have_headers() {
    for (name, page) in all_pages() {
        let tags = tags(&page);
        let value = |tag: &str, attribute: &str| {
            let found = tag.split(&format!(" {attribute}=\"")).nth(1)?;
            Some(found.split('"').next()?.to_owned())
        };
        for tag in tags.iter().filter(|tag| tag.starts_with("input") || tag.starts_with("select")) {
            if tag.contains("type=\"hidden\"") {
                continue;
            }
            let id = value(tag, "id").unwrap();
            assert!(page.contains(&format!("<label for=\"{id}\">")), "{name}: {id} has no label");
        }
        let mut ids: Vec<_> = tags.iter().filter_map(|tag| value(tag, "id")).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{name}: identifiers are unique");
        for attribute in ["aria-labelledby", "aria-describedby", "for"] {
            for id in tags.iter().filter_map(|tag| value(tag, attribute)) {
                assert!(ids.contains(&id), "{name}: nothing is called {id}");
            }
        }
        let headers = tags.iter().filter(|tag| tag.starts_with("th ") || *tag == &"th");
        assert!(headers.clone().all(|tag| tag.contains("scope=")), "{name}");
        assert!(!page.contains("<table") || headers.count() > 0, "{name}");
        let mut drawings = tags.iter().filter(|tag| tag.starts_with("svg"));
        let is_told = |tag: &&str| tag.contains("aria-hidden") || tag.contains("aria-describedby");
        assert!(drawings.all(is_told), "{name}");
    }
}

#[test]
fn page_has_all_sections_that_events_replace() {
    let page = with_view(&data(), |view| main_page(view, &operator()));
    for (name, html) in with_view(&data(), sections) {
        assert!(page.contains(&format!("<div id=\"live-{name}\">{html}</div>")), "{name}");
    }
    assert!(page.contains("data-events=\"/dashboard/events?range=24h\""));
    assert!(page.contains(">1,234,567<"), "the requests since the start");
}

#[test]
fn reader_without_permission_gets_no_form_that_changes() {
    let page = |viewer| with_view(&data(), |view| main_page(view, &viewer));
    let reader = page(Viewer { may_log_in: true, ..Viewer::default() });
    assert!(!reader.contains("method=\"post\"") && !reader.contains("form_token"));
    assert!(reader.contains("href=\"/dashboard/login\""));
    let operator = page(operator());
    assert!(
        operator.contains("action=\"/dashboard/reload\"")
            && operator.contains("action=\"/dashboard/logout\"")
    );
    for form in operator.split("<form ").skip(1).filter(|form| form.contains("method=\"post\"")) {
        assert!(form.split("</form>").next().unwrap().contains("name=\"form_token\""), "{form}");
    }
}

#[test]
fn rates_come_from_neighbouring_samples() {
    let mut data = data();
    let mut samples = Samples::default();
    samples.push(Duration::from_secs(10), &data);
    assert_eq!(samples.rates(), None, "one sample has no rate");
    data.status.requests += 40;
    data.sites[0].verdicts[0].requests += 30;
    data.sites[0].verdicts[1].requests += 10;
    samples.push(Duration::from_millis(10_500), &data);
    assert_eq!(samples.rates(), None, "a second reader adds no sample");
    samples.push(Duration::from_secs(12), &data);
    let rates = samples.rates().unwrap();
    assert_eq!((rates.requests, rates.hits, rates.hit_ratio), (20.0, 15.0, Some(0.75)));
    samples.push(Duration::from_secs(100), &data);
    assert_eq!(samples.rates(), None, "nobody looked for a while");
    for second in 0..1000 {
        samples.push(Duration::from_secs(100 + second), &data);
    }
    assert_eq!(samples.all_rates().count(), SAMPLES_MAX - 1);
}

#[test]
fn processors_users_share_one_axis() {
    let history = with_view(&data(), sections).into_iter().find(|(name, _)| *name == "history").unwrap().1;
    assert_eq!(history.matches("<figure").count(), 3, "requests, processor, and the hostile series");
    assert!(history.contains("Processor") && history.contains("usual at this hour"));
    for name in ["machine", "petasos", "database"] {
        assert!(history.contains(&format!("{name}: last 179%, from 1% to 179%.")), "{name}: {history}");
    }
}

#[test]
fn edge_without_requests_has_no_empty_table() {
    let empty = DashboardData {
        sites: Vec::new(),
        reasons: Vec::new(),
        hottest: Vec::new(),
        misses: Vec::new(),
        costs: Vec::new(),
        ..data()
    };
    for (name, html) in with_view(&empty, sections) {
        assert!(!html.contains("<tbody></tbody>"), "{name}");
    }
}
