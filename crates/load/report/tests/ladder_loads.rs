//! Loads other than the anonymous one in the text report and on the page: the place of each figure,
//! and the parts left out without data.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

mod common;

use common::made_up;
use petasos_report::html::page;
use petasos_report::results::{
    BystanderRecord, CellRecord, LoadRecord, Measured, MeterRecord, ResponseTimes, Results, VerdictRecord,
    VisitOutcome, VisitorRecord, WriteRecord,
};
use petasos_report::summary::{NamedFigure, cell_result};

/// The report with all figures.
fn text(results: &Results, width: usize) -> String {
    petasos_report::table::text(results, width, true)
}

/// Number of rounds: enough for a median that differs from a mean.
const ROUNDS: u64 = 3;

/// Changes every measured run of a cell. `change` receives the position of the round, counted from
/// 0.
fn each_run(cell: &mut CellRecord, mut change: impl FnMut(usize, &mut Measured)) {
    for (round, run) in cell.runs.iter_mut().enumerate() {
        let VisitOutcome::Measured(measured) = &mut run.outcome else { continue };
        change(round, measured);
    }
}

/// A cell of the further load, with the runs of the step's own cell.
fn under_load(results: &Results, step: &str) -> CellRecord {
    let mut cell = results.cells.iter().find(|cell| cell.id == step).unwrap().clone();
    cell.id = format!("{step}-editors");
    cell.ab = String::new();
    each_run(&mut cell, |_, measured| {
        measured.visitors = vec![visitor("anonymous", measured.answers, 0, None)];
    });
    cell
}

fn visitor(name: &str, answers: u64, failed: u64, mean_ms: Option<f64>) -> VisitorRecord {
    VisitorRecord { name: name.to_owned(), answers, failed, mean_ms }
}

/// A verdict with its number of responses, its rate and its response times.
fn verdict(name: &str, answers: u64, per_s: f64, mean_ms: f64) -> VerdictRecord {
    let response = ResponseTimes {
        mean_ms,
        p50_ms: mean_ms + 1.0,
        p95_ms: mean_ms + 2.0,
        p99_ms: mean_ms + 3.0,
        ..ResponseTimes::default()
    };
    VerdictRecord { name: name.to_owned(), answers, per_s, response: Some(response) }
}

/// Gives a run all parts that a load can have: two kinds of visitors, two verdicts, a write that
/// failed once, and a twin.
fn full(round: usize, measured: &mut Measured) {
    let hits = [700, 750, 900][round];
    let per_s = [500.0, 300.0, 400.0][round];
    let mean_ms = [5.0, 1.0, 2.0][round];
    measured.answers = 1_000;
    measured.verdicts = vec![
        verdict("hit", hits, per_s, mean_ms),
        verdict("pass", 1_000 - hits, per_s / 10.0, mean_ms + 40.0),
    ];
    measured.visitors = vec![
        visitor("anonymous", 800, 0, Some(mean_ms)),
        visitor("<editor> & co", 200, round as u64, Some(mean_ms + 40.0)),
    ];
    measured.writes = vec![WriteRecord {
        name: "<comment>".to_owned(),
        took_ms: vec![30.0, 31.0],
        failed: u64::from(round == 1),
        first_failure: (round == 1).then(|| "status 500".to_owned()),
    }];
    measured.bystander = bystander(71.0, 51.0, 0);
    measured.twin = Some(bystander(93.0, 82.0, u64::from(round == 2)));
    measured.meters[0].per_page = Some(0.125);
}

fn bystander(loaded_ms: f64, idle_ms: f64, failed: u64) -> BystanderRecord {
    BystanderRecord {
        loaded_ms: vec![loaded_ms; 2],
        unanswered_ms: Vec::new(),
        failed,
        idle_ms: vec![idle_ms],
    }
}

/// A ladder with a further load on three steps. The first is void, the second has only the figures
/// of every load, the third has all figures.
fn with_load() -> Results {
    let mut results = made_up(ROUNDS);
    let mut cells = ["none", "page-cache", "petasos"].map(|step| under_load(&results, step));
    cells[0].runs[1].outcome =
        VisitOutcome::Void { reason: "<editor> got somebody else's page".to_owned(), is_silent: false };
    each_run(&mut cells[2], full);
    results.loads.push(LoadRecord {
        id: "editors".to_owned(),
        title: "Editors & <readers>".to_owned(),
        about: Some("One in five has <b>logged in</b>.".to_owned()),
        cells: cells.into(),
    });
    results
}

/// Results with a further load on these steps, which has only the figures of every load.
fn with_bare_load(rounds: u64, steps: &[&str]) -> Results {
    let mut results = made_up(rounds);
    let cells = steps.iter().map(|step| under_load(&results, step)).collect();
    let id = "editors".to_owned();
    let title = "Editors".to_owned();
    results.loads.push(LoadRecord { id, title, about: None, cells });
    results
}

/// Makes every run of these cells void.
fn make_void(cells: &mut [CellRecord]) {
    for run in cells.iter_mut().flat_map(|cell| &mut cell.runs) {
        run.outcome = VisitOutcome::Void { reason: "the door was locked".to_owned(), is_silent: false };
    }
}

/// The section of the only further load.
fn load_of(text: &str) -> &str {
    let start = text.find("\nLoad: ").unwrap() + 1;
    let end = text.find("\nEach figure is").unwrap();
    let section = &text[start..end];
    section.split("\n* fewer").next().unwrap()
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

/// A section of the page.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("<section id=\"{id}\">")).unwrap();
    after.split_once("</section>").unwrap().0
}

/// The texts of all elements of a kind, without inner markup.
fn texts(html: &str, element: &str) -> Vec<String> {
    let open = format!("<{element}");
    let close = format!("</{element}>");
    // `<path` begins like `<p`, so the next character decides.
    let is_whole = |after: &&str| after.starts_with([' ', '>']);
    let inner = |after: &str| bare(&format!("<{}", after.split_once(&close).unwrap().0));
    html.split(&open).skip(1).filter(is_whole).map(inner).collect()
}

fn bare(html: &str) -> String {
    let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect()
}

/// The rows of each table, with the head: one text per row.
fn tables(html: &str) -> Vec<Vec<String>> {
    let row = |row: &str| {
        let cells = row.replace("</th>", " | ").replace("</td>", " | ").replace("\u{ad}", "");
        bare(&cells).trim_end_matches(" | ").to_owned()
    };
    let rows = |table: &str| table.split("<tr").skip(1).map(|part| row(&format!("<tr{part}"))).collect();
    html.split("<table").skip(1).map(|part| rows(part.split_once("</table>").unwrap().0)).collect()
}

#[test]
fn the_text_of_a_load_has_each_figure_at_its_place() {
    let text = text(&with_load(), 80);
    assert!(widest(&text) <= 80, "{text}");
    insta::assert_snapshot!(load_of(&text));
}

#[test]
fn report_with_a_load_fits_every_width() {
    let results = with_load();
    for width in 80..200 {
        assert!(widest(&text(&results, width)) <= width, "{width}");
    }
}

#[test]
fn page_section_of_a_load_has_each_figure_in_place() {
    let page = page(&with_load());
    let found = tables(section(&page, "load-editors"));
    let heads = "step | concurrency | caching | throughput, req/s | mean | 95% response | bytes a page | observed load | system load | failed \
                 | CPU a page | SQL queries a second | a page";
    let expected = [
        vec![
            heads,
            "1 | 2 | no cache | VOID round 2: &lt;editor&gt; got somebody else's page",
            "2 | 5 | page cache | 29.6* | 152 ms | 211 ms | 12.9 KiB | 3.1 | 3.8 | 0 | 64.0 ms | 40.0 | 1.35",
            "6 | 25 | Petasos | 21,800 | 1.47 ms | 2.04 ms | 562 KiB | 0.1 | 0.8 | 0 | 31.0 µs | 40.0 | 0.125",
        ],
        vec![
            "step | verdict | req/s | share | mean | 50% | 95% | 99%",
            "6 | hit | 400 | 75% | 2.00 ms | 3.00 ms | 4.00 ms | 5.00 ms",
            "6 | pass | 40.0 | 25% | 42.0 ms | 43.0 ms | 44.0 ms | 45.0 ms",
        ],
        vec![
            "step | anonymous, idle site | under load | logged in, idle site | under load",
            "2 | 61.0 ms | 341 ms | – | –",
            "6 | 51.0 ms | 71.0 ms | 82.0 ms | 93.0 ms",
        ],
    ];
    assert_eq!(found, expected);
}

#[test]
fn page_section_of_a_load_reports_visitors_and_writes() {
    let page = page(&with_load());
    let notes = texts(section(&page, "load-editors"), "p");
    let who = "Step 6: anonymous 2,400 good, 0 failed or not theirs, mean 2.00 ms; \
               &lt;editor&gt; &amp; co 600 good, 3 failed or not theirs, mean 42.0 ms; \
               &lt;comment&gt; written 6 times, 1 failed, 95% 31.0 ms.";
    assert!(notes.iter().any(|note| note == who), "{notes:#?}");
    assert!(
        notes.iter().any(|note| note == "Step 2: anonymous 178 good, 0 failed or not theirs."),
        "{notes:#?}"
    );
    assert!(!notes.iter().any(|note| note.starts_with("Step 1")), "a void step served nobody: {notes:#?}");
}

#[test]
fn names_of_a_load_are_escaped() {
    let page = page(&with_load());
    let section = section(&page, "load-editors");
    assert_eq!(texts(section, "h2"), ["Load: Editors &amp; &lt;readers&gt;"]);
    assert!(
        section.contains("<p class=\"note\">One in five has &lt;b&gt;logged in&lt;/b&gt;.</p>"),
        "{section}"
    );
    assert!(section.contains("aria-label=\"Editors &amp; &lt;readers&gt;\""), "{section}");
    for markup in ["<readers", "<b>", "<editor", "<comment"] {
        assert!(!page.contains(markup), "{markup}");
    }
}

#[test]
fn void_cell_spans_all_columns_of_figures() {
    let page = page(&with_load());
    let columns = tables(section(&page, "load-editors"))[0][0].matches(" | ").count() + 1;
    let named = 3;
    assert!(section(&page, "load-editors").contains(&format!("colspan=\"{}\"", columns - named)));
}

#[test]
fn load_without_verdicts_twin_and_meters_has_no_tables_of_them() {
    let mut results = with_bare_load(ROUNDS, &["petasos"]);
    each_run(&mut results.loads[0].cells[0], |_, measured| {
        measured.meters.clear();
        // Responses without any verdict make no table either.
        measured.verdicts = vec![verdict("none", measured.answers, measured.throughput_per_s, 1.0)];
    });
    let text = text(&results, 80);
    insta::assert_snapshot!(load_of(&text));
    let page = page(&results);
    let section = section(&page, "load-editors");
    let heads = "step | concurrency | caching | throughput, req/s | mean | 95% response | bytes a page | observed load | system load | failed \
                 | CPU a page";
    assert_eq!(
        tables(section),
        [[heads, "6 | 25 | Petasos | 21,800 | 1.47 ms | 2.04 ms | 12.9 KiB | 0.1 | 0.8 | 0 | 31.0 µs"]]
    );
    assert_eq!(texts(section, "p"), ["Step 6: anonymous 132,108 good, 0 failed or not theirs."]);
    assert!(!page.contains("id=\"verdicts\"") && !text.contains("verdict of the nearest cache"));
}

#[test]
fn ladder_without_further_loads_has_no_load_sections() {
    let results = made_up(ROUNDS);
    assert!(!text(&results, 80).contains("Load: "));
    let page = page(&results);
    assert!(!page.contains("<section id=\"load-"));
    assert!(!page.contains("id=\"verdicts\""));
}

#[test]
fn anonymous_load_has_tables_of_verdicts_and_twin() {
    let mut results = made_up(ROUNDS);
    each_run(results.cells.iter_mut().find(|cell| cell.id == "petasos").unwrap(), full);
    let page = page(&results);
    let found = tables(section(&page, "verdicts"));
    assert_eq!(
        found[0][1..],
        [
            "6 | hit | 400 | 75% | 2.00 ms | 3.00 ms | 4.00 ms | 5.00 ms",
            "6 | pass | 40.0 | 25% | 42.0 ms | 43.0 ms | 44.0 ms | 45.0 ms",
        ]
    );
    let last = ["6 | 51.0 ms | 71.0 ms | 82.0 ms | 93.0 ms", "7 | 61.0 ms | 63.0 ms | – | –"];
    assert_eq!(found[1][found[1].len() - 2..], last);
    let text = text(&results, 80);
    let place = |part: &str| text.find(part).unwrap();
    assert!(place("6     hit") < place("      pass"));
    assert!(place("      pass") < place("beside its logged-in twin"));
    assert!(place("beside its logged-in twin") < place("1. no cache:"), "{text}");
}

#[test]
fn cell_without_runs_is_not_measured_yet() {
    let mut results = with_bare_load(ROUNDS, &["petasos", "petasos-100"]);
    results.loads[0].cells[0].runs.clear();
    let text = text(&results, 80);
    assert!(load_of(&text).contains("6          25  Petasos\n     not measured yet\n"), "{text}");
    let page = page(&results);
    assert_eq!(tables(section(&page, "load-editors"))[0][1], "6 | 25 | Petasos | not measured yet");
}

#[test]
fn intervals_are_announced_only_if_they_exist() {
    let note = |results: &Results| {
        let text = text(results, 180);
        let start = text.find("Each figure is").unwrap();
        text[start..].lines().next().unwrap().to_owned()
    };
    let plain = "Each figure is the median of the rounds' own (5 rounds, seed 1).";
    let mut without_anonymous = with_bare_load(5, &["petasos"]);
    without_anonymous.cells.clear();
    assert_eq!(note(&without_anonymous), plain);
    let mut void = made_up(5);
    make_void(&mut void.cells);
    assert_eq!(note(&void), plain);
    assert!(
        note(&made_up(5))
            .contains("(5 rounds, seed 1); × step 1 with 95% intervals: step 2 3.65× (95% interval 3.65× to")
    );
    without_anonymous.plan.rounds = 4;
    assert!(note(&without_anonymous).ends_with("with fewer than five rounds there are no intervals."));
}

#[test]
fn page_says_if_only_further_loads_were_measured() {
    let mut results = with_load();
    results.cells.clear();
    let page = page(&results);
    let lead = "<p class=\"lead\">Measured only under further loads: Editors &amp; &lt;readers&gt;.</p>";
    assert!(page.contains(lead), "{page}");
    assert!(!page.contains("Nothing has been measured"), "{page}");
    assert!(page.contains("<section id=\"load-editors\">"));
    assert!(
        !page.contains("<section id=\"steps\">"),
        "without the anonymous load, there are no sentences by step"
    );
    make_void(&mut results.loads[0].cells);
    assert!(self::page(&results).contains("Nothing has been measured yet."));
}

#[test]
fn load_with_void_cells_only_ends_with_their_reasons() {
    let mut results = with_load();
    make_void(&mut results.loads[0].cells);
    let text = text(&results, 80);
    assert_eq!(load_of(&text).matches("     VOID: round 1: the door was locked\n").count(), 3, "{text}");
    assert!(load_of(&text).ends_with("     VOID: round 1: the door was locked\n"), "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
    let page = page(&results);
    let section = section(&page, "load-editors");
    assert_eq!(tables(section).len(), 1, "{section}");
    assert_eq!(texts(section, "p"), ["One in five has &lt;b&gt;logged in&lt;/b&gt;."]);
}

#[test]
fn load_without_visitor_figures_has_no_empty_sentence() {
    let mut results = with_bare_load(ROUNDS, &["petasos"]);
    each_run(&mut results.loads[0].cells[0], |_, measured| measured.visitors.clear());
    assert!(!text(&results, 80).contains("Step 6: ."));
    assert!(!page(&results).contains("Step 6: ."));
}

#[test]
fn load_that_the_generator_may_have_limited_says_so() {
    let doubt = "Step 6: the generator, not the server, may have been the limit; see results.json.";
    let mut results = with_load();
    assert!(!text(&results, 180).contains(doubt) && !page(&results).contains(doubt));
    each_run(&mut results.loads[0].cells[2], |round, measured| {
        measured.generator.trust = if round == 1 { "invalid" } else { "clean" }.to_owned();
    });
    let text = text(&results, 180);
    assert!(load_of(&text).ends_with(&format!("\n{doubt}\n")), "{text}");
    assert_eq!(text.matches(doubt).count(), 1, "the note must not be on the step's own cell");
    let page = page(&results);
    assert_eq!(texts(section(&page, "load-editors"), "p").last().unwrap(), doubt);
}

#[test]
fn page_table_says_if_the_generator_may_have_been_the_limit() {
    let doubt = "Step 2: the generator, not the server, may have been the limit; see results.json.";
    let mut results = made_up(ROUNDS);
    assert!(!page(&results).contains(doubt));
    // The page shows details of the last round, which is clean.
    each_run(results.cells.iter_mut().find(|cell| cell.id == "page-cache").unwrap(), |round, measured| {
        measured.generator.trust = if round == 0 { "invalid" } else { "clean" }.to_owned();
    });
    assert_eq!(text(&results, 180).matches(doubt).count(), 1);
    assert!(texts(section(&page(&results), "table"), "p").iter().any(|note| note == doubt));
}

#[test]
fn asterisk_is_explained_in_its_own_section() {
    let legend = "* fewer than 100 responses in a round: percentiles are coarse.";
    let few = page(&with_load());
    assert!(tables(section(&few, "load-editors"))[0][2].contains("29.6*"));
    assert!(texts(section(&few, "load-editors"), "p").iter().any(|note| note == legend));
    let many = page(&with_bare_load(ROUNDS, &["petasos"]));
    assert!(!texts(section(&many, "load-editors"), "p").iter().any(|note| note == legend));
    let (_, alone) = many.split_once("Every step at concurrency 1<").unwrap();
    let (alone, _) = alone.split_once("</section>").unwrap();
    assert!(alone.contains("4.86</strong>*") && texts(alone, "p") == [legend], "{alone}");
    assert!(!section(&many, "keepalive").contains(legend));
}

#[test]
fn three_meters_of_two_words_fit_a_narrow_terminal() {
    let mut results = with_bare_load(ROUNDS, &["petasos"]);
    each_run(&mut results.loads[0].cells[0], |_, measured| {
        let meter = |unit: &str| MeterRecord { unit: unit.to_owned(), ..measured.meters[0].clone() };
        measured.meters = ["SQL queries", "compiled modules", "cache purges"].map(meter).into();
    });
    let text = text(&results, 80);
    assert!(widest(load_of(&text)) <= 80, "{text}");
    assert!(load_of(&text).contains("queries  for a   modules  for a    purges  for a\n"), "{text}");
}

#[test]
fn factors_name_the_first_step_of_their_load() {
    let mut results = with_bare_load(5, &["page-cache", "petasos"]);
    assert!(petasos_report::markdown::markdown(&results).contains("| observed load | × step 1 |"));
    results.cells.clear();
    let number = &results.steps.iter().find(|step| step.id == "page-cache").unwrap().number;
    let heading = format!("| observed load | × step {number} |");
    let text = petasos_report::markdown::markdown(&results);
    assert!(number != "1" && text.contains(&heading) && !text.contains("× step 1 |"), "{text}");
    let wide = text_of_columns(&results, 120);
    assert!(wide.contains(&format!("before  {number}\n")), "{wide}");
}

/// The report without details, with single spaces at the ends of words and two between columns.
fn text_of_columns(results: &Results, width: usize) -> String {
    let text = petasos_report::table::text(results, width, false);
    let columns = |line: &str| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        cells.join("  ") + "\n"
    };
    text.lines().map(columns).collect()
}

#[test]
fn two_meters_of_one_unit_keep_their_figures() {
    let mut results = with_bare_load(ROUNDS, &["petasos"]);
    let cell = &mut results.loads[0].cells[0];
    each_run(cell, |_, measured| {
        let meter = |(name, per_s): (&str, f64)| MeterRecord {
            name: name.to_owned(),
            unit: "queries".to_owned(),
            per_s,
            per_page: Some(per_s / 10.0),
        };
        measured.meters = [("reads", 10.0), ("writes", 1_000.0)].map(meter).into();
    });
    let result = cell_result(cell);
    let summary = result.summary().unwrap();
    let figures = |of: &[NamedFigure]| of.iter().map(|of| (of.name.clone(), of.value)).collect::<Vec<_>>();
    let reads = "reads (queries)".to_owned();
    let writes = "writes (queries)".to_owned();
    assert_eq!(figures(&summary.meters), [(reads.clone(), 10.0), (writes.clone(), 1_000.0)]);
    assert_eq!(figures(&summary.meters_per_page), [(reads, 1.0), (writes, 100.0)]);
}

#[test]
fn further_load_changes_nothing_of_the_anonymous_load() {
    let mut results = with_load();
    for cell in &mut results.loads[0].cells {
        // The cell has as many users as a step of the anonymous load, but other figures.
        cell.concurrency = 100;
        each_run(cell, |_, measured| measured.throughput_per_s *= 2.0);
    }
    let with = page(&results);
    let without = page(&made_up(ROUNDS));
    let charts = |page: &str| page.split("<figure").skip(1).map(until("</figure>")).collect::<Vec<_>>();
    assert_eq!(charts(&without).len(), 7);
    assert_eq!(charts(&with), charts(&without));
    for id in ["table", "keepalive", "steps", "environment"] {
        assert_eq!(section(&with, id), section(&without, id), "{id}");
    }
    let with = text(&results, 80);
    let without = text(&made_up(ROUNDS), 80);
    assert_eq!(with.replace(&format!("\n{}", load_of(&with)), ""), without);
}

/// Returns the text before a mark.
fn until(mark: &str) -> impl Fn(&str) -> String {
    move |text| text.split_once(mark).unwrap().0.to_owned()
}
