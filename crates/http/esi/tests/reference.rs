//! Pages equal those of a slow and obvious interpreter of trees, for generated templates.

mod support;

use petasos_esi::Values;
use proptest::collection::vec;
use proptest::prelude::*;
use support::GAP;

/// A template as a tree.
#[derive(Clone, Debug)]
enum Node {
    /// Text without markup or variables.
    Plain(String),
    /// `$(QUERY_STRING{a})`, with a default.
    Query(Option<String>),
    Include {
        src: u8,
        alt: Option<u8>,
        continues: bool,
    },
    Comment,
    Remove(Vec<Self>),
    Hidden(Vec<Self>),
    Vars(Vec<Self>),
    Inline(Vec<Self>),
    Choose(Vec<(Test, Vec<Self>)>, Option<Vec<Self>>),
    Try(Vec<Self>, Vec<Self>),
    /// Markup that must be delivered as it is.
    Broken(String),
}

#[derive(Clone, Debug)]
enum Test {
    /// Whether the parameter `a` compares like this with a number.
    Compare(&'static str, i8),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

/// Fragments with an odd number fail.
fn fragment(number: u8) -> Option<String> {
    number.is_multiple_of(2).then(|| format!("<esi:include src=\"/{number}\"/>$(HTTP_HOST)"))
}

impl Test {
    fn written(&self) -> String {
        match self {
            Self::Compare(operator, number) => format!("$(QUERY_STRING{{a}}){operator}{number}"),
            Self::Not(inner) => format!("!({})", inner.written()),
            Self::And(left, right) => format!("({}) & ({})", left.written(), right.written()),
            Self::Or(left, right) => format!("({})|({})", left.written(), right.written()),
        }
    }

    fn holds(&self, a: Option<i8>) -> bool {
        match self {
            Self::Compare(operator, number) => a.is_some_and(|a| match *operator {
                "==" => a == *number,
                "!=" => a != *number,
                "&lt;" => a < *number,
                _ => a >= *number,
            }),
            Self::Not(inner) => !inner.holds(a),
            Self::And(left, right) => left.holds(a) && right.holds(a),
            Self::Or(left, right) => left.holds(a) || right.holds(a),
        }
    }
}

fn written(nodes: &[Node]) -> String {
    nodes.iter().map(Node::written).collect()
}

impl Node {
    fn written(&self) -> String {
        match self {
            Self::Plain(text) | Self::Broken(text) => text.clone(),
            Self::Query(None) => "$(QUERY_STRING{a})".to_owned(),
            Self::Query(Some(default)) => format!("$(QUERY_STRING{{a}}|'{default}')"),
            Self::Include { src, alt, continues } => {
                let alt = alt.map(|alt| format!(" alt='/{alt}'")).unwrap_or_default();
                let onerror = if *continues { " onerror=\"continue\"" } else { "" };
                format!("<esi:include{onerror} src=\"/{src}\"{alt}/>")
            }
            Self::Comment => "<esi:comment text=\"a > <esi:include src='/2'/></esi:vars>b\"/>".to_owned(),
            Self::Remove(inner) => format!("<esi:remove>{}</esi:remove>", written(inner)),
            Self::Hidden(inner) => format!("<!--esi {}-->", written(inner)),
            Self::Vars(inner) => format!("<esi:vars>{}</esi:vars>", written(inner)),
            Self::Inline(inner) => {
                format!("<esi:inline name='/i' fetchable=\"no\">{}</esi:inline>", written(inner))
            }
            Self::Choose(whens, otherwise) => {
                let mut text = "<esi:choose>\n".to_owned();
                for (test, inner) in whens {
                    text += &format!("<esi:when test=\"{}\">{}</esi:when> ", test.written(), written(inner));
                }
                if let Some(inner) = otherwise {
                    text += &format!("<esi:otherwise>{}</esi:otherwise>", written(inner));
                }
                text + "</esi:choose>"
            }
            Self::Try(attempt, except) => format!(
                "<esi:try><esi:attempt>{}</esi:attempt><esi:except>{}</esi:except></esi:try>",
                written(attempt),
                written(except)
            ),
        }
    }

    /// Appends the output. `None` if an include of an attempt has failed.
    fn walk(&self, a: Option<i8>, in_vars: bool, in_attempt: bool, out: &mut String) -> Option<()> {
        match self {
            Self::Plain(text) | Self::Broken(text) => out.push_str(text),
            Self::Query(_) if !in_vars => out.push_str(&self.written()),
            Self::Query(default) => match a {
                Some(a) => out.push_str(&a.to_string()),
                None => out.push_str(default.as_deref().unwrap_or_default()),
            },
            Self::Include { src, alt, continues } => {
                match fragment(*src).or_else(|| alt.and_then(fragment)) {
                    Some(content) => out.push_str(&content),
                    None if *continues => {}
                    None if in_attempt => return None,
                    None => out.push_str(&String::from_utf8_lossy(GAP)),
                }
            }
            Self::Comment | Self::Remove(_) => {}
            // One white space byte follows the mark and is content.
            Self::Hidden(inner) => {
                out.push(' ');
                walk(inner, a, in_vars, in_attempt, out)?;
            }
            Self::Vars(inner) => walk(inner, a, true, in_attempt, out)?,
            Self::Inline(inner) => walk(inner, a, in_vars, in_attempt, out)?,
            Self::Choose(whens, otherwise) => {
                let chosen = whens.iter().find(|(test, _)| test.holds(a)).map(|(_, inner)| inner);
                if let Some(inner) = chosen.or(otherwise.as_ref()) {
                    walk(inner, a, in_vars, in_attempt, out)?;
                }
            }
            Self::Try(attempt, except) => {
                let mut tried = String::new();
                match walk(attempt, a, in_vars, true, &mut tried) {
                    Some(()) => out.push_str(&tried),
                    None => walk(except, a, in_vars, in_attempt, out)?,
                }
            }
        }
        Some(())
    }
}

fn walk(nodes: &[Node], a: Option<i8>, in_vars: bool, in_attempt: bool, out: &mut String) -> Option<()> {
    nodes.iter().try_for_each(|node| node.walk(a, in_vars, in_attempt, out))
}

fn tests() -> impl Strategy<Value = Test> {
    let operators = prop_oneof![Just("=="), Just("!="), Just("&lt;"), Just(">=")];
    let leaf = (operators, -3..4_i8).prop_map(|(operator, number)| Test::Compare(operator, number));
    leaf.prop_recursive(3, 8, 2, |inner| {
        let pair = (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            inner.prop_map(|test| Test::Not(Box::new(test))),
            pair.clone().prop_map(|(left, right)| Test::And(left, right)),
            pair.prop_map(|(left, right)| Test::Or(left, right)),
        ]
    })
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let broken = prop_oneof![
        Just("<esi:unknown a=\"$(HTTP_HOST)\"/>"),
        Just("<esi:include alt='/2'/>"),
        Just("<esi:include src='/2' src='/4'/>"),
        Just("<esi:include src='/$(NOTHING)'/>"),
        Just("<esi:include src='/2'>x</esi:include>"),
        Just("<esi:when test=\"1==1\">x<esi:remove>y</esi:remove></esi:when>"),
        Just("<esi:choose>x<esi:when test=\"1==1\">y</esi:when></esi:choose>"),
        Just("<esi:choose><esi:when test=\"1=1\"><esi:comment text=''/></esi:when></esi:choose>"),
        Just("<esi:try><esi:attempt>x</esi:attempt></esi:try>"),
        Just("<esi:inline name='/x' fetchable='yes'>y</esi:inline>"),
        Just("</esi:comment>"),
    ];
    let leaf = prop_oneof![
        "[ a-z\n<>&'\"/]{0,8}".prop_map(Node::Plain),
        proptest::option::of("[a-z]{1,4}").prop_map(Node::Query),
        (0..6_u8, proptest::option::of(0..6_u8), any::<bool>())
            .prop_map(|(src, alt, continues)| Node::Include { src, alt, continues }),
        Just(Node::Comment),
        broken.prop_map(|text| Node::Broken(text.to_owned())),
    ];
    let tree = leaf.prop_recursive(4, 24, 4, |inner| {
        let some = || vec(inner.clone(), 0..4);
        prop_oneof![
            some().prop_map(Node::Remove),
            // A comment within a comment would end the outer one.
            some()
                .prop_filter("no comment within", |nodes| !written(nodes).contains("<!--esi"))
                .prop_map(Node::Hidden),
            some().prop_map(Node::Vars),
            some().prop_map(Node::Inline),
            (vec((tests(), some()), 1..3), proptest::option::of(some()))
                .prop_map(|(whens, otherwise)| Node::Choose(whens, otherwise)),
            (some(), some()).prop_map(|(attempt, except)| Node::Try(attempt, except)),
        ]
    });
    vec(tree, 0..6)
}

proptest! {
    #[test]
    fn pages_equal_those_of_the_reference(nodes in nodes(), a in proptest::option::of(-3..4_i8)) {
        let (template, mut expected) = (written(&nodes), String::new());
        walk(&nodes, a, false, false, &mut expected).expect("no include is in an attempt here");
        let query = a.map(|a| format!("x=9&a={a}")).unwrap_or_default();
        let values = Values { query: query.as_bytes(), ..Values::default() };
        let fetched = |url: &[u8]| {
            let number = std::str::from_utf8(url).ok()?.strip_prefix('/')?.parse().ok()?;
            fragment(number).map(String::into_bytes)
        };
        let page = support::page(template.as_bytes(), values, fetched).expect("it is within the limits");
        prop_assert_eq!(String::from_utf8_lossy(&page), expected, "of {}", template);
    }

    #[test]
    fn any_bytes_keep_the_invariants(octets in vec(any::<u8>(), 0..200)) {
        support::check(&octets);
    }

    #[test]
    fn any_markup_keeps_the_invariants(parts in vec(proptest::sample::select(&[
        "<esi:", "</esi:", "<!--esi ", "-->", "include", "choose>", "when test=\"1==1\">", "try>", "attempt>",
        "except>", "vars>", "remove>", " src=\"/a\"", "inline name='a'>", "/>", ">", "\"", "'", "$(", "QUERY_STRING{a}", ")", "|", "x",
    ][..]), 0..40)) {
        support::check(parts.concat().as_bytes());
    }
}

#[test]
fn seeds_of_the_fuzz_target_keep_the_invariants() {
    let seeds = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/template")).unwrap();
    let mut count = 0;
    for seed in seeds {
        support::check(&std::fs::read(seed.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 4, "{count} seeds");
}
