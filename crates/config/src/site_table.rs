//! The settings of a site, as rows of the settings table.

use crate::setting::{Kind, Setting};
use crate::table::site;
use profiles::AUTO;

pub(crate) const SITE: &[Setting] = &[
    site(
        "names",
        Kind::Hosts,
        None,
        "Host names of the site, without port. Left out: the site answers to any name; only one site can.",
    ),
    site(
        "ports",
        Kind::Ports,
        None,
        "Ports in `Host` by which visitors reach the site, as where a port of a container is mapped: `[8080]`. The default \
         port, that of `listen` and the one in X-Forwarded-Port from one of `trusted_proxies` need not be listed. Pages of \
         other ports are stored within `limits.foreign_ports_max`. Left out: no further ports.",
    ),
    site("origin", Kind::Origin, None, "The application behind the site. Every site needs one.")
        .flag("--origin"),
    site(
        "profile",
        Kind::Profile,
        Some(AUTO),
        "The rules for the kind of site: which cookies mean a session, which paths are never shared, which \
         lifetime an answer gets that states none; docs/profiles.md has them. `auto` is `default` until an answer says \
         what the site runs on, then the profile for that. A path, such as `./my.toml`, is that of a \
         profile of your own. `rfc` is the letter of the standards: it forwards and shares \
         whatever they allow, and is for applications that say in every answer what may be shared.",
    )
    .flag("--profile"),
    site(
        "ttl",
        Kind::Duration,
        None,
        "Lifetime of 200 and 301 answers to GET that state none and set no cookie, for requests without \
         Cookie or Authorization. Left out: the profile's, which for `default` is none.",
    )
    .flag("--ttl"),
    site(
        "not_found_ttl",
        Kind::Duration,
        None,
        "Lifetime of 404 and 410 answers that state none, and the most that one gets that states more: a page may \
         be published any moment. Left out: the profile's, 30s for `default`; `rfc` obeys the answer.",
    ),
    site(
        "error_ttl",
        Kind::Duration,
        None,
        "The most that a 5xx answer is shared, however long a lifetime it states; one that states none is not. \
         Left out: the profile's, 5s for `default`; `rfc` obeys the answer.",
    ),
    site(
        "stale_on_error",
        Kind::Choice(&["obey", "override"]),
        Some("obey"),
        "When the origin fails, stored answers may be sent although they are stale. `obey` asks each answer: \
         must-revalidate, proxy-revalidate, s-maxage and no-cache forbid it. `override` lifts must-revalidate and \
         proxy-revalidate, which many systems send with every page; the `rfc` profile never does.",
    ),
    site(
        "stale_on_error_max",
        Kind::Duration,
        Some("1d"),
        "How long after its lifetime an answer may be sent for that reason, unless its own stale-if-error says \
         otherwise.",
    ),
    site(
        "targeted_fields",
        Kind::Choices(&["Surrogate-Control", "CDN-Cache-Control"]),
        None,
        "Fields of an answer that speak to this cache in place of Cache-Control; the first that is there and can be \
         read counts. Left out: the profile's, both in this order.",
    ),
    site(
        "session_cookies",
        Kind::Patterns,
        None,
        "Cookies that mark a visitor's session, beside those the profile knows: requests with one pass.",
    ),
    site(
        "noise_cookies",
        Kind::Patterns,
        None,
        "Cookies that never change a page, beside those the profile knows: they are removed from requests whose \
         answer may be shared.",
    ),
    site(
        "stripped_cookies",
        Kind::Patterns,
        None,
        "Cookies that are removed from responses to requests without a session, so that these responses may be shared \
         although the application sets the cookie for every visitor. A visitor then gets the cookie from the first \
         response that is not shared, such as one to a form. Not for a cookie that a token in the page belongs to.",
    ),
    site(
        "static_files",
        Kind::Switch,
        None,
        "Whether static files (styles, scripts, fonts, pictures, sound, film) are fetched without cookies and answer \
         requests with any cookies, as docs/profiles.md tells. Left out: the profile's, which is `true` for all but `rfc`.",
    ),
    site(
        "static_paths",
        Kind::Patterns,
        None,
        "Paths where no response of a static type depends on cookies, beside those the profile knows, such as \
         `/static/*`: cookies of requests are ignored and cookies of responses removed, also where Vary names Cookie. \
         HTML, JSON and other types at such a path are still sent to visitors with sessions by the origin.",
    ),
    site(
        "static_ttl_max",
        Kind::Duration,
        None,
        "Longest lifetime that is assumed for a static file with `Last-Modified` that states none; it is a tenth of the \
         time since its last change. So a changed file is seen after this time at the latest, and at once after a purge. \
         `0s`: the origin is asked before each use. It also limits how long the profiles `flask` and `moinmoin` use files \
         that say `no-cache`. `ttl`, of the site or its profile, takes precedence. Left out: the profile's, 5m for `default`.",
    ),
    site(
        "tracking_parameters",
        Kind::Patterns,
        None,
        "Query parameters that only measure where a visitor came from, beside those the profile knows: a page is the \
         same with them and without them, and they are not forwarded when the answer may be shared.",
    ),
    site(
        "known_parameters",
        Kind::Patterns,
        None,
        "Query parameters that the application reads, beside those the profile knows: different values are different \
         pages. `unknown_parameters_per_minute` counts all others.",
    ),
    site(
        "unknown_parameters_per_minute",
        Kind::Count(1, 60_000),
        None,
        "Different addresses with unknown query parameters that are fetched of one path in a minute; of all paths of the \
         site ten times as many. It keeps a flood of made-up parameters from the origin. Stored pages are served without \
         limit. Left out: the profile's, which is 1200 for `default`, 120 for `wordpress`, and no limit for `rfc`.",
    ),
    site(
        "beyond_unknown_parameters",
        Kind::Choice(&["refuse", "page"]),
        None,
        "What a request gets beyond `unknown_parameters_per_minute`. `refuse`: 429 with Retry-After. `page`: the page \
         without its unknown parameters; only for a site whose pages no unknown parameter changes. Left out: the \
         profile's, which is `refuse`.",
    ),
    site(
        "noise_fields",
        Kind::Patterns,
        None,
        "Request fields that never change a page, beside those every profile knows: they are removed from requests \
         whose answer may be shared. A request with any other unknown field passes.",
    ),
    site(
        "forwarded_fields",
        Kind::Patterns,
        None,
        "Request fields that the application reads without their changing a page, such as trace identifiers, or \
         whose name it puts into Vary where they do: they are forwarded also when the answer may be shared.",
    ),
    site(
        "device_class",
        Kind::Choice(&["none", "mobile"]),
        Some("none"),
        "Which devices get pages of their own. `mobile`: a mobile device, as WordPress' wp_is_mobile knows it by its \
         User-Agent, and all others; the origin is told one User-Agent for each class, which also bounds the variants of \
         pages with Vary: User-Agent. For a theme or plug-in that shows other pages to telephones. The profile `rfc` \
         forwards every User-Agent as it is.",
    ),
    site(
        "client_address",
        Kind::ClientAddress,
        None,
        "The client address that the origin is told in X-Forwarded-For on a fetch whose answer may be shared. An IP \
         address that is nobody's: an answer that refuses it is sent to no client, and each client asks with its own \
         address. `leader`: the address of the client whose request leads the fetch; only for an origin that marks \
         every answer that depends on the address as private. docs/client-address.md says more. Left out: the \
         profile's, which is 192.0.2.1 for `default`.",
    ),
    site(
        "exact_etags",
        Kind::Switch,
        None,
        "Whether every change of a page changes its ETag, as one made from the content does. After a purge the origin \
         is then asked by the ETag whether the page is still the same. `false`: such a request is unconditional unless \
         the stored Last-Modified is at least 2 seconds older than its Date, because many systems make the ETag from \
         that date, and a second change within a second changes neither. Left out: the profile's, which is `false`.",
    ),
    site(
        "error_page",
        Kind::Text,
        None,
        "HTML file that visitors get where the origin fails and no stored page can stand in, at most 64 KiB, read at the \
         start. `{status}`, `{phrase}` and `{message}` in it are replaced. What failed stands in the log and, as the \
         reason, in Cache-Status. Left out: a plain page.",
    ),
    site(
        "via_to_origin",
        Kind::Switch,
        Some("true"),
        "Whether requests to the origin carry the field Via, as RFC 9110 section 7.6.3 demands of a gateway. Some web \
         servers do not compress responses to requests with it: nginx, unless gzip_proxied is `any`. `false` leaves it \
         off; CDN-Loop, by which Petasos detects loops, is always sent.",
    ),
    site(
        "host",
        Kind::Text,
        None,
        "The public name that the origin is told as Host, for trying the edge on another address. Left out: \
         the Host that the visitor sent.",
    )
    .flag("--host"),
    site(
        "proto",
        Kind::Choice(&["http", "https"]),
        Some("http"),
        "The public scheme that the origin is told in X-Forwarded-Proto.",
    )
    .flag("--proto"),
];
