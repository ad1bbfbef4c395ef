//! Renders docs/profiles.md from the shipped files. A test compares the page with this text.

use crate::file::{
    BeyondWord, ChangesWord, CookieWord, DownstreamWord, File, IdentityRow, ParameterWord, PathWord,
    RouteRow, StaticRow, UnknownWord, WriteRow,
};
use crate::{ClientAddress, Policy, Profile};
use std::fmt::Write;

/// The reference of all shipped profiles as Markdown.
pub fn profiles_reference() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("| profile | for | extends | recognised | tried |\n|---|---|---|---|---|\n");
    // Writing into a String cannot fail.
    for profile in Profile::all() {
        let recognised = if profile.is_recognisable() { "yes" } else { "" };
        let extends = profile.file.extends.as_deref().map_or_else(String::new, |base| format!("`{base}`"));
        let _ = writeln!(
            page,
            "| `{}` | {} | {extends} | {recognised} | {} |",
            profile.name,
            profile.file.title,
            tried(profile)
        );
    }
    for profile in Profile::all() {
        put_profile(&mut page, profile);
    }
    page
}

const INTRODUCTION: &str = "\
# Profiles

A profile tells Petasos how to cache a kind of site: which cookies matter, which paths pass, and
which pages a write changes. You choose one with `--profile NAME`, or with the site's setting
`profile = \"NAME\"`. `profile = \"./my.toml\"` reads a profile from a file with the format of those in
`crates/http/profiles/data`; it may extend a profile of this page. A site's own settings
(docs/settings.md) take precedence over its profile, or extend its lists.

Petasos compares names of cookies and parameters, and paths, as a whole and without regard to case;
`*` matches any text. A cookie has one of these meanings:

- *Noise*: Petasos removes the cookie from requests whose response may be shared, and from responses
  that are shared. *Noise* takes precedence over *session*.
- *Session*: a request with the cookie passes. A request with an unknown cookie passes too, unless
  the profile says otherwise.
- *Key*: Petasos stores one page for each value of the cookie. The application gets no other cookie
  with the fetch of that page. A client that sends another visitor's value gets the page for that
  value. This meaning is for currencies and groups, not for secrets.

*Tracking* parameters of a query say where a visitor came from. A page with them and the page
without them are one object. If the response may be shared, the application gets the URL without
them.

Without a choice, or with `auto`, a site begins with `default`. Once a response reveals the system
behind the site, the site gets that system's profile. Petasos then invalidates everything that it
stored of the site before. Standard error reports the detection with its signs; so do `/status` at
the admin address and `petasos why`. The rules for signs ensure that no visitor can forge enough of
them:

* One response field that only the system sends is enough, such as `X-Generator: Drupal` or
  WordPress' `Link` with the relation `https://api.w.org/`.
* Without this field, detection needs two signs in one response. One pair is a sign in the
  document's head and a cookie that the system sets (Wagtail's admin: an asset of `wagtailadmin` and
  Django's `csrftoken`). The other pair counts on the start page only: the `generator`, and a script
  or stylesheet that the head loads from the site's own host, such as `/wp-includes/` or
  `/load.php?`. The start page is `/`, or the target of its redirect, requested without `Cookie` and
  `Authorization`. Visitors may have written other documents completely, for example uploads or raw
  views.
* Only elements count that a browser has in the document's `head`, in its first 16 KiB. The
  document's charset must be one in which bytes cannot be mistaken for markup. Text in scripts,
  comments, titles, attributes, `noscript`, templates and the body does not count.
* Only responses to a GET without a query count, with status 200 and type `text/html`. A sign that
  occurs in the request's own target does not count, because an application may reflect it.

Petasos trusts the authors of the origin's response fields and of the start page: both must be the
site's operator. If customers write their own start pages behind one site, set the profile by name.

Each later sign confirms a detection. If no sign confirms it for seven days, Petasos drops it: the
site has `default` again, and everything stored of it is invalidated.
`petasos profile --forget SITE` drops a wrong detection at once and switches detection off for the
site, also for later processes. `petasos profile --detect SITE` switches it on again. Both commands
call the admin address: `POST /profile` with `{\"site\": \"any\", \"detect\": false}`. The caller needs
the same authorisation as for a purge. An edge with a disk stores the detection of a site and its
origin, with signs and times, in the file `recognised` on that disk.

*Static files* are the same for every visitor. Petasos therefore fetches them without cookies, and
they answer requests with any cookies. Petasos first guesses from the extension of the path's last
segment. Then the response decides: it must have a static type (pictures, fonts, sound, film, CSS,
JavaScript, WebAssembly), must not vary by cookie, and must state a lifetime or `Last-Modified`. A
response of a static type that says `public` or `s-maxage` with a lifetime is a static file at any
path. Petasos does not store cookies that a static file sets.

HTML, JSON and every other type at a path like `/account/x.css` is never shared with a visitor whose
cookies make a request pass. On *paths of static files* the type alone decides, because the
profile or the operator (`static_paths`) vouches for them. The leak guard compares static files with
the origin's response to the visitor's own cookies, as it does with pages. If a site's styles or
scripts depend on a cookie, such as one for a dark theme, the site should send `Vary: Cookie` with
them, or set `static_files = false`.

A file server whose configuration states no lifetime sends `Last-Modified` alone. Petasos then
treats the static file as fresh for a tenth of the time since its last change, as RFC 9111 section
4.2.2 suggests. The maximum is five minutes. Visitors therefore get a changed file after five
minutes at the latest, and earlier if the file changed recently. After a purge they get it at once,
and a file under a new URL is not affected. Browsers assume the same lifetime without the limit of
five minutes. A file that says `no-cache`, `private`, `max-age=0` or `must-revalidate` gets no
assumed lifetime. The site's `static_ttl_max` sets a shorter or longer limit. If the site or its
profile has a lifetime for every response that states none, static files get that lifetime.

Flask sends its own files with `no-cache` unless `SEND_FILE_MAX_AGE_DEFAULT` gives them a lifetime.
The profile `default` obeys this `no-cache`. The profiles `flask` and `moinmoin` know that the
framework sends it with every file. They use the file for ten seconds before Petasos asks the origin
again. Four conditions apply: the file is at one of the profile's paths of static files or one of
`static_paths`; it has a static type; it has `ETag` and `Last-Modified`; and `no-cache` is its only
directive for caches. Browsers still get `no-cache`, so a browser with an old file asks again at its
next use. `static_ttl_max = \"0s\"` switches off both this use and the assumed lifetime. `petasos why`
says when a profile uses a file that says `no-cache`.

*Sent downstream* means the `Cache-Control` that browsers, and caches between them and the edge,
receive. No purge reaches them. If a system states no lifetime, or one for the cache in front of it,
Petasos sends its pages with `no-cache`. A browser may keep this page, and asks before it shows the
page again. `Age` and the validators stay, so this request gets 304 if the page has a validator.
Pages are HTML and feeds, for every visitor. Petasos does not change `no-store`, `private` and
`no-cache` of the application, nor any `Cache-Control` of pictures, styles and scripts.

A static file without `Cache-Control`, `Expires` and `Pragma` gets a lifetime in browsers, unless
`browser_caching` is `false`. If its URL changes with its content, it is `max-age=31536000,
immutable`: a browser then never asks for it again. Such a URL has a parameter `ver`, `v` or
`version`, or a hash in the file's name (`app.3f9a2b1c.css`): at least eight hexadecimal digits, of
which one is a letter and one is not. Any other static file gets `max-age=604800`, a week. Change the
name or the parameter when such a file must change at once, because no purge reaches browsers. A
file that sets a cookie gets no lifetime, and neither does one that varies on everything, or the response to a request that passes.

*Writes* are the requests by which an editor or a visitor changes the site. A client can forge
cookies, nonces and parameters, so only the application's response proves the write: by a redirect
that only a save leads to, by a field, or by a value in the first 64 KiB of its content. If the
request has `_method` or `X-HTTP-Method-Override`, that method counts; a request that names two
methods is no write. The first matching rule counts. Before the response ends, Petasos marks as
stale, for all visitors, the pages that the write changes. The next request for one of them goes to
the application, and visitors get the old page only if the application fails. Visitors thus see a
change without a plug-in that purges.

The response to the write decides how much becomes stale at once:

- *Everything*: every page of the host. This applies to themes, menus, widgets, settings, users, and
  writes whose response names no page.
- *One post and all lists*: the pages of the posts that the response names by number, and all lists.
  A list is every page that does not say which one post it shows: front page, archives, categories,
  feeds, and files outside the listed paths. Pages of other posts remain hits. A page says which
  post it shows by a response field (`[[identity]]`). If an application hides the field, every page
  counts as a list, and all pages become stale.
- *All lists*: all lists, without a post.
- *Front page and feeds*: the front page, the feeds, and the pages that the response names.

After a write of the last three kinds, Petasos refreshes all other pages in the background. They may
show a part of the changed page: a title among related posts, a widget, an included page. The
refresh begins ten seconds after the write. Each page is refreshed when it is next requested, once
for all writes of these ten seconds. Until then the old copy answers as a hit. The old address of a
renamed post is one of these pages. A site with a static tree has no background refresh, because a
web server serves its files by itself: a write to one post makes everything stale there.

If the content proves the write, Petasos requests the response without a content coding, and holds
back its last piece until the invalidation is done. Beyond `limits.writes_per_minute`, Petasos
continues to serve pages and refreshes them in the background, ten seconds after the first of these
writes at the latest.

The rules invalidate nothing on a site that purges by itself. This applies if the response to the
write has `X-Petasos-Purges: 1` or a purge that Petasos can read (docs/purging.md). It also applies
for `limits.self_purge_memory` after an authorised client has purged pages during a write or within
ten seconds after it. A purge of the whole site does not count, because operators send it.
`petasos_writes_left_to_purges_total` counts these writes, and `/status` says `purges_itself`.

Petasos believes an application that answers the request for a stale page with 304. WordPress does
so for its feeds. Their validators contain the dates of posts and comments, but no names of terms,
users or the site. The purges of Petasos' plug-in are hard for this reason.

A parameter may be in the query or in a form. The form takes precedence, and so does the last
parameter of a name, as in PHP. Petasos does not read the parameters of a multipart form.

Responses *shared for* a time are the same for every visitor, although the application forbids
sharing them: a 404 of WordPress, or its redirect of `/favicon.ico`. Their fields must show that the
application made them. They are fresh for that time and are not used after it. A write or a purge
makes them stale as it does pages: if a post is published at the address of a 404, the next visitor
gets the post. The site's `not_found_ttl` shortens that time for 404 and 410.

*Parameters that name pages* are those that the application reads. A parameter in no row is unknown:
a flood of `/?x=1`, `/?x=2` and so on would reach the application each time. A site therefore
fetches at most `unknown_parameters_per_minute` different addresses with unknown parameters per path
and minute. For all its paths together, the limit is ten times as high. Beyond that, a request gets
the stored page, fresh or stale. If none is stored, it gets 429 with `Retry-After`. With
`beyond_unknown_parameters = \"page\"`, the operator vouches that unknown parameters change nothing;
the request then gets the page without them.

Paths and parameters that *pass unless their responses say public* belong to interfaces such as
WordPress' REST API. Their responses may be for one client only. If the response to a passed request
says `public` and a lifetime, Petasos shares the same URL from the next request on. This lasts as
long as its responses continue to say so.

*Mobile themes*: an application may send different content for the same URL to telephones, by
`User-Agent`. If it sends `Vary: User-Agent`, each browser has its own variant, and few requests are
hits. If it does not, every visitor gets the page for
`User-Agent: Mozilla/5.0 (compatible; Petasos)`. In both cases, the site's setting
`device_class = \"mobile\"` makes two variants of each page, one for mobile devices and one for all
others.

Responses *shown in place of stale pages* say that the site is closed: a 503 with `Retry-After` and
the fields of the system. Without a rule, a stale page replaces every 500, 502, 503 and 504, because
overloaded servers, proxies and firewalls send `Retry-After` too.

A profile is *untested* if no test in this repository runs it against the real application. Its rows
come from the sources that they name.

This page is rendered from the profiles by `cargo xtask docs`.

";

fn tried(profile: &Profile) -> String {
    profile.file.lab.as_ref().map_or_else(|| "untested".to_owned(), |lab| format!("`{lab}`"))
}

/// The names in a row about static files: extensions, paths, or both.
fn static_rows(row: &StaticRow) -> impl Iterator<Item = (&'static str, &[String], &str)> {
    let extensions = ("extensions of static files", &row.extensions[..], &row.source[..]);
    let paths = ("paths of static files, regardless of cookies", &row.paths[..], &row.source[..]);
    [extensions, paths].into_iter().filter(|(_, names, _)| !names.is_empty())
}

fn put_profile(page: &mut String, profile: &Profile) {
    let Profile { name, policy, file } = profile;
    // Writing into a String cannot fail.
    let _ = write!(page, "\n## `{name}`: {}\n\n", file.title);
    if !file.about.is_empty() {
        let _ = write!(page, "{}\n\n", file.about);
    }
    let _ = write!(page, "| rule | value | source |\n|---|---|---|\n");
    let mut row = |what: &str, names: &str, source: &str| {
        let _ = writeln!(page, "| {what} | {names} | {source} |");
    };
    if let Some(lifetime) = &file.lifetime {
        row("lifetime if none is stated", &seconds(lifetime.default_ttl_secs), &lifetime.source);
        row("after that, served stale during a refresh", &seconds(policy.grace.as_secs()), &lifetime.source);
    }
    if let Some(downstream) = &file.downstream {
        let told = match downstream.pages {
            DownstreamWord::AsStated => "as stated",
            DownstreamWord::NoCache => "`no-cache`",
        };
        row("`Cache-Control` of pages, sent downstream", told, &downstream.source);
    }
    if let Some(unknown) = &file.unknown_cookies {
        let mean = match unknown.mean {
            UnknownWord::Pass => "pass",
            UnknownWord::Noise => "noise",
        };
        row("unknown cookies", mean, &unknown.source);
    }
    for cookie in &file.cookie {
        let what = match cookie.means {
            CookieWord::Key => "cookies in the key",
            CookieWord::Session => "session cookies",
            CookieWord::Noise => "noise cookies",
        };
        row(what, &code(&cookie.names), &cookie.source);
    }
    put_static(&mut row, file);
    put_targets(&mut row, file);
    put_answers(&mut row, file);
    for front in &file.front {
        row("front page and feeds", &code(&front.targets), &front.source);
    }
    for route in &file.route {
        let RouteRow { parameter, scripts, prefix, .. } = &route.row;
        let scripts: Vec<String> = scripts.iter().map(|script| format!("/{script}")).collect();
        let text = format!("`{parameter}=VALUE` at {} is the path `{prefix}` + VALUE", code(&scripts));
        row("parameter that names a route", &text, &route.source);
    }
    for identity in &file.identity {
        row("field that names the one post of a page", &field(identity), &identity.source);
    }
    for write in &file.write {
        let (what, names) = told(write);
        row(what, &names, &write.source);
    }
    for purge in &file.purge {
        row("how the system purges", &purge.says, &purge.source);
    }
    if file.rules.is_some() {
        rules(policy).iter().for_each(|(what, value)| row(what, value, ""));
    }
}

/// Writes the rows about static files.
fn put_static(row: &mut impl FnMut(&str, &str, &str), file: &File) {
    for files in &file.static_file {
        for (what, names, source) in static_rows(files) {
            row(what, &code(names), source);
        }
        if let Some(secs) = files.guess_secs_max {
            row(
                "lifetime of static files that state none",
                &format!("a tenth of their age, at most {}", seconds(secs)),
                &files.source,
            );
        }
        if let Some(secs) = files.recheck_secs {
            row(
                "static files at the paths above that say `no-cache` are used for",
                &seconds(secs),
                &files.source,
            );
        }
    }
}

/// Writes the rows about paths and parameters.
fn put_targets(row: &mut impl FnMut(&str, &str, &str), file: &File) {
    for path in &file.path {
        let what = match path.means {
            PathWord::Bypass => "paths that pass",
            PathWord::Public => "paths that pass unless their responses say public",
        };
        row(what, &code(&path.patterns), &path.source);
    }
    for parameter in &file.parameter {
        let what = match parameter.means {
            ParameterWord::Bypass => "parameters that pass",
            ParameterWord::Public => "parameters that pass unless their responses say public",
            ParameterWord::Tracking => "tracking parameters",
            ParameterWord::Known => "parameters that name pages",
        };
        row(what, &code(&parameter.names), &parameter.source);
    }
}

/// Writes the rows about responses and unknown parameters.
fn put_answers(row: &mut impl FnMut(&str, &str, &str), file: &File) {
    if let Some(table) = &file.unknown_parameters {
        let beyond = match table.beyond {
            BeyondWord::Refuse => "429",
            BeyondWord::Page => "the page without them",
        };
        let text = format!("{} of one path in a minute, then {beyond}", table.per_minute);
        row("fetches with unknown parameters", &text, &table.source);
    }
    for brief in &file.brief {
        let mut text = format!("{} with {}", numbers(&brief.statuses), code(&brief.fields));
        if !brief.paths.is_empty() {
            text = format!("{text}, of {}", code(&brief.paths));
        }
        row(&format!("shared for {}", seconds(brief.lifetime_secs)), &text, &brief.source);
    }
    for maintenance in &file.maintenance {
        let text = format!("{} with {}", numbers(&maintenance.statuses), code(&maintenance.fields));
        row("shown in place of stale pages", &text, &maintenance.source);
    }
}

fn numbers(statuses: &[u16]) -> String {
    statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// The field that identifies the post of a page, in words.
fn field(identity: &IdentityRow) -> String {
    let IdentityRow { field, except, .. } = identity;
    if except.is_empty() { format!("`{field}`") } else { format!("`{field}`, but not at {}", code(except)) }
}

/// A write rule in words.
fn told(write: &WriteRow) -> (&'static str, String) {
    let what = match write.changes {
        ChangesWord::Everything => "writes that change everything",
        ChangesWord::Fronts => "writes that change front page and feeds",
        ChangesWord::Lists => "writes that change all lists",
        ChangesWord::Page => "writes that change one post and all lists",
    };
    let statuses: Vec<_> = write.statuses.iter().map(u16::to_string).collect();
    let mut text = write.methods.join(", ");
    for (label, list) in [
        ("", &write.paths),
        ("but not", &write.unless_paths),
        ("with", &write.parameters),
        ("without", &write.unless_parameters),
        ("and a cookie", &write.cookies),
        ("answered with", &statuses),
        ("to", &write.locations),
        ("not to", &write.unless_locations),
        ("with the field", &write.fields),
        ("without", &write.unless_fields),
        ("with JSON that has", &write.json),
        ("unless the JSON has", &write.unless_json),
        ("with the content", &write.contents),
        ("and the pages that the JSON names in", &write.changed_links),
        ("and the posts whose numbers are in the JSON's", &write.changed_ids),
        ("and the posts whose numbers are in the request's", &write.changed_parameters),
        ("and the posts whose numbers are in the redirect's", &write.changed_locations),
        ("and the posts whose numbers are in the content", &write.changed_contents),
        ("and below these pages", &write.changed_below),
    ] {
        if !list.is_empty() {
            text += &format!(" {label} {}", code(list)).replace("  ", " ");
        }
    }
    (what, text)
}

/// The rules of a profile that states any, with their resolved values.
fn rules(policy: &Policy) -> Vec<(&'static str, String)> {
    let most = |duration: Option<std::time::Duration>| {
        duration.map_or_else(|| "as stated".to_owned(), |duration| seconds(duration.as_secs()))
    };
    vec![
        ("fields forwarded on a shared fetch", format!("{:?}", policy.forwarding).to_lowercase()),
        ("client address on a shared fetch", client_address(policy)),
        ("all percent-encodings of a URL have one key", policy.equal_spellings.to_string()),
        ("an ETag proves a page unchanged after a purge", policy.exact_etags.to_string()),
        ("responses that set a cookie are shared", policy.stores_cookies.to_string()),
        ("lifetimes are estimated (RFC 9111 section 4.2.2)", policy.heuristics.to_string()),
        ("a reload gets stored responses up to this age", seconds(policy.reload_age_min.as_secs())),
        ("404 and 410 are fresh for", most(policy.not_found_ttl)),
        ("errors are fresh for at most", most(policy.error_ttl)),
        ("stale responses replace errors for", seconds(policy.stale_on_error_max.as_secs())),
    ]
}

fn client_address(policy: &Policy) -> String {
    match policy.client_address {
        ClientAddress::Constant(address) => format!("always `{address}`"),
        ClientAddress::Leader => "that of the fetch's leader".to_owned(),
    }
}

fn code(names: &[String]) -> String {
    names.iter().map(|name| format!("`{}`", name.replace('\n', "\\n"))).collect::<Vec<_>>().join(", ")
}

fn seconds(secs: u64) -> String {
    match secs {
        0 => "0s".to_owned(),
        secs if secs % 86_400 == 0 => format!("{}d", secs / 86_400),
        secs if secs % 3600 == 0 => format!("{}h", secs / 3600),
        secs if secs % 60 == 0 => format!("{}m", secs / 60),
        secs => format!("{secs}s"),
    }
}
