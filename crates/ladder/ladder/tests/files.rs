//! Ladder files as users write them. The files of this repository must be readable. Each mistake
//! must be reported with its line and its fix; snapshots keep the messages.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on panics"
)]

use petasos_ladder::{Choice, Effort, LadderPlan, Template, read_ladder, read_ladder_file};
use std::collections::BTreeSet;
use std::path::Path;

/// A complete and valid ladder. Each case changes one part of it.
const RIGHT: &str = r#"title = "A shop"
page  = "/"
ports = ["site"]

[[service]]
name    = "site"
command = ["site", "--listen", "{site}"]

[[group]]
name    = "site"
role    = "site"
service = "site"

[[step]]
id          = "none"
title       = "no cache"
concurrency = 2
address     = "{site}"
about       = "Nothing is kept."
on          = ["POST http://{site}/_switch?cache=off"]
proof       = [{ header = "X-Cache", is = "off" }]
"#;

/// All problems that are reported for a text, in order.
fn told(text: &str) -> String {
    match read_ladder("shop.toml", text, None) {
        Ok(_) => "nothing".to_owned(),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

/// The problems after replacing `from` by `to` in the valid ladder.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(RIGHT.matches(from).count(), 1, "{from:?} must occur once");
    told(&RIGHT.replace(from, to))
}

#[test]
fn valid_ladder_has_no_problem() {
    assert_eq!(told(RIGHT), "nothing");
}

#[test]
fn demo_ladder_has_seven_steps_and_a_bounded_duration() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/demo/ladder.toml");
    let ladder = read_ladder_file(&path).unwrap();
    let own: Vec<(&str, u64)> =
        ladder.steps.iter().map(|step| (step.number.as_str(), step.own.concurrency)).collect();
    assert_eq!(own, [("1", 2), ("2", 5), ("3", 10), ("4", 10), ("5", 25), ("6", 25), ("7", 100)]);
    let seconds = |effort| {
        LadderPlan::new(&ladder, Choice { effort, ..Choice::default() }, "").expected_all().as_secs()
    };
    assert!(seconds(Effort::Quick) <= 25, "{}", seconds(Effort::Quick));
    assert!(seconds(Effort::Normal) <= 170, "{}", seconds(Effort::Normal));
}

macro_rules! mistakes {
    ($($name:ident: $from:expr => $to:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(changed($from, $to));
        })*
    };
}

mistakes! {
    unknown_key: "about       =" => "abuot       =";
    unknown_key_far_from_any: "page  = \"/\"" => "page  = \"/\"\ncolour = \"red\"";
    unknown_variable: "address     = \"{site}\"" => "address     = \"{side}\"";
    unknown_variable_in_an_action: "http://{site}/_switch" => "http://{database}/_switch";
    missing_command: "command = [\"site\", \"--listen\", \"{site}\"]" => "";
    empty_command: "command = [\"site\", \"--listen\", \"{site}\"]" => "command = []";
    wrong_kind: "concurrency = 2" => "concurrency = \"two\"";
    out_of_range: "concurrency = 2" => "concurrency = 0";
    unknown_service: "service = \"site\"" => "service = \"sight\"";
    unknown_version: "title       = \"no cache\"" => "title       = \"no cache\"\nversion     = \"petasso\"";
    unknown_role: "role    = \"site\"" => "role    = \"webserver\"";
    two_roots: "service = \"site\"" => "service = \"site\"\npid = \"1\"";
    bad_duration: "page  = \"/\"" => "page  = \"/\"\nduration = \"4\"";
    bad_expression: "is = \"off\"" => "matches = \"(off\"";
    two_tests_in_a_proof: "is = \"off\"" => "is = \"off\", absent = true";
    json_proof_of_a_list: "header = \"X-Cache\", is = \"off\"" => "json = \"http://{site}/\", pointer = \"/a\", is = []";
    json_proof_without_a_number: "header = \"X-Cache\", is = \"off\"" => "json = \"http://{site}/\", pointer = \"/a\", min = \"1\"";
    meter_with_half_a_source: "[[step]]" => "[[meter]]\nname = \"q\"\nunit = \"queries\"\nhttp = \"http://{site}/\"\n[[step]]";
    no_proof: "proof       = [{ header = \"X-Cache\", is = \"off\" }]" => "";
    action_without_method: "\"POST http://{site}" => "\"http://{site}";
    page_with_a_host: "page  = \"/\"" => "page  = \"http://shop.example/\"";
    missing_variables_file: "page  = \"/\"" => "page  = \"/\"\nvariables_from = \"no/such.toml\"\nvariables_made_by = \"make lab\"";
    not_toml: "ports = [\"site\"]" => "ports = [\"site\"";
    unknown_session: "page  = \"/\"" => "page  = \"/\"\nbystander_session = \"editor\"";
    unknown_sameness: "page  = \"/\"" => "page  = \"/\"\nsame = \"size\"";
    against_no_earlier_step: "title       = \"no cache\"" => "title       = \"no cache\"\nagainst = \"none\"";
    session_without_log_in: "[[step]]" => "[[session]]\nname = \"ada\"\n[[step]]";
    log_in_without_a_way: "[[step]]" => "[[session]]\nname = \"ada\"\nshows = \"Ada\"\nlog_in = [{ form = { a = \"b\" } }]\n[[step]]";
    nothing_to_keep: "[[step]]" => "[[session]]\nname = \"ada\"\nshows = \"Ada\"\nlog_in = [{ get = \"http://{address}/\", keep = { nonce = \"a+\" } }]\n[[step]]";
    load_of_nobody: "[[step]]" => "[[load]]\nid = \"anonymous\"\ntitle = \"nobody\"\nsteps = [\"nine\"]\n[[step]]";
}

/// An unreadable variables file is the only problem: variables that it may define are not reported
/// as unknown.
#[test]
fn missing_variables_file_and_what_needs_it() {
    let missing = "page = \"/\"\nvariables_from = \"no/such.toml\"\nvariables_made_by = \"make lab\"";
    let text = RIGHT.replace("page  = \"/\"", missing).replace("\"{site}\"\nabout", "\"{nginx}\"\nabout");
    assert!(text.contains("{nginx}"));
    insta::assert_snapshot!(told(&text));
}

#[test]
fn duplicate_step() {
    let step = &RIGHT[RIGHT.find("[[step]]").unwrap()..];
    insta::assert_snapshot!(told(&format!("{RIGHT}\n{step}")));
}

/// The second step of the valid ladder, with a load of this id.
fn with_step_and_load(step: &str, load: &str) -> String {
    let second = RIGHT[RIGHT.find("[[step]]").unwrap()..].replace("\"none\"", &format!("\"{step}\""));
    let load = format!("[[load]]\nid = \"{load}\"\ntitle = \"L\"\nvisitors = [{{ share = 1 }}]\n");
    format!("{RIGHT}\n{second}\n{load}")
}

#[test]
fn cells_with_one_id_are_reported() {
    let clash = |id: &str, other: &str, step: &str| {
        format!("two cells would have the id `{id}`: one of step `{other}` and one of step `{step}`")
    };
    let also = RIGHT.replace("concurrency = 2", "concurrency = 2\nalso = [{ concurrency = 3 }]");
    let beside_also = with_step_and_load("none-c3", "x").replace(RIGHT, &also);
    assert!(told(&beside_also).contains(&clash("none-c3", "none", "none-c3")), "{}", told(&beside_also));
    let load = "[[load]]\nid = \"b-c\"\ntitle = \"L\"\nvisitors = [{ share = 1 }]\n[[load]]";
    let of_loads = with_step_and_load("none-b", "c").replace("[[load]]", load);
    assert!(told(&of_loads).contains(&clash("none-b-c", "none", "none-b")), "{}", told(&of_loads));
    let of_full = with_step_and_load("none-c7", "x") + "[full]\nconcurrency = [7]\n";
    assert_eq!(told(&of_full).matches("two cells").count(), 1, "{}", told(&of_full));
    assert_eq!(told(&with_step_and_load("other", "x")), "nothing");
}

#[test]
fn load_that_lists_a_step_twice_is_reported() {
    let twice = "title = \"L\"\nsteps = [\"none\", \"none\"]";
    let text = with_step_and_load("other", "x").replace("title = \"L\"", twice);
    assert!(told(&text).contains("step `none` is listed twice"), "{}", told(&text));
}

#[test]
fn load_of_no_step_is_reported() {
    let text = with_step_and_load("other", "x").replace("title = \"L\"", "title = \"L\"\nsteps = []");
    assert!(told(&text).contains("`steps` is empty"), "{}", told(&text));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = RIGHT.replace("title = \"A shop\"", "titel = \"A shop\"").replace("{side}", "{site}");
    let text =
        text.replace("concurrency = 2", "concurrency = 2.5").replace("service = \"site\"", "service = 1");
    insta::assert_snapshot!(told(&text));
}

#[test]
fn an_empty_file() {
    insta::assert_snapshot!(told(""));
}

#[test]
fn files_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ladder.toml");
    let told = |path: &Path| read_ladder_file(path).unwrap_err()[0].to_string();
    let named = |text: String| text.replace(&directory.path().display().to_string(), "DIR");
    insta::assert_snapshot!("no_such_file", named(told(&path)));
    std::fs::write(&path, b"title = \"ok\"\npage = \"\xff\"\n").unwrap();
    insta::assert_snapshot!("not_utf8", named(told(&path)));
}

/// The variables of the labs get made-up values, because the labs are not built.
#[test]
fn ladders_of_the_labs_have_no_problem() {
    let directory = tempfile::tempdir().unwrap();
    for (file, _) in labs() {
        let text = std::fs::read_to_string(&file).unwrap();
        let variables: BTreeSet<String> =
            Template::parse(&text).variables().map(|name| format!("{name} = \"x\"\n")).collect();
        let variables: String = variables.into_iter().collect();
        std::fs::write(directory.path().join("lab.toml"), variables).unwrap();
        let line = |line: &str| match line.starts_with("variables_from") {
            true => "variables_from = \"lab.toml\"\n".to_owned(),
            false => format!("{line}\n"),
        };
        let text: String = text.lines().map(line).collect();
        let problems = read_ladder(&file, &text, Some(directory.path())).err().unwrap_or_default();
        let problems: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
        assert!(problems.is_empty(), "{problems}");
    }
}

/// The ladder files of this repository's labs. They are parsed as TOML only, because their
/// variables files may not exist.
fn labs() -> Vec<(String, toml::Table)> {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs");
    let files = std::fs::read_dir(labs).unwrap().map(|entry| entry.unwrap().path().join("ladder.toml"));
    let read = |file: std::path::PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        (file.display().to_string(), text.parse().unwrap())
    };
    files.filter(|file| file.exists()).map(read).collect()
}

#[test]
fn side_step_declares_its_comparison() {
    // A number such as 3b marks a side step: step 4 does not build on it.
    let is_beside = |number: &str| {
        number.starts_with(|first: char| first.is_ascii_digit())
            && number.ends_with(|last: char| last.is_ascii_alphabetic())
    };
    let labs = labs();
    assert!(labs.len() >= 8, "{}", labs.len());
    for (file, lab) in &labs {
        let mut before = "";
        for step in lab["step"].as_array().unwrap() {
            let number = step.get("number").and_then(toml::Value::as_str).unwrap_or_default();
            let is_first = before.is_empty();
            let says = step.get("against").is_some();
            assert!(is_first || says || !(is_beside(number) || is_beside(before)), "{file}: step {number}");
            before = number;
        }
    }
}

#[test]
fn webservers_lab_has_each_load_with_and_without_keep_alive() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/webservers/ladder.toml");
    let ladder = read_ladder_file(&file).unwrap();
    for step in &ladder.steps {
        let loads = || std::iter::once(&step.own).chain(step.also.iter().map(|(_, load)| load));
        for keepalive in [false, true] {
            let users: Vec<u64> =
                loads().filter(|load| load.keepalive == keepalive).map(|load| load.concurrency).collect();
            assert_eq!(users, [100, 500, 1_000, 2_000], "{}, keep-alive {keepalive}", step.id);
        }
    }
}
