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

A profile says what a kind of site needs of a cache. `--profile NAME`, or `profile = \"NAME\"` of a site, chooses one.
`profile = \"./my.toml\"` reads one from a file of the same form as those in `crates/profiles/data`; it may extend one
that is listed here. What a site's own settings say (docs/settings.md) wins over its profile, or is added to its lists.

Names of cookies and parameters, and paths, are compared whole and without regard to case; `*` stands for anything. A
cookie that means *noise* is removed from requests whose answer may be shared, and from answers that are shared. One
that means a *session* makes the request pass, and so does one that nobody names, unless the profile says otherwise.
*Noise* wins over *session*. A cookie in the *key* has a page for each of its values, and is all that the application
gets of the visitor's cookies for it; whoever sends a value of somebody else's gets the page for it, so it is for
currencies and groups, not for secrets. *Tracking* parameters of a query say where a visitor came from: a page with them
and the page without them are one, and the application gets the URL without them when the answer may be shared.

Without a choice, or with `auto`, a site begins with `default`. Once a response shows what the site runs on, the site has
that system's profile: standard error says so with the signs, as do `/status` at the admin address and `petasos why`, and
everything that was stored of the site before is invalidated. Signs have authors, and no visitor may write enough of them:

* One response field that only the system sends is enough, such as `X-Generator: Drupal` or WordPress' `Link` with the
  relation `https://api.w.org/`.
* Without one it takes two signs in one response: a sign of the document's head and a cookie that the system sets (Wagtail's
  admin: an asset of `wagtailadmin` and Django's `csrftoken`); or, on the start page, the `generator` and a script or
  stylesheet that the head loads from the site's own host, such as `/wp-includes/` or `/load.php?`. The start page is `/`, or
  where `/` redirects to, asked for without `Cookie` and `Authorization`. Other documents may be uploads or raw views, whose
  visitors have written all of them.
* Only the elements count that a browser has in the document's `head`, in its first 16 KiB and in a charset in which bytes
  cannot be mistaken for markup. Text in scripts, comments, titles, attributes, `noscript`, templates and the body does not.
* Only responses count to a GET without a query, with status 200 and type `text/html`; and no sign that stands in the
  request's own target, because an application may reflect it.

Two things are trusted: whoever writes response fields of the origin is the site's operator, and so is whoever writes the
start page. Where customers have start pages of their own behind one site, name the profile.

A detection is confirmed by each later sign. When no sign has confirmed it for seven days it is dropped: the site has
`default` again, and everything of it is invalidated. `petasos profile --forget SITE` drops a wrong detection at once and
switches detection off for the site, also for later processes; `petasos profile --detect SITE` switches it on again. Both
call the admin address: `POST /profile` with `{\"site\": \"any\", \"detect\": false}`, by whoever may purge. An edge with a disk
remembers the detection of a site and its origin, with signs and times, in the file `recognised` there.

*Static files* are the same for every visitor, so they are fetched without cookies and answer requests with any cookies.
The path is a guess: the extension of its last segment. The response decides: it must have a static type (pictures, fonts,
sound, film, CSS, JavaScript, WebAssembly), must not vary by cookie, and must state a lifetime or `Last-Modified`. A
response of a static type that says `public` or `s-maxage` with a lifetime is a static file at any path, and cookies that it
sets are not stored. HTML, JSON and everything else at a path like `/account/x.css` is never shared with a visitor who has
cookies that mean something. On *paths of static files* the type alone decides, because the profile or the operator
(`static_paths`) vouches for them. The leak guard compares static files with what the origin sends for the visitor's own
cookies, as it does with pages. A site whose styles or scripts follow a cookie, such as one for a dark theme, should send
`Vary: Cookie` with them, or set `static_files = false`.

A file server whose configuration states no lifetime sends `Last-Modified` alone. Such a static file is fresh for a tenth of
the time since its last change, as RFC 9111 section 4.2.2 suggests, and for five minutes at most. So visitors get a changed
file after five minutes at the latest, and earlier if the file changed recently. A purge shows it at once, and a file under a
new URL is not affected. Browsers assume the same lifetime without the five minutes. A file that says `no-cache`, `private`,
`max-age=0` or `must-revalidate` gets no such lifetime. `static_ttl_max` of the site is a shorter or longer limit. Where the
site or its profile has a lifetime for every response that states none, static files have that one.

Flask sends its own files with `no-cache` unless `SEND_FILE_MAX_AGE_DEFAULT` gives them a lifetime. `no-cache` is the
origin's word, so `default` obeys it. The profiles `flask` and `moinmoin` know that the framework sends it with every file:
they use such a file for ten seconds before the origin is asked again. The file must be at one of the profile's paths of
static files, or at one of `static_paths`. It must have a static type, `ETag` and `Last-Modified`, and `no-cache` must be
all that it says of caches. Browsers still get `no-cache`, so a browser that got an old file asks again at its next use.
`static_ttl_max = \"0s\"` switches both off. `petasos why` says when a profile uses a file that says `no-cache`.

*Sent downstream* is what visitors' browsers, and caches between them and the edge, get as `Cache-Control`. No purge
reaches them, so where a system states a lifetime that is meant for the cache in front of it, or none, its pages leave
with `no-cache`: a browser may keep such a page, and asks before it shows it again. `Age` and the validators stay, so the
question is answered with 304 where the page has a validator. Pages are HTML and feeds, whoever gets them; `no-store`,
`private` and `no-cache` of the application's stay as they are, and so does all that is said of pictures, styles and scripts.

*Writes* are the requests by which an editor or a visitor changes the site. Anybody can send such a request with forged
cookies, nonces and parameters, so the application's answer must prove the write: a redirect that only a save leads to, a
field, or a value in the first 64 KiB of its content. The method is that of `_method` and `X-HTTP-Method-Override` where
the request has them, and a request that names two is no write. The first rule that is met counts. What a write changes
is made stale for everybody before its answer ends: the next visitor's request asks the application, and only if that
fails is the old page shown. So a change is seen without a plug-in that purges.

How much becomes stale at once depends on what the answer names:

- *Everything*: every page of the host. Themes, menus, widgets, settings, users, and writes whose answer names no page.
- *One post and all lists*: the pages of the posts that the answer names by number, and each page that does not say which
  one post it shows: front page, archives, categories, feeds, and files outside the listed paths. Pages of other posts
  stay hits. A page says which post it shows by a response field (`[[identity]]`). Where an application hides the field,
  every page counts as a list, and so all of them become stale.
- *All lists*: the same without a post.
- *Front page and feeds*: these, and the pages that the answer names.

After each of the last three all other pages are refreshed in the background, because they may show a part of what was
changed: a title among related posts, a widget, an included page. The refresh begins ten seconds after the write. Until
it has ended the old copy answers, as a hit. Each page is refreshed when it is next requested, and once for all writes of
these ten seconds. An old address of a renamed post is one of these pages. A site with a static tree has no such refresh,
as a web server answers for its files: a write to one post changes everything there.
Where the content decides, the answer is asked for without a content coding, and its last piece waits for the
invalidation.
Beyond `limits.writes_per_minute` pages go on being served while they are refreshed in the background, ten seconds after
the first such write at the latest. The rules invalidate nothing on a site that purges by itself: where the answer to the
write has `X-Petasos-Purges: 1` or a purge of its own (docs/purging.md), and for `limits.self_purge_memory` after an
authorised client has purged pages during a write or within ten seconds after it. An order to purge the whole site does
not count, as operators give such orders. `petasos_writes_left_to_purges_total` counts these writes, and `/status` says
`purges_itself`.
An application that itself answers that question with 304 is believed: WordPress does so for its feeds, whose validators
know the dates of posts and comments, but no names of terms, users or the site; the plug-in's purges are hard.
A parameter may stand in the query or in a form; the form wins, and the last of a name wins, as in PHP. The parameters of
a multipart form are unknown.

Answers *shared for* a time are real answers of the application that are the same for every visitor, although it forbids
sharing them: a 404 of WordPress, or its redirect of `/favicon.ico`. Their fields must show that the application made them.
They are fresh for that time and of no use after it. A write or a purge makes them stale as it does pages, so a post that is
published where a 404 was is shown to the next visitor. `not_found_ttl` of the site shortens that time for 404 and 410.

*Parameters that name pages* are those that the application reads. A parameter that no row names is unknown: a flood of
`/?x=1`, `/?x=2` and so on would reach the application each time. So a site fetches at most
`unknown_parameters_per_minute` different addresses with unknown parameters of one path in a minute, and ten times as many
of all its paths. Beyond that a request gets what is stored, fresh or stale. If nothing is stored, it gets 429 with
`Retry-After`, or, where `beyond_unknown_parameters = \"page\"` vouches that unknown parameters change nothing, the page
without them.

Paths and parameters that *pass unless their answers say public* belong to interfaces such as WordPress' REST API, whose
answers may be anybody's. The answer to a request that passes may say `public` and state a lifetime. Then the same URL is
looked up and shared from the next request on, as long as its answers go on saying so.

*Mobile themes*: an application may answer one URL with other content for telephones, by `User-Agent`. If it says so by
`Vary: User-Agent`, each browser has a variant of its own, and few requests are hits. If it does not say so, everybody gets
the page for `User-Agent: Mozilla/5.0 (compatible; Petasos)`. For both, `device_class = \"mobile\"` of the site makes two
variants of each page, for mobile devices and for all others.

Answers *shown in place of stale pages* say that the site is closed, as 503 with `Retry-After` and the fields of the system.
Without a rule a stale page hides every 500, 502, 503 and 504, because overloaded servers, proxies and firewalls send
`Retry-After` too.

A profile is *untested* where nothing in this repository runs it against the real application: its rows are from the
sources that they name.

This page is rendered from the profiles by `cargo xtask docs`.

";

fn tried(profile: &Profile) -> String {
    profile.file.lab.as_ref().map_or_else(|| "untested".to_owned(), |lab| format!("`{lab}`"))
}

/// The names in a row about static files: extensions, paths, or both.
fn static_rows(row: &StaticRow) -> impl Iterator<Item = (&'static str, &[String], &str)> {
    let extensions = ("extensions of static files", &row.extensions[..], &row.source[..]);
    let paths = ("paths of static files, whatever they say of cookies", &row.paths[..], &row.source[..]);
    [extensions, paths].into_iter().filter(|(_, names, _)| !names.is_empty())
}

fn put_profile(page: &mut String, profile: &Profile) {
    let Profile { name, policy, file } = profile;
    // Writing into a String cannot fail.
    let _ = write!(page, "\n## `{name}`: {}\n\n", file.title);
    if !file.about.is_empty() {
        let _ = write!(page, "{}\n\n", file.about);
    }
    let _ = write!(page, "| what | names | source |\n|---|---|---|\n");
    let mut row = |what: &str, names: &str, source: &str| {
        let _ = writeln!(page, "| {what} | {names} | {source} |");
    };
    if let Some(lifetime) = &file.lifetime {
        row("lifetime where none is stated", &seconds(lifetime.default_ttl_secs), &lifetime.source);
        row("after that, shown while it is renewed", &seconds(policy.grace.as_secs()), &lifetime.source);
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
        let RouteRow { parameter, scripts, prefix, .. } = route;
        let scripts: Vec<String> = scripts.iter().map(|script| format!("/{script}")).collect();
        let text = format!("`{parameter}=VALUE` at {} is the path `{prefix}` + VALUE", code(&scripts));
        row("parameter that names a route", &text, &route.source);
    }
    for identity in &file.identity {
        row("field by which a page says which one post it shows", &field(identity), &identity.source);
    }
    for write in &file.write {
        let (what, names) = told(write);
        row(what, &names, &write.source);
    }
    for purge in &file.purge {
        row("how it purges", &purge.says, &purge.source);
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
            PathWord::Public => "paths that pass unless their answers say public",
        };
        row(what, &code(&path.patterns), &path.source);
    }
    for parameter in &file.parameter {
        let what = match parameter.means {
            ParameterWord::Bypass => "parameters that pass",
            ParameterWord::Public => "parameters that pass unless their answers say public",
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
        row("fetches with other parameters", &text, &table.source);
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
        ("forwarded on a fetch that may be shared", format!("{:?}", policy.forwarding).to_lowercase()),
        ("the client address on such a fetch", client_address(policy)),
        ("percent-encodings of one URL have one key", policy.equal_spellings.to_string()),
        ("an entity tag proves a page after a purge", policy.exact_etags.to_string()),
        ("answers that set a cookie are shared", policy.stores_cookies.to_string()),
        ("lifetimes are guessed", policy.heuristics.to_string()),
        ("a reload can demand nothing younger than", seconds(policy.reload_age_min.as_secs())),
        ("404 and 410 are fresh for", most(policy.not_found_ttl)),
        ("errors are fresh for at most", most(policy.error_ttl)),
        ("stale answers stand in for errors for", seconds(policy.stale_on_error_max.as_secs())),
    ]
}

fn client_address(policy: &Policy) -> String {
    match policy.client_address {
        ClientAddress::Constant(address) => format!("always `{address}`"),
        ClientAddress::Leader => "that of the client that leads it".to_owned(),
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
