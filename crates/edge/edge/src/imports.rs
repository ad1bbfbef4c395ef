//! Tests of the imports between the files of this crate.
//!
//! State lies below [`Shared`](crate::shared::Shared) and does not know it; tasks lie above it. So
//! `Shared` has methods only in its own file, and files import each other at most in pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The files that each file imports from, by module path without `crate`.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The sources of the crate by module path. The root has the path of the crate, which is empty.
fn sources(directory: &Path, module: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let name = if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
        if path.is_dir() {
            sources(&path, &name, found);
        } else {
            let name = if name == "lib" { String::new() } else { name };
            found.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The code of a file without its comments and its unit tests.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

/// The paths that the code names after `root`, such as `crate::`. A list in braces gives several.
fn paths(code: &str, root: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in code.split(root).skip(1) {
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
        let (path, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        found.extend(list.split(',').map(|item| format!("{path}{}", item.trim())));
    }
    found
}

/// The file that a path leads to: the longest beginning of the path that is a file.
fn file_of<'p>(sources: &BTreeMap<String, String>, path: &'p str) -> Option<&'p str> {
    let shorter = path.rmatch_indices("::").map(|(end, _)| &path[..end]);
    std::iter::once(path).chain(shorter).find(|module| sources.contains_key(*module))
}

fn imports(sources: &BTreeMap<String, String>) -> Imports {
    let of_file = |(module, text): (&String, &String)| {
        let code = code(text);
        let parent = module.rsplit_once("::").map_or(String::new(), |(parent, _)| format!("{parent}::"));
        let absolute = paths(&code, "crate::").into_iter();
        let relative = paths(&code, "super::").into_iter().map(|path| format!("{parent}{path}"));
        let all: BTreeSet<_> = absolute.chain(relative).collect();
        let files = all.iter().filter_map(|path| file_of(sources, path)).filter(|file| file != module);
        (module.clone(), files.map(str::to_owned).collect())
    };
    sources.iter().map(of_file).collect()
}

/// The files that import each other, directly or through others, if they are more than `files_max`.
fn knots(imports: &Imports, files_max: usize) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![file.as_str()]);
            while let Some(file) = next.pop() {
                let others = imports.get(file).into_iter().flatten();
                next.extend(others.map(String::as_str).filter(|other| seen.insert(*other)));
            }
            (file.as_str(), seen)
        })
        .collect();
    let knot_of = |file: &str| {
        let back = reached[file].iter().filter(|other| reached[**other].contains(file));
        back.copied().collect::<Vec<_>>()
    };
    let all: BTreeSet<_> = reached.keys().map(|file| knot_of(file)).collect();
    all.into_iter().filter(|knot| knot.len() > files_max).collect()
}

fn own_sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut found);
    found
}

#[test]
fn files_import_each_other_at_most_in_pairs() {
    let imports = imports(&own_sources());
    assert!(imports["request::pipeline"].contains("shared"), "the imports are read");
    assert_eq!(knots(&imports, 2), Vec::<Vec<&str>>::new());
}

#[test]
fn state_does_not_know_the_struct_that_holds_it() {
    // This file names what it looks for.
    for (module, text) in own_sources().into_iter().filter(|(module, _)| module != "imports") {
        let code = code(&text);
        let has_block = code.contains("impl Shared {") || code.contains(" for Shared {");
        assert!(module == "shared" || !has_block, "`impl Shared` in {module}");
        assert!(!module.starts_with("memory") || !code.contains("crate::shared"), "{module}");
    }
}

#[test]
fn knot_of_three_files_is_found_and_one_of_two_is_not() {
    let files = |files: &[(&str, &str)]| -> BTreeMap<String, String> {
        files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    };
    let pair = files(&[
        ("a", "use crate::b::B;\nuse crate::c::{D, E};"),
        ("b", "use crate::a::{\n    A,\n    Z,\n};"),
        ("c", "// use crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }"),
    ]);
    assert!(knots(&imports(&pair), 2).is_empty());
    assert_eq!(knots(&imports(&pair), 1), [["a", "b"]]);
    let round =
        files(&[("a", "use crate::b::c;"), ("b::c", "use super::d;"), ("b::d", "fn f(a: crate::a::A)")]);
    assert_eq!(knots(&imports(&round), 2), [["a", "b::c", "b::d"]]);
}
