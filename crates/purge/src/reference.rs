//! Renders docs/purging.md from the tables. A test compares the file with this text.

use crate::api::{BANS_MAX, CONTENT_BYTES_MAX, ROUTES, SELECTORS_MAX, TOKEN_HEADERS, TYPES};
use crate::ban_expression::{BAN_BYTES_MAX, CONDITIONS_MAX, OPERATORS, SUBJECTS};
use crate::dialect::DIALECTS;
use crate::pattern::PATTERN_BYTES_MAX;
use crate::signals::SIGNALS;
use crate::tags::{Syntax, TAG_BYTES_MAX, TAG_HEADERS, TAGS_MAX};
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
    table(page, ["field", "what it is"], SUBJECTS, |row| [code(row.0), row.1.to_owned()])?;
    table(page, ["operator", "holds if the field"], OPERATORS, |row| [code(row.0), row.1.to_owned()])?;
    page.push_str(AFTER_BANS);
    table(page, ["path", "called by", "what is invalidated"], ROUTES, |row| {
        [code(row.0), row.1.to_owned(), row.2.to_owned()]
    })?;
    page.push_str(NATIVE);
    table(page, ["type", "selectors", "what is invalidated"], TYPES, |row| {
        [code(row.0), row.1.to_owned(), row.2.to_owned()]
    })?;
    page.push_str(AFTER_NATIVE);
    for (name, value) in [
        ("tags of one response, or in one header", TAGS_MAX),
        ("octets of a tag", TAG_BYTES_MAX),
        ("octets of a regular expression", PATTERN_BYTES_MAX),
        ("octets of a ban expression", BAN_BYTES_MAX),
        ("conditions of a ban", CONDITIONS_MAX),
        ("octets of a call's content", CONTENT_BYTES_MAX),
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
The edge keeps 512 prefixes, bans and groups of tags, with which it compares stored responses; equal ones are one. A purge
never waits until all responses were compared. If more purges of this kind come than the edge can follow, the oldest becomes
a purge of its site for the responses that nothing has compared with it yet, and `petasos_purges_widened_total` counts it.
Pages and single tags are not in this list.
";

const INTRODUCTION: &str = "\
# Purging

What was changed must not be served from the cache any longer. Petasos understands the purge requests that content
systems and their plug-ins send, what applications say in their answers, and a JSON API on the admin address. Once a purge
is answered, no later request gets what it meant, not even from a fetch that was under way.

A *hard* purge removes. A *soft* one marks stale: visitors who may have it stale are answered at once while it is fetched
again. Purging what is not there is no error: it is answered 200 too, with a count of 0 in `X-Purged-Count` and in the JSON
content. Prefixes, bans and tags that are needed together are in force at once, but what they meet is found little by
little; the JSON content says how many are `uncounted`. What cannot be read is answered 400 with the reason. A purge is
never forwarded to the application.

A URL means its page under every equivalent percent-encoding (RFC 3986 section 6.2.2): `/caf%C3%A9` also means `/caf%c3%a9`,
and `/%7Euser` also means `/~user`. An encoded delimiter such as `%2F` stays another character. Prefixes and `req.url` in bans
compare both the URL as it is stored and its canonical spelling. A POST that succeeds invalidates its page in the same way,
under all names of its site.

200 means that the purge is in force and that a restart does not bring the pages back. If the disk cache cannot be written, the
next start is made to begin with an empty one, and the purge is still answered 200. This is recorded at the first of these
places that can be written: the directory `disk`, `state_directory`, `runtime_directory`. If none can, the answer is 503 and
its JSON content has `in_force` true and `durable` false. The setting `purge_partial_status` changes 503 to 202. The edge then
tries again each second, and the metric `petasos_purges_at_risk` is 1 until a place works. Purges that come in an application's answers have no
client to be told; they count in that metric. While the disk of `disk` hangs, the record is made in one of the other two places,
and it is taken back when the disk answers and has all purges: the disk cache is then as warm as before. If a file of the static tree cannot be removed, the answer is 503 with `in_force`
false.

| place | after the end of the process | after a restart of the machine |
|---|---|---|
| `disk` | the purge holds | the purge holds |
| `state_directory` | the purge holds | the purge holds |
| `runtime_directory`, with `purge_durability` `process` | the purge holds | every stored response is validated before it is used |
| `runtime_directory`, with `purge_durability` `power` | not used | not used |

Put `state_directory` on another device than `disk`. If the directory `disk` cannot be opened when the edge starts, only
`state_directory` counts. A container needs it on a volume: a state directory that is gone after a crash makes the disk cache begin
empty.

This page is rendered from the tables of the code by `cargo xtask docs`.

## Who may

At the visitors' address a purge needs the token, or comes from one of `purge_peers`. An address on loopback is not enough
there, because a proxy on the same machine has one and forwards the requests of anybody. At the admin address a purge needs the
token; while there is no `token_file`, a client on the same machine is obeyed as well. An address counts only for a request that
was not forwarded, so without `X-Forwarded-*`, `X-Real-IP`, `Forwarded`, `Via` and similar fields. Requests to the admin address
whose `Host` or `Origin` is another's are refused, so that no page in a browser can send them. Every other client is answered
403 with the reason, and counted in `petasos_purges_forbidden_total`.

| client | how it may |
|---|---|
| `petasos purge`, scripts, the WordPress plugin on the same machine | admin address; with the token if there is one |
| clients that can send a header | visitors' address, with the token |
| MediaWiki, Wagtail and others that send a bare PURGE | visitors' address; their own address in `purge_peers` |

`petasos serve --token-file FILE --create-token` writes a random token into FILE unless the file exists. Only its owner can read
it. Clients show the token as `Authorization: Bearer`, or in TOKENS.

### Applications that can send no token

MediaWiki purges what `$wgCdnServers` names, at the visitors' address and without a token. List the address that it connects from:

```toml
purge_peers = [\"10.0.0.5\"]
```

An entry is an address, a prefix such as `10.0.0.0/8`, or `@` and the path of a file with one of these in each line.

This is unsafe when any proxy on a listed address forwards visitors, because a forwarded purge looks like one of the application.
An example is `127.0.0.1` with nginx on the same machine in front of Petasos. Then give the application another address than the
proxy, for example a container's. If they must share one, the proxy has to mark each request that it forwards: nginx by
`proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`, HAProxy in mode http by `option forwardfor`. HAProxy in mode tcp
and other proxies of connections cannot do this; do not list their addresses.

## The command

```
petasos purge https://www.example.org/news       this page, in all variants
petasos purge --prefix https://www.example.org/news/
petasos purge --host www.example.org
petasos purge --tag node:1 --tag node:7          what has one of the tags; with --all-tags, all of them
petasos purge --ban 'req.url ~ \"^/news\" && obj.status == 404'
petasos purge --all
```

`--soft` marks stale and removes nothing; `--refill` has the most requested of the pages fetched again. The running edge is told at its admin address (`--admin`, 127.0.0.1:8081); the token
is taken from PETASOS_TOKEN or from `--token-file`. Exit code 0: it is done, whether anything was stored or not; 2: it is not.

## Purge requests

The target may be in origin-form or absolute-form. The first dialect of this table whose sign a request has is the one it
is read by.

";

const AFTER_DIALECTS: &str = "\
`Fastly-Soft-Purge: 1`, `X-Purge: invalidate` or `X-Purge: revalidate` makes any of these soft. Paths of Zope's virtual
hosting, as Plone sends them, mean the public page: `/VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/news` is `/news`
on `www.example.org`.

```
curl -X PURGE http://127.0.0.1:8080/news -H 'Authorization: Bearer TOKEN' -H 'Host: www.example.org'
curl -X PURGE 'http://127.0.0.1:8080/news/*' -H 'Authorization: Bearer TOKEN' -H 'Host: www.example.org'
curl -X PURGE http://127.0.0.1:8080/ -H 'Authorization: Bearer TOKEN' -H 'Host: www.example.org' -H 'Cache-Tags: node:1 node:7'
```

A GET with `X-Refresh: 1` from somebody who may purge fetches its page again and is answered with it, as FOSHttpCache's
nginx client expects; from anybody else it is a request like any other. Heads of requests that purge may be as long as
`limits.purge_head_bytes_max`, so that they can name many tags; a client that `purge_peers` does not list sends the token before
them.

## Which site, and which hosts

The site is the scope of a purge. A name of a site (`names`, or the `host` that its application is told) means all its
names, with any port: a page purged as `http://example.org/news` is gone under `www.example.org:8080` too. On a site without
`names`, which answers to any name, each name is taken for itself, with any port. A host that no site has means all sites,
as where a client names the cache by its address; so do, unless they are names of a site, IP addresses and names without a
dot such as `localhost`. What an application says in its answers means its own site only.

A page whose `No-Vary-Search` makes other targets equivalent to its own is purged with each of them; by a pattern, prefix or
ban if one of them could be meant.

## Refilling

After a purge the next visitor of each page waits for the application. With `refill.enabled` (`petasos serve --refill`),
or for a purge that asks for it (`petasos purge --refill`, `\"refill\": true` in JSON, `Petasos-Refill: 1` in any purge
request), the most requested pages that are gone or stale are fetched again first: the most requested of all before the
others, one at a time, at most `refill.rate` a second, and only while the application works on less than half of what it
may get and nothing waits for it. What several purges in a row mean is fetched once. After three errors of the application
in a row the rest is left to visitors.

The edge counts for this how often stored pages are asked for, and forgets half of it every ten minutes. It sends nothing
that a visitor has sent but what is negotiated, such as languages; pages that depend on cookies, credentials or other fields
of a visitor's own are never fetched so.

## Tags

A response says in these headers what it is made of; they are taken out before it goes to the visitor. A tag is a run of
characters without white space and commas; letter case counts. All headers share one namespace, and each site has its own. A
response with more tags than the limit, or longer ones, is not stored, since a purge would miss it.

*Words* are separated by spaces or commas. An *expression* also takes `|` as a separator, and the regular expressions that
clients make of lists of tags, such as `(^|,)(a|b)(,|$)`. Tags are always meant whole: `node:1` never means `node:10`. Any other
regular expression is searched for in each tag, and in all tags of a response in alphabetical order joined by commas.

";

const AFTER_TAGS: &str = "\
`Cache-Groups` (RFC 9875) makes a response a member of groups of its origin; it goes on to the visitor.

## What applications say in their answers

";

const BANS: &str = "\
All but the last are taken out before the answer goes on.

## Ban expressions

A ban is a list of conditions that must all hold, in the language of Varnish's `ban` command:

```
req.url ~ \"^/news\" && obj.http.content-type ~ \"html\"
```

";

const AFTER_BANS: &str = "\
The argument is a word, or a text in double quotes in which `\\\"` and `\\\\` stand for a quote and a backslash and any other
backslash for itself. Regular expressions have Perl's syntax without look-around and back-references, and take time linear in what
they search.

## The JSON API

`POST` to these paths of the admin address. `ID` is the name of a site.

";

const NATIVE: &str = "\
Petasos' own call has the event format of the draft *An HTTP Cache Invalidation API* (draft-nottingham-http-invalidation):

```
curl http://127.0.0.1:8081/purge -H 'Authorization: Bearer TOKEN' \\
     -d '{\"type\": \"uri\", \"selectors\": [\"https://www.example.org/news\"]}'
```

";

const AFTER_NATIVE: &str = "\
`\"purge\": false` makes it soft; without it, it is hard. `\"refill\"`, true or false, says whether the most requested of the
pages are fetched again. `\"site\"` names the site whose tags, bans or everything is meant; without it all sites are. A call is carried out whole or not at all; what is wrong is told by its path, such as
`selectors[2]`, in the shape of the API that was called.

## Limits

| what | at most |
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
