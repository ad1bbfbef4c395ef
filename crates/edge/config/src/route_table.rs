//! The settings of routes: which requests a route is for, and how Petasos answers them. Sites have
//! the settings of the second kind too.

use crate::plan::CODINGS;
use crate::row::{row, site};
use crate::setting::{Setting, SettingKind, SettingScope};

const fn route(key: &'static str, kind: SettingKind, doc: &'static str) -> Setting {
    row(key, SettingScope::Route, kind, None, doc)
}

pub(crate) const ROUTE: &[Setting] = &[
    route(
        "path",
        SettingKind::Paths,
        "Paths of the requests that the route is for, such as `/wp-admin/*`. Petasos compares the path \
         without its query, percent-decoded, and without regard to case. It refuses a path that applications \
         read in different ways (`..`, repeated slashes, encoded slashes) if these are for different routes. A \
         request must match one entry of each matcher (`path`, `methods`, `fields`, \
         `cookies`) that the route has. The first matching route of a site in the order of the file applies; \
         a request that matches none gets the settings of the site. A route has the settings of its site \
         unless it states others. If left out: all paths.",
    ),
    route(
        "methods",
        SettingKind::Methods,
        "Methods of the requests that the route is for. `GET` includes HEAD. If left out: all methods.",
    ),
    route(
        "fields",
        SettingKind::FieldPatterns,
        "Header fields of the requests that the route is for. `Name`: the field is present. `Name: value`: \
         it also has this value, without regard to case. If left out: any fields.",
    ),
    route(
        "cookies",
        SettingKind::CookiePatterns,
        "Cookies of the requests that the route is for. `name`: the cookie is present. `name=value`: it also \
         has this value. If left out: any cookies.",
    ),
    site(
        "redirect",
        SettingKind::Text,
        None,
        "Redirects all requests to this URL. Petasos replaces `{host}`, `{path}`, `{query}` (with its \
         question mark) and `{uri}` (path and query) by those of the request: \
         `https://www.example.org{uri}`. If left out: no redirection.",
    ),
    site(
        "redirect_status",
        SettingKind::Numbers(&[301, 302, 303, 307, 308]),
        Some("308"),
        "Status of the redirection. 301 and 308 are permanent, and browsers store them. 307 and 308 keep \
         the method.",
    ),
    site(
        "answer.status",
        SettingKind::Count(200, 599),
        None,
        "Answers all requests with this status and with `answer.content`, without an origin. If left out: \
         the origin, the files or the redirection answer.",
    ),
    site(
        "answer.content",
        SettingKind::Text,
        None,
        "Content of the response of `answer.status`. A text that begins with @ names a file with the \
         content, of at most 64 KiB, which Petasos reads at the start. If left out: the status in words.",
    ),
    site(
        "answer.type",
        SettingKind::Text,
        Some("text/plain; charset=utf-8"),
        "Media type of `answer.content`.",
    ),
    site(
        "files",
        SettingKind::Text,
        None,
        "Directory whose files answer GET and HEAD. The whole path of a request is a path below it; \
         `files_strip` removes a part of it. A relative path begins at the directory of the configuration file. \
         docs/static-files.md has the rules. If left out: no files.",
    ),
    site(
        "files_strip",
        SettingKind::Text,
        None,
        "Beginning of request paths that the directory `files` does not have. With `/media`, a request for \
         `/media/a.png` gets the file `a.png` of the directory. If left out: nothing is removed.",
    ),
    site(
        "files_try",
        SettingKind::Files,
        None,
        "Names that Petasos tries in this order. `{path}` is the path of the request, and means the index \
         file of a directory too. A suffix may follow, such as `{path}.html`. If left out: `{path}`.",
    ),
    site(
        "files_index",
        SettingKind::Files,
        None,
        "Names of index files of directories, in the order in which Petasos tries them. If left out: \
         `index.html`.",
    ),
    site(
        "files_missing",
        SettingKind::Text,
        None,
        "Answer to requests without a file. `origin`: the origin's. `404`: not found. A path such as \
         `/index.html`: this file of the directory, with status 200. If left out: `origin` if the route or \
         its site has one, else `404`.",
    ),
    site(
        "files_precompressed",
        SettingKind::Choices(CODINGS),
        None,
        "Content codings whose files Petasos looks for beside a file: `.br`, `.zst` and `.gz`. It sends the \
         shortest one that the client accepts, unless it is older than the file. `none`: no codings. If left \
         out: all.",
    ),
    site(
        "files_refused",
        SettingKind::Patterns,
        None,
        "Names of files that Petasos treats as missing, without regard to case. A list replaces the default. \
         If left out: source code (`*.php*`), databases, logs, configuration and copies of editors; \
         docs/static-files.md lists them.",
    ),
    site(
        "maintenance",
        SettingKind::Text,
        None,
        "HTML file that all visitors get with status 503 while the site is being maintained. The file has at \
         most 64 KiB. Petasos reads it at the start and at each reload. Set the setting and reload, do the \
         work, remove the setting and reload. Stored pages stay stored. If left out: no maintenance.",
    ),
    site(
        "maintenance_peers",
        SettingKind::Peers,
        None,
        "Addresses of clients that use the site as usual during `maintenance`. Behind one of `trusted_proxies`, \
         the client's address is that in X-Forwarded-For. An entry is an address, a \
         prefix such as 10.0.0.0/8, or @ and the path of a file with one of them per line. If left out: \
         none.",
    ),
    site(
        "basic_auth",
        SettingKind::Text,
        None,
        "Password file with the users who may see the site or route, by basic authentication. Its lines are \
         `user:hash`, as `htpasswd -B` and `openssl passwd -6` make hashes. Petasos reads it at the start \
         and at each reload. Nobody else receives a stored page, and other caches may not store responses. \
         The origin does not receive the password. `none` asks for no password on a route of a site that \
         does. If left out: no password.",
    ),
    site(
        "basic_auth_realm",
        SettingKind::Text,
        Some("Restricted"),
        "Text by which browsers say what the password of `basic_auth` is for.",
    ),
    site(
        "response.set",
        SettingKind::FieldLines,
        None,
        "Header fields of all responses to clients, such as `X-Frame-Options: DENY`. They replace fields of \
         the same name from the origin.",
    ),
    site(
        "response.add",
        SettingKind::FieldLines,
        None,
        "Header fields that responses to clients have beside those of the origin.",
    ),
    site(
        "response.remove",
        SettingKind::FieldNames,
        None,
        "Header fields that Petasos removes from responses to clients, such as `X-Powered-By`.",
    ),
    site(
        "request.set",
        SettingKind::FieldLines,
        None,
        "Header fields of all requests to the origin. They replace fields of the same name from the client. \
         Pages fetched with other values are other pages, so a change empties the stored pages of the route.",
    ),
    site(
        "request.remove",
        SettingKind::FieldNames,
        None,
        "Header fields that Petasos removes from requests to the origin.",
    ),
];
