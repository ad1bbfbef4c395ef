//! What the documents of other processors say of a template, and what comes out here: those of
//! Fastly (VCL and the crate `esi` for its Compute), of ledge, and the examples of the W3C Note.
//! The templates are written anew. A row with a note differs on purpose.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "the tests of single cases need no check of any bytes")]
mod support;

use petasos_esi::Values;

/// A template, and its page.
type Case = (&'static str, &'static str);

/// Checks cases. A fragment is its URL in braces; those below `/missing` fail.
fn check(cases: &[Case]) {
    let values = Values {
        host: b"shop.test",
        cookies: b"tier=gold; id=\"x\"",
        accept_language: b"de, en;q=0.5",
        user_agent: b"Mozilla/5.0 (Windows NT 10.0)",
        referer: b"http://search.test/",
        query: b"page=2&name=Ann%20Lee&tag=%3Cb%3E",
    };
    let fetched = |url: &[u8]| {
        let is_missing = url.is_empty() || url.starts_with(b"/missing");
        (!is_missing).then(|| [b"{", url, b"}"].concat())
    };
    for (template, expected) in cases {
        let page = support::page(template.as_bytes(), values, fetched).expect("it is within the limits");
        assert_eq!(String::from_utf8(page).expect("it is UTF-8"), *expected, "{template}");
    }
}

#[test]
fn elements_that_fastly_documents() {
    check(&[
        // The elements of VCL: include, remove and comment. URLs may be relative or whole.
        ("<esi:include src=\"/header\"/>", "{/header}"),
        ("<esi:include src=\"menu.html\" />", "{menu.html}"),
        ("<esi:include src=\"https://shop.test/a\"/>", "{https://shop.test/a}"),
        (
            "<esi:include src=\"http://shop.test/a?b=1&amp;c=2\"></esi:include>",
            "{http://shop.test/a?b=1&c=2}",
        ),
        ("x<esi:remove><a href=\"/a\">without ESI</a></esi:remove>y", "xy"),
        ("x<esi:comment text=\"for the next developer\"/>y", "xy"),
        // VCL leaves elements in CDATA alone unless it is told otherwise. Here they are elements.
        ("<![CDATA[<esi:include src=\"/a\"/>]]>", "<![CDATA[{/a}]]>"),
        // Compute: alternatives and failures.
        ("<esi:include src=\"/missing\" alt=\"/other\"/>", "{/other}"),
        ("<esi:include src=\"/missing\" alt=\"/missing/2\" onerror=\"continue\"/>z", "z"),
        (
            "<esi:try><esi:attempt><esi:include src=\"/a\"/></esi:attempt>\
             <esi:except><p>later</p></esi:except></esi:try>",
            "{/a}",
        ),
        (
            "<esi:try><esi:attempt>one<esi:include src=\"/missing\"/></esi:attempt>\
             <esi:except><p>later</p></esi:except></esi:try>",
            "<p>later</p>",
        ),
        // Compute: variables with defaults, in text and in URLs.
        ("<esi:vars>$(HTTP_COOKIE{tier}) $(HTTP_COOKIE{none}|'silver')</esi:vars>", "gold silver"),
        ("<esi:include src=\"/$(HTTP_COOKIE{tier}|'silver')/box\"/>", "{/gold/box}"),
        // Compute: the first true branch, with strings, numbers and negations.
        (
            "<esi:choose><esi:when test=\"$(HTTP_COOKIE{tier}) == 'silver'\">s</esi:when>\
             <esi:when test=\"$(HTTP_COOKIE{tier}) == 'gold'\">g</esi:when>\
             <esi:otherwise>o</esi:otherwise></esi:choose>",
            "g",
        ),
        ("<esi:choose><esi:when test=\"$(QUERY_STRING{page}) > 1\">back</esi:when></esi:choose>", "back"),
        ("<esi:choose><esi:when test=\"!(1 == 2)\">yes</esi:when></esi:choose>", "yes"),
    ]);
}

#[test]
fn additions_of_fastly_stay_in_the_page() {
    // Elements and functions beyond ESI 1.0 are text here, and faults of the template.
    for template in [
        "<esi:assign name=\"a\" value=\"1\"/>",
        "<esi:eval src=\"/a\"/>",
        "<esi:foreach collection=\"$(QUERY_STRING)\">x</esi:foreach>",
        "<esi:choose><esi:when test=\"$(HTTP_COOKIE{tier}) matches 'g'\">x</esi:when></esi:choose>",
        "<esi:vars>$lower('A')</esi:vars>",
    ] {
        let shown = template.strip_prefix("<esi:vars>").and_then(|rest| rest.strip_suffix("</esi:vars>"));
        check(&[(template, shown.unwrap_or(template))]);
    }
    // An unknown attribute is ignored.
    check(&[("<esi:include src=\"/a\" dca=\"none\" ttl=\"1m\"/>", "{/a}")]);
}

#[test]
fn templates_that_ledge_documents() {
    check(&[
        // The link for clients without ESI, and the fragment for a processor, with the page's
        // query.
        (
            "<esi:remove><a href=\"/part\">part</a></esi:remove>\
             <!--esi<esi:include src=\"/part?$(QUERY_STRING)\"/>-->",
            // The mark must be followed by white space.
            "<!--esi{/part?page=2&name=Ann%20Lee&tag=%3Cb%3E}-->",
        ),
        (
            "<esi:remove><a href=\"/part\">part</a></esi:remove>\n\
             <!--esi\n<esi:include src=\"/part?$(QUERY_STRING)\" />\n-->",
            "\n\n{/part?page=2&name=Ann%20Lee&tag=%3Cb%3E}\n",
        ),
        ("<!-- an ordinary comment -->", "<!-- an ordinary comment -->"),
        ("<!--esi <p>for processors</p> -->", " <p>for processors</p> "),
        // Values are escaped. There is no way to have them as they are.
        ("<esi:vars>$(HTTP_COOKIE{id})</esi:vars>", "&quot;x&quot;"),
        ("<esi:vars>$(RAW_QUERY_STRING{tag})</esi:vars>", "$(RAW_QUERY_STRING{tag})"),
        ("<esi:vars>$(QUERY_STRING{tag})</esi:vars>", "%3Cb%3E"),
        // Parameters for ESI alone, and regular expressions, are additions.
        ("<esi:vars>$(ESI_ARGS{a})</esi:vars>", "$(ESI_ARGS{a})"),
        (
            "<esi:choose><esi:when test=\"$(QUERY_STRING{page}) =~ '/2/'\">x</esi:when></esi:choose>",
            "<esi:choose><esi:when test=\"$(QUERY_STRING{page}) =~ '/2/'\">x</esi:when></esi:choose>",
        ),
        // Choices within choices, and elements within remove.
        (
            "<esi:choose><esi:when test=\"1==1\"><esi:choose><esi:when test=\"1==2\">a</esi:when>\
             <esi:otherwise>b</esi:otherwise></esi:choose></esi:when></esi:choose>",
            "b",
        ),
        ("<esi:remove><esi:include src=\"/never\"/></esi:remove>x", "x"),
    ]);
}

#[test]
fn variables_of_the_note() {
    check(&[
        ("<esi:vars>$(HTTP_HOST)</esi:vars>", "shop.test"),
        ("<esi:vars>$(HTTP_REFERER)</esi:vars>", "http://search.test/"),
        ("<esi:vars>$(HTTP_ACCEPT_LANGUAGE{de})$(HTTP_ACCEPT_LANGUAGE{fr})</esi:vars>", "truefalse"),
        ("<esi:vars>$(HTTP_USER_AGENT{os}) $(HTTP_USER_AGENT{browser})</esi:vars>", "WIN MOZILLA"),
        ("<esi:vars>$(QUERY_STRING{name})</esi:vars>", "Ann%20Lee"),
        // Without `esi:vars` only URLs and expressions have variables.
        ("$(HTTP_HOST)", "$(HTTP_HOST)"),
        ("<esi:include src=\"/$(HTTP_HOST)/x\"/>", "{/shop.test/x}"),
        // An inline part stands where it is. It is stored under no other URL.
        ("<esi:inline name=\"/part\" fetchable=\"no\">x</esi:inline>", "x"),
    ]);
}
