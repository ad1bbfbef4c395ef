//! The language case by case: elements, expressions, variables, faults and limits.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "the tests of single cases need no check of any bytes")]
mod support;

use petasos_esi::{FaultKind, Limits, Program, Run, TemplateError, Values};

const AGENT: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64)";

fn values() -> Values<'static> {
    Values {
        host: b"a.test",
        cookies: b"group=Advanced; empty=; id=<1&2>",
        accept_language: b"da, en-gb;q=0.8, en;q=0.7",
        user_agent: AGENT,
        referer: b"http://b.test/\"x",
        query: b"first=Robin&last=H%20d&n=10&crlf=%0d%0aX",
    }
}

fn with_values(template: &str) -> String {
    let fetched = |url: &[u8]| {
        let is_missing = url.starts_with(b"/missing") || url.is_empty();
        (!is_missing).then(|| [b"{", url, b"}"].concat())
    };
    let page = support::page(template.as_bytes(), values(), fetched).expect("it is within the limits");
    String::from_utf8(page).expect("it is UTF-8")
}

#[test]
fn elements_have_the_output_of_the_specification() {
    let cases = [
        ("a<esi:include src=\"/x?a=1&amp;b=2\"/>b", "a{/x?a=1&b=2}b"),
        ("<esi:include src='x' alt='y'></esi:include>", "{x}"),
        ("<esi:include src=\"/missing\" alt=\"/y\"/>", "{/y}"),
        ("a<esi:include src=\"/missing\" onerror=\"continue\"/>b", "ab"),
        ("a<esi:include src=\"/missing\"/>b", "a[gap]b"),
        ("<esi:include src=\"/a>b\" maxwait=\"500\" />", "{/a>b}"),
        ("a<esi:comment text=\"x\"/>b", "ab"),
        ("a<esi:remove><a href='x'><esi:include src=\"/x\"/></a></esi:remove>b", "ab"),
        ("a<!--esi <p><esi:vars>$(HTTP_HOST)</esi:vars></p>-->b", "a <p>a.test</p>b"),
        ("<!-- <esi:include src=\"/x\"/> -->", "<!-- {/x} -->"),
        ("<!--esix --> $(HTTP_HOST)", "<!--esix --> $(HTTP_HOST)"),
        (
            "<esi:try><esi:attempt>a<esi:include src=\"/x\"/></esi:attempt> <esi:except>b</esi:except></esi:try>",
            "a{/x}",
        ),
        (
            "<esi:try><esi:except>b</esi:except><esi:attempt>a<esi:include src=\"/missing\"/>c</esi:attempt></esi:try>d",
            "bd",
        ),
        ("<esi:vars/><esi:remove/>x", "x"),
        ("a<esi:inline name=\"/f\" fetchable=\"no\">b<esi:include src=\"/x\"/></esi:inline>c", "ab{/x}c"),
        ("<esi:inline name='/f'>b</esi:inline><esi:include src='/f'/>", "b{/f}"),
        ("<esi:vars><esi:inline name='f'>$(HTTP_HOST)</esi:inline></esi:vars>", "a.test"),
        (
            "<esi:vars>a<esi:choose><esi:when test=\"1==1\">$(HTTP_HOST)</esi:when></esi:choose></esi:vars>",
            "aa.test",
        ),
    ];
    for (template, expected) in cases {
        assert_eq!(with_values(template), expected, "{template}");
    }
}

#[test]
fn inner_try_is_left_without_its_outer_one() {
    let inner = "<esi:try><esi:attempt>1<esi:include src=\"/missing\"/></esi:attempt><esi:except>2</esi:except></esi:try>";
    let outer = |rest: &str| {
        format!("<esi:try><esi:attempt>0{inner}{rest}</esi:attempt><esi:except>3</esi:except></esi:try>4")
    };
    assert_eq!(with_values(&outer("")), "024");
    assert_eq!(with_values(&outer("<esi:include src=\"/missing\"/>")), "34");
}

#[test]
fn expressions_hold_as_specified() {
    let cases = [
        ("$(HTTP_COOKIE{group})=='Advanced'", true),
        ("$(HTTP_COOKIE{group}) != 'Basic'", true),
        ("'b' > 'a'", true),
        ("10 > 9", true),
        ("'10' > '9'", true),
        ("'10a' > '9a'", false),
        ("-1 &lt; 1", true),
        ("-1 < 1", true),
        ("$(QUERY_STRING{n})>=10", true),
        ("$(QUERY_STRING{n})<=9", false),
        ("!1==2", true),
        ("!!1==2", false),
        ("1==2 | 1==1 & 1==2", false),
        ("(1==2 | 1==1) & 1==1", true),
        ("1==1 || 1==2", true),
        ("1==1 &amp;&amp; 2==2", true),
        ("$(HTTP_COOKIE{none})!='x'", false),
        ("$(HTTP_COOKIE{none}|'x')=='x'", true),
        ("$(HTTP_COOKIE{none}|x)=='x'", true),
        ("$(HTTP_COOKIE{empty})==''", false),
        ("$(HTTP_ACCEPT_LANGUAGE{en-gb})", true),
        ("$(HTTP_ACCEPT_LANGUAGE{en-GB})=='true'", true),
        ("$(HTTP_ACCEPT_LANGUAGE{fr})", false),
        ("$(HTTP_USER_AGENT{os})=='UNIX'", true),
        ("$(HTTP_USER_AGENT{browser})=='MOZILLA'", true),
        ("$(HTTP_USER_AGENT{version})=='5.0'", true),
        ("$(HTTP_COOKIE{group})", true),
        ("$(HTTP_COOKIE{none})", false),
        ("'&apos;'=='&apos;'", true),
    ];
    for (test, expected) in cases {
        let template = format!(
            "<esi:choose><esi:when test=\"{test}\">y</esi:when><esi:otherwise>n</esi:otherwise></esi:choose>"
        );
        assert_eq!(with_values(&template), if expected { "y" } else { "n" }, "{test}");
    }
}

#[test]
fn first_true_branch_wins() {
    let when = |test: &str, text: &str| format!("<esi:when test=\"{test}\">{text}</esi:when>");
    let choose = |parts: &str| with_values(&format!("<esi:choose>{parts}</esi:choose>"));
    assert_eq!(choose(&[when("1==2", "a"), when("1==1", "b"), when("1==1", "c")].concat()), "b");
    assert_eq!(choose(&when("1==2", "a")), "");
}

#[test]
fn values_are_escaped_for_their_place() {
    let cases = [
        ("<esi:vars>$(HTTP_COOKIE{id})</esi:vars>", "&lt;1&amp;2&gt;"),
        ("<esi:vars>$(HTTP_REFERER)</esi:vars>", "http://b.test/&quot;x"),
        ("<esi:vars>$(HTTP_COOKIE{none}|'<b>')</esi:vars>", "<b>"),
        ("<esi:vars>$(QUERY_STRING{last})</esi:vars>", "H%20d"),
        ("<esi:include src='/a?x=$(HTTP_COOKIE{id})'/>", "{/a?x=%3C1%262%3E}"),
        ("<esi:include src='/a?x=$(QUERY_STRING{last})'/>", "{/a?x=H%20d}"),
        ("<esi:include src='/a?$(QUERY_STRING)'/>", "{/a?first=Robin&last=H%20d&n=10&crlf=%0d%0aX}"),
        ("<esi:include src='/a?$(HTTP_REFERER)'/>", "{/a?http%3A%2F%2Fb.test%2F%22x}"),
        ("<esi:include src='/a/$(HTTP_COOKIE{none}|b/c)'/>", "{/a/b/c}"),
    ];
    for (template, expected) in cases {
        assert_eq!(with_values(template), expected, "{template}");
    }
}

#[test]
fn value_never_changes_the_path_of_a_url() {
    let of = |value: &str, src: &str| {
        let query = format!("w={value}");
        let values = Values { query: query.as_bytes(), ..Values::default() };
        let template = format!("<esi:include src='{src}' onerror='continue'/>");
        let fragment = |url: &[u8]| (!url.is_empty()).then(|| url.to_vec());
        String::from_utf8(support::page(template.as_bytes(), values, fragment).unwrap()).unwrap()
    };
    let paths = ["/widgets/$(QUERY_STRING{w})", "/w/$(QUERY_STRING{w})/x?y=1", "w/$(QUERY_STRING{w})#y"];
    for path in paths {
        for value in ["..", ".", "%2e%2E", ".%2e", "a%2Fb", "a%5cb", "/a", "..%2f", "%2e"] {
            assert_eq!(of(value, path), "", "{path} {value}");
        }
        for value in ["a", "...", "a.b", "..a", "%41"] {
            assert_eq!(of(value, path), path.replace("$(QUERY_STRING{w})", value), "{path} {value}");
        }
    }
    assert_eq!(of(".", "/w/.$(QUERY_STRING{w})/"), "", "half of the dots is a value");
    assert_eq!(of("..%2F", "/w?x=$(QUERY_STRING{w})"), "/w?x=..%2F");
    assert_eq!(of("a", "/w/../$(QUERY_STRING{w})"), "/w/../a", "the template may remove segments");
}

#[test]
fn substituted_markup_is_not_parsed() {
    let cookies = b"c=<esi:include src='/secret'/>$(HTTP_HOST)";
    let values = Values { cookies, host: b"h", ..Values::default() };
    let template = b"<esi:vars>$(HTTP_COOKIE{c})</esi:vars><esi:include src='/f'/>";
    let fragment = |url: &[u8]| {
        Some(if url == b"/f" { b"<esi:include src='/secret'/>".to_vec() } else { b"!".to_vec() })
    };
    let page = support::page(template, values, fragment).unwrap();
    let expected = "&lt;esi:include src=&#39;/secret&#39;/&gt;$(HTTP_HOST)<esi:include src='/secret'/>";
    assert_eq!(String::from_utf8(page).unwrap(), expected);
}

#[test]
fn malformed_markup_is_delivered_with_its_reason() {
    let cases = [
        ("<esi:include src=\"/x", FaultKind::UnfinishedTag),
        ("<esi:include src=\"/x\">", FaultKind::Unpaired),
        ("<esi:vars>$(HTTP_HOST)", FaultKind::Unpaired),
        ("</esi:vars>", FaultKind::Unpaired),
        ("<!--esi <p>", FaultKind::Unpaired),
        ("<esi:assign name=\"a\" value=\"1\"/>", FaultKind::UnknownElement),
        ("<esi:include src=/x/>", FaultKind::BadAttributes),
        ("<esi:include src='/x'alt='/y'/>", FaultKind::BadAttributes),
        ("<esi:include alt='/y'/>", FaultKind::MissingAttribute),
        ("<esi:comment/>", FaultKind::MissingAttribute),
        ("<esi:include src='/x' onerror='stop'/>", FaultKind::BadValue),
        ("<esi:include src='/x' maxwait='-1'/>", FaultKind::BadValue),
        ("<esi:include src='/x'>y</esi:include>", FaultKind::UnexpectedContent),
        ("<esi:choose>x</esi:choose>", FaultKind::StrayContent),
        ("<esi:choose></esi:choose>", FaultKind::BadChoose),
        ("<esi:choose><esi:otherwise>x</esi:otherwise></esi:choose>", FaultKind::BadChoose),
        ("<esi:try><esi:attempt>x</esi:attempt></esi:try>", FaultKind::BadTry),
        ("<esi:except>x</esi:except>", FaultKind::Misplaced),
        ("<esi:choose><esi:when test=\"1=1\">x</esi:when></esi:choose>", FaultKind::BadExpression),
        ("<esi:choose><esi:when test=\"1==\">x</esi:when></esi:choose>", FaultKind::BadExpression),
        ("<esi:choose><esi:when test=\"(1==1\">x</esi:when></esi:choose>", FaultKind::BadExpression),
        ("<esi:choose><esi:when test=\"1==1 1\">x</esi:when></esi:choose>", FaultKind::BadExpression),
        ("<esi:include src='$(HTTP_COOKIE)'/>", FaultKind::BadVariable),
        ("<esi:include src='$(HTTP_HOST{a})'/>", FaultKind::BadVariable),
        ("<esi:inline name='/x' fetchable='yes'>y</esi:inline>", FaultKind::InlineRefused),
        ("<esi:inline name='/x' fetchable='maybe'>y</esi:inline>", FaultKind::BadValue),
        ("<esi:inline fetchable='no'>y</esi:inline>", FaultKind::MissingAttribute),
    ];
    for (markup, kind) in cases {
        let template = format!("before {markup}");
        let program = Program::parse(template.as_bytes(), &Limits::default()).unwrap();
        let kinds: Vec<_> = program.faults().iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [kind], "{markup}");
        assert_eq!(program.faults()[0].at, 7, "{markup}");
        assert_eq!(with_values(&template), template);
    }
}

#[test]
fn template_that_is_the_same_for_all_is_known() {
    let is_same =
        |template: &str| Program::parse(template.as_bytes(), &Limits::default()).unwrap().is_same_for_all();
    assert!(is_same("a<esi:include src='/a' alt='/b'/><esi:remove>$(HTTP_HOST)</esi:remove>$(HTTP_HOST)"));
    for template in [
        "<esi:vars>$(HTTP_HOST)</esi:vars>",
        "<esi:include src='/$(QUERY_STRING)'/>",
        "<esi:include src='/a' alt='/$(HTTP_REFERER)'/>",
        "<esi:choose><esi:when test='1==1'>a</esi:when></esi:choose>",
    ] {
        assert!(!is_same(template), "{template}");
    }
}

#[test]
fn template_without_markup_is_known() {
    let is_plain =
        |template: &str| Program::parse(template.as_bytes(), &Limits::default()).unwrap().has_no_markup();
    assert!(["", "<p>text", "<!-- esi --><esix:include/>"].into_iter().all(is_plain));
    let marked = [
        "<esi:remove>x</esi:remove>",
        "a<esi:comment text=''/>",
        "<esi:include>",
        "<!--esi a-->",
        "a</esi:vars>",
    ];
    assert!(!marked.into_iter().any(is_plain));
}

#[test]
fn unknown_attribute_is_noted_and_ignored() {
    let template = b"<esi:include src='/x' ttl='1d'/>";
    let program = Program::parse(template, &Limits::default()).unwrap();
    assert_eq!(program.faults()[0].kind, FaultKind::UnknownAttribute);
    assert_eq!(with_values("<esi:include src='/x' ttl='1d'/>"), "{/x}");
}

#[test]
fn broken_start_tag_does_not_swallow_the_next_tag() {
    assert_eq!(with_values("<esi:vars \"<esi:include src='/x'/>"), "<esi:vars \"{/x}");
    assert_eq!(with_values("<esi:vars><esi:choose></esi:vars>x"), "<esi:choose>x");
}

#[test]
fn markup_in_the_text_of_a_comment_is_no_element() {
    let texts = [
        "<esi:include src='/secret'/>",
        "</esi:vars><esi:include src='/secret'/><esi:vars>",
        "<!--esi <esi:include src='/secret'/>-->",
        "a > <esi:try><esi:attempt>",
    ];
    for text in texts {
        assert_eq!(with_values(&format!("a<esi:comment text=\"{text}\"/>b")), "ab", "{text}");
        let within = format!("<esi:vars>$(HTTP_HOST)<esi:comment text=\"{text}\"/></esi:vars>b");
        assert_eq!(with_values(&within), "a.testb", "{text}");
    }
    // A quotation mark ends the text, as it ends any attribute: it must be written as `&quot;`.
    let escaped = "a<esi:comment text=\"&quot;/>&lt;esi:include src='/secret'/>\"/>b";
    assert_eq!(with_values(escaped), "ab");
}

#[test]
fn fragments_ahead_are_those_that_the_request_needs() {
    let template =
        b"<esi:include src='/1'/><esi:choose><esi:when test='1==2'><esi:include src='/2'/></esi:when>\
        <esi:otherwise><esi:include src='/3'/></esi:otherwise></esi:choose><esi:try><esi:attempt>\
        <esi:include src='/4'/></esi:attempt><esi:except><esi:include src='/5'/></esi:except></esi:try>";
    let program = Program::parse(template, &Limits::default()).unwrap();
    let ahead = Run::new(&program, template, Values::default()).ahead();
    let urls: Vec<_> = ahead.iter().map(|fetch| String::from_utf8_lossy(&fetch.src).into_owned()).collect();
    assert_eq!(urls, ["/1", "/3", "/4"]);
}

#[test]
fn limits_refuse_a_template() {
    let refused = |template: &str| Program::parse(template.as_bytes(), &Limits::default()).unwrap_err();
    assert_eq!(refused(&"x".repeat((1 << 20) + 1)), TemplateError::TooLong);
    assert_eq!(refused(&"<esi:include src='/x'/>".repeat(10_000)), TemplateError::TooManyIncludes);
    assert_eq!(refused(&"<esi:vars>$(HTTP_HOST)</esi:vars>".repeat(8193)), TemplateError::TooManyOperations);
    let deep = |depth| format!("{}{}", "<esi:vars>".repeat(depth), "</esi:vars>".repeat(depth));
    assert_eq!(refused(&deep(17)), TemplateError::TooDeep);
    assert!(Program::parse(deep(16).as_bytes(), &Limits::default()).is_ok());
}

#[test]
fn long_expressions_and_parentheses_are_refused() {
    for test in ["(".repeat(20) + "1==1" + &")".repeat(20), "!".repeat(1100) + "1==1"] {
        let template = format!("<esi:choose><esi:when test=\"{test}\">x</esi:when></esi:choose>");
        assert_eq!(with_values(&template), template);
    }
}

#[test]
fn long_values_and_urls_count_as_missing() {
    let query = format!("a={}&b={}", "x".repeat(4097), "y".repeat(4000));
    let values = Values { query: query.as_bytes(), ..Values::default() };
    let page =
        |template: &[u8]| support::page(template, values, |url| Some(url.len().to_string().into_bytes()));
    assert_eq!(page(b"<esi:vars>[$(QUERY_STRING{a})]</esi:vars>").unwrap(), b"[]");
    assert_eq!(page(b"<esi:include src='$(QUERY_STRING{b})$(QUERY_STRING{b})'/>").unwrap(), b"0");
}

#[test]
fn many_broken_tags_take_linear_time() {
    // Quadratic work would take minutes here, and the harness would report it.
    let broken =
        ["<esi:vars>", "</esi:vars>", "<esi:vars \"", "<esi:choose>", "<!--esi ", "<esi:a '\"<esi:b' "];
    for tag in broken {
        let template = tag.repeat((1 << 20) / tag.len());
        let program = Program::parse(template.as_bytes(), &Limits::default()).unwrap();
        assert!(program.fault_count() > 80_000, "{tag}");
    }
}
