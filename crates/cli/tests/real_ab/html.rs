//! The report as an HTML table.

use crate::beside::{SAME_NAME, answer, origin, ours, page, theirs};
use crate::lines::{TIMED_ROWS, form};
use testkit::{Action, CommandOutput, Origin};

/// The lines of the HTML table.
fn table(output: &CommandOutput) -> Vec<String> {
    let stdout = &output.stdout;
    let begin = stdout.find("<table").unwrap_or_else(|| panic!("no table in {stdout}"));
    let end = stdout.find("</table>\n").unwrap();
    stdout[begin..end].lines().map(str::to_owned).collect()
}

/// Runs both programs with the same arguments and compares their tables.
fn compare(origin: &Origin, arguments: &[&str]) {
    let url = format!("{}/page?x=1", origin.url());
    let arguments = [arguments, &SAME_NAME, &[&url]].concat();
    let [theirs, ours] = [theirs, ours].map(|run| table(&run(&arguments)));
    assert_eq!(ours.len(), theirs.len(), "{arguments:?}\nours: {ours:#?}\ntheirs: {theirs:#?}");
    for (our, their) in ours.iter().zip(&theirs) {
        // `ab` leaves out one of the four kinds of failure in its HTML table.
        let our = our.replace(", Receive: 0", "");
        assert_eq!(form(&our), form(their), "{arguments:?}");
        if !TIMED_ROWS.iter().any(|label| our.contains(label)) {
            assert_eq!(our, *their, "{arguments:?}");
        }
    }
}

#[test]
fn html_table_has_the_same_rows_as_that_of_ab() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("form");
    std::fs::write(&file, "a=1&b=2").unwrap();
    let file = file.to_str().unwrap();
    let page = page();
    for arguments in [
        &["-w"][..],
        &["-w", "-n", "20", "-c", "4"],
        &["-w", "-k", "-n", "20"],
        &["-w", "-l", "-i"],
        &["-w", "-n", "3", "-p", file],
        &["-x", "border=1"],
        &["-y", "class='row'"],
        &["-z", "title=\"a&amp;b\""],
        &["-x", "border=1 width=\"100%\"", "-y", "align=left", "-z", ""],
        &["-w", "-n", "200"],
        &["-w", "-q", "-n", "200"],
    ] {
        compare(&page, arguments);
    }
    let varying = origin("200 OK", |_, number| vec![b'x'; if number.is_multiple_of(10) { 5 } else { 6 }]);
    compare(&varying, &["-w", "-n", "10"]);
}

#[test]
fn text_from_server_and_options_is_escaped() {
    let origin = Origin::start(|seen| {
        let mut actions = answer("404 <b>", seen, b"");
        let Action::Send(octets) = &mut actions[0] else { panic!("an answer begins with octets") };
        let head = String::from_utf8_lossy(octets).replace("Tester/1.0", "<script>alert(1)</script>&\"");
        *octets = head.into_bytes();
        actions
    });
    let url = format!("{}/'<i>&amp;", origin.url());
    let arguments = ["-v", "2", "-x", "><script>", "-y", "b><i", "-z", "c<", &url];
    let output = ours(&arguments);
    for tag in ["<script", "<b>", "<i"] {
        assert!(!output.stdout.contains(tag), "{tag} is in {}", output.stdout);
    }
    let soft = "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;";
    assert!(output.stdout.contains(soft) && output.stdout.contains("<table &gt;&lt;script&gt;>"));
    assert!(theirs(&arguments).stdout.contains("<script>alert(1)"), "ab escapes now");
}

#[test]
fn html_is_well_formed_and_has_the_figures_beyond_ab() {
    let origin = page();
    let output = ours(&["-w", "-n", "4", &origin.url().replace("http://", "")]);
    assert_eq!(output.code, Some(2), "a URL needs a path here as well");
    let output = ours(&["-w", "-n", "4", &format!("{}/", origin.url())]);
    assert!(output.stdout.starts_with("<p>\n This is Petasos, Version "), "{}", output.stdout);
    for element in ["p", "table", "pre"] {
        let [opened, closed] = [format!("<{element}"), format!("</{element}>")];
        let opened = output.stdout.split(&opened).filter(|rest| rest.starts_with(['>', ' '])).count();
        assert_eq!((opened, output.stdout.matches(&closed).count()), (1, 1), "{element}: {}", output.stdout);
    }
    assert!(
        output.stdout.ends_with("</pre>\n") && output.stdout.contains("\nGood answers:           4 of 4")
    );
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn files_are_written_together_with_an_html_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let origin = page();
    let url = format!("{}/", origin.url());
    for (run, name, is_written) in [
        (ours as fn(&[&str]) -> CommandOutput, "ours", true),
        (theirs as fn(&[&str]) -> CommandOutput, "theirs", false),
    ] {
        let files = [path(&format!("{name}.csv")), path(&format!("{name}.tsv"))];
        run(&["-w", "-n", "3", "-e", &files[0], "-g", &files[1], &url]);
        assert_eq!(files.map(|file| std::path::Path::new(&file).exists()), [is_written; 2], "{name}");
    }
}
