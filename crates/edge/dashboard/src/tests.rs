//! Tests of the rendered pages: escaping, structure, labels, and parts that work without a script.

use super::{
    Change, FileCertificate, PurgeKind, Range, Report, Reports, Samples, View, Viewer, confirmation, login,
    main_page, notice, origins_csv, request_rows, requests_page, result_page, search_page, sections,
};
use api::dashboard::{
    CostFigures, CostKind, DashboardData, History, MachineFigures, MissFigures, PageFigures,
    PathGroupFigures, ReasonFigures, Series, SiteFigures, VerdictCount, VerdictFigures,
};
use api::log::LoggedRequest;
use api::status::{
    CertificateStatus, CheckStatus, DiskStatus, EdgeStatus, OriginStatus, SiteStatus, StoreStatus,
};
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

fn origin_status(state: &str) -> OriginStatus {
    OriginStatus {
        connections_idle: 1,
        fetches_active: 2,
        fetches_max: 8,
        fetches_waiting: 3,
        state_secs: 11_100,
        downs: 2,
        down_secs: 243,
        last_check: Some(CheckStatus { ago_secs: 12, millis: 3, result: hostile() }),
        checks_failed: 4,
        requests: 12_345,
        connect_errors: 1,
        response_errors: 2,
        server_errors: 3,
        bytes_received: 5 << 20,
        bytes_sent: 2048,
        state: state.to_owned(),
        url: hostile(),
        ..OriginStatus::default()
    }
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
            origins: ["well", "silent"].map(origin_status).into(),
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
    let count = |verdict: &str, requests| VerdictCount { verdict: verdict.to_owned(), requests };
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
        verdicts: vec![count("hit", 900), count("miss", 100)],
        history_off: true,
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
    for second in 0..100 {
        samples.push(Duration::from_secs(2 * second), data);
    }
    render(&View {
        data,
        samples: &samples,
        history: &history(),
        range: Range::Day,
        certificates: &[FileCertificate { names: vec![hostile()], expires_secs: 784_200_000 }],
        changes: &[change(true), change(false)],
        reports: Reports::Listed(&[Report { name: "run/report.html".to_owned(), at_secs: 5, bytes: 2048 }]),
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
        context: None,
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
    data.verdicts[0].requests += 30;
    data.verdicts[1].requests += 10;
    samples.push(Duration::from_millis(10_500), &data);
    assert_eq!(samples.rates(), None, "a second reader adds no sample");
    samples.push(Duration::from_secs(12), &data);
    let rates = samples.rates().unwrap();
    assert_eq!((rates.requests, rates.hits, rates.hit_ratio), (20.0, 15.0, Some(0.75)));
    samples.push(Duration::from_secs(100), &data);
    assert_eq!(samples.rates(), None, "nobody looked for a while");
}

#[test]
fn points_of_the_last_two_minutes_stand_at_their_time() {
    let mut data = data();
    let mut samples = Samples::default();
    // A reader each second for three minutes, then one each ten seconds.
    let moments = (0..180).chain((180..=240).step_by(10));
    for second in moments {
        data.status.requests = 10 * second + if second >= 200 { 400 } else { 0 };
        samples.push(Duration::from_secs(1000 + second), &data);
    }
    let points = samples.slots(|counts| counts.requests);
    // The 400 requests came between 190 and 200 s, which is 50 to 40 s before the end.
    let expected: Vec<_> =
        (0..60).map(|point| Some(if (35..40).contains(&point) { 50.0 } else { 10.0 })).collect();
    let rounded: Vec<_> = points.iter().map(|point| point.map(f64::round)).collect();
    assert_eq!(rounded, expected);
    let mut young = Samples::default();
    for second in [0, 1, 5] {
        young.push(Duration::from_secs(1000 + second), &data);
    }
    let points = young.slots(|counts| counts.requests);
    assert_eq!((points.len(), points.iter().flatten().count()), (60, 2), "the newest at the right end");
    assert!(points[59].is_some() && points[58].is_some());
    for second in 0..10_000 {
        samples.push(Duration::from_millis(2_000_000 + 901 * second), &data);
    }
    assert!(samples.len() < 140, "old samples are forgotten");
}

#[test]
fn page_of_a_thousand_sites_is_bounded() {
    let mut many = data();
    let site = many.status.sites[0].clone();
    many.status.sites = (0..1000)
        .map(|number| {
            let mut site = site.clone();
            site.uncompressed = None;
            site.origins.truncate(1);
            "closed".clone_into(&mut site.breaker);
            site.origins[0].url = format!("http://origin{number}.test");
            site.origins[0].state = if number == 777 { "silent" } else { "well" }.to_owned();
            site
        })
        .collect();
    let figures = many.sites[0].clone();
    many.sites = (0..1000)
        .map(|number| {
            let mut figures = figures.clone();
            figures.site = format!("site{number}.test");
            figures.verdicts[0].requests = number;
            figures
        })
        .collect();
    let all = with_view(&many, sections);
    let section = |name: &str| &all.iter().find(|(found, _)| *found == name).unwrap().1;
    let sites = section("sites");
    assert_eq!(sites.matches("div class=\"site\"").count(), 30);
    assert!(sites.contains("site999.test") && sites.contains("970 more sites"), "the busiest sites");
    let origins = section("origins");
    assert!(
        origins.contains("origin777.test") && origins.contains("950 more origins"),
        "the one that is unwell"
    );
    many.status.sites.iter_mut().for_each(|site| "silent".clone_into(&mut site.breaker));
    let overview = &with_view(&many, sections)[0].1;
    assert!(overview.matches("<li>").count() < 50 && overview.contains(" more.</li>"), "{overview}");
}

#[test]
fn origins_have_their_figures_as_table_and_values() {
    let mut data = data();
    data.status.sites[0].breaker = "closed".to_owned();
    data.status.sites[0].names = ["a", "b", "c", "d"].map(str::to_owned).into();
    for origin in &mut data.status.sites[0].origins {
        origin.url = "http://app:80".to_owned();
        origin.last_check.as_mut().unwrap().result = "200".to_owned();
    }
    let origins = with_view(&data, sections).into_iter().find(|(name, _)| *name == "origins").unwrap().1;
    for text in [
        "a, b, c and 1 more",
        ">well</span><br><span class=\"quiet\">for 3 h 5 min<",
        "200 in 3 ms<br><span class=\"quiet\">12 s ago, 4 failed<",
        "2 times<br><span class=\"quiet\">4 min 3 s<",
        ">12,345<",
        ">6<br><span class=\"quiet\">1 + 2 + 3<",
        "5 MiB<br><span class=\"quiet\">2 KiB sent<",
    ] {
        assert!(origins.contains(text), "{text} is missing in {origins}");
    }
    let values = origins_csv(&data.status);
    let lines: Vec<_> = values.split("\r\n").collect();
    assert!(lines[0].starts_with("site,origin,state,") && lines.len() == 4, "{values}");
    assert_eq!(
        lines[1],
        "a,http://app:80,well,closed,11100,2,243,200,3,12,4,12345,0,1,2,3,5242880,2048,2,8,3,1"
    );
    let columns = lines[0].split(',').count();
    assert!(lines[1..3].iter().all(|line| line.split(',').count() == columns));
}

#[test]
fn reports_that_cannot_be_read_are_told_from_none() {
    let page = |reports| with_view(&data(), |view| main_page(&View { reports, ..*view }, &Viewer::default()));
    assert!(page(Reports::Listed(&[])).contains("has no report yet"));
    assert!(page(Reports::Unreadable).contains("cannot be read at the moment"));
    assert!(page(Reports::NoDirectory).contains("reports_directory"));
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
