//! The real binary against visitors who try to make a site's pages stale. They send requests that
//! look like an editor's, and the origin responds as each system does to a client without a login.
//! The reverse is tested too: the responses to real writes must invalidate pages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use testkit::{Client, Edge, Origin, Response, Seen, response};

/// A request and the origin's response to it.
struct WriteExchange {
    method: &'static str,
    target: &'static str,
    media_type: &'static str,
    form: &'static str,
    fields: &'static [&'static str],
    status: &'static str,
    answer: &'static [&'static str],
    body: &'static str,
}

const BASE: WriteExchange = WriteExchange {
    method: "POST",
    target: "/",
    media_type: URLENCODED,
    form: "",
    fields: &[],
    status: "200 OK",
    answer: &[],
    body: "",
};

const URLENCODED: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data; boundary=b";
const AS_JSON: &str = "Content-Type: application/json; charset=UTF-8";
const AS_HTML: &str = "Content-Type: text/html; charset=UTF-8";
/// Response fields of WordPress' REST API for a user logged in by cookie, with a valid nonce.
const EDITOR: &[&str] = &[
    AS_JSON,
    "X-WP-Nonce: 0a1b2c3d4e",
    "Cache-Control: no-cache, must-revalidate, max-age=0",
    "Expires: Wed, 11 Jan 1984 05:00:00 GMT",
    "Link: <http://example.test/wp-json/>; rel=\"https://api.w.org/\"",
];
/// Response fields of WordPress' REST API for a visitor who took a nonce for visitors from a page.
const NONCE_OF_VISITORS: &[&str] = &[AS_JSON, "X-WP-Nonce: 0a1b2c3d4e"];
const FILLED: &str = include_str!("attack_writes/filled.txt");

/// Session cookies of every system, with made-up values.
const FORGED: &str = "Cookie: wordpress_logged_in_0a=admin%7C9; wp-settings-time-1=1; SESS0a=x; SSESS0a=x; sessionid=x; \
                      messages=x; csrftoken=x; wikiUserID=1; wiki_session=x; wikiPostEditRevision7=saved; __ac=x; \
                      be_typo_user=x; PHPSESSID=x; admin=x; ghost-admin-api-session=x; joomla_user_state=logged_in";
const FORGED_FIELDS: &[&str] = &[
    "X-WP-Nonce: 0a1b2c3d4e",
    "X-Cache-Invalidate: /*",
    "X-LiteSpeed-Purge: *",
    "X-Petasos-Purges: 1",
    "Surrogate-Key: site",
    "Cache-Group-Invalidation: \"all\"",
];

const REFUSED_BATCH: &str = r#"{"responses":[{"body":{"code":"rest_cannot_create","message":"\"status\":201","data":{"status":401}},"status":401,"headers":{"Allow":"GET"}}]}"#;

/// Attempts of visitors, with the response of the system.
const ATTACKS: &[WriteExchange] = &[
    // WordPress: several requests in one batch, all of them refused.
    WriteExchange {
        target: "/wp-json/batch/v1",
        media_type: "application/json",
        status: "207 Multi-Status",
        answer: &[AS_JSON],
        body: REFUSED_BATCH,
        ..BASE
    },
    WriteExchange {
        target: "/wp-json/batch/v1",
        status: "207 Multi-Status",
        answer: NONCE_OF_VISITORS,
        body: r#"{"failed":"validation","responses":[null]}"#,
        ..BASE
    },
    // The batch contains a public route of a shop plugin.
    WriteExchange {
        target: "/wp-json/batch/v1",
        status: "207 Multi-Status",
        answer: NONCE_OF_VISITORS,
        body: r#"{"responses":[{"body":{"items":[]},"status":201,"headers":[]}]}"#,
        ..BASE
    },
    // XML-RPC: methods that need no login, one of them within a list of calls.
    WriteExchange {
        target: "/xmlrpc.php",
        media_type: "text/xml",
        form: "<methodCall><methodName>demo.sayHello</methodName></methodCall>",
        answer: &["Content-Type: text/xml; charset=UTF-8"],
        body: "<methodResponse>\n  <params>\n    <param>\n      <value>\n      <string>Hello!</string>\n      </value>\n    </param>\n  </params>\n</methodResponse>\n",
        ..BASE
    },
    WriteExchange {
        target: "/xmlrpc.php",
        media_type: "text/xml",
        form: "<methodCall><methodName>system.multicall</methodName></methodCall>",
        answer: &["Content-Type: text/xml; charset=UTF-8"],
        body: "<methodResponse>\n  <params>\n    <param>\n      <value>\n      <array><data>\n  <value><array><data>\n  <value><int>12</int></value>\n</data></array></value>\n</data></array>\n      </value>\n    </param>\n  </params>\n</methodResponse>\n",
        ..BASE
    },
    // A shop's cart, which every visitor may fill.
    WriteExchange {
        target: "/wp-json/wc/store/v1/cart/add-item",
        media_type: "application/json",
        status: "201 Created",
        answer: EDITOR,
        body: r#"{"items":[{"id":5,"permalink":"http:\/\/example.test\/post\/"}]}"#,
        ..BASE
    },
    // Drupal: a module redirects anonymous visitors to the login, and `destination` changes the
    // redirect's target.
    WriteExchange {
        method: "GET",
        target: "/admin/appearance/default?theme=x&destination=admin/appearance",
        status: "302 Found",
        answer: &["Location: http://example.test/admin/appearance"],
        ..BASE
    },
    // A read with a writing method.
    WriteExchange {
        target: "/wp-json/wp/v2/posts?_method=GET",
        answer: EDITOR,
        body: r#"[{"id":1,"status":"publish"}]"#,
        ..BASE
    },
    WriteExchange {
        target: "/wp-json/wp/v2/posts",
        answer: EDITOR,
        fields: &["X-HTTP-Method-Override: GET"],
        body: "[]",
        ..BASE
    },
    WriteExchange { target: "/wp-json/wp/v2/posts", answer: &[AS_JSON], body: "[]", ..BASE },
    WriteExchange {
        method: "PUT",
        target: "/wp-json/wp/v2/posts/1?_method=get",
        answer: EDITOR,
        body: "{}",
        ..BASE
    },
    // A public route of a plugin. The query or the form names it, although the path is one of
    // WordPress' own routes.
    WriteExchange {
        target: "/wp-json/wp/v2/posts?rest_route=/contact-form-7/v1/contact-forms/5/feedback",
        answer: EDITOR,
        body: r#"{"status":"mail_sent"}"#,
        ..BASE
    },
    WriteExchange {
        target: "/wp-json/wp/v2/posts",
        form: "rest_route=/contact-form-7/v1/contact-forms/5/feedback",
        answer: EDITOR,
        body: r#"{"status":"mail_sent"}"#,
        ..BASE
    },
    WriteExchange {
        target: "/wp-json/wp/v2/posts",
        media_type: MULTIPART,
        form: "--b\r\nContent-Disposition: form-data; name=\"rest_route\"\r\n\r\n/contact-form-7/v1/x\r\n--b--\r\n",
        answer: NONCE_OF_VISITORS,
        body: r#"{"status":"mail_sent"}"#,
        ..BASE
    },
    // The same on a site with plain permalinks.
    WriteExchange {
        target: "/index.php?rest_route=/wp/v2/posts/5",
        form: "rest_route=/contact-form-7/v1/contact-forms/5/feedback",
        answer: EDITOR,
        body: r#"{"status":"mail_sent"}"#,
        ..BASE
    },
    WriteExchange {
        target: "/?rest_route=/wp/v2/posts/5&rest_route=/contact-form-7/v1/contact-forms/5/feedback",
        answer: EDITOR,
        body: r#"{"status":"mail_sent"}"#,
        ..BASE
    },
    // A script that responds to everybody, with the name of another script after it in the path.
    WriteExchange {
        target: "/wp-login.php/wp-admin/nav-menus.php",
        form: "action=update",
        answer: &[AS_HTML],
        body: "<body class=\"login\">",
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/admin-ajax.php/wp-json/wp/v2/posts?action=heartbeat",
        answer: EDITOR,
        body: r#"{"server_time":1}"#,
        ..BASE
    },
    // Two actions. PHP uses the last one, and the form's action overrides the query's.
    WriteExchange {
        target: "/wp-admin/admin-ajax.php?action=inline-save",
        form: "action=heartbeat",
        answer: &[AS_JSON],
        body: r#"{"server_time":1}"#,
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/admin-ajax.php?action=trash-post",
        form: "%20action=post_like",
        answer: &[AS_HTML],
        body: "1",
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/admin-ajax.php?action=trash-post",
        form: "action%5B=post_like",
        answer: &[AS_HTML],
        body: "1",
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/admin-ajax.php?action=trash-post",
        form: FILLED,
        answer: &[AS_HTML],
        body: "1",
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/admin-ajax.php?action=trash-post",
        media_type: MULTIPART,
        form: "--b\r\nContent-Disposition: form-data; name=\"action\"\r\n\r\npost_like\r\n--b--\r\n",
        answer: &[AS_HTML],
        body: "1",
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/admin-ajax.php",
        form: "action=inline-save",
        answer: &[AS_HTML],
        body: "Sorry, you are not allowed to edit this post.",
        ..BASE
    },
    // Redirects that every visitor gets: to the login, to https, to an upgrade, to an account's
    // page.
    WriteExchange {
        target: "/wp-admin/post.php",
        status: "302 Found",
        answer: &[
            "Location: http://example.test/wp-login.php?redirect_to=http%3A%2F%2Fexample.test%2Fwp-admin%2Fpost.php&reauth=1",
        ],
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/post.php?message=1",
        status: "302 Found",
        answer: &["Location: https://example.test/wp-admin/post.php?message=1"],
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin//post.php?message=1",
        status: "302 Found",
        answer: &["Location: /wp-admin/post.php?message=1&lang=en"],
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/post.php",
        status: "302 Found",
        answer: &["Location: /my-account/?redirect_to=/wp-admin/post.php?message=1"],
        ..BASE
    },
    WriteExchange {
        method: "GET",
        target: "/wp-admin/themes.php?action=activate",
        status: "302 Found",
        answer: &["Location: http://example.test/wp-admin/upgrade.php?_wp_http_referer=%2Fwp-admin%2F"],
        ..BASE
    },
    WriteExchange {
        target: "/wp-admin/options.php",
        status: "302 Found",
        answer: &["Location: https://example.test/wp-admin/options.php"],
        ..BASE
    },
    // Comments that are held for moderation or not accepted, so no page shows them.
    WriteExchange {
        target: "/wp-comments-post.php",
        form: "comment=x",
        status: "302 Found",
        answer: &["Location: https://example.test/wp-comments-post.php"],
        ..BASE
    },
    WriteExchange {
        target: "/wp-comments-post.php",
        form: "comment=x",
        status: "302 Found",
        answer: &["Location: http://example.test/elsewhere/?unapproved=5&moderation-hash=0a#comment-5"],
        ..BASE
    },
    WriteExchange {
        target: "/wp-json/wp/v2/comments",
        status: "201 Created",
        answer: &[AS_JSON],
        body: r#"{"id":5,"link":"http://example.test/elsewhere/#comment-5","status":"hold"}"#,
        ..BASE
    },
    // MediaWiki.
    WriteExchange {
        target: "/index.php?title=Special:Random&action=submit",
        status: "302 Found",
        answer: &["Location: http://example.test/index.php/Elsewhere"],
        ..BASE
    },
    WriteExchange {
        target: "/index.php?title=A&action=submit",
        status: "302 Found",
        answer: &[
            "Location: /index.php/Elsewhere",
            "Set-Cookie: wikiPostEditRevision7=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/",
        ],
        ..BASE
    },
    WriteExchange {
        target: "/api.php?action=purge&titles=A&format=json",
        answer: &[AS_JSON],
        body: r#"{"batchcomplete":"","purge":[{"ns":0,"title":"A","purged":""}]}"#,
        ..BASE
    },
    WriteExchange {
        target: "/api.php?format=json",
        form: "action=edit&title=A",
        answer: &[AS_JSON],
        body: r#"{"edit":{"result":"Failure","captcha":{"type":"simple"}}}"#,
        ..BASE
    },
    WriteExchange {
        target: "/api.php?format=json",
        form: "action=edit&title=A",
        answer: &[AS_JSON],
        body: r#"{"edit":{"result":"Success","pageid":1,"title":"A","nochange":""}}"#,
        ..BASE
    },
    WriteExchange {
        target: "/index.php/api.php?title=User:M/x.json&action=edit",
        form: "action=raw&ctype=application/json",
        answer: &[AS_JSON],
        body: r#"{"edit":{"result":"Success","newrevid":9}}"#,
        ..BASE
    },
    WriteExchange {
        target: "/wiki/A?action=rollback",
        status: "302 Found",
        answer: &["Location: /wiki/Elsewhere"],
        ..BASE
    },
    // Drupal: forms in blocks that everybody may submit respond on every page, even on a page that
    // refuses access.
    WriteExchange {
        target: "/node/5/edit",
        form: "form_id=search_block_form&search_block_form=x",
        status: "302 Found",
        answer: &["Location: http://example.test/search/node/x"],
        ..BASE
    },
    WriteExchange {
        target: "/node/5/edit?destination=node/7",
        form: "form_id=webform_submission",
        status: "303 See Other",
        answer: &["Location: http://example.test/node/7"],
        ..BASE
    },
    WriteExchange {
        target: "/admin/structure/x",
        form: "form_id=poll_view_voting",
        status: "302 Found",
        answer: &["Location: http://example.test/node/7"],
        ..BASE
    },
    WriteExchange {
        target: "/comment/reply/node/5/comment",
        form: "form_id=contact",
        status: "303 See Other",
        answer: &["Location: http://example.test/node/7"],
        ..BASE
    },
    // Django and Wagtail.
    WriteExchange {
        target: "/admin/blog/post/5/change/",
        status: "302 Found",
        answer: &["Location: /en/admin/blog/post/5/change/"],
        ..BASE
    },
    WriteExchange {
        target: "/admin/blog/post/5/change/",
        status: "302 Found",
        answer: &["Location: /admin/login/?next=/admin/"],
        ..BASE
    },
    WriteExchange {
        target: "/admin/blog/post/5/change/",
        status: "302 Found",
        answer: &[
            "Location: https://example.test/admin/blog/post/5/change/",
            "Set-Cookie: csrftoken=a; Path=/",
        ],
        ..BASE
    },
    WriteExchange {
        target: "/cms/pages/5/edit/",
        status: "302 Found",
        answer: &["Location: /accounts/sign-in?next=/cms/pages/5/edit/"],
        ..BASE
    },
    // Systems without write rules, and their responses to anonymous visitors.
    WriteExchange {
        target: "/administrator/index.php?task=save",
        status: "303 See Other",
        answer: &["Location: /administrator/index.php"],
        ..BASE
    },
    WriteExchange {
        target: "/typo3/record/edit",
        status: "303 See Other",
        answer: &["Location: /typo3/login"],
        ..BASE
    },
    WriteExchange {
        target: "/ghost/api/admin/posts/",
        status: "403 Forbidden",
        answer: &[AS_JSON],
        body: "{}",
        ..BASE
    },
    WriteExchange { target: "/rest/V1/guest-carts", answer: &[AS_JSON], body: "\"cart\"", ..BASE },
    WriteExchange { target: "/++api++/@login", answer: &[AS_JSON], body: "{}", ..BASE },
    WriteExchange { method: "DELETE", target: "/anything", status: "204 No Content", ..BASE },
    WriteExchange { method: "FROBNICATE", target: "/anything", ..BASE },
    WriteExchange {
        method: "GET",
        target: "/anything?_method=DELETE",
        answer: &[AS_JSON],
        fields: &["X-HTTP-Method-Override: DELETE"],
        body: "{}",
        ..BASE
    },
];

/// Requests that change something, with the system's response: the profile, the pages that change,
/// the exchange.
const WRITES: &[(&str, &[&str], WriteExchange)] = &[
    (
        "wordpress",
        PAGES,
        WriteExchange {
            target: "/wp-admin/post.php",
            form: "action=editpost",
            status: "302 Found",
            answer: &["Location: http://example.test/wp-admin/post.php?post=1&action=edit&message=1"],
            ..BASE
        },
    ),
    (
        "wordpress",
        PAGES,
        WriteExchange {
            target: "/wp-json/wp/v2/posts/5?_locale=user",
            media_type: "application/json",
            form: "{}",
            answer: EDITOR,
            body: r#"{"id":5,"slug":"a","status":"publish"}"#,
            ..BASE
        },
    ),
    (
        "wordpress",
        PAGES,
        WriteExchange {
            target: "/index.php?rest_route=%2Fwp%2Fv2%2Fposts%2F5&_locale=user",
            media_type: "application/json",
            form: "{}",
            answer: EDITOR,
            body: r#"{"id":5,"slug":"a","status":"publish"}"#,
            ..BASE
        },
    ),
    (
        "wordpress",
        PAGES,
        WriteExchange {
            target: "/wp-json/wp/v2/posts/5?_locale=user",
            media_type: "application/json",
            fields: &["X-HTTP-Method-Override: DELETE"],
            answer: EDITOR,
            body: r#"{"id":5,"slug":"a","status":"trash"}"#,
            ..BASE
        },
    ),
    (
        "wordpress",
        PAGES,
        WriteExchange {
            target: "/wp-json/batch/v1",
            media_type: "application/json",
            status: "207 Multi-Status",
            answer: EDITOR,
            body: r#"{"responses":[{"body":{"code":"x"},"status":404,"headers":[]},{"body":{"id":"block-2"},"status":200,"headers":[]}]}"#,
            ..BASE
        },
    ),
    (
        "wordpress",
        PAGES,
        WriteExchange {
            target: "/wp-admin/admin-ajax.php",
            form: "post_title=x&action=inline-save",
            answer: &[AS_HTML],
            body: "\t\t<tr id=\"post-5\" class=\"iedit\">",
            ..BASE
        },
    ),
    (
        "wordpress",
        PAGES,
        WriteExchange {
            target: "/wp-admin/nav-menus.php?action=edit&menu=2",
            form: "nav-menu-data=x",
            answer: &[AS_HTML],
            body: "<body class=\"wp-admin nav-menus-php\">",
            ..BASE
        },
    ),
    (
        "wordpress",
        COMMENTED,
        WriteExchange {
            target: "/wp-comments-post.php",
            form: "comment=x",
            status: "302 Found",
            answer: &["Location: http://example.test/post/#comment-5"],
            ..BASE
        },
    ),
    (
        "mediawiki",
        &["/index.php/A"],
        WriteExchange {
            target: "/index.php?title=A&action=submit",
            status: "302 Found",
            answer: &["Location: /index.php/A", "Set-Cookie: wikiPostEditRevision8=saved; path=/"],
            ..BASE
        },
    ),
    (
        "mediawiki",
        PAGES,
        WriteExchange {
            target: "/api.php",
            form: "action=edit&format=json&title=A&token=%2B%5C",
            answer: &[AS_JSON],
            body: r#"{"edit":{"result":"Success","pageid":1,"title":"A","oldrevid":7,"newrevid":8}}"#,
            ..BASE
        },
    ),
    (
        "drupal",
        &["/", "/rss.xml", "/node"],
        WriteExchange {
            target: "/node/5/edit",
            media_type: MULTIPART,
            form: "--b--\r\n",
            status: "302 Found",
            answer: &["Location: http://example.test/node/5"],
            ..BASE
        },
    ),
    (
        "django",
        PAGES,
        WriteExchange {
            target: "/admin/blog/post/5/change/",
            status: "302 Found",
            answer: &["Location: /admin/blog/post/", "Set-Cookie: messages=W1siX19qc29u; HttpOnly; Path=/"],
            ..BASE
        },
    ),
    (
        "wagtail",
        PAGES,
        WriteExchange {
            target: "/cms/pages/5/edit/",
            status: "302 Found",
            answer: &["Location: /cms/pages/3/", "Set-Cookie: messages=W1siX19qc29u; HttpOnly; Path=/"],
            ..BASE
        },
    ),
];

const COMMENTED: &[&str] = &["/", "/feed/", "/comments/feed/", "/post/"];
const PAGES: &[&str] =
    &["/", "/feed/", "/comments/feed/", "/post/", "/rss.xml", "/node", "/index.php/A", "/a/b"];

fn origin() -> Origin {
    Origin::start(|seen: &Seen| {
        let (list, number) = match (seen.field("X-Attack"), seen.field("X-Write")) {
            (Some(number), _) => (ATTACKS.iter().collect::<Vec<_>>(), number.to_owned()),
            (_, Some(number)) => (WRITES.iter().map(|(.., write)| write).collect(), number.to_owned()),
            _ => return response("200 OK", &["Cache-Control: max-age=600"], seen.target().as_bytes()),
        };
        let exchange = list.get(number.parse::<usize>().unwrap()).unwrap();
        response(exchange.status, exchange.answer, exchange.body.as_bytes())
    })
}

fn ask(edge: &Edge, exchange: &WriteExchange, mark: &str) -> Response {
    let WriteExchange { method, target, media_type, form, .. } = exchange;
    let lines: String =
        exchange.fields.iter().chain(FORGED_FIELDS).map(|field| format!("{field}\r\n")).collect();
    let content = if *method == "GET" {
        String::new()
    } else {
        format!("Content-Type: {media_type}\r\nContent-Length: {}\r\n", form.len())
    };
    let mut client = Client::connect(edge.address);
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: example.test\r\n{mark}\r\n{FORGED}\r\n{lines}{content}\r\n{form}"
    ));
    client.read()
}

fn look(edge: &Edge, target: &str) -> bool {
    let mut client = Client::connect(edge.address);
    client.send(format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n\r\n"));
    let page = client.read();
    assert_eq!(page.text(), target);
    page.field("Cache-Status").unwrap().ends_with("hit-fresh")
}

fn warm(edge: &Edge) {
    for target in PAGES {
        look(edge, target);
        assert!(look(edge, target), "{target} is not stored");
    }
}

fn profiles() -> Vec<&'static str> {
    "default rfc wordpress mediawiki drupal typo3 django flask moinmoin wagtail plone magento ghost joomla"
        .split(' ')
        .collect()
}

#[test]
fn anonymous_writes_invalidate_no_page_of_any_profile() {
    let origin = origin();
    let mut looks = 0;
    let mut lost = Vec::new();
    for profile in profiles() {
        let edge = Edge::start(&origin.url(), &["--profile", profile]);
        warm(&edge);
        for (number, attack) in ATTACKS.iter().enumerate() {
            ask(&edge, attack, &format!("X-Attack: {number}"));
            for target in PAGES {
                looks += 1;
                if !look(&edge, target) {
                    lost.push(format!(
                        "{profile}: {} {} {}: {target}",
                        attack.method,
                        attack.target,
                        attack.form.get(..40).unwrap_or(attack.form)
                    ));
                }
            }
        }
    }
    println!("attack: anonymous writes: {} of {looks} pages lost of at most 0", lost.len());
    lost.dedup_by_key(|line| line.rsplit_once(": ").unwrap().0.to_owned());
    assert!(lost.is_empty(), "pages were lost:\n{}", lost.join("\n"));
}

#[test]
fn real_write_invalidates_its_pages_when_its_response_ends() {
    let origin = origin();
    for (number, (profile, expected, write)) in WRITES.iter().enumerate() {
        let edge = Edge::start(&origin.url(), &["--profile", profile]);
        warm(&edge);
        let answer = ask(&edge, write, &format!("X-Write: {number}"));
        assert_eq!(answer.text(), write.body, "{profile} {}", write.target);
        let changed: Vec<_> = PAGES.iter().filter(|target| !look(&edge, target)).copied().collect();
        assert_eq!(changed, *expected, "{profile} {} {}", write.target, write.form);
    }
}
