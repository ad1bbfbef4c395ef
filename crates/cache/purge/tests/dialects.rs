//! The exact requests of real clients with the invalidations that they must give, one table per
//! client.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use bytes::BytesMut;
use message::{RequestHead, Status};
use petasos_purge::{
    Malformed, OrderItem, PurgeOrder, PurgeOutcome, PurgeScope, is_purge_method, read, reply,
};
use support::shown;

/// Parses a request head written with line feeds as line ends.
fn head(text: &str) -> RequestHead {
    let mut octets = BytesMut::from(format!("{}\r\n\r\n", text.replace('\n', "\r\n")).as_bytes());
    let limits = h1::Limits { head_bytes_max: 128 * 1024, ..h1::Limits::DEFAULT };
    let request = h1::parse_request(&mut octets, &limits, h1::Strictness::Strict);
    request.unwrap_or_else(|error| panic!("{text}: {error}")).expect("the head is complete").head
}

fn asked(text: &str) -> Result<PurgeOrder, Malformed> {
    let head = head(text);
    assert!(is_purge_method(&head.method), "{text}");
    read(&head)
}

/// The invalidations of an order on one line.
fn lines(order: &PurgeOrder) -> String {
    let lines: Vec<_> = order.invalidations.iter().map(shown).collect();
    lines.join("; ")
}

/// Checks each request against its meaning. The reply must be 200 even if nothing was stored.
fn check(table: &[(&str, &str)]) {
    for (request, expected) in table {
        let order = asked(request).unwrap_or_else(|error| panic!("{request}: {error}"));
        assert_eq!(lines(&order), *expected, "{request}");
        for purged in [0, 3] {
            let reply = reply(
                &order,
                PurgeOutcome { purged, ..PurgeOutcome::default() },
                Status::SERVICE_UNAVAILABLE,
            );
            assert_eq!(reply.head.status.code(), 200, "{request}");
        }
    }
}

#[test]
fn mediawiki() {
    check(&[
        (
            "PURGE http://wiki.test:6081/index.php/Main_Page HTTP/1.1\nHost: wiki.test:6081\nConnection: Keep-Alive\n\
         Proxy-Connection: Keep-Alive\nUser-Agent: MediaWiki/1.39.17 CdnCacheUpdate\ncontent-length: 0",
            "wiki.test:6081 /index.php/Main_Page",
        ),
        (
            "PURGE http://wiki.test:6081/index.php?title=Main_Page&action=history HTTP/1.1\nHost: wiki.test:6081\ncontent-length: 0",
            "wiki.test:6081 /index.php?title=Main_Page&action=history",
        ),
        (
            "PURGE http://wiki.test:6081/wiki/Mercury_(planet) HTTP/1.1\nHost: wiki.test:6081\ncontent-length: 0",
            "wiki.test:6081 /wiki/Mercury_(planet)",
        ),
        (
            // A star in a title is read as a wildcard: the page is purged, and others with it.
            "PURGE http://wiki.test:6081/wiki/Foo* HTTP/1.1\nHost: wiki.test:6081\ncontent-length: 0",
            "wiki.test:6081 prefix /wiki/Foo",
        ),
    ]);
}

#[test]
fn wordpress_plug_ins() {
    check(&[
        // Proxy Cache Purge.
        (
            "PURGE /hello-world/?p=1 HTTP/1.1\nHost: blog.test\nX-Purge-Method: default\nUser-Agent: WordPress/6.1.9; http://blog.test",
            "blog.test /hello-world/?p=1",
        ),
        ("PURGE /.* HTTP/1.1\nhost: blog.test:8080\nX-Purge-Method: regex", "blog.test:8080 host"),
        ("PURGE /shop/.* HTTP/1.1\nhost: blog.test\nX-Purge-Method: regex", "blog.test prefix /shop/"),
        (
            "PURGE / HTTP/1.1\nhost: blog.test\nX-Purge-Method: tags\nX-Cache-Tags-Pattern: (^|,)p-123(,|$)|(^|,)home(,|$)\nX-Control-Key: secret",
            "blog.test any of p-123 home",
        ),
        (
            "PURGE / HTTP/1.1\nhost: blog.test\nX-Purge-Method: tags\nX-Cache-Tags-Pattern: \\bp-123\\b",
            "blog.test any of p-123",
        ),
        // W3 Total Cache.
        (
            "PURGE /hello-world/ HTTP/1.1\nHost: blog.test\nUser-Agent: W3 Total Cache\nConnection: close",
            "blog.test /hello-world/",
        ),
        ("PURGE /.* HTTP/1.1\nHost: blog.test\nConnection: close", "blog.test host"),
        // WP Rocket.
        (
            "PURGE /category/news/.* HTTP/1.1\nHost: blog.test\nX-Purge-Method: regex",
            "blog.test prefix /category/news/",
        ),
        // VCaching.
        (
            "PURGE /.* HTTP/1.1\nHost: blog.test\nX-VC-Purge-Host: blog.test\nX-VC-Purge-Method: regex\nX-VC-Purge-Key: secret",
            "blog.test host",
        ),
        // Written by hand.
        (
            "PURGE /(a|b)/.* HTTP/1.1\nHost: blog.test\nX-Purge-Method: regex",
            "blog.test pattern ^(?:/(a|b)/.*)",
        ),
        ("PURGE /a* HTTP/1.1\nHost: blog.test\nX-Purge-Method: exact", "blog.test /a*"),
    ]);
}

#[test]
fn drupal() {
    check(&[
        // The zero-configuration purger names the cache by its address.
        (
            "BAN /tags HTTP/1.1\nHost: 127.0.0.1\nCache-Tags: node:1 node_list rendered\nAccept-Encoding: gzip",
            "127.0.0.1 any of node:1 node_list rendered",
        ),
        ("PURGE /videos HTTP/1.1\nHost: drupal.test\nAccept-Encoding: gzip", "drupal.test /videos"),
        (
            "BAN /.*projects.* HTTP/1.1\nHost: drupal.test\nAccept-Encoding: gzip",
            "drupal.test pattern ^/.*projects.*$",
        ),
        ("BAN /node/* HTTP/1.1\nHost: drupal.test", "drupal.test prefix /node/"),
        ("BAN /.* HTTP/1.1\nHost: drupal.test\nAccept-Encoding: gzip", "drupal.test host"),
        ("PURGE /* HTTP/1.1\nHost: drupal.test", "drupal.test host"),
        // The bundled purger, and the generic one with a configured header.
        (
            "BAN / HTTP/1.1\nHost: drupal.test\nCache-Tags: node:1|node_list|rendered",
            "drupal.test any of node:1 node_list rendered",
        ),
        (
            "BAN / HTTP/1.1\nHost: drupal.test\nPurge-Cache-Tags: config:user.role.anonymous",
            "drupal.test any of config:user.role.anonymous",
        ),
        // Acquia's purger.
        (
            "BAN http://127.0.0.1/tags HTTP/1.1\nHost: 127.0.0.1\nX-Acquia-Purge: site1\nX-Acquia-Purge-Tags: ab12 0f3c",
            "127.0.0.1 any of ab12 0f3c",
        ),
        (
            "BAN http://127.0.0.1/site HTTP/1.1\nHost: 127.0.0.1\nX-Acquia-Purge: site1",
            "127.0.0.1 everything",
        ),
        ("BAN /site HTTP/1.1\nHost: drupal.test", "drupal.test /site"),
        // Derived images.
        (
            "URIBAN /sites/default/files/styles/large/public/a.jpg?itok=x HTTP/1.1\nHost: drupal.test",
            "drupal.test /sites/default/files/styles/large/public/a.jpg?itok=x",
        ),
        ("REFRESH /node/1 HTTP/1.1\nHost: drupal.test", "soft drupal.test /node/1"),
        ("REFRESH http://drupal.test/a* HTTP/1.1\nHost: drupal.test", "soft drupal.test /a*"),
    ]);
}

#[test]
fn typo3() {
    check(&[
        (
            "BAN / HTTP/1.1\nHost: 127.0.0.1\nVarnish-Ban-TYPO3-Pid: 12\nVarnish-Ban-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 any of typo3-pid:12 all of typo3-sitename:0fe3a9d1",
        ),
        (
            "BAN / HTTP/1.1\nHost: 127.0.0.1\nVarnish-Ban-TYPO3-Tag: pageId_7\nVarnish-Ban-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 any of pageId_7 all of typo3-sitename:0fe3a9d1",
        ),
        (
            "BAN / HTTP/1.1\nHost: 127.0.0.1\nVarnish-Ban-All: 1\nVarnish-Ban-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 all of typo3-sitename:0fe3a9d1",
        ),
        ("BAN / HTTP/1.1\nHost: typo3.test\nVarnish-Ban-All: 1", "typo3.test everything"),
        (
            "PURGE / HTTP/1.1\nHost: 127.0.0.1\nX-Varnish-Purge-All: 1\nX-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 all of typo3-sitename:0fe3a9d1",
        ),
        (
            "PURGE / HTTP/1.1\nHost: 127.0.0.1\nX-Cache-Tags: (pages|tt_content_5)(,.+)?$\nX-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 any of pages tt_content_5 all of typo3-sitename:0fe3a9d1",
        ),
        (
            "PURGE / HTTP/1.1\nHost: 127.0.0.1\nX-Cache-Tags: (^|,)tt_content\\{[^}]*,5,\nX-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 any of tt_content_5 all of typo3-sitename:0fe3a9d1",
        ),
        (
            "PURGE / HTTP/1.1\nHost: 127.0.0.1\nX-Cache-Tags: (^|,)pages(\\{|,|$)\nX-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 any of pages all of typo3-sitename:0fe3a9d1",
        ),
        (
            "PURGE / HTTP/1.1\nHost: 127.0.0.1\nX-Cache-Tags: ^tx_\nX-TYPO3-Sitename: 0fe3a9d1",
            "127.0.0.1 ban obj.http.X-Cache-Tags ~ \"^tx_\" && obj.http.X-Cache-Tags == \"typo3-sitename:0fe3a9d1\"",
        ),
        ("PURGE /news HTTP/1.1\nHost: typo3.test", "typo3.test /news"),
    ]);
}

#[test]
fn wagtail_and_plone() {
    check(&[
        (
            "PURGE /blog/?page=2 HTTP/1.1\nAccept-Encoding: identity\nHost: wagtail.test:8000\nUser-Agent: Wagtail-frontendcache/8.0.1\nConnection: close",
            "wagtail.test:8000 /blog/?page=2",
        ),
        (
            "PURGE /Plone/doc HTTP/1.1\nHost: 127.0.0.1:6081\nConnection: keep-alive\nContent-Length: 0",
            "127.0.0.1:6081 /Plone/doc",
        ),
        (
            "PURGE /VirtualHostBase/http/www.example.org:80/Plone/VirtualHostRoot/doc/view HTTP/1.1\nHost: 127.0.0.1:6081\nContent-Length: 0",
            "www.example.org /doc/view",
        ),
    ]);
}

#[test]
fn fos_http_cache() {
    check(&[
        // Varnish client.
        ("PURGE /articles/1 HTTP/1.1\nHost: app.test\nConnection: Close", "app.test /articles/1"),
        (
            "BAN / HTTP/1.1\nHost: app.test\nX-Host: .*\nX-Url: .*\nX-Content-Type: .*\nX-Cache-Tags: (^|,)(tag\\-1|tag2)(,|$)",
            "app.test any of tag-1 tag2",
        ),
        (
            "BAN / HTTP/1.1\nHost: app.test\nX-Host: .*\nX-Url: ^/news\nX-Content-Type: .*",
            "app.test ban req.url ~ \"^/news\"",
        ),
        (
            "BAN / HTTP/1.1\nHost: app.test\nX-Host: ^(a.test|b.test)$\nX-Url: .*\nX-Content-Type: image/png",
            "all sites ban req.http.host ~ \"^(a.test|b.test)$\" && obj.http.content-type ~ \"image/png\"",
        ),
        (
            "BAN / HTTP/1.1\nHost: app.test\nX-Host: .*\nX-Url: ^/news\nX-Content-Type: .*\nX-Cache-Tags: (^|,)(a\\.b)(,|$)",
            "app.test ban req.url ~ \"^/news\" && obj.http.X-Cache-Tags ~ \"^(?:a\\\\.b)$\"",
        ),
        ("BAN / HTTP/1.1\nHost: app.test\nX-Host: .*\nX-Url: .*\nX-Content-Type: .*", "app.test everything"),
        (
            "BAN / HTTP/1.1\nHost: app.test\nX-Host: .*\nX-Url: .*\nX-Content-Type: .*\nX-Cache-Tags: .*",
            "app.test everything",
        ),
        ("PURGEKEYS / HTTP/1.1\nHost: app.test\nxkey-softpurge: a b", "soft app.test any of a b"),
        (
            "PURGEKEYS / HTTP/1.1\nHost: app.test\nxkey-purge: a\nxkey-softpurge: b c",
            "app.test any of a; soft app.test any of b c",
        ),
        // nginx client, with a location for purges.
        (
            "PURGE /purge/articles/1?a HTTP/1.1\nHost: app.test",
            "app.test /purge/articles/1?a; app.test /articles/1?a",
        ),
        // Symfony client.
        ("PURGE / HTTP/1.1\nHost: app.test\nClear-Cache: true", "app.test everything"),
        ("PURGE / HTTP/1.1\nHost: app.test\nClear-Cache: false", "app.test /"),
        ("PURGE / HTTP/1.1\nHost: a.test\nClear-Cache: false\nX-Varnish-Purge-All: 1", "a.test everything"),
        ("BAN / HTTP/1.1\nHost: a.test\nVarnish-Ban-All: 1\nClear-Cache: 0", "a.test everything"),
        ("PURGETAGS / HTTP/1.1\nHost: app.test\nX-Cache-Tags: a,b", "app.test any of a b"),
        // Fastly client.
        (
            "PURGE http://app.test/articles/1 HTTP/1.1\nHost: app.test\nFastly-Key: secret\nFastly-Soft-Purge: 1",
            "soft app.test /articles/1",
        ),
    ]);
}

#[test]
fn magento() {
    check(&[
        (
            "PURGE / HTTP/1.1\nHost: 127.0.0.1\nX-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))|((^|,)cms_b_2(,|$))\nX-Pool: default",
            "127.0.0.1 any of cat_p_1 cms_b_2",
        ),
        ("PURGE / HTTP/1.1\nHost: 127.0.0.1\nX-Magento-Tags-Pattern: .*", "127.0.0.1 everything"),
    ]);
    let tags: Vec<_> = (0..1500).map(|number| format!("((^|,)cat_p_{number}(,|$))")).collect();
    let request = format!("PURGE / HTTP/1.1\nHost: shop.test\nX-Magento-Tags-Pattern: {}", tags.join("|"));
    let order = asked(&request).expect("a long list is a list");
    let [OrderItem { scope: PurgeScope::Tags { any_of, .. }, .. }] = order.invalidations.as_slice() else {
        panic!("{order:?}")
    };
    assert_eq!((any_of.len(), any_of.last().map(|tag| &tag[..])), (1500, Some(&b"cat_p_1499"[..])));
}

#[test]
fn clients_of_other_caches() {
    check(&[
        (
            "PURGE / HTTP/1.1\nHost: www.example.com\nxkey: 166412 234323",
            "www.example.com any of 166412 234323",
        ),
        (
            "PURGE / HTTP/1.1\nHost: www.example.com\nxkey: 166412\nxkey: 234323",
            "www.example.com any of 166412 234323",
        ),
        ("PURGE / HTTP/1.1\nHost: a.test\nSurrogate-Key: a, b", "a.test any of a b"),
        ("PURGE / HTTP/1.1\nHost: a.test\nCache-Tag: a,b", "a.test any of a b"),
        ("PURGE /a HTTP/1.1\nHost: a.test\nX-Purge: invalidate", "soft a.test /a"),
        ("PURGE /a HTTP/1.1\nHost: a.test\nX-Purge: delete", "a.test /a"),
        ("PURGE /a HTTP/1.1\nHost: a.test\nX-Purge: revalidate", "soft a.test /a"),
        ("PURGE /a HTTP/1.0", " /a"),
        ("PURGE http://a.test HTTP/1.1\nHost: a.test", "a.test /"),
        ("PURGE http://a.test?b HTTP/1.1\nHost: c.test", "a.test /?b"),
    ]);
}

#[test]
fn faults_are_reported_with_the_header_name() {
    for (request, reason) in [
        (
            "PURGEKEYS / HTTP/1.1\nHost: a.test",
            "the header xkey-purge or xkey-softpurge: missing; expected the tags to purge",
        ),
        (
            "PURGETAGS / HTTP/1.1\nHost: a.test",
            "the header X-Cache-Tags: missing; expected the tags to purge",
        ),
        (
            "PURGETAGS / HTTP/1.1\nHost: a.test\nX-Cache-Tags: ,",
            "the header X-Cache-Tags: missing; expected at least one tag",
        ),
        (
            "PURGE / HTTP/1.1\nHost: a.test\nX-Purge-Method: tags",
            "the header X-Purge-Method: missing; expected X-Cache-Tags-Pattern beside `tags`",
        ),
        (
            "PURGE / HTTP/1.1\nHost: a.test\nX-Purge-Method: all",
            "the header X-Purge-Method: expected default, exact, regex or tags, found `all`",
        ),
        (
            "PURGE / HTTP/1.1\nHost: a.test\nClear-Cache: maybe",
            "the header Clear-Cache: expected 1 or true, found `maybe`",
        ),
        (
            "PURGE / HTTP/1.1\nHost: a.test\nFastly-Soft-Purge: yes",
            "the header Fastly-Soft-Purge: expected 1 or true, found `yes`",
        ),
        (
            "PURGE / HTTP/1.1\nHost: a.test\nX-Purge: please",
            "the header X-Purge: expected invalidate, delete or revalidate, found `please`",
        ),
        (
            "PURGE / HTTP/1.1\nHost: a.test\nX-Magento-Tags-Pattern: (a",
            "the header X-Magento-Tags-Pattern: not a regular expression that can be used here: unclosed group",
        ),
        (
            "BAN / HTTP/1.1\nHost: a.test\nX-Url: (?!a)b",
            "the header X-Url: not a regular expression that can be used here: look-around, including look-ahead and look-behind, is not supported",
        ),
        (
            "PURGE / HTTP/1.1\nHost: a.test\nX-Varnish-Purge-All: 1\nX-TYPO3-Sitename: a b",
            "the header X-TYPO3-Sitename: expected one name, found `a b`",
        ),
        (
            "PURGE /(a.* HTTP/1.1\nHost: a.test\nX-Purge-Method: regex",
            "the target: not a regular expression that can be used here: unclosed group",
        ),
    ] {
        let malformed = asked(request).expect_err(request);
        assert_eq!(malformed.to_string(), reason, "{request}");
        let reply = malformed.reply();
        assert_eq!(reply.head.status.code(), 400);
        let content = String::from_utf8_lossy(&reply.content).into_owned();
        assert_eq!(content, format!("The purge request cannot be read: {reason}.\n"));
    }
}

/// Two names that are not UTF-8 would look alike in the text of a ban, so they are refused.
#[test]
fn installation_name_that_is_not_utf8_is_refused() {
    let mut head = head("PURGE / HTTP/1.1\nHost: a.test\nX-Cache-Tags: ^a");
    head.fields.push("X-TYPO3-Sitename", &b"\xff"[..]);
    let malformed = read(&head).expect_err("no text");
    assert_eq!(malformed.to_string(), r"the header X-TYPO3-Sitename: expected one name, found `\xff`");
}
