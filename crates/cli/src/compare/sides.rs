//! Reads the stored runs that make up each side.
//!
//! Invariant: the sides keep the order of the command line. The files of a directory are sorted by
//! name.

use crate::output::note;
use anyhow::{Context as _, bail, ensure};
use report::compare::Side;
use report::import::{ImportedRun, import};
use report::run::{Run, read_runs};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Largest accepted file of runs, in bytes. This is far above the size of runs that last a day
/// and have one row per second.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// File name extensions of our JSON.
const JSON: [&str; 2] = ["json", "jsonl"];

/// File name extensions of other tools' reports.
const FOREIGN: [&str; 5] = ["txt", "log", "jtl", "csv", "xml"];

/// Separates the files of two sides on the command line.
const SEPARATOR: &str = "--";

/// Groups the arguments by side. Without a separator, every argument is a side.
///
/// # Errors
/// If a side has no arguments.
pub(super) fn group(first: &[String], others: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
    if others.is_empty() {
        return Ok(first.iter().map(|side| vec![side.clone()]).collect());
    }
    let others = others.split(|argument| argument == SEPARATOR).map(<[String]>::to_vec);
    let sides: Vec<Vec<String>> = std::iter::once(first.to_vec()).chain(others).collect();
    ensure!(
        sides.iter().all(|side| !side.is_empty()),
        "a side has no files; put -- only between the files of two sides"
    );
    Ok(sides)
}

/// Reads the runs of all sides.
///
/// # Errors
/// If a file cannot be read or holds no runs; the error names the file.
pub(super) fn read(named: &[Vec<String>]) -> anyhow::Result<Vec<Side>> {
    named
        .iter()
        .map(|names| {
            let runs = names.iter().map(|name| runs(Path::new(name)));
            Ok(Side { name: names.join(" "), runs: runs.collect::<anyhow::Result<Vec<_>>>()?.concat() })
        })
        .collect()
}

/// The runs of a file or of a directory. A directory contributes its JSON files or, if it has none,
/// the reports of other tools.
fn runs(path: &Path) -> anyhow::Result<Vec<Run>> {
    if !path.is_dir() {
        return read_file(path);
    }
    let mut files = files(path, &JSON)?;
    if files.is_empty() {
        files = self::files(path, &FOREIGN)?;
    }
    let ends = || JSON.iter().chain(&FOREIGN).map(|end| format!("*.{end}")).collect::<Vec<_>>().join(", ");
    ensure!(!files.is_empty(), "{}: the directory has no file {}", path.display(), ends());
    if let Some([one, other]) = twins(&files) {
        bail!(
            "{} and {} look like two reports of one run, and a run must count only once; keep one of them in the directory",
            one.display(),
            other.display()
        );
    }
    Ok(files.iter().map(|file| read_file(file)).collect::<anyhow::Result<Vec<_>>>()?.concat())
}

/// Finds two files whose names differ only in their extension.
fn twins(files: &[PathBuf]) -> Option<[&Path; 2]> {
    let mut by_stem = HashMap::new();
    files.iter().find_map(|file| Some([by_stem.insert(file.file_stem(), file.as_path())?, file.as_path()]))
}

/// The files of a directory with one of these extensions, sorted by name.
fn files(directory: &Path, ends: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", directory.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(cannot)? {
        let file = entry.with_context(cannot)?.path();
        if file.extension().is_some_and(|extension| ends.iter().any(|end| extension == *end)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The runs of a file: our JSON, or any other format that `petasos import` reads.
fn read_file(path: &Path) -> anyhow::Result<Vec<Run>> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = BufReader::new(std::fs::File::open(path).with_context(cannot)?);
    let beginning = file.fill_buf().with_context(cannot)?.trim_ascii_start();
    // Our JSON begins with an object; everything else is a report of another tool.
    if !beginning.is_empty() && !beginning.starts_with(b"{") {
        let ImportedRun { runs, notes } = import(file).with_context(|| path.display().to_string())?;
        notes.iter().for_each(|text| note(format_args!("petasos: compare: {}: {text}", path.display())));
        return Ok(runs);
    }
    let mut text = String::new();
    // One byte more than allowed, so that a larger file is noticed.
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(cannot)?;
    ensure!(read as u64 <= FILE_BYTES_MAX, "{}: larger than {FILE_BYTES_MAX} bytes", path.display());
    read_runs(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::{group, read};
    use report::run::Run;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn each_argument_is_a_side_without_a_separator() {
        assert_eq!(group(&words("a b c"), &[]).unwrap(), [["a"], ["b"], ["c"]]);
        let grouped = group(&words("a1 a2"), &words("b1 -- c1 c2")).unwrap();
        assert_eq!(grouped, [words("a1 a2"), words("b1"), words("c1 c2")]);
        assert!(group(&words("a"), &words("b --")).is_err());
        assert!(group(&words("a"), &words("-- b")).is_err());
    }

    #[test]
    fn directory_gives_all_its_runs_sorted_by_file_name() {
        let directory = tempfile::tempdir().unwrap();
        for (name, good) in [("2.json", 2), ("1.json", 1), ("3.jsonl", 3)] {
            let run = Run { good: Some(good), ..Run::of_source("ab") };
            std::fs::write(directory.path().join(name), run.to_json()).unwrap();
        }
        std::fs::write(directory.path().join("notes.txt"), "not a run").unwrap();
        let name = directory.path().to_str().unwrap().to_owned();
        let sides = read(&[vec![name.clone(), format!("{name}/1.json")]]).unwrap();
        let good: Vec<_> = sides[0].runs.iter().map(|run| run.good.unwrap()).collect();
        assert_eq!(good, [1, 2, 3, 1]);
    }

    #[test]
    fn two_reports_of_one_run_in_a_directory_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        // `a.d.txt` sorts between the other two names, so the two files to find are not neighbours.
        for name in ["a.csv", "a.d.txt", "a.txt"] {
            std::fs::write(directory.path().join(name), "not a run").unwrap();
        }
        let error = read(&[vec![directory.path().to_str().unwrap().to_owned()]]).unwrap_err().to_string();
        let is_told =
            error.contains("a.csv and ") && error.contains("a.txt look like two reports of one run");
        assert!(is_told, "{error}");
    }

    #[test]
    fn unreadable_side_is_named_in_the_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        let message = |path: &std::path::Path| {
            format!("{:#}", read(&[vec![path.to_str().unwrap().to_owned()]]).unwrap_err())
        };
        assert!(message(&path).contains("cannot read ") && message(&path).contains("x.json"));
        assert!(message(directory.path()).contains("the directory has no file *.json, *.jsonl, *.txt, "));
        std::fs::write(&path, "{}").unwrap();
        assert!(message(&path).contains("x.json: run 1: not a run"), "{}", message(&path));
    }
}
