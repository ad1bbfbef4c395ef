//! Messages to the operator about a configuration, a directory or an origin that cannot be used.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{
    Authority, Certificate, Edge, HeldPort, KeyKind, Origin, TlsFront, eventually, get, petasos, response,
};

fn write(directory: &Path, text: &str) -> String {
    let file = directory.join("petasos.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn check_names_line_and_fix_of_each_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        directory.path(),
        "origin = 'http://127.0.0.1:9'\nmemory = '1KiB'\ntoken_file = '/nowhere/token'\n",
    );
    let output = petasos(["check", &file]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    for words in ["petasos.toml:2", "write at least 1MiB", "petasos.toml:3", "/nowhere/token", "create_token"]
    {
        assert!(output.stderr.contains(words), "{words} in\n{}", output.stderr);
    }
}

#[test]
fn check_warns_of_an_open_admin_address() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "origin = 'http://127.0.0.1:9'\nadmin = '0.0.0.0:8081'\n");
    let output = petasos(["check", &file]);
    assert_eq!((output.code, &output.stdout[..]), (Some(0), "petasos: the configuration is good\n"));
    for words in ["warning: ", "petasos.toml:2", "open to other machines", "127.0.0.1:8081"] {
        assert!(output.stderr.contains(words), "{words} in\n{}", output.stderr);
    }
}

/// Output and exit code of `check` for this configuration. A line with an origin is added before
/// it.
fn check(directory: &Path, text: &str) -> (Option<i32>, String) {
    let file = write(directory, &format!("origin = 'http://127.0.0.1:9'\n{text}\n"));
    let output = petasos(["check", &file]);
    (output.code, output.stderr)
}

#[test]
fn check_refuses_directories_that_cannot_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("foreign")).unwrap();
    fs::write(path("foreign/letter.txt"), "precious").unwrap();
    fs::write(path("file"), "content").unwrap();
    for (text, words, help) in [
        (
            format!("disk = '{}'", path("foreign")),
            "letter.txt, which does not belong to the disk cache",
            "empty directory",
        ),
        (format!("disk = '{}'", path("file")), "is not a directory", "directory of its own"),
        (format!("disk = '{}'", path("file/below")), "is not a directory", "directory of its own"),
        // Not even root can write there.
        ("disk = '/proc'".to_owned(), "cannot write to /proc", "directory of its own"),
        ("disk = '/proc/none/below'".to_owned(), "cannot write to /proc", "directory of its own"),
        (format!("spool_directory = '{}'", path("missing")), "does not exist", "write \"none\""),
        (format!("spool_directory = '{}'", path("file")), "is not a directory", "write \"none\""),
        (format!("access_log = '{}'", path("missing/log")), "does not exist", "name a file in a directory"),
        (format!("access_log = '{}'", path("foreign")), "is a directory", "name a file in this directory"),
        ("access_log = '/proc/log'".to_owned(), "cannot write to /proc", "name a file in a directory"),
    ] {
        let (code, said) = check(directory.path(), &text);
        assert_eq!(code, Some(2), "{text}: {said}");
        for words in [words, help, "error: ", "petasos.toml:2"] {
            assert!(said.contains(words), "{text}: no {words} in\n{said}");
        }
    }
    assert_eq!(fs::read_dir(path("foreign")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(path("foreign/letter.txt")).unwrap(), "precious");
}

#[test]
fn check_examines_directories_with_files() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("www/inner")).unwrap();
    fs::write(directory.path().join("www/inner/token"), "secret").unwrap();
    // A relative path begins at the directory of the configuration.
    let (code, errors) = check(directory.path(), "files = 'www'");
    assert_eq!(code, Some(0), "{errors}");
    let (code, errors) = check(directory.path(), "files = 'wwww'");
    assert_eq!(code, Some(2), "{errors}");
    for words in ["petasos.toml:2:9", "cannot read the directory", "wwww: No such file"] {
        assert!(errors.contains(words), "{words} in\n{errors}");
    }
    let (_, errors) = check(directory.path(), "files = 'www/inner/token'");
    assert!(errors.contains("it is not a directory"), "{errors}");
    let token = directory.path().join("www/inner/token");
    let (code, errors) =
        check(directory.path(), &format!("files = 'www'\ntoken_file = '{}'", token.display()));
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("warning") && errors.contains("to visitors (token_file)"), "{errors}");
    let users = directory.path().join("users");
    fs::write(&users, "ann:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n").unwrap();
    let text = format!("files = '.'\nbasic_auth = '{}'", users.display());
    let (code, errors) = check(directory.path(), &text);
    assert_eq!(code, Some(0), "{errors}");
    for words in ["users to visitors (basic_auth)", "petasos.toml to visitors (the configuration)"] {
        assert!(errors.contains(words), "{words} in\n{errors}");
    }
}

#[test]
fn check_warns_of_file_systems_smaller_than_limits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for text in [
        format!("disk_size = '1000000TiB'\ndisk = '{path}/new'"),
        format!("spool_size = '1000000TiB'\nspool_directory = '{path}'"),
    ] {
        let (code, said) = check(directory.path(), &text);
        assert_eq!(code, Some(0), "{text}: {said}");
        for words in ["warning: ", "but the file system of", "petasos.toml:2", "leave space for other files"]
        {
            assert!(said.contains(words), "{text}: no {words} in\n{said}");
        }
    }
}

#[test]
fn check_accepts_usable_directories_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let text = format!(
        "disk = '{path}/new/disk'\ndisk_size = '1MiB'\nlimits.disk_object_bytes_max = '1MiB'\n\
         spool_directory = '{path}'\nspool_size = '1MiB'\naccess_log = '{path}/log'"
    );
    assert_eq!(check(directory.path(), &text), (Some(0), String::new()));
    assert_eq!(fs::read_dir(path).unwrap().count(), 1, "petasos.toml alone");
}

#[test]
fn commands_survive_closed_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let good = write(directory.path(), "origin = 'http://127.0.0.1:9'\nadmin = '0.0.0.0:8081'\n");
    let reader_is_gone = |arguments: &[&str]| {
        let out = std::io::pipe().unwrap().1;
        let err = std::io::pipe().unwrap().1;
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasos"));
        command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err);
        command.status().unwrap().code()
    };
    for arguments in [&["check", &good][..], &["check", &good, "--print"], &["--help"], &["serve", "--help"]]
    {
        assert_eq!(reader_is_gone(arguments), Some(0), "{arguments:?}");
    }
    for arguments in [&["check", "/nowhere"][..], &["purge", "--all", "--admin", "127.0.0.1:1"], &["bench"]] {
        assert_eq!(reader_is_gone(arguments), Some(2), "{arguments:?}");
    }
}

#[test]
fn disk_directory_with_foreign_files_is_refused_and_kept() {
    let origin = Origin::start(|_| response("200 OK", &["Cache-Control: max-age=60"], b"page"));
    for (name, content) in [("letter.txt", "precious"), ("mark", "my grades"), ("invalidations", "a list")] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(name);
        fs::write(&file, content).unwrap();
        let edge = Edge::start(&origin.url(), &["--disk", directory.path().to_str().unwrap()]);
        let words = format!("contains {}, which does not belong to the disk cache", file.display());
        eventually(&words, || edge.stderr().contains(&words));
        assert_eq!(get(edge.address, "/", &[]).text(), "page");
        assert!(edge.metric("petasos_disk_off", "") > 0.5);
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was written beside {name}");
    }
}

#[test]
fn origin_that_refuses_at_the_start_is_reported() {
    let port = HeldPort::take();
    let origin = format!("http://{}", port.address());
    let edge = Edge::start(&origin, &[]);
    let words = format!("warning: the origin {origin} of site any cannot be reached");
    eventually(&words, || edge.stderr().contains(&words));
    assert_eq!(get(edge.address, "/", &[]).status, 502, "it serves all the same");
}

#[test]
fn check_examines_certificates_and_the_names_they_cover() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("an authority");
    let issue = |file: &str, name: &str, years| {
        let (chain, key) = authority.issue(&[name], KeyKind::Ecdsa, years).write(directory.path(), file);
        format!("{},{}", chain.display(), key.display())
    };
    let (good, old) = (issue("good", "a.test", (2000, 2100)), issue("old", "a.test", (1990, 1999)));
    let mixed = format!("{}/good.pem,{0}/old.key", directory.path().display());
    for (text, code, words) in [
        (format!("names = ['a.test']\ntls = ['{good}']"), 0, ""),
        (format!("names = ['a.test', 'b.test']\ntls = ['{good}']"), 0, "no certificate is for `b.test`"),
        (format!("tls = ['{old}']"), 0, "has expired on Fri, 01 Jan 1999"),
        (format!("tls = ['{mixed}']"), 2, "old.key does not belong to the certificate in"),
        ("tls = ['/none.pem']".to_owned(), 2, "cannot read /none.pem"),
    ] {
        let (found, stderr) = check(directory.path(), &text);
        assert_eq!(found, Some(code), "{text}\n{stderr}");
        assert!(stderr.contains(words) && (words.is_empty() == stderr.is_empty()), "{text}\n{stderr}");
    }
}

#[test]
fn check_examines_the_files_for_https_origins() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("an authority");
    for (file, years) in [("good", (2000, 2100)), ("old", (1990, 1999))] {
        authority.issue(&["edge"], KeyKind::Ecdsa, years).write(directory.path(), file);
    }
    fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    fs::write(directory.path().join("empty.pem"), "").unwrap();
    for (text, code, words) in [
        ("origin_ca = 'D/ca.pem'\norigin_certificate = 'D/good.pem,D/good.key'", 0, ""),
        ("origin_ca = 'D/ca.pem'\norigin_certificate = 'D/old.pem,D/old.key'", 0, "has expired on Fri, 01"),
        ("origin_ca = 'D/empty.pem'", 2, "empty.pem holds no certificate"),
        (
            "origin_ca = 'D/ca.pem'\norigin_certificate = 'D/good.pem,D/old.key'",
            2,
            "old.key does not belong to",
        ),
        ("origin_ca = 'D/ca.pem'\norigin_name = 'a b'", 2, "`a b` is no host name"),
        ("origin_insecure = true", 0, "is not verified (origin_insecure)"),
    ] {
        let text = text.replace("D/", &format!("{}/", directory.path().display()));
        let file = write(directory.path(), &format!("origin = 'https://127.0.0.1:9'\n{text}\n"));
        let output = petasos(["check", &file]);
        let stderr = output.stderr;
        assert_eq!(output.code, Some(code), "{text}\n{stderr}");
        assert!(stderr.contains(words) && (words.is_empty() == stderr.is_empty()), "{text}\n{stderr}");
    }
}

#[test]
fn origin_with_a_wrong_certificate_is_reported_at_the_start() {
    let application = Origin::start(|_| response("200 OK", &[], b"page"));
    let front = TlsFront::start(application.address(), Certificate::Expired);
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    fs::write(&ca, &front.authority_pem).unwrap();
    let url = format!("https://{}", front.address);
    let edge = Edge::configured(&url, &format!("origin_ca = '{}'\n", ca.display()), &[]);
    let words = format!("the origin {url} of site any cannot be reached: there is no secure connection");
    eventually(&words, || edge.stderr().contains(&words));
    assert_eq!(get(edge.address, "/", &[]).status, 502);
    let words = "the server's certificate has expired; check its certificate, origin_ca";
    eventually(words, || edge.stderr().contains(words));
}
