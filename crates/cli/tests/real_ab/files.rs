//! The files written by `-e` and `-g`.

use crate::beside::{ours, page, theirs};
use crate::lines::{form, numbers, report};
use testkit::CommandOutput;

/// Runs a program and returns its CSV file, its TSV file and its report.
fn run(program: fn(&[&str]) -> CommandOutput, directory: &std::path::Path, url: &str) -> [String; 3] {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let csv = path("csv");
    let tsv = path("tsv");
    let output = program(&["-n", "100", "-c", "4", "-e", &csv, "-g", &tsv, url]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    [read(&csv), read(&tsv), output.stdout]
}

#[test]
fn files_have_the_same_form_and_meaning() {
    let origin = page();
    let url = format!("{}/", origin.url());
    let [theirs, ours] = [theirs, ours].map(|program| {
        let directory = tempfile::tempdir().unwrap();
        run(program, directory.path(), &url)
    });
    for (place, rows) in [(0, 102), (1, 101)] {
        let our = &ours[place];
        let their = &theirs[place];
        assert_eq!((our.lines().count(), their.lines().count()), (rows, rows));
        assert_eq!(our.lines().next(), their.lines().next());
        // The names of days and months all have three letters, so dates have the same width.
        let shape = |text: &str| {
            let line = text.lines().nth(1).unwrap();
            let (date, rest) = line.split_once('\t').unwrap_or(("", line));
            (date.len(), form(rest))
        };
        assert_eq!(shape(our), shape(their));
    }
    for [csv, tsv, stdout] in [theirs, ours] {
        let total = numbers(&report(&stdout), "Total:");
        means_what_it_says(&csv, &tsv, &total);
    }
}

/// Checks that the files and the row `Total` of the report describe the same requests.
fn means_what_it_says(csv: &str, tsv: &str, total: &[f64]) {
    let percentiles: Vec<(usize, f64)> = csv
        .lines()
        .skip(1)
        .map(|line| {
            let (percent, time) = line.split_once(',').unwrap();
            (percent.parse().unwrap(), time.parse().unwrap())
        })
        .collect();
    assert!(percentiles.iter().enumerate().all(|(place, (percent, _))| place == *percent), "{csv}");
    assert!(percentiles.is_sorted_by(|one, next| one.1 <= next.1), "{csv}");
    // The CSV has three decimal places, the report whole milliseconds.
    assert!((percentiles[0].1 - total[0]).abs() <= 0.51, "{csv} {total:?}");
    assert!((percentiles[100].1 - total[4]).abs() <= 0.51, "{csv} {total:?}");
    let mut totals = Vec::new();
    for line in tsv.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let value = |place: usize| columns[place].parse::<u64>().unwrap();
        // Each value is rounded, so sums may differ by 1.
        assert!((value(2) + value(3)).abs_diff(value(4)) <= 1 && value(5) <= value(3), "{line}");
        // The time of day in the first column is that of the second column's seconds.
        let clock = format!("{:02}:{:02}:{:02}", value(1) / 3600 % 24, value(1) / 60 % 60, value(1) % 60);
        assert!(columns.len() == 6 && columns[0].contains(&clock), "{line}");
        totals.push(value(4));
    }
    assert_eq!(totals.iter().max().map(|&max| max as f64), Some(total[4]), "{tsv}");
    assert_eq!(totals.iter().min().map(|&min| min as f64), Some(total[0]), "{tsv}");
}
