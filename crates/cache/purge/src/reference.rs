//! Renders docs/purging.md from the tables. A test compares the file with this text.

use crate::api::{BANS_MAX, CONTENT_BYTES_MAX, ROUTES, SELECTORS_MAX, TYPES};
use crate::ban_expression::{BAN_BYTES_MAX, CONDITIONS_MAX, OPERATORS, SUBJECTS};
use crate::dialect::DIALECTS;
use crate::order_fields::TOKEN_HEADERS;
use crate::pattern::PATTERN_BYTES_MAX;
use crate::signals::SIGNALS;
use crate::tag_headers::{Syntax, TAG_BYTES_MAX, TAG_HEADERS, TAGS_MAX};
use std::fmt::{self, Write};

/// The reference of all purge requests and signals, as Markdown.
pub fn purging_reference() -> String {
    let mut page = String::new();
    // Writing into a String cannot fail.
    let _ = render(&mut page);
    page
}

fn render(page: &mut String) -> fmt::Result {
    let tokens: Vec<_> = TOKEN_HEADERS.iter().map(|name| format!("`{name}`")).collect();
    page.push_str(&INTRODUCTION.replace("TOKENS", &tokens.join(", ")));
    table(page, ["dialect", "spoken by", "sign", "meaning"], DIALECTS, |row| {
        [
            format!("`{}`", row.name),
            row.who.to_owned(),
            row.sign.replace('|', r"\|"),
            row.meaning.replace('|', r"\|"),
        ]
    })?;
    page.push_str(AFTER_DIALECTS);
    table(page, ["header", "in", "spelled as", "spoken by"], TAG_HEADERS, |row| {
        let side = match (row.is_asked(), row.is_stated()) {
            (true, true) => "requests, responses",
            (true, false) if row.soft => "requests; soft",
            (true, false) => "requests",
            _ => "responses",
        };
        let syntax = match row.syntax {
            Syntax::Words => "words",
            Syntax::Expression => "expression",
        };
        let prefix = if row.prefix.is_empty() { String::new() } else { format!(", as `{}...`", row.prefix) };
        [format!("`{}`", row.name), side.to_owned(), format!("{syntax}{prefix}"), row.who.to_owned()]
    })?;
    page.push_str(AFTER_TAGS);
    table(page, ["field", "sent by", "meaning"], SIGNALS, |row| {
        [format!("`{}`", row.name), row.who.to_owned(), row.meaning.to_owned()]
    })?;
    page.push_str(BANS);
    table(page, ["field", "meaning"], SUBJECTS, |row| [code(row.0), row.1.to_owned()])?;
    table(page, ["operator", "holds if the field"], OPERATORS, |row| [code(row.0), row.1.to_owned()])?;
    page.push_str(AFTER_BANS);
    table(page, ["path", "called by", "purges"], ROUTES, |row| {
        [code(row.0), row.1.to_owned(), row.2.to_owned()]
    })?;
    page.push_str(NATIVE);
    table(page, ["type", "selectors", "purges"], TYPES, |row| {
        [code(row.0), row.1.to_owned(), row.2.to_owned()]
    })?;
    page.push_str(AFTER_NATIVE);
    for (name, value) in [
        ("tags of one response, or in one header", TAGS_MAX),
        ("bytes of a tag", TAG_BYTES_MAX),
        ("bytes of a regular expression", PATTERN_BYTES_MAX),
        ("bytes of a ban expression", BAN_BYTES_MAX),
        ("conditions of a ban", CONDITIONS_MAX),
        ("bytes of a call's content", CONTENT_BYTES_MAX),
        ("selectors of a call", SELECTORS_MAX),
        ("bans of a call", BANS_MAX),
    ] {
        writeln!(page, "| {name} | {value} |")?;
    }
    page.push_str(AFTER_LIMITS);
    Ok(())
}

/// Writes one table: its headings, and one line for each row.
fn table<const N: usize, R>(
    page: &mut String,
    headings: [&str; N],
    rows: &[R],
    cells: impl Fn(&R) -> [String; N],
) -> fmt::Result {
    writeln!(page, "| {} |\n|{}", headings.join(" | "), "---|".repeat(N))?;
    for row in rows {
        writeln!(page, "| {} |", cells(row).join(" | "))?;
    }
    page.push('\n');
    Ok(())
}

/// Marks each part of an enumeration as code.
fn code(text: &str) -> String {
    let parts: Vec<_> = text
        .split(", ")
        .map(|part| match part.strip_prefix("or ") {
            Some(words) => format!("or {words}"),
            None => format!("`{part}`"),
        })
        .collect();
    parts.join(", ")
}

const AFTER_LIMITS: &str = "
The edge keeps a list of at most 512 prefixes, bans and groups of tags, with which it compares
stored responses. Equal entries count once. A purge never waits until all responses were compared.
If these purges arrive faster than the edge can compare, or the list exceeds a quarter of the store's
memory (an ordinary ban counts 16 KiB), the oldest entry becomes a purge of its whole site. It then applies to all responses that were not yet compared with it.
`petasos_purges_widened_total` counts these cases. Purges of pages and of single tags are not in
this list.
";

const INTRODUCTION: &str = "\
# Purging

A purge removes changed pages from the cache. You can send one with `petasos purge`, or with the
JSON API on the admin address. Content systems and their plug-ins send theirs as purge requests, or
as fields of the application's responses. Once a purge is answered, no later request gets a purged
page, not even from a fetch that was in progress.

A *hard* purge removes the stored responses. A *soft* purge marks them stale. A request then gets
the stale copy only if the response's own `stale-while-revalidate` or the request's `max-stale`
permits it; a background fetch replaces the copy. Every other request goes to the origin, and the
stale copy may replace an error of the origin.

A purge of a page that is not stored is no error: Petasos answers it with 200 too, with a count of 0
in `X-Purged-Count` and in the JSON content. Prefixes, bans and groups of tags are in force at once.
Petasos finds the responses that they match step by step, and the JSON content says how many such
purges are `uncounted`. Petasos answers a purge that it cannot parse with 400 and the reason. It
never forwards a purge to the application.

A URL means its page under every equivalent percent-encoding (RFC 3986 section 6.2.2): `/caf%C3%A9`
also means `/caf%c3%a9`, and `/%7Euser` also means `/~user`. An encoded delimiter such as `%2F`
stays a different character. Prefixes, and `req.url` in bans, are compared with the stored URL and
with its canonical spelling. A successful POST invalidates its page in the same way, under all names
of its site.

200 means that the purge is in force and that a restart does not bring the pages back. If the disk
cache cannot be written, Petasos makes sure that the next start begins with an empty one, and still
answers 200. It records this in the first of three places that it can write: the directory `disk`,
`state_directory`, `runtime_directory`. If it can write none, it answers 503, and the JSON content
has `in_force` true and `durable` false. The setting `purge_partial_status` changes 503 to 202. The
edge then tries again each second, and the metric `petasos_purges_at_risk` is 1 until a place works.
A purge in an application's response has no client that could get this status; it counts in that
metric only.

While the disk of `disk` hangs, Petasos records the purge in one of the other two places. It
withdraws the record when the disk answers and has all purges, and the disk cache is then as warm as
before. If a file of the static tree cannot be removed, Petasos answers 503 with `in_force` false.

| place | after the end of the process | after a restart of the machine |
|---|---|---|
| `disk` | the purge holds | the purge holds |
| `state_directory` | the purge holds | the purge holds |
| `runtime_directory`, with `purge_durability` `process` | the purge holds | every stored response is validated before it is used |
| `runtime_directory`, with `purge_durability` `power` | not used | not used |

Put `state_directory` on another device than `disk`. If the edge cannot open the directory `disk` at
its start, only `state_directory` counts. In a container, put it on a volume: if the state directory
is missing after a crash, the disk cache begins empty.

This page is rendered from the tables of the code by `cargo xtask docs`.

## Authorised clients

At the visitors' address (`listen`), a purge must carry the token or come from one of `purge_peers`.
A loopback address is not enough there, because a proxy on the same machine has one and forwards the
requests of every client. At the admin address, a purge must carry the token. Without a
`token_file`, Petasos also obeys clients on the same machine there.

The client's address counts only if no proxy forwarded the request: it has no `X-Forwarded-*`,
`X-Real-IP`, `Forwarded`, `Via` or similar field. The admin address refuses a request whose `Host`
or `Origin` belongs to another site, so that no page in a browser can send it. Every other client
gets 403 with the reason, and `petasos_purges_forbidden_total` counts it.

| client | way to purge |
|---|---|
| `petasos purge`, scripts, the WordPress plugin on the same machine | admin address; with the token if there is one |
| clients that can send a header | visitors' address, with the token |
| MediaWiki, Wagtail and others that send a bare PURGE | visitors' address; their own address in `purge_peers` |

`petasos serve --token-file FILE --create-token` writes a random token into FILE unless the file
exists. Only its owner can read it. Clients send the token as `Authorization: Bearer`, or in
TOKENS.

### Applications that can send no token

MediaWiki sends purges to the servers in `$wgCdnServers`, at the visitors' address and without a
token. List the address from which it connects:

```toml
purge_peers = [\"10.0.0.5\"]
```

An entry is an address, a prefix such as `10.0.0.0/8`, or `@` and the path of a file with one
address or prefix per line.

This is unsafe if a proxy with a listed address forwards visitors, because a forwarded purge looks
like one of the application. An example is `127.0.0.1` with nginx on the same machine in front of
Petasos. Then give the application another address than the proxy, for example a container's. If
they must share one, configure the proxy to mark each request that it forwards. In nginx, use
`proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`. In HAProxy in mode http, use
`option forwardfor`. HAProxy in mode tcp and other proxies of connections cannot do this; do not
list their addresses.

## The command

```
petasos purge https://www.example.org/news       this page, in all variants
petasos purge --prefix https://www.example.org/news/
petasos purge --host www.example.org
petasos purge --tag node:1 --tag node:7          pages with one of the tags; with --all-tags, all of
them
petasos purge --ban 'req.url ~ \"^/news\" && obj.status == 404'
petasos purge --all
```

`--soft` marks pages stale and removes nothing. `--refill` makes the edge fetch the most requested
of the pages again. The command calls the running edge at its admin address (`--admin`,
127.0.0.1:8081), with the token from PETASOS_TOKEN or `--token-file`, or with a certificate
([tls.md](tls.md#the-admin-address)). Exit code 0: the purge is done, even if no page was stored; 2:
it is not.

## Purge requests

Petasos recognises the dialect of a purge request by its sign; the first row of this table that
matches counts. The request's target may be in origin-form or absolute-form.

";

const AFTER_DIALECTS: &str = "\
`Fastly-Soft-Purge: 1`, `X-Purge: invalidate` or `X-Purge: revalidate` makes any of these purges
soft. A path of Zope's virtual hosting, as Plone sends it, means the public page:
`/VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/news` is `/news` on
`www.example.org`.

```
curl -X PURGE http://127.0.0.1:8080/news -H 'Authorization: Bearer TOKEN' -H 'Host: www.example.org'
curl -X PURGE 'http://127.0.0.1:8080/news/*' -H 'Authorization: Bearer TOKEN' -H 'Host: www.example.org'
curl -X PURGE http://127.0.0.1:8080/ -H 'Authorization: Bearer TOKEN' -H 'Host: www.example.org' -H 'Cache-Tags: node:1 node:7'
```

When an authorised client sends a GET with `X-Refresh: 1`, Petasos fetches the page again and
answers with the new response, as FOSHttpCache's nginx client expects. From any other client it is
an ordinary request. The head of a purge request may have `limits.purge_head_bytes_max`, so that it
can name many tags. A client that `purge_peers` does not list must send the token before the tags.

## Which site, and which hosts

The scope of a purge is a site. A name of a site (`names`, or the `host` that its application gets)
means all names of that site, with any port. A page purged as `http://example.org/news` is therefore
gone under `www.example.org:8080` too. A site without `names` answers to any name; there a purge
means only the host that it names, with any port.

A host that belongs to no site means all sites. IP addresses and names without a dot, such as
`localhost`, also mean all sites unless they are names of a site: a client may name the cache by its
address. A purge in an application's response means its own site only.

`No-Vary-Search` can make several targets equivalent. A purge of one of them purges the page. A
pattern, prefix or ban purges the page if it could match one of them.

## Refilling

After a purge, the next visitor of each page waits for the application. Refilling avoids this: the
edge fetches the most requested of the purged or stale pages again before visitors request them. It
does so after every purge with `refill.enabled` (`petasos serve --refill`), and after a purge that
asks for it: `petasos purge --refill`, `\"refill\": true` in JSON, or `Petasos-Refill: 1` in any purge
request.

The edge fetches the most requested page first, one page at a time, and at most `refill.rate` pages
a second. It fetches only while the application uses less than half of its permitted fetches and no
request waits for it. A page that several purges in a row match is fetched once. After three errors
of the application in a row, the refill stops, and visitors' requests fetch the remaining pages.

For this purpose the edge counts the requests for stored pages, and halves the counts every ten
minutes. A refill sends only negotiated fields of a visitor's request, such as languages. Pages that
depend on cookies, credentials or other personal fields of a visitor are never refilled.

After a purge of all pages, Petasos can also request every page that the site's sitemaps name:
[warming.md](warming.md).

## Tags

An application tags a response with the items that the page contains, in the headers of this table.
Petasos removes these headers before the response goes to the client. A tag is a sequence of
characters without white space and commas; letter case counts. All headers share one namespace, and
each site has its own. Petasos does not store a response with more or longer tags than the limits
allow, because a purge would miss it.

*Words* are separated by spaces or commas. An *expression* may also use `|` as a separator. It may
also be a regular expression that a client made from a list of tags, such as `(^|,)(a|b)(,|$)`. A
tag always matches as a whole: `node:1` never means `node:10`. Petasos searches for any other
regular expression in each tag of a response. It also searches in all tags of the response, in
alphabetical order and joined by commas.

";

const AFTER_TAGS: &str = "\
`Cache-Groups` (RFC 9875) makes a response a member of groups of its origin. Petasos forwards this
field to the client.

## Purges in an application's responses

";

const BANS: &str = "\
Petasos removes all of these fields but the last before it forwards the response.

A part of a field that Petasos cannot read does not affect the other parts. A path that cannot be
read, such as one that is not UTF-8 text, purges its host. More tags than the limit purge the site.
Petasos ignores a longer tag than the limit, because no stored response has it.
`petasos_purges_malformed_total` counts these parts.

## Ban expressions

A ban is a list of conditions in the language of Varnish's `ban` command. It matches a response if
all conditions hold:

```
req.url ~ \"^/news\" && obj.http.content-type ~ \"html\"
```

";

const AFTER_BANS: &str = "\
The argument is a word, or a text in double quotes. In quotes, `\\\"` means a quote and `\\\\` a
backslash; any other backslash means itself. Regular expressions have Perl's syntax without
look-around and back-references. Their run time is linear in the length of the searched text.

## The JSON API

Send `POST` to one of these paths of the admin address. `ID` is the name of a site.

";

const NATIVE: &str = "\
Petasos' own call has the event format of the draft *An HTTP Cache Invalidation API* (draft-nottingham-http-invalidation):

```
curl http://127.0.0.1:8081/purge -H 'Authorization: Bearer TOKEN' \\
     -d '{\"type\": \"uri\", \"selectors\": [\"https://www.example.org/news\"]}'
```

";

const AFTER_NATIVE: &str = "\
`\"purge\": false` makes the purge soft; without it, the purge is hard. `\"refill\"`, true or false,
says whether the edge refills the most requested of the pages. `\"site\"` limits a purge by tags, bans
or everything to one site; without it, the purge means all sites. Petasos carries out a call
completely or not at all. A refusal names the faulty part by its path, such as `selectors[2]`, in
the format of the API that was called.

## Limits

| limit | at most |
|---|---|
";

#[cfg(test)]
mod tests {
    use super::purging_reference;

    #[test]
    fn tables_are_whole() {
        let page = purging_reference();
        let columns = |line: &str| line.replace(r"\|", "").matches('|').count();
        let mut expected = None;
        for line in page.lines() {
            if !line.starts_with('|') {
                expected = None;
                continue;
            }
            assert_eq!(columns(line), *expected.get_or_insert_with(|| columns(line)), "{line}");
        }
        assert!(!page.contains("\n\n\n"));
    }
}
