//! Header sets of real clients. docs/clients.md is rendered from them.
//!
//! Invariant: the client of a row without a reason gets a hit once the page is stored. A row with a
//! reason never does, and the reason says why this is right. The end-to-end test `e2e_clients`
//! sends every row to the real binary.

use std::fmt::Write;

/// Targets that clients request. The test's origin answers each one accordingly.
pub mod target {
    /// HTML.
    pub const PAGE: &str = "/page";
    /// A style sheet with `public` and a lifetime.
    pub const STYLE: &str = "/style.css";
    /// A script with a lifetime, without `public`.
    pub const SCRIPT: &str = "/script.js";
    /// A picture with `public` and a lifetime, at a path without an extension.
    pub const PICTURE: &str = "/media/7";
    /// A font whose response permits every site.
    pub const FONT: &str = "/open.woff2";
    /// A font whose response permits only the requesting site.
    pub const OWN_FONT: &str = "/reflected.woff2";
    /// A feed.
    pub const FEED: &str = "/feed";
    /// JSON.
    pub const API: &str = "/api/items";
    /// JSON whose response permits only the requesting site.
    pub const OWN_API: &str = "/api/reflected";
    /// HTML whose parts a script may request.
    pub const FRAGMENT: &str = "/list";
}

/// One client.
#[derive(Clone, Copy, Debug)]
pub struct ClientRow {
    /// The client, for the table.
    pub name: &'static str,
    /// The target that it requests.
    pub target: &'static str,
    /// The header lines that it sends besides `Host`.
    pub fields: &'static [&'static str],
    /// The reason why it never gets a stored response. `None` if it does.
    pub never_hits: Option<&'static str>,
}

const fn row(name: &'static str, target: &'static str, fields: &'static [&'static str]) -> ClientRow {
    ClientRow { name, target, fields, never_hits: None }
}

impl ClientRow {
    const fn never_hits(self, reason: &'static str) -> Self {
        Self { never_hits: Some(reason), ..self }
    }
}

const CHROME: &str = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36";
const ANDROID: &str = "User-Agent: Mozilla/5.0 (Linux; Android 15; Pixel 8 Build/AP4A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/141.0.0.0 Mobile Safari/537.36";
const FIREFOX: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0";
const SAFARI: &str = "User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15";
const CHROME_PAGE: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
const FIREFOX_PAGE: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const ALL_CODINGS: &str = "Accept-Encoding: gzip, deflate, br, zstd";
const ANY: &str = "Accept: */*";

/// All clients: browsers, scripts in pages, feed readers, crawlers, content delivery networks,
/// monitors and tracing agents.
pub const CLIENTS: &[ClientRow] = &[
    row(
        "Chrome, a page",
        target::PAGE,
        &[
            "sec-ch-ua: \"Chromium\";v=\"141\", \"Not?A_Brand\";v=\"8\"",
            "sec-ch-ua-mobile: ?0",
            "sec-ch-ua-platform: \"Windows\"",
            "Upgrade-Insecure-Requests: 1",
            CHROME,
            CHROME_PAGE,
            "Sec-Fetch-Site: none",
            "Sec-Fetch-Mode: navigate",
            "Sec-Fetch-User: ?1",
            "Sec-Fetch-Dest: document",
            ALL_CODINGS,
            "Accept-Language: en-GB,en;q=0.9",
            "Priority: u=0, i",
        ],
    ),
    row(
        "Firefox, a page, with DNT and Global Privacy Control",
        target::PAGE,
        &[FIREFOX, FIREFOX_PAGE, "Accept-Language: de,en-US;q=0.7,en;q=0.3", ALL_CODINGS, "DNT: 1", "Sec-GPC: 1", "Upgrade-Insecure-Requests: 1", "Priority: u=0, i", "TE: trailers"],
    ),
    row(
        "Safari, a page",
        target::PAGE,
        &[SAFARI, FIREFOX_PAGE, "Accept-Language: fr-FR,fr;q=0.9", "Accept-Encoding: gzip, deflate, br", "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none", "Priority: u=0, i"],
    ),
    row(
        "Edge with client hints for networks and screens, a page",
        target::PAGE,
        &[CHROME, CHROME_PAGE, ALL_CODINGS, "Sec-CH-UA-Full-Version-List: \"Microsoft Edge\";v=\"141.0.1\"", "Sec-CH-Prefers-Color-Scheme: dark", "DPR: 2", "Viewport-Width: 1280", "Device-Memory: 8", "RTT: 50", "Downlink: 10", "ECT: 4g"],
    ),
    row(
        "An app's embedded browser on Android, saving data",
        target::PAGE,
        &[ANDROID, CHROME_PAGE, "X-Requested-With: org.example.reader", "Save-Data: on", "Accept-Encoding: gzip, deflate"],
    ),
    row(
        "Chrome, prefetching a page",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "Purpose: prefetch", "Sec-Purpose: prefetch;prerender", ALL_CODINGS],
    ),
    row(
        "Chrome, a reload of a page that it has",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "Cache-Control: max-age=0", "If-None-Match: \"page-1\"", ALL_CODINGS],
    ),
    row(
        "Firefox, a page, with cookies of audience measurement",
        target::PAGE,
        &[FIREFOX, FIREFOX_PAGE, ALL_CODINGS, "Cookie: _ga=GA1.1.1.1; _ga_ABC=GS1.1.1; _fbp=fb.1.1.1; _pk_id.1.1=1"],
    ),
    row("Lynx, a page", target::PAGE, &["Accept: text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01", "Accept-Encoding: gzip, compress, bzip2", "Accept-Language: en", "User-Agent: Lynx/2.9.0 libwww-FM/2.14"]),
    row(
        "Chrome, a style sheet, with a PHP session",
        target::STYLE,
        &[CHROME, "Accept: text/css,*/*;q=0.1", "Referer: http://example.test/", "Sec-Fetch-Dest: style", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Site: same-origin", "Cookie: PHPSESSID=0123456789abcdef", ALL_CODINGS],
    ),
    row(
        "Firefox, a script of a file server, with a Flask session",
        target::SCRIPT,
        &[FIREFOX, ANY, "Referer: http://example.test/", "Sec-Fetch-Dest: script", "Cookie: session=eyJjYXJ0IjpbXX0.aA.bB; theme=dark", ALL_CODINGS],
    ),
    row(
        "Safari, a picture without an extension, with a Laravel session",
        target::PICTURE,
        &[SAFARI, "Accept: image/webp,image/avif,image/jxl,image/heic,video/*;q=0.8,image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5", "Sec-Fetch-Dest: image", "Cookie: XSRF-TOKEN=abc; laravel_session=def"],
    ),
    row(
        "Chrome, a font on another host that permits every site",
        target::FONT,
        &[CHROME, ANY, "Origin: https://shop.example", "Sec-Fetch-Dest: font", "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: cross-site", "Referer: https://shop.example/", ALL_CODINGS],
    ),
    row(
        "Firefox, a font on another host that permits the site that asks",
        target::OWN_FONT,
        &[FIREFOX, "Accept: application/font-woff2;q=1.0,application/font-woff;q=0.9,*/*;q=0.8", "Accept-Encoding: identity", "Origin: https://blog.example", "Sec-Fetch-Dest: font", "Sec-Fetch-Mode: cors"],
    ),
    row(
        "A script in the page, fetch() for JSON",
        target::API,
        &[CHROME, "Accept: application/json", "Content-Type: application/json", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", ALL_CODINGS],
    ),
    row(
        "A script in the page, axios",
        target::API,
        &[CHROME, "Accept: application/json, text/plain, */*", "Sec-Fetch-Mode: cors", ALL_CODINGS],
    ),
    row(
        "A script in the page, jQuery",
        target::API,
        &[FIREFOX, "Accept: application/json, text/javascript, */*; q=0.01", "X-Requested-With: XMLHttpRequest", ALL_CODINGS],
    ),
    row(
        "A script on another site, fetch() for JSON",
        target::OWN_API,
        &[CHROME, "Accept: application/json", "Origin: https://app.example", "Referer: https://app.example/", "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: cross-site", ALL_CODINGS],
    ),
    row(
        "htmx, a part of a page",
        target::FRAGMENT,
        &[CHROME, ANY, "HX-Request: true", "HX-Target: list", "HX-Trigger: more", "HX-Current-URL: http://example.test/list", ALL_CODINGS],
    ),
    row(
        "htmx, a boosted link",
        target::FRAGMENT,
        &[FIREFOX, ANY, "HX-Request: true", "HX-Boosted: true", "HX-Current-URL: http://example.test/", ALL_CODINGS],
    ),
    row(
        "Turbo, a page and a frame of it",
        target::FRAGMENT,
        &[SAFARI, "Accept: text/html, application/xhtml+xml", "Turbo-Frame: list", "X-Turbo-Request-Id: 0b5c2a1e-7a53-4ad3-9e6a-6f6f7a0d5f6e"],
    ),
    row(
        "NetNewsWire, a feed that it has",
        target::FEED,
        &["User-Agent: NetNewsWire (RSS Reader; https://netnewswire.com/)", ANY, "Accept-Language: en-US,en;q=0.9", "A-IM: feed", "If-None-Match: \"feed-1\"", "Accept-Encoding: gzip, deflate"],
    ),
    row(
        "FreshRSS, a feed",
        target::FEED,
        &["User-Agent: FreshRSS/1.27.0 (Linux; https://freshrss.org)", "Accept: application/atom+xml, application/rss+xml, application/rdf+xml;q=0.9, application/xml;q=0.8, text/xml;q=0.8, text/html;q=0.7, unknown/unknown;q=0.1, application/unknown;q=0.1, */*;q=0.1", "Accept-Encoding: gzip"],
    ),
    row(
        "A feed reader that takes feeds only",
        target::FEED,
        &["User-Agent: Reader/4.2", "Accept: application/rss+xml, application/atom+xml, application/xml;q=0.8", "Accept-Encoding: gzip"],
    ),
    row(
        "Googlebot, a page",
        target::PAGE,
        &["User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "From: googlebot(at)googlebot.com", "Accept: text/html,application/xhtml+xml,application/signed-exchange;v=b3,application/xml;q=0.9,*/*;q=0.8", "AMP-Cache-Transform: google;v=\"1..100\"", "Accept-Encoding: gzip, deflate, br"],
    ),
    row(
        "Cloudflare in front",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "CF-Connecting-IP: 198.51.100.4", "CF-IPCountry: DE", "CF-Ray: 8f0e1a2b3c4d5e6f-FRA", "CF-Visitor: {\"scheme\":\"https\"}", "CDN-Loop: cloudflare; loops=1", "X-Forwarded-For: 198.51.100.4", "X-Forwarded-Proto: https", "Accept-Encoding: gzip, br"],
    ),
    row(
        "Fastly in front",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "Fastly-Client-IP: 198.51.100.4", "Fastly-FF: abc!FRA!cache-fra-1", "Fastly-SSL: 1", "X-Varnish: 123456", "X-Timer: S1730000000.000000,VS0", "CDN-Loop: Fastly", "Surrogate-Capability: varnish=\"ESI/1.0\"", "Accept-Encoding: gzip"],
    ),
    row(
        "CloudFront in front",
        target::PAGE,
        &["User-Agent: Amazon CloudFront", "Via: 2.0 0123.cloudfront.net (CloudFront)", "X-Amz-Cf-Id: abcdef==", "X-Forwarded-For: 198.51.100.4", "CloudFront-Viewer-Country: DE", "CloudFront-Is-Mobile-Viewer: false", "Accept-Encoding: gzip"],
    ),
    row(
        "Akamai in front",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "Akamai-Origin-Hop: 2", "X-Akamai-Config-Log-Detail: true", "True-Client-IP: 198.51.100.4", "Via: 1.1 akamai.net(ghost) (AkamaiGHost)", "Accept-Encoding: gzip"],
    ),
    row(
        "Azure Front Door in front",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "X-Azure-Ref: 0abc", "X-Azure-ClientIP: 198.51.100.4", "X-Azure-SocketIP: 198.51.100.4", "X-Azure-FDID: 00000000-0000-0000-0000-000000000000", "X-FD-HealthProbe: 1", "Accept-Encoding: gzip, br"],
    ),
    row(
        "Google's load balancer in front",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "X-Cloud-Trace-Context: 105445aa7843bc8bf206b12000100000/1;o=1", "Traceparent: 00-105445aa7843bc8bf206b12000100000-0000000000000001-01", "X-Client-Geo-Location: Berlin", "Via: 1.1 google", "Accept-Encoding: gzip, br"],
    ),
    row(
        "Pingdom",
        target::PAGE,
        &["User-Agent: Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", ANY, "Cache-Control: no-cache", "Pragma: no-cache", "Accept-Encoding: gzip, deflate"],
    ),
    row(
        "UptimeRobot",
        target::PAGE,
        &["User-Agent: Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language: en-US,en;q=0.8", "Connection: close"],
    ),
    row(
        "Datadog Synthetics",
        target::PAGE,
        &["User-Agent: Mozilla/5.0 (compatible; DatadogSynthetics)", ANY, "Sec-Datadog: Request sent by a Datadog Synthetics API Test (https://docs.datadoghq.com/synthetics/) - test_id: abc", "X-Datadog-Origin: synthetics", "X-Datadog-Trace-Id: 1", "X-Datadog-Parent-Id: 0", "X-Datadog-Sampling-Priority: 1", "Accept-Encoding: gzip"],
    ),
    row(
        "New Relic, its monitor and its agent",
        target::PAGE,
        &[CHROME, CHROME_PAGE, "X-NewRelic-Synthetics: abc", "X-Abuse-Info: Request sent by a New Relic Synthetics Monitor", "Newrelic: eyJ2IjpbMCwxXX0=", "X-NewRelic-ID: abc", "X-NewRelic-Transaction: def"],
    ),
    row(
        "OpenTelemetry, W3C trace context",
        target::API,
        &["User-Agent: python-requests/2.32.5", ANY, "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate: rojo=00f067aa0ba902b7", "baggage: userId=alice", "Accept-Encoding: gzip, deflate"],
    ),
    row(
        "Zipkin and Jaeger",
        target::API,
        &["User-Agent: okhttp/4.12.0", "X-B3-TraceId: 463ac35c9f6413ad48485a3953bb6124", "X-B3-SpanId: a2fb4a1d1a96d312", "X-B3-Sampled: 1", "b3: 463ac35c9f6413ad48485a3953bb6124-a2fb4a1d1a96d312-1", "uber-trace-id: 3a3e4b2a:1:0:1", "Accept-Encoding: gzip"],
    ),
    row(
        "Sentry in a browser",
        target::API,
        &[CHROME, ANY, "sentry-trace: 771a43a4192642f0b136d5159a501700-b0e6f15b45c36b12-1", "baggage: sentry-trace_id=771a43a4192642f0b136d5159a501700", "X-Request-Id: 5f2c", ALL_CODINGS],
    ),
    row(
        "Agents of Elastic, Dynatrace, Instana, SkyWalking, AppDynamics and AWS",
        target::API,
        &["User-Agent: Apache-HttpClient/5.5 (Java/21)", "elastic-apm-traceparent: 00-4bf9-00f0-01", "X-dynaTrace: FW4;1;2;3", "X-INSTANA-T: 1", "X-INSTANA-S: 2", "X-INSTANA-L: 1", "sw8: 1-a-b-3-c", "singularityheader: notxdetect=true", "X-Amzn-Trace-Id: Root=1-67891233-abcdef012345678912345678", "Request-Id: |abc.1", "Correlation-Context: a=b", "Accept-Encoding: gzip"],
    ),
    row(
        "A program with a key of its own",
        target::API,
        &["User-Agent: Go-http-client/2.0", "Authorization: Bearer secret", "Accept-Encoding: gzip"],
    )
    .never_hits(
        "Credentials: the response may be this client's alone, and a stored one would skip the check whether the key is \
         still valid.",
    ),
    row(
        "Firefox, a page, logged in",
        target::PAGE,
        &[FIREFOX, FIREFOX_PAGE, ALL_CODINGS, "Cookie: sessionid=0123456789abcdef"],
    )
    .never_hits(
        "A session: a page of HTML may greet its visitor, show a cart, or hold a form's token. Only static types are shared \
         with visitors who have sessions.",
    ),
];

/// Renders docs/clients.md.
pub fn clients_reference() -> String {
    let hits = CLIENTS.iter().filter(|client| client.never_hits.is_none()).count();
    let mut page = String::from(INTRODUCTION);
    // Writing into a String cannot fail.
    let _ = writeln!(page, "{hits} of {} clients get the stored response.\n", CLIENTS.len());
    page.push_str("| client | asks for | stored response | header fields |\n|---|---|---|---|\n");
    for client in CLIENTS {
        let fields: Vec<_> =
            client.fields.iter().map(|field| format!("`{}`", field.replace('|', "\\|"))).collect();
        let answer = client.never_hits.map_or_else(|| "yes".to_owned(), |reason| format!("no. {reason}"));
        let _ =
            writeln!(page, "| {} | `{}` | {answer} | {} |", client.name, client.target, fields.join("<br>"));
    }
    page
}

const INTRODUCTION: &str = "\
# Clients

This table shows the header fields of real clients, and whether each client gets a stored response
under the profile `default`. The test `e2e_clients` sends these requests to the binary. First, a
visitor without cookies requests each target. Then each client requests its target twice, and the
second request counts. The leak guard is off in this test, because it sends the first requests with
cookies to the origin.

The targets are:

- `/page` and `/list`: HTML. `/list` can also return a part of itself to scripts that request one.
- `/style.css`: a style sheet that says `public` with a lifetime.
- `/script.js`: a script that states only a lifetime.
- `/media/7`: a picture that says `public` with a lifetime.
- `/open.woff2`: a font that permits every site to use it.
- `/reflected.woff2` and `/api/reflected`: responses that permit the site that `Origin` names.
- `/feed`: RSS. `/api/items`: JSON.

This page is rendered from `crates/testkit/src/clients.rs` by `cargo xtask docs`.

";

#[cfg(test)]
mod tests {
    use super::{CLIENTS, clients_reference};

    #[test]
    fn table_has_41_clients_and_at_most_2_without_hits() {
        assert_eq!(CLIENTS.len(), 41);
        assert!(CLIENTS.iter().filter(|client| client.never_hits.is_some()).count() <= 2);
        assert_eq!(clients_reference().lines().filter(|line| line.starts_with("| ")).count(), 42);
    }
}
