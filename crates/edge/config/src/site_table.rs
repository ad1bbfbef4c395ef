//! The settings of a site, as rows of the settings table.

use crate::row::{row, site};
use crate::setting::{Setting, SettingKind, SettingScope};
use profiles::AUTO;

pub(crate) const SITE: &[Setting] = &[
    row(
        "names",
        SettingScope::Host,
        SettingKind::Hosts,
        None,
        "Host names of the site, without port. `*.example.org` means all names below example.org that no \
         other site names more exactly; each of them has pages of its own. A site has names of one kind only. If left out: the site answers to \
         any name; only one site can.",
    ),
    row(
        "ports",
        SettingScope::Host,
        SettingKind::Ports,
        None,
        "Ports in `Host` by which visitors reach the site, for example `[8080]` for a mapped port of a \
         container. Three ports need no entry: the default port, that of `listen`, and that in \
         X-Forwarded-Port from one of `trusted_proxies`. Petasos stores pages of other ports within \
         `limits.foreign_ports_max`. If left out: no further ports.",
    ),
    site(
        "origin",
        SettingKind::Origins,
        None,
        "URL of the application server behind the site: `http://HOST:PORT`, `https://HOST:PORT` or \
         `unix:PATH`. Every site needs one, unless it redirects (`redirect`) or answers by itself \
         (`answer.status`). A list names several servers with the same application, each with its share of \
         the requests, as in `[\"http://10.0.0.1:80\", \"http://10.0.0.2:80 weight=3\"]`. Each request \
         goes to the server with the fewest requests for its weight. Stored pages belong to the first URL.",
    )
    .flag("--origin"),
    site(
        "origin_check",
        SettingKind::Text,
        None,
        "Path that Petasos requests from each origin to learn whether it works, for example `/healthz`. \
         After two failures in a row, a site's other origins get its requests; two successes end that. A \
         failure is an error, a status from 400 on, or no response within `limits.probe_pause_max`. If left \
         out: Petasos requests `/` from those of several origins that refuse connections or are silent.",
    ),
    site(
        "origin_check_interval",
        SettingKind::Duration,
        Some("5s"),
        "Time between two checks of an origin. At least one second.",
    ),
    site(
        "origin_limit",
        SettingKind::Choice(&["fixed", "adaptive"]),
        Some("fixed"),
        "How many requests each origin processes at a time. `fixed`: `limits.fetches_max`. `adaptive`: 1.5 \
         times the number that the origin can work on, which Petasos learns from response times; at least 4 \
         and at most `limits.fetches_max`. Further requests wait in Petasos, where people precede \
         robots.",
    ),
    site(
        "origin_ca",
        SettingKind::Text,
        None,
        "PEM file with the certificates of the authorities by which Petasos verifies an https origin. The \
         file may also hold the origin's own certificate. Petasos reads it at the start. If left out: the \
         authorities that the system trusts, or those in the file that the environment variable \
         SSL_CERT_FILE names.",
    ),
    site(
        "origin_name",
        SettingKind::Text,
        None,
        "Name that Petasos sends to an https origin in the TLS handshake (SNI), and that the origin's \
         certificate must be for. An IP address is not sent, and the certificate must list it. If left out: \
         the host in `origin`. The field Host of a request is independent of it.",
    ),
    site(
        "origin_certificate",
        SettingKind::Certificate,
        None,
        "Certificate, and its private key, that Petasos shows to an https origin that asks for one, as PEM \
         files. One file may hold both. Petasos reads them at the start. If left out: Petasos has no \
         certificate, and an origin that demands one refuses the connection.",
    ),
    site(
        "origin_insecure",
        SettingKind::Switch,
        Some("false"),
        "Whether Petasos accepts any certificate of an https origin. `true` is for trials: whoever controls \
         the network between Petasos and the origin can then read and change everything. Petasos warns of it \
         at each start.",
    ),
    site(
        "origin_proxy_protocol",
        SettingKind::Choice(&["none", "v1", "v2"]),
        Some("none"),
        "Version of the PROXY protocol by which Petasos tells the origin the client's address, before \
         anything else on a connection. The origin must expect the header. The address is the last one in \
         X-Forwarded-For, that of the client's connection. A fetch whose response may be shared has the one \
         of `client_address`. Each request of one client has its own connection; fetches whose response \
         may be shared use connections again. `none`: connections begin without a header.",
    ),
    site(
        "profile",
        SettingKind::Profile,
        Some(AUTO),
        "Rules for the kind of site: which cookies mean a session, which paths are never shared, and which \
         lifetime a response gets that states none. docs/profiles.md lists them. `auto` means `default` \
         until a response reveals the system behind the site, then that system's profile. A path, such as \
         `./my.toml`, names a profile of your own. `rfc` follows the standards only: it forwards and shares \
         whatever they allow. Use it for applications that mark every response that may be shared.",
    )
    .flag("--profile"),
    site(
        "cache",
        SettingKind::Switch,
        Some("true"),
        "Whether Petasos stores responses and shares them. With `false` every request goes to the origin \
         with all of its cookies, and the reason `pass-cache-off`. A reload with another value drops the \
         site's stored pages. Use it for a path that must never be cached, or to rule Petasos out while you \
         look for a fault.",
    ),
    site(
        "ttl",
        SettingKind::Duration,
        None,
        "Lifetime of 200 and 301 responses to GET that state none and set no cookie, for requests without \
         Cookie or Authorization. If left out: the profile's value, which for `default` is none.",
    )
    .flag("--ttl"),
    site(
        "not_found_ttl",
        SettingKind::Duration,
        None,
        "Lifetime of 404 and 410 responses that state none, and the upper limit for those that state one. \
         It is short because a page may be published at any moment. If left out: the profile's value, 30s \
         for `default`; `rfc` obeys the response.",
    ),
    site(
        "error_ttl",
        SettingKind::Duration,
        None,
        "Longest time that Petasos shares a 5xx response, whatever lifetime the response states. A 5xx \
         response without a lifetime is not shared. If left out: the profile's value, 5s for `default`; \
         `rfc` obeys the response.",
    ),
    site(
        "stale_on_error",
        SettingKind::Choice(&["obey", "override"]),
        Some("obey"),
        "Whether Petasos may send stale responses when the origin fails. `obey` follows each response: \
         must-revalidate, proxy-revalidate, s-maxage and no-cache forbid it. `override` ignores \
         must-revalidate and proxy-revalidate, which many systems send with every page; the `rfc` profile \
         always obeys them.",
    ),
    site(
        "stale_on_error_max",
        SettingKind::Duration,
        Some("1d"),
        "Time after the end of its lifetime for which a response may be sent because the origin fails. The \
         response's own stale-if-error takes precedence.",
    ),
    site(
        "targeted_fields",
        SettingKind::Choices(&["Surrogate-Control", "CDN-Cache-Control"]),
        None,
        "Response fields that address this cache and replace Cache-Control. The first field that is present \
         and readable counts. If left out: the profile's fields, which are both, in this order.",
    ),
    site(
        "session_cookies",
        SettingKind::Patterns,
        None,
        "Cookies that mark a visitor's session, in addition to those of the profile. A request with one of \
         them passes.",
    ),
    site(
        "noise_cookies",
        SettingKind::Patterns,
        None,
        "Cookies that never change a page, in addition to those of the profile. Petasos removes them from \
         requests whose response may be shared.",
    ),
    site(
        "stripped_cookies",
        SettingKind::Patterns,
        None,
        "Cookies that Petasos removes from responses to requests without a session. These responses may \
         then be shared although the application sets the cookie for every visitor. A visitor then gets the \
         cookie from the first response that is not shared, for example to a form. Do not list a cookie that \
         belongs to a token in the page.",
    ),
    site(
        "static_files",
        SettingKind::Switch,
        None,
        "Whether Petasos fetches static files (styles, scripts, fonts, pictures, sound, film) without \
         cookies and answers requests with any cookies from the store, as docs/profiles.md describes. If \
         left out: the profile's value, which is `true` for all but `rfc`.",
    ),
    site(
        "static_paths",
        SettingKind::Patterns,
        None,
        "Paths where no response of a static type depends on cookies, in addition to those of the profile, \
         such as `/static/*`. Petasos ignores the request's cookies and removes the response's cookies \
         there, even if Vary names Cookie. At these paths, visitors with sessions still get HTML, JSON and \
         other types from the origin.",
    ),
    site(
        "browser_caching",
        SettingKind::Switch,
        None,
        "Whether browsers get a lifetime for static files of which the application states none. It is a year \
         for a file whose URL changes with its content (`?ver=`, `?v=` or a hash in its name). It is a week \
         for any other file (docs/profiles.md). No purge reaches browsers. If left out: `false` with `ttl`; \
         else the profile's value, which is `true` for all but `rfc`.",
    ),
    site(
        "static_ttl_max",
        SettingKind::Duration,
        None,
        "Longest lifetime that Petasos assumes for a static file with `Last-Modified` that states none. The \
         assumed lifetime is a tenth of the time since the file's last change. Visitors see a changed file \
         after this time at the latest, and at once after a purge. `0s`: Petasos asks the origin before each \
         use. The setting also limits how long the profiles `flask` and `moinmoin` use files that say \
         `no-cache`. The site's or its profile's `ttl` takes precedence. If left out: the profile's value, \
         5m for `default`.",
    ),
    site(
        "tracking_parameters",
        SettingKind::Patterns,
        None,
        "Query parameters that only measure where a visitor came from, in addition to those of the profile. \
         A page is the same with and without them. Petasos does not forward them when the response may be \
         shared.",
    ),
    site(
        "known_parameters",
        SettingKind::Patterns,
        None,
        "Query parameters that the application reads, in addition to those of the profile: different values \
         are different pages. `unknown_parameters_per_minute` counts all other parameters.",
    ),
    site(
        "unknown_parameters_per_minute",
        SettingKind::Count(1, 60_000),
        None,
        "Number of different addresses with unknown query parameters that Petasos fetches in a minute from \
         one path. For all paths of the site together the limit is ten times as high. This keeps a flood of \
         made-up parameters away from the origin. Stored pages are served without limit. If left out: the \
         profile's value, which is 1200 for `default`, 120 for `wordpress`, and no limit for `rfc`.",
    ),
    site(
        "beyond_unknown_parameters",
        SettingKind::Choice(&["refuse", "page"]),
        None,
        "Response to a request beyond `unknown_parameters_per_minute`. `refuse`: 429 with Retry-After. \
         `page`: the page without its unknown parameters; only for a site whose pages no unknown parameter \
         changes. If left out: the profile's value, which is `refuse`.",
    ),
    site(
        "noise_fields",
        SettingKind::Patterns,
        None,
        "Request fields that never change a page, in addition to those that every profile knows. Petasos \
         removes them from requests whose response may be shared. A request with any other unknown field \
         passes.",
    ),
    site(
        "forwarded_fields",
        SettingKind::Patterns,
        None,
        "Request fields that Petasos forwards even when the response may be shared. The application reads \
         them without changing the page, such as trace identifiers, or it names them in Vary where they \
         change the page.",
    ),
    site(
        "device_class",
        SettingKind::Choice(&["none", "mobile"]),
        Some("none"),
        "Device classes that get their own variants of each page. `mobile`: one class for mobile devices, \
         which WordPress' wp_is_mobile recognises by their User-Agent, and one for all others. The origin \
         gets one User-Agent for each class, which also bounds the variants of pages with Vary: User-Agent. \
         Use it for a theme or plug-in that shows other pages to telephones. The profile `rfc` forwards \
         every User-Agent unchanged.",
    ),
    site(
        "client_address",
        SettingKind::ClientAddress,
        None,
        "Client address in the X-Forwarded-For of a fetch whose response may be shared. An IP address: a \
         constant that belongs to no client. If the origin refuses the constant, no client gets that \
         response, and each client's request goes to the origin with its own address. `leader`: the address \
         of the client whose request leads the fetch. Use it only if the origin marks every response that \
         depends on the address as private. docs/client-address.md says more. If left out: the profile's \
         value, which is 192.0.2.1 for `default`.",
    ),
    site(
        "exact_etags",
        SettingKind::Switch,
        None,
        "Whether every change of a page changes its ETag, as with an ETag made from the content. After a \
         purge, Petasos then uses the ETag to ask the origin whether the page has changed. `false`: this \
         request is unconditional unless the stored Last-Modified is at least 2 seconds older than its Date. \
         Many systems make the ETag from that date, so a second change within a second changes neither. If \
         left out: the profile's value, which is `false`.",
    ),
    site(
        "error_page",
        SettingKind::Text,
        None,
        "HTML file that visitors get if the origin fails and no stored page may replace the error. The file \
         has at most 64 KiB and is read at the start. Petasos replaces `{status}`, `{phrase}` and \
         `{message}` in it. The log names the failure, and Cache-Status has its reason. If left out: a plain \
         page.",
    ),
    site(
        "hsts",
        SettingKind::Duration,
        None,
        "Time for which a browser that has seen the site with https uses https only, sent as \
         Strict-Transport-Security with the site's responses over https. It cannot be taken back from browsers \
         that have seen it, so begin with a short time. `0s` ends it. If left out: only the origin decides.",
    ),
    site(
        "early_hints",
        SettingKind::Switch,
        Some("false"),
        "Whether Petasos sends 103 (Early Hints) with the links of a stored page while its client waits for \
         a newer copy from the origin. The links are those in the field Link with the relation `preload`, \
         `modulepreload` or `preconnect`. Only a browser that opens a page (`Sec-Fetch-Mode: navigate`) gets \
         them, because other clients may mistake them for the response. A page that is fresh is sent at \
         once and needs no hints. Petasos always passes on hints of the origin.",
    ),
    site(
        "esi",
        SettingKind::Switch,
        Some("false"),
        "Whether Petasos assembles pages from ESI templates of the origin (docs/esi.md). A response is a \
         template only if it says `Surrogate-Control: content=\"ESI/1.0\"`. Petasos tells the origin that it \
         can do so by `Surrogate-Capability`, and asks it for uncompressed responses.",
    ),
    site(
        "esi_cookies",
        SettingKind::Patterns,
        None,
        "Cookies whose values ESI templates may use by `$(HTTP_COOKIE{name})`. Do not name cookies that log \
         a visitor in. If left out: none. A request with a cookie that the profile does not know passes. \
         Name the cookie in `noise_cookies` too if no response of the origin depends on it.",
    ),
    site(
        "esi_undeclared",
        SettingKind::Switch,
        Some("false"),
        "Whether HTML responses are ESI templates even if they do not say so. Only for a site or route whose \
         origin cannot send Surrogate-Control, and writes no markup of visitors into its pages. A visitor who \
         can write an ESI element into a page can include any page of the site. HTML without ESI markup is \
         sent as without the setting.",
    ),
    site(
        "esi_hosts",
        SettingKind::Hosts,
        None,
        "Names of other sites of this configuration whose pages may be fragments, by whole URLs without port. \
         Requests for them carry no cookies and no password of the visitor. If left out: only pages of the \
         page's own host.",
    ),
    site(
        "esi_lifetime",
        SettingKind::Choice(&["none", "shortest"]),
        Some("none"),
        "Whether browsers may keep pages with fragments. `none`: no. `shortest`: for the shortest of the \
         remaining lifetimes that template and fragments state for browsers (`Cache-Control: max-age`). All of \
         them must be in memory and the same for all visitors. A browser then shows a purged fragment until \
         that time ends.",
    ),
    site(
        "logged_in",
        SettingKind::Choice(&["pass", "private", "context"]),
        Some("pass"),
        "How Petasos answers requests with a session cookie (docs/logged-in.md). `pass`: it sends each to \
         the origin. `private`: it keeps copies of pages in memory that only the same session gets, if the \
         response says `Cache-Control: max-age` without `no-store` and `no-cache`. A session loses its \
         copies with any request that may write and with any response that sets its cookie. `context`: \
         visitors with the same rights share copies in memory of pages that say so.",
    ),
    site(
        "private_ttl",
        SettingKind::Duration,
        None,
        "Lifetime of a session's copy of a page whose response states none (`logged_in = \"private\"`). Set \
         it only if each change of a page by others may stay unseen for this time. If left out: such \
         responses are not kept.",
    ),
    site(
        "context_path",
        SettingKind::Text,
        Some("/_fos_user_context_hash"),
        "Path at which the origin says what rights a visitor has (`logged_in = \"context\"`), as \
         FOSHttpCache does. Petasos sends a GET with the visitor's cookies once for each session.",
    ),
    site(
        "context_field",
        SettingKind::Text,
        Some("X-User-Context-Hash"),
        "Header field that names the rights of a visitor: in the origin's answer, and in requests of \
         Petasos to the origin. Requests of clients with the field are refused.",
    ),
    site(
        "context_media_type",
        SettingKind::Text,
        Some("application/vnd.fos.user-context-hash"),
        "Accept of the request for the rights of a visitor, and Content-Type of its answer.",
    ),
    site(
        "context_cookie",
        SettingKind::Text,
        None,
        "Cookie in which the application states the rights of a visitor, signed (docs/logged-in.md). If \
         left out: Petasos asks the origin at `context_path`.",
    ),
    site(
        "context_key_file",
        SettingKind::Text,
        None,
        "File with the key of `context_cookie`, at least 32 bytes of text. It is read at the start and at \
         a reload.",
    ),
    site(
        "context_pages",
        SettingKind::Switch,
        Some("false"),
        "Whether all responses of the site or route depend on a visitor's rights alone, so that those \
         without `Vary` on `context_field` may be shared too. Set it only if no page has a name, a token \
         or another value of one visitor.",
    ),
    site(
        "via_to_origin",
        SettingKind::Switch,
        Some("true"),
        "Whether requests to the origin carry the field Via, as RFC 9110 section 7.6.3 demands of a \
         gateway. Some web servers do not compress responses to requests with Via: nginx, unless \
         gzip_proxied is `any`. `false` leaves it off; Petasos always sends CDN-Loop, by which it detects \
         loops.",
    ),
    site(
        "host",
        SettingKind::Text,
        None,
        "Public host name that the origin gets as Host, for trying the edge on another address. If left \
         out: the Host that the visitor sent.",
    )
    .flag("--host"),
    site(
        "proto",
        SettingKind::Choice(&["http", "https"]),
        Some("http"),
        "Public scheme that the origin gets in X-Forwarded-Proto.",
    )
    .flag("--proto"),
];
