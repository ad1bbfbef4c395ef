//! The files in `examples/`: each is a good configuration, and the index lists each of them. The
//! group `examples` of the test command starts them. The stacks of `contrib/mercury` are good
//! configurations too.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on panics")]

#[path = "../lab/examples/example_file.rs"]
mod example_file;

use example_file::{examples, replaced};
use std::collections::BTreeSet;
use testkit::petasos_with;

/// The names of the directories in `examples/`.
fn names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap());
    let directories = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    directories.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn every_example_is_a_good_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("maintenance.html"), "Back soon.").unwrap();
    let disk = path("disk");
    let page = path("maintenance.html");
    let passwords = path("passwords");
    std::fs::write(&passwords, "ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n").unwrap();
    let files = path("files");
    std::fs::create_dir(&files).unwrap();
    let state = path("state");
    for name in names() {
        // Files that are on the disk already need no second copy there.
        let own = match &name[..] {
            "static" => vec![("/var/www/site", &*files), ("/var/www/staging", &*files)],
            _ => vec![("/var/cache/petasos", &*disk)],
        };
        let as_it_is = [&own[..], &[("/etc/petasos/trial.passwords", &*passwords)]].concat();
        let closed = [
            ("# maintenance = ", "maintenance = "),
            ("# maintenance_peers = ", "maintenance_peers = "),
            ("/etc/petasos/maintenance.html", page.as_str()),
        ];
        for replacements in [as_it_is.clone(), [&as_it_is[..], &closed].concat()] {
            let file = path("petasos.toml");
            std::fs::write(&file, replaced(&name, &replacements)).unwrap();
            let output = petasos_with(&[("STATE_DIRECTORY", &state)], ["check", &file]);
            assert_eq!(output.code, Some(0), "{name}: {}", output.stderr);
            // The profile for MediaWiki has a rule that `check` always mentions.
            let warnings = output.stderr.matches("warning: ").count();
            let expected = output.stderr.matches("client_address = \"leader\"").count();
            assert_eq!(warnings, expected, "{name}: {}", output.stderr);
        }
    }
}

#[test]
fn every_stack_is_a_good_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for name in ["mediawiki", "wagtail", "wordpress"] {
        let stack = examples().join("../contrib/mercury").join(name).join("petasos.toml");
        let text = std::fs::read_to_string(stack).unwrap();
        let text =
            text.replace("/var/cache/petasos", &path("disk")).replace("/var/lib/petasos", &path("state"));
        let file = path("petasos.toml");
        std::fs::write(&file, text).unwrap();
        let output = petasos_with(&[], ["check", &file]);
        assert_eq!(output.code, Some(0), "{name}: {}", output.stderr);
        let warnings = output.stderr.matches("warning: ").count();
        assert_eq!(
            warnings,
            output.stderr.matches("client_address = \"leader\"").count(),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn index_lists_the_examples_and_each_has_a_page() {
    let index = std::fs::read_to_string(examples().join("README.md")).unwrap();
    let links = index.split("](").skip(1).filter_map(|rest| rest.split_once("/README.md)"));
    let listed: BTreeSet<String> = links.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(listed, names());
    for name in listed {
        let page = std::fs::read_to_string(examples().join(&name).join("README.md")).unwrap();
        for words in ["petasos check", "petasos why"] {
            assert!(page.contains(words), "{name}/README.md does not show `{words}`");
        }
    }
}
