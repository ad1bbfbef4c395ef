//! Renders docs/conformance.md: the scores of the last runs, the published scores of other caches,
//! and the reason for each test that does not pass.
//!
//! Invariant: the page contains only results of runs, published scores, and reasons from the files
//! of expected results. Rendering fails if a run does not match the expected results.

use super::TestedProfile;
use super::expected::Expected;
use super::report::TestWeight;
use super::scores::{PATH, ScoredRun, Scores};
use super::suite::Edition;
use anyhow::{Result, ensure};
use std::fmt::Write;

const HEAD: &str = "\
# Conformance

This page has Petasos' scores in the public test suite for HTTP caches, the scores of other caches,
and the reason for each test that does not pass. `cargo xtask conformance` runs this suite,
[http-cache-tests](https://github.com/http-tests/cache-tests), against the real binary. The suite's
origin server is behind Petasos, the suite's client is in front of it, and the suite's code scores
the results. A test does not pass if a test that it depends on does not. Tests for browsers only are
left out. A run fails on any difference from the files of expected results, in either direction.

    cargo xtask conformance                         the npm package, both profiles, three protocols, and h2spec: two minutes
    cargo xtask conformance --protocol http2        the npm package over HTTP/2, and h2spec
    cargo xtask conformance --suite DIR             a checkout of the suite: a minute; needs Node.js 20.18.1 or newer
    cargo xtask conformance --profile rfc --id TEST one test, with the messages that client and origin saw
    cargo xtask conformance --write                 keeps the scores, if all is as expected

*Required* tests follow from the specifications. *Optional* tests show abilities that a cache may
have. *Checks* ask for the behaviour of a cache, and no answer is wrong.

The profile `rfc` follows the specifications to the letter. The profile `default` is for an unknown
application. It refuses behaviour that the specifications allow but that harms real applications. It
passes every request with a field that it does not know, and each request of the suite has three
unknown fields. The configuration for the suite, `conformance/default.toml`, therefore declares the
suite's fields with `forwarded_fields`, as an operator declares trace identifiers.

The suite speaks HTTP/1.1, HTTP/1.1 over TLS, and HTTP/2 over TLS. Over each protocol the results
must be the same. Over TLS, Petasos also passes all 146 cases of
[h2spec](https://github.com/summerwind/h2spec) 2.2.1, with the strict ones.

The npm package is an older edition of the suite. Some of its tests contradict tests of
the current edition.

`cargo xtask docs` renders this page from `conformance/scores.toml`, which the runs write, and from
the reasons in `conformance/expected-git.toml` and `conformance/expected-npm.toml`.
";

const PEERS_HEAD: &str = "
## Beside other caches

The suite publishes results of other caches, most recently on 2025-12-29. This table scores them
with the suite's current code, like Petasos. Scores of the two editions of the suite cannot be
compared, because their tests differ. A proxy that stores nothing passes 22 required tests.

| cache | version | required | optional | check |
|---|---|---|---|---|
";

/// Published results: name, version, passed required tests (of 160), passed optional tests (of
/// 105), and checks answered with yes (of 100). A test does not pass if a test that it depends on
/// failed.
const PEERS: &[(&str, &str, u32, u32, u32)] = &[
    ("Apache Traffic Server", "9.2.5", 132, 70, 45),
    ("Apache httpd", "2.4.64", 131, 68, 44),
    ("Squid", "6.13", 122, 59, 62),
    ("Caddy with cache-handler", "0.16.0", 121, 44, 27),
    ("Varnish", "7.7.3", 119, 45, 27),
    ("nginx", "1.28.0", 99, 59, 19),
    ("Fastly", "2025-12-29", 96, 49, 17),
    ("HAProxy", "3.0.10", 89, 40, 33),
];

/// Renders the page.
///
/// # Errors
/// If a file cannot be read or parsed, or if the scores do not match the expected results.
pub(crate) fn render() -> Result<String> {
    let scores = Scores::read()?;
    let mut page = HEAD.to_owned();
    page.push_str(&own_scores(&scores));
    page.push_str(&beside_others(&scores));
    for edition in Edition::ALL {
        for profile in TestedProfile::ALL {
            let tested = scores.runs.iter().any(|run| (run.edition, run.profile) == (edition, profile));
            ensure!(
                tested,
                "{PATH} has no run of the {} edition, profile {}",
                edition.name(),
                profile.name()
            );
        }
        let runs: Vec<&ScoredRun> = scores.runs.iter().filter(|run| run.edition == edition).collect();
        let expected = Expected::read(edition)?;
        for run in &runs {
            agree(run, &expected)?;
        }
        page.push_str(&misses(&runs, &expected));
    }
    Ok(page)
}

/// Fails unless exactly the expected tests did not pass in the run.
fn agree(run: &ScoredRun, expected: &Expected) -> Result<()> {
    let mut missed: Vec<&str> =
        TestWeight::ALL.iter().flat_map(|kind| run.missed.of(*kind)).map(String::as_str).collect();
    missed.sort_unstable();
    ensure!(
        missed.into_iter().eq(expected.tests(run.profile)),
        "{PATH} is not of what conformance/expected-{}.toml expects for the profile {}: run `cargo xtask conformance \
         --write`, for the npm package and with --suite",
        run.edition.name(),
        run.profile.name()
    );
    Ok(())
}

fn own_scores(scores: &Scores) -> String {
    let mut text =
        "\n## Scores\n\n| suite | profile | required | optional | check |\n|---|---|---|---|---|\n"
            .to_owned();
    for run in &scores.runs {
        let required = run.score.required;
        let optional = run.score.optional;
        let check = run.score.check;
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | `{}` | **{}** of {} | **{}** of {} | {} of {} yes |",
            run.suite,
            run.profile.name(),
            required.passed,
            required.of,
            optional.passed,
            optional.of,
            check.passed,
            check.of
        );
    }
    text
}

/// Petasos and the caches with published results, the best first.
fn beside_others(scores: &Scores) -> String {
    let own = scores.runs.iter().filter(|run| run.edition == Edition::Git).map(|run| {
        let name = format!("Petasos, profile `{}`", run.profile.name());
        (
            name,
            env!("CARGO_PKG_VERSION"),
            run.score.required.passed,
            run.score.optional.passed,
            run.score.check.passed,
        )
    });
    let peers = PEERS.iter().map(|&(name, version, required, optional, check)| {
        (name.to_owned(), version, required, optional, check)
    });
    let mut rows: Vec<_> = own.chain(peers).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.2, row.3)));
    let mut text = PEERS_HEAD.to_owned();
    for (name, version, required, optional, check) in rows {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "| {name} | {version} | {required} | {optional} | {check} |");
    }
    text
}

/// All tests of an edition that did not pass. There is a table for each kind (required, optional,
/// check) and a row for each reason.
fn misses(runs: &[&ScoredRun], expected: &Expected) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let mut text = format!("\n## Tests that do not pass: {}\n", first.suite);
    for kind in TestWeight::ALL {
        let rows = rows(runs, kind, expected);
        if rows.is_empty() {
            continue;
        }
        // Writing into a String cannot fail.
        let _ = write!(text, "\n### {}\n\n| test | profile | reason |\n|---|---|---|\n", title(kind));
        for MissedRow { tests, profiles, reason } in rows {
            let profiles: Vec<_> = profiles.iter().map(|profile| format!("`{}`", profile.name())).collect();
            let tests: Vec<_> = tests.iter().map(|id| format!("`{id}`")).collect();
            let _ = writeln!(text, "| {} | {} | {} |", tests.join(", "), profiles.join(", "), cell(reason));
        }
    }
    text
}

/// Tests that do not pass in the same profiles for the same reason.
struct MissedRow<'a> {
    tests: Vec<&'a str>,
    profiles: Vec<TestedProfile>,
    reason: &'a str,
}

/// Rows for the tests of one kind, in the suite's order.
fn rows<'a>(runs: &[&'a ScoredRun], kind: TestWeight, expected: &'a Expected) -> Vec<MissedRow<'a>> {
    let mut tests: Vec<&str> = Vec::new();
    for id in runs.iter().flat_map(|run| run.missed.of(kind)) {
        if !tests.contains(&id.as_str()) {
            tests.push(id);
        }
    }
    let mut rows: Vec<MissedRow<'_>> = Vec::new();
    for id in tests {
        let missed = runs.iter().filter(|run| run.missed.of(kind).iter().any(|missed| missed == id));
        let missed: Vec<(TestedProfile, &str)> =
            missed.filter_map(|run| Some((run.profile, expected.reason(run.profile, id)?))).collect();
        // One row if the reason is the same in all profiles, otherwise one row for each.
        for same in missed.chunk_by(|one, other| one.1 == other.1) {
            let profiles: Vec<TestedProfile> = same.iter().map(|(profile, _)| *profile).collect();
            let Some((_, reason)) = same.first() else { continue };
            match rows.iter_mut().find(|row| row.profiles == profiles && row.reason == *reason) {
                Some(row) => row.tests.push(id),
                None => rows.push(MissedRow { tests: vec![id], profiles, reason }),
            }
        }
    }
    rows
}

const fn title(kind: TestWeight) -> &'static str {
    match kind {
        TestWeight::Required => "Required",
        TestWeight::Optional => "Optional",
        TestWeight::Check => "Checks answered no",
    }
}

/// Makes a text fit into a table cell: on one line and with escaped bars.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::TestedProfile;
    use super::super::expected::Expected;
    use super::super::report::tests::test;
    use super::super::report::{SuiteReport, TestOutcome, TestWeight};
    use super::super::scores::Scores;
    use super::super::suite::Edition;
    use super::{agree, beside_others, misses};

    /// A profile, with tests and their outcomes.
    type ProfileOutcomes<'a> = (TestedProfile, &'a [(&'a str, TestWeight, TestOutcome)]);

    fn scores(profiles: &[ProfileOutcomes<'_>]) -> Scores {
        let mut scores = Scores::default();
        for (profile, tests) in profiles {
            let tests = tests.iter().map(|(id, kind, outcome)| test(id, *kind, *outcome)).collect();
            scores.keep(Edition::Git, "suite 1", *profile, &SuiteReport { tests });
        }
        scores
    }

    fn expected(text: &str) -> Expected {
        Expected::parse("x.toml", text).unwrap()
    }

    #[test]
    fn every_missed_test_is_listed_with_its_reason() {
        use TestOutcome::{Fail, No, SetupFail, Yes};
        let check = |id, outcome| (id, TestWeight::Check, outcome);
        let scores = scores(&[
            (
                TestedProfile::Rfc,
                &[("a", TestWeight::Required, SetupFail), check("c", No), check("b", No), check("d", Yes)],
            ),
            (
                TestedProfile::Default,
                &[("a", TestWeight::Required, Fail), check("c", No), check("b", No), check("d", No)],
            ),
        ]);
        let expected = expected(
            "[[miss]]\nreason = '''One|two\nlines.'''\nrfc = ['a', 'b', 'c']\ndefault = ['b', 'c', 'd']\n\
             [[miss]]\nreason = 'Other.'\ndefault = ['a']\n",
        );
        let runs: Vec<_> = scores.runs.iter().collect();
        let text = misses(&runs, &expected);
        assert!(
            text.contains("| `a` | `rfc` | One\\|two lines. |\n| `a` | `default` | Other. |\n"),
            "{text}"
        );
        assert!(text.contains("| `c`, `b` | `rfc`, `default` | One\\|two lines. |\n"), "{text}");
        assert!(text.contains("| `d` | `default` | One\\|two lines. |\n"), "{text}");
        runs.iter().for_each(|run| agree(run, &expected).unwrap());
    }

    #[test]
    fn scores_that_differ_from_expected_misses_fail() {
        let scores = scores(&[(TestedProfile::Rfc, &[("a", TestWeight::Required, TestOutcome::Fail)])]);
        for text in ["", "[[miss]]\nreason = 'It is.'\nrfc = ['a', 'b']\n"] {
            assert!(agree(&scores.runs[0], &expected(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn caches_are_sorted_by_their_scores() {
        let tests: Vec<_> = (0..130).map(|_| ("a", TestWeight::Required, TestOutcome::Pass)).collect();
        let text = beside_others(&scores(&[(TestedProfile::Default, &tests)]));
        let place = |name: &str| text.find(name).unwrap();
        assert!(
            place("| Apache httpd") < place("| Petasos") && place("| Petasos") < place("| Squid"),
            "{text}"
        );
    }
}
